"""What a reader sees: nothing hidden, nothing without its spread."""

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from questions.rank.places import doubts
from questions.rank.words import change
from runner.catalogue import load_run
from runner.data.trials import Noise, Trial
from runner.evidence.model import Ratio, Summary
from runner.evidence.stats import summarise
from runner.lab.readings import noise
from runner.ranking.model import Pair, Slack
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.text import change as change_words
from runner.report.text import duration, share, with_interval
from tests.unit.reports import everywhere, one_experiment, realistic, terminal
from tests.unit.synthetic import CBC, PLAIN, TCP, make_trial, realistic_run
from tests.unit.whole_report import build, ranked_of

EXAMPLE = next((Path(__file__).parents[3] / "results" / "examples").glob("*/run.json")).parent


def test_the_realistic_report_shows_everything_everywhere() -> None:
    report = realistic()
    for name, text in everywhere(report).items():
        for wanted in (
            "quick",  # the profile, and its note
            "not for publication",
            "Ranking: comparable",
            "Ranking: recommended",
            "wireguard_go",
            "aes-128-cbc hmac-sha256",  # the configuration that was ranked
            f"{ranked_of(realistic()).rankings[0].standings[0].average:.2f}",  # the winner's weighted average rank
            ">99 %" if name != "html" and name != "md" else "&gt;99 %",
            "not ranked",
            "SSH port forwarding carries TCP only",
            "Requested AEAD algorithm not found",
            "plaintext on the WAN",
            "not encrypted",
            "baseline",
            "76 %",  # measuring
            "share the 2 cores",
            "3 repetitions",
            "the sender fell short",
            "6.18.0",
            "Made-up CPU",
            "vpneval run transport",
            "thesis §4",
        ):
            assert wanted in text, (name, wanted)


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize("blocks", [1, 3, 10])
def test_the_terminal_report_fits_and_cuts_nothing(width: int, blocks: int) -> None:
    report = realistic(blocks)
    text = terminal(report, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    for table in report.experiments[0].tables:
        for row in table.measured_rows:
            assert row.summary
            assert with_interval(row.summary, table.unit) in text


def test_identical_reasons_collapse_into_one_line() -> None:
    report = realistic()
    cipher = next(e for e in report.experiments if e.name == "cipher")
    assert sum(row.status == "unsupported" for table in cipher.tables for row in table.rows) > 20
    assert len(cipher.problems) == 5
    one = next(p for p in cipher.problems if "WireGuard has one cipher" in p.reason)
    assert one.cells == ["wireguard_go (3des-cbc hmac-sha256; aes-128-cbc hmac-sha256; aes-128-gcm)"]
    assert "asked:" not in one.reason  # it differs from cell to cell, and the cells say it
    compression = next(e for e in report.experiments if e.name == "compression")
    assert ["ssh_tun (lz4 compression)"] in [p.cells for p in compression.problems]


def test_a_vpn_that_nothing_was_measured_of_has_one_footnote_on_the_page() -> None:
    """And each experiment that has no number of it leads there."""
    report = build(*load_run(EXAMPLE))
    page = html_text(report)
    footnotes = re.findall(r"<li><strong>([^<]*)</strong>: <span class=\"unsupported\">", page.split('id="absent"')[1])
    assert footnotes == ["gre_ipsec, ipsec", "ipip", "wireguard"]
    assert page.count("the kernel has no IPIP: Error: Unknown device type.</li>") == 1
    without = page.split('<div id="experiments">')[1].split('id="absent"')[0]
    assert without.count('<a href="#absent">gre_ipsec, ipip, ipsec, wireguard</a>') == len(report.experiments) == 5
    for one in re.findall(r"<details class=\"footnotes\">.*?</details>", without, re.DOTALL):
        assert not re.search(r"\b(gre_ipsec|ipip|ipsec|wireguard)\b", one), one
    assert "<strong>wireguard_go (3des-cbc" in without, "the control: of this VPN there are numbers"


def test_every_absent_row_has_a_reason_and_stays_in_its_table() -> None:
    report = realistic()
    for experiment in report.experiments:
        for table in experiment.tables:
            for row in table.rows:
                assert row.summary or (row.reason and row.problem)
    page = html_text(report)
    failed = [problem for one in report.experiments for problem in one.problems if problem.status == "failed"]
    assert page.count('<span class="failed">failed</span>') == len(failed) > 0  # each reason once in its experiment
    assert ">partly: openvpn ended with 1" in page


def test_partly_failed_cells_keep_their_number_and_their_reason() -> None:
    params = CBC | TCP
    trials = [make_trial("openvpn", params, block, {"tcp_throughput": 1e8 + block}) for block in (0, 1)]
    trials.append(make_trial("openvpn", params, 2, status="failed", reason="daemon died"))
    row = build(one_experiment(trials), trials).experiments[0].tables[0].rows[0]
    assert (row.status, row.ok, row.trials, row.reason) == ("partly", 2, 3, "daemon died")
    assert row.summary is not None
    assert row.summary.n == 2


def test_share_of_the_baseline_is_of_the_same_traffic_only() -> None:
    trials = [
        make_trial("none", PLAIN | TCP, b, {"tcp_throughput": 1e9}, position=p)
        for b in (0, 1)
        for p in ("first", "last")
    ]
    trials += [make_trial("none", PLAIN | TCP | {"payload": "zeros"}, b, {"tcp_throughput": 5e9}) for b in (0, 1)]
    trials += [make_trial("openvpn", CBC | TCP, b, {"tcp_throughput": 2.5e8}) for b in (0, 1)]
    trials += [make_trial("openvpn", CBC | TCP | {"payload": "text"}, b, {"tcp_throughput": 2.5e8}) for b in (0, 1)]
    rows = build(one_experiment(trials), trials).experiments[0].tables[0].rows
    shares = {(row.vpn, row.params["payload"]): row.share and row.share.ratio for row in rows}
    assert shares[("openvpn", "random")] == pytest.approx(0.25)
    assert shares[("openvpn", "text")] is None
    assert shares[("none", "random")] is None  # it is the baseline
    assert next(row for row in rows if row.vpn == "none").summary.n == 2  # type: ignore[union-attr]


def test_the_udp_metric_says_in_which_bursts_its_packets_were_sent() -> None:
    run, trials = realistic_run()

    def telling(**sent: float) -> list[Trial]:
        detail = {"burst_packets": 16} | sent
        return [
            trial.model_copy(
                update={
                    "measurements": [
                        one.model_copy(update={"detail": one.detail | detail | at_random(trial)})
                        if one.metric == "udp_throughput"
                        else one
                        for one in trial.measurements
                    ]
                }
            )
            for trial in trials
        ]

    def at_random(trial: Trial) -> dict[str, float]:
        return {"burst_packets_sent": 34.7 if trial.repetition else 1234.5} if trial.vpn == "openvpn" else {}

    told = telling(burst_packets_sent=17.5)
    assert not any("in bursts of" in text for text in everywhere(realistic()).values())
    for text in everywhere(build(run, told)).values():
        assert "asked for in bursts of 16 packets; really sent back to back, on average: " in text
        assert "openvpn 35 to 1,234" in text
        assert "none 18" in text
        assert "at most 16" not in text
    tables = [table for one in build(run, told).experiments for table in one.tables]
    assert {"bursts" in table.common for table in tables if table.metric == "udp_throughput"} == {True}
    assert not any("bursts" in table.common for table in tables if table.metric != "udp_throughput")


def test_trimmed_and_stopped_runs_say_so() -> None:
    run, trials = realistic_run()
    call = run.invocations[0].model_copy(
        update={"trimmed": 12, "passed_over": 9, "outcome": "stopped: no space left", "measuring_s": 90.0}
    )
    for text in everywhere(build(run.model_copy(update={"invocations": [call]}), trials)).values():
        assert "vpneval left out 12 trials to keep the deadline" in text
        assert "vpneval left out 9 trials because what they decide was decided before, or needed" in text
        assert "stopped: no space left" in text
        assert "Only 27 % of the time was spent measuring" in text


def test_a_metric_that_failed_for_every_vpn_is_said_not_to_count() -> None:
    run, trials = realistic_run()

    def words(fails: str, kept: str = "") -> list[str]:
        told = [
            trial.model_copy(update={"status": "failed", "measurements": [], "reason": "no UDP throughput"})
            if trial.params["measure"] == fails and trial.vpn not in ("none", kept)
            else trial
            for trial in trials
        ]
        return [caveat for caveat in build(run, told).caveats if "does not count" in caveat]

    assert not words("nothing")
    assert not words("udp", kept="openvpn")
    assert [line.split(" does")[0] for line in words("udp")] == [
        f"Ranking {configuration}: {metric}"
        for configuration in ("comparable", "recommended")
        for metric in ("UDP throughput", "Jitter")
    ]
    assert all("no VPN has it" in line and "trials of it failed" in line for line in words("udp"))


def test_drift_is_flagged() -> None:
    trials = [
        make_trial("none", PLAIN | TCP, block, {"tcp_throughput": value + block}, position=position)
        for block in range(3)
        for position, value in (("first", 1000.0), ("last", 800.0))
    ]
    caveat = next(c for c in build(one_experiment(trials), trials).caveats if c.startswith("The machine drifted"))
    assert "1 of 1 measurement" in caveat
    moved = r"TCP throughput \(tcp, 1 stream, random, forward\) −20\.0 % \([^)]*\) from its start to its end"
    assert re.search(moved, caveat)
    trials += [
        make_trial("none", PLAIN | TCP, block, {"tcp_throughput": 1500.0}, position="between") for block in range(3)
    ]
    report = build(one_experiment(trials), trials)
    caveat = next(c for c in report.caveats if c.startswith("The machine drifted"))
    assert re.search(r"\+6[\d.]+ % \([^)]*\) in its middle against both", caveat)
    assert [one.moved for one in report.drift] == [True]


@pytest.mark.parametrize("width", [80, 100, 120])
def test_the_coefficient_of_variation_stands_in_every_row(width: int) -> None:
    report = realistic()
    lines = terminal(report, width).splitlines()
    page, markdown = html_text(report), markdown_text(report)
    for table in report.experiments[0].tables:
        for row in table.measured_rows:
            assert row.summary
            interval, variation = with_interval(row.summary, table.unit), f"{100 * (row.summary.variation or 0):.1f}"
            assert any(interval in line and f" {variation}" in line.split(interval)[1] for line in lines)
            assert f"<td class=number>{variation} %</td>" in page
            assert re.search(rf"{re.escape(interval)}.*\| {variation} % \|", markdown)


def bounded(trials: Sequence[Trial], vpn: str) -> list[Trial]:
    """The trials, with what ``vpn``'s UDP search found turned into a lower bound."""

    def of(trial: Trial) -> Trial:
        found = [
            m.model_copy(update={"detail": {"interval_bps": None}}) if m.metric == "udp_throughput" else m
            for m in trial.measurements
        ]
        return trial.model_copy(update={"measurements": found}) if trial.vpn == vpn else trial

    return [of(trial) for trial in trials]


def test_lower_bounds_are_marked_everywhere() -> None:
    run, trials = realistic_run()
    assert "≥ 1" not in terminal(build(run, trials))
    for text in everywhere(build(run, bounded(trials, "ssh_tun"))).values():
        assert re.search(r"≥ 1[12]\d \(", text)  # ssh_tun's 120 Mbit/s
        assert "the UDP throughput of ssh_tun is a lower bound (≥), so vpneval" in text
        assert "≤ 19" not in text
    for text in everywhere(build(run, bounded(trials, "none"))).values():
        assert "≥ 2.0" in text
        assert "≤ 19" in text  # wireguard_go's share of such a baseline


def test_order_and_slack_are_said_everywhere() -> None:
    report = realistic()
    ranking = ranked_of(report).rankings[0]
    assert len(ranking.pairs) == len([s for s in ranking.standings if s.place]) - 1
    assert {one.metric for one in ranking.slack} == set(ranking.weights.counted_metrics)
    for text in everywhere(report).values():
        assert " leads if " in text
    one = Slack(metric="rtt", weight=1, low=0.5, high=2.5, below=["openvpn"], above=["ssh_tun", "ipsec"])
    free = one.model_copy(update={"metric": "jitter", "low": 0, "high": None, "below": [], "above": []})
    moved = ranking.model_copy(update={"slack": [one, free]})
    assert change(moved, most=None) == (
        "openvpn leads if round-trip time counts less than 0.5 times as much. ssh_tun and ipsec lead if round-trip "
        "time counts more than 2.5 times as much. No weight of jitter alone, however small or large, changes who leads."
    )
    assert "jitter" not in change(moved)
    doubt = Pair(first="openvpn", second="ssh_tun", probability=0.71, equal=0.03)
    sure = Pair(first="ssh_tun", second="ipsec", probability=0.99, equal=0.0, separated=True)
    likely = doubt.model_copy(update={"probability": 0.81})
    assert doubts(ranking.model_copy(update={"pairs": [doubt, likely, sure]})) == (
        "openvpn and ssh_tun cannot be told apart. openvpn is probably better than ssh_tun (81 %)."
    )
    assert doubts(ranking.model_copy(update={"pairs": [sure]})) == ""


def test_noise_is_counted_and_nothing_dropped() -> None:
    run, trials = realistic_run()
    loud = Noise(steal_ratio=0.034)
    said = noise.remarks(loud, loaded=True)
    trials[5:7] = [t.model_copy(update={"remarks": said, "noise": loud}) for t in trials[5:7]]
    report = build(run, trials)
    assert report.trials["ok"] == realistic().trials["ok"]
    for text in everywhere(report).values():
        assert "Noise: more than 1 % of the CPU time was stolen in 2 trials" in text
        assert "(of all the CPU time of a trial, at most 3.4 %)" in text


def test_what_until_significant_came_to_is_shown() -> None:
    run, trials = realistic_run()
    said = "after 9 blocks, ended by the deadline, still in doubt: a before b"
    call = run.invocations[0].model_copy(update={"separation": said})
    for text in everywhere(build(run.model_copy(update={"invocations": [call]}), trials)).values():
        assert said in text


def test_numbers_as_people_read_them() -> None:
    def of(median: float, low: float | None, high: float | None) -> Summary:
        return Summary(
            n=1 if low is None else 3, median=median, mean=median, low=low, high=high, variation=None, method=""
        )

    assert with_interval(of(341e6, 325e6, 358e6), "bit/s") == "341 (325–358) Mbit/s"
    assert with_interval(of(999.9e6, 0.99e9, 1.01e9), "bit/s") == "1.00 (0.99–1.01) Gbit/s"
    assert with_interval(of(17.7e9, 17.2e9, 18.1e9), "bit/s") == "17.7 (17.2–18.1) Gbit/s"
    assert with_interval(of(0.0423, 0.0411, 0.0436), "ms") == "42.3 (41.1–43.6) µs"
    assert with_interval(of(0.25, None, None), "s") == "250 (no interval) ms"
    assert with_interval(of(62.7, 57.2, 67.6), "s/GB") == "62.7 (57.2–67.6) s/GB"
    assert with_interval(summarise([0.0, 0.0]), "ms") == "0.000 (all equal) ms"
    assert with_interval(of(1.33e9, 1.2e9, 1.46e9), "bit/s", at_least=True) == "≥ 1.33 (1.20–1.46) Gbit/s"
    ratio = Ratio(blocks=3, ratio=0.123, low=0.118, high=0.129, significant=True, method="")
    assert share(ratio, "higher") == "12.3 (11.8–12.9) %"
    assert share(ratio.model_copy(update={"ratio": 2.4, "low": 2.3, "high": 2.5}), "lower") == "2.40 (2.30–2.50) ×"
    assert change_words(ratio) == "−87.7 % (−88.2 to −87.1)"
    assert (duration(59.6), duration(330)) == ("60 s", "5 min 30 s")


def test_how_near_to_the_crypto_limit_is_said_everywhere() -> None:
    trials = [make_trial("openvpn", CBC | TCP, b, {"tcp_throughput": 2.5e8}) for b in (0, 1)]
    trials += [make_trial("none", PLAIN | TCP, b, {"tcp_throughput": 1e9}) for b in (0, 1)]
    run = one_experiment(trials)
    cipher, integrity = CBC["cipher"], CBC["integrity"]
    known = run.model_copy(update={"lab": run.lab | {"openssl_bps": {cipher: 2e9, integrity: 2e9}}})
    for name, said in everywhere(build(known, trials)).items():
        assert "the same cipher and HMAC: openvpn 25 %." in said, name  # 1 / (1/2 + 1/2) = 1 Gbit/s
    for name, said in everywhere(build(run, trials)).items():
        assert "OpenSSL encrypts" not in said, f"{name}: it was not measured"


def test_no_slow_cipher_looks_good_by_its_share_of_the_crypto_limit() -> None:
    """Of what OpenSSL can do with 3DES, every VPN carries most."""
    slow = {**CBC, "cipher": "3des-cbc"}
    rates = (("openvpn", CBC, 2.5e8), ("openvpn", slow, 0.9e8), ("ipsec", CBC, 1e8))
    trials = [make_trial(vpn, levels | TCP, b, {"tcp_throughput": rate}) for vpn, levels, rate in rates for b in (0, 1)]
    run = one_experiment(trials, ("none", "openvpn", "ipsec"))
    speeds = {CBC["cipher"]: 2e9, CBC["integrity"]: 2e9, "3des-cbc": 1e8}
    for name, said in everywhere(
        build(run.model_copy(update={"lab": run.lab | {"openssl_bps": speeds}}), trials)
    ).items():
        assert "the same cipher and HMAC: ipsec 10 %." in said, name
    alone = [trial for trial in trials if trial.params["cipher"] != "3des-cbc"]
    for name, said in everywhere(
        build(run.model_copy(update={"lab": run.lab | {"openssl_bps": speeds}}), alone)
    ).items():
        assert "the same cipher and HMAC: ipsec 10 %, openvpn 25 %." in said, name
