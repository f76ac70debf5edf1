"""One port encrypted, and another not: IPsec does that, in a kernel with ESP; what treats both alike does not pass."""

import pytest

from runner.catalogue import load_vpn
from runner.instruments.traffic.applications import APART, applications
from runner.lab.shape.site_to_site import Lab
from runner.vpn.plugin import Vpn
from tests.lab.test_abilities import LabFor, bring, lab_for

__all__ = ["lab_for"]  # a fixture


def told_apart(lab: Lab, vpn: Vpn) -> float:
    """Of a VPN that is asked to: 1 where it gives one port other functions than another."""
    (value,) = applications(lab, bring(lab, vpn, apart=str(APART)).address).measurements
    return value.value


@pytest.mark.smoke
@pytest.mark.parametrize(("name", "apart"), [("none", 0), ("wireguard_go", 0), ("ipsec", 1)])
def test_functions_by_application(lab_for: LabFor, name: str, apart: int) -> None:
    assert told_apart(lab_for(name), load_vpn(name)) == apart
