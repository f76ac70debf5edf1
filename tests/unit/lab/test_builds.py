"""What ``--build`` takes, and what it says of what it does not take."""

from pathlib import Path
from typing import Any

import pytest

from runner.catalogue import record_of
from runner.data.errors import UsageError
from runner.lab.software import builds
from runner.sweep.builds import load_build
from tests.unit.asking import request
from tests.unit.helpers import Answers

ELSEWHERE = b"\x7fELF\x02\x01\x01" + bytes(11) + b"\x58\x01" + bytes(44)  # e_machine 344: no machine of ours


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    program("wireguard-go", b"#!/bin/sh\n")
    program("a", b"#!/bin/sh\necho a\n")
    program("elsewhere", ELSEWHERE)
    program("text", b"hello\n")
    Path("plain").write_bytes(b"#!/bin/sh\n")
    Path("empty").mkdir()
    return tmp_path


def program(name: str, data: bytes) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ("wireguard_go=./none", "there is no file or directory none"),
        ("wireguard_go=./plain", "plain is not executable. Make it so: chmod +x plain"),
        ("wireguard_go=./text", "text is no program"),
        ("wireguard_go=./elsewhere", "elsewhere is built for ELF machine 344, and this machine is"),
        ("wireguard_go=./empty", "the directory empty is empty"),
        ("wireguard_go=/dev/null", "/dev/null is neither a file nor a directory"),
        (
            "ssh_tun=./a",
            "ssh_tun has no command a. Give the file the name of the command that it takes the place of (ssh,",
        ),
        ("wireguard_og=./a", "unknown VPN 'wireguard_og'; did you mean wireguard_go"),
        ("wireguard_go", "--build takes VPN=PATH or VPN@NAME=PATH"),
        ("wireguard_go@a/b=./a", "A build's name has letters"),
    ],
)
def test_what_is_wrong_is_a_sentence(asked: str, says: str) -> None:
    with pytest.raises(UsageError) as wrong:
        load_build(asked)
    assert says in str(wrong.value)


def test_a_library_of_another_architecture_is_refused_in_a_directory() -> None:
    program("tree/usr/lib/libx.so", ELSEWHERE)
    with pytest.raises(UsageError, match="ELF machine 344"):
        load_build("wireguard_go=./tree")


def test_a_build_is_known_by_what_is_in_it() -> None:
    """Its path is not its identity; a changed file, and a file of another mode in a directory, are other builds."""
    program("other/b", b"#!/bin/sh\necho a\n")
    (_, a), (_, b), (_, c) = (load_build(f"wireguard_go={path}") for path in ("./a", "./other/b", "./wireguard-go"))
    assert (record_of(a).build, record_of(a).build == record_of(c).build) == (record_of(b).build, False)
    assert record_of(a).digest == record_of(load_build("wireguard_go=./a")[0]).digest, "the plugin is the same"
    before = record_of(load_build("wireguard_go=./other")[1]).build
    Path("other/b").chmod(0o700)
    assert record_of(load_build("wireguard_go=./other")[1]).build != before


def names(*asked: str, **more: Any) -> list[str]:
    return [vpn.name for vpn in request("builds", builds=asked, **more).vpns]


def test_which_builds_are_measured() -> None:
    """One beside the image's own, two beside each other; plain IP and other VPNs only where they are named."""
    assert names("wireguard_go=./a") == ["wireguard_go", "wireguard_go@new"]
    assert names("wireguard_go@old=./a", "wireguard_go@new=./wireguard-go") == ["wireguard_go@old", "wireguard_go@new"]
    assert names("wireguard_go=./a", vpns=["none", "openvpn"]) == [
        *("none", "openvpn", "wireguard_go", "wireguard_go@new")
    ]
    with pytest.raises(UsageError, match="two plugins or builds are called wireguard_go@new"):
        names("wireguard_go=./a", "wireguard_go=./wireguard-go")


@pytest.mark.parametrize("where", [{"lab": "ssh:x.toml"}, {"lab": "site:x.toml"}])
def test_a_build_is_on_this_machine(where: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="leave --lab and --farm out"):
        names("wireguard_go=./a", **where)


def test_builds_are_compared_for_five_minutes_in_many_tunnels() -> None:
    asked = request("builds", builds=["wireguard_go=./a"])
    assert (asked.asked.deadline_s, asked.until_significant, asked.repetitions) == (300, True, 11)
    assert asked.weights
    assert {*asked.weights.counted_metrics} == {"tcp_throughput", "paced_cpu"}
    assert request("builds", builds=["wireguard_go=./a"], repetitions=2).asked.deadline_s is None


def test_a_file_takes_the_place_of_the_command_and_says_what_it_lacks() -> None:
    build = load_build("wireguard_go=./a")[1].build
    assert build
    assert build.command == "wireguard-go"
    node = Answers({"sh -c base64": "", "sh -c to=": "", "sh -c ldd": "\tlibx.so.1 => not found\n"})
    assert builds.put(node, build) == "libx.so.1 => not found"
    assert node.ran[0].endswith(" wireguard-go")
    assert builds.put(Answers({"sh -c": ""}), build) == ""
