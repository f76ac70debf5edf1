"""What the OSLV paper counted of scalability (Table 5), and its judges: tasks for a full mesh, counted here."""

from functools import partial

from runner.papers.findings import LESS, Blocks, Data, Finding, Judgement, NotMeasured, all_of, compare

EFFORT = "scaling_effort"
FEW, MANY = "10", "20"  # sites; the paper's example, and twice as many


def efforts(data: Data) -> dict[str, Blocks]:
    """VPN -> block -> tasks for a full mesh of ten sites."""
    return {vpn: data.blocks(EFFORT, vpn) for vpn in data.vpns(EFFORT)}


def tinc_least(data: Data) -> Judgement:
    """Tinc's tasks over each other VPN's, at ten sites. The paper: 40 over 180 at least."""
    found = efforts(data)
    if "tinc" not in found or len(found) < 2:
        raise NotMeasured(f"needs tinc and others; counted: {', '.join(found) or 'none'}")
    tinc, others = found["tinc"], [vpn for vpn in found if vpn != "tinc"]
    return all_of({vpn: partial(compare, tinc, found[vpn], LESS) for vpn in others}).of("tinc", *others)


def squares(data: Data) -> Judgement:
    """Tasks at 20 sites over those at ten, in each VPN: 4 by a square, here within a fifth."""
    parts = {}
    for vpn in data.vpns(EFFORT):
        few, many = (_at(data, vpn, sites) for sites in (FEW, MANY))
        parts[vpn] = partial(compare, many, few, (4 / 1.2, 4 * 1.2), 4.0)
    return all_of(parts).of(*parts)


def _at(data: Data, vpn: str, sites: str) -> Blocks:
    """Block -> the VPN's tasks for a full mesh of so many sites."""
    return {
        trial.repetition: float(found.detail["joining"][sites]["effort"])
        for trial in data.matching(vpn, {})
        for found in trial.measurements
        if trial.status == "ok" and found.metric == EFFORT
    }


FINDINGS = (
    Finding("tinc-least", "oslv", "Scalability, Table 5", "tinc is the most scalable VPN", tinc_least, "count"),
    Finding("squares", "oslv", "Scalability", "the effort of every VPN grows as the square of sites", squares, "count"),
)
