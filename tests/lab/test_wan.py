"""The WAN's conditions: they are what was asked for, and the probe refuses them where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import InstrumentError, MeasurementError
from runner.data.wan import PRESETS, Conditions
from runner.instruments.failures.stream import streams
from runner.instruments.operator.mesh import late
from runner.instruments.path.numbers import BYTES, PORT, WINDOW
from runner.instruments.tools.between import talking
from runner.instruments.traffic.idle import idle
from runner.lab import probes
from runner.lab.node import wait_until
from runner.lab.readings.wan import verify
from runner.lab.readings.wire import outer
from runner.lab.shape import wan
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, start_services
from tests.lab.commands import trials_of, vpneval

FAR = Conditions(delay_ms=25, loss_ratio=0.02, rate_bps=4e6)  # without netem, a program takes its place
# 300 datagrams at once: their queue has room for them, the buffer of one socket (net.core.wmem_default) has not.
SEND = """
import socket, sys
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sender.setblocking(False)
for sent in range(300):
    try: sender.sendto(bytes(1400), (sys.argv[1], 9))
    except BlockingIOError: break
print(sent + 1)
"""


@pytest.fixture
def far_lab(image: Image, tmp_path: Path) -> Iterator[Lab]:
    with namespace_lab(image, logs=tmp_path) as lab:
        if no := wan.conditions_refusal(lab, FAR):
            pytest.skip(no.reason)
        yield lab


def measured(lab: Lab) -> Bench:
    def renewal() -> tuple[Lab, Tunnel]:
        raise AssertionError("plain IP does not break down")

    plain = load_vpn("none")
    start_services(lab)
    return Bench(lab, bring_up(lab, plain, plain.comparable, {}), renewal)


@pytest.mark.smoke
def test_delay_and_loss_are_as_asked(far_lab: Lab) -> None:
    wan.apply(far_lab, FAR)
    assert "round trips lost" in verify(far_lab, FAR)


@pytest.mark.parametrize(
    "other",
    [replace(FAR, delay_ms=40), replace(FAR, loss_ratio=0.1), replace(FAR, loss_ratio=0)],
    ids=["delay", "loss", "no loss"],
)
def test_what_was_not_asked_for_is_refused(far_lab: Lab, other: Conditions) -> None:
    wan.apply(far_lab, other)
    with pytest.raises(MeasurementError, match="round trip"):
        verify(far_lab, FAR)


def test_a_known_delay_is_the_round_trip_time(far_lab: Lab) -> None:
    wan.apply(far_lab, replace(FAR, loss_ratio=0))
    bench = measured(far_lab)
    (rtt,) = [found for found in idle(far_lab, bench.address, 3.0, 0.0).measurements if found.metric == "rtt"]
    assert 50 <= rtt.value < 60


@pytest.mark.smoke
def test_a_shaped_wan_is_verified_and_a_faster_one_refused(lab: Lab) -> None:
    """Needs no netem: the token bucket alone. Slow enough for a guest that shares its CPU with other tests."""
    wan.apply(lab, Conditions(rate_bps=4e6))
    assert "Mbit/s" in verify(lab, Conditions(rate_bps=4e6))
    with pytest.raises(MeasurementError, match="not 2"):
        verify(lab, Conditions(rate_bps=2e6))


def test_a_wan_whose_probe_sends_in_bursts_is_verified_and_another_rate_refused(lab: Lab) -> None:
    wan.apply(lab, Conditions(rate_bps=100e6))
    assert "Mbit/s" in verify(lab, Conditions(rate_bps=100e6))
    with pytest.raises(InstrumentError, match="not 50"):
        verify(lab, Conditions(rate_bps=50e6))
    with pytest.raises(InstrumentError, match="not 200"):
        verify(lab, Conditions(rate_bps=200e6))


def test_a_wan_that_no_machine_can_fill_is_no_vpns_failure(lab: Lab) -> None:
    wan.apply(lab, Conditions(rate_bps=100e9))
    with pytest.raises(InstrumentError, match="cannot be probed"):
        verify(lab, Conditions(rate_bps=100e9))


@pytest.mark.smoke
@pytest.mark.parametrize("kept", [False, True])
def test_what_waits_at_the_shaped_wan_does_not_block_its_sender(lab: Lab, kept: bool) -> None:
    """A gateway's daemon sends as on a real path: its packets have left it. The control: a bridge that keeps none."""
    wan.apply(lab, Conditions(rate_bps=4e6, queue_ms=1000))
    if kept:
        lab.wan.run("ip", "link", "set", "br0", "promisc", "off")
    near, far = lab.gateway(lab.sites[0]), lab.sites[1].wan_address
    near.run("ping", "-c1", "-W3", far)  # the address is known
    before = outer(lab)
    sent = int(near.run("python3", "-IS", "-c", SEND, far).stdout)
    assert (sent < 200) if kept else (sent == 300)
    wait_until(lambda: (outer(lab) - before).packets >= sent, "the queue empty")


