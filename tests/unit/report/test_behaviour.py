"""The section on how VPNs behave on a path: a cell for each VPN and verdict, which opens into counts and control."""

from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import instruments, load_run
from runner.data.trials import Trial
from runner.design.blocks import Table, TableCell
from runner.instruments.path.verdict import Judging
from runner.report.behaviour import WORDS, Behaviour, behaviours, section, words
from tests.tools.behaviour import BEGIN, END, PAGE, with_table
from tests.tools.behaviour import table as made_table
from tests.unit.synthetic import make_run, make_trial

LOST: dict[str, Any] = {
    "kind": "lost",
    "numbers": {"sent": 200, "delivered": 133, "delivered_twice": 0},
    "control": {"sent": 200, "delivered_twice": 200},
}


def judged(vpn: str, metric: str, detail: dict[str, Any], repetition: int = 1) -> Trial:
    trial = make_trial(vpn, {"measure": "repeats"}, repetition, {metric: 1.0})
    return trial.model_copy(update={"measurements": [trial.measurements[0].model_copy(update={"detail": detail})]})


def unsure(vpn: str, metric: str, kind: str) -> Trial:
    told = {"inconclusive": {metric: {"kind": kind, "reason": "3 of 200 arrived twice"}}}
    return make_trial(vpn, {"measure": "repeats"}, 1, {}).model_copy(update={"attempt": told})


def table(*trials: Trial) -> Table:
    (found,) = [block for block in section(behaviours(trials)) if isinstance(block, Table)]
    return found


def test_a_cell_opens_evidence_and_control() -> None:
    once = {**LOST, "kind": "once"}
    found = table(judged("nebula", "duplicates_borne", LOST), judged("fastd", "duplicates_borne", once))
    assert found.head == ["VPN", "duplicates"]
    (_, fastd), (name, nebula) = found.rows
    assert name == "nebula"
    assert isinstance(nebula, TableCell)
    assert isinstance(fastd, TableCell)
    assert (nebula.words, nebula.tone, fastd.tone) == ("133 of 200 arrive", "bad", "good")
    assert [note.words for note in nebula.opens] == [
        "sent 200, delivered 133, delivered twice 0",
        "sent 200, delivered twice 200",
    ]


def test_what_is_inconclusive_is_no_verdict() -> None:
    ((_, cell),) = table(unsure("fastd", "duplicates_borne", "no_control")).rows
    assert isinstance(cell, TableCell)
    assert (cell.words, cell.tone) == ("inconclusive: the control failed", "warn")
    assert [note.words for note in cell.opens] == ["3 of 200 arrived twice"]


def test_repetitions_that_differ_show() -> None:
    ((_, cell),) = table(
        judged("nebula", "duplicates_borne", LOST), judged("nebula", "duplicates_borne", {**LOST, "kind": "once"}, 2)
    ).rows
    assert isinstance(cell, TableCell)
    assert (cell.words, cell.tone) == ("133 of 200 arrive (1 of 2); each arrives once (1 of 2)", "warn")


def test_tries_that_differ_are_counted_over_all_repetitions() -> None:
    once = {**LOST, "kind": "once"}
    trials = [judged("n2n", "duplicates_borne", {**once, "alike": k, "tries": 8}, n) for n, k in enumerate((7, 8))]
    ((_, cell),) = table(*trials).rows
    assert isinstance(cell, TableCell)
    assert (cell.words, cell.tone) == ("each arrives once (15 of 16)", "warn")


def test_a_trial_of_before_counts_as_one_try() -> None:
    once = {**LOST, "kind": "once"}
    trials = [
        judged("n2n", "duplicates_borne", LOST),
        judged("n2n", "duplicates_borne", {**once, "alike": 3, "tries": 3}),
    ]
    ((_, cell),) = table(*trials).rows
    assert isinstance(cell, TableCell)
    assert cell.words == "each arrives once (3 of 4); 133 of 200 arrive (1 of 4)"


