"""Two gateways behind one address: keepalived (VRRP) moves the addresses, and scripts of ours move the tunnel.

Or both have them, and CLUSTERIP decides (runner/instruments/failures/cluster.py).
Sources: keepalived.conf(5), RFC 9568 (VRRP 3). Who is active has the site's addresses 192.168.0.1 and 10.1.0.1; who
becomes active brings the tunnel up anew, with the same keys, and who stands by has everything prepared up to there.
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
from runner.lab.namespaces import NamespaceNode
from runner.lab.node import PATIENCE, wait_until
from runner.lab.site import Site
from runner.lab.site_to_site import Lab, batch
from runner.vpn.plugin import Vpn
from vpns._esp import DAEMONS  # noqa: PLC2701  (the underscore says: no plugin)
from vpns.ipsec import Ipsec
from vpns.openvpn import OpenVpn
from vpns.wireguard import WireGuard

# One advertisement each; three missed ones are a death (RFC 9568 §6.1). ha_sync: strongSwan's plugin ha hands IKE and
# CHILD SAs over the link between the two, so that the new gateway goes on with them instead of negotiating.
FAST_S = 0.1 * PATIENCE  # a guest's one slow CPU stands still for longer than three of 100 ms
ADVERTISED_S = {"vrrp": 1.0, "vrrp_fast": FAST_S, "ha_sync": FAST_S}
PAIR = ("gw1", "gw1b")  # the first is preferred
HOME = "/etc/keepalived"
ACTIVE_WITHIN_S = 20.0
ROLE = "/run/vpneval-active"  # is there on the active gateway
CHARON_LIVES = "pgrep -x 'charon|charon-systemd'"
FIFO = "timeout 1 sh -c 'echo \"{}1\" >/run/charon.ha'"  # tells the plugin ha what to do with its segment
# The preferred gateway takes the segment as its daemon starts. Else it does so 2.1 s later, and strongSwan 6.0.1 dies
# where an IKE SA is half-way up then: "destroying incomplete IKE_SA %s[%d] after …" has its arguments swapped.
TAKE = "/etc/strongswan.d/take-segment"
TAKES_AT_ONCE = {
    TAKE: "#!/bin/sh\n(echo +1 >/run/charon.ha) &\n",
    "/etc/strongswan.d/zz-take.conf": f"charon-systemd {{ start-scripts {{ ha = {TAKE} }} }}\n",
}
SYNCED = ("ha_sync", "clusterip")  # by strongSwan's plugin ha
# Where the two talk to each other: over a link of their own, or, as in the paper, through the port that will fail.
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


def ha_configuration(name: str, redundancy: str) -> str:
    """The plugin ha of one of the two gateways, with its own heartbeats (1 s, dead after 2.1 s); with ``ha_sync`` they
    run beside keepalived's.

    strongSwan's wiki, "High Availability". No ``secret``: the link between the two is the lab's own, and nobody else's.
    """
    local, remote = SYNC[redundancy][name]
    return f"""\
