"""What a run says of each VPN as a device on a line, drawn anew many times from what its measurements leave open.

Each VPN has streams of random numbers of its own, so that whoever else is measured changes nothing of it. A page has
the same draws, to the last bit, so that it says what the terminal says.
"""

from __future__ import annotations

import math
import statistics
import zlib
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np
import scipy

from runner.choice.device import DRAWS, Curve, Device, ManyTcp, OnPath
from runner.choice.reliability import CARRIED, LOST, rung_attempts
from runner.choice.watched import long_watch
from runner.data.lab_facts import slow_tcp_bps
from runner.data.levels import BASELINE, WAYS, outside_of_tunnel, unusual
from runner.data.loads import MachineLoad
from runner.data.numbers import MOST_LOG
from runner.data.own_cores import CARRIES, VPN, on_own_cores
from runner.data.scale import no_scale
from runner.data.trials import Run, Rung, Trial
from runner.data.wan import conditions
from runner.evidence.configurations import configuration_of
from runner.evidence.estimates import alone
from runner.evidence.intervals import Array
from runner.evidence.model import Blocks, Configuration
from runner.evidence.stats import block_values

LARGEST = 3e38  # in single precision
DROPPED_BITS = 8  # of single precision: 24 bits are on the page, and here
FEWEST = 2  # values that a draw is made from
TRIMMED = 6  # from so many rounds on, one of each six is left out at either end
EXCEED_RATIO = 0.5  # of the slices may lose more or wait for longer: a goal of draft-ietf-bmwg-mlrsearch
GATEWAYS = 2
LOSSY = {"measure": "tcp", "streams": "8"}  # on it: a loss slows one of eight connections alone
OF_WAN = 0.8  # of its rate, in payload: what carries so much is limited by it
Rounds = Mapping[int, Mapping[str, float]]  # round -> name -> value
MANY = LOSSY["streams"]  # TCP connections at once, where a need asks for more than one
TRIED = ("ok", "failed")  # trials of what a VPN supports here
KINDS = ("tcp", "datagrams", "calls")  # of the ladder
CONFIGURATIONS = ("recommended", "comparable")  # the first of them that a run has is judged


def devices(run: Run, trials: Sequence[Trial]) -> dict[str, Device]:
    """VPN -> its device, of all VPNs of the run that are no references, in the configuration that is judged: as
    recommended, where that was measured. Empty for a run that has measured no ladder."""
    usual = [
        trial
        for trial in trials
        if not trial.params.get("image") and not trial.params.get("inner") and not unusual(trial.params)
    ]
    for configuration in CONFIGURATIONS:
        basis = configuration_of(run, usual, configuration)
        own = {vpn: _trials_of(usual, vpn, levels) for vpn, levels in basis.levels.items() if levels}
        if any(trial.curve for mine in own.values() for trial in mine):
            plain = [trial for trial in usual if trial.vpn == BASELINE and trial.status == "ok"]
            planned = {place_of(trial) for trial in plain}  # which no VPN's own trials change
            tried = {vpn: mine for vpn, mine in own.items() if any(trial.status in TRIED for trial in mine)}
            blocks = _blocks(run, tried)
            bare = _bare_path(run)
            by_vpn = {BASELINE: plain} | {
                vpn: [trial for trial in mine if trial.status == "ok"] for vpn, mine in tried.items()
            }
            attempts = {kind: rung_attempts(kind, by_vpn) for kind in KINDS}
            made = {
                vpn: replace(
                    _device(run, basis, vpn, mine, plain, _asked_of(run, vpn, mine, planned, blocks), bare),
                    attempts={kind: of_kind[vpn] for kind, of_kind in attempts.items()},
                )
                for vpn, mine in tried.items()
            }
            if slow := path_tcp_bps(run):
                made = {vpn: _by_datagrams(device, by_vpn[vpn], slow) for vpn, device in made.items()}
            return {
                vpn: replace(device, on_path=_on_path(mine), window_bytes=_window_bytes(mine))
                for vpn, device in made.items()
                for mine in [_trials_of(trials, vpn, device.levels)]
            }
    return {}


