"""``vpneval compare`` in the terminal: the changes first, then how many measurements did not change. Of two builds
there are few measurements, and each is shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from runner.ranking.verdicts import LEVEL
from runner.report import text
from runner.report.compare import COUNTED, SEEN, SIGNIFICANCE, Comparison, MetricChange, Outcome

MOST = 10.0  # a change of more than this is only said to be more
STYLES: Mapping[Outcome, str] = {
    "worse": "bold red",
    "fine": "bold green",
    "cannot tell": "bold yellow",
    "nothing measured": "bold red",
}


def render(comparison: Comparison, console: Console) -> None:
    """Print the changes, then how many measurements did not change."""
    console.print(Text.assemble(("Before ", "cyan"), comparison.before, ("  after ", "cyan"), comparison.after))
    if comparison.machines:
        console.print(Text(f"On the machines with {comparison.machines}"))
    for difference in comparison.differences:
        console.print(Text(f"! the runs differ in {difference}: a change may be due to that", "yellow"))
    shown = [change for change in comparison.changes if comparison.turns or change.verdict not in COUNTED]
    if shown:
        console.print(_table(shown, turns=comparison.turns))
    _print_counts(comparison, console)
    _print_what_was_compared(comparison, console)
    for words, cells in (("before", comparison.only_before), ("after", comparison.only_after)):
        if cells:
            console.print(Text(f"only {words}: {'; '.join(cells)}", "dim"))
    if any(change.reference and change.ratio for change in shown):
        console.print(Text("! the references changed: the machine did, not only the VPNs", "yellow"))
    for agreement in comparison.agreement:
        if agreement.what == "weighted":
            console.print(
                f"ranking {agreement.configuration}, {text.counted(len(agreement.vpns), 'VPN')}: {agreement.said}"
            )
    how = f" (more than each metric's margin; Welch's t, false discovery rate {SIGNIFICANCE:.0%})"
    if comparison.turns:
        how = f" (by the ratios of the rounds; one false verdict or more in {LEVEL:.0%} of such runs at most)"
    said = answer(comparison), STYLES[comparison.outcome]
    console.print(Text.assemble(said, (how if comparison.changes else "", "dim")))


def answer(comparison: Comparison) -> str:
    """The one answer, in words."""
    longer = "Measure longer (vpneval more RUN)" if comparison.turns else "Repeat both runs more often (--reps 5)"
    ends: Mapping[Outcome, str] = {
        "worse": "Significant regression",
        "fine": "No significant regression",
        "cannot tell": f"Cannot tell: no measurement is decided. {longer}",
        "nothing measured": f"The {'builds' if comparison.turns else 'runs'} share no measurement.",
    }
    return ends[comparison.outcome]


def smallest(comparison: Comparison) -> str:
    """How small a difference these runs can see: a sentence, empty where none is known."""
    if comparison.smallest is None or comparison.largest is None:
        return ""
    low, high = (text.percent(min(ratio - 1, MOST)) for ratio in (comparison.smallest, comparison.largest))
    ends = low if low == high else f"{low} to {'more than ' * (comparison.largest - 1 > MOST)}{high}, by measurement"
    which = "this run" if comparison.turns else "these runs"
    return f"The smallest difference that {which} would show, in {SEEN:.0%} of such runs: {ends}."


def _print_counts(comparison: Comparison, console: Console) -> None:
    for verdict in () if comparison.turns else COUNTED:
        number = sum(change.verdict == verdict for change in comparison.changes)
        if number:
            console.print(f"{text.counted(number, 'measurement')}: {verdict}")
    if visible := smallest(comparison):
        console.print(visible)


def _print_what_was_compared(comparison: Comparison, console: Console) -> None:
    """Print whether shares of the baseline or absolute numbers were compared, or that the runs have no measurement in
    common. Builds took turns, so that neither matters."""
    if comparison.turns:
        return
    shares = sum(change.of_baseline for change in comparison.changes)
    if shares:
        rest = len(comparison.changes) - shares
        console.print(
            f"{text.counted(shares, 'measurement')}: compared as shares of each run's own baseline, which a slower or "
            "faster machine does not change" + (f"; {rest} as absolute numbers (marked a)" if rest else ""),
            style="dim",
        )
    elif comparison.changes:
        console.print(
            "Compared as absolute numbers (a): one of the runs has no baseline of the same traffic.", style="dim"
        )


def _table(changes: Sequence[MetricChange], *, turns: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, header_style="bold")
    if not turns:  # the builds are named above
        table.add_column("VPN and levels", overflow="fold")
    table.add_column("metric")
    table.add_column("before → after", justify="right")
    table.add_column("change (95 %)", justify="right")
    table.add_column("verdict", no_wrap=True)
    for change in changes:
        style = "green" if change.verdict == "improvement" else "dim" if change.verdict in COUNTED else "red"
        after = change.reason
        if change.after:
            after = text.with_interval(change.after, change.unit, "after" in change.bounded)
        moved = text.change(change.ratio).replace(" (", "\n(") if change.ratio else text.NONE
        name = Text.assemble((change.vpn, "bold"), "\n", (change.levels, "dim"))
        table.add_row(
            *([] if turns else [name]),
            change.short or change.metric,
            Text(f"{text.with_interval(change.before, change.unit, 'before' in change.bounded)}\n{after}"),
            moved + (" a" if change.ratio and not change.of_baseline and not turns else ""),
            Text(change.verdict, "dim" if change.reference else style),
        )
    return table
