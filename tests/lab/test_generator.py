"""The packet generator and the UDP throughput by turns, with real packets."""

from __future__ import annotations

import json
import os
import random
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.data.lab_facts import generator_limits
from runner.data.store import load_run
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, Found, Go, play
from runner.instruments.result import Measured
from runner.instruments.tools.generator import Arrived, Generator, Load, at_once, generating, imix
from runner.instruments.traffic.calibration import WITHIN_S, calibrate
from runner.instruments.traffic.udp import Udp
from runner.instruments.traffic.udp_rounds import Offering, SearchMemory, shape_of
from runner.lab.node import PATIENCE
from runner.lab.shape.site_to_site import Lab, batch
from runner.lab.software.image import Image
from runner.search.rounds import StepwiseSearch
from runner.tunnel.bring_up import Bench
from tests.lab.commands import vpneval
from tests.lab.test_packets import bench_in
from tests.lab.test_vpns import tunnel_in
from tests.lab.tries import best

SNIFF = """
import collections, socket, struct, sys, time
tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
tap.setsockopt(socket.SOL_SOCKET, 33, 2**26)
tap.settimeout(0.1)
print("ready", flush=True)
seen, lengths, tos = set(), collections.Counter(), set()
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    try:
        data, where = tap.recvfrom(65535)
    except TimeoutError:
        continue
    if where[1] == 0x0800 and data[9] == 17 and where[2] != 4:
        seen.add(data[12:24])
        lengths[len(data)] += 1
        tos.add(data[1])
import json
print(json.dumps({"tuples": len(seen), "lengths": lengths, "tos": sorted(tos)}))
"""


def sniffed(lab: Lab, generator: Generator, load: Load) -> dict[str, Any]:
    """What comes in at host2 during a trial, by a packet socket."""
    sniffing = lab.host2.spawn("python3", "-IS", "-c", SNIFF, str(load.seconds + 1.5), log="sniff")
    end = time.monotonic() + 10
    while "ready" not in lab.host2.read_log("sniff") and time.monotonic() < end:
        time.sleep(0.02)
    generator.play(load)
    assert sniffing.wait(15) == 0
    found: dict[str, Any] = json.loads(lab.host2.read_log("sniff").splitlines()[-1])
    return found


@pytest.mark.smoke
def test_bursts_are_real_packets_on_the_cable(lab: Lab, image: Image) -> None:
    with generating(lab, bench_in(lab, "none", image).address) as generator:
        assert generator.segments
        for length, burst in ((1500, 44), (64, 64), (28, 8), (1500, 1)):
            arrived = best(lambda: generator.play(Load((length,), 20000, 0.3, burst=burst)), lambda a: a.sent > 5900)  # noqa: B023
            assert arrived.received == arrived.on_time == arrived.sent > 5000, (length, burst)
            assert arrived.sent_bytes == length * arrived.sent
            assert arrived.offered["by"] == ("UDP_SEGMENT" if burst > 1 and length > 28 else "sendmmsg")
        seen = sniffed(lab, generator, Load((1500,), 5000, 0.4, burst=44))
        assert set(seen["lengths"]) == {"1500"}, "each packet by itself"
    assert "vpneval" not in lab.host2.run("nft", "list", "tables").stdout, "the counter has gone"


@pytest.mark.parametrize(("per_s", "burst"), [(5000, 1), (10000, 16), (20000, 44)])
def test_no_more_packets_leave_back_to_back_than_a_burst_has(lab: Lab, image: Image, per_s: int, burst: int) -> None:
    with generating(lab, bench_in(lab, "none", image).address) as generator:
        arrived = best(
            lambda: generator.play(Load((256,), per_s, 0.3, burst=burst)), lambda a: a.longest_burst <= burst
        )
    # On a busy machine the sender may fall behind by 15 ms each time; then all that is due leaves.
    assert arrived.longest_burst <= burst or arrived.longest_burst > 0.015 * per_s
    assert arrived.sent > 0.9 * 0.3 * per_s


@pytest.mark.smoke
def test_256_flows_are_256_tuples(lab: Lab, image: Image) -> None:
    with generating(lab, bench_in(lab, "none", image).address) as generator:
        seen = sniffed(lab, generator, Load((256,), 4000, 0.5, burst=4, flows=256, sources=16, dscp=46))
        assert seen["tuples"] == 256
        assert seen["tos"] == [46 << 2]
        arrived = generator.play(Load((256,), 20000, 0.5, flows=4096, sources=200))
        assert arrived.received == arrived.sent > 5000


