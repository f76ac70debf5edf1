"""What a comparison says: the answer, what limits it, and every number. A terminal has the changes first, and of what
did not change how much that is."""

from __future__ import annotations

from collections.abc import Mapping

from questions.compare.judgement import (
    SEEN,
    SIGNIFICANCE,
    UNCHANGED,
    Comparison,
    MetricChange,
    Outcome,
    Verdict,
    decisive_changes,
    too_coarse,
)
from runner.design.blocks import Block, Check, Paragraph, Table, TableCell
from runner.ranking.model import LEVEL
from runner.report import text

MOST = 10.0  # a change of more than this is only said to be more
COUNTED: tuple[Verdict, ...] = ("no difference", "not separable", "not judged")  # these are only counted, others shown
BAD: tuple[Verdict, ...] = ("regression", "now failing")
TONES = {"regression": "bad", "now failing": "bad", "improvement": "good"}
PASSES: tuple[Outcome, ...] = ("fine", "nothing found")
ABSOLUTE = "a: absolute numbers, not shares of the baseline"


def answer(comparison: Comparison) -> str:
    """The one answer, in words."""
    longer = "Measure longer (vpneval more RUN)" if comparison.turns else "Repeat both runs more often (--reps 5)"
    ends: Mapping[Outcome, str] = {
        "worse": "Significant regression",
        "fine": "No significant regression",
        "nothing found": f"Nothing found: {_down_to(comparison)}",
        "cannot tell": f"Cannot tell: {_why_not(comparison)}. {longer}",
        "nothing measured": f"The {'builds' if comparison.turns else 'runs'} share no measurement.",
    }
    return ends[comparison.outcome]


def _why_not(comparison: Comparison) -> str:
    """Why it cannot be told."""
    coarse = too_coarse(comparison.changes, comparison.at_least)
    if short := [change for change in coarse if change.metric in comparison.at_least]:
        asked = text.percent(comparison.at_least[short[0].metric] - 1)
        seen = f"only {_size(short[0].visible)}" if short[0].visible else "nothing that is known"
        return f"--at-least asks for {asked}, and in {short[0].title} {seen} would show"
    return "no measurement is decided"


def _down_to(comparison: Comparison) -> str:
    """How small a change would have been found; empty where that is not known. Of builds, metric by metric."""
    if comparison.smallest is None or comparison.largest is None:
        return ""
    by_metric = {
        change.title: change.visible
        for change in decisive_changes(comparison.changes)
        if change.visible and change.verdict in UNCHANGED
    }
    if comparison.turns:
        sizes = " or ".join(f"{_size(size)} in {title}" for title, size in by_metric.items())
        return f"a change of {sizes} would show in {SEEN:.0%} of such runs"
    low, high = _size(comparison.smallest), _size(comparison.largest)
    ends = low if low == high else f"{low} to {high}, by measurement,"
    return f"in what did not change, a difference of {ends} would show in {SEEN:.0%} of such runs"


def _size(visible: float) -> str:
    """A ratio above 1 as a share."""
    return f"{'more than ' * (visible - 1 > MOST)}{text.percent(min(visible - 1, MOST))}"


def title(comparison: Comparison) -> str:
    """The names of both."""
    return f"vpneval compare: {comparison.before} and {comparison.after}"


def heading(comparison: Comparison) -> str:
    """The answer as the heading of a page: of what became worse, how much of which VPNs."""
    bad = [change for change in decisive_changes(comparison.changes) if change.verdict in BAD]
    if not bad:
        return answer(comparison)
    vpns = text.join_names([*dict.fromkeys(change.vpn for change in bad)])
    return f"{answer(comparison)}: {text.count_noun(len(bad), 'measurement')} of {vpns}"


def _answer(comparison: Comparison) -> Paragraph:
    return Paragraph(answer(comparison), "good" if comparison.outcome in PASSES else "bad")


def opening(comparison: Comparison) -> list[Block]:
    """What was compared, and what limits the answer."""
    return [Paragraph(title(comparison), "soft"), *_smallest(comparison), *_about(comparison)]


def _about(comparison: Comparison) -> list[Block]:
    """What is compared, and how the two labs differ."""
    where = [Paragraph(f"On the machines with {comparison.machines}")] if comparison.machines else []
    differ = (f"The runs differ in {difference}: a change may be due to that." for difference in comparison.differences)
    return [*where, *(Paragraph(sentence, "bad") for sentence in differ)]


