"""The CPU cost at a paced rate, from what control groups would have counted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, Go
from runner.instruments.result import Measured
from runner.instruments.traffic import paced
from runner.instruments.traffic.paced import Paced

GIGABYTE = 1_000_000_000


def asked() -> Asked:
    return Asked(load_vpn("openvpn"), {"cost_rate_bps": "20000000"}, PROFILES["quick"], 1)


def carried(monkeypatch: pytest.MonkeyPatch, megabits: float) -> Any:
    """A bench whose visits carry so much a second, a gigabyte in all."""
    found = {"bytes": megabits * 1e6 / 8 * 0.2, "seconds": 0.2, "carried_bytes": GIGABYTE}
    monkeypatch.setattr(paced, "visits", lambda bench: SimpleNamespace(tcp=lambda slice_s, rate_bps: found))
    return SimpleNamespace(lab=SimpleNamespace(shared_kernel=True))


def test_what_a_trial_tells_of_the_hosts_is_of_all_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = iter([(0, 0), (1, 10), (1, 10), (3, 30), (3, 30), (6, 60), (6, 60), (10, 150)])  # before and after each
    monkeypatch.setattr(paced, "spent_s", lambda lab, in_kernel: next(counted))
    measuring = Paced().measure(carried(monkeypatch, 20.0), asked())
    slices = [next(measuring), *(measuring.send(Go.ON) for _ in range(3))]
    with pytest.raises(StopIteration) as ended:
        measuring.send(Go.END)
    measured: Measured = ended.value.value
    (value,) = measured.measurements
    assert [one["hosts_cpu_per_gigabyte"] for one in slices] == [10, 20, 30, 90]
    assert (value.value, value.detail["hosts"]) == (2.5, 25.0)


def test_who_does_not_carry_the_rate_has_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paced, "spent_s", lambda lab, in_kernel: (0.0, 0.0))
    with pytest.raises(MeasurementError, match=r"it carried 17 of 20 Mbit/s\. Give a --cost-rate"):
        next(Paced().measure(carried(monkeypatch, 17.0), asked()))
