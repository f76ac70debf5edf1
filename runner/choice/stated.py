"""What a user states of the needs, in a file or by options, read and checked."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runner.data.errors import UsageError, require_known
from runner.data.files import from_toml, read_text
from runner.data.named import CONNECTIONS, LATER, MUSTS, TRAFFICS, USUAL, Must
from runner.data.needs import Needs
from runner.data.numbers import number, rate_bps
from runner.data.options import NeedsOptions, join_values

LONGEST_RTT_MS = 1e5
MOST_CORES = 4096


def state_needs(options: NeedsOptions, before: Needs | None = None) -> Needs:
    """The needs of the file, over them those of the options; what neither says is as ``before``. Raises UsageError."""
    given = _of_file(options.needs) if options.needs else {}
    names = {key: f"--{key.replace('_', '-')}" for key in KEYS}
    if options.needs:
        names |= {key: f"{key} in {options.needs}" for key in given}
    for key in KEYS:
        if text := join_values(options.must) if key == "must" else getattr(options, key):
            given[key], names[key] = text, f"--{key.replace('_', '-')}"
    return _read(given, names, before or Needs())


def _of_file(path: Path) -> dict[str, Any]:
    try:
        given = from_toml(read_text(path))
    except ValueError as wrong:
        raise UsageError(f"--needs {path} is not TOML: {wrong}") from None
    for key in given:
        require_known(f"key in {path}", key, KEYS)
    return given


def _read(given: Mapping[str, Any], names: Mapping[str, str], before: Needs) -> Needs:
    found: dict[str, Any] = dict(before)
    for key, (kept, read) in NEEDS.items():
        if key in given:
            found[kept] = read(str(given[key]), names[key])
    if "line" in given:
        found["line_up_bps"] = _up_bps(str(given["line"]), names["line"])
    if "must" in given:
        found["must"], found["without"] = _musts(given["must"], names["must"])
    stated_now = {NEEDS[key][0] for key in given if key in NEEDS} | ({"line_up_bps"} if "line" in given else set())
    stated_now |= {*MUSTS} if "must" in given else set()
    found["seen"] = tuple(name for name in before.seen if name not in stated_now)
    return Needs.model_validate(found)


def _down_bps(text: str, name: str) -> float:
    """``100M`` or, of ``100M/20M``, the first."""
    return rate_bps(text.partition("/")[0].strip(), name)


def _up_bps(text: str, name: str) -> float | None:
    """Of ``100M/20M`` the second, where it is another rate than the first."""
    up = text.partition("/")[2].strip()
    up_bps = rate_bps(up, name) if "/" in text else None
    return None if up_bps == _down_bps(text, name) else up_bps


def _traffic(text: str, name: str) -> str:
    require_known(name, text, TRAFFICS)
    return text


def _connections(text: str, name: str) -> int:
    require_known(name, text.strip(), [str(number) for number in CONNECTIONS])
    return int(text)


def _cores(text: str, name: str) -> int:
    try:
        return int(number(text.strip(), 1, MOST_CORES, whole=True))
    except ValueError:
        raise UsageError(f"{name} must be a number of cores from 1 to {MOST_CORES}, not {text!r:.60}") from None


def _milliseconds(text: str, name: str) -> float:
    """``20ms``, ``0.5ms`` or ``1s``; a number alone is in milliseconds."""
    scale, count = (1.0, text[:-2]) if text.endswith("ms") else (1e3, text[:-1]) if text.endswith("s") else (1.0, text)
    try:
        return scale * number(count.strip(), 0, LONGEST_RTT_MS / scale)
    except ValueError:
        raise UsageError(f"{name} must be a round-trip time from 0 to 100s, like 20ms, not {text!r:.60}") from None


def _share(text: str, name: str) -> float:
    """``0.0005`` or ``0.05%``."""
    scale, count = (0.01, text[:-1]) if text.endswith("%") else (1.0, text)
    try:
        return scale * number(count.strip(), 0, 1 / scale)
    except ValueError:
        raise UsageError(f"{name} must be a share of the packets, like 0.0005 or 0.05%, not {text!r:.60}") from None


# As a user names them -> as they are kept, and who reads them.
NEEDS: Mapping[str, tuple[str, Callable[[str, str], Any]]] = {
    "line": ("line_bps", _down_bps),
    "path_rtt": ("path_rtt_ms", _milliseconds),
    "path_loss": ("path_loss_ratio", _share),
    "traffic": ("traffic", _traffic),
    "connections": ("connections", _connections),
    "cores": ("cores", _cores),
}
KEYS = (*NEEDS, "must")


def _musts(given: Any, name: str) -> tuple[tuple[Must, ...], tuple[Must, ...]]:
    """The musts in force: the usual ones and those that are named, without those that stand behind a minus; and
    these."""
    words = given.split(",") if isinstance(given, str) else given
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UsageError(f'{name} must be a list of musts, like must = ["nat"], not {given!r:.60}')
    words = [word.strip() for word in words if word.strip()]
    for word in words:
        require_known(name, word.removeprefix("-"), MUSTS)
    named = [word for word in words if not word.startswith("-")]
    out = {word.removeprefix("-") for word in words if word.startswith("-")}
    in_force = tuple(must for must in MUSTS if (must in USUAL or must in named) and must not in out)
    return in_force, tuple(must for must in MUSTS if must in out and (must not in USUAL or must in LATER))