@pytest.mark.smoke
def test_two_flows_leave_from_two_processes(lab: Lab, image: Image) -> None:
    if os.cpu_count() == 1:
        pytest.skip("this machine has one core")
    with generating(lab, bench_in(lab, "none", image).address) as generator:
        generator.cores = [0, 1]
        for flows, processes in ((1, 1), (2, 2), (256, 2)):
            load = Load((256,), 8000, 0.4, burst=4, flows=flows, sources=min(flows, 16))
            arrived = best(lambda: generator.play(load), lambda a: a.sent > 3100)  # noqa: B023
            assert arrived.received == arrived.sent > 1000
            assert arrived.offered["processes"] == processes
        seen = sniffed(lab, generator, load)
        assert seen["tuples"] == 256


@pytest.mark.smoke
def test_a_mixture_has_the_lengths_of_its_notation(lab: Lab, image: Image) -> None:
    pattern, notation = imix(1400)
    assert notation == "IMIX - ABCABAABAABA (A=40, B=576, C=1400)"
    with generating(lab, bench_in(lab, "none", image).address) as generator:
        seen = sniffed(lab, generator, Load(pattern, 6000, 0.4))
        lengths: dict[str, int] = seen["lengths"]
        total = sum(lengths.values())
        for length, share in ((40, 7), (576, 4), (1400, 1)):
            assert lengths[str(length)] / total == pytest.approx(share / 12, abs=0.002)


@pytest.mark.parametrize("name", ["wireguard_go", "openvpn"])
def test_a_mixture_is_counted_behind_a_tunnel_that_joins_packets(lab: Lab, image: Image, name: str) -> None:
    pattern, _ = imix(1328)
    with generating(lab, bench_in(lab, name, image).address) as generator:
        arrived = best(lambda: generator.play(Load(pattern, 1000, 0.6)), lambda a: a.received == a.sent)
        assert arrived.received == arrived.sent > 500


@pytest.mark.smoke
def test_nftables_counts_where_the_kernel_has_its_ingress(lab: Lab, image: Image) -> None:
    """iptables, the next place on the way, is for other kernels alone; a rule that nft refuses would lead there."""
    empty = 'table netdev tried { chain sink { type filter hook ingress device "lo" priority 0\n }\n }\n'
    if lab.host2.run("nft", "-f", "-", input=empty, check=False).code:
        pytest.skip("this kernel has no ingress of nftables")
    lab.host2.run("nft", "delete", "table", "netdev", "tried")
    with generating(lab, bench_in(lab, "none", image).address):
        assert "table netdev vpneval_count" in lab.host2.run("nft", "list", "tables").stdout


def test_what_it_offers_at_most_is_found_before_the_first_tunnel(lab: Lab) -> None:
    started = time.monotonic()
    found = calibrate(lab, load_vpn("none"), [1328, 1500, 9000])
    took_s = time.monotonic() - started
    assert [one.ip_bytes for one in found] == [1328, 1500], "9000 bytes do not fit"
    for one in found:
        assert 5e3 < one.packets_per_s < 5e6, "packets that came"
        assert one.bps == pytest.approx(8 * one.ip_bytes * one.packets_per_s, rel=1e-4)
        assert (one.by, one.processes, one.burst_packets) == ("UDP_SEGMENT", 1, 16)
    assert took_s < WITHIN_S + 3 * PATIENCE
    assert "vpneval" not in lab.host2.run("nft", "list", "tables").stdout, "the counter has gone"


def test_what_it_offers_at_most_is_kept_in_run_json(tmp_path: Path) -> None:
    usual = ("run", "transport", "--profile", "smallest", "--vpn", "openvpn")
    udp = (*usual, "--set", "measure=udp")
    out, idle = tmp_path / "udp", tmp_path / "idle"
    vpneval(*udp, "--out", out)
    run, _ = load_run(out)
    first = generator_limits(run.lab)
    assert [one.ip_bytes for one in first] == [1328, 1500]
    assert "it offers at most" in (out / "report.md").read_text()
    assert vpneval(*udp, "--out", out).returncode == 0
    again = generator_limits(load_run(out)[0].lab)
    assert all(now.packets_per_s >= then.packets_per_s for now, then in zip(again, first, strict=True))
    vpneval(*usual, "--set", "measure=idle", "--out", idle)
    assert "generator" not in load_run(idle)[0].lab, "nothing is sent by it"


