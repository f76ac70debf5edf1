"""The signs of a VPN, which each plugin declares: by them a tunnel is recognised that somebody else has set up."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sign:
    """How a running tunnel of a VPN is recognised, read-only.

    ``programs``: the names of its processes (proc_pid_comm(5), 15 characters). ``link``: the kind of its network
    device, as ip-link(8) names it, where the kernel has the data path. ``esp``: its packets are protected by the
    kernel's IPsec, whose states show it: "esp tunnel". ``marks``: regular expressions; each has to match a line of what
    is seen of the tunnel. Of several VPNs that recognise the same tunnel, the one with the most marks is meant.

    ``tells``: the first words of lines that are shown in the daemon's own words: directives and options without a
    secret; of anything else, nothing leaves the gateway. ``config``: the option before the path of its configuration
    ("" for an argument of its own, "default" where there is none) -> the files, {} being that path. ``asks``: commands
    that read and change nothing; {device} is the tunnel's.
    """

    programs: tuple[str, ...] = ()
    link: str = ""
    esp: str = ""
    marks: tuple[str, ...] = ()
    tells: tuple[str, ...] = ()
    config: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    asks: tuple[tuple[str, ...], ...] = ()
