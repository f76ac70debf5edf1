"""Two sites whose networks have the same addresses: can their hosts talk, and who translates?

    172.16.5.2 host1 ── gw1 ════ gw2 ── host2 172.16.5.2

To each other, the sites have the addresses of every lab, 10.1.0.0/24 and 10.2.0.0/24, one for one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from runner.data.errors import MeasurementError, Unsupported
from runner.data.levels import Levels
from runner.data.metric import verdict
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, MadeOf, Whole
from runner.instruments.result import Measured, measurement
from runner.lab import probes
from runner.lab.node import LabNode, wait_until
from runner.lab.places import Rig
from runner.lab.shape.site_to_site import Lab, batch
from runner.tunnel.bring_up import Bench
from runner.tunnel.proof import ANSWER_PORT, CONNECT_RTTS
from runner.vpn.plugin import Vpn

BEHIND = "172.16.5.0/24"  # each site's own network
GATEWAY, HOST = "172.16.5.1", "172.16.5.2"
WITHIN_S, NOT_WITHIN_S = 10.0, 1.0  # an answer, and for the control none; beyond the round trips that it takes
TABLE = "vpneval_domains"
# nft(8), "NAT statements": with a map of prefixes, the host's part of each address stays.
TRANSLATION = """\
table ip {table} {{
    chain dstnat {{
        type nat hook prerouting priority dstnat;
        dnat ip prefix to ip daddr map {{ {mine} : {behind} }}
    }}
    chain srcnat {{
        type nat hook postrouting priority srcnat;
        ip daddr {theirs} snat ip prefix to ip saddr map {{ {behind} : {mine} }}
    }}
}}
"""


def same_network(lab: Lab) -> None:
    """Give both sites' hosts the same address in the same network. The gateway keeps its address in its old one."""
    for site in lab.sites:
        lan = f"{site.lan_address}/{site.lan_prefix}"
        batch(
            lab.gateway(site),
            f"addr del {lan} dev lan0",
            f"addr add {site.lan_address}/32 dev lan0",
            f"addr add {GATEWAY}/24 dev lan0",
        )
        batch(
            lab.nodes[f"host{site.number}"],
            f"addr del {site.host_address}/{site.lan_prefix} dev eth0",
            f"addr add {HOST}/24 dev eth0",
            f"route add default via {GATEWAY}",
        )


def translate(lab: Lab) -> None:
    """Let both gateways translate, by nftables."""
    for site, other in zip(lab.sites, reversed(lab.sites), strict=True):
        rules = TRANSLATION.format(table=TABLE, mine=site.lan, theirs=other.lan, behind=BEHIND)
        lab.gateway(site).run("nft", "-f", "-", input=rules)


def domains(lab: Lab, *, by_gateways: bool) -> Measured:
    """Does a host of each site have an answer from the other's, over TCP?

    Raises MeasurementError where there is an answer after the gateways have stopped to translate.
    """
    near, far = lab.sites
    for host in (lab.host1, lab.host2):
        host.write(f"{probes.FOLDER}/ask.py", probes.source("ask"), mode=0o644)
        host.write(f"{probes.FOLDER}/answer.py", probes.source("answer"), mode=0o644)
    answering = lab.host1.spawn("python3", "-IS", f"{probes.FOLDER}/answer.py", str(ANSWER_PORT), log="domains-answer")
    wait_until(lambda: f":{ANSWER_PORT} " in lab.host1.run("ss", "-Hltn").stdout, "the near host's answering probe")
    trips_s = CONNECT_RTTS * lab.rtt_s
    forward = is_answered(lab.host1, far.host_address, WITHIN_S + trips_s)
    reverse = is_answered(lab.host2, near.host_address, WITHIN_S + trips_s)
    answering.stop()
    if by_gateways:
        lab.gateway(near).run("nft", "delete", "table", "ip", TABLE)
        if is_answered(lab.host1, far.host_address, NOT_WITHIN_S + trips_s):
            raise MeasurementError("the far host answered although the near gateway did not translate any more")
    value = measurement("overlap_reach", float(forward and reverse), forward=forward, reverse=reverse)
    return Measured([value])


def is_answered(host: LabNode, address: str, within_s: float) -> bool:
    """Does the probe at ``address`` answer the host?"""
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", address, str(ANSWER_PORT), f"{within_s:g}")
    return host.run(*ask, check=False, timeout=within_s + 15).code == 0


class Domains(Whole):
    """Sites that have the same addresses."""

    name = "domains"
    factors = {"translator": Levels(("gateway", "vpn"), default="gateway", before=True)}
    metrics = (
        verdict(
            name="overlap_reach",
            title="Sites with the same addresses",
            definition="Both sites have the same network, and addresses are translated one for one. The value is 1 if "
            "a host at each site has an answer from the host at the other, else 0.",
            source="OSLV paper, section Routing and Table 3; RFC 3022 (NAT)",
        ),
    )
    spends_tunnel = True

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if vpn.carries == "tcp":
            return Unsupported(f"{vpn.title} forwards ports: it routes no networks whose addresses could overlap")
        if lab.kind != "netns":
            return Unsupported(f"vpneval does not change the addresses of the networks of a {lab.kind} lab")
        if params["translator"] == "vpn" and not vpn.declared.abilities.translates:
            return Unsupported(f"{vpn.title} translates no addresses; the gateways can (translator=gateway)")
        if params["translator"] == "gateway":
            table, gateway = f"table ip {TABLE} {{}}", lab.gateway(lab.sites[0])
            asked = gateway.run("nft", "--check", "-f", "-", input=table, check=False)
            if asked.code != 0:
                return Unsupported(f"the gateway's kernel refuses nftables: {asked.stderr.strip().splitlines()[0]}")
        return super().refuses(lab, vpn, params)

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 2.0

    @contextmanager
    def lab(self, rig: Rig, vpn: Vpn, params: Mapping[str, str], *made_of: *MadeOf) -> Iterator[Lab]:
        with super().lab(rig, vpn, params, *made_of) as lab:
            if not self.refuses(lab, vpn, params):
                same_network(lab)
                if params["translator"] == "gateway":
                    translate(lab)
            yield lab

    def asks(self, params: Mapping[str, str]) -> dict[str, str]:
        return {"behind": BEHIND} if params["translator"] == "vpn" else {}

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return domains(bench.lab, by_gateways=asked.params["translator"] == "gateway")
