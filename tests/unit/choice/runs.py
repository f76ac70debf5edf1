"""Made-up runs of ``choose`` whose truth is known: VPNs with a throughput, a cost at each rate, and noise."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from runner.data.declaration import Declaration
from runner.data.metric import Metric
from runner.data.needs import Needs
from runner.data.trials import Measurement, Noise, Run, Rung, Trial
from tests.unit.synthetic import IDLE, METRICS, TCP, UDP, make_run, make_trial, record

RUNGS_BPS = (1e7, 3e7, 1e8, 3e8, 1e9, 3e9)
SECONDS = 0.25
LADDER = Metric(
    name="ladder_rate",
    title="Highest rate of the ladder",
    unit="bit/s",
    better="higher",
    definition="x",
    source="x",
    measure="ladder",
)


@dataclass(frozen=True)
class Truth:
    """What one made-up VPN is. ``core_s_per_gb``: of a gateway at 100 Mbit/s; at other rates the cost of a byte goes
    with the rate's power ``falls``."""

    tcp_bps: float
    udp_bps: float
    core_s_per_gb: float = 20.0
    falls: float = -0.4
    rtt_ms: float = 0.15
    setup_s: float = 0.4
    breakdown_bps: float | None = None

    def cores(self, rate_bps: float) -> float:
        return float(rate_bps / 8e9 * self.core_s_per_gb * (rate_bps / 1e8) ** self.falls)


PLAIN = Truth(5e9, 2e9, 2.0, rtt_ms=0.05, setup_s=0.04)
TRUTHS: dict[str, Truth] = {
    "none": PLAIN,
    "wireguard_go": Truth(3.5e9, 6e8, 18.0),
    "openvpn": Truth(8e8, 6e8, 20.0),
    "ipsec_user": Truth(4e8, 3e8, 60.0),
    "ssh_tun": Truth(6e8, 4e8, 17.0, breakdown_bps=1.25e9),
}


DECLARED = Declaration(
    as_of="2026-01-01",
    sources=["made up"],
    protocol="own",
    authentication=["public key"],
    forward_secrecy=True,
    post_quantum=False,
    maintained=True,
    inner=["IPv4"],
    outer=["IPv4"],
    nat=True,
    roaming=False,
    mesh=False,
)


def chosen_run(
    truths: Mapping[str, Truth] = TRUTHS,
    *,
    needs: Needs | None = None,
    passes: int = 8,
    instances: int = 2,
    noise: float = 0.1,
    seed: int = 1,
    absent: tuple[str, ...] = ("ipsec", "wireguard"),
    guest: str = "",
) -> tuple[Run, list[Trial]]:
    """A run of ``choose``: so many ``passes`` of each ladder, spread over the ``instances`` of each tunnel. ``noise``:
    the standard deviation of a slice's logarithm."""
    rng = np.random.default_rng(seed)
    run = make_run((*truths, *absent), (), instances)
    vpns = {
        name: known.model_copy(update={"transport": "tcp" if name.startswith("ssh") else "udp", "declared": DECLARED})
        for name, known in run.vpns.items()
    }
    lab = run.lab | ({"guest": guest} if guest else {})
    update = {"needs": needs or Needs(), "vpns": vpns, "metrics": run.metrics | {"ladder_rate": LADDER}, "lab": lab}
    trials: list[Trial] = []
    rounds = np.array_split(np.arange(1, passes + 1), instances)
    for instance, own in enumerate(rounds, 1):
        pace = {int(number): float(rng.normal(0, noise)) for number in own}
        for vpn, truth in truths.items():
            trials += _trials(vpn, truth, instance, pace, noise, rng)
    for vpn in truths.keys() - {"none"}:  # they were tried, later
        levels = record(vpn).configurations["recommended"]
        trials += [
            make_trial(vpn, {**levels, "compression": "on", "measure": measure}, instances + 1, {metric: 1.0})
            for measure, metric in (("security", "confidentiality"), ("narrow", "narrow_mtu"))
        ]
    for vpn in absent:
        levels = record(vpn).configurations["recommended"]
        trials.append(make_trial(vpn, levels | TCP, 1, status="unsupported", reason="the kernel has none"))
    return run.model_copy(update=update), trials


def _trials(
    vpn: str, truth: Truth, instance: int, pace: Mapping[int, float], noise: float, rng: np.random.Generator
) -> list[Trial]:
    levels = record(vpn).configurations["recommended"]

    def drawn(value: float) -> list[float]:
        return [float(value * np.exp(slow + rng.normal(0, noise))) for slow in pace.values()]

    def trial(traffic: Mapping[str, str], **values: float) -> Trial:
        made = make_trial(vpn, {**levels, **traffic}, instance)
        measured = []
        for metric, value in values.items():
            samples = drawn(value)
            unit, better = METRICS[metric].unit, METRICS[metric].better
            middle = float(np.median(samples))
            measured.append(
                Measurement(metric=metric, value=middle, unit=unit, better=better, samples=samples, rounds=list(pace))
            )
        return made.model_copy(update={"measurements": measured, "noise": Noise(steal_ratio=0.02)})

    udp = trial(UDP, udp_throughput=truth.udp_bps)
    if truth.breakdown_bps:
        value = udp.measurements[0].model_copy(update={"detail": {"breakdowns_bps": [truth.breakdown_bps]}})
        udp = udp.model_copy(update={"measurements": [value]})
    return [
        trial(TCP, tcp_throughput=truth.tcp_bps),
        udp,
        trial(IDLE, rtt=truth.rtt_ms, setup_time=truth.setup_s),
        *(_ladder(vpn, truth, levels, kind, instance, pace, noise, rng) for kind in ("tcp", "datagrams")),
    ]


