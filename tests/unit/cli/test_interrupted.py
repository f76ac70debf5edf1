"""How a program that is interrupted ends."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import runner.__main__ as program, runner.cli.main as command
command.main = lambda: exec("raise KeyboardInterrupt")
program.main()
"""


def test_an_interruption_while_a_text_is_executed_has_the_exit_code_of_all_others(tmp_path: Path) -> None:
    """As dataclasses execute theirs when they are made, while the program loads. Without the program's own end,
    ``python -m`` forgets the exit code, and ends by SIGINT."""
    (tmp_path / "interrupted.py").write_text(PROGRAM)
    argv = (sys.executable, "-m", "interrupted")
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, check=False, timeout=60)
    assert done.returncode == 130, done.stderr


WHILE_AN_ERROR_IS_SAID = """
import os, signal, sys
import runner.__main__ as program, runner.cli.main as command
command.tell = lambda text: os.kill(os.getpid(), signal.SIGINT)
sys.argv = ["vpneval", "report", "nowhere"]
program.main()
"""


def test_an_interruption_while_an_error_is_said_has_it_too(tmp_path: Path) -> None:
    """Found by the campaign, which has this moment by chance."""
    done = subprocess.run(
        (sys.executable, "-c", WHILE_AN_ERROR_IS_SAID), cwd=tmp_path, capture_output=True, check=False, timeout=60
    )
    assert (done.returncode, done.stderr) == (130, b"")
