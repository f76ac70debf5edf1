"""A WAN that lets only some protocols pass: does the tunnel come up through it, from the beginning?"""

from __future__ import annotations

import json
from collections.abc import Mapping

from runner.data.errors import CommandError, Unsupported
from runner.data.levels import tunnel_levels
from runner.data.metric import verdict
from runner.instruments.instrument import Asked
from runner.instruments.path.router import nft_counters
from runner.instruments.path.verdict import NoControl, PathProbe, PathVerdict
from runner.instruments.tools.between import talking
from runner.lab import probes
from runner.lab.shape.site import ip_version
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench, bring_up
from runner.vpn.plugin import Vpn

HTTPS = "tcp/443"
TRIED = ("udp/5300", "tcp/5300", HTTPS)  # by the control
# Metric -> what the filter drops, and which of the tried ports pass it.
FILTERS: dict[str, tuple[str, list[str]]] = {
    "passes_https_only": ("meta l4proto != tcp drop\ntcp dport != 443 tcp sport != 443 drop", [HTTPS]),
    "passes_without_udp": ("meta l4proto udp drop", ["tcp/5300", HTTPS]),
}
TABLE = """
table bridge blocked {{
    counter of_tcp {{
    }}
    chain forward {{
        type filter hook forward priority 0
        ether type != {{ ip, ip6 }} accept
        meta l4proto ipv6-icmp accept
        meta l4proto tcp counter name of_tcp
        {rule}
    }}
}}
"""


def block(lab: Lab, rule: str) -> None:
    """Filter what the WAN's bridge forwards."""
    lab.wan.run("nft", "-f", "-", input=TABLE.format(rule=rule))


def tcp_packets(lab: Lab) -> int:
    """TCP packets that the gateways have sent, whether they passed or not."""
    return nft_counters(lab.wan, "bridge", "blocked")["of_tcp"]


def passing(lab: Lab) -> list[str]:
    """Those of the tried ports of the far gateway that the near one reaches."""
    near, far = lab.gateway(lab.sites[0]), lab.gateway(lab.sites[-1])
    program, address = f"{probes.FOLDER}/path.py", lab.sites[-1].wan_address
    near.write(program, probes.source("path"), mode=0o644)
    with talking(far, "path", "answer", f"{ip_version(address)}", *TRIED, ready="ready") as answering:
        answering.say(key="")  # nobody else is in this lab
        argv = ("python3", "-IS", program, "ask", address, *("0", "0", "1500", "0", "0"), *TRIED)
        found = near.run(*argv, timeout=30, input="\n")
    reached: list[str] = json.loads(found.stdout)["open"]
    return reached


def through(bench: Bench, asked: Asked, metric: str) -> tuple[PathVerdict, int]:
    """The verdict on one filter, and how many TCP packets the gateways tried. Leaves ``bench`` without its tunnel.

    Raises NoControl where the filter is not what it should be.
    """
    rule, open_ = FILTERS[metric]
    keys, lab = bench.keys(), bench.bare()
    bench.lab = lab
    before = passing(lab)
    block(lab, rule)
    if before != [*TRIED] or (now := passing(lab)) != open_:
        raise NoControl(f"without a tunnel {before} passed, and {now if before == [*TRIED] else []} past the filter")
    control = {"passed_before": before, "passed": open_, "up_without_a_filter_s": round(bench.tunnel.setup_s, 2)}
    counted = tcp_packets(lab)
    try:
        up_s = bring_up(lab, asked.vpn, tunnel_levels(asked.params), keys).setup_s
    except (TimeoutError, CommandError):
        tried = tcp_packets(lab) - counted
        return PathVerdict("dead", 0.0, control, {"tcp_packets": tried}), tried
    tried = tcp_packets(lab) - counted
    return PathVerdict("up", 1.0, control, {"up_s": round(up_s, 2), "tcp_packets": tried}), tried


class Blocked(PathProbe):
    """UDP blocked, and everything but TCP to port 443."""

    name = "blocked"
    metrics = (
        verdict(
            name="passes_without_udp",
            title="Comes up where UDP is blocked",
            definition="The WAN drops UDP. The value is 1 if the tunnel comes up and carries payload, else 0.",
            source="RFC 8229 §1 (networks that block UDP), RFC 9329",
        ),
        verdict(
            name="passes_https_only",
            title="Comes up where only TCP 443 passes",
            definition="The WAN drops everything but TCP to and from port 443. The value is 1 if the tunnel, as it is "
            "set up here, comes up and carries payload, else 0.",
            source="RFC 8229 §1, RFC 9329",
        ),
    )
    takes_s = 25.0
    spends_tunnel = True

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if vpn.reference:
            return Unsupported("without a tunnel there is nothing to bring up")
        return super().refuses(lab, vpn, params)

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        strict, tried = through(bench, asked, "passes_https_only")
        if strict.kind == "up":  # what passes the stricter filter passes the other
            return {"passes_https_only": strict, "passes_without_udp": strict}
        if tried:
            return {"passes_https_only": strict, "passes_without_udp": through(bench, asked, "passes_without_udp")[0]}
        return {"passes_https_only": strict, "passes_without_udp": strict}  # it never tries TCP
