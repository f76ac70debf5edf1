"""CPU cost at a rate: what counts, and what is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.design.profile import PROFILES
from runner.instruments.instrument import Asked, Go
from runner.instruments.traffic import paced
from runner.tunnel.bring_up import Bench

RATE = 100e6
ASKED = Asked(load_vpn("wireguard_go"), {"measure": "paced", "paced_bps": "100000000"}, PROFILES["quick"], 1)


def measured(monkeypatch: pytest.MonkeyPatch, carried: list[float], cost: float | None) -> tuple[list[Any], Any]:
    """Slices that carry these shares of the rate; each costs so much CPU time for a second's bytes."""
    spent, left = [0.0], iter(carried)

    def tcp(slice_s: float, *, rate_bps: float) -> dict[str, float]:
        spent[0] += cost or 0.0
        return {"bytes": rate_bps / 8 * next(left), "seconds": 1.0, "carried_bytes": rate_bps / 8}

    monkeypatch.setattr(paced, "visits", lambda bench: SimpleNamespace(tcp=tcp))
    monkeypatch.setattr(paced, "gateways_s", lambda lab: None if cost is None else spent[0])
    slices = paced.Paced().measure(cast(Bench, SimpleNamespace(lab=None)), ASKED)
    found = [next(slices)]
    for _ in carried[1:]:
        found.append(slices.send(Go.ON))
    with pytest.raises(StopIteration) as end:
        slices.send(Go.END)
    return found, end.value.value


def test_a_slice_that_falls_short_counts_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round without a value would look as if somebody had cut it out."""
    found, result = measured(monkeypatch, [1.0, 0.94, 0.99], 0.5)
    assert all(values["paced_cpu"] == pytest.approx(0.5 / (RATE / 8 / 1e9)) for values in found)
    assert [round(values["carried_ratio"], 2) for values in found] == [1.0, 0.94, 0.99]
    (value,) = result.measurements
    assert (value.metric, round(value.detail["carried_ratio"], 2)) == ("paced_cpu", 0.99)
    assert not result.warnings
    _, short = measured(monkeypatch, [0.5, 0.6], 0.5)
    assert short.warnings == ["only 55% of 100 Mbit/s came through"]


def test_where_nobody_counts_the_time_it_is_unsupported(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = SimpleNamespace(cpu_s=lambda: None)
    lab: Any = SimpleNamespace(shared_kernel=True, sites=(1, 2), gateway=lambda site: nodes)
    no = paced.Paced().refuses(lab, ASKED.vpn, ASKED.params)
    assert no
    assert "does not count the CPU time" in no.reason
    nodes.cpu_s = lambda: 1.5
    assert paced.gateways_s(lab) == 3.0
    assert paced.Paced().refuses(lab, ASKED.vpn, ASKED.params) is None
    with pytest.raises(MeasurementError):
        measured(monkeypatch, [1.0], None)


def test_a_cost_below_nothing_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasurementError, match="cannot be told"):
        measured(monkeypatch, [1.0], -0.5)
