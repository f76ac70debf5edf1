"""The section on how a farm's machines differ: the facts, what single ones could not measure, and those that were left
out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from runner.data.kinds import Strict
from runner.data.trials import Run, Trial
from runner.design.blocks import Block, Heading, Table
from runner.report import text
from runner.report.facts import plain

ABOUT_FACTS = (
    "What the machines said of themselves in their first blocks, where they are not alike. Of numbers that differ by "
    "more than 10 %, the lowest and the highest."
)
ABOUT_LACKS = "Their blocks are without these, which other machines measured. Not all machines have the same software."
ALIKE = 1.1  # the highest over the lowest: numbers nearer to each other have no row
# They change while a machine runs.
MOMENTARY = ("steal_ratio_since_boot", "bring_up_s", "calibration", "frequency_mhz", "interrupts")
HERE = "this machine"  # the name of the only machine in a lab of namespaces


class Unlike(Strict):
    """A fact in which machines of a farm differ: ``values`` has each value as text with the machines that have it; of
    measured numbers the lowest and the highest."""

    fact: str
    values: list[tuple[str, list[str]]]


class Lack(Strict):
    """A VPN that a machine could not measure, in one of its cells at least, and that another machine has measured."""

    machine: str
    vpn: str
    why: str


def machines_section(differ: Sequence[Unlike], lacks: Sequence[Lack], left_out: Mapping[str, str]) -> list[Block]:
    """The section; empty where there is no farm, or its machines are alike."""
    tables = list[Block]()
    if differ:
        rows = [[unlike.fact, value, ", ".join(names)] for unlike in differ for value, names in unlike.values]
        tables.append(Table("Facts that differ", ["fact", "value", "machines"], rows, about=ABOUT_FACTS))
    if lacks:
        rows = [[lack.machine, lack.vpn, lack.why] for lack in lacks]
        head = ["machine", "VPN", "why"]
        tables.append(Table("What single machines could not measure", head, rows, about=ABOUT_LACKS))
    if left_out:
        rows = [[name, why] for name, why in left_out.items()]
        tables.append(Table("Machines that were left out", ["machine", "why"], rows))
    return [Heading("How the machines differ", "machines-differ"), *tables] if tables else []


def left_out(run: Run) -> dict[str, str]:
    """The machines that a call refused or left out, and why; of several calls the last one's reason."""
    return {name: " ".join(why.split()) for call in run.invocations for name, why in call.left_out.items()}


def lacking(run: Run, trials: Sequence[Trial]) -> list[Lack]:
    """What single machines of this run could not measure. What no machine could measure is among the trials, as
    unsupported."""
    lacks = [(name, cell, why) for name, machine in run.machines.items() for cell, why in machine.lacks.items()]
    measured = {trial.cell for trial in trials if trial.status == "ok"} if lacks else set()
    rows = [(name, cell.split(" ")[0], " ".join(why.split())) for name, cell, why in lacks if cell in measured]
    return [Lack(machine=name, vpn=vpn, why=why) for name, vpn, why in dict.fromkeys(rows)]


def differing(run: Run) -> list[Unlike]:
    """The facts of their first blocks, and the versions of vpneval, in which the run's machines differ. Facts with the
    same values share a row."""
    known = {
        name: {"version of vpneval": machine.versions, **dict(_flat(machine.lab))}
        for name, machine in run.machines.items()
        if machine.lab
    }
    facts_of: dict[tuple[tuple[str, tuple[str, ...]], ...], list[str]] = {}
    for fact in dict.fromkeys(fact for facts in known.values() for fact in facts):
        values = _values({name: facts.get(fact, text.NONE) for name, facts in known.items()})
        if len(values) > 1:
            facts_of.setdefault(tuple((value, tuple(names)) for value, names in values.items()), []).append(fact)
    return [
        Unlike(fact=", ".join(facts), values=[(value, list(names)) for value, names in values])
        for values, facts in facts_of.items()
    ]


def _values(value_of: Mapping[str, Any]) -> dict[str, list[str]]:
    """Each value as text -> the machines that have it; for numbers, only the lowest and the highest, and nothing where
    they are about the same. ``value_of``: machine -> value."""
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in value_of.values()):
        low, high = min(value_of, key=lambda name: value_of[name]), max(value_of, key=lambda name: value_of[name])
        if value_of[high] <= ALIKE * value_of[low]:
            return {}
        return {text.digits(value_of[low]): [low], text.digits(value_of[high]): [high]}
    names_of: dict[str, list[str]] = {}
    for name, value in value_of.items():
        names_of.setdefault(plain(value), []).append(name)
    return names_of


def _flat(lab: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The facts of a lab by name, and those that only its machine has."""
    yield from _leaves({name: value for name, value in lab.items() if name != "machines"})
    machines = lab.get("machines")
    own = machines.get(HERE) if isinstance(machines, dict) else None
    if isinstance(own, dict):
        yield from _leaves({name: value for name, value in own.items() if name not in lab})


def _leaves(facts: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if name in MOMENTARY:
            continue
        if isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            value = {str(number): entry for number, entry in enumerate(value, 1)}
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{name} ")
        else:
            yield f"{above}{name}".replace("_", " "), value
