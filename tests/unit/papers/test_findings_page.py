"""Findings as they are read: in a report of every form, and on the page that sets runs side by side."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Sequence

import pytest
from rich.console import Console

from runner.catalogue import load_experiment, load_vpn
from runner.data.store import load_run
from runner.data.trials import Run, Trial
from runner.papers import judges
from runner.papers.findings import Judgement
from runner.papers.judges import findings_of, run_for
from runner.papers.published import names as published_papers
from runner.papers.published import paper
from runner.report.forms.findings_page import findings_text, rows_of
from runner.report.forms.html import html_text
from runner.report.forms.markdown import markdown_text
from runner.report.forms.tables import json_text
from runner.report.forms.terminal import render
from runner.report.model import Report, build
from runner.report.papers.conclusions import GENERIC, LONGER_SEARCH, outcome
from runner.report.papers.findings import Findings, findings, needs, repetitions_made
from runner.report.plots.plots_findings import published_against_measured
from runner.report.plots.vega import svg
from tests.unit.findings_worlds import QUICK, ROOT, made
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
    assert "no (share)" in next(line for line in page.splitlines() if line.startswith("| AES-GCM forwards "))
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
    assert good[0].endswith("; of the papers' own open questions, 1 is answered.")
    assert "**1 still hold**" in bad[0], "that throughput depends on what changes it, in whichever direction"
    assert f"and {told} are open; of the papers' own open questions, 0 are answered." in none[0]
    (router,) = [line for line in good if "Quagga" in line and "hold**" in line]
    assert router.startswith(
        "- **These still hold**, the paper on the Quagga and strongSwan router: AES-GCM has the best"
    )
    assert "; run D)" in router
    (question,) = [line for line in good if line.startswith("- **Answered**")]
    assert "(yes, 1.0" in question
    assert any(line.startswith("- **These do not**, the thesis: ") for line in bad)
    assert none[-1] == "- **Time**: all runs together took 0 s."
    assert good[-1] == "- **Time**: all runs together took 27 min 30 s."


def test_what_is_open_is_named_with_the_reason_and_the_command_that_would_decide_it() -> None:
    none = opening(findings_text([]))
    open_ones = [line for line in none if line.startswith("- **Open**, ")]
    assert len(open_ones) == 5, "a line a paper"
    assert "highest throughput is that of SSH port forwarding with compression (not measured: `vpneval run " in none[-3]
    run, trials = made("crypto_matrix")
    few = [t for t in trials if t.params["packet_bytes"] == "64" and t.repetition < 2]
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
    (line,) = [line for line in opening(findings_text([build(run, swaying)])) if "Quagga" in line]
    assert "of all ciphers and hashes (undecided, " in line
    assert " repetitions would decide it, " in line
    assert "; by the command of run A, about " in line


def test_a_conclusion_that_does_not_hold_says_why() -> None:
    """What is known of the reason, and that a guest's ESP is generic C code where it decided, and only there."""
    run, trials = made("thesis", False)
    host = opening(findings_text([build(run, trials)]))
    (line,) = [line for line in host if line.startswith("- **These do not**, the thesis")]
    assert "; run A; SSH uses the CPU's instructions for AES)" in line
    assert GENERIC not in line
    guest = run.model_copy(update={"lab": {**run.lab, "guest": "uml"}})
    told = opening(findings_text([build(guest, trials)]))
    (line,) = [line for line in told if line.startswith("- **These do not**, the thesis")]
    assert f"; run A; SSH uses the CPU's instructions for AES; {GENERIC})" in line
    told = opening(findings_text([build(guest, made("thesis")[1])]))
    (holds,) = [line for line in told if line.startswith("- **These still hold**, the thesis")]
    assert "SSH uses" not in holds, "that is why it does not hold"
    emulated = run.model_copy(update={"lab": {**run.lab, "guest": "qemu"}})
    assert GENERIC not in findings_text([build(emulated, trials)]), "its kernel has the CPU's drivers"


def test_every_reason_is_of_a_finding() -> None:
    """And so is every command: a name that no finding has would never be told."""
    for experiment in (module.name for module in pkgutil.iter_modules(judges.__path__)):
        declared, known = vars(importlib.import_module(f"{judges.__name__}.{experiment}")), findings_of(experiment)
        named = {
            *declared.get("RUNS", {}),
            *declared.get("NO_RUN", {}),
            *(name for name, _ in declared.get("TODAY", {})),
        }
        assert named - {""} <= {one.id for one in known}


