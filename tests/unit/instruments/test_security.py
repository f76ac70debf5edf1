"""How probes' results become values, how a declaration is rated, and what the forged packets look like."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.strength import MOST, OUTRANKING, PER_FAILURE, SCALE, WITH_A_BREAK
from runner.instruments.result import Measured
from runner.instruments.security.replay import replay_outcome
from runner.instruments.security.run import PROBES, WRONG_KEY, compresses, rate, results
from runner.instruments.security.stranger import (
    GRE,
    KEPT,
    PPP,
    UDP,
    beginnings,
    build_frame,
    in_l2tp,
    in_vxlan,
    inner,
    pack_address,
    without_ip,
)
from runner.instruments.security.vantage import Frame, ProbeOutcome, clear_frame, message, write_pcap
from runner.instruments.security.wrong_key import from_address, stranger_of
from runner.instruments.tools.counters import counter_increases
from runner.lab.node import Completed, proc
from runner.lab.shape.site_to_site import SITES
from runner.ranking.weights import PRESETS
from runner.vpn.declared import UNDECLARED, Declared, Security, Upkeep, Weakness
from runner.vpn.scale import in_words, strength
from runner.vpn.scale import rate as points_of
from tests.unit.reports import metric_ranks
from tests.unit.synthetic import METRICS

BEST = Security(
    protocol="standard",
    specification="RFC 7296",
    authentication=("certificate",),
    key_exchange="ECDH and ML-KEM",
    forward_secrecy=True,
    post_quantum=True,
    maintained=Upkeep("its makers", "strongSwan 6.1", "2026-09"),
    sources=("RFC 9370",),
    as_of="2026-11-21",
)
GCM = {"cipher": "aes-128-gcm", "integrity": "aead", "compression": "off"}


def test_the_scale_adds_up_to_its_most() -> None:
    assert sum(points for points, _, _ in SCALE) == MOST
    assert all(what and source for _, what, source in SCALE)
    assert points_of(BEST, GCM).points == MOST


@pytest.mark.parametrize(
    ("changed", "points"),
    [
        ({"protocol": "own"}, 9),
        ({"protocol": "own", "specification": ""}, 8),
        ({"authentication": ("pre-shared key",)}, 9),
        ({"authentication": ("password",)}, 8),
        ({"authentication": ("none",)}, 0),
        ({"forward_secrecy": False}, 8),
        ({"post_quantum": False}, 9),
        ({"maintained": Upkeep("nobody", "1.0", "2013")}, 9),
        ({"known_breaks": ("MS-CHAPv2 (Marlinspike 2012)",)}, WITH_A_BREAK),
        ({"flaws": ("CVE-2018-16737, fixed in 1.0.35",)}, 10),
    ],
)
def test_what_a_declaration_loses(changed: dict[str, object], points: int) -> None:
    rating = points_of(replace(BEST, **changed), GCM)  # type: ignore[arg-type]
    assert rating.points == points
    assert len(rating.reasons) >= len(SCALE)


@pytest.mark.parametrize(
    ("levels", "points"),
    [
        ({"cipher": "blowfish-128-cbc", "integrity": "hmac-sha1"}, 9),
        ({"cipher": "3des-cbc", "integrity": "none"}, 8),
        ({"cipher": "aes-128-ecb", "integrity": "hmac-sha256"}, 9),
        ({"cipher": "aes-192-ccm", "integrity": "aead"}, 10),
        ({"cipher": "aes-128-gmac", "integrity": "aead"}, 0),
        ({"cipher": "null", "integrity": "hmac-sha256"}, 0),
        ({"cipher": "none", "integrity": "none"}, 0),
    ],
)
def test_what_the_levels_take_from_it(levels: dict[str, str], points: int) -> None:
    assert points_of(BEST, {**levels, "compression": "off"}).points == points


@pytest.mark.parametrize(
    ("with_level", "cipher", "compression", "counts"),
    [
        ("64-bit blocks", "3des-cbc", "off", True),
        ("64-bit blocks", "aes-128-gcm", "off", False),
        ("compression", "aes-128-gcm", "on", True),
        ("compression", "aes-128-gcm", "off", False),
    ],
)
def test_a_break_counts_at_the_levels_that_it_concerns(
    with_level: Weakness, cipher: str, compression: str, counts: bool
) -> None:
    broken = replace(BEST, breaks_with={with_level: "a break (2018)"})
    levels = {"cipher": cipher, "integrity": "hmac-sha256", "compression": compression}
    assert (points_of(broken, levels).points <= WITH_A_BREAK) is counts
    assert any("a break (2018)" in reason for reason in points_of(broken, levels).reasons) is counts


def test_pass_is_one_fail_is_zero_and_inconclusive_is_nothing() -> None:
    found = results(
        {
            "confidentiality": ProbeOutcome("pass", "nothing seen", "the tap saw a clear marker", {"seen": []}),
            "anti_replay": ProbeOutcome("fail", "delivered again", "it was seen"),
            "data_integrity": ProbeOutcome("inconclusive", "0 of 12 flipped packets arrived", detail={"flipped": 12}),
        }
    )
    assert {one.metric: one.value for one in found.measurements} == {"confidentiality": 1.0, "anti_replay": 0.0}
    assert found.attempt["inconclusive"]["data_integrity"]["reason"] == "0 of 12 flipped packets arrived"
    assert any("data_integrity: inconclusive" in warning for warning in found.warnings)
    assert found.measurements[0].detail["control"] == "the tap saw a clear marker"


@pytest.mark.parametrize("failed", [*OUTRANKING, None])
def test_a_failed_probe_outranks_a_declaration(failed: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    vpn = load_vpn("none")
    monkeypatch.setattr(type(vpn), "declared", Declared(BEST, UNDECLARED.abilities))
    measured = Measured()
    outcomes = {name: ProbeOutcome("fail" if name == failed else "pass", "seen") for name in OUTRANKING}
    rate(measured, vpn, GCM, {**outcomes, "length_hiding": ProbeOutcome("fail", "seen")})
    (found,) = measured.measurements
    assert found.value == (MOST if failed is None else MOST - PER_FAILURE)
    assert found.detail["declared_points"] == MOST
    assert found.detail["outranked_by"] == ([failed] if failed else [])
    assert found.detail["sources"] == ["RFC 9370"]


def test_more_failures_are_always_less_than_fewer_whatever_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best declaration with a failed probe ranks behind the worst without, and in the order of the failures."""
    vpn = load_vpn("none")
    worst = replace(BEST, authentication=("none",))
    values = {}
    for name, declared, failures in (("a", BEST, 2), ("b", worst, 1), ("c", BEST, 1), ("d", worst, 0)):
        monkeypatch.setattr(type(vpn), "declared", Declared(declared, UNDECLARED.abilities))
        measured = Measured()
        failed = OUTRANKING[-failures:] if failures else ()
        rate(
            measured, vpn, GCM, {probe: ProbeOutcome("fail" if probe in failed else "pass", "") for probe in OUTRANKING}
        )
        values[name] = dict.fromkeys(range(3), measured.measurements[0].value)
    ranks = metric_ranks(METRICS["declared_strength"], values)
    assert ranks == {"d": 1, "c": 2, "b": 3, "a": 4}


