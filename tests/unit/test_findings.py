"""Every finding in two made-up worlds, one in which it holds and one in which it does not; and what is missing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from runner.catalogue import experiment_names, load_experiment, load_vpn
from runner.cli.described import record_of
from runner.data.store import load_run
from runner.data.trials import Run, Trial
from runner.design.experiment import Experiment
from runner.design.profile import PROFILES
from runner.papers.claims import all_of, close, compare, decide, order_held
from runner.papers.findings import Data, Finding, Judgement, NotMeasured, judge, trials_of
from runner.papers.judges import findings_of
from runner.papers.published import names as published_papers
from runner.papers.published import paper
from runner.report.conclusions import outcome
from runner.report.findings import Findings, findings, render
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.tables import json_text
from runner.report.model import build
from runner.report.papers import findings_text, rows_of
from runner.report.plots.plots_findings import published_against_measured
from runner.report.plots.vega import svg
from tests.unit.synthetic import METRICS, make_run, make_trial

ROOT = Path(__file__).resolve().parents[2]
Values = Callable[[str, Mapping[str, str], str], float]
ROUNDING = 1 + 1e-9
QUICK = PROFILES["quick"]
VPNS = {
    "thesis": ("none", "ipip", "ipsec", "ipsec_user", "openvpn", "ssh_forward", "ssh_tun"),
    "crypto_matrix": ("none", "ipsec", "ipsec_user"),
    "oslv": (
        *("none", "ipsec", "ipsec_user", "openvpn", "openvpn_tcp", "pptp", "ssh_forward", "ssh_tun", "vtun"),
        "wireguard_go",
    ),
    "devices": ("none", "ipsec", "ipsec_user"),
    "load": ("none", "ipsec", "openvpn", "ssh_forward"),
}
# Findings that two studies cannot be compared in, whatever is measured.
UNLIKE = {("thesis", "ipip"), ("thesis", "encryption"), ("crypto_matrix", "share")}
# Findings that nothing here can judge, each with its reason; and those of cells that the quick profile does not have,
# which test_judges.py makes up.
OPEN = {("crypto_matrix", "configurations"), ("devices", "services"), ("oslv", "domains")}
RARE = {("crypto_matrix", "same-order"), ("crypto_matrix", "versions")}


def world(name: str, values: Values, noise: float = 0.0, blocks: int = 3) -> tuple[Run, list[Trial]]:
    """A run of the quick profile's cells; ``noise``: how far whole blocks are apart, as machines drift."""
    experiment = load_experiment(name)
    vpns = [load_vpn(vpn) for vpn in VPNS[name]]
    record = experiment.record(vpns, QUICK, {})
    run = make_run(VPNS[name], (record,), blocks).model_copy(
        update={"vpns": {vpn.name: record_of(vpn) for vpn in vpns}}
    )
    trials = []
    for number, cell in enumerate(record.cells):
        transport = cell.params["measure"]
        if transport == "udp" and cell.vpn == "ssh_forward":
            continue
        for block in range(blocks):
            pace = 1 + noise * (block - 1) + 0.004 * ((number * 7 + block * 5) % 3 - 1)
            measured = {
                metric: values(cell.vpn, cell.params, metric) * pace
                for metric in (*experiment.metrics, "jitter", "udp_goodput")
                if METRICS[metric].measure == transport
            }
            trials.append(make_trial(cell.vpn, cell.params, block, measured, experiments=(name,)))
    return run, trials


THESIS = {"none": 939.7, "ipip": 927.9, "ipsec": 165.0, "ipsec_user": 163.0, "openvpn": 83.3, "ssh_forward": 167.6}
THESIS |= {"ssh_tun": 95.0}
UPSIDE_DOWN = {"none": 900.0, "ipip": 950.0, "ipsec": 30.0, "ipsec_user": 20.0, "openvpn": 150.0, "ssh_forward": 60.0}
UPSIDE_DOWN |= {"ssh_tun": 90.0}
CIPHERS = {"blowfish-128-cbc": 1.4, "aes-128-cbc": 1.0, "aes-192-cbc": 0.9, "aes-256-cbc": 0.8, "3des-cbc": 0.4}


