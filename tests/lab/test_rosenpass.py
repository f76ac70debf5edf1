"""WireGuard with Rosenpass: no payload before it has agreed on a key, and the key that both ends have is its own."""

from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.lab import probes
from runner.lab.node import LabNode, wait_until
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import start_services, vpn_refusal
from runner.tunnel.proof import ANSWER_PORT
from tests.lab.test_contract import keys_of

WITHOUT_S = 1.5  # with Rosenpass, most starts take less than a second


def pre_shared_key(node: LabNode) -> str:
    return node.run("wg", "show", "wg0", "preshared-keys").stdout.split()[1]


def answers(lab: Lab, within_s: float) -> bool:
    ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", lab.sites[-1].host_address, str(ANSWER_PORT))
    return lab.host1.run(*ask, f"{within_s:g}", check=False).code == 0


def test_nothing_passes_before_rosenpass_has_agreed(image: Image, tmp_path: Path) -> None:
    vpn = load_vpn("wireguard_rosenpass")
    with namespace_lab(image, logs=tmp_path) as lab:
        if no := vpn_refusal(lab, vpn, vpn.comparable):
            pytest.skip(f"{vpn.name}: {no.reason}")
        start_services(lab)
        secrets = keys_of(vpn, image, lab.sites)
        gw1, gw2 = lab.sites
        for site, peer in ((gw2, gw1), (gw1, gw2)):
            for path, text in vpn.render(site, [peer], vpn.comparable, secrets).items():
                lab.gateway(site).write(path, text)
            vpn.start(lab.gateway(site), site, [peer], vpn.comparable)
            if site is gw2:
                lab.gateway(gw2).background[-1].stop()  # its Rosenpass; WireGuard goes on
        assert not answers(lab, WITHOUT_S), "payload came through without Rosenpass"
        assert not vpn.is_up(lab.gateway(gw1), gw1, [gw2])
        assert not lab.gateway(gw1).run("wg", "show", "wg0", "peers").stdout

        lab.gateway(gw2).spawn(
            *("env", "RUST_LOG=info", "rosenpass", "exchange-config", "/etc/rosenpass/rosenpass.toml"), log="rosenpass"
        )
        assert answers(lab, 15), "no payload with Rosenpass"
        for site, peer in ((gw2, gw1), (gw1, gw2)):
            wait_until(lambda me=site, it=peer: vpn.is_up(lab.gateway(me), me, [it]), f"{site.name} up")  # type: ignore[misc]
        keys = {pre_shared_key(lab.gateway(site)) for site in lab.sites}
        assert len(keys) == 1, "the ends have different keys"
        assert keys.isdisjoint(secrets.values())
        logs = "".join(path.read_text(errors="replace") for path in tmp_path.glob("*.log"))
        assert not any(key in logs for key in keys), "the key is in a log"
