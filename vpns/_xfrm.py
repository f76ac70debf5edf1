"""What the kernel's IPsec can do, asked as ip-xfrm(8) does, and what it must never let out."""

from collections.abc import Sequence

from runner.data.errors import Unsupported
from runner.data.levels import AEAD, Params
from runner.lab.node import Node
from runner.vpn.kernel_crypto import KERNEL

# Bits of the ICV: RFC 2403, 2404, 3566, 4494 (96), RFC 4868 §2.3; every AEAD here has 128.
ICV_BITS = {
    **dict.fromkeys(("hmac-md5", "hmac-sha1", "aes-xcbc", "aes-cmac"), "96"),
    **{"hmac-sha384": "192", "hmac-sha512": "256"},
}


# 192.0.2.0/24 is for documentation (RFC 5737); the probes' keys count from 0 and are gone on the next line.
ENDS = ("src", "192.0.2.1", "dst", "192.0.2.2")


def kernel_esp(node: Node, params: Params) -> Unsupported | None:
    """Ask the kernel for an ESP state with these algorithms, as `ip xfrm state add`; None if it takes it."""
    wanted = [params["cipher"]] if params["cipher"] in AEAD else [params["cipher"], params["integrity"]]
    return kernel_xfrm(node, "esp", wanted, params["compression"])


def kernel_xfrm(node: Node, protocol: str, wanted: Sequence[str], compression: str) -> Unsupported | None:
    """The same for ``protocol`` esp or ah with the levels ``wanted``, and IPComp where ``compression`` is on."""
    node.defer("ip", "xfrm", "state", "deleteall", *ENDS)
    algorithms: list[str] = []
    for level in wanted:
        kind, name, length = KERNEL[level]
        algorithms += [kind, name, "0x" + bytes(range(length)).hex() if length else ""]
        if kind != "enc":
            algorithms.append(ICV_BITS.get(level, "128"))
    sa = (*ENDS, "proto", protocol, "spi", "0x1000")
    probe = node.run("ip", "xfrm", "state", "add", *sa, "mode", "tunnel", *algorithms, check=False)
    if probe.code != 0:
        return Unsupported.kernel(f"{protocol.upper()} with {' and '.join(wanted)}: {probe.stderr.strip()}")
    node.run("ip", "xfrm", "state", "del", *sa)
    if compression == "on":
        ipcomp = (*ENDS, "proto", "comp", "spi", "0x1001")
        probe = node.run("ip", "xfrm", "state", "add", *ipcomp, "comp", "deflate", check=False)
        if probe.code != 0:
            return Unsupported.kernel(f"IPComp: {probe.stderr.strip()}")
        node.run("ip", "xfrm", "state", "del", *ipcomp)
    return None


def never_bare(node: Node, *what: str, to: str = "0.0.0.0/0") -> None:
    """Let ``what`` (an ip-xfrm(8) selector, "proto gre") never leave unprotected: a policy of our own, below those
    of the IKE daemon, that stays when the daemon goes."""
    bare = ("src", "0.0.0.0/0", "dst", to, *what, "dir", "out")
    node.defer("ip", "xfrm", "policy", "del", *bare)
    node.run("ip", "xfrm", "policy", "update", *bare, "priority", "4000000000", "action", "block")


def only_protected(node: Node, *what: str) -> None:
    """The same, and ``what`` is not taken unprotected either, whoever sends it: the IKE daemon's policies ask for
    protection of what comes from the peers' addresses alone."""
    never_bare(node, *what)
    bare = ("src", "0.0.0.0/0", "dst", "0.0.0.0/0", *what, "dir", "in")
    node.defer("ip", "xfrm", "policy", "del", *bare)
    node.run("ip", "xfrm", "policy", "update", *bare, "priority", "4000000000", "action", "block")


def forget_afterwards(node: Node, *pairs: tuple[str, str]) -> None:
    """When the tunnel goes, so do the policies and states between these addresses or networks: an IKE daemon that is
    killed leaves them in the kernel."""
    ends = [("src", a, "dst", b) for pair in pairs for a, b in (pair, pair[::-1])]
    # Undone last-in first-out: the policies go first, or a late packet makes the kernel ask for a new state.
    for what in ("state", "policy"):
        for end in ends:
            node.defer("ip", "xfrm", what, "deleteall", *end)
