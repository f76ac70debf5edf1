"""Each must's state from made-up runs: what shows it, what refutes it, and what outranks what."""

from typing import Any, get_args

import pytest

from questions.choose.must_words import PHRASES, command, sentence
from runner.catalogue import load_vpn, record_of, vpn_names
from runner.choice.model import State, Word
from runner.choice.musts import DECLARED, TRIED, WORDS, Earlier, approved_lists, levels_that_show, states, worst
from runner.data.declaration import Handshake
from runner.data.named import MUSTS, Must
from runner.data.trials import Evidence, Measurement, Proof, Run, Trial, VpnRecord
from tests.unit.synthetic import CBC, GCM, make_run, make_trial

RECORDS = {
    name: record_of(load_vpn(name)) for name in ("openvpn", "openvpn_tcp", "openvpn_tap", "ssh_tun", "ipsec_user")
}


def run_of(records: dict[str, VpnRecord], **lab: Any) -> Run:
    run = make_run(())
    return run.model_copy(update={"vpns": records, "lab": run.lab | lab})


def trial_of(vpn: str = "openvpn", **changed: Any) -> Trial:
    """One trial that is ok, at AES-256-GCM."""
    levels = {**GCM, "measure": "tcp", **changed.pop("levels", {})}
    return make_trial(vpn, levels, 1).model_copy(update=changed)


def told(value: float, metric: str = "outage_ms", **detail: Any) -> list[Measurement]:
    unit, better = ("ms", "lower") if metric == "outage_ms" else ("1", "higher")
    return [
        Measurement.model_validate({"metric": metric, "value": value, "unit": unit, "better": better, "detail": detail})
    ]


def travelled(*outer: str) -> Proof:
    return Proof(
        confidential_promised=True,
        delivered=True,
        marker_on_wan=False,
        sent_bytes=1,
        captured_bytes=1,
        outer=list(outer),
    )


def state(must: Must, *trials: Trial, vpn: str = "openvpn", earlier: tuple[Earlier, ...] = (), **lab: Any) -> State:
    return states(run_of(RECORDS, **lab), trials, earlier)[vpn][must]