def thesis_holds(vpn: str, params: Mapping[str, str], metric: str) -> float:
    gains = vpn in ("openvpn", "ssh_forward")
    packed = {"zeros": 1.5 if gains else 0.8, "random": 1.0 if vpn == "openvpn" else 0.6}
    rate = THESIS[vpn] * CIPHERS.get(params["cipher"], 1)
    rate *= 1.5 if (vpn, params["cipher"]) == ("ipsec", "3des-cbc") else 1
    rate *= packed[params["payload"]] if params["compression"] != "off" else 1
    if metric == "context_switches_per_packet":
        return 2.0 if vpn in ("openvpn", "ssh_tun") else 0.5
    if metric == "wire_bytes_per_payload_byte":
        return 1.12 if vpn == "ipsec" else 1.05
    return {"tcp_throughput": rate * 1e6, "udp_throughput": rate * 0.93e6}.get(metric, 1.0)


def thesis_fails(vpn: str, params: Mapping[str, str], metric: str) -> float:
    gains = vpn in ("openvpn", "ssh_forward")
    rate = UPSIDE_DOWN[vpn]
    if params["cipher"] not in ("none", "aes-128-cbc"):
        rate = 1000 / rate / CIPHERS[params["cipher"]]
        rate *= 50 if params["cipher"] == "3des-cbc" else 0.001 if params["cipher"] == "blowfish-128-cbc" else 1
    if params["compression"] != "off":
        rate *= {"zeros": 0.5 if gains else 1.5, "random": 0.5 if vpn == "openvpn" else 1.5}[params["payload"]]
    if metric == "context_switches_per_packet":
        return 0.5 if vpn in ("openvpn", "ssh_tun") else 2.0
    if metric == "wire_bytes_per_payload_byte":
        return 1.0 if vpn == "ipsec" else 1.1
    return {"tcp_throughput": rate * 1e6, "udp_throughput": rate * 2e6}.get(metric, 1.0)


MATRIX = {"aes-128-gcm": 100.0, "aes-256-gcm": 98.0, "aes-128-ccm": 90.0, "aes-128-gmac": 120.0, "null": 90.0}
MATRIX |= {"chacha20-poly1305": 70.0, "aes-128-cbc": 60.0, "aes-256-cbc": 58.0, "aes-128-ctr": 62.0}
MATRIX |= {"camellia-128-cbc": 40.0, "blowfish-128-cbc": 45.0, "cast-128-cbc": 38.0, "3des-cbc": 20.0, "none": 900.0}
DRIVERS = {True: {"generic": 0.3}, False: {"generic": 3.0}}  # does a finding hold -> driver -> its pace
HMACS = {"hmac-md5": 1.2, "hmac-sha512": 0.8}


def matrix(vpn: str, params: Mapping[str, str], metric: str, holds: bool) -> float:
    cipher, length = params["cipher"], params["packet_bytes"]
    if metric == "wan_packets_per_packet":
        return 2.0 if length == "1500" and holds and vpn != "none" else 1.0
    if metric == "forwarded_share":
        return 0.2
    sign = 1 if holds else -1
    rate = (MATRIX[cipher] * HMACS.get(params["integrity"], 1)) ** sign
    if cipher.startswith("aes-256") and not holds:
        rate *= 1.5
    rate *= DRIVERS[holds].get(params.get("driver", ""), 1.0)
    decline = {"64": 1.0, "1400": 0.6 if (cipher == "chacha20-poly1305") == holds else 0.5, "1500": 0.3}
    return rate * 1000 * decline[length] * (2.0 if (vpn == "ipsec") == holds else 1.0)


