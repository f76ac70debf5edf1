"""The papers' instruments in real tunnels: both ways at once, parallel flows, rekeys, and 100 MB through ssh."""

import os
import platform
from functools import partial
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import ProofError
from runner.data.levels import Params
from runner.instruments.instrument import at_once
from runner.instruments.result import Measured
from runner.instruments.traffic.clients import clients
from runner.instruments.traffic.device import device
from runner.instruments.traffic.duplex import both_ways, duplex
from runner.instruments.traffic.flows import flows
from runner.instruments.traffic.rekey import CLOCK_LIMIT_S, Rekey, rekey
from runner.lab.node import Node
from runner.lab.places import NamespaceRig
from runner.lab.shape.site_to_site import Lab, namespace_lab
from runner.lab.software.image import Image
from runner.search.settings import UdpSearch
from runner.sweep import cpu_quota, crypto_driver, supported
from runner.tunnel.bring_up import Bench, bring_up, start_services
from runner.vpn.lifecycle import Lifecycle, Rekeying
from tests.lab.test_packets import bench_in
from tests.lab.test_vpns import tunnel_in
from tests.lab.tries import best
from vpns._esp import IKE, IKEV1, INTEGRITIES, NEGOTIATED, spis  # noqa: PLC2701  (the underscore says: no plugin)
from vpns.openvpn import adapts

SLOW_PER_S = 300.0  # what every machine carries
SEARCH = UdpSearch(relative_width=0.2, trial_duration_s=0.3, confirm=None, budget_s=2.0)


def values(measured: Measured) -> dict[str, float]:
    return {found.metric: found.value for found in measured.measurements}


@pytest.fixture
def bench(lab: Lab, image: Image) -> Bench:
    return bench_in(lab, "ipsec_user", image)


def sas(node: Node) -> str:
    return node.run("swanctl", "--list-sas", "--raw").stdout


def test_packets_go_both_ways_and_the_long_ones_in_two(bench: Bench) -> None:
    for length, pieces in (("46", 1), ("1500", 2)):
        both = best(partial(both_ways, bench, int(length), SLOW_PER_S, 0.5), lambda found: found.received == found.sent)
        assert both.sent == pytest.approx(2 * SLOW_PER_S * 0.5, abs=2), "both hosts send"
        assert both.received == both.sent
        assert both.outer_packets / both.received == pytest.approx(pieces, abs=0.1)
        assert (both.fragments > 0) is (pieces == 2)


@pytest.mark.smoke
def test_a_tunnel_that_is_cut_one_way_is_seen(bench: Bench) -> None:
    rule = ("iptables-legacy", "-I", "OUTPUT", "-p", "udp", "--dport", "4500", "-j", "DROP")
    if bench.lab.gateway(bench.lab.sites[1]).run(*rule, check=False).code != 0:
        pytest.skip("the kernel has no iptables")
    both = best(partial(both_ways, bench, 64, SLOW_PER_S, 0.5), lambda found: abs(found.received - found.sent / 2) <= 2)
    assert both.received == pytest.approx(both.sent / 2, abs=2)


@pytest.mark.smoke
def test_duplex_measures_rate_share_and_packets_on_the_wan(bench: Bench) -> None:
    found = values(at_once(duplex(bench, 1500, SEARCH, None)))
    assert found["packet_rate_both_ways"] > SLOW_PER_S
    assert 0 < found["forwarded_share"] <= 1
    assert found["wan_packets_per_packet"] == pytest.approx(2, abs=0.1)


@pytest.mark.smoke
def test_flows_share_the_tunnel(bench: Bench) -> None:
    alone = values(flows(bench.lab, bench.address, 1, 1))
    assert alone["fairness"] == 1
    many = flows(bench.lab, bench.address, 1, 4)
    assert len(many.measurements[1].samples) == 4
    assert 0.25 <= values(many)["fairness"] <= 1
    assert values(many)["flows_throughput"] == pytest.approx(sum(many.measurements[1].samples), rel=0.02)


@pytest.mark.smoke
def test_clients_share_the_tunnel_and_one_that_is_cut_off_counts(bench: Bench) -> None:
    before = bench.lab.host1.run("ip", "-o", "-4", "addr").stdout
    for _ in range(3):  # other work may hold one of them back for most of a second
        served = clients(bench.lab, bench.address, 1, 4)
        if values(served)["clients_fairness"] > 0.5:
            break
    else:
        pytest.fail(f"three times, they did not share the tunnel: {served}")
    assert served.measurements[0].detail["idle_clients"] == 0
    assert bench.lab.host1.run("ip", "-o", "-4", "addr").stdout == before, "their addresses are gone"
    site = bench.lab.sites[0]
    bench.lab.gateway(site).run("ip", "rule", "add", "from", "10.1.0.102", "blackhole")
    cut = clients(bench.lab, bench.address, 1, 4)
    assert cut.measurements[0].detail["idle_clients"] == 1
    assert values(cut)["clients_fairness"] <= 0.75


