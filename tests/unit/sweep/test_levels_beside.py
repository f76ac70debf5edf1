"""Drivers, IKE proposals, slower gateways, rekeys by the clock: what is asked for, what is refused, and how."""

from pathlib import Path
from typing import cast

import pytest

from runner.catalogue import load_experiment, load_vpn, parse_levels, vpn_names
from runner.data.errors import UsageError
from runner.data.trials import Cell
from runner.design.profile import PROFILES
from runner.instruments.traffic.rekey import Rekey, no_rekey
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import Lab
from runner.sweep import cpu_quota, crypto_driver, supported
from runner.sweep.cpu_quota import quota
from runner.sweep.crypto_driver import driver_kind, kernel_drivers
from runner.sweep.plan import Planned, expected_trial_s
from runner.vpn.plugin import level_refusal
from tests.unit.helpers import GW1, GW2, Answers, captured, named_secrets
from vpns._esp import IKE, WITH_ML_KEM  # noqa: PLC2701  (the underscore says: no plugin)

AESNI = "\nname         : cbc(aes)\ndriver       : cbc-aes-aesni\npriority     : 400\ninternal     : no\n"


def test_the_kernel_takes_the_driver_of_the_highest_priority() -> None:
    plain = captured("proc-crypto.txt")
    assert kernel_drivers(plain, "cbc(aes)") == ["cbc(ecb(aes-fixed-time))"]
    assert kernel_drivers(plain + AESNI, "cbc(aes)") == ["cbc-aes-aesni", "cbc(ecb(aes-fixed-time))"]
    assert kernel_drivers(plain, "no(such)") == []


@pytest.mark.parametrize(
    ("driver", "kind"),
    [
        ("cbc(ecb(aes-fixed-time))", "generic"),
        ("rfc4106(gcm_base(ctr(aes-generic),ghash-generic))", "generic"),
        ("rfc4106-gcm-vaes-avx10_512", "accelerated"),
        ("rfc7539esp(chacha20-simd,poly1305-simd)", "accelerated"),
        ("cbc-aes-ce", "accelerated"),
    ],
)
def test_drivers_are_told_apart_by_their_names(driver: str, kind: str) -> None:
    assert driver_kind(driver) == kind


def rendered(name: str, more: dict[str, str]) -> str:
    vpn = load_vpn(name)
    params = {**vpn.comparable, **more}
    return "\n".join(vpn.render(GW1, [GW2], params, named_secrets(vpn, (GW1, GW2))).values())


def test_what_is_asked_for_is_in_the_files() -> None:
    for name, option in (("openvpn", "reneg-sec 6"), ("ssh_tun", "RekeyLimit default 6"), ("tinc", "KeyExpire = 6")):
        assert option in rendered(name, Rekey().asks({"rekey": "clock"}))
        assert option.split()[0] not in rendered(name, Rekey().asks({"rekey": "esp"}))
    assert "aesni { load = no }" in rendered("ipsec_user", {"driver": "generic"})
    assert "aesni" not in rendered("ipsec_user", {"driver": "accelerated"})
    for proposal in IKE:
        words = WITH_ML_KEM.get(proposal, proposal)
        assert f"proposals = {words}\n" in rendered("ipsec", {"ike": proposal})
    assert "proposals = aes128-sha256-ecp256\n" in rendered("ipsec", {})


@pytest.mark.parametrize(
    ("name", "level", "option"),
    [
        ("openvpn", "X25519MLKEM768", "tls-groups X25519MLKEM768\n"),
        ("stunnel_forward", "X25519", "curves = X25519\n"),
        ("ssh_tun", "sntrup761x25519-sha512", "KexAlgorithms sntrup761x25519-sha512\n"),
    ],
)
def test_a_key_exchange_is_in_the_files_of_who_is_asked_for_it(name: str, level: str, option: str) -> None:
    assert option in rendered(name, {"key_exchange": level})
    assert option not in rendered(name, {})


