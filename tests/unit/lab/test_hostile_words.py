"""Every field of an inventory, and every answer of a machine, replaced by what none should be: it is refused, with the
file or the machine named, or it has become nothing that a shell takes for more than a word."""

import copy
import itertools
import json
import math
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

from runner.data.errors import CannotRunHere, UsageError, VpnevalError
from runner.lab.node import Completed
from runner.lab.node.answers import validate_answer
from runner.lab.places import hosts, modules, site
from runner.lab.places.connection import Connection
from runner.lab.places.ends import both_ends
from runner.lab.places.gateways import Gateway
from runner.lab.places.inventory import GatewayMachine, HostMachine, Inventory, WanMachine, read_inventory
from runner.lab.places.labfile import read_lab_file
from runner.lab.places.machines import examine, own_image
from runner.lab.places.sites import Host, Sites, describe_sites, read_sites, real
from runner.lab.readings.hardware import hardware
from runner.lab.readings.path import FINDINGS, nats_in_words

WORDS = [
    "$(id)",
    "`id`",
    "1.2.3.4$(id)",
    "fe80::2%$(id)",
    "fe80::2%eth0\n$(id)",
    "eth0;id",
    "a\nid",
    "a\x1b[2J",
    "-oProxy",
]
WORDS += [
    "'",
    '"',
    "a b",
    "a|id",
    "a&id",
    "a>b",
    "*",
    "~root",
    "#",
    "\\",
    "",
    "x" * 5000,
    "\u202e",
    "1.2.3.4\n",
    "eth0\n",
]
VALUES: list[Any] = [None, 7, -1, 1.5, True, [], {}, ["$(id)"], {"$(id)": "$(id)"}, [[]], *WORDS]
PLAIN = re.compile(
    r"[\w.:/+@%=, \[\]-][\w.:/+@%=, \[\]~-]*|"
)  # without the signs that a shell reads, but for the brackets of an address
FREE = {"identity", "config", "options"}  # paths, and what ssh(1) itself reads


def harmless(texts: list[str]) -> None:
    assert not [text for text in texts if not PLAIN.fullmatch(text) or text.startswith("-")]


def refused(wrong: VpnevalError, *names: str) -> None:
    """Is one of these named, and can a command in the sentence be pasted? What is no plain word is in quotes there."""
    sentence = str(wrong)
    assert any(name in sentence for name in names), sentence
    if isinstance(wrong, UsageError):
        return  # it names a line of a file, and no command
    command = re.sub(r"no namespaces: .*", "", sentence)  # the machine's own words, and no command
    unquoted = re.sub(r"'[^']*'|\"[^\"]*\"", "", command)
    assert "$(id)" not in unquoted, sentence
    assert "`id`" not in unquoted, sentence


# --- files ---------------------------------------------------------------------------------------------------

SITE: dict[str, Any] = {
    "gw1": {"address": "192.0.2.1", "lan_port": "eth1"},
    "gw2": {"address": "192.0.2.2", "lan_port": "eth1"},
    "host1": {"address": "192.0.2.3", "lan_port": "eth0"},
    "host2": {"address": "192.0.2.4", "lan_port": "eth0"},
}
BED: dict[str, Any] = {
    "host1": {"address": "192.0.2.3", "lan": "eth1"},
    "gw1": {"address": "192.0.2.1", "lan": "eth1", "wan": "eth2"},
    "wan": {"address": "192.0.2.5", "gw1": "eth1", "gw2": "eth2"},
    "gw2": {"address": "192.0.2.2", "lan": "eth1", "wan": "eth2"},
    "host2": {"address": "192.0.2.4", "lan": "eth1"},
}
SITE_FIELDS = [("", name) for name in Sites.model_fields if name not in SITE]
SITE_FIELDS += [
    (of, name) for of, model in (("gw1", Gateway), ("gw2", Gateway), ("host1", Host)) for name in model.model_fields
]
BED_FIELDS = [
    (of, name)
    for of, model in (("host1", HostMachine), ("gw1", GatewayMachine), ("wan", WanMachine))
    for name in model.model_fields
]


