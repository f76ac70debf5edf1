"""The heat map of the crypto matrix: every combination that was measured, and only these, with its own number."""

from runner.design.blocks import Plot
from runner.report.plots.plots import plots_of
from runner.report.plots.plotting import Samples
from runner.report.plots.vega import svg
from tests.unit.reports import one_experiment
from tests.unit.synthetic import make_trial
from tests.unit.whole_report import build

RATES = {
    ("aes-128-cbc", "hmac-md5"): 50e3,
    ("aes-128-cbc", "hmac-sha256"): 40e3,
    ("3des-cbc", "hmac-sha256"): 10e3,
    ("aes-128-gcm", "aead"): 80e3,
}


def plots(lengths: tuple[str, ...] = ("1400", "64"), combinations: int = len(RATES)) -> list[Plot]:
    trials = [
        make_trial(
            "ipsec",
            {"measure": "duplex"}
            | {"cipher": cipher, "integrity": integrity, "compression": "off", "packet_bytes": length},
            block,
            {"packet_rate_both_ways": rate * (1.0, 1.02)[block - 1] / (1 + (length == "1400"))},
        )
        for (cipher, integrity), rate in list(RATES.items())[:combinations]
        for length in lengths
        for block in (1, 2)
    ]
    run = one_experiment(trials, ("none", "ipsec"))
    run.experiments[0].metrics[:] = ["packet_rate_both_ways"]
    report = build(run, trials)
    return [p for p in plots_of(report, report.experiments[0], Samples(report)) if p.key.endswith("-matrix")]


def test_each_combination_stands_at_its_length_with_its_own_number() -> None:
    (plot,) = plots()
    found = {(v["packet"], v["cipher"], v["integrity"]): v for v in plot.spec["data"]["values"]}
    assert found.keys() == {(f"{length} B", *levels) for levels in RATES for length in (64, 1400)}
    assert found["64 B", "aes-128-gcm", "aead"]["share"] == 1
    assert found["1400 B", "3des-cbc", "hmac-sha256"]["share"] == 0.125
    assert found["64 B", "3des-cbc", "hmac-sha256"]["label"] == "10.1"  # kpacket/s
    assert plot.spec["facet"]["column"]["sort"] == ["64 B", "1400 B"]


def test_it_can_be_drawn() -> None:
    (plot,) = plots()
    drawn = svg(plot.spec)
    assert drawn.count("aes-128-gcm") >= 1
    assert drawn.count("1400 B") >= 1


def test_two_ciphers_are_no_matrix() -> None:
    assert not plots(combinations=2)
