"""A gateway's directory: what brings one end of a tunnel up without vpneval, keeps it up, and closes the way past it.

``recipe --write`` makes it; the page that ``recipe`` prints makes the same with here-documents (runner/vpn/page.py).
up.sh, check.sh, down.sh, the functions and the units are in runner/vpn/gateway/ as they are on the gateway. What
differs from VPN to VPN: its own files, ``tunnel`` (the plugin's commands), ``undo``, and the values in ``gateway.sh``.
A gateway may have several tunnels: each has a name, and by it a folder below ``HOME``, units and nftables tables.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatch
from ipaddress import ip_address, ip_network
from itertools import product
from pathlib import Path

from runner.data.errors import UsageError
from runner.data.levels import Params
from runner.lab.shape.site import (
    ENCAPSULATION_BYTES,
    HOST_NAME,
    TCP_PORTS,
    Site,
    higher_numbered,
    is_address,
    lower_numbered,
    peers_of,
    spokes_apart,
    with_behind,
)
from runner.vpn.closing import PRIVATE, checks, clamp, inner_routes, routes, rules
from runner.vpn.plugin import Secrets, Vpn, moves
from runner.vpn.recipe import KeyMaker, RecipeScript, check_offered, script_of

HOME = "/etc/vpneval"
UNITS = "/etc/systemd/system"
# Of every tunnel: command -> Debian package.
TOOLS = {"nft": "nftables", "ping": "iputils-ping", "ip": "iproute2", "sysctl": "procps"}
WAN_PORT = "vpneval-wan"  # in the place of the gateway's own name for it, which may be any word
# For documentation (RFC 5737, RFC 3849): no other route than the default one leads there.
ANYWHERE = {4: "192.0.2.1", 6: "2001:db8::1"}
PING_HEADER_BYTES = {4: 28, 6: 48}
GATEWAY = Path(__file__).with_name("gateway")
IN_IPV6 = ("network_ipv6", "address_ipv6")
NOT_CARRIED = "the tunnel does not carry them, packets to them are dropped"
# What a gateway's scripts have of it: name -> what it means.
MEANS = {
    "gateway": "the name of this gateway",
    "needs": "commands, each with its Debian package, or packages of which one is enough",
    "ports": "what the VPN listens on",
    "tunnel": "its devices; none: it is IPsec in the kernel, or forwards ports",
    "own": "this gateway's address on the WAN; empty: it changes",
    "wan": "the other gateway's, or its name; empty: it dials, from an address that nobody knows",
    "toward": "an address that the port to the other gateway leads to",
    "moving": "the gateways whose address changes",
    "lan": "the network of this site",
    "lans": "the network of the other site",
    "closed": "the networks that only the tunnel may lead to",
    "here": "this gateway's address in its network",
    "seen": "the one by which the other site reaches it, where that is another: it is on lo",
    "seen_as": "what the other site has for the network of this one, where that is another",
    "host": "a host's",
    "there": "the other gateway's address in its network",
    "hosts": "a host's in each network of this site",
    "fars": "a host's in each network of the other site",
    "spokes": "of each spoke its name, its gateway's address in its network, and that on the WAN; empty: it dials",
    "listens": "the TCP ports that the tunnel has to listen on, where it forwards ports",
    "version": "the IP version of the WAN",
    "ping_header": "of IP and ICMP, bytes",
    "encapsulation": "of the tunnel at most, bytes",
    "lans6": "the IPv6 network of the other site, where the tunnel carries it",
    "here6": "this gateway's IPv6 address in its network",
    "there6": "the other gateway's",
}
Files = Mapping[str, tuple[str, int]]  # path in the directory -> text, mode


def common(name: str) -> Files:
    """The files of the tunnel ``name`` whose texts are the same for every gateway and VPN."""
    places = {
        **{script: (script, 0o700) for script in ("up.sh", "check.sh", "down.sh")},
        "functions.sh": (f"files{HOME}/{name}/functions.sh", 0o644),
        "vpneval-tunnel@.service": (f"files{UNITS}/vpneval-tunnel@{name}.service", 0o644),
        "vpneval-closed@.service": (f"files{UNITS}/vpneval-closed@{name}.service", 0o644),
    }
    texts = {source: (GATEWAY / source).read_text(encoding="utf-8") for source in places}
    return {path: (texts[source].replace("@NAME@", name), mode) for source, (path, mode) in places.items()}


def gateway_files(
    vpn: Vpn, params: Params, me: Site, sites: Sequence[Site], secrets: Secrets, path_mtu: int | None
) -> Files:
    """The files of the directory that only gateway ``me`` has, but for the tunnel's name (``name_tunnel``).

    Raises UsageError for what is no address or network, and for a network that would cut a gateway off."""
    check_addresses(sites)
    check_several(vpn, sites)
    if vpn.carries == "ip":
        check_networks(me, sites)
    me = replace(me, wan_interface=WAN_PORT)
    home = me.at_home
    script, peers = script_of(vpn, params, me, sites, secrets), peers_of(me, sites)
    head = f"# {vpn.title} on {me.name}, to {', '.join(peer.name for peer in peers)}\n"
    files = {f"files{path}": file for path, file in script.files.items()}
    lines, undone = (with_wan_port(lines, peers) for lines in (script.lines, script.undo))
    start = "\n".join(["begin", *lines, "end\n"])
    undo = "\n".join(["unclamp", *["unseen"] * bool(me.real_lans), *undone, "true\n"])
    for name, text in (("tunnel", start), ("undo", undo)):
        files[f"files{HOME}/{name}"] = f"#!/bin/bash\n{head}. {HOME}/functions.sh\n{text}", 0o700
    inner = "inner" in params
    passing = inner or vpn.carries == "ip"
    apart = spokes_apart(me, sites)
    networks = [lan for peer in (*peers, *apart) if inner or peer.network_ipv6 for lan in peer.lans_ipv6 if passing]
    values = values_of(vpn, params, me, peers, script) | of_several(me, peers) | of_translation(me)
    values |= of_ipv6(me, peers, carried=inner)
    values["closed"] = " ".join([*values["closed"].split(), *(lan for spoke in apart for lan in spoke.lans)])
    devices, closed = values["tunnel"].split(), values["closed"].split()
    if me.real_lans and not closed:
        raise UsageError(f"{vpn.name}: its recipe translates no addresses. Leave network_seen_as out, or take another")
    # What spokes send each other by their hub comes out of the tunnel, and goes into it.
    behind = with_behind(me, peers) if me.joins else home
    assigned = [f"{name}={shlex.quote(value)} # {MEANS[name]}\n" for name, value in values.items()]
    said = "packets to them leave in the tunnel, or are dropped" if inner else NOT_CARRIED
    assigned += [
        f"closed6={shlex.quote(' '.join(networks)) if networks else ''} # IPv6 networks of the other site: {said}\n",
        f"mtu={shlex.quote(str(path_mtu)) if path_mtu else ''} # of the path, bytes; empty: found by pings\n",
    ]
    own = {
        "gateway.sh": head + "".join(assigned),
        "closed.ip": routes(closed, networks, devices, [lan for lan in me.real_lans if lan not in me.lans]),
        "clamp.nft": clamp({"ip": values["lans"].split()} | ({"ip6": values["lans6"].split()} if inner else {})),
    }
    if closed:
        seen_as = me.lans if me.real_lans else ()
        own |= rules("ip", behind.lans, me.lan_address, closed, devices, seen_as=seen_as)
        own["private-ip6.nft"] = PRIVATE
        own |= checks(values.get("fars", values["there"].split()[0]).split(), devices)
        own["firewalls"] = firewalls(behind.lans, values["lans"].split())
    if inner:
        own |= {f"inner-{peer.lan_address}.ip": inner_routes(me, peer) for peer in peers}
    if networks:
        own |= rules("ip6", behind.lans_ipv6, me.lan_address_ipv6, networks, devices, carried=inner)
    return files | {f"files{HOME}/{name}": (text, 0o644) for name, text in own.items()}


def name_tunnel(vpn: Vpn, gateways: Mapping[str, Files]) -> tuple[str, dict[str, Files]]:
    """A name for the tunnel that no other one has, and each gateway's files with it: what is below ``HOME`` is in a
    folder of that name."""
    said = repr(sorted((name, sorted(files.items())) for name, files in {**gateways, "all": common("")}.items()))
    name = f"{re.sub(r'[^A-Za-z0-9_]+', '-', vpn.name)}-{hashlib.sha256(said.encode()).hexdigest()[:6]}"

    def with_name(text: str) -> str:
        return text.replace(f"{HOME}/", f"{HOME}/{name}/").replace("@NAME@", name)

    return name, {
        gateway: {with_name(path): (with_name(text), mode) for path, (text, mode) in files.items()}
        for gateway, files in gateways.items()
    }


def check_addresses(sites: Sequence[Site]) -> None:
    """Raise UsageError unless every address and network of the sites is one: they go into scripts that root runs."""
    for site in sites:
        for name in (*("wan_address", "public_address", "lan", "lan_address", "host_address"), *IN_IPV6):
            value: str = getattr(site, name)
            if name == "public_address" and HOST_NAME.fullmatch(value):
                continue
            _check_address(site, name, value, network=name in ("lan", "network_ipv6"))
        for value in (*site.more_lans, *site.more_lans_ipv6, *site.real_lans):
            _check_address(site, "network", value, network=True)


def _check_address(site: Site, name: str, value: str, *, network: bool) -> None:
    try:
        right = str(ip_network(value) if network else ip_address(value)) if value else ""
    except ValueError:
        right = ""
    if "%" in right or (value and not right):
        raise UsageError(f"{site.name}: {name} is {value!r:.60}, which is no address that a recipe can have")


def for_sites(vpn: Vpn, sites: Sequence[Site]) -> Vpn:
    """The plugin as it serves these sites. Raises UsageError where one is a hub, and it is for two gateways."""
    if not any(site.hub for site in sites):
        return vpn
    if not vpn.hub_and_spokes:
        raise UsageError(
            f"vpneval's recipe of {vpn.name} is for two gateways, not for a hub. Choose another VPN "
            "(docs/two-sites.md, More than two sites)"
        )
    check_several(vpn, sites)
    return vpn.as_hub()


def check_several(vpn: Vpn, sites: Sequence[Site]) -> None:
    """Raise UsageError where a site has several networks, and the VPN carries one."""
    for site in sites:
        if (site.more_lans or site.more_lans_ipv6) and not vpn.several_networks:
            raise UsageError(
                f"{site.name} has several networks, and vpneval's recipe of {vpn.name} carries one. Name a network "
                "that contains them, or choose another VPN (docs/two-sites.md, Several networks)"
            )


def check_networks(me: Site, sites: Sequence[Site]) -> None:
    """Raise UsageError where a network that only the tunnel may lead to has in it what gateway ``me`` needs beside it.
    What only the gateway knows, its router and whoever is logged in, up.sh asks there."""
    for peer in (*peers_of(me, sites), *spokes_apart(me, sites)):
        needed = {f"the WAN address of {me.name}": me.wan_address}
        needed |= {f"the address of {each.name}": each.wan_address for each in peers_of(me, sites)}
        four = product(peer.lans, {**dict.fromkeys(me.lans), **dict.fromkeys(me.real_lans)})
        six = product(peer.lans_ipv6, me.lans_ipv6) if peer.network_ipv6 else ()
        for network, own in (*four, *six):
            inside = [
                f"{what}, {address}"
                for what, address in needed.items()
                if is_address(address) and ip_address(address) in ip_network(network)
            ]
            if ip_network(network).overlaps(ip_network(own)):
                inside.append(f"a part of the network of {me.name}, {own}")
            if inside:
                raise UsageError(
                    f"{peer.name}: its network {network} has in it {inside[0]}. Only the tunnel may lead to that "
                    f"network, so {me.name} would be cut off. Name a smaller network of {peer.name}"
                )


def with_wan_port(lines: Sequence[str], peers: Sequence[Site]) -> list[str]:
    """Lines of a script in which the port that leads to the other gateway is looked up: it has a name in the lab, which
    a real gateway's port has not."""
    found = [line.replace(WAN_PORT, '"$wan_port"') for line in lines]
    if found == [*lines]:
        return found
    return [f"wan_port=$(leads_to {shlex.quote(peers[0].wan_address)})", *found]


