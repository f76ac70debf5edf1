"""Which musts a VPN fulfils, in one of four words, and what shows it.

A trial outranks a shipped run's trial, and either outranks what the plugin declares. Judged is the tunnel as it was
measured: what the same software could do in another configuration is another VPN's.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

from runner.choice.model import How, State, Word
from runner.data.declaration import Declaration
from runner.data.levels import EXCHANGES, tunnel_levels
from runner.data.named import MUSTS, Must
from runner.data.trials import Measurement, Run, Trial, VpnRecord

WORDS: tuple[Word, ...] = ("no", "unknown", "declared", "shown")
Earlier = tuple[Run, Sequence[Trial]]
ALL = "*"  # of a list: whatever it is
NO_LIST: dict[str, Any] = {"recommends": [], "leaves_out": [], "source": ""}  # of a protocol that no list knows
MESH = 3  # sites: with two there is nothing to mesh
PATIENT_S = 120.0  # the longest that daemons wait by default before they begin anew


@dataclass(frozen=True)
class SeenVpn:
    """What a run saw of one VPN: its ``trials``, by a path of IP version ``ip_version``, with a ``nat`` on it or
    without. ``levels``: of the configuration that is judged."""

    record: VpnRecord
    trials: Sequence[Trial]
    levels: Mapping[str, str]
    ip_version: int
    nat: bool

    @property
    def ok(self) -> list[Trial]:
        """The trials that came to a result."""
        return [trial for trial in self.trials if trial.status == "ok"]


@dataclass(frozen=True)
class Found:
    """Whether a must is fulfilled, and what shows it. None: what was seen decides nothing, as nobody knows it."""

    fulfilled: bool | None
    how: How
    value: str = ""
    trial: str = ""
    sources: tuple[str, ...] = ()


NOT_IN_RECIPE = Found(None, "plugin")  # its recipe needs fixed addresses


def states(
    run: Run, trials: Sequence[Trial], earlier: Sequence[Earlier] = (), configuration: str = "recommended"
) -> dict[str, dict[Must, State]]:
    """VPN -> must -> state, of each VPN in ``run``. ``earlier``: shipped runs; of two that tell, the first counts.
    ``configuration`` names the levels whose cryptography is judged."""
    runs = [(run, trials), *earlier]
    records = {
        name: _complete_record(name, record, earlier)
        for known, _ in reversed(runs)
        for name, record in known.vpns.items()
    }
    every = {name: _of_vpn(name, record, runs, configuration) for name, record in records.items()}
    for name, record in records.items():
        every[name]["tried"] = _with_kin(record, every[name]["tried"], records, every)
    return {
        name: {must: _with_hint(name, must, state, records, every) for must, state in every[name].items()}
        for name in run.vpns
    }


def words_of(known: Mapping[str, Mapping[Must, State]]) -> dict[str, dict[Must, str]]:
    """VPN -> must -> its word alone, which is what a choice goes by."""
    return {vpn: {must: state.word for must, state in own.items()} for vpn, own in known.items()}


def worst(own: Mapping[Must, State], musts: Iterable[Must]) -> Word:
    """The word for all of these musts together: the worst of theirs; "shown" for none."""
    return min((own[must].word for must in musts), key=WORDS.index, default="shown")


def levels_that_show(own: Mapping[Must, State], musts: Iterable[Must], runs: Sequence[Earlier]) -> dict[str, str]:
    """By what keys were agreed on in the trials of these ``runs`` that showed the musts, where they asked for it."""
    shown = {(own[must].run or runs[0][0].run_id, own[must].trial) for must in musts if own[must].word == "shown"}
    showing = [trial for run, trials in runs for trial in trials if (run.run_id, trial.id) in shown]
    return {factor: trial.params[factor] for trial in showing for factor in EXCHANGES if factor in trial.params}


def _of_vpn(name: str, record: VpnRecord, runs: Sequence[Earlier], configuration: str) -> dict[Must, State]:
    seen = [
        (run, _see_vpn(run, record, [trial for trial in trials if trial.vpn == name], configuration))
        for run, trials in runs
        if name in run.vpns and same_tunnel(run.vpns[name], record)
    ]
    own = {must: _state(must, record, seen, runs[0][0]) for must in MUSTS if must != "tried"}
    return own | {"tried": _tried_state(record, seen, runs[0][0])}


def _complete_record(name: str, record: VpnRecord, earlier: Sequence[Earlier]) -> VpnRecord:
    """A record of before declarations were kept has those of a shipped run."""
    if record.declared or record.family:
        return record
    kept = [run.vpns[name] for run, _ in earlier if name in run.vpns and same_tunnel(run.vpns[name], record)]
    return record.model_copy(update={"declared": kept[0].declared, "family": kept[0].family}) if kept else record


def same_tunnel(one: VpnRecord, other: VpnRecord) -> bool:
    """Is a VPN of the same name in another run the same tunnel? A plugin from outside may have a known name."""
    return (one.title, one.transport, one.dataplane) == (other.title, other.transport, other.dataplane)


def _see_vpn(run: Run, record: VpnRecord, trials: Sequence[Trial], configuration: str) -> SeenVpn:
    path = run.lab.get("path") or {}
    version = run.lab.get("wan_ip_version", 4)
    return SeenVpn(record, trials, record.configurations.get(configuration, {}), version, bool(path.get("nat")))


def _state(must: Must, record: VpnRecord, seen: Sequence[tuple[Run, SeenVpn]], this: Run) -> State:
    for run, each in seen:
        if found := TRIED[must](each) if must in TRIED else None:
            day = next((trial.started_at[:10] for trial in each.trials if trial.id == found.trial), "")
            shipped = {"run": run.run_id, "day": day} if run is not this and found.trial else {}
            return State(
                word="unknown" if found.fulfilled is None else "shown" if found.fulfilled else "no",
                how=found.how,
                value=found.value,
                trial=found.trial,
                sources=list(found.sources),
                **shipped,
            )
    if must in BY_PLUGIN and BY_PLUGIN[must](record):
        return State(word="declared", how="plugin", value=record.transport if must == "udp-blocked" else "")
    declared = record.declared
    if must == "no-fixed-address" and record.roams == "none":
        return State(word="unknown", how=NOT_IN_RECIPE.how)
    if declared and (can := DECLARED[must](declared) if must in DECLARED else None) is not None:
        word: Word = "declared" if can else "no"
        return State(word=word, how="declaration", day=declared.as_of, sources=declared.sources)
    return State(word="unknown", how="nothing")


def _with_kin(
    record: VpnRecord, state: State, records: Mapping[str, VpnRecord], every: Mapping[str, Mapping[Must, State]]
) -> State:
    """Whether it was tried: a VPN of the kernel as its kin was, since few machines that try have every kernel."""
    if state.word == "shown" or record.dataplane != "kernel" or not record.speaks:
        return state
    kin = (name for name, other in records.items() if (other.speaks, other.dataplane) == (record.speaks, "userspace"))
    tried = next((name for name in kin if every[name]["tried"].word == "shown"), "")
    return State(word="declared", how="kin", value=tried) if tried else state


def _with_hint(
    name: str, must: Must, state: State, records: Mapping[str, VpnRecord], every: Mapping[str, Mapping[Must, State]]
) -> State:
    """The state, with the others of the family that can where this VPN cannot."""
    family = records[name].family
    if state.word != "no" or not family:
        return state
    others = (other for other, record in records.items() if record.family == family and other != name)
    return state.model_copy(
        update={"instead": [other for other in others if every[other][must].word in ("shown", "declared")]}
    )


def _tried_state(record: VpnRecord, seen: Sequence[tuple[Run, SeenVpn]], this: Run) -> State:
    """Has it been attacked, and, if it carries packets, been on a path that is no bridge? Each in whichever run."""
    state = State(word="unknown", how="nothing")
    for measures in (ON_A_PATH, ATTACKED) if record.carries == "ip" else (ATTACKED,):
        passed = [(run, trial) for run, each in seen for trial in each.ok if _has_verdict(trial, measures)]
        if not passed:
            return State(word="unknown", how="nothing")
        run, trial = passed[0]
        state = State(word="shown", how="trial", trial=trial.id, **_shipped_in(run, trial, this))
    return state


def _shipped_in(run: Run, trial: Trial, this: Run) -> dict[str, Any]:
    """Run and day of a trial that is not of ``this`` run."""
    return {} if run is this else {"run": run.run_id, "day": trial.started_at[:10]}


def _has_verdict(trial: Trial, measures: Collection[str]) -> bool:
    """Did one of these measurements find anything? A failed control leaves no value."""
    return trial.params.get("measure") in measures and bool(trial.measurements)


def _networks(seen: SeenVpn) -> Found | None:
    if seen.record.carries != "ip":
        return Found(False, "ports")
    through = (trial for trial in seen.ok if trial.proof and trial.proof.delivered)
    return next((Found(True, "marker", trial=trial.id) for trial in through), None)


def _udp_blocked(seen: SeenVpn) -> Found | None:
    """A tunnel that came up past a filter passes, or not, as most trials tell, and by the way that the product falls
    back to; else one that the capture saw in TCP alone, and not one of which it saw anything else. Plain IP is what it
    carries, and the marker is TCP."""
    probes = _measurements_of(seen, "passes_without_udp")
    if probes:
        trial, passed = _as_most(probes, lambda probe: probe.value == 1)
        match passed.detail:
            case {"kind": "fallback", "numbers": {"way": way, "rate_mbit_s": rate}}:
                return Found(True, "trial", f"{way}, {rate} Mbit/s", trial.id)
        return Found(passed.value == 1, "trial", trial=trial.id)
    if seen.record.transport == "ip":
        return Found(False, "plugin", seen.record.transport)
    wires = [(trial, trial.proof.outer) for trial in seen.ok if trial.proof and trial.proof.outer]
    for trial, outer in sorted(wires, key=lambda wire: wire[1] == ["tcp"]):
        return Found(outer == ["tcp"], "wire", " and ".join(outer), trial.id)
    return None if seen.record.transport == "tcp" else Found(False, "plugin", seen.record.transport)


def _kernel(seen: SeenVpn) -> Found | None:
    """The proof has compared the plugin's data plane with the evidence (runner/tunnel/contradiction.py)."""
    plane = seen.record.dataplane
    if seen.ok:
        return Found(plane == "kernel", "data path", plane, seen.ok[0].id)
    return None if plane == "kernel" else Found(False, "plugin", plane)


