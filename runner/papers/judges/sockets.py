"""What the thesis found of UDP beside TCP (§5.2), and its judge: of its datagrams, between programs with its socket
buffers."""

from functools import partial

from runner.data.levels import BASELINE, TCP
from runner.papers.claims import KERNEL_ESP, all_of, close, compare, judge_beside
from runner.papers.findings import Data, Judgement, NotMeasured, by_repetition
from runner.papers.published import paper

STATED = paper("thesis")
METRIC = "udp_socket_throughput"
BUFFERS = {"send_buffer_bytes": "9216", "receive_buffer_bytes": "196608"}
THEIRS = {"measure": "udp_sockets", "payload_bytes": "1470", "fragmentation": "allow", **BUFFERS}
AES = {"cipher": "aes-128-cbc", "compression": "off"}
PROGRAMS = "the programs that send and read datagrams"  # in user space, whatever the VPN is in


def udp_over_tcp(vpn: str, data: Data) -> Judgement:
    """UDP throughput to a program over TCP throughput, by repetition, within 15 % of 1. The thesis: 0.92 with IPsec
    (152 over 165 Mbit/s)."""
    tunnel = {} if vpn == BASELINE else AES
    udp = by_repetition(data.blocks(METRIC, vpn, **THEIRS, **tunnel))
    tcp = by_repetition(data.blocks("tcp_throughput", vpn, **TCP, **tunnel))
    published = STATED["udp.ipsec"] / STATED["tcp.ipsec"] if vpn == KERNEL_ESP else None
    return data.check_scale(compare(udp, tcp, close(0.15), published), vpn, PROGRAMS)


def alike(data: Data) -> Judgement:
    """In each of the thesis' three that carry UDP. One that is not alike refutes it, whatever else was measured; that
    all are needs IPsec. Beside it: plain IP, where the programs and TCP's own offloads are all that differs."""

    def in_each() -> Judgement:
        judged = all_of({vpn: partial(udp_over_tcp, vpn, data) for vpn in (KERNEL_ESP, "openvpn", "ssh_tun")})
        if judged.verdict != "not reproduced" and KERNEL_ESP not in judged.systems:
            raise NotMeasured("that UDP and TCP are alike in every VPN needs IPsec, which was not measured in this")
        return judged

    return judge_beside(in_each, {"plain IP": partial(udp_over_tcp, BASELINE, data)})
