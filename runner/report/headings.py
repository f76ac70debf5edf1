"""What stands above a report: what was compared, and on which machine."""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.levels import BASELINE
from runner.report import text
from runner.report.facts import FARM, Fact
from runner.report.kinds import OTHERS
from runner.report.model import Report


def title(report: Report) -> str:
    """What the run compares, and when it was made: ``5 VPNs, measured on 2026-10-01``."""
    measured = {seen.vpn for seen in report.observations if seen.value is not None} - {*report.references, BASELINE}
    return f"{text.count_noun(len(measured), 'VPN')}, measured on {report.created_at[:10]}"


def machine(report: Report) -> str:
    """The machine of a report; see ``machine_of``."""
    return machine_of(report.facts)


def machine_of(lab_facts: Sequence[Fact]) -> str:
    """The machine in words: its CPU, cores, kernel and the kind of the lab; for a farm, how many machines."""
    facts = {fact.name: fact.value for fact in lab_facts}
    cores = next((fact.count for fact in lab_facts if fact.name == "lab cores"), None)
    kind = {
        "netns": "all nodes on one machine",
        "ssh": "nodes on machines of their own",
        "device": "a device by itself, over ssh",
        "vagrant": "nodes in virtual machines",
    }
    if uplink := facts.get("lab uplink", ""):
        kind["site"] = f"two sites, by their uplink {uplink}"
    guest = facts.get("lab guest", "")
    if machines := next((fact.count for fact in lab_facts if fact.name == FARM), None):
        kind["netns"] = f"a farm of {text.count_noun(machines, 'machine')}"
        if others := facts.get(f"lab {OTHERS}", ""):
            kind["netns"] += f" (left out, of other kinds: {others})"
    parts = [
        facts.get("lab cpu", "").replace("(R)", "").replace("(TM)", ""),
        text.count_noun(cores, "core") if cores is not None else "",
        f"Linux {facts['lab kernel']}" + (f" in {guest}" if guest not in ("", "none") else "")
        if "lab kernel" in facts
        else "",
        kind.get(facts.get("lab kind", ""), facts.get("lab kind", "")),
    ]
    return ", ".join(part for part in parts if part)
