"""A stock Debian kernel in QEMU, started by virtme-ng on the machine's own files; nothing is installed.

The kernel is Debian's own package of the suite or its backports, unpacked into the cache beside the lab images. KVM is
used where a guest really starts under it, software emulation (QEMU's TCG, ten to thirty times slower) elsewhere.
Debian: qemu-system-x86 or qemu-system-arm, busybox-static, kmod; virtme-ng is on PyPI. Sources: virtme-run --help,
qemu(1), apt-get(8).
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path

from runner.data.cache import cache_dir, own_folder
from runner.data.errors import CannotRunHere
from runner.data.extras import pip_install
from runner.data.files import await_lock
from runner.lab.kernels.boot import AGENT, Attempt, Say, getting
from runner.lab.kernels.guest import FILES
from runner.lab.kernels.kvm import kvm_runs_guests
from runner.lab.names import BACKPORTS
from runner.lab.software.image import locate, open_image

MEMORY = "2G"
CODE = Path(__file__).parents[3]
TOOLS = {"busybox": "busybox-static", "depmod": "kmod", "dpkg": "dpkg", "apt-get": "apt"}
EMULATORS = {"x86_64": ("qemu-system-x86_64", "qemu-system-x86"), "aarch64": ("qemu-system-aarch64", "qemu-system-arm")}
MOST_CPUS = {"x86_64": 255, "aarch64": 8}  # of the machine that QEMU emulates: its interrupt controller has no more
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}  # Debian's names
# In software emulation: the processor's own clock instead of an emulated device's, no detours around bugs that an
# emulated processor does not have, and page tables no deeper than needed. Source: kernel-parameters.txt.
FASTER = ("tsc=reliable", "mitigations=off", "no5lvl")
RDTSC = bytes.fromhex("0f31 48c1e220 4809d0 c3")  # rdtsc; shl rdx, 32; or rax, rdx; ret


class Qemu:
    """The kernel of one Debian suite or of its backports, with all the cores of this machine: a ``Kernel``."""

    def __init__(self, suite: str) -> None:
        self.suite = suite
        self.name = f"qemu:{suite}"

    @property
    def image_suite(self) -> str:
        """The suite whose lab image says where packages come from."""
        return self.suite.removesuffix(BACKPORTS)

    @property
    def folder(self) -> Path:
        """Where the suite's kernel package is unpacked; missing until it is first used."""
        return cache_dir() / "kernels" / self.suite

    @property
    def modules(self) -> Path:
        """The folder of the kernel's modules, as depmod(8) wants it."""
        return self.folder / "lib" / "modules"

    @property
    def image(self) -> Path:
        """The kernel itself. Raises CannotRunHere where it is missing."""
        for vmlinuz in sorted(self.folder.glob("boot/vmlinuz-*")):
            return vmlinuz
        raise CannotRunHere(f"{self.folder} has no kernel. Remove that folder, and vpneval fetches the kernel again")

    def prepare(self, say: Say) -> None:
        """Fetch the kernel if it is not there yet. Raises CannotRunHere as ``describe`` does, or if it fails."""
        self.describe()
        if not self.folder.exists():
            self.fetch(say)

    def describe(self) -> str:
        """What there is, in a few words. Raises CannotRunHere with what is missing and how to get it."""
        if platform.machine() not in EMULATORS:
            raise CannotRunHere(f"--kernel qemu is for {' and '.join(EMULATORS)}, not {platform.machine()}")
        emulator, _ = EMULATORS[platform.machine()]
        if commands := self.commands():
            raise CannotRunHere(f"--kernel qemu needs what this machine lacks; get it with: {' && '.join(commands)}")
        if not self.folder.exists():
            return f"{emulator}, virtme-ng; the kernel of Debian {self.suite} is fetched at first use"
        return f"{emulator}, {self.image.name.removeprefix('vmlinuz-')}"

    def missing_packages(self) -> list[str]:
        """The Debian packages that it needs and this machine lacks."""
        tools = dict([EMULATORS[platform.machine()]] if platform.machine() in EMULATORS else []) | TOOLS
        return [package for tool, package in tools.items() if shutil.which(tool) is None]

    def commands(self) -> list[str]:
        """The commands that get all that it needs and this machine lacks."""
        virtme = [] if virtme_run() else [pip_install("virtme-ng")]
        return getting(self.missing_packages()) + virtme

    def fetch(self, say: Say) -> None:
        """Get the suite's kernel packages with apt-get(8), from where the lab image's packages come, and unpack them.
        Raises CannotRunHere."""
        open_image(self.image_suite, say=say)
        own_folder(self.folder.parent)
        with self.folder.with_suffix(".lock").open("w") as lock:
            await_lock(lock, say)
            if not self.folder.exists():  # else somebody else fetched it while we waited
                self._fetch(say)

    def _fetch(self, say: Say) -> None:
        image, partial = locate(self.image_suite), self.folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        for name in ("lists", "archives", "root"):
            (partial / name / "partial").mkdir(parents=True)
        sources = (image / "etc/apt/sources.list").read_text()
        (partial / "sources.list").write_text(sources + backports(sources, self.suite))
        options: dict[str, str | Path] = {
            "Dir::Etc::SourceList": partial / "sources.list",
            "Dir::Etc::SourceParts": image / "etc/apt/sources.list.d",
            "Dir::Etc::TrustedParts": image / "etc/apt/trusted.gpg.d",
            "Dir::State::Lists": partial / "lists",
            "Dir::State::status": image / "var/lib/dpkg/status",
            "Dir::Cache": partial,
            "APT::Sandbox::User": "root",  # the cache need not be open to the user _apt
        }
        if self.suite != self.image_suite:  # for a suite itself, this would pass over its security updates
            options["APT::Default-Release"] = self.suite
        given = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
        say(f"vpneval fetches the kernel of Debian {self.suite}")
        _tool("apt-get", *given, "--quiet", "update")
        wanted = packages(lambda name: _tool("apt-cache", *given, "depends", "--important", name))
        _tool("apt-get", *given, "--quiet", "download", *wanted, cwd=partial / "archives")
        root = partial / "root"
        (root / "partial").rmdir()
        version = unpack(sorted((partial / "archives").glob("*.deb")), root)
        root.rename(self.folder)
        shutil.rmtree(partial)
        say(f"kernel {version}: {self.folder}")

    def attempts(self, fd: int, folders: Sequence[Path]) -> Generator[Attempt, None, None]:
        """The ways to start it: with KVM, then twice without. The channel is the socket ``fd``; all files are read-only
        but ``folders``."""
        virtme = virtme_run()
        assert virtme is not None
        argv = [
            *(virtme, "--kimg", str(self.image), "--mods", "auto", "--force-9p", "--memory", MEMORY),
            *("--cpus", str(min(len(os.sched_getaffinity(0)), MOST_CPUS[platform.machine()]))),
            f"--rodir={cache_dir()}",
            *(f"--rwdir={folder}" for folder in folders),
            *("--script-sh", shlex.join([sys.executable, "-IS", AGENT, "qemu"])),
        ]
        cached = cacheable(folders)
        devices = [
            *("-chardev", f"socket,id=vpneval,fd={fd}", "-device", "virtio-serial-pci"),
            *("-device", "virtserialport,chardev=vpneval,name=vpneval"),
            *("-fsdev", "local,id=vpneval,path=/,security_model=none,readonly=on,multidevs=remap"),
            *("-device", f"virtio-9p-pci,fsdev=vpneval,mount_tag={FILES}"),
        ]
        # virtme-run keeps its caches in the home folder.
        environment = {
            "HOME": str(cache_dir() / "kernels"),
            "PATH": f"{Path(virtme).parent}:{os.defpath}:/usr/sbin:/sbin",
        }
        if kvm_runs_guests():
            yield Attempt("qemu-kvm", [*argv, "--qemu-opts", *devices], 30, 2, environment, cached)
        rate_khz = tsc_khz()
        known = [f"tsc_early_khz={rate_khz}"] if rate_khz else []
        faster = [word for option in (*FASTER, *known) for word in ("--kopt", option)]
        # Once more with patience on a machine with much else to do, and then with what the kernel says while it boots.
        for boots_within_s, console_options in ((240, ()), (480, ("--show-boot-console",))):
            slow = [*argv, *faster, *console_options, "--disable-kvm", "--qemu-opts", *devices]
            yield Attempt("qemu-tcg", slow, boots_within_s, 8, environment, cached)


