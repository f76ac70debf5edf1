"""Which VPN a tunnel is that somebody else has set up: the one whose signs are seen on its gateway."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from runner.lab.readings.seen import Program, Seen
from runner.vpn.plugin import Vpn
from runner.vpn.sign import Sign

TUNNELS = ("tun", "wireguard", "ovpn", "ovpn-dco", "gre", "gretap", "ipip", "sit", "ip6tnl", "vxlan", "l2tp", "l2tpeth",
           "macsec", "ppp", "xfrm", "vti", "ip6gre", "geneve", "amneziawg")  # fmt: skip


@dataclass(frozen=True)
class Recognised:
    """A tunnel on a gateway. ``vpn``: the plugin that recognised it, "" for none; ``device``: its port, "" for IPsec's
    policies; ``program``: that carries or keys it, with ``pids``; ``told``: its parameters in its own words; ``ends``:
    the addresses of the outer packets that are known; ``networks``: what is routed into it; ``closed``: what of it
    could not be read."""

    vpn: str
    title: str
    dataplane: str
    device: str = ""
    kind: str = ""
    mtu_bytes: int | None = None
    program: str = ""
    pids: tuple[int, ...] = ()
    told: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()
    networks: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()


def probe_request(vpns: Sequence[Vpn]) -> dict[str, Any]:
    """What the probe has to look for."""
    programs: dict[str, tuple[list[str], dict[str, list[str]]]] = {}
    asks: dict[str, list[Any]] = {}
    for sign in (vpn.sign for vpn in vpns):
        for name in sign.programs:
            tells, config = programs.setdefault(name, ([], {}))
            tells += [word for word in sign.tells if word not in tells]
            for option, places in sign.config.items():
                config[option] = [*dict.fromkeys([*config.get(option, []), *places])]
        for argv in sign.asks:
            for name in sign.programs or ("",):
                key = f"{sign.link} {name} {argv}"
                asks[key] = [sign.link, name, list(argv), list(sign.tells)]
    return {"programs": programs, "asks": [*asks.values()]}


def standing(seen: Seen, vpns: Sequence[Vpn]) -> list[Recognised]:
    """The tunnels that stand on a gateway, each as the VPN that declares its signs; what no VPN recognises is there
    without a name."""
    found: list[Recognised] = []
    claimed: set[str] = set()
    for device, kind in _devices(seen):
        holders = [one for one in seen["processes"] if device in one["devices"]]
        found.append(_best_match(seen, vpns, device, kind, holders))
        claimed |= {one["name"] for one in holders}
    if seen["policies"]:
        keyed = [
            one for one in seen["processes"] if any(one["name"] in vpn.sign.programs for vpn in vpns if vpn.sign.esp)
        ]
        over = [one for one in found if one.kind not in ("", "tun") and _is_protected(seen, one)]
        if not over:
            found.append(_best_match(seen, vpns, "", "", keyed))
    for one in seen["processes"]:  # forwards ports, and has no device
        plain = [vpn for vpn in vpns if one["name"] in vpn.sign.programs and vpn.carries == "tcp" and vpn.sign.marks]
        fitting = [vpn for vpn in plain if _fits(vpn.sign, "", "", [one], seen)]
        if fitting and one["name"] not in claimed and not one["devices"]:
            found.append(_describe_tunnel(fitting[0], seen, "", "", [one]))
    return found


def _devices(seen: Seen) -> Iterator[tuple[str, str]]:
    """The tunnels' devices that are up, with their kinds. A PPP line to the provider is none: it has the default
    route."""
    uplinks = {route.get("dev") for route in seen["routes"] if route["dst"] == "default"}
    for link in seen["links"]:
        kind = link.get("linkinfo", {}).get("info_kind", "") or ("ppp" if "POINTOPOINT" in link["flags"] else "")
        if kind in TUNNELS and "UP" in link["flags"] and not (kind == "ppp" and link["ifname"] in uplinks):
            yield link["ifname"], kind


def _is_protected(seen: Seen, tunnel: Recognised) -> bool:
    """Do the kernel's policies protect what this device sends, in transport mode?"""
    return any("transport" in line for line in seen["policies"]) and tunnel.kind in ("gre", "ppp", "l2tp", "vxlan")


