"""Site mode's undo without machines: what it takes for its own, what it takes back, and what it says of others."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from runner.lab.places.others import in_words
from runner.lab.probes import undo

Answer = tuple[int, str, str]
Ran = list[str]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ran]:
    """``ran(answer)``: every command gets the answer that this function gives it; the list has them all."""

    def answering(answer: Callable[[str], Answer]) -> Ran:
        commands: Ran = []

        def run(argv: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            commands.append(" ".join(argv))
            return subprocess.CompletedProcess(argv, *answer(" ".join(argv)))

        monkeypatch.setattr(subprocess, "run", run)
        monkeypatch.setattr(undo, "PAUSE_S", 0.0)
        return commands

    return answering


@pytest.fixture
def sysctls(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Some of /proc/sys/net in a folder, without the kernel's own rules."""
    monkeypatch.setattr(undo, "SYSCTLS", str(tmp_path))
    monkeypatch.setattr(undo, "path_of", lambda key: f"{tmp_path.parent}/{key}")
    for name in ("all", "default", "eth0"):
        for what, value in (("forwarding", "0"), ("rp_filter", "2")):
            path = tmp_path / "ipv4/conf" / name / what
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{value}\n")
    return tmp_path


# --- what is its own -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("removes", "lists"),
    [
        ("ip link del wg0", "ip link show wg0"),
        ("ip -6 rule del table 220", "ip -6 rule show table 220"),
        ("ip route flush table 220 exact 10.2.0.0/24", "ip route show table 220 exact 10.2.0.0/24"),
        ("ip xfrm policy deleteall src 10.1.0.0/24", ""),
        ("tc qdisc del dev eth0 root", ""),
        ("ip link set eth0 up", ""),
    ],
)
def test_what_is_there_before_it_is_made_is_somebody_elses(ran: Callable[..., Ran], removes: str, lists: str) -> None:
    assert undo.lists(removes.split()) == lists
    owned = undo.Owned()
    for answer, ours in (((0, "there it is", ""), not lists), ((0, "", ""), True), ((1, "", "no such link"), True)):
        commands = ran(lambda command, answer=answer: answer)
        owned.undo.clear()
        owned.note("defer", removes.split())
        assert owned.undo == ([removes.split()] if ours else [])
        assert commands == ([lists] if lists else [])


@pytest.mark.parametrize("argv", [["pkill", "-x", "pppd"], ["rm", "-f", "/run/x"], ["ss", "-K"], ["sh", "-c", "true"]])
def test_what_goes_with_the_node_is_not_looked_for_on_the_machine(argv: list[str]) -> None:
    owned = undo.Owned()
    owned.note("defer", argv)
    assert owned.undo == []


# --- what it takes back --------------------------------------------------------------------------------------


def test_the_last_is_taken_back_first_and_each_once(ran: Callable[..., Ran]) -> None:
    commands = ran(lambda command: (0, "", ""))
    owned = undo.Owned()
    for what in ("tc qdisc del dev eth0 root", "nft delete table ip ours", "tc qdisc del dev eth0 root"):
        owned.note("defer", what.split())
    assert owned.take_back() == []
    assert commands == ["nft delete table ip ours", "tc qdisc del dev eth0 root"]


@pytest.mark.parametrize(  # captured from iproute2 6.15, nftables 1.1.3 and Linux 6.18
    "said",
    [
        'Cannot find device "wg0"\n',
        "RTNETLINK answers: No such process\n",
        "RTNETLINK answers: No such file or directory\n",
        "Error: ipv4: FIB table does not exist.\nFlush terminated\n",
        "Error: ipv4: Address not found.\n",
        "Error: Cannot delete qdisc with handle of zero.\n",
        "Error: Invalid handle.\n",
        "Error: No such file or directory; did you mean table ‘y’ in family ip?\n",
        "Error talking to the kernel\n",
        "Cannot open netlink socket: Protocol not supported\n",
        "RTNETLINK answers: Address family not supported by protocol\n",
    ],
)
def test_what_is_gone_already_is_no_trouble(ran: Callable[..., Ran], said: str) -> None:
    commands = ran(lambda command: (2, "", said))
    assert undo.try_removal(["ip", "link", "del", "wg0"]) == ""
    assert len(commands) == 1


def test_what_does_not_go_is_tried_again_and_said(ran: Callable[..., Ran]) -> None:
    answers = [(2, "", "RTNETLINK answers: Device or resource busy\n"), (0, "", "")]
    ran(lambda command: answers.pop(0))
    assert undo.try_removal(["ip", "link", "del", "wg0"]) == ""
    ran(lambda command: (2, "", "RTNETLINK answers: Operation not supported\n"))
    why = "ip link del wg0 failed: RTNETLINK answers: Operation not supported"
    assert undo.try_removal(["ip", "link", "del", "wg0"]) == why


