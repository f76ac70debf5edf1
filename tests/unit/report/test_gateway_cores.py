"""The gateways' cores at the rates of a ladder: less plain IP's, round by round; none where a rate is not carried."""

from __future__ import annotations

import pytest

from runner.data.levels import NO_CIPHER
from runner.data.trials import Rung, Trial
from runner.evidence.model import Configuration
from runner.report.gateway_cores import cores, ladders, table
from tests.unit.synthetic import CBC, make_trial

MB = 1e6
COMPARED = Configuration("comparable", image="", levels={"openvpn": dict(CBC), "ssh_tun": dict(CBC)}, traffic={})


def rung(rate_bps: float, cpu_s: list[float | None], carried: float = 1.0, rounds: list[int] | None = None) -> Rung:
    """A rung of a quarter of a second."""
    rounds = rounds or [*range(1, 1 + len(cpu_s))]
    size = carried * rate_bps / 8 / 4
    whole: dict[str, list[float | None]] = {
        "carried_ratio": [carried] * len(rounds),
        "cpu_s": cpu_s,
        "seconds": [0.25] * len(rounds),
        "carried_bytes": [size] * len(rounds),
    }
    return Rung(rate_bps=rate_bps, rounds=rounds, values=whole)


def climb(vpn: str, *curve: Rung, carried: str = "tcp") -> Trial:
    levels = NO_CIPHER if vpn == "none" else CBC
    params = {**levels, "measure": "ladder", "carried": carried}
    return make_trial(vpn, params, 1, {}).model_copy(update={"curve": list(curve)})


def of(*trials: Trial) -> list[list[str]]:
    return table(ladders(COMPARED, trials), "tcp")[1]


def test_plain_ips_cost_of_as_many_bytes_in_the_same_round_is_not_the_gateways() -> None:
    plain = rung(10 * MB, [0.01, 0.02, 0.03])
    assert cores([rung(10 * MB, [0.03, 0.04, 0.05])], [plain]) == pytest.approx([0.08] * 3)
    half = rung(10 * MB, [0.03], carried=0.5)  # of half of the bytes
    assert cores([half], [plain]) == pytest.approx([(0.03 - 0.005) / 0.25])


def test_a_round_without_plain_ip_has_its_median() -> None:
    plain = rung(10 * MB, [0.01, 0.02, 0.03])
    assert cores([rung(10 * MB, [0.03], rounds=[9])], [plain]) == pytest.approx([0.04])
    assert cores([rung(10 * MB, [0.03])], []) == [], "nothing is known of plain IP"
    assert cores([rung(10 * MB, [None])], [plain]) == []


def test_the_table_has_what_is_carried_and_its_cores() -> None:
    plain = climb("none", rung(10 * MB, [0.01]), rung(30 * MB, [0.01]), rung(100 * MB, [0.01]))
    slow = climb("ssh_tun", rung(10 * MB, [0.035]), rung(30 * MB, [0.2], carried=0.4))
    fast = climb("openvpn", rung(10 * MB, [0.035]), rung(30 * MB, [0.06]), rung(100 * MB, [0.005]))
    other = climb("openvpn", rung(10 * MB, [1.0]), carried="datagrams")
    assert of(plain, slow, fast, other) == [
        ["openvpn", "0.100 (no interval)", "0.200 (no interval)", "-0.0200 (no interval)"],
        ["ssh_tun", "0.100 (no interval)", "carries 40 % of it", "–"],
    ]
    assert of(plain) == []


def test_ladders_of_other_levels_are_not_the_configurations() -> None:
    other = climb("openvpn", rung(10 * MB, [0.1]))
    other = other.model_copy(update={"params": other.params | {"cipher": "null"}})
    assert of(climb("none", rung(10 * MB, [0.01])), other) == []


def test_a_difference_within_its_own_spread_is_no_cost_and_is_not_clamped() -> None:
    plain = climb("none", rung(10 * MB, [0.01] * 6))
    noisy = climb("openvpn", rung(10 * MB, [0.008, 0.011, 0.009, 0.012, 0.010, 0.009]))
    ((_, cell),) = of(plain, noisy)
    assert cell.startswith("as plain IP (± 0.0")


def test_the_parts_are_those_of_each_gateway_and_of_the_threads_and_what_is_left() -> None:
    def parted(vpn: str, cpu_s: float, **parts: float) -> Trial:
        made = rung(10 * MB, [cpu_s] * 3)
        return climb(vpn, made.model_copy(update={"values": made.values | {n: [s] * 3 for n, s in parts.items()}}))

    plain = parted("none", 0.01, gw1_cpu_s=0.0, gw2_cpu_s=0.0, threads_cpu_s=0.005)
    own = parted("openvpn", 0.06, gw1_cpu_s=0.02, gw2_cpu_s=0.015, threads_cpu_s=0.01)
    found = ladders(COMPARED, [plain, own])
    assert table(found, "tcp", lambda at: at.says_parts)[1] == [
        ["openvpn", "gw1 0.08, gw2 0.06, threads 0.02, rest 0.04"]
    ]
    older = ladders(COMPARED, [climb("none", rung(10 * MB, [0.01])), climb("openvpn", rung(10 * MB, [0.06]))])
    assert table(older, "tcp", lambda at: at.says_parts)[1] == [["openvpn", "–"]]
