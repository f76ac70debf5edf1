"""A gateway's directory: all that brings one end of a tunnel up without vpneval, and keeps it up.

``recipe --write`` makes it; the page that ``recipe`` prints makes the same with here-documents (runner/vpn/page.py).
up.sh, check.sh, down.sh, the functions and the units are in runner/vpn/gateway/ as they are on the gateway. What
differs from VPN to VPN: its own files, ``tunnel`` (the plugin's commands), ``undo``, and the values in ``gateway.sh``.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.data.errors import UsageError
from runner.data.levels import Params
from runner.lab.shape.site import ENCAPSULATION_BYTES, TCP_PORTS, Site, higher_numbered, lower_numbered, peers_of
from runner.vpn.plugin import Secrets, Vpn
from runner.vpn.recipe import Script, check_offered, script_of

HOME = "/etc/vpneval"
UNIT = "vpneval-tunnel.service"
TABLE = "vpneval_tunnel"
TOOLS = ("nftables", "iputils-ping", "iproute2", "procps")  # of every tunnel
PING_HEADER_BYTES = {4: 28, 6: 48}
GATEWAY = Path(__file__).with_name("gateway")
Files = Mapping[str, tuple[str, int]]  # path in the directory -> text, mode


def common() -> Files:
    """The files that are the same in the directory of every gateway and VPN."""
    scripts = {name: ((GATEWAY / name).read_text(encoding="utf-8"), 0o700) for name in ("up.sh", "check.sh", "down.sh")}
    places = {
        "functions.sh": HOME,
        "vpneval-tunnel.service": "/etc/systemd/system",
        "vpneval-closed.service": "/etc/systemd/system",
    }
    installed = {
        f"files{place}/{name}": ((GATEWAY / name).read_text(encoding="utf-8"), 0o644) for name, place in places.items()
    }
    return {**scripts, **installed}


def own(vpn: Vpn, params: Params, me: Site, sites: Sequence[Site], secrets: Secrets, path_mtu: int | None) -> Files:
    """The files of the directory that only gateway ``me`` has."""
    script, peers = script_of(vpn, params, me, sites, secrets), peers_of(me, sites)
    head = f"# {vpn.title} on {me.name}, to {', '.join(peer.name for peer in peers)}\n"
    files = {f"files{path}": file for path, file in script.files.items()}
    lines, undone = (with_wan_port(lines, me, peers) for lines in (script.lines, script.undo))
    start = "\n".join(["begin", *lines, "end\n"])
    files[f"files{HOME}/tunnel"] = f"#!/bin/bash\n{head}. {HOME}/functions.sh\n{start}", 0o700
    undo = "\n".join([f"nft delete table inet {TABLE} 2> /dev/null || true", *undone, "true\n"])
    files[f"files{HOME}/undo"] = f"#!/bin/bash\n{head}{undo}", 0o700
    values = "".join(f"{name}={shlex.quote(value)}\n" for name, value in values_of(vpn, me, peers, script).items())
    mtu = f"mtu={path_mtu or ''} # of the path, bytes; empty: found by pings\n"
    files[f"files{HOME}/gateway.sh"] = f"{head}{values}{mtu}", 0o644
    return files


def with_wan_port(lines: Sequence[str], me: Site, peers: Sequence[Site]) -> list[str]:
    """Lines of a script in which the port that leads to the other gateway is looked up: it has a name in the lab, which
    a real gateway's port has not."""
    named = [re.sub(rf"\b{re.escape(me.wan_interface)}\b", '"$wan_port"', line) for line in lines]
    if named == [*lines]:
        return named
    return [f"wan_port=$(ip -o route get {peers[0].wan_address} | grep -o ' dev [^ ]*' | cut -c6-)", *named]


def values_of(vpn: Vpn, me: Site, peers: Sequence[Site], script: Script) -> dict[str, str]:
    """The values of this gateway for the common scripts. ``closed``: networks that only the tunnel may lead to."""
    ports = [port for port in vpn.ports.split() if port.startswith("udp") or lower_numbered(me, peers)]
    routed = vpn.carries == "ip"
    listens = ports if not higher_numbered(me, peers) else [f"tcp/{TCP_PORTS[0]}"]
    naming = r"\b(?:dev|link set|link show|tuntap add) (\S+)"
    named = {name for line in script.lines for name in re.findall(naming, line)}
    made = sorted(named - {me.wan_interface})
    return {
        "packages": " ".join("|".join(any_of) for any_of in packages(vpn)),
        "ports": " ".join(ports),
        "devices": " ".join(made),
        "wan": " ".join(peer.wan_address for peer in peers),
        "lans": " ".join(peer.lan for peer in peers),
        "closed": " ".join(peer.lan for peer in peers if routed),
        "here": me.lan_address,
        "there": " ".join(peer.lan_address for peer in peers if routed),
        "listens": " ".join(port.partition("/")[2] for port in listens if not routed),
        "version": str(me.path_version),
        "ping_header": str(PING_HEADER_BYTES[me.path_version]),
        "encapsulation": str(ENCAPSULATION_BYTES[me.path_version]),
    }


def packages(vpn: Vpn) -> list[tuple[str, ...]]:
    """The Debian packages that a gateway needs; of alternatives, the first that is available."""
    single = sorted({*vpn.software.packages} - {*vpn.software.daemons})
    return [(name,) for name in dict.fromkeys((*single, *TOOLS))] + [vpn.software.daemons] * bool(vpn.software.daemons)


def write(
    vpn: Vpn, params: Params, sites: Sequence[Site], secrets: Secrets, folder: Path, path_mtu: int | None = None
) -> list[Path]:
    """Make ``folder``/gw1 and ``folder``/gw2, which hold private keys, and return them.

    Raises UsageError for levels that the VPN does not have, and where the folder is not empty.
    """
    check_offered(vpn, params)
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"--write {folder}: the directory is not empty. Name a new one")
    for me in sites:
        for path, (text, mode) in {**common(), **own(vpn, params, me, sites, secrets, path_mtu)}.items():
            put(folder / me.name / path, text, mode)
    return [folder / me.name for me in sites]


def put(path: Path, text: str, mode: int) -> None:
    """Write a new file, which nobody else can read until it has its mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(text, encoding="utf-8")
    path.chmod(mode)
