"""Whether guests really run under /dev/kvm. Inside a virtual machine it may be there and interpret each instruction,
slower than software emulation and not all of them: a guest then hangs, or ends in "KVM internal error"."""

from __future__ import annotations

import functools
import os
import platform
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

DEVICE = Path("/dev/kvm")
EMULATOR = "qemu-system-x86_64"
ROM_BYTES = 1 << 16  # ends where an x86 processor begins, sixteen bytes before its end
# fld1; mov ecx, 20 000 000; again: dec ecx; jnz again; mov al, 0x21; out 0xf4, al; hlt. KVM's own interpreter has no
# floating point, and takes a minute for the rest. Source: Linux, arch/x86/kvm/emulate.c, the table opcode_table.
PROGRAM = bytes.fromhex("d9e8 66b9002d3101 6649 75fc b021 e6f4 f4")
FIRST = bytes.fromhex("e90d00")  # jmp to the ROM's first byte
RAN = 0x21 << 1 | 1  # what QEMU's isa-debug-exit makes of the byte 0x21
ARGV = ("-machine", "pc,accel=kvm", "-m", "16", "-nodefaults", "-no-reboot", "-display", "none")


@functools.cache
def kvm_runs_guests(within_s: float = 5.0) -> bool:
    """Whether a guest runs under this machine's KVM: a ROM of eight instructions has to end in time. Where that cannot
    be tried (another processor, no emulator in PATH), whether this user may open the device."""
    if not os.access(DEVICE, os.R_OK | os.W_OK):
        return False
    emulator = shutil.which(EMULATOR)
    if emulator is None or platform.machine() != "x86_64":
        return True
    with TemporaryDirectory() as folder:
        rom = Path(folder) / "rom"
        rom.write_bytes(PROGRAM.ljust(ROM_BYTES - 16, b"\xf4") + FIRST.ljust(16, b"\xf4"))
        argv = [emulator, *ARGV, "-bios", str(rom), "-device", "isa-debug-exit,iobase=0xf4,iosize=4"]
        try:
            return subprocess.run(argv, capture_output=True, timeout=within_s, check=False).returncode == RAN
        except subprocess.TimeoutExpired:
            return False
