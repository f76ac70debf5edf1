"""check.sh as a monitor: one cause for each failure with its exit code, in words and as JSON, and no false word either
way beside a firewall that is loaded anew and beside other checks."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from runner.lab.node import Completed, LabNode, wait_until
from runner.lab.software.image import Image
from tests.lab.by_hand import answers, name_of
from tests.lab.test_checked import deployed

PRINTS = "for code in 1 2 3 4 5; do /root/tunnel/check.sh --json & done; wait"
OLD = (
    "openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -subj /CN=old "
    "-not_before 20200101000000Z -not_after 20210101000000Z 2> /dev/null"
)
CERTIFICATE = "/etc/openvpn/gw1.crt"
RELOADS = "while true; do nft -f /root/own.nft; sleep 0.05; done"
OWN = "flush ruleset\ntable inet own {{ chain f {{ type filter hook forward priority 10; policy {policy}; }}; }}\n"
STOP = "kill -TERM -- -$(cat /run/vpneval-{0}@*.pid); rm /run/vpneval-{0}@*.pid; sleep 1"
STOP_CLOSING = f"{STOP.format('closed')}; nft delete table ip vpneval_closed_$(ls /etc/vpneval)"
STOP_TUNNEL = f"{STOP.format('tunnel')}; /etc/vpneval/*/undo"
BREAK = f"cp {CERTIFICATE} /root/kept; {OLD} > {CERTIFICATE}; pkill -x openvpn"
ROUTES = "ip route add default via 192.168.0.2 table 100; ip rule add iif lan0 lookup 100"
DROPS = "nft 'table inet own { chain f { type filter hook forward priority 10; policy drop; }; }'"
REFUSES = "nft 'table inet own { chain f { type filter hook input priority 10; ip saddr 10.1.0.2 drop; }; }'"
# Cause -> the exit code, the gateway, what happens there, and what takes it back.
CAUSES = {
    "open": (3, "gw1", STOP_CLOSING, "UP"),
    "stopped": (4, "gw1", STOP_TUNNEL, "UP"),
    "certificate": (5, "gw1", BREAK, f"cp /root/kept {CERTIFICATE}"),
    "no_answer": (7, "gw2", STOP_TUNNEL, "UP"),
    "route": (8, "gw1", ROUTES, "ip rule del iif lan0"),
    "firewall": (9, "gw1", DROPS, "nft delete table inet own"),
    "other": (11, "gw2", REFUSES, "nft delete table inet own"),
    "saved": (13, "gw1", "nft list ruleset > /etc/nftables.conf", "rm /etc/nftables.conf"),
}
CLOSE = 'for fd in 3 4 5 6 7 8 9; do eval "exec $fd>&-"; done'  # what outlives a command must not hold its descriptors
UP = f"{CLOSE}; /root/tunnel/up.sh"
EVERY_S, STRETCH_S = 10.0, 60.0
WATCHED_S = float(os.environ.get("VPNEVAL_MONITOR_S", "120"))  # an hour: 3600
pytestmark = pytest.mark.timeout(600)


def checked(node: LabNode, *words: str) -> Completed:
    return node.run("/root/tunnel/check.sh", *words, check=False, timeout=120)


def up_again(node: LabNode) -> None:
    wait_until(lambda: checked(node).code == 0, f"check.sh of {node.name}: {checked(node)}", 100, 0.5)


def test_each_failure_has_one_cause_and_its_exit_code(image: Image, tmp_path: Path) -> None:
    with deployed(image, tmp_path, "openvpn") as (lab, near):
        said = json.loads(checked(near, "--json").stdout)
        assert (said["code"], said["cause"], said["tunnel"]) == (0, "up", name_of(near))
        assert checked(near, "--yaml").code == 1
        for cause, (code, gateway, event, back) in CAUSES.items():
            node = lab.nodes[gateway]
            node.run("bash", "-ec", event, timeout=60)
            done = checked(near, "--json")
            said = json.loads(done.stdout)
            assert (done.code, said["code"], said["cause"]) == (code, code, cause), done
            assert said["text"]
            done = checked(near)
            assert done.code == code, done
            assert "The tunnel is up.\n" not in done.stdout
            node.run("bash", "-ec", back.replace("UP", UP), timeout=60)
            up_again(near)
        near.run("/root/tunnel/down.sh")
        assert checked(near).code == 1


def test_no_false_word_beside_reloads_and_other_checks(image: Image, tmp_path: Path) -> None:
    """Five checks at once, while the firewall is loaded anew all the time: while hosts reach each other,
    and while none does."""
    with deployed(image, tmp_path) as (lab, near):
        for policy, cause, batches in (("accept", "up", 3), ("drop", "firewall", 1)):
            near.write("/root/own.nft", OWN.format(policy=policy))
            reloading = near.spawn("bash", "-c", RELOADS, log="reloads")
            wait_until(lambda: answers(lab) is (cause == "up"), f"what hosts see: {policy}", 10)  # noqa: B023
            for _ in range(batches):
                found = [json.loads(line) for line in near.run("bash", "-c", PRINTS, timeout=280).stdout.splitlines()]
                assert [said["cause"] for said in found] == [cause] * 5, found
            reloading.stop()


@pytest.mark.timeout(WATCHED_S + 600)
def test_a_monitor_that_asks_every_ten_seconds_never_says_a_false_word(image: Image, tmp_path: Path) -> None:
    """Beside a firewall that is loaded anew every second; every sixth time five ask at once. What hosts see changes
    each minute: they reach each other, and they do not."""
    ends, said = time.monotonic() + WATCHED_S, dict[str, list[str]]()
    with deployed(image, tmp_path) as (lab, near):
        while time.monotonic() < ends:
            for policy, cause in (("accept", "up"), ("drop", "firewall")):
                near.write("/root/own.nft", OWN.format(policy=policy))
                reloading = near.spawn("bash", "-c", RELOADS.replace("0.05", "1"), log="reloads")
                wait_until(lambda: answers(lab) is (cause == "up"), f"what hosts see: {policy}", 10)  # noqa: B023
                changes = min(ends, time.monotonic() + STRETCH_S)
                number = 0
                while time.monotonic() < changes:
                    began, number = time.monotonic(), number + 1
                    asks = PRINTS if number % 6 == 0 else "/root/tunnel/check.sh --json"
                    lines = near.run("bash", "-c", asks, check=False, timeout=280).stdout.splitlines()
                    said.setdefault(cause, []).extend(json.loads(line)["cause"] for line in lines)
                    time.sleep(max(0.0, EVERY_S - (time.monotonic() - began)))
                reloading.stop()
    assert {cause: {*found} for cause, found in said.items()} == {"up": {"up"}, "firewall": {"firewall"}}


def test_a_check_that_is_killed_leaves_nothing_that_the_next_one_minds(image: Image, tmp_path: Path) -> None:
    with deployed(image, tmp_path) as (_, near):
        for after_s in (0.1, 0.3, 0.6):
            killed = f"timeout -s KILL {after_s} /root/tunnel/check.sh > /dev/null 2>&1"
            near.run("bash", "-c", f"{CLOSE}; {killed}; pkill -KILL -f '[b]ash /root/tunnel'", check=False)
            assert checked(near).code == 0


def test_an_nft_that_fails_is_no_kernel_without_nftables(image: Image, tmp_path: Path) -> None:
    with deployed(image, tmp_path) as (_, near):
        near.write("/root/broken/nft", "#!/bin/sh\nexit 1\n", mode=0o755)
        done = near.run("env", "PATH=/root/broken:/usr/sbin:/usr/bin", "/root/tunnel/check.sh", "--json", check=False)
        said = json.loads(done.stdout)
        assert (done.code, said["cause"]) == (2, "unchecked")
        assert checked(near).code == 0, "the control"


@pytest.mark.parametrize("mended_by", ["check.sh's lines", "up.sh"])
def test_a_kernel_without_nftables_is_asked_once_and_what_comes_later_is_used(
    image: Image, tmp_path: Path, mended_by: str
) -> None:
    with deployed(image, tmp_path) as (_, near):
        name = name_of(near)
        near.write("/usr/local/sbin/nft", '#!/bin/sh\necho "$*" >> /run/asked\nexit 1\n', mode=0o755)
        stop = STOP_CLOSING.replace("nft", "/usr/sbin/nft")
        near.run("bash", "-ec", f"{CLOSE}; {stop}; systemctl start vpneval-closed@{name}", timeout=60)

        def asked() -> str:
            return near.run("grep", "-c", "vpneval_probe", "/run/asked").stdout

        wait_until(lambda: near.run("ls", f"/run/vpneval-{name}.lacks-nftables", check=False).code == 0, "it", 20)
        was = asked()
        time.sleep(3)
        assert asked() == was
        said = json.loads(checked(near, "--json").stdout)
        assert (said["cause"], "no nftables" in said["notes"][0]) == ("up", True), said
        near.run("rm", "/usr/local/sbin/nft")  # as if the module came
        said = json.loads(checked(near, "--json").stdout)
        assert said["cause"] == "open", said
        near.run("bash", "-ec", f"{CLOSE}; " + (UP if mended_by == "up.sh" else "\n".join(said["lines"])), timeout=60)
        up_again(near)
        assert "drop" in near.run("nft", "list", "table", "ip", f"vpneval_closed_{name}").stdout


def test_forwarding_that_is_turned_off_is_turned_on_again(image: Image, tmp_path: Path) -> None:
    """And who turns it off all the time is the cause."""
    with deployed(image, tmp_path) as (lab, near):
        near.run("sysctl", "-qw", "net.ipv4.ip_forward=0")
        wait_until(lambda: answers(lab), "hosts, again", 10)
        assert checked(near).code == 0
        offs = near.spawn("bash", "-c", "while true; do echo 0 > /proc/sys/net/ipv4/ip_forward; done", log="offs")
        said = json.loads(checked(near, "--json").stdout)
        offs.stop()
        assert (said["code"], said["cause"]) == (6, "forwarding")


def test_a_nat_of_an_earlier_priority_does_not_stop_the_tunnel(image: Image, tmp_path: Path) -> None:
    early = "table ip early { chain n { type nat hook postrouting priority 50; masquerade; }; }"
    with deployed(image, tmp_path) as (lab, near):
        near.run("nft", early)
        assert answers(lab)
        assert checked(near).code == 0


def test_no_line_is_advised_by_which_the_other_gateway_does_not_answer(image: Image, tmp_path: Path) -> None:
    """The gateway has the recipe's address on a dead line too; the tunnel leaves by the other one."""
    with deployed(image, tmp_path) as (lab, near):
        near.run("ip", "link", "add", "dead0", "type", "veth", "peer", "name", "dead1")
        near.run("ip", "link", "set", "dead0", "up")
        near.run("sh", "-ec", "ip addr del 192.168.0.1/24 dev wan0; ip addr add 192.168.0.1/32 dev dead0; "
                 "ip addr add 192.168.0.7/24 dev wan0; ip route replace default via 192.168.0.2")  # fmt: skip
        wait_until(lambda: checked(near).code == 0, f"the tunnel: {checked(near)}", 60, 1)
        said = checked(near)
        assert "ip route replace" not in said.stdout + said.stderr
        assert answers(lab)
