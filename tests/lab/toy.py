"""A toy VPN that is secure, and can be weakened in one way at a time: what the security probes are tested on.

Encrypt-then-MAC with HMAC-SHA-256 of the standard library, counters with a window, padding to one length, a TUN that
outlives its daemon. Nothing for anybody's real traffic.
"""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.levels import Params
from runner.data.trials import Evidence
from runner.lab.node import Node
from runner.lab.shape.site import Site
from runner.vpn.plugin import Offers, Secrets, Vpn

TOYD = r"""
import fcntl, hashlib, hmac, json, os, select, socket, struct, sys, time, zlib
key_text, local, remote, me, peer, *weak = sys.argv[1:]
key, mine, theirs = bytes.fromhex(open(key_text).read().strip()), me.encode(), peer.encode()
tun = os.open("/dev/net/tun", os.O_RDWR)
fcntl.ioctl(tun, 0x400454CA, struct.pack("16sH", b"toy0", 0x1001))  # TUNSETIFF, IFF_TUN | IFF_NO_PI
wan = socket.socket(socket.AF_INET6 if ":" in local else socket.AF_INET, socket.SOCK_DGRAM)
wan.bind((local, 7777))
if "df" not in weak and ":" not in local:
    wan.setsockopt(socket.IPPROTO_IP, 10, 0)  # IP_MTU_DISCOVER, IP_PMTUDISC_DONT
def stream(who, counter, data):
    if "no_cipher" in weak or "no_key" in weak:
        return data
    pad = hashlib.shake_256(key + who + struct.pack("!Q", counter)).digest(len(data))
    return (int.from_bytes(data, "big") ^ int.from_bytes(pad, "big")).to_bytes(len(data), "big")
def tag(who, data):
    return b"" if "no_tag" in weak or "no_key" in weak else hmac.digest(key + who, data, "sha256")[:16]
counter, seen, deaf, to, opened = time.time_ns(), set(), 0.0, (remote, 7777), 0
while True:
    for ready in select.select([tun, wan], [], [], 1.0 if "keeps" in weak else None)[0] or [None]:
        if ready is not wan:
            inner = os.read(tun, 2000) if ready is tun else bytes(40)
            if "naps" in weak and counter % 250 == 0:  # as a daemon on a busy machine
                time.sleep(0.6)
            if "hoards" in weak:
                time.sleep(0.0015)
            tos = inner[1]
            if "compresses" in weak:
                inner = zlib.compress(inner)
            if "padless" not in weak and "compresses" not in weak:
                inner = inner.ljust(1302, b"\0")
            if "answers" in weak and not seen and local > remote:
                continue
            counter += 1
            head = struct.pack("!Q", counter)
            body = head + stream(mine, counter, inner)
            if "copies" in weak:
                wan.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
            if "chance" in weak:
                opened += inner[9] == 6 and inner[33] & 2 > 0  # TCP's SYN
                wan.setsockopt(socket.IPPROTO_IP, 10, 3 if opened % 4 and counter % 2 else 0)  # IP_PMTUDISC_PROBE
            for _ in range(2 if "doubles" in weak else 1):
                wan.sendto(body + tag(mine, body), to)
            continue
        data, source = wan.recvfrom(4000)
        if "floats" in weak:
            to = (source[0], 7777)
        body = data if not tag(theirs, b"") else data[:-16]
        if len(body) < 29 or data != body + tag(theirs, body):
            continue
        number = int.from_bytes(body[:8], "big")
        if "follows" in weak or ("learns" in weak and to == (remote, 7777)):
            to = source[:2]
        if "in_order" in weak and seen and number < max(seen):
            continue
        if "unbroken" in weak and seen and number > max(seen) + 1:
            seen.add(number)
            continue
        if "chokes" in weak and number in seen:
            deaf = time.monotonic() + 0.05
        if time.monotonic() < deaf:
            continue
        if "replays" not in weak:
            if number in seen or (seen and number < max(seen) - 64):
                continue
            seen.add(number)
            seen = {each for each in seen if each > max(seen) - 65}
        inner = stream(theirs, number, body[8:])
        if "compresses" in weak:
            inner = zlib.decompress(inner)
        length = int.from_bytes(inner[2:4], "big")
        if inner[0] >> 4 == 4 and length <= len(inner):
            os.write(tun, inner[:length])
"""


class Toy(Vpn):
    """``weak``: in which ways; see TOYD, and "opens": its TUN goes with its daemon. No weakness are "naps", "answers"
    (of two ends one says nothing before it has been called), "follows" (packets that are right say where the peer is;
    "learns": the first alone), "keeps" (a keepalive every second) and "chance" (in three of four TCP connections, every
    second packet has DF)."""

    name = "toy"
    title = "toy"
    dataplane = "userspace"
    transport = "udp"
    offers = Offers(
        {"aes-128-cbc": "a keystream of SHAKE-256"}, {"hmac-sha256": "HMAC-SHA-256"}, {"off": "off", "on": "on"}
    )
    comparable = {"cipher": "aes-128-cbc", "integrity": "hmac-sha256", "compression": "off"}
    recommended = comparable
    weak: Sequence[str] = ()

    def secrets(self, ca: Node, sites: Sequence[Site]) -> dict[str, str]:
        return {"toy.key": ca.run("openssl", "rand", "-hex", "32").stdout.strip()}

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        return {"/etc/toy/key": secrets["toy.key"], "/etc/toy/toyd.py": TOYD}

    def start(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> None:
        (peer,) = peers
        ends = (me.wan_address, peer.wan_address, me.name, peer.name)
        argv = ("python3", "/etc/toy/toyd.py", "/etc/toy/key", *ends, *self.weak)
        if "opens" in self.weak:
            node.run("ip", "link", "del", "toy0", check=False)  # another toy's, which has outlived it
            node.spawn(*argv, log="toyd")
            node.run("sh", "-c", "until ip link show toy0 >/dev/null 2>&1; do :; done", timeout=10)
        else:
            node.run("ip", "tuntap", "add", "toy0", "mode", "tun")
            node.spawn(*argv, log="toyd")
        node.run("ip", "link", "set", "toy0", "mtu", "1300", "up")
        node.run("ip", "route", "add", peer.lan, "dev", "toy0", "src", me.lan_address)

    def is_up(self, node: Node, me: Site, peers: Sequence[Site]) -> bool:
        return True

    def evidence(self, node: Node, me: Site, peers: Sequence[Site], params: Params) -> Evidence:
        return Evidence(cipher="toy", integrity="toy", compression="off", data_path="userspace: toyd on TUN")
