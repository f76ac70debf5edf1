"""vpneval as a user has it who never saw the checkout: a wheel, installed into an environment of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
SOURCES = (
    "experiments",
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

    Nothing is downloaded: what vpneval depends on comes from the environment that the tests run in.
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
    # A folder that a .pth file adds has no say in what else is added: the checkout's own .pth file is not read there.
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return environment / "bin" / "vpneval"


def done(*argv: str, folder: Path | None = None, timeout_s: float = 240) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, without what would lead Python to the checkout; it has to succeed."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(
        argv, cwd=folder, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert ended.returncode == 0, f"{argv}: {ended.stdout[-2000:]}{ended.stderr[-2000:]}"
    return ended
