"""Which labs are no scale between VPNs in the kernel and programs, by what their runs recorded."""

from __future__ import annotations

from typing import Any

import pytest

from runner.data.scale import NoScale, no_scale
from runner.data.store import load_run
from runner.data.trials import Machine, Run
from tests.unit.findings_worlds import ROOT
from tests.unit.synthetic import make_run

REAL = {"system_call_us": 0.149, "packet_us": 0.398}
UML = {"system_call_us": 12.333, "packet_us": 0.244}
TCG = {"system_call_us": 0.39, "packet_us": 14.0}
BUSY_TCG = {"system_call_us": 0.988, "packet_us": 15.39}  # QEMU without KVM on a host at load 20
SLOW = {"system_call_us": 1.4, "packet_us": 2.2}  # a small router: both are dear
XEON = {"cpu": "Intel(R) Xeon(R) Processor", "virtualization": "none", "clock_source": "tsc"}
QEMU64 = {"cpu": "QEMU Virtual CPU version 2.5+", "maker": "QEMU Standard PC (i440FX + PIIX, 1996)"}
HASWELL = {"cpu": "Intel Core Processor (Haswell)", "maker": QEMU64["maker"]}
NAMES = ("host1", "gw1", "wan", "gw2", "host2")


def namespaces(**facts: Any) -> dict[str, Any]:
    own: dict[str, Any] = {name: facts.pop(name) for name in ("maker", "virtualization") if name in facts}
    usual: dict[str, Any] = {"kind": "netns", "nodes_share_cores": True, "cpu": "AMD EPYC", "clock_source": "tsc"}
    lab = usual | facts
    return lab | {"machines": {"this machine": {"cpu": lab["cpu"], **own}}}


def machines(kind: str, of_each: dict[str, Any], clock: str = "tsc", **others: dict[str, Any]) -> dict[str, Any]:
    every = {name: others.get(name, of_each) for name in NAMES}
    return {"kind": kind, "nodes_share_cores": False, **every["gw1"], "clock_source": clock, "machines": every}


def run_of(lab: dict[str, Any]) -> Run:
    return make_run(("none", "ipsec", "openvpn")).model_copy(update={"lab": lab})


