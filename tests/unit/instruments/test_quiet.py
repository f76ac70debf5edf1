"""What a gateway did in a time of nothing: whose packets count, and when the control says that nothing was seen."""

from dataclasses import replace

import pytest

from runner.data.errors import InstrumentError
from runner.instruments.traffic.quiet import AtRest, check, of_ip, values

NOTHING = AtRest(seconds=30, cpu_ms=0, wakeups=0, pss_bytes=0, packets=0, bytes=0, silence_s=30)
POLLING = AtRest(seconds=30, cpu_ms=40, wakeups=590, pss_bytes=5_000_000, packets=90, bytes=4000, silence_s=1)


@pytest.mark.parametrize(
    ("frame", "counts"),
    [
        ("0800" + "45000020" + "00" * 5 + "11", True),  # UDP
        ("0800" + "45000020" + "00" * 5 + "02", False),  # IGMP
        ("86dd" + "60000000" + "0020" + "11", True),
        ("86dd" + "60000000" + "0020" + "3a", False),  # ICMPv6
        ("86dd" + "60000000" + "0024" + "00", False),  # a report on groups
        ("0806" + "00" * 28, False),  # ARP
        ("0800", False),
    ],
)
def test_the_kernels_own_packets_are_none_of_the_tunnels(frame: str, counts: bool) -> None:
    assert of_ip(bytes.fromhex("00" * 12 + frame + "00" * 10 * (len(frame) > 4))) is counts


def test_the_control_must_see_one_and_see_nothing_of_the_other() -> None:
    check(polling=POLLING, nothing=NOTHING)
    for blind in (NOTHING, replace(POLLING, wakeups=100), replace(POLLING, packets=9), replace(POLLING, cpu_ms=0)):
        with pytest.raises(InstrumentError, match="600 times and sends 60 packets"):
            check(polling=blind, nothing=NOTHING)
    for loud in (replace(NOTHING, packets=2), replace(NOTHING, wakeups=1)):
        with pytest.raises(InstrumentError, match="nothing on it"):
            check(polling=POLLING, nothing=loud)


def test_a_value_is_the_mean_of_the_gateways() -> None:
    found = values({"gw1": POLLING, "gw2": replace(NOTHING, silence_s=9)}, {"gw1": POLLING, "gw3": NOTHING})
    assert {each.metric: each.value for each in found} == {
        **{"idle_cpu": 20, "idle_wakeups": 295, "idle_memory": 2_500_000, "idle_packets": 45, "idle_bytes": 2000},
        "idle_silence": 5,
    }
    assert found[0].detail["gateways"]["gw1"]["wakeups"] == 590
