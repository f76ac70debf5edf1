"""Runs a command for which the kernel refuses some system calls, as a container's seccomp profile does (seccomp(2)).

usage: python -m tests.refused CALL,CALL COMMAND…     EPERM for each; x86_64 and arm64
"""

import ctypes
import os
import platform
import struct
import sys

CALLS = {"x86_64": {"memfd_create": 319, "prlimit": 302}, "aarch64": {"memfd_create": 279, "prlimit": 261}}
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h: BPF_LD | BPF_W | BPF_ABS, BPF_JMP | BPF_JEQ, BPF_RET
ALLOW, EPERM = 0x7FFF0000, 0x00050001


def refuse(names: list[str]) -> None:
    """Refuse these calls to this process, and to all that it starts. Needs root or no privileges at all."""
    numbers = [CALLS[platform.machine()][name] for name in names]
    program = [(LOAD, 0, 0, 0)]  # seccomp_data.nr
    for at, number in enumerate(numbers):
        program.append((EQUAL, len(numbers) - at, 0, number))
    program += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, EPERM)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in program))
    filter_ = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(program), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "seccomp")


if __name__ == "__main__":
    refuse(sys.argv[1].split(","))
    os.execvp(sys.argv[2], sys.argv[2:])
