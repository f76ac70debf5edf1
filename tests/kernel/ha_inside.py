"""A gateway of two that dies, with ESP and CLUSTERIP in the kernel, inside a guest; run by tests/kernel/test_ha.py.

usage: python -m tests.kernel.ha_inside FOLDER [pytest's options]   (boots User Mode Linux; report.xml goes to FOLDER)
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from runner.data.levels import Params
from runner.instruments.failures import prepare
from runner.instruments.failures.cluster import DEAD_AFTER_S, HEARTBEAT_S
from runner.instruments.failures.gateway import break_gateway
from runner.instruments.failures.outage import Outage, OutageWatch, outage
from runner.instruments.failures.port_threads import give_threads, thread_s
from runner.instruments.failures.redundancy import PAIR, arm, check_preferred, is_active
from runner.instruments.failures.takeover import Handover, read_handover
from runner.instruments.failures.transfer import UNLIMITED, download_from_pair
from runner.lab.node.probing import answer, probe
from runner.lab.places import NamespaceRig
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import SITES, Lab
from runner.lab.shape.topologies import REDUNDANT
from runner.lab.software.image import Image, open_image
from runner.tunnel.bring_up import bring_up, make_secrets, start_services
from runner.vpn.plugin import Secrets, Vpn
from tests.contract import this_machine
from tests.kernel.inside import in_guest
from tests.kernel.vpns_inside import LEAN
from vpns.ipsec import Ipsec

SLOWLY = OutageWatch(rate=100, limit_s=60, look_s=4, phase_s=0.5)  # a guest has one slow CPU


class Lean(Ipsec):
    """`ipsec` with few of strongSwan's plugins, which a guest takes long to load."""

    name = "ipsec"

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        found = super().render(me, peers, params, secrets)
        return {**found, "/etc/strongswan.d/zz-lean.conf": LEAN.replace("vici updown", "vici updown ha")}


@pytest.fixture(scope="module")
def image() -> Image:
    return open_image()


@contextmanager
def redundant(image: Image, logs: Path, redundancy: str) -> Iterator[tuple[Lab, Vpn, str]]:
    """Two gateways of which the first is active, the second knows its SAs; the address of the far host."""
    vpn, rig, levels = Lean(), NamespaceRig(), {"redundancy": redundancy}
    with prepare.lab_for(rig, vpn, levels, image, image, lambda line: None, logs) as lab:
        start_services(lab)
        secrets = make_secrets(vpn, rig.alone(image, lambda line: None), SITES)
        up = bring_up(lab, vpn, vpn.comparable, secrets)
        assert up.evidence.data_path == "kernel: ESP"
        arm(lab, vpn, redundancy)
        yield lab, vpn, up.address


def taken_over(image: Image, logs: Path, redundancy: str, failure: str) -> tuple[Outage, Handover]:
    before = this_machine()
    with redundant(image, logs, redundancy) as (lab, vpn, address):
        breaks, ready = break_gateway(lab, vpn, failure, redundancy), partial(check_preferred, lab)
        with probe(lab.wan, "handover", lab.sites[-1].wan_address, *PAIR, ready="watching") as watcher:
            found = outage(lab, address, breaks, SLOWLY, random.Random(1), ready=ready)
            handover = read_handover(answer(watcher, "handover", timeout_s=60))
        assert is_active(lab, PAIR[1])
    assert this_machine() == before
    print(f"{redundancy}, {failure}: {found.timeline}; {handover}")
    return found, handover


def test_the_plugin_ha_hands_the_kernels_sas_over(image: Image, tmp_path: Path) -> None:
    found, handover = taken_over(image, tmp_path, "ha_sync", "gateway")
    assert found.recovered_s is not None
    assert handover.handover_s is not None
    assert handover.changes == 1


def test_clusterip_moves_the_site_when_the_heartbeats_end(image: Image, tmp_path: Path) -> None:
    """The ClusterIP paper's own failure. No sooner than what is left of 2.1 s when the heartbeat before it was sent."""
    found, handover = taken_over(image, tmp_path, "clusterip", "interface")
    assert found.recovered_s is not None
    assert handover.handover_s is not None
    assert handover.handover_s > DEAD_AFTER_S - HEARTBEAT_S - 0.5
    assert handover.changes == 1


def test_the_threads_of_a_gateways_ports_are_charged_with_its_esp(image: Image, tmp_path: Path) -> None:
    """A busy tunnel costs the gateways at its ends, not the one that stands by, and an idle one costs none of them."""
    with redundant(image, tmp_path, "clusterip") as (lab, _, _):
        threads = give_threads(lab, REDUNDANT)

        def spent_s() -> dict[str, float]:
            return {name: thread_s(threads[name]) for name in REDUNDANT.gateways}

        idle, began = spent_s(), time.monotonic()
        time.sleep(2.0)
        idle = {name: (after - idle[name]) / (time.monotonic() - began) for name, after in spent_s().items()}
        with download_from_pair(lab, 300, 50_000_000, UNLIMITED, 60) as download:
            before = spent_s()
            download.begin()
            took = download.end()
        assert isinstance(took, float), took
        busy = {name: (after - before[name]) / took for name, after in spent_s().items()}
    print(f"of a CPU: {idle} idle, {busy} busy")
    assert max(idle.values()) < 0.1
    assert min(busy["gw1"], busy["gw2"]) > max(0.1, 2 * busy["gw1b"])


def main() -> int:
    options = ["-q", "-rA", "--timeout=300", *sys.argv[2:], __file__]
    return in_guest(Path(sys.argv[1]), options)


if __name__ == "__main__":
    sys.exit(main())
