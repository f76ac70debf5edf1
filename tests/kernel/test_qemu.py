"""``--kernel qemu``: Debian's own kernel, with WireGuard in it. Software emulation is slow: little is asked for."""

import json
import os
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.data.store import load_run
from runner.lab import kernels
from runner.lab.kernels.boot import run_in
from runner.lab.names import SUITES
from runner.lab.shape.site_to_site import check_machine
from runner.lab.software.image import open_image
from tests.kernel.inside import ROOT
from tests.kernel.test_uml import KERNEL_LINES, vpneval

pytestmark = pytest.mark.timeout(3600)


@pytest.fixture(scope="module")
def qemu() -> kernels.Qemu:
    guest = kernels.Qemu("trixie")
    try:
        check_machine()
        guest.prepare(print)
        open_image(say=print)
    except CannotRunHere as lack:
        pytest.skip(str(lack))
    return guest


# Seconds of the guest's clock in five of the emulated clock chip's, which the host's clock drives.
CLOCK = """
import time
chip = open("/sys/class/rtc/rtc0/since_epoch")
def tick():
    chip.seek(0); was = now = int(chip.read())
    while now == was: time.sleep(0.002); chip.seek(0); now = int(chip.read())
    return now, time.monotonic()
first, began = tick()
last = first
while last - first < 5: last, ended = tick()
print(5 * (ended - began) / (last - first))
"""


def release(guest: kernels.Qemu) -> str:
    return guest.image.name.removeprefix("vmlinuz-")


def test_exit_code_output_files_and_the_contract(
    qemu: kernels.Qemu, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One guest for all, which takes most of the time: WireGuard of its kernel is held to the plugins' contract."""
    folder = tmp_path / "open"
    folder.mkdir()
    options = (
        f"-q -p no:cacheprovider --rootdir {ROOT} --timeout=900 --junitxml={folder}/report.xml --basetemp={folder}/lab"
    )
    script = f"""
        uname -r > {folder}/kernel
        echo to stderr >&2
        touch {tmp_path}/no
        {sys.executable} -c '{CLOCK}' >{folder}/clock
        {sys.executable} -m pytest {options} {ROOT}/tests/contract.py -k 'test_contract[wireguard]' >{folder}/log 2>&1
        exit 7"""
    assert run_in(qemu, ["sh", "-c", script], folders=[folder], console_log=tmp_path / "console") == 7
    out, said = capfd.readouterr()
    assert out == ""
    assert said.startswith("to stderr\n")
    assert "Read-only file system" in said
    assert (folder / "kernel").read_text().strip() == release(qemu) != os.uname().release
    assert float((folder / "clock").read_text()) == pytest.approx(5, rel=0.05)
    (suite,) = ET.parse(folder / "report.xml").getroot().iter("testsuite")
    counts = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": 1, "failures": 0, "errors": 0, "skipped": 0}, (folder / "log").read_text()


@pytest.mark.skipif("VPNEVAL_TEST_QEMU" not in os.environ, reason="takes 10 minutes and more: VPNEVAL_TEST_QEMU=1")
def test_two_kernels_side_by_side(qemu: kernels.Qemu, tmp_path: Path) -> None:
    both = {suite: kernels.Qemu(suite) for suite in SUITES}
    asked = ",".join(guest.name for guest in both.values())
    smallest = ("--profile", "smallest", "--kernel", asked)
    done = vpneval("run", "reference", *smallest, "--vpn", "wireguard", "--out", tmp_path / "run", timeout=3500)
    assert done.returncode == 0, done.stderr
    assert not KERNEL_LINES.search(done.stderr), done.stderr
    index = json.loads((tmp_path / "run" / "index.json").read_text())["runs"]
    assert [(entry["kernel"], entry["outcome"]) for entry in index] == [(g.name, "complete") for g in both.values()]
    for guest, entry in zip(both.values(), index, strict=True):
        run, trials = load_run(tmp_path / "run" / entry["folder"])
        assert run.lab["guest"] in ("qemu-kvm", "qemu-tcg")
        assert run.lab["kernel"] == release(guest)
        (trial,) = [trial for trial in trials if trial.vpn == "wireguard"]
        assert trial.status == "ok", trial.reason
        assert trial.evidence is not None
        assert trial.evidence.data_path == "kernel: wireguard"
        assert trial.encrypted
    shown = json.loads(vpneval("report", tmp_path / "run", "--format", "json").stdout)
    assert len(shown) == len(both), "two reports, and no common ranking"