def oslv(vpn: str, params: Mapping[str, str], metric: str, holds: bool) -> float:
    stacked = load_vpn(vpn).transport == "tcp"
    good = stacked != holds  # a VPN that should be the better one
    integrity = params["integrity"]
    tag = 32 if vpn.startswith("openvpn") else 16 if integrity != "none" else 0
    whole = (80.0 if good else 160.0) * (1 if holds else 3)
    whole *= 1.05 if vpn in ("openvpn", "wireguard_go") and holds else 1
    share = 0.75 if holds else 0.2
    best = vpn == "ipsec" and holds
    second = vpn in ("pptp", "vtun") and holds
    fast = (44e6 if best else 45e6 if vpn != "wireguard_go" else 46e6) if holds else 90e6
    if vpn == "openvpn_tcp" and not holds:
        return {"overhead_bytes": 200.0, "tcp_throughput": 95e6, "rtt": 0.4, "jitter": 0.04}.get(metric, 1.0)
    if "gw2_cpu" in params:
        return 20e6 if holds else 90e6 if vpn in ("ipsec", "ssh_forward") else 55e6
    return {
        "overhead_bytes": whole * share + tag if params["cipher"] == "null" else whole,
        "tcp_throughput": fast if good else fast / 2.2,
        "udp_throughput": 50e6,
        "rtt": 0.4 if best else 0.45 if second else 0.5 if good else 1.0,
        "jitter": 0.04 if best else 0.045 if second else 0.05 if good else 0.1,
    }.get(metric, 1.0)


def devices(vpn: str, params: Mapping[str, str], metric: str, holds: bool) -> float:
    cipher = params.get("device_cipher", params["cipher"])
    rate = 100e6 * (1.0 if "256" not in cipher else 0.87 if holds else 1.1)
    rate *= DRIVERS[holds].get(params.get("driver", ""), 1.0)
    return rate if metric == "ssh_rate" or holds else rate / 3


def load(vpn: str, params: Mapping[str, str], metric: str, holds: bool) -> float:
    rate = THESIS[vpn] * (1 if holds or vpn != "ssh_forward" else 0.3)
    return rate if metric in ("flows_throughput", "clients_throughput") else 1.0


WORLDS: dict[str, tuple[Values, Values]] = {
    "thesis": (thesis_holds, thesis_fails),
    **{
        name: (lambda *at, f=f: f(*at, True), lambda *at, f=f: f(*at, False))
        for name, f in {"crypto_matrix": matrix, "oslv": oslv, "devices": devices, "load": load}.items()
    },
}


@cache
def made(name: str, holds: bool = True) -> tuple[Run, list[Trial]]:
    """The world in which the findings of experiment ``name`` hold, or the other, whose machine is unsteady as well."""
    return world(name, WORLDS[name][0 if holds else 1], noise=0.0 if holds else 0.2)


FINDINGS = [
    pytest.param(experiment, finding, id=f"{experiment.name}-{finding.id}")
    for experiment in map(load_experiment, experiment_names())
    for finding in findings_of(experiment.name)
    if experiment.name in WORLDS and (experiment.name, finding.id) not in OPEN | RARE
]


@pytest.mark.parametrize(("experiment", "finding"), FINDINGS)
def test_a_finding_is_reproduced_where_it_holds_and_not_where_it_does_not(
    experiment: Experiment, finding: Finding
) -> None:
    for holds, verdict in ((True, "reproduced"), (False, "not reproduced")):
        run, trials = made(experiment.name, holds)
        found = judge(finding, run, trials)
        if (experiment.name, finding.id) in UNLIKE:
            assert found.verdict == "not comparable"
            assert "without a verdict" in found.reason
            assert found.value is not None
            continue
        if finding.question:
            assert found.verdict == "answered", found
            assert found.reason.startswith("yes: " if holds else "no: ")
        else:
            assert found.verdict == verdict, found
        assert found.value is not None
        assert found.low is not None
        assert found.high is not None
        assert found.low / ROUNDING <= found.value <= found.high * ROUNDING
        assert found.systems, "a verdict names the systems that it was made from"
        if "ipsec_user" in found.systems:
            assert finding.id == "kernel", "userspace ESP decides nothing that the papers say of the kernel's"


