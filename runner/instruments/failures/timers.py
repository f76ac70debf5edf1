"""Which timers decide how long a VPN stays dead, read from the gateways' own files; defaults where they are silent."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runner.lab.node import Node


@dataclass(frozen=True)
class Timer:
    """A timer: the files that may set it (folder, pattern for find(1)), the line there, what holds without one ("":
    the file is no sign of that VPN, and nothing is said)."""

    folder: str
    files: str
    pattern: str
    unset: str
    source: str


TIMERS = (
    Timer(
        "/etc/swanctl/conf.d",
        "*.conf",
        r"dpd_delay = [^\n]+",
        "dpd_delay = 0s (default): a peer that lost its state is not noticed before the next rekeying (4 h)",
        "swanctl.conf(5)",
    ),
    Timer(
        "/etc/strongswan.d",
        "vpneval.conf",
        r"retransmit_[^\n]+",
        "IKE retransmits five times and gives up after 165 s (default)",
        "strongswan.conf(5)",
    ),
    Timer(
        "/etc",
        "ipsec.conf",
        r"(?m)^    ((?:dpddelay|retransmit-timeout)=[^\n]+)",
        "",
        "Libreswan's ipsec.conf(5)",
    ),
    Timer(
        "/etc/xl2tpd",
        "xl2tpd.conf",
        r"(?m)^(?:max retries|redial timeout) = \d+",
        "",
        "xl2tpd.conf(5); a message is sent again after 1 s, 2 s, 4 s and so on; Hello once a minute (fixed)",
    ),
    Timer(
        "/etc/ppp",
        "options.xl2tpd.*",
        r"lcp-echo-\w+ \d+",
        "",
        "pppd(8)",
    ),
    Timer(
        "/etc/openvpn",
        "*.conf",
        r"(?m)^(?:keepalive|ping-restart) [^\n]+",
        "no keepalive",
        "openvpn(8)",
    ),
    Timer(
        "/etc/wireguard",
        "*.conf",
        r"PersistentKeepalive = \d+",
        "no PersistentKeepalive",
        "wg(8)",
    ),
    Timer(
        "/etc/wireguard",
        "*.conf",
        r"(?!)",
        "a new handshake where nothing came back for 15 s, tried again every 5 s (fixed)",
        "whitepaper of WireGuard §6",
    ),
    Timer(
        "/etc/ssh/vpneval",
        "ssh_config",
        r"ServerAliveInterval \d+",
        "no ServerAliveInterval: TCP's own time-outs",
        "ssh_config(5); three in a row unanswered end it, and nothing starts ssh again",
    ),
    Timer(
        "/etc/tinc/vpneval",
        "tinc.conf",
        r"Ping\w+ = \d+",
        "PingInterval = 60 (default)",
        "tinc.conf(5)",
    ),
)


def timers_of(node: Node) -> list[str]:
    """What ``node``'s files and their defaults say, each with its source; empty for a tunnel without timers."""
    found: list[str] = []
    for timer in TIMERS:
        text = node.run("find", timer.folder, "-name", timer.files, "-exec", "cat", "{}", "+", check=False).stdout
        if not text:
            continue
        lines = list(dict.fromkeys(re.findall(timer.pattern, text)))
        if lines or timer.unset:
            found.append(f"{'; '.join(lines) or timer.unset} ({timer.source})")
    return found
