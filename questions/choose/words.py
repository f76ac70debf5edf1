"""The choice in sentences, the same in every form: the answer for a stated line, or for every line."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from questions.choose import must_words
from questions.choose.judgement import Choice
from questions.choose.state_words import no_answer
from runner.choice.model import Answer, Band, Candidate, Certainty, Change, Criterion, Grade, Limit, Reason
from runner.choice.thresholds import USUAL
from runner.data.named import USUAL as USUAL_MUSTS
from runner.data.named import Connections, Must
from runner.data.needs import Needs
from runner.report import text

TRAFFIC = {
    "files": "files, all in TCP",
    "mixed": "70 % TCP, 30 % UDP",
    "calls": "calls, in packets of 200 bytes",
    "transactions": "transactions in TCP",
}
OTHERS = 5  # VPNs that may suit, of which a sentence names so many
ONCE = 3  # of them that a command measures
ONE_WAY = " Measured from gw1 to gw2 only: `run` with these two rates measures both."
MANY = " Eight are measured by `run --connections 8`."
ONE_AT_A_TIME = " Measured one way at a time."
RECKONED = " Reckoned from longer packets; measured by `run --traffic calls`."
LIMITS: Mapping[Limit, str] = {
    "path": "the path is the limit",
    "packets": "packets are the limit, and not their bits",
    "cores": "a core of a gateway is the limit",
    "window": "probably the one TCP connection between the gateways is the limit",
}
LEAST_TOLD = 0.005  # of a core
TRIED = 2  # commands that show what is not known
RESERVED: Mapping[Criterion, str] = {
    "capacity": "less than a quarter in reserve",
    "path": "it fills less than 90 % of your path",
    "cores": "it leaves less than a fifth of a gateway's core",
    "window": "what its one TCP connection has on its way is little for your round trip",
    "loss": "it loses more than 0.1 % of the datagrams",
    "delay": "it adds more than 10 ms to a packet",
    "mouth_to_ear": "a call takes more than 150 ms from end to end",
    "rtt": "its round trip is noticed",
    "setup": "it takes more than 2 s to come up",
    "one_connection": "one TCP connection",
    "failures": "now and then it does not carry what it otherwise carries",
    "gap": "it was silent for a while in a long watch",
}
CONNECTIONS: Mapping[Connections, str] = {1: " with one TCP connection", 8: " with eight TCP connections"}
DATAGRAMS = " in datagrams"
TAKE: Mapping[Certainty, str] = {"sure": "Take", "probably": "Take probably", "open": "Take perhaps"}
NONE_SUITS: Mapping[Certainty, str] = {
    "sure": "No VPN that was measured here suits",
    "probably": "Probably no VPN that was measured here suits",
    "open": "It is not decided whether a VPN that was measured here suits",
}
NOTHING = "nothing that was measured here suits"
UNKNOWN = "not enough was measured"
ON_LINE = "Which VPN to take depends on your line."
BAND: Mapping[Certainty, str] = {"sure": "", "probably": "probably ", "open": "not decided: "}
MUST_MEANS: Mapping[Must, str] = {"networks": "it joins two networks"}
MUST_CHANGED: Mapping[Must, str] = {
    "udp-blocked": "UDP is blocked",
    "kernel": "its data path must be in the kernel",
    "post-quantum": "the key exchange must be post-quantum",
    "certificates": "the gateways must have certificates",
    "ipv6-inside": "the sites have IPv6",
    "standard": "it must be an open standard",
}


def headline(choice: Choice) -> str:
    """The answer in a sentence: what to take, or that it depends on the line, or why there is none yet."""
    if none := no_answer(choice):
        return none
    said = choice.answer
    if said is None:
        return f"By the speed of your line. Assumed: {asked_for(choice.needs)}."
    line, by = line_words(said.needs), DATAGRAMS if choice.path_tcp_bps else connections(said.needs)
    if not said.named and said.unknown:
        vpns, more = text.join_names(said.unknown), MANY * (said.needs.connections > 1)
        return f"Which VPN suits {line}{by} is not known here: not enough was measured of {vpns}.{more}"
    if not said.named:
        return f"{NONE_SUITS['sure']} {line}, {asked_for(choice.needs)}."
    first = said.candidate_of(said.named[0])
    kept = "".join(f", {RESERVED[name]}" for name in first.reservations)
    if said.grade == Grade.SHORT:
        nearest = f"{first.vpn} comes nearest: {_up_to(first)}{kept}"
        return f"{NONE_SUITS[said.certainties.carries]} {line}{by} {_place(first)}. {nearest}."
    if said.certainties.best == "open":
        if len(said.named) > 1:
            return f"It is not decided yet which VPN is best for your {line}: {_either(said.named)}."
        return f"It is not decided yet which VPN is best for your {line}. The likeliest is {first.vpn}."
    if said.certainties.carries == "open":
        carries = f"Whether it carries your {line} is not decided yet: {_up_to(first)}"
        return f"{TAKE['open']} {first.vpn}. {carries}."
    carries = f"{_does(first, said.needs, by)} and takes {_cores(first)} on each gateway{_at_rate(first)}"
    take, sure = TAKE[said.certainty], " Sure." * (said.certainty == "sure")
    return f"{take} {first.vpn}{_equals(said)}: {carries}{kept}.{sure}{RECKONED * first.reckoned}{_ways(said, first)}"


def page_headline(choice: Choice) -> str:
    """The answer as the heading of a page: where no line is stated, which VPN for which."""
    return headline(choice) if choice.answer or no_answer(choice) else by_line(choice.bands)


def by_line(bands: Sequence[Band]) -> str:
    """``Up to 1 Gbit/s take wireguard_go; from 2 Gbit/s on nothing that was measured here suits.``"""
    told = [(take, [*alike]) for take, alike in groupby(bands, _take)]
    if not told:
        return ON_LINE
    *before, (last, highest) = told
    clauses = [f"up to {_rate(alike[-1].high_bps)} {take}" for take, alike in before]
    said = "; ".join([*clauses, f"from {_rate(highest[0].low_bps)} on {last}"])
    return f"{said[0].upper()}{said[1:]}."


def _take(band: Band) -> str:
    if band.named and band.grade < Grade.SHORT:
        return f"{TAKE[band.certainty].lower()} {band.named[0]}"
    return UNKNOWN if not band.named and band.unknown else NOTHING


def asked_for(needs: Needs) -> str:
    """What the answer is for: the traffic and the musts beside the usual ones."""
    more = [must for must in needs.must if must not in ("tried", "maintained")]
    without = [f"it need not have {must}" for must in USUAL_MUSTS if must not in (*needs.must, "tried")]
    words = [MUST_MEANS.get(must, f"it must have {must}") for must in more]
    return ", ".join([*words, *without, f"{TRAFFIC[needs.traffic]}{connections(needs)}"])


def connections(needs: Needs) -> str:
    """The TCP connections that the answer is for; nothing for calls, which are none."""
    return CONNECTIONS[needs.connections] if needs.traffic != "calls" else ""


def seen_path(choice: Choice) -> str:
    """What of the needs was seen on the path, and not stated, and what limits TCP there; empty where nothing was."""
    return " ".join(filter(None, (_seen_needs(choice.needs), _slow_tcp(choice.path_tcp_bps))))


def _slow_tcp(path_tcp_bps: Sequence[float]) -> str:
    """That one TCP connection does not fill the path, whichever VPN it takes; empty where it does."""
    if not path_tcp_bps:
        return ""
    up, down = (text.quantity(rate, "bit/s") for rate in (path_tcp_bps[0], path_tcp_bps[-1]))
    return (
        f"Without a VPN one TCP connection carries {up} from gw1 and {down} to it: losses, the round trip or the "
        "hosts' windows are the limit. So what a VPN carries here is what it carries of datagrams, "
        "if it carries any."
    )


def _seen_needs(needs: Needs) -> str:
    said: Mapping[str, Callable[[], str]] = {
        "line_bps": lambda: f"{line_words(needs)}{' each way' * (needs.line_up_bps is None)}, within --max-rate",
        "path_rtt_ms": lambda: f"a round trip of {text.digits(needs.path_rtt_ms or 0)} ms",
        "path_loss_ratio": lambda: f"{text.percent(needs.path_loss_ratio or 0, 1)} of the packets lost",
        "path_mtu_bytes": lambda: f"packets of up to {needs.path_mtu_bytes} bytes",
        "nat": lambda: "a NAT",
        "udp-blocked": lambda: "no UDP",
    }
    found = [words() for name, words in said.items() if name in needs.seen]
    return f"Seen on the path: {'; '.join(found)}." if found else ""


class ChoiceRow(NamedTuple):
    """Some lines, and the VPNs for them, in words. ``grade``: of the lowest of them."""

    lines: str
    vpns: str
    grade: int


def lines(choice: Choice) -> list[ChoiceRow]:
    """The bands of lines, each with the VPNs for it. One that only has a reservation more than the band before is told
    with that."""
    rows: list[ChoiceRow] = []
    for at, band in enumerate(choice.bands):
        before = choice.bands[at - 1] if at else None
        if before and _only_reserved(before, band):
            kept = RESERVED["capacity"] if "capacity" in band.reservations else "with a reservation"
            vpns = f"{rows[-1].vpns} (from {_rate(band.low_bps)} on {kept})"
            rows[-1] = ChoiceRow(_span(before.low_bps, band.high_bps), vpns, before.grade)
        else:
            rows.append(ChoiceRow(_span(band.low_bps, band.high_bps), _band(band), band.grade))
    return rows


def _only_reserved(before: Band, band: Band) -> bool:
    """Does this band differ from the one before only by a reservation?"""
    same = set(before.named) == set(band.named) and before.certainty == band.certainty
    return bool(before.named) and same and before.grade < band.grade < Grade.SHORT


def why_not(said: Answer) -> list[str]:
    """A clause for each VPN that is not named: why it is out."""
    return [_why_not(candidate) for candidate in said.candidates if candidate.vpn not in said.named]


def _why_not(candidate: Candidate) -> str:
    return f"not {candidate.vpn}: {reasons(candidate)}."


def reasons(candidate: Candidate) -> str:
    """Why a VPN is not named, as clauses."""
    return "; ".join(_reason(reason, candidate) for reason in candidate.reasons)


def suits(choice: Choice | None, *vpns: str) -> list[str]:
    """How each of these VPNs suits the stated line: named, or why not. Empty where no line is stated."""
    said = choice.answer if choice else None
    if choice is None or said is None:
        return []
    asked = [candidate for candidate in said.candidates if candidate.vpn in vpns]
    sentences = [headline(choice), *(_suits(candidate, said) for candidate in asked), kin(choice, *vpns)]
    return [sentence for sentence in sentences if sentence]


def _suits(candidate: Candidate, said: Answer) -> str:
    if candidate.vpn not in said.named:
        return _why_not(candidate)
    nearest = "comes nearest" if candidate.grade == Grade.SHORT else "suits it"
    return f"{candidate.vpn}: {'may be the best' if said.certainties.best == 'open' else nearest}"


def to_find_out(choice: Choice) -> list[str]:
    """A command for each must in force that is not known of a VPN which is left out for it; at most TRIED of them."""
    if choice.answer is None:
        return []
    commands = [
        must_words.command(candidate.vpn, must)
        for candidate in choice.answer.candidates
        for reason in candidate.reasons
        if reason.unknown
        for must in reason.musts
    ]
    return [*dict.fromkeys(filter(None, commands))][:TRIED]


def what_changes(choice: Choice) -> str:
    """What would change the answer, in one sentence; empty where nothing does that was looked at."""
    clauses = change_clauses(choice)
    return f"What changes it: {'; '.join(clauses)}." if clauses else ""


def change_clauses(choice: Choice) -> list[str]:
    """A clause for each change of the needs that changes the answer."""
    return [clause for change in choice.changes if (clause := _change(change))]


def about_musts(choice: Choice) -> str:
    """How the musts of the first VPN are known: shown by a trial, or declared."""
    said = choice.answer
    if said is None or not said.named:
        return ""
    first = said.candidate_of(said.named[0])
    known = choice.states.get(first.vpn, {})
    here = {must for must, state in known.items() if state.how == "trial" and not state.run}
    words = (f"{must} {word}{' by this run' * (must in here)}" for must, word in first.musts.items())
    return f"Musts of {first.vpn}: {', '.join(words)}."


def kin(choice: Choice, *vpns: str) -> str:
    """Which of the kernel's VPNs speak the protocols of programs that were judged (of ``vpns`` alone, where some are
    given), and were not measured: whoever names or leaves out the program must know of them. Empty where none may
    do."""
    may = [one for one in choice.kin if not {*one.lacks} & {*choice.needs.must} and one.vpn in (vpns or (one.vpn,))]
    kernels = {vpn: tuple(one.kernel for one in may if one.vpn == vpn) for vpn in dict.fromkeys(one.vpn for one in may)}
    if not kernels:
        return ""
    programs = {twins: [vpn for vpn, own in kernels.items() if own == twins] for twins in kernels.values()}
    speak = [
        f"{text.join_names(twins, 'or')} speaks the protocol of {text.join_names(of)}" for twins, of in programs.items()
    ]
    was, costs = ("it was", "costs") if len(programs) == 1 else ("they were", "cost")
    take = [
        f" Where both gateways have {text.join_names(twins, 'or')}, take it instead of {vpn}."
        for vpn, twins in kernels.items()
        if vpn in choice.named_vpns
    ]
    return f"In the kernel, {text.join_names(speak)}: {was} not measured here, and usually {costs} less.{''.join(take)}"


def not_measured(choice: Choice) -> str:
    """Which VPNs were asked for and not measured, and which the run has not come to; empty where there are none."""
    absent = f"Not measured here: {', '.join(choice.absent)}." if choice.absent else ""
    absent = " ".join([absent, *(f"No datagrams of {vpn}: {why}." for vpn, why in choice.partly.items())]).strip()
    others = f"May suit, and not measured yet: {list_some(choice.others)}." if choice.others else ""
    if choice.elsewhere and "kernel" in choice.needs.must:  # else ``kin`` speaks of the kernel
        others += f" May suit where the kernel has them, and not measured here: {list_some(choice.elsewhere)}."
    return f"{absent} {others.strip()}".strip()


def list_some(vpns: Sequence[str]) -> str:
    """The first OTHERS of them, and how many there are more."""
    return ", ".join(vpns[:OTHERS]) + f" and {len(vpns) - OTHERS} more" * (len(vpns) > OTHERS)


def measures_others(choice: Choice, where: str) -> str:
    """The command that measures the first VPNs that the run has not come to; empty where there are none."""
    names = ",".join(choice.others[:ONCE])
    return f"vpneval run choose --vpn {names} --deadline 2m --out {shlex.quote(where)}" if names else ""


def failure_sentences(choice: Choice) -> list[str]:
    """A sentence for each VPN with failed trials."""
    candidates = choice.answer.candidates if choice.answer else []
    return [
        f"{candidate.vpn} gave no number in {candidate.failed} of {candidate.trials} trials."
        for candidate in candidates
        if candidate.failed
    ]


def in_a_line(choice: Choice) -> str:
    """The answer in one line, the bands of lines behind one another."""
    return headline(choice) if choice.answer else f"{headline(choice)} {_bands(choice)}"


def _bands(choice: Choice) -> str:
    return "; ".join(f"{row.lines}: {row.vpns}" for row in lines(choice)) + "."


def say_yours(where: str) -> str:
    """The command that asks for a line."""
    return f"vpneval report {shlex.quote(where)} --line 100M --path-rtt 20ms --traffic calls"


def _change(change: Change) -> str:
    then = _either(change.named) if change.named else "nothing that is known here"
    kept = f" ({', '.join(RESERVED[name] for name in change.reservations)})" if change.reservations else ""
    if change.line_bps is not None:
        if change.grade == Grade.SHORT:
            then, kept = "nothing here suits it", ""
        return f"from {_rate(change.line_bps)} on {then}{kept}"
    if change.path_loss_ratio is not None:
        if change.grade == Grade.SHORT:
            then, kept = "nothing here suits it", ""
        return f"if the path loses {100 * change.path_loss_ratio:g} % of the packets, {then}{kept}"
    if change.grade == Grade.SHORT:
        kept = " (does not carry it here)"
    if change.must is not None:
        return f"if {MUST_CHANGED.get(change.must, change.must)}, {then}{kept}"
    return f"if forwarding TCP ports is enough, {then}{kept}" if change.without == "networks" else ""


def _band(band: Band) -> str:
    if not band.named and band.unknown:
        return f"not known here: {UNKNOWN}"
    if not band.named:
        return NOTHING
    if band.grade == Grade.SHORT:
        nearest = f"{band.named[0]} comes nearest, {_up_to(band)}"
        return f"{BAND[band.certainty]}nothing here suits it; {nearest}"
    kept = f" ({', '.join(RESERVED[name] for name in band.reservations)})" if band.reservations else ""
    probably = "probably " * (band.certainty == "sure" and band.equal != "sure")
    equal = f": {probably}equally good" if len(band.named) > 1 and band.certainty != "open" else ""
    return f"{BAND[band.certainty]}{_either(band.named)}{equal}{kept}"


def _reason(reason: Reason, candidate: Candidate) -> str:
    if reason.musts:
        return "; ".join(must_words.clause(must, unknown=reason.unknown) for must in reason.musts)
    if reason.criterion == "cost" and reason.value is not None:
        return _costs_more(candidate)
    if reason.criterion is None:
        return f"may be as good ({int(100 * candidate.chance)}%)"
    if candidate.grade == Grade.UNKNOWN:
        return f"{WHAT[reason.criterion]} not measured"
    return REASONS[reason.criterion](reason.value or 0.0, candidate)


def _carries(value: float, candidate: Candidate) -> str:
    if candidate.grade < Grade.SHORT:
        return f"carries it, with less than a quarter in reserve: {text.quantity(value, 'bit/s')}"
    if candidate.carries == "no":
        return f"does not carry it: {text.quantity(value, 'bit/s')}{_limit_words(candidate)}"
    return f"depends: {_up_to(candidate)}"


WHAT: Mapping[Criterion, str] = {
    "capacity": "throughput",
    "path": "throughput",
    "cores": "load",
    "window": "throughput over your round trip",
    "loss": "loss",
    "delay": "added delay",
    "mouth_to_ear": "added delay",
    "rtt": "round trip",
    "setup": "set-up time",
    "one_connection": "one TCP connection",
    "breakdown": "breakdown",
    "failures": "half of its trials failed, so that it is",
    "gap": "a long watch was",
    "cost": "cost",
}
REASONS: Mapping[Criterion, Callable[[float, Candidate], str]] = {
    "capacity": _carries,
    "path": lambda _, candidate: f"carries {_up_to(candidate)}",
    "cores": lambda value, _: f"takes {_part(value)} of a gateway's core",
    "window": lambda value, _: f"has too little on its way for your round trip: {text.quantity(value, 'bit/s')}",
    "loss": lambda value, candidate: (
        f"loses {text.percent(value, 1)} of the datagrams at {USUAL.load:.0%} of "
        f"{'the line' if candidate.carries == 'yes' else 'what it carries'}"
    ),
    "delay": lambda value, _: f"adds {text.digits(value)} ms to one packet in twenty",
    "mouth_to_ear": lambda value, _: f"a call takes {text.digits(value)} ms from end to end",
    "rtt": lambda value, _: f"adds {text.digits(value)} ms to the round trip",
    "setup": lambda value, _: f"takes {text.digits(value)} s to come up",
    "one_connection": lambda value, _: "all that it carries shares one TCP connection, which every lost packet slows",
    "breakdown": lambda value, _: f"broke down at {_rate(value)}",
    "failures": lambda _, candidate: (
        f"in {candidate.bad_attempts} of {candidate.attempts} tries it did not carry a load that it otherwise carries"
    ),
    "gap": lambda value, _: f"was silent for {text.digits(value)} s in a long watch",
}


def _equals(said: Answer) -> str:
    others = said.named[1:]
    if not others:
        return ""
    probably = "probably " * (said.certainties.equal != "sure")
    return f" ({text.join_names(others)} {'is' if len(others) == 1 else 'are'} {probably}equally good for you)"


def _either(named: Sequence[str]) -> str:
    return text.join_names(named, "or")


def _cores(candidate: Candidate) -> str:
    if candidate.cores is None:
        return "an unknown part of a core"
    if candidate.cores_within is not None:
        return f"no more than plain IP, within {text.digits(candidate.cores_within)} of a core,"
    return "too little of a core to be seen" if candidate.cores < LEAST_TOLD else f"{candidate.cores:.2f} of a core"


def _costs_more(candidate: Candidate) -> str:
    within = candidate.cores_within
    cores = _cores(candidate) if within is None else f"up to {text.digits(within)} of a core"
    return f"costs more: {cores} on each gateway{_at_rate(candidate)}"


def _at_rate(candidate: Candidate) -> str:
    """The rate that the cores are for: the cost of a byte changes with it."""
    return "" if candidate.cores_bps is None else f" at {_rate(candidate.cores_bps)} of payload"


def _ways(said: Answer, first: Candidate) -> str:
    if said.needs.line_up_bps is None or first.both_bps is not None:
        return ""
    return ONE_WAY if first.down_bps is None else ONE_AT_A_TIME


def _does(first: Candidate, needs: Needs, by: str) -> str:
    """That it carries the line, or fills the path between the user's gateways, which has no room for that line. ``by``:
    in how many connections."""
    carries = f"it carries your {line_words(needs)}{' at once' * (first.both_bps is not None)}{by}"
    if first.path_share is None:
        return carries
    ways = ((first.here_bps, needs.up_bps), (first.down_bps or first.here_bps, needs.line_bps))
    if all((bps or 0.0) >= USUAL.demand_bps(line_bps or 0.0, needs.traffic) for bps, line_bps in ways):
        return f"{carries} ({_path_words(first)} at most)"
    return f"it fills {_path_words(first)}{by}{_limit_words(first)}"


def _up_to(one: Candidate | Band) -> str:
    """What it carries: of the path between the user's gateways, or here, and elsewhere at most."""
    if one.here_bps is None:
        return "an unknown rate"
    here, limit = text.quantity(one.here_bps, "bit/s"), _limit_words(one) if isinstance(one, Candidate) else ""
    if one.path_share is not None:
        return f"{here}, {_path_words(one)}{limit}"
    if one.most_bps is None:
        return f"{here} on these shared cores{limit}"
    if one.most_bps == one.here_bps:
        return f"{here}{limit}"
    more = f", up to {text.quantity(one.most_bps, 'bit/s')} on gateways of their own"
    return f"{here} on these shared cores{more * (one.most_bps > one.here_bps)}{limit}"


