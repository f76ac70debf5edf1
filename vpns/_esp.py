"""The ESP algorithms beyond the usual ones, in strongSwan's words, and the daemon asked which of them it has.

Sources: strongSwan's documentation of cipher suites, swanctl(8) --list-algs, RFC 8221 (what should be used).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from runner.data.errors import Unsupported
from runner.data.levels import AEAD, Params
from runner.lab.node import Node, Process, wait_until
from vpns._xfrm import kernel_esp

DAEMONS = ("/usr/sbin/charon-systemd", "/usr/lib/ipsec/charon")  # Debian 13, Debian 12
BITS = (128, 192, 256)

# Level -> the word in a proposal. Serpent and Twofish are not among them: their numbers are for private use (RFC 7296
# §3.3.2), and a peer refuses them unless it is told otherwise.
CIPHERS = {
    **{"aes-128-cbc": "aes128", "aes-192-cbc": "aes192", "aes-256-cbc": "aes256", "3des-cbc": "3des"},
    **{"blowfish-128-cbc": "blowfish128", "aes-128-gcm": "aes128gcm16", "aes-256-gcm": "aes256gcm16"},
    **{"chacha20-poly1305": "chacha20poly1305", "null": "null"},
    **{f"aes-{bits}-ctr": f"aes{bits}ctr" for bits in BITS},
    **{f"camellia-{bits}-cbc": f"camellia{bits}" for bits in BITS},
    **{f"blowfish-{bits}-cbc": f"blowfish{bits}" for bits in BITS[1:]},
    "cast-128-cbc": "cast128",
    "aes-192-gcm": "aes192gcm16",
    **{f"aes-{bits}-ccm": f"aes{bits}ccm16" for bits in BITS},
    **{f"aes-{bits}-gmac": f"aes{bits}gmac" for bits in BITS},
}
INTEGRITIES = {
    **{"hmac-sha1": "sha1", "hmac-sha256": "sha256"},
    **{"hmac-md5": "md5", "hmac-sha384": "sha384", "hmac-sha512": "sha512"},
    **{"aes-xcbc": "aesxcbc", "aes-cmac": "aescmac"},
}
# With IKEv1: strongSwan has no number for the others there (its proposal_substructure.c). It offers the rest of the
# proposal without them, and the peer answers NO_PROPOSAL_CHOSEN.
IKEV1_CIPHERS = {level: word for level, word in CIPHERS.items() if level != "chacha20-poly1305"}
IKEV1_INTEGRITIES = {level: word for level, word in INTEGRITIES.items() if level != "aes-cmac"}
IKEV1_LIMITS = {
    "cipher": "strongSwan's IKEv1 has no ChaCha20-Poly1305, whose RFC 7634 is for IKEv2, nor any but those offered",
    "integrity": "strongSwan's IKEv1 has no AES-CMAC, nor any integrity but those offered",
}
# Level -> what `swanctl --list-sas` says of the algorithms that not every kernel and daemon has. Without the key's
# length it is the name in `swanctl --list-algs`.
RARE = {
    **{f"aes-{bits}-ctr": f"AES_CTR-{bits}" for bits in BITS},
    **{f"camellia-{bits}-cbc": f"CAMELLIA_CBC-{bits}" for bits in BITS},
    **{f"blowfish-{bits}-cbc": f"BLOWFISH_CBC-{bits}" for bits in BITS[1:]},
    "cast-128-cbc": "CAST_CBC-128",
    "aes-192-gcm": "AES_GCM_16-192",
    **{f"aes-{bits}-ccm": f"AES_CCM_16-{bits}" for bits in BITS},
    **{f"aes-{bits}-gmac": f"NULL_AES_GMAC-{bits}" for bits in BITS},
    **{"hmac-md5": "HMAC_MD5_96", "hmac-sha384": "HMAC_SHA2_384_192", "hmac-sha512": "HMAC_SHA2_512_256"},
    **{"aes-xcbc": "AES_XCBC_96", "aes-cmac": "AES_CMAC_96"},
}
NEGOTIATED = {
    **{
        "aes-128-cbc": "AES_CBC-128",
        "aes-192-cbc": "AES_CBC-192",
        "aes-256-cbc": "AES_CBC-256",
        "3des-cbc": "3DES_CBC",
    },
    **{"blowfish-128-cbc": "BLOWFISH_CBC-128", "aes-128-gcm": "AES_GCM_16-128", "aes-256-gcm": "AES_GCM_16-256"},
    **{"chacha20-poly1305": "CHACHA20_POLY1305", "null": "NULL", "none": "", "aead": ""},
    **{"hmac-sha1": "HMAC_SHA1_96", "hmac-sha256": "HMAC_SHA2_256_128"},
    **RARE,
}
# A proposal of IKE -> cipher, key's length, PRF and key exchanges, as `swanctl --list-sas` has them.
IKE = {
    "aes128-sha256-ecp256": "AES_CBC 128 PRF_HMAC_SHA2_256 ECP_256",
    "aes256-sha256-ecp256": "AES_CBC 256 PRF_HMAC_SHA2_256 ECP_256",
    "aes256-sha384-ecp384": "AES_CBC 256 PRF_HMAC_SHA2_384 ECP_384",
    "aes256gcm16-prfsha384-x25519": "AES_GCM_16 256 PRF_HMAC_SHA2_384 CURVE_25519",
    "aes128-sha256-modp4096": "AES_CBC 128 PRF_HMAC_SHA2_256 MODP_4096",
}
IKEV1 = tuple(IKE)  # a second key exchange is IKEv2's (RFC 9370)
IKE |= {
    "x25519-mlkem768": "AES_GCM_16 256 PRF_HMAC_SHA2_384 CURVE_25519+ML_KEM_768",
    "ecp384-mlkem1024": "AES_CBC 256 PRF_HMAC_SHA2_384 ECP_384+ML_KEM_1024",
    "mlkem768": "AES_GCM_16 256 PRF_HMAC_SHA2_384 ML_KEM_768",
}
# Those with ML-KEM in strongSwan's words: as the second exchange, in IKE_INTERMEDIATE (RFC 9242), or as the only one.
WITH_ML_KEM = {
    "x25519-mlkem768": "aes256gcm16-prfsha384-x25519-ke1_mlkem768",
    "ecp384-mlkem1024": "aes256-sha384-ecp384-ke1_mlkem1024",
    "mlkem768": "aes256gcm16-prfsha384-mlkem768",
}
IKE_PROPOSAL = "aes128-sha256-ecp256"  # unless another is asked for
PROBE = "/run/vpneval-esp-probe.conf"
CHARON = ("charon", "charon-systemd")
LIST_SAS = ("swanctl", "--list-sas")  # without keys
SAS = ("*",)  # it has no secret
TABLE = "220"  # charon's routes, strongswan.conf(5) charon.routing_table


@dataclass(frozen=True)
class EspSupport:
    """What a node's strongSwan has: ``algorithms`` of its own (ESP in userspace), and the levels whose words it
    ``refused`` in a proposal, each with what it said (ESP in the kernel, which has algorithms of its own).
    ``exchanges``: key exchanges of IKE."""

    algorithms: frozenset[str]
    exchanges: frozenset[str]
    refused: Mapping[str, str]


_ASKED: WeakKeyDictionary[Node, EspSupport] = WeakKeyDictionary()  # to start charon takes 13 s in a guest kernel


def daemon_esp(node: Node, params: Params, *, kernel: bool) -> Unsupported | None:
    """Have the daemon and, where ESP is the ``kernel``'s, the kernel these algorithms? None if they have.

    With the kernel's ESP the daemon need only know the words, and the kernel the algorithms. In userspace the daemon
    does the work, and its own list decides. A refusal says what the other of the two answers.
    """
    levels = [params["cipher"]] if params["cipher"] in AEAD else [params["cipher"], params["integrity"]]
    in_kernel = kernel_esp(node, params) if kernel or set(levels) & set(RARE) else None
    if not set(levels) & set(RARE):  # what every strongSwan has
        return in_kernel if kernel else None
    daemon = ask_daemon(node)
    if kernel:
        refusal = "; ".join(daemon.refused[level] for level in levels if level in daemon.refused)
    else:
        names = [re.sub(r"-\d+$", "", RARE[level]) for level in levels if level in RARE]
        refusal = " and ".join(f"no {name}" for name in names if name not in daemon.algorithms)
        refusal += " among its algorithms (swanctl --list-algs)" if refusal else ""
    if refusal and in_kernel:
        return Unsupported(f"neither strongSwan nor the kernel has it. strongSwan: {refusal}; {in_kernel.reason}")
    if refusal:
        return Unsupported(f"the kernel takes {' and '.join(levels)}, strongSwan does not: {refusal}")
    if kernel and in_kernel:
        return Unsupported(f"strongSwan takes {' and '.join(levels)}, the kernel does not: {in_kernel.reason}")
    return None


def no_ml_kem(node: Node, params: Params) -> Unsupported | None:
    """Does the daemon lack the ML-KEM of this proposal of IKE? None where it has it, or it is not asked for.

    6.0 takes the proposal, agrees on it, and then says that the method is not supported: its list is asked."""
    exchanges = IKE[params.get("ike", IKE_PROPOSAL)].split()[-1].split("+")
    if not (wanted := [name for name in exchanges if name.startswith("ML_KEM")]):
        return None
    if wanted[0] in ask_daemon(node).exchanges:
        return None
    return Unsupported(f"strongSwan has no {wanted[0]} among its key exchanges (swanctl --list-algs); 6.1 has it")


def ask_daemon(node: Node) -> EspSupport:
    """What the node's charon has; one is started for the question where none runs, and goes after it."""
    if node in _ASKED:
        return _ASKED[node]
    started = None
    if node.run("test", "-S", "/run/charon.vici", check=False).code != 0:
        started = run_charon(node, log="charon-probe")
    node.write(PROBE, f"connections {{\n{''.join(map(connection, RARE))}}}\n")
    listed = node.run("swanctl", "--list-algs").stdout
    loaded = node.run("swanctl", "--load-conns", "--file", PROBE, check=False)
    _ASKED[node] = EspSupport(
        frozenset(offers(listed)), frozenset(offers(listed, "ke", "dh")), refusals(loaded.stdout + loaded.stderr)
    )
    if started:
        started.stop()
        node.run("sh", "-c", "rm -f /run/charon.*")
    return _ASKED[node]


