"""A router on the WAN whose next link is narrower than Ethernet: it says so by ICMP, or its word is lost.

host1 ──── gw1 ════ router ════ gw2 ──── host2
                routes with an MTU
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any

from runner.data.errors import MeasurementError
from runner.data.levels import tunnel_levels
from runner.data.metric import Metric
from runner.data.packet import over_ipv6
from runner.instruments.instrument import Asked
from runner.instruments.path.router import forget, leads, nft_counters, wan_router
from runner.instruments.path.verdict import ALIKE, TRIES, NoControl, PathProbe, PathVerdict
from runner.instruments.tools.counters import read_counter
from runner.lab.node import PATIENCE, LabNode
from runner.lab.readings.path import HEADERS_BYTES
from runner.lab.shape.site import ENCAPSULATION_BYTES, ip_version
from runner.lab.shape.site_to_site import Lab, batch
from runner.tunnel.bring_up import Bench
from runner.tunnel.proof import ANSWER_PORT
from runner.vpn.deploy import own_devices
from runner.vpn.plugin import Vpn

MTUS = (1492, 1400, 1280)  # PPPoE, a tunnel on the way, the least of IPv6
TRANSFER_BYTES = 200_000
STALLED_S, PATIENT_S = 4, 40  # without another byte (TCP has sent again four times), and at all
FULL = 1500  # what is longer at the router is bulk: many packets in one buffer of the kernel's (GSO)
# Runs on host1: so many bytes to the far host, which answers each. Prints how many came back, and in how many seconds.
TRANSFER = """
import os, socket, sys, threading, time
address, port, total, stalled_s, limit_s = sys.argv[1], *map(int, sys.argv[2:4]), *map(float, sys.argv[4:])
began, back = time.monotonic(), 0
line = socket.create_connection((address, port), stalled_s)
threading.Thread(target=line.sendall, args=(bytes(total),), daemon=True).start()
try:
    while back < total and time.monotonic() - began < limit_s and (data := line.recv(65536)):
        back += len(data)
except TimeoutError:
    pass
print(back, time.monotonic() - began, flush=True)
os._exit(0)
"""
TABLE = """
table inet narrow {{
    counter too_big {{
    }}
    counter single_df {{
    }}
    counter single_no_df {{
    }}
    counter bulk_df {{
    }}
    counter bulk_no_df {{
    }}
    chain prerouting {{
        type filter hook prerouting priority 0
        meta length <= {mtu} accept
        ip frag-off & 0x4000 == 0 meta length <= {full} counter name single_no_df accept
        ip frag-off & 0x4000 == 0 counter name bulk_no_df accept
        meta length <= {full} counter name single_df accept
        counter name bulk_df
    }}
    chain output {{
        type filter hook output priority 0
        icmp type destination-unreachable icmp code 4 counter name too_big {verdict}
        icmpv6 type packet-too-big counter name too_big {verdict}
    }}
}}
"""


def narrow(lab: Lab, ports: Mapping[str, str], mtu: int, *, silent: bool) -> None:
    """Give the router's routes this MTU, and drop its ICMP messages where it is ``silent``."""
    leads(lab, ports, "mtu", str(mtu))
    lab.wan.run("nft", "destroy", "table", "inet", "narrow")
    table = TABLE.format(verdict="drop" if silent else "accept", mtu=mtu, full=FULL)
    lab.wan.run("nft", "-f", "-", input=table)
    forget(lab)


def control(lab: Lab, mtu: int, *, silent: bool) -> dict[str, object]:
    """Between the gateways a packet of this length passes, a longer one does not, and the sender hears why, or not."""
    near, far = lab.gateway(lab.sites[0]), lab.sites[-1].wan_address
    whole = echo_passes(near, far, mtu)
    longer = echo_passes(near, far, mtu + 1)
    shown = json.loads(near.run("ip", "-j", "route", "get", far).stdout)[0]
    learnt = next((each["mtu"] for each in shown.get("metrics", []) if "mtu" in each), None)
    forget(lab)
    if not whole or longer or learnt != (None if silent else mtu):
        raise NoControl(
            f"without a tunnel, on a WAN of {mtu} bytes: a packet as long passed: {whole}, a longer one: {longer}; the "
            f"sender has learnt {learnt}"
        )
    return {"passed": mtu, "did_not_pass": mtu + 1, "learnt": learnt or 0}


