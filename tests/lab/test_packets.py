"""Packet rate, overhead and path MTU in real tunnels, against closed forms and against a WAN whose limits are known."""

from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import MeasurementError, TooLongError
from runner.data.levels import AEAD
from runner.instruments.tools.fragments import refuse_too_long
from runner.instruments.tools.generator import Load, generating
from runner.instruments.traffic.mtu import path_mtu
from runner.instruments.traffic.overhead import overhead
from runner.instruments.traffic.packets import Counted, stream
from runner.instruments.traffic.tcp import tcp
from runner.lab.readings.wire import outer
from runner.lab.shape.site_to_site import Lab, batch, namespace_lab
from runner.lab.software.image import Image
from runner.tunnel.bring_up import Bench
from tests.lab.test_vpns import tunnel_in
from tests.unit.helpers import overhead_bytes

CARRIERS = [
    *(("none", "none"), ("ipip", "none"), ("gre_ipsec", "aes-128-cbc"), ("ipsec", "aes-128-cbc")),
    *(("openvpn", cipher) for cipher in ("aes-128-cbc", "aes-128-gcm", "null")),
    *(("ipsec_user", cipher) for cipher in ("aes-128-cbc", "3des-cbc", "aes-128-gcm", "chacha20-poly1305", "null")),
    *(("wireguard", "chacha20-poly1305"), ("wireguard_go", "chacha20-poly1305")),
    *(("tinc", cipher) for cipher in ("aes-128-cbc", "null")),
    *(("ssh_tun", cipher) for cipher in ("aes-128-cbc", "aes-128-gcm", "chacha20-poly1305")),
]


def bench_in(lab: Lab, name: str, image: Image, cipher: str = "") -> Bench:
    """``name`` up in ``lab``; a tunnel that breaks down is a failure here."""
    vpn = load_vpn(name)
    params = dict(vpn.comparable)
    if cipher:
        integrity = "aead" if cipher in AEAD else params["integrity"]
        params |= {"cipher": cipher, "integrity": integrity}

    def renew() -> tuple[Lab, object]:
        raise AssertionError("the tunnel broke down")

    return Bench(lab, tunnel_in(lab, name, params, image, []), renew)  # type: ignore[arg-type]


def set_mtu(lab: Lab, mtu: int) -> None:
    batch(lab.wan, f"link set gw1 mtu {mtu}", f"link set gw2 mtu {mtu}", f"link set br0 mtu {mtu}")
    for site in lab.sites:
        batch(lab.gateway(site), f"link set wan0 mtu {mtu}")


def sent(lab: Lab, bench: Bench, length: int, per_s: float, fragment: bool = False) -> Counted:
    """Half a second of packets from host1 to host2."""
    with generating(lab, bench.address, fragments=fragment) as by:
        return stream(lab, Load((length,), per_s, 0.5, fragment=fragment), [by])


@pytest.mark.parametrize(("name", "cipher"), CARRIERS)
def test_overhead_is_the_closed_form(lab: Lab, image: Image, name: str, cipher: str) -> None:
    bench = bench_in(lab, name, image, cipher)
    vpn = load_vpn(name)
    integrity = "aead" if cipher in AEAD else vpn.comparable["integrity"]
    params = {"cipher": cipher, "integrity": integrity, "compression": "off"}
    for length in (64, 65, 512, 1380):
        layers, expected = vpn.encapsulation(params, length), overhead_bytes(vpn, params, length)
        with generating(lab, bench.address) as by:
            measured = overhead(lab, length, False, layers, by)
        found = measured.measurements[0]
        others = [one for one in measured.warnings if "streams lost packets" not in one]  # a busy machine may lose some
        assert others == [], length
        assert expected is not None
        repeated = found.detail["retransmissions"] * (length + expected) / 200
        assert expected - 0.5 <= found.value <= expected + 0.5 + repeated, length
        assert found.detail["captured_bytes"] == pytest.approx(found.value, abs=0.5)


@pytest.mark.smoke
def test_a_wrong_closed_form_is_found(lab: Lab, image: Image) -> None:
    bench = bench_in(lab, "none", image)
    wrong = {"UDP": 8, "inner packet": 256}
    with generating(lab, bench.address) as by:
        assert "closed form is 8" in overhead(lab, 256, False, wrong, by).warnings[0]


@pytest.mark.smoke
def test_every_packet_is_counted(lab: Lab, image: Image) -> None:
    bench = bench_in(lab, "none", image)
    for length in (28, 64, 1500):
        counted = sent(lab, bench, length, 2000)
        assert counted.received == counted.sent > 500  # on a busy machine, the sender forgets some
        assert counted.outer_packets == pytest.approx(counted.sent, abs=10)  # and a few of ARP
    assert "vpneval" not in lab.host2.run("nft", "list", "tables").stdout, "the sink has gone"


