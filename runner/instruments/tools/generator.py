"""The packet generator: a sender on one host and a counter on the other, which play trial after trial.

Both processes stay as long as the generator is open, so that a trial costs little more than its duration. Packets are
counted where they come in at the far host's interface, before any program there, and are dropped.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from ipaddress import ip_interface, ip_network
from typing import Any

from runner.data.errors import MeasurementError
from runner.instruments.tools.arrivals import arrived_by, by_then, check_counts, variations_ms, whole_packets
from runner.instruments.tools.between import talking
from runner.instruments.tools.fragments import IP_UDP_BYTES, IPV6_UDP_BYTES
from runner.lab.node import LabNode
from runner.lab.node.iproute import interface, objects
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench

PORT = 20000  # and the next ones, one a flow: nobody listens there, and the counter drops before anybody could complain
STAMPED_PORT = 19999
MOST_FLOWS = 4096
BURST = 16  # packets that are sent together; see decision 0030
FEWEST_BURSTS = 8  # of a load
STILL_S = 0.03  # after so long without a packet, and a round trip, none is on its way any more
JITTER_IP_BYTES = 228
JITTER_PER_S = 625.0  # 1 Mbit/s of 200 bytes of payload
FEWEST_STAMPS = 10
IMIX = (7, 4, 1)  # packets of 40 bytes, of 576 bytes, and of the longest length
MOST_PROCESSES = 4
# Drivers whose port may pass a burst on as one, to another port that is no cable either.
VIRTUAL = ("veth", "virtio_net", "vmxnet3", "hv_netvsc", "xen_netfront", "vif", "tun", "bridge", "macvlan", "ipvlan")


@dataclass(frozen=True)
class Load:
    """What a trial offers: IP packets of ``ip_bytes``, in turn, ``per_s`` of them a second for ``seconds``.

    ``burst`` packets leave back to back at most, where the rate leaves time for pauses and the machine lets the sender
    keep up (see generate.py). ``flows`` have a source address and ports each, with ``sources`` source addresses among
    them.
    """

    ip_bytes: tuple[int, ...]
    per_s: float
    seconds: float
    burst: int = BURST
    flows: int = 1
    sources: int = 1
    dscp: int = 0
    fragment: bool = False

    @property
    def mean_bytes(self) -> float:
        """The mean length of a packet, bytes of IP."""
        return statistics.fmean(self.ip_bytes)


@dataclass(frozen=True)
class Arrived:
    """What came of a trial. Packets are those of the sender, also where a tunnel hands several over as one.

    ``on_time`` of the ``received`` packets came within the sender's time and GRACE_S; ``kept_up`` are the same, but
    where others came later still, without what a queue gave in the grace. ``samples``: seconds and the bytes that the
    far host's interface had received by then; ``unseen``: see count.py. ``offered`` is what the sender said: see
    generate.py.
    """

    load: Load
    sent: int
    sent_bytes: int
    seconds: float
    received: int
    on_time: int
    kept_up: int
    samples: Sequence[tuple[float, int]]
    offered: Mapping[str, Any]
    unseen: Sequence[tuple[float, float]] = ()

    @property
    def late(self) -> int:
        """Packets that came after the sender's time."""
        return self.received - self.on_time

    @property
    def burst(self) -> float:
        """Packets that left back to back, on the mean."""
        return float(self.sent / max(1, self.offered["wakes"]))

    @property
    def longest_burst(self) -> int:
        """Packets that left back to back, at most."""
        return int(self.offered["longest"])


def smooth_burst(packets: float, most: int = BURST) -> int:
    """How many of so many packets leave back to back: at most ``most``, and few of them, or one burst is all."""
    return max(1, min(most, int(packets / FEWEST_BURSTS)))


