"""Does a gateway's firewall let traffic to and from its test host pass? If not: the commands that allow it. And does it
translate addresses?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.lab.node.lines import json_of
from runner.lab.places.sites import CABLE

# Says all rules: nftables' as one line of JSON, without the elements of sets (nft(8)), and iptables' as it saves them.
SAYS = """{
nft -j -t list ruleset || nft -j list ruleset || { nft list tables | grep -q . && echo UNREAD; iptables-save; }
grep -q . /proc/net/ip_tables_names && iptables-legacy-save; } 2> /dev/null"""
UNREAD = "UNREAD"  # there are tables of nftables, and this nft writes no JSON
IPTABLES, IP6TABLES = "ip filter FORWARD", "ip6 filter FORWARD"  # their chains, as nftables names them
UFW = "ufw-user-input"  # its chain; `ufw status` would leave a file in /run
FIREWALLD = "running"  # firewall-cmd(1), --state; the sources of its zone "trusted" are on the next line
FIREWALLD_CHAIN = "inet firewalld filter_FORWARD"  # which it alone may change, or forgets: nft(8), the flag owner
EVERY = ("counter", "log", "comment")  # statements that make no difference between packets
TARGETS = {"ACCEPT": "accept", "DROP": "drop", "REJECT": "drop", "MASQUERADE": "translate", "SNAT": "translate"}
FIELDS = {"iifname": "in", "iif": "in", "oifname": "out", "oif": "out", "saddr": "from", "daddr": "to"}
OPTIONS = {"-i": "in", "-o": "out", "-s": "from", "-d": "to"}  # of iptables
WORD = re.compile(r'"[^"\n]*"|[^\s"]+')
LONGEST = 4096  # characters of a line of iptables-save
MOST_FORWARD = 100  # chains that see what is forwarded; each is followed through all that it jumps to
# Leaves packets between the test hosts as they are: of a connection's NATs, the first decides.
UNTRANSLATED = """table ip {0} {{
    chain whole {{
        type nat hook postrouting priority 90;
        ip saddr {1} ip daddr {2} snat to ip saddr
        ip saddr {2} ip daddr {1} snat to ip saddr
    }}
}}
"""


@dataclass(frozen=True)
class Rule:
    """What a rule does with the packets that it is for: "accept", "drop", "translate", "jump CHAIN", or "" for all
    else. ``only``: which packets it is for, as {"in": ports} and so on; None: others than can be said so."""

    does: str
    only: Mapping[str, Sequence[str]] | None


@dataclass
class Chain:
    """A chain, its hook and its policy."""

    hook: str = ""
    policy: str = ""
    rules: list[Rule] = field(default_factory=list)


Chains = dict[str, Chain]  # by family, table and name, as nftables names them


def forwarding_problems(
    firewall: str, managers: str = "", port: str = CABLE, lans: tuple[str, str] = ("", "")
) -> list[str]:
    """Sentences about the rules (``firewall``, what SAYS says) that drop what the gateway forwards to and from its host
    behind ``port``, or between ``lans``, and about firewall managers at work (by their own words in ``managers``) that
    do not accept it yet. vpneval changes no rule."""
    commands, accepting = [], set()
    nftables, saved = _rulesets(firewall)
    for chains in (nftables, saved):
        forward = [(name, chain) for name, chain in chains.items() if chain.hook == "forward"]
        for name, chain in forward[:MOST_FORWARD]:
            if _accepts_forwarded(chains, name, port, lans):
                accepting.add(name)
            elif chain.policy == "drop" or _drops_the_rest(chain):
                commands.append(_accepting(name, port))
    at_work = FIREWALLD in managers.splitlines()
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
    ufw = any(name.split()[-1] == UFW for name in (*nftables, *saved))
    if ufw and not said:
        problems.append(f"ufw is at work, and vpneval changes no firewall rule. Allow it meanwhile: {command}")
    return problems


def translates(firewall: str) -> bool:
    """Does a rule change the source of packets? Some are for other packets; what exempts the hosts' does no harm."""
    return any(
        rule.does == "translate" for chains in _rulesets(firewall) for chain in chains.values() for rule in chain.rules
    )


def unread(firewall: str) -> str:
    """Why rules of nftables are not known; or ""."""
    if firewall.startswith(UNREAD):
        return "its nft writes no JSON, so the rules of its firewall are not known (Debian's nftables writes it)"
    if firewall.startswith("{") and _json(firewall.partition("\n")[0]) is None:
        return "the rules of its firewall cannot be read: they are no JSON, or more than vpneval reads"
    return ""


def _rulesets(firewall: str) -> tuple[Chains, Chains]:
    """The chains of nftables, without tables that have an owner; and those of iptables. One pass over each."""
    first, _, rest = firewall.partition("\n")
    listed = first.startswith("{")
    return _of_nftables((_json(first) or []) if listed else []), _of_iptables(rest if listed else firewall)


def _json(line: str) -> list[Any] | None:
    """The objects of nftables (libnftables-json(5)); None where it is something else."""
    try:
        said = json_of(line)
    except ValueError:
        return None
    listed = said.get("nftables") if isinstance(said, dict) else None
    return listed if isinstance(listed, list) else None


