"""Reports of the run folders that a command line names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import nullcontext
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

from runner.cli.options import clock, tell

if TYPE_CHECKING:
    from runner.data.metric import Metric
    from runner.data.needs import Needs
    from runner.data.trials import Run
    from runner.ranking.model import Weights as GivenWeights
    from runner.report.model import Report


MANY = 5000  # trials, from which on it is said what is going on
Stating = Callable[["Needs"], "Needs"]


def weights_of(text: str, run: Run, measured: Collection[str] | None = None) -> GivenWeights | None:
    """The weights in ``text``, checked against the metrics of this vpneval and of the run; ``measured``: see
    ``parse_weights``."""
    if not text:
        return None
    from runner.catalogue import metrics
    from runner.ranking.weights import parse_weights

    return parse_weights(text, metrics() | run.metrics, measured)


def report_of(
    folders: list[Path],
    weights: str,
    configuration: str = "",
    margin: str = "",
    needs: Stating | None = None,
    question: str = "",
    paper: str = "",
) -> Report:
    """One report of runs that belong together; where they have several kinds of machines, that of the kind with most
    trials. Raises UsageError for invalid options."""
    return next(reports_of(folders, weights, configuration, margin, needs, question, paper))


def _metrics_ever() -> Mapping[str, Metric]:
    """What an older run does not tell of its metrics; only then the instruments are loaded."""
    from runner.catalogue import metrics_ever

    return metrics_ever()


def reports_of(
    folders: list[Path],
    weights: str,
    configuration: str = "",
    margin: str = "",
    needs: Stating | None = None,
    question: str = "",
    paper: str = "",
) -> Iterator[Report]:
    """A report for each kind of machine of runs that belong together. ``needs``: makes the run's needs what this
    command states; ``question``: the only one that is asked; ``paper``: the only one whose findings are judged. Raises
    as `report_of` does."""
    from questions import USUAL, load_question, questions
    from questions.papers import Papers
    from runner.data.errors import UsageError
    from runner.data.irregular import load_told
    from runner.data.merge import distinct, merge_runs
    from runner.data.trials import measured_metrics
    from runner.design.question import Evidence
    from runner.ranking.margins import with_margins
    from runner.report.kinds import by_kind
    from runner.report.model import build

    own = [Papers(paper)] if paper else [load_question(question)] if question not in ("", USUAL) else []
    asked = [*own, questions()[USUAL]] if own or question else [*questions().values()]
    read = [load_told(folder, _metrics_ever) for folder in folders]
    lacks = [sentence for _, _, told in read for sentence in told]
    for (a, (_, ours, _)), (b, (_, theirs, _)) in combinations(zip(folders, read, strict=True), 2):
        if ours and ours == theirs:
            raise UsageError(f"{a} and {b} hold the same measurements, which would count twice. Name one of them")
    for sentence in lacks:
        tell(f"Warning: {sentence}")
    whole, every = merge_runs(
        [*zip(distinct([run for run, _, _ in read], folders), (trials for _, trials, _ in read), strict=True)]
    )
    whole = whole.model_copy(update={"needs": needs(whole.needs)}) if needs else whole
    if len(every) >= MANY:
        tell(f"Read {len(every):,} trials of {len(whole.vpns)} VPNs.")
    for run, trials in by_kind(with_margins(whole, margin), every):
        given = weights_of(weights, run, measured_metrics(trials))
        with clock("Comparing the VPNs ...") if len(every) >= MANY else nullcontext():
            made = build(Evidence(run, trials, given, configurations=[configuration] if configuration else None), asked)
        if len(every) >= MANY:
            tell("Compared them. Writing the report ...")
        yield made.model_copy(update={"caveats": [*lacks, *made.caveats]})


def of_kinds(number: int, kinds: int) -> str:
    """The heading of one of several kinds of machines."""
    return f"kind of machine {number} of {kinds}"
