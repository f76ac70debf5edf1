"""What of the looks at a gateway is a leak, and what is not."""

import pytest

from runner.data.errors import InstrumentError, MeasurementError
from runner.instruments.traffic.soak import (
    LEAK_BYTES,
    LEAK_S,
    TREND_S,
    Held,
    check,
    descriptor_gain,
    pause_ms,
    results,
    trend,
)

PING = """PING 10.2.0.2 (10.2.0.2) 56(84) bytes of data.
[1732640000.000000] 64 bytes from 10.2.0.2: icmp_seq=1 ttl=62 time=0.312 ms
[1732640000.020000] 64 bytes from 10.2.0.2: icmp_seq=2 ttl=62 time=0.298 ms
[1732640000.260000] 64 bytes from 10.2.0.2: icmp_seq=14 ttl=62 time=0.301 ms
"""
LEAKS = [Held(at_s, int(at_s / LEAK_S), int(at_s / LEAK_S) * LEAK_BYTES) for at_s in range(0, 60, 5)]
NOTHING = [Held(at_s, 0, 0) for at_s in range(0, 60, 5)]


def test_what_is_open_for_a_moment_is_no_gain() -> None:
    steady = [9, 9, 12, 9, 9, 14, 9, 11, 9]
    assert descriptor_gain([Held(0, count, 0) for count in steady]) == 0
    assert descriptor_gain([Held(0, count + at // 3, 0) for at, count in enumerate(steady)]) == 2
    assert descriptor_gain([Held(0, count, 0) for count in (9, 9, 7)]) == -2


def test_memory_that_grows_to_its_size_at_first_has_no_trend() -> None:
    grown = [Held(60.0 * at, 9, 1_000_000 * min(at, 20)) for at in range(90)]
    assert trend(grown)[0] == 0
    leaking = [Held(look.at_s, 9, look.private_bytes + 1000 * at) for at, look in enumerate(grown)]
    assert trend(leaking) == pytest.approx((60_000, 60_000, 60_000))


def test_a_trend_needs_its_time_and_a_pause_a_rekey() -> None:
    short = {"gw1": NOTHING}
    measured = results(short, {True: [], False: [22.0]})
    assert [value.metric for value in measured.measurements] == ["soak_descriptors"]
    assert [remark.kind for remark in measured.remarks] == ["no value", "no value"]
    long = {"gw1": [Held(at * TREND_S / 10, 9, 4096) for at in range(11)]}
    found = {value.metric: value for value in results(long, {True: [24.0, 90.0, 30.0], False: [22.0]}).measurements}
    assert (found["soak_memory"].value, found["soak_pause"].value) == (0, 30)
    assert found["soak_pause"].detail == {"rekeys": 3, "without_rekey_ms": 22, "longest_ms": 90}


def test_the_control_must_see_the_leak_and_nothing_where_nothing_is() -> None:
    check({"leaks": LEAKS, "nothing": NOTHING})
    with pytest.raises(InstrumentError, match="was seen to have gained 0"):
        check({"leaks": NOTHING, "nothing": NOTHING})
    with pytest.raises(InstrumentError, match="nothing on it"):
        check({"leaks": LEAKS, "nothing": LEAKS})


def test_a_pause_is_between_two_answers() -> None:
    assert pause_ms(PING) == 240
    with pytest.raises(MeasurementError, match="nothing came back"):
        pause_ms(PING[:150])
