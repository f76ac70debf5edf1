"""A NAT before the first gateway: it changes its mappings when told to, and forgets those that are silent.

host1 ──── gw1 ════ NAT ════ gw2 ──── host2
           dials    router, answers at PUBLIC; a helper, if the VPN needs one, is where gw2 is
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace

from runner.data.errors import CommandError
from runner.data.levels import tunnel_levels
from runner.instruments.instrument import Asked
from runner.instruments.path.router import check_helpers, nft_counters, wan_router
from runner.instruments.path.verdict import NoControl
from runner.instruments.tools.between import Talker, talking
from runner.lab.node import PATIENCE
from runner.lab.shape.site_to_site import Lab, batch
from runner.tunnel.bring_up import Bench, bring_up, plug_in_helper

PUBLIC = ("192.168.0.101", "192.168.0.102")  # the NAT's own addresses, on the WAN's network
PORTS = ("20000-29999", "30000-39999")  # that it gives to what it translates
CONTROL_PORT = 7  # echo (RFC 862): no VPN has it
PATIENT_S = 90.0  # a tunnel that is not back then does not come back
LOOK_S = 0.2
ANSWER = re.compile(r"^\[(\d+\.\d+)\] \d+ bytes from", re.MULTILINE)  # of ping(8), with -D
LOST_S = 0.5  # and a round trip: what has not come by then does not come
# Nobody outside reaches what no mapping leads to, not even by an address that a VPN tells the other end (RFC 4787 §5).
# A mapping stays as it was made, until it is forgotten.
TABLE = """
add table ip translation
delete table ip translation
table ip translation {{
    counter sent {{
    }}
    counter came {{
    }}
    chain out {{
        type nat hook postrouting priority 100
        ip saddr {inside} oifname != "{port}" meta l4proto {{ tcp, udp }} snat to {public}:{ports}
        ip saddr {inside} oifname != "{port}" snat to {public}
    }}
    chain to_itself {{
        type filter hook input priority 0
        iifname != "{port}" meta l4proto != icmp drop
    }}
    chain to_inside {{
        type filter hook forward priority 0
        oifname "{port}" counter name came ct state {{ new, invalid }} drop
        iifname "{port}" counter name sent
    }}
}}
"""
TIMERS = (  # of conntrack, s (Documentation/networking/nf_conntrack-sysctl.rst); each namespace has its own
    *("udp_timeout", "udp_timeout_stream", "tcp_timeout_established", "generic_timeout"),
    *("gre_timeout", "gre_timeout_stream"),
)
FORGET = """
import os, socket, struct
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12) as netlink:  # NETLINK_NETFILTER
    # nfnetlink_conntrack.h: NFNL_SUBSYS_CTNETLINK, IPCTNL_MSG_CT_DELETE; without a tuple, of all. With NLM_F_ACK.
    netlink.send(struct.pack("=IHHIIBBH", 20, 1 << 8 | 2, 1 | 4, 1, 0, 0, 0, 0))
    error = -struct.unpack_from("=i", netlink.recv(4096), 16)[0]
