"""The report in a terminal: the answer, and with ``full`` every table before it. Fits 80 columns, better at 100."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from rich import box
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from runner.design import blocks
from runner.design.blocks import Block, Heading, Paragraph, TableCell, cell
from runner.report import text
from runner.report.document import number_cells, opening, warnings
from runner.report.experiments import ExperimentReport, MetricTable, Row, row_levels
from runner.report.facts import Fact, interval_method
from runner.report.forms.terminal_answer import is_tall, render_answer
from runner.report.forms.terminal_answered import TONES, headless_grid, lead_and_words, print_beside
from runner.report.forms.terminal_experiments import render_experiments
from runner.report.model import Report
from runner.report.scale import above

WIDE = 100
LONG = 60  # characters of a cell from which on a table is printed as cards
FACTS_SHOWN = ("lab kind", "lab kernel", "lab guest", "lab cpu", "lab cores", "image name")
SENTENCES_SHOWN = 12
REASON_SHOWN = 400
STYLES = {"strong": "bold", "good": "bold green", "bad": "bold red", "caveat": "yellow"}
COLOUR = {"failed": "bold red", "lab_error": "bold red", "partly": "red", "unsupported": "yellow"}


def render(
    report: Report,
    console: Console,
    *,
    full: bool = False,
    folder: Path | None = None,
    across: bool = False,
    several: Sequence[Path] = (),
) -> None:
    """Print the report to ``console``, in its width and colours: the answer, and with ``full`` every table before it.
    ``folder``, ``across``, ``several``:
    see ``render_answer``."""
    answered = any(said.compares is None for said in report.lead(report.run_id))
    if full or not (report.experiments or answered):
        _tables(report, console)
    if full and not is_tall(console):  # else the answer has it
        for said in report.lead(report.run_id):
            print_beside(said.beside, console)
    render_answer(report, console, folder, across=across, several=several)


def _tables(report: Report, console: Console) -> None:
    """Print the tables that the answer is made from."""
    _header(report, console)
    render_experiments(report, console)
    for said in report.lead(report.run_id):
        print_blocks(said.tables, console)
    if report.references:
        console.print(_dim(f"Shown for reference, not ranked: {', '.join(report.references)}"))
    for experiment in report.experiments:
        _experiment(experiment, console)
    for section in report.sections.values():
        print_blocks(section, console)
    if report.experiments:
        console.print(_dim("\n" + interval_method(report.summaries)))
    print_blocks(warnings(report), console)
    console.print()


def print_blocks(section: Sequence[Block], console: Console) -> None:
    """Print words and tables, in the width of the console. Links and plots are left out: only the page has them."""
    for block in section:
        match block:
            case Heading(words):
                console.print()
                console.print(Rule(Text(words, "bold"), style="cyan", align="left"))
            case Paragraph(words, "code", lead):
                console.print(Text.assemble((f"{lead}  ", "cyan"), words))
            case Paragraph(words, kind, ""):
                console.print(Text(words, STYLES.get(kind, "dim")))
            case Paragraph():
                console.print(lead_and_words(replace(block, words=_short(block.words))))
            case blocks.Table():
                _print_table(block, console)
            case list():
                _remarks([note.text for note in block], console)


def _print_table(table: blocks.Table, console: Console) -> None:
    if table.title:
        about = f"  {table.about}" * bool(table.about)
        console.print(Text.assemble("\n", (table.title, "bold cyan"), (about, "dim")))
    rows = [[cell(content) for content in row] for row in table.rows]
    wordy = any(len(line) > LONG for row in rows for entry in row for line in entry.words.splitlines())
    if not table.head:
        console.print(headless_grid(table))
    elif rows:
        console.print(_cards(table.head, rows) if wordy else _grid(table, rows, console.width))
    for note in table.notes:
        console.print(_dim(f"  {note.text}"))


def _grid(table: blocks.Table, rows: Sequence[Sequence[TableCell]], width: int) -> Table:
    """Columns of words are folded where the terminal is narrow; those of numbers never are, if there is room."""
    grid = Table(box=box.SIMPLE_HEAD, padding=(0, int(width >= WIDE), 0, 0), show_edge=False, header_style="bold")
    for column, head in enumerate(table.head):
        number = column in table.numbers
        grid.add_column(head, overflow="fold", justify="right" if number else "left")
    for row in rows:
        grid.add_row(*[_two_lines(entry, "\n") for entry in row])
    return grid


def _two_lines(entry: TableCell, between: str, style: str = "") -> Text:
    """The words of a cell, and its second line."""
    small = [(f"{between}{entry.small}", "dim")] if entry.small else []
    return Text.assemble((entry.words, style or TONES.get(entry.tone, "")), *small)


def _cards(heads: Sequence[str], rows: Sequence[Sequence[TableCell]]) -> Table:
    """A table of sentences as cards, without columns: the first cell of a row, and below it each other cell after its
    head."""
    cards = Table.grid(padding=(0, 1, 0, 0))
    cards.add_column(overflow="fold")
    for first, *others in filter(None, rows):
        cards.add_row(_two_lines(first, "  ", "bold"))
        for head, entry in zip(heads[1:], others, strict=True):
            if entry.words:
                cards.add_row(Text.assemble((f"  {head}: ", "dim"), (entry.words, TONES.get(entry.tone, ""))))
    return cards


def _header(report: Report, console: Console) -> None:
    share = "" if report.measuring_share is None else f", {text.percent(report.measuring_share, 0)} of it measuring"
    console.print(Rule(Text(f"vpneval · {report.run_id}", "bold"), style="cyan"))
    if report.scale:
        console.print(Text(above(report.scale), "yellow"))
    profile = Text.assemble((f" {report.profile} ", "bold reverse"), " ", (report.profile_note, "italic"))
    console.print(profile)
    if report.command_line:
        console.print(_label_value("command", report.command_line))
    bad = "bold red" if report.trials["failed"] or report.trials["lab_error"] else ""
    console.print(
        _label_value("trials", f"{text.trials(report.trials) or 'none'}; {text.duration(report.elapsed_s)}{share}", bad)
    )
    if report.separation:
        console.print(_label_value("until", report.separation))
    facts = {fact.name: fact for fact in report.facts if fact.value}
    lab = " · ".join(_fact(facts[name]) for name in FACTS_SHOWN if name in facts)
    console.print(_label_value("lab", lab))
    versions = [fact.value for fact in report.facts if fact.name.startswith("version of ")]
    if versions:
        console.print(_label_value("versions", " · ".join(dict.fromkeys(versions))))
    console.print(_label_value("cite", report.citation))
    _remarks(report.caveats, console)


def _fact(fact: Fact) -> str:
    return text.count_noun(fact.count, "core") if fact.name == "lab cores" and fact.count is not None else fact.value


NUMBERS = 63  # characters that the columns of numbers take, with gaps
NARROW = 57  # the same without gaps


def _experiment(experiment: ExperimentReport, console: Console) -> None:
    print_blocks(opening(experiment), console)
    rows = [row for table in experiment.tables for row in table.measured_rows]
    stacked = console.width < WIDE
    widths = (
        max((len(row.vpn) for row in rows), default=0),
        max((len(row_levels(row)) for row in rows), default=0),
    )
    for table in experiment.tables:
        _metric(table, widths, stacked, console)
    for problem in experiment.problems:
        line = Text.assemble(
            (f"[{problem.number}] {problem.status}", COLOUR.get(problem.status, "dim")),
            (f" {', '.join(problem.cells)}", "bold"),
            f": {_short(problem.reason)}",
        )
        console.print(_hanging(line))


def _metric(metric: MetricTable, widths: tuple[int, int], stacked: bool, console: Console) -> None:
    arrow = "higher is better" if metric.better == "higher" else "lower is better"
    console.print(Text.assemble("\n", (metric.title, "bold cyan"), (f"  {arrow} · {metric.common}", "dim")))
    if metric.measured_rows:
        console.print(_table(metric, widths, stacked, console.width))
    if metric.crypto_limit:
        console.print(_dim(metric.crypto_limit))
    by_status: dict[str, list[Row]] = {}
    for row in [row for row in metric.rows if row.reason]:
        by_status.setdefault(row.status, []).append(row)
    for status, rows in sorted(by_status.items(), key=lambda item: item[0] not in ("failed", "lab_error", "partly")):
        cells = Counter((row.vpn, row.problem) for row in rows)
        names = [f"{vpn}{f' ×{many}' if many > 1 else ''} [{problem}]" for (vpn, problem), many in cells.items()]
        console.print(_hanging(Text.assemble((f"{status}  ", COLOUR.get(status, "dim")), ", ".join(names))))


def _table(metric: MetricTable, widths: tuple[int, int], stacked: bool, width: int) -> Table:
    """The table of one metric, a line for each row. In a narrow terminal the levels stand below the VPN's name."""
    gap = 0 if stacked else 1
    table = Table(box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), show_edge=False, header_style="bold")
    levelled = any(row_levels(row) for row in metric.measured_rows)
    head = min(max(widths), width - NARROW) if stacked else widths[0]
    table.add_column("VPN", min_width=head, overflow="fold")
    if levelled and not stacked:
        table.add_column("levels", min_width=min(widths[1], width - widths[0] - NUMBERS), overflow="fold")
    table.add_column("median (95 % interval)", justify="right", min_width=24, no_wrap=True)
    share = "of the baseline" if metric.better == "higher" else "× baseline"
    table.add_column(share, justify="right", min_width=19, no_wrap=True)
    table.add_column("n", justify="right", min_width=3, no_wrap=True)
    table.add_column("CoV%", justify="right", min_width=4, no_wrap=True)
    many = Counter(row.vpn for row in metric.measured_rows)
    last = ""
    for row in metric.measured_rows:
        style = "dim" if row.reference else "red" if row.status == "partly" else ""
        name = Text("" if row.vpn == last else row.vpn, style or "bold")
        levels = Text(row_levels(row), "magenta" if row.not_encrypted else style or "dim" * stacked)
        if stacked and name and many[row.vpn] > 1:
            table.add_row(name)
        if stacked and levelled:
            name = levels if many[row.vpn] > 1 else Text.assemble(name, "\n", levels)
        last = row.vpn
        *numbers, variation = number_cells(row, metric)
        cells = [Text(number, style) for number in (*numbers, variation.removesuffix(" %"))]
        table.add_row(name, *([levels] if levelled and not stacked else []), *cells)
    return table


