"""The inventory of an SSH lab: which machine is which, how to reach it, and which of its ports is which.

[gw1]
address = "192.0.2.2"      # a name, an address, or an alias of ~/.ssh/config
user = "operator"          # default: ssh's own
identity = "~/.ssh/testbed"
options = {ProxyJump = "bastion"}      # anything of ssh_config(5)
lan = "eth1"               # a port by name, or by MAC address
wan = "eth2"
"""

from __future__ import annotations

import copy
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from runner.data.errors import UsageError
from runner.data.files import at_home, from_toml, read_text
from runner.lab.node.answers import INTERFACE

MOST_BYTES, DEEPEST = 1 << 16, 8  # of an inventory, and in it
BY_ITSELF = (
    "A machine that has no more than a POSIX shell, openssl and iperf3 is measured by itself: name it in an inventory "
    "of its own, as [device], and: vpneval run devices --lab ssh:FILE (docs/labs.md)"
)
QUOTES = re.compile(r"[\"'\s]")  # of a table's name in TOML
# Neither may look like an option to ssh or ip.
Address = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_\[][A-Za-z0-9_.:%\[\]-]*$")]
# With the signs of a directory's names: alice@corp.example.com, CORP\alice.
USER = r"^[A-Za-z0-9_][A-Za-z0-9_.@\\-]*[$]?$"
Port = Annotated[str, StringConstraints(pattern=rf"{INTERFACE}|^([0-9a-fA-F]{{2}}:){{5}}[0-9a-fA-F]{{2}}$")]


class MachineEntry(BaseModel, ABC):
    """How one machine is reached. What is not given is left to ssh and its configuration."""

    model_config = ConfigDict(extra="forbid")

    address: Address
    user: Annotated[str, StringConstraints(pattern=USER)] | None = None
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    identity: Path | None = None
    config: Path | None = None
    options: dict[Annotated[str, StringConstraints(pattern=r"^[A-Za-z]+$")], str] = {}

    @abstractmethod
    def ports(self) -> dict[str, str]:
        """The port's name in the lab -> its name (or MAC address) on the machine."""

    def options_of_ssh(self) -> list[str]:
        """The options of ssh(1) that lead to this machine."""
        return [*self.options_of_both(), *([] if self.user is None else ["-l", self.user])]

    def options_of_both(self) -> list[str]:
        """Those that scp(1) has, too: all but the user."""
        config = [] if self.config is None else ["-F", str(self.config)]
        given = {} if self.port is None else {"Port": str(self.port)}
        given |= {} if self.identity is None else {"IdentityFile": quote_path(self.identity), "IdentitiesOnly": "yes"}
        every = [*given.items(), *self.options.items()]  # of an option given twice, ssh takes the first
        return config + [word for name, value in every for word in ("-o", f"{name}={value}")]


def quote_path(path: Path) -> str:
    """A path as ssh_config(5) reads it, in which blanks, quotes and % mean themselves."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


class HostMachine(MachineEntry):
    """A host: one port, on its site's LAN."""

    lan: Port

    def ports(self) -> dict[str, str]:
        """``eth0``, to its site."""
        return {"eth0": self.lan}


class GatewayMachine(MachineEntry):
    """A gateway: a port on its site's LAN and one on the WAN."""

    lan: Port
    wan: Port

    def ports(self) -> dict[str, str]:
        """``lan0`` and ``wan0``."""
        return {"lan0": self.lan, "wan0": self.wan}


class WanMachine(MachineEntry):
    """The machine between the gateways: a port to each."""

    gw1: Port
    gw2: Port

    def ports(self) -> dict[str, str]:
        """One named after each gateway."""
        return {"gw1": self.gw1, "gw2": self.gw2}


class Device(MachineEntry):
    """A machine that is measured by itself: a POSIX shell is enough, and no port of it is lent."""

    def ports(self) -> dict[str, str]:
        """No port: the machine keeps its ports."""
        return {}


class Alone(BaseModel):
    """The inventory of a device that is measured by itself."""

    model_config = ConfigDict(extra="forbid")

    device: Device


class Inventory(BaseModel):
    """The machines of a site-to-site lab. Without ``wan``, the gateways' WAN ports are on one cable or switch."""

    model_config = ConfigDict(extra="forbid")

    host1: HostMachine
    gw1: GatewayMachine
    wan: WanMachine | None = None
    gw2: GatewayMachine
    host2: HostMachine

    @property
    def machines(self) -> dict[str, MachineEntry]:
        """The machines by name, from one end of the lab to the other."""
        entries = {"host1": self.host1, "gw1": self.gw1, "wan": self.wan, "gw2": self.gw2, "host2": self.host2}
        return {name: machine for name, machine in entries.items() if machine is not None}

    @model_validator(mode="after")
    def _each_is_another_machine(self) -> Inventory:
        seen: dict[str, str] = {}
        for name, machine in self.machines.items():
            place = f"{machine.address}, port {machine.port}, {sorted(machine.options.items())}"
            if place in seen:
                raise ValueError(f"{seen[place]} and {name} are the same machine ({machine.address})")
            seen[place] = name
            ports = list(machine.ports().values())
            if len(set(ports)) < len(ports):
                raise ValueError(f"{name} has the same port twice: {ports[0]}")
        return self


Read = TypeVar("Read", bound=BaseModel)