def test_a_trial_costs_little_more_than_its_duration(lab: Lab, image: Image) -> None:
    with generating(lab, bench_in(lab, "none", image).address) as generator:
        extras = []
        for _ in range(12):
            started = time.monotonic()
            generator.play(Load((1328,), 5000, 0.4))
            extras.append(time.monotonic() - started - 0.4)
    assert min(extras) < 0.03


@pytest.mark.smoke
def test_both_directions_at_once_and_ipv6(lab: Lab, image: Image) -> None:
    load = Load((1000,), 5000, 0.4)
    with generating(lab, bench_in(lab, "none", image).address) as there, generating(lab, reverse=True) as back:
        both = best(lambda: at_once([there, back], load), lambda found: all(one.received == one.sent for one in found))
        assert [one.received for one in both] == [one.sent for one in both] == pytest.approx([2000, 2000], rel=0.1)
    for site in lab.sites:
        near, far = (f"fd00:{site.number}::{last}" for last in (1, 2))
        batch(
            lab.gateway(site),
            f"addr add {near}/64 dev lan0 nodad",
            f"addr add fd00:9::{site.number}/64 dev wan0 nodad",
        )
        other = 3 - site.number
        batch(lab.gateway(site), f"route add fd00:{other}::/64 via fd00:9::{other}")
        lab.gateway(site).run("sysctl", "-qw", "net.ipv6.conf.all.forwarding=1")
        batch(lab.nodes[f"host{site.number}"], f"addr add {far}/64 dev eth0 nodad", f"route add ::/0 via {near}")
    lab.host1.run("ping", "-6", "-c", "1", "-w", "20", "fd00:2::2")  # until the neighbours are known
    with generating(lab, "fd00:2::2") as generator:
        arrived = best(lambda: generator.play(Load((1000,), 5000, 0.4)), lambda a: a.sent == 2000)
        assert arrived.received == arrived.sent > 1500
        assert arrived.offered["by"] == "UDP_SEGMENT"
        flows = Load((1000,), 5000, 0.4, flows=256, sources=16, dscp=46)
        arrived = best(lambda: generator.play(flows), lambda a: a.received == a.sent)
        assert arrived.received == arrived.sent > 1500


def test_a_slow_rate_is_even(lab: Lab, image: Image) -> None:
    """20,000 packets/s: 200 in 10 ms; at most 440, as long as nobody else takes the processor."""

    def most_in_10_ms(arrived: Arrived) -> int:
        samples = [(when, octets / 78) for when, octets in arrived.samples]
        return max(
            int(last - first) for i, (at, first) in enumerate(samples) for when, last in samples[i:] if when - at < 0.01
        )

    with generating(lab, bench_in(lab, "none", image).address) as generator:
        arrived = best(lambda: generator.play(Load((64,), 20000, 0.5)), lambda a: most_in_10_ms(a) <= 440)
    assert most_in_10_ms(arrived) <= 440


def test_turns_of_two_tunnels_continue_over_instances(lab: Lab, image: Image) -> None:
    """Slices of a tunnel and of plain IP take turns; the second instance goes on with what the first has found."""
    bench = bench_in(lab, "openvpn", image)
    memory: dict[str, Any] = {}
    levels = {"payload_bytes": "1300", "fragmentation": "refuse"}
    seen: list[Measured] = []
    for _ in range(2):
        asked = Asked(load_vpn("openvpn"), levels, PROFILES["quick"], 1, None, memory)
        measuring = Udp().measure(bench, asked)
        slices = [next(measuring)]
        for _ in range(13):
            slices.append(measuring.send(Go.ON))
        with pytest.raises(StopIteration) as ended:
            measuring.send(Go.END)
        seen.append(ended.value.value)
        with_trial = [number for number, one in enumerate(slices) if {"asked_rate_bps", "sent", "received"} <= set(one)]
        assert with_trial == list(range(len(slices)))
    first, second = ({value.metric: value for value in one.measurements} for one in seen)
    assert first["udp_throughput"].detail["trials_of_all_instances"] < 28
    assert second["udp_throughput"].detail["trials_of_all_instances"] > 28
    low, high = second["udp_throughput"].detail["interval_bps"]
    assert 10e6 < low < second["udp_throughput"].value < high < 5e9
    readings = [one["udp_throughput"] for one in slices if "udp_throughput" in one]
    assert len(readings) == len(slices), "a sample in each round"
    assert statistics.median(readings) == pytest.approx(second["udp_throughput"].value, rel=0.5)
    assert 0 < second["jitter"].value < 50
    assert sum("jitter" in one for one in slices) > 5
    bench.close()
    assert "vpneval" not in lab.host2.run("nft", "list", "tables").stdout, "the counter has gone"


