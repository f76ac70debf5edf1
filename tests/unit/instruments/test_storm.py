"""How many spokes are a half, nine tenths and all; and what is said where not all came back."""

from runner.instruments.failures.storm import ANSWER, results

UP = [1.0, 2.0, 3.0, 4.0]


def test_a_share_is_back_with_the_spoke_that_completes_it() -> None:
    measured = results(4, UP, [5.0, 6.0, 7.0, 20.0], 0.25, 4096)
    found = {value.metric: value.value for value in measured.measurements}
    times = {"storm_start": 4, "storm_half": 6, "storm_most": 20, "storm_all": 20}
    assert found == {**times, "storm_cpu": 0.25, "storm_memory": 4096}
    assert not measured.remarks


def test_who_is_not_back_is_no_number() -> None:
    measured = results(4, UP, [5.0, 6.0, 7.0], 0.25, 4096)
    assert {value.metric for value in measured.measurements} == {"storm_start", "storm_half"}
    assert [remark.subject for remark in measured.remarks] == ["90% of the tunnels back", "100% of the tunnels back"]
    assert "3 of 4 spokes were back" in measured.remarks[0].why


def test_an_answer_is_no_complaint() -> None:
    said = """PING 10.104.0.1 (10.104.0.1) from 10.1.0.1 : 56(84) bytes of data.
ping: sendmsg: Network is unreachable
[1732640000.200000] From 10.1.0.1 icmp_seq=1 Destination Host Unreachable
[1732640000.400000] 64 bytes from 10.104.0.1: icmp_seq=2 ttl=64 time=0.298 ms
"""
    assert ANSWER.findall(said) == ["1732640000.400000"]
