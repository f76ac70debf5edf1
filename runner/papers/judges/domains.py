"""What the OSLV paper found of networks whose addresses overlap (Table 3), and its judge."""

from functools import partial

from runner.papers.claims import all_of, judge_beside
from runner.papers.findings import Data, Judgement, NotMeasured
from runner.papers.shares import ALWAYS, NEVER, share_of, tries

REACH = "overlap_reach"


def reach(data: Data, translator: str, between: tuple[float, float]) -> Judgement:
    """The claim that by each VPN, hosts with the same address reach each other: ``ALWAYS`` or ``NEVER``."""

    def share_reached(vpn: str) -> Judgement:
        return share_of(*tries(data.blocks(REACH, vpn, translator=translator)), between).with_systems(vpn)

    if not (able := [vpn for vpn in data.vpns(REACH) if translator in data.levels("translator", vpn)]):
        raise NotMeasured(f"no VPN was measured where the translator is the {translator}")
    return all_of({vpn: partial(share_reached, vpn) for vpn in able if vpn != "none"})


def none_does(data: Data) -> Judgement:
    """By itself, no VPN joins networks with the same addresses; beside it, whether all do by NAT on the gateways."""
    by_nat = {"by NAT on the gateways": partial(reach, data, "gateway", ALWAYS)}
    return judge_beside(partial(reach, data, "vpn", NEVER), by_nat)
