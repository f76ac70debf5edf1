"""Failures: outages of known gaps, what no recovery becomes, topologies, and configurations to roam with."""

from __future__ import annotations

import random
import re
import socket
import subprocess
import sys
import urllib.request
from typing import cast

import pytest

from runner.catalogue import instruments, load_vpn, metrics
from runner.data.trials import Event, Timeline, Trial
from runner.instruments.failures import prepare, redundancy, reroute
from runner.instruments.failures.loss import Gap, OneWay, gaps, one_way
from runner.instruments.failures.measure import repeat_failure
from runner.instruments.failures.outage import MOST_GAPS, Outage, report_outages, timeline
from runner.instruments.failures.takeover import add_handovers, read_handover
from runner.instruments.failures.transfer import UNLIMITED
from runner.instruments.result import Measured
from runner.lab import probes
from runner.lab.shape.site_to_site import SITES, Lab
from runner.lab.shape.topologies import REDUNDANT, ospf
from runner.report.failures import failures
from runner.sweep.records import measurements_of
from runner.tunnel.bring_up import Bench
from tests.unit.helpers import GW1, GW2, named_secrets

MS = 1e-3
ROUTED = {"detection": "bfd", "endpoint": "link", "link_failure": "silent"}


def stream_without(*lost: range, sent: int = 10_000) -> list[list[float]]:
    """The runs of a stream of a probe a millisecond from which these are missing."""
    missing = {number for numbers in lost for number in numbers}
    runs: list[list[float]] = []
    for number in range(sent):
        if number in missing:
            continue
        if runs and runs[-1][1] == number - 1:
            runs[-1][1], runs[-1][3] = number, number * MS
        else:
            runs.append([number, number, number * MS, number * MS])
    return runs


def seen(*lost: range, sent: int = 10_000) -> OneWay:
    return OneWay(sent, MS, gaps(stream_without(*lost, sent=sent), sent, (sent - 1) * MS, MS))


def test_no_loss_is_no_outage() -> None:
    assert seen().gaps == ()
    assert seen().outage_s(0) == 0


def test_a_known_gap() -> None:
    way = seen(range(2000, 3500))
    assert way.gaps == (Gap(2.0, 3.5, 1500),)
    assert way.outage_s(1.99) == pytest.approx(1.5)


def test_gaps_before_the_failure_do_not_count_and_one_across_it_does() -> None:
    way = seen(range(100, 150), range(4990, 5200), range(7000, 7010))
    assert way.outage_s(5.0) == pytest.approx(0.220)
    assert [gap.lost for gap in way.gaps_after(5.0)] == [210, 10]


def test_of_a_gap_that_began_long_before_the_rest_counts() -> None:
    """An overload loses much before it ends, and what is lost afterwards is the question."""
    assert seen(range(1000, 6000)).outage_s(5.0) == pytest.approx(1.0)


def test_a_gap_that_does_not_end_reaches_to_the_end_of_the_stream() -> None:
    way = seen(range(4000, 10_000))
    assert way.gaps == (Gap(4.0, 10.0, 6000),)


def test_what_was_sent_before_the_other_host_listened_is_no_loss() -> None:
    assert seen(range(0, 80)).gaps == ()


def test_random_gaps_are_found_exactly() -> None:
    rng = random.Random(7)
    for _ in range(50):
        starts = sorted(rng.sample(range(10, 9900, 100), 5))
        lost = [range(start, start + rng.randint(1, 90)) for start in starts]
        way = seen(*lost)
        assert [gap.lost for gap in way.gaps] == [len(numbers) for numbers in lost]
        assert way.outage_s(0) == pytest.approx(sum(map(len, lost)) * MS)


def test_the_far_hosts_clock_is_put_right() -> None:
    found = {"sent": 10_000, "ended_s": 9.999, "pause_ms": 2.0}
    way = one_way(found, {"runs": stream_without(range(2000, 2100)), "late": 3}, MS, ahead_s=0.5)
    assert way.gaps == (Gap(1.5, 1.6, 100),)
    assert (way.late, way.pause_s) == (3, 0.002)


def an_outage(forward_s: float, reverse_s: float, recovered_s: float | None = 1.0) -> Outage:
    return Outage(2.0, recovered_s, forward_s, reverse_s, MS, 0, Timeline(rate=1000))


def test_the_worse_direction_is_reported_with_its_resolution() -> None:
    measured = report_outages("outage_ms", [an_outage(1.5, 0.2)], 60.0, failure="pulled the plug")
    (found,) = measured.measurements
    assert (found.metric, found.value) == ("outage_ms", 1500)
    assert found.detail["resolution_ms"] == 1
    assert found.detail["forward_ms"] == [1500]
    assert found.detail["reverse_ms"] == [200]
    assert not found.at_least
    assert not measured.warnings
    assert len(measured.timelines) == 1


