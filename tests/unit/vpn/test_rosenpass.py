"""Evidence of WireGuard with Rosenpass: that keys were agreed on with every peer, and that WireGuard has them."""

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import ProofError
from tests.unit.helpers import GW1, GW2, Answers, captured
from vpns.wireguard_rosenpass import peers_with_key

# As rosenpass 0.2.2 writes it, with other peers' names.
SAID = """\
[2026-11-21T22:58:55Z INFO  rosenpass::app_server] Exchanged key with peer 4pX2Ki+zV1dDLqQm0UQ5k8kV7f8m2rFr1sVbQf0c3aE=
[2026-11-21T23:00:56Z INFO  rosenpass::app_server] Exchanged key with peer 4pX2Ki+zV1dDLqQm0UQ5k8kV7f8m2rFr1sVbQf0c3aE=
"""
SHOWN = {
    "ip -d link show wg0": captured("wireguard_go-trixie-link.txt"),
    "wireguard-go --version": "wireguard-go v0.0.20230223\n",
    "rosenpass --version": "rosenpass 0.2.2\n",
}
KEYED, BARE = {"wg show wg0 preshared-keys": "PEER\tKEY\n"}, {"wg show wg0 preshared-keys": "PEER\t(none)\n"}
VPN = load_vpn("wireguard_rosenpass")


def test_one_peer_however_often_its_key_was_renewed() -> None:
    assert len(peers_with_key(Answers(logs={"rosenpass": SAID}))) == 1
    assert not peers_with_key(Answers())


def test_evidence_names_both_daemons() -> None:
    found = VPN.evidence(Answers(SHOWN | KEYED, {"rosenpass": SAID}), GW1, [GW2], VPN.comparable)
    assert found.data_path == "userspace: wireguard-go on TUN"
    assert found.version == "wireguard-go v0.0.20230223, rosenpass 0.2.2"


def test_no_exchange_is_no_evidence() -> None:
    with pytest.raises(ProofError, match="keys with 0 of 1 peers"):
        VPN.evidence(Answers(SHOWN | KEYED), GW1, [GW2], VPN.comparable)


def test_wireguard_without_a_pre_shared_key_is_no_evidence() -> None:
    with pytest.raises(ProofError, match="without a pre-shared key"):
        VPN.evidence(Answers(SHOWN | BARE, {"rosenpass": SAID}), GW1, [GW2], VPN.comparable)


def test_it_is_up_with_a_key_and_a_handshake() -> None:
    handshake = {"wg show wg0 latest-handshakes": "PEER\t1763766000\n"}
    assert VPN.is_up(Answers(handshake, {"rosenpass": SAID}), GW1, [GW2])
    assert not VPN.is_up(Answers(handshake), GW1, [GW2])
    assert not VPN.is_up(Answers({"wg show wg0 latest-handshakes": "PEER\t0\n"}, {"rosenpass": SAID}), GW1, [GW2])
