"""Latency, download and cost through real tunnels, each with a control that shows it measures what it says."""

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import InstrumentError, MeasurementError
from runner.data.files import hold_lock
from runner.data.wan import Conditions
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, at_once
from runner.instruments.result import Measured
from runner.instruments.tools.cost import processes, snapshot, system_calls
from runner.instruments.tools.generator import Load
from runner.instruments.traffic.download import download
from runner.instruments.traffic.idle import idle
from runner.instruments.traffic.loaded import measure_under_load, udp_rtt
from runner.instruments.traffic.lookups import lookups
from runner.instruments.traffic.overhead import Overhead
from runner.instruments.traffic.resolver import PORT, Resolving, answering
from runner.instruments.traffic.service import service
from runner.instruments.traffic.tcp import FILE_ENDS_S, tcp
from runner.instruments.traffic.udp import Udp, udp
from runner.instruments.traffic.udp_sockets import UdpSockets, sending
from runner.lab.node import wait_until
from runner.lab.places import NamespaceRig
from runner.lab.readings.facts import facts, openssl_bps
from runner.lab.readings.lookups import TRACEFS, lacks, trace_lookups
from runner.lab.shape import wan
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import Image
from runner.search.settings import UdpSearch
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, start_services
from tests.lab.tries import unspoiled

SHAPED_BPS, QUEUE_MS = 20e6, 20.0  # the queue's length in ms is runner.lab.shape.site_to_site's QUEUE_S
GATE = pytest.mark.smoke
EVERY = pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=GATE) for name in ("none", "openvpn", "ssh_forward")), "wireguard_go"]
)


@pytest.fixture
def lab(image: Image, tmp_path: Path) -> Iterator[Lab]:
    with namespace_lab(image, logs=tmp_path) as up:
        yield up


def tunnel(lab: Lab, image: Image, name: str) -> Tunnel:
    vpn = load_vpn(name)
    with NamespaceRig().alone(image, lambda line: None) as keys:
        secrets = vpn.secrets(keys, lab.sites)
    start_services(lab)
    return bring_up(lab, vpn, vpn.comparable, secrets)


def values(measured: Measured) -> dict[str, float]:
    return {found.metric: found.value for found in measured.measurements}


@pytest.mark.parametrize("name", ["none", *(pytest.param(name, marks=GATE) for name in ("openvpn", "ssh_forward"))])
def test_a_service_of_the_gateway_beside_the_tunnels_load(lab: Lab, image: Image, name: str) -> None:
    up = tunnel(lab, image, name)
    gateway = lab.gateway(lab.sites[0])
    for load in ("2000000", "full"):
        measured = unspoiled(partial(service, lab, up.address, load, 1.0), "the load reached")
        found = {m.metric: m for m in measured.measurements}
        assert found["service_rate"].value > 0
        assert found["service_rate_loaded"].detail["load_bps"] > 1.5e6
        assert found["service_delay_loaded"].value > 0
        assert found["service_delay"].detail["exchanges"] == len(found["service_delay"].samples)
        assert found["dns_delay_loaded"].value <= found["dns_p95_loaded"].value <= found["dns_p99_loaded"].value
        assert found["dns_unanswered_loaded"].value < 0.5
    with pytest.raises(MeasurementError, match=r"the load reached .* of 1e\+06 Mbit/s. Choose a lower one"):
        service(lab, up.address, str(10**12), 0.2)
    assert not gateway.run("ss", "-Hltn", "sport = :8080").stdout, "the service is gone"


def test_a_dns_server_that_is_silent_gives_no_answer_and_a_wrong_one_fails(lab: Lab) -> None:
    gateway = lab.gateway(lab.sites[0])
    with answering(lab):
        gateway.run("pkill", "-STOP", "dnsmasq")
        silent = Resolving(lab, 1.0)
        gateway.run("pkill", "-CONT", "dnsmasq")
        assert (silent.times_ms, silent.unanswered_ratio) == ([], 1.0)
        assert Resolving(lab, 0.1).unanswered == 0
    other = gateway.spawn("dnsmasq", "-d", "-C/dev/null", "-R", "-h", f"-p{PORT}", "--pid-file=", log="other")
    try:
        wait_until(lambda: f":{PORT} " in gateway.run("ss", "-Hlun").stdout, "the other server listening")
        with pytest.raises(MeasurementError, match="the name server answered"):
            Resolving(lab, 0.1)
    finally:
        other.stop()


