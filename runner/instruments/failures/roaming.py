"""What a gateway's configuration needs before its address may change: the plugins pin both addresses otherwise."""

from __future__ import annotations

import re

from runner.data.levels import Params
from runner.lab.site import Site
from runner.vpn.plugin import Secrets, Vpn

# Line (regular expression) -> what stands there on a roaming gateway, and on its peer. None: as it is.
# swanctl.conf(5): mobike, %any; openvpn(8): without --local it binds to every address, --float accepts a new one;
# fastd.readthedocs.io (bind, peer: float); nebula.defined.net/docs/config/listen (host).
CHANGES: dict[str, tuple[str | None, str | None]] = {
    r"(?m)^(\s*)mobike = no$": (r"\1mobike = yes", r"\1mobike = yes"),
    r"(?m)^(\s*)local_addrs = .*$": (r"\1local_addrs = %any", None),
    r"(?m)^local \d+\.\d+\.\d+\.\d+$\n": ("", None),
    r"(?m)^(proto udp4)$": (None, r"\1\nfloat"),
    r"(?m)^bind [\d.]+:": ("bind any:", None),
    r"(?m)^(peer .* \{)$": (None, r"\1\n    float yes;"),
    r"(?m)^  host: [\d.]+$": ("  host: 0.0.0.0", None),
}


def ready_to_roam(vpn: Vpn) -> Vpn:
    """The same VPN with configurations in which the first gateway's address may change.

    What needs no change, because it follows its peer anyway (WireGuard), or because it cannot (a tunnel between fixed
    addresses), stays as it is.
    """
    plugin: type[Vpn] = type(vpn)

    class Roaming(plugin):  # type: ignore[valid-type, misc]
        def render(self, me: Site, peers: list[Site], params: Params, secrets: Secrets) -> dict[str, str]:
            files: dict[str, str] = super().render(me, peers, params, secrets)
            return {path: roaming(text, me.number == 1) for path, text in files.items()}

    found: Vpn = Roaming()
    return found


def roaming(text: str, mine: bool) -> str:
    """A configuration as it has to be on the roaming gateway (``mine``), or on its peer."""
    for line, (here, there) in CHANGES.items():
        new = here if mine else there
        if new is not None:
            text = re.sub(line, new, text)
    return text
