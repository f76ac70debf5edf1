"""How the plots are drawn: one scale for a metric, an axis that follows the points, and none of a single bar."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runner.catalogue import load_run
from runner.design.blocks import Plot
from runner.report.model import Report
from runner.report.plots.drawing import Value
from runner.report.plots.plots import axis_ends, clip_intervals, plots_of
from runner.report.plots.plotting import Samples
from tests.unit.reports import one_experiment, realistic
from tests.unit.synthetic import CBC, IDLE, TCP, make_trial
from tests.unit.whole_report import build

LONG = {"measure": "overhead", "packet_bytes": "1400"}
RESULTS = Path(__file__).parents[3] / "results"
EXAMPLE = next((RESULTS / "examples").glob("*/run.json")).parent


def drawn(report: Report) -> list[Plot]:
    samples = Samples(report)
    return [plot for experiment in report.experiments for plot in plots_of(report, experiment, samples)]


def axes(spec: Any) -> Iterator[dict[str, Any]]:
    """Every quantitative axis in a specification that has a title."""
    for inner in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        yield from axes(inner)
    if isinstance(spec, dict) and spec.get("type") == "quantitative" and spec.get("title"):
        yield spec


def scales(report: Report) -> dict[str, set[str]]:
    """A metric's title -> the types of the scales that it is drawn on; what stands for both throughputs is both's."""
    found: dict[str, set[str]] = {}
    for plot in drawn(report):
        for axis in axes(plot.spec):
            title = axis["title"].rsplit(" (", 1)[0]
            both = ["TCP throughput", "UDP throughput"]
            for metric in both if title == "median throughput" else [title]:
                found.setdefault(metric, set()).add(axis.get("scale", {}).get("type", "linear"))
    return found


@pytest.mark.parametrize("example", [False, True])
def test_a_metric_has_one_type_of_scale_in_all_of_its_plots(example: bool) -> None:
    found = scales(build(*load_run(EXAMPLE)) if example else realistic(3))
    assert found["TCP throughput"] == found["UDP throughput"] == {"log"}, "they share an axis"
    assert found["Round-trip time"] == {"linear"}
    assert {metric for metric, types in found.items() if len(types) > 1} == set()


def test_a_wide_distribution_makes_the_other_plots_of_its_metric_logarithmic() -> None:
    def trials(samples: list[float]) -> list[Any]:
        made = [make_trial(vpn, CBC | IDLE, block, {"rtt": 1.0}) for vpn in ("openvpn", "ipsec") for block in (0, 1)]
        for trial in made:
            trial.measurements[0].samples.extend(samples)
        return made

    for samples, scale in (([1.0, 2.0], "linear"), ([0.1, 1.0, 50.0], "log"), ([0.0, 1.0, 50.0], "linear")):
        mine = trials(samples)
        report = build(one_experiment(mine, ("none", "openvpn", "ipsec")), mine)
        assert len([plot for plot in drawn(report) if "rtt" in plot.key]) == 2
        assert scales(report)["Round-trip time"] == {scale}, samples


def test_the_axis_follows_the_points() -> None:
    assert axis_ends([100.0, 200.0]) == (100.0, 205.0)
    assert axis_ends([-1.0, 19.0]) == (-2.0, 20.0)
    assert axis_ends([5.0]) == (5.0, 5.25)
    assert [*axis_ends([1.0, 1000.0])] == pytest.approx([1 / 1.2, 1200.0])


def test_an_interval_that_leaves_the_axis_is_cut_and_ends_in_an_arrow() -> None:
    inside: Value = {"cell": "a", "vpn": "a", "low": 2.0, "high": 8.0}
    longer: Value = {"cell": "b", "vpn": "b", "low": 0.5, "high": 50.0}
    alone: Value = {"cell": "c", "vpn": "c", "median": 3.0}
    cells = [inside.copy(), longer.copy(), alone.copy()]
    assert clip_intervals(cells, [1.0, 10.0]) == {"left": [("b", "b", 1.0)], "right": [("b", "b", 10.0)]}
    assert cells == [inside, longer | {"low": 1.0, "high": 10.0}, alone]


def test_there_is_an_arrow_in_the_plot() -> None:
    """Two blocks that differ have a very long interval."""
    rates = {"openvpn": (1e8, 1.2e8), "ipsec": (2e8, 2.1e8)}
    trials = [
        make_trial(vpn, CBC | TCP, block, {"tcp_throughput": rate})
        for vpn, found in rates.items()
        for block, rate in enumerate(found)
    ]
    (plot,) = drawn(build(one_experiment(trials, ("none", "openvpn", "ipsec")), trials))
    shapes = {layer["mark"].get("shape") for layer in plot.spec["layer"]}
    assert shapes & {"triangle-left", "triangle-right"}


def overhead(*vpns: str) -> list[Plot]:
    trials = [make_trial(vpn, CBC | LONG, 0, {"overhead_bytes": 70.0}) for vpn in vpns]
    run = one_experiment(trials, vpns)
    asked = run.experiments[0].model_copy(update={"metrics": ["overhead_bytes"]})
    return drawn(build(run.model_copy(update={"experiments": [asked]}), trials))


def test_there_is_no_plot_of_one_bar() -> None:
    assert [plot for plot in overhead("openvpn") if plot.key.endswith(("-layers", "overhead-bytes"))] == []
    two = [plot.key for plot in overhead("openvpn", "ipsec")]
    assert len([key for key in two if key.endswith(("-layers", "overhead-bytes"))]) == 2


def test_the_committed_handovers_have_a_box_with_the_quartiles_of_all_samples() -> None:
    run, trials = load_run(RESULTS / "papers" / "handovers-clusterip-a")
    samples = [sample for trial in trials for measured in trial.measurements for sample in measured.samples]
    (plot,) = (plot for plot in drawn(build(run, trials)) if plot.key == "handover-handover-ms-boxes")
    (cell,) = plot.spec["data"]["values"]
    low, median, high = np.percentile(samples, (25, 50, 75))
    assert (cell["n"], cell["least"], cell["greatest"]) == (len(samples), min(samples), max(samples))
    assert (cell["low"], cell["median"], cell["high"]) == (low, median, high)
    for trial in trials:
        trial.measurements[:] = [m.model_copy(update={"samples": m.samples[:3]}) for m in trial.measurements]
    assert not [plot for plot in drawn(build(run, trials)) if plot.key.endswith("boxes")], "nine are too few"