def _ipv6_inside(seen: SeenVpn) -> Found | None:
    asked = [trial for trial in seen.trials if trial.params.get("inner") in ("6", "both", "ipv6")]  # as it was called
    passed = (trial for trial in asked if trial.status == "ok")
    refuted = (trial for trial in asked if trial.attempt.get("refutes") == "ipv6-inside")
    return next((Found(trial.status == "ok", "trial", trial=trial.id) for trial in chain(passed, refuted)), None)


def _ipv6_path(seen: SeenVpn) -> Found | None:
    """It was measured over IPv6; or its tunnel never came up there, where it did over IPv4."""
    over = {trial.id for trial in seen.trials if trial.params.get("underlay", str(seen.ip_version)) == "6"}
    if passed := [trial for trial in seen.ok if trial.id in over]:
        return Found(True, "trial", trial=passed[0].id)
    failed = [trial for trial in seen.trials if trial.id in over and trial.status == "failed"]
    never = [trial for trial in failed if not (trial.evidence or trial.proof)]
    return Found(False, "trial", trial=never[0].id) if never and seen.ok else None


def _nat(seen: SeenVpn) -> Found | None:
    """A tunnel that came up behind a NAT and was back after the NAT had changed its port, or not; else one that a NAT
    is on the path of."""

    def came_back(probe: Measurement) -> bool:
        return probe.detail.get("kind") in ("at_once", "back")

    if probes := _measurements_of(seen, "nat_port_back"):
        trial, back = _as_most(probes, came_back)
        return Found(came_back(back), "trial", f"{back.value:.0f} s" if came_back(back) else "", trial.id)
    return Found(True, "trial", trial=seen.ok[0].id) if seen.ok and seen.nat else None


