"""``vpneval recipe``: from the addresses of two gateways to a page, or to directories that can be copied there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from runner.catalogue import digest_of, load_run, load_vpn, read_run
from runner.choice.musts import levels_that_show, states
from runner.cli.commands.tunnel.work import Tunnel, after, begin, name_to_load, read, with_keys, write
from runner.cli.options import tell
from runner.data.errors import CannotRunHere, UsageError, require_known
from runner.data.files import short
from runner.data.levels import UPLINK, Params, tunnel_levels
from runner.data.named import USUAL, Must
from runner.data.shipped_runs import shipped_runs
from runner.data.trials import Trial
from runner.lab.places.hub import HUB, Hub, read_hub
from runner.lab.places.site import site_rig
from runner.lab.places.sites import Sites, describe_sites, read_sites, real
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import SITES
from runner.vpn import deploy as deployment
from runner.vpn.page import encryption_warning, page
from runner.vpn.plugin import Vpn
from runner.vpn.recipe import check_offered

MOST_DAYS = 36500


def unnamed_networks(inventory: Sites) -> list[str]:
    """Sentences on the sites whose real networks the inventory does not name, with the line to add."""
    return [
        f"The inventory names no network of {name}, so this recipe is for its test host's, {inventory.lans[name]}. "
        f'Add the site\'s real network to [{name}], for example: network = "10.{number}.0.0/16"'
        for number, (name, machine) in enumerate(inventory.machines.items(), 1)
        if not machine.network
    ]


def sites_as_seen(inventory: Sites, say: Callable[[str], None]) -> tuple[Site, ...]:
    """The sites of an inventory. Where it names no address, the machines are asked for theirs; they may be in use."""
    own = {name: str(machine.wan_address) for name, machine in inventory.machines.items() if machine.wan_address}
    if len(own) == len(inventory.machines):
        ports = {name: machine.wan or "eth0" for name, machine in inventory.machines.items()}
        return describe_sites(inventory, ports, own)
    with site_rig(inventory, only_look=True, say=say) as rig:
        for note in rig.notes:
            say(note)
        return rig.sites


def real_sites(inventory: Sites) -> tuple[Site, ...]:
    """The same with their real networks, and the logins of the gateways."""
    return real(sites_as_seen(inventory, tell), inventory)


def star_sites(inventory: Hub) -> tuple[Site, ...]:
    """The spokes of an inventory, and behind them the hub, with the highest number. Raises UsageError where the spokes
    do not reach it at the same address."""
    pairs = {name: _pair_as_seen(inventory, name) for name in inventory.spoke}
    hubs = {hub.wan_address: (name, hub) for name, (_, hub) in pairs.items()}
    if len(hubs) > 1:
        ways = ", ".join(f"to {name} {address}" for address, (name, _) in hubs.items())
        raise UsageError(f"the hub has several addresses on the path ({ways}): name one, [hub] wan_address = …")
    spokes = [replace(spoke, number=number, name=name) for number, (name, (spoke, _)) in enumerate(pairs.items(), 1)]
    (_, hub), *_ = hubs.values()
    return *spokes, replace(hub, number=len(pairs) + 1, name=HUB, hub=True, joins=inventory.between_spokes)


def _pair_as_seen(inventory: Hub, name: str) -> tuple[Site, ...]:
    """The spoke and the hub; what is said of them has their names. Raises CannotRunHere as ``site_rig``."""

    def with_names(text: str) -> str:
        return text.replace("gw1", f"spoke.{name}").replace("gw2", HUB)

    try:
        seen = sites_as_seen(inventory.pair(name, whole=True), lambda text: tell(with_names(text)))
    except CannotRunHere as lack:
        raise CannotRunHere(with_names(str(lack))) from lack
    return real(seen, inventory.pair(name))


class Measured(NamedTuple):
    """What the recipe of a tunnel needs of a run. ``versions``: package -> the version that was measured. ``path_mtu``:
    that of the path, bytes, where no ping is answered there, by which a tunnel's script finds it. ``mtu_to_set``: as
    the function makes it."""

    versions: Mapping[str, str] = {}
    path_mtu: int | None = None
    mtu_to_set: Mapping[str, int] = {}


UNMEASURED = Measured()
Line = tuple[Path, str]  # an inventory, and the one of its uplinks that is meant, or none


def sites_of(site: Line | None, say: Callable[[str], None]) -> tuple[tuple[Site, ...], int | None]:
    """The sites and the path's MTU: those of the inventory ``site``, with a message on what it lacks; without one, the
    lab's."""
    if site is None:
        return SITES, None
    if hub := read_hub(site[0]):
        if site[1]:
            raise UsageError(f"{short(site[0])} has a hub and its spokes, and no uplinks. Leave --uplink out")
        return star_sites(hub), hub.path_mtu
    inventory = read_sites(*site)
    for sentence in unnamed_networks(inventory):
        say(sentence)
    return real_sites(inventory), inventory.path_mtu


