"""Worlds made up for the findings: of each experiment one in which its findings hold, and one in which they do not."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

from runner.catalogue import load_experiment, load_vpn, record_of
from runner.data.trials import Run, Trial
from runner.design.profile import PROFILES
from runner.papers.findings import Finding
from runner.papers.judges import findings_of
from runner.vpn.closed_form import ESP_ICV, HMAC
from tests.unit.synthetic import METRICS, make_run, make_trial

ROOT = Path(__file__).resolve().parents[2]
Values = Callable[[str, Mapping[str, str], str], float]
ROUNDING = 1 + 1e-9
QUICK = PROFILES["quick"]
VPNS = {
    "thesis": (
        *("none", "ipip", "ipsec", "ipsec_user", "openvpn", "ssh_forward", "ssh_tun"),
        *("gre", "gre_ipsec", "l2tp", "l2tp_ipsec"),
    ),
    "crypto_matrix": ("none", "ipsec", "ipsec_user"),
    "oslv": (
        *("none", "ipsec", "ipsec_user", "l2tp", "openvpn", "openvpn_tcp", "ppp_ssh", "ppp_stunnel", "pptp"),
        *("ssh_forward", "ssh_tun", "tinc", "vtun", "wireguard_go"),
    ),
    "devices": ("none", "ipsec", "ipsec_user"),
    "load": ("none", "ipsec", "openvpn", "ssh_forward"),
}


DRIVEN = ("thesis", "load")  # their claims need systems of two data planes by one driver
LINK_BPS = "1000000000"  # the thesis' link


def world(name: str, values: Values, noise: float = 0.0, blocks: int = 3) -> tuple[Run, list[Trial]]:
    """A run of the quick profile's cells; ``noise``: how far whole blocks are apart, as machines drift."""
    experiment = load_experiment(name)
    vpns = [load_vpn(vpn) for vpn in VPNS[name]]
    record = experiment.record(vpns, QUICK, {})
    run = make_run(VPNS[name], (record,), blocks).model_copy(
        update={"vpns": {vpn.name: record_of(vpn) for vpn in vpns}}
    )
    trials = []
    for number, cell in enumerate(record.cells):
        transport = cell.params["measure"]
        if transport == "udp" and cell.vpn == "ssh_forward":
            continue
        for block in range(blocks):
            pace = 1 + noise * (block - 1) + 0.004 * ((number * 7 + block * 5) % 3 - 1)
            measured = {
                metric: min(values(cell.vpn, cell.params, metric) * pace, most(metric))
                for metric in (*experiment.metrics, "jitter", "udp_goodput")
                if METRICS[metric].measure == transport
            }
            trials.append(make_trial(cell.vpn, cell.params, block, measured, experiments=(name,), samples=10))
            if name in DRIVEN and not run.vpns[cell.vpn].reference:
                driven = cell.params | {"driver": "generic"}
                trials.append(make_trial(cell.vpn, driven, block, measured, experiments=(name,), samples=10))
            if name == "thesis" and transport == "tcp":
                shaped = cell.params | {"wan_rate_bps": LINK_BPS}
                trials.append(make_trial(cell.vpn, shaped, block, measured, experiments=(name,), samples=10))
    return run, trials


def most(metric: str) -> float:
    """A share, of which there is no more than all, does not drift beyond that."""
    return METRICS[metric].bounds[1]


THESIS = {"none": 939.7, "ipip": 927.9, "ipsec": 165.0, "ipsec_user": 163.0, "openvpn": 83.3, "ssh_forward": 167.6}
THESIS |= {"ssh_tun": 95.0, **dict.fromkeys(("gre", "gre_ipsec", "l2tp", "l2tp_ipsec"), 300.0)}
UPSIDE_DOWN = {"none": 950.0, "ipip": 20.0, "ipsec": 30.0, "ipsec_user": 20.0, "openvpn": 150.0, "ssh_forward": 60.0}
UPSIDE_DOWN |= {"ssh_tun": 90.0, **dict.fromkeys(("gre", "gre_ipsec", "l2tp", "l2tp_ipsec"), 10.0)}
CIPHERS = {"blowfish-128-cbc": 1.4, "aes-128-cbc": 1.0, "aes-192-cbc": 0.9, "aes-256-cbc": 0.8, "3des-cbc": 0.4}