MOVED = {"measure": "recovery", "failure": "roaming"}
ASKED = {"measure": "handshake", "key_exchange": "X25519"}
MESH = {"measure": "mesh", "sites": "3"}
IPV6 = {"measure": "udp", "inner": "ipv6"}
CASES: list[tuple[Must, Trial, Word, str]] = [
    ("networks", trial_of(), "shown", ""),
    ("ipv6-inside", trial_of(levels=IPV6), "shown", ""),
    ("ipv6-inside", trial_of(levels=IPV6, status="failed", attempt={"refutes": "ipv6-inside"}), "no", ""),
    ("ipv6-inside", trial_of(levels=IPV6, status="failed"), "declared", ""),  # for another reason: it says nothing
    ("ipv6-inside", trial_of(), "declared", ""),
    ("udp-blocked", trial_of(proof=travelled("udp")), "no", "udp"),
    ("udp-blocked", trial_of("openvpn_tcp", proof=travelled("tcp")), "shown", "tcp"),
    ("udp-blocked", trial_of("openvpn_tcp", proof=travelled("tcp", "udp")), "no", "tcp and udp"),
    ("udp-blocked", trial_of("openvpn_tcp"), "declared", "tcp"),  # no capture of the WAN alone
    ("udp-blocked", trial_of(measurements=told(1, "passes_without_udp"), proof=travelled("udp")), "shown", ""),
    ("udp-blocked", trial_of("openvpn_tcp", measurements=told(0, "passes_without_udp")), "no", ""),
    ("kernel", trial_of(), "no", "userspace"),
    ("no-fixed-address", trial_of(levels=MOVED, measurements=told(61000, watched_s=150.0)), "shown", "61.0 s"),
    (
        "no-fixed-address",
        trial_of(levels=MOVED, measurements=told(150e3, at_least=True, watched_s=150.0)),
        "no",
        "150 s",
    ),
    ("no-fixed-address", trial_of(levels=MOVED, measurements=told(60e3, at_least=True, watched_s=60.0)), "unknown", ""),
    ("no-fixed-address", trial_of(levels={**MOVED, "failure": "restart"}, measurements=told(10)), "unknown", ""),
    ("fail-closed", trial_of(measurements=told(1, "fail_closed")), "shown", ""),
    ("fail-closed", trial_of(measurements=told(0, "fail_closed")), "no", ""),
    ("fail-closed", trial_of(), "unknown", ""),
    ("mesh", trial_of(levels=MESH, attempt={"sizes": {"2": {}, "3": {}}}), "shown", "3 sites"),
    ("mesh", trial_of(levels=MESH, attempt={"sizes": {"2": {}}, "too_slow_sites": 3}), "no", "3 sites"),
    ("mesh", trial_of(levels=MESH, attempt={"sizes": {"2": {}}, "too_slow_sites": 0}), "declared", ""),  # no room
    ("post-quantum", trial_of(evidence=Evidence(key_exchange="X25519MLKEM768")), "shown", "X25519MLKEM768"),
    ("post-quantum", trial_of(evidence=Evidence(key_exchange="X25519")), "no", "X25519"),
    ("post-quantum", trial_of(evidence=Evidence(key_exchange="never heard of")), "declared", ""),
    ("post-quantum", trial_of(levels=ASKED, evidence=Evidence(key_exchange="X25519")), "declared", ""),  # as asked for
    ("post-quantum", trial_of(levels=ASKED, evidence=Evidence(key_exchange="ML_KEM_768")), "shown", "ML_KEM_768"),
    ("approved", trial_of(levels=ASKED, evidence=Evidence(key_exchange="X25519")), "unknown", ""),
    ("approved", trial_of(evidence=Evidence(key_exchange="X25519")), "no", "X25519"),
    ("approved", trial_of(evidence=Evidence(key_exchange="X25519MLKEM768")), "unknown", "X25519MLKEM768"),
    ("approved", trial_of(levels=CBC, evidence=Evidence(key_exchange="X25519")), "unknown", ""),  # not as recommended
    ("certificates", trial_of(), "declared", ""),
    ("forward-secrecy", trial_of(), "declared", ""),
    ("multicast", trial_of(), "declared", ""),
    ("ethernet", trial_of(), "no", ""),
    ("standard", trial_of(), "no", ""),
    ("maintained", trial_of(), "declared", ""),
]


@pytest.mark.parametrize(("must", "trial", "word", "value"), CASES)
def test_each_must(must: Must, trial: Trial, word: Word, value: str) -> None:
    found = state(must, trial, vpn=trial.vpn)
    assert (found.word, found.value) == (word, value)
    assert found.trial == (trial.id if found.how in ("trial", "wire", "negotiated", "marker", "data path") else "")
    assert bool(found.day and found.sources) is (found.how == "declaration")


@pytest.mark.parametrize(
    ("kind", "seconds", "word", "value"),
    [
        ("at_once", 0.2, "shown", "0 s"),
        ("back", 63.0, "shown", "63 s"),
        ("never", 90.0, "no", ""),
        ("dead", 90.0, "no", ""),
    ],
)
def test_a_nat_is_judged_by_its_probe(kind: str, seconds: float, word: Word, value: str) -> None:
    trial = trial_of(levels={"measure": "nat"}, measurements=told(seconds, "nat_port_back", kind=kind))
    for path in ({"nat": ""}, {"nat": "masqueraded"}):
        found = state("nat", trial, path=path)
        assert (found.word, found.value, found.trial) == (word, value, trial.id)


def test_a_fallback_fulfils_the_must_and_says_what_it_costs() -> None:
    numbers = {"way": "userspace: over TCP", "rate_mbit_s": 83.0}
    found = told(1, "passes_without_udp", kind="fallback", numbers=numbers)
    seen = state("udp-blocked", trial_of(measurements=found), vpn="openvpn")
    assert (seen.word, seen.value) == ("shown", "userspace: over TCP, 83.0 Mbit/s")


