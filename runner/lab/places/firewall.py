"""Does a gateway's firewall let traffic to and from its test host pass? If not: the commands that allow it. And does it
translate addresses?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

from runner.lab.places.sites import CABLE

IPTABLES, IP6TABLES = "ip filter FORWARD", "ip6 filter FORWARD"  # their chains, as nftables names them
COUNTED = r"(?:counter packets \d+ bytes \d+ )?"
COMMENTED = r'(?:-m comment --comment (?:"[^"]*"|\S+) )?'  # of iptables; nftables has its own at a rule's end
# A chain's last rule that drops whatever came so far, as if that were its policy.
DROPS_THE_REST = rf"{COUNTED}(?:drop|reject(?: with .*)?)|{COMMENTED}-j (?:REJECT|DROP)\b.*"
# A rule that hands every packet on to another chain, as to Docker's DOCKER-USER, and to ufw's for routes.
JUMPS = rf"(?:{COUNTED}(?:jump|goto)|{COMMENTED}-j) (\S+)"
# A rule that accepts all that comes in from a port, goes out to it, or is between two networks.
BY_PORT = rf'%sname (?:"%s"|\{{[^}}]*"%s"[^}}]*\}}) {COUNTED}accept\b|-%s %s {COMMENTED}-j ACCEPT\b'
BY_NETWORK = rf"ip saddr %s ip daddr %s {COUNTED}accept\b|-s %s -d %s {COMMENTED}-j ACCEPT\b"
UFW = r"^(?:\s+chain |:)ufw-user-input\b"  # its chain, as `ufw status` has it, which would leave a file in /run
FIREWALLD = r"^running$"  # firewall-cmd(1), --state; the sources of its zone "trusted" are on the next line
FIREWALLD_CHAIN = "inet firewalld filter_FORWARD"  # which it alone may change, or forgets: nft(8), the flag owner
# A rule that changes packets' source, as nftables and iptables tell it.
TRANSLATES = r"^(?:\s.*\b(?:masquerade|snat)\b|-A .*-j (?:MASQUERADE|SNAT)\b)"
# Leaves packets between the test hosts as they are: of a connection's NATs, the first decides.
UNTRANSLATED = """table ip {0} {{
    chain whole {{
        type nat hook postrouting priority 90;
        ip saddr {1} ip daddr {2} snat to ip saddr
        ip saddr {2} ip daddr {1} snat to ip saddr
    }}
}}
"""
Chains = Mapping[str, Sequence[str]]  # table and chain, as nftables names them -> its hook, policy and rules


def closed(firewall: str, managers: str = "", port: str = CABLE, lans: tuple[str, str] = ("", "")) -> list[str]:
    """Sentences about the rules (``firewall``) that drop what the gateway forwards to and from its host behind
    ``port``, or between ``lans``, and about firewall managers at work (by their own words in ``managers``) that do not
    accept it yet. vpneval changes no rule."""
    commands, accepting = [], set()
    for chains in _rulesets(firewall):
        for name, rules in chains.items():
            if _accepted(chains, name, port, lans):
                accepting.add(name)
            elif rules and "hook forward" in rules[0]:
                shut = "policy drop" in rules[0] or re.fullmatch(DROPS_THE_REST, rules[-1])
                commands += [_accepting(name, port)] if shut else []
    at_work = re.search(FIREWALLD, managers, re.MULTILINE) is not None
    problems = [
        "its firewall drops what it forwards (policy drop, or a last rule that drops the rest), and vpneval changes no "
        f"firewall rule. Allow it meanwhile: {command}"
        for command in dict.fromkeys(commands)
        if not at_work or command != _accepting(FIREWALLD_CHAIN, port)
    ]
    if at_work and not set(lans) <= set(managers.split()):
        sources = " ".join(f"--add-source={lan}" for lan in lans)
        problems.append(
            "firewalld is at work, and vpneval changes no firewall rule. Let the test hosts' networks through: "
            f"firewall-cmd --zone=trusted {sources} (until you run firewall-cmd --reload)"
        )
    said = IPTABLES in accepting or (command := _accepting(IPTABLES, port)) in commands
    if re.search(UFW, firewall, re.MULTILINE) and not said:
        problems.append(f"ufw is at work, and vpneval changes no firewall rule. Allow it meanwhile: {command}")
    return problems


def translates(firewall: str) -> bool:
    """Does a rule change the source of packets? Some are for other packets; what exempts the hosts' does no harm."""
    return re.search(TRANSLATES, firewall, re.MULTILINE) is not None


def _rulesets(firewall: str) -> Iterator[Chains]:
    """The chains as ``nft list ruleset`` has told them, without tables that have an owner; and as ``iptables-save``
    has."""
    yield {
        f"{table} {chain}": [line.strip() for line in rules.splitlines()]
        for table, chains in re.findall(r"^table (\S+ \S+) \{\n(.*?)^\}", firewall, re.MULTILINE | re.DOTALL)
        for chain, rules in re.findall(r"^\s+chain (\S+) \{\n(.*?)^\s+\}", chains, re.MULTILINE | re.DOTALL)
    }
    filters = re.sub(r"^\*(?!filter)\w+\n.*?(?:^COMMIT$|\Z)", "", firewall, flags=re.MULTILINE | re.DOTALL)
    policies = dict(re.findall(r"^:(\S+) (\S+)", filters, re.MULTILINE))
    saved = {"FORWARD": [f"hook forward policy {policies.get('FORWARD', '').lower()}"]}
    for chain, rule in re.findall(r"^-A (\S+) (.*)", filters, re.MULTILINE):
        saved.setdefault(chain, [""]).append(rule)
    yield {f"ip filter {chain}": rules for chain, rules in saved.items()}


def _accepted(chains: Chains, name: str, port: str, lans: tuple[str, str]) -> bool:
    """Does the chain, or one to which it hands all packets on, accept what is forwarded, both ways?"""
    named, (here, there) = re.escape(port), map(re.escape, lans)
    by_port = [BY_PORT % (f"{way}if", named, named, way, named) for way in "io"]
    by_network = [BY_NETWORK % (*ends, *ends) for ends in ((here, there), (there, here))]
    rules, names = [], [name]
    for reached in names:
        for rule in chains.get(reached, ()):
            rules.append(rule)
            if (jump := re.match(JUMPS, rule)) and (to := f"{name.rpartition(' ')[0]} {jump[1]}") not in names:
                names.append(to)
    return any(
        all(any(re.match(pattern, rule) for rule in rules) for pattern in patterns)
        for patterns in (by_port, by_network)
    )


def _accepting(chain: str, port: str) -> str:
    """The commands with which a chain of nftables or iptables forwards the traffic to and from the host."""
    if chain in (IPTABLES, IP6TABLES):
        tool = "iptables" if chain == IPTABLES else "ip6tables"
        return "; ".join(f"{tool} -I FORWARD -{way} {port} -j ACCEPT" for way in "io")
    of = ("nft", "insert", "rule", *chain.split())
    return "; ".join(shlex.join((*of, f"{way}name", port, "accept")) for way in ("iif", "oif"))
