"""A NAT that loses its mappings: it gives the tunnel another port, or has got another address. Is the tunnel back?"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack

from runner.data.errors import MeasurementError, Unsupported
from runner.data.metric import time_s
from runner.instruments.instrument import Asked
from runner.instruments.path.router import check_helpers
from runner.instruments.path.translation import PATIENT_S, PORTS, PUBLIC, Nat, back_s, behind_nat, came_up
from runner.instruments.path.verdict import NoControl, PathProbe, PathVerdict
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import UP_WITHIN_S, Bench
from runner.vpn.plugin import Vpn

# Metric -> the address and ports of the mappings that take the old ones' place.
CHANGES = {"nat_port_back": (PUBLIC[0], PORTS[1]), "nat_address_back": (PUBLIC[1], PORTS[0])}
TRIED = "table ip tried { chain c { type nat hook postrouting priority 100; snat to 192.0.2.1; }; }\n"
WITHIN_S = (3, 15, 25, 45, PATIENT_S)  # between the timers that daemons have: 10, 20, 30 and 60 s


def text(mapping: tuple[str, int]) -> str:
    """ADDRESS:PORT."""
    return f"{mapping[0]}:{mapping[1]}"


def control(nat: Nat, mapping: tuple[str, int]) -> dict[str, object]:
    """The mapping of the socket without a keepalive is forgotten, and the next one is another. Raises NoControl."""
    if nat.reaches(mapping):
        raise NoControl(f"the NAT has not forgotten the mapping {text(mapping)}")
    after = nat.outside_address()
    if after == mapping:
        raise NoControl(f"the NAT has made the same mapping again: {text(mapping)}")
    return {"before": text(mapping), "after": text(after)}


def nat_verdict(back: float | None, changed: Mapping[str, object], up_s: float) -> PathVerdict:
    """The verdict on a tunnel that was ``back`` after so many seconds, or never."""
    if back is None:
        return PathVerdict("never", PATIENT_S, changed, {"up_s": up_s, "back_s": PATIENT_S})
    numbers = {"up_s": up_s, "back_s": back, "within_s": next(limit for limit in WITHIN_S if back <= limit)}
    return PathVerdict("at_once" if back <= WITHIN_S[0] else "back", back, changed, numbers)


def nat_refusal(lab: Lab, params: Mapping[str, str]) -> Unsupported | None:
    """Why there can be no NAT on this WAN; None where there can."""
    if params.get("underlay") == "6":
        return Unsupported("the NAT of this probe translates IPv4, and the path is IPv6")
    tried = lab.wan.run("nft", "-c", "-f", "-", input=TRIED, check=False)
    if tried.code != 0:
        return Unsupported(f"the WAN node's kernel has no NAT: {tried.stderr.strip().splitlines()[0]}")
    return None


class NatRebinding(PathProbe):
    """A NAT that has lost its mappings."""

    name = "nat"
    metrics = (
        time_s(
            name="nat_port_back",
            title="Back after a NAT changed its port",
            definition="The first gateway is behind a NAT, which forgets its mappings and gives the tunnel another "
            "port. The value is the time until an echo from inside, sent once a second, is answered; "
            f"{PATIENT_S:g} if none is, or if the tunnel does not come up behind the NAT.",
            source="RFC 4787 §4.1 (mapping), RFC 3947 §5 and RFC 9146 (a peer whose port changes)",
            margin=1.5,
        ),
        time_s(
            name="nat_address_back",
            title="Back after a NAT changed its address",
            definition="As nat_port_back, and the NAT's own address is another one.",
            source="RFC 4787 §4.1, RFC 4555 (MOBIKE), RFC 9000 §9 (migration)",
            margin=1.5,
        ),
    )
    takes_s = 20.0
    spends_tunnel = True

    def refuses(self, lab: Lab, vpn: Vpn, params: Mapping[str, str]) -> Unsupported | None:
        if vpn.reference:
            return Unsupported("without a tunnel there is nothing that a NAT could lose")
        return super().refuses(lab, vpn, params) or nat_refusal(lab, params)

    def verdicts(self, bench: Bench, asked: Asked) -> Mapping[str, PathVerdict]:
        if bench.another is None:
            raise MeasurementError("there is no second lab here for the second change")
        with bench.another() as other, ExitStack() as stack:  # both at once: some wait for a minute
            benches = (bench, other)
            nats = [stack.enter_context(behind_nat(each, asked)) for each in benches]
            before = [nat.outside_address() for nat in nats]
            if not all(came_up(each, asked) for each in benches):
                came = {"came_through": text(before[0])}
                return dict.fromkeys(CHANGES, PathVerdict("dead", PATIENT_S, came, {"waited_s": UP_WITHIN_S}))
            before = [nat.outside_address() for nat in nats]
            for nat, change in zip(nats, CHANGES.values(), strict=True):
                nat.gives(*change)
                nat.forgets()
            back = back_s(benches)
            for each in benches if None in back else ():
                check_helpers(each.lab)
            changed = [control(nat, mapping) for nat, mapping in zip(nats, before, strict=True)]
        up_s = [round(each.tunnel.setup_s, 2) for each in benches]
        return dict(zip(CHANGES, map(nat_verdict, back, changed, up_s), strict=True))
