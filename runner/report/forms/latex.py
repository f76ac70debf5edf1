"""The report's tables for a paper: LaTeX that asks for the package booktabs and nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from runner.ranking.ranking import Ranking
from runner.report import cells, text
from runner.report.facts import interval_method
from runner.report.model import ExperimentReport, MetricTable, Report, Row, row_levels
from runner.report.plots.thinning import note, shown

SPECIAL = {
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{letter: "\\" + letter for letter in "&%$#_{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''", "\u00a0": "~"},
    **{"≥": r"$\geq$", "≤": r"$\leq$", "×": r"$\times$", "÷": r"$\div$", "±": r"$\pm$", "−": "$-$", "–": "--"},
    **{"·": r"$\cdot$", "→": r"$\to$", "√": r"$\surd$", "Σ": r"$\Sigma$", "…": r"\dots{}", "µ": r"$\mu$", "—": "---"},
}


def latex_text(report: Report) -> str:
    """A table for each ranking and each metric of each experiment, to be put into a paper by ``\\input``.

    What failed or is unsupported follows with its reasons, and the warnings.
    """
    lines = [
        f"% {' '.join(f'vpneval {report.vpneval_version}, run {report.run_id}, {report.created_at}'.split())}",
        r"% needs \usepackage{booktabs}",
    ]
    for ranking in report.rankings:
        lines += _ranking(ranking)
    for experiment in report.experiments:
        lines += _experiment(shown(report, experiment), note(report))
    lines += ["", *[rf"\par\noindent {escape(warning)}" for warning in report.warnings]]
    lines += ["", rf"\par\noindent {escape(interval_method(report.summaries))}"]
    return "\n".join(lines) + "\n"


def escape(words: str) -> str:
    """``words`` as literal text on one line."""
    return "".join(SPECIAL.get(letter, letter) for letter in " ".join(words.split()))


def _ranking(ranking: Ranking) -> list[str]:
    head = ["", "VPN", "configuration", "average", "place", "best", *cells.weighted(ranking)]
    name = ranking.configuration + (f", {ranking.image}" if ranking.image else "")
    caption = (
        f"Ranking: {name}. Weights: {text.weights(ranking)}. Average: the weighted average rank; "
        "place: its 95 % interval; best: the chance of being best."
    )
    said = [f"{vpns} {text.IMPUTED} {why}." for vpns, why in text.imputed(ranking)]
    said += [sentence for sentence in (text.doubts(ranking), text.slack(ranking)) if sentence]
    said += [f"{vpns} not ranked: {why}." for vpns, why in text.unranked(ranking)]
    return _table(
        " ".join([caption, *said]), head, cells.ranked(ranking), "rllrrr" + "r" * len(ranking.weights.counted)
    )


def _experiment(experiment: ExperimentReport, left_out: str) -> list[str]:
    """A table for each metric; then what did not work, with its reasons, under the numbers in the tables."""
    lines = []
    for table in experiment.tables:
        head = ["VPN", "levels", "median (95 % interval)", "share of baseline", "n", "CoV", "status"]
        caption = f"{experiment.name}: {table.title}; {table.better} is better; {table.common}. {left_out}"
        lines += _table(caption, head, [_row(row, table) for row in table.rows], "llrrrrl")
    for problem in experiment.problems:
        what = f"[{problem.number}] {problem.status}: {', '.join(problem.cells)}: {problem.reason}"
        lines += ["", rf"\par\noindent {escape(what)}"]
    return lines


def _row(row: Row, table: MetricTable) -> list[str]:
    status = row.status + (f" [{row.problem}]" if row.problem else "")
    return [row.vpn, row_levels(row), *cells.measured(row, table), status]


def _table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]], columns: str) -> list[str]:
    def line(row: Sequence[str]) -> str:
        return "  " + " & ".join(map(escape, row)) + r" \\"

    return [
        "",
        r"\begin{table*}",
        r"\centering\scriptsize\setlength{\tabcolsep}{3pt}",
        rf"\caption{{{escape(caption)}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"  \toprule",
        line(head),
        r"  \midrule",
        *map(line, rows),
        r"  \bottomrule",
        r"\end{tabular}",
        r"\end{table*}",
    ]
