"""The table of docs/systems.md, from a run of path and silence: usage: behaviour.py RUN_FOLDER [PAGE]

Each row is one thing that a path does, and groups the VPNs by what they did. Without RUN_FOLDER's logs it is the same.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from runner.catalogue import load_run
from runner.data.levels import BASELINE
from runner.report.behaviour import WORDS, Behaviour, behaviours, row_of, verdict_lines
from runner.report.forms.markdown import table_lines

PAGE = Path(__file__).parents[2] / "docs" / "systems.md"
BEGIN, END = "<!-- behaviour: by tests/tools/behaviour.py -->\n", "<!-- end of behaviour -->\n"


def table(folder: Path) -> str:
    """What a path does, and after each verdict the VPNs that had it; where repetitions differ, all of theirs."""
    run, trials = load_run(folder)
    found = behaviours(trials)
    measured = sorted({each.vpn for each in found} - {BASELINE})
    rows = []
    for metric, (head, _) in WORDS.items():
        said: dict[str, list[Behaviour]] = {}
        for each in found:
            if each.metric == metric and each.vpn != BASELINE:
                said.setdefault(row_of(each), []).append(each)
        groups: dict[str, list[str]] = {}
        for row, verdicts in sorted(said.items()):
            vpn, _, level = row.partition(", ")
            groups.setdefault(" or ".join(verdict_lines(verdicts)), []).append(f"{vpn} ({level})" if level else vpn)
        if groups:
            rows.append([head, grouped(groups, measured)])
    about = f"Run of {run.created_at[:10]}, [{folder.name}](../results/{folder.name}/), of {', '.join(measured)}:"
    return "\n".join([*wrap(about, 120), "", *table_lines(["the path", "VPNs"], rows)])


def grouped(groups: dict[str, list[str]], measured: Sequence[str]) -> str:
    """Each verdict with its VPNs, the most frequent one last: where every VPN has a verdict, those are the others."""
    *few, (most, rest) = sorted(groups.items(), key=lambda group: (len(group[1]), group[0]))
    named = {vpn for _, vpns in groups.items() for vpn in vpns}
    others = ("all" if not few else "the others") if len(rest) > 1 and {*measured} <= named else ", ".join(rest)
    return "; ".join([f"{verdict}: {', '.join(vpns)}" for verdict, vpns in few] + [f"{most}: {others}"])


def with_table(page: str, made: str) -> str:
    """The page with this table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{made}{END}{after}"


if __name__ == "__main__":
    page = Path(sys.argv[2]) if sys.argv[2:] else PAGE
    page.write_text(with_table(page.read_text(encoding="utf-8"), table(Path(sys.argv[1]))), encoding="utf-8")
