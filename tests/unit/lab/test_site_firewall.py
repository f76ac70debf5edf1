"""What a gateway's firewall lets its test host do, from what nftables, iptables and their managers say."""

from runner.lab.places.firewall import closed

# Captured from nft list ruleset (nftables 1.1.3) and iptables-save (1.8.11), after the commands of the refusal.
NFT = """\
table inet mine {
	chain forward {
		type filter hook forward priority filter; policy drop;
		ct state established,related accept
	}
}
"""
NFT_RULES = """\
		oifname "vpneval0" accept
		iifname "vpneval0" counter packets 7 bytes 588 accept
"""
SAVED = "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n"
SAVED_RULES = ("-A FORWARD -o vpneval0 -j ACCEPT\n", "-A FORWARD -i vpneval0 -j ACCEPT\n")


def test_a_firewall_that_drops_what_is_forwarded_is_not_touched() -> None:
    assert not closed(NFT.replace("policy drop", "policy accept"))
    assert closed(NFT)[0].endswith(
        "Allow it meanwhile: nft insert rule inet mine forward iifname vpneval0 accept; "
        "nft insert rule inet mine forward oifname vpneval0 accept"
    )
    by_iptables = "iptables -I FORWARD -i vpneval0 -j ACCEPT; iptables -I FORWARD -o vpneval0 -j ACCEPT"
    assert closed(SAVED)[0].endswith(by_iptables)
    its_table = NFT.replace("inet mine", "ip filter").replace("forward {", "FORWARD {")
    assert closed(its_table)[0].endswith(by_iptables)
    assert len(closed(its_table + SAVED)) == 1
    assert len(closed(its_table + NFT)) == 2, "each chain drops what no rule of its own accepts"


# As firewalld 2.3 writes it, shortened; and as nft list ruleset and iptables-save tell a last rule that drops.
FIREWALLD = """\
table inet firewalld {
	chain filter_FORWARD {
		type filter hook forward priority filter + 10; policy accept;
		ct state { established, related } accept
		iifname "lo" accept
		jump filter_FORWARD_POLICIES_post
		ct state invalid drop
		reject with icmpx admin-prohibited
	}
}
"""


def test_a_last_rule_that_drops_the_rest_is_a_policy() -> None:
    accepts = "nft insert rule inet firewalld filter_FORWARD iifname vpneval0 accept; "
    assert accepts in closed(FIREWALLD)[0]
    assert closed(FIREWALLD.replace("reject with icmpx admin-prohibited", "counter packets 3 bytes 9 drop"))
    assert not closed(FIREWALLD.replace("\t\treject with icmpx admin-prohibited\n", ""))
    assert not closed(FIREWALLD.replace("reject with", "tcp dport 25 reject with")), "not all that is left"
    assert not closed(FIREWALLD.replace("hook forward", "hook input"))
    assert not closed(FIREWALLD.replace("\t\tct state {", f"{NFT_RULES}\t\tct state {{"))
    saved = SAVED.replace("DROP", "ACCEPT")
    assert not closed(saved)
    assert closed(saved + "-A FORWARD -j REJECT --reject-with icmp-host-prohibited\n")
    assert not closed("".join([saved, *SAVED_RULES]) + "-A FORWARD -j REJECT --reject-with icmp-host-prohibited\n")


def test_a_firewall_manager_at_work_is_named_with_what_to_do() -> None:
    running = "running\n"
    (said,) = closed("", running)
    assert said.startswith("firewalld is at work")
    assert "(systemctl stop firewalld)" in said
    assert "nft insert rule inet firewalld filter_FORWARD iifname vpneval0 accept" in said
    assert len(closed(FIREWALLD, running)) == 1, "its chain says it already"
    assert not closed(FIREWALLD.replace("\t\tct state {", f"{NFT_RULES}\t\tct state {{"), running)
    owned = FIREWALLD.replace("{\n\tchain", "{ # progname firewalld\n\tflags owner,persist\n\n\tchain", 1)
    (said,) = closed(owned, running)
    assert said.endswith("End it meanwhile (systemctl stop firewalld)"), "nobody else may change its table"
    for active in (":ufw-user-input - [0:0]\n", "table ip filter {\n\tchain ufw-user-input {\n\t}\n}\n"):
        (said,) = closed(active)
        assert "ufw is at work" in said
        assert "iptables -I FORWARD -i vpneval0 -j ACCEPT" in said
        assert not closed("".join([active, *SAVED_RULES]))
    assert not closed("-A INPUT -s 192.0.2.1/32 -m comment --comment ufw-user-input -j ACCEPT\n")
    assert not closed("", "not running\n")


def test_a_firewall_that_accepts_the_hosts_cable_both_ways_may_drop_the_rest() -> None:
    def with_rules(rules: str) -> str:
        return NFT.replace("\t\tct state", f"{rules}\t\tct state")

    assert not closed(with_rules(NFT_RULES))
    assert not closed(with_rules(NFT_RULES.replace('"vpneval0"', '{ "lan", "vpneval0" }')))
    assert closed(with_rules(NFT_RULES.partition("\n")[0] + "\n")), "one way only"
    assert closed(with_rules(NFT_RULES.replace("iifname", "ip saddr 10.0.0.1 iifname"))), "not all that comes"
    assert closed(with_rules(NFT_RULES.replace("vpneval0", "vpneval01"))), "another port"
    assert closed(with_rules(NFT_RULES) + NFT.replace("mine", "other")), "another chain drops it all the same"
    assert not closed(SAVED + "".join(SAVED_RULES))
    assert closed(SAVED + SAVED_RULES[0])
    assert "nft insert rule inet mine forward iifname eth1 accept" in closed(with_rules(NFT_RULES), port="eth1")[0]
    assert not closed(with_rules(NFT_RULES.replace("vpneval0", "eth1")), port="eth1")
    assert "iptables -I FORWARD -i eth1 -j ACCEPT" in closed(SAVED + "".join(SAVED_RULES), port="eth1")[0]
