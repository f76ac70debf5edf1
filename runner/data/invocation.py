"""The record of a call: what was asked for as a command line; and what the command line of an older run asks for."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError

from runner.data.asked import AskedFarm, AskedRun
from runner.data.errors import UsageError
from runner.data.named import HOST, USUAL
from runner.data.needs import Needs
from runner.data.numbers import seconds
from runner.data.trials import Invocation, Run

OPTIONS: Mapping[str, str] = {  # with a value -> the field that has it
    "--lab": "lab",
    "--kernel": "kernel",
    "--vpn": "vpns",
    "--instrument": "instruments",
    "--question": "question",
    "--set": "levels",
    "--profile": "profile",
    "--duration": "duration_s",
    "--rounds": "rounds",
    "--slice": "slice_s",
    "--reps": "repetitions",
    "--seed": "seed",
    "--image": "image",
    "--gateway-image": "gateway_images",
    "--build": "builds",
    "--max-rate": "max_rate",
    "--between": "between",
    "--search-rates": "search_rates",
    "--weights": "weights",
    "--out": "out",
    "--deadline": "deadline_s",
}
SWITCHES: Mapping[str, tuple[str, bool]] = {
    "--retry-failed": ("retry_failed", True),
    "--until-significant": ("until_significant", True),
    "--no-until-significant": ("until_significant", False),
}
OF_FARM: Mapping[str, str] = {"--farm": "address", "--farm-equal": "equal", "--farm-timeout": "timeout"}
INSECURE = "--farm-insecure"
WITHOUT_VALUE = (INSECURE, "--install", "--strict", "--quiet", "--full", "--json", "--no-color")
REPEATED = ("instruments", "builds")  # paths may have commas
MANY = ("vpns", "levels", "gateway_images", *REPEATED)
_FIELDS = AskedRun.model_fields


def begun(asked: AskedRun) -> Invocation:
    """The record of a call that begins now."""
    return Invocation(command_line=["vpneval", "run", *words(asked)], asked=asked, started_at=_now())


def ended(call: Invocation, outcome: str, **what: object) -> Invocation:
    """The record of a call that has ended now, with these other fields."""
    return call.model_copy(update={"ended_at": _now(), "outcome": outcome, **what})


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def words(asked: AskedRun) -> list[str]:
    """The words behind ``vpneval run`` that ask for this, without what is usual."""
    found = [*asked.experiments]
    for option, field in OPTIONS.items():
        value = getattr(asked, field)
        if value == _FIELDS[field].default:
            continue
        if field in REPEATED:
            found += [word for path in value for word in (option, path)]
        else:
            found += [option, _text(field, value)]
    found += [switch for switch, (field, value) in SWITCHES.items() if getattr(asked, field) is value]
    found += _of_needs(asked.needs)
    if farm := asked.farm:
        usual = AskedFarm(address="")
        for option, field in OF_FARM.items():
            if (value := getattr(farm, field)) != getattr(usual, field):
                found += [option, value]
        found += [INSECURE] * farm.insecure
    return found


def command(asked: AskedRun) -> str:
    """The words behind ``vpneval run`` as a shell takes them."""
    return shlex.join(words(asked))


def _text(field: str, value: Any) -> str:
    if field in MANY:
        return ",".join(value)
    if field == "deadline_s":
        return f"{value / 60:.12g}m" if value % 60 == 0 else f"{value:.12g}s"
    return f"{value:g}" if field == "slice_s" else str(value)


def _of_needs(needs: Needs) -> list[str]:
    """The options that state these needs."""
    usual, found = Needs(), list[str]()
    if needs.line_bps is not None:
        found += ["--line", f"{needs.line_bps / 1e6:.12g}M"]
    if needs.path_rtt_ms is not None:
        found += ["--path-rtt", f"{needs.path_rtt_ms:.12g}ms"]
    if needs.path_loss_ratio is not None:
        found += ["--path-loss", f"{needs.path_loss_ratio:.12g}"]
    if needs.traffic != usual.traffic:
        found += ["--traffic", needs.traffic]
    if needs.cores is not None:
        found += ["--cores", str(needs.cores)]
    musts: list[str] = [must for must in needs.must if must not in USUAL]
    musts += [f"-{must}" for must in (*USUAL, *needs.without) if must not in needs.must]
    return [*found, "--must", ",".join(musts)] if musts else found


def read(line: Sequence[str]) -> AskedRun | None:
    """What these words behind ``vpneval run`` ask for, but for the needs, which their run has; None where they are no
    such command line. Of an option given twice the last one counts. What is about other runs is left out, as --rest."""
    given: dict[str, Any] = {"experiments": []}
    farm: dict[str, Any] = {}
    rest = iter(line)
    for word in rest:
        option, equals, value = word.partition("=")
        if not word.startswith("--"):
            given["experiments"].append(word)
        elif word in SWITCHES:
            field, on = SWITCHES[word]
            given[field] = on
        elif word in WITHOUT_VALUE:
            farm |= {"insecure": True} if word == INSECURE else {}
        else:
            value = value if equals else next(rest, "")
            if field := OPTIONS.get(option, ""):
                given[field] = [*given.get(field, []), *_pieces(field, value)] if field in MANY else value
            elif field := OF_FARM.get(option, ""):
                farm[field] = value
    with suppress(ValidationError, UsageError):
        if "deadline_s" in given:
            given["deadline_s"] = seconds(given["deadline_s"])
        if "address" in farm:
            given["farm"] = AskedFarm(**farm)
        return AskedRun(**given)
    return None


def _pieces(field: str, value: str) -> list[str]:
    return [value] if field in REPEATED else [piece.strip() for piece in value.split(",") if piece.strip()]


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
    return asked.changed(needs=run.needs, kernel=asked.kernel if run.lab.get("guest") else HOST)
