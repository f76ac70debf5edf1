"""``vpneval recipe``: the runbook of a tunnel, from the plugin itself run against a node that only writes down."""

from __future__ import annotations

import shlex
from pathlib import Path

from runner.data.errors import UsageError
from runner.data.levels import Params
from runner.lab.node import Completed
from runner.lab.site import Site, peers_of
from runner.lab.site_to_site import SITES
from runner.vpn.plugin import Vpn, entry, offered

# Questions that a plugin asks; a person looks instead of typing them.
QUESTIONS = ("test", "ss", "find")


class Paper:
    """A ``Node`` that runs nothing: it notes every command, and answers as if it had worked."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.lines: list[str] = []

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        """Note the command, unless it only asks. Its output is a placeholder."""
        if argv[0] not in QUESTIONS:
            self.lines.append(shlex.join(argv) + (" < (the line before)" if input else ""))
        return Completed(0, f"<output of {argv[0]}> :2222 ", "")

    def spawn(self, *argv: str, log: str) -> PaperProcess:
        """Note the command as one in the background."""
        self.lines.append(shlex.join(argv) + " &")
        return PaperProcess()

    def logged(self, log: str) -> str:
        """Nothing: no daemon ran."""
        return ""

    def write(self, path: str, text: str, mode: int = 0o600) -> None:
        """Note the command that makes this file."""
        self.lines.append(f"install -D -m {mode:o} /dev/stdin {path} <<'END'\n{text.rstrip()}\nEND")

    def defer(self, *argv: str) -> None:
        """Nothing: a recipe is not undone."""


class PaperProcess:
    """A background command that was only written down: a ``Process`` that has always just ended well."""

    log = Path("/dev/null")

    def alive(self) -> bool:
        """Yes, for who waits until it is up."""
        return True

    def stop(self) -> None:
        """Nothing: it never ran."""

    def wait(self, timeout: float) -> int:
        """Its exit code, 0."""
        return 0


def recipe(vpn: Vpn, params: Params, sites: tuple[Site, ...] = SITES) -> str:
    """Files and commands that set this tunnel up on plain gateways, two or more; secrets are named placeholders.

    Raises UsageError for levels that the VPN does not have.
    """
    if no := offered(vpn, params):
        raise UsageError(f"{vpn.name}: {no.reason}")
    ca = Paper("a trusted machine")
    secrets = {name: f"<{name}>" for name in vpn.secrets(ca, sites)}
    text = [
        f"# {vpn.title}: {', '.join(f'{name} {level}' for name, level in params.items())}",
        *(f"#   {site.name}: WAN {site.wan_address}, LAN {site.lan} ({site.lan_address})" for site in sites),
        f"# {'Both' if len(sites) == 2 else 'All'} gateways forward: sysctl -w net.ipv4.ip_forward=1",
        "# The daemons are started by hand here: stop and mask the services that their packages bring.",
    ]
    if ca.lines:
        text += ["", "## Keys, on a trusted machine; <NAME> below stands for the content of that key or certificate"]
        text += [line for line in ca.lines if not line.startswith("cat ")]
    for site in reversed(sites):
        paper = Paper(site.name)
        peers = peers_of(site, sites)
        for path, content in vpn.render(site, peers, params, secrets).items():
            paper.write(path, content)
        vpn.start(paper, site, peers, params)
        text += ["", f"## {site.name}", *paper.lines]
    text += ["", f"# Then {sites[0].host_address} reaches {sites[-1].host_address} at {entry(vpn, sites)}."]
    return "\n".join(text) + "\n"
