"""Networks that the other site reaches under other addresses, one to one (``network_seen_as``): which may be chosen,
and what a site then is to the other one. The gateways translate (runner/vpn/closing.py)."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import IPv4Network
from itertools import combinations, permutations
from typing import Protocol

from runner.lab.shape.site import Site, counterpart

# Of the private networks (RFC 1918), in steps of a /16.
POOLS = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
KEY = "network_seen_as"
Networks = Sequence[IPv4Network]


class Behind(Protocol):
    """What a gateway's table says of the networks behind it."""

    @property
    def network(self) -> list[IPv4Network]:
        """The real ones."""

    @property
    def network_seen_as(self) -> list[IPv4Network]:
        """What the other site has in their place, in the same order; none: the real ones."""


def seen_networks(site: Behind) -> list[IPv4Network]:
    """The networks by which the other site reaches this one."""
    return site.network_seen_as or site.network


def wrong_translations(sites: Mapping[str, Behind], reserved: Networks) -> Iterator[tuple[str, str, str, list[str]]]:
    """What contradicts: table, key, sentence, and the lines that it rests on. ``reserved``: where no site may be."""
    for name, site in sites.items():
        for sentence in _wrong_alone(site, reserved):
            yield name, KEY, sentence, [f"{name}.network"]
    for one, other in permutations(sites, 2):
        rest = [f"{site}.{key}" for site in (one, other) for key in ("network", KEY)]
        mine, theirs = _overlap(seen_networks(sites[one]), sites[other].network)
        if mine and sites[one].network_seen_as:
            sentence = f"{mine} overlaps {theirs}, a network of {other}, whose hosts could not reach it: choose another"
            yield one, KEY, sentence, rest
        elif mine:
            sentence = f"{mine} overlaps {theirs} of {other}, so hosts there cannot reach it by these addresses. "
            yield one, "network", sentence + _remedy(one, sites, reserved), rest
    for one, other in combinations(sites, 2):
        mine, theirs = _overlap(sites[one].network_seen_as, sites[other].network_seen_as)
        if mine:
            rest = [f"{one}.{KEY}"]
            yield other, KEY, f"{theirs} overlaps {mine}, as which {one} is seen: choose another", rest


def _wrong_alone(site: Behind, reserved: Networks) -> Iterator[str]:
    chosen = site.network_seen_as
    if chosen and len(chosen) != len(site.network):
        yield f"names {len(chosen)} for {len(site.network)} in network: name one for each, in the same order"
        return
    for real, other in zip(site.network, chosen, strict=False):
        if real.prefixlen != other.prefixlen:
            yield f"{other} is for {real}, and must be of the same size: /{real.prefixlen}"
        elif real != other and any(other.overlaps(mine) for mine in site.network):
            yield f"{other} overlaps a network of the site itself: choose another"
        if any(other.overlaps(no) for no in reserved):
            yield f"{other} is no network that hosts can be in, or the tunnels have their own addresses there"
    for one, other in combinations(chosen, 2):
        if one.overlaps(other):
            yield f"{one} and {other} overlap: two hosts would have one address"


def _overlap(near: Networks, far: Networks) -> tuple[IPv4Network, IPv4Network] | tuple[None, None]:
    """The first two networks that overlap, one of each site."""
    return next(((mine, other) for mine in near for other in far if mine.overlaps(other)), (None, None))


def _remedy(name: str, sites: Mapping[str, Behind], reserved: Networks) -> str:
    """The line to add to the table ``name``, where every site without one has another."""
    taken = [*reserved, *(network for site in sites.values() for network in (*site.network, *site.network_seen_as))]
    for site in [*sites][: [*sites].index(name) + 1]:
        chosen = list[str]()
        for network in sites[site].network:
            if (free := _free(network.prefixlen, taken)) is None:
                return "No private network of this size is free: name smaller networks"
            taken.append(free)
            chosen.append(str(free))
    line = json.dumps(chosen[0] if len(chosen) == 1 else chosen)
    return f"Let the gateways translate them one to one to others that are free, for example: {KEY} = {line}"


def _free(prefix: int, taken: Networks) -> IPv4Network | None:
    return next(
        (
            found
            for pool in POOLS
            if prefix >= pool.prefixlen
            for block in pool.subnets(new_prefix=min(prefix, 16))
            if not any((found := IPv4Network((block.network_address, prefix))).overlaps(no) for no in taken)
        ),
        None,
    )


def as_seen(site: Site, chosen: Mapping[str, str]) -> Site:
    """The site as the other one has it. ``chosen``: real network -> the other's name for it; empty: the same."""
    if all(network == other for network, other in chosen.items()):
        return site
    lan, *more = (chosen[network] for network in site.lans)
    return replace(
        site,
        lan=lan,
        more_lans=tuple(more),
        lan_address=counterpart(site.lan_address, site.lan, lan),
        host_address=counterpart(site.host_address, site.lan, lan),
        real_lans=site.lans,
    )
