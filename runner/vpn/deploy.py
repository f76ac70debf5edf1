"""``vpneval recipe --write``: a tunnel as two directories, one for each gateway, that bring it up without vpneval."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from runner.data.errors import UsageError
from runner.data.levels import Params
from runner.lab.node import Completed
from runner.lab.site import ENCAPSULATION_BYTES, Site, peers_of
from runner.vpn.plugin import Secrets, Vpn, offered
from runner.vpn.recipe import QUESTIONS, Paper, PaperProcess

HOME = "/etc/vpneval"
UNIT = "vpneval-tunnel.service"
WAITS = 100  # times a tenth of a second
FUNCTIONS = f"""\
until_there() {{  # a command that succeeds, and says something if it is asked to
    for attempt in $(seq {WAITS}); do
        if said=$("$@" 2> /dev/null) && [ "$1" != ss -o -n "$said" ]; then return 0; fi
        sleep 0.1
    done
    echo "this did not happen: $*" >&2; return 1
}}
"""
TABLE = "vpneval_tunnel"
TOOLS = ("nftables", "iputils-ping")  # of every tunnel
UNKNOWN_MTU = 1400  # where no ping comes through: too short costs little, too long loses packets
LONGEST = (1500, 1492, 1480, 1472, 1460, 1454, 1450, 1440, 1430, 1420, 1400, 1380, 1360, 1340, 1320, 1300, 1280)
PING_BYTES = {4: 28, 6: 48}
TCP_BYTES = 40
TRAP = "trap 'kill $(jobs -p) 2> /dev/null' EXIT  # its daemons end with the script\n"


END = "wait -n\n"  # one daemon's end ends the script, and systemd starts all of it anew


class Script(Paper):
    """A ``Paper`` whose lines are a shell script: what the plugin waits for, the script waits for; ``undo`` are the
    commands that take it back. ``dials``: the plugin's (``Software.dials``)."""

    def __init__(self, name: str, dials: Mapping[str, str]) -> None:
        super().__init__(name)
        self.dials = dials
        self.files: dict[str, tuple[str, int]] = {}
        self.undo: list[str] = []
        self.daemons = 0

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """Note the command; what it reads comes with it. A question after a daemon has started is a wait."""
        if argv[0] in QUESTIONS or (argv[:3] == ("ip", "link", "show") and not check):
            if self.daemons:
                self.lines.append(f"until_there {shlex.join(argv)}")
        elif there := self._dialed(argv):
            self.lines.append(f"until {shlex.join(argv)} || {there}; do sleep 2; done")
        else:
            here = f" <<'END'\n{input.rstrip()}\nEND" if input is not None else ""
            self.lines.append(shlex.join(argv) + ("" if check else " || true") + here)
        return Completed(0, f"<output of {argv[0]}> :2222 ", "")

    def _dialed(self, argv: Sequence[str]) -> str:
        """The command that succeeds once what ``argv`` dials is there; "" where it does not dial."""
        said = shlex.join(argv)
        return next((there for begin, there in self.dials.items() if said.startswith(f"{begin} ")), "")

    def spawn(self, *argv: str, log: str) -> PaperProcess:
        """Note the command as a daemon, whose messages go to the journal."""
        self.daemons += 1
        return super().spawn(*argv, log=log)

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Keep the file."""
        self.files[path] = text, mode

    def defer(self, *argv: str) -> None:
        """Note the undo, which is done before those that came earlier."""
        self.undo.insert(0, shlex.join(argv) + " 2> /dev/null || true")


def write(
    vpn: Vpn, params: Params, sites: Sequence[Site], secrets: Secrets, folder: Path, path_mtu: int | None = None
) -> list[Path]:
    """Make ``folder``/gw1 and ``folder``/gw2: files, a script that starts the tunnel and one that ends it, a unit of
    systemd, and ``install``, which puts all of it in place. Returns the directories, which hold private keys.
    ``path_mtu``: bytes; None: the scripts find it by pings.

    Raises UsageError for levels that the VPN does not have, and where the folder is not empty.
    """
    if no := offered(vpn, params):
        raise UsageError(f"{vpn.name}: {no.reason}")
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"--write {folder}: the directory is not empty. Name a new one")
    for me in sites:
        script = _script(vpn, params, me, peers_of(me, sites), secrets, path_mtu)
        for path, (text, mode) in script.files.items():
            _put(folder / me.name / "files" / path.lstrip("/"), text, mode)
        _put(folder / me.name / "install", _install(vpn, script), 0o700)
    return [folder / me.name for me in sites]


def printed(vpn: Vpn, params: Params, sites: Sequence[Site], path_mtu: int | None = None) -> str:
    """The packages, and for each gateway the scripts and the unit that ``write`` makes: to read, without keys.

    Raises UsageError for levels that the VPN does not have.
    """
    if no := offered(vpn, params):
        raise UsageError(f"{vpn.name}: {no.reason}")
    secrets = {name: f"<{name}>" for name in vpn.secrets(Paper("a trusted machine"), sites)}
    text = ["## Packages, on both gateways", f"apt-get install {' '.join(any_of[0] for any_of in packages(vpn))}"]
    text += [f"# where there is no {one}: {' or '.join(others)}" for one, *others in packages(vpn) if others]
    for me in sites:
        files = _script(vpn, params, me, peers_of(me, sites), secrets, path_mtu).files
        text += ["", f"## {me.name}, instead of those commands: a unit that starts the tunnel, and ends it"]
        for path in (f"{HOME}/start", f"{HOME}/stop", f"/etc/systemd/system/{UNIT}"):
            content, mode = files[path]
            text.append(f"install -D -m {mode:o} /dev/stdin {path} <<'FILE'\n{content.rstrip()}\nFILE")
        text.append(f"systemctl daemon-reload && systemctl enable --now {UNIT}")
    return "\n".join(text) + "\n"


def _script(
    vpn: Vpn, params: Params, me: Site, peers: Sequence[Site], secrets: Secrets, path_mtu: int | None
) -> Script:
    """A gateway's files: the VPN's own, ``start`` and ``stop``, and the unit."""
    script = Script(me.name, vpn.software.dials)
    for path, text in vpn.render(me, peers, params, secrets).items():
        script.write(path, text)
    vpn.start(script, me, peers, params)
    head = f"# {vpn.title} on {me.name}, to {', '.join(peer.name for peer in peers)}: {', '.join(params.values())}\n"
    start = f"#!/bin/bash\n{head}set -e\n{FUNCTIONS}{TRAP}sysctl -qw net.ipv4.ip_forward=1\n"
    fit = _fit(me, peers, path_mtu)
    script.write(f"{HOME}/start", f"{start}{fit}" + "\n".join(script.lines) + f"\n{END}", 0o700)
    undo = [f"nft delete table inet {TABLE} 2> /dev/null || true", *script.undo]
    script.write(f"{HOME}/stop", f"#!/bin/bash\n{head}" + "\n".join([*undo, "true\n"]), 0o700)
    script.write(f"/etc/systemd/system/{UNIT}", _unit(vpn, peers), 0o644)
    return script


def _fit(me: Site, peers: Sequence[Site], path_mtu: int | None) -> str:
    """The lines that make packets fit into the tunnel: an MSS for TCP between the sites, and the MTU of the tunnel's
    device, where it has one. Devices that were there before it are nobody's tunnel."""
    version, lans = me.path_version, ", ".join(peer.lan for peer in peers)
    asking = f"ping -{version} -c 2 -i 0.2 -W 1 {peers[0].wan_address}"
    known = f"mtu={path_mtu}  # of the path, as the inventory says\n"
    asked = f"""\
# The longest packet to the other gateway, bytes.
mtu={UNKNOWN_MTU}
if {asking} > /dev/null 2>&1; then
    for bytes in {" ".join(map(str, LONGEST))}; do
        if {asking} -M do -s $((bytes - {PING_BYTES[version]})) > /dev/null 2>&1; then mtu=$bytes; break; fi
    done
fi
"""
    return f"""\
{known if path_mtu else asked}\
inner=$((mtu - {ENCAPSULATION_BYTES[version]}))
nft -f - <<END
table inet {TABLE} {{
    chain forward {{
        type filter hook forward priority mangle; policy accept;
        ip daddr {{ {lans} }} tcp flags & (syn | rst) == syn tcp option maxseg size set $((inner - {TCP_BYTES}))
        ip saddr {{ {lans} }} tcp flags & (syn | rst) == syn tcp option maxseg size set $((inner - {TCP_BYTES}))
    }}
}}
END
before=$(ls /sys/class/net)
while sleep 1; do
    for host in {" ".join(peer.host_address for peer in peers)}; do
        device=$(ip -o route get "$host" 2> /dev/null | grep -o ' dev [^ ]*' | cut -c6-)
        if [ -n "$device" ] && ! echo "$before" | grep -qx "$device"; then
            if [ "$(cat "/sys/class/net/$device/mtu")" -gt "$inner" ]; then
                ip link set "$device" mtu "$inner" || true
            fi
        fi
    done
done &
"""