def test_a_conclusion_that_lower_bounds_leave_open_says_so_by_the_narrowest_interval() -> None:
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

    page = findings_text([build(run, bounded(9.0)), build(run, bounded(1.0))])
    (line,) = [line for line in opening(page) if line.startswith("- **Open**") and "Quagga" in line]
    assert f" in run B: {LONGER_SEARCH})" in line
    assert "(? " in line, "of both, a lower bound is known"


def test_repetitions_are_those_that_were_made() -> None:
    """A deadline leaves out some of those that were asked for; the time of the run was spent on the others."""
    run, trials = made("thesis")
    few = [t for t in trials if t.repetition < 2]
    asked = run.model_copy(update={"repetitions": 8})
    assert ". 2 of 8 repetitions, profile quick" in findings_text([build(asked, few)])
    assert ". 3 repetitions, profile quick" in findings_text([build(run, trials)]), "all of them"
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
    assert "within its rounds: A and B, B and C.\n" in findings_text(later)
    assert "at the same time" not in findings_text([later[0], later[2]])


def test_the_pages_commands_write_into_no_folder_of_another_machine() -> None:
    run, trials = made("thesis")
    (call,) = run.invocations
    told = call.model_copy(update={"command_line": ["vpneval", "run", "thesis", "--out", "some/where", "--quiet"]})
    page = findings_text([build(run.model_copy(update={"invocations": [told]}), trials)])
    assert "- **A**: `vpneval run thesis --quiet`, " in page


def test_what_is_computed_from_a_papers_table_is_not_printed_as_its_own_number() -> None:
    (row,) = [row for row in findings(*made("devices")).rows if row.id == "aes-256"]
    assert row.stated == "–"
    assert row.reason.endswith("the page prints no ratio: its table gives 0.874, computed here")


def test_what_nothing_here_measures_has_no_command() -> None:
    run, trials = made("devices")
    ha = load_experiment("ha_http").record([load_vpn("ipsec")], QUICK, {})
    lines = opening(findings_text([build(run.model_copy(update={"experiments": [*run.experiments, ha]}), trials)]))
    (line,) = [line for line in lines if "**Open**, the ClusterIP" in line]
    assert "than the passive one (the kernel's ESP runs in none of a gateway's processes, and a kernel " in line
    (line,) = [line for line in lines if "**Open**, the device" in line]
    assert "a kernel takes its fastest driver for everybody: compare `vpneval run crypto_matrix " in line


def test_the_opening_counts_what_the_interval_leaves_open_on_the_host_and_in_guests() -> None:
    run, trials = made("thesis")
    guest = run.model_copy(update={"lab": {**run.lab, "guest": "uml"}})
    one = [trial for trial in trials if trial.repetition == 0]
    host, inside, both = (
        opening(findings_text(reports))[-2]
        for reports in ([build(run, trials)], [build(guest, one)], [build(guest, one), build(run, trials)])
    )
    said = r"of (\d+) findings that runs on %s could decide, the interval leaves (\d+) open"
    own, guests = said % "this host's own kernel", said % "guest kernels"
    counts = [[tuple(map(int, re.findall(where, line)[0])) for where in (own, guests)] for line in (host, inside, both)]
    able = counts[0][0][0]
    assert able == sum(one.basis != "share" for one in findings_of("thesis")), "shares do not stand here"
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
    page = findings_text([shared])
    (line,) = [line for line in opening(page) if line.startswith("- **Open**, the OSLV paper")]
    said = "a share of a link stands only where the gateways are machines of their own: `vpneval run oslv --lab ssh:"
    assert f"in run A, but {said}" in line
    verdict = "reproduced" if holds else "not reproduced"
    assert f"oslv/best {verdict} (run A, where it does not stand)" in page


@pytest.mark.parametrize("name", ["none-excels", "best-three"])
def test_what_is_made_from_waiting_times_too_stands_on_machines_of_their_own_only(name: str) -> None:
    for report, stands in ((build(*made("oslv")), "no"), (on_machines_of_their_own("oslv"), "yes")):
        (row,) = [row for row in report.findings.rows if row.id == name]
        assert (row.basis, row.stands) == ("time", stands)


def test_the_best_three_are_run_where_vtun_is() -> None:
    """Of two images as a factor, the cells are other ones, and decide nothing."""
    assert "--image bookworm " in run_for("oslv", "best-three")
    assert "vtun" in run_for("oslv", "best-three")
    assert run_for("oslv", "best") == "oslv --lab ssh:testbed.toml", "that of the others"
    assert run_for("security", "all-four") == "security", "an experiment that needs no more than its name"


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
