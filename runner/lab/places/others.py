"""What others have changed in a gateway's network while vpneval worked there, in words."""

from __future__ import annotations

from collections.abc import Mapping

# The kinds of runner/lab/probes/undo.py.
WORDS = {
    "link": ("interface", "interfaces"),
    "addr": ("address", "addresses"),
    "route": ("route", "routes"),
    "rule": ("routing rule", "routing rules"),
    "neigh": ("permanent neighbour", "permanent neighbours"),
    "qdisc": ("queueing discipline", "queueing disciplines"),
    "sysctl": ("sysctl", "sysctls"),
    "nft": ("nftables table", "nftables tables"),
    "iptables": ("iptables table", "iptables tables"),
    "policy": ("IPsec policy", "IPsec policies"),
}


def in_words(name: str, changed: Mapping[str, int]) -> str:
    """The sentence about gateway ``name``, by kind and number; empty where nobody has changed anything."""
    each = [f"{changed[kind]} {WORDS[kind][changed[kind] != 1]}" for kind in WORDS if changed.get(kind)]
    if not each:
        return ""
    listed = " and ".join([", ".join(each[:-1]), each[-1]] if each[1:] else each)
    return f"{name}: {listed} changed during the run, not by vpneval; they are left as they are"
