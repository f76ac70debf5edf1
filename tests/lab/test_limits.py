"""What limits a throughput is named in real tunnels, each limit made on purpose; without it, another one is named."""

from __future__ import annotations

import json
import os
import re
import statistics
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.loads import Limit, MachineLoad
from runner.data.wan import Conditions
from runner.instruments.traffic.cost import processes
from runner.instruments.traffic.generator import Load, generator
from runner.instruments.traffic.limits import Limits
from runner.instruments.traffic.mtu import IP_UDP_BYTES
from runner.instruments.traffic.visits import visits
from runner.lab import wan
from runner.lab.image import Image
from runner.lab.places import open_rig
from runner.lab.site_to_site import Lab, namespace_lab
from runner.ranking.gateways import apart
from runner.ranking.limits import judge
from runner.sweep import variants
from runner.tunnel.bring_up import Bench, Tunnel, bring_up, make_secrets, start_services
from tests.lab.machines import machines
from tests.lab.test_packets import bench_in
from tests.lab.test_ssh_lab import as_before, settled

pytestmark = pytest.mark.alone
SLICE_S = 0.3
HOG = "while :; do :; done"
OVERLOAD_BPS = 1.5e9


def threads_of(lab: Lab, *names: str) -> Iterator[int]:
    """The threads of these nodes."""
    for _, pid in processes([lab.nodes[name] for name in names]):
        with suppress(OSError):  # gone
            yield from map(int, os.listdir(f"/proc/{pid}/task"))


def alone_on(lab: Lab, name: str, core: int) -> None:
    """One node has a core to itself, before whatever else this machine does; the others have the other cores."""
    for node in lab.nodes:
        for thread in threads_of(lab, node):
            with suppress(OSError):
                others = os.sched_getaffinity(0) - {core}
                os.sched_setaffinity(thread, {core} if node == name else others)
                if node in (name, "host1"):  # and the sender, so that there is always something to do
                    os.sched_setscheduler(thread, os.SCHED_RR, os.sched_param(1))


def prefer(lab: Lab) -> None:
    """Whatever else this machine does stays behind the lab."""
    for group in variants.GROUPS.glob(f"*/vpneval-{os.getpid()}-*"):  # a quota's, which competes as a whole
        for name, weight in (("cpu.shares", "20000"), ("cpu.weight", "10000")):
            if (group / name).exists():
                (group / name).write_text(weight)
    for _, pid in processes(list(lab.nodes.values())):
        with suppress(OSError):  # where sessions share the cores first, and nice counts within one (sched(7))
            Path(f"/proc/{pid}/autogroup").write_text("-15")
    for thread in threads_of(lab, *lab.nodes):
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, thread, -15)


@contextmanager
def tunnel(
    image: Image, logs: Path, name: str, quota: str = "", conditions: Conditions | None = None
) -> Iterator[Bench]:
    """A tunnel that has carried something already."""
    with ExitStack() as stack:
        hold = stack.enter_context(variants.quota({"gw2_cpu": quota} if quota else {}))
        lab = stack.enter_context(namespace_lab(image, logs=logs))
        if conditions:
            wan.apply(lab, conditions)
        bench = bench_in(lab, name, image)
        stack.callback(bench.close)
        hold(lab)
        watched(bench, 1)  # from now on, what comes to a gateway is not the VPN's
        prefer(lab)
        yield bench


def watched(bench: Bench, slices: int) -> tuple[Limit, list[MachineLoad]]:
    """The limit of a TCP transfer in so many slices, and what it is made of."""
    limits, via = Limits(), visits(bench)
    for _ in range(slices):
        with limits.watched(bench):
            via.tcp(SLICE_S)
    loads = limits.found()
    limit = judge(loads)
    assert limit is not None
    print(limit.sentence, *limit.evidence, sep="\n    ")
    return limit, loads


def test_a_quota_is_named_in_ten_of_ten(image: Image, tmp_path: Path) -> None:
    if why := variants.no_quota():
        pytest.skip(why)
    with tunnel(image, tmp_path, "openvpn", quota="0.2") as bench:
        found = [watched(bench, 2) for _ in range(10)]
    assert [limit.kind for limit, _ in found] == ["quota"] * 10
    assert all(limit.sentence.startswith("gw2's quota: throttled ") for limit, _ in found)
    assert {quota.cores for _, (load,) in found for quota in load.quotas} == {0.2}
    with tunnel(image, tmp_path, "openvpn") as bench:
        assert watched(bench, 4)[0].kind != "quota"


@pytest.mark.parametrize("node", ["gw2", "host1"])
def test_a_hog_is_attributed_to_its_node(image: Image, tmp_path: Path, node: str) -> None:
    with tunnel(image, tmp_path, "openvpn") as bench:
        assert " sh, " not in watched(bench, 4)[0].sentence
        hog = bench.lab.nodes[node].spawn("sh", "-c", HOG, log="hog")
        prefer(bench.lab)
        limit, _ = watched(bench, 4)
        hog.stop()
        assert " sh, " not in watched(bench, 4)[0].sentence
    assert limit.where == node
    assert limit.sentence.startswith(f"{node}: sh, ")


