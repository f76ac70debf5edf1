"""``vpneval recipe``: a tunnel as a page to read, whose commands can be pasted into a shell or run as a script.

What the here-documents make is the directory of runner/vpn/deploy.py, file by file.
"""

from __future__ import annotations

import html
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence

from runner.data.levels import Params
from runner.lab.shape.site import TCP_PORTS, Site, bracket_address, peers_of
from runner.vpn.deploy import Files, common, gateway_files, name_tunnel, packages
from runner.vpn.plugin import Secrets, Vpn, confidential, entry
from runner.vpn.recipe import KeyMaker, check_offered, script_beside

DAYS = 3650  # of the certificates of a pair of gateways
ADDRESS = re.compile(r"(?<![\d.])(10|172|192)\.(\d+)\.(\d+)\.\d+(?![\d.])")
CA = "/root/vpneval-ca"  # what the plugins make their keys in
NONE_YET = f'if [ -e {CA} ]; then echo "{CA} is of an earlier tunnel. Move it away first." >&2; exit 1; fi'
NAME = re.compile(r"<([\w.-]+\.(?:key|crt|pub))>")
PUT = """\
put() { # MODE FILE: the text that follows; for <NAME> in it, what keys/NAME has
    mkdir -p "$(dirname "$2")"
    text=$(cat)
    for key in ../keys/*; do
        if [ -e "$key" ]; then text=${text//"<${key##*/}>"/"$(cat "$key")"}; fi
    done
    lacking='<([a-z0-9.-]+[.](key|crt|pub))>'
    if [[ $text =~ $lacking ]]; then
        echo "keys/${BASH_REMATCH[1]} is missing. Copy it here, and paste this again." >&2
        exit 1
    fi
    printf '%s\\n' "$text" > "$2"
    chmod "$1" "$2"
}
"""


def recipe(vpn: Vpn, params: Params, sites: Sequence[Site], days: int = DAYS) -> str:
    """The commands alone: those that make the keys, those of what the VPN needs beside its gateways, and each
    gateway's own files. The secrets are named placeholders.

    Raises UsageError for levels that the VPN does not have.
    """
    keys, secrets, gateways = _on_paper(vpn, params, sites, None, days)
    lines = [f"# {title(vpn, params)}", *_keys(keys, secrets)]
    if vpn.beside:
        script = script_beside(vpn, params, sites, {name: f"<{name}>" for name in secrets})
        lines += ["", f"## {vpn.beside}", *_puts(script.files), *script.lines]
    for me in reversed(sites):
        lines += ["", f"## {me.name}", *_puts(gateways[me.name])]
    return "\n".join(lines) + "\n"


def page(
    vpn: Vpn,
    params: Params,
    sites: Sequence[Site],
    path_mtu: int | None = None,
    days: int = DAYS,
    versions: Mapping[str, str] | None = None,
    *,
    written: str = "",
    replaces: str = "",
    added: Collection[str] = (),
    example: bool = False,
    mtu_to_set: Mapping[str, int] | None = None,
) -> str:
    """How to set the tunnel up, keep it and take it back, in Markdown. ``written``: the name of the recipe for which
    ``--write`` has made keys and directories; ``replaces``: that of the tunnel in whose place it comes, on all gateways
    but those ``added``. ``versions``: package -> the version that was measured. ``example``: the addresses are the
    lab's, and are to be replaced. ``mtu_to_set``: the MTU ``inside`` that a run has found the tunnel to need on a
    narrow ``path`` without ICMP, bytes.

    Raises UsageError for levels that the VPN does not have.
    """
    keys, secrets, gateways = _on_paper(vpn, params, sites, path_mtu, days)
    name, gateways = name_tunnel(vpn, gateways)
    parts = [f"# {title(vpn, params)}\n", *_warnings(vpn, params), *_needs(vpn, sites, gateways, versions or {})]
    parts += _addresses(vpn, sites, example, ipv6="inner" in params)
    if not written:
        if secrets:
            parts += [
                "## Keys\n",
                *_about_keys(keys, secrets, days),
                _block("set -eu; umask 077", *[NONE_YET] * _has_ca(keys), *_keys(keys, secrets)),
                "Copy to each gateway what it needs, and no other private key:\n",
                *_copies(sites, gateways),
            ]
        parts += [
            "## Every gateway\n",
            "These scripts and units are the same on every gateway. Paste this as root, in root's home directory.\n",
            _block(f"set -eu; umask 077; mkdir -p {name}; cd {name}", PUT.rstrip(), *_puts(common(name))),
        ]
    for me in reversed(sites):
        option = f" --replace {replaces}" if replaces and me.name not in added else ""
        parts += [f"## Gateway {me.name}\n"]
        if written:
            directory = f"{written}-{me.name}"
            copies = shlex.join(["scp", "-r", *me.reached_with, directory])
            parts += [f"    {copies} {_for_scp(_login(me))}:\n    {_runs(me)} {directory}/up.sh{option}\n"]
        else:
            parts += [
                "Paste this as root, in the same directory. Each `put` makes a file; up.sh installs the packages, puts "
                "the files in place and starts the tunnel. At the end it says so.\n",
                _block(f"set -eu; umask 077; cd {name}", PUT.rstrip(), *_puts(gateways[me.name]), "./up.sh"),
            ]
    if replaces:
        parts += ["Run them soon after each other. To bring the earlier tunnel back, whose directories stay there:\n"]
        parts += [f"    {line}" for line in back(sites, replaces, written, added)] + [""]
    parts += _afterwards(vpn, sites, written or name, mtu_to_set or {}, written=bool(written), ipv6="inner" in params)
    return "\n".join(parts)