LABS: dict[str, tuple[dict[str, Any], NoScale | None]] = {
    "namespaces": (namespaces(calibration={"here": REAL}), None),
    "namespaces of an older run": (namespaces(), None),
    "namespaces on a slow machine": (namespaces(calibration={"here": SLOW}), None),
    "namespaces in somebody's own emulated machine": (
        namespaces(cpu="QEMU TCG CPU version 2.5+", calibration={"here": TCG}),
        NoScale(kind="emulation"),
    ),
    "the same, with a processor of a real name": (namespaces(calibration={"here": TCG}), NoScale(kind="costs")),
    "the same, where systemd knows": (
        namespaces(virtualization="qemu", calibration={"here": BUSY_TCG}),
        NoScale(kind="emulation"),
    ),
    "namespaces in somebody's own User Mode Linux": (namespaces(cpu="UML"), NoScale(kind="uml")),
    "--kernel uml": (namespaces(cpu="UML", guest="uml", calibration={"here": UML, "host": REAL}), NoScale(kind="uml")),
    "--kernel uml, an older run": (namespaces(cpu="UML", guest="uml"), NoScale(kind="uml")),
    "--kernel qemu with KVM": (namespaces(guest="qemu-kvm", calibration={"here": SLOW, "host": REAL}), None),
    "--kernel qemu with KVM, an older run": (namespaces(guest="qemu-kvm", **HASWELL), None),
    "--kernel qemu without": (
        namespaces(guest="qemu-tcg", calibration={"here": TCG, "host": REAL}),
        NoScale(kind="emulation"),
    ),
    "--kernel qemu without, an older run": (namespaces(guest="qemu-tcg", **HASWELL), NoScale(kind="emulation")),
    "a guest that nobody knows": (
        namespaces(guest="other", calibration={"here": UML, "host": REAL}),
        NoScale(kind="costs"),
    ),
    "vagrant with KVM": (machines("vagrant", HASWELL | {"virtualization": "kvm", "calibration": REAL}), None),
    "vagrant with KVM, an older run": (machines("vagrant", QEMU64, "kvm-clock"), None),
    "vagrant with KVM that hides": (machines("vagrant", QEMU64 | {"calibration": REAL}, "tsc"), None),
    "vagrant emulated": (
        machines("vagrant", HASWELL | {"virtualization": "qemu", "calibration": TCG}),
        NoScale(kind="emulation", machines=[*NAMES]),
    ),
    "vagrant emulated, an older run": (machines("vagrant", QEMU64), NoScale(kind="emulation", machines=[*NAMES])),
    "ssh": (machines("ssh", XEON | {"calibration": REAL}), None),
    "ssh, one emulated": (
        machines("ssh", XEON | {"calibration": REAL}, gw2={"cpu": "QEMU TCG CPU version 2.5+"}),
        NoScale(kind="emulation", machines=["gw2"]),
    ),
    "ssh, one whose costs are odd": (
        machines("ssh", XEON | {"calibration": REAL}, gw2=XEON | {"calibration": TCG}),
        NoScale(kind="costs", machines=["gw2"]),
    ),
    "ssh, ARM": (machines("ssh", {"cpu": "ARM, implementer 0x41, part 0xd08"}), None),
    "ssh, ARM emulated": (
        machines("ssh", XEON, gw1={"cpu": "ARM, implementer 0x00, part 0x051"}),
        NoScale(kind="emulation", machines=["gw1"]),
    ),
    "unknown": ({}, None),
    "nothing told": (machines("ssh", {"cpu": "unknown", "virtualization": "unknown"}, "unknown"), None),
}


@pytest.mark.parametrize("name", LABS)
def test_a_lab_is_a_scale_or_says_why_not(name: str) -> None:
    lab, expected = LABS[name]
    assert no_scale(run_of(lab)) == expected


def test_one_machine_of_a_farm_is_enough() -> None:
    (real, _), (emulated, found) = LABS["namespaces"], LABS["namespaces in somebody's own emulated machine"]
    about = {"cpu": "x", "cores": 2, "memory_bytes": 1, "kernel": "6", "image": "i", "versions": "1"}
    farm = {name: Machine.model_validate(about | {"lab": lab}) for name, lab in (("a", real), ("b", emulated))}
    assert no_scale(run_of(real).model_copy(update={"machines": farm})) == found
    assert no_scale(run_of(real).model_copy(update={"machines": {"a": farm["a"]}})) is None


@pytest.mark.parametrize(
    "odd", [[], "fast", 3, {"here": []}, {"here": {"system_call_us": "1", "packet_us": None}}, {"here": {}, "host": 1}]
)
def test_costs_that_are_none_were_not_measured(odd: object) -> None:
    assert no_scale(run_of(namespaces(calibration=odd))) is None
    assert no_scale(run_of(namespaces(guest="uml", calibration=odd))) == NoScale(kind="uml")
    assert no_scale(run_of({**namespaces(), "machines": odd})) is None


@pytest.mark.parametrize("cost", [0.0, -0.1, float("nan"), float("inf")])
def test_costs_that_cannot_be_were_not_measured(cost: float) -> None:
    for name in REAL:
        assert no_scale(run_of(namespaces(calibration={"here": REAL | {name: cost}}))) is None


def test_of_the_committed_runs_those_in_guests_are_no_scale() -> None:
    guests = set()
    for path in sorted((ROOT / "results").glob("**/run.json")):
        run, _ = load_run(path.parent)
        guests.add(run.lab.get("guest", ""))
        expected = {"uml": NoScale(kind="uml"), "qemu-tcg": NoScale(kind="emulation")}.get(run.lab.get("guest", ""))
        assert no_scale(run) == expected, path
    assert {"", "uml"} <= guests