def thesis_holds(vpn: str, params: Mapping[str, str], metric: str) -> float:
    gains = vpn in ("openvpn", "ssh_forward")
    packed = {"zeros": 1.5 if gains else 0.8, "random": 1.0 if vpn == "openvpn" else 0.6}
    rate = THESIS[vpn] * CIPHERS.get(params["cipher"], 1)
    rate *= 1.5 if (vpn, params["cipher"]) == ("ipsec", "3des-cbc") else 1
    rate *= packed[params["payload"]] if params["compression"] != "off" else 1
    if metric == "context_switches_per_packet":
        return 2.0 if vpn in ("openvpn", "ssh_tun") else 0.5
    if metric == "route_lookups_per_packet":
        return 3.0 if vpn in ("openvpn", "ssh_tun") else 2.0
    if metric == "wire_bytes_per_payload_byte":
        return 1.12 if vpn == "ipsec" else 1.05
    return {"tcp_throughput": rate * 1e6, "udp_throughput": rate * 0.93e6}.get(metric, 1.0)


def thesis_fails(vpn: str, params: Mapping[str, str], metric: str) -> float:
    gains = vpn in ("openvpn", "ssh_forward")
    rate = UPSIDE_DOWN[vpn]
    if params["cipher"] not in ("none", "aes-128-cbc"):
        rate = 1000 / rate / CIPHERS[params["cipher"]]
        rate *= 50 if params["cipher"] == "3des-cbc" else 0.001 if params["cipher"] == "blowfish-128-cbc" else 1
    if params["compression"] != "off":
        rate *= {"zeros": 0.5 if gains else 1.5, "random": 0.5 if vpn == "openvpn" else 1.5}[params["payload"]]
    if metric == "context_switches_per_packet":
        return 0.5 if vpn in ("openvpn", "ssh_tun") else 2.0
    if metric == "route_lookups_per_packet":
        return 1.0 if vpn in ("openvpn", "ssh_tun") else 2.0
    if metric == "wire_bytes_per_payload_byte":
        return 1.0 if vpn == "ipsec" else 1.1
    return {"tcp_throughput": rate * 1e6, "udp_throughput": rate * 2e6}.get(metric, 1.0)


MATRIX = {"aes-128-gcm": 100.0, "aes-256-gcm": 98.0, "aes-128-ccm": 90.0, "aes-128-gmac": 120.0, "null": 90.0}
MATRIX |= {"chacha20-poly1305": 70.0, "aes-128-cbc": 60.0, "aes-256-cbc": 58.0, "aes-128-ctr": 62.0}
MATRIX |= {"camellia-128-cbc": 40.0, "blowfish-128-cbc": 45.0, "cast-128-cbc": 38.0, "3des-cbc": 20.0, "none": 900.0}
DRIVERS = {True: {"generic": 0.3}, False: {"generic": 3.0}}  # does a finding hold -> driver -> its pace
HMACS = {"hmac-md5": 1.2, "hmac-sha512": 0.8}


def matrix(vpn: str, params: Mapping[str, str], metric: str, holds: bool) -> float:
    cipher, length = params["cipher"], params["packet_bytes"]
    if metric == "wan_packets_per_packet":
        return 2.0 if length == "1500" and holds and vpn != "none" else 1.0
    if metric == "forwarded_share":
        return 0.2
    sign = 1 if holds else -1
    if "gw2_cpu" in params:
        return 10000 * float(params["gw2_cpu"]) ** sign
    rate = (MATRIX[cipher] * HMACS.get(params["integrity"], 1)) ** sign
    if cipher.startswith("aes-256") and not holds:
        rate *= 1.5
    rate *= DRIVERS[holds].get(params.get("driver", ""), 1.0)
    decline = {"46": 1.0, "1400": 0.6 if (cipher == "chacha20-poly1305") == holds else 0.5, "1500": 0.3}
    return rate * 1000 * decline[length] * (2.0 if (vpn == "ipsec") == holds else 1.0)


