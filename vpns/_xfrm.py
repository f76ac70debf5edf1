"""What the kernel's ESP can do, asked as ip-xfrm(8) does."""

from runner.node import Node
from runner.plugin import AEAD, Params, Unsupported

# The kernel's own names, for the probe (ip-xfrm(8)): algorithm and key length in bytes.
KERNEL = {
    "aes-128-cbc": ("enc", "cbc(aes)", 16),
    "aes-192-cbc": ("enc", "cbc(aes)", 24),
    "aes-256-cbc": ("enc", "cbc(aes)", 32),
    "3des-cbc": ("enc", "cbc(des3_ede)", 24),
    "blowfish-128-cbc": ("enc", "cbc(blowfish)", 16),
    "null": ("enc", "ecb(cipher_null)", 0),
    "aes-128-gcm": ("aead", "rfc4106(gcm(aes))", 20),
    "aes-256-gcm": ("aead", "rfc4106(gcm(aes))", 36),
    "chacha20-poly1305": ("aead", "rfc7539esp(chacha20,poly1305)", 36),
    "hmac-sha1": ("auth-trunc", "hmac(sha1)", 20),
    "hmac-sha256": ("auth-trunc", "hmac(sha256)", 32),
}


def kernel_esp(node: Node, params: Params) -> Unsupported | None:
    """Ask the kernel for an ESP state with these algorithms, as `ip xfrm state add`; None if it takes it."""
    wanted = [params["cipher"]] if params["cipher"] in AEAD else [params["cipher"], params["integrity"]]
    algorithms: list[str] = []
    for level in wanted:
        kind, name, length = KERNEL[level]
        algorithms += [kind, name, "0x" + bytes(range(length)).hex() if length else ""]
        if kind != "enc":
            algorithms.append("96" if level == "hmac-sha1" else "128")
    # 192.0.2.0/24 is for documentation (RFC 5737); a key that counts from 0, gone on the next line.
    sa = ("src", "192.0.2.1", "dst", "192.0.2.2", "proto", "esp", "spi", "0x1000")
    probe = node.run("ip", "xfrm", "state", "add", *sa, "mode", "tunnel", *algorithms, check=False)
    if probe.code != 0:
        return Unsupported(f"the kernel has no ESP with {' and '.join(wanted)}: {probe.stderr.strip()}")
    node.run("ip", "xfrm", "state", "del", *sa)
    if params["compression"] == "on":
        ipcomp = ("src", "192.0.2.1", "dst", "192.0.2.2", "proto", "comp", "spi", "0x1001")
        probe = node.run("ip", "xfrm", "state", "add", *ipcomp, "comp", "deflate", check=False)
        if probe.code != 0:
            return Unsupported(f"the kernel has no IPComp: {probe.stderr.strip()}")
        node.run("ip", "xfrm", "state", "del", *ipcomp)
    return None