def values_of(vpn: Vpn, params: Params, me: Site, peers: Sequence[Site], script: RecipeScript) -> dict[str, str]:
    """The values of this gateway for the common scripts. ``closed``: networks that only the tunnel may lead to.
    ``tunnel``: its devices; none where it is IPsec in the kernel."""
    ports = [port for port in vpn.ports.split() if port.startswith("udp") or lower_numbered(me, peers)]
    devices, home = devices_of(vpn, peers, script), me.at_home
    routed = vpn.carries == "ip"
    closed = [lan for peer in peers if routed and devices != ["*"] for lan in peer.lans]
    listens = ports if not higher_numbered(me, peers) else [f"tcp/{TCP_PORTS[0]}"]
    return {
        "gateway": me.name,
        "needs": " ".join(needs(vpn)),
        "ports": " ".join(ports),
        "tunnel": " ".join(devices) if closed else "",
        "own": "" if moves(params, me) else me.wan_address,
        "wan": " ".join(filter(None, (peer.wan_address for peer in peers))),
        "toward": peers[0].wan_address if is_address(peers[0].wan_address) else ANYWHERE[me.path_version],
        # A hub waits for those who move: they dial it.
        "moving": params.get("roaming", "") if not me.hub else me.name * moves(params, me),
        "lan": " ".join(home.lans),
        "lans": " ".join(lan for peer in peers for lan in peer.lans),
        "closed": " ".join(closed),
        "here": home.lan_address,
        "host": home.host_address,
        "there": " ".join(peer.lan_address for peer in peers if routed),
        "listens": " ".join(port.partition("/")[2] for port in listens if not routed),
        "version": str(me.path_version),
        "ping_header": str(PING_HEADER_BYTES[me.path_version]),
        "encapsulation": str(ENCAPSULATION_BYTES[me.path_version]),
    }