def test_no_recovery_is_a_lower_bound_and_a_warning() -> None:
    measured = report_outages("outage_ms", [an_outage(60.2, 60.1, None)], 60.0)
    assert measured.measurements[0].at_least
    assert measured.warnings == ["no recovery within 60 s"]


def test_one_of_three_without_recovery_does_not_make_the_median_a_bound() -> None:
    measured = report_outages("outage_ms", [an_outage(1, 1), an_outage(60, 60, None), an_outage(2, 1)], 60.0)
    assert measured.measurements[0].value == 2000
    assert not measured.measurements[0].at_least
    assert measured.warnings == ["1 of 3 failures: no recovery within 60 s"]


def test_two_of_three_without_recovery_do() -> None:
    measured = report_outages("outage_ms", [an_outage(1, 1), an_outage(60, 60, None), an_outage(61, 60, None)], 60.0)
    assert measured.measurements[0].at_least


def test_a_timeline_is_bounded_and_keeps_the_longest_gaps() -> None:
    lost = [range(start, start + 1 + start // 1000) for start in range(10, 9900, 50)]
    events = [Event(at_s=1.0, what="a link dies")]
    found = timeline(seen(*lost), seen(range(500, 2000)), 1000.0, events)
    assert len(found.gaps) == MOST_GAPS
    assert found.gaps_left_off == len(lost) + 1 - MOST_GAPS
    assert max(gap.lost for gap in found.gaps) == 1500
    assert [gap.start_s for gap in found.gaps] == sorted(gap.start_s for gap in found.gaps)
    assert found.events == events


@pytest.mark.parametrize(
    ("levels", "routers"),
    [
        (("loopback",), {"gw1", "r2", "r3", "gw2", "r5"}),
        (("link",), {"gw1", "r2", "r3", "gw2", "r5"}),
        (("link", "one_router"), {"gw1", "r2", "r3", "gw2"}),  # figure 3b
    ],
)
def test_every_cable_between_routers_has_both_ends_in_one_network(levels: tuple[str, ...], routers: set[str]) -> None:
    topology = ospf(*levels)
    assert routers == topology.loopbacks.keys()
    for node in topology.loopbacks:
        for port in topology.ports(node):
            far = topology.across(node, port.name)
            assert topology.across(far.node, far.name) == port
    addresses = [address for cable in topology.cables for port in cable for address in port.addresses]
    assert len(set(addresses)) == len(addresses)


def test_the_tunnel_ends_where_the_factor_says() -> None:
    assert [site.wan_address for site in ospf("loopback").sites] == ["10.255.0.1", "10.255.0.4"]
    assert ospf("link").sites[0].wan_address == "10.0.12.1"


def test_topologies_follow_from_the_levels() -> None:
    assert prepare.topology_of({"measure": "tcp"}) is None
    assert prepare.topology_of({"failure": "restart"}) is None
    assert prepare.topology_of({"detection": "bfd", "endpoint": "link"}) == ospf("link")
    figure_3b = {"detection": "static", "endpoint": "link", "uplinks": "one_router"}
    assert prepare.topology_of(figure_3b) == ospf("link", "one_router")
    assert prepare.topology_of({"redundancy": "vrrp"}) == REDUNDANT
    assert prepare.plugin_params(figure_3b) == {"roaming": "gw1"}, "without a routing daemon, the VPN has to follow"
    assert prepare.plugin_params({**figure_3b, "detection": "bfd"}) == {}


@pytest.mark.parametrize("detection", reroute.DETECTIONS)
def test_frr_configuration(detection: str) -> None:
    topology = ospf("link")
    gateway = reroute.configuration(topology, "gw1", detection, "10.0.12.1")
    router = reroute.configuration(topology, "r2", detection, None)
    assert "set src 10.0.12.1" in gateway
    assert "set src" not in router
    assert gateway.count("no link-detect") == 1  # on the link that dies, as Quagga did
    assert "lan0" not in gateway  # the network behind the gateway is reached through the tunnel alone
    for line in reroute.DETECTIONS[detection][0]:
        assert gateway.count(line + "\n") == router.count(line + "\n") == 2


def test_the_loopback_as_the_tunnels_end_leaves_link_detection_on() -> None:
    assert "link-detect" not in reroute.configuration(ospf("loopback"), "gw1", "bfd", "10.255.0.1")


ROAMING = prepare.plugin_params({"failure": "roaming"})


def test_who_may_roam() -> None:
    for name, mine, theirs in (
        ("ipsec_user", ["mobike = yes", "local_addrs = %any"], ["mobike = yes", f"local_addrs = {GW2.wan_address}"]),
        ("fastd", ["bind any:10000;"], ["    float yes;", f"bind {GW2.wan_address}:10000;"]),
        ("nebula", ['  host: "0.0.0.0"'], [f'  host: "{GW2.wan_address}"']),
        ("openvpn", [f"remote {GW2.wan_address}"], ["float", f"local {GW2.wan_address}"]),
    ):
        vpn = load_vpn(name)
        secrets, params = named_secrets(vpn, SITES), {**vpn.comparable, **ROAMING}
        here = "\n".join(vpn.render(GW1, [GW2], params, secrets).values())
        there = "\n".join(vpn.render(GW2, [GW1], params, secrets).values())
        assert all(line in here for line in mine)
        assert all(line in there for line in theirs)
    assert f"local {GW1.wan_address}" not in here


def test_wireguard_roams_as_it_is() -> None:
    vpn = load_vpn("wireguard_go")
    secrets = named_secrets(vpn, SITES)
    both = [vpn.render(GW1, [GW2], {**vpn.comparable, **asked}, secrets) for asked in ({}, ROAMING)]
    assert both[0] == both[1]


def test_keepalived_prefers_the_first_gateway() -> None:
    first, second = (redundancy.configuration(name, "vrrp") for name in redundancy.PAIR)
    assert first.replace("priority 150", "priority 100") == second
    assert "advert_int 0.1" in redundancy.configuration("gw1", "vrrp_fast")


def test_the_plugin_ha_is_met_in_every_phase_of_the_question_for_a_dead_peer() -> None:
    vpn = load_vpn("ipsec")
    files = vpn.render(GW1, [GW2], vpn.comparable, named_secrets(vpn, (GW1, GW2)))
    assert re.findall(r"dpd_delay = (\d+)s", "\n".join(files.values())) == [f"{redundancy.hand_over_of(vpn).phase_s:g}"]


def test_a_vpn_that_nobody_taught_to_move() -> None:
    assert redundancy.cannot(load_vpn("ssh_tun"), "vrrp").startswith("the plugin of SSH")
    assert "hands no state over" in redundancy.cannot(load_vpn("wireguard_go"), "ha_sync")
    assert not redundancy.cannot(load_vpn("ipsec_user"), "ha_sync")
    assert not redundancy.cannot(load_vpn("openvpn"), "vrrp")


@pytest.mark.parametrize(
    ("vpn", "kind", "levels", "why"),
    [
        ("openvpn", "ssh", {"measure": "recovery", "failure": "restart"}, "machines of a ssh lab"),
        ("ssh_forward", "netns", {"measure": "recovery", "failure": "restart"}, "carries TCP only"),
        (
            "wireguard",
            "netns",
            {"measure": "failover", "redundancy": "vrrp", "gateway_failure": "daemon"},
            "no daemon",
        ),
        (
            "openvpn",
            "netns",
            {"measure": "failover", "redundancy": "ha_sync", "gateway_failure": "gateway"},
            "no state",
        ),
        (
            "openvpn",
            "netns",
            {"measure": "reroute", **ROUTED, "wan_delay_ms": "25"},
            "a WAN and addresses of its own: wan_delay_ms cannot be set",
        ),
    ],
)
def test_what_cannot_be_broken_is_unsupported(vpn: str, kind: str, levels: dict[str, str], why: str) -> None:
    refused = prepare.failure_refusal(Lab({}, kind=kind), load_vpn(vpn), levels)
    assert refused is not None
    assert why in refused.reason


def test_other_traffic_is_nobodys_business_here() -> None:
    assert instruments()["tcp"].refuses(Lab({}, kind="ssh"), load_vpn("ssh_forward"), {"measure": "tcp"}) is None


def test_handover_is_between_the_first_two_spells() -> None:
    spells = [["gw1", 0.1, 4.0, 3900], ["gw1b", 5.25, 9.0, 3700]]
    found = read_handover({"spells": spells, "left_off": 0})
    assert (found.handover_s, found.changes) == (1.25, 1)


def test_two_active_gateways_have_no_handover() -> None:
    spells = [["gw1", 0.1, 4.0, 3900], ["gw1b", 4.002, 4.01, 3], ["gw1", 4.02, 9.0, 3700]]
    swayed, once = (
        read_handover({"spells": spells, "left_off": 7}),
        read_handover({"spells": spells[:2], "left_off": 0}),
    )
    assert (swayed.handover_s, swayed.changes) == (None, 9)
    measured = Measured([])
    add_handovers(measured, [once, swayed], 0.001, expected=True)
    (handover,) = measured.measurements
    assert (handover.metric, handover.samples) == ("handover_ms", [2.0])
    (warning,) = measured.warnings
    assert warning.startswith("1 of 2 failures: the tunnel changed gateways more than once")


def test_no_second_spell_is_no_handover() -> None:
    assert read_handover({"spells": [["gw1", 0.1, 4.0, 3900]], "left_off": 0}).handover_s is None
    assert read_handover({"spells": [], "left_off": 0}).handover_s is None


class Renewed:
    """A bench that only counts how often it was made anew."""

    def __init__(self) -> None:
        self.times = 0

    def renew(self) -> None:
        self.times += 1


def test_every_failure_has_a_fresh_lab_and_a_phase_of_its_own() -> None:
    bench, phases = Renewed(), []

    def once(rng: random.Random) -> Outage:
        phases.append((bench.times, rng.random()))
        return an_outage(1, 1)

    assert len(repeat_failure(cast(Bench, bench), once, 3, seed=7)) == 3
    assert [renewed for renewed, _ in phases] == [0, 1, 2]
    assert len({phase for _, phase in phases}) == 3


CELL = {"cipher": "none", "integrity": "none", "compression": "off", "measure": "recovery", "failure": "wan_cut"}


def a_trial(repetition: int, outage_s: float) -> Trial:
    found = report_outages(
        "outage_ms", [an_outage(outage_s, outage_s)], 60.0, timers={"gw1": ["a timer"], "gw2": ["a timer"]}
    )
    line = timeline(seen(range(2000, 3000)), seen(), 1000.0, [Event(at_s=1.9, what="the WAN is cut")])
    return Trial(
        id=f"x-r{repetition}",
        vpn="none",
        params=CELL,
        repetition=repetition,
        status="ok",
        started_at="2026-01-01T00:00:00+00:00",
        measurements=measurements_of(found, instruments()["recovery"]),
        timelines=[line.model_copy(update={"rate": 1000.0 + repetition})],
    )


def test_the_report_tells_the_story_of_the_failure_in_the_middle() -> None:
    (row,) = failures([a_trial(1, 3.0), a_trial(2, 9.0), a_trial(3, 1.0)], metrics())
    assert row.levels == "wan_cut"
    assert row.outage == "3 s (1 s–9 s), 3"
    assert row.steps == ["+0.00 the WAN is cut", "+0.10 to +1.10 nothing forward (1000 lost)"]
    assert row.timers == ["gw1, gw2: a timer"]


@pytest.mark.parametrize(
    ("outages_s", "verdict"),
    [
        ([0.0, 0.3], "overload: survives"),
        ([0.0, 3.0, 2.0], "overload: recovers after 2 s"),
        ([0.0, 60.0], "overload: dies in 1 of 2"),
        ([60.0], "overload: dies"),
    ],
)
def test_an_overload_has_a_verdict(outages_s: list[float], verdict: str) -> None:
    trials = []
    for repetition, outage_s in enumerate(outages_s):
        whole = an_outage(outage_s, 0, None if outage_s == 60 else 1.0)
        found = report_outages("outage_ms", [whole], 60.0).measurements
        changes = {"measurements": found, "params": CELL | {"failure": "overload"}}
        trials.append(a_trial(repetition, outage_s).model_copy(update=changes))
    (row,) = failures(trials, metrics())
    assert row.cells[1] == verdict


def test_the_report_says_at_least() -> None:
    measured = report_outages("outage_ms", [an_outage(60, 60, None)], 60.0)
    trial = a_trial(1, 60).model_copy(update={"measurements": measured.measurements})
    (row,) = failures([trial], metrics())
    assert row.outage == "≥ 60 s (60 s–60 s), 1, 1 without recovery"


def test_a_run_in_which_nothing_was_broken_has_no_section() -> None:
    trial = a_trial(1, 1).model_copy(update={"timelines": []})
    assert failures([trial], metrics()) == []


def test_a_file_is_served_as_fast_as_it_goes_where_nothing_limits_it() -> None:
    """4294967295 is no signed integer, as which setsockopt(2) is called by Python where it is given a number."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    argv = [sys.executable, "-IS", "-c", probes.source("serve"), str(port), "300000", str(UNLIMITED)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == "serving\n"
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=20) as answer:
                assert len(answer.read()) == 300000
        finally:
            server.kill()
