"""Two gateways behind one address: keepalived (VRRP) moves the addresses, and scripts of ours move the tunnel.

Or both have them, and CLUSTERIP decides (runner/instruments/failures/cluster.py).
The active gateway has the site's addresses 192.168.0.1 and 10.1.0.1. A gateway that becomes active brings the tunnel up
anew, with the same keys; the one that stands by has everything prepared up to that step.
Sources: keepalived.conf(5), RFC 9568 (VRRP 3).
"""

from __future__ import annotations

from dataclasses import dataclass

from runner.data.errors import MeasurementError
from runner.instruments.failures.cluster import (
    DEAD_AFTER_S,
    HEARTBEAT_S,
    STATE,
    join_cluster,
    open_gates,
    start_cluster,
)
from runner.lab.node import PATIENCE, LabNode, wait_until
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import Lab, batch
from runner.vpn.lifecycle import HandOver
from runner.vpn.plugin import Vpn

# One advertisement each; three missed ones are a death (RFC 9568 §6.1). ha_sync: strongSwan's plugin ha hands IKE and
# CHILD SAs over the link between the two, so that the new gateway goes on with them instead of negotiating.
FAST_S = 0.1 * PATIENCE  # a guest's one slow CPU stands still for longer than three of 100 ms
ADVERTISED_S = {"vrrp": 1.0, "vrrp_fast": FAST_S, "ha_sync": FAST_S}
PAIR = ("gw1", "gw1b")  # the first is preferred
HOME = "/etc/keepalived"
ACTIVE_WITHIN_S = 20.0
ROLE = "/run/vpneval-active"  # is there on the active gateway
SYNCED = ("ha_sync", "clusterip")  # the VPN hands its state over to the second gateway
# Where the two talk to each other: over a link of their own, or through the port that will fail.
SYNC = {
    "ha_sync": {"gw1": ("10.99.0.1", "10.99.0.2"), "gw1b": ("10.99.0.2", "10.99.0.1")},
    "clusterip": {"gw1": ("192.168.0.21", "192.168.0.22"), "gw1b": ("192.168.0.22", "192.168.0.21")},
}
# How often keepalived asks whether the daemon lives, seconds. A slow kernel's processes take long to start: with a
# check that is given up after a second, keepalived moved the tunnel before anything was broken.
CHECK_S, CHECK_LIMIT_S = round(PATIENCE), round(5 * PATIENCE)


@dataclass(frozen=True)
class Scripts:
    """What a gateway does as it becomes active and as it stands by; how the active one knows that its daemon lives."""

    active: str
    standby: str
    alive: str


def configuration(name: str, redundancy: str) -> str:
    """keepalived.conf of one of the two gateways."""
    priority = 150 if name == PAIR[0] else 100
    instances = "".join(
        f"""\
vrrp_instance {label} {{
    state BACKUP
    interface {port}
    virtual_router_id {number}
    priority {priority}
    advert_int {ADVERTISED_S[redundancy]:g}
    virtual_ipaddress {{
        {address}/24
    }}
}}
"""
        for label, port, number, address in (("WAN", "wan0", 51, "192.168.0.1"), ("LAN", "lan0", 52, "10.1.0.1"))
    )
    return f"""\
global_defs {{
    vrrp_version 3
    enable_script_security
    script_user root
}}
vrrp_script alive {{
    script "{HOME}/alive"
    interval {CHECK_S}
    timeout {CHECK_LIMIT_S}
    fall 1
    rise 1
}}
vrrp_sync_group SITE {{
    group {{
        WAN
        LAN
    }}
    track_script {{
        alive
    }}
    notify_master "{HOME}/active"
    notify_backup "{HOME}/standby"
    notify_fault "{HOME}/standby"
}}
{instances}"""


def write_alone(node: LabNode, path: str, text: str, mode: int = 0o600) -> None:
    """Write a file on one gateway; ``write`` on the active one writes to the other, too."""
    node.run("install", "-D", "-m", f"{mode:o}", "/dev/stdin", path, input=text)


def start_redundancy(lab: Lab, vpn: Vpn, redundancy: str, heartbeat_s: float = HEARTBEAT_S) -> None:
    """Start keepalived on both gateways, and wait until the preferred one has the site's addresses; ``off``: it just
    has them, and the other one does nothing.

    ``clusterip``: both have them, and the preferred one is responsible. ``heartbeat_s``: from one heartbeat of the
    plugin ha to the next; who is silent for 2.1 times as long is dead.

    Raises TimeoutError where that does not happen, MeasurementError where the image has no keepalived.
    """
    if redundancy in SYNCED:
        for name in PAIR:
            dead_after_s = heartbeat_s * DEAD_AFTER_S / HEARTBEAT_S
            files = hand_over_of(vpn).files(*SYNC[redundancy][name], name == PAIR[0], heartbeat_s, dead_after_s)
            for path, text in files.items():
                write_alone(lab.nodes[name], path, text, mode=0o700 if text.startswith("#!") else 0o600)
    if redundancy == "clusterip":
        start_cluster(lab, PAIR)
        return
    if redundancy == "off":
        batch(lab.nodes[PAIR[0]], "addr add 192.168.0.1/24 dev wan0", "addr add 10.1.0.1/24 dev lan0")
        return
    for name in PAIR:
        node = lab.nodes[name]
        if node.run("which", "keepalived", check=False).code != 0:
            raise MeasurementError(f"{name} has no keepalived (Debian: apt-get install keepalived)")
        for script in ("active", "standby", "alive"):
            write_alone(node, f"{HOME}/{script}", "#!/bin/sh\n", mode=0o700)
        write_alone(node, f"{HOME}/keepalived.conf", configuration(name, redundancy))
        options = ("--dont-fork", "--log-console", "--log-detail", "--vrrp", "-f", f"{HOME}/keepalived.conf")
        node.spawn("keepalived", *options, log="keepalived")
        if name == PAIR[0]:
            wait_until(lambda: is_active(lab, PAIR[0]), f"{name} active", ACTIVE_WITHIN_S)


