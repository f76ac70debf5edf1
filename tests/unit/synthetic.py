"""Made-up runs for the tests of ranking and report: no lab, numbers with a known truth and known noise."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from runner.catalogue import metrics
from runner.data.remarks import of_older
from runner.data.trials import (
    Cell,
    Evidence,
    ExperimentRecord,
    Invocation,
    Measurement,
    Proof,
    Run,
    Status,
    Trial,
    VpnRecord,
    trial_id,
)

METRICS = metrics()
CBC = {"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"}
GCM = {"cipher": "aes-256-gcm", "integrity": "aead", "compression": "off"}
CHACHA = {"cipher": "chacha20-poly1305", "integrity": "aead", "compression": "off"}
PLAIN = {"cipher": "none", "integrity": "none", "compression": "off"}
TCP = {"measure": "tcp", "streams": "1", "direction": "forward", "payload": "random"}
UDP = {"measure": "udp", "payload": "random", "payload_bytes": "1300"}
IDLE = {"measure": "idle"}

NO_ESP = "Received netlink error: Requested AEAD algorithm not found (93); charon: unable to add SAD entry"
NO_LINK = {
    "wireguard": "RTNETLINK answers: Operation not supported (ip link add type wireguard)",
    "ipip": "RTNETLINK answers: Operation not supported (ip link add type ipip)",
    "ipsec": NO_ESP,
    "gre_ipsec": NO_ESP,
}
# Payload rates in Mbit/s (TCP, UDP), RTT in ms, jitter in ms, set-up in s, CPU in s/GB, as on two cores.
TRUTH: dict[str, tuple[float, float | None, float, float | None, float, float]] = {
    "none": (17700, 2010, 0.042, 0.004, 0.01, 0.8),
    "ipsec_user": (402, 310, 0.160, 0.019, 0.61, 38.0),
    "openvpn": (251, 240, 0.190, 0.022, 1.35, 62.0),
    "ssh_forward": (2420, None, 0.150, None, 0.33, 7.1),
    "ssh_tun": (350, 120, 0.260, 0.050, 0.41, 45.0),
    "wireguard_go": (570, 395, 0.145, 0.018, 0.22, 27.5),
}
SPEED = {"aes-256-gcm": 1.35, "aes-128-gcm": 1.45, "chacha20-poly1305": 1.15, "3des-cbc": 0.3, "aes-128-cbc": 1.0}
RECOMMENDED = {"wireguard": CHACHA, "wireguard_go": CHACHA, "ssh_forward": CHACHA, "ssh_tun": CHACHA}


def record(name: str) -> VpnRecord:
    plain = name in ("none", "ipip")
    wireguard = name.startswith("wireguard")
    return VpnRecord(
        title=name,
        dataplane="kernel" if name in NO_LINK or name == "none" else "userspace",
        transport="udp",
        reference=plain,
        carries="tcp" if name == "ssh_forward" else "ip",
        configurations={
            "comparable": PLAIN if plain else CHACHA if wireguard else CBC,
            "recommended": PLAIN if plain else RECOMMENDED.get(name, GCM),
        },
    )


def make_trial(
    vpn: str,
    params: Mapping[str, str],
    block: int,
    values: Mapping[str, float] | None = None,
    *,
    status: Status = "ok",
    reason: str = "",
    position: str = "within",
    experiments: tuple[str, ...] = (),
    warnings: tuple[str, ...] = (),
    samples: int = 2,
) -> Trial:
    """One trial; ``values``: metric -> value, in so many ``samples``. What has a cipher is encrypted."""
    secret = params.get("cipher", "none") != "none"
    ok = status == "ok"
    proof = Proof(
        confidential_promised=secret, delivered=True, marker_on_wan=not secret, sent_bytes=64, captured_bytes=64
    )
    return Trial.model_validate(
        {
            "id": trial_id(vpn, params, block, position),
            "vpn": vpn,
            "params": dict(params),
            "repetition": block,
            "position": position,
            "experiments": list(experiments),
            "status": status,
            "reason": reason,
            "encrypted": secret and ok,
            "warnings": list(warnings),
            "remarks": of_older(reason, (), unsupported=True)[1] if status == "unsupported" else [],
            "started_at": "2026-01-01T00:00:00+00:00",
            "duration_s": 3.0,
            "measuring_s": 2.5,
            "evidence": Evidence(version="1.0") if ok else None,
            "proof": proof if ok else None,
            "measurements": [
                Measurement(
                    metric=metric,
                    value=value,
                    unit=METRICS[metric].unit,
                    better=METRICS[metric].better,
                    samples=[value] * samples,
                )
                for metric, value in (values or {}).items()
            ],
        }
    )


def make_run(vpns: tuple[str, ...], experiments: tuple[ExperimentRecord, ...] = (), blocks: int = 3) -> Run:
    named = dict.fromkeys(name for experiment in experiments for name in experiment.metrics)  # first, as in a real run
    return Run(
        vpneval_version="0.1.0",
        run_id="synthetic",
        created_at="2026-01-01T00:00:00+00:00",
        profile="quick",
        profile_note="1 s runs in 3 blocks: for a first look, not for publication",
        seed=7,
        repetitions=blocks,
        lab={
            "kind": "netns",
            "kernel": "6.18.0",
            "cpu": "Made-up CPU @ 2.0 GHz",
            "cores": 2,
            "nodes_share_cores": True,
        },
        image={"name": "trixie", "digest": "sha256:0123456789abcdef", "packages": {"openvpn": "2.6.14-1"}},
        experiments=list(experiments),
        metrics={name: METRICS[name] for name in named if name in METRICS} | METRICS,
        vpns={name: record(name) for name in vpns},
        invocations=[
            Invocation(
                command_line=[
                    "vpneval",
                    "run",
                    "transport",
                    "cipher",
                    "compression",
                    "reference",
                    "--profile",
                    "quick",
                ],
                started_at="2026-01-01T00:00:00+00:00",
                ended_at="2026-01-01T00:05:30+00:00",
                outcome="complete",
                elapsed_s=330.0,
                measuring_s=251.0,
            )
        ],
    )


def realistic_run(blocks: int = 3, seed: int = 1) -> tuple[Run, list[Trial]]:
    """Ten VPNs, five experiments, in the shape of the quick profile on a kernel without ESP, IPIP, WireGuard."""
    vpns = (
        "none",
        "ipip",
        "ipsec",
        "ipsec_user",
        "gre_ipsec",
        "openvpn",
        "ssh_forward",
        "ssh_tun",
        "wireguard",
        "wireguard_go",
    )
    tunnels = {vpn: record(vpn).configurations["comparable"] for vpn in vpns}
    advised = {vpn: record(vpn).configurations["recommended"] for vpn in vpns}
    ciphers = [CBC, GCM | {"cipher": "aes-128-gcm"}, CHACHA, CBC | {"cipher": "3des-cbc"}]
    secret = vpns[2:]
    cells = {
        "reference": [(v, tunnels[v] | t) for v in vpns for t in (TCP, UDP, IDLE)],
        "transport": [(v, tunnels[v] | t) for v in secret for t in (TCP, UDP)],
        "cipher": [(v, c | TCP) for v in secret for c in ciphers],
        "compression": [
            (v, CBC | {"compression": c} | TCP | {"payload": p})
            for v in secret
            for c in ("off", "lz4")
            for p in ("zeros", "random", "text")
        ],
        "recommended": [(v, advised[v] | t) for v in secret for t in (TCP, UDP, IDLE)],
    }
    stream, idle = ["tcp_throughput", "cpu_per_gigabyte"], ["rtt", "jitter", "setup_time"]
    metrics = {
        "reference": ["tcp_throughput", "udp_throughput", *idle],
        "transport": ["tcp_throughput", "udp_throughput"],
    }
    metrics |= {"cipher": stream, "compression": stream, "recommended": [*stream, "udp_throughput", *idle]}
    questions = {
        "reference": "What do plain IP and plain IPIP reach, beside the VPNs?",
        "transport": "How fast is each VPN over TCP and UDP?",
        "cipher": "What does the cipher cost?",
        "compression": "When does compression pay?",
        "recommended": "How does each VPN do as its makers advise today?",
    }
    experiments = tuple(
        ExperimentRecord(
            name=name,
            question=questions[name],
            method="One iperf3 stream through the tunnel; UDP by a search for 1 % loss; RTT by a TCP exchange.",
            source="thesis §4",
            factors={},
            metrics=metrics[name],
            cells=[Cell(vpn=vpn, params=params) for vpn, params in found],
        )
        for name, found in cells.items()
    )
    rng = np.random.default_rng(seed)
    wanted = {Cell(vpn=v, params=p).key: (v, p) for found in cells.values() for v, p in found}
    trials = []
    for block in range(blocks):
        pace = float(rng.normal(1, 0.03))
        for vpn, params in wanted.values():
            for position in ("first", "last") if vpn == "none" else ("within",):
                trials.append(_synthetic_trial(vpn, params, block, position, pace, rng))
    return make_run(vpns, experiments, blocks), trials


def _synthetic_trial(
    vpn: str, params: dict[str, str], block: int, position: str, pace: float, rng: np.random.Generator
) -> Trial:
    def value(truth: float, noise: float = 0.02) -> float:
        return truth * pace * float(rng.normal(1, noise))

    if vpn in NO_LINK:
        return make_trial(vpn, params, block, status="unsupported", reason=NO_LINK[vpn], position=position)
    tcp, udp, rtt, jitter, setup, cpu = TRUTH[vpn]
    speed = 1.0 if vpn in ("none", "wireguard_go") else SPEED[params["cipher"]]
    if vpn == "wireguard_go" and params["cipher"] != "chacha20-poly1305":
        reason = f"WireGuard has one cipher (asked: cipher {params['cipher']}; offered: chacha20-poly1305)"
        return make_trial(vpn, params, block, status="unsupported", reason=reason)
    if params["compression"] == "lz4" and vpn != "openvpn":
        reason = f"{vpn} has no lz4 (asked: compression lz4; offered: off)"
        return make_trial(vpn, params, block, status="unsupported", reason=reason)
    if vpn == "openvpn" and params["cipher"] == "3des-cbc" and block == 1:
        reason = "openvpn ended with 1:\nOptions error: --providers legacy default failed\nExiting due to fatal error"
        return make_trial(vpn, params, block, status="failed", reason=reason)
    if vpn == "ssh_tun" and params["cipher"] == "3des-cbc":
        reason = "plaintext on the WAN: the marker was seen 3 times"
        return make_trial(vpn, params, block, status="failed", reason=reason)
    if params["measure"] == "udp":
        if udp is None:
            return make_trial(vpn, params, block, status="unsupported", reason="SSH port forwarding carries TCP only")
        slow = ("the sender fell short of 2.1 Gbit/s",) if vpn == "none" else ()
        values = {"udp_throughput": value(udp * speed) * 1e6}
        values |= {"jitter": value(jitter, 0.15)} if jitter else {}
        return make_trial(vpn, params, block, values, position=position, warnings=slow)
    if params["measure"] == "idle":
        values = {"rtt": value(rtt, 0.04), "setup_time": value(setup, 0.08)}
        return make_trial(vpn, params, block, values, position=position)
    packed = 3.0 if params["compression"] != "off" and params["payload"] != "random" else 1.0
    values = {"tcp_throughput": value(tcp * speed * packed) * 1e6, "cpu_per_gigabyte": value(cpu / speed / packed)}
    return make_trial(vpn, params, block, values, position=position)
