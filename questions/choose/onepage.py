"""The choice on one page, for a reader who was told nothing: what to take and how sure that is, what was assumed, five
numbers of each VPN, and why not the others."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from questions.choose import must_words, state_words, words
from questions.choose.judgement import Choice
from runner.choice.answer import answer
from runner.choice.grade import grade_device
from runner.choice.model import Answer, Certainty, Grade
from runner.choice.musts import words_of
from runner.choice.thresholds import USUAL
from runner.data.needs import Needs
from runner.design.blocks import Block, Heading, Note, Paragraph, Table, TableCell
from runner.evidence.intervals import ENDS, Array
from runner.report import text

EXAMPLE_BPS = 1e8  # the line of which a page without a stated one gives cores and reasons
MOST_ROWS, MOST_REASONS = 10, 8
SURENESS: dict[Certainty, str] = {
    "sure": "This is sure",
    "probably": "This is probable, and not sure",
    "open": "This is not decided, and measuring longer would tell more",
}
UNSTATED = Paragraph(
    "No line was stated, so this page answers for every line. State yours (--line 100M) for one answer."
)


def onepage(choice: Choice) -> list[Block]:
    """All of it as sections. Where the machine forbids an answer, that alone."""
    if state_words.no_answer(choice):
        return [Heading(words.headline(choice))]
    needs = choice.needs if choice.answer else choice.needs.on_line(EXAMPLE_BPS)
    said = choice.answer or answer(choice.devices, words_of(choice.states), needs, state=choice.machine)
    return [
        Heading(words.page_headline(choice)),
        *_how_sure(choice),
        Heading("What was assumed"),
        list(_assumptions(choice)),
        Heading("What each VPN carries and costs"),
        _numbers(said, choice, needs),
        Heading(f"Why not another one{'' if choice.answer else f', on a line of {words.line_words(needs)}'}?"),
        list(_reasons(choice, said)),
    ]


def _how_sure(choice: Choice) -> Iterator[Block]:
    """How sure the answer for the line is; without a line, the answer for each, with how sure that is."""
    said = choice.answer
    if said is None:
        yield UNSTATED
        yield Table("", ["your line", "take"], [[row.lines, row.vpns] for row in words.lines(choice)])
        return
    sentences = [f"{SURENESS[said.certainty]}.", state_words.steadiness(choice), state_words.disturbance(choice)]
    if said.named:
        first = said.candidate_of(said.named[0])
        sentences.append(
            f"As far as the numbers scatter, {first.vpn} is among the best VPNs for this line with a chance of "
            f"{_chance(first.chance)}, and carries the line with one of {_chance(first.carries_chance)}."
        )
    yield Paragraph(" ".join(filter(None, sentences)))
    if kin := words.kin(choice, *said.named[:1]) if said.named else "":
        yield Paragraph(kin)
    if changes := words.what_changes(choice):
        yield Paragraph(changes)


def _chance(share: float) -> str:
    return f"{100 * share:.0f} %" if 0.01 <= share <= 0.99 else "more than 99 %" if share > 0.5 else "less than 1 %"


def _assumptions(choice: Choice) -> Iterator[Note]:
    needs = choice.needs
    line = f"{words.line_words(needs)}{' each way' * (needs.line_up_bps is None)}" if needs.line_bps else "not stated"
    rtt = "not known" if needs.path_rtt_ms is None else f"{text.digits(needs.path_rtt_ms)} ms"
    loss = "not known" if needs.path_loss_ratio is None else text.percent(needs.path_loss_ratio)
    full = ""
    if needs.line_bps and needs.line_up_bps is None:
        payload = text.quantity(USUAL.demand_bps(needs.line_bps, needs.traffic), "bit/s")
        full = f", full with {payload} of payload (the rest is headers)"
    yield Note(f"{line}{full}; round trip of the path {rtt}; packets that it loses: {loss}.", "Line:")
    yield Note(f"{words.TRAFFIC[needs.traffic]}.", "Traffic:")
    yield Note("; ".join(f"it {must_words.PHRASES[must][0]}" for must in needs.must) + ".", "What it must do:")
    if seen := words.seen_path(choice):
        yield Note(seen)
    yield Note(
        f"it does what it must, carries {USUAL.headroom:g} times what fills the line, in each share of the traffic, "
        "hardly loses or delays a packet, and takes the fewest cores for it. VPNs within "
        f"{USUAL.cost_cores:g} of a core are equal; the one of them that carries most of this traffic is named first.",
        "The best VPN:",
    )


def _numbers(said: Answer, choice: Choice, needs: Needs) -> Table:
    """A row for each VPN, the named ones first: median and 95 % interval of what the measurements leave open. Set-up
    times are not there: a few tunnels leave no interval."""
    vpns = [*said.named, *(one.vpn for one in said.candidates if one.vpn not in said.named)]
    graded = [grade_device(choice.devices[vpn], needs, USUAL) for vpn in vpns[:MOST_ROWS]]
    carried = f"{USUAL.load:.0%} of {text.quantity(graded[0].cores_bps, 'bit/s')}".replace("%", " %")
    columns = {
        "TCP\nMbit/s": [_number(one.device.tcp_bps, 1e6, bound="tcp" in one.device.at_least) for one in graded],
        f"UDP, at most {text.percent(USUAL.loss_ratio.little, 0)} lost\nMbit/s": [
            _number(one.device.udp_bps, 1e6, bound="udp" in one.device.at_least) for one in graded
        ],
        "added to a round trip\nms": [_number(one.device.rtt_added_ms) for one in graded],
        f"cores of a gateway,\nbeyond plain IP's,\nat {text.quantity(graded[0].cores_bps, 'bit/s')}": [
            _number(one.cores) for one in graded
        ],
        f"UDP lost at {carried}\n%": [_number(one.values.get("loss"), 0.01) for one in graded],
    }
    shown = {head: numbers for head, numbers in columns.items() if {*numbers} != {text.NONE}}
    rows: list[list[str | TableCell]] = [
        [_name(choice, one.device.vpn, tone="good" if one.device.vpn in said.named else ""), *numbers]
        for one, *numbers in zip(graded, *shown.values(), strict=True)
    ]
    about = f"Median (95 % interval: the value is in it in 19 of 20 cases).{' Green: named above.' * bool(said.named)}"
    more = len(vpns) - len(rows)
    notes = [Note(f"{text.count_noun(more, 'VPN')} more: see the whole report.")] if more else []
    return Table("", ["VPN", *shown], rows, about, notes, range(1, 1 + len(shown)), named=True)


def _name(choice: Choice, vpn: str, tone: str) -> TableCell:
    return TableCell(vpn, small=choice.titles.get(vpn, ""), tone=tone)


def _number(draws: Array | None, scale: float = 1.0, *, bound: bool = False) -> str:
    """``1360 (1290–1430)``, and ``≥`` before what is known from below only; a dash where nothing was measured."""
    if draws is None or np.isnan(draws).any():
        return text.NONE
    low, middle, high = np.quantile(draws / scale, [ENDS[0], 0.5, ENDS[1]])
    said = [text.digits(value) if value else "0" for value in (middle, low, high)]
    return "{}{} ({} – {})".format("≥ " * bound, *said)


def _reasons(choice: Choice, said: Answer) -> Iterator[Note]:
    """A remark for each VPN that somebody may ask about: those that are as good, those that are out, alike ones
    together, and those that were not measured."""
    if others := said.named[1:]:
        alike = "as good" if said.certainties.equal == "sure" else "probably as good"
        alike = alike if said.grade < Grade.SHORT else "as near"
        one = "it" if len(others) == 1 else "one of them"
        yield Note(f"{alike} as {said.named[0]}. Take {one} if you know it better.", f"{text.join_names(others)}:")
    by_reason: dict[str, list[str]] = {}
    for candidate in said.candidates:
        if candidate.vpn not in said.named:
            by_reason.setdefault(words.reasons(candidate), []).append(candidate.vpn)
    for reason, vpns in [*by_reason.items()][:MOST_REASONS]:
        yield Note(f"{reason}.", f"{text.join_names(vpns)}:")
    if left := [vpn for vpns in [*by_reason.values()][MOST_REASONS:] for vpn in vpns]:
        yield Note("the whole report says why.", f"{text.join_names(left)}:")
    yield from _not_measured(choice)


def _not_measured(choice: Choice) -> Iterator[Note]:
    """Who was not measured, the kernel's kin of measured programs first, beginning with that of the first VPN."""
    musts = {*choice.needs.must}
    named = choice.answer.named if choice.answer else [vpn for band in choice.bands for vpn in band.named]
    programs: dict[str, list[str]] = {}
    for one in sorted(choice.kin, key=lambda one: named[:1] != [one.vpn]):
        if not {*one.lacks} & musts:
            programs.setdefault(one.kernel, []).append(one.vpn)
    for kernel, vpns in programs.items():
        if choice.answer and named[:1] == vpns:
            yield Note("not measured here: see above.", f"{kernel}:")
            continue
        same = f"not measured here. It does in the kernel what {text.join_names(vpns)} does as a program, and usually"
        mine = text.join_names([vpn for vpn in vpns if vpn in named], "or")
        take = f" Where both gateways have it, take it instead of {mine}." if mine else ""
        yield Note(f"{same} costs less.{take}", f"{kernel}:")
    if absent := [vpn for vpn in choice.absent if vpn not in programs]:
        yield Note("asked for, but not measured: the whole report says why.", f"{text.join_names(absent)}:")
    if others := [*choice.others, *(choice.elsewhere if "kernel" in musts else ())]:
        yield Note("not measured yet, and may suit.", f"{text.join_names(others)}:")
