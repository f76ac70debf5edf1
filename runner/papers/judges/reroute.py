"""What the paper on strongSwan and Quagga found of a tunnel whose link dies, and its judge."""

from collections.abc import Callable, Sequence
from functools import partial

from runner.data.trials import Trial
from runner.papers.claims import all_of
from runner.papers.findings import Data, Judgement, NotMeasured
from runner.papers.shares import MOSTLY, recovery_counts, share_of

SELDOM = (0.0, 0.5)


def again(trials: Sequence[Trial], how: str, uplinks: str = "two_routers", *, daemon: bool = True) -> tuple[int, int]:
    """After how many failures the tunnel that ends on the dead link came through again, and of how many: with a routing
    ``daemon``, or without one."""
    return recovery_counts(
        [
            trial
            for trial in trials
            if {"endpoint": "link", "link_failure": how}.items() <= trial.params.items()
            and trial.params.get("uplinks", "two_routers") == uplinks
            and (trial.params["detection"] != "static") == daemon
        ],
        "convergence_ms",
    )


def recovers_by_ospf(vpn: str, data: Data, how: str) -> Judgement:
    """The tunnel that ends on the dead link comes through again by OSPF, more often than not."""
    mine = [trial for trial in data.trials if trial.vpn == vpn]
    by_ospf, failures = again(mine, how)
    if not failures:
        reason = next((trial.reason.splitlines()[0] for trial in mine if trial.reason), "not in this run")
        raise NotMeasured(f"no tunnel of {vpn} ended on the dead link ({how}): {reason}", reason)
    return share_of(by_ospf, failures, MOSTLY).with_systems(vpn)


def redundant_links(vpn: str, data: Data) -> Judgement:
    """Two links to one router (figure 3b), or to two providers (3c): when the first one loses carrier, a tunnel comes
    through again with a routing daemon, and not without one."""
    mine = [trial for trial in data.trials if trial.vpn == vpn]
    parts: dict[str, Callable[[], Judgement]] = {}
    for figure, uplinks in (("3b", "one_router"), ("3c", "two_routers")):
        alone, by_ospf = (again(mine, "carrier", uplinks, daemon=daemon) for daemon in (False, True))
        if alone[1] and by_ospf[1]:
            parts[f"figure {figure}, alone"] = partial(share_of, *alone, SELDOM)
            parts[f"figure {figure}, with OSPF"] = partial(share_of, *by_ospf, MOSTLY)
    if not parts:
        raise NotMeasured(f"{vpn}: needs a tunnel on the dead link without a routing daemon, and one with it")
    return all_of(parts).with_systems(vpn)
