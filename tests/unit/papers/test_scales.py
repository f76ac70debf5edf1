"""What stands in User Mode Linux: a system call is dear there, and the kernel's own work is not."""

from __future__ import annotations

import pytest

from runner.data.trials import Run
from runner.papers.findings import DECIDED, Data, Judgement, judge
from runner.papers.judges import findings_of
from runner.papers.scales import COSTS, one_scale
from tests.unit.findings_worlds import WORLDS, finding, made
from tests.unit.synthetic import make_run

# Ratios that are made of several VPNs, each compared with itself, and contradictions by one of these.
OWN = {"3des-cbc", "blowfish-128-cbc", "blind", "depends-data", "depends-encryption", "spread", "highest"}
OWN |= {"next-highest", "cpu", "bottleneck"}


def in_guest(run: Run, guest: str = "uml") -> Run:
    return run.model_copy(update={"lab": {**run.lab, "guest": guest}})


@pytest.mark.parametrize("experiment", sorted(WORLDS))
@pytest.mark.parametrize("holds", [True, False])
def test_no_cost_of_two_data_planes_is_decided_in_user_mode_linux(experiment: str, holds: bool) -> None:
    """By no driver, and whichever way it came out; on a machine, the same numbers decide."""
    run, trials = made(experiment, holds)
    across = []
    for one in findings_of(experiment):
        there, here = judge(one, in_guest(run), trials), judge(one, run, trials)
        names = {*here.systems} - {"plain IP"}
        planes = {run.vpns[name].dataplane if name in run.vpns else "userspace" for name in names}
        if one.basis not in COSTS:
            assert there == here or there.kind == "instructions", one.id
        elif len(names) > 1 and "userspace" in planes and one.id not in OWN:
            across.append(one.id)
            assert there.kind in ("scale", "instructions") or there.verdict == "undecided", one.id
            assert there.verdict not in DECIDED, one.id
            assert here.kind != "scale", one.id
    assert across or experiment == "crypto_matrix"


@pytest.mark.parametrize(
    ("systems", "stands"),
    [
        (("ipsec", "ipip", "none"), True),  # the kernel against itself
        (("ipsec", "plain IP"), True),
        (("openvpn",), True),  # one VPN's settings
        (("openvpn", "openvpn"), True),
        (("ipsec", "openvpn"), False),
        (("openvpn", "none"), False),
        (("openvpn", "ssh_tun"), False),  # one of them makes more system calls than the other
        (("ipsec", "ssh from the gateway"), False),  # a program, without a plugin
    ],
)
def test_what_shares_a_scale(systems: tuple[str, ...], stands: bool) -> None:
    run = make_run(("none", "ipip", "ipsec", "openvpn", "ssh_tun"))
    run.vpns["ipip"] = run.vpns["none"]
    assert one_scale(in_guest(run), systems) == stands
    assert one_scale(run, systems), "a machine is one scale"
    assert one_scale(in_guest(run, "qemu-kvm"), systems)
    judged = Judgement(verdict="reproduced", reason="so", value=2.0, low=1.9, high=2.1, chance=0.0)
    for basis in ("ratio", "count", "timer"):
        of = Data(in_guest(run), [], basis).check_scale(judged, *systems)
        assert (of.verdict == "reproduced") == (stands or basis != "ratio")
        assert of.value == 2.0, "the number stays"


def test_ssh_from_the_gateway_foretells_nothing_of_ipsec_in_user_mode_linux() -> None:
    run, trials = made("devices")
    assert judge(finding("devices", "forecast"), run, trials).kind != "scale"
    assert judge(finding("devices", "forecast"), in_guest(run), trials).kind == "scale"
    assert judge(finding("devices", "services"), in_guest(run), trials).verdict == "reproduced", "the kernel's own"


def calibrated(run: Run, here: tuple[float, float], host: tuple[float, float]) -> Run:
    """The run with what a system call and a packet cost (µs), in its kernel and on its host."""
    kernels = {
        name: {"system_call_us": call, "packet_us": packet} for name, (call, packet) in (("here", here), ("host", host))
    }
    return run.model_copy(update={"lab": {**run.lab, "calibration": kernels}})


@pytest.mark.parametrize(
    ("here", "fair"),
    [
        ((40.0, 0.4), False),  # User Mode Linux
        ((0.39, 17.0), False),  # software emulation: there, the packet is the dear one
        ((3.0, 8.0), True),  # slower, and alike
    ],
)
def test_what_was_measured_of_a_guest_says_whether_it_is_a_scale(here: tuple[float, float], fair: bool) -> None:
    run, across = make_run(("ipsec", "openvpn")), ("ipsec", "openvpn")
    for guest in ("uml", "qemu-tcg", "qemu-kvm"):
        assert one_scale(calibrated(in_guest(run, guest), here, (0.15, 0.4)), across) == fair
    assert not one_scale(in_guest(run, "qemu-tcg"), across), "by its kind, where nothing was measured"
    alone = run.model_copy(update={"lab": {**run.lab, "calibration": {"here": {"system_call_us": 9.0}}}})
    assert one_scale(alone, across), "a machine has no host"