def _best_match(seen: Seen, vpns: Sequence[Vpn], device: str, kind: str, holders: Sequence[Program]) -> Recognised:
    """The tunnel as the VPN with the most marks that fit."""
    around = [one for one in seen["processes"] if not one["devices"]]  # that key what others or the kernel carry
    fitting = [vpn for vpn in vpns if _fits(vpn.sign, device, kind, [*holders, *around], seen)]
    best = max(fitting, key=lambda vpn: _weight(vpn.sign), default=None)
    of = [one for one in [*holders, *around] if best is not None and one["name"] in best.sign.programs] or list(holders)
    return _describe_tunnel(best, seen, device, kind, of)


def _weight(sign: Sign) -> tuple[int, bool, bool, bool]:
    return len(sign.marks), bool(sign.programs), bool(sign.esp), bool(sign.link)


def _fits(sign: Sign, device: str, kind: str, processes: Sequence[Program], seen: Seen) -> bool:
    """Does what is seen of a tunnel have every sign?"""
    mine = [one for one in processes if one["name"] in sign.programs]
    if not (sign.programs or sign.link or sign.esp) or (sign.programs and not mine):
        return False
    holds = any(device in one["devices"] for one in mine) if device else False
    if device and not (sign.link == kind if sign.link else holds):
        return False
    states = {" ".join(re.findall(r" proto (\S+) mode (\S+)", line)[0]) for line in seen["states"]}
    if sign.esp and not set(sign.esp.split(", ")) <= states:
        return False
    if not device and not sign.esp and not sign.marks:
        return False
    lines = _lines(seen, device, kind, mine, sign)
    return all(any(re.search(mark, line) for line in lines) for mark in sign.marks)


def _lines(seen: Seen, device: str, kind: str, mine: Sequence[Program], sign: Sign) -> list[str]:
    """What a mark is looked for in: the programs' lines, their sockets, the kernel's states, links."""
    lines = [f"device {device} {kind}"]
    for one in mine:
        lines += [*one["told"], *(f"socket {end}" for end in one["sockets"]), f"program {one['name']}"]
    for answer in seen["answers"]:
        if answer["device"] in ("", device):
            lines += answer["told"]
    lines += [f"state {state}" for state in seen["states"]] + [f"policy {policy}" for policy in seen["policies"]]
    return lines + [f"link {link['ifname']} {link.get('linkinfo', {}).get('info_kind', '')}" for link in seen["links"]]


def _describe_tunnel(vpn: Vpn | None, seen: Seen, device: str, kind: str, of: Sequence[Program]) -> Recognised:
    link = next((one for one in seen["links"] if one["ifname"] == device), None)
    answers = [
        line
        for answer in seen["answers"]
        if vpn and answer["argv"] in [list(ask[:2]) for ask in vpn.sign.asks] and answer["device"] in ("", device)
        for line in answer["told"]
    ]
    ends = [end.split()[2] for one in of for end in one["sockets"] if not end.endswith((" 0.0.0.0:0", " :::0", ":0"))]
    states = seen["states"] if (vpn.sign.esp if vpn else not device) else []
    ends += [line.split()[3] for line in states]
    told = [line for one in of for line in one["told"]] + answers + states
    routed = [
        route["dst"] for route in seen["routes"] if device and route.get("dev") == device and "/32" not in route["dst"]
    ]
    policed = [line.split()[3] for line in seen["policies"]] if not device else []
    return Recognised(
        vpn=vpn.name if vpn else "",
        title=vpn.title if vpn else "",
        dataplane=vpn.dataplane if vpn else "userspace" if of and device else "kernel",
        device=device,
        kind=kind,
        mtu_bytes=link["mtu"] if link else None,
        program=of[0]["name"] if of else "",
        pids=tuple(one["pid"] for one in of),
        told=tuple(dict.fromkeys(told)),
        ends=tuple(dict.fromkeys(ends)),
        networks=tuple(dict.fromkeys([*routed, *policed])),
        closed=tuple(dict.fromkeys(file for one in of for file in one["closed"])),
        marks=vpn.sign.marks if vpn else (),
    )