@pytest.mark.smoke
def test_udp_throughput_to_a_program_whose_socket_has_a_small_buffer(lab: Lab, image: Image) -> None:
    bench = Bench(lab, tunnel(lab, image, "none"), lambda: pytest.fail("it broke down"))
    with sending(lab, bench.address, 9216, 4096) as small:
        counted = small.play(Load((1328,), 20000, 0.5, burst=64))
    assert counted.dropped > 0, "4 KB hold three datagrams"
    assert counted.received + counted.dropped == pytest.approx(counted.sent, rel=0.01)
    search = UdpSearch(relative_width=0.2, trial_duration_s=1.0, confirm=None, budget_s=4.0, max_rate_bps=5e6)
    profile = replace(PROFILES["smallest"], udp=search)
    levels = {"payload_bytes": "1300", "send_buffer_bytes": "9216", "receive_buffer_bytes": "196608"}
    asked = Asked(load_vpn("none"), levels, profile, 1, known_bps=2e6)
    (found,) = at_once(UdpSockets().measure(bench, asked)).measurements
    assert (found.metric, found.detail["send_buffer_bytes"]) == ("udp_socket_throughput", 9216)
    assert found.value > 1e6
    assert all(trial["receiver_drop_ratio"] <= trial["loss_ratio"] for trial in found.detail["trials"])


@pytest.mark.parametrize(
    ("name", "each"),
    [
        *(pytest.param(*case, marks=GATE) for case in (("none", 1), ("openvpn", 2), ("ssh_tun", 1))),
        ("wireguard_go", 2),
    ],
)
def test_route_lookups_of_the_near_gateway(lab: Lab, image: Image, name: str, each: int) -> None:
    """Of the packet, and of what a daemon sends; sshd's connected socket keeps its route."""
    if lack := lacks():
        pytest.skip(lack)
    bench = Bench(lab, tunnel(lab, image, name), lambda: pytest.fail("it broke down"))
    (found,) = lookups(bench).measurements
    assert found.value == pytest.approx(each, abs=0.05), found.detail
    assert len(found.detail["per_packet"]) == each, "one a packet, for each of these"
    levels = {**load_vpn(name).comparable, "packet_bytes": "512"}
    (beside,) = Overhead().once(bench, Asked(load_vpn(name), levels, PROFILES["quick"], 1)).measurements
    bench.close()
    assert (beside.value == 0) == (name == "none"), "with the generator of the tunnel"


@pytest.mark.smoke
def test_nobody_else_traces_lookups_meanwhile() -> None:
    if lack := lacks():
        pytest.skip(lack)
    folder = os.open(TRACEFS / "instances", os.O_RDONLY)
    try:
        with trace_lookups(44):
            assert not hold_lock(folder, wait=False)
    finally:
        os.close(folder)


@pytest.mark.smoke
@pytest.mark.parametrize("payload", ["random", "zeros"])
def test_a_test_of_a_file_ends_with_it(lab: Lab, image: Image, payload: str) -> None:
    up, file_bytes = tunnel(lab, image, "none"), 5_000_000
    wan.apply(lab, Conditions(rate_bps=SHAPED_BPS, queue_ms=200))  # in which CUBIC loses nothing at its start
    started = time.monotonic()
    measured = tcp(lab, up.address, 1, 1, "forward", payload, file_bytes=file_bytes)
    assert time.monotonic() - started > 8 * file_bytes / SHAPED_BPS, "longer than the second of a test by time"
    throughput = measured.measurements[0]
    assert throughput.value == pytest.approx(SHAPED_BPS, rel=0.2)
    carried_bytes = sum(throughput.samples) * FILE_ENDS_S / 8  # of an interval each, but the last one
    assert file_bytes * 0.8 < carried_bytes < file_bytes * 1.8


