"""The answer in a terminal: the verdict in words, the ranking as a table of values, what to do next. Fits 80 x 24."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from rich import box
from rich.console import Console
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from runner.data.files import word
from runner.data.metric import Metric
from runner.data.numbers import chance, same
from runner.data.streams import visible_text
from runner.design.question import Next
from runner.evidence.stats import Summary
from runner.ranking.ranking import Ranking, Standing
from runner.ranking.verdicts import Verdict
from runner.report import text
from runner.report.answer import (
    BY_TCP,
    RankingAnswer,
    answers,
    by_tcp,
    go_on,
    groups,
    missing,
    numbers_of,
    order,
    place_of,
    recipe,
    surer,
    unit_of,
    verdict,
)
from runner.report.forms.terminal_answered import print_answers, print_steps
from runner.report.forms.terminal_experiments import answered_by_ranking, render_experiments
from runner.report.headings import machine
from runner.report.kinds import OTHERS
from runner.report.limits import LimitRow, changed_order, rows_of
from runner.report.machines import holds
from runner.report.model import Report
from runner.report.ranked_numbers import RankedNumber
from runner.report.scale import above
from runner.report.verdicts import interval

WIDE = 110  # columns of the terminal from which on intervals stand beside the values
TALL = 40  # lines of the terminal from which on every ranking has its table
# Words for the kinds of limits whose names do not fit in a sentence.
KINDS = {"quota": "a CPU quota", "steal": "the hypervisor", "foreign": "other programs", "path": "the path"} | {
    "thread": "one thread",
    "process": "one process",
    "generator": "the generator of traffic",
    "kernel": "the kernel's work",
    "queue": "a queue",
    "none found": "nothing that was found",
}
NOTHING_TO_RANK = Text.assemble(("Nothing to rank:", "bold red"), " no VPN measured anything in a named configuration.")
HALF = 1.0  # share of the median; a wider half interval is written as a factor


def is_tall(console: Console) -> bool:
    """Is there room for tables in the answer?"""
    return console.height >= TALL or not console.is_terminal


def render_answer(
    report: Report, console: Console, folder: Path | None = None, *, across: bool = False, several: Sequence[Path] = ()
) -> None:
    """Print the answer. ``folder``: the run folder, for the commands that continue the run; ``across``: the answer is
    for one of several kinds of machines; ``several``: the run folders of one report, which have no page together."""
    where = str(folder or report.run_id)
    tall = is_tall(console)
    head = Text.assemble(("vpneval", "bold"), f" · {report.profile} profile · {_trials(report)}")
    console.print(Rule(head, style="cyan"))
    if report.scale:
        console.print(Text(above(report.scale), "yellow"))
    console.print(Text(machine(report), "dim"))
    if report.machines:
        console.print(Text(holds(report.machines[0])))
    print_answers([answered.say(where) for answered in report.leading_answers], console, tall=tall)
    whole = not report.experiments or any(answered_by_ranking(asked, report) for asked in report.experiments)
    all_answers = answers(report) if report.weighed or (whole and report.ranks_count) else []
    ranked = whole and any(answer.groups for answer in all_answers)
    if not ranked and not report.leading_answers:  # one VPN alone has numbers, too
        render_experiments(report, console)
    if not all_answers and not report.leading_answers and not report.experiments:
        console.print(NOTHING_TO_RANK)
    for at, answer in enumerate(all_answers):
        if not answer.groups and any(other.groups for other in all_answers):
            console.print(Text(f"{answer.name[:1].upper() + answer.name[1:]}: too little was measured for a ranking."))
        elif at == 0 or tall:
            _whole(report, answer, console, tall, sentences=tall and at == 0)
        else:
            console.print(_verdict(answer, tall, _first_sentence(answer.verdict)))
    if several:
        console.print(Text.assemble(("See all  ", "cyan"), f"vpneval report {' '.join(map(word, several))} --full"))
    else:
        _next(report, all_answers, where, console, tall, across)


def _verdict(answer: RankingAnswer, tall: bool, sentence: str = "") -> Text:
    meaning = f" ({answer.meaning})" if answer.meaning and tall else ""
    head = Text.assemble((answer.name[:1].upper() + answer.name[1:], "bold cyan"), (f"{meaning}: ", "dim"))
    return head.append(sentence or answer.verdict, "bold")


def _first_sentence(sentences: str) -> str:
    head, end, _ = sentences.partition(". ")
    return head + end.strip()


def _whole(report: Report, answer: RankingAnswer, console: Console, tall: bool, sentences: bool) -> None:
    """Print one ranking's answer with its table. ``sentences``: print a sentence for each VPN on what limits it."""
    ranking = report.rankings[answer.number]
    if tall:
        console.print()
    console.print(_verdict(answer, tall))
    if pairs := [pair for pair in answer.against if tall or pair.decision != "undecided"]:
        first, second = pairs[0].a, pairs[0].b
        ratios = "; ".join(f"{text.short(pair.metric, report.metrics)} {_ratio(pair)}" for pair in pairs)
        console.print(Text(f"{first} over {second}: {ratios}."))
    if answer.broke:
        console.print(Text(" ".join(answer.broke), "yellow"))
    if answer.change and tall:
        console.print(Text(answer.change, "dim"))
    if answer.groups:
        numbers = numbers_of(report, answer.number)
        console.print(values_table(ranking, numbers, report.metrics, console.width, ruled=tall))
        _limits(report, ranking, console, whole=sentences)
    by_preset = by_tcp(report, answer)
    left = [absent for absent in answer.absent if tall or not (by_preset and absent.how == BY_TCP)]
    if left:
        not_ranked = " ".join(missing(answer.model_copy(update={"absent": left})))
        console.print(Text.assemble(("Not ranked: ", "yellow"), not_ranked))
    if by_preset:
        console.print(_tcp_verdict(report, by_preset, whole=sentences))


