"""The security probes against a toy VPN that is secure, or weak in one way at a time; and with controls taken away.

Each weakness must be caught by its probe, the secure toy must pass all of them, and a probe whose control does not come
out must be inconclusive, never pass.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from runner.data.errors import MeasurementError
from runner.data.levels import Params
from runner.data.store import load_run
from runner.instruments.security.run import PROBES, WRONG_KEY, security
from runner.instruments.security.vantage import vantage
from runner.instruments.tools.between import Talker
from runner.lab.node import Node
from runner.lab.node.probing import probe
from runner.lab.places import NamespaceRig
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import SITES, Lab, namespace_lab, over_ipv6
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, make_secrets, start_services
from runner.vpn.plugin import Vpn
from tests.lab import toy
from tests.lab.toy import Toy

Benches = Callable[..., Bench]
NOT_OF_PLAIN_IP = ("content_hiding", "diversion_resistance")  # it shrinks nothing, and its peer is a route's


@pytest.fixture
def bench_of(image: Image, tmp_path: Path) -> Iterator[Benches]:
    """A bench for a VPN, as the trial loop makes it, gone after the test."""
    with ExitStack() as labs:

        def made(vpn: Vpn, underlay: int = 4) -> Bench:
            def keys(*, others: bool = False, sites: Sequence[Site] = (), lasts_s: int = 0) -> dict[str, str]:
                if others not in known:
                    known[others] = make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), sites or SITES)
                return known[others]

            def bare() -> Lab:
                labs.close()
                lab = labs.enter_context(namespace_lab(image, logs=tmp_path))
                if underlay == 6:
                    over_ipv6(lab)
                start_services(lab)
                return lab

            def fresh() -> tuple[Lab, Tunnel]:
                lab = bare()
                return lab, bring_up(lab, vpn, vpn.recommended, keys(), judged=False)

            known: dict[bool, dict[str, str]] = {}
            return Bench(*fresh(), fresh, bare=bare, keys=keys)

        yield made


def weakened(*weak: str) -> Toy:
    vpn = Toy()
    vpn.weak = weak
    return vpn


@pytest.mark.smoke
def test_a_secure_vpn_passes_all(bench_of: Benches, tmp_path: Path) -> None:
    found = security(bench_of(Toy()), Toy(), Toy.recommended)
    values = {one.metric: (one.value, one.detail["reason"]) for one in found.measurements}
    assert set(values) == {*PROBES, WRONG_KEY}, found.attempt
    assert {value for value, _ in values.values()} == {1.0}, values
    assert all(one.detail["control"] for one in found.measurements)
    for one in found.measurements:
        assert one.detail["evidence"]
        assert all((tmp_path / name).stat().st_size for name in one.detail["evidence"]), one.detail["evidence"]
    counted = json.loads((tmp_path / "security-anti-replay.json").read_text())["counted_by_the_kernel"]
    assert counted["gw2"]["wan0 rx_packets"] > counted["gw1"]["wan0 tx_packets"], "the copies"
    captures = {path.name for path in tmp_path.glob("security-*.pcap")}
    assert captures >= {f"security-{name.replace('_', '-')}.pcap" for name in PROBES}
    assert all(path.stat().st_size > 100 for path in tmp_path.glob("security-*.pcap"))
    assert "declares nothing" in found.attempt["inconclusive"]["declared_strength"]["reason"]


@pytest.mark.parametrize("underlay", [pytest.param(4, marks=pytest.mark.smoke), 6])
@pytest.mark.parametrize(
    ("weakness", "probe"),
    [
        ("no_cipher", "confidentiality"),
        ("no_tag", "data_integrity"),
        ("replays", "anti_replay"),
        ("floats", "diversion_resistance"),
        ("no_key", "peer_authentication"),
        ("no_key", WRONG_KEY),
        ("padless", "length_hiding"),
        ("compresses", "content_hiding"),
        ("opens", "fail_closed"),
    ],
)
def test_each_weakness_is_caught(bench_of: Benches, weakness: str, probe: str, underlay: int) -> None:
    vpn = weakened(weakness)
    (found,) = security(bench_of(vpn, underlay), vpn, vpn.recommended, only=(probe,)).measurements
    assert (found.metric, found.value, found.detail["result"]) == (probe, 0.0, "fail"), found.detail


@pytest.mark.smoke
def test_a_weakness_is_not_blamed_on_another_probe(bench_of: Benches) -> None:
    """Without a check of replays, what is flipped or forged is still refused."""
    vpn = weakened("replays")
    found = security(bench_of(vpn), vpn, vpn.recommended, only=("data_integrity", "peer_authentication"))
    assert [one.value for one in found.measurements] == [1.0, 1.0], found.attempt


@pytest.mark.smoke
def test_without_its_control_no_probe_passes(bench_of: Benches, monkeypatch: pytest.MonkeyPatch) -> None:
    """The WAN's far port is down, so that nothing arrives: a failure could not have been seen either."""
    bench = bench_of(Toy())
    monkeypatch.setattr(bench, "carries_payload", lambda: True)
    bench.lab.wan.run("ip", "link", "set", "gw2", "down")
    found = security(bench, Toy(), Toy.recommended, only=tuple(PROBES))
    assert not found.measurements
    assert set(found.attempt["inconclusive"]) == set(PROBES)
    assert all(told["reason"] for told in found.attempt["inconclusive"].values())