@pytest.mark.parametrize(("passed", "word"), [((1, 0, 1), "shown"), ((0, 1, 0), "no"), ((1, 0), "no")])
def test_no_single_draw_decides_a_must(passed: tuple[int, ...], word: Word) -> None:
    probes: list[tuple[Must, str, tuple[str, str]]] = [
        ("udp-blocked", "passes_without_udp", ("dead", "up")),
        ("nat", "nat_port_back", ("never", "at_once")),
    ]
    for must, metric, kinds in probes:
        trials = [
            trial_of(repetition=number, measurements=told(value, metric, kind=kinds[value]))
            for number, value in enumerate(passed, 1)
        ]
        assert state(must, *trials).word == word


def test_a_path_shows_what_no_lab_has() -> None:
    assert state("nat", trial_of(), path={"nat": "masqueraded"}).word == "shown"
    assert state("nat", trial_of(), path={"nat": ""}).word == "declared"
    assert state("ipv6-path", trial_of(), wan_ip_version=6).word == "shown"
    assert state("ipv6-path", trial_of(), wan_ip_version=4).word == "declared"
    assert state("ipv6-path", trial_of(status="failed"), wan_ip_version=6).word == "declared"


def test_a_tunnel_over_ipv6_is_shown_or_refuted_by_the_factor() -> None:
    six = {"measure": "tcp", "underlay": "6"}
    assert state("ipv6-path", trial_of(levels=six)).word == "shown"
    never = trial_of(levels=six, status="failed", evidence=None, proof=None)
    assert state("ipv6-path", never, trial_of()).word == "no", "it came up over IPv4"
    assert state("ipv6-path", never).word == "declared", "nothing shows that it comes up at all"
    broken = trial_of(levels=six, status="failed", evidence=Evidence(cipher="AES"))
    assert state("ipv6-path", broken, trial_of()).word == "declared", "it was up"


def test_the_kernel_is_where_the_evidence_says() -> None:
    moved = {"openvpn": RECORDS["openvpn"].model_copy(update={"dataplane": "kernel"})}
    assert states(run_of(moved), [trial_of()])["openvpn"]["kernel"].word == "shown"
    assert states(run_of(moved), [])["openvpn"]["kernel"].word == "declared"


def test_permitted_cryptography_is_of_all_three_parts() -> None:
    """IPsec with P-256 and AES-128-GCM is in BSI TR-02102-3; with a cipher that is not, it is not."""
    record = RECORDS["ipsec_user"]
    agreed = Evidence(key_exchange="ECP_256")
    gcm = GCM | {"cipher": "aes-128-gcm"}
    for levels, word in ((gcm, "shown"), (gcm | {"cipher": "3des-cbc", "integrity": "hmac-sha256"}, "no")):
        configured = record.model_copy(update={"configurations": {"recommended": levels}})
        trial = make_trial("ipsec_user", levels | {"measure": "tcp"}, 1).model_copy(update={"evidence": agreed})
        found = states(run_of({"ipsec_user": configured}), [trial])["ipsec_user"]["approved"]
        assert (found.word, found.sources) == (word, ["BSI TR-02102-3"])


def test_plain_ip_in_which_the_marker_travelled_passes_no_firewall() -> None:
    plain = {"none": record_of(load_vpn("none"))}
    assert states(run_of(plain), [trial_of("none", proof=travelled("tcp"))])["none"]["udp-blocked"].word == "no"


def test_who_forwards_ports_joins_no_networks_whatever_came_through() -> None:
    found = states(run_of({"ssh_forward": record_of(load_vpn("ssh_forward"))}), [trial_of("ssh_forward")])
    assert found["ssh_forward"]["networks"].model_dump(include={"word", "how"}) == {"word": "no", "how": "ports"}


def test_a_declaration_that_a_trial_refutes_is_no() -> None:
    """Two false declarations: of a tunnel that follows a move, and of one that travels in TCP."""
    declared = RECORDS["openvpn"].declared
    assert declared
    follows = RECORDS["openvpn"].model_copy(update={"declared": declared.model_copy(update={"roaming": True})})
    dead = trial_of(levels=MOVED, measurements=told(60e3, at_least=True, watched_s=60.0))
    assert states(run_of({"openvpn": follows}), [])["openvpn"]["no-fixed-address"].word == "declared"
    assert states(run_of({"openvpn": follows}), [dead])["openvpn"]["no-fixed-address"].word == "no"
    stream = RECORDS["openvpn"].model_copy(update={"transport": "tcp"})
    assert states(run_of({"openvpn": stream}), [])["openvpn"]["udp-blocked"].word == "declared"
    assert (
        states(run_of({"openvpn": stream}), [trial_of(proof=travelled("udp"))])["openvpn"]["udp-blocked"].word == "no"
    )


