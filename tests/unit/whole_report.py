"""Reports with the answers to all questions, as the commands make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from questions import questions as all_questions
from questions.choose.judgement import Choice
from questions.rank.judgement import Ranked
from runner.data.kinds import Strict
from runner.data.trials import Run, Trial
from runner.design.question import Evidence, Question
from runner.report import model
from runner.report.model import Report

Kind = TypeVar("Kind", bound=Strict)


def build(
    run: Run, trials: Sequence[Trial], *, questions: Sequence[Question[Any]] | None = None, **options: Any
) -> Report:
    """The report, with the answers to all questions, or to these. ``options``: of the evidence."""
    return model.build(
        Evidence(run, trials, **options), [*all_questions().values()] if questions is None else questions
    )


def choice_of(report: Report) -> Choice:
    """What the report says of a line."""
    return _judgement(report, Choice)


def ranked_of(report: Report) -> Ranked:
    """How the report ranks the VPNs."""
    return _judgement(report, Ranked)


def _judgement(report: Report, kind: type[Kind]) -> Kind:
    (made,) = (one.judgement for one in report.judged if isinstance(one.judgement, kind))
    return made