def place_of(trial: Trial) -> tuple[str, int]:
    """What a trial measures, and in which repetition: the same for all VPNs."""
    return str(sorted(outside_of_tunnel(trial.params).items())), trial.repetition


def _trials_of(trials: Sequence[Trial], vpn: str, levels: Mapping[str, str]) -> list[Trial]:
    return [trial for trial in trials if trial.vpn == vpn and trial.params.items() >= levels.items()]


def _blocks(run: Run, tried: Mapping[str, Sequence[Trial]]) -> dict[int, set[int]]:
    """After which repetition VPNs came in -> the repetitions in which one of them was tried."""
    blocks: dict[int, set[int]] = {}
    for vpn, mine in tried.items():
        own = {trial.repetition for trial in mine if trial.status in TRIED}
        blocks.setdefault(run.vpns[vpn].after, set()).update(own)
    return blocks


def _asked_of(
    run: Run, vpn: str, every: Sequence[Trial], planned: Set[tuple[str, int]], blocks: Mapping[int, Set[int]]
) -> set[tuple[str, int]]:
    """What was asked of the VPN, of all that was ``planned``: of one that came in later, in the repetitions of those
    that came in with it, because a run that goes on may be about the first ones alone."""
    after = run.vpns[vpn].after
    kinds = {place_of(trial)[0] for trial in every if trial.status in TRIED}
    others = min((other.after for other in run.vpns.values() if other.after > after), default=math.inf)
    return {
        (kind, repetition)
        for kind, repetition in planned
        if kind in kinds and after < repetition <= others and (not after or repetition in blocks[after])
    }


def _device(
    run: Run,
    basis: Configuration,
    vpn: str,
    every: Sequence[Trial],
    plain: Sequence[Trial],
    asked: Set[tuple[str, int]],
    bare: Mapping[str, Any] | None,
) -> Device:
    """``asked``: what was asked of the VPN, and in which repetition; ``bare``: the path between two sites (lab.path of
    run.json), which stands for plain IP where no router lets that pass; what a VPN costs is then the whole cost."""
    record, own = run.vpns[vpn], [trial for trial in every if trial.status == "ok"]
    real = no_scale(run) is None  # what an emulated machine carries says nothing of gateways
    tcp, udp = basis.values.get("tcp_throughput", {}).get(vpn), basis.values.get("udp_throughput", {}).get(vpn)
    payload = basis.traffic.get("udp_throughput", {}).get("payload_bytes")
    rates = [rate for rate in bare.get("rates_bps", ()) if rate] if bare and real else []
    one, many = ([trial for trial in own if trial.params.get("streams", "1") == number] for number in ("1", MANY))
    loaded = [trial for trial in one if trial.params.get("direction") != "both"]
    calls, is_bound = _ladder_bps("calls", own)
    bounds = {"tcp": "tcp_throughput", "udp": "udp_throughput"}
    return Device(
        vpn=vpn,
        levels=basis.levels[vpn],
        tcp_bps=_drawn("tcp", tcp),
        udp_bps=_drawn("udp", udp),
        payload_bytes=float(payload or Device.payload_bytes),
        down_bps=_drawn("tcp down", _tcp(one, "reverse")),
        both_bps=_drawn("tcp both", _tcp(one, "both")),
        many=_many(record.dataplane, many, real, bare is not None),
        calls_bps=on_page(_usual("calls", calls)) if len(calls) >= FEWEST else None,
        at_least=frozenset(
            [kind for kind, metric in bounds.items() if basis.bounds.get(metric, {}).get(vpn)] + ["calls"] * is_bound
        ),
        growth={
            kind: _growth(record.dataplane, loaded, kind, of, bare is not None)
            for kind, of in (("tcp", tcp), ("udp", udp))
            if of and real
        },
        rtt_added_ms=_beyond("rtt", basis.values.get("rtt", {}).get(vpn), block_values(plain, "rtt"), bare),
        own_gateways=bare is not None and real,
        path_bps=rates[0] if rates else None,
        path_down_bps=rates[-1] if rates else None,
        full_core_bps=_full_core_bps(own) if bare and real else None,
        real=real,
        setup_s=_middle(basis.values.get("setup_time", {}).get(vpn)),
        breakdown_bps=min((rate for trial in own for rate in breakdowns_bps(trial)), default=None),
        one_connection=record.is_one_connection,
        trials=len(asked),
        failed=len(asked - {place_of(trial) for trial in own}),
        curves={kind: made for kind in KINDS if (made := _curve(kind, own, plain, bare))},
        watched=long_watch(own),
        plain_watched=long_watch(plain),
    )


