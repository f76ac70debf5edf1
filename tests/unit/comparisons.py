"""Comparisons and trends as the commands show them."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console

from questions.compare.blocks import say
from questions.compare.judgement import Comparison, Comparisons
from questions.compare.trends import Trend, sections_of
from runner.cli.compared import text_of
from runner.report.forms.elements import page
from runner.report.forms.terminal import print_blocks


def form_of(comparison: Comparison, form: str = "html") -> str:
    """The comparison in a form that is text."""
    return text_of(Comparisons(comparisons=[comparison]), form)


def printed(comparison: Comparison, width: int = 100) -> str:
    """What a terminal of this width shows of the comparison."""
    console = Console(width=width, file=io.StringIO(), record=True)
    print_blocks(say(Comparisons(comparisons=[comparison])).brief, console)
    return console.export_text()


def history_html(trends: Sequence[Trend]) -> str:
    """The page of ``vpneval history``."""
    return page("vpneval history", *sections_of(trends))