def back(sites: Sequence[Site], earlier: str, present: str, added: Collection[str] = ()) -> list[str]:
    """The commands that put the ``earlier`` tunnel into the place of the ``present`` one, which some gateways were
    ``added`` to."""
    return [
        f"{_runs(me)} {present}-{me.name}/down.sh"
        if me.name in added
        else f"{_runs(me)} {earlier}-{me.name}/up.sh --replace {present}"
        for me in reversed(sites)
    ]


def title(vpn: Vpn, params: Params) -> str:
    """What is set up: the VPN and its levels."""
    return f"{vpn.title}: {', '.join(f'{name} {level}' for name, level in params.items())}"


def encryption_warning(vpn: Vpn, params: Params) -> str:
    """The warning where nothing is encrypted at these levels; else ""."""
    if confidential(params):
        return ""
    return f"{vpn.title} does not encrypt at these levels: everybody on the path can read what it carries."


def _on_paper(
    vpn: Vpn, params: Params, sites: Sequence[Site], path_mtu: int | None, days: int
) -> tuple[KeyMaker, Secrets, dict[str, Files]]:
    """What makes the keys, their placeholders as the key maker knows them, and each gateway's files with names."""
    check_offered(vpn, params)
    keys = KeyMaker(days)
    secrets = vpn.secrets(keys, sites)
    named = {name: f"<{name}>" for name in secrets}
    return keys, secrets, {me.name: gateway_files(vpn, params, me, sites, named, path_mtu) for me in sites}


def _warnings(vpn: Vpn, params: Params) -> list[str]:
    warning = encryption_warning(vpn, params)
    return [f"**{warning}**\n"] * bool(warning) + [f"Note: {vpn.note}.\n"] * bool(vpn.note)


def _needs(vpn: Vpn, sites: Sequence[Site], gateways: dict[str, Files], versions: Mapping[str, str]) -> Iterator[str]:
    yield "## What you need\n"
    names = [" or ".join(any_of) for any_of in packages(vpn)]
    yield f"- Gateways with Debian, its systemd, and root on them. up.sh installs: {', '.join(names)}."
    if versions:
        measured = ", ".join(f"{_flat(name)} {_flat(version)}" for name, version in versions.items())
        yield f"- Measured were {measured}. Another version may be faster or slower."
    if vpn.software.version:
        yield f"- Of version {vpn.software.version}: vagrant/layers/{vpn.software.layer}.sh of vpneval builds it."
    elif vpn.software.layer:
        yield f"- Debian does not have all of them: vagrant/layers/{vpn.software.layer}.sh of vpneval builds the rest."
    if vpn.ports:
        yield f"- If there is a firewall, let in, from the other gateways: {', '.join(vpn.ports.split())}."
    elif vpn.transport in ("esp", "gre", "ipip"):
        yield f"- If there is a firewall, let in, from the other gateways: the IP protocol {vpn.transport.upper()}."
    if vpn.carries == "ip":
        lans = dict.fromkeys(lan for site in sites for lan in (site.at_home.lan, site.lan))
        yield f"- If there is a firewall, let it forward between {' and '.join(lans)}."
        yield "- up.sh turns IP forwarding on, for all interfaces of the gateway."
    if vpn.software.needs:
        yield f"- {vpn.software.needs}"
    if vpn.carries == "ip":
        yield "- The hosts of each site reach the other one by their gateway. If their router is another machine, give"
        yield "  it a route: " + "; ".join(
            f"at {me.name}, to {site.lan} by {me.at_home.lan_address}" for me in sites for site in peers_of(me, sites)
        )
    if inner := _inner(sites, gateways):
        yield f"- No address of yours may be in the networks that the tunnel has for itself: {', '.join(inner)}"
    yield ""