def _put(path: Path, text: str, mode: int) -> None:
    """A new file that nobody else can read until it has its mode."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.touch(0o600)
    path.write_text(text)
    path.chmod(mode)


def _unit(vpn: Vpn, peers: Sequence[Site]) -> str:
    return f"""\
[Unit]
Description=Tunnel: {vpn.title}, to {", ".join(peer.wan_address for peer in peers)}
Wants=network-online.target
After=network-online.target

[Service]
ExecStartPre={HOME}/stop
ExecStart={HOME}/start
ExecStopPost={HOME}/stop
Restart=always
RestartSec=5

[Install]
WantedBy=multi-user.target
"""


def packages(vpn: Vpn) -> list[tuple[str, ...]]:
    """The Debian packages that a gateway needs; of several together, the first that there is."""
    single = sorted({*vpn.software.packages} - {*vpn.software.daemons})
    return [(name,) for name in dict.fromkeys((*single, *TOOLS))] + [vpn.software.daemons] * bool(vpn.software.daemons)


INSTALLING = """\
there() { dpkg-query -W -f '${Status}' "$1" 2> /dev/null | grep -q "ok installed"; }
add() {
    # As the lab image has it: recommended packages may even be another kernel.
    apt-get install -y --no-install-recommends "$1" || return 1
    # The package's own services would be in the way.
    for unit in $(dpkg -L "$1" | sed -n 's|.*/systemd/system/\\([^@]*[.]service\\)$|\\1|p'); do
        systemctl disable --now "$unit" || true
    done
}"""


def _install(vpn: Vpn, script: Script) -> str:
    """The script that puts a gateway's directory in place, as root there."""
    there = [" || ".join(f"there {name}" for name in any_of) for any_of in packages(vpn)]
    add = [" || ".join(f"add {name}" for name in any_of) for any_of in packages(vpn)]
    names = [" or ".join(any_of) for any_of in packages(vpn)]
    lines = [
        "#!/bin/sh",
        f"# Installs {vpn.title} on {script.name}. Run it there, as root.",
        "set -e",
        "export DEBIAN_FRONTEND=noninteractive",
        'cd "$(dirname "$0")/files"',
        INSTALLING,
        "missing= failed=",
        *(f"{one} || missing=yes" for one in there),
        'if [ -n "$missing" ]; then',
        '    apt-get update || echo "The lists of packages could not be renewed." >&2',
        *(
            f'    {one} || {other} || failed="$failed, {name}"'
            for one, other, name in zip(there, add, names, strict=True)
        ),
        "fi",
        'if [ -n "$failed" ]; then',
        '    echo "These packages could not be installed: ${failed#, }. The tunnel was not set up." >&2',
        '    echo "Install them, and run this again." >&2',
        "    exit 1",
        "fi",
        *(
            f"install -D -m {mode:o} {shlex.quote(path.lstrip('/'))} {shlex.quote(path)}"
            for path, (_, mode) in script.files.items()
        ),
        "if [ -d /run/systemd/system ]; then",
        f"    systemctl daemon-reload && systemctl enable --now {UNIT}",
        "else",
        f'    echo "without systemd, start the tunnel with: {HOME}/start"',
        "fi",
    ]
    return "\n".join(lines) + "\n"
