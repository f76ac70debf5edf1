"""What the papers' experiments are made of: their group, their cells, and what their instruments compute."""

import pytest

from runner.catalogue import GROUPS, expand, load_experiment, load_vpn, parse_levels
from runner.data.errors import MeasurementError, UsageError
from runner.design.profile import PROFILES
from runner.instruments.traffic.flows import jain
from runner.instruments.traffic.rekey import throughput_loss, too_slow
from tests.unit.helpers import Answers, captured
from vpns._esp import RARE, daemon_esp, no_ml_kem, offers, spis  # noqa: PLC2701  (the underscore says: no plugin)

CBC = {"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"}


def test_papers_is_a_group_of_experiments() -> None:
    assert expand(["papers"]) == list(GROUPS["papers"])
    assert expand(["load", "papers", "load"])[0] == "load"
    assert len(expand(["load", "papers"])) == len(GROUPS["papers"])
    for name in GROUPS["papers"]:
        assert load_experiment(name).name == name
    with pytest.raises(UsageError, match="unknown experiment 'paper'; did you mean papers"):
        expand(["paper"])


def combinations(profile: str, vpn: str = "ipsec_user", levels: str = "") -> set[tuple[str, str]]:
    cells = load_experiment("crypto_matrix").cells(load_vpn(vpn), PROFILES[profile], parse_levels(levels))
    return {(cell.params["cipher"], cell.params["integrity"]) for cell in cells}


def test_the_crypto_matrix_is_whole_in_the_long_profile_and_a_star_in_the_quick_one() -> None:
    whole, star = combinations("thesis"), combinations("quick")
    assert star < whole
    assert {integrity for cipher, integrity in star if cipher == "aes-128-cbc"} == {
        integrity for cipher, integrity in whole if cipher == "aes-128-cbc"
    }
    assert {integrity for cipher, integrity in star if cipher == "3des-cbc"} == {"hmac-sha256"}
    assert {("aes-128-ccm", "aead"), ("cast-128-cbc", "aes-xcbc"), ("null", "hmac-md5")} <= whole
    assert not any(integrity == "aead" for cipher, integrity in whole if cipher.endswith(("cbc", "ctr", "null")))


def test_who_names_tunnels_gets_those() -> None:
    assert combinations("quick", levels="cipher=camellia-256-cbc,integrity=aes-cmac") == {
        ("camellia-256-cbc", "aes-cmac")
    }


def test_who_names_an_integrity_gets_the_thesis_one_parameter_at_a_time_with_it() -> None:
    thesis, openvpn = load_experiment("thesis"), load_vpn("openvpn")
    usual = [cell.params for cell in thesis.cells(openvpn, PROFILES["quick"], {})]
    levels = parse_levels("integrity=hmac-sha1,integrity=hmac-sha256")
    named = [cell.params for cell in thesis.cells(openvpn, PROFILES["quick"], levels)]
    assert [params for params in named if params["integrity"] == "hmac-sha256"] == usual
    assert [params | {"integrity": "hmac-sha256"} for params in named if params["integrity"] == "hmac-sha1"] == usual


def test_every_vpn_has_its_own_levels_in_oslv() -> None:
    for name in ("openvpn", "wireguard_go", "ipsec"):
        vpn = load_vpn(name)
        cells = load_experiment("oslv").cells(vpn, PROFILES["quick"], {})
        streams = [cell.params for cell in cells if cell.params["measure"] == "tcp"]
        bare = [p for p in streams if p["integrity"] == "none"]
        assert [(p["cipher"], p["direction"], "gw2_cpu" in p) for p in bare] == [("null", "forward", True)] * (
            name == "openvpn"
        ), "the stream without cryptography, to the slow gateway"
        assert {(p["cipher"], p["integrity"]) for p in streams if p not in bare} == {
            (vpn.comparable["cipher"], vpn.comparable["integrity"])
        }
        assert {p["wan_rate_bps"] for p in streams} == {"100000000"}


def test_what_strongswan_offers() -> None:
    found = offers(captured("swanctl-list-algs.txt"))
    assert {"AES_CBC", "CAST_CBC", "CAMELLIA_CBC", "NULL", "AES_XCBC_96", "AES_CCM_16", "HMAC_MD5_96"} <= found
    assert "NULL_AES_GMAC" not in found
    assert "HASH_MD5" not in found, "a hasher is no integrity of ESP"


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ("ke:\n  ECP_384[openssl]\n  ML_KEM_768[openssl]\n", ""),
        ("ke:\n  CURVE_25519[openssl]\n", "strongSwan has no ML_KEM_768"),
        ("dh:\n  ECP_256[openssl]\n", "strongSwan has no ML_KEM_768"),  # before 6.0
    ],
)
def test_the_daemon_is_asked_for_ml_kem(listed: str, words: str) -> None:
    node = Files(CHARON | {"swanctl --list-algs": listed, "swanctl --load-conns": ""})
    no = no_ml_kem(node, CBC | {"ike": "x25519-mlkem768"})
    assert bool(no) is bool(words)
    assert (no.reason if no else "").startswith(words)
    assert no_ml_kem(Files({}), CBC | {"ike": "aes256-sha384-ecp384"}) is None, "nobody is asked"


