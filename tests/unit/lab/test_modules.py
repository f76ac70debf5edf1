"""Which kernel modules a machine lacks: the script that looks, run on this machine, in a folder of the test's own."""

import platform
import subprocess
from pathlib import Path

from runner.lab.node import Completed
from runner.lab.places.connection import Connection
from runner.lab.places.modules import lacking


class Here(Connection):
    """This machine, as if it was reached by ssh."""

    def __init__(self) -> None:
        self.name = "gw1"

    def run(self, *argv: str, timeout: float = 20.0, as_root: bool = True, input: str | None = None) -> Completed:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=timeout, check=False)
        return Completed(done.returncode, done.stdout, done.stderr)


def test_modules_that_are_missing_are_told_with_what_loads_them(tmp_path: Path) -> None:
    release = platform.release()
    folder = tmp_path / release
    folder.mkdir()
    names = ("some_vpn", "some-dco-v2", "built_in", "no_such", "no_such_either")
    assert lacking(Here(), names[3:], str(tmp_path)).startswith(f"its kernel {release} has no no_such no_such_either. ")
    (folder / "modules.dep").write_text(
        "kernel/net/some_vpn.ko.xz: kernel/net/no_such.ko.xz\nupdates/some-dco-v2.ko:\n"
        "kernel/net/not_no_such_either.ko:\n"
    )
    (folder / "modules.builtin").write_text("kernel/net/built-in.ko\n")
    assert lacking(Here(), names[:3], str(tmp_path)) == (
        "not loaded: some_vpn some-dco-v2. Load them there, as root: modprobe -a some_vpn some-dco-v2. To load them at "
        "every start, too: printf '%s\\n' some_vpn some-dco-v2 > /etc/modules-load.d/vpneval.conf"
    )
    said = lacking(Here(), names, str(tmp_path))
    assert said.startswith("not loaded: some_vpn some-dco-v2. ")
    assert f"its kernel {release} has no no_such no_such_either. " in said
    assert lacking(Here(), names[2:3], str(tmp_path)) == lacking(Here(), (), str(tmp_path)) == ""
