"""Numbered datagrams by a relay that follows a plan: through the tunnel, and as a control from gateway to gateway.

host1 ──── gw1 ════ near │ relay │ far ════ gw2 ──── host2
says    (says)        holds, loses, repeats   (hears)   hears
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from runner.data.errors import MeasurementError
from runner.instruments.tools.between import Talker, talking, wan_relay
from runner.lab.node import LabNode
from runner.lab.shape.site import TCP_PORTS
from runner.tunnel.bring_up import Bench

PORT = TCP_PORTS[2]
BYTES = 400
LEAST = 400  # bytes of a packet that the relay counts: those with a number, and none of the far end's answers
WINDOW = 48  # as many of the longest fit the default socket buffer of a VPN (socket(7), rmem_default)
SLOWEST_PER_S = 300  # closed loop, on a machine that is busy
LOST = 0  # in a plan: never sent on


@dataclass(frozen=True)
class NumbersHeard:
    """What arrived of ``sent`` numbers: ``got`` different ones, ``twice`` of them again, ``missing`` never, ``late``:
    number -> how far below the highest. ``planned``: what the relay has held, lost or repeated."""

    sent: int
    got: int
    twice: int
    planned: int
    late: Mapping[int, int] = field(default_factory=dict)
    missing: tuple[int, ...] = ()


@dataclass
class Path:
    """One near end and one far end, with the relay between."""

    relay: Talker
    near: Talker
    far: Talker
    rtt_s: float = 0.0

    def follow(self, plan: Mapping[int, int], count: int) -> NumbersHeard:
        """Send ``count`` numbers in a closed loop, while the relay holds or loses those of ``plan``."""
        self.far.say()
        self.relay.say(do="plan", least=LEAST, plan={str(number): depth for number, depth in plan.items()})
        self._say(count, WINDOW, sorted(plan))
        planned = self.relay.say(do="pass")["planned"]
        return self._heard(count, planned)

    def repeat(self, count: int) -> NumbersHeard:
        """Send ``count`` numbers in a closed loop, while the relay sends each twice."""
        self.far.say()
        self.relay.say(do="repeat", least=LEAST)
        self._say(count, WINDOW // 2, [])
        return self._heard(count, len(self.relay.say(do="pass")["sent"]))

    def _say(self, count: int, window: int, absent: list[int]) -> None:
        longest_s = 20 + count * max(1 / SLOWEST_PER_S, 2 * self.rtt_s / window)
        self.near.say(longest_s, count=count, bytes=BYTES, window=window, absent=absent)

    def _heard(self, count: int, planned: int) -> NumbersHeard:
        told = self.far.say()
        missing = {*told["missing"]} | {*range(told["got"] + len(told["missing"]), count)}
        late = dict(told["late"])
        return NumbersHeard(count, told["got"], told["twice"], planned, late, tuple(sorted(missing)))


@contextmanager
def paths(bench: Bench) -> Iterator[tuple[Path, Path]]:
    """The path through the tunnel, and beside it the control's, from gateway to gateway."""
    lab = bench.lab
    if f":{PORT} " in lab.host2.run("ss", "-Hlun").stdout:
        raise MeasurementError(f"port {PORT} of the far host is in use")
    near, far = lab.gateway(lab.sites[0]), lab.gateway(lab.sites[-1])
    rtt = f"{lab.rtt_s:g}"
    with wan_relay(lab) as relay, ExitStack() as stack:

        def path(says: LabNode, address: str, hears: LabNode) -> Path:
            listener = stack.enter_context(talking(hears, "numbered", "hear", str(PORT), rtt, ready="hearing"))
            speaker = stack.enter_context(talking(says, "numbered", "say", address, str(PORT), rtt, ready="saying"))
            return Path(relay, speaker, listener, lab.rtt_s)

        yield path(lab.host1, bench.address, lab.host2), path(near, lab.sites[-1].wan_address, far)