def _no_fixed_address(seen: SeenVpn) -> Found | None:
    """It comes back after the gateway's move. Where it did not, a trial tells that only if it has watched for longer
    than daemons wait; or if the plugin declares that a living tunnel follows. A trial of what no recipe sets up shows
    nothing."""
    moves = _measurements_of(seen, "outage_ms", failure="roaming")
    follows = bool(seen.record.declared and seen.record.declared.roaming)
    for trial, outage in sorted(moves, key=lambda move: not move[1].at_least):
        watched_s = outage.detail.get("watched_s", 0.0)
        if not outage.at_least or follows or watched_s >= PATIENT_S:
            value = f"{watched_s:g} s" if outage.at_least else f"{outage.value / 1e3:.1f} s"
            if seen.record.roams == "none" and not outage.at_least:
                return NOT_IN_RECIPE
            return Found(not outage.at_least, "trial", value, trial.id)
    return None


def _fail_closed(seen: SeenVpn) -> Found | None:
    for trial, passed in sorted(_measurements_of(seen, "fail_closed"), key=lambda probe: probe[1].value):
        return Found(passed.value == 1, "trial", trial=trial.id)
    return None


def _mesh(seen: SeenVpn) -> Found | None:
    """It has joined more than two sites, or has not managed three. A machine that is too small shows neither."""
    for trial in seen.ok:
        detail = next((each.detail for each in trial.measurements if "sizes" in each.detail), trial.attempt)
        most = max(map(int, detail.get("sizes", ())), default=0)
        if most >= MESH:
            return Found(True, "trial", f"{most} sites", trial.id)
        if detail.get("too_slow_sites") == MESH:
            return Found(False, "trial", f"{MESH} sites", trial.id)
    return None