def backports(sources: str, suite: str) -> str:
    """The line of sources.list(5) that adds the suite, where it is the backports of the one that ``sources`` is of."""
    if not suite.endswith(BACKPORTS):
        return ""
    base = suite.removesuffix(BACKPORTS)
    if not (mirror := re.search(rf"^deb ((?:\[.*\] )?\S+) {base} ", sources, re.MULTILINE)):
        raise CannotRunHere(f"the lab image's sources.list names no mirror of {base}, so vpneval finds no {suite}")
    return f"\ndeb {mirror[1]} {suite} main\n"


def packages(depends: Callable[[str], str]) -> list[str]:
    """The packages of the current kernel: linux-image-*, and those that it needs. ``depends``: a package's name -> what
    ``apt-cache depends`` says of it.

    Since Linux 6.19 linux-image-* is empty. linux-binary-* has the kernel, linux-modules-* its modules, linux-base-*
    the list of what is built in.
    Raises CannotRunHere where there is none.
    """
    current = f"linux-image-{ARCHITECTURES[platform.machine()]}"
    image = re.search(r"^ +Depends: (linux-image-\S+)", depends(current), re.MULTILINE)
    if image is None:
        raise CannotRunHere(f"{current} of this suite needs no linux-image, so vpneval finds no kernel in it")
    return [image[1], *re.findall(r"^ +Depends: (linux-(?:base|binary|modules)-\S+)", depends(image[1]), re.MULTILINE)]


