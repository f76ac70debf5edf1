"""The rules that close both ends of a deployed tunnel: what they are for a device, for IPsec in the kernel, and for a
family that the tunnel does not carry. That they hold is seen in tests/lab/test_both_ends.py and test_closed.py."""

import re

from runner.vpn.closing import rules

OWN, HERE, OTHERS = ["10.7.0.0/16"], "10.7.0.1", ["10.8.0.0/24", "10.9.0.0/24"]


def chains(text: str) -> dict[str, list[str]]:
    """Chain -> its rules, without the line that says its hook."""
    found = re.findall(r"chain (\w+) \{\n\s*type [^\n]*;\n(.*?)\n    \}", text, re.DOTALL)
    return {name: [line.strip() for line in lines.splitlines()] for name, lines in found}


def test_each_device_of_the_tunnel_is_closed_at_both_ends() -> None:
    of = chains(rules("ip", OWN, HERE, OTHERS, ["t0", "oc*"])["closed-ip.nft"])
    there = "ip saddr { 10.7.0.0/16 } ip daddr { 10.8.0.0/24, 10.9.0.0/24 } accept"
    back = "ip saddr { 10.8.0.0/24, 10.9.0.0/24 } ip daddr { 10.7.0.0/16 } accept"
    for device in ("t0", "oc*"):
        assert of["past"][1] == f'oifname "t0" {there}'
        assert f'iifname "{device}" ip saddr {{ 10.8.0.0/24, 10.9.0.0/24 }} accept' in of["to_me"]
        assert f'iifname "{device}" ip daddr {{ 10.7.0.0/16 }} counter drop' in of["to_me"]
        for way, networks in (("oifname", there), ("iifname", back)):
            into = [rule for rule in of["between"] if rule.startswith(f'{way} "{device}"')]
            assert into[0] == f'{way} "{device}" {networks}'
            assert into[-1] == f'{way} "{device}" counter drop'
    assert of["between"][-1] == "ip saddr { 10.8.0.0/24, 10.9.0.0/24 } counter drop"
    assert of["past"][-1] == "counter drop"
    assert of["to_me"][-1] == of["between"][-1]


def test_ipsec_of_the_kernel_shares_no_drop_with_other_policies() -> None:
    of = chains(rules("ip", OWN, HERE, OTHERS, [])["closed-ip.nft"])
    assert of["past"][1].startswith("rt ipsec exists ip saddr { 10.7.0.0/16 } ")
    assert of["to_me"][0] == "meta ipsec exists ip saddr { 10.8.0.0/24, 10.9.0.0/24 } accept"
    for chain in ("between", "to_me"):
        drops = [rule for rule in of[chain] if rule.endswith("drop")]
        assert drops == ["ip saddr { 10.8.0.0/24, 10.9.0.0/24 } counter drop"]


def test_a_family_that_is_not_carried_is_closed_and_has_no_nat() -> None:
    found = rules("ip6", "fd07::/64", "fd07::1", ["fd08::/64"], ["t0"], carried=False)
    assert [*found] == ["closed-ip6.nft"]
    assert "t0" not in found["closed-ip6.nft"]
    assert all(one[-1].endswith("counter drop") for one in chains(found["closed-ip6.nft"]).values())


def test_before_the_nat_a_packet_has_the_sites_own_addresses_and_after_it_those_that_the_others_see() -> None:
    found = rules("ip", OWN, "10.1.0.1", OTHERS, ["t0"], seen_as=["10.1.0.0/16"])
    closed, whole = chains(found["closed-ip.nft"]), chains(found["whole-ip.nft"])
    theirs = "{ 10.8.0.0/24, 10.9.0.0/24 }"
    assert closed["past"][1] == f'oifname "t0" ip saddr {{ 10.1.0.0/16 }} ip daddr {theirs} accept'
    assert f'oifname "t0" ip saddr {{ 10.7.0.0/16 }} ip daddr {theirs} accept' in closed["between"]
    assert "10.1.0.0/16" not in "".join(closed["between"])
    assert f"ip daddr {theirs} snat ip prefix to ip saddr map {{ 10.7.0.0/16 : 10.1.0.0/16 }}" in whole["whole"]
    assert whole["translated"] == [f"ip saddr {theirs} dnat ip prefix to ip daddr map {{ 10.1.0.0/16 : 10.7.0.0/16 }}"]
    assert f"ip saddr {theirs} ip daddr {{ 10.1.0.0/16 }} ct zone set 9999" in whole["zone"]