@pytest.mark.parametrize(("experiment", "finding"), FINDINGS)
def test_what_was_not_measured_is_not_comparable_and_says_why(experiment: Experiment, finding: Finding) -> None:
    run, trials = made(experiment.name)
    nothing = judge(finding, run, [])
    assert nothing.verdict == "not comparable"
    assert nothing.reason
    assert nothing.value is None
    reason = "RTNETLINK answers: Operation not supported"
    refused = [make_trial(t.vpn, t.params, 1, status="unsupported", reason=reason) for t in trials]
    assert judge(finding, run, refused).verdict == "not comparable"
    alone = run.model_copy(update={"vpns": {"none": run.vpns["none"]}})
    few = judge(finding, alone, [trial for trial in trials if trial.vpn == "none"])
    assert few.verdict == "not comparable" or finding.id in ("aes-256", "driver"), "these need no VPN"


def test_findings_cite_papers_and_have_names_of_their_own() -> None:
    every = [finding for param in FINDINGS for finding in [param.values[1]]]
    for finding in every:
        assert isinstance(finding, Finding)
        assert finding.citation.endswith(finding.where)
        assert finding.found[-1] not in ".?"
    for name in WORLDS:
        names = [finding.id for finding in findings_of(name)]
        assert len(set(names)) == len(names) > 0


def test_the_thesis_ratios_are_beside_the_measured_ones() -> None:
    run, trials = made("thesis")
    rows = {row.id: row for row in findings(run, trials).rows}
    assert rows["ipsec-tun"].published == pytest.approx(165 / 95)
    assert rows["ipsec-tun"].value == pytest.approx(165 / 95, rel=0.02)
    assert rows["encryption"].published == pytest.approx(167.6 / 939.7)
    assert rows["packed-ipsec-zeros"].published is None, "only a figure shows it"


def test_a_reason_of_the_run_is_the_verdicts_reason() -> None:
    run, trials = made("thesis")
    without = [
        t
        if t.vpn != "ipsec"
        else make_trial(t.vpn, t.params, 1, status="unsupported", reason="the kernel has no ESP: NO_PROP\nmore")
        for t in trials
    ]
    (row,) = [row for row in findings(run, without).rows if row.id == "context_switches_per_packet-openvpn"]
    assert row.verdict == "not comparable"
    assert "ipsec has no context_switches_per_packet" in row.reason
    assert row.reason.endswith("the kernel has no ESP: NO_PROP")


@pytest.mark.parametrize(
    ("low", "high", "between", "verdict"),
    [
        (1.1, 1.3, (1.0, 9.0), "reproduced"),
        (0.7, 0.9, (1.0, 9.0), "not reproduced"),
        (0.9, 1.3, (1.0, 9.0), "not comparable"),
        (None, None, (1.0, 9.0), "not comparable"),
        (0.95, 1.05, close(0.1), "reproduced"),
        (1.2, 1.3, close(0.1), "not reproduced"),
    ],
)
def test_the_interval_decides(
    low: float | None, high: float | None, between: tuple[float, float], verdict: str
) -> None:
    value = 1.0 if low is None or high is None else (low + high) / 2
    found = decide(value, low, high, between)
    assert found.verdict == verdict
    assert ("undecided" in found.reason) == (verdict == "not comparable")


def test_one_repetition_decides_nothing() -> None:
    found = compare({1: 2.0}, {1: 1.0}, (1.0, 9.0))
    assert (found.verdict, found.value, found.low) == ("not comparable", 2.0, None)
    assert "one repetition has no interval" in found.reason


def test_of_several_parts_the_worst_decides() -> None:
    def part(verdict: Any, value: float | None) -> Callable[[], Judgement]:
        return lambda: Judgement(verdict=verdict, reason=f"because {value}", value=value)

    def missing() -> Judgement:
        raise NotMeasured("no such VPN")

    good, bad = part("reproduced", 2.0), part("not reproduced", 0.5)
    assert all_of({"a": good, "b": good}).verdict == "reproduced"
    mixed = all_of({"a": good, "b": bad, "c": missing})
    assert (mixed.verdict, mixed.value) == ("not reproduced", 0.5)
    assert mixed.reason.startswith("b: because 0.5")
    partly = all_of({"a": good, "c": missing})
    assert (partly.verdict, partly.value) == ("reproduced", 2.0)
    assert partly.reason.endswith("not measured: c")
    with pytest.raises(NotMeasured, match="no such VPN"):
        all_of({"c": missing})