@pytest.mark.smoke
@pytest.mark.parametrize("what", ["esp", "ike"])
def test_a_rekey_under_load_changes_the_keys_it_names(bench: Bench, what: str) -> None:
    gateway = bench.lab.gateway(bench.lab.sites[0])
    before = sas(gateway)
    measured = rekey(bench, load_vpn("ipsec_user"), what)
    after = sas(gateway)
    assert spis(after, what) - spis(before, what)
    other = "ike" if what == "esp" else "esp"
    assert spis(before, other) == spis(after, other), "the control: the others stay"
    found = {one.metric: one for one in measured.measurements}
    assert len(found["rekey_loss"].samples) == len(found["rekey_rtt"].samples) == 3
    assert found["rekey_loss"].value < 1
    assert found["rekey_rtt"].value > 0


@pytest.mark.parametrize("name", ["openvpn", "ssh_forward", "openconnect_tls"])
def test_a_clock_renews_keys_under_load(lab: Lab, image: Image, name: str) -> None:
    vpn = load_vpn(name)
    params = {**vpn.comparable, **Rekey().asks({"rekey": "clock"})}
    with NamespaceRig().alone(image, lambda line: None) as alone:
        secrets = vpn.secrets(alone, lab.sites)
    start_services(lab)
    bench = Bench(lab, bring_up(lab, vpn, params, secrets), lambda: pytest.fail("it broke down"))
    gateway, (_, *peers) = lab.gateway(lab.sites[0]), lab.sites
    mark = vpn.lifecycle().rekeying.mark
    before = int(mark(gateway, peers))
    found = {one.metric: one for one in rekey(bench, vpn, "clock").measurements}
    assert int(mark(gateway, peers)) >= before + 2, "as often as was measured"
    assert len(found["rekey_rtt"].samples) == 2
    assert min(found["rekey_rtt"].samples) > 0


