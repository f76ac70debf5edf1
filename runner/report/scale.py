"""The sentences on a lab that is no scale for data planes: above a report, and about the VPNs that it leaves apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from runner.data.scale import Kind, NoScale
from runner.report.text import join_names

WHERE: Mapping[Kind, str] = {
    "uml": "in User Mode Linux",
    "emulation": "in emulation (QEMU without KVM)",
    "costs": "where a system call and a packet cost in another proportion than on real machines",
}
WHY: Mapping[Kind, str] = {
    "uml": "In User Mode Linux a system call costs 50 to 400 times as much as on a machine, and a packet the same",
    "emulation": "In emulation a packet costs 25 to 50 times as much as on a machine, and a system call 3 times",
    "costs": "A system call and a packet cost here in another proportion than on real machines",
}


def above(found: NoScale) -> str:
    """What a reader must know before the answer."""
    whose = f", on {join_names(found.machines)}" if found.machines else ""
    return (
        f"Measured {WHERE[found.kind]}{whose}: this is no scale between VPNs in the kernel and programs. Only the "
        "kernel's VPNs are compared, and no number here is that of a real gateway."
    )


def apart_sentence(found: NoScale, vpns: Sequence[str]) -> str:
    """Why these VPNs are compared with no other."""
    are, their = ("is", "its") if len(vpns) == 1 else ("are", "their")
    return (
        f"{WHY[found.kind]}. So {join_names(vpns)} {are} compared with no other VPN here; {their} numbers compare "
        f"{their} own settings."
    )
