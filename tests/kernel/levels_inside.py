"""Every cipher and integrity level of the VPNs of a guest kernel, up and proven in one: run by ``make test-ciphers``,
or by hand.

One tunnel for a VPN of ``RELOADED``; from level to level its daemons go on and get another configuration, because to
start them takes longer than all the rest. usage: python -m tests.kernel.levels_inside FOLDER [VPN or VPN-LEVEL…]
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.levels import UNENCRYPTED, Params
from runner.data.trials import Evidence, Proof
from runner.design.experiment import matching_integrity
from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import bring_up, vpn_refusal
from runner.tunnel.proof import prove
from runner.vpn.plugin import Vpn, confidential, entry
from tests.kernel.inside import in_guest
from tests.kernel.vpns_inside import OLDER, authority, empty, fresh_secrets, lab, older_lab

__all__ = ["authority", "lab", "older_lab"]  # fixtures

RELOADED = ("ipsec", "ipsec_ikev1", "ipsec_ah", "gre_ipsec", "vxlan_ipsec", "l2tp_ipsec", "libreswan", "macsec")
STARTED = ("pptp", "ppp_ssh", "ppp_stunnel", "vtun_ppp")  # anew for each level
# (VPN, level) -> a word of the refusal, which says whether daemon or kernel lacks it. Any other refusal is a failure.
REFUSED = {("ppp_ssh", "blowfish-128-cbc"): "ssh: Unknown cipher type"}  # gone since OpenSSH 7.6


def levels(vpn: Vpn) -> list[str]:
    """Its ciphers, then those integrities that do not come with one of them."""
    return [*vpn.offers.ciphers, *(level for level in vpn.offers.integrities if level != vpn.comparable["integrity"])]


def params_of(vpn: Vpn, level: str) -> Params:
    if level in vpn.offers.ciphers:
        return {"cipher": level, "integrity": matching_integrity(vpn, level), "compression": "off"}
    return {**vpn.comparable, "integrity": level}


class Standing:
    """The VPN that is up in the lab, comparably configured at first, and its keys."""

    def __init__(self, lab: Lab, authority: LabNode) -> None:
        self.lab, self.authority = lab, authority
        self.name, self.secrets = "", dict[str, str]()
        self.files: dict[tuple[str, str], str] = {}  # gateway and path -> text, as they are there

    def bring_up(self, plugin: Vpn, logs: Path) -> None:
        """Bring ``plugin`` up in the place of another, unless it is up already; skips if it cannot."""
        if self.name != plugin.name:
            self.name, self.files = "", {}
            empty(self.lab)
            for node in self.lab.nodes.values():
                node.log_to(logs)
            if no := vpn_refusal(self.lab, plugin, plugin.comparable):
                pytest.skip(f"{plugin.name}: {no.reason}")
            self.secrets = fresh_secrets(plugin, self.authority, self.lab)
            assert bring_up(self.lab, plugin, plugin.comparable, self.secrets).proof.delivered
            self.name = plugin.name

    def change(self, plugin: Vpn, params: Params) -> tuple[Evidence, Proof]:
        """The tunnel that is up, at other levels: what its dialing gateway says, and the marker through it."""
        for site in reversed(self.lab.sites):
            peers = [peer for peer in self.lab.sites if peer is not site]
            for path, text in plugin.render(site, peers, params, self.secrets).items():
                if self.files.get((site.name, path)) != text:  # a command costs a guest much
                    self.lab.gateway(site).write(path, text)
                    self.files[site.name, path] = text
        renew(self.lab, plugin, params)
        site, peer = self.lab.sites[0], self.lab.sites[-1]
        wait_until(lambda: plugin.is_up(self.lab.gateway(site), site, [peer]), f"{plugin.name} with {params}")
        evidence = plugin.evidence(self.lab.gateway(site), site, [peer], params)
        return evidence, prove(self.lab, entry(plugin, self.lab.sites), confidential=confidential(params))


@pytest.fixture(scope="module")
def standing(lab: Lab, authority: LabNode) -> Iterator[Standing]:
    up = Standing(lab, authority)
    yield up
    empty(lab)


@pytest.mark.parametrize(
    ("name", "level"), [(name, level) for name in (*RELOADED, *STARTED) for level in levels(load_vpn(name))]
)
def test_level(request: pytest.FixtureRequest, authority: LabNode, name: str, level: str, tmp_path: Path) -> None:
    plugin = load_vpn(name)
    params = params_of(plugin, level)
    lab: Lab = request.getfixturevalue("older_lab" if name in OLDER else "lab")
    if name in RELOADED:
        standing: Standing = request.getfixturevalue("standing")
        standing.bring_up(plugin, tmp_path)
    if no := plugin.supports(lab.gateway(lab.sites[0]), params):  # the other gateway has the same kernel and image
        assert REFUSED.get((name, level), "nobody") in no.reason, no.reason
        return
    assert (name, level) not in REFUSED
    if name in RELOADED:
        evidence, proof = standing.change(plugin, params)
    else:
        empty(lab)
        for node in lab.nodes.values():
            node.log_to(tmp_path)
        up = bring_up(lab, plugin, params, fresh_secrets(plugin, authority, lab))
        evidence, proof = up.evidence, up.proof
    print(f"{name} {level}: {evidence.cipher} {evidence.integrity}; {proof}")
    assert proof.delivered
    assert proof.marker_on_wan is (params["cipher"] in UNENCRYPTED)


def renew(lab: Lab, plugin: Vpn, params: Params) -> None:
    """The same tunnel by the files that are in place now."""
    dialing, answering = lab.gateway(lab.sites[0]), lab.gateway(lab.sites[-1])
    match plugin.name:
        case "macsec":
            for (
                site
            ) in lab.sites:  # both first: what the old one still sends would count the new one's frames as replayed
                lab.gateway(site).run("ip", "link", "del", "macsec0")
            for site in reversed(lab.sites):
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
            done = dialing.run("swanctl", "--initiate", "--child", "to-gw2", "--timeout", "10", check=False)
            print(done.stdout[-1000:] if done.code else "")


def main() -> int:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or (*RELOADED, *STARTED)
    chosen = " or ".join(f"test_level[{name}" if "-" in name else f"test_level[{name}-" for name in names)
    options = ["-v", "-s", "-ra", "--timeout=400", "-k", chosen, __file__]
    return in_guest(folder, options, ("trixie", "bookworm"), "libreswan")


if __name__ == "__main__":
    sys.exit(main())
