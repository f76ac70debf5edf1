"""Two gateways behind one address: keepalived (VRRP) moves the addresses, and scripts of ours move the tunnel.

Sources: keepalived.conf(5), RFC 9568 (VRRP 3). Who is active has the site's addresses 192.168.0.1 and 10.1.0.1; who
becomes active brings the tunnel up anew, with the same keys, and who stands by has everything prepared up to there.
"""

from __future__ import annotations

from dataclasses import dataclass

from runner.errors import MeasurementError
from runner.lab import Lab, batch
from runner.node import NamespaceNode, wait_until
from runner.plugin import Site, Vpn
from vpns.ipsec import DAEMONS, Ipsec
from vpns.openvpn import OpenVpn
from vpns.wireguard import WireGuard

# One advertisement each; three missed ones are a death (RFC 9568 §6.1). ha_sync: strongSwan's plugin ha hands IKE and
# CHILD SAs over the link between the two, so that the new gateway goes on with them instead of negotiating.
ADVERTISED_S = {"vrrp": 1.0, "vrrp_fast": 0.1, "ha_sync": 0.1}
PAIR = ("gw1", "gw1b")  # the first is preferred
HOME = "/etc/keepalived"
ACTIVE_WITHIN_S = 20.0
ROLE = "/run/vpneval-active"  # is there on the active gateway
CHARON_LIVES = "pgrep -x 'charon|charon-systemd'"
SYNC = {"gw1": ("10.99.0.1", "10.99.0.2"), "gw1b": ("10.99.0.2", "10.99.0.1")}


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
    interval 1
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


def ha_configuration(name: str) -> str:
    """The plugin ha of one of the two gateways, with its own heartbeats (1 s, dead after 2.1 s) beside keepalived's.

    strongSwan's wiki, "High Availability". No ``secret``: the link between the two is the lab's own, and nobody else's.
    """
    local, remote = SYNC[name]
    return f"""\
ha {{
    load = yes
    local = {local}
    remote = {remote}
    segment_count = 1
    fifo_interface = yes
    heartbeat_delay = 1000
    heartbeat_timeout = 2100
    monitor = yes
    resync = yes
}}
"""


def start_redundancy(lab: Lab, redundancy: str) -> None:
    """Start keepalived on both gateways, and wait until the preferred one has the site's addresses; ``off``: it just
    has them, and the other one does nothing.

    Raises TimeoutError where that does not happen, MeasurementError where the image has no keepalived.
    """
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
        if redundancy == "ha_sync":
            NamespaceNode.write(node, "/etc/strongswan.d/charon/ha.conf", ha_configuration(name))
        options = ("--dont-fork", "--log-console", "--log-detail", "--vrrp", "-f", f"{HOME}/keepalived.conf")
        node.spawn("keepalived", *options, log="keepalived")
        if name == PAIR[0]:
            wait_until(lambda: is_active(lab, PAIR[0]), f"{name} active", ACTIVE_WITHIN_S)


def is_active(lab: Lab, name: str) -> bool:
    """Does that gateway have the site's address on its WAN and on its LAN?"""
    shown = lab.nodes[name].run("ip", "-o", "-4", "addr", "show").stdout
    return " 192.168.0.1/" in shown and " 10.1.0.1/" in shown


def cannot(vpn: Vpn, redundancy: str) -> str:
    """Why that VPN cannot be made redundant like that; empty where it can."""
    if redundancy == "ha_sync" and not isinstance(vpn, Ipsec):
        return f"{vpn.title} hands no state over to a second gateway; strongSwan's ha plugin does"
    if not isinstance(vpn, Ipsec | WireGuard | OpenVpn) or vpn.transport == "tcp":
        return f"nobody has written down how {vpn.title} moves to a second gateway (runner/failures/redundancy.py)"
    return ""


def scripts(vpn: Vpn, peer: Site, redundancy: str) -> Scripts:
    """How that VPN is moved; only for one that ``cannot`` says nothing against."""
    if redundancy == "ha_sync":
        # + takes the segment's SAs over; * rekeys its CHILD_SAs, because the numbers of ESP begin anew; - lets it go.
        fifo = "timeout 1 sh -c 'echo \"{}1\" >/run/charon.ha'"
        return Scripts(f"{fifo.format('+')}\n{fifo.format('*')}", fifo.format("-"), CHARON_LIVES)
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
    moved = scripts(vpn, lab.sites[-1], redundancy)
    standby = lab.nodes[PAIR[1]]
    if isinstance(vpn, Ipsec):
        daemon = next(path for path in DAEMONS if standby.run("test", "-x", path, check=False).code == 0)
        standby.spawn(daemon, log="charon")
        wait_until(lambda: standby.run("test", "-S", "/run/charon.vici", check=False).code == 0, "charon's socket")
        standby.run("swanctl", "--load-all", "--noprompt")
    elif isinstance(vpn, WireGuard):
        vpn.create(standby)
    if redundancy == "ha_sync":
        wait_until(lambda: has_state(standby), f"the SAs on {standby.name}", 20)
    lab.nodes[PAIR[0]].run("touch", ROLE)
    for name in PAIR:
        for script, commands in (
            ("active", f"touch {ROLE}\n{moved.active}"),
            ("standby", f"rm -f {ROLE}\n{moved.standby}"),
            ("alive", moved.alive),
        ):
            # Logged, because keepalived shows nothing of what its scripts say.
            log = "" if script == "alive" else f"exec >>/run/takeover.log 2>&1\necho {script}; set -x\n"
            NamespaceNode.write(lab.nodes[name], f"{HOME}/{script}", f"#!/bin/sh\n{log}{commands}\n", mode=0o700)


def has_state(standby: NamespaceNode) -> bool:
    """Has the gateway that stands by got both SAs, the one of IKE as a passive one?"""
    shown = standby.run("swanctl", "--list-sas", check=False).stdout
    return "PASSIVE" in shown and "INSTALLED" in shown
