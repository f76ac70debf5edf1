"""Numbers that make no sense, on the command line, in files, and in run folders."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from questions.compare.runs import compare_runs
from questions.rank.why import why
from runner.catalogue import metrics, parse_levels
from runner.data.checks import check
from runner.data.errors import UsageError
from runner.data.metric import NEVER_NEGATIVE, Metric
from runner.data.numbers import number, real, seconds
from runner.data.store import load_run, open_store
from runner.data.trials import Cell, ExperimentRecord
from runner.ranking.weights import parse_weights
from tests.unit.data.test_store import RUN, trial
from tests.unit.synthetic import METRICS, make_run, realistic_run
from tests.unit.whole_report import build

HUGE = "9" * 400


@pytest.mark.parametrize("given", ["1", 1, " 1 ", "1e0"])
def test_a_number(given: Any) -> None:
    assert number(given, 1, 2, whole=True) == 1


@pytest.mark.parametrize(
    "given", ["", "x", "nan", "inf", "2.5", "1.5", HUGE, int(HUGE), "0" * 9000 + "x"], ids=lambda given: str(given)[:9]
)
def test_no_number(given: Any) -> None:
    with pytest.raises(ValueError, match=r"^a whole number from 1 to 2, not ") as said:
        number(given, 1, 2, whole=True)
    assert len(str(said.value)) < 120


def test_real() -> None:
    assert real(int(HUGE)) == real(HUGE) == float("inf")


@pytest.mark.parametrize("level", ["1500.5", "1400.0001"])
def test_an_mtu_is_whole(level: str) -> None:
    with pytest.raises(UsageError, match=f"wan_mtu_bytes takes a whole number from 576 to 9000, not '{level}'"):
        parse_levels(f"wan_mtu_bytes={level}")
    assert parse_levels("wan_mtu_bytes=1500,wan_delay_ms=1.5") == {"wan_mtu_bytes": ["1500"], "wan_delay_ms": ["1.5"]}


@pytest.mark.parametrize("digits", [400, 5000])
def test_numbers_of_hundreds_of_digits(digits: int) -> None:
    for factor in ("wan_rate_bps", "packet_bytes"):
        with pytest.raises(UsageError, match=rf"{factor} takes a .*number from .* to .*, not '999") as said:
            parse_levels(f"{factor}={'9' * digits}")
        assert len(str(said.value)) < 200
    with pytest.raises(UsageError, match="--deadline must be a time like"):
        seconds("9" * digits)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("", "rtt=1e308,jitter=1e308", r"the weight of rtt is 1e\+308; it must be finite, zero or more: 0, or from 1e"),
        ("", "rtt=1e-300,jitter=1", "the weight of rtt is 1e-300"),
        ("", f"rtt={HUGE}", "the weight of rtt is inf"),
        ("w.json", f'{{"rtt": {HUGE}}}', "the weight of rtt is inf"),
        ("w.json", f'{{"rtt": -{HUGE}}}', "the weight of rtt is inf"),
        ("w.toml", f"rtt = 0x{'f' * 4000}", "the weight of rtt is inf"),
        ("w.json", f'{{"rtt": {"9" * 5000}}}', "cannot be read"),
        ("w.json", '{"rtt": NaN}', "the weight of rtt is nan"),
    ],
)
def test_weights_with_which_nothing_can_be_ranked(tmp_path: Path, name: str, text: str, says: str) -> None:
    if name:
        (tmp_path / name).write_text(text)
    with pytest.raises(UsageError, match=says):
        parse_weights(str(tmp_path / name) if name else text, METRICS)


def measured(value: float, unit: str, **more: Any) -> dict[str, Any]:
    return {"metric": "rtt", "value": value, "unit": unit, "better": "lower", **more}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"measurements": [measured(-1, "ms")]}, "rtt is -1 ms; it cannot be less than zero"),
        ({"measurements": [measured(1, "bit/s", samples=[1, -2])]}, "rtt is -2 bit/s; it cannot be less than zero"),
        *(
            ({"measurements": [measured(-0.1, unit)]}, f"rtt is -0.1 {unit}; it cannot be less than zero")
            for unit in ("s/GB", "exchange/s", "/packet", "packet/packet", "byte/byte")
        ),
        *(
            ({"measurements": [measured(value, "1", metric=name)]}, f"{name} is {value:g}; it is from {between}")
            for name, value, between in (
                ("fairness", 1.01, "0 to 1"),
                ("forwarded_share", -0.5, "0 to 1"),
                ("fail_closed", 2, "0 to 1"),
                ("rekey_loss", 1.5, "-1e\\+100 to 1"),
                ("declared_strength", 11, "-1e\\+100 to 10"),
                ("setup_lines", -1, "0 to 1e\\+100"),
            )
        ),
        (
            {"measurements": [measured(5e-324, "ms")]},
            "rtt is 4.94066e-324 in size; what is measured",
        ),
        ({"measurements": [measured(1, "1", samples=[0, -1e308])]}, "in size; what is measured is 0, or from 1e-100"),
        ({"measurements": [measured(float("nan"), "1")]}, "measurements.0.value: Input should be a finite number"),
        ({"measurements": [measured(1, "1", samples=[float("inf")])]}, "should be a finite number"),
        ({"duration_s": -1}, "duration_s: Input should be greater than or equal to 0"),
        ({"measuring_s": float("inf")}, "measuring_s: Input should be"),
    ],
)
def test_what_physics_does_not_allow_is_not_ranked(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with open_store(tmp_path) as store:
        store.save_run(RUN.model_copy(update={"metrics": METRICS}))
    line = json.loads(trial("a").model_dump_json()) | change
    (tmp_path / "trials.jsonl").write_text(json.dumps(line) + "\n")
    with pytest.raises(UsageError, match=f"trials.jsonl, line 1: .*{says}"):
        load_run(tmp_path)


def test_what_may_be_negative(tmp_path: Path) -> None:
    """An overhead where the VPN compresses; a temperature."""
    with open_store(tmp_path) as store:
        store.save_run(RUN.model_copy(update={"metrics": METRICS}))
    line = json.loads(trial("a").model_dump_json())
    line["measurements"] = [measured(-1, unit) for unit in ("byte/packet", "1", "°C")]
    line["measurements"] += [measured(-1, "1", metric="rekey_loss"), measured(-1, "1", metric="declared_strength")]
    (tmp_path / "trials.jsonl").write_text(json.dumps(line) + "\n")
    assert len(load_run(tmp_path)[1][0].measurements) == 5


def test_a_share_may_be_rounded_and_its_samples_are_something_else(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.save_run(RUN.model_copy(update={"metrics": METRICS}))
    line = json.loads(trial("a").model_dump_json())
    line["measurements"] = [measured(1 + 1e-12, "1", metric="fairness", samples=[3e6, 3e6])]
    (tmp_path / "trials.jsonl").write_text(json.dumps(line) + "\n")
    assert len(load_run(tmp_path)[1][0].measurements) == 1


def test_every_metric_has_bounds_by_its_unit_or_by_its_name() -> None:
    known = metrics()
    unbounded = {name for name, metric in known.items() if metric.bounds == Metric.model_fields["bounds"].default}
    assert {name for name in unbounded if known[name].unit == "1"} == {"soak_descriptors"}, "a daemon may close some"
    others = {metric.unit for metric in known.values()} - {"1", *NEVER_NEGATIVE}
    assert others == {"byte/packet", "B/h"}, "an overhead where the VPN compresses, and memory that is given back"


@pytest.mark.parametrize("rates", ["fast", ["1"], {"aes-128-cbc": "fast"}, {"aes-128-cbc": 0}, {"aead": True}])
def test_encryption_rates_that_are_none(tmp_path: Path, rates: Any) -> None:
    run = json.loads(RUN.model_dump_json()) | {"lab": {"openssl_bps": rates}}
    (tmp_path / "run.json").write_text(json.dumps(run))
    with pytest.raises(UsageError, match=r"run.json: lab.openssl_bps"):
        load_run(tmp_path)


@pytest.mark.parametrize("value", [1e-100, 1e100])
def test_one_number_far_from_the_others_is_compared_all_the_same(value: float) -> None:
    run, trials = realistic_run()
    at = next(at for at, one in enumerate(trials) if one.vpn == "openvpn" and one.measurements)
    found = [one.model_copy(update={"value": value, "samples": []}) for one in trials[at].measurements]
    odd = [*trials]
    odd[at] = trials[at].model_copy(update={"measurements": found})
    text = " ".join(why(run, odd, "openvpn", "wireguard_go") + why(run, odd, "wireguard_go", "openvpn"))
    text += build(run, odd).model_dump_json() + compare_runs((run, trials), (run, odd)).model_dump_json()
    assert not re.search(r"\b(nan|inf|Infinity|NaN)\b", text)


@pytest.mark.parametrize(
    ("factor", "level"),
    [
        ("cost_rate_bps", "fast"),
        ("line_bps", "100M"),
        ("packet_bytes", "64.5"),
        ("payload_bytes", ""),
        ("streams", "four"),
        ("sites", "1e3"),
        ("wan_delay_ms", "nan"),
        ("wan_loss_ratio", "inf"),
        ("outage_limit_s", "١٢x"),
        ("gw2_cpu", "half"),
        ("wan", "moon"),
        ("own_rate_bps", "much"),
    ],
)
def test_a_level_that_a_number_is_expected_in(factor: str, level: str) -> None:
    """Of any factor whose name has a unit, a stranger's instrument's among them."""
    cell = Cell(vpn="openvpn", params={"measure": "tcp", factor: level})
    said = dict.fromkeys(("question", "method", "source"), "")
    record = ExperimentRecord(name="mine", factors={}, cells=[cell], metrics=[], **said)
    run = make_run(("none", "openvpn")).model_copy(update={"experiments": [record]})
    with pytest.raises(UsageError, match=f"the level {re.escape(repr(level))} of {factor} is "):
        check(run, [])
    known = Cell(vpn="openvpn", params={"tunnel_load": "full", "packet_bytes": "64", "wan": "lte"})
    fine = record.model_copy(update={"cells": [known]})
    check(run.model_copy(update={"experiments": [fine]}), [])
