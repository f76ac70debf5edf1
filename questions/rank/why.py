"""One VPN against another, a sentence for each metric: the factor, how sure it is, and under which conditions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from questions.rank.verdict_words import confidence, sentence
from questions.rank.words import loss_sentences
from runner.data.errors import UsageError, require_known
from runner.data.levels import BASELINE
from runner.data.trials import Run, Trial
from runner.ranking.model import Verdict
from runner.ranking.rankings import Rankings
from runner.ranking.weights import default_weights
from runner.report import text
from runner.report.breakdowns import breakdowns
from runner.report.facts import facts
from runner.report.headings import machine_of
from runner.report.kinds import by_kind


def why(run: Run, trials: Sequence[Trial], a: str, b: str) -> list[str]:
    """What the run says of ``a`` against ``b``, as lines: the machine; for each configuration the tunnels and the
    traffic; and a sentence for each metric that counts.

    Raises UsageError for a VPN that the run does not have, and where the run compares these two in nothing."""
    for name in (a, b):
        require_known("VPN", name, sorted(vpn for vpn, record in run.vpns.items() if not record.reference))
    if a == b:
        raise UsageError(f"why takes two VPNs, and both are {a}")
    lines = [machine_of(facts(run, trials))]
    made = Rankings(run, trials)
    ranking_of = {(ranking.configuration, ranking.image): ranking for ranking in made.rankings}
    heading, broken, judged = "", breakdowns(trials), made.verdicts
    for verdict in judged:
        if {verdict.a, verdict.b} != {a, b}:
            continue
        where = " ".join(filter(None, (verdict.configuration, verdict.image)))
        if where != heading:
            lines += ["", f"{where}: {_levels(run, verdict, a)} against {_levels(run, verdict, b)}"]
            ranking = ranking_of[verdict.configuration, verdict.image]
            lines.append(f"Traffic: {_traffic(run, ranking.traffic)}.")
            lines += loss_sentences(ranking, (a, b))
            heading = where
            tunnels = {(vpn, verdict.image): run.vpns[vpn].configurations.get(verdict.configuration) for vpn in (a, b)}
            lines += [
                breakdown.sentence
                for breakdown in broken
                if breakdown.levels == tunnels.get((breakdown.vpn, breakdown.image))
            ]
        lines.append(sentence(run.metrics[verdict.metric], verdict if verdict.a == a else verdict.other_way))
    if not heading:
        raise UsageError(f"this run compares {a} and {b} in nothing: {_nothing(trials, (a, b))}")
    return [*lines, "", f"In brackets is the interval that decides, at {confidence(judged)}."]


def _nothing(trials: Sequence[Trial], pair: Sequence[str]) -> str:
    """Which of two VPNs has no numbers and why, and which VPNs have some."""
    measured = {trial.vpn for trial in trials if trial.status == "ok"}
    sentences = [f"it has no numbers of {vpn} ({reason})." for vpn in sorted(pair) if (reason := _lacks(trials, vpn))]
    sentences = sentences or ["they were not measured in the same metric with the configurations that are ranked."]
    return " ".join([*sentences, f"It has numbers of: {', '.join(sorted(measured - {BASELINE})) or 'no VPN'}."])


def _lacks(trials: Sequence[Trial], vpn: str) -> str:
    """Why the run has no numbers of a VPN; empty where it has some."""
    own = [trial for trial in trials if trial.vpn == vpn]
    if any(trial.status == "ok" for trial in own):
        return ""
    reasons = [f"{trial.status}: {trial.reason.splitlines()[0]}" for trial in own if trial.reason]
    return reasons[0] if reasons else "no trial was made"


def absence(run: Run, trials: Sequence[Trial], vpn: str) -> str:
    """That a VPN of the run was not measured, and why; empty where it was."""
    reason = _lacks(trials, vpn) if vpn in run.vpns else ""
    kin = _measured_kin(run, trials, vpn)
    speaks = f" {kin} speaks the same protocol, and was: vpneval why {kin}" * bool(kin)
    return f"{vpn} was not measured here ({reason}).{speaks}" if reason else ""


def why_each(run: Run, trials: Sequence[Trial], a: str, b: str) -> list[list[str]]:
    """The lines of `why` for each kind of machine of a farm, or for the run where there is one kind.

    Of a VPN that was not measured, its kin speaks: the first that was and has the same protocol. Raises UsageError as
    `why` does, where no kind compares these two."""
    kinds = by_kind(run, trials)
    parts: list[list[str]] = []
    said = list[str]()
    for vpn in (a, b):
        if (kin := _measured_kin(run, trials, vpn)) and kin not in (a, b):
            said.append(f"{vpn} was not measured here. {kin} speaks the same protocol, and was.")
            a, b = (kin if name == vpn else name for name in (a, b))
    nothing: list[UsageError] = []
    for own, its in kinds:
        try:
            parts.append(why(own, its, a, b))
        except UsageError as error:
            nothing.append(error)
            parts.append([machine_of(facts(own, its)), "", f"These machines compare {a} and {b} in nothing."])
    if len(nothing) == len(kinds):
        raise nothing[0]
    return [[*said, *part] for part in parts]


def _measured_kin(run: Run, trials: Sequence[Trial], vpn: str) -> str:
    """The first VPN that was measured and speaks the protocol of this one, which was not; empty where there is none."""
    measured = {trial.vpn for trial in trials if trial.status == "ok"}
    speaks = run.vpns[vpn].speaks if vpn in run.vpns and vpn not in measured else ""
    return next(
        (name for name, record in run.vpns.items() if speaks and name in measured and record.speaks == speaks), ""
    )


def _traffic(run: Run, measured: Mapping[str, Mapping[str, str]]) -> str:
    """``TCP throughput (tcp, 1 stream, random, forward); …``, of the metrics that are measured alike together."""
    metrics: dict[str, list[str]] = {}
    for metric in default_weights(measured).counted_metrics:
        metrics.setdefault(text.levels(measured[metric]), []).append(run.metrics[metric].title)
    return "; ".join(f"{', '.join(titles)} ({how})" for how, titles in metrics.items())


def _levels(run: Run, verdict: Verdict, vpn: str) -> str:
    levels = run.vpns[vpn].configurations.get(verdict.configuration, {})
    return f"{vpn} ({', '.join(level for level in levels.values() if level not in ('off', 'none'))})"