ha {{
    load = yes
    local = {local}
    remote = {remote}
    segment_count = 1
    fifo_interface = yes
    heartbeat_delay = {HEARTBEAT_S * 1e3:.0f}
    heartbeat_timeout = {DEAD_AFTER_S * 1e3:.0f}
    monitor = yes
    resync = yes
}}
"""


def start_redundancy(lab: Lab, redundancy: str) -> None:
    """Start keepalived on both gateways, and wait until the preferred one has the site's addresses; ``off``: it just
    has them, and the other one does nothing.

    ``clusterip``: both have them, and the preferred one is responsible.

    Raises TimeoutError where that does not happen, MeasurementError where the image has no keepalived.
    """
    if redundancy in SYNCED:
        for name in PAIR:
            text = ha_configuration(name, redundancy)
            NamespaceNode.write(lab.nodes[name], "/etc/strongswan.d/charon/ha.conf", text)
        for path, text in TAKES_AT_ONCE.items():
            NamespaceNode.write(lab.nodes[PAIR[0]], path, text, mode=0o700)
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
            NamespaceNode.write(node, f"{HOME}/{script}", "#!/bin/sh\n", mode=0o700)
        NamespaceNode.write(node, f"{HOME}/keepalived.conf", configuration(name, redundancy))
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


def settled(lab: Lab) -> None:
    """Raise MeasurementError unless the tunnel is on the preferred gateway, and has been since it came up."""
    moved = "/run/takeover.log"
    said = "".join(lab.nodes[name].run("sh", "-c", f"cat {moved} 2>&1 || :").stdout for name in PAIR)
    if not is_active(lab, PAIR[0]) or is_active(lab, PAIR[1]) or said.count("No such file") != len(PAIR):
        raise MeasurementError(f"the tunnel left {PAIR[0]} before anything was broken: {said.strip()[-300:]}")


def cannot(vpn: Vpn, redundancy: str) -> str:
    """Why that VPN cannot be made redundant like that; empty where it can."""
    if redundancy in SYNCED and not isinstance(vpn, Ipsec):
        return f"{vpn.title} hands no state over to a second gateway; strongSwan's ha plugin does"
    if not isinstance(vpn, Ipsec | WireGuard | OpenVpn) or vpn.transport == "tcp":
        return f"the plugin of {vpn.title} does not say how it moves to a second gateway"
    return ""


def scripts(vpn: Vpn, peer: Site, redundancy: str) -> Scripts:
    """How that VPN is moved; only for one that ``cannot`` says nothing against."""
    if redundancy == "ha_sync":
        # + takes the segment's SAs over, - lets them go. The numbers of ESP begin anew, so that new keys are needed:
        # not by *, which hands all SAs back to the other gateway, too, and spoils its IKE SA (docs/failures.md).
        renewed = f"swanctl --rekey --child to-{peer.name}"
        return Scripts(f"{FIFO.format('+')}\n{renewed}", FIFO.format("-"), CHARON_LIVES)
    if isinstance(vpn, Ipsec):
        return Scripts(
            f"swanctl --initiate --child to-{peer.name} --timeout 15",
            f"swanctl --terminate --ike {peer.name} --force --timeout 1",
            CHARON_LIVES,
        )
    if isinstance(vpn, WireGuard):
        up = "wg setconf wg0 /etc/wireguard/wg0.conf && ip link set wg0 mtu 1420 up"
        return Scripts(
            f"{up} && ip route replace {peer.lan} dev wg0",
            # Without its peer: a keepalive from here would take the session away from the active gateway.
            "ip link set wg0 down; wg setconf wg0 /dev/null",
            "pgrep -x wireguard-go" if vpn.dataplane == "userspace" else "ip link show wg0",
        )
    options = f"--config /etc/openvpn/{peer.name}.conf --daemon --log-append /run/openvpn.log"
    return Scripts(
        f"pgrep -x openvpn || openvpn {options}", "pkill -x openvpn", f"test ! -e {ROLE} || pgrep -x openvpn"
    )


def arm(lab: Lab, vpn: Vpn, redundancy: str) -> None:
    """The tunnel being up on the active gateway: prepare the other, and give keepalived the scripts that move it.

    Raises TimeoutError where the daemon does not start there, or where the active one does not hand its state over.
    """
    if redundancy == "off":
        return
    active, standby = (lab.nodes[name] for name in PAIR)
    if redundancy in SYNCED:
        # Else, within the first heartbeats, two gateways of which none has the segment may give it to the standby.
        active.run("sh", "-c", FIFO.format("+"))
    if redundancy == "clusterip":
        join_cluster(lab, PAIR)
    if isinstance(vpn, Ipsec):
        daemon = next(path for path in DAEMONS if standby.run("test", "-x", path, check=False).code == 0)
        standby.spawn(daemon, log="charon")
        wait_until(lambda: standby.run("test", "-S", "/run/charon.vici", check=False).code == 0, "charon's socket")
        standby.run("swanctl", "--load-all", "--noprompt")
    elif isinstance(vpn, WireGuard):
        vpn.create(standby)
    if redundancy in SYNCED:
        hand_over(active, standby)
    if redundancy == "clusterip":
        open_gates(lab, PAIR, f"to-{lab.sites[-1].name}")
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
            NamespaceNode.write(lab.nodes[name], f"{HOME}/{script}", f"#!/bin/sh\n{log}{commands}\n", mode=0o700)


def hand_over(active: NamespaceNode, standby: NamespaceNode) -> None:
    """Wait until the gateway that stands by has the SAs. Raises TimeoutError where it never gets them."""
    try:
        wait_until(lambda: has_state(standby), f"the SAs on {standby.name}", 3)
    except TimeoutError:  # it asked for them before it knew their connection, and the answer was lost: once more
        active.run("sh", "-c", FIFO.format("*"))
        wait_until(lambda: has_state(standby), f"the SAs on {standby.name}", 20)


def has_state(standby: NamespaceNode) -> bool:
    """Has the gateway that stands by got both SAs, the one of IKE as a passive one?"""
    shown = standby.run("swanctl", "--list-sas", check=False).stdout
    return "PASSIVE" in shown and "INSTALLED" in shown