def of_several(me: Site, peers: Sequence[Site]) -> dict[str, str]:
    """What check.sh asks for every pair of networks; none where each site has one, and there are two."""
    if not me.hub and not any(site.more_lans for site in (me, *peers)):
        return {}
    fars = [address for peer in peers for address in (peer.lan_address, *map(_host, peer.more_lans))]
    home = me.at_home
    asked = {"hosts": " ".join([home.host_address, *map(_host, home.more_lans)]), "fars": " ".join(fars)}
    spokes = (f"{peer.name}={peer.lan_address}={peer.wan_address}" for peer in peers)
    return asked | ({"spokes": " ".join(spokes)} if me.hub else {})


def of_translation(me: Site) -> dict[str, str]:
    """What the other site has for the addresses here; none where it has the same."""
    if not me.real_lans:
        return {}
    others = [lan for lan in me.lans if lan not in me.real_lans]
    return {"seen": me.lan_address if me.lan in others else "", "seen_as": " ".join(others)}


def of_ipv6(me: Site, peers: Sequence[Site], *, carried: bool) -> dict[str, str]:
    """The values of IPv6, which are empty where the tunnel does not carry it."""
    values = {
        "lans6": " ".join(lan for peer in peers for lan in peer.lans_ipv6),
        "here6": me.lan_address_ipv6,
        "there6": " ".join(peer.lan_address_ipv6 for peer in peers),
    }
    return {name: value if carried else "" for name, value in values.items()}


