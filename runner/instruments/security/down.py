"""The tunnel is down: does the traffic between the sites go out in the clear (fail open), or stay (fail closed)?

The near gateway gets what every gateway has, a default route to the WAN. Then, first, the peer is cut off; second, the
VPN's own processes on the near gateway are killed. Messages to the far host must not be on the WAN in the clear.
Control: a message to an address outside (TEST-NET-2, RFC 5737) is seen in the clear at the same tap each time.
Beside it, and not counted: what becomes of the sites' IPv6 while the tunnel is up (other_family.py).
"""

from __future__ import annotations

import time

from runner.data.errors import CommandError, MeasurementError
from runner.instruments.security.other_family import other_family
from runner.instruments.security.vantage import PORT, ProbeOutcome, Vantage, inconclusive, message
from runner.lab.node import PATIENCE, LabNode
from runner.lab.shape.site import hop

OUTSIDE = "198.51.100.1"
MESSAGES, APART_S = 5, 0.2


def probe_while_down(at: Vantage) -> ProbeOutcome:
    """Does traffic for the far site leave in the clear while the tunnel is down? It must not."""
    near, far = at.lab.sites[0], at.lab.sites[-1]
    gateway = at.lab.gateway(near)
    before = message()
    at.speak(before)
    if not at.count([before])[0]:
        return inconclusive("the tunnel was not up before it was taken down")
    ipv6 = other_family(at)
    route = ("0.0.0.0/0", "via", *hop(far.wan_address), "metric", "4000")  # by name it would be of the hop's family
    try:
        gateway.run("ip", "route", "add", *route)
    except CommandError as error:
        return inconclusive(f"the near gateway takes no default route: {error.stderr}")
    gateway.defer("ip", "route", "del", *route)
    at.interfere("drop")
    cut, cut_control = leaks(at)
    at.interfere("pass")
    killed = kill_daemons(at, gateway)
    dead, dead_control = leaks(at) if killed else (False, True)
    detail = {"open_when_cut_off": cut, "killed": killed, "open_when_killed": dead if killed else None, "ipv6": ipv6}
    beside = ipv6 == "open" and not at.vpn.reference
    besides = "; the sites' IPv6 leaves in the clear beside the tunnel, which carries IPv4 only" if beside else ""
    control = f"a message to {OUTSIDE} was on the WAN in the clear each time"
    if cut or dead:
        when = " and ".join(["the peer is cut off"] * cut + ["its processes are killed"] * dead)
        return ProbeOutcome("fail", f"fails open: traffic leaves in the clear when {when}{besides}", control, detail)
    if not (cut_control and dead_control):
        return inconclusive("not even a message to outside was seen on the WAN in the clear", detail)
    tried = f"cut off, and with {', '.join(killed)} killed" if killed else "cut off; it has no process to kill"
    return ProbeOutcome("pass", f"fails closed: nothing in the clear when {tried}{besides}", control, detail)


def leaks(at: Vantage) -> tuple[bool, bool]:
    """Is a message to the far host seen in the clear, and is one to outside?"""
    messages = [message() for _ in range(MESSAGES)]
    if at.vpn.carries == "tcp":
        at.speaker.say(connect=[at.address, PORT])  # refused or unanswered, mostly; what matters is what the tap sees
    for each in messages:
        at.speak(each)
        time.sleep(APART_S * PATIENCE)
    outside = message()
    at.speaker.say(udp=outside.hex(), to=[OUTSIDE, PORT])
    seen = at.appears(outside, outer=True)
    return any(at.visible(each, at.outer()) for each in messages), seen


def kill_daemons(at: Vantage, gateway: LabNode) -> list[str]:
    """Kill every process of the gateway except the node's own, the probes' and the logs'; their names, sorted.

    Raises MeasurementError on a machine that runs more than this lab.
    """
    if at.lab.kind != "netns":
        raise MeasurementError("only in the namespace lab is every process of a gateway the VPN's")
    names = {}
    for line in gateway.run("ps", "-eo", "pid=,comm=,args=").stdout.splitlines():
        pid, name, arguments = line.split(None, 2)
        if pid != "1" and name not in ("ps", "setpriv", "tail") and "/run/vpneval/" not in arguments:
            names[pid] = name
    if names:
        gateway.run("kill", "-KILL", *names, check=False)  # some end with the first of them
    return sorted(set(names.values()))
