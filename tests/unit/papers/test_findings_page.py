"""Findings as they are read: in a report of every form, and on the page that sets runs side by side."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import pytest
from rich.console import Console

from questions.papers.conclusions import decidable, outcome, put_to_the_test, sentence
from questions.papers.deciding import Runs
from questions.papers.findings import FindingRow, Findings, findings, needs, repetitions_made
from questions.papers.page import OLDER, by_letters, findings_in, findings_text, rows_of
from questions.papers.plot import published_against_measured
from runner.data.invocation import command
from runner.data.trials import Run, Trial
from runner.papers import judges
from runner.papers.findings import Judgement
from runner.papers.judges import finding as named
from runner.papers.published import Conclusion
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.tables import json_text
from runner.report.forms.terminal import render
from runner.report.model import Report
from runner.report.plots.vega import svg
from runner.report.text import roughly
from tests.unit.asking import by_the_command
from tests.unit.findings_worlds import made
from tests.unit.synthetic import make_trial
from tests.unit.whole_report import build


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


@cache
def report_of(name: str, holds: bool = True) -> Report:
    """Of that world. Made once for all tests, which do not change it."""
    return build(*made(name, holds))


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


def line_about(page: str, begins: str) -> list[str]:
    """The cells of the one row of a table that begins so."""
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {begins}")]
    return [cell.strip() for cell in line.split(" | ")]


def test_the_page_says_each_finding_once_by_all_runs() -> None:
    crypto, thesis = (report_of(name) for name in ("crypto_matrix", "thesis"))
    page = page_of(crypto, thesis, report_of("crypto_matrix", False))
    assert all(f"\n- {run}, synthetic: `" in page for run in "ABC")
    _, measured, verdict = line_about(page, "AES-GCM is the fastest (")
    assert measured.startswith("A, C: "), "of each run that has one"
    assert verdict.startswith("undecided: more repetitions do not make the runs agree; the runs differ: A ")
    assert "- **does not stand** on shared cores: crypto_matrix/share\n" in page


def test_a_finding_of_many_runs_is_one_line() -> None:
    _, measured, _ = line_about(page_of(*[report_of("thesis")] * 12), "IPsec is faster than SSH with a TUN")
    assert "A, B, C, D, E, F, G, H, I, J, K, L: " in measured


def test_runs_have_letters_beyond_the_26th() -> None:
    report = report_of("load")
    assert [*by_letters([report] * 28)][24:] == ["Y", "Z", "AA", "AB"]


def conclusion_cells(page: str, says: str) -> list[str]:
    """The cells of the line about a conclusion: it, then, now, why."""
    return line_about(page, f"*{sentence(says)}* (")


HIGH = "SSH port forwarding has as high a throughput as IPsec"
FASTEST = "AES-GCM has the best performance of all ciphers and hashes"
COSTLIEST = "encryption is the most costly factor"


def test_the_page_begins_with_a_line_for_each_conclusion() -> None:
    every = ("thesis", "oslv", "load", "crypto_matrix", "devices")
    pages = [page_of(*(report_of(name, holds) for name in every)) for holds in (True, False)]
    tested = put_to_the_test()
    for page in (*pages, page_of()):
        begin = page.splitlines()[: 6 + len(tested)]
        assert begin[0].startswith("# ")
        assert begin[4] == "| conclusion | then | now | why |"
        for name, conclusion in tested:
            (line,) = [line for line in begin if f"*{sentence(conclusion.says)}* ({name}, " in line]
            assert "**" in line
            assert line.count(" | ") == 3
    assert "SSH forwarding that compresses" not in page_of(), "nothing was measured, and nothing is told"
    good, bad = pages
    assert conclusion_cells(good, FASTEST)[2].startswith("**holds** ")
    assert conclusion_cells(bad, FASTEST)[2].startswith("**does not hold** ")
    assert conclusion_cells(good, HIGH)[1] == "1.02"
    assert conclusion_cells(good, HIGH)[2].startswith("**holds** ")
    assert "What IPsec leaves of IPIP's TCP throughput is … times what" in conclusion_cells(bad, COSTLIEST)[3]
    many = "does SSH port forwarding keep up with IPsec when many requests load the gateways?"
    assert conclusion_cells(good, many)[2].startswith("**answered** yes ")
    assert conclusion_cells(bad, many)[2].startswith("**answered** no ")
    assert f"Of their {len(tested)} conclusions and open questions" in good
    held, failed, answered, still_open, never = map(int, re.findall(r"(\d+) ", page_of().split("test, ")[1])[:5])
    assert (held, failed, answered) == (0, 0, 0)
    assert still_open + never == len(tested)


def test_what_is_open_is_named_with_the_command_that_would_decide_it_and_its_time() -> None:
    page = page_of(planned_s=20 * MINUTE)
    costliest = named("thesis/costliest").run
    assert costliest
    assert f"Not measured: `vpneval run {command(costliest)}`, about 20 min." in conclusion_cells(page, COSTLIEST)[3]


def test_an_interval_names_the_repetitions_that_would_decide_it(monkeypatch: pytest.MonkeyPatch) -> None:
    without_no_run(monkeypatch)
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
    argv = "vpneval run crypto_matrix --vpn ipsec --profile smallest --deadline 3m --reps 2 --out some/where --quiet"
    report = build(by_command(run, argv), swaying)
    (row,) = [row for row in findings_in(report).rows if row.id == "gcm-fastest"]
    assert row.repetitions
    assert row.repetitions > 2
    assert row.needed_s
    assert row.needed_s == pytest.approx(row.repetitions * report.elapsed_s / 2), "by the time that these took"
    longer = f"crypto_matrix --vpn ipsec --profile smallest --reps {row.repetitions}"
    told = f"Undecided: `vpneval run {longer}`, about {roughly(row.needed_s)}."
    assert told in conclusion_cells(page_of(report), FASTEST)[3]


def without_no_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a run could decide whether AES-GCM is the fastest."""
    able = [one.model_copy(update={"no_run": ""} if one.id == "gcm-fastest" else {}) for one in judges.every_finding()]
    monkeypatch.setattr(judges, "every_finding", lambda _papers=(): able)


