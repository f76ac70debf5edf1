"""Run pytest, and what failed of the tests of real daemons once more: ``python -m tests.tools.second_chance OPTIONS``.

A busy machine can break one of some thousand tests that wait for daemons, guests and browsers. Those that failed run
again at the end, in a new process, alone on the machine. A test that passes then is unsteady: the run is green and ends
with the list of them, which is also in ``unsteady.json``. An unsteady test is a defect. It is mended or moved.

The run is red where a test fails, is skipped or crashes the second time; where a unit test failed, because these depend
on nothing but the code; where more than ten tests failed; and where pytest ended with another code than 1 (its codes
are 2 for an interruption, 3 for an internal error, 4 for a wrong option, 5 for no tests).

As a pytest plugin, this module prints each failure when it happens and writes down how the tests ended.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath

import pytest

AT_MOST = 10
RETRIED = ("browser", "kernel", "lab", "vagrant")  # folders of tests
UNSTEADY = Path("unsteady.json")
TESTS_FAILED = 1  # pytest's exit code


@dataclass(frozen=True)
class Failure:
    """A test that failed, what it said, and the load of the machine then (average of one minute)."""

    test: str
    message: str
    load: float


@dataclass(frozen=True)
class Pass:
    """One call of pytest: its exit code, who failed, and who passed without a failure in set-up or tear-down."""

    code: int
    failures: dict[str, Failure]
    passed: set[str]


def main(options: Sequence[str]) -> int:
    """The exit code of both passes."""
    UNSTEADY.unlink(missing_ok=True)
    with tempfile.TemporaryDirectory(prefix="vpneval-tests-") as folder:
        first = run_pytest(options, Path(folder) / "first")
        if first.code != TESTS_FAILED:
            return first.code
        if refusal := no_second_chance(sorted(first.failures)):
            print(f"No second chance: {refusal}", flush=True)
            return TESTS_FAILED
        print(f"\nOnce more, alone on the machine: {len(first.failures)} tests that failed.", flush=True)
        again = Path(folder) / "again"
        again.write_text("\n".join(first.failures))
        second = run_pytest([*options, "-n", "0", f"--only-from={again}"], Path(folder) / "second")
    if lost := sorted(set(first.failures) - second.passed):
        print("Failed twice, or did not pass the second time:", *lost, sep="\n  ", flush=True)
        return TESTS_FAILED
    tell(first)
    return second.code


def run_pytest(options: Sequence[str], log: Path) -> Pass:
    """Run pytest with this plugin, which writes one JSON line a report to ``log``."""
    argv = [sys.executable, "-m", "pytest", "-p", "tests.tools.second_chance", f"--outcomes={log}", *options]
    code = subprocess.run(argv).returncode
    reports = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    failures: dict[str, Failure] = {}
    for report in reports:
        if report["outcome"] == "failed":
            failures.setdefault(report["test"], Failure(report["test"], report["message"], report["load"]))
    passed = {report["test"] for report in reports if report["when"] == "call" and report["outcome"] == "passed"}
    return Pass(code, failures, passed - set(failures))


def no_second_chance(failed: Sequence[str]) -> str:
    """Why these tests are not run again, in one sentence; empty where they are."""
    if len(failed) > AT_MOST:
        return f"{len(failed)} tests failed, and {AT_MOST} may."
    exact = [test for test in failed if not retried(PurePath(test.partition("::")[0]))]
    if exact or not failed:
        return f"what failed depends on the code alone: {', '.join(exact) or 'the collection'}."
    return ""


def retried(file: PurePath) -> bool:
    """Is it of those that wait for others? A folder of unit tests may have the same name as theirs."""
    return "unit" not in file.parts and file.parent.name in RETRIED


def tell(first: Pass) -> None:
    """Print the tests that passed the second time only, and write them to ``UNSTEADY``."""
    machine = {"cpu": cpu_model(), "cores": os.cpu_count(), "kernel": os.uname().release}
    UNSTEADY.write_text(
        json.dumps({**machine, "tests": [asdict(failure) for failure in first.failures.values()]}, indent=2)
    )
    print(f"\nUnsteady tests, which failed beside others and passed alone ({', '.join(map(str, machine.values()))}):")
    for failure in first.failures.values():
        print(f"  {failure.test}\n    at load {failure.load:.1f}: {failure.message}\n    alone: passed")
    print(f"Each is a defect: mend it, or move it to the watch. They are also in {UNSTEADY}.", flush=True)


def cpu_model() -> str:
    """As in /proc/cpuinfo; of a machine that names none, its architecture."""
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), os.uname().machine)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--outcomes", help="Write one JSON line a report to this file.")
    parser.addoption("--only-from", help="Run only the tests whose names are the lines of this file.")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if file := config.getoption("--only-from"):
        names = set(Path(file).read_text().splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in names])
        items[:] = [item for item in items if item.nodeid in names]


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput") and config.getoption("--outcomes"):  # workers report to the first process
        config.pluginmanager.register(Outcomes(config))


class Outcomes:
    """Writes how each test ended, and prints a failure at once."""

    def __init__(self, config: pytest.Config) -> None:
        self.log = Path(config.getoption("--outcomes"))
        self.terminal = config.pluginmanager.get_plugin("terminalreporter")

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        message = message_of(report)
        outcome = {
            "test": report.nodeid,
            "when": report.when,
            "outcome": report.outcome,
            "message": message,
            "load": os.getloadavg()[0],
        }
        with self.log.open("a") as file:
            file.write(json.dumps(outcome) + "\n")
        if report.failed and self.terminal:
            self.terminal.write_line(f"\nFAILED {report.nodeid} ({report.when}): {message}")


def message_of(report: pytest.TestReport) -> str:
    """What a failed test said, in one line of at most 300 characters."""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash else report.longreprtext.strip().rpartition("\n")[2]
    return " ".join(text.split())[:300]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