class Generator:
    """A sender on a near host and a counter on a far one, ``rtt_s`` apart; see ``generating``. It begins anew after a
    failure."""

    def __init__(
        self, near: LabNode, far: LabNode, address: str, cores: Sequence[int], fragments: bool, rtt_s: float
    ) -> None:
        self.near, self.far, self.address, self.cores, self.fragments = near, far, address, list(cores), fragments
        self.rtt_s = rtt_s
        self._open()

    def _open(self) -> None:
        port = interface(self.near, "eth0")
        self.segments = cut_by_software(self.near, port)
        sources = sources_of(self.near, port, ":" in self.address)
        ports = str(PORT), str(PORT + MOST_FLOWS - 1), str(STAMPED_PORT), *(["fragments"] if self.fragments else [])
        with ExitStack() as stack:
            counting = talking(self.far, "count", interface(self.far, "eth0"), sources, *ports, ready="ready")
            self.counter = stack.enter_context(counting)
            stack.callback(self.counter.end)
            self.sender = stack.enter_context(talking(self.near, "generate", ready="ready"))
            stack.callback(self.sender.end)
            self._processes = stack.pop_all()

    def close(self) -> None:
        """End the processes, which put everything back."""
        self._processes.close()

    @contextmanager
    def anew(self) -> Iterator[None]:
        """After a failure the next trial gets new processes, because the next output of these is unknown."""
        try:
            yield
        except MeasurementError:
            self.close()
            self._open()
            raise

    def play(self, load: Load, still_s: float = STILL_S) -> Arrived:
        """One trial. Raises MeasurementError where a probe fails, or the counter's two counts disagree."""
        (arrived,) = at_once([self], load, still_s)
        return arrived

    def begin(self, load: Load) -> None:
        """Begin a trial, and do not wait for its end."""
        self.counter.tell("begin")
        if (reply := self.counter.hear(10)) != "counting":
            raise MeasurementError(
                f"the counter on {self.counter.node.name} says {reply[:200]!r} instead of 'counting'"
            )
        ask = asdict(load) | {"address": self.address, "port": PORT, "segment": self.segments, "cores": self.cores}
        self.sender.tell(json.dumps(ask))

    def sender_report(self, load: Load) -> dict[str, Any]:
        """Wait until the sender has sent all; its report. Raises as ``play``."""
        return self.sender.hear_object(3 * load.seconds + 10)

    def finish(self, load: Load, offered: Mapping[str, Any], still_s: float = STILL_S, beside: int = 0) -> Arrived:
        """Wait for the last packets of the trial that was begun, of which the sender ``offered`` so many. ``beside``:
        so many other datagrams were sent meanwhile. Raises as ``play``."""
        self.counter.tell(f"end {offered.get('sent', 0) + beside} {still_s + self.rtt_s}")
        counts = self.counter.hear_object(15 + self.rtt_s)
        if "error" in offered:
            raise MeasurementError(f"the sender on {self.sender.node.name} could not send: {offered['error']}")
        check_counts(counts)
        first, first_bytes = counts["first"]
        mean_bytes = offered["bytes"] / max(1, offered["sent"])  # of the last turn of a mixture only a part was sent
        whole = whole_packets(first, first_bytes, counts["rest"][0], mean_bytes, ":" in self.address)
        received = min(offered["sent"], whole)
        share = arrived_by(counts["samples"], offered["seconds"])
        return Arrived(
            load=load,
            sent=offered["sent"],
            sent_bytes=offered["bytes"],
            seconds=offered["seconds"],
            received=received,
            on_time=round(received * share),
            kept_up=round(received * (share if share == 1 else by_then(counts["samples"], offered["seconds"]))),
            samples=[(when, count) for when, count in counts["samples"]],
            offered=offered,
            unseen=[(when, seconds) for when, seconds in counts.get("unseen", ())],
        )

    def variations_ms(self, seconds: float) -> list[float]:
        """How much the delay changes from one datagram to the next, |D| of RFC 3550 §6.4.1 in ms, of 1 Mbit/s of small
        datagrams for so long. Raises MeasurementError where fewer than FEWEST_STAMPS came.
        """
        self.sender.tell(stamped_request(self.address, seconds))
        offered = self.sender.hear_object(3 * seconds + 10)
        if "error" in offered:
            raise MeasurementError(f"the sender on {self.sender.node.name} could not send: {offered['error']}")
        stamps = self.stamps(offered["sent"])
        if len(stamps) < FEWEST_STAMPS:
            raise MeasurementError(f"{len(stamps)} of {offered['sent']} datagrams of the jitter stream arrived")
        return variations_ms(stamps)

    def stamps(self, sent: int) -> list[tuple[int, int, int]]:
        """The stamped datagrams that have come since the last time: number, when sent and when come, in ns. Waits until
        ``sent`` have come, or none has for STILL_S and a round trip. Raises as ``play``."""
        stamps: list[tuple[int, int, int]] = []
        still_s = STILL_S + self.rtt_s
        end = time.monotonic() + still_s
        while True:
            self.counter.tell("stamps")
            if came := self.counter.hear_object(10)["stamps"]:
                stamps += [(number, sent_ns, came_ns) for number, sent_ns, came_ns in came]
                end = time.monotonic() + still_s
            if len(stamps) >= sent or time.monotonic() > end:
                break
            time.sleep(0.002)
        return stamps


