"""What the doctor prints of its checks: few lines, and an exit code that says whether anything asked can run."""

from typing import Any

import pytest

from runner.catalogue import load_vpn
from runner.cli.commands.doctor import none_of, rows
from runner.lab.node import Completed
from runner.lab.shape.site import BarePath
from runner.lab.shape.site_to_site import SITES, Lab
from runner.stages.examination import Check, module_checks, path_checks

NO_ESP = "the kernel has no ESP"


def vpn(name: str, configuration: str, why: str = "") -> Check:
    return Check(f"vpn {name} ({configuration})", "warning" if why else "ok", why or "it works", name, configuration)


CHECKS = [
    Check("command ip", "ok", "/usr/sbin/ip", tool="ip"),
    Check("command bash", "ok", "/usr/bin/bash", tool="bash"),
    Check("cores", "ok", "all of this machine"),
    *(vpn("openvpn", one) for one in ("comparable", "recommended")),
    *(vpn(name, one, NO_ESP) for name in ("ipsec", "gre_ipsec") for one in ("comparable", "recommended")),
    vpn("tinc", "comparable"),
    vpn("tinc", "recommended", "no such cipher"),
    vpn("gre", "comparable", "no GRE"),
]


def test_what_works_is_one_row_and_so_is_each_reason() -> None:
    assert list(rows(CHECKS)) == [
        ("ok", "commands", "ip, bash"),
        ("ok", "cores", "all of this machine"),
        ("ok", "VPNs", "openvpn"),
        ("warning", "VPNs", f"ipsec, gre_ipsec: {NO_ESP}"),
        ("warning", "VPNs", "tinc (recommended): no such cipher"),
        ("warning", "VPNs", "gre: no GRE"),
    ]
    missing = Check("command tc", "error", "get it with: apt-get install iproute2", tool="tc")
    assert [row[1] for row in rows([*CHECKS[:2], missing])] == ["command ip", "command bash", "command tc"]


def test_none_of_the_vpns_is_another_end_than_some() -> None:
    assert not none_of(CHECKS)
    assert not none_of(CHECKS[:3]), "none was asked"
    assert none_of([check for check in CHECKS if NO_ESP in check.says])


@pytest.mark.parametrize(("found", "most", "at_least"), [(18e6, 20e6, True), (8e6, 20e6, False), (18e6, None, False)])
def test_a_rate_that_the_user_has_limited_is_not_the_paths(found: float, most: float | None, at_least: bool) -> None:
    path = BarePath(1500, on_link=True, rates_bps=(found, found), most_bps=most, open=("udp/1194",))
    said = [check.says for check in path_checks(path, SITES) if check.what == "path rate"]
    assert len(said) == 2
    assert all(line.startswith("at least ") is at_least for line in said)
    assert all(("no test may send faster than 20 Mbit/s (--max-rate)" in line) is at_least for line in said)


def test_no_module_is_missing_that_a_vpn_there_uses() -> None:
    """A kernel may have it built in, and tell nobody."""

    class Gateway:
        name = "gw1"

        def run(self, *argv: str) -> Completed:
            lines = [f"{module} absent" for module in argv[5:]]
            return Completed(0, "\n".join([*lines, "6.1.0 x86_64"]), "")

    class Rig:
        gateways = {"gw1": Gateway()}

    def said(*checks: Check) -> list[str]:
        vpns = [load_vpn(check.what.split()[1]) for check in checks]
        rig: Any = Rig()
        return [check.says for check in module_checks(rig, Lab({}), vpns, checks)]

    assert said(vpn("tinc", "comparable", "no tincd"), vpn("openvpn", "comparable")) == []
    (lacks,) = said(vpn("tinc", "comparable", "no tincd"), vpn("gre", "comparable", "no GRE"))
    assert lacks.startswith("its kernel 6.1.0 has no ip_gre tun"), "the control"
