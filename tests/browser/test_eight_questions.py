"""Eight questions of a new user, each answered by the page alone after at most three clicks: the test clicks, reads the
answer, and compares it with what the run's data say."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page

from questions.rank.judgement import RankedNumber, of_ranking
from questions.rank.verdict_words import sentence
from questions.rank.words import verdict
from runner.data.levels import NO_CIPHER
from runner.data.numbers import chance
from runner.data.trials import Measurement, Run, Rung, Trial, measured_metrics
from runner.ranking.model import Verdict, Weights
from runner.ranking.weights import PRESETS, default_weights, of_run
from runner.report.forms.html import html_text
from runner.report.model import Report
from tests.browser.conftest import Open
from tests.unit.looking import look
from tests.unit.report.test_report_limits import ONE
from tests.unit.reports import rank
from tests.unit.synthetic import CBC, METRICS, TCP, make_trial, realistic_run
from tests.unit.whole_report import build, ranked_of

MOST_CLICKS = 3
RUNGS_BPS, RUNG_S = (10e6, 30e6), 0.25
SHOWN = "recommended"  # the configuration that the page begins with


class Reader:
    """Somebody at the page, whose clicks are counted; choosing from a list is a click."""

    def __init__(self, page: Page) -> None:
        self.page, self.clicks = page, 0

    def click(self, what: Locator) -> None:
        what.click()
        self.clicks += 1

    def choose(self, what: Locator, value: str) -> None:
        what.select_option(value)
        self.clicks += 1

    def read(self, selector: str, has_text: str | None = None) -> str:
        """What is to be seen, and not folded away."""
        found = self.page.locator(f"{selector}:visible", has_text=has_text)
        said = [" ".join(one.split()) for one in found.all_inner_texts()]
        assert said, f"{selector} is not to be seen"
        assert self.clicks <= MOST_CLICKS
        return " ".join(said)


@pytest.fixture(scope="module")
def run() -> tuple[Run, list[Trial]]:
    """A run that measured what a byte costs, too: for each core, and of the gateways at each rate of a ladder."""
    made, trials = realistic_run(3)
    found = []
    for trial in trials:
        trial = trial.model_copy(update={"log": f"logs/{trial.id}"})
        costs = [one for one in trial.measurements if one.metric == "cpu_per_gigabyte"]
        if costs and trial.vpn == "openvpn":
            trial = trial.model_copy(update={"limit": ONE})
        if not costs:
            found.append(trial)
            continue
        per_core = measurement("throughput_per_core", 8e9 / costs[0].value)
        found.append(trial.model_copy(update={"measurements": [*trial.measurements, per_core]}))
        if trial.params == trial.params | TCP and trial.position == "within":
            found.append(climb(trial, costs[0].value))
            if trial.vpn == "openvpn" and trial.params["cipher"] == CBC["cipher"]:
                found.append(climb(trial.model_copy(update={"vpn": "none", "params": {**NO_CIPHER, **TCP}}), 1.0))
    return made, found


def climb(trial: Trial, cost: float) -> Trial:
    """A ladder of this trial's VPN, which takes so many CPU seconds for a gigabyte."""
    params = {name: trial.params[name] for name in CBC} | {"measure": "ladder", "carried": "tcp"}
    made = make_trial(trial.vpn, params, trial.repetition, {}, experiments=tuple(trial.experiments))
    curve = []
    for rate_bps in RUNGS_BPS:
        size = rate_bps / 8 * RUNG_S
        values: dict[str, list[float | None]] = {
            "carried_ratio": [1.0],
            "cpu_s": [cost * size / 1e9],
            "seconds": [RUNG_S],
            "carried_bytes": [size],
        }
        curve.append(Rung(rate_bps=rate_bps, rounds=[trial.repetition], values=values))
    return made.model_copy(update={"curve": curve})


def measurement(metric: str, value: float) -> Measurement:
    known = METRICS[metric]
    return Measurement(metric=metric, value=value, unit=known.unit, better=known.better, samples=[value])


@pytest.fixture(scope="module")
def report(run: tuple[Run, list[Trial]]) -> Report:
    return build(*run)


@pytest.fixture
def reader(report: Report, run: tuple[Run, list[Trial]], tmp_path: Path, open_page: Open) -> Callable[..., Reader]:
    """Somebody at the page as it is, or at the one that has ranks because somebody asked for weights."""

    def opened(width: int = 1400, *, weighed: bool = False, weights: Weights | None = None) -> Reader:
        path = tmp_path / "report.html"
        asked = weights or (default_weights(measured_metrics(run[1])) if weighed else None)
        path.write_text(html_text(build(*run, weights=asked) if asked else report))
        return Reader(open_page(path, width=width))

    return opened


def numbers(report: Report, metric: str) -> RankedNumber:
    number = next(at for at, one in enumerate(ranked_of(report).rankings) if one.configuration == SHOWN)
    return next(one for one in ranked_of(report).behind[number] if one.metric == metric)


def pair(run: tuple[Run, list[Trial]], metric: str, a: str, b: str) -> Verdict:
    (found,) = [
        one for one in look(*run) if (one.configuration, one.metric) == (SHOWN, metric) and {one.a, one.b} == {a, b}
    ]
    return found if found.a == a else found.other_way