def levels_with_ipv6(vpn: Vpn, params: Params, sites: Sequence[Site], say: Callable[[str], None]) -> Params:
    """The levels, with IPv6 between the sites where an inventory names its networks and the VPN carries it.

    Raises UsageError where IPv6 is asked for, and an inventory names no network of it."""
    named = all(site.network_ipv6 for site in sites)
    if "inner" in params and not named and sites != SITES:
        raise UsageError("--set inner: the inventory names no IPv6 networks. Add network_ipv6 of all sites")
    if "inner" in params or not named:
        return params
    if vpn.inner_ipv6:
        return {**params, "inner": "both"}
    if vpn.carries == "ip":
        say(f"{vpn.title} carries no IPv6 here: the gateways drop what is for the other site's IPv6 network.")
    return params


def levels_with_moves(vpn: Vpn, params: Params, sites: Sequence[Site], musts: Collection[str]) -> Params:
    """The levels, with the gateways whose address may change: those that an inventory names without a fixed one, or,
    by the must no-fixed-address, the one that dials. Raises UsageError where the VPN's files do not allow for it."""
    moving, dialing = [site.name for site in sites if site.moves], [site.name for site in sites[:-1]]
    if not moving and "no-fixed-address" in musts:
        moving = dialing
    allowed = {"none": [], "dialing": dialing, "both": [site.name for site in sites]}[vpn.roams]
    if fixed := [name for name in moving if name not in allowed]:
        raise UsageError(
            f"the recipe of {vpn.name} needs a fixed address of {' and '.join(fixed)}: it was not shown to come back "
            "after that changes. Choose another VPN (docs/musts.md names them), or give that gateway a fixed address"
        )
    return {**params, "roaming": " ".join(moving)} if moving else params


def at_sites(
    vpn: Vpn, params: Params, site: Line | None, say: Callable[[str], None], musts: Collection[Must] = ()
) -> tuple[Vpn, Params, tuple[Site, ...], int | None]:
    """The plugin and the levels as they are for the sites of an inventory, these, and the path's MTU."""
    sites, path_mtu = sites_of(site, say)
    vpn = deployment.for_sites(vpn, sites)
    if vpn.carries == "tcp":  # each end forwards to what its own site has
        sites = tuple(one.at_home for one in sites)
    params = levels_with_ipv6(vpn, params, sites, say)
    return vpn, levels_with_moves(vpn, params, sites, musts), sites, path_mtu


def levels_of_run(
    folder: Path, vpn: Vpn, params: Params | None, say: Callable[[str], None], musts: Collection[Must] = ()
) -> tuple[dict[str, str], Measured]:
    """The levels of this VPN in a run, and what else its recipe needs of that. Without ``params`` the levels that its
    makers recommend, or the comparable ones, or the only ones; with the key exchange that showed the ``musts``.

    Raises UsageError, which names what was measured, where this was not.
    """
    run, trials = load_run(folder)
    names = sorted({trial.vpn for trial in trials if trial.status == "ok"})
    require_known("VPN", vpn.name, names, where=f"in {short(folder)}")
    mine = [trial for trial in trials if trial.vpn == vpn.name and trial.status == "ok"]
    tunnels = [dict(levels) for levels in dict.fromkeys(tuple(tunnel_levels(trial.params).items()) for trial in mine)]
    wanted = [params] if params else [vpn.recommended, vpn.comparable, *(tunnels if len(tunnels) == 1 else [])]
    levels = next((tunnel for tunnel in tunnels if tunnel in wanted), None)
    if levels is None:
        offered = "; ".join(", ".join(f"{factor}={level}" for factor, level in tunnel.items()) for tunnel in tunnels)
        raise UsageError(f"{short(folder)} has measured {vpn.name} at: {offered}. Choose one of these with --set")
    if run.vpns[vpn.name].digest not in ("", digest_of(vpn)):
        say(f"The plugin {vpn.name} has changed since this run: this recipe is what it does today.")
        logs = (folder / trial.log / "configuration.txt" for trial in mine if tunnel_levels(trial.params) == levels)
        if kept := next((path for path in logs if path.is_file()), None):
            say(f"{kept} has the files that were measured.")
    if params is None and {*musts} - {*USUAL}:
        runs = [(run, trials), *shipped_runs()]
        levels |= levels_that_show(states(run, trials, runs[1:])[vpn.name], musts, runs)
    packages: dict[str, str] = run.image.get("packages", {})
    path = run.lab.get("path") or {}
    return levels, Measured(
        versions={name: packages[name] for name in vpn.software.packages if name in packages},
        path_mtu=None if path.get("answers_pings", True) else path.get("mtu_bytes"),
        mtu_to_set=mtu_to_set(mine),
    )