@pytest.mark.parametrize(
    ("cipher", "key_exchange", "words"),
    [
        ("aes-256-gcm", "ECDH, NIST P-256", "128 bits, 2031 and beyond"),
        ("aes-256-gcm", "ML-KEM-768 with X25519", "192 bits, 2031 and beyond"),
        ("chacha20-poly1305", "Curve25519", "128 bits, 2031 and beyond"),
        ("aes-128-gcm", "", "128 bits, 2031 and beyond"),
        ("aes-128-cbc", "RSA-2048 encrypts the session keys", "112 bits, until 2030"),
        ("3des-cbc", "ECDHE", "112 bits, until 2030"),
        ("rc4-128", "", "0 bits, not acceptable"),
        ("aes-128-cbc", "something of its own", "strength not known"),
    ],
)
def test_the_strength_is_that_of_the_weaker_part(cipher: str, key_exchange: str, words: str) -> None:
    assert in_words(strength(cipher, key_exchange)) == words


def test_nothing_declared_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    vpn, measured = load_vpn("none"), Measured()
    monkeypatch.setattr(type(vpn), "declared", UNDECLARED)
    rate(measured, vpn, GCM, {})
    assert not measured.measurements
    assert "declares nothing" in measured.attempt["inconclusive"]["declared_strength"]["reason"]


