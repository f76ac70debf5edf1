"""vagrant/Containerfile by its own steps, where no container engine runs: in a bare Debian root, whose file system it
then leaves for good (pivot_root(2)), with no capability but those that the file names."""

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runner.data.cache import cache_dir
from runner.data.store import load_run
from runner.lab.software.image import Image
from tests.lab.conftest import interfaces, mounts

PROJECT = Path(__file__).parents[2]
FILE = PROJECT / "vagrant/Containerfile"
# Docker's own, of those that a process can have: moby, oci/caps/defaults.go.
GIVEN = "chown dac_override fsetid fowner mknod net_raw setgid setuid setfcap setpcap net_bind_service sys_chroot kill"
HOLD = ["setpriv", "--pdeathsig", "KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
# $1: the root; the rest: a command in it. What an engine mounts, and the machine's way to its package servers.
INSIDE = """mount --bind "$1" "$1"; cd "$1"; shift
mount -t proc proc proc; mount --rbind /sys sys; mount --rbind /dev dev; mount -t tmpfs none tmp
cp /etc/resolv.conf /etc/hosts etc/
for shared in $SHARED; do mkdir -p ".$shared"; mount --bind "$shared" ".$shared"; done
mkdir -p .old; pivot_root . .old; cd /; umount -l /.old; rmdir /.old
cd "$DIRECTORY"; exec "$@"
"""
THIS_MACHINES = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")  # where packages come from, and whom to trust
pytestmark = pytest.mark.timeout(900)


@dataclass
class Container:
    """A container image: its root, and what its file says of how it is started."""

    root: Path
    folder: str = "/"
    environment: dict[str, str] = field(default_factory=dict)
    entry: list[str] = field(default_factory=list)

    def run(self, *argv: str, shared: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        """A command in it, ended. ``shared``: folders of this machine that are there, too."""
        here = {"SHARED": shared, "DIRECTORY": self.folder, "PATH": os.defpath + ":/usr/sbin:/sbin", "HOME": "/root"}
        return subprocess.run(
            [*HOLD, "bash", "-euc", INSIDE, "bash", self.root, *argv],
            env={**here, **self.environment, **environment},
            capture_output=True,
            text=True,
            timeout=600,
        )


def steps() -> Iterator[tuple[str, str]]:
    """The file's instructions and their words, in order."""
    text = re.sub(r"\\\n", " ", re.sub(r"^#.*\n", "", FILE.read_text(), flags=re.MULTILINE))
    for line in filter(None, text.splitlines()):
        word, _, rest = line.partition(" ")
        yield word, rest.strip()


def built(root: Path) -> Container:
    """The container image, by the file's steps in order."""
    made = Container(root)
    for word, rest in steps():
        if word == "ENV":
            made.environment |= dict(one.split("=", 1) for one in shlex.split(rest))
        elif word == "WORKDIR":
            made.folder = rest
            (root / rest.lstrip("/")).mkdir(parents=True)
        elif word == "COPY":
            *sources, target = rest.split()
            place = root / made.folder.lstrip("/") / target
            place.parent.mkdir(parents=True, exist_ok=True)
            for source in sources:
                if (PROJECT / source).is_dir():
                    shutil.copytree(PROJECT / source, place, symlinks=True)  # as an engine copies them
                else:
                    shutil.copy2(PROJECT / source, place)
        elif word == "RUN":
            for file in filter(os.path.exists, THIS_MACHINES):
                (root / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(file, root / file.lstrip("/"))
            pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
            wheels = [word for word in pip.get("PIP_FIND_LINKS", "").split() if word.startswith("/")]
            done = made.run("sh", "-c", rest, shared=" ".join(wheels), **pip)
            assert done.returncode == 0, f"{rest}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        elif word == "ENTRYPOINT":
            made.entry = json.loads(rest)
        else:
            assert word in ("FROM", "VOLUME", "CMD"), word
    return made


@pytest.fixture(scope="module")
def container(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    if shutil.which("mmdebstrap") is None:
        pytest.skip("mmdebstrap is missing")
    (suite,) = re.findall(r"^FROM \S+/debian:(\w+)-slim$", FILE.read_text(), re.MULTILINE)
    root = cache_dir() / "tests" / f"container-{os.getpid()}"
    root.parent.mkdir(parents=True, exist_ok=True)
    try:
        fetched = subprocess.run(
            [*HOLD, "mmdebstrap", "--variant=minbase", suite, root], capture_output=True, text=True
        )
        if fetched.returncode != 0:
            pytest.skip(f"no packages can be fetched: {fetched.stderr.splitlines()[-1:]}")
        yield built(root)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def started(container: Container, added: list[str], *argv: str) -> subprocess.CompletedProcess[str]:
    """The image's entry with these words, with Docker's capabilities and those that were ``added``."""
    capabilities = ",".join(["-all", *(f"+{name.lower()}" for name in (*GIVEN.split(), *added))])
    bounded = ["setpriv", f"--bounding-set={capabilities}", "--inh-caps=-all"]
    return container.run(*bounded, *container.entry, *argv, shared=str(cache_dir()), VPNEVAL_CACHE=str(cache_dir()))


def test_it_measures_with_the_capabilities_that_the_file_names(container: Container) -> None:
    before = mounts(), interfaces()
    added = re.findall(r"--cap-add (\w+)", FILE.read_text())
    few = started(container, [name for name in added if name != "SYS_ADMIN"], "doctor", "--machine")
    assert few.returncode == 3, few.stderr
    assert "--cap-add SYS_ADMIN" in " ".join(few.stdout.split())
    asked = ("run", "reference", "--vpn", "wireguard_go", "--profile", "smallest", "--out", "results/run")
    done = started(container, added, *asked)
    assert done.returncode == 0, done.stderr
    trials = load_run(container.root / "vpneval/results/run")[1]
    assert {trial.vpn for trial in trials if trial.status == "ok"} == {"none", "wireguard_go"}, [
        trial.reason for trial in trials
    ]
    assert (mounts(), interfaces()) == before
