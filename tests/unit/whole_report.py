"""Reports with the answers to all questions, as the commands make them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from questions import questions
from questions.choose.judgement import Choice
from runner.data.trials import Run, Trial
from runner.report import model
from runner.report.model import Report


def build(run: Run, trials: Sequence[Trial], **options: Any) -> Report:
    """The report, with the answers to all questions."""
    return model.build(run, trials, questions=[*questions().values()], **options)


def choice_of(report: Report) -> Choice:
    """What the report says of a line."""
    (made,) = (one.judgement for one in report.leading_answers if isinstance(one.judgement, Choice))
    return made
