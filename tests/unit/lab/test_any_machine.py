"""What is decided on machines that the tests do not run on: other processors, many cores, AppArmor, old tools."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import pytest

from runner.catalogue import load_vpn
from runner.data.errors import CannotRunHere, CommandError
from runner.instruments.tools.generator import parse_cores
from runner.lab.kernels import qemu
from runner.lab.kernels.uml import Uml
from runner.lab.machine import apparmor_hint
from runner.lab.node import Completed
from runner.lab.node.iproute import objects, root_discipline
from runner.lab.readings.hardware import cpu_name, interrupts
from runner.lab.shape.site_to_site import SITES, Lab
from runner.sweep import crypto_driver, supported
from tests.unit.helpers import Answers

# /sys/kernel/security/apparmor/profiles of an Ubuntu 25.04, a part of it.
PROFILES = """/usr/lib/snapd/snap-confine (enforce)
/usr/lib/snapd/snap-confine//mount-namespace-capture-helper (enforce)
tcpdump (enforce)
openvpn (enforce)
wg (enforce)
wg-quick (complain)
unprivileged_userns (enforce)
/usr/lib/ipsec/charon (enforce)
"""


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let this be another architecture."""
    return lambda name: monkeypatch.setattr("platform.machine", lambda: name)


# --- AppArmor --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "profile"),
    [
        ("no payload came\ngw1-openvpn.log: Cannot open /etc/vpn/ca.crt: Permission denied", "openvpn"),
        ("[gw1] wg setconf wg0 /etc/wireguard/wg0.conf exited with 1: fopen: Permission denied", "wg"),
        ("gw2-charon.log: opening '/etc/swanctl' failed: Permission denied", "/usr/lib/ipsec/charon"),
        ("gw1-openvpn.log: Connection refused", ""),
        ("[gw1] wg0: Permission denied", ""),
        ("[gw1] wg-quick up: Permission denied", "wg"),  # and not the profile that only complains
        ("gw1-tincd.log: Permission denied", ""),
    ],
)
def test_a_profile_that_may_have_denied_it_is_named(said: str, profile: str, tmp_path: Path) -> None:
    enabled, profiles = tmp_path / "enabled", tmp_path / "profiles"
    enabled.write_text("Y\n")
    profiles.write_text(PROFILES)
    told = apparmor_hint(said, enabled, profiles)
    assert bool(told) is bool(profile), told
    if profile:
        assert f"AppArmor's profile {profile} is in force" in told
        assert f"""dmesg | grep -E 'apparmor="DENIED".*profile="({profile})"'""" in told
    enabled.write_text("N\n")
    assert apparmor_hint(said, enabled, profiles) == ""
    assert apparmor_hint(said, tmp_path / "none", profiles) == ""


# --- many cores ------------------------------------------------------------------------------------------------------


def test_lists_of_many_cores_are_read() -> None:
    assert parse_cores("Cpus_allowed_list:\t0-63,128-191\n") == [*range(64), *range(128, 192)]


def test_interrupts_belong_to_the_cores_of_the_header_some_of_which_may_be_offline() -> None:
    online = [*range(64), *range(128, 192)]
    counts = ["0"] * len(online)
    counts[online.index(63)], counts[online.index(130)] = "9", "7"
    look = {
        "/proc/interrupts": [
            " ".join(f"CPU{core}" for core in online),
            f" 40: {' '.join(counts)} PCI-MSI 524288-edge ens1-TxRx-0",
            f"NMI: {' '.join(counts)} Non-maskable interrupts",
            "ERR: 0",
        ]
    }
    assert interrupts(look, "ens1") == {"ens1-TxRx-0": [63, 130]}


@pytest.mark.parametrize(("name", "has", "gives"), [("x86_64", 64, 64), ("x86_64", 384, 255), ("aarch64", 80, 8)])
def test_an_emulated_machine_has_no_more_cores_than_it_can(
    name: str, has: int, gives: int, machine: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine(name)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(has)))
    monkeypatch.setattr(qemu, "virtme_run", lambda: "/usr/bin/virtme-run")
    monkeypatch.setattr(qemu.Qemu, "image", tmp_path / "vmlinuz")
    attempt = next(iter(qemu.Qemu("trixie").attempts(3, [])))
    assert attempt.argv[attempt.argv.index("--cpus") + 1] == str(gives)


# --- other processors ------------------------------------------------------------------------------------------------


def test_uml_says_that_it_is_for_x86(machine: Any) -> None:
    machine("aarch64")
    with pytest.raises(CannotRunHere, match="exists for x86_64 and i686 only, and this machine is aarch64"):
        Uml().describe()
    assert Uml().missing_packages() == [], "apt has none of it there"


def test_qemu_says_whom_it_is_for(machine: Any) -> None:
    machine("riscv64")
    with pytest.raises(CannotRunHere, match="--kernel qemu is for x86_64 and aarch64, not riscv64"):
        qemu.Qemu("trixie").describe()


@pytest.mark.parametrize(("name", "set_to"), [("x86_64", "OPENSSL_ia32cap=0x0:0x0"), ("aarch64", "OPENSSL_armcap=0")])
def test_openssl_is_told_in_its_processors_words_to_be_generic(name: str, set_to: str, machine: Any) -> None:
    machine(name)

    class Gateway(Answers):
        environment: dict[str, str] = {}

        def log(self, line: str) -> None:
            pass

    nodes = cast(Any, {"gw1": Gateway(), "gw2": Gateway()})
    vpn = load_vpn("openvpn")
    crypto_driver.set_driver(Lab(nodes), vpn, {**vpn.comparable, "driver": "generic"})
    assert ["=".join(one) for one in nodes["gw1"].environment.items()] == [set_to]