def test_of_a_no_the_family_knows_who_can() -> None:
    assert state("udp-blocked", trial_of()).instead == ["openvpn_tcp"]
    assert state("ethernet").instead == ["openvpn_tap"]
    assert state("udp-blocked", vpn="ipsec_user").instead == [], "nobody else of its family is known"


def test_a_run_outranks_a_shipped_one_which_outranks_a_declaration() -> None:
    before = run_of(RECORDS).model_copy(update={"run_id": "shipped"})
    closed, opened = (trial_of(measurements=told(value, "fail_closed")) for value in (1, 0))
    closed = closed.model_copy(update={"started_at": "2026-02-03T04:05:06+00:00"})  # in a run that began before
    found = state("fail-closed", earlier=((before, [closed]),))
    assert (found.word, found.run, found.day, found.trial) == ("shown", "shipped", "2026-02-03", closed.id)
    assert state("fail-closed", opened, earlier=((before, [closed]),)).model_dump(include={"word", "run"}) == {
        "word": "no",
        "run": "",
    }
    moved = trial_of(levels=IPV6, status="failed", attempt={"refutes": "ipv6-inside"})
    assert state("ipv6-inside", earlier=((before, [moved]),)).word == "no"


def test_another_plugin_of_the_same_name_shows_nothing() -> None:
    other = RECORDS["openvpn"].model_copy(update={"title": "my own openvpn"})
    before = run_of({"openvpn": other})
    assert state("fail-closed", earlier=((before, [trial_of(measurements=told(1, "fail_closed"))]),)).word == "unknown"


def test_a_run_of_before_knows_what_a_shipped_run_declares_and_nothing_else() -> None:
    bare = {name: record.model_copy(update={"declared": None, "family": ""}) for name, record in RECORDS.items()}
    assert states(run_of(bare), [trial_of()])["openvpn"]["maintained"].word == "unknown"
    found = states(run_of(bare), [trial_of()], [(run_of(RECORDS), [])])["openvpn"]
    assert found["maintained"].word == "declared"
    assert found["udp-blocked"].instead == ["openvpn_tcp"]


def test_a_plugin_that_declares_nothing_is_unknown_until_it_is_tried() -> None:
    silent = RECORDS["openvpn"].model_copy(update={"declared": None})
    found = states(run_of({"openvpn": silent}), [])["openvpn"]
    assert {must for must in MUSTS if found[must].word != "unknown"} == {"udp-blocked", "kernel"}
    assert states(run_of({"openvpn": silent}), [trial_of()])["openvpn"]["networks"].word == "shown"


def test_the_worst_word_counts() -> None:
    own = states(run_of(RECORDS), [trial_of()])["openvpn"]
    assert worst(own, ()) == "shown"
    assert worst(own, ("networks",)) == "shown"
    assert worst(own, ("networks", "maintained")) == "declared"
    assert worst(own, ("networks", "maintained", "fail-closed")) == "unknown"
    assert worst(own, MUSTS) == "no"
    assert sorted(WORDS) == sorted(get_args(Word))


def test_every_must_can_be_known() -> None:
    assert {*TRIED} | {*DECLARED} | {"tried"} == {*MUSTS} == {*PHRASES}


def test_lists_name_what_daemons_say_and_nothing_twice() -> None:
    lists = approved_lists()
    kinds = lists["key_exchange"]
    assert not {*kinds["post_quantum"]} & {*kinds["classical"]}
    known = {*kinds["post_quantum"], *kinds["classical"]}
    for name in lists["lists"]:
        for part in lists[name]:
            assert part["handshake"] in get_args(Handshake)
            assert part["source"]
            assert part["read"]
            assert not {*part["recommends"]} & {*part["leaves_out"]}
            exchanges = {
                word for word in (*part["recommends"], *part["leaves_out"]) if word.startswith(("EC", "MODP", "X"))
            }
            assert exchanges <= known


