"""PPP between gateways by pppd(8), whatever carries it. Debian: ppp. Sources: pppd(8), RFC 1661, RFC 1332."""

from collections.abc import Sequence

from runner.data.errors import ProofError, Unsupported
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn.plugin import Secrets
from vpns._keys import shared_key_name

UP = "/etc/ppp/ip-up.d/vpneval"
LOG = "/run/vpneval-ppp.log"
LOGGED = f"logfile {LOG}\n"
# What of PPP would change packets unseen, is off: header compression (RFC 1144) and the control protocols of IPv6.
PLAIN = "novj\nnoipv6\nnodefaultroute\nnodetach\n"
# The distribution's own /etc/ppp/options asks for a modem's control lines, and for authentication.
TERMINAL = "local\nnocrtscts\n"
PROTECTED_BELOW = "noauth\n"  # what carries PPP has authenticated the peer
# pppd tries deflate and BSD compression unasked.
COMPRESSION = {"off": "nodeflate\nnobsdcomp\n", "on": "deflate 15\nnobsdcomp\n"}


DEVICE = "ppp-{peer.name}"


def plain(peers: Sequence[Site]) -> str:
    """``PLAIN``; where there is one peer, whose options are nobody else's, with a name of its own for the device."""
    return PLAIN + (f"ifname {DEVICE.format(peer=peers[0])}\n" if len(peers) == 1 else "")


def address(site: Site) -> str:
    """A gateway's own address in PPP, the same on every link of it."""
    return f"10.9.0.{site.number}"


def routes(me: Site, peers: Sequence[Site]) -> dict[str, str]:
    """The script that pppd runs when a link is up (pppd(8), SCRIPTS): $1 is the interface, $5 the peer's address."""
    cases = "".join(
        f'  {address(peer)}) ip route replace {peer.lan} dev "$1" src {me.lan_address} ;;\n' for peer in peers
    )
    return {UP: f'#!/bin/sh\ncase "$5" in\n{cases}esac\n'}


def prepare(node: Node) -> None:
    """Make the script executable, and bring pppd's log into the trial's: ``node.read_log("pppd")``."""
    node.defer("pkill", "-x", "pppd")  # one that a daemon has started outlives that daemon
    node.run("rm", "-f", LOG)  # of an earlier tunnel
    node.run("chmod", "700", UP)
    node.spawn("tail", "--follow=name", "--retry", "--lines=+1", LOG, log="pppd")


def kernel_ppp(node: Node) -> Unsupported | None:
    """Ask the kernel for PPP by opening its device."""
    node.run("modprobe", "-q", "ppp_generic", check=False)  # a node's /dev has it only if it was there before
    probe = node.run("head", "-c", "0", "/dev/ppp", check=False)
    return Unsupported.kernel(f"PPP: {probe.stderr.strip()}") if probe.code != 0 else None


def chap_secrets(me: Site, peers: Sequence[Site], secrets: Secrets) -> dict[str, str]:
    """pppd(8), AUTHENTICATION: who dials, whom, the password, and the address that the dialer may have."""
    lines = ""
    for peer in peers:
        dialer, listener = sorted((me, peer), key=lambda site: site.number)
        lines += f"{dialer.name} {listener.name} {secrets[shared_key_name(me, peer)]} {address(dialer)}\n"
    return {"/etc/ppp/chap-secrets": lines}


def is_up(node: Node, peers: Sequence[Site]) -> bool:
    """Has every peer's LAN its route through PPP?"""
    shown = node.run("ip", "route", "show").stdout
    return all(f"{peer.lan} dev ppp" in shown for peer in peers)


def check_path(node: Node, peers: Sequence[Site]) -> None:
    """Raise ProofError unless the kernel has a PPP interface for each peer."""
    shown = node.run("ip", "-d", "-o", "link", "show", "type", "ppp").stdout
    if len(shown.splitlines()) < len(peers):
        raise ProofError(f"the kernel has no PPP interface for each peer: {shown.strip()}")


def pppd_log(node: Node) -> str:
    """What every pppd with ``LOGGED`` has said so far."""
    return node.run("cat", LOG, check=False).stdout


def version(node: Node) -> str:
    """What ``pppd --version`` says, on either stream."""
    done = node.run("pppd", "--version", check=False)
    return (done.stdout + done.stderr).strip()