def dropped(lab: Lab) -> int:
    """By the token bucket towards gateway 2, as tc(8) counts it."""
    shown = lab.wan.run("tc", "-statistics", "-json", "qdisc", "show", "dev", "gw2").stdout
    return int(next(one for one in json.loads(shown) if one["kind"] == "tbf")["drops"])


def test_the_drops_of_a_token_bucket_are_named_by_port_and_count(image: Image, tmp_path: Path) -> None:
    with tunnel(image, tmp_path, "openvpn", conditions=Conditions(rate_bps=20e6)) as bench:
        before = dropped(bench.lab)
        limit, _ = watched(bench, 4)
        drops = dropped(bench.lab) - before
    said = re.fullmatch(r"the path: (\d+) of (\d+) packets dropped at wan's port gw2 \(tbf\)", limit.sentence)
    assert said is not None, limit.sentence
    assert drops > 0
    assert abs(int(said[1]) - drops) <= 0.2 * drops, "what is dropped between two readings is tc's alone"
    with tunnel(image, tmp_path, "openvpn") as bench:
        assert watched(bench, 4)[0].kind != "path"


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("openvpn", r"gw1: openvpn's only thread, \d+ % of core 0"),
        ("wireguard_go", r"gw1: wireguard-go's \d+ threads together, \d+ % of core 0"),
    ],
)
def test_one_thread_is_told_from_many(image: Image, tmp_path: Path, name: str, sentence: str) -> None:
    """Gateway 1 has core 0 to itself, and is offered more than it can carry; all else is on core 1."""
    if os.cpu_count() == 1:
        pytest.skip("this machine has one core")
    with tunnel(image, tmp_path, name) as bench:
        play = generator(bench).play
        load = Load((1300,), OVERLOAD_BPS / 8 / 1300, 1.0)
        play(load)
        alone_on(bench.lab, "gw1", 0)
        limits = Limits()
        for _ in range(2):
            with limits.watched(bench):
                play(load)
        found = judge(limits.found())
    assert found is not None
    print(found.sentence, *found.evidence, sep="\n    ")
    assert re.fullmatch(sentence, found.sentence)


def test_a_gateway_with_a_core_of_its_own_carries_what_was_predicted(image: Image, tmp_path: Path) -> None:
    """Predicted on shared cores at a low rate; found at overload, with gateway 1 alone on a core."""
    if os.cpu_count() == 1:
        pytest.skip("this machine has one core")
    payload_bytes = 1300 - IP_UDP_BYTES

    def played(bench: Bench, rate_bps: float) -> tuple[list[MachineLoad], float]:
        limits, carried_bps = Limits(), []
        for _ in range(3):
            with limits.watched(bench) as piece:
                arrived = generator(bench).play(Load((1300,), rate_bps / 8 / payload_bytes, 0.7))
                piece.carried_bytes = arrived.kept_up * payload_bytes
            carried_bps.append(8 * piece.carried_bytes / arrived.seconds)
        return limits.found(), statistics.median(carried_bps)

    with tunnel(image, tmp_path, "openvpn") as bench:
        played(bench, 100e6)
        prefer(bench.lab)
        predicted = apart([played(bench, 100e6)[0]])
        alone_on(bench.lab, "gw1", 0)
        _, found_bps = played(bench, OVERLOAD_BPS)
    assert predicted is not None
    assert (predicted.program, predicted.threads) == ("openvpn", 1)
    print(
        f"{predicted.low_bps / 1e6:.0f} to {predicted.high_bps / 1e6:.0f} Mbit/s predicted, {found_bps / 1e6:.0f} found"
    )
    assert 0.9 * predicted.low_bps <= found_bps <= 1.1 * predicted.high_bps


def test_every_machine_of_its_own_is_watched(image: Image, tmp_path: Path) -> None:
    """Five machines behind ssh: each is read by a probe of its own, and a hog is attributed to its machine."""

    def renew() -> tuple[Lab, Tunnel]:
        raise AssertionError("the tunnel broke down")

    vpn = load_vpn("openvpn")
    with machines(image, tmp_path) as testbed:
        before = settled(testbed)
        with open_rig(f"ssh:{testbed.inventory()}", print) as rig, rig.lab(rig.image("host"), logs=tmp_path) as lab:
            secrets = make_secrets(vpn, rig.alone(rig.image("host"), lambda line: None), lab.sites)
            start_services(lab)
            bench = Bench(lab, bring_up(lab, vpn, vpn.comparable, secrets), renew)
            _, loads = watched(bench, 2)
            lab.nodes["gw2"].spawn("sh", "-c", HOG, log="hog")
            limit, hogged = watched(bench, 4)
            bench.close()
        as_before(testbed, before)
    assert [load.name for load in loads] == [load.nodes[0] for load in loads] == [*lab.nodes]
    own = {load.name: {(one.name, one.role) for one in load.processes} for load in loads}
    reader = {("loads.py", "generator")}  # it is told where it took a hundredth of a core
    assert own["gw1"] - reader == own["gw2"] - reader == {("openvpn", "vpn")}
    assert ("visit.py", "generator") in own["host2"]
    assert limit.where == "gw2", limit
    assert ("sh", "other") in {(one.name, one.role) for load in hogged for one in load.processes if one.node == "gw2"}
