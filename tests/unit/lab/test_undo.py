"""Site mode's undo without machines: what it reads, how it compares, and what it does where it cannot look."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from runner.lab import probes
from runner.lab.probes import undo


def test_the_undo_reads_what_somebody_made_and_leaves_the_kernels_own() -> None:
    shown = (
        "default via 10.0.0.1 dev eth0 proto dhcp metric 100 \n"
        "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.2 linkdown \n"
        "1.2.3.0/24 dev eth0 table 220 scope link linkdown \n"
        "default metric 20 \\	nexthop via 10.0.0.3 dev eth0 weight 1 \\	nexthop via 10.0.0.4 dev eth1 \n"
    )
    assert [line.split()[0] for line in undo.routes(shown)] == ["1.2.3.0/24", "default", "default"]
    assert "linkdown" not in str(undo.routes(shown))
    assert undo.rules("7000:\tfrom 10.0.0.2 lookup 77\n") == {"pref 7000 from 10.0.0.2 lookup 77": ""}
    tables = undo.tables("# Warning: table ip nat is managed\ntable ip nat {\n\tchain a {\n\t}\n}\ntable inet f {\n}\n")
    assert tables == {"table ip nat": "table ip nat {\n\tchain a {\n\t}\n}\n", "table inet f": "table inet f {\n}\n"}
    assert undo.disciplines("qdisc noqueue 0: dev eth0 root refcnt 2 \nqdisc mq 0: dev eth1 root \n") == {
        "eth0": "noqueue 0:",
        "eth1": "mq 0:",
    }


def test_the_undo_compares_both_ways_and_takes_new_links_first() -> None:
    before: undo.State = {
        "link": {"eth0": "mtu 1500 up nomaster"},
        "route -4": {"default via 10.0.0.1 dev eth0": ""},
        "sysctl": {"/proc/sys/net/ipv4/ip_forward": "0", "/proc/sys/net/core/rmem_max": "1", "/proc/sys/net/x": "1"},
        "qdisc": {"eth0": "noqueue 0:"},
    }
    now: undo.State = {
        "link": {"eth0": "mtu 1400 up nomaster", "wg0": "mtu 1420 up nomaster"},
        "route -4": {"198.18.2.0/24 dev wg0": ""},
        "sysctl": {"/proc/sys/net/ipv4/ip_forward": "1", "/proc/sys/net/core/rmem_max": "2"},
        "qdisc": {"eth0": "noqueue 0:", "wg0": "noqueue 0:"},
    }
    found = [
        (kind, what.rpartition("/")[2]) for kind, what, _, _ in sorted(undo.difference(before, now), key=undo.urgency)
    ]
    assert found[:2] == [("link", "wg0"), ("link", "eth0")]
    assert found.index(("sysctl", "ip_forward")) < found.index(("sysctl", "rmem_max"))
    assert len(found) == 6
    assert undo.difference(before, before) == []


def test_the_undo_takes_no_silence_for_an_empty_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would remove the machine's own links afterwards."""
    undone: list[str] = []
    real, before = subprocess.run, {**undo.state(), "link": {"ours": "mtu 1500 up nomaster"}}

    def slow(argv: tuple[str, ...], **options: Any) -> subprocess.CompletedProcess[str]:
        if argv[-2:] == ("addr", "show"):
            raise subprocess.TimeoutExpired(argv, options["timeout"])
        return real(argv, **options)

    monkeypatch.setattr(undo, "undo", lambda *one: undone.append(one[1]))
    monkeypatch.setattr(subprocess, "run", slow)
    with pytest.raises(undo.Unread):
        undo.state()
    assert undo.restore(before) == ["not all could be compared: ip -d -j addr show did not end within 20 s"]
    assert undone == []


