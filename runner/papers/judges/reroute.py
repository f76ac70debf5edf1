"""What the paper on strongSwan and Quagga found of a tunnel whose link dies, and its judge."""

from functools import partial

from runner.papers.claims import on_ipsec, recovered, single
from runner.papers.findings import Data, Finding, Judgement, NotMeasured


def moved(how: str, vpn: str, data: Data) -> Judgement:
    """The share of failures after which the tunnel that ends on the dead link came through again, by repetition."""
    wanted = {"endpoint": "link", "link_failure": how}
    mine = [trial for trial in data.trials if trial.vpn == vpn]
    shares = recovered([trial for trial in mine if wanted.items() <= trial.params.items()], "convergence_ms")
    if not shares:
        reason = next((trial.reason.splitlines()[0] for trial in mine if trial.reason), "not in this run")
        raise NotMeasured(f"no tunnel of {vpn} ended on the dead link ({how}): {reason}")
    return single(shares, (0.999, 1.0), 1.0 if how == "carrier" else None).of(vpn)


def redundant_links(data: Data) -> Judgement:
    """Two links to one router (figure 3b), or to two providers (3c), with strongSwan alone."""
    raise NotMeasured("open: the lab has the paper's figure 5, one link to each router, and OSPF in all of it")


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
        redundant_links,
    ),
)
RUNS = {"": "reroute --kernel uml --vpn ipsec --set endpoint=link"}
COUNTS = {
    "moved.carrier": "a share of {} of the tunnels comes through again after its link died",
    "moved.silent": "a share of {} of the tunnels comes through again after its link died silently",
    "redundant-links": "a share of {} of the tunnels moves to the other link",
}
