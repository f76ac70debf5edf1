"""What the OSLV paper found of functions by application, and its judge."""

from functools import partial

from runner.papers.claims import all_of, single
from runner.papers.findings import Data, Finding, Judgement

APART = "functions_apart"


def none_does(data: Data) -> Judgement:
    """No VPN protects one application's packets otherwise than another's."""

    def of(vpn: str) -> Judgement:
        return single(data.blocks(APART, vpn), (0.0, 0.5)).of(vpn)

    return all_of({vpn: partial(of, vpn) for vpn in data.vpns(APART)})


FINDINGS = (
    Finding(
        "applications",
        "oslv",
        "Conclusions and Future Work",
        "no VPN applies functions by application",
        none_does,
        "count",
    ),
)
RUNS = {"": "applications --kernel uml --vpn ipsec"}
TODAY = {("applications", "ipsec: "): "IPsec's selectors have ports, and each child SA functions of its own"}
COUNTS = {"applications": "packets to one port were sent otherwise than those to another in a share of {} of the tries"}