def test_elsewhere_openssls_driver_cannot_be_chosen(machine: Any) -> None:
    machine("riscv64")
    vpn = load_vpn("openvpn")
    lab = Lab(cast(Any, {"gw1": Answers()}), SITES)
    no = supported.level_refusal(lab, vpn, {**vpn.comparable, "measure": "tcp", "driver": "generic"})
    assert no is not None
    assert "of x86_64 and aarch64 from OpenSSL, not riscv64's" in no.reason


def test_a_processor_without_a_name_is_told_by_its_numbers() -> None:
    arm = {"BogoMIPS": "50.00", "CPU implementer": "0x41", "CPU architecture": "8", "CPU part": "0xd0c"}
    assert cpu_name(arm) == "ARM, implementer 0x41, part 0xd0c"
    assert cpu_name({"model name": "AMD EPYC 7302P"}) == "AMD EPYC 7302P"
    assert cpu_name({"isa": "rv64imafdc"}) == "unknown"
    assert cpu_name({"system type": "Atheros AR7161", "cpu model": "MIPS 24Kc V7.4"}) == "MIPS 24Kc V7.4"
    assert cpu_name({"cpu": "e500v2", "clock": "800.000000MHz"}) == "e500v2"


# --- iproute2 --------------------------------------------------------------------------------------------------------


class Ip(Answers):
    """A machine whose ip(8) says that."""

    def __init__(self, done: Completed) -> None:
        super().__init__({"ip -V": "ip utility, iproute2-ss190107\n"})
        self.done = done

    def run(self, *argv: str, check: bool = True, timeout: float = 30.0, input: str | None = None) -> Completed:
        return self.done if "-json" in argv else super().run(*argv, check=check)


def listing(code: int, stdout: str, stderr: str = "") -> list[dict[str, Any]]:
    return objects(Ip(Completed(code, stdout, stderr)), "ip", "-json", "link", "show")


# Captured in a namespace, of versions that were built for it: 4.9 (Debian 9), 4.20 (Debian 10), 5.5 (Ubuntu 20.04).
ROUTES_OF_4_20 = (
    '[{"dst":"10.9.9.0/24","dev":"va","protocol":"kernel","scope":"link","prefsrc":"10.9.9.1","flags":[]},'
    '{"local","dst":"10.9.9.1","dev":"va","table":"local"}]'
)
TBF = """qdisc tbf a1c8: root refcnt 3 rate 1Mbit burst 5Kb lat 50.0ms{end}
 Sent 516 bytes 6 pkt (dropped 0, overlimits 0 requeues 0){end}
 backlog 0b 0p requeues 0{end}
"""
MQ = """qdisc fq_codel 0: parent :2 limit 10240p flows 1024 quantum 1514 target 5ms interval 100ms memory_limit 32Mb ecn
 Sent 3 bytes 1 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
  maxpacket 0 drop_overlimit 0 new_flow_count 0 ecn_mark 0
qdisc mq 0: root
 Sent 8 bytes 2 pkt (dropped 0, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0
"""


@pytest.mark.parametrize("end", [" ", ""])
def test_the_roots_counters_are_read_in_tcs_words(end: str) -> None:
    assert root_discipline(TBF.format(end=end)) == ("tbf", 6, 516)
    assert root_discipline(MQ) == ("mq", 2, 8)
    assert root_discipline(MQ.partition("qdisc mq")[0]) is None


def test_a_quote_that_old_versions_escape_is_read() -> None:
    """``ip link set va alias "Bob's uplink"``."""
    assert listing(0, r"""[{"ifalias":"Bob\'s uplink"}]""") == [{"ifalias": "Bob's uplink"}]
    assert listing(0, r"""[{"ifalias":"\\'"}]""") == [{"ifalias": "\\'"}]


def test_empty_objects_of_old_versions_are_passed_over() -> None:
    assert listing(0, '[{},{},{"ifname":"wan0","mtu":1500},{}]') == [{"ifname": "wan0", "mtu": 1500}]


@pytest.mark.parametrize(
    ("code", "stdout", "stderr"),
    [
        (0, "1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN\n", ""),
        (0, ROUTES_OF_4_20, ""),
        (0, '[{"ifname":"eth0","mtu":nan}]', ""),
        (0, "", ""),
        (0, '{"ifname":"eth0"}', ""),
        (255, "", 'Option "-json" is unknown, try "ip -help".\n'),
        (1, "", "ip: invalid option -- 'j'\nBusyBox v1.36.1 multi-call binary.\n"),
    ],
)
def test_an_ip_whose_json_cannot_be_read_is_named_with_its_version(code: int, stdout: str, stderr: str) -> None:
    with pytest.raises(CannotRunHere, match=r"gw1: its ip.8. writes no JSON .*iproute2-ss190107.*Install iproute2"):
        listing(code, stdout, stderr)


def test_what_ip_refuses_for_another_reason_is_an_error_of_the_command() -> None:
    with pytest.raises(CommandError, match="Operation not permitted"):
        listing(2, "", "RTNETLINK answers: Operation not permitted")