def echo_passes(node: LabNode, address: str, length: int) -> bool:
    """Is an echo of a packet of this length answered, which nobody may fragment?"""
    size = f"-s{length - HEADERS_BYTES[ip_version(address)]}"
    done = node.run("ping", "-q", "-c2", "-i0.2", "-W1", "-Mdo", size, address, check=False)
    return done.code == 0


def transfer(bench: Bench) -> dict[str, float]:
    """What a transfer through the tunnel brings back, ``bytes``, and in how many ``seconds``."""
    argv = ("python3", "-IS", "-c", TRANSFER, bench.address, str(ANSWER_PORT), str(TRANSFER_BYTES))
    limits = (f"{STALLED_S * PATIENCE:g}", f"{PATIENT_S * PATIENCE:g}")
    done = bench.lab.host1.run(*argv, *limits, check=False, timeout=PATIENT_S * PATIENCE + 20)
    back, took_s = done.stdout.split() if done.code == 0 else (0, STALLED_S * PATIENCE)  # no connection
    return {"bytes": int(back), "seconds": round(float(took_s), 2)}


def router_counts(lab: Lab) -> dict[str, int]:
    """Fragments that gateways and router have made, the router's words that a packet is too big, and the packets that
    came there too long: single ones and bulk, with DF, which nobody may fragment (all of IPv6), and without."""
    nodes = [lab.wan, *(lab.gateway(site) for site in lab.sites)]
    fragments = sum(read_counter(node, "Ip", "FragCreates") for node in nodes)
    return {"fragments": fragments} | nft_counters(lab.wan, "inet", "narrow")


def transfers(bench: Bench) -> dict[str, float]:
    """How many of so many ``tries`` of a transfer ``passed``, the longest's ``seconds``, and what the router counted
    meanwhile. Raises MeasurementError where some passed and others stalled of which the router had dropped nothing."""
    before, passed, stalled, seconds, tries = router_counts(bench.lab), 0, 0, 0.0, 0
    counted = dict.fromkeys(before, 0)
    while tries < TRIES and not is_certain(tries, passed, counted):
        forget(bench.lab)
        done, tries = transfer(bench), tries + 1
        now = router_counts(bench.lab)
        after = {name: now[name] - before[name] for name in now}
        if done["bytes"] == TRANSFER_BYTES:
            passed += 1
        elif after["too_big"] == counted["too_big"]:
            stalled += 1
        seconds, counted = max(seconds, done["seconds"]), after
    if passed and stalled:
        raise MeasurementError(
            f"{stalled} of {tries} transfers stalled although the router dropped nothing: is the machine busy?"
        )
    return {"passed": passed, "tries": tries, "seconds": seconds} | counted


def is_certain(tries: int, passed: int, counted: Mapping[str, int]) -> bool:
    """Did the first ones end alike, and was it no chance? Of what was too long, all passes that has no DF, and nothing
    that has it."""
    df, no_df = (counted[f"single_{kind}"] + counted[f"bulk_{kind}"] for kind in ("df", "no_df"))
    return tries >= ALIKE and ((passed == tries and not df) or (not passed and df > 0 and not no_df))


def inner_mtu(vpn: Vpn, params: Mapping[str, str], path_mtu: int, version: int) -> int:
    """The longest packet inside the tunnel that fits a path's MTU, by the closed form of its encapsulation; where none
    is known, by the longest one here."""
    for length in range(path_mtu, 0, -1):
        layers = vpn.encapsulation(tunnel_levels(params), length)
        if layers is None:
            return path_mtu - ENCAPSULATION_BYTES[version]
        if sum((over_ipv6(layers) if version == 6 else layers).values()) <= path_mtu:
            return length
    raise MeasurementError(f"no packet inside {vpn.title} fits a path of {path_mtu} bytes")


