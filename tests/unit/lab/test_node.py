"""When a killed command counts as gone, and that no node's method is called by the protocol's name."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from runner.lab.node import wait_until
from runner.lab.node.namespaces import processes_of

# The first thread ends by exit(2) and leaves a zombie; the second goes on until standard input ends.
HALF_GONE = """
import ctypes, platform, sys, threading
threading.Thread(target=sys.stdin.read).start()
ctypes.CDLL(None).syscall({"x86_64": 60, "aarch64": 93}[platform.machine()], 0)
"""


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_zombie_with_a_thread_that_lives_is_not_gone_and_one_without_is() -> None:
    with subprocess.Popen([sys.executable, "-c", HALF_GONE], stdin=subprocess.PIPE, start_new_session=True) as process:
        wait_until(lambda: state(process.pid) == "Z", "the first thread's end")
        assert processes_of(process.pid) == {process.pid: True}
        assert process.stdin
        process.stdin.close()
        wait_until(lambda: processes_of(process.pid) == {process.pid: False}, "the second thread's end")
        assert state(process.pid) == "Z"  # not reaped yet, and still gone


# Orphans of what it starts fall to this one (prctl(2): PR_SET_CHILD_SUBREAPER); it tells whether one has.
ADOPTS = """
import ctypes, os, subprocess
from runner.lab.node.namespaces import kill_group
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
like_nsenter = ["sh", "-c", "sleep 60 & echo ready; wait"]
process = subprocess.Popen(like_nsenter, stdout=subprocess.PIPE, text=True, start_new_session=True)
process.stdout.readline()
kill_group(process)
process.wait()
try:
    print("an orphan", os.waitpid(-1, 0))
except ChildProcessError:
    print("none")
"""


def test_a_killed_command_leaves_no_orphan() -> None:
    done = subprocess.run([sys.executable, "-c", ADOPTS], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "none\n"


def calls_by_protocol(source: str) -> list[str]:
    """The calls of a method of a node's protocol by the protocol's name: they do nothing, because it has no body."""
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    return [
        f"{call.value.id}.{call.attr}"
        for call in calls
        if isinstance(call, ast.Attribute) and isinstance(call.value, ast.Name) and call.value.id in {"Node", "LabNode"}
    ]


def test_no_method_is_called_by_the_protocols_name() -> None:
    assert calls_by_protocol("Node.write(node, 'a', 'b')") == ["Node.write"], "the control"
    root = Path(__file__).resolve().parents[3]
    for file in [
        file for room in ("runner", "vpns", "experiments", "questions") for file in (root / room).rglob("*.py")
    ]:
        assert not calls_by_protocol(file.read_text()), file