def test_other_wans_and_images_are_no_part_of_a_cell() -> None:
    run, trials = made("load")
    levels = {"measure": "flows", "cipher": "aes-128-cbc", "streams": "64"}
    whole = Data(run, trials).blocks("flows_throughput", "ipsec", **levels)
    far = [t.model_copy(update={"params": {**t.params, "wan_delay_ms": "25"}}) for t in trials]
    assert Data(run, [*trials, *far]).blocks("flows_throughput", "ipsec", **levels) == whole
    slow = Data(run, [*trials, *far]).blocks("flows_throughput", "ipsec", **levels, wan_delay_ms="25")
    assert slow == whole
    with pytest.raises(NotMeasured, match="4 different trials"):
        Data(run, trials).blocks("flows_throughput", "ipsec", measure="flows")


def test_an_order_of_two_is_none() -> None:
    run, trials = made("thesis")
    with pytest.raises(NotMeasured, match="needs three VPNs"):
        order_held(Data(run, trials), "tcp_throughput", ("ipsec", "openvpn"), {"measure": "tcp"})


def test_trials_of_an_experiment() -> None:
    run, trials = made("load")
    other = make_trial("openvpn", {"measure": "idle", "cipher": "null"}, 1, experiments=("latency",))
    assert trials_of(run, [*trials, other], "load") == trials
    assert trials_of(run, [*trials, other], "latency") == [other]


def rendered(run: Run, trials: Sequence[Trial]) -> dict[str, str]:
    report = build(run, trials)
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    render(report.findings, console)
    return {
        "term": console.export_text(),
        "html": html_text(report),
        "md": markdown_text(report),
        "json": json_text(report),
    }


def test_every_rendering_has_the_table_and_the_device_row() -> None:
    run, trials = made("devices")
    for form, text in rendered(run, trials).items():
        words = " ".join(text.split())
        assert "AES-256 costs speed against AES-128" in words, form
        assert "reproduced" in words, form
        assert "Made-up CPU @ 2.0 GHz" in words, form


def test_a_run_without_findings_has_no_section() -> None:
    run, trials = made("load")
    bare = run.model_copy(update={"experiments": [run.experiments[0].model_copy(update={"name": "gone"})]})
    assert findings(bare, trials) == Findings()
    for form, text in rendered(bare, [t.model_copy(update={"experiments": []}) for t in trials]).items():
        assert "not comparable:" not in text, form


def test_what_a_run_says_is_escaped() -> None:
    run, trials = made("thesis")
    bad = [
        make_trial(t.vpn, t.params, 1, status="failed", reason="<script>alert(1)</script>")
        for t in trials
        if t.vpn == "ipsec"
    ]
    text = rendered(run, [t for t in trials if t.vpn != "ipsec"] + bad)["html"]
    assert "<script>alert" not in text
    assert "&lt;script&gt;alert" in text


def test_the_page_shows_runs_side_by_side_and_says_what_stands() -> None:
    crypto, thesis = (build(*made(name)) for name in ("crypto_matrix", "thesis"))
    page = findings_text([crypto, thesis, build(*made("crypto_matrix", False))])
    assert all(f"- **{run}**: `" in page for run in "ABC")
    lines = [line for line in page.splitlines() if line.startswith("| AES-GCM is the fastest ")]
    assert [line.split(" | ")[1] for line in lines] == ["A", "C"], "a row for each run that has a number"
    assert " reproduced |" in lines[0]
    assert " not reproduced |" in lines[1]
    assert "| ipsec (kernel); " in lines[0], "system, data plane and kernel"
    assert "yes (count)" in next(line for line in page.splitlines() if "doubles at 1500 bytes" in line and "|" in line)
    assert "no (share)" in next(line for line in page.splitlines() if line.startswith("| encryption costs most"))
    assert page.index("## In short") < page.index("**Reproduced**") < page.index("**Not reproduced**")


def opening(page: str) -> list[str]:
    head, _, _ = page.partition("![")
    return [line for line in head.splitlines()[1:] if line]