def with_mtu(bench: Bench, asked: Asked, ports: Mapping[str, str]) -> dict[str, int]:
    """The MTU to set on the tunnel's devices so that a transfer passes the narrowest path without ICMP, as was tried;
    empty where it did not pass, or the tunnel has no device."""
    lab, path = bench.lab, MTUS[-1]
    longest = inner_mtu(asked.vpn, asked.params, path, lab.sites[0].path_version)
    narrow(lab, ports, path, silent=True)
    for site, peer in ((lab.sites[0], lab.sites[-1]), (lab.sites[-1], lab.sites[0])):
        gateway, own = lab.gateway(site), own_devices(asked.vpn, site, lab.sites)
        way = json.loads(gateway.run("ip", "-j", "route", "get", peer.lan_address).stdout)[0]
        device = way["dev"]  # of a VPN's devices the uppermost: one below may bear no such MTU (IPv6 needs 1280)
        if not any(fnmatch(device, pattern) for pattern in own):
            return {}
        routes = gateway.run("ip", "route", "show", "dev", device).stdout.splitlines()
        own_mtu = [route for route in routes if " mtu " in route]  # which counts before the device's
        anew = (re.sub(r" mtu (lock )?\d+", f" mtu {longest}", route) for route in own_mtu)
        batch(gateway, f"link set {device} mtu {longest}", *(f"route replace {route} dev {device}" for route in anew))
    found = transfers(bench)
    return {"path": path, "inside": longest} if found["passed"] == found["tries"] else {}


def smallest(bench: Bench, asked: Asked, *, silent: bool) -> PathVerdict:
    """The smallest of MTUS at which every transfer ends. Where one does not, a smaller one is not tried; where it died
    in silence, the MTU to set is."""
    seen, controls, whole = dict[str, dict[str, float]](), {}, list[int]()
    numbers: dict[str, Any] = {"of_mtu": seen}
    with wan_router(bench.lab) as ports:
        for mtu in MTUS:
            narrow(bench.lab, ports, mtu, silent=silent)
            controls[str(mtu)] = control(bench.lab, mtu, silent=silent)
            seen[str(mtu)] = found = transfers(bench)
            if found["passed"] < found["tries"]:
                numbers |= {"at": mtu, "passed": found["passed"], "tries": found["tries"]} | cause(found)
                break
            whole.append(mtu)
        if silent and len(whole) < len(MTUS) and not asked.vpn.reference and (to_set := with_mtu(bench, asked, ports)):
            numbers["mtu_to_set"] = to_set
    numbers["smallest"] = least = min(whole, default=FULL)
    chance = bool(numbers.get("passed"))
    kind = "all" if len(whole) == len(MTUS) else "chance" if chance else "some" if whole else "none"
    return PathVerdict(kind, float(least), controls, numbers)


def cause(found: Mapping[str, float]) -> dict[str, str]:
    """Why transfers died, by what came too long to the router: all had DF; or single packets had it, and bulk had not;
    or some had. A transfer lives as long as none of those that have it is a long one."""
    single, bulk = found["single_df"], found["bulk_df"]
    if not single + bulk:
        return {}
    if not found["single_no_df"] + found["bulk_no_df"]:
        return {"cause": "df"}
    return {"cause": "df_of_some" if bulk or found["single_no_df"] else "df_of_single"}


class Narrow(PathProbe):
    """A path narrower than 1500 bytes, with ICMP and without."""

    name = "narrow"
    metrics = (
        Metric(
            name="black_hole_mtu",
            title="Smallest path MTU without ICMP",
            unit="byte",
            better="lower",
            definition="A router on the WAN has an MTU of 1492, 1400 and 1280 bytes, and its ICMP messages are lost. "
            "The value is the smallest with which 200 kB of TCP go through the tunnel, both ways, each time that it is "
            f"tried ({ALIKE} to {TRIES} times); {FULL} for none.",
            source="RFC 2923 §2.1 (black holes), RFC 4821, RFC 8899",
            exact=True,
        ),
        Metric(
            name="narrow_mtu",
            title="Smallest path MTU with ICMP",
            unit="byte",
            better="lower",
            definition="As black_hole_mtu, and the router's ICMP messages arrive.",
            source="RFC 1191 §3, RFC 4301 §8.2 (what a tunnel does with ICMP)",
            exact=True,
        ),
    )
    takes_s = 40.0
    spends_tunnel = True

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        if transfer(bench)["bytes"] < TRANSFER_BYTES:
            raise MeasurementError("the transfer did not go through the tunnel before the WAN was narrow")
        silent = smallest(bench, asked, silent=True)
        bench.renew()  # what a daemon has learnt, no command makes it forget
        return {"black_hole_mtu": silent, "narrow_mtu": smallest(bench, asked, silent=False)}
