"""What a gateway's firewall lets its test host do, from what nftables, iptables and their managers say."""

import json
import re
import time
from itertools import pairwise
from typing import Any

import pytest

from runner.lab.node.lines import MOST_ANSWER
from runner.lab.places import firewall as module
from runner.lab.places.firewall import translates, unread

JSON: dict[
    str, dict[str, Any]
] = {  # a word of nft list ruleset -> the statement in JSON, as nftables 1.0.6 and 1.1.3 write it
    "accept": {"accept": None},
    "drop": {"drop": None},
    "return": {"return": None},
    "masquerade": {"masquerade": None},
    "snat": {"snat": {"addr": "192.0.2.1"}},
    "reject": {"reject": {"type": "icmpx", "expr": "admin-prohibited"}},
    "counter": {"counter": {"packets": 0, "bytes": 0}},
    "ct": {"match": {"op": "in", "left": {"ct": {"key": "state"}}, "right": ["established", "related"]}},
    "tcp": {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": 25}},
}


def statements(rule: str) -> list[Any]:
    """A rule of the rulesets below as JSON."""
    said, words = list[Any](), re.findall(r"\{.*?\}|\S+", rule)
    for word, following in pairwise([*words, ""]):
        if word in JSON:
            said.append(JSON[word])
        elif word == "jump":
            said.append({"jump": {"target": following}})
        elif word in ("iifname", "oifname"):
            ports = re.findall(r'"(.*?)"', following)
            right: Any = {"set": ports} if following.startswith("{") else ports[0]
            said.append({"match": {"op": "==", "left": {"meta": {"key": word}}, "right": right}})
        elif word in ("saddr", "daddr"):
            left: Any = {"payload": {"protocol": "ip", "field": word}}
            said.append({"match": {"op": "==", "left": left, "right": following}})
    return said


def in_json(firewall: str) -> str:
    """The rulesets below, which nft list ruleset says, as ``nft -j`` says them; what iptables says is behind it."""
    listed: list[dict[str, Any]] = [{"metainfo": {"version": "1.1.3"}}]
    table: dict[str, Any] = {}
    chain: dict[str, Any] = {}
    saved = []
    for line in firewall.splitlines():
        words = line.split()
        if words[:1] == ["table"]:
            table = {"family": words[1], "name": words[2]}
            listed.append({"table": table})
        elif words[:1] == ["flags"]:
            table["flags"] = words[1].split(",")
        elif words[:1] == ["chain"]:
            chain = {"family": table["family"], "table": table["name"], "name": words[1]}
            listed.append({"chain": chain})
        elif words[:1] == ["type"]:
            chain |= {"hook": words[words.index("hook") + 1], "policy": line.rpartition("policy ")[2].rstrip(";")}
        elif line.startswith("\t\t"):
            about = {"family": table["family"], "table": table["name"], "chain": chain["name"]}
            listed.append({"rule": about | {"expr": statements(line)}})
        elif not line.startswith(("\t", "}")):
            saved.append(line)
    return "\n".join([json.dumps({"nftables": listed})] * (len(listed) > 1) + saved)


def closed(firewall: str, managers: str = "", **where: Any) -> list[str]:
    return module.forwarding_problems(in_json(firewall), managers, **where)


# As nft list ruleset (nftables 1.1.3) and iptables-save (1.8.11) say it, after the commands of the refusal.
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
    assert "nft insert rule inet firewalld filter_FORWARD iifname vpneval0 accept; " in closed(FIREWALLD)[0]
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
    running = "running\n\n"
    owned = FIREWALLD.replace("{\n\tchain", "{ # progname firewalld\n\tflags owner,persist\n\n\tchain", 1)
    for table in ("", FIREWALLD, owned):
        (said,) = closed(table, running, lans=LANS)
        assert said.startswith("firewalld is at work")
        assert "firewall-cmd --zone=trusted --add-source=198.18.1.0/24 --add-source=198.18.2.0/24" in said
        assert not closed(table, f"running\n10.0.0.0/8 {' '.join(LANS)}\n", lans=LANS)
        assert closed(table, f"running\n{LANS[0]}\n", lans=LANS), "one way only"
    (said,) = closed(NFT, f"running\n{' '.join(LANS)}\n", lans=LANS)
    assert "nft insert rule inet mine" in said, "another table drops it all the same"
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


# As Docker 20.10 and ufw 0.36 write them, shortened; and as nft list ruleset tells Docker's.
DOCKER = """\
*nat
:POSTROUTING ACCEPT [0:0]
-A POSTROUTING -s 172.17.0.0/16 ! -o docker0 -j MASQUERADE
COMMIT
*filter
:FORWARD DROP [0:0]
:DOCKER-USER - [0:0]
-A FORWARD -j DOCKER-USER
-A FORWARD -j DOCKER-ISOLATION-STAGE-1
-A FORWARD -o docker0 -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
MINE
-A DOCKER-USER -j RETURN
COMMIT
"""
DOCKER_NFT = """\
table ip filter {
	chain DOCKER-USER {
MINE
		counter packets 0 bytes 0 return
	}

	chain FORWARD {
		type filter hook forward priority filter; policy drop;
		counter packets 0 bytes 0 jump DOCKER-USER
	}
}
"""
UFW = """\
*filter
:FORWARD DROP [0:0]
:ufw-user-input - [0:0]
-A FORWARD -j ufw-before-logging-forward
-A FORWARD -j ufw-before-forward
-A ufw-before-forward -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-forward -j ufw-user-forward
MINE
COMMIT
"""
BY_PORT = '-A {0} -i vpneval0 -j ACCEPT\n-A {0} -o vpneval0 -m comment --comment "to the host" -j ACCEPT'
BY_NETWORK = "-A {0} -s 198.18.1.0/24 -d 198.18.2.0/24 -j ACCEPT\n-A {0} -s 198.18.2.0/24 -d 198.18.1.0/24 -j ACCEPT"
LANS = ("198.18.1.0/24", "198.18.2.0/24")


@pytest.mark.parametrize(("firewall", "chain"), [(DOCKER, "DOCKER-USER"), (UFW, "ufw-user-forward")])
@pytest.mark.parametrize("rules", [BY_PORT, BY_NETWORK])
def test_what_a_chain_of_the_users_own_permits_is_permitted(firewall: str, chain: str, rules: str) -> None:
    assert closed(firewall.replace("MINE\n", ""), lans=LANS), "the control"
    assert not closed(firewall.replace("MINE", rules.format(chain)), lans=LANS)
    assert closed(firewall.replace("MINE", rules.format(chain).partition("\n")[0]), lans=LANS), "one way only"
    assert closed(firewall.replace("MINE", rules.format("NOBODY-GOES-THERE")), lans=LANS)
    assert closed(firewall.replace("MINE", rules.format(chain)), lans=("10.1.0.0/24", LANS[1]), port="eth1")
    only_some = firewall.replace(f"-j {chain}", f"-p tcp -j {chain}")
    assert closed(only_some.replace("MINE", rules.format(chain)), lans=LANS), "not all that is forwarded goes there"


def test_what_dockers_chain_permits_is_permitted_in_nftables_words() -> None:
    rules = '\t\tiifname "vpneval0" counter packets 0 bytes 0 accept\n\t\toifname "vpneval0" accept'
    assert closed(DOCKER_NFT.replace("MINE\n", ""))
    assert not closed(DOCKER_NFT.replace("MINE", rules))
    assert closed(DOCKER_NFT.replace("MINE", rules).replace("jump DOCKER-USER", "tcp dport 1 jump DOCKER-USER"))


def test_a_nat_is_a_rule_that_changes_where_packets_come_from() -> None:
    for rule in ('oifname "wan0" masquerade', "counter packets 1 bytes 2 masquerade", "snat to 192.0.2.1"):
        assert translates(in_json(NFT.replace("\t\tct state", f"\t\t{rule}\n\t\tct state")))
    assert translates("*nat\n-A POSTROUTING -j MASQUERADE\n")
    assert not translates(in_json(NFT) + "\n" + SAVED + "-A INPUT -m comment --comment masquerade -j ACCEPT\n")


# As nft -j -t list ruleset of 1.0.6 and 1.1.3 says what iptables-nft has put there, shortened.
BY_IPTABLES = json.dumps(
    {
        "nftables": [
            {"table": {"family": "ip", "name": "filter", "handle": 2}},
            {
                "chain": {
                    **{"family": "ip", "table": "filter", "name": "FORWARD", "handle": 1},
                    **{"type": "filter", "hook": "forward", "prio": 0, "policy": "accept"},
                }
            },
            *(
                {"rule": {"family": "ip", "table": "filter", "chain": "FORWARD", "handle": 2, "expr": expr}}
                for expr in (
                    [
                        {"match": {"op": "==", "left": {"meta": {"key": "iifname"}}, "right": "vpneval0"}},
                        {"xt": {"type": "match", "name": "comment"}},
                        {"counter": {"packets": 0, "bytes": 0}},
                        {"accept": None},
                    ],
                    [{"match": {"op": "==", "left": {"meta": {"key": "oif"}}, "right": "vpneval0"}}, {"accept": None}],
                    [{"counter": {"packets": 0, "bytes": 0}}, {"xt": {"type": "target", "name": "REJECT"}}],
                )
            ),
            {"chain": {"family": "ip", "table": "nat", "name": "POSTROUTING", "hook": "postrouting"}},
            {
                "rule": {
                    **{"family": "ip", "table": "nat", "chain": "POSTROUTING"},
                    "expr": [{"xt": {"type": "target", "name": "MASQUERADE"}}],
                }
            },
        ]
    }
)


def test_what_iptables_has_put_into_nftables() -> None:
    assert not module.forwarding_problems(BY_IPTABLES)
    assert translates(BY_IPTABLES)
    (said,) = module.forwarding_problems(BY_IPTABLES, port="eth1")
    assert "iptables -I FORWARD -i eth1 -j ACCEPT" in said, "its last rule drops the rest"
    assert module.forwarding_problems(BY_IPTABLES.replace('"comment"', '"owner"')), "not for every packet"


def test_rules_that_cannot_be_read_are_said() -> None:
    assert "writes no JSON" in unread("UNREAD\n*filter\n")
    assert "cannot be read" in unread('{"nftables": [')
    assert "cannot be read" in unread("{" + " " * MOST_ANSWER)
    assert not unread(BY_IPTABLES)
    assert not unread("*filter\n")


@pytest.mark.parametrize(
    "firewall",
    [
        "table inet x {\n" * 70_000,  # as nft without -j would say it: of no table there is an end
        "*nat\n" * 200_000,
        "-A FORWARD " * 100_000,
        '-A FORWARD "' * 100_000,
        "-A FORWARD -j A\n" * 20_000,
        '{"nftables": [' + "[" * 1_000_000,
        '{"nftables": ' + "[{}," * 300_000,
        json.dumps(
            {"nftables": [{"chain": {"hook": "forward", "policy": "drop", "name": str(n)}} for n in range(9_999)]}
        ),
    ],
    ids=range(8),
)
def test_a_megabyte_of_a_firewall_is_read_in_a_moment(firewall: str) -> None:
    began = time.process_time()
    module.forwarding_problems(firewall)
    translates(firewall)
    unread(firewall)
    assert time.process_time() - began < 30, "in squared time: minutes"


@pytest.mark.parametrize("odd", [None, 7, "x", [], {}, [None], {"a": None}, [{"match": {"left": {"meta": 1}}}]])
def test_a_ruleset_of_wrong_types_is_no_error(odd: object) -> None:
    for place in ("nftables", "chain", "rule", "expr"):
        about = {"family": "ip", "table": "filter", "name": "FORWARD", "hook": "forward"}
        rule = {"family": "ip", "table": "filter", "chain": "FORWARD", "expr": odd if place == "expr" else []}
        listed: Any = [
            {"table": odd},
            {"chain": odd if place == "chain" else about | {"policy": odd}},
            {"rule": odd if place == "rule" else rule},
        ]
        said = json.dumps({"nftables": odd if place == "nftables" else listed})
        module.forwarding_problems(said)
        translates(said)


def test_a_ruleset_ten_times_as_long_takes_some_ten_times_as_long() -> None:
    def seconds(rules: int) -> float:
        listed = json.loads(BY_IPTABLES)["nftables"]
        listed[2:2] = [listed[2]] * rules
        said = json.dumps({"nftables": listed})
        began = time.process_time()
        assert module.forwarding_problems(said, port="eth1")
        return time.process_time() - began

    assert seconds(20_000) < 40 * max(seconds(2_000), 0.005)
