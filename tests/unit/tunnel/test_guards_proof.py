"""Guards of the proof before the measurement: a marker that proves nothing is refused.

Take a guard out, and its test fails.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import pytest

from runner.data.errors import MeasurementError, ProofError
from runner.data.levels import Params
from runner.data.trials import Evidence, Proof
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import bring_up
from runner.tunnel.proof import judge
from runner.vpn.recipe import NotedNode
from tests.unit.helpers import PaperLab
from vpns.none import PlainIp

KEPT = Proof(confidential_promised=True, delivered=True, marker_on_wan=False, sent_bytes=2048, captured_bytes=5000)
CLEAR = KEPT.model_copy(update={"confidential_promised": False, "marker_on_wan": True})


def test_proofs_that_hold() -> None:
    judge(KEPT, [False, False])
    judge(CLEAR, [True, True])


def test_marker_not_delivered() -> None:
    with pytest.raises(ProofError, match=r"did not come through the tunnel: timed out"):
        judge(KEPT.model_copy(update={"delivered": False}), [False, False], "timed out\n")


def test_capture_that_saw_less_than_was_sent() -> None:
    with pytest.raises(MeasurementError, match="saw 2047 of 2048 sent bytes"):
        judge(KEPT.model_copy(update={"captured_bytes": 2047}), [False, False])


def test_plaintext_on_the_wan() -> None:
    with pytest.raises(ProofError, match="plaintext on the WAN"):
        judge(KEPT.model_copy(update={"marker_on_wan": True}), [True, False])


@pytest.mark.parametrize("seen", [[False, False], [True, False], [False, True]])
def test_control_marker_not_seen_in_the_clear(seen: list[bool]) -> None:
    with pytest.raises(MeasurementError, match="missed a marker"):
        judge(CLEAR.model_copy(update={"marker_on_wan": any(seen)}), seen)


class NoEvidence(PlainIp):
    name = "no_evidence"

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        return Evidence(cipher="none")


def test_a_plugin_without_evidence_of_its_data_path() -> None:
    nodes = {name: NotedNode(name) for name in ("host1", "gw1", "wan", "gw2", "host2")}
    vpn = NoEvidence()
    with pytest.raises(ProofError, match="no evidence of the data path"):
        bring_up(cast(Lab, PaperLab(nodes)), vpn, vpn.comparable, {})