def test_every_probe_has_its_metric_and_the_preset_counts_them() -> None:
    probes = {*PROBES, WRONG_KEY}
    assert {name for name, metric in METRICS.items() if metric.measure == "security"} == probes | {"declared_strength"}
    assert set(OUTRANKING) <= set(PRESETS["security"].counted_metrics) <= probes | {"declared_strength"}


def test_compression_is_what_is_not_off() -> None:
    assert [compresses(levels) for levels in ({"compression": "off"}, {"compression": "lz4"}, {})] == [
        False,
        True,
        False,
    ]


@pytest.mark.parametrize(
    ("delivered", "reached", "result"),
    [
        ([1, 1], True, "pass"),
        ([1, 1], False, "inconclusive"),
        ([1, 0], True, "inconclusive"),
        ([1, 2], True, "fail"),
        ([0, 2], False, "fail"),
    ],
)
def test_replays_are_judged_by_deliveries_and_the_control(delivered: list[int], reached: bool, result: str) -> None:
    assert replay_outcome(delivered, 2, reached, "the copies arrived").result == result


def test_a_stranger_has_what_is_public_and_keys_of_its_own() -> None:
    own = {"ca.crt": "A", "gw1.crt": "A1", "gw1.key": "a1", "gw2.crt": "A2", "gw2.key": "a2", "net.psk": "s"}
    others = {name: text.replace("A", "B").replace("a", "b").replace("s", "t") for name, text in own.items()}
    assert stranger_of(own, others, SITES[0]) == {
        "ca.crt": "A",
        "gw1.crt": "B1",
        "gw1.key": "b1",
        "gw2.crt": "A2",
        "gw2.key": "b2",
        "net.psk": "t",
    }


def test_a_forged_packet_is_a_whole_one() -> None:
    carried = inner("10.1.0.2", "10.2.0.2", b"marker")
    frame = build_frame(
        b"\0" * 12 + b"\x08\0", UDP, pack_address("192.168.0.1"), pack_address("192.168.0.2"), b"\x1e\x61" * 4 + carried
    )
    seen = Frame(0.0, "in", frame)
    assert seen.is_ip
    assert seen.packet_bytes == len(frame) - 14 == 28 + len(carried)
    assert seen.payload == carried
    words = struct.unpack("!10H", frame[14:34])
    assert (sum(words) & 0xFFFF) + (sum(words) >> 16) == 0xFFFF, "RFC 791: the header's words add up to all ones"
    assert frame[38:42] == struct.pack("!HH", 8 + len(carried), 0), "UDP's length, and no checksum"
    assert from_address(seen, SITES[0])
    assert not from_address(seen, SITES[1])


