"""A line that is policed in one direction: what of the rate that plain IP gets there does a tunnel get?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager

from runner.data.errors import MeasurementError, Unsupported
from runner.data.kinds import LARGEST
from runner.data.metric import Metric
from runner.instruments.instrument import Asked
from runner.instruments.path.router import slow, wan_router
from runner.instruments.path.verdict import TRIES, NoControl, PathProbe, PathVerdict
from runner.instruments.tools.between import talking
from runner.lab import probes
from runner.lab.node import LabNode
from runner.lab.shape.site import ip_version
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench
from runner.vpn.plugin import Vpn

RATE_BPS = 20e6
BUCKET_BYTES, QUEUE_BYTES = 32_000, 3_100  # two packets wait: what a policer does not let pass is lost
SECONDS, BACK_S = 1.5, 0.5
PORT = "tcp/5204"  # beside those of the lab
LEAST = 0.6  # of what plain IP gets
PROGRAM = f"{probes.FOLDER}/path.py"


@contextmanager
def slow_to_far(lab: Lab, *queue_bytes: int) -> Iterator[tuple[LabNode, str]]:
    """The WAN carries RATE_BPS to the far gateway, which answers there, as the far host does. Yields the near gateway
    and the far one's address. ``queue_bytes``: as ``slow``."""
    far = lab.sites[-1]
    with wan_router(lab) as ports, ExitStack() as stack:
        for node, version in ((lab.gateway(far), ip_version(far.wan_address)), (lab.host2, 4)):
            answering = stack.enter_context(talking(node, "path", "answer", str(version), PORT, ready="ready"))
            answering.say(key="")  # nobody else is in this lab
        with slow(lab, ports[far.wan_address], RATE_BPS, *queue_bytes):
            yield lab.gateway(lab.sites[0]), far.wan_address


def rate(node: LabNode, address: str, seconds: float, way: str) -> float:
    """The rate of one TCP connection from this node, bit/s: what the far end counted of ``send``, or this one of
    ``take``. Raises MeasurementError where it stalls."""
    node.write(PROGRAM, probes.source("path"), mode=0o644)
    argv = ("python3", "-IS", PROGRAM, "rate", address, f"{seconds:g}", "0", PORT, way)
    done = node.run(*argv, check=False, timeout=seconds + 20, input="\n")
    if done.code != 0:
        raise MeasurementError(f"TCP from {node.name} to {address} stalled: {done.stderr.strip()[-200:]}")
    return float(done.stdout)


def lacks_tbf(lab: Lab) -> Unsupported | None:
    """Why the WAN node cannot be slow; None where it can. A live probe, which loads the module."""
    on_lo = ("dev", "lo", "root")
    tbf = ("tbf", "rate", "1mbit", "burst", "4096", "limit", "4096")
    tried = lab.wan.run("tc", "qdisc", "add", *on_lo, *tbf, check=False)
    lab.wan.run("tc", "qdisc", "del", *on_lo, check=False)
    return Unsupported(f"the WAN node's kernel has no tbf: {tried.stderr.strip()[-200:]}") if tried.code else None


class Policing(PathProbe):
    """20 Mbit/s in one direction, without a queue."""

    name = "policing"
    metrics = (
        Metric(
            name="policed_share",
            title="Share of a policed rate",
            unit="1",
            better="higher",
            definition=f"The WAN polices what goes to the far gateway: {RATE_BPS / 1e6:g} Mbit/s, bursts of "
            f"{BUCKET_BYTES} bytes, no queue. The value is the rate of one TCP connection (CUBIC) through the tunnel, "
            "as a share of the rate of one without a tunnel.",
            source="RFC 2475 §2.3.3.4 (policers), RFC 9438 (CUBIC), tc-tbf(8)",
            bounds=(0.0, LARGEST),  # of what plain IP got, a moment before
        ),
    )
    takes_s = 12.0
    most_tries = TRIES

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        return super().refuses(lab, vpn, params) or lacks_tbf(lab)

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        with slow_to_far(bench.lab, QUEUE_BYTES, BUCKET_BYTES) as (gateway, address):
            bare = rate(gateway, address, SECONDS, "send")
            back = rate(gateway, address, BACK_S, "take")
            if not RATE_BPS / 2 < bare < 1.1 * RATE_BPS or back < 2 * RATE_BPS:
                raise NoControl(
                    f"without a tunnel, {bare / 1e6:.1f} Mbit/s passed the policer, and {back / 1e6:.1f} Mbit/s "
                    "came back"
                )
            through = rate(bench.lab.host1, bench.address, SECONDS, "send")
            share = through / bare
            if share < LEAST and (free := rate(bench.lab.host1, bench.address, SECONDS, "take")) < bare:
                raise NoControl(
                    f"the tunnel carries {free / 1e6:.1f} Mbit/s where nobody polices it, and {bare / 1e6:.1f} pass "
                    "the policer: is the machine busy?"
                )
        control = {"passed_mbit_s": round(bare / 1e6, 1), "other_direction_mbit_s": round(back / 1e6, 1)}
        numbers = {"share_percent": round(100 * share), "passed_mbit_s": round(through / 1e6, 1)}
        kind = "keeps" if share >= LEAST else "loses"
        return {"policed_share": PathVerdict(kind, round(share, 3), control, numbers)}