@pytest.mark.parametrize("width", [1400, 390])
def test_a_most_tcp_for_a_core(width: int, reader: Callable[..., Reader], report: Report) -> None:
    someone = reader(width)
    someone.click(someone.page.get_by_role("link", name="What limits it"))
    said = someone.read("#limits .per-core")
    per_core = numbers(report, "throughput_per_core").summaries
    best = max(per_core, key=lambda vpn: per_core[vpn].median)
    assert said.startswith(f"{best} carries the most TCP for each core: ")
    value, unit = re.findall(r": ([\d.]+) .* ([GM])bit/s", said)[0]
    assert float(value) * {"G": 1e9, "M": 1e6}[unit] == pytest.approx(per_core[best].median, rel=0.005)


def test_b_a_over_b_with_its_interval(reader: Callable[..., Reader], run: tuple[Run, list[Trial]]) -> None:
    someone = reader()
    someone.click(someone.page.get_by_role("link", name="A against B"))
    someone.choose(someone.page.locator("#one"), "wireguard_go")
    someone.choose(someone.page.locator("#other"), "openvpn")
    said = someone.read("#pair li", "TCP throughput")
    found = pair(run, "tcp_throughput", "wireguard_go", "openvpn")
    told = [float(number) for number in re.findall(r"[\d.]+(?= |\))", said)[:3]]
    assert told == [pytest.approx(value, rel=0.005) for value in (found.ratio, found.decisive_low, found.decisive_high)]


def test_c_two_vpns_at_udp(reader: Callable[..., Reader], run: tuple[Run, list[Trial]]) -> None:
    someone = reader(390)
    someone.choose(someone.page.locator("#one"), "openvpn")
    someone.choose(someone.page.locator("#other"), "ssh_tun")
    said = someone.read("#pair li", "UDP throughput")
    assert said == sentence(run[0].metrics["udp_throughput"], pair(run, "udp_throughput", "openvpn", "ssh_tun"))


def test_d_only_latency_counts(reader: Callable[..., Reader], run: tuple[Run, list[Trial]]) -> None:
    weights = Weights(name="rtt=1", values={"rtt": 1.0})
    someone = reader(weights=weights)
    only = rank(*run, configuration=SHOWN, weights=weights)
    assert someone.read(".answer .who") == verdict(only, of_ranking(look(*run, weights), only))
    chances = {one.vpn: chance(one.best_probability) for one in only.standings if one.place}
    for vpn, said in chances.items():
        assert f" {said}" in someone.read(f"#ranking tr[data-vpn={vpn}]")
    assert "ssh_forward" in chances


def test_e_what_exactly_was_configured(reader: Callable[..., Reader], run: tuple[Run, list[Trial]]) -> None:
    someone = reader()
    someone.click(someone.page.get_by_role("link", name="How it was set up"))
    row = someone.page.locator("#setup tr:visible", has_text="openvpn")
    levels = run[0].vpns["openvpn"].configurations[SHOWN]
    assert dict(level.split("=") for level in row.locator("td").first.inner_text().split(", ")) == levels
    assert row.locator("code").inner_text() == f"vpneval recipe openvpn --set cipher={levels['cipher']}"
    someone.click(row.get_by_role("button", name="copy"))
    someone.page.wait_for_selector("#setup button:text-matches('copied|selected')")
    assert row.get_by_role("link", name="commands").get_attribute("href", timeout=1000)
    assert someone.clicks <= MOST_CLICKS


def test_f_tcp_only_vpns_are_ranked(reader: Callable[..., Reader], run: tuple[Run, list[Trial]]) -> None:
    assert "ssh_forward" in reader(weighed=True).read("#ranking .unranked")
    weights = of_run(PRESETS["tcp"], METRICS)
    someone = reader(weights=weights)
    tcp = rank(*run, configuration=SHOWN, weights=weights)
    assert [one.place for one in tcp.standings if one.vpn == "ssh_forward"] == [1]
    first = tcp.standings[0].vpn
    assert someone.read("#ranking tbody:first-of-type tr:first-child th").startswith(first)
    assert not someone.page.locator("#ranking .unranked:visible", has_text="ssh_forward").count()


def test_g_how_long_a_sure_answer_takes(reader: Callable[..., Reader], report: Report) -> None:
    someone = reader(weighed=True)
    said = someone.read(".answer .sure")
    undecided = [one for one in ranked_of(report).verdicts if (one.configuration, one.decision) == (SHOWN, "undecided")]
    assert said.startswith(f"{len(undecided)} of ")
    assert f"vpneval more {report.run_id}" in said
    assert re.findall(r"about (\d+) min", said) == [f"{(ranked_of(report).seconds_more or 0) / 60:.0f}"]


def test_h_what_limits_it(reader: Callable[..., Reader], report: Report) -> None:
    """What the trials agree on, and the gateways' cores at each rate of the ladder, less plain IP's."""
    someone = reader()
    someone.click(someone.page.get_by_role("link", name="What limits it"))
    assert ONE.sentence in someone.read("#limits table summary")
    assert {row.limit.sentence for row in report.limits.rows if row.vpn == "openvpn"} == {ONE.sentence}
    said = someone.read("#limits table:has-text('Cores that a rate of TCP takes') tr", "openvpn")
    shown = [float(number) for number in re.findall(r"([\d.]+) \([\d.]+–[\d.]+\)", said)]
    shown_at = next(at for at, ranking in enumerate(ranked_of(report).rankings) if ranking.configuration == SHOWN)
    (ladder,) = (one for one in report.ladders[shown_at] if one.vpn == "openvpn")
    assert [at.rate_bps for at in ladder.rates] == list(RUNGS_BPS)
    for told, at in zip(shown[-2:], ladder.rates, strict=True):
        assert at.cores
        assert told == pytest.approx(at.cores.median, rel=0.006, abs=0.0006)
