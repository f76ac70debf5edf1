"""A dialogue with a probe on a node: start it, wait until it is ready, ask it, read its answer."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from runner.data.errors import CommandError, InstrumentError, MeasurementError
from runner.lab import probes
from runner.lab.node import PATIENCE, LabNode
from runner.lab.node.commands import TOO_MUCH, Dialogue, SaidTooMuch
from runner.lab.node.lines import UnheardError, json_of

READY_WITHIN_S = 30.0
LAST_WORDS_S = 5.0
SHOWN = 300  # characters of a probe's own words


class ProbeSaidError(MeasurementError):
    """A probe works, and says that what it was asked to do did not."""


@contextmanager
def probe(node: LabNode, name: str, *argv: str, ready: str) -> Iterator[Dialogue]:
    """Run a probe on ``node`` beside the block, which begins when the probe has said ``ready``. The probe ends with the
    block.

    Raises MeasurementError with the probe's own words where it cannot start.
    """
    node.write(f"{probes.FOLDER}/{name}.py", probes.source(name), mode=0o644)
    running = node.talk("python3", "-IS", f"{probes.FOLDER}/{name}.py", *argv)
    try:
        said = ""
        try:
            said = running.hear(READY_WITHIN_S * PATIENCE)
        except UnheardError as unheard:
            if unheard.why == "late":
                raise MeasurementError(
                    f"the probe {name} was not ready on {node.name} within {READY_WITHIN_S * PATIENCE:g} s"
                ) from None
        if said != ready:
            last_line = complaint(running, LAST_WORDS_S)
            raise probe_error_class(running)(f"the probe {name} does not work on {node.name}: {last_line}")
        yield running
    finally:
        if running.poll() is None:
            node.end(running)  # so that its ports and interfaces are free for the next
        running.wait()


def complaint(running: Dialogue, within_s: float = 2.0) -> str:
    """The last line that a probe says of its trouble; its input is closed for that."""
    with suppress(subprocess.TimeoutExpired, SaidTooMuch):
        return "".join(running.last_words("", within_s)[1].strip().splitlines()[-1:])
    return "it says nothing"


def probe_error_class(running: Dialogue) -> type[MeasurementError]:
    """The class of the error for a probe that does not answer any more, by its exit code: see ``error_class``."""
    try:
        return error_class(running.wait(1))
    except subprocess.TimeoutExpired:
        return MeasurementError


def error_class(code: int) -> type[MeasurementError]:
    """The class of the error for an instrument with this exit code: InstrumentError where a signal ended it, which says
    nothing of a VPN."""
    return InstrumentError if was_killed(code) else MeasurementError


def was_killed(code: int | None) -> bool:
    """Is this the exit code of a process that a signal ended, as Popen reports it, or as a shell or ssh(1) does?"""
    return code is not None and (code < 0 or code in (128 + signal.SIGKILL, 128 + signal.SIGTERM))


def own_fault(error: Exception, gateways: Sequence[str]) -> bool:
    """Is it about a command of ours, on a node that is no gateway, and a signal ended that command?"""
    return isinstance(error, CommandError) and was_killed(error.code) and error.node not in gateways


def tell(running: Dialogue, name: str, line: str) -> None:
    """Say a line to a running probe. Raises MeasurementError where it is gone."""
    try:
        running.tell(line)
    except (OSError, ValueError):  # it has died now, or had before, so that its streams are closed
        raise has_died(running, name) from None


def hear(running: Dialogue, name: str, within_s: float) -> str:
    """The next line that a probe says. Raises MeasurementError where none comes in time."""
    try:
        return running.hear(within_s)
    except UnheardError as unheard:
        if unheard.why == "ended":
            raise has_died(running, name) from None
        who = f"the probe {name} on {running.where}"
        if unheard.why == "late":
            raise MeasurementError(f"{who} did not answer within {within_s:g} s") from None
        raise InstrumentError(f"{who} says a line without an end") from None


def hear_object(running: Dialogue, name: str, within_s: float) -> dict[str, Any]:
    """The next line, a JSON object. Raises as ``hear``."""
    line = hear(running, name, within_s)
    try:
        said = json_of(line)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise InstrumentError(f"the probe {name} on {running.where} answers {line[:80]!r}, which is no answer")
    return said


def has_died(running: Dialogue, name: str) -> MeasurementError:
    """The error of a probe whose pipes have ended, with its last words."""
    last_line = complaint(running)
    return probe_error_class(running)(f"the probe {name} on {running.where} has died: {last_line}")


def ask_probe(
    running: Dialogue,
    name: str,
    question: dict[str, Any],
    timeout_s: float,
    meanwhile: Callable[[], object] = lambda: None,
) -> dict[str, Any]:
    """Ask a running probe one question, a line each way, and return its answer; ``meanwhile`` is called while it is at
    work. Raises MeasurementError where it does not answer, and ProbeSaidError, with its own words, where its answer is
    an error."""
    tell(running, name, json.dumps(question))
    meanwhile()
    response = hear_object(running, name, timeout_s)
    if "error" in response:
        raise ProbeSaidError(f"the probe {name}: {response['error']!s:.{SHOWN}}")
    return response


def answer(running: Dialogue, name: str, last: str = "end", timeout_s: float = 10.0) -> dict[str, Any]:
    """Send a probe the ``last`` line, which says that the test is over, and return its result.

    Raises MeasurementError where it does not answer.
    """
    try:
        output, error = running.last_words(last + "\n", timeout_s)
    except subprocess.TimeoutExpired as late:
        raise MeasurementError(f"the probe {name} on {running.where} did not answer within {timeout_s:g} s") from late
    except SaidTooMuch as endless:
        raise InstrumentError(f"the probe {name} on {running.where}: {TOO_MUCH}") from endless
    try:
        result = json_of(output)
    except ValueError:
        result = None
    if not isinstance(result, dict):
        raise probe_error_class(running)(f"the probe {name} on {running.where} died: {error.strip()[-300:]}")
    return result