def _host(network: str) -> str:
    """An address that a host of the network may have."""
    return str(ip_network(network)[2])


def firewalls(own: Sequence[str], others: Sequence[str]) -> str:
    """The table of gateway/firewalls for these networks: what names two of them, for each pair."""
    lines = []
    for line in (GATEWAY / "firewalls").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            lines.append(line)
            continue
        chain, works, commands = line.split("|")
        said = [
            command.format(own=mine, other=other)
            for command in commands.split("; ")
            for mine, other in product(own, others)
        ]
        lines.append("|".join((chain, works, "; ".join(dict.fromkeys(said)))))
    return "\n".join(lines) + "\n"


def devices_of(vpn: Vpn, peers: Sequence[Site], script: RecipeScript) -> list[str]:
    """The tunnel's network devices on a gateway: those that its commands name, and that the plugin declares."""
    naming = r"\b(?:dev|link set|link show|tuntap add) (\S+)"
    found = {name for line in script.lines for name in re.findall(naming, line)} - {WAN_PORT}
    declared = {name.format(peer=peer) for name in vpn.devices.split() for peer in peers}
    return sorted(declared | {name for name in found if not any(fnmatch(name, pattern) for pattern in declared)})


def own_devices(vpn: Vpn, me: Site, sites: Sequence[Site]) -> list[str]:
    """The network devices that the VPN makes on gateway ``me``, some as patterns like ``oc*``."""
    secrets = {name: f"<{name}>" for name in vpn.secrets(KeyMaker(), sites)}
    script = script_of(vpn, vpn.comparable, replace(me, wan_interface=WAN_PORT), sites, secrets)
    return [name for name in devices_of(vpn, peers_of(me, sites), script) if name != "*"]


