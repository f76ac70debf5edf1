"""What the OSLV paper counted of scalability (Table 5), and its judges: tasks for a full mesh, counted here."""

from functools import partial

from runner.papers.claims import LESS, all_of, compare, measured_of
from runner.papers.findings import Blocks, Data, Judgement, NotMeasured
from runner.papers.tables import HEIRS

EFFORT = "scaling_effort"
FEW, MANY = "10", "20"  # sites; the paper's example, and twice as many
SYSTEMS = sorted(HEIRS.values())


def efforts(data: Data) -> dict[str, Blocks]:
    """VPN -> block -> tasks for a full mesh of ten sites, of the paper's systems."""
    return {vpn: data.blocks(EFFORT, vpn) for vpn in measured_of(data, EFFORT, SYSTEMS)}


def tinc_least(data: Data) -> Judgement:
    """Tinc's tasks over each other VPN's, at ten sites. The paper: 40 over 180 at least."""
    tasks = efforts(data)
    if "tinc" not in tasks or len(tasks) < 2:
        raise NotMeasured(f"needs tinc and others; counted: {', '.join(tasks) or 'none'}")
    tinc, others = tasks["tinc"], [vpn for vpn in tasks if vpn != "tinc"]
    return all_of({vpn: partial(compare, tinc, tasks[vpn], LESS) for vpn in others}).with_systems("tinc", *others)


def squares(data: Data) -> Judgement:
    """Tasks at 20 sites over those at ten, in each VPN: 4 by a square, 2 by a line; here nearer to that power than to
    another (2.8 to 5.7)."""
    parts = {}
    for vpn in measured_of(data, EFFORT, SYSTEMS):
        few, many = (_tasks_at(data, vpn, sites) for sites in (FEW, MANY))
        parts[vpn] = partial(compare, many, few, (2**1.5, 2**2.5))
    return all_of(parts).with_systems(*parts)


def _tasks_at(data: Data, vpn: str, sites: str) -> Blocks:
    """Block -> the VPN's tasks for a full mesh of so many sites."""
    return {
        trial.repetition: float(measurement.detail["joining"][sites]["effort"])
        for trial in data.matching(vpn, {})
        for measurement in trial.measurements
        if trial.status == "ok" and measurement.metric == EFFORT and sites in measurement.detail.get("joining", {})
    }
