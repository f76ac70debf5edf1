"""A tunnel that ``recipe --write`` has made: what it was made of, and the tunnels that take its place."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from runner.catalogue import load_vpn, version_names, vpn_names
from runner.data.errors import UsageError
from runner.data.files import short
from runner.lab.names import DEFAULT_IMAGE
from runner.lab.node import LabNode
from runner.lab.places import NamespaceRig, rootless
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import check_machine
from runner.tunnel.bring_up import make_secrets
from runner.vpn import deploy as deployment
from runner.vpn.guard import file_of
from runner.vpn.page import CA, back, page
from runner.vpn.plugin import Vpn
from runner.vpn.recipe import KeyMaker

KEPT = "tunnel.json"
SIGNS = ("ca.crt", "ca.key")  # what signs the next certificates


@dataclass(frozen=True)
class Tunnel:
    """What a recipe was made of: ``tunnel.json`` of its folder, with private keys. ``vpn``: what ``load_vpn`` takes.
    ``days``: of its certificates. ``ca``: what has signed them. ``replaces``: the name of the tunnel before it;
    ``added``: the gateways that this one had not."""

    vpn: str
    params: dict[str, str]
    sites: tuple[Site, ...]
    days: int
    path_mtu: int | None = None
    secrets: dict[str, str] = field(default_factory=dict)
    ca: dict[str, str] = field(default_factory=dict)
    name: str = ""
    replaces: str = ""
    added: tuple[str, ...] = ()


KIND = TypeAdapter(Tunnel)


def begin() -> None:
    """Enter the namespace in which keys are made. Raises CannotRunHere where this machine cannot."""
    rootless.enter("netns")
    check_machine()


def name_to_load(vpn: Vpn) -> str:
    """The name by which ``load_vpn`` finds it again, or the file of a plugin of one's own."""
    return vpn.name if vpn.name in (*vpn_names(), *version_names()) else str(file_of(type(vpn)).resolve())


def read(folder: Path) -> Tunnel:
    """The tunnel of a folder. Raises UsageError where it is none."""
    try:
        return KIND.validate_json((folder / KEPT).read_bytes())
    except FileNotFoundError:
        raise UsageError(
            f"{short(folder)} has no {KEPT}. Name the folder of `vpneval recipe --write`. For an older one, "
            "make the recipe anew, and run its up.sh --replace NAME on both gateways"
        ) from None
    except (OSError, ValidationError) as wrong:
        raise UsageError(f"{short(folder / KEPT)} cannot be read: {str(wrong).splitlines()[0]}") from None


def renewal_of(folder: Path, days: int | None, say: Callable[[str], None]) -> Tunnel:
    """The tunnel of a folder with new keys and certificates of the same CA, so that either gateway accepts the other's
    old and new ones. Raises UsageError for a VPN without a CA."""
    tunnel = read(folder)
    if not tunnel.ca:
        raise UsageError(
            f"{tunnel.vpn} has no certificates, so none of them ends, and both gateways must have new keys at once: "
            f"vpneval tunnel rekey {short(folder)}"
        )
    return with_keys(load_vpn(tunnel.vpn), after(tunnel, days=days or tunnel.days), say)


def rekeying_of(folder: Path, days: int | None, say: Callable[[str], None]) -> Tunnel:
    """The tunnel of a folder with all keys new, its CA's, too: who has an old one is refused from then on."""
    tunnel = read(folder)
    return with_keys(load_vpn(tunnel.vpn), after(tunnel, days=days or tunnel.days, ca={}), say)


def upgrade_of(folder: Path) -> Tunnel:
    """The tunnel of a folder with the same keys, as the present plugin has it. Raises UsageError where that needs
    others."""
    tunnel = read(folder)
    vpn = load_vpn(tunnel.vpn)
    if {*vpn.secrets(KeyMaker(), tunnel.sites)} != {*tunnel.secrets}:
        raise UsageError(
            f"{vpn.name} needs other keys now than {tunnel.name} has: vpneval tunnel rekey {short(folder)}"
        )
    return after(tunnel)


def after(tunnel: Tunnel, **changes: Any) -> Tunnel:
    """The tunnel that is to take the place of this one."""
    return replace(tunnel, **{"replaces": tunnel.name, "added": (), **changes})


def rollback(folder: Path) -> Sequence[str]:
    """The commands that bring back the tunnel before the one of this folder."""
    tunnel = read(folder)
    if not tunnel.replaces:
        raise UsageError(f"{tunnel.name} is the first one of {short(folder)}: it has replaced no other")
    return back(tunnel.sites, tunnel.replaces, tunnel.name, tunnel.added)


def with_keys(vpn: Vpn, tunnel: Tunnel, say: Callable[[str], None]) -> Tunnel:
    """The tunnel with new keys and certificates; where it has a CA already, that signs them. Raises UsageError where
    the CA ends before they would."""
    with _certificate_node(tunnel.days, say) as node:
        for signing, text in tunnel.ca.items():
            node.write(f"{CA}/{signing}", text)
        node.has_ca = bool(tunnel.ca)
        ends = ("openssl", "x509", "-noout", "-checkend", str(86400 * tunnel.days), "-in", f"{CA}/{SIGNS[0]}")
        if node.has_ca and "Certificate will expire" in node.run(*ends, check=False).stdout:
            raise UsageError(
                f"the CA of {tunnel.name} ends within {tunnel.days} days. Give fewer --days, or make all keys new: "
                "vpneval tunnel rekey"
            )
        secrets = make_secrets(vpn, nullcontext(node), tunnel.sites)
        kept = {signing: node.run("cat", f"{CA}/{signing}", check=False) for signing in SIGNS}
    ca = {signing: done.stdout for signing, done in kept.items() if done.code == 0}
    return replace(tunnel, secrets=secrets, ca=ca)


def write(vpn: Vpn, tunnel: Tunnel, folder: Path, say: Callable[[str], None]) -> str:
    """Make a directory for each gateway, and what the next tunnel is made of. Return the recipe's name."""
    name = deployment.write(
        *(vpn, tunnel.params, tunnel.sites, tunnel.secrets, folder, tunnel.path_mtu), replaces=tunnel.replaces
    )
    deployment.put(folder / KEPT, KIND.dump_json(replace(tunnel, name=name), indent=2).decode() + "\n", 0o600)
    for me in tunnel.sites:
        say(f"{folder}/{name}-{me.name}: copy this directory to {me.name} and run its up.sh there, as root.")
    say(f"{folder}/README.md says the rest. Keep {folder}/{KEPT} safe: it and the directories hold private keys.")
    return name


def write_next(tunnel: Tunnel, folder: Path, say: Callable[[str], None]) -> None:
    """Make the directories of a tunnel that takes another one's place, and their page."""
    vpn, sites = deployment.for_sites(load_vpn(tunnel.vpn), tunnel.sites), tunnel.sites
    name = write(vpn, tunnel, folder, say)
    of = vpn, tunnel.params, sites, tunnel.path_mtu, tunnel.days
    text = page(*of, written=name, replaces=tunnel.replaces, added=tunnel.added)
    deployment.put(folder / "README.md", text, 0o644)


@contextmanager
def _certificate_node(days: int, say: Callable[[str], None]) -> Iterator[LabNode]:
    """A node without a network, on which certificates are made for so many days."""
    rig = NamespaceRig()
    with rig.alone(rig.image(DEFAULT_IMAGE, say), lambda line: None) as ca:
        ca.days = days
        yield ca
