"""What plugins declare of security and abilities: all of them, with dated sources, and consistent with the plugin."""

from datetime import date

import pytest

from runner.catalogue import load_vpn, vpn_names
from runner.vpn.declared import UNDECLARED
from runner.vpn.plugin import Vpn, confidential

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
    assert declared.maintained


@DECLARING
def test_what_has_no_key_exchange_has_no_forward_secrecy(vpn: Vpn) -> None:
    if not vpn.declared.security.key_exchange:
        assert not vpn.declared.security.forward_secrecy


@DECLARING
def test_a_vpn_that_never_encrypts_says_so(vpn: Vpn) -> None:
    if vpn.declared.security.authentication == ("none",):
        assert vpn.reference
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
    assert "IPv6" in {*declared.inner} - {*declared.otherwise} or not vpn.inner_ipv6
