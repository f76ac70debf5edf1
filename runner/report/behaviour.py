"""How each VPN behaves on a path that is not clean: VPNs and verdicts, and behind each its counts and its control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from runner.data.kinds import Strict
from runner.data.levels import BASELINE, outside_of_tunnel
from runner.data.trials import Trial
from runner.design.blocks import Block, Heading, Hyperlink, Note, Paragraph, Table, TableCell

ABOUT = (
    "The WAN did one thing to the tunnel's packets. The control is the same without a tunnel, in the same trial; of "
    "certificates that expire, it is the same with others. Inconclusive: the control did not come out, which says "
    "nothing of the VPN. See docs/paths.md and docs/failures.md."
)
NARROW: dict[str, tuple[str, bool | None]] = {
    "all": ("passes 1492, 1400 and {smallest} bytes", True),
    "some": ("passes {smallest} bytes and no less", None),
    "none": ("dies at 1492 bytes", False),
    "chance": ("passes {smallest} bytes; {at} bytes in {passed} of {tries} tries", None),
}
CAUSES = {
    "df": "nobody may fragment its packets: DF",
    "df_of_single": "single packets have DF, which nobody may fragment, and bulk has not",
    "df_of_some": "some of its packets have DF, which nobody may fragment",
}
BACK: dict[str, tuple[str, bool | None]] = {
    "at_once": ("back at once", True),
    "back": ("back within {within_s:g} s", None),
    "never": ("not back within {back_s:.0f} s", False),
    "dead": ("does not come up behind a NAT", False),
}
FALLBACK = ("comes up by its fallback, {rate_mbit_s} Mbit/s in the place of {usual_mbit_s}", True)
BESIDE: dict[str, tuple[str, bool | None]] = {"as_plain": ("as without a tunnel", True), "longer": ("longer", False)}
# Metric -> the column's head, and its kinds: in words, and whether that is good (None: neither).
WORDS: dict[str, tuple[str, dict[str, tuple[str, bool | None]]]] = {
    "dscp_copied": (
        "DSCP outside",
        {"copied": ("copied", None), "zero": ("0", None), "own": ("its own", None)},
    ),
    "congestion_heard": (
        "congestion marks (ECN)",
        {
            "heard": ("copied, and CE arrives", True),
            "not_copied": ("not copied: routers drop", None),
            "dropped": ("copied; marked packets are dropped", None),
            "lost": ("copied, and CE is lost", False),
        },
    ),
    "reordering_depth": (
        "overtaken by at most",
        {"window": ("{accepted:,} packets", None), "all": ("{accepted:,} packets and more", True)},
    ),
    "duplicates_borne": (
        "duplicates",
        {
            "once": ("each arrives once", True),
            "twice": ("each arrives, {delivered_twice} twice", None),
            "lost": ("{delivered} of {sent} arrive", False),
        },
    ),
    "burst_loss_borne": (
        "loss in bursts",
        {"exact": ("all others arrive", True), "more_lost": ("{delivered} of the other {passed} arrive", False)},
    ),
    "passes_without_udp": (
        "UDP blocked",
        {"up": ("comes up", True), "fallback": FALLBACK, "dead": ("does not come up", False)},
    ),
    "passes_https_only": (
        "only TCP 443 passes",
        {"up": ("comes up", True), "fallback": FALLBACK, "dead": ("does not come up", None)},
    ),
    "black_hole_mtu": ("narrow path, ICMP lost", NARROW),
    "narrow_mtu": ("narrow path, ICMP heard", NARROW),
    "expiry_borne": (
        "its certificates expire",
        {
            "lives": ("carries on", True),
            "keys_stay": ("carries on with the old keys", None),
            "dies": ("dies after {carried_s} s", False),
        },
    ),
    "expiry_refused": (
        "restarted with expired certificates",
        {"refused": ("refused", True), "accepted": ("comes up", False)},
    ),
    "nat_port_back": ("NAT changes its port", BACK),
    "nat_address_back": ("NAT changes its address", BACK),
    "nat_silence": (
        "reachable behind a NAT",
        {
            "all": ("after {longest_s} s of silence", True),
            "some": ("after {longest_s} s of silence, not after more", None),
            "none": ("not after 30 s of silence", False),
            "dead": ("does not come up", False),
        },
    ),
    "policed_share": (
        "policed to 20 Mbit/s",
        {"keeps": ("keeps the rate", True), "loses": ("carries {share_percent} % of it", False)},
    ),
    "beside_bulk_p50": ("delay beside bulk, median", BESIDE),
    "beside_bulk_p99": ("delay beside bulk, 99th percentile", BESIDE),
}
TONES = {True: "good", False: "bad", None: ""}
INCONCLUSIVE = {"no_control": "inconclusive: the control failed", "no_answer": "inconclusive"}


class Behaviour(Strict):
    """The verdict of one trial on one VPN, at these ``levels`` of its other factors: its ``kind``, ``numbers`` and
    ``control`` are the instrument's; ``alike`` of its ``tries`` told this kind. ``kind`` is empty where it is
    inconclusive, for ``reason``, or could not be tried. ``log``: the trial's folder."""

    vpn: str
    metric: str
    repetition: int
    levels: dict[str, str] = {}
    kind: str = ""
    why: str = ""
    reason: str = ""
    numbers: dict[str, Any] = {}
    control: dict[str, Any] = {}
    alike: int = 1
    tries: int = 1
    log: str = ""