def oslv(vpn: str, params: Mapping[str, str], metric: str, holds: bool) -> float:
    stacked = load_vpn(vpn).transport == "tcp"
    good = stacked != holds  # a VPN that should be the better one
    integrity = params["integrity"]
    tags = ESP_ICV if vpn.startswith("ipsec") else HMAC
    tag = tags.get(integrity, 0)
    whole = (80.0 if good else 160.0) * (1 if holds else 3)
    whole *= 3 if vpn in {"l2tp", "pptp"} and not holds else 1
    whole *= {"ipsec": 1, "l2tp": 1.01, "pptp": 1.01, "vtun": 1.01}.get(vpn, 1.05) if good and holds else 1
    share = 0.75 if holds else 0.2
    best = vpn == "ipsec" and holds
    second = vpn in ("pptp", "vtun") and holds
    fast = (44e6 if best else 45.5e6 if second else 45e6 if vpn != "wireguard_go" else 46e6) if holds else 90e6
    if vpn == "openvpn_tcp" and not holds:
        return {"overhead_bytes": 200.0, "tcp_throughput": 95e6, "rtt": 0.4, "jitter": 0.04}.get(metric, 1.0)
    if "gw2_cpu" in params and params["cipher"] == "null":
        return 60e6
    if "gw2_cpu" in params:
        return 20e6 if holds else 90e6 if vpn in ("ipsec", "ssh_forward") else 55e6
    return {
        "overhead_bytes": whole * share + tag if params["cipher"] == "null" else whole,
        "tcp_throughput": fast if good else fast / 2.2,
        "udp_throughput": 50e6,
        "rtt": 0.4 if best else 0.45 if second else 0.5 if good else 1.0,
        "jitter": 0.04 if best else 0.045 if second else 0.05 if good else 0.1,
    }.get(metric, 1.0)


def devices(vpn: str, params: Mapping[str, str], metric: str, holds: bool) -> float:
    if metric.startswith("dns_"):
        return 0.01 if metric == "dns_unanswered_loaded" else 1.0 if (vpn == "none") == holds else 4.0
    if params["measure"] == "service":
        return 1000.0 if metric == "service_rate" else 400.0 if (vpn == "none") == holds else 100.0
    cipher = params.get("device_cipher", params["cipher"])
    rate = 100e6 * (1.0 if "256" not in cipher else 0.87 if holds else 1.1)
    rate *= DRIVERS[holds].get(params.get("driver", ""), 1.0)
    rate *= {"hmac-md5": 1.1, "hmac-sha256": 0.9}.get(params["integrity"], 1.0) if holds else 1.0
    return rate if metric == "ssh_rate" or holds else rate / 3


def load(vpn: str, params: Mapping[str, str], metric: str, holds: bool) -> float:
    rate = THESIS[vpn] * (1 if holds or vpn != "ssh_forward" else 0.3)
    return rate if metric in ("flows_throughput", "clients_throughput") else 1.0


WORLDS: dict[str, tuple[Values, Values]] = {
    "thesis": (thesis_holds, thesis_fails),
    **{
        name: (lambda *at, f=f: f(*at, True), lambda *at, f=f: f(*at, False))
        for name, f in {"crypto_matrix": matrix, "oslv": oslv, "devices": devices, "load": load}.items()
    },
}


@cache
def made(name: str, holds: bool = True) -> tuple[Run, list[Trial]]:
    """The world in which the findings of experiment ``name`` hold, or the other, whose machine is unsteady as well."""
    return world(name, WORLDS[name][0 if holds else 1], noise=0.0 if holds else 0.2)


def finding(experiment: str, name: str) -> Finding:
    """The finding of that name."""
    (found,) = [one for one in findings_of(experiment) if one.id == name]
    return found
