"""Tunnels between the two sites of tests/lab/sites.py that vpneval's commands know nothing of: a plugin's own files and
daemons on the boxes, or commands of the test's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from runner.catalogue import load_vpn
from runner.data.levels import Params
from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site import Site, peers_of
from tests.lab.sites import BOXES, TwoSites

LANS = {"gw1": "10.20.0.1", "gw2": "10.30.0.1"}
SITES = tuple(
    Site(
        number, name, BOXES[name], "ens0", f"{lan[:-1]}0/24", lan, f"{lan[:-1]}2", "203.0.113.1" if number == 1 else ""
    )
    for number, (name, lan) in enumerate(LANS.items(), 1)
)


def with_lans(boxes: TwoSites) -> None:
    """Give each gateway a network of its own: a cable without anybody at the other end."""
    for name, box in boxes.nodes.items():
        box.run("ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan1")
        for port in ("lan0", "lan1"):
            box.run("ip", "link", "set", port, "up")
        box.run("ip", "addr", "add", f"{LANS[name]}/24", "dev", "lan0")


@contextmanager
def stands(boxes: TwoSites, name: str, params: Params | None = None) -> Iterator[Mapping[str, str]]:
    """The VPN ``name`` between the boxes while the block lasts; its secrets."""
    vpn = load_vpn(name)
    params = params or vpn.recommended
    ca = boxes.between["nat"]
    secrets = vpn.secrets(ca, SITES)
    try:
        for me in reversed(SITES):
            box: LabNode = boxes.nodes[me.name]
            peers = peers_of(me, SITES)
            for path, text in vpn.render(me, peers, params, secrets).items():
                box.write(path, text)
            vpn.start(box, me, peers, params)
        near = boxes.nodes["gw1"]

        def up() -> bool:
            near.run("ping", "-c1", "-W1", "-I", LANS["gw1"], LANS["gw2"], check=False)  # some wait for a packet
            return all(vpn.is_up(boxes.nodes[me.name], me, peers_of(me, SITES)) for me in SITES)

        wait_until(up, f"{name} up", 30, 0.1)
        yield secrets
    finally:
        for box in boxes.nodes.values():
            for process in box.background:
                if "sshd" not in process.log.name:
                    process.stop()
