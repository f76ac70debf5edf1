"""Did this process, or a machine of a lab, stand still while something was measured?"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from runner.data.errors import InstrumentError
from runner.lab.node import LabNode
from runner.lab.readings.pauses import PAUSES
from runner.lab.shape.site_to_site import Lab


class Awake:
    """This process and the machines of a lab, from now on until ``refuse``."""

    def __init__(self, lab: Lab) -> None:
        self._own_s = PAUSES.seconds()
        self._far: list[tuple[LabNode, float]] = []
        if not lab.shared_kernel:
            self._far = [(node, node.stood_still_s(ask=False)) for node in lab.nodes.values()]

    def refuse(self) -> None:
        """Raise InstrumentError where one of them stood still meanwhile."""
        PAUSES.refuse(self._own_s)
        if not self._far:
            return
        with ThreadPoolExecutor(len(self._far)) as threads:
            after = [*threads.map(lambda known: known[0].stood_still_s(), self._far)]
        still = {node.name: now_s - before_s for (node, before_s), now_s in zip(self._far, after, strict=True)}
        if names := [name for name, seconds in still.items() if seconds > 0]:
            raise InstrumentError(
                f"the machine of {' and '.join(names)} stood still for {max(still.values()):.1f} s while this was "
                "measured: it was stopped or suspended"
            )
