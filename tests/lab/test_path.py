"""The probes of a path against a toy VPN that bears everything, and against toys that each fail one of them."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path

import pytest

from runner.catalogue import instruments, load_vpn
from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, at_once
from runner.instruments.path import blocked, narrow, numbers, policing, router, silence, translation
from runner.instruments.result import Measured
from runner.instruments.tools import between
from runner.lab.node import Node, wait_until
from runner.lab.places import NamespaceRig
from runner.lab.shape.site import Site, helper_site
from runner.lab.shape.site_to_site import SITES, Lab, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, make_secrets, start_services
from runner.vpn.plugin import Vpn
from tests.lab.toy import Toy
from vpns.openvpn import OpenVpn
from vpns.openvpn_tcp import OpenVpnTcp


@contextmanager
def bench_of(image: Image, vpn: Vpn, logs: Path, known: dict[str, str] | None = None) -> Iterator[Bench]:
    """A bench for a VPN, as the trial loop makes it."""
    with ExitStack() as labs:
        secrets = known or make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), SITES)

        def bare() -> Lab:
            labs.close()
            lab = labs.enter_context(namespace_lab(image, logs=logs))
            start_services(lab)
            return lab

        def fresh() -> tuple[Lab, Tunnel]:
            lab = bare()
            return lab, bring_up(lab, vpn, vpn.recommended, secrets, judged=False)

        def another() -> AbstractContextManager[Bench]:
            again = logs / "again"
            again.mkdir()
            return bench_of(image, vpn, again, secrets)

        yield Bench(*fresh(), fresh, bare=bare, keys=lambda **_: secrets, another=another)


def toy(*weak: str) -> Toy:
    vpn = Toy()
    vpn.weak = weak
    return vpn


class Coordinated(Toy):
    """A toy whose gateways start when they have reached a coordinator; gw2 cannot once it ``is_cut_off``."""

    name = "coordinated"
    beside = "coordinator"
    is_cut_off: Callable[[Sequence[Site]], bool] = staticmethod(lambda sites: False)

    def __init__(self, *weak: str) -> None:
        self.weak = weak

    def start_beside(self, node: Node, me: Site, sites: Sequence[Site], params: Params) -> None:
        node.spawn("python3", "-m", "http.server", "8080", log="coordinator")
        wait_until(lambda: node.run("ss", "-Hltn", "sport = :8080").stdout != "", "the coordinator listening")
        if self.is_cut_off(sites):
            chain = "type filter hook input priority 0; ip saddr 192.168.0.2 tcp dport 8080 drop"
            node.run("nft", "-f", "-", input=f"table ip t {{ chain c {{ {chain}\n}}\n}}\n")

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        address = helper_site(me, self.beside).wan_address
        ask = f"import socket; socket.create_connection(({address!r}, 8080), 5)"
        node.run("python3", "-IS", "-c", ask)
        super().start(node, me, peers, params)


class OverTcp(OpenVpnTcp):
    """What FallsBack falls back to."""

    name = "falls_back"

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        return super().evidence(node, me, peers, params).model_copy(update={"data_path": "userspace: over TCP"})


class FallsBack(OpenVpn):
    """Falls back to TCP where UDP does not pass."""

    name = "falls_back"

    def with_fallback(self) -> Vpn:
        return OverTcp()


def probed(bench: Bench, vpn: Vpn, probe: str) -> Measured:
    asked = Asked(vpn, {**vpn.recommended, "measure": probe}, PROFILES["smallest"], seed=1)
    return at_once(instruments()[probe].measure(bench, asked))


def kinds(found: Measured) -> dict[str, tuple[str, float]]:
    assert all(one.detail["control"] for one in found.measurements)
    return {one.metric: (one.detail["kind"], one.value) for one in found.measurements}


WHOLE = {
    "marks": {"dscp_copied": ("zero", 0.0), "congestion_heard": ("not_copied", 1.0)},
    "reordering": {"reordering_depth": ("window", 64.0)},
    "repeats": {"duplicates_borne": ("once", 1.0), "burst_loss_borne": ("exact", 1.0)},
}


@pytest.mark.smoke
@pytest.mark.alone
def test_a_toy_that_bears_a_path(image: Image, tmp_path: Path) -> None:
    with bench_of(image, toy(), tmp_path) as bench:
        assert {probe: kinds(probed(bench, toy(), probe)) for probe in WHOLE} == WHOLE


def test_a_daemon_that_waits_for_its_turn_bears_what_it_bears(image: Image, tmp_path: Path) -> None:
    """As on a busy machine: what is not there after a quarter of a second is not lost."""
    vpn = toy("naps")
    with bench_of(image, vpn, tmp_path) as bench:
        assert kinds(probed(bench, vpn, "repeats")) == WHOLE["repeats"]


def test_a_relay_that_loses_another_packet_says_nothing(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    follow = numbers.Path.follow

    def other(path: numbers.Path, plan: Mapping[int, int], count: int) -> numbers.NumbersHeard:
        shifted = {number + 1: depth for number, depth in plan.items()} if path.near.node.name == "host1" else plan
        return follow(path, shifted, count)

    monkeypatch.setattr(numbers.Path, "follow", other)
    with bench_of(image, toy(), tmp_path) as bench:
        found = probed(bench, toy(), "repeats")
    assert not found.measurements
    unsure = found.attempt["inconclusive"]["burst_loss_borne"]
    assert unsure["kind"] == "no_control"
    assert "through the tunnel" in unsure["reason"]


@pytest.mark.parametrize(
    ("weak", "probe", "metric", "kind"),
    [
        ("copies", "marks", "congestion_heard", "lost"),
        ("in_order", "reordering", "reordering_depth", "window"),
        ("chokes", "repeats", "duplicates_borne", "lost"),
        ("unbroken", "repeats", "burst_loss_borne", "more_lost"),
        ("replays", "repeats", "duplicates_borne", "twice"),
    ],
)
def test_each_weakness_is_found(image: Image, tmp_path: Path, weak: str, probe: str, metric: str, kind: str) -> None:
    vpn = toy(weak)
    with bench_of(image, vpn, tmp_path) as bench:
        found = probed(bench, vpn, probe)
    seen, value = kinds(found)[metric]
    assert seen == kind, found
    assert (value < 1) == (weak != "replays")


@pytest.mark.parametrize("probe", ["reordering", "repeats"])
def test_without_its_control_there_is_no_verdict(image: Image, tmp_path: Path, probe: str) -> None:
    """The far gateway takes no plain packets: what the tunnel delivers proves nothing then."""
    with bench_of(image, toy(), tmp_path) as bench:
        far = bench.lab.gateway(bench.lab.sites[-1])
        chain = "type filter hook ingress device wan0 priority 0"
        far.run("nft", "-f", "-", input=f"table netdev t {{ chain c {{ {chain};\nudp dport 5203 drop\n}}\n}}\n")
        found = probed(bench, toy(), probe)
    assert not found.measurements
    assert {told["kind"] for told in found.attempt["inconclusive"].values()} <= {"no_control", "no_answer"}


def test_a_wan_that_clears_marks_says_nothing_about_a_vpn(image: Image, tmp_path: Path) -> None:
    with bench_of(image, toy(), tmp_path) as bench:
        near = bench.lab.gateway(bench.lab.sites[0])
        chain = "type filter hook output priority 0"
        near.run("nft", "-f", "-", input=f"table ip t {{ chain c {{ {chain};\nudp dport 9 ip dscp set 0\n}}\n}}\n")
        found = probed(bench, toy(), "marks")
    assert {told["kind"] for told in found.attempt["inconclusive"].values()} == {"no_control"}


def test_plain_ip_keeps_marks_and_order(image: Image, tmp_path: Path) -> None:
    plain = load_vpn("none")
    with bench_of(image, plain, tmp_path) as bench:
        assert kinds(probed(bench, plain, "marks")) == {
            "dscp_copied": ("copied", 1.0),
            "congestion_heard": ("heard", 1.0),
        }
        assert kinds(probed(bench, plain, "reordering")) == {"reordering_depth": ("all", 16384.0)}


@pytest.mark.parametrize(("weak", "kind"), [((), ("all", 1280.0)), (("df",), ("some", 1400.0))])
def test_what_cannot_be_fragmented_dies_in_a_black_hole(
    image: Image, tmp_path: Path, weak: tuple[str, ...], kind: tuple[str, float]
) -> None:
    vpn = toy(*weak)
    with bench_of(image, vpn, tmp_path) as bench:
        found = probed(bench, vpn, "narrow")
    assert kinds(found) == {"black_hole_mtu": kind, "narrow_mtu": ("all", 1280.0)}, found


def test_a_router_that_is_not_silent_is_no_black_hole(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(narrow, "TABLE", narrow.TABLE.replace("{verdict}", "accept"))
    with bench_of(image, toy(), tmp_path) as bench:
        found = probed(bench, toy(), "narrow")
    assert {told["kind"] for told in found.attempt["inconclusive"].values()} == {"no_control"}


@pytest.mark.parametrize(
    ("vpn", "without_udp", "packets"), [(Toy(), "dead", False), (load_vpn("openvpn_tcp"), "up", True)]
)
def test_a_filter_is_passed_by_a_tunnel_over_tcp(
    image: Image, tmp_path: Path, vpn: Vpn, without_udp: str, packets: bool
) -> None:
    with bench_of(image, vpn, tmp_path) as bench:
        found = probed(bench, vpn, "blocked")
    seen = kinds(found)
    assert (seen["passes_without_udp"][0], seen["passes_https_only"][0]) == (without_udp, "dead")
    assert [bool(one.detail["numbers"]["tcp_packets"]) for one in found.measurements] == [packets] * 2


def test_what_a_product_falls_back_to_is_part_of_it(image: Image, tmp_path: Path) -> None:
    vpn = FallsBack()
    with bench_of(image, vpn, tmp_path) as bench:
        found = probed(bench, vpn, "blocked")
    seen = {one.metric: one for one in found.measurements}
    assert kinds(found) == {"passes_without_udp": ("fallback", 1.0), "passes_https_only": ("dead", 0.0)}
    numbers = seen["passes_without_udp"].detail["numbers"]
    assert numbers["way"] == "userspace: over TCP"
    assert min(numbers["rate_mbit_s"], numbers["usual_mbit_s"], numbers["rtt_ms"]) > 0


def test_a_filter_that_lets_udp_pass_says_nothing(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocked, "block", lambda lab, rule: None)
    with bench_of(image, toy(), tmp_path) as bench:
        found = probed(bench, toy(), "blocked")
    assert {told["kind"] for told in found.attempt["inconclusive"].values()} == {"no_control"}


@pytest.mark.parametrize(
    ("weak", "kind"), [(("follows",), "at_once"), (("learns",), "never"), ((), "dead")], ids=lambda each: str(each)
)
def test_a_nat_that_changes_its_mapping(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weak: tuple[str, ...], kind: str
) -> None:
    monkeypatch.setattr(translation, "PATIENT_S", 5.0)
    vpn = toy(*weak)
    with bench_of(image, vpn, tmp_path) as bench:
        seen = kinds(probed(bench, vpn, "nat"))
    assert {metric: found for metric, (found, _) in seen.items()} == dict.fromkeys(seen, kind)
    assert {*seen} == {"nat_port_back", "nat_address_back"}


@pytest.mark.parametrize(
    ("weak", "kind"), [(("follows", "keeps"), ("all", 4.0)), (("follows",), ("none", 0.0)), (("keeps",), ("dead", 0.0))]
)
def test_a_nat_that_forgets(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, weak: tuple[str, ...], kind: tuple[str, float]
) -> None:
    for name, value in (("SILENCES_S", (2, 4)), ("GRACE_S", 1), ("LONGER_S", 2)):
        monkeypatch.setattr(silence, name, value)
    vpn = toy(*weak)
    with bench_of(image, vpn, tmp_path) as bench:
        assert kinds(probed(bench, vpn, "silence")) == {"nat_silence": kind}


def test_behind_a_nat_each_gateway_reaches_what_the_vpn_needs(image: Image, tmp_path: Path) -> None:
    vpn = Coordinated("follows")
    with bench_of(image, vpn, tmp_path) as bench:
        seen = kinds(probed(bench, vpn, "nat"))
    assert {kind for kind, _ in seen.values()} == {"at_once"}


def test_a_relay_leaves_each_gateway_what_the_vpn_needs(image: Image, tmp_path: Path) -> None:
    vpn = Coordinated()
    with bench_of(image, vpn, tmp_path) as bench:
        with between.wan_relay(bench.lab):
            router.check_helpers(bench.lab)
        assert kinds(probed(bench, vpn, "repeats")) == WHOLE["repeats"]
        router.check_helpers(bench.lab)


@pytest.mark.parametrize(
    ("probe", "metric", "is_cut_off"),
    [
        ("nat", "nat_port_back", lambda sites: bool(sites[0].public_address)),
        ("blocked", "passes_without_udp", lambda sites: True),
    ],
    ids=["nat", "blocked"],
)
def test_a_vpn_that_lacks_what_it_needs_tells_nothing(
    image: Image, tmp_path: Path, probe: str, metric: str, is_cut_off: Callable[[Sequence[Site]], bool]
) -> None:
    vpn = Coordinated("follows")
    with bench_of(image, vpn, tmp_path) as bench:
        vpn.is_cut_off = is_cut_off
        found = probed(bench, vpn, probe)
    assert not found.measurements
    unsure = found.attempt["inconclusive"][metric]
    assert unsure["kind"] == "no_control"
    assert "gw2 does not reach TCP 8080 of the coordinator" in unsure["reason"]


def test_a_nat_that_forgets_nothing_says_nothing(image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation.Nat, "forgets", lambda nat: None)
    with bench_of(image, toy("follows"), tmp_path) as bench:
        found = probed(bench, toy("follows"), "nat")
    assert {told["kind"] for told in found.attempt["inconclusive"].values()} == {"no_control"}


@pytest.mark.alone
@pytest.mark.parametrize(("weak", "kind"), [((), "keeps"), (("doubles",), "loses")])
def test_a_policed_rate_is_shared_by_what_is_sent_twice(
    image: Image, tmp_path: Path, weak: tuple[str, ...], kind: str
) -> None:
    vpn = toy(*weak)
    with bench_of(image, vpn, tmp_path) as bench:
        found = probed(bench, vpn, "policing")
    if "is the machine busy?" in "".join(found.warnings):
        pytest.skip(found.warnings[0])  # no verdict is better than one of the machine
    assert kinds(found).get("policed_share", ("",))[0] == kind, found


@pytest.mark.parametrize(("weak", "kind"), [((), "as_plain"), (("hoards",), "longer")])
def test_a_queue_of_the_tunnel_s_own_is_seen(image: Image, tmp_path: Path, weak: tuple[str, ...], kind: str) -> None:
    vpn = toy(*weak)
    with bench_of(image, vpn, tmp_path) as bench:
        found = probed(bench, vpn, "bulk")
    assert {seen for seen, _ in kinds(found).values()} == {kind}, found


@pytest.mark.parametrize("probe", ["policing", "bulk"])
def test_a_wan_that_is_not_slow_says_nothing(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probe: str
) -> None:
    monkeypatch.setattr(policing, "slow", lambda *_: nullcontext())
    with bench_of(image, toy(), tmp_path) as bench:
        found = probed(bench, toy(), probe)
    assert {told["kind"] for told in found.attempt["inconclusive"].values()} == {"no_control"}


def test_the_mtu_to_set_after_a_black_hole_was_tried(image: Image, tmp_path: Path) -> None:
    vpn = toy("df", "padless")
    with bench_of(image, vpn, tmp_path) as bench:
        found = probed(bench, vpn, "narrow")
    (silent,) = (one for one in found.measurements if one.metric == "black_hole_mtu")
    assert silent.detail["kind"] == "some"
    assert silent.detail["numbers"]["mtu_to_set"] == {"path": 1280, "inside": 1160}
    assert silent.detail["numbers"]["cause"] == "df"


def test_what_lives_by_chance_has_its_counts(image: Image, tmp_path: Path) -> None:
    vpn = toy("chance", "padless")
    with bench_of(image, vpn, tmp_path) as bench:
        found = probed(bench, vpn, "narrow")
    (silent,) = (one for one in found.measurements if one.metric == "black_hole_mtu")
    assert (silent.detail["kind"], silent.value) == ("chance", 1400.0), found
    numbers = silent.detail["numbers"]
    assert (numbers["at"], numbers["passed"], numbers["tries"], numbers["cause"]) == (1280, 2, 8, "df_of_some")
    assert numbers["of_mtu"]["1400"]["passed"] == numbers["of_mtu"]["1400"]["tries"]
    assert numbers["mtu_to_set"] == {"path": 1280, "inside": 1160}
