"""What the OSLV paper found of functions by application, and its judge."""

from functools import partial

from runner.data.asked import AskedRun
from runner.papers.claims import all_of
from runner.papers.findings import Data, Finding, Judgement
from runner.papers.shares import NEVER, share_of, tries

APART = "functions_apart"


def none_does(data: Data) -> Judgement:
    """No VPN protects one application's packets otherwise than another's."""

    def share_that_does(vpn: str) -> Judgement:
        return share_of(*tries(data.blocks(APART, vpn)), NEVER).with_systems(vpn)

    return all_of({vpn: partial(share_that_does, vpn) for vpn in data.vpns(APART)})


FINDINGS = (
    Finding(
        *("applications", "oslv", "Conclusions and Future Work"),
        "no VPN applies functions by application",
        none_does,
        "count",
        counts="packets to one port were sent otherwise than those to another in a share of {} of the tries",
        run=AskedRun(experiments="applications", kernel="uml", vpns="ipsec"),
        today={"ipsec": "IPsec's selectors have ports, and each child SA functions of its own"},
    ),
)
