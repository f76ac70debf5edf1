"""Every cipher level of the VPNs of a guest kernel, up and proven in one: run by ``make test-ciphers``, or by hand.

One tunnel for a VPN; from level to level its daemons go on and get another configuration, because to start them takes
longer than all the rest. usage: python -m tests.kernel.levels_inside FOLDER [VPN…]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.experiment import matching_integrity
from runner.lab import Lab
from runner.node import NamespaceNode, wait_until
from runner.plugin import UNENCRYPTED, Params, Vpn, load_vpn
from runner.proof import prove
from runner.tunnel import bring_up, unsupported
from tests.kernel.inside import in_guest
from tests.kernel.vpns_inside import authority, empty, fresh_secrets, lab

__all__ = ["authority", "lab"]  # fixtures

NAMES = ("ipsec", "vxlan_ipsec", "l2tp_ipsec", "libreswan", "macsec")
# (VPN, cipher) -> a word of the refusal, which says whether daemon or kernel lacks it. Any other refusal is a failure.
REFUSED: dict[tuple[str, str], str] = {}


def params_of(vpn: Vpn, cipher: str) -> Params:
    return {"cipher": cipher, "integrity": matching_integrity(vpn, cipher), "compression": "off"}


class Standing:
    """The VPN that is up in the lab, comparably configured at first, and its keys."""

    def __init__(self, lab: Lab, authority: NamespaceNode) -> None:
        self.lab, self.authority = lab, authority
        self.name, self.secrets = "", dict[str, str]()

    def bring_up(self, plugin: Vpn, logs: Path) -> dict[str, str]:
        """The keys of ``plugin``, which is up already or is brought up in the place of another; skips if it cannot."""
        if self.name != plugin.name:
            self.name = ""
            empty(self.lab)
            for node in self.lab.nodes.values():
                node.log_to(logs)
            if no := unsupported(self.lab, plugin, plugin.comparable):
                pytest.skip(f"{plugin.name}: {no.reason}")
            self.secrets = fresh_secrets(plugin, self.authority, self.lab)
            assert bring_up(self.lab, plugin, plugin.comparable, self.secrets).proof.delivered
            self.name = plugin.name
        return self.secrets


@pytest.fixture(scope="module")
def standing(lab: Lab, authority: NamespaceNode) -> Iterator[Standing]:
    up = Standing(lab, authority)
    yield up
    empty(lab)


@pytest.mark.parametrize(("name", "cipher"), [(name, cipher) for name in NAMES for cipher in load_vpn(name).ciphers])
def test_level(lab: Lab, standing: Standing, name: str, cipher: str, tmp_path: Path) -> None:
    plugin = load_vpn(name)
    secrets = standing.bring_up(plugin, tmp_path)
    params = params_of(plugin, cipher)
    if no := unsupported(lab, plugin, params):
        assert REFUSED.get((plugin.name, cipher), "nobody") in no.reason, no.reason
        return
    for site in reversed(lab.sites):
        peers = [peer for peer in lab.sites if peer is not site]
        for path, text in plugin.render(site, peers, params, secrets).items():
            lab.gateway(site).write(path, text)
    renew(lab, plugin, params)
    site, peer = lab.sites[0], lab.sites[-1]
    wait_until(lambda: plugin.is_up(lab.gateway(site), site, [peer]), f"{plugin.name} with {cipher}")
    evidence = plugin.evidence(lab.gateway(site), site, [peer], params)
    proof = prove(lab, plugin.entry(lab.sites), confidential=plugin.confidential(params))
    print(f"{plugin.name} {cipher}: {evidence.cipher}; {proof}")
    assert proof.delivered
    assert proof.marker_on_wan is (cipher in UNENCRYPTED)


def renew(lab: Lab, plugin: Vpn, params: Params) -> None:
    """The same tunnel by the files that are in place now."""
    dialing, answering = lab.gateway(lab.sites[0]), lab.gateway(lab.sites[-1])
    match plugin.name:
        case "macsec":
            for site in reversed(lab.sites):
                lab.gateway(site).run("ip", "link", "del", "macsec0")
                plugin.start(lab.gateway(site), site, [peer for peer in lab.sites if peer is not site], params)
        case "libreswan":
            dialing.run("ipsec", "delete", "gw2")  # both ends of it
            for node, peer in ((answering, "gw1"), (dialing, "gw2")):
                node.run("ipsec", "add", peer)
                node.run("ipsec", "ondemand", peer)
            dialing.run("ipsec", "up", "gw2")
        case _:
            for node in (answering, dialing):
                node.run("swanctl", "--load-conns")
            dialing.run("swanctl", "--terminate", "--ike", "gw2", check=False)
            dialing.run("swanctl", "--initiate", "--child", "to-gw2", "--timeout", "10", check=False)


def main() -> int:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or NAMES
    chosen = " or ".join(f"test_level[{name}-" for name in names)
    options = ["-v", "-s", "-ra", "--timeout=400", "-k", chosen, __file__]
    return in_guest(folder, options, layer="libreswan")


if __name__ == "__main__":
    sys.exit(main())