def _post_quantum(seen: SeenVpn) -> Found | None:
    """What a trial asked for shows what can be set up; a classical key exchange that was asked for denies nothing."""
    withstands, broken = (approved_lists()["key_exchange"][kind] for kind in ("post_quantum", "classical"))
    found = []
    for trial in _negotiated_trials(seen):
        word = trial.evidence.key_exchange if trial.evidence else ""
        asked = bool({*EXCHANGES} & {*trial.params})
        if word in withstands or (word in broken and not asked):
            order = not asked, not _at_levels(trial, seen)
            found.append((order, Found(word in withstands, "negotiated", word, trial.id)))
    return min(found, key=lambda each: each[0])[1] if found else None


def _judge_approval(seen: SeenVpn) -> Found | None:
    """Key exchange, cipher and integrity, all in the list. One that nobody has looked up leaves it unknown."""
    handshake = seen.record.declared.handshake if seen.record.declared else ""
    permitted = next((part for part in _parts() if part["handshake"] == handshake), NO_LIST)
    agreed = next((trial for trial in _negotiated_trials(seen) if _at_levels(trial, seen)), None)
    if agreed is None or agreed.evidence is None:
        return None
    words = [agreed.evidence.key_exchange, *(seen.levels[factor] for factor in ("cipher", "integrity"))]
    left_out = [word for word in words if {word, ALL} & {*permitted["leaves_out"]}]
    not_read = [word for word in words if word not in permitted["recommends"]]
    fulfilled = False if left_out else None if not_read else True
    value = ", ".join(dict.fromkeys(left_out or not_read or words))
    sources = (permitted["source"],) if permitted["source"] else ()
    return Found(fulfilled, "negotiated", value, agreed.id, sources)


def _negotiated_trials(seen: SeenVpn) -> list[Trial]:
    """The trials whose daemons told their key exchange."""
    return [trial for trial in seen.ok if trial.evidence and trial.evidence.key_exchange]


def _at_levels(trial: Trial, seen: SeenVpn) -> bool:
    return tunnel_levels(trial.params) == dict(seen.levels)