def run_charon(node: Node, log: str = "charon") -> Process:
    """Start the IKE daemon, and wait until it answers. Raises TimeoutError."""
    for version in ("-4", "-6"):
        node.defer("ip", version, "rule", "del", "table", TABLE)
    node.defer("sysctl", "-qw", "net.core.xfrm_acq_expires=30")  # the kernel's; charon has 165 s
    daemon = next(path for path in DAEMONS if node.run("test", "-x", path, check=False).code == 0)
    started = node.spawn(daemon, log=log)
    wait_until(lambda: node.run("test", "-S", "/run/charon.vici", check=False).code == 0, "charon's socket")
    return started


def connection(level: str) -> str:
    """A connection of swanctl.conf(5) that asks for ``level``. 192.0.2.0/24 is for documentation (RFC 5737)."""
    words = CIPHERS[level] if level in CIPHERS else f"aes128-{INTEGRITIES[level]}"
    proposal = words if level in AEAD or level in INTEGRITIES else f"{words}-sha256"
    ends = "local_addrs = 192.0.2.1\nremote_addrs = 192.0.2.2\nlocal { auth = psk }\nremote { auth = psk }"
    return f"{level} {{\n{ends}\nchildren {{ probe {{ esp_proposals = {proposal}\n}} }} }}\n"


