"""``--kernel`` without a guest: names, what is missing, and parent folders with an index of runs."""

import json
import os
import platform
import shutil
import socket
from pathlib import Path

import pytest

from runner.cli.main import main
from runner.data.errors import CannotRunHere, UsageError
from runner.data.parent import add_to_index, check_parent, indexed_runs
from runner.lab import kernels
from runner.lab.kernels import boot
from runner.lab.kernels.guest import HEADER, Channel
from runner.lab.kernels.qemu import cacheable, tsc_khz
from runner.lab.node.lines import MOST_ANSWER, Bounded
from runner.stages.survey import answers, lacks

EXAMPLE = next((Path(__file__).parents[3] / "results" / "examples").glob("*/run.json")).parent


def test_kernels_are_named_in_order() -> None:
    found = kernels.parse("uml,host,qemu:bookworm,qemu")
    assert [kernel.name if kernel else "host" for kernel in found] == ["uml", "host", "qemu:bookworm", "qemu:trixie"]
    assert kernels.parse("host") == [None]


@pytest.mark.parametrize(
    ("text", "lab", "several", "wrong"),
    [
        ("hots", "netns", True, "unknown kernel 'hots'; did you mean host"),
        ("qemu:sid", "netns", True, "unknown kernel 'qemu:sid'"),
        ("qemu,qemu:trixie", "netns", True, "names qemu:trixie twice"),
        ("uml,qemu", "netns", False, "takes one kernel in this command"),
        ("uml", "ssh:lab.toml", True, "works only with the namespace lab"),
    ],
)
def test_a_wrong_kernel_is_said_before_anything_starts(text: str, lab: str, several: bool, wrong: str) -> None:
    with pytest.raises(UsageError, match=wrong):
        kernels.parse(text, lab, several)