def _limits(report: Report, ranking: Ranking, console: Console, *, whole: bool) -> None:
    """Print what limits the ranked VPNs in the first throughput that counts, and what separate gateways would change.
    ``whole``: print a sentence for each VPN, else the kinds of limits in a line."""
    placed = {standing.vpn for standing in ranking.standings if standing.place}
    known = [row for row in rows_of(report.limits, ranking.as_configured) if row.vpn in placed]
    metric = next(
        (metric for metric in ranking.weights.counted_metrics if any(row.metric == metric for row in known)), ""
    )
    if not metric:
        return
    rows = [row for row in known if row.metric == metric]
    title = report.metrics[metric].title
    changed = changed_order(report.limits, ranking.as_configured, title)
    if not whole:
        sentence = f"{text.short(metric, report.metrics)} is limited by {_kinds(rows)}."
        console.print(Text(sentence + (" Separate gateways might change the order." if changed else ""), "dim"))
        return
    console.print(Text(f"What limits {text.lower(title)}", "cyan"))
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for row in rows:
        grid.add_row(f"  {row.vpn}", Text(row.says, "dim"))
    console.print(grid)
    if changed:
        console.print(Text(f"{changed[:1].upper()}{changed[1:]}", "dim"))


def _kinds(rows: Sequence[LimitRow]) -> str:
    """The kinds of limits with their VPNs: ``shared cores (openvpn, ssh_tun), a queue (ipsec_user)``."""
    vpns: dict[str, list[str]] = {}
    for row in rows:
        vpns.setdefault(KINDS.get(row.limit.kind, row.limit.kind), []).append(row.vpn)
    return ", ".join(f"{kind} ({', '.join(names)})" for kind, names in vpns.items())


def _tcp_verdict(report: Report, ranking: Ranking, *, whole: bool) -> Text:
    """The verdict of the ranking that has every VPN, also those that carry TCP only."""
    words = visible_text(verdict(ranking, report.verdicts))
    head = Text.assemble(("TCP only", "bold cyan"), (" (--weights tcp): ", "dim"))
    if not whole:
        return head.append(_first_sentence(words), "bold")
    return head.append(words, "bold").append(f" Order: {visible_text(order(groups(ranking)))}.")


