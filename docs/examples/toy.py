"""A toy: IP packets in UDP datagrams, by socat and a TUN. It encrypts nothing: learn from it, never use it."""

from collections.abc import Sequence
from functools import partial

from runner.data.errors import ProofError, Unsupported
from runner.data.levels import NO_CIPHER, Params
from runner.data.trials import Evidence
from runner.lab.node import Node, wait_until
from runner.lab.shape.site import Site, pair_number
from runner.vpn.plugin import Offers, Software, Vpn, no_tun


class Toy(Vpn):
    title = "toy (socat on TUN)"
    dataplane = "userspace"
    transport = "udp"
    software = Software({"socat": "socat"})
    offers = Offers(limits={"cipher": "socat does not encrypt here", "compression": "socat does not compress"})
    comparable = NO_CIPHER
    recommended = NO_CIPHER
    reference = True

    def supports(self, node: Node, params: Params) -> Unsupported | None:
        return super().supports(node, params) or no_tun(node)

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        for peer in peers:
            device, port = f"toy{peer.number}", 5000 + pair_number(me, peer)
            tun = f"TUN,tun-name={device},iff-no-pi"
            udp = f"UDP4-DATAGRAM:{peer.wan_address}:{port},bind={me.wan_address}:{port}"
            node.spawn("socat", tun, udp, log=f"socat-{peer.name}")
            wait_until(partial(exists, node, device), f"{device} there")
            node.run("ip", "link", "set", device, "mtu", "1472", "up")  # 1500 - 20 (IPv4) - 8 (UDP)
            node.run("ip", "route", "add", peer.lan, "dev", device, "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        shown = node.run("ip", "-o", "link", "show", "up").stdout.splitlines()
        return all(any(f" toy{peer.number}:" in line and "LOWER_UP" in line for line in shown) for peer in peers)

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        for peer in peers:
            if " tun " not in node.run("ip", "-d", "link", "show", f"toy{peer.number}").stdout:
                raise ProofError(f"toy{peer.number} is no TUN")
        version = next((line for line in node.run("socat", "-V").stdout.splitlines() if "version" in line), "")
        return Evidence(
            cipher="none", integrity="none", compression="off", data_path="userspace: socat on TUN", version=version
        )


def exists(node: Node, device: str) -> bool:
    """Does the gateway have this device?"""
    return node.run("ip", "link", "show", device, check=False).code == 0