def _flat(text: str) -> str:
    """A text of others as one line of text, in which nothing is code, a tag or a link."""
    return re.sub(r"[`*|\[\]]", "", html.escape(" ".join(text.split()), quote=False))


def _addresses(vpn: Vpn, sites: Sequence[Site], example: bool, *, ipv6: bool) -> Iterator[str]:
    yield "## Addresses" + (" to replace\n" if example else "\n")
    if example:
        yield "These are examples. Print this page with yours by `vpneval recipe` and `--site SITES.toml`, or replace"
        yield "them everywhere below.\n"
    yield "| gateway | its WAN address | the network behind it | its address there |\n| --- | --- | --- | --- |"
    for site in sites:
        lan, own = site.at_home.lan, site.at_home.lan_address
        if site.real_lans:
            lan, own = f"{lan}, seen as {site.lan}", f"{own}, seen as {site.lan_address}"
        if ipv6:
            lan, own = f"{lan}, {site.lan_ipv6}", f"{own}, {site.lan_address_ipv6}"
        yield f"| {site.name} | {site.public_address or site.wan_address} | {lan} | {own} |"
    if vpn.carries == "tcp":
        ports = ", ".join(map(str, TCP_PORTS))
        yield f"\nIt forwards TCP to ports {ports} of {sites[-1].host_address}. Replace those, too."
    if sites[-1].joins:
        yield f"\nWhat {' and '.join(site.name for site in sites[:-1])} send each other goes by the hub."
    elif sites[-1].hub:
        yield "\nSpokes reach the hub's networks alone: what one has for another one is dropped. To let it pass by the"
        yield "hub, write `between_spokes = true` into the first line of sites.toml, and make the recipe anew."
    yield ""


def _inner(sites: Sequence[Site], gateways: dict[str, Files]) -> list[str]:
    """The networks of the tunnel itself: those in its files that are nobody's site."""
    text = "\n".join(content for files in gateways.values() for content, _ in files.values())
    ours = "\n".join(str(site) for site in sites)
    networks = {".".join(match.groups()) for match in ADDRESS.finditer(text) if match[0].rpartition(".")[0] not in ours}
    return sorted(f"{network}.0/24" for network in networks)


def _keys(keys: KeyMaker, secrets: Secrets) -> list[str]:
    return ["mkdir keys", *keys.written(secrets)] if secrets else []


def _has_ca(keys: KeyMaker) -> bool:
    """Do the commands that make the keys use the directory ``CA``?"""
    return any(CA in " ".join(argv) for argv, _ in keys.commands)


def _about_keys(keys: KeyMaker, secrets: Secrets, days: int) -> Iterator[str]:
    """Where the keys are made, by what, and what has them afterwards."""
    tools = sorted({argv[0] for argv, _ in keys.commands} - {"cat", "mkdir", "rm"})
    needs = f", which needs {' and '.join(tools)}" if tools else ""
    has = f"`keys` and {CA} have" if _has_ca(keys) else "`keys` has"
    yield (
        f"Paste this as root on a machine that you trust{needs}. Afterwards {has} all private keys. Remove them when "
        "every gateway has its own.\n"
    )
    if any(name.endswith(".crt") for name in secrets):
        yield (
            f"The certificates are valid for {days} days. Keep {CA} if the same CA is to sign others: it "
            "has the CA's private key.\n"
        )


def _copies(sites: Sequence[Site], gateways: dict[str, Files]) -> Iterator[str]:
    for me in reversed(sites):
        names = sorted({name for text, _ in gateways[me.name].values() for name in NAME.findall(text)})
        root = f"root@{_login(me).rpartition('@')[2]}"  # who pastes the rest
        yield f"    {shlex.join(['ssh', *me.reached_with])} {root} mkdir -pm 700 keys"
        copies = shlex.join(["scp", *me.reached_with, *(f"keys/{name}" for name in names)])
        yield f"    {copies} {_for_scp(root)}:keys/"
    yield ""


def _runs(me: Site) -> str:
    """The words before a command of a reader's ssh that root runs on the gateway."""
    login, command = _login(me), shlex.join(["ssh", *me.reached_with])
    return f"{command} {login}" if login.startswith("root@") else f"{command} -t {login} sudo"


def _login(me: Site) -> str:
    """How a reader's ssh reaches the gateway."""
    return shlex.quote(me.login or f"root@{me.public_address or me.wan_address}")