@pytest.mark.parametrize(
    ("name", "levels", "words"),
    [
        ("openvpn", {"ike": "x25519-mlkem768"}, "does not offer ike x25519-mlkem768 (asked: ike x25519-mlkem768; "),
        ("openvpn", {"key_exchange": "curve25519-sha256"}, "offered: X25519, X25519MLKEM768)"),
        ("wireguard_go", {"key_exchange": "X25519"}, "offered: no choice)"),
        ("openconnect_tls", {"key_exchange": "X25519MLKEM768"}, "ML-KEM is for TLS 1.3"),
        ("stunnel_forward", {"key_exchange": "X25519MLKEM768"}, "stunnel 5.74"),
        ("ipsec_ikev1", {"ike": "x25519-mlkem768"}, "offered: aes128-sha256-ecp256, "),
    ],
)
def test_who_cannot_agree_on_keys_so_says_what_there_is(name: str, levels: dict[str, str], words: str) -> None:
    vpn = load_vpn(name)
    no = level_refusal(vpn, {**vpn.recommended, **levels})
    assert no is not None
    assert words in no.reason


def test_each_vpn_makes_the_handshakes_that_it_offers() -> None:
    def levels(name: str) -> set[str]:
        cells = load_experiment("handshake").cells(load_vpn(name), PROFILES["quick"], {})
        return {cell.params.get("ike", cell.params.get("key_exchange", "")) for cell in cells}

    assert levels("openvpn") == {"X25519", "X25519MLKEM768"}
    assert levels("ipsec_user@6.1") > {"x25519-mlkem768", "mlkem768"}
    assert levels("wireguard_go") == {""}


def test_who_cannot_renew_keys_so_is_told_what_there_is() -> None:
    wireguard = load_vpn("wireguard_go")
    assert "no command that asks for new keys (esp)" in no_rekey(wireguard, "esp")
    assert no_rekey(wireguard, "clock").endswith("(--set rekey=protocol measures what it has)")
    assert "--set" not in no_rekey(load_vpn("nebula"), "esp")


def ways(name: str, profile: str, levels: dict[str, list[str]] | None = None) -> set[tuple[str, str]]:
    cells = load_experiment("rekey").cells(load_vpn(name), PROFILES[profile], levels or {})
    return {(cell.params["rekey"], cell.params.get("ike", "")) for cell in cells}


def test_every_vpn_renews_its_keys_in_its_own_way() -> None:
    assert ways("openvpn", "quick") == {("clock", "")}
    assert ways("ipsec", "quick") == {("esp", ""), ("ike", ""), ("ike", "aes128-sha256-modp4096")}
    assert ways("wireguard", "quick") == {("esp", "")}, "two minutes are too long for it; it says what there is"
    assert ways("wireguard", "quick", {"rekey": ["protocol"]}) == ways("wireguard", "thesis") == {("protocol", "")}
    for name in vpn_names():
        assert ways(name, "quick")


def test_who_names_a_kind_of_rekey_changes_no_other_experiment() -> None:
    oslv, openvpn, named = load_experiment("oslv"), load_vpn("openvpn"), {"rekey": ["protocol"]}
    assert oslv.cells(openvpn, PROFILES["quick"], named) == oslv.cells(openvpn, PROFILES["quick"], {})


def test_an_instrument_says_itself_that_openssl_encrypts() -> None:
    plain, levels = load_vpn("none"), {"device_cipher": "aes-128-gcm", "cipher": "none"}
    assert crypto_driver.by_openssl(plain, levels | {"measure": "device"})
    assert not crypto_driver.by_openssl(plain, levels | {"measure": "tcp"})


def test_a_rekey_by_the_clock_is_expected_to_take_its_time() -> None:
    def expected_s(way: str) -> float:
        cell = Cell(vpn="openvpn", params={"measure": "rekey", "rekey": way})
        return expected_trial_s(Planned(cell, 1), PROFILES["quick"])

    assert expected_s("esp") < expected_s("clock") < 30 < expected_s("protocol")


