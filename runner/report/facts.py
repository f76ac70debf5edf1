"""What a reader must know before believing the numbers: the lab's facts, caveats that follow from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from runner.data.kinds import Strict
from runner.data.lab_facts import GeneratorLimit, generator_limits
from runner.data.levels import BASELINE
from runner.data.remarks import IN_REASON, NOISE
from runner.data.scale import no_scale
from runner.data.trials import Run, Trial, cell_key
from runner.evidence.configurations import comparable
from runner.evidence.model import Drift, Summary
from runner.evidence.stats import blocks_of, drift
from runner.report.scale import apart_sentence
from runner.report.text import change, count_noun, percent, quantity, traffic

FARM = "machines of the farm"  # the name of the fact that lists them
FEW_BLOCKS = 5
GOAL_MEASURING = 0.7  # what the quick profile promises
FIRST_FACTS = ("kind", "kernel", "guest", "machine", "cpu", "cores")


class Fact(Strict):
    """A fact of the run as text, under its name; ``count``: the number that it is, where it is a whole one."""

    name: str
    value: str
    count: int | None = None


def _lab_fact(name: str, value: Any) -> Fact:
    return Fact(name="lab " + name.replace("_", " "), value=plain(value), count=value if type(value) is int else None)


def facts(run: Run, trials: Sequence[Trial]) -> list[Fact]:
    """The lab (kind, kernel, CPU and cores first), the image, and the version of each VPN as it said itself."""
    lab = {name: run.lab[name] for name in FIRST_FACTS if name in run.lab} | run.lab
    machines = lab.pop("machines", None)
    lab.pop("generator", None)
    listed = [_lab_fact(name, value) for name, value in lab.items()]
    if isinstance(machines, dict) and len(machines) > 1:
        listed += [
            Fact(name=f"machine {name}", value=plain(_without_ports(machine))) for name, machine in machines.items()
        ]
    if offers := generator_limits(run.lab):
        listed.append(Fact(name="packet generator", value=_at_most(offers)))
    if run.machines:
        listed.append(Fact(name=FARM, value=", ".join(run.machines), count=len(run.machines)))
    image = {name: value for name, value in run.image.items() if name != "packages"}
    listed += [Fact(name="image " + name.replace("_", " "), value=plain(value)) for name, value in image.items()]
    versions: dict[str, str] = {}
    for trial in trials:
        if trial.evidence and trial.evidence.version:
            version = trial.evidence.version
            versions.setdefault(trial.vpn, f"{trial.vpn} {version}" if version[0].isdigit() else version)
    listed += [Fact(name=f"version of {vpn}", value=version) for vpn, version in versions.items()]
    return [*listed, Fact(name="seed", value=str(run.seed))]


def citation(run: Run) -> str:
    """How to cite a run, in a line: what made it, and with which image and seed. CITATION.cff has vpneval itself."""
    parts = [
        f"vpneval {run.vpneval_version}",
        f"commit {run.commit}" if run.commit else "",
        f"run {run.run_id} of {run.created_at[:10]}",
        f"image {run.image['name']} {run.image['digest']}" if "digest" in run.image else "",
        f"seed {run.seed}",
    ]
    return ", ".join(part for part in parts if part)


def caveats(run: Run, trials: Sequence[Trial]) -> list[str]:
    """The caveats of the run, a sentence each, the gravest first."""
    ok = [trial for trial in trials if trial.status == "ok"]
    sentences = []
    if not ok:
        sentences.append("No trial ended ok: there is nothing to compare.")
    stopped = [call.outcome for call in run.invocations[-1:] if call.outcome not in ("", "complete", "ok")]
    sentences += [f"The run did not end as planned: {outcome}." for outcome in stopped]
    if run.invocations and (trimmed := run.invocations[-1].trimmed):
        sentences.append(f"vpneval left out {count_noun(trimmed, 'trial')} to keep the deadline.")
    if run.invocations and (passed_over := run.invocations[-1].passed_over):
        sentences.append(
            f"vpneval left out {count_noun(passed_over, 'trial')} because what they decide was decided before, or "
            "needed more time than was left."
        )
    if run.lab.get("nodes_share_cores") or run.lab.get("kind") == "netns":
        cores = count_noun(run.lab["cores"], "core") if "cores" in run.lab else "cores"
        sentences.append(
            f"Hosts, gateways and WAN share the {cores} of one machine: rates are what all of them together "
            "reach, and the CPU cost includes the hosts' traffic generators. Compare the VPNs, not the numbers "
            "with those of real gateways."
        )
    left = [vpn for vpn, record in run.vpns.items() if not record.reference and vpn not in comparable(run)]
    if left and (found := no_scale(run)):
        sentences.append(apart_sentence(found, left))
    blocks = blocks_of(ok)
    if ok and blocks < 2:
        exact = any(run.metrics[m.metric].exact for trial in ok for m in trial.measurements)
        sentences.append(
            "There was one repetition. So no measured number has an interval, and only what was counted or probed "
            "tells VPNs apart."
            if exact
            else "There was one repetition. So no number has an interval, and no VPN can be told from another."
        )
    elif ok and blocks < FEW_BLOCKS:
        sentences.append(
            f"There were {blocks} repetitions. So the intervals are wide, and the run cannot show small differences."
        )
    sentences += _drift(run, drifts(ok))
    sentences += _noise(trials)
    elapsed = sum(call.elapsed_s for call in run.invocations)
    share = sum(call.measuring_s for call in run.invocations) / elapsed if elapsed else 1.0
    if share < GOAL_MEASURING:
        sentences.append(f"Only {percent(share, 0)} of the time was spent measuring; the rest was set-up and proof.")
    return sentences


def cpu_of(trials: Sequence[Trial]) -> str:
    """Whose CPU time the CPU cost is, in words; empty where none was measured."""
    costs = (m for trial in trials for m in trial.measurements if m.metric == "cpu_per_gigabyte")
    return next((str(m.detail.get("of", "the whole lab")) for m in costs), "")


def warnings(trials: Sequence[Trial]) -> list[str]:
    """The trials' warnings, each once, with the VPNs and the number of trials that had it."""
    by_warning: dict[str, list[str]] = {}
    for trial in trials:
        remarks = [str(remark) for remark in trial.remarks if remark.kind not in IN_REASON]
        for warning in [*trial.warnings, *remarks]:
            by_warning.setdefault(warning, []).append(trial.vpn)
    return [
        f"{warning} ({', '.join(dict.fromkeys(vpns))}: {count_noun(len(vpns), 'trial')})"
        for warning, vpns in by_warning.items()
    ]


