"""A guest that runs tests of its own, in a process beside the other tests, and what came of it."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Inside:
    """The guest at work. ``folder`` gets its report, and ``log`` what it and its tests say."""

    process: subprocess.Popen[bytes]
    folder: Path

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def outcomes(self) -> dict[str, str]:
        """Test -> ``passed``, or what it said instead. Waits for the guest's end."""
        assert self.process.wait(900) in (0, 1), self.log
        found = {}
        for case in ET.parse(self.folder / "report.xml").getroot().iter("testcase"):
            test = f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name']}"
            found[test] = "; ".join(f"{child.tag}: {child.get('message')}" for child in case) or "passed"
        return found


def start(module: str, folder: Path, *options: str) -> Inside:
    """Run ``python -m module folder options``, which boots the guest; it ends with this process."""
    with (folder / "log").open("wb") as log:
        argv = ["setpriv", "--pdeathsig", "KILL", sys.executable, "-m", module, str(folder), *options]
        return Inside(subprocess.Popen(argv, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT), folder)