def by_command(run: Run, argv: str) -> Run:
    (call,) = run.invocations
    return run.model_copy(
        update={"invocations": [call.model_copy(update={"asked": by_the_command(argv.removeprefix("vpneval run "))})]}
    )


def test_a_guest_takes_as_many_times_as_long_as_planned_as_the_runs_there_took() -> None:
    run, trials = made("load")
    guest = build(by_command(run, "vpneval run load --kernel uml"), trials)
    planned_s = guest.elapsed_s / len(trials) / 3  # a trial takes three times as long
    page = findings_text([guest], lambda _: (1, planned_s))
    assert f"about {roughly(3 * planned_s)}" in conclusion_cells(page, COSTLIEST)[3]
    assert "times 3.0 in a guest kernel" in page
    assert "`, about " not in findings_text([guest], lambda _: None), "nothing is planned, and nothing invented"


def test_the_page_says_which_guests_measured_what_calls_and_packets_cost() -> None:
    run, trials = made("load")
    costs = {"here": {"system_call_us": 12.0, "packet_us": 0.3}, "host": {"system_call_us": 0.15, "packet_us": 0.4}}
    twice = {**costs, "here": {"system_call_us": 24.0, "packet_us": 0.3}}
    old, new, dearer = (
        build(run.model_copy(update={"lab": {**run.lab, "guest": "uml", **more}}), trials)
        for more in ({}, {"calibration": costs}, {"calibration": twice})
    )
    both = page_of(old, new)
    assert "in guests (B): a system call costs 80 times as much as on the host, a packet 0.75 times." in both
    assert OLDER in both
    assert OLDER not in page_of(new)
    assert "in guests (A, B): a system call costs 80 to 160 times" in page_of(new, dearer)
    assert OLDER not in page_of(build(run, trials)), "no guest"


def test_a_conclusion_that_does_not_hold_says_why() -> None:
    told = conclusion_cells(
        page_of(report_of("thesis", False)), "for throughput without much concern for security Blowfish is best"
    )
    assert told[2].startswith("**does not hold** ")
    assert "The kernel's AES is faster than its Blowfish" in told[3] or "CPUs have instructions for AES now" in told[3]
    held = page_of(report_of("thesis"))
    assert "The kernel's AES is faster" not in held, "that is why it does not hold"


@pytest.mark.parametrize("runs", [1, 2])
def test_a_conclusion_that_lower_bounds_leave_open_says_so(monkeypatch: pytest.MonkeyPatch, runs: int) -> None:
    """By one run, and by two together."""
    without_no_run(monkeypatch)
    run, trials = made("crypto_matrix")
    ended = {"interval_bps": None, "confirmed_rate_bps": None}
    bounded = [
        t.model_copy(update={"measurements": [m.model_copy(update={"detail": ended}) for m in t.measurements]})
        for t in trials
    ]
    asked = by_command(run, "vpneval run crypto_matrix --vpn ipsec")
    page = page_of(*[build(asked, bounded)] * runs)
    told = conclusion_cells(page, FASTEST)[3]
    assert "searches for them go on longer: `vpneval run crypto_matrix " in told
    assert "--vpn ipsec --profile thesis`" in told
    assert line_about(page, "AES-GCM is the fastest (")[1].count(": ? ") == 1, "of both, a lower bound is known"


