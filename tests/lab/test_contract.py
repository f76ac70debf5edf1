"""What every plugin owes: a tunnel that works and tells no key, that goes without a trace, comes again, and lets no
stranger in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from runner.catalogue import load_vpn, version_names, vpn_names
from runner.data.errors import CommandError
from runner.data.levels import Params
from runner.instruments.failures.breaks import break_by
from runner.instruments.traffic.tcp import tcp
from runner.lab import probes
from runner.lab.node import LabNode, wait_until
from runner.lab.places import NamespaceRig
from runner.lab.shape.site import Site
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import Image, open_image
from runner.tunnel import bring_up as tunnel
from runner.tunnel.bring_up import bring_up, equip, prepare_beside, start_beside, start_services
from runner.tunnel.proof import ANSWER_PORT
from runner.vpn.plugin import Vpn, entry
from tests.contract import OLDER, Deferred, network, tells_no_key, works
from tests.lab.conftest import Supported

NAMES = [*vpn_names(), *version_names()]
KEYED = [name for name in NAMES if name not in ("none", "gre", "ipip", "l2tpv3")]
# These dial with their namesakes' code and daemons: to call nobody again would take half a minute and show nothing new.
NAMESAKES = ("openvpn_tcp", "openvpn_tap", "ssh_tap", "openconnect_tls", "vtun_tcp")
REFUSED_S = 2.0  # a tunnel of these is up in less; the time that strangers get
FOUND_AGAIN_S = 40.0  # 10 s until the peer is asked, 14 s without an answer, and its start


@pytest.fixture
def older() -> Image:
    return open_image("bookworm", say=print)


def keys_of(vpn: Vpn, image: Image, sites: Sequence[Site]) -> dict[str, str]:
    with NamespaceRig().alone(image, lambda line: None) as alone:
        if vpn.software.layer:
            equip(alone, vpn)
        return vpn.secrets(alone, sites)


def state(node: LabNode) -> set[str]:
    """What a VPN could leave on somebody's gateway: in its network, and processes."""
    processes = Counter(line for line in node.run("ps", "axo", "args=").stdout.splitlines() if "ps axo" not in line)
    return network(node) | {f"{number} processes {line}" for line, number in processes.items()}