def test_a_linear_scan_finds_what_the_default_search_finds_on_a_shaped_wan(lab: Lab, image: Image) -> None:
    wan.apply(lab, Conditions(rate_bps=6.5e6))  # a datagram of 1300 bytes is a frame of 1342
    bench = Bench(lab, tunnel(lab, image, "none"), lambda: pytest.fail("it broke down"))
    search = UdpSearch("scan", confirm=(2, 2.0), max_rate_bps=20e6)
    scanned = {m.metric: m for m in at_once(udp(bench, 1300, search, None)).measurements}["udp_throughput"]
    assert scanned.value == pytest.approx(6e6, rel=0.02)
    steps = [round(one["offered_rate_bps"], -6) for one in scanned.detail["trials"] if one["purpose"] == "confirm"]
    assert steps == [4e6, 4e6, 5e6, 5e6, 6e6, 6e6, 7e6], "single trials passed 4 and failed at 8 Mbit/s"
    assert (scanned.detail["steps"], scanned.detail["estimand"]) == (4, "mean")
    asked = Asked(load_vpn("none"), {"payload_bytes": "1300"}, PROFILES["smallest"], 1, known_bps=5e6)
    default = {m.metric: m for m in at_once(Udp().measure(bench, asked)).measurements}["udp_throughput"]
    assert 0.97 * scanned.value < default.value < scanned.value + 1.05e6


@EVERY
def test_latency_under_load(lab: Lab, image: Image, name: str) -> None:
    ip = load_vpn(name).carries == "ip"
    up = tunnel(lab, image, name)
    measured = measure_under_load(lab, up.address, "full", 0.5, datagrams=ip)
    found = {m.metric: m for m in measured.measurements}
    rtt = found["rtt_loaded"]
    assert rtt.value > 0
    assert rtt.detail["load_bps"] > 1e6
    assert rtt.detail["congestion_control"] == "cubic", "whatever this machine's default is"
    assert rtt.detail["added_ms"] == pytest.approx(rtt.value - rtt.detail["idle_ms"], abs=1e-3)
    assert ("udp_rtt" in found) is ip
    assert ("syscalls_per_packet" in found) is not ("no_syscalls" in rtt.detail)
    # The server is free at once for the next trial.
    assert tcp(lab, up.address, 1, 1, "forward", "random").measurements[0].value > 1e6


@pytest.mark.alone
def test_the_queue_of_a_shaped_wan_is_seen_under_load_and_not_on_the_idle_tunnel(lab: Lab, image: Image) -> None:
    wan.apply(lab, Conditions(rate_bps=SHAPED_BPS))
    up = tunnel(lab, image, "none")
    before = values(idle(lab, up.address, 0.5, up.setup_s))["rtt"]
    full = measure_under_load(lab, up.address, "full", 1.0, datagrams=False).measurements[0]
    assert full.detail["load_bps"] == pytest.approx(SHAPED_BPS, rel=0.15)
    # At most the queue's 20 ms, and what the bucket lets through at once.
    assert before < QUEUE_MS / 2 < full.value
    assert full.value < 2 * QUEUE_MS
    half = measure_under_load(lab, up.address, "half", 1.0, datagrams=False).measurements[0]
    assert half.detail["load_bps"] == pytest.approx(SHAPED_BPS / 2, rel=0.25)
    assert half.value < full.value


def test_irtt_agrees_with_a_delay_that_is_known(lab: Lab, image: Image) -> None:
    up = tunnel(lab, image, "none")
    added = lab.wan.run("tc", "qdisc", "add", "dev", "gw2", "root", "netem", "delay", "15ms", check=False)
    if added.code != 0:
        pytest.skip(f"no netem in this kernel: {added.stderr.strip()}")
    assert udp_rtt(lab, up.address).value == pytest.approx(15, abs=5)


@pytest.mark.smoke
def test_a_load_whose_server_has_died_says_nothing_of_the_vpn(lab: Lab, image: Image) -> None:
    up = tunnel(lab, image, "none")
    lab.host2.run("pkill", "-KILL", "iperf3")
    with pytest.raises(InstrumentError, match=r"the iperf3 server on host2 had died: .*unable to connect"):
        measure_under_load(lab, up.address, "full", 0.3, datagrams=False)
    assert measure_under_load(lab, up.address, "full", 0.3, datagrams=False).measurements[0].value > 0, (
        "with a new server"
    )


@EVERY
def test_download(lab: Lab, image: Image, name: str) -> None:
    up = tunnel(lab, image, name)
    found = download(lab, up.address, 5_000_000).measurements[0]
    assert 0 < found.value < 30
    assert found.detail["file_bytes"] == 5_000_000
    assert found.detail["connect_s"] <= found.detail["first_byte_s"] <= found.value
    assert not [line for line in lab.host2.run("ss", "-Hltn").stdout.splitlines() if ":5203 " in line]


