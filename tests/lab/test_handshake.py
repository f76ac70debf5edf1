"""Handshakes by real daemons: each key exchange as it was asked for, what it sends, and which paths it passes."""

from pathlib import Path

import pytest

from runner.catalogue import instruments, load_vpn
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, at_once
from runner.instruments.result import Measured
from runner.instruments.traffic import handshake
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import SITES, Lab, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, make_secrets, start_services, vpn_refusal
from runner.vpn.plugin import Vpn
from tests.lab.test_path import bench_of, kinds, toy

HYBRID, CLASSICAL, ALONE = ({"ike": level} for level in ("x25519-mlkem768", "aes256gcm16-prfsha384-x25519", "mlkem768"))


def tried(bench: Bench, vpn: Vpn, path: str, **levels: str) -> Measured:
    asked = Asked(
        vpn, {**vpn.recommended, **levels, "measure": "handshake", "path": path}, PROFILES["smallest"], seed=1
    )
    return at_once(instruments()["handshake"].measure(bench, asked))


def values(found: Measured) -> dict[str, float]:
    assert all(one.detail["control"] for one in found.measurements), found.attempt
    return {one.metric.removeprefix("handshake_"): one.value for one in found.measurements}


def brought_up(image: Image, logs: Path, vpn: Vpn, **levels: str) -> Tunnel:
    with namespace_lab(image, logs=logs) as lab:
        if no := vpn_refusal(lab, vpn, {**vpn.recommended, **levels}):
            pytest.skip(f"{vpn.name}: {no.reason}")
        start_services(lab)
        secrets = make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), SITES)
        return bring_up(lab, vpn, {**vpn.recommended, **levels}, secrets)


@pytest.mark.parametrize(
    ("name", "level"),
    [
        (name, level)
        for name in ("openvpn", "stunnel_forward", "ssh_forward", "ssh_tun", "openconnect_tls")
        for level in load_vpn(name).offers.key_exchanges
    ],
)
def test_what_was_asked_for_is_what_the_daemons_tell(image: Image, tmp_path: Path, name: str, level: str) -> None:
    vpn = load_vpn(name)
    tunnel = brought_up(image, tmp_path, vpn, key_exchange=level)
    assert tunnel.evidence.key_exchange == vpn.offers.key_exchanges[level]


@pytest.mark.parametrize("level", ["x25519-mlkem768", "ecp384-mlkem1024", "mlkem768"])
def test_strongswan_of_2026_agrees_on_ml_kem(image: Image, tmp_path: Path, level: str) -> None:
    tunnel = brought_up(image, tmp_path, load_vpn("ipsec_user@6.1"), ike=level)
    assert "ML_KEM" in tunnel.evidence.key_exchange
    assert "6.1" in tunnel.evidence.version


def test_debians_strongswan_says_what_it_lacks(lab: Lab) -> None:
    vpn = load_vpn("ipsec_user")
    no = vpn_refusal(lab, vpn, {**vpn.recommended, **HYBRID})
    assert no is not None
    assert "no ML_KEM_768 among its key exchanges" in no.reason
    assert vpn_refusal(lab, vpn, {**vpn.recommended, **CLASSICAL}) is None


def test_a_toy_whose_packets_are_long(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends 1354 bytes for anything, and lets them be fragmented."""
    vpn = toy()
    with bench_of(image, vpn, tmp_path) as bench:
        clear, narrow = (values(tried(bench, vpn, path)) for path in list(handshake.PATHS)[:2])
        monkeypatch.setattr(handshake, "UP_WITHIN_S", 3.0)
        dropped = values(tried(bench, vpn, list(handshake.PATHS)[2]))
    assert clear["passes"] == narrow["passes"] == 1
    assert clear["bytes"] == 1354 * clear["packets"]
    assert (clear["fragments"], narrow["fragments"] >= 2 * narrow["packets"]) == (0, True)
    assert dropped == {"passes": 0}, "nothing else is known of a handshake that did not come to an end"


def test_a_second_handshake_is_not_taken_for_up_by_the_words_of_the_first(image: Image, tmp_path: Path) -> None:
    vpn = load_vpn("openvpn")
    with bench_of(image, vpn, tmp_path) as bench:
        clear = [values(tried(bench, vpn, "clear", key_exchange=level)) for level in vpn.offers.key_exchanges]
    classical, hybrid = clear
    assert classical["packets"] > 8
    assert hybrid["bytes"] - classical["bytes"] > 1184, "the encapsulation key and the ciphertext of ML-KEM-768"


def test_a_path_that_does_nothing_says_nothing(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "NO_FRAGMENTS", handshake.NO_FRAGMENTS.replace(" drop", ""))
    monkeypatch.setattr(handshake, "LOSSY", handshake.LOSSY.replace(" drop", "").replace("< {per_10000}", "< 1"))
    with bench_of(image, toy(), tmp_path) as bench:
        for path in ("fragments_dropped", "loss_0.05"):
            found = tried(bench, toy(), path)
            assert {told["kind"] for told in found.attempt["inconclusive"].values()} == {"no_control"}


def test_ike_with_ml_kem_passes_where_fragments_are_dropped_and_alone_it_does_not(image: Image, tmp_path: Path) -> None:
    vpn = load_vpn("ipsec_user@6.1")
    with namespace_lab(image, logs=tmp_path) as lab:
        if no := vpn_refusal(lab, vpn, {**vpn.recommended, **HYBRID}):
            pytest.skip(no.reason)
    with bench_of(image, vpn, tmp_path) as bench:
        clear, hybrid = (values(tried(bench, vpn, path, **HYBRID)) for path in ("clear", "fragments_dropped"))
        alone_clear, alone = (values(tried(bench, vpn, path, **ALONE)) for path in ("clear", "fragments_dropped"))
    assert clear["passes"] == hybrid["passes"] == alone_clear["passes"] == 1
    assert hybrid["fragments"] == 0
    assert alone == {"passes": 0}


def test_packets_are_lost_on_the_way_and_handshakes_still_end(image: Image, tmp_path: Path) -> None:
    vpn = load_vpn("ssh_tun")
    with bench_of(image, vpn, tmp_path) as bench:
        found = tried(bench, vpn, "loss_0.05", key_exchange="curve25519-sha256")
    assert set(kinds(found)) >= {"handshake_passes"}
    assert len(found.measurements[0].detail["numbers"]["each"]) == handshake.PATHS["loss_0.05"].handshakes
