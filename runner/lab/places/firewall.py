"""Does a gateway's firewall let traffic to and from its test host pass? If not: the commands that allow it."""

from __future__ import annotations

import re
import shlex

from runner.lab.places.sites import CABLE

IPTABLES, IP6TABLES = "ip filter FORWARD", "ip6 filter FORWARD"  # their chains, as nftables names them
# A chain's last rule that drops whatever came so far, as if that were its policy.
NFT_DROPS_THE_REST = r"^\s+(?:counter packets \d+ bytes \d+ )?(?:drop|reject(?: with [^\n]*)?)\s*\Z"
MANAGERS = {  # what is seen when it is at work, the chain in which it forwards, and what ends it
    "firewalld": (r"^running$", "inet firewalld filter_FORWARD", "systemctl stop firewalld"),
    # Its chain, as `ufw status` has it, which would leave a file in /run.
    "ufw": (r"^(?:\s+chain |:)ufw-user-input\b", IPTABLES, "ufw disable"),
}
# A table that only its owner may change: nft(8), the flag owner.
NFT_OWNED = r"^table (\S+ \S+) \{ # progname "
# A rule that accepts all that comes in from a port, or goes out to it.
NFT_ACCEPTS = r'^\s+%sname (?:"%s"|\{[^}]*"%s"[^}]*\}) (?:counter packets \d+ bytes \d+ )?accept\b'


def closed(firewall: str, managers: str = "", port: str = CABLE) -> list[str]:
    """Sentences about the rules (``firewall``) that drop what the gateway forwards to and from its host behind
    ``port``, and about firewall managers at work (by their own words in ``managers``) that do not accept it yet.
    vpneval changes no rule."""
    commands, accepting = [], set()
    for table, chains in re.findall(r"^table (\S+ \S+) \{\n(.*?)^\}", firewall, re.MULTILINE | re.DOTALL):
        for chain, rules in re.findall(r"^\s+chain (\S+) \{\n(.*?)^\s+\}", chains, re.MULTILINE | re.DOTALL):
            forwards = re.search(r"hook forward ", rules)
            shut = re.search(r"policy drop", rules) or re.search(NFT_DROPS_THE_REST, rules, re.MULTILINE)
            named = re.escape(port)
            if all(re.search(NFT_ACCEPTS % (way, named, named), rules, re.MULTILINE) for way in ("iif", "oif")):
                accepting.add(f"{table} {chain}")
            elif forwards and shut:
                commands.append(_accepting(f"{table} {chain}", port))
    if all(f"-A FORWARD -{way} {port} -j ACCEPT" in firewall for way in "io"):
        accepting.add(IPTABLES)
    elif ":FORWARD DROP" in firewall or re.search(r"^-A FORWARD -j (REJECT|DROP)\b", firewall, re.MULTILINE):
        commands.append(_accepting(IPTABLES, port))
    problems = [
        "its firewall drops what it forwards (policy drop, or a last rule that drops the rest), and vpneval changes no "
        f"firewall rule. Allow it meanwhile: {command}"
        for command in dict.fromkeys(commands)
    ]
    for name, (at_work, chain, end) in MANAGERS.items():
        asks = re.search(at_work, f"{managers}\n{firewall}", re.MULTILINE) and chain not in accepting
        if asks and _accepting(chain, port) not in commands:
            sentence = f"{name} is at work, and vpneval changes no firewall rule. End it meanwhile ({end})"
            owned = any(chain.startswith(f"{table} ") for table in re.findall(NFT_OWNED, firewall, re.MULTILINE))
            problems.append(
                sentence if owned else f"{sentence}, or, if its rules are to stay: {_accepting(chain, port)}"
            )
    return problems


def _accepting(chain: str, port: str) -> str:
    """The commands with which a chain of nftables or iptables forwards the traffic to and from the host."""
    if chain in (IPTABLES, IP6TABLES):
        tool = "iptables" if chain == IPTABLES else "ip6tables"
        return "; ".join(f"{tool} -I FORWARD -{way} {port} -j ACCEPT" for way in "io")
    of = ("nft", "insert", "rule", *chain.split())
    return "; ".join(shlex.join((*of, f"{way}name", port, "accept")) for way in ("iif", "oif"))