def mtu_to_set(trials: Sequence[Trial]) -> Mapping[str, int]:
    """The MTU ``inside`` with which the tunnel passed a narrow ``path`` without ICMP in these trials, where it had died
    on one; empty where it had not, or was not tried."""
    for value in (value for trial in trials for value in trial.measurements if value.metric == "black_hole_mtu"):
        match value.detail:
            case {"numbers": {"mtu_to_set": {"inside": int(inside), "path": int(path)}}}:
                return {"inside": inside, "path": path}
    return {}


def uplink_of(folder: Path) -> str:
    """The uplink that a run measured; empty where its inventory named none."""
    return str(read_run(folder / "run.json").lab.get(UPLINK, ""))


def refuse_beside(vpn: Vpn) -> None:
    """Raise UsageError where two gateways are not all that the VPN needs."""
    if vpn.beside:
        raise UsageError(
            f"{vpn.name} needs a {vpn.beside} beside its gateways, so vpneval has no recipe for the gateways alone. "
            f"{vpn.software.needs}"
        )


def check_days(days: int) -> None:
    """Raise UsageError unless certificates can be valid for so many days."""
    if not 1 <= days <= MOST_DAYS:
        raise UsageError(f"--days must be from 1 to {MOST_DAYS}, not {days}")


def tunnel_page(
    vpn: Vpn,
    params: Params,
    site: Line | None,
    days: int,
    say: Callable[[str], None],
    run: Measured = UNMEASURED,
    folder: Path | None = None,
    musts: Collection[Must] = (),
) -> str:
    """The page of this tunnel. With a ``folder``: after fresh keys were made, on a node of this machine that has no
    network, and a directory for each gateway, there. ``musts``: those in force."""
    check_days(days)
    if folder:
        check_offered(vpn, params)
    refuse_beside(vpn)
    if folder:
        if warning := encryption_warning(vpn, params):
            say(warning)
        begin()
    vpn, params, sites, path_mtu = at_sites(vpn, params, site, say, musts)
    path_mtu = path_mtu or run.path_mtu
    name = ""
    if folder:
        if site is None:
            say("The addresses are the examples of the lab. For your gateways: --site SITES.toml")
        tunnel = with_keys(vpn, Tunnel(name_to_load(vpn), dict(params), tuple(sites), days, path_mtu), say)
        name = write(vpn, tunnel, folder, say)
    text = page(
        *(vpn, params, sites, path_mtu, days, run.versions),
        written=name,
        example=site is None,
        mtu_to_set=run.mtu_to_set,
    )
    if folder:
        deployment.put(folder / "README.md", text, 0o644)
    return text


def extension_of(folder: Path, site: Path, say: Callable[[str], None]) -> Tunnel:
    """The tunnel of a folder between the gateways of an inventory: those that it had keep their keys."""
    tunnel = read(folder)
    levels = {factor: level for factor, level in tunnel.params.items() if factor != "roaming"}
    vpn, params, sites, path_mtu = at_sites(load_vpn(tunnel.vpn), levels, (site, ""), say)
    before = {one.name: one for one in tunnel.sites}
    for name in sorted(before.keys() - {one.name for one in sites}):
        say(f"{name} is no longer there. What it had goes by this command on it: {tunnel.name}-{name}/down.sh")
    added = tuple(one.name for one in sites if one.name not in before)
    changes = {"params": dict(params), "sites": tuple(sites), "path_mtu": path_mtu or tunnel.path_mtu, "added": added}
    made = with_keys(vpn, after(tunnel, **changes), say)
    kept = {name: text for name, text in tunnel.secrets.items() if name in made.secrets}
    return replace(made, secrets=made.secrets | kept)
