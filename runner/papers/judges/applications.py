"""What the OSLV paper found of functions by application, and its judge."""

from functools import partial

from runner.papers.claims import all_of
from runner.papers.findings import Data, Judgement
from runner.papers.shares import NEVER, share_of, tries

APART = "functions_apart"


def none_does(data: Data) -> Judgement:
    """No VPN protects one application's packets otherwise than another's."""

    def share_that_does(vpn: str) -> Judgement:
        return share_of(*tries(data.blocks(APART, vpn)), NEVER).with_systems(vpn)

    return all_of({vpn: partial(share_that_does, vpn) for vpn in data.vpns(APART)})