@pytest.mark.smoke
def test_what_is_lost_on_the_wan_is_missing_at_the_sink(lab: Lab, image: Image) -> None:
    bench = bench_in(lab, "none", image)
    rules = """
    table netdev cut {
        chain drops {
            type filter hook ingress device "gw1" priority 0
            udp dport 20000 numgen inc mod 10 0 counter drop
        }
    }
    """
    lab.wan.run("nft", "-f", "-", input=rules)
    counted = sent(lab, bench, 256, 2000)
    dropped = lab.wan.run("nft", "list", "table", "netdev", "cut").stdout.partition("counter packets ")[2].split()[0]
    assert int(dropped) == -(-counted.sent // 10) > 50
    assert counted.sent == counted.received + counted.lost_packets
    assert counted.lost_packets == int(dropped)


@pytest.mark.smoke
def test_fragments_are_counted(lab: Lab, image: Image) -> None:
    bench = bench_in(lab, "none", image)
    counted = sent(lab, bench, 2000, 400, fragment=True)
    assert counted.received == counted.sent > 100
    assert counted.fragments == 2 * counted.sent
    assert counted.outer_packets == pytest.approx(2 * counted.sent, abs=10)


def refuse(lab: Lab, tool: str) -> None:
    """On the far host, ``tool`` says no from now on, as on a kernel without what it needs."""
    lab.host2.write(f"/usr/local/sbin/{tool}", "#!/bin/sh\necho Operation not supported >&2\nexit 1\n", mode=0o755)


def test_where_nftables_does_not_work_iptables_counts(lab: Lab, image: Image) -> None:
    bench = bench_in(lab, "none", image)
    refuse(lab, "nft")
    for length, fragment in ((28, False), (1500, False), (2000, True)):
        counted = sent(lab, bench, length, 400, fragment)
        assert counted.received == counted.sent > 100
    assert "vpneval" not in lab.host2.run("iptables-legacy-save").stdout, "the sink has gone"
    refuse(lab, "iptables-legacy-restore")
    with pytest.raises(MeasurementError, match="nftables: Operation not supported; iptables: Operation not supported"):
        sent(lab, bench, 64, 400)


@pytest.mark.parametrize(
    "name",
    [
        *(pytest.param(name, marks=pytest.mark.smoke) for name in ("none", "openvpn", "ssh_tun")),
        *("ipsec_user", "wireguard_go"),
    ],
)
def test_path_mtu_of_a_known_link(tmp_path: Path, image: Image, name: str) -> None:
    with namespace_lab(image, logs=tmp_path) as lab:
        set_mtu(lab, 1300)
        bench = bench_in(lab, name, image)
        found = path_mtu(bench).measurements[0]
        vpn = load_vpn(name)
        if name == "ssh_tun":  # a stream of bytes: its packets are as long as the TUN's MTU, whatever the link
            assert found.value == found.detail["unfragmented_bytes"] == 1500
            return
        whole = found.detail["unfragmented_bytes"]
        per_packet = overhead_bytes(vpn, vpn.comparable, whole)
        per_longer = overhead_bytes(vpn, vpn.comparable, whole + 1)
        assert per_packet is not None
        assert per_longer is not None
        assert whole + per_packet <= 1300 < whole + 1 + per_longer
        assert found.value >= whole
        assert found.detail["one_byte_more"]["fragments"] > 0


@pytest.mark.smoke
def test_too_long_packets_are_refused_with_the_mtu(lab: Lab, image: Image) -> None:
    bench = bench_in(lab, "wireguard_go", image)
    refuse_too_long(bench, 1420)
    with pytest.raises(TooLongError, match=r"1421 bytes \(IPv4\) is longer than the tunnel's MTU, 1420 bytes"):
        refuse_too_long(bench, 1421)


@pytest.mark.smoke
def test_wan_bytes_of_a_tcp_test(lab: Lab, image: Image) -> None:
    bench = bench_in(lab, "none", image)
    before = outer(lab)
    measured = {m.metric: m for m in tcp(lab, bench.address, 1, 1, "forward", "random").measurements}
    found = measured["wire_bytes_per_payload_byte"]
    # Full segments of 1448 bytes in packets of 1500, and acknowledgements of 52 for at least every 45 segments.
    assert 1500 / 1448 * 0.999 < found.value < (1500 + 52) / 1448 * 1.02
    assert (outer(lab) - before).packets > measured["tcp_throughput"].value / 8 / 1448 * 0.9
