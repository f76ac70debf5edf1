"""Holds a value in a register of AVX while other processes take their turns; run in a guest: is it still there?

Exit code 0: it is, after as many switches as were asked for. Machine code, so that no compiler is needed.
"""

import ctypes
import mmap
import resource
import sys

TURNS, SWITCHES = 500, 1000
HOLD = bytes.fromhex(
    "c57e6f3f"  # vmovdqu ymm15, [rdi]
    "b818000000"  # mov eax, 24: sched_yield(2)
    "0f05"  # syscall
    "48ffca"  # dec rdx
    "75f4"  # jnz back to the mov
    "c57e7f3e"  # vmovdqu [rsi], ymm15
    "c5f877c3"  # vzeroupper; ret
)


def main() -> int:
    value = bytes([int(sys.argv[1])]) * 32
    found = ctypes.create_string_buffer(32)
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(HOLD)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    hold = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_uint64)(address)
    switches = 0
    while switches < SWITCHES:  # the others may not have begun
        hold(value, found, TURNS)
        if found.raw != value:
            print(f"{value.hex()} has become {found.raw.hex()}", file=sys.stderr)
            return 1
        used = resource.getrusage(resource.RUSAGE_SELF)
        switches = used.ru_nvcsw + used.ru_nivcsw
    return 0


if __name__ == "__main__":
    sys.exit(main())