def test_the_page_opens_with_what_holds_and_what_does_not_in_twenty_lines() -> None:
    names = ("thesis", "oslv", "load", "crypto_matrix", "devices")
    good = opening(findings_text([build(*made(name)) for name in names]))
    bad = opening(findings_text([build(*made(name, False)) for name in names]))
    none = opening(findings_text([]))
    assert max(map(len, (good, bad, none))) <= 20
    told = sum(
        bool(one.by) for name in ("clusterip", "devices", "oslv", "router", "thesis") for one in paper(name).conclusions
    )
    assert good[0].startswith(f"Of {told} conclusions in 5 papers that can be put to the test, **")
    assert "**0 do not**" in good[0]
    assert good[0].endswith("1 of the papers' own open questions are answered.")
    assert "**0 still hold**" in bad[0]
    assert f"and {told} are open; 0 of" in none[0]
    (router,) = [line for line in good if "Quagga" in line]
    assert router.startswith(
        "- **These still hold**, the paper on the Quagga and strongSwan router: AES-GCM has the best"
    )
    assert "; run D)" in router
    (question,) = [line for line in good if line.startswith("- **Answered**")]
    assert "(yes, 1.0" in question
    assert any(line.startswith("- **These do not**, the thesis: ") for line in bad)


def test_one_run_that_contradicts_a_conclusion_is_enough() -> None:
    holds, fails = build(*made("crypto_matrix")), build(*made("crypto_matrix", False))
    (aes_gcm,) = [one for one in paper("router").conclusions if one.by == ["crypto_matrix/gcm-fastest"]]
    for reports, became in (([holds], "holds"), ([holds, fails], "does not hold"), ([], "open")):
        runs = {str(number): one for number, one in enumerate(reports)}
        assert outcome(aes_gcm, rows_of(runs)) == became


def test_a_conclusion_of_several_findings_holds_where_each_is_reproduced() -> None:
    (of_four,) = [one for one in paper("oslv").conclusions if "oslv/jitter" in one.by]
    rows = rows_of({"A": build(*made("oslv"))})
    assert outcome(of_four, rows) == "holds"
    less = [(run, row) for run, row in rows if row.id != "jitter"]
    assert outcome(of_four, less) == "open", "one of its findings was not measured"


def test_the_page_lists_every_sentence_of_the_conclusions() -> None:
    page = findings_text([build(*made("thesis"))])
    for name in published_papers():
        for one in paper(name).conclusions:
            assert page.count(f"| {escaped(f'{one.where}, {one.sentence}')} | ") >= 1, one
    assert "judged: thesis/tcp-udp reproduced (run A)" in page
    assert "answered: load/keeps-up-64 not in these runs" in page
    assert "left out: a plan of future work" in page


def escaped(text: str) -> str:
    return text.replace("&", "&amp;")


def test_published_ratios_are_drawn_against_measured_ones() -> None:
    rows = rows_of({"A": build(*made("thesis")), "B": build(*made("oslv"))})
    plot = published_against_measured(rows)
    points = {point["name"]: point for point in plot.spec["data"]["values"]}
    tun = points["thesis/ipsec-tun (A)"]
    assert tun["published"] == pytest.approx(165 / 95)
    assert float(tun["low"]) <= float(tun["value"]) <= float(tun["high"])
    assert "oslv/overhead (B)" in points
    assert "thesis/packed-ipsec-zeros (A)" not in points, "its number is in a figure only"
    assert f"{len(points)} findings" in plot.alt
    assert svg(plot.spec).startswith("<svg")
    assert svg(published_against_measured([]).spec).startswith("<svg"), "an empty one is a picture, too"


def test_the_committed_page_and_picture_are_those_of_the_committed_runs() -> None:
    """Made anew by the two commands on the page; ``results/papers/`` has the runs, each in a folder."""
    runs = sorted(path.parent for path in (ROOT / "results" / "papers").glob("*/run.json"))
    reports = [build(*load_run(run)) for run in runs]
    assert (ROOT / "docs" / "findings.md").read_text() == findings_text(reports)
    picture = svg(published_against_measured(rows_of({chr(65 + n): one for n, one in enumerate(reports)})).spec)
    assert (ROOT / "docs" / "findings.svg").read_text().rstrip() == picture.rstrip()