def behaviours(trials: Sequence[Trial]) -> list[Behaviour]:
    """What the trials say, in their order."""
    found = []
    for trial in trials:
        levels = {factor: level for factor, level in outside_of_tunnel(trial.params).items() if factor != "measure"}
        of_trial = {"vpn": trial.vpn, "levels": levels, "repetition": trial.repetition, "log": trial.log}
        for value in trial.measurements:
            if value.metric in WORDS and "kind" in value.detail:
                said = {name: value.detail.get(name) for name in ("numbers", "control")}
                what = {name: told if isinstance(told, dict) else {} for name, told in said.items()}
                what |= {name: value.detail[name] for name in ("alike", "tries") if name in value.detail}
                found.append(Behaviour(metric=value.metric, kind=value.detail["kind"], **what, **of_trial))
        for metric, told in trial.attempt.get("inconclusive", {}).items():
            if metric in WORDS:
                why, reason = told.get("kind", "no_answer"), told.get("reason", "")
                found.append(Behaviour(metric=metric, why=why, reason=reason, **of_trial))
    return found


def section(found: Sequence[Behaviour]) -> list[Block]:
    """The section, for every form; empty where no path was probed."""
    if not found:
        return []
    metrics = [metric for metric in WORDS if any(each.metric == metric for each in found)]
    rows: list[list[str | TableCell]] = [
        [row, *(_cell([each for each in found if (row_of(each), each.metric) == (row, metric)]) for metric in metrics)]
        for row in sorted({*map(row_of, found)}, key=lambda row: (row != BASELINE, row))
    ]
    head = ["VPN", *(WORDS[metric][0] for metric in metrics)]
    return [Heading("Behaviour", "behaviour"), Paragraph(ABOUT), Table("Behaviour on a path", head, rows, named=True)]


def row_of(each: Behaviour) -> str:
    """The VPN, and the levels that its row is for."""
    return ", ".join([each.vpn, *(f"{factor} {level}" for factor, level in each.levels.items())])


def _cell(same: Sequence[Behaviour]) -> TableCell:
    """One VPN's verdicts of one metric: a line for each that differs, and all of them unfolded."""
    if not same:
        return TableCell("not tried")
    lines = verdict_lines(same)
    good = {_kind_words(each)[1] if each.kind else None for each in same}
    doubt = len(lines) > 1 or any(not each.kind or each.kind == "chance" or each.alike < each.tries for each in same)
    tone = "warn" if doubt else TONES[good.pop()]
    return TableCell("; ".join(lines), tone=tone, opens=[note for each in same for note in _notes(each)])


def verdict_lines(same: Sequence[Behaviour]) -> list[str]:
    """One VPN's verdicts of one metric in words, the most frequent first; behind each that not all tries told, how many
    of how many: "each arrives once (7 of 8)"."""
    told, tries = Counter[str](), sum(each.tries for each in same)
    for each in _pool_chances(same):
        told[words(each)] += each.alike
    return [line if count == tries else f"{line} ({count} of {tries})" for line, count in told.most_common()]


def _pool_chances(same: Sequence[Behaviour]) -> list[Behaviour]:
    """The verdicts, those of chance at the same place as one, with the counts of all: they are in its words."""
    pooled, of_chance = list[Behaviour](), dict[tuple[int, int], Behaviour]()
    for each in same:
        match each.kind, each.numbers:
            case "chance", {"smallest": int(smallest), "at": int(at), "passed": int(passed), "tries": int(tries)}:
                if before := of_chance.get((smallest, at)):
                    counts = {"passed": passed + before.numbers["passed"], "tries": tries + before.numbers["tries"]}
                    told = {name: getattr(each, name) + getattr(before, name) for name in ("alike", "tries")}
                    each = each.model_copy(update={"numbers": each.numbers | counts, **told})
                of_chance[smallest, at] = each
            case _:
                pooled.append(each)
    return [*of_chance.values(), *pooled]


def words(each: Behaviour) -> str:
    """A verdict in words."""
    if not each.kind:
        return INCONCLUSIVE.get(each.why, INCONCLUSIVE["no_answer"])
    try:
        said = _kind_words(each)[0].format_map(each.numbers)
    except (KeyError, ValueError, TypeError):  # a run of another version, or of somebody, has other numbers
        said = each.kind
    match each.numbers:
        case {"mtu_to_set": {"inside": inside}}:
            said += f", MTU to set: {inside}"
    return said


def _kind_words(each: Behaviour) -> tuple[str, bool | None]:
    """The words for a kind, which a run of another version may have more of."""
    return WORDS[each.metric][1].get(each.kind, (each.kind, None))


def _notes(each: Behaviour) -> list[Note]:
    links = [Hyperlink("commands", file=f"{each.log}/commands.log")] if each.log else []
    if not each.kind:
        return [Note(each.reason, lead=f"Repetition {each.repetition}:", links=links)]
    return [
        Note(counts(each.numbers), lead=f"Repetition {each.repetition}, seen:", links=links),
        Note(counts(each.control), lead="Control:"),
        *([Note(CAUSES.get(why, why), lead="Cause:")] if isinstance(why := each.numbers.get("cause"), str) else ()),
        *([Note(f"{each.alike} of {each.tries}", lead="Tries that told this:")] if each.tries > 1 else ()),
    ]


def counts(numbers: dict[str, Any]) -> str:
    """``sent 200, delivered 133``; of a table, its entries."""
    parts = []
    for name, value in numbers.items():
        said = counts(value) if isinstance(value, dict) else f"{value:,}" if isinstance(value, int) else str(value)
        parts.append(f"{name.replace('_', ' ')} {said}".rstrip())
    return ", ".join(parts)