GMAC = CBC | {"cipher": "aes-128-gmac", "integrity": "aead"}
CHARON = {"test -S /run/charon.vici": ""}
KERNEL_TAKES = {"ip xfrm state add": "", "ip xfrm state del": ""}
LISTED = {"swanctl --list-algs": captured("swanctl-list-algs.txt")}


class Files(Answers):
    """Takes any file."""

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        self.ran.append(f"write {path}: {text}")


REFUSED = {
    "swanctl --load-conns": "loaded connection 'aes-128-ctr'\nloading connection 'aes-128-gmac' failed: no way\n"
}
LOADED = {"swanctl --load-conns": "loaded connection 'aes-128-gmac'\n", "swanctl --list-algs": ""}


def refusal(answers: dict[str, str], kernel: bool) -> str:
    no = daemon_esp(Files(CHARON | answers), GMAC, kernel=kernel)
    return no.reason if no else ""


def test_what_the_kernel_takes_and_the_daemon_refuses_is_told_apart() -> None:
    assert refusal(KERNEL_TAKES | LISTED | LOADED, kernel=True) == ""
    in_userspace = refusal(KERNEL_TAKES | LISTED | REFUSED, kernel=False)
    assert in_userspace.startswith("the kernel takes aes-128-gmac, strongSwan does not: no NULL_AES_GMAC among")
    assert refusal(LISTED | REFUSED, kernel=False).startswith("neither strongSwan nor the kernel has it")
    assert refusal(LISTED | REFUSED, kernel=True).startswith("neither strongSwan nor the kernel has it")
    words = refusal(KERNEL_TAKES | LISTED | REFUSED, kernel=True)
    assert words == "the kernel takes aes-128-gmac, strongSwan does not: no way"
    assert refusal(LISTED | LOADED, kernel=True).startswith("strongSwan takes aes-128-gmac, the kernel does not")


def test_a_daemon_is_asked_once() -> None:
    node = Files(CHARON | KERNEL_TAKES | LISTED | LOADED)
    for _ in range(2):
        assert daemon_esp(node, GMAC, kernel=True) is None
    assert sum(command.startswith("swanctl --list-algs") for command in node.ran) == 1
    assert all(level in "".join(node.ran) for level in RARE), "every level beyond the usual ones is asked for"


def test_the_usual_levels_ask_no_daemon() -> None:
    node = Files(KERNEL_TAKES)
    assert daemon_esp(node, CBC, kernel=True) is None
    assert not any("swanctl" in command or "charon" in command for command in node.ran)


def test_spis() -> None:
    raw = captured("ipsec_user-trixie-aes-128-cbc.sas")
    assert len(spis(raw, "esp")) == 2
    assert len(spis(raw, "ike")) == 2
    assert not spis(raw, "esp") & spis(raw, "ike")


def test_jain() -> None:
    assert jain([5.0, 5.0, 5.0]) == pytest.approx(1)
    assert jain([9.0, 0.0, 0.0]) == pytest.approx(1 / 3)
    assert jain([1.0, 3.0]) == pytest.approx(0.8)


def intervals(*rates: float) -> list[dict[str, dict[str, float]]]:
    return [{"sum": {"start": number / 10, "bits_per_second": rate}} for number, rate in enumerate(rates)]


def test_a_rekey_longer_than_the_second_looked_at_is_said() -> None:
    assert "took 14.3 s" in too_slow([0.2, 14.3])
    assert too_slow([0.2, 0.9]) == too_slow([]) == ""


def test_what_is_lost_at_a_rekey() -> None:
    assert throughput_loss(intervals(*[100.0] * 10, *[75.0] * 10), 1.0) == pytest.approx(0.25)
    assert throughput_loss(intervals(*[100.0] * 10, *[0.0] * 5, *[100.0] * 5), 1.0) == pytest.approx(0.5)
    with pytest.raises(MeasurementError, match="nothing arrived"):
        throughput_loss(intervals(*[0.0] * 10, *[100.0] * 10), 1.0)
    with pytest.raises(MeasurementError, match=r"no intervals from 1\.5 to 2\.5 s"):
        throughput_loss(intervals(*[100.0] * 16), 1.5)