def test_repetitions_are_those_that_were_made() -> None:
    """A deadline leaves out some of those that were asked for; the time of the run was spent on the others."""
    run, trials = made("thesis")
    few = [t for t in trials if t.repetition < 2]
    asked = run.model_copy(update={"repetitions": 8})
    assert "` (2 of 8)\n" in page_of(build(asked, few))
    assert "` (3)\n" in page_of(build(run, trials)), "all of them"
    failed = [make_trial(t.vpn, t.params, 2, status="failed", reason="x") for t in trials]
    assert repetitions_made([*few, *failed]) == 2
    more = [t for t in trials if t.vpn == "ssh_tun"]
    assert repetitions_made([t for t in few if t.vpn != "ssh_tun"] + more, ["ssh_tun"]) == 3
    assert repetitions_made([]) == 0
    open_ = Judgement(verdict="undecided", reason="so", value=1.1, low=0.9, high=1.3, longer=2.0)
    assert needs(open_, asked, 2) == "about 4 repetitions would decide it, 11 min"


def test_the_page_names_the_runs_that_were_measured_at_the_same_time() -> None:
    """A run takes 5 min 30 s here: one that begins after 3 min takes CPU time from it, one after 6 min does not."""
    run, trials = made("load")
    later = [
        build(run.model_copy(update={"created_at": f"2026-01-01T00:{minute:02}:00+00:00"}), trials)
        for minute in (0, 3, 6)
    ]
    assert "if that was on one machine: A and B, B and C.\n" in page_of(*later)
    assert "at the same time" not in page_of(later[0], later[2])


def test_the_pages_commands_write_into_no_folder_of_another_machine() -> None:
    run, trials = made("thesis")
    page = page_of(build(by_command(run, "vpneval run thesis --out some/where --quiet"), trials))
    assert "\n- A, synthetic: `thesis` (" in page


def test_what_is_computed_from_a_papers_table_is_not_printed_as_its_own_number() -> None:
    (row,) = [row for row in findings(*made("devices")).rows if row.id == "aes-256"]
    assert row.stated_words == "–"
    assert row.reason.endswith("the page prints no ratio: its table gives 0.874, computed here")


def test_what_no_run_here_decides_says_what_it_needs() -> None:
    page = page_of()
    assert "side by side" in conclusion_cells(page, "the kernel's standard modules are far from optimised")[3]
    count = int(re.findall(r"Of the open ones, (\d+) need more than a host with its guest kernels", page)[0])
    conclusions = [one for _, one in put_to_the_test()]
    still_open = [one for one in conclusions if outcome(one, []) == "open"]
    assert count == sum(not decidable(one, [], Runs(lambda _: None)) for one in still_open)
    assert 0 < count < len(conclusions), "control: a host decides some of them"


def in_guest(run: Run) -> Run:
    return run.model_copy(update={"lab": {**run.lab, "guest": "uml"}})


def test_what_user_mode_linux_alone_has_measured_is_open_with_the_command_for_a_kernel_with_esp() -> None:
    """And has no number on the page; what a machine measured stands beside nothing of the guest's."""
    run, trials = made("thesis")
    guest = build(in_guest(run), trials)
    page = page_of(guest)
    effective = named("thesis/effective")
    says = paper_conclusion("thesis/effective").says
    _, _, now, why = conclusion_cells(page, says)
    assert now == "**open**"
    assert effective.run
    assert f"On a kernel with ESP: `vpneval run {command(effective.run)}`." in why
    assert effective.run.kernel == "qemu"
    assert "thesis/effective" in page.partition("- **no scale**: ")[2].partition("\n")[0]
    assert not decidable(paper_conclusion("thesis/effective"), rows_of({"A": guest}), Runs(lambda _: None))
    both = page_of(guest, build(run, trials))
    assert conclusion_cells(both, says)[2].startswith("**holds** ")
    measured = line_about(both, "IPsec and SSH forwarding are the effective ones of the four (")[1]
    assert measured.startswith("B: "), "the guest's number is left out"


def paper_conclusion(finding: str) -> Conclusion:
    (found,) = [one for _, one in put_to_the_test() if finding in one.by]
    return found


def on_machines_of_their_own(name: str, holds: bool = True) -> Report:
    run, trials = made(name, holds)
    return build(run.model_copy(update={"lab": {**run.lab, "nodes_share_cores": False}}), trials)


@pytest.mark.parametrize("holds", [True, False])
def test_a_verdict_that_does_not_stand_on_the_runs_machines_decides_no_conclusion(holds: bool) -> None:
    """That open-source VPNs perform poorly is judged by their share of a link, which shared cores can only lower: a
    share above half contradicts on any machine, and one below says nothing there."""
    poor = paper_conclusion("oslv/best")
    shared, apart = report_of("oslv", holds), on_machines_of_their_own("oslv", holds)
    became = "holds" if holds else "does not hold"
    assert outcome(poor, rows_of({"A": apart})) == became
    assert outcome(poor, rows_of({"A": shared})) == ("open" if holds else "does not hold")
    if holds:
        assert outcome(poor, rows_of({"A": shared, "B": apart})) == became
        told = conclusion_cells(page_of(shared), poor.says)[3]
        assert told.startswith("A share of a link stands only where hosts and gateways are machines of their own: ")
        assert "`vpneval run oslv --lab ssh:testbed.toml`" in told


