"""Ends a run on a machine that cannot measure: else each of its trials would fail for the same reason."""

from __future__ import annotations

from dataclasses import dataclass, field

from runner.data.errors import LabError
from runner.data.levels import BASELINE

FEW = 3  # failures in a row, which are not all of one VPN


@dataclass
class MachineFailures:
    """The failures of the machine or of what measures (InstrumentError) since something was measured last.

    ``worked``: has this run measured anything? Then one instrument's failures say nothing of the others, and only
    tunnels that cannot be made count.
    """

    worked: bool = False
    _in_a_row: list[str] = field(default_factory=list)  # the VPN of each
    _reason: str = ""  # the last one

    def add(self, vpn: str, reason: str, *, of_tunnel: bool) -> None:
        """Note a failure beside ``vpn``; ``of_tunnel``: there was no tunnel to measure on, or no lab for it."""
        if of_tunnel or not self.worked:
            self._in_a_row.append(vpn)
            self._reason = reason

    def end(self) -> None:
        """Note that something has been measured."""
        self.worked, self._in_a_row = True, []

    @property
    def hopeless(self) -> bool:
        """Did the machine fail FEW times in a row, beside plain IP or several VPNs?"""
        return len(self._in_a_row) >= FEW and (BASELINE in self._in_a_row or len({*self._in_a_row}) > 1)

    def refuse(self) -> None:
        """Raise LabError where it is hopeless to go on."""
        if not self.hopeless:
            return
        vpns = [*dict.fromkeys(self._in_a_row)]
        beside = " and ".join(filter(None, (", ".join(vpns[:-1]), vpns[-1])))
        raise LabError(
            f"{self._reason}\nThis happened {len(self._in_a_row)} times in a row, beside {beside}: the reason is this "
            "machine or what measures, and no VPN. The other trials would fail alike, and were not begun."
        )