def _for_scp(login: str) -> str:
    """The same for scp, to which an address with colons is one in brackets (scp(1))."""
    user, _, address = login.rpartition("@")
    return f"'{user}@{bracket_address(address)}'" if ":" in address else login


def _puts(files: Files) -> Iterator[str]:
    for path, (text, mode) in files.items():
        yield f"put {mode:o} {shlex.quote(path)} << 'EOF'\n{text.rstrip()}\nEOF"


def _block(*lines: str) -> str:
    """Commands for a terminal: a subshell is read to its end before its first command runs, and what fails in it ends
    it, not the reader's shell."""
    return "\n".join(["```bash", "(", *lines, ") < /dev/null", "```\n"])


def _afterwards(
    vpn: Vpn, sites: Sequence[Site], name: str, mtu_to_set: Mapping[str, int], *, written: bool, ipv6: bool
) -> Iterator[str]:
    """``name``: the recipe's, which begins that of its directory."""
    directory = f"{name}-GATEWAY" if written else f"~/{name}"
    yield "## Check\n"
    for command in [f"{_runs(me)} {name}-{me.name}" for me in sites] if written else [directory]:
        yield f"    {command}/check.sh"
    yield ""
    near, far = sites[0].at_home.host_address, sites[-1].host_address
    if vpn.carries == "ip":
        yield (
            "Run it on every gateway. It sends a packet like a host's, and reports what blocks it, or leaks around the "
            f"tunnel. Then hosts reach each other: `ping {far}` on {near}, or with two others of both networks.\n"
        )
    else:
        yield f"Then {near} reaches those ports of {far} at {entry(vpn, sites)}.\n"
    yield "## Afterwards\n"
    yield (
        f"- **A reboot, or a daemon that ends**: the unit vpneval-tunnel@{name} starts the tunnel at every boot, "
        "and anew 5 s after one of its daemons has ended; the other gateway may take a minute to notice. `journalctl "
        f"-u vpneval-tunnel@{name}` has their messages."
    )
    if vpn.carries == "ip":
        families = (
            "A table of the same name for `ip6` does it for IPv6, which the tunnel carries, too. A gateway that "
            "forwards IPv6 hears no router's advertisements any more; where a port took its routes from them, up.sh "
            "sets accept_ra=2."
            if ipv6
            else "The tunnel carries IPv4 alone; check.sh says if the sites have IPv6, and what to do."
        )
        yield (
            f"- **Nothing leaves past the tunnel**, whether it is up or not: the unit vpneval-closed@{name} holds the "
            f"nftables table `ip vpneval_closed_{name}`, which drops what is for the other site and not in the tunnel, "
            "after every NAT, and keeps what is between the sites out of the gateway's NAT. Nobody else can change or "
            "flush it. Leave it out where you save the output of `nft list ruleset`. Between the sites, hosts' private "
            f"IPv6 (fc00::/7) does not go by the ports that lead to the Internet either. {families}"
        )
        yield (
            "- **Packet sizes**: `tunnel` looks for the longest packet that the path carries, by pings, and takes 1400 "
            "bytes where none comes through. The tunnel's device and TCP between the sites get sizes that fit; nothing "
            "is fragmented. Where you know better, write the path's mtu=BYTES into "
            f"files/etc/vpneval/{name}/gateway.sh of the directory on every gateway, and run up.sh there."
        )
        if mtu_to_set:
            yield (
                "- **A narrow path whose ICMP is lost**: measured, this tunnel carried no TCP on one; with an MTU of "
                "{inside} bytes inside it did, on a path of {path}. If downloads hang, write mtu={path} there."
            ).format_map(mtu_to_set)
    yield "- **To change something**: edit the files in the directory and run up.sh again."
    yield (
        f"- **Other tunnels**: this one is named {name}. A gateway may have several, each to networks of its own, with "
        "a device and a port of its own; the scripts touch theirs only. To put this one in the place of one that leads "
        "to the same networks, run `up.sh --replace NAME` on every gateway. It first closes the way past this one, and "
        "then takes the other one down: hosts wait until both gateways have it, and nothing leaves in the clear."
    )
    yield (
        f"- **To undo it**: {directory}/down.sh stops the tunnel, removes what up.sh put in place and brings back what "
        f"was there before. /etc/vpneval/{name}/down.sh does the same without the directory. From then on, packets to "
        "the other site take the gateway's other routes, in the clear. Packages stay. Then remove the directory"
        + (" and `keys`" if not written else "")
        + " on "
        "every gateway, since private keys are in there.\n"
    )
