"""What the paper on strongSwan and Quagga found of a tunnel whose link dies, and its judge."""

from collections.abc import Callable, Sequence
from functools import partial

from runner.data.trials import Trial
from runner.papers.claims import all_of, on_ipsec, recovered, single
from runner.papers.findings import Blocks, Data, Finding, Judgement, NotMeasured

ALL, NONE = (0.999, 1.0), (0.0, 0.001)


def shares(trials: Sequence[Trial], how: str, uplinks: str = "two_routers", *, daemon: bool = True) -> Blocks:
    """The share of failures after which the tunnel that ends on the dead link came through again, by repetition: with a
    routing ``daemon``, or without one."""
    return recovered(
        [
            trial
            for trial in trials
            if {"endpoint": "link", "link_failure": how}.items() <= trial.params.items()
            and trial.params.get("uplinks", "two_routers") == uplinks
            and (trial.params["detection"] != "static") == daemon
        ],
        "convergence_ms",
    )


def moved(how: str, vpn: str, data: Data) -> Judgement:
    """The share of failures after which the tunnel that ends on the dead link came through again, by OSPF."""
    mine = [trial for trial in data.trials if trial.vpn == vpn]
    if not (by_ospf := shares(mine, how)):
        reason = next((trial.reason.splitlines()[0] for trial in mine if trial.reason), "not in this run")
        raise NotMeasured(f"no tunnel of {vpn} ended on the dead link ({how}): {reason}")
    return single(by_ospf, ALL).of(vpn)


def redundant_links(vpn: str, data: Data) -> Judgement:
    """Two links to one router (figure 3b), or to two providers (3c): when the first one loses carrier, no tunnel comes
    through again without a routing daemon, and each does with one."""
    mine = [trial for trial in data.trials if trial.vpn == vpn]
    parts: dict[str, Callable[[], Judgement]] = {}
    for figure, uplinks in (("3b", "one_router"), ("3c", "two_routers")):
        alone, by_ospf = (shares(mine, "carrier", uplinks, daemon=daemon) for daemon in (False, True))
        if alone and by_ospf:
            parts[f"figure {figure}, alone"] = partial(single, alone, NONE)
            parts[f"figure {figure}, with OSPF"] = partial(single, by_ospf, ALL)
    if not parts:
        raise NotMeasured(f"{vpn}: needs a tunnel on the dead link without a routing daemon, and one with it")
    return all_of(parts).of(vpn)


FINDINGS = (
    Finding(
        *("moved.carrier", "router", "§V", "a tunnel that ends on the dead link moves"),
        on_ipsec(partial(moved, "carrier")),
        "count",
    ),
    Finding(
        *("moved.silent", "router", "§V", "our question: does it move when the link dies silently, too?"),
        on_ipsec(partial(moved, "silent")),
        "count",
        question=True,  # the paper disabled the link; a silent death is our addition
    ),
    Finding(
        *("redundant-links", "router", "§V, figure 3", "redundant links need a routing daemon beside strongSwan"),
        on_ipsec(redundant_links),
        "count",
    ),
)
RUNS = {"": "reroute --kernel uml --vpn ipsec --set endpoint=link,link_failure=carrier"}
COUNTS = {
    "moved.carrier": "a share of {} of the tunnels comes through again after its link died, with Quagga's default to "
    "go on announcing that link's network (FRR's `no link-detect`)",
    "moved.silent": "a share of {} of the tunnels comes through again within 60 s after its link died silently",
    "redundant-links": "a share of {} of the tunnels comes through again (the reason says: alone, or with OSPF)",
}
