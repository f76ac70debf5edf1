"""The record of a call: what was asked for as a command line; and what the command line of an older run asks for."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from runner.data.asked import AskedFarm, AskedRun
from runner.data.errors import UsageError
from runner.data.named import HOST, LATER, USUAL
from runner.data.needs import Needs
from runner.data.options import RunOptions, options_of
from runner.data.trials import Invocation, Run

OPTIONS = options_of(RunOptions)
FIRST = ("lab", "kernel")  # in a command line: where it runs; what it is about; how long, and where to
LAST = [
    *("repetitions", "seed", "image", "gateway_images", "weights"),
    *("out", "deadline_s", "retry_failed", "until_significant"),
]
REPEATED = ("instruments", "builds")  # paths may have commas
OTHER_SWITCHES = ("--quiet", "--full", "--json", "--no-color")


def begin_invocation(asked: AskedRun) -> Invocation:
    """The record of a call that begins now."""
    return Invocation(command_line=["vpneval", "run", *words(asked)], asked=asked, started_at=_now())


def end_invocation(call: Invocation, outcome: str, **what: object) -> Invocation:
    """The record of a call that has ended now, with these other fields."""
    return call.model_copy(update={"ended_at": _now(), "outcome": outcome, **what})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def words(asked: AskedRun) -> list[str]:
    """The words behind ``vpneval run`` that ask for this, without what is usual."""
    farm = asked.farm or AskedFarm(address="")
    values = dict(asked) | {"farm": farm.address} | {f"farm_{name}": value for name, value in farm if name != "address"}
    found = [*asked.experiments]
    for name in (*FIRST, *(name for name in OPTIONS if name not in (*FIRST, *LAST)), *LAST):
        value, flag = values.get(name), OPTIONS[name].flag
        if value in (None, (), getattr(RunOptions, name)):
            continue
        if isinstance(value, bool):
            found.append(flag.split("/")[not value])
        elif name in REPEATED:
            found += [word for path in value for word in (flag, path)]
        else:
            found += [flag, _text(name, value)]
    return found + _of_needs(asked.needs)


def command(asked: AskedRun) -> str:
    """The words behind ``vpneval run`` as a shell takes them."""
    return shlex.join(words(asked))


def _text(field: str, value: Any) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    if field == "deadline_s":
        return f"{value / 60:.12g}m" if value % 60 == 0 else f"{value:.12g}s"
    return f"{value:g}" if field == "slice_s" else str(value)


def _of_needs(needs: Needs) -> list[str]:
    """The options that state these needs."""
    usual, found = Needs(), list[str]()
    if needs.line_bps is not None:
        rates = [rate for rate in (needs.line_bps, needs.line_up_bps) if rate]
        found += ["--line", "/".join(f"{rate / 1e6:.12g}M" for rate in rates)]
    if needs.path_rtt_ms is not None:
        found += ["--path-rtt", f"{needs.path_rtt_ms:.12g}ms"]
    if needs.path_loss_ratio is not None:
        found += ["--path-loss", f"{needs.path_loss_ratio:.12g}"]
    if needs.traffic != usual.traffic:
        found += ["--traffic", needs.traffic]
    if needs.connections != usual.connections:
        found += ["--connections", str(needs.connections)]
    if needs.cores is not None:
        found += ["--cores", str(needs.cores)]
    musts: list[str] = [must for must in needs.must if must not in USUAL]
    musts += [f"-{must}" for must in (*USUAL, *needs.without) if must not in (*needs.must, *LATER)]
    musts += [f"-{must}" for must in LATER if must in needs.without]
    return [*found, "--must", ",".join(musts)] if musts else found


def read(line: Sequence[str]) -> AskedRun | None:
    """What these words behind ``vpneval run`` ask for, but for the needs, which their run has; None where they are no
    such command line. Of an option given twice the last one counts. What is about other runs is left out, as --rest."""
    fields = {flag: name for name, option in OPTIONS.items() for flag in option.flag.split("/")}
    experiments, given = list[str](), dict[str, Any]()
    rest = iter(line)
    for word in rest:
        flag, equals, value = word.partition("=")
        name = fields.get(flag, "")
        if not word.startswith("--"):
            experiments.append(word)
        elif name and not OPTIONS[name].metavar:
            given[name] = not flag.startswith("--no-")
        elif word not in OTHER_SWITCHES:
            value = value if equals else next(rest, "")
            if name:
                given[name] = [*given.get(name, []), value] if OPTIONS[name].type == list[str] | None else value
    with suppress(ValidationError, UsageError):
        return AskedRun.from_options(experiments, RunOptions(**given), Needs())
    return None


def asked_of(run: Run, call: int = 0) -> AskedRun | None:
    """What this call of a run asked for; of an older run, as its command line says. None where nothing says it."""
    if not run.invocations:
        return None
    invocation = run.invocations[call]
    if invocation.asked is not None:
        return invocation.asked
    behind = [word for word in invocation.command_line[1:] if word != "--no-color"]
    asked = read(behind[1:]) if behind[:1] == ["run"] else None
    if asked is None:
        return None
    # An older run may name the kernels of several runs: in a guest, its own one stands last.
    return asked.with_changes(needs=run.needs, kernel=asked.kernel if run.lab.get("guest") else HOST)