def packages(vpn: Vpn) -> list[tuple[str, ...]]:
    """The Debian packages that a gateway needs; of alternatives, the first that is available."""
    single = sorted({*vpn.software.packages} - {*vpn.software.daemons})
    return [(name,) for name in dict.fromkeys((*single, *TOOLS.values()))] + [vpn.software.daemons] * bool(
        vpn.software.daemons
    )


def needs(vpn: Vpn) -> list[str]:
    """What a gateway needs: "command=package", or "=package|package" for what brings no command, or one of several."""
    tools = {name: package.partition(",")[0] for name, package in vpn.software.tools.items()} | TOOLS
    bare = [any_of for any_of in packages(vpn) if not {*any_of} & {*tools.values()}]
    return [f"{name}={package}" for name, package in tools.items()] + ["=" + "|".join(any_of) for any_of in bare]


def write(
    vpn: Vpn,
    params: Params,
    sites: Sequence[Site],
    secrets: Secrets,
    folder: Path,
    path_mtu: int | None = None,
    replaces: str = "",
) -> str:
    """Make a directory for each gateway below ``folder``, ``RECIPE-gw1`` and so on, which hold private keys. Return the
    recipe's name.

    Raises UsageError for levels that the VPN does not have, where the folder is not empty, and where it would be the
    same tunnel as that which it ``replaces``.
    """
    check_offered(vpn, params)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"--write {folder}: the directory is not empty. Name a new one")
    name, gateways = name_tunnel(
        vpn, {me.name: gateway_files(vpn, params, me, sites, secrets, path_mtu) for me in sites}
    )
    if name == replaces:
        raise UsageError(f"this vpneval makes the same tunnel of it, {name}: there is nothing to put in its place")
    for gateway, files in gateways.items():
        for path, (text, mode) in {**common(name), **files}.items():
            put(folder / f"{name}-{gateway}" / path, text, mode)
    return name


def put(path: Path, text: str, mode: int) -> None:
    """Write a new file, which nobody else can read until it has its mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
