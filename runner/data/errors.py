"""What can go wrong, as types; the command line turns each into one sentence and an exit code."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal


class VpnevalError(Exception):
    """Root of every error this program raises on purpose. Its text is the sentence the user reads."""

    exit_code = 1


class UsageError(VpnevalError):
    """The user asked for something that does not exist or makes no sense."""

    exit_code = 2


class CannotRunHere(VpnevalError):
    """This machine or lab lacks something; the text says what, and how to get it."""

    exit_code = 3


class LabError(VpnevalError):
    """The lab itself is broken: the run stops, and nothing that was measured is lost."""

    exit_code = 4


class Interrupted(VpnevalError):
    """The user ended the run; the text says how to go on."""

    exit_code = 130


def is_interruption(error: BaseException | None) -> bool:
    """Did it come while an interruption was being dealt with?"""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def unfinished_methods(ended: KeyboardInterrupt) -> str:
    """Which of a plugin's methods had not returned when the user ended the run, and what could not be taken back
    afterwards, as words to go on with; or "". Of methods that call one another it is the innermost."""
    said = [*getattr(ended, "__notes__", [])[:1], *filter(None, [getattr(ended, LEFT_BEHIND, "")])]
    return f": {'; '.join(said)}" if said else ""


LEFT_BEHIND = "left_behind"  # of a KeyboardInterrupt: what could not be taken back, in words


class PluginError(VpnevalError):
    """A plugin does not keep to its contract: the text names its file, the line and the method."""

    exit_code = 2


class MeasurementError(VpnevalError):
    """A measurement that cannot be trusted: the trial fails, the number is not reported.

    ``attempt`` is what the instrument saw until then, every trial of a search, say; it is stored with the trial.
    """

    def __init__(self, text: str, **attempt: Any) -> None:
        super().__init__(text)
        self.attempt = attempt


class InstrumentError(MeasurementError):
    """What measures has died, or somebody killed it: that says nothing of the VPN, and the trial is measured again."""


class TooLongError(MeasurementError):
    """The packets that were asked for do not fit the tunnel, and nobody allowed fragmentation."""


class CommandError(VpnevalError):
    """A command on a node ended with an unexpected code, or did not end in time.

    ``code`` is None where the time ran out; ``stderr`` is the tail of what the command said.
    """

    def __init__(self, node: str, argv: Sequence[str], code: int | None, stderr: str, timeout_s: float = 0):
        self.node, self.argv, self.code, self.stderr = node, tuple(argv), code, stderr[-2000:].strip()
        how = f"did not end within {timeout_s:g} s" if code is None else f"exited with {code}"
        super().__init__(f"[{node}] {' '.join(argv)} {how}" + (f": {self.stderr}" if self.stderr else ""))


class ProofError(VpnevalError):
    """The tunnel is not what was asked for: another cipher, another data path, plaintext on the WAN.

    ``proof`` is the marker experiment that showed it (a ``runner.data.trials.Proof``), where that was what did.
    """

    def __init__(self, text: str, proof: Any = None) -> None:
        super().__init__(text)
        self.proof = proof


@dataclass(frozen=True)
class Unsupported:
    """This VPN cannot do what was asked here, for this ``reason``; ``said``: what a tool said, behind the tool's name.
    ``cause``: its kind, where a report reads more of it than words. Where a level is not offered: ``why`` without the
    level, and the levels that are ``offered``."""

    reason: str
    cause: Literal["", "no kernel", "tcp only", "not offered"] = ""
    why: str = ""
    offered: str = ""
    said: str = ""

    @classmethod
    def tool(cls, said: str) -> Unsupported:
        """A tool's refusal: its name, and what it said."""
        return cls(said, said=said)

    @classmethod
    def kernel(cls, lacks: str) -> Unsupported:
        """The kernel has no such thing; behind it, the message."""
        return cls(f"the kernel has no {lacks}", cause="no kernel")


def require_known(
    kind: str, name: str, valid: Sequence[str], also: Mapping[str, str] | None = None, where: str = ""
) -> None:
    """Raise UsageError unless ``name`` is in ``valid``; the message has the near matches and the valid ones.

    ``also``: valid name -> other words for it, such as its title; ``where``: where these are valid, ``for openvpn``.
    """
    if name in valid:
        return
    near = nearest(name, valid, also or {})
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    raise UsageError(f"unknown {kind} {name!r}{hint} Valid{where and f' {where}'}: {', '.join(valid)}")


def nearest(name: str, valid: Sequence[str], also: Mapping[str, str]) -> list[str]:
    """The valid names that ``name`` may have meant: those that differ only in case and hyphens; else at most three with
    a similar spelling; else at most four that contain it, or whose words in ``also`` do."""
    typed = _letters(name)
    letters = {candidate: _letters(candidate) for candidate in valid}
    same = [candidate for candidate, own in letters.items() if own == typed]
    alike = get_close_matches(typed, letters.values(), n=3)
    alike = sorted(
        (candidate for candidate, own in letters.items() if own in alike),
        key=lambda candidate: alike.index(letters[candidate]),
    )
    within = [
        candidate
        for candidate, own in letters.items()
        if len(typed) > 2 and typed in own + " " + _letters(also.get(candidate, ""))
    ]
    return same or alike or sorted(within, key=len)[:4]


def _letters(name: str) -> str:
    return re.sub(r"[^\w]|_", "", name).lower()
