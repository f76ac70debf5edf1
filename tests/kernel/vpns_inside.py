"""The VPNs that need a guest kernel, held to the contract inside one: run there by tests/kernel/test_vpns.py.

One lab for all, because a lab costs 10 s and more in a guest: between two VPNs its gateways are emptied.
usage: python -m tests.kernel.vpns_inside FOLDER [VPN…]   (boots User Mode Linux; report.xml goes to FOLDER)
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from runner import probes
from runner.errors import CommandError
from runner.image import open_image
from runner.kernels import Uml
from runner.kernels.boot import run_in
from runner.lab import Lab, namespace_lab
from runner.measure.overhead import overhead
from runner.measure.tcp import tcp
from runner.node import NamespaceNode, wait_until
from runner.plugin import Vpn, load_vpn
from runner.proof import ANSWER_PORT
from runner.tunnel import UP_WITHIN_S, bring_up, start_services, unsupported
from tests.contract import this_machine
from tests.kernel.inside import ROOT

NAMES = (
    *("gre", "ipsec_ah", "ipsec_ikev1", "l2tp", "l2tp_ipsec", "l2tpv3", "libreswan", "macsec"),
    *("ppp_ssh", "ppp_stunnel", "pptp", "vxlan_ipsec"),
)
OLDER = ("vtun_ppp",)  # only Debian 12 has it
# What authenticates `ipsec_ah`, `l2tp_ipsec` and `vxlan_ipsec` is what authenticates `ipsec_ikev1`, or `ipsec`.
KEYED = ("ipsec_ikev1", "l2tp", "libreswan", "macsec", "ppp_ssh", "ppp_stunnel", "pptp")
REFUSED_FOR_S = 6
PACKET_BYTES = 64
# Of strongSwan's plugins only what is used here: a guest takes 13 s to load all.
LEAN = """\
charon {
    load_modular = no
    load = random nonce x509 revocation constraints pubkey pkcs1 pkcs8 pem openssl kdf hmac sha1 sha2 aes gcm \
kernel-netlink socket-default vici updown drbg
}
"""
# A state without an SPI is the kernel's question for one; it cannot be deleted and expires (net.core.xfrm_acq_expires).
STATES = "ip xfrm state | grep 'spi 0x' | grep -v 'spi 0x00000000'"
STATE = f"ip -br addr; ip -4 route show table all; ip rule; ip xfrm policy; {STATES}; ps axo args="
EMPTY = """
kill -KILL -1
ip xfrm state flush
ip xfrm policy flush
for path in /sys/class/net/*; do
    case ${path##*/} in lo | lan0 | wan0) ;; *) ip link del ${path##*/} 2>/dev/null ;; esac
done
ip route flush scope global
ip route flush table 220
ip rule del table 220
rm -rf /run/*
mkdir -p /run/lock /run/sshd
"""


def lab_of(image: str, logs: Path) -> Iterator[Lab]:
    """A lab whose gateways have ``image``, its services running; when it goes, it leaves nothing in the guest."""
    before = this_machine()
    with namespace_lab(open_image(), open_image(image), logs=logs) as up:
        start_services(up)
        for site in up.sites:
            up.gateway(site).write("/etc/strongswan.d/zz-lean.conf", LEAN)
        yield up
    assert this_machine() == before


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lab_of("trixie", tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def older_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lab_of("bookworm", tmp_path_factory.mktemp("older"))


@pytest.fixture(scope="module")
def authority() -> Iterator[NamespaceNode]:
    """A node without a network, where keys are made."""
    node = NamespaceNode("ca", open_image().root)
    node.wait_ready()
    yield node
    node.stop()


@pytest.mark.parametrize("name", [*NAMES, *OLDER])
def test_contract(authority: NamespaceNode, name: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Up in time, evidence, marker and ping; no secret said; gone without a trace; another key refused."""
    lab: Lab = request.getfixturevalue("older_lab" if name in OLDER else "lab")
    vpn, undoing = load_vpn(name), Undoing(lab)
    for node in (*undoing.gateways, lab.host1):
        node.log_to(tmp_path)
    lab.commands.clear()
    try:
        if no := unsupported(lab, vpn, vpn.comparable):
            pytest.skip(f"{name}: {no.reason}")
        before = undoing.state()
        secrets = fresh_secrets(vpn, authority, lab)
        tunnel = bring_up(lab, vpn, vpn.comparable, secrets)
        print(f"{name}: up in {tunnel.setup_s:.1f} s; {tunnel.evidence}; {tunnel.proof}")
        assert tunnel.proof.delivered
        assert tunnel.proof.marker_on_wan is not vpn.confidential(vpn.comparable)
        assert tunnel.evidence.data_path.startswith(vpn.dataplane)
        assert 0 < tunnel.setup_s < UP_WITHIN_S
        lab.host1.run("ping", "-c", "1", "-W", "2", lab.sites[-1].host_address)
        measured = smallest_measurement(lab, vpn, tunnel.address)
        assert not said(lab, secrets, tmp_path)
        undoing.undo()
        with suppress(TimeoutError):
            wait_until(lambda: undoing.state() == before, "as before", 2, 0.2)
        assert undoing.state() == before
        if name in KEYED:
            refuses_another_key(lab, vpn, secrets, fresh_secrets(vpn, authority, lab))
        assert measured["tcp_throughput"] > 1e6
        assert measured.get("overhead_bytes") == pytest.approx(vpn.overhead(vpn.comparable, PACKET_BYTES), abs=0.5)
    finally:
        empty(lab)


class Undoing:
    """The gateways of a lab as machines that stay: what a plugin defers is kept, and done when its VPN goes."""

    def __init__(self, lab: Lab) -> None:
        self.gateways = [lab.gateway(site) for site in lab.sites]
        self._deferred: dict[str, list[tuple[str, ...]]] = {node.name: [] for node in self.gateways}
        for node in self.gateways:
            setattr(node, "defer", lambda *argv, to=self._deferred[node.name]: to.append(argv))  # noqa: B010

    def undo(self) -> None:
        """End the daemons, then undo the changes, last in, first out."""
        for node in self.gateways:
            for process in node._background:
                process.stop()
            node._background.clear()
            for argv in reversed(self._deferred[node.name]):
                node.run(*argv, check=False)  # what went with a daemon is gone already

    def state(self) -> list[list[str]]:
        """What a VPN could leave: addresses, routes, rules, IPsec policies and states, processes."""
        shown = [node.run("sh", "-c", STATE, check=False).stdout for node in self.gateways]
        return [sorted(line.strip() for line in text.splitlines() if "ps axo" not in line) for text in shown]


def smallest_measurement(lab: Lab, vpn: Vpn, address: str) -> dict[str, float]:
    """TCP throughput of a second, bit/s; overhead of a short packet, where the plugin knows its closed form."""
    found = [tcp(lab, address, 1, 1, "forward", "random")]
    if closed := vpn.overhead(vpn.comparable, PACKET_BYTES):
        found.append(overhead(lab, address, PACKET_BYTES, False, closed))
    measured = {each.metric: each.value for one in found for each in one.measurements}
    print(f"{vpn.name}: {measured}")
    return measured


def fresh_secrets(vpn: Vpn, authority: NamespaceNode, lab: Lab) -> dict[str, str]:
    authority.run("rm", "-rf", "/run/ca")  # where plugins make them
    return vpn.secrets(authority, lab.sites)


def said(lab: Lab, secrets: Mapping[str, str], logs: Path) -> list[str]:
    """Which private secrets are in a log or in an argument vector."""
    told = "\n".join([*lab.commands, *(path.read_text(errors="replace") for path in logs.glob("*.log"))])
    told += "\n".join(lab.gateway(site).run("ps", "axo", "args").stdout for site in lab.sites)
    return [name for name, text in secrets.items() if name.endswith(".key") and text.strip() in told]


def refuses_another_key(lab: Lab, vpn: Vpn, right: Mapping[str, str], another: Mapping[str, str]) -> None:
    """The same set-up, gw1 having other keys: no payload passes. That it passes with the right ones has been seen."""
    for site in reversed(lab.sites):
        peers = [peer for peer in lab.sites if peer is not site]
        gateway, secrets = lab.gateway(site), another if site is lab.sites[0] else right
        for path, text in vpn.render(site, peers, vpn.comparable, secrets).items():
            gateway.write(path, text)
        with suppress(CommandError, TimeoutError):  # some daemons tell at once that they were refused
            vpn.start(gateway, site, peers, vpn.comparable)
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", vpn.entry(lab.sites), str(ANSWER_PORT))
    assert lab.host1.run(*ask, str(REFUSED_FOR_S), check=False).code != 0, "payload came through with another key"


def empty(lab: Lab) -> None:
    """Take from the gateways what a VPN has left: in a lab of its own, they would go with it."""
    for site in lab.sites:
        lab.gateway(site).run("sh", "-c", EMPTY, check=False)


def main() -> int:
    folder, names = Path(sys.argv[1]), sys.argv[2:] or [*NAMES, *OLDER]
    tests = [f"{__file__}::test_contract[{name}]" for name in names]
    options = ["-v", "-s", "-ra", "--rootdir", str(ROOT), "--timeout=240", "-p", "no:cacheprovider", "--durations=0"]
    options += [f"--junitxml={folder}/report.xml", f"--basetemp={folder}/lab"]
    run = partial(run_in, Uml(), folders=[folder], console_log=folder / "console", say=print)
    return run([sys.executable, "-m", "pytest", *options, *tests])


if __name__ == "__main__":
    sys.exit(main())
