"""The answer on one A4 page, as PDF, for a reader who was told nothing: what the question that leads says on one page,
then the machine, the day, and how to cite the run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from runner.data.errors import UsageError
from runner.design.blocks import Block, Heading, Note, Paragraph
from runner.report import document
from runner.report.forms.bibtex import bibtex
from runner.report.forms.elements import blocks_html, fill, resource
from runner.report.forms.pdf import pdf_bytes
from runner.report.headings import machine
from runner.report.model import Report

SIZES = (1.0, 0.9, 0.8, 0.7, 0.6)  # of the usual text, the largest with which it fits
CAVEATS = 3  # the gravest, which come first
PAGE = re.compile(rb"/Type /Page\b")


def onepage_pdf(report: Report, folder: Path | None) -> bytes:
    """The page. Raises UsageError where the run has no answer, and as ``pdf_bytes`` does."""
    answer, *others = _sections([*_answer(report), *_origin(report, str(folder or report.run_id))])
    assert isinstance(answer[0], Heading)
    for size in SIZES:
        style = f"{resource('page.css')}{resource('onepage.css')}body {{ zoom: {size} }}"
        body = [blocks_html(answer[1:]), *map(blocks_html, others)]
        made = pdf_bytes(fill("base.html.j2", answer[0].words, sections=body, style=style))
        if len(PAGE.findall(made)) == 1:
            return made
    raise UsageError("the answer does not fit on a page. Name fewer VPNs, or take --format pdf")


def _answer(report: Report) -> Sequence[Block]:
    """What the first question that leads says on one page."""
    said = (one.question.onepage(one.judgement) for one in report.judged if one.question.leads)
    if found := next(filter(None, said), None):
        return [*found, *document.no_scale(report)]
    raise UsageError(f"run {report.run_id} has no answer yet: measure more, or see --format pdf")


def _origin(report: Report, where: str) -> Iterator[Block]:
    """Where the numbers come from, and what to know before believing them."""
    yield Heading("Where this comes from")
    yield [
        Note(f"{machine(report)}.", "Machine:"),
        Note(f"{report.created_at[:10]}; {report.profile_note}.", "Measured on:"),
        *(Note(caveat, "Mind:") for caveat in report.caveats[:CAVEATS]),
        Note(f"vpneval report {where} --format pdf", "The whole report:"),
        *_steps(report, where),
        Note(report.citation, "To cite it:"),
    ]
    yield Paragraph(" ".join(bibtex(report).split()), "code", lead="BibTeX")


def _steps(report: Report, where: str) -> Iterator[Note]:
    """What to do next."""
    said = next((one.question.say(one.judgement, where) for one in report.judged if one.question.leads), None)
    yield from (Note(step.command, f"{step.word}:") for step in (said.steps if said else ()))


def _sections(blocks: Sequence[Block]) -> list[list[Block]]:
    """The blocks, cut before each heading."""
    made: list[list[Block]] = []
    for block in blocks:
        if isinstance(block, Heading):
            made.append([])
        made[-1].append(block)
    return made
