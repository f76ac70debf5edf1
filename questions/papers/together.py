"""What all runs say together of one finding."""

from __future__ import annotations

from collections.abc import Sequence

from questions.papers.deciding import Rows, standing
from questions.papers.findings import part_words
from runner.papers.findings import Judgement, answer
from runner.papers.judges import finding as named
from runner.papers.pooling import pool
from runner.report.text import count_noun


def said_once(claim: Rows) -> Rows:
    """The rows of one finding as one, where any run has a number that counts; else as they are, for their reasons."""
    able = standing(claim)
    if len(able) < 2:
        return able or claim
    _, first = able[0]
    finding = named(f"{first.experiment}/{first.id}")
    judged = answer(finding, pool([row.judged or row for _, row in able]))
    update = {field: getattr(judged, field) for field in Judgement.model_fields}
    update |= part_words(finding, judged) | {
        "systems": list(dict.fromkeys(system for _, row in able for system in row.systems)),
        "note": "; ".join(filter(None, (_unlike(judged, able), *_by_runs([(run, row.note) for run, row in able])))),
        "beside": "; ".join(_by_runs([(run, row.beside) for run, row in able])),
        "stands": "on shared cores" if any(row.stands != "yes" for _, row in able) else "yes",
        "needs": _needs(judged),
        "repetitions": None,
        "needed_s": None,
        "judged": judged,
    }
    return [(", ".join(run for run, _ in able), first.model_copy(update=update))]


def _by_runs(words: Sequence[tuple[str, str]]) -> list[str]:
    """What is said of runs, each once, with the runs that it is said of where it is not all of them."""
    runs_of: dict[str, list[str]] = {}
    for run, said in words:
        if said:
            runs_of.setdefault(said, []).append(run)
    return [f"{', '.join(runs)}: " * (len(runs) < len(words)) + said for said, runs in runs_of.items()]


def _unlike(judged: Judgement, able: Rows) -> str:
    """In what the runs are not alike: their numbers, where these differ by more than chance, and their machines."""
    kinds = len({row.machine for _, row in able})
    machines = f"on {count_noun(kinds, 'kind')} of machine" * (kinds > 1)
    if not judged.apart:
        return machines
    made = [(run, row.judged or row) for run, row in able]
    each = [(run, one.parts.get(judged.part) if one.parts else one) for run, one in made]
    numbers = ", ".join(f"{run} {one.value:.3g}" for run, one in each if one and one.value is not None)
    return "; ".join(filter(None, (f"the runs differ: {numbers}", machines)))


def _needs(judged: Judgement) -> str:
    """What would decide it; empty where it is decided, or where something else than its interval leaves it open."""
    if judged.verdict != "undecided" or judged.bound:
        return ""
    if judged.members:
        return "its interval is over the paper's own VPNs that were measured, and no more repetitions narrow it"
    if judged.apart:
        return "more repetitions do not make the runs agree"
    if judged.longer is None:
        return "it lies on the bound, and more repetitions may never tell"
    return f"about {judged.longer:.2g} times the repetitions of these runs would decide it"
