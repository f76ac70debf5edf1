"""A run that only counts: nothing in it has a weight, and a count has no unit and no decimals."""

import re

from runner.data.trials import Trial
from runner.evidence.stats import summarise
from runner.report.forms.html import html_text
from runner.report.forms.latex import latex_text
from runner.report.forms.markdown import markdown_text
from runner.report.text import quantity, with_interval
from tests.unit.reports import one_experiment
from tests.unit.synthetic import CBC, TCP, make_trial
from tests.unit.whole_report import build, ranked_of

COUNTED = {"measure": "operations"}


def counts() -> list[Trial]:
    files = {"none": 0.0, "openvpn": 8.0, "ipsec": 12.0}
    return [
        make_trial(vpn, CBC | COUNTED, block, {"setup_files": count})
        for vpn, count in files.items()
        for block in (1, 2)
    ]


def test_what_has_no_weight_has_no_ranking_in_any_form() -> None:
    trials = counts()
    report = build(one_experiment(trials, ("none", "openvpn", "ipsec")), trials)
    assert not ranked_of(report).is_shown
    for form in (markdown_text, latex_text, html_text):
        said = re.sub(r"(?s)<(script|style).*?</\1>", "", form(report))
        assert not re.search("could be ranked|Weights|[Ww]eighted|Ranking:", said)
    page = html_text(report)
    inside = set(re.findall(r'href="#([^"]+)"', page))
    assert inside <= set(re.findall(r'id="([^"]+)"', page)), "each link of the page leads somewhere"
    rates = [make_trial(vpn, CBC | TCP, 1, {"tcp_throughput": 1e8}) for vpn in ("none", "openvpn", "ipsec")]
    control = build(one_experiment(rates, ("none", "openvpn", "ipsec")), rates)
    assert ranked_of(control).is_shown


def test_a_count_is_whole_and_has_no_unit() -> None:
    assert (quantity(8.0, "1"), quantity(0.0, "1"), quantity(0.25, "1")) == ("8", "0", "0.250")
    assert quantity(8.0, "ms") == "8.00 ms"
    assert with_interval(summarise([12.0, 12.0, 12.0]), "1") == "12 (all equal)"
    assert with_interval(summarise([12.0, 12.0, 12.0]), "ms") == "12.0 (all equal) ms"