def test_without_a_hierarchy_of_the_cpu_there_is_no_quota(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_quota, "GROUPS", tmp_path)
    assert "no control group hierarchy" in cpu_quota.no_quota()
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("")
    left = tmp_path / "vpneval.7.quota.x"  # which no process holds
    left.mkdir()
    with quota({"gw2_cpu": "0.5"}):
        assert (tmp_path / "cgroup.subtree_control").read_text() == "+cpu"
        assert not left.exists(), "what a killed run left is removed"
        (group,) = tmp_path.glob("vpneval.*")
        assert group.is_dir()
        files = {file.name: file.read_text() for file in group.iterdir()}
        for name in files:  # the kernel's go with their group
            (group / name).unlink()
    assert files == {"cpu.cfs_period_us": "20000", "cpu.cfs_quota_us": "10000"}
    assert not group.exists()


def test_who_names_a_driver_gets_it_in_any_experiment() -> None:
    chosen = {"driver": ["accelerated", "generic"]}
    cells = load_experiment("transport").cells(load_vpn("openvpn"), PROFILES["quick"], chosen)
    plain = load_experiment("transport").cells(load_vpn("openvpn"), PROFILES["quick"], {})
    assert len(cells) == 2 * len(plain)
    assert {cell.params["driver"] for cell in cells} == {"accelerated", "generic"}
    baseline = load_experiment("transport").cells(load_vpn("none"), PROFILES["quick"], chosen)
    assert not any("driver" in cell.params for cell in baseline)
    matrix = load_experiment("crypto_matrix").cells(load_vpn("ipsec_user"), PROFILES["quick"], {"driver": ["generic"]})
    assert len({cell.key for cell in matrix}) == len(matrix), "each once"
    assert {cell.params["driver"] for cell in matrix} == {"generic"}


@pytest.mark.parametrize(
    ("fast", "slow", "refusal"), [(10e9, 2e9, ""), (2.1e9, 2e9, "only one driver of aes-128-cbc on this machine")]
)
def test_a_driver_is_one_where_it_is_faster(
    monkeypatch: pytest.MonkeyPatch, fast: float, slow: float, refusal: str
) -> None:
    monkeypatch.setattr(crypto_driver, "_SPEEDS", {("aes-128-cbc", False): fast, ("aes-128-cbc", True): slow})
    words = refused("openvpn", "netns", Answers())
    assert bool(words) is bool(refusal)
    assert refusal in words


def test_what_refuses_a_driver_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crypto_driver, "_SPEEDS", {})
    assert "does not change the environment" in refused("openvpn", "vagrant", Answers())
    no_number = Answers({"openssl speed": "speed: unknown\n"})
    assert "printed nothing that vpneval can read" in refused("openvpn", "netns", no_number)
    assert "offers no choice of crypto drivers" in refused("wireguard_go", "netns", Answers())
    proc = Answers({"cat /proc/crypto": captured("proc-crypto.txt")})
    assert "is cbc(ecb(aes-fixed-time)), which is generic" in refused("ipsec", "netns", proc)
    assert refused("ipsec", "netns", proc, driver="generic") == ""
    both = Answers({"cat /proc/crypto": captured("proc-crypto.txt") + AESNI})
    words = refused("ipsec", "netns", both, driver="generic")
    assert "it has cbc(ecb(aes-fixed-time)), and takes it for nobody" in words


class OneGateway:
    """A lab as far as it is asked here."""

    def __init__(self, kind: str, node: Answers) -> None:
        self.kind, self.sites, self.node = kind, (GW1, GW2), node

    def gateway(self, site: Site) -> Answers:
        return self.node


def refused(name: str, kind: str, node: Answers, driver: str = "accelerated") -> str:
    vpn = load_vpn(name)
    params = {**vpn.comparable, "measure": "tcp", "driver": driver}
    no = supported.level_refusal(cast(Lab, OneGateway(kind, node)), vpn, params)
    return no.reason if no else ""


def test_a_gateway_gets_any_share_of_a_core() -> None:
    assert parse_levels("gw2_cpu=0.443,gw2_cpu=1") == {"gw2_cpu": ["0.443", "1"]}
    with pytest.raises(UsageError, match=r"gw2_cpu takes a number from 0\.01 to 1, not '0'"):
        parse_levels("gw2_cpu=0")
