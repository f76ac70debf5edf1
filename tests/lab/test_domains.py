"""Two sites with the same addresses, for real: by the gateways' NAT, and by OpenVPN itself."""

from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError
from runner.instruments.traffic import domains
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import bring_up, make_secrets, start_services


def joined(image: Image, logs: Path, name: str, *, by_gateways: bool) -> float:
    """Bring the VPN up between sites with the same addresses; were both hosts answered?"""
    vpn = load_vpn(name)
    asked = {} if by_gateways else {"behind": domains.BEHIND}
    with namespace_lab(image, logs=logs) as lab:
        domains.same_network(lab)
        if by_gateways:
            domains.translate(lab)
        start_services(lab)
        secrets = make_secrets(vpn, NamespaceRig().alone(image, lambda line: None), lab.sites)
        assert bring_up(lab, vpn, {**vpn.comparable, **asked}, secrets).proof.delivered
        addresses = {lab.nodes[host].run("hostname", "-I").stdout.strip() for host in ("host1", "host2")}
        assert addresses == {domains.HOST}, "the same"
        (value,) = domains.domains(lab, by_gateways=by_gateways).measurements
        return value.value


@pytest.mark.smoke
@pytest.mark.parametrize(("name", "by_gateways"), [("openvpn", False), ("wireguard_go", True)])
def test_two_sites_with_the_same_addresses(image: Image, tmp_path: Path, name: str, by_gateways: bool) -> None:
    assert joined(image, tmp_path, name, by_gateways=by_gateways) == 1


@pytest.mark.parametrize("name", ["openvpn", "tinc", "ipsec_user", "nebula", "fastd", "ssh_tun"])
def test_nat_on_the_gateways_joins_them_by_any_vpn(image: Image, tmp_path: Path, name: str) -> None:
    assert joined(image, tmp_path, name, by_gateways=True) == 1


def test_an_answer_without_translation_is_a_lab_that_proves_nothing(image: Image, tmp_path: Path) -> None:
    """The sites have addresses of their own, so that they reach each other whatever the gateways do."""
    vpn = load_vpn("none")
    with namespace_lab(image, logs=tmp_path) as lab:
        start_services(lab)
        bring_up(lab, vpn, vpn.comparable, {})
        lab.gateway(lab.sites[0]).run("nft", "add", "table", "ip", domains.TABLE)
        with pytest.raises(MeasurementError, match="did not translate any more"):
            domains.domains(lab, by_gateways=True)
