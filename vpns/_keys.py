"""Keys that gateways share, random, made by openssl(1), fresh for every run."""

from collections.abc import Sequence
from itertools import combinations

from runner.lab.node import Node
from runner.lab.shape.site import Site


def shared_key_name(*sites: Site) -> str:
    """The name of the secret that these gateways share: ``gw1.gw2.key``."""
    return ".".join(site.name for site in sorted(sites, key=lambda site: site.number)) + ".key"


def pair_keys(ca: Node, sites: Sequence[Site]) -> dict[str, str]:
    """128 random bits in hexadecimal for each pair of gateways."""
    return {
        shared_key_name(*pair): ca.run("openssl", "rand", "-hex", "16").stdout.strip()
        for pair in combinations(sites, 2)
    }