def _remarks(sentences: Sequence[str], console: Console) -> None:
    for sentence in sentences[:SENTENCES_SHOWN]:
        console.print(_hanging(Text.assemble(("! ", "bold yellow"), _short(sentence))))
    if len(sentences) > SENTENCES_SHOWN:
        console.print(_dim(f"  and {len(sentences) - SENTENCES_SHOWN} more in report.html"))


def _hanging(sentence: Text) -> Table:
    """Text whose second and further lines are indented."""
    grid = Table.grid(padding=0)
    grid.add_column(width=2)
    grid.add_column(overflow="fold")
    head, rest = sentence[:2], sentence[2:]
    grid.add_row(head, rest)
    return grid


def _label_value(label: str, value: str, style: str = "") -> Table:
    grid = Table.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=8, style="cyan")
    grid.add_column(overflow="fold")
    grid.add_row(label, Text(value, style))
    return grid


def _dim(sentence: str) -> Text:
    return Text(sentence, "dim")


def _short(reason: str) -> str:
    """A reason as one line: its beginning and its end, where daemons say what went wrong."""
    line = " ".join(reason.split())
    return line if len(line) <= REASON_SHOWN else f"{line[: REASON_SHOWN // 2]} … {line[-REASON_SHOWN // 2 :]}"
