"""When a killed command counts as gone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from runner.node import _group_lives, wait_until

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
        assert _group_lives(process.pid)
        assert process.stdin
        process.stdin.close()
        wait_until(lambda: not _group_lives(process.pid), "the second thread's end")
        assert state(process.pid) == "Z"  # not reaped yet, and still gone