raise SystemExit(error and "conntrack's entries cannot be deleted: " + os.strerror(error))
"""


@dataclass
class Nat:
    """The NAT and the tunnel behind it, and beside the tunnel the control: a socket at each gateway, without any
    keepalive."""

    lab: Lab
    port: str  # the router's, to the near gateway
    inside: Talker
    outside: Talker

    def gives(self, public: str, ports: str) -> None:
        """From now on, a new mapping gets this address, and a port of these."""
        inside = self.lab.sites[0].wan_address
        self.lab.wan.run(
            "nft", "-f", "-", input=TABLE.format(inside=inside, port=self.port, public=public, ports=ports)
        )

    def forgets(self) -> None:
        """Forget all mappings at once."""
        self.lab.wan.run("python3", "-IS", "-c", FORGET)

    def forgets_after(self, seconds: float) -> None:
        """Forget what has been silent for so long, both ways, from its next packet on."""
        timers = (f"net.netfilter.nf_conntrack_{name}={seconds:.0f}" for name in TIMERS)
        self.lab.wan.run("sysctl", "-qew", *timers, check=False)  # -e: a kernel may have no GRE

    def packet_counts(self) -> dict[str, int]:
        """Packets that inside has ``sent``, and that ``came`` from outside."""
        return nft_counters(self.lab.wan, "ip", "translation")

    def outside_address(self) -> tuple[str, int]:
        """Send from inside: the address and port that the far gateway sees. Its answer must come back.

        Raises NoControl where one of them does not arrive."""
        self.inside.say(to=[self.lab.sites[-1].wan_address, CONTROL_PORT])
        came = self.outside.say(wait_s=2 * PATIENCE)["from"]
        if came is None:
            raise NoControl("without a tunnel, a datagram from inside did not pass the NAT")
        if not self.reaches(came):
            raise NoControl("without a tunnel, the answer to a datagram from inside did not pass the NAT")
        return came[0], came[1]

    def reaches(self, mapping: tuple[str, int]) -> bool:
        """Does a datagram from outside to this mapping reach the inside?"""
        self.outside.say(to=[*mapping])
        return self.inside.say(wait_s=LOST_S * PATIENCE + self.lab.rtt_s)["from"] is not None


@contextmanager
def behind_nat(bench: Bench, asked: Asked) -> Iterator[Nat]:
    """A fresh lab whose first gateway is behind a NAT, for ``came_up``. Leaves ``bench`` without its tunnel. Raises
    NoControl where the NAT translates nothing."""
    bench.close()
    lab = bench.lab = bench.bare()
    plug_in_helper(lab, asked.vpn)
    near, far = lab.sites[0], lab.sites[-1]
    with wan_router(lab) as ports, ExitStack() as stack:
        batch(lab.wan, *(f"addr add {address}/32 dev lo" for address in PUBLIC))
        stack.callback(batch, lab.wan, *(f"addr del {address}/32 dev lo" for address in PUBLIC))
        stack.callback(lab.wan.run, "nft", "delete", "table", "ip", "translation", check=False)
        ends = (
            stack.enter_context(
                talking(lab.gateway(site), "mapping", site.wan_address, str(CONTROL_PORT), ready="open")
            )
            for site in (near, far)
        )
        nat = Nat(lab, ports[near.wan_address], *ends)
        nat.gives(PUBLIC[0], PORTS[0])
        if (seen := nat.outside_address()) == (near.wan_address, CONTROL_PORT):
            raise NoControl(f"the NAT left the address of a datagram as it was: {seen}")
        for site in (near, far):  # the kernel would send of its own into a device that has IPv6: RFC 4861 §6.3.7
            lab.gateway(site).run("sysctl", "-qew", "net.ipv6.conf.default.disable_ipv6=1", check=False)
        lab.sites = (replace(near, public_address=PUBLIC[0]), far)
        yield nat


def came_up(bench: Bench, asked: Asked) -> bool:
    """Bring the tunnel up behind the NAT, by the product's fallback if that is what works there. Does it come up?
    Raises MeasurementError, and NoControl where a gateway does not reach what the VPN needs."""
    try:
        bench.tunnel = bring_up(bench.lab, asked.vpn.with_fallback(), tunnel_levels(asked.params), bench.keys())
    except (TimeoutError, CommandError):
        check_helpers(bench.lab)
        return False
    return True


def back_s(benches: Sequence[Bench]) -> list[float | None]:
    """For each tunnel the seconds until an echo is answered, which is sent from inside once a second; None: never."""
    began, found = time.time(), list[float | None]()
    asking = [bench.lab.host1.spawn("ping", "-n", "-D", "-i1", bench.address, log="back") for bench in benches]
    try:
        while None in (found := [first_answer(bench, began) for bench in benches]):
            if time.time() > began + PATIENT_S * PATIENCE:
                break
            time.sleep(LOOK_S)
        return found
    finally:
        for ping in asking:
            ping.stop()


def first_answer(bench: Bench, since_s: float) -> float | None:
    """How long after ``since_s`` (of the epoch) ping(8) had its first answer."""
    times = map(float, ANSWER.findall(bench.lab.host1.read_log("back")))
    return next((round(at_s - since_s, 1) for at_s in times if at_s > since_s), None)


def reached_from_outside(bench: Bench) -> bool:
    """Is an echo from the far host to the near one answered, one of five?"""
    near = bench.lab.sites[0].host_address
    return bench.lab.host2.run("ping", "-nq", "-c5", "-i0.3", "-W1", near, check=False, timeout=20).code == 0