def _of_nftables(listed: Iterable[Any]) -> Chains:
    chains: Chains = {}
    owned: set[str] = set()
    for kind, about in ((kind, about) for entry in listed if isinstance(entry, dict) for kind, about in entry.items()):
        if not isinstance(about, dict):
            continue
        table = f"{about.get('family')} {about.get('table' if kind != 'table' else 'name')}"
        flags = about.get("flags", [])
        if kind == "table" and isinstance(flags, list) and not {"owner", "dormant"}.isdisjoint(map(str, flags)):
            owned.add(table)
        elif kind == "chain" and table not in owned:
            chains[f"{table} {about.get('name')}"] = Chain(str(about.get("hook", "")), str(about.get("policy", "")))
        elif kind == "rule" and (chain := chains.get(f"{table} {about.get('chain')}")):
            chain.rules.append(_rule(about.get("expr")))
    return chains


def _rule(statements: object) -> Rule:
    """A rule of nftables by its statements."""
    does, only, others = "", dict[str, Sequence[str]](), not isinstance(statements, list)
    for statement in statements if isinstance(statements, list) else ():
        kind, about = next(iter(statement.items())) if isinstance(statement, dict) and statement else ("", None)
        said = about if isinstance(about, dict) else {}
        if kind == "match":
            found = _match(said)
            only |= found
            others = others or not found
        elif kind in ("accept", "drop"):
            does = kind
        elif kind == "reject":
            does = "drop"
        elif kind in ("jump", "goto"):
            does = f"jump {said.get('target')}"
        elif kind in ("masquerade", "snat"):
            does = "translate"
        elif kind == "xt" and said.get("type") == "target":  # as iptables has put it there
            does = TARGETS.get(str(said.get("name")), "")
        elif (said.get("name") if kind == "xt" else kind) not in EVERY:
            others = True
    return Rule(does, None if others else only)


def _match(said: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Which packets a match is for; none where it cannot be said."""
    left, right = said.get("left"), said.get("right")
    inner = next((left[key] for key in ("meta", "payload") if key in left), None) if isinstance(left, dict) else None
    where = FIELDS.get(str(inner.get("key", inner.get("field")))) if isinstance(inner, dict) else None
    values = right.get("set") if isinstance(right, dict) and "set" in right else [right]
    if where is None or said.get("op") not in ("==", "in") or not isinstance(values, list):
        return {}
    return {where: [_value(value) for value in values]}


def _value(value: object) -> str:
    """A port, or a network as ``addr/len``."""
    prefix = value.get("prefix") if isinstance(value, dict) else None
    return f"{prefix.get('addr')}/{prefix.get('len')}" if isinstance(prefix, dict) else str(value)


def _of_iptables(saved: str) -> Chains:
    """The chains of the table filter, and of the others those that translate, as iptables-save(8) writes them."""
    chains, table = {IPTABLES: Chain("forward")}, "filter"
    for line in saved.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith(":") and table == "filter":
            name, policy, *_ = [*line[1:].split(), "", ""]
            chains.setdefault(f"ip filter {name}", Chain()).policy = policy.lower()
        elif line.startswith("-A "):
            name, *words = WORD.findall(line[3:LONGEST])
            chains.setdefault(f"ip {table} {name}", Chain()).rules.append(_saved_rule(words))
    return chains


def _saved_rule(words: Sequence[str]) -> Rule:
    """A rule of iptables by its words."""
    only, others, left = dict[str, Sequence[str]](), False, list(words)
    while left and left[0] not in ("-j", "-g"):
        option, value, *left = [*left, ""] if len(left) == 1 else left
        if option in OPTIONS:
            only[OPTIONS[option]] = [value]
        elif (option, value) != ("-m", "comment") and option != "--comment":
            others = True
    target = left[1] if len(left) > 1 else ""
    return Rule(TARGETS.get(target, f"jump {target}"), None if others else only)


def _drops_the_rest(chain: Chain) -> bool:
    """Does its last rule drop whatever came so far, as if that were its policy?"""
    return bool(chain.rules) and chain.rules[-1] == Rule("drop", {})


def _accepts_forwarded(chains: Chains, name: str, port: str, lans: tuple[str, str]) -> bool:
    """Does the chain, or one to which it hands all packets on, accept what is forwarded, both ways?"""
    rules = [rule for chain in _reachable_chains(chains, name) for rule in chain.rules]
    accepts = [rule.only for rule in rules if rule.does == "accept" and rule.only is not None]
    by_port = all(any(only.keys() == {way} and port in only[way] for only in accepts) for way in ("in", "out"))
    here, there = lans
    by_network = all(
        any(only.keys() == {"from", "to"} and one in only["from"] and other in only["to"] for only in accepts)
        for one, other in ((here, there), (there, here))
    )
    return by_port or by_network


def _reachable_chains(chains: Chains, name: str) -> Iterator[Chain]:
    """The chain, and those to which it hands all packets on, as to Docker's DOCKER-USER, and to ufw's for routes."""
    names, table = {name: None}, name.rpartition(" ")[0]
    left = [name]
    while left:
        yield (chain := chains.get(left.pop(), Chain()))
        to = [f"{table} {rule.does[5:]}" for rule in chain.rules if rule.does.startswith("jump ") and rule.only == {}]
        left += [each for each in dict.fromkeys(to) if each not in names]
        names |= dict.fromkeys(to)


def _accepting(chain: str, port: str) -> str:
    """The commands with which a chain of nftables or iptables forwards the traffic to and from the host."""
    if chain in (IPTABLES, IP6TABLES):
        tool = "iptables" if chain == IPTABLES else "ip6tables"
        return "; ".join(f"{tool} -I FORWARD -{way} {port} -j ACCEPT" for way in "io")
    of = ("nft", "insert", "rule", *chain.split())
    return "; ".join(shlex.join((*of, f"{way}name", port, "accept")) for way in ("iif", "oif"))
