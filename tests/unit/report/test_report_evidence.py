"""What was proven before it was measured, as the report shows it; and one packet, layer by layer."""

import re

import pytest

from runner.data.packet import HEADER, INNER, overhead_of
from runner.data.trials import Evidence, Trial
from runner.design.blocks import Plot
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.plots.plots import plots_of
from runner.report.plots.plots_layers import AROUND
from runner.report.plots.plotting import Samples
from runner.report.proofs import proofs_of
from runner.vpn.closed_form import wireguard
from tests.unit.reports import one_experiment
from tests.unit.synthetic import CBC, TCP, make_trial
from tests.unit.whole_report import build

LONG = {"measure": "overhead", "packet_bytes": "1400"}


def seen(vpn: str, block: int, version: str, cpu: str) -> Trial:
    trial = make_trial(vpn, CBC | TCP, block, {"tcp_throughput": 1e8})
    facts = {"ike": "AES_CBC 128", "gw2_cpu": cpu}
    evidence = Evidence(cipher="AES_CBC-128", integrity="SHA256", data_path="kernel: ESP", version=version, facts=facts)
    return trial.model_copy(update={"evidence": evidence})


def test_equal_tunnels_are_one_row_and_others_are_not() -> None:
    trials = [seen("ipsec", block, "6.0.1", f"{block} %") for block in range(4)] + [seen("ipsec", 4, "5.9.8", "5 %")]
    rows, numbers = proofs_of(trials)
    assert [(row.number, row.trials) for row in rows] == [(1, 1), (2, 4)]
    assert [numbers[trial.id] for trial in trials] == [2, 2, 2, 2, 1]
    assert rows[1].negotiated == "AES_CBC-128, SHA256"
    assert rows[1].data_path == "kernel: ESP; 6.0.1"
    assert rows[1].facts == "ike AES_CBC 128; gw2 cpu 0 % or 1 % or 2 other values"


@pytest.mark.parametrize(
    ("update", "says"),
    [
        ({}, "unseen on the WAN, as promised"),
        ({"confidential_promised": False}, "unseen on the WAN, which was not promised"),
        ({"confidential_promised": False, "marker_on_wan": True}, "readable on the WAN, nothing else is promised"),
        ({"marker_on_wan": True}, "readable on the WAN, although it was promised to be secret"),
        ({"delivered": False}, "did not arrive"),
    ],
)
def test_the_marker_in_words(update: dict[str, bool], says: str) -> None:
    trial = seen("ipsec", 0, "6.0.1", "5 %")
    assert trial.proof
    kept = {"confidential_promised": True, "delivered": True, "marker_on_wan": False}
    proof = trial.proof.model_copy(update=kept | update)
    rows, _ = proofs_of([trial.model_copy(update={"proof": proof})])
    assert says in rows[0].marker


def test_trials_lead_to_their_evidence() -> None:
    """Once for all trials of a row, where it is the same."""
    trials = [seen("openvpn", block, "2.6", "1 %") for block in range(3)]
    page = html_text(build(one_experiment(trials), trials))
    assert page.count('href="#evidence-1"') == 1
    other = seen("openvpn", 3, "2.7", "1 %")
    mixed = html_text(build(one_experiment([*trials, other]), [*trials, other]))
    assert (mixed.count('href="#evidence-1"'), mixed.count('href="#evidence-2"')) == (3, 1)
    assert page.count('id="evidence-1"') == 1
    assert "kernel: ESP; 2.6" in markdown_text(build(one_experiment(trials), trials))


def layers_plot(*trials: Trial) -> Plot:
    run = one_experiment(trials, tuple(trial.vpn for trial in trials))
    found = run.experiments[0].model_copy(update={"metrics": ["overhead_bytes"]})
    report = build(run.model_copy(update={"experiments": [found]}), list(trials))
    plots = plots_of(report, report.experiments[0], Samples(report))
    return next(plot for plot in plots if plot.key.endswith("-layers"))


def overhead_trial(vpn: str, value: float, layers: object) -> Trial:
    trial = make_trial(vpn, CBC | LONG, 0, {"overhead_bytes": value})
    measurement = trial.measurements[0].model_copy(update={"detail": {"layers": layers}})
    return trial.model_copy(update={"measurements": [measurement]})


def drawn(plot: Plot) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for value in plot.spec["data"]["values"]:
        found.setdefault(re.split(r"\W", value["cell"])[0], {})[value["layer"]] = value["bytes"]
    return found


def test_the_layers_are_drawn_where_what_was_measured_is_as_long() -> None:
    layers = wireguard(1400)
    plot = layers_plot(
        overhead_trial("wireguard", float(overhead_of(layers)), layers),
        overhead_trial("openvpn", overhead_of(layers) + 3.0, layers),  # the control: another length
        overhead_trial("ipsec", 70.0, None),
        overhead_trial("ssh_tun", 70.0, {"UDP": "eight"}),  # by hand, and no length
    )
    found = drawn(plot)
    assert found["wireguard"] == layers
    assert layers[INNER] == 1400
    assert layers[HEADER] == 8
    for vpn, around in (("openvpn", overhead_of(layers) + 3.0), ("ipsec", 70.0), ("ssh_tun", 70.0)):
        assert found[vpn] == {INNER: 1400, AROUND: around}
    domain = plot.spec["encoding"]["color"]["scale"]["domain"]
    assert set(domain) == {*layers, AROUND}
    assert len(domain) == len(plot.spec["encoding"]["color"]["scale"]["range"])