def changes_first(comparison: Comparison) -> list[Block]:
    """The changes and, at the end, the answer. Of two builds there are few measurements, and each is shown."""
    changes, turns = comparison.changes, comparison.turns
    blocks: list[Block] = [Paragraph(f"Before {comparison.before}  after {comparison.after}"), *_about(comparison)]
    listed = [change for change in changes if turns or change.verdict not in COUNTED]
    if listed:
        head = ["VPN and levels", "metric", "before → after", "change (95 %)", "verdict"]
        rows = [_short_row(change, turns=turns) for change in listed]
        if turns:  # the builds are named above
            head, rows = head[1:], [row[1:] for row in rows]
        blocks.append(Table("", head, rows, numbers=(len(head) - 3, len(head) - 2)))
    for verdict in () if turns else COUNTED:
        if number := sum(change.verdict == verdict for change in changes):
            blocks.append(Paragraph(f"{text.count_noun(number, 'measurement')}: {verdict}"))
    blocks += [*_smallest(comparison), *_what_was_compared(comparison), *_only(comparison)]
    if any(change.reference and change.ratio for change in listed):
        blocks.append(Paragraph("The references changed: the machine did, not only the VPNs.", "caveat"))
    for one in comparison.agreement:
        if one.what == "weighted":
            blocks.append(
                Paragraph(f"ranking {one.configuration}, {text.count_noun(len(one.vpns), 'VPN')}: {one.tell}")
            )
    how = f"more than each metric's margin; Welch's t, false discovery rate {SIGNIFICANCE:.0%}"
    if turns:
        how = f"by the ratios of the rounds; one false verdict or more in {LEVEL:.0%} of such runs at most"
    return [*blocks, _answer(comparison), *([Paragraph(f"({how})", "soft")] if changes else [])]


def _smallest(comparison: Comparison) -> list[Block]:
    """How small a difference would have been found, where the answer does not say it."""
    down = _down_to(comparison) if comparison.outcome != "nothing found" else ""
    return [Paragraph(f"{down[0].upper()}{down[1:]}.")] if down else []


def _what_was_compared(comparison: Comparison) -> list[Block]:
    """Whether shares of the baseline or absolute numbers were compared. Builds took turns, so that neither matters."""
    if comparison.turns or not comparison.changes:
        return []
    shares = sum(change.of_baseline for change in comparison.changes)
    if not shares:
        return [
            Paragraph("Compared as absolute numbers (a): one of the runs has no baseline of the same traffic.", "soft")
        ]
    rest = len(comparison.changes) - shares
    sentence = (
        f"{text.count_noun(shares, 'measurement')}: compared as shares of each run's own baseline, which a slower or "
        "faster machine does not change" + (f"; {rest} as absolute numbers (marked a)" if rest else "")
    )
    return [Paragraph(sentence, "soft")]


def _only(comparison: Comparison) -> list[Block]:
    cells = {"before": comparison.only_before, "after": comparison.only_after}
    return [Paragraph(f"Only {when}: {'; '.join(of)}", "soft") for when, of in cells.items() if of]


def numbers(comparison: Comparison) -> list[Block]:
    """Every number, and what only one of the two has; then whether both rank alike."""
    head = ["VPN and levels", "metric", "before", "after", "change (95 %)", "verdict"]
    changed = sorted(comparison.changes, key=lambda change: change.verdict in COUNTED)
    rows = [_row(change, turns=comparison.turns) for change in changed]
    table = Table("Before and after", head, rows, about="" if comparison.turns else ABSOLUTE, named=True)
    agreements = (f"{one.configuration}, {one.what}: {one.tell}" for one in comparison.agreement)
    return [table, *_only(comparison), *map(Paragraph, agreements)]


def _row(change: MetricChange, *, turns: bool) -> list[str | TableCell]:
    mark = " a" * bool(change.ratio and not change.of_baseline and not turns)
    return [
        TableCell(change.vpn, small=change.levels),
        change.title,
        text.with_interval(change.before, change.unit, "before" in change.bounded),
        text.with_interval(change.after, change.unit, "after" in change.bounded) if change.after else change.reason,
        (text.change(change.ratio) if change.ratio else text.NONE) + mark,
        TableCell(change.verdict, tone=TONES.get(change.verdict, "")),
    ]


def _short_row(change: MetricChange, *, turns: bool) -> list[str | TableCell]:
    """A row of a terminal, in two lines."""
    name, _, before, after, moved, verdict = _row(change, turns=turns)
    return [name, change.short or change.metric, f"{before}\n{after}", str(moved).replace(" (", "\n("), verdict]


def checks(comparison: Comparison) -> list[Check]:
    """A test case for each measurement: it fails where it became worse or fails now, and is skipped where nothing is
    decided, and a change as small as asked for would not have been found."""
    coarse = too_coarse(comparison.changes, comparison.at_least)
    cases = [
        _check(change, skipped=change in coarse or change.verdict == "not judged")
        for change in comparison.changes
        if not change.reference
    ]
    if comparison.outcome == "nothing measured":
        cases.append(Check("measurements in common", "error", answer(comparison)))
    return cases


def _check(change: MetricChange, *, skipped: bool) -> Check:
    name = f"{change.vpn} ({change.levels})" if change.levels else change.vpn
    if change.verdict not in BAD and not skipped:
        return Check(change.title, "passed", about=name)
    moved = text.change(change.ratio) if change.ratio else ""
    words = f"{change.verdict}: {' '.join(filter(None, (moved, change.reason)))}"
    return Check(change.title, "failure" if change.verdict in BAD else "skipped", words, name)