def test_a_clock_that_stands_still_is_an_error(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    vpn = load_vpn("ipsec_user")
    monkeypatch.setitem(CLOCK_LIMIT_S, "clock", 1.0)
    still = Lifecycle(Rekeying(("clock",), mark=lambda *asked: "always the same"))
    monkeypatch.setattr(vpn, "lifecycle", lambda: still)
    with pytest.raises(TimeoutError, match="renewed no keys within"):
        rekey(bench, vpn, "clock")


def test_the_generic_driver_is_slower_and_says_so(lab: Lab) -> None:
    vpn, levels = load_vpn("none"), {"measure": "device", "cipher": "none", "device_cipher": "aes-128-gcm"}
    for driver in ("generic", "accelerated"):
        if no := supported.level_refusal(lab, vpn, levels | {"driver": driver}):
            pytest.skip(no.reason)
    fast = device(lab, "aes-128-gcm").measurements[0].value
    gateway = lab.gateway(lab.sites[0])
    crypto_driver.set_driver(lab, vpn, levels | {"driver": "generic"})
    slow = device(lab, "aes-128-gcm").measurements[0].value
    assert slow < fast
    words = crypto_driver.driver_said(lab, vpn, levels | {"driver": "generic"})["driver"]
    variable, mask = crypto_driver.MASKS[platform.machine()]
    assert words.startswith(f"{variable} {mask[:3]}")
    assert gateway.environment[variable] == mask
    assert variable not in lab.host1.environment, "the hosts stay as they are"


def test_charon_does_without_its_own_aes(lab: Lab, image: Image) -> None:
    vpn = load_vpn("ipsec_user")
    params = {**vpn.comparable, "cipher": "aes-128-gcm", "integrity": "aead", "driver": "generic"}
    with NamespaceRig().alone(image, lambda line: None) as alone:
        secrets = vpn.secrets(alone, lab.sites)
    start_services(lab)
    bring_up(lab, vpn, params, secrets)
    for site in lab.sites:
        assert "AES_GCM_16[openssl]" in lab.gateway(site).run("swanctl", "--list-algs").stdout


@pytest.mark.parametrize("proposal", IKEV1)  # those with ML-KEM: test_handshake.py
def test_every_proposal_of_ike_is_negotiated_beside_that_of_esp(lab: Lab, image: Image, proposal: str) -> None:
    vpn = load_vpn("ipsec_user")
    with NamespaceRig().alone(image, lambda line: None) as alone:
        secrets = vpn.secrets(alone, lab.sites)
    start_services(lab)
    found = bring_up(lab, vpn, {**vpn.comparable, "ike": proposal}, secrets).evidence
    assert found.facts["ike"] == IKE[proposal]
    assert found.cipher == "AES_CBC-128"


def test_a_gateway_with_a_twentieth_of_a_cpu_is_slower(image: Image, tmp_path: Path) -> None:
    if why := cpu_quota.no_quota():
        pytest.skip(why)
    rates = []
    for levels in ({}, {"gw2_cpu": "0.05"}):
        with cpu_quota.quota(levels) as hold, namespace_lab(image, logs=tmp_path) as lab:
            bench = bench_in(lab, "openvpn", image)
            said = hold(lab)
            rates.append(values(flows(lab, bench.address, 1, 1))["flows_throughput"])
    assert "openvpn" in said["gw2_cpu"]
    assert rates[1] < 0.7 * rates[0]
    assert not list(cpu_quota.GROUPS.glob(f"*/vpneval-{os.getpid()}-*")), "the group goes with the lab"


@pytest.mark.smoke
def test_a_hundred_megabytes_through_ssh(lab: Lab) -> None:
    for cipher in ("aes-128-cbc", "chacha20-poly1305"):
        measured = device(lab, cipher)
        found = measured.measurements[0]
        assert found.value == pytest.approx(8e8 / measured.measuring_s, rel=0.01)
        assert found.detail["cipher"] == cipher
    assert not lab.gateway(lab.sites[0]).run("ss", "-Hltn").stdout.count(":2223 "), "its sshd is gone"


@pytest.mark.parametrize("compression", ["adaptive", "on"])
def test_lzo_adapts_where_it_is_asked_to(lab: Lab, image: Image, compression: str) -> None:
    params = {**load_vpn("openvpn").comparable, "compression": compression}
    tunnel = tunnel_in(lab, "openvpn", params, image, [])
    assert tunnel.evidence.compression == "lzo"
    assert lab.host1.run("ping", "-c", "3", "-i", "0.2", "-s", "1000", lab.sites[1].host_address).code == 0
    log = lab.gateway(lab.sites[0]).read_log(f"openvpn-{lab.sites[1].name}")
    assert adapts(log) is (True if compression == "adaptive" else None)
    other = params | {"compression": "on" if compression == "adaptive" else "adaptive"}
    with pytest.raises(ProofError, match="does not show that it adapts"):
        load_vpn("openvpn").evidence(lab.gateway(lab.sites[0]), lab.sites[0], lab.sites[1:], other)


def test_openvpn_calls_a_static_key_deprecated(lab: Lab) -> None:
    """The thesis names this mode beside TLS (§2.2.2); no plugin has it."""
    gateway = lab.gateway(lab.sites[0])
    gateway.run("openvpn", "--genkey", "secret", "/tmp/static.key")
    options = ("--dev", "null", "--ifconfig-noexec", "--secret", "/tmp/static.key", "--cipher", "AES-128-CBC")
    said = gateway.run("timeout", "2", "openvpn", *options, check=False).stdout
    assert "DEPRECATED OPTION: The option --secret is deprecated" in said


@pytest.mark.parametrize("integrity", sorted(INTEGRITIES))
def test_every_integrity_is_negotiated(lab: Lab, image: Image, integrity: str) -> None:
    params: Params = {"cipher": "camellia-256-cbc", "integrity": integrity, "compression": "off"}
    tunnel = tunnel_in(lab, "ipsec_user", params, image, [])
    assert tunnel.evidence.integrity == NEGOTIATED[integrity]
    assert tunnel.evidence.cipher == "CAMELLIA_CBC-256"


@pytest.mark.smoke
def test_the_daemon_is_asked_what_it_has(image: Image, tmp_path: Path) -> None:
    vpn = load_vpn("ipsec_user")
    with namespace_lab(image, logs=tmp_path) as lab:
        gateway = lab.gateway(lab.sites[0])
        gmac = {"cipher": "aes-128-gmac", "integrity": "aead", "compression": "off"}
        no = vpn.supports(gateway, gmac)
        assert no is not None
        assert "NULL_AES_GMAC" in no.reason
        assert vpn.supports(gateway, gmac | {"cipher": "aes-128-ccm"}) is None, "the control"
        assert "/charon" not in gateway.run("ps", "axo", "args").stdout, "the daemon that was asked is gone"
