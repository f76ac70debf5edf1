"""``vpneval recipe --site``: from the inventory of two machines to a tunnel that can be copied there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from runner.data.errors import UsageError
from runner.data.levels import Params
from runner.lab.names import DEFAULT_IMAGE
from runner.lab.places import NamespaceRig, rootless
from runner.lab.places.site import site_rig
from runner.lab.places.sites import Sites, described, read_sites, real
from runner.lab.site import Site
from runner.lab.site_to_site import check_machine
from runner.tunnel.bring_up import make_secrets
from runner.vpn import deploy as deployment
from runner.vpn.plugin import Vpn
from runner.vpn.recipe import recipe

MOST_DAYS = 3650


def unnamed(inventory: Sites) -> list[str]:
    """Which sites' real networks the inventory does not name, in sentences with the line to add."""
    return [
        f"The inventory names no network of {name}, so this recipe is for its test host's, {inventory.lans[name]}. "
        f'Add the site\'s real network to [{name}], for example: network = "10.{number}.0.0/16"'
        for number, (name, machine) in enumerate(inventory.machines.items(), 1)
        if machine.network is None
    ]


def real_sites(inventory: Sites) -> tuple[Site, ...]:
    """The sites of an inventory. Where it leaves an address open, the machines are asked, which may be in use."""
    own = {name: str(machine.wan_address) for name, machine in inventory.machines.items() if machine.wan_address}
    if len(own) == len(inventory.machines):
        ports = {name: machine.wan or "eth0" for name, machine in inventory.machines.items()}
        return real(described(inventory, ports, own), inventory)
    with site_rig(inventory, only_look=True) as rig:
        return real(rig.sites, inventory)


def readable(vpn: Vpn, params: Params, site: Path, say: Callable[[str], None]) -> str:
    """The recipe between these sites, with packages, scripts and units; ``say`` is told what the inventory lacks."""
    inventory = read_sites(site)
    for sentence in unnamed(inventory):
        say(sentence)
    sites = real_sites(inventory)
    return f"{recipe(vpn, params, sites)}\n{deployment.printed(vpn, params, sites, inventory.path_mtu)}"


def deploy(vpn: Vpn, params: Params, site: Path | None, folder: Path, days: int, say: Callable[[str], None]) -> None:
    """Fresh keys, made on a node of this machine that has no network, and a directory for each gateway."""
    if site is None:
        raise UsageError("--write needs the gateways' addresses: give --site SITES.toml, too")
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"--days must be from 1 to {MOST_DAYS}, not {days}")
    rootless.enter("netns")
    check_machine()
    inventory = read_sites(site)
    for sentence in unnamed(inventory):
        say(sentence)
    sites, rig = real_sites(inventory), NamespaceRig()
    with rig.alone(rig.image(DEFAULT_IMAGE, say), lambda line: None) as ca:
        ca.days = days
        secrets = make_secrets(vpn, nullcontext(ca), sites)
    for made in deployment.write(vpn, params, sites, secrets, folder, inventory.path_mtu):
        say(f"{made}: copy this directory to {made.name} and run ./install there, as root. It holds private keys.")