def stamped_request(address: str, seconds: float, wait_s: float = 0.0) -> str:
    """What a sender is told so that it sends JITTER_PER_S stamped datagrams a second to ``address`` for so long, after
    ``wait_s``."""
    load = Load((JITTER_IP_BYTES,), JITTER_PER_S, seconds, burst=1)
    ask = asdict(load) | {"address": address, "port": STAMPED_PORT, "segment": False, "cores": []}
    return json.dumps(ask | {"stamped": True, "wait_s": wait_s})


def at_once(
    generators: Sequence[Generator],
    load: Load,
    still_s: float = STILL_S,
    when_sent: Callable[[], object] = lambda: None,
) -> list[Arrived]:
    """One trial of each generator, at the same time; ``when_sent`` is called when all of it has left. Where it raises,
    as ``Generator.play``, all of them begin anew."""
    with ExitStack() as stack:
        for generator in generators:
            stack.enter_context(generator.anew())
        for generator in generators:
            generator.begin(load)
        sent = [generator.sender_report(load) for generator in generators]
        when_sent()
        return [generator.finish(load, offered, still_s) for generator, offered in zip(generators, sent, strict=True)]


def imix(longest_bytes: int, *, v6: bool = False) -> tuple[tuple[int, ...], str]:
    """The lengths of the customary mixture in turn, bytes of IP, and its name as a custom IMIX of RFC 6985 §4: a letter
    for each packet, in the order in which they are sent again and again, and which length a letter stands for. The
    letters are capital ones, as these are not the lengths of the RFC's own table (§3).

    ``longest_bytes``: of the longest packets, which every VPN that is compared must carry. In IPv6 (``v6``) the others
    have the payloads that they have in IPv4, too.
    """
    more = IPV6_UDP_BYTES - IP_UDP_BYTES if v6 else 0
    lengths = (40 + more, 576 + more, longest_bytes)
    # Spread out, so that a burst has something of each.
    order = sorted((at / share, number) for number, share in enumerate(IMIX) for at in range(share))
    sequence = "".join("ABC"[number] for _, number in order)
    table = ", ".join(f"{letter}={length}" for letter, length in zip("ABC", lengths, strict=True))
    return tuple(lengths[number] for _, number in order), f"IMIX - {sequence} ({table})"


