"""A gateway on which others are at work: BGP's routes, containers, bans and DHCP change while vpneval measures.

The program knows what it has made, so that it can be asked afterwards what somebody else has taken away or put back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from runner.lab.node import LabNode

TURN_S = 0.2
# argv: routes, how many of them change in a turn, the next hop, the port, seconds of a turn. When its input ends, it
# says what there should be now.
PROGRAM = r"""
import json, random, select, subprocess, sys
count, each, via, port, turn_s = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], float(sys.argv[5])

def do(*argv, text=None):
    subprocess.run(argv, input=text, text=True, check=True, capture_output=True)

def batch(lines):
    do("ip", "-batch", "-", text="".join(f"{line}\n" for line in lines))

def route(number):
    return f"100.{64 + number // 65536}.{number // 256 % 256}.{number % 256}"

def announced(number):
    return f"route replace {route(number)} via {via} dev {port} proto bgp mtu {routes[number]}"

chance = random.Random(1)
routes = {number: 1400 for number in range(count)}  # as many more come later; the MTU is the route's attribute
containers, bans, changes, lease = [], [], 0, 0
batch(announced(number) for number in routes)
do("nft", "-f", "-", text="table inet f2b { set banned { type ipv4_addr; }; chain input { "
   "type filter hook input priority -1; ip saddr @banned drop; }; }")
do("iptables-nft", "-N", "f2b-sshd")
print("ready", flush=True)
while not select.select([sys.stdin], [], [], turn_s)[0]:
    lines = []
    for number in chance.sample(range(2 * count), each):
        if number not in routes or chance.random() < 0.5:
            routes[number] = chance.choice([size for size in (1400, 1380, 1360) if size != routes.get(number)])
            lines.append(announced(number))
        else:
            del routes[number]
            lines.append(f"route del {route(number)} proto bgp")
    born = f"veth{changes}"
    containers.append(born)
    lines += [f"link add {born} type veth peer name {born}p", f"link set {born} up"]
    lines.append(f"addr add 172.29.{changes % 250}.1/32 dev {born}")
    if len(containers) > 3:
        lines.append(f"link del {containers.pop(0)}")
    lease += 1
    last, now = (f"10.99.{number // 200}.{1 + number % 200}/32" for number in (lease // 5 - 1, lease // 5))
    lines += [f"addr del {last} dev {port}"] if lease % 5 == 0 else []
    lines.append(f"addr replace {now} dev {port} valid_lft 600 preferred_lft 600")
    batch(lines)
    bans.append(f"203.0.113.{10 + lease % 200}")
    do("nft", f"add element inet f2b banned {{ {bans[-1]} }}")
    do("iptables-nft", "-A", "f2b-sshd", "-s", bans[-1], "-j", "DROP")
    if len(bans) > 4:
        gone = bans.pop(0)
        do("nft", f"delete element inet f2b banned {{ {gone} }}")
        do("iptables-nft", "-D", "f2b-sshd", "-s", gone, "-j", "DROP")
    changes += each + 4
print(json.dumps({
    "changes": changes,
    "routes": sorted(f"{route(number)} mtu {size}" for number, size in routes.items()),
    "links": sorted([*containers, *(f"{name}p" for name in containers)]),
    "bans": sorted(bans),
    "leased": [now] if lease else [],
}))
"""


@dataclass
class Others:
    """What they have done, known when the block of ``others_at_work`` has ended: how many changes, and what of it
    somebody else has reverted."""

    changes: int = 0
    reverted: list[str] = field(default_factory=list)


@contextmanager
def others_at_work(box: LabNode, via: str, routes: int = 200, each: int = 20) -> Iterator[Others]:
    """Others change the network of ``box`` until the block ends; then all that they have made goes. ``routes``: of BGP,
    by the next hop ``via``, ``each`` of which change in a turn of ``TURN_S``."""
    done = Others()
    program = box.talk("python3", "-IS", "-c", PROGRAM, str(routes), str(each), via, "ens0", str(TURN_S))
    try:
        assert program.hear(60) == "ready"
        yield done
        said, complaint = program.last_words("", 30)
        assert program.poll() == 0, complaint
        should = json.loads(said)
        done.changes, found = should.pop("changes"), there(box)
        for what, wanted in should.items():
            is_there = set(found[what])
            done.reverted += [f"{what}: {one} is gone" for one in wanted if one not in is_there]
            done.reverted += [f"{what}: {one} is back" for one in is_there.difference(wanted)]
    finally:
        box.end(program)
        clear(box)


def there(box: LabNode) -> dict[str, list[str]]:
    """What there is of it now."""
    routes = json.loads(box.run("ip", "-d", "-j", "route", "show", "proto", "bgp").stdout)
    addresses = json.loads(box.run("ip", "-j", "addr", "show").stdout)
    held = {entry["local"] for link in addresses for entry in link["addr_info"]}
    tables = json.loads(box.run("nft", "-j", "list", "set", "inet", "f2b", "banned").stdout)["nftables"]
    banned = {one for table in tables for one in table.get("set", {}).get("elem", [])}
    chain = box.run("iptables-nft", "-S", "f2b-sshd").stdout.splitlines()
    by_iptables = {line.split()[3].removesuffix("/32") for line in chain if " -s " in line}
    return {
        "routes": [f"{route['dst']} mtu {route['metrics'][0]['mtu']}" for route in routes],
        "links": [link["ifname"] for link in addresses if link["ifname"].startswith("veth")],
        "bans": sorted(banned & by_iptables),
        "leased": sorted(f"{address}/32" for address in held if address.startswith("10.99.")),
    }


def clear(box: LabNode) -> None:
    """Remove what they have made."""
    made = there(box)
    lines = [f"link del {name}" for name in made["links"] if not name.endswith("p")]
    lines += [f"addr del {address} dev ens0" for address in made["leased"]]
    box.run("ip", "-batch", "-", input="\n".join([*lines, "route flush proto bgp"]) + "\n")
    box.run("nft", "delete", "table", "inet", "f2b")
    box.run("nft", "delete", "table", "ip", "filter")