@pytest.mark.parametrize(
    ("guest", "get"),
    [
        (kernels.Uml(), "apt-get install user-mode-linux kmod"),
        (kernels.Qemu("trixie"), "apt-get install .*busybox-static"),
    ],
)
def test_a_missing_program_is_named_with_how_to_get_it(
    guest: kernels.Uml | kernels.Qemu, get: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(CannotRunHere, match=get):
        guest.describe()


@pytest.mark.parametrize("kernel", [kernels.Uml(), kernels.Qemu("trixie")], ids=lambda kernel: kernel.name)
def test_all_that_is_missing_is_named_at_once(
    kernel: kernels.Uml | kernels.Qemu, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda tool, path=None: None)
    monkeypatch.setattr("runner.lab.kernels.qemu.virtme_run", lambda: None)
    monkeypatch.setattr(Path, "is_dir", lambda self: False)
    with pytest.raises(CannotRunHere, match=r"get it with: apt-get install .* && mkdir /lib/modules") as raised:
        kernel.describe()
    assert ("pip install virtme-ng" in str(raised.value)) is kernel.name.startswith("qemu")


def test_what_holds_a_writable_folder_is_not_cached() -> None:
    everything = cacheable([])
    assert Path("/usr") in everything
    assert cacheable([Path("/usr/share/results/run")]) == [path for path in everything if path != Path("/usr")]


def test_frames_survive_any_cut() -> None:
    ours, theirs = os.pipe()
    sender, receiver = Channel(theirs), Channel(ours)
    payload = bytes(range(256)) * 50
    whole = HEADER.pack(b"O", len(payload)) + payload + HEADER.pack(b"X", 1) + b"7"
    found = []
    for cut in (3, 2, 1000, len(whole)):
        os.write(theirs, whole[:cut])
        whole = whole[cut:]
        found += receiver.read_frames()
    assert found == [(b"O", payload), (b"X", b"7")]
    sender.send(b"H")
    assert receiver.read_frames() == [(b"H", b"")]
    os.close(theirs)
    with pytest.raises(EOFError):
        receiver.read_frames()
    os.close(ours)


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    folder = tmp_path / "parent"
    folder.mkdir()
    for name in ("host", "qemu:trixie", "uml"):
        add_to_index(folder, name, "running")
        add_to_index(folder, name, "complete")
    for name in ("host", "qemu-trixie"):
        shutil.copytree(EXAMPLE, folder / name)
    return folder


def test_a_parent_folder_lists_its_runs_once_each(parent: Path) -> None:
    runs = json.loads((parent / "index.json").read_text())["runs"]
    assert [(run["kernel"], run["folder"], run["outcome"]) for run in runs] == [
        ("host", "host", "complete"),
        ("qemu:trixie", "qemu-trixie", "complete"),
        ("uml", "uml", "complete"),
    ]
    assert indexed_runs(parent) == [parent / "host", parent / "qemu-trixie"], "the third has not been measured yet"
    assert indexed_runs(parent / "host") is None


def test_reports_of_a_parent_folder_are_apart(parent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*argv: str) -> str:
        main_exits(list(argv))
        return capsys.readouterr().out

    alone = said("report", str(parent / "host"), "--format", "json")
    both = json.loads(said("report", str(parent), "--format", "json"))
    assert both == [json.loads(alone)] * 2, "two reports, each as it is alone: never one ranking"
    shown = said("report", str(parent))
    assert "qemu-trixie" in shown
    assert shown.index("host") < shown.index("qemu-trixie")


def test_one_table_of_several_runs_is_refused(parent: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main_exits(["report", str(parent), "--format", "csv"]) == 2
    assert "holds several runs" in capsys.readouterr().err


def main_exits(argv: list[str]) -> int:
    with pytest.raises(SystemExit) as exit_:
        main(argv)
    return int(exit_.value.code or 0)


def test_what_a_kernel_lacks_is_read_from_its_run() -> None:
    """The example was measured by a kernel without modules: nothing of these could be tried there."""
    assert {*lacks(EXAMPLE)} == {"gre_ipsec", "ipip", "ipsec", "wireguard"}


def test_a_run_folder_is_no_parent_folder(parent: Path, tmp_path: Path) -> None:
    check_parent(parent)
    with pytest.raises(UsageError, match=f"--out {parent}$"):
        check_parent(parent / "host")
    shutil.copytree(EXAMPLE, tmp_path / "alone")
    with pytest.raises(UsageError, match="is a run folder"):
        check_parent(tmp_path / "alone")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "a").touch()
    with pytest.raises(UsageError, match="is neither empty nor a parent folder"):
        check_parent(tmp_path / "letters")


@pytest.mark.skipif(platform.machine() != "x86_64", reason="another processor has no time-stamp counter")
def test_the_time_stamp_counter_has_one_rate() -> None:
    found = [tsc_khz(0.05) for _ in range(3)]
    if found == [None] * 3:
        pytest.skip("no page of memory may be executed here")
    assert found[1:] == pytest.approx([found[0]] * 2, rel=0.002)
    assert 500_000 < (found[0] or 0) < 10_000_000


@pytest.mark.parametrize(
    "frame",
    [
        HEADER.pack(b"O", 0xFFFFFFFF) + b"x" * 1000,
        HEADER.pack(b"?", 1) + b"x",
        HEADER.pack(b"X", 1) + b"x",
        HEADER.pack(b"X", 0),
        b"\xff" * 4096,
    ],
    ids=range(5),
)
def test_a_guest_that_says_what_none_says_is_named(frame: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(frame)
        channel = Channel(ours.fileno())
        with pytest.raises(ValueError):  # noqa: PT011
            boot._carry_out(channel)


def test_what_a_guest_prints_is_bounded() -> None:
    printed = Bounded()
    printed.write(b"x" * MOST_ANSWER)
    with pytest.raises(ValueError, match="more than 8 MiB"):
        printed.write(b"x")


@pytest.mark.parametrize("said", ["", "7", "[7]", '[{"what": 1}]', '[{"configuration": "comparable"}]', "[" * 99999])
def test_what_a_guest_cannot_run_is_told_in_its_form(said: str) -> None:
    with pytest.raises(CannotRunHere, match="the guest did not say"):
        answers(said)
