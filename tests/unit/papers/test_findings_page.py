"""Findings as they are read: in a report of every form, and on the page that sets runs side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest
from rich.console import Console

from runner.data.trials import Run, Trial
from runner.papers.findings import Judgement
from runner.papers.judges import crypto_matrix, findings_of, run_for
from runner.papers.judges.thesis import TODAY
from runner.papers.published import names as published_papers
from runner.papers.published import paper
from runner.report.forms.findings_page import findings_text, lettered, rows_of, shortened
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.tables import json_text
from runner.report.forms.terminal import render
from runner.report.model import Report, build
from runner.report.papers.conclusions import GENERIC, decidable, outcome, put_to_the_test, sentence
from runner.report.papers.deciding import Runs
from runner.report.papers.findings import Findings, findings, needs, repetitions_made
from runner.report.plots.plots_findings import published_against_measured
from runner.report.plots.vega import svg
from runner.report.text import roughly
from tests.unit.findings_worlds import made
from tests.unit.synthetic import make_trial


def rendered(run: Run, trials: Sequence[Trial]) -> dict[str, str]:
    report = build(run, trials)
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    render(report, console, full=True)
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
        assert "AES-256 costs ssh speed against AES-128" in words, form
        assert "none (kernel)" not in words, "ssh and its OpenSSL run in user space"
        assert "reproduced" in words, form
        assert "Made-up CPU @ 2.0 GHz" in words, form


def test_a_run_without_findings_has_no_section() -> None:
    run, trials = made("load")
    bare = run.model_copy(update={"experiments": [run.experiments[0].model_copy(update={"name": "gone"})]})
    assert findings(bare, trials) == Findings()
    for form, text in rendered(bare, [t.model_copy(update={"experiments": []}) for t in trials]).items():
        assert "Reproduced:" not in text, form


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


MINUTE = 60.0


def page_of(*reports: Report, planned_s: float = MINUTE) -> str:
    """The page of these runs, where every command is planned to take so long."""
    return findings_text(reports, lambda _: (6, planned_s))


def test_the_page_shows_runs_side_by_side_and_says_what_stands() -> None:
    crypto, thesis = (build(*made(name)) for name in ("crypto_matrix", "thesis"))
    page = page_of(crypto, thesis, build(*made("crypto_matrix", False)))
    assert all(f"\n| {run} | " in page for run in "ABC")
    (line,) = [line for line in page.splitlines() if line.startswith("| AES-GCM is the fastest (")]
    _, _, about, published, measured, verdict, *_ = line.split("| ")
    assert about.strip() == "the packet rate with AES-128-GCM is … times that with another cipher"
    assert published.strip() == "–"
    assert [number.partition(": ")[0] for number in measured.split("; ")] == ["A", "C"], "of each run that has one"
    assert verdict.strip() == "reproduced (A), not reproduced (C) · ratio"
    (counted,) = [line for line in page.splitlines() if "| the packet rate on the WAN doubles at 1500 bytes" in line]
    assert " · count |" in counted
    (share,) = [line for line in page.splitlines() if line.startswith("| AES-GCM forwards ")]
    assert "| incomparable, does not stand · share |" in share


def test_a_finding_with_more_numbers_than_a_cell_holds_has_several_rows() -> None:
    many = [build(*made("thesis"))] * 12
    lines = page_of(*many).splitlines()
    (at,) = [number for number, line in enumerate(lines) if line.startswith("| IPsec is faster than SSH with a TUN")]
    again = lines[at + 1 : at + 1 + [line.startswith("|  |") for line in lines[at + 1 :]].index(False)]
    assert again, "control: they do not fit"
    together = "; ".join(line.split("|")[4].strip() for line in (lines[at], *again))
    assert [number.partition(": ")[0] for number in together.split("; ")] == list("ABCDEFGHIJKL")


def test_runs_have_letters_beyond_the_26th() -> None:
    report = build(*made("load"))
    assert [*lettered([report] * 28)][24:] == ["Y", "Z", "AA", "AB"]


def opening(page: str) -> list[str]:
    head, _, _ = page.partition("![")
    return [line for line in head.splitlines()[1:] if line]


def line_of(page: str, begins: str, title: str) -> str:
    """The line of the opening with this outcome and paper."""
    (line,) = [line for line in opening(page) if line.startswith(f"- **{begins}**, [") and f"{title}]" in line]
    return line


def test_the_page_opens_with_what_holds_and_what_does_not_in_twenty_lines() -> None:
    names = ("thesis", "oslv", "load", "crypto_matrix", "devices")
    good = page_of(*(build(*made(name)) for name in names))
    bad = page_of(*(build(*made(name, False)) for name in names))
    none = page_of()
    for page in (good, bad, none):
        first = page.splitlines()[:20]
        assert first[0].startswith("# ")
        assert {line for line in opening(page) if line.startswith("- ")} <= {*first}
    told = sum(bool(one.by) for name in published_papers() for one in paper(name).conclusions)
    assert f"Of their {told} conclusions and open questions that can be put to the test, **" in opening(good)[0]
    assert "**0 do not**, 2 are answered, and " in opening(good)[0]
    assert "**1 hold**" in opening(bad)[0], "that throughput depends on what changes it, in whichever direction"
    assert f"**0 hold**, **0 do not**, 0 are answered, and **{told} are open**" in opening(none)[0]
    held = line_of(good, "These hold", "Quagga and strongSwan router")
    assert held.endswith(": *AES-GCM has the best performance of all ciphers and hashes.*")
    assert "* Yes. SSH port forwarding carries 1.0" in line_of(good, "Answered", "the thesis")
    assert "*Encryption is the most costly factor.* What IPsec leaves of IPIP's TCP throughput is " in line_of(
        bad, "These do not", "the thesis"
    )


def test_every_link_of_the_opening_leads_to_a_section() -> None:
    page = page_of()
    sections = {
        heading.removeprefix("## ").lower().replace(" ", "-") for heading in page.splitlines() if heading[:3] == "## "
    }
    links = {link for line in opening(page) for link in re.findall(r"\]\(#([^)]*)\)", line)}
    assert len(links) == len(published_papers())
    assert links <= sections


def test_what_is_open_is_named_with_the_command_that_would_decide_it_and_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(crypto_matrix.NO_RUN, "gcm-fastest")
    none = page_of(planned_s=20 * MINUTE)
    assert len([line for line in opening(none) if line.startswith("- **Open**, ")]) == 5, "a line a paper"
    thesis = run_for("thesis", "effective")
    assert f"Not measured: `vpneval run {thesis}` takes about 20 min." in line_of(none, "Open", "the thesis")
    run, trials = made("crypto_matrix")
    few = [t for t in trials if t.params["packet_bytes"] == "46" and t.repetition < 2]
    swaying = [
        make_trial(
            t.vpn,
            t.params,
            t.repetition,
            {
                m.metric: m.value * (1 + 0.8 * t.repetition * (t.params["cipher"] == "aes-128-gcm"))
                for m in t.measurements
            },
        )
        for t in few
    ]
    (call,) = run.invocations
    argv = "vpneval run crypto_matrix --vpn ipsec --profile smallest --deadline 3m --reps 2 --out some/where --quiet"
    asked = run.model_copy(update={"invocations": [call.model_copy(update={"command_line": argv.split()})]})
    report = build(asked, swaying)
    (row,) = [row for row in report.findings.rows if row.id == "gcm-fastest"]
    assert row.repetitions
    assert row.repetitions > 2
    assert row.needed_s
    assert row.needed_s == pytest.approx(row.repetitions * report.elapsed_s / 2), "by the time that these took"
    longer = f"crypto_matrix --vpn ipsec --profile smallest --reps {row.repetitions}"
    told = f"Undecided: `vpneval run {longer}` takes about {roughly(row.needed_s)}."
    assert told in line_of(page_of(report), "Open", "router")


def test_a_guest_takes_as_many_times_as_long_as_planned_as_the_runs_there_took() -> None:
    run, trials = made("load")
    (call,) = run.invocations
    argv = ["vpneval", "run", "load", "--kernel", "uml"]
    guest = build(run.model_copy(update={"invocations": [call.model_copy(update={"command_line": argv})]}), trials)
    made_of_it = len(trials)
    planned_s = guest.elapsed_s / made_of_it / 3  # a trial takes three times as long
    page = findings_text([guest], lambda _: (1, planned_s))
    assert f"about {roughly(3 * planned_s)}" in line_of(page, "Open", "the thesis")
    assert "times 3.0 in a guest kernel" in page
    assert findings_text([guest], lambda _: None).count(" takes about ") == 0, (
        "nothing is planned, and nothing invented"
    )


def test_a_conclusion_that_does_not_hold_says_why() -> None:
    """What is known of the reason, and that a guest's ESP is generic C code where it decided, and only there."""
    run, trials = made("thesis", False)
    generic = f" {sentence(GENERIC)}"
    told = line_of(page_of(build(run, trials)), "These do not", "the thesis")
    blowfish = sentence(TODAY["blowfish-128-cbc", "ipsec against aes"])
    assert blowfish in told
    assert generic not in told
    guest = run.model_copy(update={"lab": {**run.lab, "guest": "uml"}})
    told = line_of(page_of(build(guest, trials)), "These do not", "the thesis")
    assert f" {blowfish}{generic}" in told
    assert blowfish not in page_of(build(guest, made("thesis")[1])), "that is why it does not hold"
    emulated = run.model_copy(update={"lab": {**run.lab, "guest": "qemu"}})
    assert generic not in page_of(build(emulated, trials)), "its kernel has the CPU's drivers"