def test_every_plugin_says_of_which_protocol_its_key_exchange_is() -> None:
    """A list of permitted cryptography finds those whose protocol it knows."""
    words = {"IKEv2": "IKEv2", "IKEv1": "IKEv1", "TLS": "TLS", "SSH": "SSH"}
    for vpn in map(load_vpn, vpn_names()):
        security = vpn.declared.security
        for word in words:
            if security.specification.startswith(word) and security.key_exchange:
                assert security.handshake == words[word], vpn.name


@pytest.mark.parametrize("must", MUSTS)
def test_a_sentence_for_each_state(must: Must) -> None:
    for found in (
        State(word="unknown", how="nothing"),
        State(word="unknown", how="negotiated", value="X448"),
        State(word="shown", how="trial", trial="t", run="r", day="2026-02-03"),
        State(word="declared", how="declaration", day="2026-02-03", sources=["a page"]),
        State(word="declared", how="plugin", value="tcp"),
        State(word="no", how="wire", value="udp", instead=["openvpn_tcp"]),
        State(word="no", how="ports"),
    ):
        said = sentence("openvpn", must, found)
        assert "openvpn " in said
        assert said.endswith(".")
        assert (PHRASES[must][1] in said) is (found.word == "no" or (must, found.word) == ("tried", "unknown"))
        assert ("2026-02-03" in said) is bool(found.day)
    assert command("openvpn", must) == "" or "openvpn" in command("openvpn", must)


@pytest.mark.parametrize(
    ("measures", "word"),
    [((), "unknown"), (("security",), "unknown"), (("silence",), "unknown"), (("security", "marks"), "shown")],
)
def test_tried_is_who_was_attacked_and_on_a_path(measures: tuple[str, ...], word: str) -> None:
    trials = [trial_of(levels={"measure": measure}, measurements=told(1, "narrow_mtu")) for measure in measures]
    assert state("tried", *trials).word == word
    without_verdicts = [trial.model_copy(update={"measurements": []}) for trial in trials]
    assert state("tried", *without_verdicts).word == "unknown"


def test_a_vpn_of_the_kernel_counts_as_tried_where_its_kin_was() -> None:
    records = {name: record_of(load_vpn(name)) for name in ("wireguard", "wireguard_go", "gre_ipsec")}
    trials = [
        trial_of("wireguard_go", levels={"measure": measure}, measurements=told(1, "narrow_mtu"))
        for measure in ("security", "marks")
    ]
    found = states(run_of(records), trials)
    assert {name: own["tried"].word for name, own in found.items()} == {
        "wireguard": "declared",
        "wireguard_go": "shown",
        "gre_ipsec": "unknown",
    }


def test_what_no_recipe_sets_up_is_not_shown() -> None:
    """A trial let the address change, and the recipe has fixed ones. That it did not come back stays a no."""
    back = trial_of(levels=MOVED, measurements=told(61000, watched_s=150.0))
    gone = trial_of(levels=MOVED, measurements=told(150e3, at_least=True, watched_s=150.0))
    for roams, words in {"both": ("shown", "no", "declared"), "none": ("unknown", "no", "unknown")}.items():
        record = RECORDS["openvpn"].model_copy(update={"roams": roams})
        if record.declared:
            record = record.model_copy(update={"declared": record.declared.model_copy(update={"roaming": True})})
        found = [
            states(run_of({"openvpn": record}), seen)["openvpn"]["no-fixed-address"] for seen in ([back], [gone], [])
        ]
        assert tuple(state.word for state in found) == words
    assert sentence("openvpn", "no-fixed-address", found[0]).endswith(": its recipe needs fixed addresses.")


def test_a_recipe_has_the_key_exchange_that_showed_the_must() -> None:
    run = run_of(RECORDS)
    trials = [
        trial_of(evidence=Evidence(key_exchange="X25519")),
        trial_of(levels=ASKED | {"key_exchange": "X25519MLKEM768"}, evidence=Evidence(key_exchange="X25519MLKEM768")),
    ]
    own = states(run, trials)["openvpn"]
    assert levels_that_show(own, ["post-quantum"], [(run, trials)]) == {"key_exchange": "X25519MLKEM768"}
    assert levels_that_show(own, ["networks", "nat"], [(run, trials)]) == {}