def unpack(archives: Sequence[Path], root: Path) -> str:
    """Unpack the packages of a kernel into the folder, so that it has boot/vmlinuz-VERSION and lib/modules/VERSION.
    Returns the version. Raises CannotRunHere where they have no kernel or no modules."""
    for archive in archives:
        _tool("dpkg", "--extract", str(archive), str(root))
    if not (root / "lib").exists():  # since Debian 13
        (root / "lib").symlink_to("usr/lib")
    for beside in root.glob("usr/lib/modules/*/vmlinuz"):  # where the kernel's package is not that of its modules
        (root / "boot").mkdir(exist_ok=True)
        beside.rename(root / "boot" / f"vmlinuz-{beside.parent.name}")
    kernels = [path.name.removeprefix("vmlinuz-") for path in root.glob("boot/vmlinuz-*")]
    builtin = {path.parent.name for path in root.glob("lib/modules/*/modules.builtin")}  # modprobe(8) reads it
    versions = [name for name in kernels if name in builtin and any((root / "lib/modules" / name).rglob("*.ko*"))]
    if len(versions) != 1:
        what = f"kernels {', '.join(kernels) or 'none'}, with modules {', '.join(versions) or 'none'}"
        raise CannotRunHere(
            f"{', '.join(path.name for path in archives)} should have one kernel, its modules and their "
            f"modules.builtin: {what}"
        )
    _tool("depmod", "-b", str(root), versions[0])
    return versions[0]


def cacheable(writable: Sequence[Path]) -> list[Path]:
    """The folders that the guest reads most and may cache: none with a writable folder in it. Without a cache the guest
    reads every file anew each time."""
    most = [
        Path("/usr"),
        Path(sys.prefix),
        cache_dir(),
        *(CODE / name for name in ("experiments", "questions", "runner", "vpns")),
    ]
    return [path for path in most if not any(folder.is_relative_to(path) for folder in writable)]


def tsc_khz(within_s: float = 0.1) -> int | None:
    """The rate of this machine's time-stamp counter, kHz. An emulated processor's counter has the same. None where the
    counter cannot be read. A guest that measures the rate itself while it boots on a busy machine may have a clock that
    runs three times too fast."""
    if platform.machine() != "x86_64":
        return None
    try:
        page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:  # forbidden here
        return None
    page.write(RDTSC)
    counter = ctypes.CFUNCTYPE(ctypes.c_uint64)(ctypes.addressof(ctypes.c_char.from_buffer(page)))

    def time_and_ticks() -> tuple[int, int]:
        """Time (ns) and counter at one moment: the closest of many pairs, because other programs take the CPU
        meanwhile."""
        pairs = [(time.monotonic_ns(), counter(), time.monotonic_ns()) for _ in range(100)]
        before, ticks, after = min(pairs, key=lambda pair: pair[2] - pair[0])
        return (before + after) // 2, ticks

    first_ns, first = time_and_ticks()
    time.sleep(within_s)
    last_ns, last = time_and_ticks()
    return round((last - first) * 1e6 / (last_ns - first_ns))


def virtme_run() -> str | None:
    """virtme-ng's lower-level command, from this virtual environment or from PATH."""
    beside = Path(sys.executable).with_name("virtme-run")
    return str(beside) if beside.exists() else shutil.which("virtme-run")


def _tool(*argv: str, cwd: Path | None = None) -> str:
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    if done.returncode != 0:
        raise CannotRunHere(f"{shlex.join(argv)} failed: {done.stderr.strip()[-1000:]}")
    return done.stdout