def test_a_conclusion_that_lower_bounds_leave_open_says_so_by_the_narrowest_interval(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(crypto_matrix.NO_RUN, "gcm-fastest")
    run, trials = made("crypto_matrix")
    ended = {"interval_bps": None, "confirmed_rate_bps": None}

    def bounded(spread: float) -> list[Trial]:
        """Each search ended early; the repetitions of AES-GCM are apart by this factor."""
        found = []
        for t in trials:
            by = spread**t.repetition if t.params["cipher"] == "aes-128-gcm" else 1.0
            measured = [m.model_copy(update={"detail": ended, "value": m.value * by}) for m in t.measurements]
            found.append(t.model_copy(update={"measurements": measured}))
        return found

    (call,) = run.invocations
    argvs = [["vpneval", "run", "crypto_matrix", "--vpn", vpn] for vpn in ("ipsec,ipsec_user", "ipsec")]
    asked = [run.model_copy(update={"invocations": [call.model_copy(update={"command_line": argv})]}) for argv in argvs]
    page = page_of(build(asked[0], bounded(9.0)), build(asked[1], bounded(1.0)))
    told = line_of(page, "Open", "router")
    assert "searches for them go on longer: `vpneval run crypto_matrix --vpn ipsec --profile thesis`" in told
    (line,) = [line for line in page.splitlines() if line.startswith("| AES-GCM is the fastest (")]
    assert line.count(": ? ") == 2, "of both, a lower bound is known"


def test_repetitions_are_those_that_were_made() -> None:
    """A deadline leaves out some of those that were asked for; the time of the run was spent on the others."""
    run, trials = made("thesis")
    few = [t for t in trials if t.repetition < 2]
    asked = run.model_copy(update={"repetitions": 8})
    assert " | 2 of 8 | host |" in page_of(build(asked, few))
    assert " | 3 | host |" in page_of(build(run, trials)), "all of them"
    failed = [make_trial(t.vpn, t.params, 2, status="failed", reason="x") for t in trials]
    assert repetitions_made([*few, *failed]) == 2
    more = [t for t in trials if t.vpn == "ssh_tun"]
    assert repetitions_made([t for t in few if t.vpn != "ssh_tun"] + more, ["ssh_tun"]) == 3
    assert repetitions_made([]) == 0
    open_ = Judgement(verdict="undecided", reason="so", value=1.1, low=0.9, high=1.3, longer=2.0)
    assert needs(open_, asked, 2).startswith("about 4 repetitions would decide it, 11 min (this run: 2, 5 min 30 s")


def test_the_page_names_the_runs_that_were_measured_at_the_same_time() -> None:
    """A run takes 5 min 30 s here: one that begins after 3 min takes CPU time from it, one after 6 min does not."""
    run, trials = made("load")
    later = [
        build(run.model_copy(update={"created_at": f"2026-01-01T00:{minute:02}:00+00:00"}), trials)
        for minute in (0, 3, 6)
    ]
    assert "within its rounds: A and B, B and C.\n" in page_of(*later)
    assert "at the same time" not in page_of(later[0], later[2])


def test_the_pages_commands_write_into_no_folder_of_another_machine() -> None:
    run, trials = made("thesis")
    (call,) = run.invocations
    told = call.model_copy(update={"command_line": ["vpneval", "run", "thesis", "--out", "some/where", "--quiet"]})
    page = page_of(build(run.model_copy(update={"invocations": [told]}), trials))
    assert "\n| A | thesis | " in page


def test_what_is_computed_from_a_papers_table_is_not_printed_as_its_own_number() -> None:
    (row,) = [row for row in findings(*made("devices")).rows if row.id == "aes-256"]
    assert row.stated == "–"
    assert row.reason.endswith("the page prints no ratio: its table gives 0.874, computed here")


def test_what_no_run_here_decides_says_what_it_needs() -> None:
    page = page_of()
    assert "side by side" in line_of(page, "Open", "the device page")
    count = int(re.findall(r"Of the open ones, (\d+) cannot be decided by a host with its guest kernels", page)[0])
    conclusions = [one for _, one in put_to_the_test()]
    assert count == sum(not decidable(one, [], Runs(lambda _: None)) for one in conclusions)
    assert 0 < count < len(conclusions) / 2, "control: a host decides most of them"


def test_the_page_counts_what_the_interval_leaves_open_on_the_host_and_in_guests() -> None:
    run, trials = made("thesis")
    guest = run.model_copy(update={"lab": {**run.lab, "guest": "uml"}})
    one = [trial for trial in trials if trial.repetition == 0]
    pages = [
        page_of(*reports)
        for reports in ([build(run, trials)], [build(guest, one)], [build(guest, one), build(run, trials)])
    ]
    said = r"of (\d+) findings? that runs on %s could decide, the interval leaves (\d+) undecided"
    own, guests = said % "this host's own kernel", said % "guest kernels"
    counts = [[tuple(map(int, re.findall(where, page, re.IGNORECASE)[0])) for where in (own, guests)] for page in pages]
    able = counts[0][0][0]
    decidable = [one for one in findings_of("thesis") if one.basis != "share" and one.id != "integrity"]
    assert able == len(decidable), "shares do not stand here, and the world has one integrity"
    assert counts[0] == [(able, 0), (0, 0)]
    assert counts[1] == [(0, 0), (able - 2, able - 2)], "of one repetition, spread and order have no number at all"
    assert counts[2] == [(able, 0), (able - 2, able - 2)], "each by itself"


def on_machines_of_their_own(name: str, holds: bool = True) -> Report:
    run, trials = made(name, holds)
    return build(run.model_copy(update={"lab": {**run.lab, "nodes_share_cores": False}}), trials)


@pytest.mark.parametrize("holds", [True, False])
def test_a_verdict_that_does_not_stand_on_the_runs_machines_decides_no_conclusion(holds: bool) -> None:
    """That open-source VPNs perform poorly is judged by their share of a link, for which the generators' CPU counts."""
    (poor,) = [one for one in paper("oslv").conclusions if "oslv/best" in one.by]
    shared, apart = build(*made("oslv", holds)), on_machines_of_their_own("oslv", holds)
    assert outcome(poor, rows_of({"A": apart})) == ("holds" if holds else "does not hold")
    assert outcome(poor, rows_of({"A": shared})) == "open"
    assert outcome(poor, rows_of({"A": shared, "B": apart})) == ("holds" if holds else "does not hold")
    told = line_of(page_of(shared), "Open", "the OSLV paper")
    said = (
        "A share of a link stands only where hosts and gateways are machines of their own: `vpneval run oslv --lab ssh:"
    )
    assert f"* {said}" in told


@pytest.mark.parametrize("name", ["none-excels", "best-three"])
def test_what_is_made_from_waiting_times_too_stands_on_machines_of_their_own_only(name: str) -> None:
    for report, stands in ((build(*made("oslv")), "no"), (on_machines_of_their_own("oslv"), "yes")):
        (row,) = [row for row in report.findings.rows if row.id == name]
        assert (row.basis, row.stands) == ("time", stands)


def test_one_run_that_contradicts_a_conclusion_is_enough() -> None:
    holds, fails = build(*made("crypto_matrix")), build(*made("crypto_matrix", False))
    (aes_gcm,) = [one for one in paper("router").conclusions if one.by == ["crypto_matrix/gcm-fastest"]]
    for reports, became in (([holds], "holds"), ([holds, fails], "does not hold"), ([], "open")):
        runs = {str(number): one for number, one in enumerate(reports)}
        assert outcome(aes_gcm, rows_of(runs)) == became


def test_a_conclusion_of_several_findings_holds_where_each_is_reproduced() -> None:
    (of_four,) = [one for one in paper("oslv").conclusions if "oslv/jitter" in one.by]
    rows = rows_of({"A": on_machines_of_their_own("oslv")})
    assert outcome(of_four, rows) == "holds"
    less = [(run, row) for run, row in rows if row.id != "jitter"]
    assert outcome(of_four, less) == "open", "one of its findings was not measured"


def test_the_page_lists_every_conclusion_with_its_outcome_and_counts_what_is_left_out() -> None:
    lines = page_of(build(*made("thesis"))).splitlines()
    for name in published_papers():
        for one in paper(name).conclusions:
            told = [line for line in lines if f"*{sentence(one.says)}* ({one.where}, {one.sentence}) By " in line]
            assert len(told) == bool(one.by), one
    (closest,) = [line for line in lines if "(§6.1, 13) By thesis/tcp-udp." in line]
    assert closest.startswith("- **holds**: *TCP or UDP makes no significant difference to throughput.* ")
    assert "UDP throughput is 0.93 (0.9" in closest
    thesis = paper("thesis").conclusions
    left_out = sum(not one.by for one in thesis)
    assert any(line.startswith(f"Of {len(thesis)} concluding sentences {left_out} are left out: ") for line in lines)


@pytest.mark.parametrize(
    ("reason", "short"),
    [
        (
            "openvpn: the interval does not lie above 1 (a: undecided 1 (0–2); b: unmeasured) (20 MB)",
            "openvpn: the interval does not lie above 1 (20 MB)",
        ),
        ("ipsec has no rtt at a, b: not in this run; ipsec has no rtt at a, c: not in this run", "not in this run"),
        ("open: nobody asks", "nobody asks"),
        (
            "a: it is known from above only: so, which does not decide whether it lies above 1",
            "such a bound does not decide it",
        ),
        ("a (b)", "a (b)"),
    ],
)
def test_a_reason_is_shortened_to_its_deciding_part(reason: str, short: str) -> None:
    assert shortened(reason) == short


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
