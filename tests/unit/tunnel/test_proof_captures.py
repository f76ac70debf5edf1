"""A capture that lost frames proves nothing, and is repeated; a marker that it saw is a leak all the same."""

from collections.abc import Iterator
from typing import Any, cast

import pytest

from runner.data.errors import MeasurementError, ProofError
from runner.data.trials import Proof
from runner.lab.shape.site_to_site import Lab
from runner.tunnel import proof as proofs

LAB = cast("Lab", None)  # nothing is sent


def capture(*, lost: int, seen: bool = False) -> tuple[Proof, list[dict[str, Any]], str]:
    proof = Proof(confidential_promised=True, delivered=True, marker_on_wan=seen, sent_bytes=2048, captured_bytes=4000)
    return proof, [{"lost": lost, "seen": [seen, seen], "where": [None, None]}], ""


@pytest.fixture
def captures(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Proof, list[dict[str, Any]], str]]:
    """What the next captures find, one after the other."""
    coming: list[tuple[Proof, list[dict[str, Any]], str]] = []
    found: Iterator[tuple[Proof, list[dict[str, Any]], str]] = iter(coming)
    monkeypatch.setattr(proofs, "send_marker", lambda lab, address, confidential: next(found))
    return coming


def test_the_next_capture_proves_what_the_first_could_not(captures: list[Any]) -> None:
    captures += [capture(lost=101), capture(lost=0)]
    assert proofs.prove(LAB, "10.2.0.2", confidential=True) is captures[1][0]


def test_three_captures_that_lost_frames_prove_nothing(captures: list[Any]) -> None:
    captures += [capture(lost=7), capture(lost=8), capture(lost=9)]
    with pytest.raises(MeasurementError, match="3 times, at last 9 of them"):
        proofs.prove(LAB, "10.2.0.2", confidential=True)


def test_plaintext_in_a_capture_that_lost_frames_is_plaintext(captures: list[Any]) -> None:
    captures += [capture(lost=101, seen=True), capture(lost=0)]
    with pytest.raises(ProofError, match="plaintext on the WAN"):
        proofs.prove(LAB, "10.2.0.2", confidential=True)