def test_what_lives_by_chance_has_the_counts_of_all_repetitions() -> None:
    numbers = {"smallest": 1492, "at": 1400, "tries": 8, "cause": "df_of_single"}
    trials = [
        judged("x", "black_hole_mtu", {"kind": "chance", "numbers": numbers | {"passed": passed}}, repetition)
        for repetition, passed in enumerate((2, 3))
    ]
    ((_, cell),) = table(*trials).rows
    assert isinstance(cell, TableCell)
    assert (cell.words, cell.tone) == ("passes 1492 bytes; 1400 bytes in 5 of 16 tries", "warn")
    assert any(note.lead == "Cause:" for note in cell.opens)


def test_a_kind_without_words_is_shown_as_it_is() -> None:
    assert words(Behaviour(vpn="x", metric="duplicates_borne", repetition=1, kind="thrice")) == "thrice"


def test_each_metric_of_a_probe_has_words() -> None:
    judging = [one for one in instruments().values() if isinstance(one, Judging)]
    of_paths = [one for one in judging if type(one).__module__.startswith("runner.instruments.path.")]
    assert {metric.name for one in of_paths for metric in one.metrics} <= WORDS.keys()
    assert {metric.name for one in judging for metric in one.metrics} >= WORDS.keys()


def test_a_run_without_paths_has_no_section() -> None:
    assert section(behaviours([make_trial("fastd", {"measure": "tcp"}, 1, {"tcp_throughput": 1e9})])) == []


def test_another_level_is_a_row_of_its_own() -> None:
    copied = judged("openvpn", "congestion_heard", {"kind": "lost", "numbers": {}, "control": {}})
    copied = copied.model_copy(update={"params": {"cipher": "null", "measure": "marks", "marks": "copied"}})
    own = judged("openvpn", "congestion_heard", {"kind": "not_copied", "numbers": {}, "control": {}})
    assert [[str(getattr(cell, "words", cell)) for cell in row] for row in table(own, copied).rows] == [
        ["openvpn", "not copied: routers drop"],
        ["openvpn, marks copied", "copied, and CE is lost"],
    ]


def test_the_mtu_to_set_is_named() -> None:
    numbers = {"smallest": 1492, "mtu_to_set": {"path": 1280, "inside": 1228}}
    said = words(Behaviour(vpn="x", metric="black_hole_mtu", repetition=1, kind="some", numbers=numbers))
    assert said.endswith(", MTU to set: 1228")


COMMITTED = PAGE.parents[1] / "results" / "behaviour"


@pytest.mark.skipif(not COMMITTED.exists(), reason="no run is committed yet")
def test_the_page_has_the_committed_run() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert with_table(page, made_table(COMMITTED)) == page, "python -m tests.tools.behaviour results/behaviour"
    _, trials = load_run(COMMITTED)
    assert not [each for each in behaviours(trials) if not each.kind], "inconclusive"


def test_the_table_of_a_page_groups_the_vpns(tmp_path: Path) -> None:
    vpns = ("nebula", "fastd", "tinc")
    trials = [judged(vpn, "duplicates_borne", {**LOST, "kind": "once" if vpn == "tinc" else "lost"}) for vpn in vpns]
    trials += [judged(vpn, "burst_loss_borne", {**LOST, "kind": "exact"}, 2) for vpn in vpns[:2]]
    (tmp_path / "run.json").write_text(make_run(vpns).model_dump_json())
    (tmp_path / "trials.jsonl").write_text("".join(trial.model_dump_json() + "\n" for trial in trials))
    page = with_table(f"before\n{BEGIN}old\n{END}after\n", made_table(tmp_path))
    assert "| duplicates | each arrives once: tinc; 133 of 200 arrive: the others |" in page
    assert "| loss in bursts | all others arrive: fastd, nebula |" in page, "tinc has no verdict there"
    assert page.startswith("before\n")
    assert page.endswith("after\n")
    assert "old" not in page