@pytest.mark.parametrize("name", ["none-excels", "best-three"])
def test_what_is_made_from_waiting_times_too_stands_on_machines_of_their_own_only(name: str) -> None:
    for report, stands in ((report_of("oslv"), "no"), (on_machines_of_their_own("oslv"), "yes")):
        (row,) = [row for row in findings_in(report).rows if row.id == name]
        assert (row.basis, row.stands) == ("time", stands)


def rows(*verdicts: tuple[str, float]) -> list[tuple[str, FindingRow]]:
    """The findings of one conclusion: verdict and how likely it is shown wrongly."""
    of = {row.id: row for row in findings(*made("thesis")).rows}
    named = ("depends-technology", "depends-encryption", "depends-data")
    return [
        ("A", of[name].model_copy(update={"verdict": verdict, "chance": chance, "part": ""}))
        for name, (verdict, chance) in zip(named, verdicts, strict=False)
    ]


SURE, HARDLY = 1e-6, 0.04


@pytest.mark.parametrize(
    ("verdicts", "became"),
    [
        ([("reproduced", HARDLY)] * 3, "holds"),
        ([("reproduced", SURE)] * 2 + [("undecided", SURE)], "open"),
        ([("reproduced", SURE)] * 2, "open"),
        ([("undecided", SURE)] * 2 + [("not reproduced", HARDLY)], "open"),  # one of three is so by chance
        ([("undecided", SURE)] * 2 + [("not reproduced", SURE)], "does not hold"),
        ([("reproduced", SURE)] * 2 + [("not reproduced", SURE)], "does not hold"),
        ([], "open"),
    ],
)
def test_the_findings_of_a_conclusion_share_one_error(verdicts: list[tuple[str, float]], became: str) -> None:
    assert outcome(paper_conclusion("thesis/depends-data"), rows(*verdicts)) == became


def test_runs_that_disagree_are_said_to(monkeypatch: pytest.MonkeyPatch) -> None:
    without_no_run(monkeypatch)
    page = page_of(report_of("crypto_matrix"), report_of("crypto_matrix", False))
    told = conclusion_cells(page, FASTEST)
    assert told[2] == "**open**"
    assert told[3].startswith("Undecided, more repetitions do not make the runs agree: `vpneval run ")


def test_a_conclusion_of_several_findings_holds_where_each_is_reproduced() -> None:
    of_three = paper_conclusion("thesis/depends-data")
    every = rows_of({"A": report_of("thesis")})
    assert outcome(of_three, every) == "holds"
    less = [(run, row) for run, row in every if row.id != "depends-data"]
    assert outcome(of_three, less) == "open", "one of its findings was not measured"
    asked = paper_conclusion("thesis/gre_ipsec")
    assert outcome(asked, every) == "answered"
    assert outcome(asked, [item for item in every if item[1].id != "gre_ipsec"]) == "open", "one is not answered"


def test_the_committed_form_has_at_most_five_thousand_words() -> None:
    """Of as many runs as there are; the limit is the page's own."""
    many = [report_of(name) for name in ("thesis", "oslv", "load", "crypto_matrix", "devices")]
    assert len(page_of(*many).split()) < 5000


def test_what_no_run_can_decide_is_apart_from_what_is_open_and_may_still_be_refuted() -> None:
    """By the finding's nature, whatever was measured; or by an interval over members that leaves it undecided."""
    (udp,) = [one for _, one in put_to_the_test() if {"oslv/use", "oslv/overhead"} <= {*one.by}]
    never = paper_conclusion("ha_http/elapsed-500")
    assert outcome(udp, []) == "open"
    assert outcome(never, []) == "cannot be decided"
    (use,) = [row for row in findings(*made("oslv")).rows if row.id == "use"]
    told = {"value": 1.2, "low": 0.8, "high": 2.0, "stands": "yes", "members": True, "needs": "more members"}
    for told_so, became in (
        ({"verdict": "undecided"}, "cannot be decided"),
        ({"verdict": "undecided", "members": False}, "open"),
        ({"verdict": "not reproduced", "chance": 1e-9}, "does not hold"),
    ):
        rows = [("A", use.model_copy(update=told | told_so))]
        assert outcome(udp, rows) == became


def test_published_ratios_are_drawn_against_measured_ones() -> None:
    rows = rows_of({"A": report_of("thesis"), "B": report_of("oslv")})
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
