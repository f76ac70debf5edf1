"""The inventory of a hub and its spokes: each spoke has a tunnel to the hub, which it dials, and to nobody else.

between_spokes = true            # optional: what spokes send each other goes by the hub; otherwise it is dropped there

[hub]                            # the keys are those of a gateway (runner/lab/places/sites.py); `network` is needed
address = "203.0.113.9"
network = "10.0.0.0/16"

[spoke.berlin]                   # one table a spoke: lower-case letters and digits
address = "198.51.100.7"
network = "10.1.0.0/16"

A recipe is for all of them. What is measured is one pair, which ``sites.toml#berlin`` names.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, model_validator

from runner.data.errors import UsageError, require_known
from runner.data.files import from_toml, read_text
from runner.lab.places.gateways import (
    Gateway,
    Wrong,
    raise_contradictions,
    same_machines,
    wrong_addresses,
    wrong_forwards,
    wrong_networks,
    wrong_networks_ipv6,
    wrong_overlaps,
)
from runner.lab.places.inventory import MOST_BYTES, read_model, resolve_files
from runner.lab.places.sites import Hours, Keepalive, MaxRate, PathMtu, Sites

HUB = "hub"
TAKEN = (HUB, "ca")  # by keys and files of their own
MOST_SPOKES = 100
OF_A_PAIR = ("path_mtu", "max_rate_bps", "between", "keep_image", "keepalive_s")


def _name(name: str) -> str:
    if not re.fullmatch("[a-z][a-z0-9]{0,30}", name) or name in TAKEN:
        raise ValueError(
            f"a spoke cannot be named {name!r:.60}: its name has lower-case letters and digits, begins with a letter, "
            f"is at most 31 long, and is not {' or '.join(TAKEN)}"
        )
    return name


class Hub(BaseModel):
    """The hub's gateway, those of its spokes, and the keys of ``Sites`` that hold for each pair of them.

    ``between_spokes``: does the hub forward what spokes send each other?"""

    model_config = ConfigDict(extra="forbid")

    hub: Gateway
    spoke: Annotated[dict[Annotated[str, AfterValidator(_name)], Gateway], Field(min_length=1, max_length=MOST_SPOKES)]
    between_spokes: bool = False
    path_mtu: PathMtu | None = None
    max_rate_bps: MaxRate | None = None
    between: Hours | None = None
    keep_image: bool = True
    keepalive_s: Keepalive | None = None

    @property
    def machines(self) -> dict[str, Gateway]:
        """The gateways by the names of their tables, the hub first."""
        return {HUB: self.hub, **{f"spoke.{name}": spoke for name, spoke in self.spoke.items()}}

    @model_validator(mode="after")
    def _one_hub(self, info: ValidationInfo) -> Hub:
        """Raise with every line that contradicts others."""
        checks = (same_machines, wrong_overlaps, wrong_networks, wrong_networks_ipv6, wrong_addresses, wrong_forwards)
        raise_contradictions([*(partial(check, self.machines) for check in checks), self._recipe_gaps], info)
        return self

    def _recipe_gaps(self) -> Iterator[Wrong]:
        """What a recipe needs of each gateway; and whether the spokes can dial the hub."""
        for name, machine in self.machines.items():
            if not machine.network:
                yield Wrong(name, "network", "is missing: the site's real network, to which the tunnels lead")
            if machine.lan_port:
                yield Wrong(name, "lan_port", "is for a host of its own, which a hub's inventory cannot have")
        if self.hub.dials:
            yield Wrong(HUB, "dials", "the spokes dial the hub, so it needs an address or a name: public_address = …")
        if isinstance(self.hub.public_address, IPv4Address | IPv6Address) and not self.hub.forwards:
            sentence = (
                "the hub is behind a NAT that forwards nothing to it, so no spoke can dial it. Forward the VPN's "
            )
            yield Wrong(HUB, "public_address", f"{sentence}ports, and list them in forwards", (f"{HUB}.forwards",))

    def pair(self, name: str, *, whole: bool = False) -> Sites:
        """The spoke ``name`` as gw1, and the hub as gw2. ``whole``: with the other spokes' networks beside the hub's:
        the recipe closes all of them. Raises UsageError where the two contradict each other."""
        others = [spoke for other, spoke in self.spoke.items() if whole and other != name]
        behind = {
            key: [*getattr(self.hub, key), *(network for spoke in others for network in getattr(spoke, key))]
            for key in ("network", "network_ipv6")
        }
        try:
            return Sites(
                gw1=self.spoke[name],
                gw2=self.hub.model_copy(update=behind),
                **{key: getattr(self, key) for key in OF_A_PAIR},
            )
        except ValidationError as error:
            tables = {"gw1": f"spoke.{name}", "gw2": HUB}
            wrong = [(*map(str, mistake["loc"]), mistake["msg"]) for mistake in error.errors()]
            raise UsageError("\n".join(f"[{tables[table]}] {': '.join(rest)}" for table, *rest in wrong)) from None


def read_hub(path: Path) -> Hub | None:
    """The hub and its spokes of an inventory; None of every other file, whose mistakes ``read_sites`` names. Raises
    UsageError with every mistake: file, line, and what is valid there."""
    try:
        tables = from_toml(read_text(path, MOST_BYTES))
    except (UsageError, ValueError):
        return None
    if {"gw1", "gw2", "gw3"} <= tables.keys():
        raise UsageError(
            f"{path}: [gw3]: gw1 and gw2 are all gateways of two sites. Of more, one is the hub: name it [hub], and "
            "each other one [spoke.NAME] (docs/two-sites.md, More than two sites)"
        )
    if not tables.keys() & {HUB, "spoke"}:
        return None
    hub = read_model(path, Hub, "site")
    resolve_files(path, hub.machines.values())
    return hub


def pair_of(path: Path) -> Sites | None:
    """Of ``FILE#SPOKE`` that spoke and its hub; None of a file that has no hub. Raises UsageError for a spoke that it
    has not, and where none is named."""
    file, _, spoke = str(path).partition("#") if not path.exists() else (str(path), "", "")
    if (hub := read_hub(Path(file))) is None:
        return None
    if not spoke:
        raise UsageError(
            f"{file} has a hub and its spokes, and this command is for two gateways. Name the spoke: "
            f"{file}#{next(iter(hub.spoke))} is that one and the hub"
        )
    require_known("spoke", spoke, [*hub.spoke], where=f"in {file}")
    return hub.pair(spoke)