@contextmanager
def generating(lab: Lab, address: str = "", *, reverse: bool = False, fragments: bool = False) -> Iterator[Generator]:
    """A generator from host1 to ``address``, host2's through the tunnel; from host2 to host1 if ``reverse``, in IPv6 if
    ``address`` is.

    ``fragments``: is it for packets that may come in fragments?

    Gone, with what it changed, when the block ends. Raises MeasurementError where a probe does not work.
    """
    near, far = (lab.host2, lab.host1) if reverse else (lab.host1, lab.host2)
    to = address or lab.sites[-1].host_address
    if reverse:
        to = lab.sites[0].host_ipv6 if ":" in address else lab.sites[0].host_address
    made = Generator(near, far, to, cores_for(lab, near), fragments, lab.rtt_s)
    try:
        yield made
    finally:
        made.close()


def generator(bench: Bench, address: str = "", *, reverse: bool = False, fragments: bool = False) -> Generator:
    """The generator that the measurements in this tunnel share. It begins at first use, and ends with the tunnel or
    when another kind is asked for, so ask for it before each trial. ``address``: another of host2's than the
    tunnel's."""
    shared: Generator = bench.get_shared(
        f"generator {address} {reverse} {fragments}",
        lambda: generating(bench.lab, address or bench.address, reverse=reverse, fragments=fragments),
        port=f"{'host1' if reverse else 'host2'}:{STAMPED_PORT}",
    )
    return shared


def cut_by_software(node: LabNode, port: str) -> bool:
    """See that what leaves ``port`` leaves as packets. May bursts be handed to the kernel as one then?

    A virtual port would pass a burst on whole, as one, and sender and counter would disagree on what a packet is:
    software has to cut it. That is so for veth, and for a virtual machine's port, whose host passes on what the guest
    hands over (virtio's USO). A network card cuts it itself.
    """
    shown = node.run("ethtool", "-k", port, check=False)
    line = next((line for line in shown.stdout.splitlines() if line.startswith("tx-udp-segmentation:")), "")
    if shown.code != 0 or not line:
        return False
    if "qdisc tbf" in node.run("tc", "qdisc", "show", "dev", port, check=False).stdout:
        return False  # a burst that is one packet to --max-rate would pass as one
    driver = node.run("ethtool", "-i", port, check=False).stdout.partition("\n")[0].removeprefix("driver:").strip()
    if " on" not in line or (driver and driver not in VIRTUAL):
        return True
    if "[fixed]" in line or node.run("ethtool", "-K", port, "tx-udp-segmentation", "off", check=False).code != 0:
        return False
    node.defer("ethtool", "-K", port, "tx-udp-segmentation", "on")
    return True


def sources_of(node: LabNode, port: str, v6: bool) -> str:
    """The network that a host's packets come from."""
    family = "inet6" if v6 else "inet"
    addresses = [
        f"{address['local']}/{address['prefixlen']}"
        for port_shown in objects(node, "ip", "-json", "address", "show", "dev", port)
        for address in port_shown.get("addr_info", [])
        if address["family"] == family and address.get("scope") == "global"
    ]
    if not addresses:
        raise MeasurementError(f"{node.name} has no {'IPv6' if v6 else 'IPv4'} address on {port}: nothing can be sent")
    return str(ip_network(ip_interface(addresses[0]).network))


def cores_for(lab: Lab, near: LabNode) -> list[int]:
    """The cores that senders on ``near`` are pinned to: the last half, where there are four or more; else none."""
    if lab.shared_kernel:
        cores = sorted(os.sched_getaffinity(0))
    else:
        cores = parse_cores(near.run("grep", "Cpus_allowed_list", "/proc/self/status", check=False).stdout)
    return cores[len(cores) // 2 :][:MOST_PROCESSES] if len(cores) >= MOST_PROCESSES else []


def parse_cores(status: str) -> list[int]:
    """The cores of a line of proc_pid_status(5), "Cpus_allowed_list: 0-3,8"; none of an empty one."""
    ranges = [part.partition("-") for part in status.partition(":")[2].strip().split(",") if part]
    return [core for first, _, last in ranges for core in range(int(first), int(last or first) + 1)]