def read_inventory(path: Path) -> Inventory:
    """The inventory in ``path``; files that it names are taken from its folder.

    Raises UsageError with the file, the line, and what is valid there.
    """
    inventory = read_model(path, Inventory, "ssh")
    resolve_files(path, inventory.machines.values())
    return inventory


def read_device(path: Path) -> Device | None:
    """The device of an inventory that has the table ``[device]``; None of every other file, whose mistakes
    ``read_inventory`` names. Raises UsageError with the file, the line, and what is valid there."""
    try:
        if "device" not in from_toml(read_text(path, MOST_BYTES)):
            return None
    except (UsageError, ValueError):
        return None
    device = read_model(path, Alone, "ssh").device
    resolve_files(path, [device])
    return device


def resolve_files(path: Path, machines: Iterable[MachineEntry]) -> None:
    """Take the files that the machines name from the inventory's folder."""
    folder = path.absolute().parent  # a page with these names is read in another folder
    for machine in machines:
        machine.identity = machine.identity and folder / at_home(machine.identity)
        machine.config = machine.config and folder / at_home(machine.config)


def read_model(path: Path, model: type[Read], lab: str) -> Read:
    """The contents of the file of ``--lab LAB:FILE``. Raises UsageError with every mistake: file, line, what is
    valid."""
    try:
        text = read_text(path, MOST_BYTES)
        data = from_toml(text)
        _check_depth(data)
    except UsageError as error:
        raise UsageError(f"--lab {lab}:FILE: the inventory {error}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not TOML: {error}") from error
    try:
        return model.model_validate(data)
    except ValidationError as error:
        wrong = error.errors()
        wrong += _unfitting(model, data, wrong)
        raise UsageError("\n".join(_explain(path, text, mistake, model) for mistake in wrong)) from error


def _check_depth(data: Mapping[str, Any]) -> None:
    """Raise ValueError for what is nested deeper than any inventory: a line with many dots, say."""
    level: list[Any] = [data]
    for _ in range(DEEPEST):
        level = [value for each in level for value in (each.values() if isinstance(each, dict) else each)]
        level = [value for value in level if isinstance(value, dict | list)]
    if level:
        raise ValueError("it is nested too deep for an inventory")


def _unfitting(model: type[BaseModel], data: Mapping[str, Any], wrong: Sequence[Any]) -> list[Any]:
    """The errors of lines that contradict each other. Pydantic looks for these only where every line is valid by
    itself, so the model is validated once more without the ``wrong`` lines, and is told which they are."""
    rest = copy.deepcopy({**data})
    for error in wrong:
        table, *keys = error["loc"] or ("",)
        if keys and error["type"] == "missing":
            rest[table][keys[0]] = f"{table}-none"  # another than every other
        elif keys:
            rest[table].pop(keys[0], None)
        else:
            rest.pop(table, None)
    try:
        model.model_validate(rest, context={".".join(map(str, error["loc"][:2])) for error in wrong})
    except ValidationError as error:
        return [mistake for mistake in error.errors() if mistake["type"] == "site"]
    return []


def _explain(path: Path, text: str, error: Mapping[str, Any], model: type[BaseModel]) -> str:
    """One mistake as ``file:line: [table] key: what is wrong, what is valid``."""
    table, *keys = [str(part) for part in error["loc"]] or [""]
    fields = _of_table(model, table) or model.model_fields
    if table and table in model.model_fields and not _of_table(model, table):
        table, keys = "", [table]  # a key outside of every table
    elif keys and get_origin(getattr(model.model_fields.get(table), "annotation", None)) is dict:  # a table each
        table, keys = f"{table}.{keys[0]}", keys[1:]
        inner = fields.get(keys[0]) if len(keys) > 1 else None
        fields = (_fields_of(inner.annotation) if inner else {}) or fields
        keys = [] if keys == ["[key]"] else keys  # the table's name is wrong
    what = {
        "missing": "is missing",
        "extra_forbidden": "is not known",
        "string_pattern_mismatch": f"cannot be {error['input']!r:.100}",
    }.get(error["type"], error["msg"].removeprefix("Value error, "))
    place = f"[{table}]" + (f" {'.'.join(keys)}" if keys else "") if table else "".join(keys[:1]) or "the machines"
    return f"{path}:{_line(text, table, keys)}: {place}: {what}. Valid here: {', '.join(fields)}"


def _of_table(model: type[BaseModel], table: str) -> Mapping[str, Any]:
    """The keys of the model's ``[table]``; none where it has no such table."""
    about = model.model_fields.get(table)
    return _fields_of(about.annotation) if about else {}


def _fields_of(annotation: Any) -> Mapping[str, Any]:
    """The keys of the table that this annotation stands for; none where it stands for no table."""
    kinds = [annotation, *get_args(annotation)]
    return next((kind.model_fields for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), {})


def _line(text: str, table: str, keys: list[str]) -> int:
    """The line of a table's key, else of the table, else 1."""
    lines, header_line = text.splitlines(), 1
    inside = not table
    for number, line in enumerate(lines, 1):
        if header := re.match(r"\s*\[+([^]]*)", line):
            inside = f"{re.sub(QUOTES, '', header[1])}.".startswith(f"{re.sub(QUOTES, '', table)}.")
            header_line = number if inside else header_line
        elif inside and keys and re.match(rf"\s*{re.escape(keys[0])}\s*[.=]", line):
            return number
    return header_line