def values_table(
    ranking: Ranking,
    numbers: Mapping[str, RankedNumber],
    metrics: Mapping[str, Metric],
    width: int,
    *,
    ruled: bool = True,
) -> Table:
    """The ranking as values: a row for each VPN, a column for each metric that counts. A cell has the value and its 95
    % interval, or half of that in % where the terminal is narrow. VPNs that cannot be told apart share a place.
    ``ruled``: draw a line below the head."""
    counted = [metric for metric in ranking.weights.counted_metrics if metric in numbers]
    wide = width >= WIDE
    lines = box.SIMPLE_HEAD if ruled else None
    table = Table(box=lines, padding=(0, int(wide or not ruled), 0, 0), show_edge=False, header_style="bold")
    table.add_column("#", justify="right")
    table.add_column("VPN", no_wrap=True, min_width=11)
    table.add_column("first", justify="right", no_wrap=True)
    units = {}
    for metric in counted:
        units[metric] = unit_of(numbers[metric], metrics[metric].unit)
        weight = ranking.weights.counted_metrics[metric]
        head = text.short(metric, metrics) + (f" ×{weight:g}" if weight != 1 else "")
        table.add_column(f"{head}\n{units[metric][1]}", justify="right", no_wrap=wide, overflow="fold")
    best = {metric: _best(numbers[metric], metrics[metric]) for metric in counted}
    places, leaders = place_of(ranking), next(iter(groups(ranking)), [])
    for standing in ranking.standings:
        if not any(standing.vpn in numbers[metric].summaries for metric in counted):
            continue
        leads = standing.vpn in leaders
        row = [Text(places.get(standing.vpn, text.NONE)), Text(standing.vpn, "bold green" if leads else "bold")]
        row.append(Text(chance(standing.best_probability)))
        row += [_value(numbers[metric], standing, units[metric][0], wide, best[metric]) for metric in counted]
        table.add_row(*row, style="" if standing.place else "dim")
    return table


def _value(numbers: RankedNumber, standing: Standing, scale: float, wide: bool, best: Set[str]) -> Text:
    summary = numbers.summaries.get(standing.vpn)
    if summary is None:
        return Text(text.NONE, "dim")
    value = Text(text.digits(summary.median / scale), "green" if standing.vpn in best else "")
    if standing.vpn in numbers.at_least:
        value = Text("≥ ").append_text(value)
    return value.append(_spread(summary, scale, wide), "dim")


def _spread(summary: Summary, scale: float, wide: bool) -> str:
    if wide:
        return f" ({text.spread(summary, scale)})"
    if summary.low is None or summary.high is None:
        return "?"
    half = (summary.high - summary.low) / 2 / summary.median if summary.median else 0.0
    if half <= HALF or summary.low <= 0:
        return f"±{100 * half:.0f}%"
    factor = math.sqrt(summary.high / summary.low)
    if factor >= text.HUGE:
        return f"×÷>{text.HUGE}"
    return f"×÷{factor:.0f}" if factor >= 10 else f"×÷{factor:.2g}"


def _best(numbers: RankedNumber, metric: Metric) -> set[str]:
    """The VPNs with the best median."""
    medians = {vpn: summary.median for vpn, summary in numbers.summaries.items()}
    best = max(medians.values()) if metric.better == "higher" else min(medians.values())
    return {vpn for vpn, median in medians.items() if same(median, best)}


def _ratio(pair: Verdict) -> str:
    ratio = f"{pair.ratio:.3g}"
    if pair.decisive_low is not None and pair.decisive_high is not None:
        ratio += f" ({interval(pair)})"
    return f"{ratio}, {pair.decision}"


def _next(
    report: Report, all_answers: Sequence[RankingAnswer], where: str, console: Console, tall: bool, across: bool
) -> None:
    """Print what to do next: read the page, set up the tunnel, measure longer, and see everything else."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="cyan", no_wrap=True)
    grid.add_column(overflow="fold")
    if report.leading_answers and not all_answers:
        steps = [step for answered in report.leading_answers for step in answered.say(where).steps]
        print_steps([*steps, Next("See all", f"vpneval report {word(where)} --full")], console)
        return
    if not across:  # the page of the run is about one kind of machine
        grid.add_row("Read", f"{where}/report.html")
    leader = next((answer.groups[0][0] for answer in all_answers if answer.groups), "")
    if leader:
        levels = next(
            standing.levels for standing in report.rankings[all_answers[0].number].standings if standing.vpn == leader
        )
        grid.add_row("Set it up", recipe(leader, levels, report.asked))
    unsure = next((answer for answer in all_answers if answer.open), None)
    if unsure and go_on(report, unsure, where):
        grid.add_row("Be surer", surer(report, unsure, where))
    if across:
        grid.add_row("See all", f"vpneval report {word(where)} --across machines --full")
    else:
        grid.add_row("See all", f"vpneval report {word(where)} --full")
        if any(fact.name == f"lab {OTHERS}" for fact in report.facts):
            grid.add_row("Other kinds", f"vpneval report {word(where)} --across machines")
    console.print(grid)


def _trials(report: Report) -> str:
    return f"{text.trials(report.trials) or 'no trials'} in {text.duration(report.elapsed_s)}"