@pytest.mark.parametrize(
    ("fails", "why"),
    [
        (("ip", "-d", "-j", "addr", "show"), "Cannot send dump request: Cannot allocate memory"),
        (("nft", "-s", "list", "ruleset"), "netlink: Error: cache initialization failed: Device or resource busy"),
        (("ip", "xfrm", "state", "count"), "Cannot allocate memory"),
    ],
)
def test_the_undo_takes_no_failure_for_an_empty_machine(
    monkeypatch: pytest.MonkeyPatch, fails: tuple[str, ...], why: str
) -> None:
    """It would take every link, and every table, for new, and remove it."""
    undone: list[str] = []
    real, before = subprocess.run, {**undo.state(), "link": {"ours": "mtu 1500 up nomaster"}}

    def failing(argv: tuple[str, ...], **options: Any) -> subprocess.CompletedProcess[str]:
        return real(argv, **options) if argv != fails else subprocess.CompletedProcess(argv, 1, "", why)

    monkeypatch.setattr(undo, "undo", lambda *one: undone.append(one[1]))
    monkeypatch.setattr(undo, "PAUSE_S", 0.0)
    monkeypatch.setattr(undo, "NOT_HERE", set())
    monkeypatch.setattr(subprocess, "run", failing)
    with pytest.raises(undo.Unread, match=why):
        undo.state()
    assert undo.restore(before) == [f"not all could be compared: {' '.join(fails)} failed: {why}"]
    assert undone == []


def test_half_of_an_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "told", lambda *argv: '[{"ifname": "lo"' if "addr" in argv else "")
    with pytest.raises(undo.Unread, match="ip -d -j addr show said no JSON"):
        undo.state()


@pytest.mark.parametrize(
    ("code", "stdout", "stderr"),
    [(1, "", "Error: Resource busy"), (0, "half of them", "Dump was interrupted and may be inconsistent.")],
)
def test_what_was_not_read_whole_is_read_again(
    monkeypatch: pytest.MonkeyPatch, code: int, stdout: str, stderr: str
) -> None:
    answers = [(code, stdout, stderr), (0, "all of them", "")]
    monkeypatch.setattr(undo, "PAUSE_S", 0.0)
    monkeypatch.setattr(subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, *answers.pop(0)))
    assert undo.told("ip", "addr") == "all of them"


def test_what_a_kernel_or_a_machine_has_not_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(undo, "NOT_HERE", set())
    no_ipv6 = "RTNETLINK answers: Address family not supported by protocol"
    with monkeypatch.context() as patch:
        patch.setattr(subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 2, "", no_ipv6))
        assert undo.told("ip", "-6", "rule", "show") == ""
    assert undo.told("no-such-command", "list") == ""
    with monkeypatch.context() as patch:  # installed meanwhile: what was there before is unknown
        patch.setattr(subprocess, "run", lambda argv, **_: subprocess.CompletedProcess(argv, 0, "a table", ""))
        assert undo.told("no-such-command", "list") == ""


@pytest.mark.parametrize(
    ("what", "then", "flushed"),
    [
        ("state count", "SAD count 0", ["ip xfrm state flush"]),
        ("state count", "SAD count 2", []),
        ("policy list nosock", "", ["ip xfrm policy flush"]),
        ("policy list nosock", "src 10.1.0.0/24 dst 10.2.0.0/24", []),
    ],
)
def test_xfrm_is_flushed_only_where_there_was_none(
    monkeypatch: pytest.MonkeyPatch, what: str, then: str, flushed: list[str]
) -> None:
    ran: list[str] = []

    def note(argv: tuple[str, ...], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append(" ".join(argv))
        return subprocess.CompletedProcess(argv, 0, "", "")

    monkeypatch.setattr(subprocess, "run", note)
    undo.undo("xfrm", what, then, "something else")
    assert ran == flushed


def test_a_machine_whose_network_cannot_be_read_is_left_alone(tmp_path: Path) -> None:
    slow = tmp_path / "ip"
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    program = probes.source("undo").replace("ANSWER_WITHIN_S = 20", "ANSWER_WITHIN_S = 0.1")
    run = f"exec({program!r}, {{'__name__': 'agent'}}); print('the agent begins')"
    done = subprocess.run(
        [sys.executable, "-IS", "-c", run, '{"network": "machine"}'],
        env={"PATH": str(tmp_path) + ":/usr/sbin:/usr/bin"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    why = "ip -d -j addr show did not end within 0.1 s, so what it says could not be restored; nothing was changed"
    assert done.stderr.strip() == why
