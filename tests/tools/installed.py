"""vpneval as a user has it who never saw the checkout: a wheel, installed into an environment of its own, with the
packages of requirements.txt alone."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = (
    "experiments",
    "questions",
    "runner",
    "vpns",
    "vagrant/packages",
    "vagrant/layers",
    "results/published",
    "results/evidence",
)
FILES = ("pyproject.toml", "README.md", "LICENSE")


def install(folder: Path) -> Path:
    """Build a wheel of the checkout and install it below ``folder``; returns the environment's ``vpneval``.

    Nothing is downloaded: what requirements.txt names is linked from the environment that the tests run in.
    """
    source, wheels, environment = folder / "source", folder / "wheels", folder / "environment"
    for name in SOURCES:  # a copy, because a build folder that an older build left behind would hide what is missing
        shutil.copytree(PROJECT / name, source / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    for name in FILES:
        shutil.copy(PROJECT / name, source)
    pip = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
    build = ("wheel", "--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(wheels), str(source))
    done(*pip, *build)
    done(sys.executable, "-m", "venv", "--without-pip", str(environment))
    python = environment / "bin" / "python"
    (wheel,) = wheels.glob("*.whl")
    done(*pip, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    shutil.rmtree(source)
    site = done(str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").stdout.strip()
    for package in sorted(set(re.findall(r"^([\w-]+)==", (PROJECT / "requirements.txt").read_text(), re.MULTILINE))):
        for entry in _entries(package):
            (Path(site) / entry.name).symlink_to(entry)
    return environment / "bin" / "vpneval"


def _entries(package: str) -> set[Path]:
    """The files and folders in site-packages that a package brings; none of one for other systems."""
    try:
        brought = files(package) or []
    except PackageNotFoundError:
        return set()
    names = {path.parts[0] for path in brought} - {"..", "__pycache__"}
    return {Path(sysconfig.get_path("purelib"), name) for name in names}


def done(*argv: str, folder: Path | None = None, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, without what would lead Python to the checkout; it has to succeed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert ended.returncode == 0, f"{argv}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"
    return ended
