"""VPNs that a slice of a quarter of a second does not find out: OpenVPN, and on gw1 something that goes wrong now and
then, or on its way."""

from __future__ import annotations

from pathlib import Path

HEAD = """
from vpns.openvpn import OpenVpn

SHELL = {shell!r}


class {title}(OpenVpn):
    title = "{title}"

    def start(self, node, me, peers, params):
        super().start(node, me, peers, params)
        if me.number == 1:
            node.spawn("sh", "-c", SHELL, "{name}", peers[0].lan, peers[0].host_address, me.wan_interface, log="{name}")
"""
# In spans of 0.7 s, with a chance of 40 %, a half of the other site's network is behind no gateway.
HOLE = """
half=${1%.*}.0/25
while sleep 0.7; do
    if [ $(($(od -An -N2 -tu2 /dev/urandom) % 10)) -lt 4 ]; then
        ip route replace blackhole "$half"
    else
        ip route del blackhole "$half" 2>/dev/null || true
    fi
done
"""
# The daemon stands still for 0.2 s in each second.
STALL = """
pid=$(pgrep -o -x openvpn)
while sleep 0.8; do
    kill -STOP $pid
    sleep 0.2
    kill -CONT $pid
done
"""
# What goes to the other gateway is policed to RATE, with a burst of two seconds of it, and nothing waits.
POLICED = """
tc qdisc replace dev "$3" root tbf rate {rate_bps}bit burst {burst_bytes} limit 20000
exec sleep 1000
"""
# Now and then the daemon is made anew.
BREAKS = """
pid=$(pgrep -o -x openvpn)
while sleep 6; do
    kill -USR1 $pid
done
"""


def shells(policed_bps: int) -> dict[str, str]:
    """Name -> what gw1 does beside its daemon. ``policed_bps``: the rate of the one that is policed."""
    policed = POLICED.format(rate_bps=policed_bps, burst_bytes=policed_bps // 8 * 2)
    return {"hole": HOLE, "stall": STALL, "policed": policed, "breaks": BREAKS}


def unsteady(folder: Path, name: str, policed_bps: int) -> Path:
    """The plugin's file, in this folder."""
    path = folder / f"{name}.py"
    path.write_text(HEAD.format(shell=shells(policed_bps)[name], name=name, title=name.capitalize()))
    return path
