"""Blocks in every form: each kind is rendered once, escaped, and what a form cannot show is left out."""

import io
import re

from rich.console import Console

from runner.design.blocks import Block, Heading, Hyperlink, Note, Paragraph, Plot, Table, TableCell
from runner.report.document import for_a_paper, whole
from runner.report.forms import latex, markdown, terminal
from runner.report.forms.elements import blocks_html
from tests.unit.reports import realistic

EVIL = "<b>_%|"
SECTION: list[Block] = [
    Heading(f"Heading {EVIL}", "here"),
    Paragraph(f"about {EVIL}"),
    Paragraph(f"it comes to {EVIL}", "strong"),
    Table(
        f"Title {EVIL}",
        ["VPN", "rate", "why"],
        [
            [
                TableCell(f"vpn {EVIL}", small=f"levels {EVIL}", name="row-1", link=Hyperlink("", name="elsewhere")),
                "341 (325–358)",
                TableCell(
                    f"why {EVIL}", note=1, link=Hyperlink("commands", file="logs/a b/<c>"), opens=[Note(f"more {EVIL}")]
                ),
            ],
            ["other", "FAIL", "pass"],
        ],
        about=f"how {EVIL}",
        notes=[Note(f"is noted {EVIL}", lead="other")],
        numbers=[1],
        named=True,
        name="table-1",
    ),
    Plot("key", f"Plot {EVIL}", f"alt {EVIL}", {"mark": EVIL}),
    [Note(f"explains {EVIL}", lead="failed", number=1), Note("and more")],
    Hyperlink("What it measured", name="elsewhere"),
    Paragraph("a,b,c", "code", lead="a line"),
]


def shown(blocks: list[Block]) -> str:
    console = Console(width=100, file=io.StringIO(), record=True)
    terminal.print_blocks(blocks, console)
    return console.export_text()


def test_every_kind_of_block_is_in_every_form_and_escaped() -> None:
    page, md, tex, term = (
        str(blocks_html(SECTION)),
        "\n".join(markdown.lines_of(SECTION)),
        "\n".join(latex.lines_of(SECTION)),
        shown(SECTION),
    )
    for text, evil in ((page, "&lt;b&gt;_%|"), (md, r"&lt;b&gt;_%\|"), (term, EVIL)):
        for words in ("Heading", "about", "it comes to", "Title", "vpn", "why", "how", "is noted", "explains"):
            assert f"{words} {evil}" in text
    for words in ("about", "it comes to", "Title", "vpn", "why", "how", "is noted", "explains"):
        assert rf"{words} \textless{{}}b\textgreater{{}}\_\%\textbar{{}}" in tex
    assert "<b>" not in page + md + tex
    for text in (page, md, tex, term):
        assert "341 (325" in text
        assert "and more" in text
        assert re.search(r"other\S* is noted", text)
        assert "a line" in text
        assert "a,b,c" in text


def test_the_page_has_what_only_a_page_can_show() -> None:
    page = str(blocks_html(SECTION))
    assert page.startswith('<section id="here"')
    assert 'id="row-1"' in page
    assert page.count('href="#elsewhere"') == 2
    assert 'href="./logs/a%20b/%3Cc%3E">commands</a>' in page
    assert "<details><summary>why &lt;b&gt;_%|</summary><ul><li>more" in page
    assert "levels &lt;b&gt;" in page
    assert r'{"mark":"\u003cb>_%|"}' in page
    assert '<td class="bad">FAIL</td>' in page
    assert '<td class="good">pass</td>' in page
    assert "<td class=number>341" in page
    others = ("\n".join(markdown.lines_of(SECTION)), "\n".join(latex.lines_of(SECTION)), shown(SECTION))
    for other in others:
        assert not any(words in other for words in ("commands", "elsewhere", "more <", "mark"))
    assert ["levels <" in other for other in others] == [False, False, True], "a terminal has second lines, too"
    assert not blocks_html([])


def test_a_section_of_a_ranking_unfolds_and_what_it_comes_to_stands_above() -> None:
    page = str(blocks_html([Heading("Verdicts", fold="The verdict on each pair"), *SECTION[1:3]]))
    assert re.search(r"^<p>it comes to.*<details><summary>The verdict on each pair</summary><p>about", page, re.S)


def test_numbers_lead_from_a_cell_to_its_note() -> None:
    for lines, cell, note in (
        (markdown.lines_of(SECTION), r"\| (1) |", "1. **failed** explains"),
        (latex.lines_of(SECTION), r"\textbar{} [1] \\", r"\par\noindent [1] failed: explains"),
    ):
        assert any(cell in line for line in lines)
        assert any(line.startswith(note) for line in lines)


def test_the_caption_of_a_table_in_a_paper_says_whose_it_is() -> None:
    (caption,) = (line for line in latex.lines_of(SECTION[:1] + SECTION[3:4]) if "caption" in line)
    assert re.fullmatch(r"\\caption\{Heading .*: Title .*; how .* other is noted .*\.\}", caption)


def test_a_paper_takes_up_tables_that_the_whole_report_has() -> None:
    every, taken = (
        [one for one in blocks if isinstance(one, Table)]
        for blocks in (whole(realistic(), {}), for_a_paper(realistic()))
    )
    assert len(taken) > 3
    assert all(one in every for one in taken)
    assert len(every) > len(taken)