def test_a_sysctl_gets_back_its_value_unless_somebody_else_has_changed_it(sysctls: Path) -> None:
    conf, name = sysctls / "ipv4/conf", sysctls.name
    owned = undo.Owned()
    owned.ports = {"eth0"}
    owned.note("run", ["sysctl", "-qw", f"{name}/ipv4/conf/all/rp_filter=0", f"{name}/ipv4/conf/default/rp_filter=0"])
    assert (conf / "all/rp_filter").read_text() == "0"
    for port, value in (("veth1", "0"), ("veth2", "1")):  # came meanwhile: one has our default, one a value of its own
        (conf / port).mkdir()
        (conf / port / "rp_filter").write_text(value)
    (conf / "eth0/rp_filter").write_text("0")  # somebody else's, and by chance what we set elsewhere
    assert owned.restore() == []
    found = {path.parent.name: path.read_text().strip() for path in conf.glob("*/rp_filter")}
    assert found == {"all": "2", "default": "2", "eth0": "0", "veth1": "2", "veth2": "1"}
    owned.note("run", ["sysctl", "-qw", f"{name}/ipv4/conf/all/rp_filter=0"])
    (conf / "all/rp_filter").write_text("1")
    assert owned.restore() == []
    assert (conf / "all/rp_filter").read_text() == "1"


def test_a_sysctl_that_a_daemon_sets_gets_back_what_was_there(sysctls: Path) -> None:
    path, owned = sysctls / "ipv4/conf/all/rp_filter", undo.Owned()
    owned.note("defer", ["sysctl", "-qw", f"{sysctls.name}/ipv4/conf/all/rp_filter=7"])  # for a shell; it was 2 here
    path.write_text("1")
    assert owned.take_back() == []
    assert path.read_text() == "2"


def test_a_sysctl_that_does_not_go_back_is_said(sysctls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, owned = sysctls / "ipv4/conf/all/rp_filter", undo.Owned()
    owned.note("run", ["sysctl", "-qw", f"{sysctls.name}/ipv4/conf/all/rp_filter=0"])
    monkeypatch.setattr(undo, "put", lambda path, value: None)
    assert owned.restore() == [f"{path}: should be '2', is '0'"]


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("net.ipv4.ip_forward", "/proc/sys/net/ipv4/ip_forward"),
        ("net/ipv4/conf/eth0.100/rp_filter", "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"),
        ("net.ipv4.conf.eth0/100.rp_filter", "/proc/sys/net/ipv4/conf/eth0.100/rp_filter"),
    ],
)
def test_a_sysctls_file_is_that_of_sysctl_8(key: str, path: str) -> None:
    assert undo.path_of(key) == path


# --- what others change --------------------------------------------------------------------------------------


def read(kind: str, shown: str) -> dict[str, str]:
    return undo.lines_by_name(undo.LISTS[kind][0], shown)


def test_what_changes_by_itself_is_no_change() -> None:
    links = "5: eth0@if4: <BROADCAST,UP,LOWER_UP> mtu 1500 qdisc noqueue state UP mode DEFAULT group default\\ link/x\n"
    assert read("link", links) == read("link", links.replace(",LOWER_UP", "").replace("state UP", "state DOWN"))
    assert read("link", links) != read("link", links.replace("1500", "1400"))
    assert read("link", links) != read("link", links.replace("5:", "6:")), "another one of that name"
    assert read("link", "9: gre0@NONE: <NOARP> mtu 1476 qdisc noop\n") == {}
    leased = "2: eth0    inet 10.0.0.2/24 scope global dynamic eth0\\       valid_lft 86399sec preferred_lft 86399sec\n"
    assert read("addr", leased) == read("addr", leased.replace("86399", "17"))
    assert read("addr", leased) != read("addr", leased.replace("10.0.0.2", "10.0.0.3"))
    routes = (
        "default via 10.0.0.1 dev eth0 proto dhcp metric 100 \n"
        "10.0.0.0/24 dev eth0 proto kernel scope link src 10.0.0.2 linkdown \n"
        "1.2.3.0/24 dev eth0 table 220 scope link linkdown \n"
        "default metric 20 \\	nexthop via 10.0.0.3 dev eth0 weight 1 \\	nexthop via 10.0.0.4 dev eth1 \n"
    )
    assert [name.split()[0] for name in read("route", routes)] == ["1.2.3.0/24", "default", "default"]
    assert "linkdown" not in str(read("route", routes))
    tables = undo.tables("# Warning: table ip nat is managed\ntable ip nat {\n\tchain a {\n\t}\n}\ntable inet f {\n}\n")
    assert tables == {"table ip nat": "table ip nat {\n\tchain a {\n\t}\n}\n", "table inet f": "table inet f {\n}\n"}


def test_changes_are_counted_by_kind_where_both_could_be_read() -> None:
    before = {
        "route": {"a": "1", "b": "1", "c": "1"},
        "addr": {"x": ""},
        "sysctl": {"/p": "1", "/gone": "1"},
        "nft": {"t": "a"},
    }
    now = {"route": {"a": "2", "c": "1", "d": "1"}, "addr": {"x": ""}, "sysctl": {"/p": "2", "/new": "1"}}
    assert undo.count_changes(before, now) == {"route": 3, "sysctl": 1}
    assert undo.count_changes(before, before) == {}


def test_a_list_that_cannot_be_had_is_left_out(ran: Callable[..., Ran]) -> None:
    ran(lambda command: (1, "", "Resource busy") if command == "tc qdisc show" else (0, "", ""))
    assert undo.LISTS.keys() - {kind.split()[0] for kind in undo.state()} == {"qdisc"}


def test_what_others_changed_is_a_sentence() -> None:
    assert in_words("gw1", {}) == ""
    assert in_words("gw1", {"route": 3, "addr": 1}).startswith(
        "gw1: 1 address and 3 routes changed during the run, not by"
    )
    assert in_words("gw2", {"link": 2, "route": 1, "nft": 1}).startswith(
        "gw2: 2 interfaces, 1 route and 1 nftables table "
    )
