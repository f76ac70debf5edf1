"""What machines answer, checked where it comes in: a machine may be broken, or may lie.

Addresses are addresses, interfaces have names that no shell takes for anything else. So what is made from an answer, in
a script, a page or a sentence with a command, is what it looks like.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address, ip_interface, ip_network
from typing import Annotated, Any, Required, TypeVar

from pydantic import AfterValidator, BeforeValidator, StringConstraints, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic takes no other before Python 3.12

from runner.data.errors import CannotRunHere
from runner.lab.node.iproute import Commandable, parse_objects

Model = TypeVar("Model")
SEPARATOR = "\036"  # between the sections of an answer
SHOWN = 80  # characters of an answer in a sentence
MOST_WORDS = 500  # characters of a machine's own words in it
# dev_valid_name() of the kernel's net/core/dev.c allows more, signs of the shell among it.
INTERFACE = r"^\w[\w.+-]{0,14}$"
Interface = Annotated[str, StringConstraints(pattern=INTERFACE)]
Word = Annotated[str, StringConstraints(pattern=r"^[\w.:/+-]{1,64}$")]


def _address(text: str) -> str:
    """The address as text. Raises ValueError; also for a scope (RFC 4007), which is one machine's own."""
    if "%" in text:
        raise ValueError("an address without a scope is needed")
    return str(ip_address(text))


def _without_hidden(entries: object) -> object:
    """The entries that ip(8) does not pass over."""
    if not isinstance(entries, list):
        return entries
    return [entry for entry in entries if not isinstance(entry, dict) or "local" in entry]


def _network(text: str) -> str:
    return text if text == "default" else str(ip_network(text, strict=False))


Address = Annotated[str, AfterValidator(_address)]


class Entry(TypedDict, total=False):
    """An address of a link, as ``ip -d -j addr`` lists it."""

    family: Required[Word]
    local: Required[Address]
    address: Address  # the peer's
    prefixlen: Required[int]
    scope: Required[Word]
    broadcast: Address
    label: Word
    protocol: Word
    dynamic: bool
    temporary: bool
    noprefixroute: bool
    nodad: bool
    valid_life_time: int
    preferred_life_time: int


def _in_network(entry: Entry) -> Entry:
    """The entry, whose prefix is one of its family. Raises ValueError."""
    ip_interface(f"{entry['local']}/{entry['prefixlen']}")
    return entry


class Kind(TypedDict, total=False):
    """What kind of link it is."""

    info_kind: Word


class Link(TypedDict, total=False):
    """A link, as ``ip -d -j addr`` lists it. ``address``: of its layer 2, which for a tunnel is one of IP."""

    ifname: Required[Interface]
    flags: Required[list[Word]]
    mtu: Required[int]
    addr_info: Required[
        Annotated[list[Annotated[Entry, AfterValidator(_in_network)]], BeforeValidator(_without_hidden)]
    ]
    address: Annotated[str, StringConstraints(pattern=r"^[0-9A-Fa-f:.]*$")]
    master: Interface
    linkinfo: Kind
    inet6_addr_gen_mode: Word


class Hop(TypedDict, total=False):
    """One of a route's several ways."""

    dev: Interface
    gateway: Address


class Route(TypedDict, total=False):
    """A route, as ``ip -j route`` lists it: to a network, or ``default``. ``table``: absent for the table main."""

    dst: Required[Annotated[str, AfterValidator(_network)]]
    type: Word
    dev: Interface
    gateway: Address
    prefsrc: Address
    table: Word
    metric: int
    nexthops: list[Hop]


LINKS, ROUTES = TypeAdapter(list[Link]), TypeAdapter(list[Route])


def links(machine: Commandable, output: str) -> list[Link]:
    """The links in the JSON that ip(8) says on ``machine``. Raises CannotRunHere."""
    return validate_answer(machine.name, LINKS, parse_objects(machine, output))


def routes(machine: Commandable, output: str) -> list[Route]:
    """The routes in the JSON that ip(8) says on ``machine``. Raises CannotRunHere."""
    return validate_answer(machine.name, ROUTES, parse_objects(machine, output.strip() or "[]"))


def validate_answer(machine: str, kind: TypeAdapter[Model], answer: Any) -> Model:
    """The answer of a machine as what it should be. Raises CannotRunHere with what it is not."""
    try:
        return kind.validate_python(answer, strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        where = " ".join(str(part) for part in first["loc"] if not isinstance(part, int))
        raise not_understood(machine, f"{where or 'that'} is {first['input']!r:.{SHOWN}}: {first['msg']}") from None


def sections(machine: str, output: str, number: int) -> list[str]:
    """The sections of an answer. Raises CannotRunHere unless there are so many."""
    found = output.split(SEPARATOR)
    if len(found) != number:
        raise not_understood(machine, f"{len(found)} parts where {number} were asked for: {output.strip()[:SHOWN]!r}")
    return found


def number(machine: str, what: str, output: str) -> int:
    """The whole number that a machine says. Raises CannotRunHere."""
    if not re.fullmatch(r"[0-9]{1,15}", output.strip()):
        raise not_understood(machine, f"{what} is {output.strip()[:SHOWN]!r}, and should be a whole number")
    return int(output)


@contextmanager
def understood(machine: str) -> Iterator[None]:
    """For a block that does nothing but read what ``machine`` has said: what Python cannot read there is no fault of
    this program. Raises CannotRunHere."""
    try:
        yield
    except (ValueError, LookupError, TypeError, AttributeError, ArithmeticError) as odd:
        raise not_understood(machine, f"{type(odd).__name__} ({odd!s:.{SHOWN}}) while its answer was read") from odd


def own_words(said: str) -> str:
    """What a machine says of its trouble, for a sentence: on one line, and no book."""
    return " ".join(said.split())[:MOST_WORDS]


def not_understood(machine: str, what: str) -> CannotRunHere:
    """The error about an answer that no working machine gives."""
    return CannotRunHere(f"{machine} does not answer as it should: {what}. Do its commands work, and is it the machine "
                         "that you mean?")  # fmt: skip
