"""What a trial tells beside its numbers: its words, and that an older trial's sentences are read as the same data."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.data.remarks import Remark, breakdown_remarks, of_older
from runner.data.store import read_trials
from runner.report.facts import warnings
from tests.unit.synthetic import CBC, TCP, make_trial

EVERY = {
    "the tunnel broke down under UDP, from 400 Mbit/s offered": breakdown_remarks("UDP", [9e8, 4e8])[0],
    "the tunnel broke down under packets, from 1234 packet/s offered": breakdown_remarks("packets", [1234], "packet/s")[
        0
    ],
    "noise: more than 1 % of the CPU time was stolen": Remark(kind="steal", value=0.01),
    "noise: more than 1 % of the CPU time of gw2, host1 was stolen": Remark(
        kind="steal", subject="gw2, host1", value=0.01
    ),
    "noise: the CPU of gw1 was throttled": Remark(kind="throttled", subject="gw1"),
    "noise: the CPU was throttled": Remark(kind="throttled"),
    "noise: no loaded core ran at even 50 % of its highest frequency": Remark(kind="slow clock", value=0.5),
    "no jitter: too few: 3": Remark(kind="no value", subject="jitter", why="too few: 3"),
}


@pytest.mark.parametrize("words", EVERY)
def test_a_remark_has_its_words_and_an_older_trials_words_are_the_remark(words: str) -> None:
    assert str(EVERY[words]) == words
    assert of_older("", [words]) == ([], [EVERY[words]])


def test_of_an_older_trial_what_no_code_reads_stays_a_sentence(tmp_path: Path) -> None:
    lost = "[host1] iperf3 exited with 1; the tunnel carries no payload any more: gone"
    again = f"begun again after 4 slices: {lost}"
    assert of_older(lost, [again, "ended after 3 slices: once"]) == (
        [again, "ended after 3 slices: once"],
        [Remark(kind="no payload"), Remark(kind="no payload")],
    )
    made = make_trial("openvpn", CBC | TCP, 1, {"tcp_throughput": 1e8})
    old = json.loads(made.model_dump_json()) | {"warnings": [*EVERY, "of a reader"]}
    del old["remarks"]
    new = made.model_copy(update={"id": "new", "remarks": [*EVERY.values()], "warnings": ["of a reader"]})
    (tmp_path / "trials.jsonl").write_text(f"{json.dumps(old)}\n{new.model_dump_json()}\n")
    older, newer = read_trials(tmp_path / "trials.jsonl")
    assert (older.remarks, older.warnings) == (newer.remarks, newer.warnings) == ([*EVERY.values()], ["of a reader"])


@pytest.mark.parametrize(
    ("rates_bps", "said"), [([4e5, 9e5], "from 0.4 Mbit/s"), ([7.6e6], "from 7.6 Mbit/s"), ([4e8], "from 400 Mbit/s")]
)
def test_a_breakdown_under_little_is_not_said_to_be_one_under_nothing(rates_bps: list[float], said: str) -> None:
    (remark,) = breakdown_remarks("UDP", rates_bps)
    assert str(remark) == f"the tunnel broke down under UDP, {said} offered"


def test_what_a_reason_says_is_no_warning_besides() -> None:
    trial = make_trial("openvpn", CBC | TCP, 1, status="unsupported", reason="the kernel has no TUN")
    assert trial.remarks == [Remark(kind="no kernel")]
    assert warnings([trial]) == []
    assert warnings([trial.model_copy(update={"remarks": [Remark(kind="throttled")]})]) == [
        "noise: the CPU was throttled (openvpn: 1 trial)"
    ]