def test_a_macsec_frame_is_read_and_forged_without_ip() -> None:
    tag = (
        b"\x2c\x00" + (7).to_bytes(4, "big") + (1).to_bytes(8, "big")
    )  # encrypted, changed, with its channel; number 7
    frame = Frame(0.0, "in", b"\2" * 12 + b"\x88\xe5" + tag + b"c" * 100)
    assert (frame.is_ip, frame.is_macsec, frame.packet_bytes) == (False, True, 114)
    assert from_address(frame, SITES[0])
    begun = beginnings(frame.payload.replace(b"\x07", b"\x06"), frame.payload)
    forged = without_ip(frame, begun, lambda marker: b"E" + marker)
    assert all(each.startswith(frame.data[:14]) and marker in each for marker, each in forged.items())
    contents = [each[14:] for each in forged.values()]
    assert any(content.startswith(tag + b"\x08\x00E") for content in contents), "as it was"
    assert any(content.startswith(b"\x20" + tag[1:] + b"\x08\x00E") for content in contents), "said to be in the clear"


def test_kernel_counters_are_read_and_compared() -> None:
    text = (
        "Udp: InDatagrams NoPorts\nUdp: 7 0\nXfrmInStateSeqError     \t16\nInter-|   Receive | Transmit\n"
        "  wan0: 900 9 0 1 0 0 0 0 800 8 0 0 0 0 0 0\n"
    )
    found = proc.counters(text)
    assert found["UdpInDatagrams"] == 7
    assert found["XfrmInStateSeqError"] == 16
    assert (found["wan0 rx_packets"], found["wan0 rx_dropped"], found["wan0 tx_bytes"]) == (9, 1, 800)
    assert counter_increases({"UdpInDatagrams": 7, "wan0 rx_packets": 4}, found)["wan0 rx_packets"] == 5
    assert "UdpInDatagrams" not in counter_increases({"UdpInDatagrams": 7}, found)


def test_forged_beginnings_count_on() -> None:
    first, second = bytes(7) + b"\x01" + b"rest" * 8, bytes(7) + b"\x02" + b"REST" * 8
    begun = beginnings(first, second)
    assert len(begun) == 4 * len(KEPT)
    nearest = [int.from_bytes(each[:8], "big") for each in begun[:7]]
    assert nearest == [2 + turn for turn in range(1, 8)], "where what is far ahead is refused, what is next is not"
    big_endian = [int.from_bytes(each[:8], "big") for each in begun[len(KEPT) : 2 * len(KEPT)] if len(each) >= 8]
    assert big_endian == sorted(set(big_endian))
    assert big_endian[0] == 256 + 2
    assert begun[-1] == b""
    ends = bytes(6) + b"\xff\x07" + bytes(24)
    far = beginnings(bytes(6) + b"\xff\x06" + bytes(24), ends)[len(KEPT) : len(KEPT) + 7]
    carried = [int.from_bytes(each[:8], "big") for each in far]
    assert carried == [0xFF07 + 256 * turn for turn in range(1, 8)], "a carry goes on into the next byte"
    little = beginnings(b"\x06" + bytes(31), b"\x07" + bytes(31))[2 * len(KEPT) : 2 * len(KEPT) + 7]
    assert [int.from_bytes(each[:8], "little") for each in little[:7]] == [7 + 256 * turn for turn in range(1, 8)]
    assert begun[3 * len(KEPT)] == second[: KEPT[0]]


def test_each_link_header_has_a_number_of_its_own() -> None:
    begun = beginnings(bytes(8) + bytes(24), bytes(7) + b"\x01" + bytes(24), (b"", PPP))
    assert len(begun) == 2 * 4 * len(KEPT)
    numbers = [int.from_bytes(each[:8], "big") for each in begun[:14]]
    assert numbers == list(range(2, 16))
    assert [each.endswith(PPP) for each in begun[:4]] == [False, True, False, True]


def test_other_protocols_carry_what_they_are_given() -> None:
    frame = build_frame(
        b"\0" * 12 + b"\x08\0", GRE, pack_address("192.168.0.1"), pack_address("192.168.0.2"), b"\0\0\x08\0inner"
    )
    assert Frame(0.0, "in", frame).payload == b"\0\0\x08\0inner"