def toml(data: Mapping[str, Any], before: str = "") -> str:
    """The tables as TOML, whose strings are those of JSON."""
    lines = []
    for key, value in data.items():
        if isinstance(value, dict):
            lines += [f"[{before}{json.dumps(key)}]", toml(value, f"{before}{json.dumps(key)}.")]
        elif value is not None:
            lines.insert(0, f"{json.dumps(key)} = {json.dumps(value)}")
    return "\n".join(lines)


def changed(data: Mapping[str, Any], table: str, key: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(dict(data))
    (made[table] if table else made)[key] = value
    return made


@pytest.mark.parametrize(("table", "key"), SITE_FIELDS)
def test_a_field_of_a_site(table: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "sites.toml"
    for value in VALUES:
        path.write_text(toml(changed(SITE, table, key, value)), encoding="utf-8")
        try:
            sites = read_sites(path)
        except UsageError as wrong:
            refused(wrong, str(path))
            continue
        own = {name: str(machine.wan_address or "192.0.2.1") for name, machine in sites.machines.items()}
        ports = {name: machine.wan or "eth0" for name, machine in sites.machines.items()}
        told = [*describe_sites(sites, ports, own), *real(describe_sites(sites, ports, own), sites)]
        # FREE fields are the options for a reader's ssh, which shlex quotes where they are written.
        harmless([str(part) for one in told for part in astuple(one) if not isinstance(part, tuple)])
        for machine in sites.all_machines.values():
            given = machine.model_dump(exclude=FREE, exclude_none=True)
            harmless([str(part) for part in given.values() if not isinstance(part, list)])
            harmless(list(getattr(machine, "forwards", [])))


@pytest.mark.parametrize(("table", "key"), BED_FIELDS)
def test_a_field_of_a_test_bed(table: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "bed.toml"
    for value in VALUES:
        path.write_text(toml(changed(BED, table, key, value)), encoding="utf-8")
        try:
            inventory = read_inventory(path)
        except UsageError as wrong:
            refused(wrong, str(path))
            continue
        for machine in inventory.machines.values():
            given = machine.model_dump(exclude=FREE, exclude_none=True)
            harmless([str(part) for part in [*given.values(), *machine.ports().values()]])


def test_the_inventories_themselves_are_read(tmp_path: Path) -> None:
    for data, read in ((SITE, read_sites), (BED, read_inventory)):
        (path := tmp_path / "x.toml").write_text(toml(data))
        assert isinstance(read(path), Sites | Inventory)


LAB_YML = Path(__file__).parents[3] / "vagrant" / "lab.yml"


def test_a_field_of_the_vagrant_lab(tmp_path: Path) -> None:
    whole = yaml.safe_load(LAB_YML.read_text())
    path = tmp_path / "lab.yml"
    places = [(key,) for key in whole] + [("nodes", node) for node in whole["nodes"]] + [("nodes", "gw1", 0)]
    for place, value in itertools.product(places, VALUES):
        made = copy.deepcopy(whole)
        at: Any = made
        for part in place[:-1]:
            at = at[part]
        at[place[-1]] = value
        path.write_text(yaml.safe_dump(made, allow_unicode=True), encoding="utf-8")
        try:
            lab = read_lab_file(path)
        except UsageError as wrong:
            refused(wrong, str(path))
            continue
        harmless([str(lab.settings["box"]), str(lab.settings["public_box"])])
        harmless([network for own in lab.nodes.values() for network in own])
    assert read_lab_file(LAB_YML)


# --- machines ------------------------------------------------------------------------------------------------

ENTRY = {"family": "inet", "local": "198.51.100.2", "prefixlen": 24, "scope": "global", "broadcast": "198.51.100.255"}
ENTRY |= {"label": "eth0", "dynamic": True, "valid_life_time": 100, "preferred_life_time": 100}
LINK = {"ifname": "eth0", "flags": ["UP", "LOWER_UP"], "mtu": 1500, "address": "52:54:00:00:00:01", "master": "br0"}
LINK |= {"addr_info": [ENTRY], "linkinfo": {"info_kind": "wireguard"}, "inet6_addr_gen_mode": "eui64"}
PORT = {"ifname": "eth1", "flags": ["UP"], "mtu": 1500, "address": "52:54:00:00:00:02", "addr_info": []}
LINKS: list[Any] = [PORT, LINK | {"linkinfo": {}}]
ROUTES = [{"dst": "default", "dev": "eth0"}, {"dst": "198.51.100.0/24", "dev": "eth0"}]
GETS = [{"dst": "192.0.2.9", "gateway": "192.0.2.1", "dev": "eth0", "prefsrc": "198.51.100.2"}]
FIREWALL = "table inet filter {\n\tchain forward {\n\t\ttype filter hook forward priority 0; policy accept;\n\t}\n}\n"
LISTENING = 'udp UNCONN 0 0 0.0.0.0:9 0.0.0.0:* users:(("discard",pid=1,fd=3))\n'
DPKG = "openvpn 2.6.14-1\ntinc 1.0.36-2+b1\n"
FOUND = {
    "open": ["udp/500"],
    "seen_as": "203.0.113.1",
    "port_kept": True,
    "mappings": 1,
    "rtt_ms": [1.0],
    "loss_ratio": 0,
}
FOUND |= {"dscp_kept": [True], "ecn_kept": [True], "clock_ahead_s": None, "forward_bps": 1e6, "reverse_bps": 1e6}
Answers = dict[str, list[Any]]  # of a command, by what it has: its sections
ASKED: Answers = {
    "unshare --net": ["", "", LINKS, "default via 192.0.2.1 dev eth0\n192.0.2.9 dev eth0"],
    "neigh show": [
        "qdisc noqueue 0: root",
        "",
        "",
        "192.0.2.7 lladdr 52:54:00:00:00:09",
        "/proc/sys/net/ipv4/conf/eth1/x:1",
    ],
    "ss -Hlntup": [LINKS, ROUTES, [], GETS, "", "", LISTENING, FIREWALL, ""],
    "route get": [GETS],
    "ip -d -j addr show": [LINKS],
    "dpkg-query": [DPKG],
    "modules.builtin": ["openvpn loaded\ntun there\nx absent\n6.12.1-amd64 x86_64"],
    "vpneval-begins": ["vpneval-begins|root|{now}|192.0.2.9 1 192.0.2.2 22|3 11|"],
}


class Paper(Connection):
    """A machine that answers with these."""

    def __init__(self, answers: Answers, name: str = "gw1") -> None:
        self.name, self.answers, self.sudo = name, answers, ()
        self.client, self.server = "192.0.2.9", "192.0.2.2"

    def run(self, *argv: str, timeout: float = 1, as_root: bool = True, input: str | None = None) -> Completed:
        command = " ".join(argv)
        sections = next((answer for key, answer in self.answers.items() if key in command), [""])
        texts = [section if isinstance(section, str) else json.dumps(section) for section in sections]
        return Completed(0, "\036".join(texts), "")


SITES = Sites.model_validate({name: {"address": f"192.0.2.{at}"} for at, name in enumerate(("gw1", "gw2"), 1)})
BED_HOST = HostMachine.model_validate({"address": "192.0.2.1", "lan": "eth1"})


def end(answers: Answers, only_look: bool) -> list[str]:
    """The port and address of a gateway's end of the path."""
    looked = {name: site.look_at(Paper(answers, name)) for name in ("gw1", "gw2")}
    own = site._usable("gw1", looked["gw1"], both_ends(looked, SITES)["gw1"], SITES, only_look)
    if isinstance(own, CannotRunHere):
        raise own
    return [own.port, own.address, *(astuple(own.turned) if own.turned else ())]


ASKS: dict[str, Callable[[Answers], list[str]]] = {
    "examine": lambda answers: [*examine(Paper(answers), BED_HOST, {"ip": "iproute2"}).ports.values()],
    "a gateway": lambda answers: end(answers, False),
    "only looked at": lambda answers: end(answers, True),
    "a host": lambda answers: [hosts.fit(Paper(answers), "eth1")],
    "its packages": lambda answers: [
        " ".join(item)
        for item in own_image({"gw1": Paper(answers), "gw2": Paper(answers)}, "ssh", "host").packages.items()
    ],
    "its modules": lambda answers: [re.sub("[;>']|%s.n", "", modules.lacking(Paper(answers), ["tun"]))],
}


def mutated(value: Any) -> Iterator[Any]:
    """The value with each of its parts replaced by each of VALUES, or left out."""
    yield from VALUES
    if isinstance(value, dict):
        for key in value:
            yield {name: part for name, part in value.items() if name != key}
            for other in mutated(value[key]):
                yield value | {key: other}
    if isinstance(value, list):
        for at, part in enumerate(value):
            for other in mutated(part):
                yield [*value[:at], other, *value[at + 1 :]]
    if isinstance(value, str) and value:
        for word, bad in itertools.product(set(value.split()), WORDS):
            yield value.replace(word, bad)


def lies() -> Iterator[tuple[str, Answers]]:
    for command, sections in ASKED.items():
        for wrong in ([], [""], ["\036"], ["", "", ""], [*sections, "more"], sections[:-1], ["[" * 5000], ["\0"]):
            yield command, ASKED | {command: wrong}
        for at, section in enumerate(sections):
            for bad in mutated(section):
                yield command, ASKED | {command: [*sections[:at], bad, *sections[at + 1 :]]}


@pytest.mark.parametrize("what", ASKS)
def test_an_answer_of_a_machine(what: str) -> None:
    tried = no = 0
    for _, answers in lies():
        tried += 1
        try:
            harmless(ASKS[what](answers))
        except VpnevalError as wrong:
            no += 1
            refused(wrong, "gw1", "gw2")
    assert tried > 3000
    assert 20 < no < tried


@pytest.mark.parametrize("what", ASKS)
def test_a_machine_that_answers_as_it_should(what: str) -> None:
    answers = ASKED | {"dpkg-query": [DPKG]}
    assert ASKS[what](answers)


def test_what_a_machine_says_of_itself() -> None:
    said = ASKED["vpneval-begins"][0]
    for bad in mutated(said.format(now=int(time.time()))):
        try:
            harmless([Paper({"vpneval-begins": [bad]})._introduction(math.inf)])
        except VpnevalError as wrong:
            refused(wrong, "gw1")


def test_what_the_probe_of_the_path_says() -> None:
    one, two = describe_sites(SITES, {"gw1": "eth0", "gw2": "eth0"}, {"gw1": "192.0.2.1", "gw2": "192.0.2.2"})
    for bad in mutated(FOUND):
        try:
            found = validate_answer("gw1", FINDINGS, bad)
        except CannotRunHere as wrong:
            refused(wrong, "gw1")
            continue
        harmless([found.get("seen_as", ""), *found["open"]])
        if {"port_kept", "mappings"} <= found.keys():
            harmless([nats_in_words(found, one, two, []).replace(";", "")])
    assert validate_answer("gw1", FINDINGS, FOUND) == FOUND


HARDWARE = """6.12.1-amd64
cores:4
/proc/cpuinfo:model name\t: A CPU
/proc/cpuinfo:cpu MHz\t\t: 2000.5
/proc/meminfo:MemTotal: 8000000 kB
/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq:2400000
/proc/interrupts:           CPU0       CPU1
/proc/interrupts: 24:          7          0   PCI-MSI  eth1-rx-0
/sys/class/net/eth1/driver:driver: virtio_net
/sys/class/net/eth1/queued:/sys/class/net/eth1/queues/rx-0
/sys/class/net/eth1/irqs:/sys/bus/pci/irqs/24
/sys/class/net/eth1/ring:Current hardware settings:
/sys/class/net/eth1/ring:RX:		256
"""


class PaperNode:
    """A node that says this, whatever it is asked."""

    name = "gw1"

    def __init__(self, says: str) -> None:
        self.says = says

    def run(self, *argv: str, check: bool = True, timeout: float = 30, input: str | None = None) -> Completed:
        return Completed(0, self.says, "")


def test_what_a_machine_says_of_its_hardware() -> None:
    refused_ones = 0
    for bad in mutated(HARDWARE):
        node: Any = PaperNode(bad if isinstance(bad, str) else "")
        lab: Any = SimpleNamespace(nodes={"gw1": node}, shared_kernel=False)
        try:
            assert hardware(lab)["gw1"]["kernel"]
        except CannotRunHere as wrong:
            refused_ones += 1
            refused(wrong, "gw1")
    assert refused_ones
    good: Any = SimpleNamespace(nodes={"gw1": PaperNode(HARDWARE)}, shared_kernel=False)
    assert hardware(good)["gw1"]["ports"]["eth1"]["interrupts"] == {"eth1-rx-0": [0]}
