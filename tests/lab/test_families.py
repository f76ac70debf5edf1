"""IPv4 and IPv6, on the WAN and between the sites: what plugins say that they take, tried with them as they are."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.choice.musts import states
from runner.data.errors import MeasurementError
from runner.data.store import load_run
from runner.instruments.security.other_family import other_family
from runner.instruments.security.vantage import vantage
from runner.instruments.tools.generator import generating
from runner.instruments.traffic.overhead import overhead
from runner.lab.shape.site_to_site import Lab, over_ipv6
from runner.vpn.plugin import Vpn
from tests.lab.commands import vpneval
from tests.lab.test_abilities import LabFor, bring, lab_for, only_by, reworded
from tests.unit.helpers import overhead_bytes

__all__ = ["lab_for"]  # a fixture

OVER = [name for name in vpn_names() if load_vpn(name).outer_ipv6]
INSIDE = [name for name in (*vpn_names(), "nebula@1.10") if load_vpn(name).inner_ipv6]
QUICK = ("wireguard_go",)  # in the gate
PACKET_BYTES = 1000


def marked(*names: str) -> list[Any]:
    return [pytest.param(name, marks=[pytest.mark.smoke] if name in QUICK else []) for name in names]


@pytest.mark.parametrize("name", marked(*OVER))
def test_over_ipv6_each_packet_is_twenty_bytes_longer(lab_for: LabFor, name: str) -> None:
    """On a WAN that has no IPv4: no address, and a filter that drops it. Without a tunnel packets are as long."""
    vpn, found = load_vpn(name), []
    for version in (4, 6):
        lab = lab_for(name)
        if version == 6:
            over_ipv6(lab)
            assert not any(
                lab.gateway(site).run("ip", "-4", "addr", "show", "dev", "wan0").stdout for site in lab.sites
            )
            only_by(lab, "ether type ip6 accept", *["ether type ip accept"] * vpn.reference)
        tunnel = bring(lab, vpn)
        assert tunnel.proof.delivered
        if vpn.carries == "ip":
            with generating(lab, tunnel.address) as by:
                found.append(overhead(lab, PACKET_BYTES, False, None, by))
    if found:
        more = 0 if vpn.reference else 20
        lengths = [one.measurements[0].detail["captured_lengths"] for one in found]
        four, six = (int(max(counts, key=lambda length: counts[length])) for counts in lengths)
        varies = {"yggdrasil": 2, "masque": 0.5}.get(vpn.name, 0)  # its numbers are as long as they are large
        assert six - four == pytest.approx(more, abs=varies)
        values = [one.measurements[0].value for one in found]
        assert values[1] - values[0] == pytest.approx(more, abs=varies + 0.5 * (vpn.transport == "tcp"))


@pytest.mark.smoke
def test_the_closed_form_is_that_of_the_path(lab_for: LabFor) -> None:
    from runner.data.packet import over_ipv6 as longer

    lab, vpn = lab_for("openvpn"), load_vpn("openvpn")
    over_ipv6(lab)
    tunnel = bring(lab, vpn)
    layers, usual = vpn.encapsulation(vpn.comparable, PACKET_BYTES), overhead_bytes(vpn, vpn.comparable, PACKET_BYTES)
    assert layers is not None
    assert usual is not None
    with generating(lab, tunnel.address) as by:
        measured = overhead(lab, PACKET_BYTES, False, longer(layers), by)
    (found,) = measured.measurements  # of a stream that lost nothing, after others that may have
    assert found.value == found.detail["closed_form_bytes"] == usual + 20


@pytest.mark.parametrize("underlay", [4, 6])
@pytest.mark.parametrize("name", marked(*INSIDE))
def test_ipv6_inside(lab_for: LabFor, name: str, underlay: int) -> None:
    """Hosts of both sites reach each other by IPv6 through the tunnel; the WAN drops what would pass beside it."""
    lab, vpn = lab_for(name), load_vpn(name)
    if underlay == 6 and not vpn.outer_ipv6:
        pytest.skip("it does not travel over IPv6")
    if underlay == 6:
        over_ipv6(lab)
    if not vpn.reference:
        within_the_wan(lab, "ip6 daddr fd00::/8")
    tunnel = bring(lab, vpn, inner="6")
    assert tunnel.address == "fd02::2"
    assert tunnel.proof.delivered


def within_the_wan(lab: Lab, dropped: str) -> None:
    """The WAN drops what the expression matches."""
    table = "table bridge no {\n chain f {\n type filter hook forward priority 0\n %s drop\n }\n}\n"
    lab.wan.run("nft", "-f", "-", input=table % dropped)


def test_a_run_takes_both_as_factors(tmp_path: Path) -> None:
    """Overhead is 20 bytes more over IPv6, and the same inside it; who cannot is unsupported; the must is shown."""
    levels = ("measure=overhead", "packet_bytes=1024", "underlay=4", "underlay=6", "inner=4", "inner=6")
    small = ("--profile", "smallest", "--reps", 1, "--vpn", "wireguard_go,nebula", "--set", ",".join(levels))
    done = vpneval("run", "overhead", *small, "--out", tmp_path / "run")
    assert done.returncode == 0, done.stderr
    run, trials = load_run(tmp_path / "run")
    found = {
        (trial.vpn, *(trial.params.get(factor, "4") for factor in ("underlay", "inner"))): trial for trial in trials
    }
    values = {key: trial.measurements[0].value for key, trial in found.items() if trial.status == "ok"}
    assert {key: value for key, value in values.items() if key[0] == "none"} == dict.fromkeys(
        [("none", *versions) for versions in product("46", "46")], 0
    )
    for vpn, inside in (("wireguard_go", "46"), ("nebula", "4")):
        assert {values[vpn, "6", inner] - values[vpn, "4", inner] for inner in inside} == {20}
    assert found["nebula", "4", "6"].reason == "Nebula cannot carry IPv6 between the sites"
    known = states(run, trials)
    assert known["wireguard_go"]["ipv6-path"].word == known["wireguard_go"]["ipv6-inside"].word == "shown"
    assert (known["nebula"]["ipv6-path"].word, known["nebula"]["ipv6-inside"].word) == ("shown", "no")


CLOSED = "table ip6 no {\n chain f {\n type filter hook forward priority 0\n ip6 daddr fd02::/64 drop\n }\n}\n"


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("asked", "rules", "found"), [({}, "", "open"), ({}, CLOSED, "closed"), ({"inner": "6"}, "", "carried")], ids=str
)
def test_what_becomes_of_the_sites_ipv6(lab_for: LabFor, asked: dict[str, str], rules: str, found: str) -> None:
    lab, vpn = lab_for("wireguard_go"), load_vpn("wireguard_go")
    bring(lab, vpn, **asked)
    lab.gateway(lab.sites[0]).run("nft", "-f", "-", input=rules)
    with vantage(lab, vpn, lab.sites[-1].host_address) as at:
        at.begin()
        assert other_family(at) == found


def lying(name: str, said: str, done: str) -> Vpn:
    return reworded(load_vpn(name), lambda text, me: text.replace(said, done))


def test_a_false_word_on_the_path_is_caught(lab_for: LabFor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin takes such an address, and its daemon is told to use IPv4."""
    monkeypatch.setattr("runner.tunnel.bring_up.UP_WITHIN_S", 3.0)
    lab = lab_for("openvpn")
    over_ipv6(lab)
    with pytest.raises(TimeoutError, match="no payload came through the tunnel"):
        bring(lab, lying("openvpn", "proto udp6", "proto udp4"))


@pytest.mark.smoke
def test_a_false_word_on_what_is_inside_is_caught(lab_for: LabFor, monkeypatch: pytest.MonkeyPatch) -> None:
    """The plugin is asked for IPv6, and does not name the network that may pass."""
    monkeypatch.setattr("runner.tunnel.inner.ANSWERED_WITHIN_S", 2.0)
    lab, vpn = lab_for("wireguard_go"), lying("wireguard_go", ", fd02::/64", "")
    with pytest.raises(MeasurementError) as caught:
        bring(lab, vpn, inner="6")
    assert caught.value.attempt == {"refutes": "ipv6-inside"}
