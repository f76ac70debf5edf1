"""A WAN that lets only some protocols pass: does the tunnel come up through it, from the beginning?"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from runner.data.errors import CommandError, Unsupported
from runner.data.levels import tunnel_levels
from runner.data.metric import verdict
from runner.instruments.instrument import Asked
from runner.instruments.path.policing import PORT, SECONDS, rate
from runner.instruments.path.router import check_helpers, nft_counters
from runner.instruments.path.verdict import TROUBLE, Judging, NoControl, PathVerdict
from runner.instruments.result import Measured
from runner.instruments.tools.between import talking
from runner.lab import probes
from runner.lab.shape.site import ip_version
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench, Tunnel, bring_up
from runner.vpn.plugin import Vpn

HTTPS = "tcp/443"
ECHO = re.compile(r"time=([\d.]+) ms")  # of ping(8)
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


def cost(bench: Bench) -> dict[str, float]:
    """What a tunnel carries: the rate of one TCP connection, and the median round trip of ten echoes."""
    host = bench.lab.host1
    with talking(bench.lab.host2, "path", "answer", f"{ip_version(bench.address)}", PORT, ready="ready") as answering:
        answering.say(key="")
        carried_bps = rate(host, bench.address, SECONDS, "send")
    done = host.run("ping", "-n", "-c10", "-i0.1", "-W2", bench.address, check=False, timeout=30)
    times = sorted(map(float, ECHO.findall(done.stdout)))
    return {"rate_mbit_s": round(carried_bps / 1e6, 1)} | ({"rtt_ms": times[len(times) // 2]} if times else {})


def through(
    bench: Bench, asked: Asked, metric: str, usual: Tunnel, usual_cost: Mapping[str, float]
) -> tuple[PathVerdict, int]:
    """The verdict on one filter, and how many TCP packets the gateways tried. Leaves ``bench`` with the tunnel that
    came up, or without one. A way that the product falls back to by itself is part of it; ``usual``: the tunnel without
    a filter, with what it carried.

    Raises NoControl where the filter is not what it should be, or holds back more than the path between the gateways.
    """
    rule, open_ = FILTERS[metric]
    keys, lab = bench.keys(), bench.bare()
    bench.lab = lab
    before = passing(lab)
    block(lab, rule)
    if before != [*TRIED] or (now := passing(lab)) != open_:
        raise NoControl(f"without a tunnel {before} passed, and {now if before == [*TRIED] else []} past the filter")
    control = {"passed_before": before, "passed": open_, "up_without_a_filter_s": round(usual.setup_s, 2), **usual_cost}
    counted = tcp_packets(lab)
    try:
        bench.tunnel = bring_up(lab, asked.vpn.with_fallback(), tunnel_levels(asked.params), keys)
    except (TimeoutError, CommandError):
        tried = tcp_packets(lab) - counted
        check_helpers(lab)
        return PathVerdict("dead", 0.0, control, {"tcp_packets": tried}), tried
    tried = tcp_packets(lab) - counted
    way = bench.tunnel.evidence.data_path
    numbers: dict[str, Any] = {"up_s": round(bench.tunnel.setup_s, 2), "tcp_packets": tried}
    if way == usual.evidence.data_path:
        return PathVerdict("up", 1.0, control, numbers), tried
    numbers |= {"way": way, **cost(bench), "usual_mbit_s": usual_cost.get("rate_mbit_s", 0.0)}
    return PathVerdict("fallback", 1.0, control, numbers), tried


class Blocked(Judging):
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

    def once(self, bench: Bench, asked: Asked) -> Measured:
        found, trouble, decisive = dict[str, PathVerdict](), dict[str, Exception](), None
        try:
            usual, usual_cost = bench.tunnel, cost(bench) if asked.vpn.with_fallback() is not asked.vpn else {}
        except TROUBLE as failed:
            return self.inconclusive(failed)
        for metric in ("passes_https_only", "passes_without_udp"):
            try:
                verdict, tried = decisive or through(bench, asked, metric, usual, usual_cost)
            except TROUBLE as failed:  # the stricter filter may hold back what the VPN needs beside its gateways
                trouble[metric] = failed
                continue
            found[metric] = verdict
            if verdict.value or not tried:  # what passes the stricter filter passes the other; or it never tries TCP
                decisive = verdict, tried
        measured = self.to_measured(found)
        for metric, reason in trouble.items():
            unsure = self.inconclusive(reason, [metric])
            measured.warnings += unsure.warnings
            measured.attempt.setdefault("inconclusive", {}).update(unsure.attempt["inconclusive"])
        return measured
