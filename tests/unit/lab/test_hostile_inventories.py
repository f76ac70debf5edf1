"""An inventory or a lab.yml that somebody sends is data: whatever is in it, the answer is one sentence, and soon."""

import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from runner.data.errors import UsageError, VpnevalError
from runner.lab.places.inventory import read_inventory
from runner.lab.places.labfile import read_lab_file
from runner.lab.places.sites import read_sites

LAB = (Path(__file__).parents[3] / "vagrant" / "lab.yml").read_text()
BOMB = "a: &a [x, x]\n" + "".join(
    f"{chr(98 + n)}: &{chr(98 + n)} [{', '.join([f'*{chr(97 + n)}'] * 9)}]\n" for n in range(20)
)
MACHINES = """
[host1]
address = "192.0.2.1"
lan = "eth1"
[gw1]
address = "192.0.2.2"
user = "operator"
port = 22
identity = "key"
options = { ProxyJump = "bastion" }
lan = "eth1"
wan = "eth2"
[gw2]
address = "192.0.2.3"
lan = "eth1"
wan = "eth2"
[host2]
address = "192.0.2.4"
lan = "eth1"
"""
SITES = """
max_rate_bps = 100e6
[gw1]
address = "192.0.2.2"
wan = "eth0"
network = "10.1.0.0/16"
[gw2]
address = "192.0.2.3"
"""
DEEP = "[" * 3000 + "]" * 3000
ODD = [
    *("1", "-1", "1.5", "nan", "true", '""', '"x"', '"-oProxyCommand=touch OWNED"', '"$(touch OWNED)"', '"a\\nb"'),
    *("[]", "{}", "[[]]", '{ a = 1 }', "1979-05-27", '"../../etc/passwd"', '"/etc/passwd"', '"\\u0000"', '"é"'),
    *('{ ProxyCommand = 1 }', '{ "-o" = "x" }', '{ "Proxy Command" = "x" }', f'"{"x" * 50_000}"', "9" * 5000, DEEP),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, "is an alias"),
        ("driver: &x auto\nbox: *x\n", r"lab.yml:2: \*x is an alias"),
        ("a: 2001-99-99\n", "cannot be read"),
        ("a: !!int 0b\n", "cannot be read"),
        ("a: !!python/object/apply:os.system ['touch OWNED']\n", "not understood"),
        ("? [a]\n: b\n", "not understood"),
        (DEEP, "nested too deep|recursion"),
        ("a: " + "9" * 5000, "cannot be read"),
        ("x" * (1 << 17), "at most 65536 are read"),
        ("\x00", "not understood"),
    ],
    ids=range(10),
)
def test_a_lab_file_that_is_none(text: str, says: str, tmp_path: Path) -> None:
    path, began = tmp_path / "lab.yml", time.process_time()
    path.write_text(text)
    with pytest.raises(UsageError, match=says) as refused:
        read_lab_file(path)
    assert len(str(refused.value)) < 2000
    assert time.process_time() - began < 20


def read(kind: str, text: str, folder: Path) -> Any:
    """What the reader of this kind makes of the text; None where it refuses it, in a sentence of a bounded length."""
    path = folder / "inventory"
    path.write_text(text)
    reader: Any = {"ssh": read_inventory, "site": read_sites, "vagrant": read_lab_file}[kind]
    try:
        return reader(path)
    except VpnevalError as refused:
        said = str(refused)
    if len(said) > 20_000 or "Traceback" in said:
        pytest.fail(f"{said[:300]}…")
    return None


@pytest.mark.parametrize(("kind", "text"), [("ssh", MACHINES), ("site", SITES)])
def test_each_value_of_an_inventory_as_something_else(kind: str, text: str, tmp_path: Path) -> None:
    assert read(kind, text, tmp_path), "the control"
    for place in re.finditer(r"(?<== ).+$", text, re.MULTILINE):
        for odd in ODD:
            began = time.process_time()
            read(kind, text[: place.start()] + odd + text[place.end() :], tmp_path)
            assert time.process_time() - began < 20
    for place in re.finditer(r"^\w+(?= =)|(?<=^\[)\w+(?=\])", text, re.MULTILINE):
        for odd in ("ProxyCommand", '"../x"', '"-o"', "nobody", "a" + ".a" * 30_000, '"\\u0000"'):
            began = time.process_time()
            read(kind, text[: place.start()] + odd + text[place.end() :], tmp_path)
            assert time.process_time() - began < 20, odd[:20]
    assert not (tmp_path / "OWNED").exists()


def test_nothing_of_an_inventory_becomes_an_option_of_ssh(tmp_path: Path) -> None:
    for place in re.finditer(r"(?<== ).+$", MACHINES, re.MULTILINE):
        for odd in ODD:
            if inventory := read("ssh", MACHINES[: place.start()] + odd + MACHINES[place.end() :], tmp_path):
                for machine in inventory.machines.values():
                    words = [*machine.options_of_ssh(), machine.address]
                    names = words[::2][:-1] if len(words) % 2 else words[::2]
                    assert set(names) <= {"-o", "-l", "-F"}, words
                    assert not any(word.startswith("-") for word in words[1::2]), words
                    assert not words[-1].startswith("-")


def test_each_value_of_a_lab_file_as_something_else(tmp_path: Path) -> None:
    lab = yaml.safe_load(LAB)
    odd: list[Any] = [None, 1, -1, 1.5, "", "-x", "../x", "$(touch OWNED)", "a\nb", [], [[]], {}, {"a": []}, "x" * 9000]
    for key in lab:
        for value in odd:
            read("vagrant", yaml.safe_dump(lab | {key: value}), tmp_path)
    for node in lab["nodes"]:
        for value in odd:
            read("vagrant", yaml.safe_dump(lab | {"nodes": lab["nodes"] | {node: value}}), tmp_path)


@pytest.mark.parametrize("seed", range(3))
def test_bytes_of_an_inventory_as_others(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    for kind, text in (("ssh", MACHINES), ("site", SITES), ("vagrant", LAB)):
        for _ in range(60):
            made = list(text)
            for _ in range(chance.randint(1, 5)):
                at = chance.randrange(len(made))
                made[at : at + chance.randint(0, 3)] = chance.choice("\0\n\t'\"[]{}=*&!%#-:,\\$`éa1")
            read(kind, "".join(made), tmp_path)
