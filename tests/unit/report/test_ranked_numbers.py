"""The numbers behind the ranks, and behind the question which VPN sustains a rate."""

import re

from runner.report.forms.explore import page_data
from runner.report.forms.html import html_text
from runner.report.model import Report
from tests.unit.reports import one_experiment, realistic
from tests.unit.synthetic import CBC, TCP, make_trial
from tests.unit.whole_report import build, ranked_of


def listed_nowhere() -> Report:
    """CPU cost and throughput of two VPNs; the experiment lists the throughput alone."""
    trials = [
        make_trial(vpn, CBC | TCP, block, {"tcp_throughput": speed + block, "cpu_per_gigabyte": 8.0 + 0.1 * block})
        for vpn, speed in (("openvpn", 2e8), ("ipsec", 4e8), ("none", 1e10))
        for block in range(3)
    ]
    return build(one_experiment(trials, ("none", "openvpn", "ipsec")), trials)


def test_every_ranked_metric_has_its_numbers() -> None:
    report = realistic()
    for basis, numbers in zip(ranked_of(report).bases, ranked_of(report).behind, strict=True):
        assert [one.metric for one in numbers] == list(basis.values)
        for one in numbers:
            assert one.summaries.keys() == basis.values[one.metric].keys()
            for vpn, summary in one.summaries.items():
                assert summary.n == len(basis.values[one.metric][vpn])


def test_a_metric_that_no_experiment_lists_is_linked_to_its_row() -> None:
    page = html_text(listed_nowhere())
    for target in ("table-0-tcp_throughput", "behind-0-cpu_per_gigabyte"):
        assert page.count(f'id="{target}"') == 1
        assert page.count(f'href="#{target}"') >= 1
    row = re.search(r'id="behind-0-cpu_per_gigabyte".*?</tr>', page, re.S)
    assert row
    assert "8.10 (" in row[0]


def test_the_question_is_answered_by_what_was_measured_not_by_what_is_listed() -> None:
    report = listed_nowhere()
    assert {one.vpn for one in report.sustained} == {"openvpn", "ipsec"}, "plain IP is no answer"
    data = page_data(report)["capacity"]
    assert {cell["vpn"]: round(cell["rate"][1] / 1e6) for cell in data} == {"openvpn": 200, "ipsec": 400}
    assert all(8 < cell["cost"][1] < 8.2 for cell in data)


def test_no_cost_no_question() -> None:
    trials = [make_trial("openvpn", CBC | TCP, block, {"tcp_throughput": 2e8 + block}) for block in range(3)]
    page = html_text(build(one_experiment(trials), trials))
    assert "<h3>Which VPN sustains" not in page
    assert "<h3>Which VPN sustains" in html_text(listed_nowhere()), "the control"
