"""Starts the whole command again where a lab needs that: as root of a user namespace, or with more patience.

The namespace lab without root runs as root of a user namespace of its own. In it the user is root (user_namespaces(7)),
and the ids that /etc/subuid and /etc/subgid lend the user are the other users, whom daemons drop to and packages belong
to. Root of this machine is not in it, so that nothing outside can be touched that the user could not touch before.
"""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import subprocess
import sys
from pathlib import Path

from runner.data.cache import users_cache
from runner.data.errors import CannotRunHere
from runner.data.own_program import again

# unshare(1): the user is 0, the block of subordinate ids follows; newuidmap(1) writes the maps.
UNSHARE = ("unshare", "--user", "--map-root-user", "--map-auto")
INSIDE = "VPNEVAL_ROOTLESS"


def enter(lab: str) -> None:
    """Where ``lab`` needs root and this process is not root: start the command again inside a user namespace, and do
    not return.

    Where the lab's machines are emulated and VPNEVAL_PATIENCE is not set: start it again with the patience that they
    need. Raises CannotRunHere, with the one command that helps, where this machine does not allow a user namespace.
    """
    if lab.startswith("vagrant") and "VPNEVAL_PATIENCE" not in os.environ:
        from runner.lab.places.vagrant import lab_file

        environment = {**os.environ, "VPNEVAL_PATIENCE": f"{lab_file().patience:g}"}
        os.execve(sys.executable, again(*sys.argv[1:]), environment)
    if lab != "netns" or os.geteuid() == 0:
        return
    if why := refusal():
        raise CannotRunHere(f"without root, the namespace lab needs user namespaces: {why}")
    # Root's cache is not the user's: an image there is readable, but not as root of another user namespace.
    cache = os.environ.get("VPNEVAL_CACHE") or str(users_cache())
    environment = {**os.environ, "VPNEVAL_CACHE": cache, INSIDE: "1"}
    os.execvpe(UNSHARE[0], [*UNSHARE, *again(*sys.argv[1:])], environment)


def refusal() -> str:
    """Why this user cannot have a user namespace with networks and mounts, and the command that allows it; or ""."""
    if shutil.which("unshare") is None:
        return "unshare is missing: apt-get install util-linux"
    if shutil.which("newuidmap") is None:
        return "newuidmap is missing; allow it with: sudo apt-get install uidmap"
    user = _user()
    if not _lent("/etc/subuid", user) or not _lent("/etc/subgid", user):
        ids = "--add-subuids 100000-165535 --add-subgids 100000-165535"
        return f"no ids are lent to {user} in /etc/subuid and /etc/subgid; allow it with: sudo usermod {ids} {user}"
    # What every node does; a switch that is off shows here and nowhere else.
    tried = subprocess.run(
        [*UNSHARE, "unshare", "--net", "--mount", "sh", "-c", "mount -t tmpfs none /mnt && ip link set lo up"],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return "" if tried.returncode == 0 else explain(tried.stderr.strip())


def explain(complaint: str, proc: Path = Path("/proc/sys")) -> str:
    """The switch that forbids user namespaces here, and the command that turns it; else the tool's own words."""
    for switch, forbids, command in (
        ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        # https://ubuntu.com/blog/ubuntu-23-10-restricted-unprivileged-user-namespaces
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ):
        path = proc / switch
        if path.exists() and path.read_text().strip() == forbids:
            return f"{switch.replace('/', '.')} is {forbids} here; allow it with: {command}"
    if os.strerror(errno.ENOSPC) in complaint:
        most = proc / "user/max_user_namespaces"
        limit = most.read_text().strip() if most.exists() else "not known"
        command = "sudo sysctl -w user.max_user_namespaces=15000"
        return f"user.max_user_namespaces is {limit} here, and all are in use; allow more with: {command}"
    return (
        f"{complaint or 'the kernel refuses'} (no known switch forbids it; in a container, its profile may). Use sudo"
    )


def _lent(path: str, user: str) -> bool:
    """Has ``user`` a line in subuid(5) or subgid(5)?"""
    try:
        lines = Path(path).read_text().splitlines()
    except OSError:
        return False
    return any(line.split(":")[0] in (user, str(os.getuid())) for line in lines)


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