@pytest.mark.parametrize(
    ("shown", "ends"),
    [
        ("", b"\0\0\x01\0" + b"\xff" * 6),
        (
            "9: vxlan1: <UP> link/ether 0a:1b:2c:3d:4e:5f brd ff:ff:ff:ff:ff:ff\\    vxlan id 7 local 1.2.3.4 ",
            b"\0\0\x07\0\x0a\x1b\x2c\x3d\x4e\x5f",
        ),
    ],
)
def test_a_packet_in_vxlan_is_for_the_gateways_own_segment_and_address(shown: str, ends: bytes) -> None:
    class Gateway:
        def run(self, *argv: str, check: bool) -> Completed:
            return Completed(0, shown, "")

    header = in_vxlan(Gateway())  # type: ignore[arg-type]
    assert header[:4] == struct.pack("!HH", 4789, 4789)
    assert header[8:] == b"\x08\0\0\0" + ends + b"\x02" + bytes(5) + b"\x08\0", "RFC 7348 §5"


SESSIONS = """PPPoL2TP driver info, V2.0
TUNNEL name, user-data-ok session-count magic-ok
TUNNEL 'tunl 12345', N 1 -1
 0 0/0/0 0/0/0
  SESSION '' C0A80001/1701 3039/0000 -> 1A2B/0000 1 F 12
  SESSION 'sess 12345/54321' C0A80001/1701 3039/D431 -> 1A2B/3C4D 5 F 12
"""


@pytest.mark.parametrize(("shown", "ends"), [("", (1, 1)), (SESSIONS, (12345, 54321))])
def test_a_packet_in_l2tp_is_for_the_gateways_own_session(shown: str, ends: tuple[int, int]) -> None:
    class Gateway:
        def run(self, *argv: str, check: bool) -> Completed:
            return Completed(0, shown, "")

    header = in_l2tp(Gateway())  # type: ignore[arg-type]
    assert header[:4] == struct.pack("!HH", 1701, 1701)
    assert header[8:] == struct.pack("!HHH", 2, *ends) + PPP, "RFC 2661 §3.1"


def test_the_capture_is_a_pcap(tmp_path: Path) -> None:
    frames = [Frame(1.5, "in", clear_frame(message(40))), Frame(2.25, "out", clear_frame(message(90)))]
    write_pcap(tmp_path / "x.pcap", frames)
    data = (tmp_path / "x.pcap").read_bytes()
    assert struct.unpack("<IHHiIII", data[:24]) == (0xA1B2C3D4, 2, 4, 0, 0, 70000, 1)
    assert struct.unpack("<IIII", data[24:40]) == (1, 500000, 54, 54)
    assert data[40:94] == frames[0].data
    assert data[110:] == frames[1].data


def test_verdicts_rank_although_zero_has_no_ratio() -> None:
    always, never, unsure = {1: 1.0, 2: 1.0, 3: 1.0}, {1: 0.0, 2: 0.0, 3: 0.0}, {1: 1.0, 2: 0.0, 3: 1.0}
    leak, lines, routes = (METRICS[name] for name in ("confidentiality", "setup_lines", "manual_routes"))
    ranks = metric_ranks(leak, {"a": always, "b": never, "c": always, "d": unsure})
    assert ranks == {"a": 1, "b": 3, "c": 1, "d": 1}, "what comes out now this way, now that, is told from nobody"
    assert metric_ranks(routes, {"a": {1: 2.0, 2: 2.0}, "b": {1: 0.0, 2: 0.0}}) == {"a": 2, "b": 1}
    verdicts = {"a": {1: 1.0}, "b": {1: 0.0}, "c": {1: 1.0}}
    assert metric_ranks(leak, verdicts) == {"a": 1, "b": 3, "c": 1}, "a failure that was shown is one"
    assert metric_ranks(lines, {"a": {1: 40.0}, "b": {1: 41.0}}) == {"a": 1, "b": 2}, "a count does not vary"
    assert metric_ranks(leak, {"a": {1: 1.0}, "b": {2: 0.0}}) == {"a": 1, "b": 1}, "no block is shared"
