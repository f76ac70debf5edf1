"""The VPNs that need a guest kernel, held to the contract inside one: run there by tests/kernel/test_vpns.py.

One lab for all, because a lab costs 10 s and more in a guest: between two VPNs its gateways are emptied. What came of
it is kept as a run, whose files are searched for the secrets outside of the guest.
usage: python -m tests.kernel.vpns_inside [--kernel qemu] [--twins] FOLDER [VPN…]   (report.xml goes to FOLDER)
Boots User Mode Linux, or Debian's kernel for what that lacks; ``--twins`` tries only whether two labs agree.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import CommandError
from runner.data.trials import Value
from runner.instruments.tools.generator import generating
from runner.instruments.traffic.overhead import overhead
from runner.instruments.traffic.tcp import tcp
from runner.lab import kernels, probes
from runner.lab.node import PATIENCE, LabNode, wait_until
from runner.lab.node.namespaces import NamespaceNode
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import open_image
from runner.tunnel import bring_up as tunnel
from runner.tunnel.bring_up import bring_up, make_secrets, start_services, vpn_refusal
from runner.tunnel.proof import ANSWER_PORT
from runner.vpn.plugin import Vpn, entry
from tests.contract import Deferred, network, tells_no_key, this_machine, works
from tests.kernel.inside import in_guest
from tests.kernel.kept import Kept, keeping
from tests.unit.helpers import overhead_bytes

NAMES = (
    *("gre", "gre_ipsec", "ipip", "ipsec", "ipsec_ah", "ipsec_ikev1", "l2tp", "l2tp_ipsec", "l2tpv3", "libreswan"),
    *("ipsec_ah_esp", "macsec", "ppp_ssh", "ppp_stunnel", "pptp", "vxlan_ipsec"),
)
OLDER = ("vtun_ppp",)  # only Debian 12 has it
DEBIANS = ("l2tpv3", "openvpn_dco", "wireguard")  # User Mode Linux has none of these
KEYLESS = ("gre", "ipip", "l2tpv3")
# These start, and dial, with `ipsec`'s code: a second start, and one without a peer, would show nothing new.
AS_IPSEC = ("gre_ipsec", "ipsec_ah", "ipsec_ikev1", "l2tp_ipsec", "vxlan_ipsec")
# What of the kernel two labs could quarrel about: ESP and its policies, L2TP and PPP with it, MACsec. The others when
# asked for.
TWINS = ("l2tp_ipsec", "macsec")
REFUSED_FOR_S = 1.5 * PATIENCE
ALONE_FOR_S = 2
PACKET_BYTES = 64
# Of strongSwan's plugins only what is used here: a guest takes 13 s to load all, and swanctl half of its time.
LEAN = """\
charon {
    load_modular = no
    load = random nonce x509 revocation constraints pubkey pkcs1 pkcs8 pem openssl kdf hmac sha1 sha2 aes gcm \
kernel-netlink socket-default vici updown drbg
}
swanctl {
    load = random x509 pubkey pkcs1 pkcs8 pem openssl
}
"""
# A state without an SPI is the kernel's question for one; it cannot be deleted and expires (net.core.xfrm_acq_expires).
STATES = "ip xfrm state | grep 'spi 0x' | grep -v 'spi 0x00000000'"
L2TP = "ip l2tp show tunnel 2>/dev/null"
STATE = f"{STATES}; {L2TP}; ps axo args="
EMPTY = r"""
kill -KILL -1
ip xfrm state flush
ip xfrm policy flush
for path in /sys/class/net/*; do
    case ${path##*/} in lo | lan0 | wan0) ;; *) ip link del ${path##*/} 2>/dev/null ;; esac
done
ip l2tp show tunnel 2>/dev/null | sed -n 's/^Tunnel \([0-9]*\),.*/\1/p' | xargs -r -n 1 ip l2tp del tunnel tunnel_id
ip route flush proto boot
ip route flush proto static
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
        # Link-local addresses get their routes only after a second or two (RFC 4862 §5.4): no VPN has made those.
        wait_until(lambda: all(map(addressed, map(up.gateway, up.sites))), "the gateways' link-local addresses")
        yield up
    assert this_machine() == before


def addressed(gateway: LabNode) -> bool:
    """Has it a link-local address on either cable, found to be nobody else's?"""
    shown = gateway.run("ip", "-6", "-oneline", "address", "show", "scope", "link").stdout
    return len(shown.splitlines()) >= 2 and "tentative" not in shown


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lab_of("trixie", tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lab_of("trixie", tmp_path_factory.mktemp("twin"))


@pytest.fixture(scope="module")
def older_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lab_of("bookworm", tmp_path_factory.mktemp("older"))


@pytest.fixture(scope="module")
def authority() -> Iterator[LabNode]:
    """A node without a network, where keys are made."""
    node = NamespaceNode("ca", open_image().root)
    node.wait_ready()
    yield node
    node.stop()


@pytest.fixture(scope="module")
def older_twin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    yield from lab_of("bookworm", tmp_path_factory.mktemp("older_twin"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kept]:
    with keeping(tmp_path_factory.getbasetemp(), sorted({*NAMES, *OLDER, *DEBIANS})) as run:
        yield run


@pytest.mark.parametrize("name", sorted({*NAMES, *OLDER, *DEBIANS}))
def test_contract(
    authority: LabNode,
    name: str,
    kept: Kept,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Up in time, evidence, marker and ping; no secret said; gone without a trace, and up again; another key refused;
    a clear failure where the peer is absent."""
    lab: Lab = request.getfixturevalue("older_lab" if name in OLDER else "lab")
    vpn, undoing, logs = load_vpn(name), Undoing(lab), kept.store.logs(name)
    for node in (*undoing.gateways, lab.host1):
        node.log_to(logs)
    lab.commands.clear()
    try:
        if no := vpn_refusal(lab, vpn, vpn.comparable):
            pytest.skip(f"{name}: {no.reason}")
        before = undoing.state()
        secrets = fresh_secrets(vpn, authority, lab)
        kept.secrets(name, secrets)
        up = bring_up(lab, vpn, vpn.comparable, secrets)
        print(f"{name}: up in {up.setup_s:.1f} s; {up.evidence}; {up.proof}")
        works(lab, vpn, vpn.comparable, up)
        found = smallest_measurement(lab, vpn, up.address)
        measured = {value.metric: value.value for value in found}
        kept.ok(name, up, found[:1], logs)
        tells_no_key(lab, name, secrets, logs, lab.commands)
        undoing.undo()
        undoing.is_as(before)
        if name not in AS_IPSEC:
            assert bring_up(lab, vpn, vpn.comparable, secrets).proof.delivered
            undoing.undo()
            undoing.is_as(before)
        if name not in KEYLESS:
            others = fresh_secrets(vpn, authority, lab)
            kept.secrets(name, others)
            refuses_another_key(lab, vpn, secrets, others, up.setup_s)
            empty(lab)
        if name not in ("gre", "ipip", *AS_IPSEC):
            kept.failed(name, fails_clearly_alone(lab, vpn, secrets, monkeypatch), logs)
        tells_no_key(lab, name, secrets, logs, lab.commands)  # what was said when it failed
        assert measured["tcp_throughput"] > 1e6
        assert measured.get("overhead_bytes") == pytest.approx(
            overhead_bytes(vpn, vpn.comparable, PACKET_BYTES), abs=0.5
        )
    finally:
        (logs / "commands.log").write_text("\n".join(lab.commands))
        empty(lab)


class Undoing:
    """The gateways of a lab as machines that stay: what a plugin defers is kept, and done when its VPN goes."""

    def __init__(self, lab: Lab) -> None:
        self.gateways = [lab.gateway(site) for site in lab.sites]
        self._deferred = [Deferred(node) for node in self.gateways]
        for each in self._deferred:
            setattr(each.node, "defer", each.add)  # noqa: B010

    def undo(self) -> None:
        """End the daemons, then undo the changes."""
        for each in self._deferred:
            each.undo()
            for log in each.node.logs.glob(f"{each.node.name}-*.log"):  # is_up reads what the daemons have said
                log.rename(log.with_suffix(f".ended-{len([*each.node.logs.iterdir()])}"))  # the next are other daemons

    def is_as(self, before: list[set[str]]) -> None:
        with suppress(TimeoutError):
            wait_until(lambda: self.state() == before, "as before", pause_s=0.2)
        for was, now in zip(before, self.state(), strict=True):
            assert now == was, f"gone {was - now}, new {now - was}"

    def state(self) -> list[set[str]]:
        """What a VPN could leave: in the network, IPsec states, L2TP tunnels, processes."""
        shown = [node.run("sh", "-c", STATE, check=False).stdout.splitlines() for node in self.gateways]
        others = [{line.strip() for line in lines if "ps axo" not in line} for lines in shown]
        return [network(node) | more for node, more in zip(self.gateways, others, strict=True)]


def smallest_measurement(lab: Lab, vpn: Vpn, address: str) -> list[Value]:
    """TCP throughput of a second, bit/s; overhead of a short packet, where the plugin knows its closed form."""
    found = [tcp(lab, address, 1, 1, "forward", "random")]
    if layers := vpn.encapsulation(vpn.comparable, PACKET_BYTES):
        with generating(lab, address) as by:
            found.append(overhead(lab, PACKET_BYTES, False, layers, by))
    measured = [each for one in found for each in one.measurements]
    seen = {each.metric: each.detail.get("captured_lengths") for one in found for each in one.measurements}
    rates = {each.metric: each.value for each in measured}
    print(f"{vpn.name}: {rates}; lengths on the WAN: {seen.get('overhead_bytes')}")
    return measured


def fresh_secrets(vpn: Vpn, authority: LabNode, lab: Lab) -> dict[str, str]:
    authority.run("rm", "-rf", "/root/vpneval-ca")  # where plugins make them
    return make_secrets(vpn, nullcontext(authority), lab.sites)


def refuses_another_key(
    lab: Lab, vpn: Vpn, right: Mapping[str, str], another: Mapping[str, str], setup_s: float
) -> None:
    """The same set-up, gw1 having other keys: no payload passes. With the right ones it did, within ``setup_s``."""
    for site in reversed(lab.sites):
        peers = [peer for peer in lab.sites if peer is not site]
        gateway, secrets = lab.gateway(site), another if site is lab.sites[0] else right
        for path, text in vpn.render(site, peers, vpn.comparable, secrets).items():
            gateway.write(path, text)
        with suppress(CommandError, TimeoutError):  # some daemons tell at once that they were refused
            vpn.start(gateway, site, peers, vpn.comparable)
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", entry(vpn, lab.sites), str(ANSWER_PORT))
    within_s = max(REFUSED_FOR_S, setup_s)
    assert lab.host1.run(*ask, str(within_s), check=False).code != 0, "payload came through with another key"


def fails_clearly_alone(
    lab: Lab, vpn: Vpn, secrets: Mapping[str, str], monkeypatch: pytest.MonkeyPatch
) -> BaseException:
    """Only gw1 is started: what it raises. A tool that hangs until the node stops it has not said what is wrong."""
    start = vpn.start
    with monkeypatch.context() as patch:
        patch.setattr(vpn, "start", lambda node, me, *rest: start(node, me, *rest) if me is lab.sites[0] else None)
        patch.setattr(tunnel, "UP_WITHIN_S", ALONE_FOR_S)
        patch.setattr("runner.lab.node.PATIENCE", 1.0)
        with pytest.raises((TimeoutError, CommandError)) as failure:
            bring_up(lab, vpn, vpn.comparable, secrets)
    print(f"{vpn.name}, its peer absent: {failure.value}")
    assert "gw1" in str(failure.value)
    assert not isinstance(failure.value, CommandError) or failure.value.code is not None, failure.value
    return failure.value


@pytest.mark.parametrize("name", sorted({*NAMES, *OLDER, *DEBIANS}))
def test_two_of_a_kind_in_two_labs_at_once(
    authority: LabNode, name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    both = ("older_lab", "older_twin") if name in OLDER else ("lab", "twin")
    labs: list[Lab] = [request.getfixturevalue(each) for each in both]
    vpn = load_vpn(name)
    try:
        for number, each in enumerate(labs):
            (logs := tmp_path / str(number)).mkdir()
            for node in each.nodes.values():
                node.log_to(logs)
            if no := vpn_refusal(each, vpn, vpn.comparable):
                pytest.skip(f"{name}: {no.reason}")
            up = bring_up(each, vpn, vpn.comparable, fresh_secrets(vpn, authority, each))
            assert up.proof.delivered
        for each in labs:  # the first is still up beside the second
            each.host1.run("ping", "-c", "1", "-W", "2", each.sites[-1].host_address)
    finally:
        for each in labs:
            empty(each)


def empty(lab: Lab) -> None:
    """Take from the gateways what a VPN has left: in a lab of its own, they would go with it."""
    for site in lab.sites:
        lab.gateway(site).run("sh", "-c", EMPTY, check=False)


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("--kernel", default="uml")
    asked.add_argument("--twins", action="store_true")
    asked.add_argument("folder", type=Path)
    asked.add_argument("names", nargs="*")
    wanted = asked.parse_args()
    (kernel,) = kernels.parse(wanted.kernel, several=False)
    debians = wanted.kernel != "uml"
    names = wanted.names or (DEBIANS if debians else [*NAMES, *OLDER])
    tests = [] if wanted.twins else [f"{__file__}::test_contract[{name}]" for name in names]
    twins = names if wanted.twins or debians else [name for name in names if name in TWINS]
    tests += [f"{__file__}::test_two_of_a_kind_in_two_labs_at_once[{name}]" for name in twins]
    options = ["-v", "-s", "-ra", f"--timeout={1500 if debians else 400}", *tests]
    return in_guest(wanted.folder, options, ("trixie", "bookworm"), "libreswan", kernel)


if __name__ == "__main__":
    sys.exit(main())
