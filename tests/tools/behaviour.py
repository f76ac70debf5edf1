"""The table of docs/systems.md, from a run of path and silence: usage: behaviour.py RUN_FOLDER [PAGE]

Each row is one thing that a path does, and groups the VPNs by what they did. Without RUN_FOLDER's logs it is the same.
"""

import sys
from pathlib import Path

from runner.data.levels import BASELINE
from runner.data.store import load_run
from runner.report.behaviour import WORDS, behaviours, row_of, words
from runner.report.forms.markdown import table_lines

PAGE = Path(__file__).parents[2] / "docs" / "systems.md"
BEGIN, END = "<!-- behaviour: by tests/tools/behaviour.py -->\n", "<!-- end of behaviour -->\n"


def table(folder: Path) -> str:
    """What a path does, and after each verdict the VPNs that had it; where repetitions differ, all of theirs."""
    run, trials = load_run(folder)
    found = behaviours(trials)
    rows = []
    for metric, (head, _) in WORDS.items():
        said: dict[str, dict[str, None]] = {}
        for each in found:
            if each.metric == metric and each.vpn != BASELINE:
                said.setdefault(row_of(each), {})[words(each)] = None
        groups: dict[str, list[str]] = {}
        for vpn, verdicts in sorted(said.items()):
            groups.setdefault(" or ".join(verdicts), []).append(vpn)
        told = "; ".join(f"{verdict}: {', '.join(vpns)}" for verdict, vpns in sorted(groups.items()))
        rows += [[head, told]] * bool(told)
    day = run.created_at[:10]
    return "\n".join(
        [f"Run of {day}, [{folder.name}](../results/{folder.name}/):", "", *table_lines(["the path", "VPNs"], rows)]
    )


def with_table(page: str, made: str) -> str:
    """The page with this table between its marks."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{made}{END}{after}"


if __name__ == "__main__":
    page = Path(sys.argv[2]) if sys.argv[2:] else PAGE
    page.write_text(with_table(page.read_text(encoding="utf-8"), table(Path(sys.argv[1]))), encoding="utf-8")