def _measurements_of(seen: SeenVpn, metric: str, **levels: str) -> list[tuple[Trial, Measurement]]:
    return [
        (trial, measurement)
        for trial in seen.ok
        if levels.items() <= trial.params.items()
        for measurement in trial.measurements
        if measurement.metric == metric
    ]


def _as_most(
    probes: Sequence[tuple[Trial, Measurement]], passed: Callable[[Measurement], bool]
) -> tuple[Trial, Measurement]:
    """The first trial that tells what most of them do; of as many, one that did not pass."""
    good = [probe for probe in probes if passed(probe[1])]
    bad = [probe for probe in probes if not passed(probe[1])]
    return good[0] if len(good) > len(bad) else bad[0]


@cache
def approved_lists() -> dict[str, Any]:
    """The lists of permitted cryptography, with their sources, as they stand in approved.toml."""
    return tomllib.loads(Path(__file__).with_name("approved.toml").read_text(encoding="utf-8"))


def _parts() -> list[dict[str, Any]]:
    """The parts of the list that is meant where a user names none."""
    lists = approved_lists()
    parts: list[dict[str, Any]] = lists[lists["lists"][0]]
    return parts


# What was measured of a VPN that was tried: an attack, and what a path does to it (experiments/path.py, silence.py).
ATTACKED = ("security",)
ON_A_PATH = ("marks", "reordering", "repeats", "narrow", "blocked", "nat", "policing", "bulk", "silence")
# What trials show of a must, and what can be refuted by them; None where they tell nothing.
TRIED: Mapping[Must, Callable[[SeenVpn], Found | None]] = {
    "networks": _networks,
    "udp-blocked": _udp_blocked,
    "kernel": _kernel,
    "ipv6-inside": _ipv6_inside,
    "ipv6-path": _ipv6_path,
    "nat": _nat,
    "no-fixed-address": _no_fixed_address,
    "fail-closed": _fail_closed,
    "mesh": _mesh,
    "post-quantum": _post_quantum,
    "approved": _judge_approval,
}
# Must -> the trials of the experiment musts that show it, each with the seconds that one takes at most, the shortest
# must first.
ATTACK = {"measure": "security"}, 40.0
SHOWN_BY: Mapping[Must, Sequence[tuple[Mapping[str, str], float]]] = {
    "ipv6-path": [({"measure": "idle", "underlay": "6"}, 15.0)],
    "mesh": [({"measure": "mesh"}, 20.0)],
    "fail-closed": [ATTACK],
    "ipv6-inside": [({"measure": "udp", "inner": "6"}, 60.0)],
    "tried": [ATTACK, ({"measure": "narrow"}, 90.0)],
    "no-fixed-address": [({"measure": "recovery"}, 165.0)],
}
# What the plugin says of the tunnel that it sets up, which no trial has contradicted.
BY_PLUGIN: Mapping[Must, Callable[[VpnRecord], bool]] = {
    "udp-blocked": lambda record: record.transport == "tcp",
    "kernel": lambda record: record.dataplane == "kernel",
}
# What it declares; None where a declaration decides nothing: a tunnel that does not follow a move may be made anew.
DECLARED: Mapping[Must, Callable[[Declaration], bool | None]] = {
    "networks": lambda declared: "IPv4" in declared.inner,
    "ipv6-inside": lambda declared: "IPv6" in declared.inner,
    "ipv6-path": lambda declared: "IPv6" in declared.outer,
    "nat": lambda declared: declared.nat,
    "no-fixed-address": lambda declared: declared.roaming or None,
    "post-quantum": lambda declared: declared.post_quantum,
    "certificates": lambda declared: declared.authentication[:1] == ["certificate"],
    "forward-secrecy": lambda declared: declared.forward_secrecy,
    "ethernet": lambda declared: "Ethernet" in declared.inner,
    "multicast": lambda declared: "multicast" in declared.inner,
    "mesh": lambda declared: declared.mesh,
    "standard": lambda declared: declared.protocol == "standard",
    "maintained": lambda declared: declared.maintained,
}