def _ladder(
    vpn: str,
    truth: Truth,
    levels: Mapping[str, str],
    kind: str,
    instance: int,
    pace: Mapping[int, float],
    noise: float,
    rng: np.random.Generator,
) -> Trial:
    most_bps = truth.tcp_bps if kind == "tcp" else truth.udp_bps
    curve = []
    for rate_bps in RUNGS_BPS:
        carried = min(1.0, most_bps / rate_bps)
        offered = rate_bps * carried
        cores = 2 * (truth.cores(offered) + (PLAIN.cores(offered) if vpn != "none" else 0.0))
        curve.append(
            Rung(
                rate_bps=rate_bps,
                rounds=list(pace),
                values={
                    "carried_ratio": [carried] * len(pace),
                    "loss_ratio": [1 - carried] * len(pace),
                    "delay_p95_ms": [0.3 + (20.0 if carried < 1 else 0.0)] * len(pace),
                    "cpu_s": [cores * SECONDS * float(np.exp(slow + rng.normal(0, noise))) for slow in pace.values()],
                    "seconds": [SECONDS] * len(pace),
                    "carried_bytes": [offered / 8 * SECONDS] * len(pace),
                },
            )
        )
        if carried < 0.95:
            break
    highest = max((rung.rate_bps for rung in curve if rung.values["carried_ratio"][0] == 1.0), default=0.0)
    measured = Measurement(
        metric="ladder_rate",
        value=highest,
        unit="bit/s",
        better="higher",
        samples=[highest] * len(pace),
        rounds=list(pace),
    )
    made = make_trial(vpn, {**levels, "measure": "ladder", "carried": kind}, instance)
    return made.model_copy(update={"curve": curve, "measurements": [measured], "noise": Noise(steal_ratio=0.02)})


def with_bad(trials: Sequence[Trial], share_of: Callable[[str], float], seed: int = 1) -> list[Trial]:
    """The trials, in which each attempt of a ladder that a VPN carries is bad with a chance: half is lost."""
    rng = np.random.default_rng(seed)

    def spoilt(trial: Trial, rung: Rung) -> Rung:
        values = {name: list(each) for name, each in rung.values.items()}
        for at, carried in enumerate(values["carried_ratio"]):
            if carried == 1 and rng.random() < share_of(trial.vpn):
                values["carried_ratio"][at], values["loss_ratio"][at] = 0.5, 0.5
        return rung.model_copy(update={"values": values})

    return [trial.model_copy(update={"curve": [spoilt(trial, rung) for rung in trial.curve]}) for trial in trials]


def more_tcp(trials: Sequence[Trial], vpn: str, times: float, **levels: str) -> list[Trial]:
    """The trials, and for each of this VPN's TCP another at these levels, in which it carried so many times as much."""
    more = []
    for trial in trials:
        if trial.vpn == vpn and trial.params.items() >= TCP.items():
            one = trial.measurements[0]
            samples = [times * value for value in one.samples]
            measured = one.model_copy(update={"value": times * one.value, "samples": samples})
            cell = f"{trial.cell} {levels}"
            update = {"params": trial.params | levels, "cell": cell, "measurements": [measured]}
            more.append(trial.model_copy(update=update))
    return [*trials, *more]


def stretch(vpn: str, params: Mapping[str, str], gap_s: float = 0.01, *, bad: int = 0, repetition: int = 1) -> Trial:
    """An uncut stretch of 30 s, of which so many windows were bad."""
    detail = {
        "rate_bps": float(params["steady_bps"]),
        "seconds": 30.0,
        "loss_by_second": [0.25 * (second < bad) for second in range(30)],
        "windows": 120,
        "bad_windows": bad,
        "limited_windows": 0,
        "broke_down": False,
    }
    values = {
        "steady_gap": (gap_s, "s"),
        "steady_late": (gap_s, "s"),
        "steady_worst_second_loss": (0.25 * bool(bad), "1"),
        "steady_loss": (0.25 * bad / 30, "1"),
    }
    measured = [
        Measurement(metric=name, value=value, unit=unit, better="lower", detail=detail if name == "steady_gap" else {})
        for name, (value, unit) in values.items()
    ]
    return make_trial(vpn, params, repetition).model_copy(update={"measurements": measured})
