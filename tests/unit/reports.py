"""Runs, reports and rankings that several test files look at."""

import io
import re
from collections.abc import Mapping, Sequence, Set
from functools import cache

from runner.cli.output import Output
from runner.data.metric import Metric
from runner.data.trials import Cell, ExperimentRecord, Run, Trial
from runner.evidence.configurations import configuration_of
from runner.evidence.model import Blocks
from runner.ranking.basis import Basis, bases
from runner.ranking.model import Ranking, Weights
from runner.ranking.ranking import weigh
from runner.ranking.ranks import ranks_of, separated_pairs
from runner.ranking.weights import default_weights
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.terminal import render
from runner.report.model import Report
from tests.unit.synthetic import CBC, IDLE, TCP, UDP, make_run, make_trial, realistic_run
from tests.unit.whole_report import build


@cache
def realistic(blocks: int = 3) -> Report:
    return build(*realistic_run(blocks))


def terminal(report: Report, width: int = 100) -> str:
    console = Output(width=width, file=io.StringIO(), record=True)  # as the commands print
    render(report, console, full=True)
    return console.export_text()


def everywhere(report: Report) -> dict[str, str]:
    """Each rendering for people, its white space and line ends evened out."""
    texts = {"html": re.sub(r"<[^>]+>", " ", html_text(report)), "md": markdown_text(report), "term": terminal(report)}
    return {name: " ".join(text.replace("\\", "").split()) for name, text in texts.items()}


def one_experiment(trials: Sequence[Trial], vpns: tuple[str, ...] = ("none", "openvpn")) -> Run:
    cells = {t.cell: Cell.model_construct(vpn=t.vpn, params=t.params) for t in trials}  # also what no file can hold
    experiment = ExperimentRecord(
        name="transport",
        question="How fast?",
        method="iperf3",
        source="thesis",
        factors={},
        metrics=["tcp_throughput", "udp_throughput", "rtt"],
        cells=list(cells.values()),
    )
    return make_run(vpns, (experiment,))


NOISE = (0.99, 1.0, 1.01)


def trials_of(values: Mapping[str, Mapping[str, float]], noise: tuple[float, ...] = NOISE) -> list[Trial]:
    """VPN -> metric -> value, in three blocks whose noise differs from VPN to VPN."""
    traffic = {"tcp_throughput": TCP, "cpu_per_gigabyte": TCP, "udp_throughput": UDP}
    return [
        make_trial(vpn, CBC | traffic.get(metric, IDLE), block, {metric: value * noise[(block + shift) % len(noise)]})
        for shift, (vpn, metrics) in enumerate(values.items())
        for metric, value in metrics.items()
        for block in range(len(noise))
    ]


def rank(run: Run, trials: Sequence[Trial], *, configuration: str, weights: Weights, image: str = "") -> Ranking:
    """The ranking of the named configuration."""
    return weigh(Basis(**vars(configuration_of(run, trials, configuration, weights.counted_metrics, image))), weights)


def rank_all(
    run: Run, trials: Sequence[Trial], *, configurations: Sequence[str] | None = None, weights: Weights | None = None
) -> list[Ranking]:
    """A ranking for each basis, by default with ``balanced`` weights over the measured metrics."""
    every = bases(run, trials, weights.counted_metrics if weights else (), configurations)
    return [weigh(basis, weights or default_weights(basis.values)) for basis in every]


def metric_ranks(
    metric: Metric, values: Mapping[str, Blocks], bounds: Mapping[str, Set[int]] | None = None
) -> dict[str, int]:
    """VPN -> 1 + the number of VPNs significantly better."""
    return ranks_of(values, separated_pairs(metric, values, bounds))


def ranked(values: Mapping[str, Mapping[str, float]], weights: Mapping[str, float], **options: object) -> Ranking:
    run = make_run(tuple(values))
    given = Weights(name="test", values=dict(weights))
    extra = options.pop("extra", [])
    assert isinstance(extra, list)
    return rank(
        run,
        trials_of(values) + extra,
        configuration="comparable",
        weights=given,
    )


def averages(ranking: Ranking) -> dict[str, float | None]:
    return {standing.vpn: standing.average for standing in ranking.standings}


def places(ranking: Ranking) -> dict[str, int | None]:
    return {standing.vpn: standing.place for standing in ranking.standings}


THREE = {
    # TCP ranks 1, 2, 3; RTT ranks 3, 1, 1: the last two cannot be told apart.
    "ipsec": {"tcp_throughput": 900.0, "rtt": 3.0},
    "openvpn": {"tcp_throughput": 300.0, "rtt": 1.0},
    "ssh_tun": {"tcp_throughput": 200.0, "rtt": 1.001},
}
