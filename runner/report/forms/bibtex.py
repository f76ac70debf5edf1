"""How to cite a run, as an entry for BibTeX: beside the line that every form has."""

from __future__ import annotations

import re

from runner.data.streams import visible_text
from runner.report.model import Report


def bibtex(report: Report) -> str:
    """``@misc{vpneval-RUN, …}``: what made the run, when, and with which image and seed."""
    key = re.sub(r"[^A-Za-z0-9-]+", "-", report.run_id).strip("-")
    note = re.sub(r"[_&%$#]", r"\\\g<0>", re.sub(r"[\\{}~^]", "", visible_text(report.citation)))
    fields = {
        "author": "{The vpneval maintainers}",
        "title": "{vpneval}: a multi-{VPN} comparative evaluation framework",
        "year": report.created_at[:4],
        "note": note,
    }
    entries = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items())
    return f"@misc{{vpneval-{key},\n{entries}}}\n"