def interval_method(summaries: Iterable[Summary]) -> str:
    """How the intervals of a report's medians were made, in words for the foot of the report."""
    sizes: dict[str, set[int]] = {}
    for summary in summaries:
        if summary.n > 1:
            sizes.setdefault(summary.method, set()).add(summary.n)
    how = "; ".join(f"{method}, n = {_span(numbers)}" for method, numbers in sizes.items())
    return (
        f"A number is the median over n rounds or repetitions, with its 95 % interval{f' ({how})' if how else ''}. "
        "CoV is the coefficient of variation: the sample standard deviation divided by the mean. The baseline is plain "
        "IP. It has a turn in every round, or is measured first and last in each block; the share of the baseline "
        "compares values of the same round or block. ×÷ k stands for an interval that is wider than a factor of ten: "
        "from the value divided by k to the value times k. ≥ marks a lower bound: no rate failed before the generator "
        "reached its limit or the search ran out of time. ≤ marks a share of such a baseline."
    )


def _span(numbers: set[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def drifts(trials: Sequence[Trial]) -> list[Drift]:
    """How each metric of each baseline cell moved within the blocks, where there are blocks to compare."""
    baseline: dict[str, list[Trial]] = {}
    for trial in trials:
        if trial.vpn == BASELINE and trial.status == "ok":
            baseline.setdefault(cell_key(trial.vpn, trial.params), []).append(trial)
    moves = [
        drift(same, metric)
        for same in baseline.values()
        for metric in dict.fromkeys(m.metric for trial in same for m in trial.measurements)
    ]
    return [move for move in moves if move.last.blocks or move.between.blocks]


def _drift(run: Run, moves: Sequence[Drift]) -> list[str]:
    judged = [move for move in moves if move.is_judged]
    moved = []
    for move in (move for move in judged if move.moved):
        to = [f"{change(move.last)} from its start to its end"] if move.last.significant else []
        to += [f"{change(move.between)} in its middle against both"] if move.between.significant else []
        moved.append(f"{run.metrics[move.metric].title} ({traffic(move.params)}) {', '.join(to)}")
    if not moved:
        return []
    return [
        "The machine drifted during the run. Within a block, plain IP changed by more than its interval in "
        f"{len(moved)} of {count_noun(len(judged), 'measurement')}: {'; '.join(moved)}. vpneval compares VPNs within a "
        "block and in random order, so the drift widens the intervals, and no VPN gains from it."
    ]


def _noise(trials: Sequence[Trial]) -> list[str]:
    """The noise of the machine, in one sentence, from the remarks of the trials."""
    counts = Counter(remark.words for trial in trials for remark in trial.remarks if remark.kind in NOISE)
    if not counts:
        return []
    read = [noise for trial in trials if trial.noise for noise in (trial.noise, *trial.noise.machines.values())]
    stolen = max((noise.steal_ratio or 0.0 for noise in read), default=0.0)
    words = [f"{noise} in {count_noun(number, 'trial')}" for noise, number in counts.items()]
    most = f" (of all the CPU time of a trial, at most {percent(stolen)})" if stolen else ""
    return [f"Noise: {'; '.join(words)}{most}. vpneval marked these trials and kept them."]


def _without_ports(machine: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in machine.items() if name != "ports"}


def _at_most(offers: Sequence[GeneratorLimit]) -> str:
    """The highest rates that the packet generator can offer, and what follows from them, in words."""
    rates = [
        f"{limit.packets_per_s:,.0f} packets/s of {limit.ip_bytes} B ({quantity(limit.bps, 'bit/s')}; {limit.by}, "
        f"{'1 process' if limit.processes == 1 else f'{limit.processes} processes'}, without a pause)"
        for limit in offers
    ]
    return (
        f"it offers at most {' and '.join(rates)}, found over plain IP before the first tunnel. A rate found up there "
        "is a lower bound"
    )


def plain(value: Any) -> str:
    """A fact of a run, which may be a table or a list, as text."""
    if isinstance(value, dict):
        return ", ".join(f"{name} {plain(inner)}" for name, inner in value.items())
    if isinstance(value, list):
        return ", ".join(plain(inner) for inner in value)
    return "yes" if value is True else "no" if value is False else str(value)
