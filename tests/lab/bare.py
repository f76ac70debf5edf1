"""A bare Debian root, for machines on which no VPN is installed: what site mode asks of a machine, and an apt whose
packages are in the root itself, because a machine of the tests reaches no network."""

import fcntl
import hashlib
import shutil
import subprocess
from pathlib import Path

import pytest

from runner.catalogue import load_vpn
from runner.data.cache import cache_dir
from runner.lab.names import DEFAULT_IMAGE
from runner.vpn.deploy import packages

# What is on the machine: an image of a cloud has these, too.
THERE = ("iproute2", "nftables", "openssh-server", "procps", "python3")
REPOSITORY = "srv/packages"
# In a hook of mmdebstrap: $1 is the root, and its apt reads the lists of packages that were just fetched.
FETCH = f"""set -e
mkdir -p "$1/{REPOSITORY}/partial"
APT_CONFIG="$MMDEBSTRAP_APT_CONFIG" apt-get -y --download-only -o Dir::Cache::archives="$1/{REPOSITORY}" install %s
cd "$1/{REPOSITORY}"
rm -rf lock partial
for deb in *.deb; do
    dpkg-deb -f "$deb"
    echo "Filename: ./$deb"
    echo "Size: $(stat -c %%s "$deb")"
    echo "SHA256: $(sha256sum "$deb" | cut -d' ' -f1)"
    echo
done > Packages
rm -rf "$1"/etc/apt/sources.list "$1"/etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/{REPOSITORY} ./' > "$1/etc/apt/sources.list"
"""
NOT_THERE = ("Unable to locate package", "has no installation candidate")


def bare_root(vpns: tuple[str, ...], *more: str) -> Path:
    """The root, built once; apt can install the packages of the recipes of ``vpns``, and ``more``. Skips the test where
    no package can be fetched; a package that Debian does not have is an error."""
    names = sorted({any_of[0] for vpn in vpns for any_of in packages(load_vpn(vpn))} | {*more})
    fetch = FETCH % " ".join(names)
    digest = hashlib.sha256(f"{DEFAULT_IMAGE} {THERE} {fetch}".encode()).hexdigest()[:12]
    root = cache_dir() / "tests" / f"bare-{digest}"
    root.parent.mkdir(parents=True, exist_ok=True)
    with root.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests side by side
        if not root.exists():
            _build(root.with_suffix(".partial"), fetch)
            root.with_suffix(".partial").rename(root)
    return root


def _build(root: Path, fetch: str) -> None:
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is missing")
    shutil.rmtree(root, ignore_errors=True)
    hold = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    argv = ["mmdebstrap", "--variant=minbase", f"--include={','.join(THERE)}", f"--customize-hook={fetch}"]
    try:
        done = subprocess.run([*hold, *argv, DEFAULT_IMAGE, root], capture_output=True, text=True, timeout=200)
    except subprocess.TimeoutExpired:
        pytest.skip("no packages can be fetched within 200 s")
    if done.returncode != 0:
        assert not any(words in done.stderr for words in NOT_THERE), done.stderr[-2000:]
        pytest.skip(f"no packages can be fetched: {done.stderr.splitlines()[-1:]}")