def path_tcp_bps(run: Run) -> list[float]:
    """What one TCP connection carries on the bare path between two sites, from gw1 and to it, bit/s, where that does
    not fill it; else empty."""
    bare = _bare_path(run) or {}
    return slow_tcp_bps(bare.get("tcp_bps", ()), bare.get("rates_bps", ()))


def _bare_path(run: Run) -> Mapping[str, Any] | None:
    return run.lab.get("path") if run.lab.get("kind") == "site" else None


def _by_datagrams(device: Device, own: Sequence[Trial], tcp_bps: Sequence[float]) -> Device:
    """The device on a path whose losses and round trips, and no VPN, limit one TCP connection: by its datagrams. One
    that carries TCP only is compared with what TCP carries there, ``tcp_bps``."""
    if device.udp_bps is None:
        return replace(device, path_bps=tcp_bps[0], path_down_bps=tcp_bps[-1])
    back = block_values([trial for trial in own if trial.params.get(WAYS) == "reverse"], "udp_throughput")
    down_bps = _drawn("udp down", back)
    known = device.at_least - {"tcp"} | ({"tcp"} if "udp" in device.at_least else set())
    kinds = {"tcp": "datagrams", "datagrams": "datagrams", "calls": "calls"}
    return replace(
        device,
        by_datagrams=True,
        tcp_bps=device.udp_bps,
        down_bps=down_bps,
        many=ManyTcp(device.udp_bps, down_bps, growth=device.growth.get("udp", math.inf)),
        at_least=known,
        curves={kind: device.curves[of] for kind, of in kinds.items() if of in device.curves},
        attempts={kind: of for kind, of in device.attempts.items() if kind != "tcp"},
    )


def _many(dataplane: str, own: Sequence[Trial], real: bool, between_sites: bool) -> ManyTcp | None:
    """By the trials of many connections; None where nothing came of them."""
    there = _tcp(own, "forward")
    if (tcp_bps := _drawn("many tcp", there)) is None:
        return None
    loaded = [trial for trial in own if trial.params.get("direction") != "both"]
    growth = _growth(dataplane, loaded, "tcp", there, between_sites) if real else math.inf
    down_bps, both_bps = (_drawn(f"many tcp {way}", _tcp(own, way)) for way in ("reverse", "both"))
    return ManyTcp(tcp_bps, down_bps, both_bps, growth)


def _tcp(own: Sequence[Trial], direction: str) -> Blocks:
    """The throughputs of TCP this way."""
    way = {"measure": "tcp", "direction": direction}
    return block_values([trial for trial in own if trial.params.items() >= way.items()], "tcp_throughput")


def _on_path(own: Sequence[Trial]) -> tuple[OnPath, ...]:
    found = []
    for trial in own:
        path = conditions(trial.params)
        carried = [one.value for one in trial.measurements if one.metric == "tcp_throughput"]
        if path.loss_ratio and path.rate_bps and trial.params.items() >= LOSSY.items() and carried:
            found.append(OnPath(path.rate_bps, 2 * path.delay_ms, path.loss_ratio, carried[0]))
    return tuple(found)