def refusals(output: str) -> dict[str, str]:
    """Connection -> why it was refused, in what `swanctl --load-conns` says."""
    return dict(re.findall(r"^loading connection '([^'\n]+)' failed: (.*)$", output, flags=re.MULTILINE))


def offers(listed: str, *kinds: str) -> set[str]:
    """The names of the algorithms of these kinds in what `swanctl --list-algs` says, by default those of ESP. Key
    exchanges are `ke`, before 6.0 `dh`."""
    wanted = kinds or ("encryption", "integrity", "aead")
    algorithms: set[str] = set()
    kind = ""
    for line in listed.splitlines():
        if line.endswith(":") and not line.startswith(" "):
            kind = line[:-1]
        elif kind in wanted:
            algorithms.add(line.split("[")[0].strip())
    return algorithms


def renew(node: Node, what: str, name: str) -> None:
    """Rekey the child SA (``esp``) or IKE SA (``ike``) ``name``, swanctl(8), and wait until there are others.

    A message that the load's queues lose is sent again after 4 s, then 7 s (strongswan.conf(5), retransmit_timeout).
    """
    before = spis(node.run("swanctl", "--list-sas", "--raw").stdout, what)
    node.run("swanctl", "--rekey", "--child" if what == "esp" else "--ike", name)

    def is_renewed() -> bool:
        return bool(spis(node.run("swanctl", "--list-sas", "--raw").stdout, what) - before)

    wait_until(is_renewed, f"new {what} keys on {node.name}")


def spis(raw: str, what: str) -> set[str]:
    """The SPIs of all child SAs (``esp``) or IKE SAs (``ike``) in `swanctl --list-sas --raw`."""
    names = "spi-in|spi-out" if what == "esp" else "initiator-spi|responder-spi"
    return set(re.findall(rf"\b(?:{names})=(\w+)", raw))


def parse_child_sa(raw: str) -> dict[str, str]:
    """What was negotiated for the first child SA in `swanctl --list-sas --raw` that is installed; "" for what is not in
    it. On a busy machine an IKE SA that is being made or deleted may stand before it, or another child."""
    each = [event.partition("child-sas {") for event in raw.split("list-sa event {")]
    children = [(ike, child) for ike, _, rest in each for child in rest.split("}")]
    ike, child = next((pair for pair in children if "state=INSTALLED" in pair[1]), ("", ""))

    def sa_value(name: str, among: str = child) -> str:
        match = re.search(rf"\b{name}=(\S+)", among)
        return match[1] if match else ""

    cipher, bits = sa_value("encr-alg"), sa_value("encr-keysize")
    # RFC 9370: further key exchanges beside the first.
    exchanges = "+".join(filter(None, [sa_value("dh-group", ike), *re.findall(r"\bake\d=(\S+)", ike)]))
    proposal = [*(sa_value(name, ike) for name in ("encr-alg", "encr-keysize", "prf-alg")), exchanges]
    return {
        "key_exchange": exchanges,
        "cipher": f"{cipher}-{bits}" if bits and cipher != "CHACHA20_POLY1305" else cipher,
        "integrity": sa_value("integ-alg"),
        "compression": "on" if sa_value("cpi-in") else "off",
        "mode": sa_value("mode"),
        "protocol": sa_value("protocol"),
        "ike": " ".join(proposal).strip(),
        "encapsulation": "UDP" if sa_value("encap") == "yes" else "none",
    }
