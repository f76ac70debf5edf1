"""Guests at work beside the tests, in processes of their own, and what came of them."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

import pytest

from runner.data.errors import CannotRunHere
from runner.lab import layers
from runner.lab.image import DEFAULT, open_image
from runner.lab.kernels import Uml
from runner.lab.kernels.boot import Kernel, run_in

ROOT = Path(__file__).parent.parent.parent
CANNOT_RUN_HERE = 3  # the exit code of vpneval, and of the programs here
Done = subprocess.CompletedProcess[str]
_AT_WORK: list[subprocess.Popen[str]] = []
_STARTING = Lock()  # from a guest's start until it is in the list


def at_work() -> set[int]:
    """The processes of the guests beside the tests; what they start is none of a lab's."""
    with _STARTING:
        return {process.pid for process in _AT_WORK if process.returncode is None}


@dataclass
class Work:
    """A command that boots a guest, at work or waiting for its turn. ``folder`` is its own."""

    future: Future[Done]
    folder: Path

    def done(self) -> Done:
        """How it ended. Waits for that; skips where this machine cannot run it."""
        done = self.future.result()
        if done.returncode == CANNOT_RUN_HERE:
            pytest.skip(done.stderr.strip())
        return done

    def outcomes(self) -> dict[str, str]:
        """Of tests in the guest: test -> ``passed``, or what it said instead. Waits for the guest's end."""
        done = self.done()
        assert done.returncode in (0, 1), done.stdout + done.stderr
        found = {}
        for case in ET.parse(self.folder / "report.xml").getroot().iter("testcase"):
            test = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"
            found[test] = "; ".join(f"{child.tag}: {child.get('message')}" for child in case) or "passed"
        return found


class Guests:
    """Works through commands that boot a guest, two at a time: each has one CPU. They end with this process."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="vpneval-guests-", ignore_cleanup_errors=True)
        self.folder = Path(self._folder.name)
        self.work: dict[str, Work] = {}
        self._pool = ThreadPoolExecutor(2)

    def begin(self, name: str, argv: Sequence[str]) -> None:
        self.work[name] = Work(self._pool.submit(self._run, argv), self.folder / name)

    def _run(self, argv: Sequence[str]) -> Done:
        held = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", *argv]
        with _STARTING:
            process = subprocess.Popen(held, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            _AT_WORK.append(process)
        out, said = process.communicate()
        return Done(held, process.returncode, out, said)

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        with _STARTING:
            for process in _AT_WORK:
                process.kill()
        self._pool.shutdown()
        self._folder.cleanup()


def in_guest(
    folder: Path,
    options: Sequence[str],
    images: Sequence[str] = (DEFAULT,),
    layer: str = "",
    kernel: Kernel | None = None,
) -> int:
    """Run pytest with ``options`` in User Mode Linux, or under another ``kernel``; first, build what a guest cannot.

    The exit code of either.

    ``folder``, alone writable there, gets ``report.xml``, the console's log, and what the tests write.
    """
    folder = folder.resolve()  # the guest mounts it before it goes to the working directory
    folder.mkdir(exist_ok=True)
    always = ["-p", "no:cacheprovider", "--rootdir", str(ROOT), "--durations=0"]
    always += [f"--junitxml={folder}/report.xml", f"--basetemp={folder}/lab"]
    argv = [sys.executable, "-m", "pytest", *always, *options]
    try:
        for image in images:
            open_image(image, say=print)
        if layer:
            layers.build(layer, DEFAULT, print)
        guest = kernel or Uml()
        guest.prepare(print)
        return run_in(guest, argv, folders=[folder], console_log=folder / "console", say=print)
    except CannotRunHere as lack:
        print(lack, file=sys.stderr)
        return CANNOT_RUN_HERE


def needed(items: Sequence[pytest.Item], commands: Mapping[str, Sequence[str]]) -> list[str]:
    """Of ``commands``, fixture -> argv, those whose fixture one of these tests uses."""
    used = {name for item in items for name in getattr(item, "fixturenames", ())}
    return [name for name in commands if name in used]
