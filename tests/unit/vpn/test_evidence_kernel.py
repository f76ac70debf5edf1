"""Evidence of the VPNs in the kernel and of PPP: what is not as asked is refused."""

from __future__ import annotations

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import ProofError
from runner.data.levels import NO_CIPHER
from tests.unit.helpers import GW1, GW2, THREE, Answers, captured

# pppd's log is captured in a guest kernel, from one log-in that worked and one that did not; the rest is shortened.
PPP_LINK = "5: ppp0: <POINTOPOINT,MULTICAST,NOARP,UP,LOWER_UP> mtu 1400 qdisc pfifo_fast state UNKNOWN\\    link/ppp\n"
PPTP = captured("pptp-trixie-pppd.log")
MPPE = load_vpn("pptp").comparable
PLUTO = '000 "gw2":   ESP algorithm newest: AES_CBC_128-HMAC_SHA2_256_128; pfsgroup=<Phase1>\n'
STATES = {"ip xfrm state list proto comp": "", "ip xfrm state count": "\t SAD count 2\n"}


def pptp(log: str = PPTP, links: str = PPP_LINK) -> Answers:
    return Answers({"ip -d -o link show type ppp": links, "cat /run/vpneval-ppp.log": log})


def test_pptp_evidence() -> None:
    assert load_vpn("pptp").evidence(pptp(), GW1, [GW2], MPPE).cipher == "MPPE-128 (RC4)"


def test_pptp_without_mppe_or_without_a_ppp_interface() -> None:
    with pytest.raises(ProofError, match="MPPE of 128 bits"):
        load_vpn("pptp").evidence(pptp(PPTP.replace("MPPE 128", "MPPE 40")), GW1, [GW2], MPPE)
    with pytest.raises(ProofError, match="no PPP interface"):
        load_vpn("pptp").evidence(pptp(links=""), GW1, [GW2], MPPE)
    with pytest.raises(ProofError, match="no PPP interface for each peer"):
        load_vpn("pptp").evidence(pptp(), GW1, THREE[1:], MPPE)


def test_l2tp_that_the_kernel_does_not_carry() -> None:
    node = Answers({"ip -d -o link show type ppp": PPP_LINK, "cat /proc/net/pppol2tp": "PPPoL2TP driver info, V2.0\n"})
    with pytest.raises(ProofError, match="carries no L2TP session"):
        load_vpn("l2tp").evidence(node, GW1, [GW2], NO_CIPHER)


def test_gre_to_somebody_else() -> None:
    vpn = load_vpn("gre")
    link = (
        "7: gre2@NONE: <POINTOPOINT,NOARP,UP,LOWER_UP> mtu 1476\n    gre remote 192.168.0.2 local 192.168.0.1 ttl 64\n"
    )
    assert vpn.evidence(Answers({"ip -d link": link}), GW1, [GW2], NO_CIPHER).data_path == "kernel: GRE"
    with pytest.raises(ProofError, match=r"no GRE tunnel to 192\.168\.0\.2"):
        vpn.evidence(Answers({"ip -d link": link.replace("remote 192.168.0.2", "remote any")}), GW1, [GW2], NO_CIPHER)


def test_libreswan_negotiated_something_else() -> None:
    vpn = load_vpn("libreswan")
    node = Answers({"ipsec whack --status": PLUTO, **STATES})
    assert vpn.evidence(node, GW1, [GW2], vpn.comparable).cipher == "AES_CBC_128"
    for other in ({"cipher": "aes-256-cbc"}, {"integrity": "hmac-sha1"}, {"compression": "on"}):
        with pytest.raises(ProofError, match="asked for"):
            vpn.evidence(node, GW1, [GW2], {**vpn.comparable, **other})
    triple = PLUTO.replace("AES_CBC_128", "3DES_CBC_192")  # as pluto's status says it; its log says 3DES_CBC
    node = Answers({"ipsec whack --status": triple, **STATES})
    assert vpn.evidence(node, GW1, [GW2], {**vpn.comparable, "cipher": "3des-cbc"}).cipher == "3DES_CBC_192"
    with pytest.raises(ProofError, match="negotiated 3DES_CBC_192"):
        vpn.evidence(node, GW1, [GW2], vpn.comparable)
    with pytest.raises(ProofError, match="negotiated nothing"):
        vpn.evidence(Answers({"ipsec whack --status": "", **STATES}), GW1, [GW2], vpn.comparable)
    counted = {**STATES, "ip xfrm state count": "\t SAD count 0\n"}
    with pytest.raises(ProofError, match="not in the kernel"):
        vpn.evidence(Answers({"ipsec whack --status": PLUTO, **counted}), GW1, [GW2], vpn.comparable)
