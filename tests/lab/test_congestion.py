"""The congestion control of TCP: CUBIC on every node whatever the machine's default is, or what the factor says."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.data.trials import Value
from runner.data.wan import Conditions
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, at_once
from runner.instruments.tools.iperf import congestion_in_use
from runner.instruments.tools.visits import visits
from runner.instruments.traffic.loaded import Loaded, check_congestion
from runner.instruments.traffic.tcp import Tcp
from runner.lab.node import LabNode, wait_until
from runner.lab.shape import congestion, wan
from runner.lab.shape.site_to_site import Lab
from runner.lab.shape.topologies import ospf, topology_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, bring_up, start_services

SERVE = "import socket\nserver = socket.create_server(('', 99))\nwhile True: server.accept()[0].close()"
ASK = """
import socket, sys
print(socket.create_connection((sys.argv[1], 99), 5).getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).decode())
"""


def between(near: LabNode, far: LabNode, address: str) -> str:
    """The congestion control of a connection."""
    if not far.run("ss", "-Hltn", "sport = :99").stdout:
        far.spawn("python3", "-IS", "-c", SERVE, log="congestion")
        wait_until(lambda: bool(far.run("ss", "-Hltn", "sport = :99").stdout), "the server listening")
    return near.run("python3", "-IS", "-c", ASK, address).stdout.strip("\0\n")


@pytest.mark.smoke
def test_every_node_begins_with_cubic(lab: Lab) -> None:
    """The hosts to their gateways, as for port forwarding, and the gateways to each other, as for VPNs in TCP."""
    near, far = lab.sites
    ways = [
        (lab.host1, lab.gateway(near), near.lan_address),
        (lab.host2, lab.gateway(far), far.lan_address),
        (lab.gateway(near), lab.gateway(far), far.wan_address),
        (lab.gateway(far), lab.host2, far.host_address),
    ]
    assert [between(*way) for way in ways] == ["cubic"] * 4
    assert congestion.default(lab.host1) == "cubic"


def test_the_routers_of_another_topology_do_too(image: Image, tmp_path: Path) -> None:
    with topology_lab(ospf("link"), image, logs=tmp_path) as lab:
        assert between(lab.host1, lab.nodes["gw1"], "10.1.0.1") == "cubic"
        assert between(lab.nodes["r3"], lab.nodes["gw2"], "10.0.34.2") == "cubic"


@pytest.mark.smoke
def test_routes_have_it_where_the_machine_does_not_allow_it_as_a_default(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(congestion, "SYSCTL", "net.ipv4.no_such_setting")
    assert congestion.use(lab.host1, "reno")
    assert between(lab.host1, lab.gateway(lab.sites[0]), lab.sites[0].lan_address) == "reno"
    assert congestion.default(lab.host1) == "reno"
    assert not congestion.use(lab.host1, "nonsense"), "and what no kernel has is not had"
    assert congestion.default(lab.host1) == "reno"


@pytest.fixture
def plain(lab: Lab) -> Bench:
    start_services(lab)
    vpn = load_vpn("none")
    return Bench(lab, bring_up(lab, vpn, vpn.comparable, {}), lambda: pytest.fail("plain IP does not break down"))


def measured(bench: Bench, profile: str = "quick", **levels: str) -> Value:
    instrument = {"tcp": Tcp(), "loaded": Loaded()}[levels["measure"]]
    defaults = {factor: known.default for factor, known in instrument.factors.items() if known.default}
    asked = Asked(load_vpn("none"), {**defaults, **levels}, PROFILES[profile], 1)
    assert not (no := instrument.refuses(bench.lab, asked.vpn, asked.params)), no
    found = {value.metric: value for value in at_once(instrument.measure(bench, asked)).measurements}
    return found["rtt_loaded" if levels["measure"] == "loaded" else "tcp_throughput"]


def test_the_factor_decides_the_round_trip_under_load(plain: Bench) -> None:
    if no := congestion.control_refusal((plain.lab.host1,), "bbr"):
        pytest.skip(no.reason)
    wan.apply(plain.lab, Conditions(rate_bps=20e6, queue_ms=200))
    cubic, bbr = (measured(plain, "thesis", measure="loaded", congestion=name) for name in ("cubic", "bbr"))
    assert (cubic.detail["congestion_control"], bbr.detail["congestion_control"]) == ("cubic", "bbr")
    assert cubic.value > 100 > 3 * bbr.value, "ms: CUBIC fills the queue of 200 ms, BBR drains it"


@pytest.mark.smoke
@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_slices_of_tcp_have_what_is_asked_for_and_the_hosts_again_after_it(plain: Bench, direction: str) -> None:
    asked = [
        visits(plain).tcp(0.1, direction=direction, streams=2, control=name)["congestion_control"]
        for name in ("reno", "", "cubic")
    ]
    plain.close()
    assert asked == ["reno", "cubic", "cubic"]


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_a_whole_test_of_tcp_has_it_too(plain: Bench, direction: str) -> None:
    found = measured(plain, "smallest", measure="tcp", congestion="reno", direction=direction, transfer="file")
    assert found.detail["congestion_control"] == "reno"


@pytest.mark.smoke
def test_a_load_with_another_one_is_no_measurement(plain: Bench) -> None:
    stream = plain.lab.host1.spawn("iperf3", "-c", plain.address, "-t", "5", "--congestion", "reno", log="load")
    try:
        wait_until(lambda: congestion_in_use(plain.lab) == "reno", "the load begun")
        with pytest.raises(MeasurementError, match="was reno, not cubic"):
            check_congestion(plain.lab, "cubic")
    finally:
        stream.stop()


@pytest.mark.smoke
def test_what_the_kernel_has_not_is_unsupported(lab: Lab) -> None:
    assert congestion.control_refusal((lab.host1, lab.host2), "cubic") is None
    no = congestion.control_refusal((lab.host1, lab.host2), "nonsense")
    assert no is not None
    assert "host1 has no congestion control nonsense. It has " in no.reason
    assert "cubic" in no.reason
