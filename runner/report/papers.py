"""docs/findings.md: what one run says of the papers, by itself; ``vpneval report DIR --format findings``."""

from __future__ import annotations

from runner.published import names, paper
from runner.report.findings import ABOUT, HEAD
from runner.report.markdown import _table as table
from runner.report.model import Report

SHOWN = ("lab kind", "lab kernel", "lab guest", "lab cpu", "lab cores", "image name")
STANDS = {
    True: "Hosts, gateways and WAN share the cores of one machine here. What stands on it: orders and ratios of VPNs "
    "that were measured side by side, overheads and packets per packet (they are counted, and know no speed), and the "
    "signs of gains and losses. What does not: absolute rates, shares of the plain link and of an offered load, and "
    "latencies under load, in which the generators' own CPU time is.",
    False: "Hosts, gateways and WAN are machines of their own here: ratios, shares and rates stand for this hardware.",
}


def findings_text(report: Report) -> str:
    """The page, in Markdown: the run, the verdicts of each experiment, and which conclusions stand."""
    found = report.findings
    facts = {fact.name: fact.value for fact in report.facts}
    lines = [
        "# What this project finds of what the papers found",
        "",
        "Made by `vpneval report DIR --format findings` from a run, not written by hand. The published numbers, each "
        "with the place where its paper states it, are in `results/published/`; what only a figure shows is not there.",
        "",
        f"- Command: `{report.command_line}`",
        f"- Started: {report.created_at}, profile {report.profile}, {report.repetitions} repetitions",
        f"- Lab: {', '.join(facts[name] for name in SHOWN if facts.get(name))}",
        f"- Verdicts: {found.counts or 'none: the run has no experiment with findings'}",
        "",
        ABOUT,
        "",
        STANDS[facts.get("lab nodes share cores", "true").lower() in ("true", "yes")],
        "",
    ]
    for experiment in dict.fromkeys(row.experiment for row in found.rows):
        lines += [f"## {experiment}", ""]
        lines += table(HEAD, [row.cells for row in found.rows if row.experiment == experiment])
    if found.device_row:
        lines += [
            "## This machine as a row of results/published/devices.csv",
            "",
            "```csv",
            found.device_row,
            "```",
            "",
        ]
    lines += ["## The papers", "", *[f"- **{paper(name).title}**: {paper(name).citation}" for name in names()], ""]
    return "\n".join(lines)