@pytest.mark.parametrize("name", ["none", "openvpn", "openvpn_tap", "ssh_tun", "ssh_tap", "fastd", "wireguard_go"])
def test_ipv6_is_offered_between_the_sites(lab: Lab, image: Image, name: str) -> None:
    """Through the tunnel: the WAN drops IPv6. Plain IP has no other way than the WAN."""
    vpn, udp = load_vpn(name), Udp()
    levels = {"measure": "udp", "payload_bytes": "1200", "fragmentation": "refuse", "inner": "6"}
    assert udp.refuses(lab, vpn, levels) is None
    if name != "none":
        drop = "table bridge no6 {\n chain f {\n type filter hook forward priority 0\n ether type ip6 drop\n }\n}\n"
        lab.wan.run("nft", "-f", "-", input=drop)
    tunnel = tunnel_in(lab, name, {**vpn.comparable, "inner": "6"}, image, [])
    bench = Bench(lab, tunnel, lambda: pytest.fail("the tunnel broke down"))
    offering = Offering(bench, shape_of(levels, False)[0], SearchMemory(StepwiseSearch()))
    load = offering.load(5e6, 0.3)
    arrived = best(lambda: offering.generators[0].play(load), lambda a: a.received == a.sent)
    assert arrived.received == arrived.sent > 50, "counted by a filter of IPv6"
    assert offering.jitter()["jitter"] > 0
    bench.close()


@pytest.mark.parametrize(
    ("name", "inner"),
    [
        pytest.param("none", {}, id="none-IPv4"),
        pytest.param("none", {"inner": "6"}, id="none-IPv6", marks=pytest.mark.smoke),
        pytest.param("wireguard_go", {}, id="wireguard_go-IPv4", marks=pytest.mark.smoke),
        pytest.param("wireguard_go", {"inner": "6"}, id="wireguard_go-IPv6"),
    ],
)
def test_a_mixture_goes_both_ways(lab: Lab, image: Image, name: str, inner: dict[str, str]) -> None:
    """In IPv4 and in IPv6: each packet is counted where it comes out, and the value is that of both ways."""
    vpn, udp = load_vpn(name), Udp()
    levels = {"measure": "udp", "payload_bytes": "1200", "fragmentation": "refuse", "lengths": "imix", "ways": "both"}
    levels |= inner
    assert udp.refuses(lab, vpn, levels) is None
    tunnel = tunnel_in(lab, name, {**vpn.comparable, **inner}, image, [])
    bench = Bench(lab, tunnel, lambda: pytest.fail("the tunnel broke down"))
    offering = Offering(bench, shape_of(levels, False)[0], SearchMemory(StepwiseSearch()), (False, True))
    load = offering.load(2e6, 0.4)
    ways = best(
        lambda: at_once(offering.generators, load), lambda found: all(one.received == one.sent for one in found)
    )
    assert [one.received for one in ways] == [one.sent for one in ways]
    assert min(one.sent for one in ways) > 100
    told = play(udp.measure(bench, Asked(vpn, levels, PROFILES["smallest"], 1)), lambda found: None)
    throughput = next(one for one in told.measurements if one.metric == "udp_throughput")
    assert throughput.value > 2e6
    assert throughput.detail["ip_bytes"].startswith("IMIX - ")
    bench.close()


def test_without_a_conductor_it_ends_by_its_budget(lab: Lab, image: Image) -> None:
    bench = bench_in(lab, "openvpn", image)
    levels = {"payload_bytes": "1300", "fragmentation": "refuse"}
    measuring = Udp().measure(bench, Asked(load_vpn("openvpn"), levels, PROFILES["smallest"], random.randint(1, 9)))
    slices: list[Found] = []
    measured = play(measuring, slices.append)
    value = measured.measurements[0]
    assert value.detail["interval_bps"] is not None
    assert value.samples == []
    assert 3 < len(slices) < 20
    bench.close()
