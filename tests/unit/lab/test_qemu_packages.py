"""Debian's kernel packages, as they are until Linux 6.18 and since then, and what has no kernel in it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from runner.data.errors import CannotRunHere
from runner.lab.kernels import qemu

pytestmark = [
    pytest.mark.skipif(shutil.which("dpkg-deb") is None, reason="makes Debian packages: needs dpkg-deb"),
    pytest.mark.skipif(shutil.which("depmod") is None, reason="needs depmod (kmod)"),
]
# What apt-cache depends --important said on 2026-11-26: of trixie, and of trixie-backports.
TRIXIE = {
    "linux-image-amd64": "linux-image-amd64\n  Depends: linux-image-6.12.118+deb13-amd64\n",
    "linux-image-6.12.118+deb13-amd64": """linux-image-6.12.118+deb13-amd64
  Depends: kmod
 |Depends: initramfs-tools
  Depends: <linux-initramfs-tool>
    dracut
""",
}
BACKPORTS = {
    "linux-image-amd64": """linux-image-amd64
  Depends: linux-base-amd64
  Depends: linux-image-7.3.4+deb13-amd64
  Depends: linux-modules-amd64
""",
    "linux-image-7.3.4+deb13-amd64": """linux-image-7.3.4+deb13-amd64
  PreDepends: linux-base
 |Depends: dracut
 |Depends: initramfs-tools
  Depends: <linux-initramfs-tool>
    dracut
  Depends: linux-base-7.3.4+deb13-amd64
  Depends: linux-binary-7.3.4+deb13-amd64
  Depends: linux-modules-7.3.4+deb13-amd64
""",
}
NEWER = "7.3.4+deb13-amd64"


def package(folder: Path, name: str, *files: str) -> Path:
    """A Debian package with these files."""
    root = folder / name
    for file in (*files, "usr/share/doc/kernel"):
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_bytes(b"")
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN/control").write_text(
        f"Package: {name}\nVersion: 1\nArchitecture: all\nMaintainer: x <x@example.org>\nDescription: x\n"
    )
    archive = folder / f"{name}.deb"
    subprocess.run(["dpkg-deb", "--build", "-Znone", str(root), str(archive)], check=True, capture_output=True)
    return archive


@pytest.mark.parametrize(
    ("said", "wanted"),
    [
        (TRIXIE, ["linux-image-6.12.118+deb13-amd64"]),
        (BACKPORTS, [f"linux-{part}-{NEWER}" for part in ("image", "base", "binary", "modules")]),
    ],
    ids=["one package", "four packages"],
)
def test_the_packages_of_the_current_kernel(
    said: dict[str, str], wanted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    assert qemu.packages(said.__getitem__) == wanted


def test_a_suite_without_a_kernel_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(CannotRunHere, match="linux-image-arm64 of this suite needs no linux-image"):
        qemu.packages(lambda name: f"{name}\n  Depends: linux-base\n")


@pytest.mark.parametrize("modules", ["lib/modules", "usr/lib/modules"], ids=["Debian 12", "Debian 13"])
def test_one_package_has_kernel_and_modules(tmp_path: Path, modules: str) -> None:
    files = ("boot/vmlinuz-6.1.0", f"{modules}/6.1.0/kernel/net.ko.xz", f"{modules}/6.1.0/modules.builtin")
    assert qemu.unpack([package(tmp_path, "linux-image", *files)], tmp_path / "root") == "6.1.0"
    assert (tmp_path / "root/lib/modules/6.1.0/modules.dep").exists()


def test_the_kernel_comes_from_one_package_and_its_modules_from_another(tmp_path: Path) -> None:
    archives = [
        package(tmp_path, "linux-base", f"usr/lib/modules/{NEWER}/modules.builtin"),
        package(tmp_path, "linux-binary", f"usr/lib/modules/{NEWER}/vmlinuz"),
        package(tmp_path, "linux-image"),
        package(tmp_path, "linux-modules", f"usr/lib/modules/{NEWER}/kernel/net.ko.xz"),
    ]
    assert qemu.unpack(archives, tmp_path / "root") == NEWER
    assert (tmp_path / f"root/boot/vmlinuz-{NEWER}").is_file()
    assert (tmp_path / f"root/lib/modules/{NEWER}/kernel/net.ko.xz").is_file()


@pytest.mark.parametrize(
    ("files", "what"),
    [
        ((), "kernels none, with modules none"),
        ((f"usr/lib/modules/{NEWER}/vmlinuz",), f"kernels {NEWER}, with modules none"),
        (("usr/lib/modules/1/kernel/net.ko", "usr/lib/modules/1/modules.builtin"), "kernels none, with modules none"),
        (("boot/vmlinuz-1", "usr/lib/modules/1/kernel/net.ko"), "kernels 1, with modules none"),
    ],
    ids=["a stub", "no modules", "no kernel", "no list of what is built in"],
)
def test_packages_without_a_whole_kernel_are_refused(tmp_path: Path, files: tuple[str, ...], what: str) -> None:
    with pytest.raises(CannotRunHere, match=rf"linux-image.deb should have one kernel, .*: {what}".replace("+", r"\+")):
        qemu.unpack([package(tmp_path, "linux-image", *files)], tmp_path / "root")


def test_backports_come_from_the_images_mirror() -> None:
    line = "deb [signed-by=/x.gpg] http://mirror.example/debian trixie main\ndeb http://a.example trixie-updates main\n"
    assert qemu.backports(line, "trixie") == ""
    added = "deb [signed-by=/x.gpg] http://mirror.example/debian trixie-backports main"
    assert qemu.backports(line, "trixie-backports").strip() == added
    with pytest.raises(CannotRunHere, match="names no mirror of bookworm"):
        qemu.backports(line, "bookworm-backports")