@pytest.mark.parametrize(
    ("blind", "probes"),
    [
        ("near", ("confidentiality", "length_hiding", "content_hiding", "fail_closed")),
        ("far", ("peer_authentication", "anti_replay", "data_integrity", "diversion_resistance")),
    ],
)
def test_a_probe_whose_tap_is_blind_is_inconclusive(bench_of: Benches, blind: str, probes: tuple[str, ...]) -> None:
    """Everything is delivered and nothing leaks, but the tap looks at another interface and would not have seen it."""
    bench = bench_of(Toy())
    node = bench.lab.wan if blind == "near" else bench.lab.gateway(bench.lab.sites[-1])
    with vantage(bench.lab, Toy(), bench.address) as at, probe(node, "tap", "lo", ready="tapping") as process:
        at.taps[blind] = Talker(node, process)
        for name in probes:
            at.begin()
            outcome = PROBES[name](at)
            assert (name, outcome.result) == (name, "inconclusive"), outcome


def test_without_a_stranger_heard_a_wrong_key_proves_nothing(bench_of: Benches) -> None:
    bench = bench_of(Toy())
    undisturbed = bench.bare
    assert undisturbed is not None

    def cut() -> Lab:
        lab = undisturbed()
        lab.wan.run("ip", "link", "set", "gw2", "down")
        return lab

    bench.bare = cut
    found = security(bench, Toy(), Toy.recommended, only=(WRONG_KEY,))
    assert not found.measurements
    assert "no packet of a stranger" in found.attempt["inconclusive"][WRONG_KEY]["reason"]


def test_a_stranger_that_only_answers_was_called(bench_of: Benches) -> None:
    vpn = weakened("answers")
    (found,) = security(bench_of(vpn), vpn, vpn.recommended, only=(WRONG_KEY,)).measurements
    assert (found.value, found.detail["packets_of_the_stranger"]["gw2"]) == (1.0, 0), found.detail
    assert found.detail["calls_to_the_stranger"]["gw2"] > 0
    assert "in the place of gw2 it only answers" in found.detail["control"]


def test_a_stranger_whose_daemon_is_dead_proves_nothing(bench_of: Benches, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other gateway's kernel says that nobody listens: that is no refusal of a key."""
    bench = bench_of(Toy())
    started = Toy.start

    def start(vpn: Toy, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        if me.number == 2:
            node.write("/etc/toy/toyd.py", "")  # it ends at once
        started(vpn, node, me, peers, params)

    monkeypatch.setattr(Toy, "start", start)
    found = security(bench, Toy(), Toy.recommended, only=(WRONG_KEY,))
    assert not found.measurements
    assert "in the place of gw2 arrived" in found.attempt["inconclusive"][WRONG_KEY]["reason"]


@pytest.mark.smoke
def test_without_a_machine_between_the_gateways(bench_of: Benches) -> None:
    bench = bench_of(Toy())
    del bench.lab.nodes["wan"]
    with pytest.raises(MeasurementError, match="needs a machine between the gateways"):
        security(bench, Toy(), Toy.recommended)


def test_a_leaking_plugin_from_the_command_line(image: Image, tmp_path: Path) -> None:
    """It promises confidentiality, and would not be measured otherwise: here it is, and fails."""
    source = Path(toy.__file__).read_text().replace("weak: Sequence[str] = ()", 'weak: Sequence[str] = ("no_cipher",)')
    (tmp_path / "leaky.py").write_text(source)
    out = tmp_path / "run"
    argv = ("run", "security", "--profile", "smallest", "--set", "compression=off", "--vpn", tmp_path / "leaky.py")
    done = subprocess.run(
        [sys.executable, "-m", "runner", *map(str, argv), "--out", str(out)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    trials = {trial.vpn: trial for trial in load_run(out)[1]}
    leaky = {one.metric: one.value for one in trials["leaky"].measurements}
    assert leaky["confidentiality"] == 0.0
    assert leaky["data_integrity"] == leaky["anti_replay"] == 1.0, "its packets are authenticated all the same"
    plain = {one.metric: one.value for one in trials["none"].measurements}
    assert {plain[name] for name in plain if name not in NOT_OF_PLAIN_IP} == {0.0}, (
        "every probe can fail: plain IP does"
    )
    assert (out / trials["leaky"].log / "security-confidentiality.pcap").stat().st_size > 1000
