"""The forms of a whole report that are text, by the name that ``--format`` takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from runner.report.forms.bibtex import bibtex
from runner.report.forms.html import html_text
from runner.report.forms.latex import latex_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.tables import csv_text, json_text
from runner.report.model import Report


@dataclass(frozen=True)
class Form:
    """A form of the report. ``text`` makes it from a report and the folder of its run, None where it has none;
    ``one_report``: it can hold one report only; ``beside``: every run folder contains it."""

    name: str
    text: Callable[[Report, Path | None], str]
    one_report: bool
    beside: bool


FORMS = {
    form.name: form
    for form in (
        Form("html", html_text, one_report=True, beside=True),
        Form("md", lambda report, folder: markdown_text(report, folder=folder), one_report=False, beside=True),
        Form("latex", lambda report, _: latex_text(report), one_report=True, beside=False),
        Form("bib", lambda report, _: bibtex(report), one_report=True, beside=False),
        Form("json", lambda report, _: json_text(report), one_report=False, beside=True),
        Form("csv", lambda report, _: csv_text(report), one_report=True, beside=True),
    )
}