def _limit_words(one: Candidate) -> str:
    both = "" if one.both_bps is None else f", {text.quantity(one.both_bps, 'bit/s')} both ways at once"
    return f"{both} ({LIMITS[one.limit]})" if one.limit else both


def _path_words(one: Candidate | Band) -> str:
    """How much of the path between the gateways, each way where they differ."""
    up, down = _part(one.path_share or 0.0), one.path_share_down
    if down is None or _part(down) == up:
        return f"{up} of your path{' from gw1' * (down is None)}"
    return f"{up} of your path from gw1 and {_part(down)} to it"


def line_words(needs: Needs) -> str:
    """The rate of the line; of one with two rates both."""
    if needs.line_up_bps is None:
        return _rate(needs.line_bps or 0)
    return f"{_rate(needs.line_bps or 0)} to gw1 and {_rate(needs.line_up_bps)} from it"


def _part(share: float) -> str:
    return f"{min(1.0, share):.0%}"


def _place(one: Candidate) -> str:
    """Where it was measured: machines of their own carry elsewhere what they carry here."""
    return "between your gateways" if one.most_bps == one.here_bps else "on this machine"


def _rate(rate_bps: float) -> str:
    scale, unit = text.prefix(rate_bps, "bit/s")
    return f"{rate_bps / scale:.3g} {unit}"


def _span(low_bps: float, high_bps: float) -> str:
    if low_bps == high_bps:
        return _rate(low_bps)
    scale, unit = text.prefix(high_bps, "bit/s")
    return f"{low_bps / scale:.3g} – {high_bps / scale:.3g} {unit}"
