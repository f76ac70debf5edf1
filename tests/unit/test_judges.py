"""The judges whose cells no short profile has, each in a world where its finding holds and in one where it does not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from runner.catalogue import load_experiment, load_vpn
from runner.data.trials import Trial
from runner.design.profile import PROFILES
from runner.papers.findings import judge
from runner.papers.judges import findings_of
from runner.papers.judges.ha import TIMERS_S
from runner.papers.judges.security import LACKING, PROBES, WHOLE
from tests.unit.findings_worlds import finding, made
from tests.unit.synthetic import make_run, make_trial


def handovers(seconds: Mapping[tuple[str, str], float]) -> list[Trial]:
    """(VPN, redundancy) -> handover when a gateway dies."""
    return [
        make_trial(
            vpn,
            {"redundancy": mode, "gateway_failure": "gateway", "cipher": "aes-128-cbc"},
            block,
            {"handover_ms": value * 1000 * (1 + block / 1e3)},
        )
        for (vpn, mode), value in seconds.items()
        for block in (1, 2, 3)
    ]


@pytest.mark.parametrize(
    ("clusterip_s", "verdict"), [(1.64, "reproduced"), (0.2, "not reproduced"), (9.0, "not reproduced")]
)
def test_the_silence_dominates_the_handover_of_clusterip(clusterip_s: float, verdict: str) -> None:
    run = make_run(("ipsec", "ipsec_user"))
    trials = handovers({("ipsec", "clusterip"): clusterip_s, ("ipsec", "vrrp"): 3.2, ("ipsec_user", "vrrp"): 3.3})
    (dominated,) = findings_of("ha")
    found = judge(dominated, run, trials)
    assert (found.verdict, found.systems, found.published_range) == (verdict, ["ipsec"], (1.63, 1.66))
    assert found.value == pytest.approx(clusterip_s, rel=0.01)
    assert found.beside.startswith("ipsec with vrrp 3.2")
    assert "ipsec_user with vrrp 3.3" in found.beside


def test_keepalived_alone_decides_nothing_of_clusterip() -> None:
    (dominated,) = findings_of("ha")
    found = judge(dominated, make_run(("ipsec",)), handovers({("ipsec", "vrrp"): 3.2, ("ipsec", "vrrp_fast"): 0.3}))
    assert (found.verdict, found.value) == ("not comparable", None)
    assert "ipsec with vrrp 3.2" in found.beside
    assert {*TIMERS_S} == {"clusterip", "vrrp", "vrrp_fast"}


@pytest.mark.parametrize("missing", ["3", "4", "1", "2"])
def test_two_cpus_are_the_worst_of_four_or_of_none(missing: str) -> None:
    trials = [
        make_trial("ipsec", c.params, block, {"ha_system_s": 7.0 if c.params["cpus"] == "2" else 5.0 + block / 1e3})
        for c in load_experiment("ha_http").cells(load_vpn("ipsec"), PROFILES["thesis"], {})
        for block in (1, 2, 3)
    ]
    two = finding("ha_http", "two-cpus")
    assert judge(two, make_run(("ipsec",)), trials).verdict == "reproduced", "the control"
    few = [trial for trial in trials if trial.params.get("cpus") != missing]
    found = judge(two, make_run(("ipsec",)), few)
    assert found.verdict == "not comparable"
    assert found.reason == f"that two are the worst of 1 to 4 CPUs needs all four; not measured: {missing}"


def rates(of: Callable[[str, str], float], **more: str) -> list[Trial]:
    """Packet rates of kernel ESP at 64 bytes, by cipher and integrity."""
    ciphers = ("aes-128-cbc", "camellia-128-cbc", "3des-cbc")
    return [
        make_trial(
            "ipsec",
            {"measure": "duplex", "cipher": cipher, "integrity": integrity, "packet_bytes": "64", **more},
            block,
            {"packet_rate_both_ways": of(cipher, integrity) * (1 + block / 1e3)},
        )
        for cipher in ciphers
        for integrity in ("hmac-sha256", "hmac-md5", "hmac-sha1")
        for block in (1, 2, 3)
    ]


@pytest.mark.parametrize(("holds", "verdict"), [(True, "reproduced"), (False, "not reproduced")])
def test_ciphers_keep_their_order_under_every_hash(holds: bool, verdict: str) -> None:
    speed = {"aes-128-cbc": 3.0, "camellia-128-cbc": 2.0, "3des-cbc": 1.0}
    same = finding("crypto_matrix", "same-order")

    def of(cipher: str, integrity: str) -> float:
        return speed[cipher] if holds or integrity == "hmac-sha256" else 1 / speed[cipher]

    judged = judge(same, make_run(("ipsec",)), rates(of))
    assert (judged.verdict, judged.value) == (verdict, 1.0 if holds else 0.0)
    one = [trial for trial in rates(of) if trial.params["integrity"] == "hmac-sha256"]
    found = judge(same, make_run(("ipsec",)), one)
    assert found.verdict == "not comparable"
    assert "under two hashes" in found.reason


@pytest.mark.parametrize(("bookworm", "verdict"), [(1.02, "reproduced"), (2.0, "not reproduced")])
def test_versions_are_compared_where_two_images_were_measured(bookworm: float, verdict: str) -> None:
    def of(image: str, pace: float) -> list[Trial]:
        params = {"cipher": "aes-128-gcm", "integrity": "aead", "packet_bytes": "64", "image": image}
        return [
            make_trial("ipsec", params, block, {"packet_rate_both_ways": pace * (1 + block / 1e3)})
            for block in (1, 2, 3)
        ]

    versions, run = finding("crypto_matrix", "versions"), make_run(("ipsec",))
    assert judge(versions, run, of("trixie", 1.0) + of("bookworm", bookworm)).verdict == verdict
    found = judge(versions, run, of("trixie", 1.0))
    assert found.verdict == "not comparable"
    assert "compare two images" in found.reason


def meshes(efforts: Mapping[str, tuple[int, int]]) -> list[Trial]:
    """VPN -> tasks at 10 and at 20 sites."""
    trials = []
    for vpn, (few, many) in efforts.items():
        trial = make_trial(vpn, {"measure": "operations", "cipher": "c"}, 1, {"scaling_effort": float(few)})
        trial.measurements[0].detail["joining"] = {"10": {"effort": few}, "20": {"effort": many}}
        second = make_trial(vpn, {"measure": "operations", "cipher": "c"}, 2, {"scaling_effort": float(few)})
        second.measurements[0].detail["joining"] = {"10": {"effort": few}, "20": {"effort": many}}
        trials += [trial, second]
    return trials


@pytest.mark.parametrize(
    ("efforts", "least", "squares"),
    [
        ({"tinc": (40, 160), "openvpn": (190, 780)}, "reproduced", "reproduced"),
        ({"tinc": (400, 800), "openvpn": (190, 380)}, "not reproduced", "not reproduced"),
        ({"openvpn": (190, 780)}, "not comparable", "reproduced"),
        ({"tinc": (40, 160)}, "not comparable", "reproduced"),
        ({}, "not comparable", "not comparable"),
    ],
)
def test_scalability_is_judged_by_what_was_counted(
    efforts: Mapping[str, tuple[int, int]], least: str, squares: str
) -> None:
    run, trials = make_run(("tinc", "openvpn")), meshes(efforts)
    assert judge(finding("operations", "tinc-least"), run, trials).verdict == least
    assert judge(finding("operations", "squares"), run, trials).verdict == squares


def probed(lacks: Mapping[str, str], vpns: tuple[str, ...]) -> list[Trial]:
    """Two repetitions of the four probes; VPN -> the one that it fails."""
    return [
        make_trial(
            vpn,
            {"measure": "security", "compression": "off"},
            block,
            {probe: 0.0 if lacks.get(vpn) == probe else 1.0 for probe in PROBES},
        )
        for vpn in vpns
        for block in (1, 2)
    ]


@pytest.mark.parametrize(
    ("lacks", "vpns", "verdict"),
    [
        (dict.fromkeys(LACKING, "data_integrity"), (*WHOLE, *LACKING), "reproduced"),
        ({"vtun": "anti_replay"}, (*WHOLE, "vtun"), "reproduced"),
        ({"tinc": "anti_replay", "vtun": "anti_replay"}, (*WHOLE, "vtun"), "not reproduced"),
        ({}, (*WHOLE, "vtun"), "not reproduced"),
        ({"vtun": "anti_replay"}, ("openvpn", "vtun"), "not comparable"),
        ({}, WHOLE, "not comparable"),  # the only ones of whom?
        ({}, (), "not comparable"),
    ],
)
def test_who_has_all_four_properties(lacks: Mapping[str, str], vpns: tuple[str, ...], verdict: str) -> None:
    (four,) = findings_of("security")
    assert judge(four, make_run((*WHOLE, *LACKING)), probed(lacks, vpns)).verdict == verdict


def dead_links(vpn: str, recovered: int, how: str) -> list[Trial]:
    trials = []
    for block in (1, 2, 3):
        trial = make_trial(vpn, {"endpoint": "link", "link_failure": how}, block, {"convergence_ms": 100.0})
        trial.measurements[0].detail.update(failures=3, unrecovered=3 - recovered)
        trials.append(trial)
    return trials


@pytest.mark.parametrize(
    ("how", "recovered", "verdict", "begins"),
    [
        ("carrier", 3, "reproduced", "the interval"),
        ("carrier", 0, "not reproduced", "the interval"),
        ("silent", 3, "answered", "yes: "),
        ("silent", 0, "answered", "no: "),
    ],
)
def test_a_tunnel_on_a_dead_link(how: str, recovered: int, verdict: str, begins: str) -> None:
    """The paper disabled the link; a silent death is a question of this project."""
    moved, run = finding("reroute", f"moved.{how}"), make_run(("ipsec", "ipsec_user"))
    found = judge(moved, run, dead_links("ipsec", recovered, how))
    assert (found.verdict, found.systems) == (verdict, ["ipsec"])
    assert found.reason.startswith(begins)
    user = judge(moved, run, dead_links("ipsec_user", recovered, how))
    assert user.verdict == "not comparable"
    assert user.beside.startswith("userspace ESP (ipsec_user) ")


@pytest.mark.parametrize(
    ("experiment", "name"),
    [
        ("crypto_matrix", "configurations"),
        ("devices", "services"),
        ("oslv", "domains"),
        ("reroute", "redundant-links"),
        ("ha_http", "ha-cpu"),
        ("ha_http", "active-passive"),
    ],
)
def test_what_nothing_here_can_judge_says_why(experiment: str, name: str) -> None:
    found = judge(finding(experiment, name), make_run(("ipsec",)), [])
    assert found.verdict == "not comparable"
    assert found.reason.startswith(("open: ", "the paper compares two machines"))


def test_the_best_three_and_the_best_of_all_need_more_than_these() -> None:
    run, trials = made("oslv")
    few = [trial for trial in trials if trial.vpn != "pptp"]
    assert "pptp" in judge(finding("oslv", "best-three"), run, few).reason
    best = [trial for trial in trials if trial.vpn in ("none", "ipsec", "vtun", "pptp")]
    assert judge(finding("oslv", "best-three"), run, best).reason == "nothing else was measured beside them"
    alone = [trial for trial in trials if trial.vpn == "vtun"]
    assert "needs two VPNs" in judge(finding("oslv", "none-excels"), run, alone).reason


def test_userspace_esp_is_in_no_mean_of_the_oslv_papers_groups() -> None:
    run, trials = made("oslv")
    for one in findings_of("oslv"):
        assert "ipsec_user" not in judge(one, run, trials).systems, one.id


@pytest.mark.parametrize(("pace", "verdict"), [(2.0, "reproduced"), (0.5, "not reproduced")])
def test_more_throughput_is_the_better_rank(pace: float, verdict: str) -> None:
    """Alike in all else, the paper's three are the best where they carry more."""
    run, trials = made("oslv")
    alike = [
        make_trial(
            t.vpn,
            t.params,
            t.repetition,
            {
                m.metric: pace if m.metric == "tcp_throughput" and t.vpn in ("ipsec", "pptp", "vtun") else 1.0
                for m in t.measurements
            },
        )
        for t in trials
    ]
    assert judge(finding("oslv", "best-three"), run, alike).verdict == verdict


@pytest.mark.parametrize("payload", ["zeros", "random"])
def test_openvpns_compression_is_judged_with_lzo_that_adapts(payload: str) -> None:
    run, trials = made("thesis")
    always = [trial for trial in trials if trial.params["compression"] != "adaptive"]
    found = judge(finding("thesis", f"packed-openvpn-{payload}"), run, always)
    assert found.verdict == "not comparable"
    assert "adaptive" in found.reason