# A plugin's namesakes and its other versions are the watch's.
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[] if name in NAMESAKES or "@" in name else [pytest.mark.smoke]) for name in NAMES],
)
def test_works_goes_without_a_trace_and_comes_again(
    image: Image, older: Image, supported: Supported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    vpn, gateways = load_vpn(name), older if name in OLDER else image
    supported(vpn, vpn.comparable, gateways)
    with namespace_lab(image, gateways, logs=tmp_path) as lab:
        secrets = keys_of(vpn, gateways, lab.sites)
        start_services(lab)
        deferred = [Deferred(lab.gateway(site)) for site in lab.sites]
        for each in deferred:
            monkeypatch.setattr(each.node, "defer", each.add)
        before = {site.name: state(lab.gateway(site)) for site in lab.sites}
        for time in ("up", "up again"):
            up = bring_up(lab, vpn, vpn.comparable, secrets)
            assert up.proof.delivered
            if time == "up":
                works(lab, vpn, vpn.comparable, up)
                tells_no_key(lab, name, secrets, tmp_path, lab.commands)
                assert tcp(lab, up.address, 1, 1, "forward", "random").measurements[0].value > 1e6
            for each in deferred:
                each.undo()
            for log in tmp_path.glob("gw*.log"):
                log.unlink()  # is_up reads what the daemons have said, and these are other daemons
        for site in lab.sites:
            with suppress(TimeoutError):
                wait_until(lambda s=site: state(lab.gateway(s)) == before[s.name], "as before")  # type: ignore[misc]
            now = state(lab.gateway(site))
            assert now == before[site.name], f"gone {before[site.name] - now}, new {now - before[site.name]}"


def start_one(lab: Lab, vpn: Vpn, site: Site, params: Params, secrets: Mapping[str, str]) -> None:
    """Bring one gateway up; that its daemon refuses to go on alone is no error here."""
    peers = [peer for peer in lab.sites if peer is not site]
    equip(lab.gateway(site), vpn)
    for path, text in vpn.render(site, peers, params, secrets).items():
        lab.gateway(site).write(path, text)
    with suppress(CommandError, TimeoutError):
        vpn.start(lab.gateway(site), site, peers, params)


@pytest.mark.parametrize("name", KEYED)
def test_another_key_is_refused(image: Image, older: Image, supported: Supported, tmp_path: Path, name: str) -> None:
    vpn, gateways = load_vpn(name), older if name in OLDER else image
    supported(vpn, vpn.comparable, gateways)
    with namespace_lab(image, gateways, logs=tmp_path) as lab:
        start_services(lab)
        # Both ends have whole sets of keys, of two runs: the positive control is the same with one set, above.
        prepare_beside(lab, vpn, vpn.comparable, keys_of(vpn, gateways, lab.sites))
        start_beside(lab, vpn, vpn.comparable)
        for site in reversed(lab.sites):
            start_one(lab, vpn, site, vpn.comparable, keys_of(vpn, gateways, lab.sites))
        ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", entry(vpn, lab.sites))
        done = lab.host1.run(*ask, str(ANSWER_PORT), str(REFUSED_S), check=False)
        assert done.code != 0, "payload came through between gateways with different keys"


@pytest.mark.parametrize("name", [name for name in KEYED if name not in NAMESAKES])
def test_an_absent_peer_is_a_clear_failure_in_time(
    image: Image, older: Image, supported: Supported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    vpn, gateways = load_vpn(name), older if name in OLDER else image
    supported(vpn, vpn.comparable, gateways)
    with namespace_lab(image, gateways, logs=tmp_path) as lab:
        secrets = keys_of(vpn, gateways, lab.sites)
        start_services(lab)
        start = vpn.start
        monkeypatch.setattr(vpn, "start", lambda node, me, *rest: start(node, me, *rest) if me.number == 1 else None)
        monkeypatch.setattr(tunnel, "UP_WITHIN_S", 1.5)
        monkeypatch.setattr(
            "runner.lab.node.PATIENCE", 0.4
        )  # what waits for the peer waits less long: 6 s, commands 12 s
        with pytest.raises((TimeoutError, CommandError)) as failure:
            bring_up(lab, vpn, vpn.comparable, secrets)
        assert "gw1" in str(failure.value)
        if isinstance(failure.value, CommandError):
            assert failure.value.code is not None, f"the tool said nothing until it was stopped: {failure.value}"


@pytest.mark.parametrize("name", ["ipsec_user", "ipsec", "ipsec_ikev1", "gre_ipsec", "vxlan_ipsec", "libreswan"])
def test_a_peer_that_has_restarted_is_found_again(
    image: Image, supported: Supported, tmp_path: Path, name: str
) -> None:
    """Nobody touches gw1: it hears the goodbye, or asks whether its peer lives, and dials again (decision 0019)."""
    vpn = load_vpn(name)
    supported(vpn, vpn.comparable, image)
    with namespace_lab(image, logs=tmp_path) as lab:
        start_services(lab)
        bring_up(lab, vpn, vpn.comparable, keys_of(vpn, image, lab.sites))
        break_by(lab, vpn, vpn.comparable, "restart")(lambda event: None)
        ask = ("python3", "-IS", f"{probes.FOLDER}/ask.py", "first", entry(vpn, lab.sites), str(ANSWER_PORT))
        done = lab.host1.run(*ask, str(FOUND_AGAIN_S), check=False, timeout=FOUND_AGAIN_S + 10)
        assert done.code == 0, f"no payload within {FOUND_AGAIN_S:g} s: {lab.nodes['gw1'].read_log('charon')[-2000:]}"
