"""``--kernel``: the same command under another kernel, on this machine's own files. See docs/kernels.md.

A kernel is a wrapper around the command, not a lab of its own: `boot` starts the guest and carries signals, output
and exit code; `guest` runs inside it; `uml` and `qemu` say how each kind is started.
"""

from __future__ import annotations

from runner.data.errors import UsageError, require_known
from runner.data.guest import guest_name
from runner.data.named import HOST
from runner.lab.kernels.boot import Kernel
from runner.lab.kernels.qemu import Qemu
from runner.lab.kernels.uml import Uml
from runner.lab.names import DEFAULT_IMAGE, kernel_names

__all__ = ["HOST", "Qemu", "Uml", "guest_name", "parse"]


def parse(text: str, lab: str = "netns", several: bool = True) -> list[Kernel | None]:
    """The kernels of a comma-separated list in order, None for the machine's own. Raises UsageError."""
    wanted = [name.strip() for name in text.split(",")]
    for name in wanted:
        require_known("kernel", name, kernel_names())
    if len(wanted) > 1 and not several:
        raise UsageError(f"--kernel takes one kernel in this command, not {text}")
    wanted = [f"qemu:{DEFAULT_IMAGE}" if name == "qemu" else name for name in wanted]
    twice = sorted({name for name in wanted if wanted.count(name) > 1})
    if twice:
        raise UsageError(f"--kernel names {', '.join(twice)} twice")
    if wanted != [HOST] and lab != "netns":
        raise UsageError(
            f"--kernel {text} works only with the namespace lab; the machines of --lab {lab} have their own kernels"
        )
    return [_kernel(name) for name in wanted]


def _kernel(name: str) -> Kernel | None:
    if name == HOST:
        return None
    return Uml() if name == "uml" else Qemu(name.removeprefix("qemu:"))
