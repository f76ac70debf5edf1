"""What plugins declare of security and abilities: all of them, with dated sources, and consistent with the plugin."""

from dataclasses import MISSING, fields, replace
from datetime import date
from typing import Any

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.choice.musts import DECLARED
from runner.data.declaration import Declaration
from runner.vpn.declared import UNDECLARED, Abilities, Declared, Security, Upkeep
from runner.vpn.plugin import Vpn, confidential
from runner.vpn.scale import strength

DECLARING = pytest.mark.parametrize(
    "vpn", [load_vpn(name) for name in vpn_names() if name != "none"], ids=lambda vpn: vpn.name
)


@DECLARING
def test_security_is_declared_with_dated_sources(vpn: Vpn) -> None:
    declared = vpn.declared.security
    assert vpn.declared is not UNDECLARED, f"{vpn.name} declares nothing"
    assert date(2026, 1, 1) <= date.fromisoformat(declared.as_of) <= date.today()
    assert declared.sources
    assert all(
        len(text) > 5
        for text in (*declared.sources, *declared.known_breaks, *declared.breaks_with.values(), *declared.flaws)
    )
    assert not set(declared.sources) & set(declared.unchecked), "opened and not opened"
    assert declared.specification
    assert declared.authentication
    assert declared.key_exchange or not declared.forward_secrecy
    assert strength(vpn.recommended["cipher"], declared.key_exchange) is not None
    if declared.authentication == ("none",):
        assert vpn.reference, "it never encrypts, and says so"
        assert not confidential(vpn.recommended)


@DECLARING
def test_abilities_are_declared_and_fit_the_plugin(vpn: Vpn) -> None:
    declared = vpn.declared.abilities
    assert declared.outer or vpn.transport == "ethernet"
    assert declared.modes
    assert declared.mesh_how, "how it makes a mesh, or why not"
    assert declared.mesh is not (vpn.carries == "tcp"), "who forwards ports joins no networks, and all others do"
    assert ("TCP streams" in declared.inner) is (vpn.carries == "tcp")
    assert vpn.carries == "tcp" or "IPv4" in declared.inner
    assert vpn.transport != "tcp" or declared.tcp_443
    assert "IPv6" in declared.outer or not vpn.outer_ipv6, "its plugin takes what the VPN cannot"
    assert "IPv6" in declared.inner or not vpn.inner_ipv6
    assert not {*declared.inner} & {*declared.otherwise}, "as it is set up, and otherwise only"


LONG_YEARS = 3  # without a release or a fix: then nobody mends it


def is_kept(upkeep: Upkeep, as_of: str) -> bool:
    """Do who mends it and when they last did say one thing?"""
    if not upkeep.month:
        return upkeep.by == "the makers of Linux"
    fresh = int(as_of[:4]) - int(upkeep.month[:4]) < LONG_YEARS
    return fresh if upkeep.goes_on else not fresh or bool(upkeep.more)


def versions_of(vpn: Vpn) -> list[Declared]:
    return [vpn.declared, *(each.changes["declared"] for each in vpn.versions.values() if "declared" in each.changes)]


@DECLARING
def test_who_mends_it_has_done_so_lately(vpn: Vpn) -> None:
    for declared in versions_of(vpn):
        upkeep = declared.security.maintained
        assert is_kept(upkeep, declared.security.as_of), upkeep
        assert upkeep.words.startswith("yes" if declared.record and declared.record.maintained else "no")


@pytest.mark.parametrize(
    "upkeep",
    [
        Upkeep("its makers", "2.3.0", "2021-12"),
        Upkeep("Debian", "the last update", "2019"),
        Upkeep("its makers"),  # nobody can look it up
        Upkeep("nobody", "1.0", "2026-10"),  # and nobody says why
    ],
)
def test_words_that_its_date_contradicts_are_found(upkeep: Upkeep) -> None:
    assert not is_kept(upkeep, "2026-11-26")


def test_the_words_are_made_from_kind_and_date() -> None:
    more = Upkeep("its makers", "v1.12.0", "2026-10", "Debian 13 has 1.9.3")
    assert more.words == "yes, by its makers: v1.12.0 is of October 2026; Debian 13 has 1.9.3"
    assert replace(more, by="nobody", month="2019", more="").words == "no: v1.12.0 is of 2019"
    assert Upkeep("the makers of Linux").words == "yes, by the makers of Linux"


def test_no_must_is_decided_by_a_default() -> None:
    """What a plugin does not state, nobody takes for stated."""
    defaults = {
        field.name
        for kind in (Security, Abilities)
        for field in fields(kind)
        if (field.default, field.default_factory) != (MISSING, MISSING)
    }
    stated = Declaration.model_fields.keys() - defaults
    values: dict[str, Any] = dict.fromkeys(stated, ())
    asked = Declaration.model_construct(**values)
    for must, decide in DECLARED.items():
        decide(asked)  # reads nothing that has a default
        assert must
