"""The namespace lab as an ordinary user: a throw-away user, with subordinate ids, in a mount namespace of the test's.

/etc/passwd and its like are replaced in that mount namespace only; nothing of this machine changes.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from runner.data.cache import cache_dir
from runner.data.store import load_run
from runner.lab.places.rootless import explain
from tests.lab.conftest import interfaces, mounts

pytestmark = pytest.mark.smoke

PROJECT = Path(__file__).resolve().parents[2]
UID = 64123
ADD = {"passwd": f"tester:x:{UID}:{UID}::/home/tester:/bin/sh", "group": f"tester:x:{UID}:"}
LENT = "tester:3000000:65536"
# In a mount namespace of its own: the files of /etc this Python where the user
# can read it, the project, a home; then the command as that user.
BECOME = r"""
set -e
etc=$1 home=$2 python=$3 project=$4; shift 4
for file in "$etc"/*; do
    [ ! -e "/etc/${file##*/}" ] || mount --bind "$file" "/etc/${file##*/}"
done
mount -t tmpfs -o mode=755 tmpfs /mnt
mkdir /mnt/python /mnt/project
mount --rbind "$python" /mnt/python
mount --rbind "$project" /mnt/project
if [ -e /dev/net/tun ]; then mknod -m 666 /mnt/tun c 10 200; mount --bind /mnt/tun /dev/net/tun; fi
cd "$home"
exec setpriv --reuid="$TESTER" --regid="$TESTER" --clear-groups "$@"
"""


class User:
    """The throw-away user: runs commands, has a home and a cache that outlives the test."""

    def __init__(self, etc: Path, home: Path, cache: Path) -> None:
        self.etc, self.home, self.cache = etc, home, cache

    def run(self, *argv: str, timeout: float = 250) -> subprocess.CompletedProcess[str]:
        site = next(path for path in sys.path if path.endswith("site-packages"))
        packages = Path("/mnt/project") / Path(site).relative_to(PROJECT)
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "TESTER": str(UID),
            "VPNEVAL_CACHE": str(self.cache),
            "PYTHONPATH": f"/mnt/project:{packages}",
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        become = ["unshare", "--mount", "sh", "-c", BECOME, "sh"]
        return subprocess.run(
            [*become, str(self.etc), str(self.home), sys.base_prefix, str(PROJECT), *argv],
            capture_output=True,
            text=True,
            timeout=timeout,
            env=environment,
        )

    def vpneval(self, *argv: str, timeout: float = 250) -> subprocess.CompletedProcess[str]:
        name = Path(os.path.realpath(sys.executable)).name
        return self.run(f"/mnt/python/bin/{name}", "-m", "runner", *argv, timeout=timeout)


@pytest.fixture
def user() -> Iterator[User]:
    if os.geteuid() != 0:
        pytest.skip("making a throw-away user needs root")
    if shutil.which("newuidmap") is None:
        pytest.skip("newuidmap is missing (Debian: uidmap)")
    # Not under pytest's own folder, which root alone may enter.
    with TemporaryDirectory(prefix="vpneval-user-") as folder:
        os.chmod(folder, 0o711)
        etc, home, cache = Path(folder) / "etc", Path(folder) / "home", cache_dir() / "tests" / "rootless"
        for path in (etc, home, cache):
            path.mkdir(parents=True, exist_ok=True)
        for file, line in ADD.items():
            (etc / file).write_text(Path("/etc", file).read_text() + line + "\n")
        for file in ("subuid", "subgid"):
            (etc / file).write_text(LENT + "\n")
        for path in (home, cache):
            os.chown(path, UID, UID)
        found = User(etc, home, cache)
        if (tried := found.run("sh", "-c", "id -u; ls /mnt/project")).returncode != 0:
            pytest.skip(f"no throw-away user here: {tried.stderr.strip()}")
        yield found


@pytest.fixture
def built(user: User) -> User:
    """The user, having the lab image of its own: built once, as that user."""
    done = user.vpneval("image", timeout=400)
    if done.returncode != 0:
        pytest.skip(f"the image cannot be built without root here: {done.stderr.strip()[-500:]}")
    return user


@pytest.mark.timeout(420)
def test_an_ordinary_user_measures(built: User) -> None:
    before = interfaces(), mounts()
    out = built.home / "run"
    done = built.vpneval(
        *("run", "reference", "--profile", "smallest", "--vpn", "wireguard_go,openvpn,ipsec_user,ssh_tun"),
        *("--out", str(out), "--json"),
    )
    assert done.returncode == 0, done.stderr
    trials = load_run(out)[1]
    assert {trial.vpn: trial.status for trial in trials} == dict.fromkeys(
        ["none", "wireguard_go", "openvpn", "ipsec_user", "ssh_tun"], "ok"
    )
    assert all(trial.encrypted for trial in trials if trial.vpn != "none")
    assert {path.stat().st_uid for path in out.rglob("*")} == {UID}, "the results are the user's own"
    assert (interfaces(), mounts()) == before


@pytest.mark.timeout(420)
def test_doctor_shows_which_plugins_work(built: User) -> None:
    done = built.vpneval("doctor", "--json")
    checks = {check["what"]: check for check in json.loads(done.stdout)}
    assert checks["vpn wireguard_go (comparable)"]["level"] == "ok"
    assert checks["lab netns"]["level"] == "ok"
    assert checks["without root"]["level"] == "ok"


def test_without_subordinate_ids_the_message_says_the_command(user: User) -> None:
    for file in ("subuid", "subgid"):
        (user.etc / file).write_text("")
    done = user.vpneval("run", "reference")
    assert done.returncode == 3
    assert "sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 tester" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("switch", "value", "command"),
    [
        ("user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces=15000"),
        ("kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        (
            "kernel/apparmor_restrict_unprivileged_userns",
            "1",
            "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_each_switch_that_forbids_it_is_named(tmp_path: Path, switch: str, value: str, command: str) -> None:
    (tmp_path / switch).parent.mkdir(parents=True)
    (tmp_path / switch).write_text(f"{value}\n")
    assert command in explain("unshare: failed: Operation not permitted", tmp_path)
    (tmp_path / switch).write_text("1000\n")
    assert command not in explain("unshare: failed: Operation not permitted", tmp_path)


REFUSED = """
import subprocess
from runner.lab.places.rootless import explain
tried = subprocess.run(["unshare", "--user", "true"], capture_output=True, text=True)
print(tried.returncode, explain(tried.stderr))
"""


def test_the_kernels_switch_really_refuses(user: User) -> None:
    """max_user_namespaces is per user namespace: in one of the test's own it can be 0 without harm."""
    python = f"/mnt/python/bin/{Path(os.path.realpath(sys.executable)).name}"
    inner = 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$0" -c "$1"'
    done = user.run("unshare", "--user", "--map-root-user", "--map-auto", "sh", "-c", inner, python, REFUSED)
    assert done.stdout.startswith("1 user.max_user_namespaces is 0 here; allow it with: sudo sysctl -w"), done.stderr