def _window_bytes(own: Sequence[Trial]) -> float | None:
    """What was on its way over long WANs that lose nothing: in the middle of the trials that were limited by it, not by
    the WAN's rate; at least, where there is none. The first half of a trial is slow start. None where nobody tried."""
    limited, full = list[float](), list[float]()
    for trial in own:
        path = conditions(trial.params)
        found = [one for one in trial.measurements if one.metric == "tcp_throughput" and one.samples]
        if found and path.delay_ms and path.rate_bps and not path.loss_ratio and trial.params.items() >= LOSSY.items():
            late_bps = statistics.median(found[0].samples[len(found[0].samples) // 2 :])
            (limited if late_bps < OF_WAN * path.rate_bps else full).append(late_bps * 2 * path.delay_ms / 8e3)
    return statistics.median(limited) if limited else max(full, default=None)


def breakdowns_bps(trial: Trial) -> list[float]:
    """The offered rates under which the tunnel of this trial broke down, bit/s."""
    searched = [rate for value in trial.measurements for rate in value.detail.get("breakdowns_bps") or ()]
    climbed = [rung.rate_bps for rung in trial.curve if any(rung.values.get("broke_down", ()))]
    return [*searched, *climbed]


def _parts(what: str, values: Sequence[float]) -> Array:
    """A probability from each of DRAWS equal parts, in random order, always the same for one quantity and its values
    (McKay, Beckman and Conover, Technometrics 21(2), 1979). A copy of a VPN under another name has the same draws."""
    rng = np.random.default_rng(zlib.crc32(what.encode() + np.asarray(values, dtype=float).tobytes()))
    return np.asarray((rng.permutation(DRAWS) + 0.5) / DRAWS)


def normal(what: str, values: Sequence[float], freedom: float) -> Array:
    """Draws of Student's t, for a quantity ``what`` that these values tell."""
    parts = _parts(what, values)
    return np.asarray(scipy.special.stdtrit(freedom, parts) if math.isfinite(freedom) else scipy.special.ndtri(parts))


def on_page(draws: Array) -> Array:
    """The draws as numbers of 24 bits, of which a page has every one."""
    single = np.clip(draws, -LARGEST, LARGEST).astype("<f4").view("<u4")
    return (single >> DROPPED_BITS << DROPPED_BITS).view("<f4").astype(float)


def _drawn(what: str, blocks: Blocks | None) -> Array | None:
    estimate = alone(blocks) if blocks else None
    if blocks is None or estimate is None:
        return None
    logs = estimate.centre + estimate.error * normal(what, [*blocks.values()], estimate.freedom)
    return on_page(np.exp(np.clip(logs, -MOST_LOG, MOST_LOG)))  # two values leave nearly everything open


def _middle(blocks: Blocks | None) -> Array | None:
    """The middle value in every draw: a tunnel comes up a few times only, and the thresholds of its set-up are far
    apart, so that what a few values leave open is no doubt about the choice."""
    return on_page(np.full(DRAWS, statistics.median(blocks.values()))) if blocks else None


def _beyond(what: str, blocks: Blocks | None, plain: Blocks, bare: Mapping[str, Any] | None = None) -> Array | None:
    """What a VPN's value exceeds plain IP's by, or that of the ``bare`` path; at least 0."""
    own, less = _drawn(what, blocks), _drawn(what, plain)
    if less is None and bare and bare.get("rtt_ms"):
        less = np.full(DRAWS, float(bare["rtt_ms"][1]))
    return None if own is None or less is None else on_page(np.maximum(own - less, 0.0))


def _growth(dataplane: str, own: Sequence[Trial], kind: str, blocks: Blocks, between_sites: bool) -> float:
    """By what factor gateways with cores of their own may carry more, at most."""
    loads = [trial.loads for trial in own if trial.params["measure"] == kind and trial.loads]
    if between_sites or any(len(machines) > 1 for machines in loads):
        return 1.0  # they have them already
    here_bps = statistics.median(blocks.values())
    there = on_own_cores(loads, here_bps) if dataplane != "kernel" else None
    return there.high_bps / here_bps if there else math.inf


def _ladder_bps(kind: str, own: Sequence[Trial]) -> tuple[list[float], bool]:
    """What came through at most in each round of the ladder, bit/s; and was that mostly all that was offered, so that
    it may carry more?"""
    most, full = dict[int, float](), dict[int, bool]()
    for rate_bps, rounds in sorted(_rungs(own, kind).items()):
        for number, values in rounds.items():
            lost = values.get("loss_ratio", 0.0) > LOST
            full[number] = not lost and values["carried_ratio"] >= CARRIED * values.get("sent_ratio", 1.0)
            share = 1.0 if full[number] and values["carried_ratio"] >= CARRIED else values["carried_ratio"]
            most[number] = max(most.get(number, 0.0), share * rate_bps)
    return [*most.values()], 2 * sum(full.values()) > len(full)


def _full_core_bps(own: Sequence[Trial]) -> float | None:
    """The payload that fills the core which TCP makes busiest at either gateway, bit/s; None where nobody knows."""
    loads = [trial.loads for trial in own if trial.params["measure"] == "tcp"]
    found = [min(rates) for machines in loads if (rates := [bps for one in machines if (bps := _fills_core_bps(one))])]
    return statistics.median(found) if found else None


def _fills_core_bps(machine: MachineLoad) -> float:
    """The same for one machine, by the VPN's busiest thread; by the kernel's work for packets, where no program carries
    them. 0 where nobody knows."""
    busy = max((one.busiest.busy for one in machine.processes if one.role == VPN and one.busiest), default=0.0)
    if busy < CARRIES:
        busy = max((core.softirq + core.irq for core in machine.cores), default=0.0)
    return 8 * machine.carried_bytes / machine.seconds / busy if busy else 0.0


def _curve(kind: str, own: Sequence[Trial], plain: Sequence[Trial], path: Mapping[str, Any] | None) -> Curve | None:
    """The ladder of the VPN, over the rounds of all its tunnels. None where fewer than FEWEST rounds have one."""
    bare = _rungs(plain, kind) or _of_path(path)
    rows = [(rate, _of_rung(by_round, bare)) for rate, by_round in sorted(_rungs(own, kind).items())]
    rows = [(rate, row) for rate, row in rows if len(row["carried_ratio"]) >= FEWEST]
    if not rows:
        return None

    def drawn(name: str, draw: Callable[[str, Sequence[float]], Array]) -> Array:
        return np.column_stack([draw(f"{kind} {name} {rate}", row[name]) for rate, row in rows])

    return Curve(
        rates_bps=np.array([rate for rate, _ in rows]),
        carried=np.array([statistics.median(row["carried_ratio"]) >= CARRIED for _, row in rows]),
        cores=on_page(drawn("cores", _mean)),
        loss_ratio=on_page(np.clip(drawn("loss_ratio", _usual), 0.0, 1.0)),
        delay_ms=on_page(np.maximum(drawn("delay_ms", _usual), 0.0)),
        own_cores=np.array([statistics.median(row["own_cores"] or [math.nan]) for _, row in rows]),
    )


def _of_path(path: Mapping[str, Any] | None) -> dict[float, Rounds]:
    """The bare path as if it were plain IP's ladder: its round trips, as the delays of machines of their own are, and
    no cost."""
    if not path or not path.get("rtt_ms"):
        return {}
    return {1.0: {0: {"delay_p95_ms": float(path["rtt_ms"][2]), "cpu_s": 0.0, "carried_bytes": 1.0}}}


def _rungs(trials: Sequence[Trial], kind: str) -> dict[float, dict[int, dict[str, float]]]:
    """Rate -> round -> name -> value, of the ladders of this kind."""
    rungs: dict[float, dict[int, dict[str, float]]] = {}
    for trial in trials:
        if trial.params.get("carried") == kind:
            for rung in trial.curve:
                rungs.setdefault(rung.rate_bps, {}).update(_rounds(rung))
    return rungs


def _rounds(rung: Rung) -> dict[int, dict[str, float]]:
    return {
        number: {name: value for name, values in rung.values.items() if (value := values[at]) is not None}
        for at, number in enumerate(rung.rounds)
    }


def _of_rung(rounds: Rounds, bare: Mapping[float, Rounds]) -> dict[str, list[float]]:
    """Name -> a value for each round: what the rung costs a gateway beyond plain IP, what it loses and adds."""
    row: dict[str, list[float]] = {
        "cores": [],
        "own_cores": [],
        "carried_ratio": [],
        "loss_ratio": [],
        "delay_ms": [],
    }
    for number, values in rounds.items():
        if values.get("sent_ratio", 1.0) < CARRIED and values.get("loss_ratio", 1.0) <= LOST:
            continue  # the sender fell short, and not the VPN
        row["carried_ratio"].append(values["carried_ratio"])
        if not values["carried_ratio"] or "loss_ratio" in values:
            row["loss_ratio"].append(values.get("loss_ratio", 1.0))
        if not values.get("seconds") or not values.get("carried_bytes") or "cpu_s" not in values:
            continue  # nothing came through, or nobody counts CPU time
        plain = _plain(number, 8 * values["carried_bytes"] / values["seconds"], bare)
        if "cpu_per_byte_s" in plain:
            beyond_s = values["cpu_s"] - plain["cpu_per_byte_s"] * values["carried_bytes"]
            row["cores"].append(beyond_s / values["seconds"] / GATEWAYS)
        if own := [values[name] for name in values if name.endswith("_cpu_s") and name != "threads_cpu_s"]:
            row["own_cores"].append(sum(own) / values["seconds"] / GATEWAYS)
        if "delay_p95_ms" in values and "delay_p95_ms" in plain:
            row["delay_ms"].append(values["delay_p95_ms"] - plain["delay_p95_ms"])
    return row


def _plain(number: int, rate_bps: float, bare: Mapping[float, Rounds]) -> dict[str, float]:
    """Plain IP at about this rate in this round: the rung that is nearest, by its logarithm. In a round in which it
    was not climbed to, the median of all rounds. Empty where nothing is known of it."""
    near = min(bare, key=lambda rate: abs(math.log(rate / max(rate_bps, 1.0))), default=None)
    if near is None:
        return {}
    rounds = bare[near]
    every = [rounds[number]] if number in rounds else [*rounds.values()]
    costs = [
        values["cpu_s"] / values["carried_bytes"]
        for values in every
        if values.get("carried_bytes") and "cpu_s" in values
    ]
    delays = [values["delay_p95_ms"] for values in every if "delay_p95_ms" in values]
    known = {"cpu_per_byte_s": costs, "delay_p95_ms": delays}
    return {name: statistics.median(values) for name, values in known.items() if values}


def _mean(what: str, values: Sequence[float]) -> Array:
    """Draws of the trimmed mean of some values, which may be negative (Yuen, Biometrika 61(1), 1974); no number for
    fewer than FEWEST."""
    count = len(values)
    if count < FEWEST:
        return np.full(DRAWS, np.nan)
    cut = count // TRIMMED
    ordered = np.sort(np.asarray(values, dtype=float))
    kept = count - 2 * cut
    wins = np.clip(ordered, ordered[cut], ordered[count - 1 - cut])
    error = float(wins.std(ddof=1)) * math.sqrt(count) / kept
    return float(ordered[cut : count - cut].mean()) + error * normal(what, values, kept - 1)


def _usual(what: str, values: Sequence[float]) -> Array:
    """Draws of the median of some values, from their order alone: so many of them are below it as a coin says, and
    between two neighbours it is anywhere. Other work on the machine makes a slice in ten lose a tenth of everything,
    which moves a mean and no median. No number for fewer than FEWEST."""
    if len(values) < FEWEST:
        return np.full(DRAWS, np.nan)
    count, ordered = len(values), np.sort(np.asarray(values, dtype=float))
    ends = np.concatenate([ordered[:1], ordered, ordered[-1:]])
    up_to = np.concatenate([[0.0], scipy.special.bdtr(np.arange(count + 1), count, 1 - EXCEED_RATIO)])
    return np.asarray(np.interp(_parts(what, values), up_to, ends))
