"""Machines of different kinds are never in one ranking: a run on several kinds is split into a run for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from runner.data.trials import Machine, Run, Trial
from runner.report import text

Whole = tuple[Run, list[Trial]]
OTHERS = "machines of other kinds"  # the name of a fact of the lab, where a report leaves machines out


def by_kind(run: Run, trials: Sequence[Trial]) -> list[Whole]:
    """The run on each kind of machine, the kind with most trials first; the run itself where there is one kind. The
    profile note of each part names its machines, and the lab's facts and the image's digest are those of these
    machines."""
    kind_of = {name: machine.kind for name, machine in run.machines.items()}
    counts = Counter(kind_of[trial.machine] for trial in trials if trial.machine in kind_of)
    if len(counts) < 2:
        return [(run, list(trials))]
    runs = []
    for kind, _ in counts.most_common():
        machines = {name: machine for name, machine in run.machines.items() if machine.kind == kind}
        others = [name for name in run.machines if name not in machines]
        note = (
            f"This report is about {text.count_noun(len(machines), 'machine')} ({kind}). The run has {len(others)} of "
            "other kinds: vpneval report DIR --across machines has a report for each kind"
        )
        whole = f"{run.profile_note}. {note}" if run.profile_note else note
        lab = _facts(run.lab, list(machines.values())) | {OTHERS: ", ".join(others)}
        image = _image(run.image, next(iter(machines.values())))
        own = run.model_copy(update={"machines": machines, "profile_note": whole, "lab": lab, "image": image})
        runs.append((own, [trial for trial in trials if trial.machine in machines]))
    return runs


def _facts(lab: Mapping[str, Any], machines: Sequence[Machine]) -> dict[str, Any]:
    """The facts of the lab on machines of one kind: those of the run if it is about such a machine, else those of the
    first machine that has some. Older runs have only the facts that define the kind."""
    first = machines[0]
    own = {"cpu": first.cpu, "cores": first.cores, "kernel": first.kernel, "memory_bytes": first.memory_bytes}
    if all(lab.get(name) == own[name] for name in ("cpu", "cores", "kernel")):
        return dict(lab)
    return next((dict(machine.lab) for machine in machines if machine.lab), {"kind": lab.get("kind"), **own})


def _image(image: Mapping[str, Any], machine: Machine) -> dict[str, Any]:
    """The lab image on machines of one kind. The package versions of a run are those of its first machine."""
    words = machine.image.split()  # name, digest, name, digest, …
    digest = dict(zip(words[::2], words[1::2], strict=False)).get(image.get("name", ""), image.get("digest"))
    if digest == image.get("digest"):
        return dict(image)
    return {name: value for name, value in image.items() if name != "packages"} | {"digest": digest}
