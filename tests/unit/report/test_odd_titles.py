"""A metric's title is what a stranger's instrument says it is: whatever is in it, plots and pages are made."""

from __future__ import annotations

import pytest

from runner.data.streams import visible_text
from runner.report.plots import vega

ODD = [
    "\u2028",
    "\u2029",
    "\x85",
    "\x0b",
    "\x1e",
    "\n",
    "\r\n",
    "\t",
    "'",
    '"',
    "\\",
    r"\u2028",
    r"\x0b",
    "]",
    "<b>&amp;",
]


@pytest.mark.parametrize("odd", ODD)
def test_a_plot_is_drawn_whatever_its_title_has(odd: str) -> None:
    title, field = f"round{odd}trip", f"a{odd}b"
    spec = {
        "data": {"values": [{"v": 1, field: 2}]},
        "mark": {"type": "point", "tooltip": True},
        "title": title,
        "encoding": {
            "x": {"field": "v", "type": "quantitative", "title": title},
            "color": {"field": "v", "type": "nominal", "title": title},
            "tooltip": [{"field": "v", "title": title}],
        },
    }
    assert "round" in vega.svg(spec)
    assert vega.png(spec).startswith(b"\x89PNG")


def test_what_ends_a_line_in_a_script_is_shown_as_text() -> None:
    assert visible_text("a\u2028b\u2029c\x85") == r"a\u2028b\u2029c\u0085"
