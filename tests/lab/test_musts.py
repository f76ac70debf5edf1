"""What shows a must in a tunnel that runs: the key exchange in the daemons' own logs, and what travelled on the WAN."""

import pytest

from runner.catalogue import load_vpn
from tests.lab.test_abilities import LabFor, bring, lab_for

__all__ = ["lab_for"]  # a fixture


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("name", "key_exchange", "outer"),
    [("openvpn", "X25519MLKEM768", ["udp"]), ("ssh_tun", "mlkem768x25519-sha256", ["tcp"])],
)
def test_daemons_tell_a_post_quantum_key_exchange(
    lab_for: LabFor, name: str, key_exchange: str, outer: list[str]
) -> None:
    lab = lab_for(name)
    kems = lab.gateway(lab.sites[0]).run("openssl", "list", "-kem-algorithms", check=False).stdout
    if "MLKEM768" not in kems.replace("-", ""):
        pytest.skip("OpenSSL of this image has no ML-KEM")
    tunnel = bring(lab, load_vpn(name))
    assert tunnel.evidence.key_exchange == key_exchange
    assert tunnel.proof.outer == outer
