"""What plugins ask of OpenSSL: its groups for TLS, and the ciphers that OpenSSL 3 keeps in its legacy provider."""

from runner.data.errors import Unsupported
from runner.data.levels import Params
from runner.lab.node import Node

# Level -> what logs call it. The second one is ML-KEM beside a curve, in TLS 1.3 only (draft-ietf-tls-ecdhe-mlkem).
GROUPS = {"X25519": "X25519", "X25519MLKEM768": "X25519MLKEM768"}
# For OPENSSL_CONF of a daemon that needs one of its old ciphers (openssl.cnf(5), Provider Configuration).
LEGACY_PROVIDER = """\
openssl_conf = init
[init]
providers = providers
[providers]
default = on
legacy = on
[on]
activate = 1
"""


def no_group(node: Node, params: Params) -> Unsupported | None:
    """Does the node's OpenSSL lack the group that is asked for? None where it has it, or none is asked for.

    openssl-s_client(1) looks at its groups before it connects, here to nobody."""
    if "key_exchange" not in params:
        return None
    group = params["key_exchange"]
    said = node.run("openssl", "s_client", "-groups", group, "-connect", "127.0.0.1:9", check=False, input="").stderr
    return Unsupported(f"OpenSSL has no group {group}: {said.strip().splitlines()[0]}") if group in said else None