@pytest.mark.smoke
def test_a_smaller_mtu_is_verified(lab: Lab) -> None:
    wan.apply(lab, Conditions(mtu_bytes=1400))
    verify(lab, Conditions(mtu_bytes=1400))
    with pytest.raises(MeasurementError, match="MTU"):
        verify(lab, Conditions(mtu_bytes=1300))


@pytest.mark.smoke
def test_a_kernel_without_netem_is_told_which_rate_it_can_have(lab: Lab) -> None:
    tried = lab.wan.run("tc", "qdisc", "add", "dev", "lo", "root", "netem", "delay", "1ms", check=False)
    lab.wan.run("tc", "qdisc", "del", "dev", "lo", "root", check=False)
    no = wan.conditions_refusal(lab, Conditions(delay_ms=25))
    assert (no is not None) == (tried.code != 0)
    assert no is None or ("netem" in no.reason and "wan_rate_bps=100000000" in no.reason)


@pytest.mark.timeout(480)
@pytest.mark.parametrize("preset", [name for name, conditions in PRESETS.items() if conditions.rate_bps])
def test_each_preset_gives_numbers_near_the_rate_that_it_sets(image: Image, tmp_path: Path, preset: str) -> None:
    """However long the path is: whoever waits for what is on its way waits for a round trip, too."""
    wanted = PRESETS[preset]
    with namespace_lab(image, logs=tmp_path) as lab:
        if no := wan.conditions_refusal(lab, wanted):
            pytest.skip(no.reason)
    asked = ("--vpn", "wireguard_go", "--profile", "smallest", "--set", f"measure=udp,measure=idle,wan={preset}")
    done = vpneval("run", "transport", *asked, "--out", tmp_path / "run", timeout=420)
    assert done.returncode == 0, done.stdout + done.stderr
    for vpn in ("none", "wireguard_go"):
        trials = trials_of(tmp_path / "run", vpn)
        found = {value.metric: value.value for trial in trials for value in trial.measurements}
        assert {trial.status for trial in trials} == {"ok"}, [trial.reason for trial in trials]
        assert wanted.rate_bps is not None
        assert 0.9 <= found["udp_throughput"] / wanted.rate_bps <= 1
        assert 2 * wanted.delay_ms <= found["rtt"] <= 2 * wanted.delay_ms + 30


def test_on_a_long_path_nothing_is_taken_for_lost_that_is_on_its_way(image: Image, tmp_path: Path) -> None:
    """A second each way: longer than a probe waits for anything beside the round trip."""
    with namespace_lab(image, logs=tmp_path) as lab:
        long = Conditions(delay_ms=1000, rate_bps=20e6, queue_ms=500)
        if no := wan.conditions_refusal(lab, long):
            pytest.skip(no.reason)
        wan.apply(lab, long)
        bench = measured(lab)
        rtt, far = f"{lab.rtt_s:g}", lab.sites[1]
        with streams(lab, bench.address, 200.0, 20.0) as both:
            assert both.flows_within(10.0) is not None
            sent_s = both.now()
            ways = both.end()
        assert [sum(gap.lost for gap in way.gaps_after(sent_s - 1.0)) for way in ways] == [0, 0]
        with (
            talking(lab.host2, "numbered", "hear", str(PORT), rtt, ready="hearing") as hears,
            talking(lab.host1, "numbered", "say", bench.address, str(PORT), rtt, ready="saying") as says,
        ):
            says.say(60.0, count=4 * WINDOW, bytes=BYTES, window=WINDOW, absent=[])
            heard = hears.say()
        assert (heard["got"], heard["missing"]) == (4 * WINDOW, [])
        lab.host1.write(f"{probes.FOLDER}/everyone.py", probes.source("everyone"), mode=0o644)
        assert late(lab, {"host1": ("0.0.0.0", [bench.address])}, 20.0) == []
        assert late(lab, {"host1": ("0.0.0.0", [far.lan_address])}, 3.0) == ["host1"], "the control: nobody answers"
