"""Guests at work for the tests, in processes of their own, and what came of them."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.lab.kernels import Uml
from runner.lab.kernels.boot import Kernel, run_in
from runner.lab.software import layers
from runner.lab.software.image import DEFAULT, open_image

ROOT = Path(__file__).parent.parent.parent
CANNOT_RUN_HERE = 3  # the exit code of vpneval, and of the programs here
NO_END = 124  # what timeout(1) ends with
# The longest work takes 18 minutes beside the labs on two quiet cores. The tests inside have limits of their own.
WITHIN_S = 2700
Done = subprocess.CompletedProcess[str]


@dataclass
class Work:
    """A command that boots a guest, which is run when a test first asks what came of it. ``folder`` is its own."""

    argv: Sequence[str]
    folder: Path

    @cached_property
    def _ended(self) -> Done:
        held = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", *self.argv]
        try:
            return subprocess.run(held, cwd=ROOT, capture_output=True, text=True, timeout=WITHIN_S)
        except subprocess.TimeoutExpired as late:
            said = [shown.decode(errors="replace")[-4000:] for shown in (late.stdout, late.stderr) if shown]
            if (console := self.folder / "console").exists():
                said.append(console.read_text(errors="replace")[-4000:])
            return Done(held, NO_END, "", f"no end within {WITHIN_S} s; its last words:\n" + "\n".join(said))

    def done(self) -> Done:
        """How it ended. Skips where this machine cannot run it."""
        if self._ended.returncode == CANNOT_RUN_HERE:
            pytest.skip(self._ended.stderr.strip())
        return self._ended

    def outcomes(self) -> dict[str, str]:
        """Of tests in the guest: test -> ``passed``, or what it said instead."""
        done = self.done()
        assert done.returncode in (0, 1), done.stdout + done.stderr
        found = {}
        for case in ET.parse(self.folder / "report.xml").getroot().iter("testcase"):
            test = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"
            found[test] = "; ".join(f"{child.tag}: {child.get('message')}" for child in case) or "passed"
        return found


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
