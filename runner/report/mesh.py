"""Meshes by their number of sites, measured and predicted, beside the OSLV paper's formula of the effort (Table 5)."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from runner.data.kinds import Strict
from runner.data.trials import Trial
from runner.report import text


class MeshPoint(Strict):
    """A full mesh of ``sites`` sites: the median over the repetitions. Memory and CPU are per tunnel, configuration per
    site; ``at_least``: it was not up in that time; ``effort`` is counted on paper, ``effort_of_the_paper`` its
    formula's value, None where there is none."""

    vpn: str
    sites: int
    predicted: bool
    up_s: float
    memory_bytes: float
    cpu_s: float
    config_bytes: float
    config_lines: float
    at_least: bool = False
    effort: float | None = None
    effort_of_the_paper: float | None = None


def mesh_points(trials: Sequence[Trial]) -> list[MeshPoint]:
    """The points of the run's meshes, by VPN and size. A size that came up in any repetition is measured, not
    predicted."""
    points: dict[tuple[str, int], list[MeshPoint]] = {}
    for trial in trials:
        detail = next((m.detail for m in trial.measurements if m.metric == "mesh_time"), trial.attempt)
        if trial.status != "ok" or "sizes" not in detail:
            continue
        for predicted, sizes in ((False, detail["sizes"]), (True, detail.get("predicted", {}))):
            for count, figures in sizes.items():
                if not figures.keys() >= {"up_s", "memory_bytes", "cpu_s"}:
                    continue  # it did not come up
                points.setdefault((trial.vpn, int(count)), []).append(
                    _point(trial.vpn, int(count), predicted, figures, detail)
                )
    return [_middle(same) for _, same in sorted(points.items())]


def _point(vpn: str, sites: int, predicted: bool, figures: dict[str, Any], detail: dict[str, Any]) -> MeshPoint:
    tunnels = sites * (sites - 1) / 2
    return MeshPoint(
        vpn=vpn,
        sites=sites,
        predicted=predicted,
        up_s=figures["up_s"],
        memory_bytes=figures["memory_bytes"] / tunnels,
        cpu_s=figures["cpu_s"] / tunnels,
        config_bytes=figures.get("config_bytes", 0),
        config_lines=figures.get("config_lines", 0),
        at_least=bool(figures.get("up_at_least")),
        effort=detail.get("joining", {}).get(str(sites)),
        effort_of_the_paper=detail.get("paper", {}).get("paper", {}).get("recomputed", {}).get(str(sites)),
    )


def _middle(same: Sequence[MeshPoint]) -> MeshPoint:
    """The median of the measured points or, where there are none, of the predicted ones."""
    chosen = [point for point in same if not point.predicted] or same
    middle = {what: median(getattr(point, what) for point in chosen) for what, _, _ in WHAT[:-1]}
    return chosen[0].model_copy(update=middle)


# (field, title, unit); the last one is counted on paper, and the OSLV paper has a curve of it.
WHAT = (
    ("up_s", "Time to a full mesh", "s"),
    ("memory_bytes", "Memory per tunnel", "B"),
    ("cpu_s", "CPU time per tunnel", "s"),
    ("config_bytes", "Configuration per site", "B"),
    ("config_lines", "Lines of configuration per site", "1"),
    ("effort", "Effort to join, times N", "1"),
)
HEAD = (
    *("VPN", "sites", "time to a full mesh", "memory per tunnel", "CPU per tunnel", "configuration per site"),
    *("lines per site", "effort", "paper's effort"),
)
ABOUT = (
    "Full meshes of gateways in namespaces, until each pair had talked through its tunnel. ≈: predicted by the fit "
    "through what came up (docs/operations.md), not measured; ≥: not full in that time. The paper's effort: its "
    "formula, recomputed."
)


def rows(points: Sequence[MeshPoint]) -> list[list[str]]:
    """The rows of the table under HEAD. A predicted value is marked in every cell."""
    return [
        [
            point.vpn,
            str(point.sites),
            ("≥ " if point.at_least else "≈ " * point.predicted) + quantity_or_number(point.up_s, "s"),
            *["≈ " * point.predicted + quantity_or_number(getattr(point, what), unit) for what, _, unit in WHAT[1:4]],
            "≈ " * point.predicted + f"{point.config_lines:.0f}",
            text.NONE if point.effort is None else f"{point.effort:g}",
            text.NONE if point.effort_of_the_paper is None else f"{point.effort_of_the_paper:g}",
        ]
        for point in points
    ]


def quantity_or_number(value: float, unit: str) -> str:
    """A value as text.quantity has it; zero, and a value without a unit, as a plain number."""
    return f"{value:g}" if value == 0 or unit == "1" else text.quantity(value, unit)
