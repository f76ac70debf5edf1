"""What a user is told of cells that cannot be measured here, and which of the levels that were asked for are lost."""

from runner.data.trials import Cell
from runner.sweep.supported import lost_levels, sentences_on

CELLS = [
    Cell(vpn=vpn, params={"cipher": "x", "wan_loss_ratio": loss, "packet_bytes": size})
    for vpn in ("none", "openvpn", "wireguard")
    for loss in ("0", "0.001")
    for size in ("64", "512")
]
NETEM = "no netem: add --set wan_rate_bps=1"


def test_a_level_that_nobody_has_is_named_with_its_reason() -> None:
    refused = [(cell, NETEM) for cell in CELLS if cell.params["wan_loss_ratio"] == "0.001"]
    (sentence,) = sentences_on(refused, CELLS)
    assert "6 of 12 cells" in sentence
    assert "with wan_loss_ratio=0.001: no netem: add --set wan_rate_bps=1." in sentence
    assert "packet_bytes" not in sentence, "both sizes can be had at the other level"
    chosen = {"wan_loss_ratio": ["0", "0.001"], "packet_bytes": ["64"]}
    assert lost_levels(chosen, CELLS, {cell.key for cell, _ in refused}) == ["wan_loss_ratio=0.001"]


def test_a_vpn_that_cannot_run_at_all_loses_no_level() -> None:
    refused = [(cell, "no kernel module") for cell in CELLS if cell.vpn == "wireguard"]
    assert sentences_on(refused, CELLS) == ["This machine cannot run: wireguard. Why: vpneval doctor"]
    assert not lost_levels({"wan_loss_ratio": ["0", "0.001"]}, CELLS, {cell.key for cell, _ in refused})


def test_plain_ip_alone_holds_no_level() -> None:
    refused = {cell.key for cell in CELLS if cell.vpn != "none" and cell.params["packet_bytes"] == "64"}
    assert lost_levels({"packet_bytes": ["64", "512"]}, CELLS, refused) == ["packet_bytes=64"]


def test_each_reason_has_its_sentence() -> None:
    refused = [(CELLS[0], "a"), (CELLS[1], "b"), (CELLS[2], "a")]
    assert [sentence.rpartition(": ")[2] for sentence in sentences_on(refused, CELLS)] == ["a.", "b."]
    assert not sentences_on([], CELLS)