@pytest.mark.alone
def test_download_time_is_that_of_the_shaped_wan(lab: Lab, image: Image) -> None:
    wan.apply(lab, Conditions(rate_bps=SHAPED_BPS))
    up = tunnel(lab, image, "none")
    file_bytes = 5_000_000
    found = download(lab, up.address, file_bytes).measurements[0]
    assert found.value == pytest.approx(file_bytes * 8 / SHAPED_BPS, rel=0.25)


@EVERY
def test_cost_of_a_tcp_test(lab: Lab, image: Image, name: str) -> None:
    up = tunnel(lab, image, name)
    found = {m.metric: m for m in tcp(lab, up.address, 1, 1, "forward", "random").measurements}
    per_core, per_gigabyte = found["throughput_per_core"].value, found["cpu_per_gigabyte"].value
    assert per_core * per_gigabyte == pytest.approx(8e9)
    assert sum(found["cpu_per_gigabyte"].detail["cpu_seconds"].values()) > 0.2
    switches = found["context_switches_per_packet"]
    assert switches.value > 0
    assert switches.detail["wan_frames"] > 0
    memory = found["memory_bytes"]
    if name == "none":
        assert memory.value == 0
        assert switches.detail["of_daemons"] == 0
    else:
        assert memory.value > 1e6
        assert switches.detail["of_daemons"] > 0
        daemons = {"openvpn", "wireguard-go", "ssh", "sshd", "sshd-session", "sshd-auth"}
        assert set(memory.detail["by_daemon"]) <= daemons


def test_a_spinning_process_is_seen_in_the_cpu_seconds_and_is_a_daemon_of_its_gateway(lab: Lab) -> None:
    gw1 = lab.gateway(lab.sites[0])
    before = snapshot(lab)
    assert before.daemons == {}
    spinning = gw1.spawn("sh", "-c", "while :; do :; done", log="spinning")
    started = time.monotonic()
    wait_until(lambda: time.monotonic() - started > 1.0, "a second")
    after = snapshot(lab)
    assert after.spent.cpu_s["user"] - before.spent.cpu_s["user"] > 0.3  # of a core that others use as well
    assert [(node, daemon.name) for (node, _), daemon in after.daemons.items()] == [("gw1", "sh")]
    spinning.stop()
    wait_until(lambda: not processes([gw1]), "the process gone")


def test_a_look_from_inside_sees_the_same_daemons(lab: Lab, image: Image) -> None:
    tunnel(lab, image, "openvpn")
    here = snapshot(lab)
    lab.shared_kernel = False  # as if the gateways were machines of their own
    there = snapshot(lab)
    named = [sorted((node, daemon.name) for (node, _), daemon in each.daemons.items()) for each in (here, there)]
    assert named[0] == named[1] == [("gw1", "openvpn"), ("gw2", "openvpn")]
    assert sum(daemon.switches for daemon in there.daemons.values()) >= sum(d.switches for d in here.daemons.values())
    assert there.wan_frames >= here.wan_frames > 0


@pytest.mark.smoke
def test_system_calls_of_a_process_that_makes_them(lab: Lab) -> None:
    assert system_calls(lab, 0.1) == 0.0
    lab.gateway(lab.sites[1]).spawn("dd", "if=/dev/zero", "of=/dev/null", "bs=1", log="dd")  # two calls a byte
    wait_until(lambda: bool(processes([lab.gateway(lab.sites[1])])), "dd running")
    calls = system_calls(lab, 0.3)
    if isinstance(calls, str):
        pytest.skip(calls)
    assert calls > 20_000


@pytest.mark.smoke
def test_facts_of_the_lab(lab: Lab) -> None:
    wan.apply(lab, Conditions(rate_bps=1e9))
    found = facts(lab)
    interfaces = [name for link in found["links"] for name in link["interfaces"]]
    assert len(interfaces) == len(set(interfaces)) == 9
    assert {link["mtu"] for link in found["links"]} == {1500}
    shaped = [link["interfaces"] for link in found["links"] if link["qdisc"].startswith("tbf")]
    assert shaped == [["wan gw1", "wan gw2"]]
    assert found["congestion_control"] == "cubic"
    assert 0 <= found["steal_ratio_since_boot"] < 1


def test_openssl_speed_of_the_lab(lab: Lab) -> None:
    found = openssl_bps(lab.gateway(lab.sites[0]), {"aes-128-gcm", "3des-cbc"}, {})
    assert found["aes-128-gcm"] > found["3des-cbc"] > 1e6