def is_active(lab: Lab, name: str) -> bool:
    """Does that gateway have the site's address on its WAN and on its LAN, and is it responsible in a cluster?"""
    shown = (
        lab.nodes[name].run("sh", "-c", f"ip -o -4 addr show; [ ! -e {STATE} ] || echo buckets $(cat {STATE})").stdout
    )
    return " 192.168.0.1/" in shown and " 10.1.0.1/" in shown and not shown.endswith("buckets\n")


def check_preferred(lab: Lab) -> None:
    """Raise MeasurementError unless the tunnel is on the preferred gateway, and has been since it came up."""
    moved = "/run/takeover.log"
    logs = "".join(lab.nodes[name].run("sh", "-c", f"cat {moved} 2>&1 || :").stdout for name in PAIR)
    if not is_active(lab, PAIR[0]) or is_active(lab, PAIR[1]) or logs.count("No such file") != len(PAIR):
        raise MeasurementError(f"the tunnel left {PAIR[0]} before anything was broken: {logs.strip()[-300:]}")


def cannot(vpn: Vpn, redundancy: str) -> str:
    """Why that VPN cannot be made redundant like that; empty where it can."""
    standby = vpn.lifecycle().standby
    if redundancy in SYNCED and (standby is None or standby.hand_over is None):
        return f"{vpn.title} hands no state over to a second gateway; strongSwan's ha plugin does"
    return "" if standby else f"the plugin of {vpn.title} does not say how it moves to a second gateway"


def hand_over_of(vpn: Vpn) -> HandOver:
    """How that VPN hands its state over. Raises MeasurementError where it does not."""
    standby = vpn.lifecycle().standby
    if standby is None or standby.hand_over is None:
        raise MeasurementError(cannot(vpn, SYNCED[0]))
    return standby.hand_over


def scripts(vpn: Vpn, peer: Site, redundancy: str) -> Scripts:
    """How that VPN is moved. Raises MeasurementError where it cannot be."""
    standby = vpn.lifecycle().standby
    if standby is None:
        raise MeasurementError(cannot(vpn, redundancy))
    moves = hand_over_of(vpn) if redundancy in SYNCED else standby
    commands = (moves.active, moves.passive, standby.alive)
    return Scripts(*(command.format(peer=peer, active=ROLE) for command in commands))


def arm(lab: Lab, vpn: Vpn, redundancy: str, *, renew: bool = True) -> None:
    """The tunnel being up on the active gateway: prepare the other, and give keepalived the scripts that move it.

    ``renew``: a gateway of a cluster that becomes responsible asks for new keys.

    Raises TimeoutError where the daemon does not start there, or where the active one does not hand its state over.
    """
    if redundancy == "off":
        return
    active, standby = (lab.nodes[name] for name in PAIR)
    if redundancy in SYNCED:
        # Else, within the first heartbeats, two gateways of which none is responsible may make it the standby.
        active.run("sh", "-c", hand_over_of(vpn).take)
    if redundancy == "clusterip":
        join_cluster(lab, PAIR)
    if (how := vpn.lifecycle().standby) is not None:
        how.prepare(standby)
    if redundancy in SYNCED:
        hand_over(hand_over_of(vpn), active, standby)
    if redundancy == "clusterip":
        open_gates(lab, PAIR, hand_over_of(vpn).renew.format(peer=lab.sites[-1]) if renew else "true")
        wait_until(lambda: is_active(lab, PAIR[0]) and not is_active(lab, PAIR[1]), f"{PAIR[0]} responsible")
        return
    moved = scripts(vpn, lab.sites[-1], redundancy)
    active.run("touch", ROLE)
    for name in PAIR:
        for script, commands in (
            ("active", f"touch {ROLE}\n{moved.active}"),
            ("standby", f"rm -f {ROLE}\n{moved.standby}"),
            ("alive", moved.alive),
        ):
            # Logged, because keepalived shows nothing of what its scripts say.
            log = "" if script == "alive" else f"exec >>/run/takeover.log 2>&1\necho {script}; set -x\n"
            write_alone(lab.nodes[name], f"{HOME}/{script}", f"#!/bin/sh\n{log}{commands}\n", mode=0o700)


def hand_over(how: HandOver, active: LabNode, standby: LabNode) -> None:
    """Wait until the gateway that stands by has the state. Raises TimeoutError where it never gets it."""
    try:
        wait_until(lambda: how.has_state(standby), f"the SAs on {standby.name}", 3)
    except TimeoutError:  # it asked for them before it knew their connection, and the answer was lost: once more
        active.run("sh", "-c", how.again)
        wait_until(lambda: how.has_state(standby), f"the SAs on {standby.name}", 20)
