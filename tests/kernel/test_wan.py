"""The WAN's conditions need netem, which a guest kernel has: the lab's own tests of them, run there."""

import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from runner import kernels
from runner.kernels.boot import run_in

ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.timeout(900)


def test_the_wans_tests_pass_under_a_kernel_with_netem(uml: kernels.Uml, tmp_path: Path) -> None:
    tests = [str(ROOT / "tests/lab/test_wan.py"), "--rootdir", str(ROOT), "--timeout=300", "-p", "no:cacheprovider"]
    # Not the rate: this kernel's token bucket, of a millisecond's worth, passes half of it, and the probe says so.
    tests += ["-k", "not shaped"]
    report = tmp_path / "report.xml"
    argv = [sys.executable, "-m", "pytest", "-q", *tests, f"--junitxml={report}", f"--basetemp={tmp_path / 'lab'}"]
    code = run_in(uml, argv, folders=[tmp_path])
    (suite,) = ET.parse(report).getroot().iter("testsuite")
    assert code == 0
    assert int(suite.attrib["tests"]) == 7
    assert int(suite.attrib["skipped"]) == 0, "this kernel has everything"
