"""The choice of a run between a user's own two gateways, on a path that no plain IP takes."""

from collections.abc import Sequence
from typing import Any

import pytest

from questions.choose import words as choice_words
from questions.choose.judgement import choice
from runner.data.needs import Needs
from runner.data.trials import Run, Trial
from tests.unit.choice.runs import chosen_run

PATH: dict[str, Any] = {"mtu_bytes": 1400, "rtt_ms": [0.04, 0.05, 0.06], "nat": "a NAT"}


def between_sites(needs: Needs) -> tuple[Run, Sequence[Trial]]:
    """A made-up run, as a site lab has it: plain IP is unsupported there."""
    run, trials = chosen_run(needs=needs)
    run = run.model_copy(update={"lab": run.lab | {"kind": "site", "path": PATH}})
    return run, [trial for trial in trials if trial.vpn != "none"]


@pytest.mark.parametrize("line_bps", [5e7, 1e8, 7e8, 3e9, 1e10])
def test_each_vpn_carries_the_line_or_does_not(line_bps: float) -> None:
    made = choice(*between_sites(Needs(line_bps=line_bps, traffic="files")))
    assert made
    assert made.answer
    assert {candidate.carries for candidate in made.answer.candidates} <= {"yes", "no"}
    assert "depends" not in " ".join(choice_words.why_not(made.answer))
    elsewhere = choice(*chosen_run(needs=Needs(line_bps=1e10, traffic="files")))
    assert elsewhere
    assert elsewhere.answer
    assert "depends" in {candidate.carries for candidate in elsewhere.answer.candidates}, "the positive control"


def test_a_vpn_is_named_though_plain_ip_does_not_pass() -> None:
    made = choice(*between_sites(Needs(line_bps=1e8)))
    assert made
    assert made.answer
    assert made.answer.named, choice_words.why_not(made.answer)
    run, trials = between_sites(Needs(line_bps=1e8))
    nothing = choice(run.model_copy(update={"lab": run.lab | {"kind": "ssh"}}), trials)
    assert nothing
    assert nothing.answer
    assert not nothing.answer.named, "the positive control: elsewhere, nobody knows what plain IP would do"


def test_what_was_seen_on_the_path_is_said() -> None:
    seen = ("line_bps", "path_rtt_ms", "path_mtu_bytes", "nat")
    must = ("networks", "nat", "maintained")
    needs = Needs(line_bps=1e8, path_rtt_ms=12.3, path_mtu_bytes=1400, must=must, seen=seen)
    said = choice_words.seen_needs(needs)
    assert said == (
        "Seen on the path: 100 Mbit/s each way, in one TCP connection within --max-rate; a round trip of 12.3 ms; "
        "packets of up to 1400 bytes; a NAT."
    )
    assert choice_words.seen_needs(needs.model_copy(update={"seen": ()})) == ""
