"""Which routes the kernel has looked up, by its tracepoint fib:fib_table_lookup (tracefs, Documentation/trace)."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from runner.data.errors import MeasurementError
from runner.data.files import hold_lock

TRACEFS = Path("/sys/kernel/tracing")
EVENT = "events/fib/fib_table_lookup"
BUFFER_KB = "8192"  # of each core: some 80,000 lookups
# openvpn-4711 [001] ..... 12.3: fib_table_lookup: table 254 oif 0 iif 3 proto 17 10.1.0.2/0 -> 10.2.0.2/0 tos 44
# scope 0 flags 0 ==> dev tun0 gw 0.0.0.0/:: err 0, in one line
LINE = re.compile(
    r"^.*-(?P<thread>\d+) +\[\d+\].* fib_table_lookup: table \d+ oif \d+ iif (?P<iif>\d+) proto \d+ "
    r"(?P<source>[\d.]+)/\d+ -> (?P<to>[\d.]+)/\d+ tos (?P<tos>\d+) .*==> dev (?P<device>\S+) .*err 0$",
    re.MULTILINE,
)
LOST = re.compile(r"(?:overrun|dropped events): (\d+)")  # of a core's buffer
LOOPBACK_INDEX = 1  # the incoming interface of what a node sends itself


@dataclass(frozen=True)
class Lookup:
    """A route that was found: from and to which address, for which type of service (RFC 2474's field), for a packet
    that came in by the interface of this index, out by which device; and the thread that the core was running, which
    is not always the one that wanted it. In whose network namespace is not said."""

    thread: int
    incoming: int
    source: str
    to: str
    tos: int
    device: str


def lacks() -> str:
    """Why lookups cannot be traced here; empty where they can."""
    if not (TRACEFS / "events").is_dir():
        subprocess.run(("mount", "-t", "tracefs", "nodev", str(TRACEFS)), capture_output=True, check=False)
    if not (TRACEFS / EVENT / "enable").is_file():
        return "this kernel has no tracepoint fib:fib_table_lookup, by which route lookups are counted"
    return "" if os.access(TRACEFS / "instances", os.W_OK) else f"{TRACEFS} is not writable here"


@contextmanager
def trace_lookups(tos: int) -> Iterator[Callable[[], list[Lookup]]]:
    """Trace this kernel's lookups for this type of service, and those for what a node sends itself, while the block
    runs; the function that it gets returns those so far, and raises MeasurementError where they were too many to be
    kept. Waits while another vpneval traces here: a lookup does not say in whose lab it is. Raises MeasurementError
    where it cannot trace."""
    try:
        folder = os.open(TRACEFS / "instances", os.O_RDONLY)
        hold_lock(folder, TRACEFS)
        own = Path(mkdtemp(prefix="vpneval-", dir=TRACEFS / "instances"))
        (own / "buffer_size_kb").write_text(BUFFER_KB)
        (own / EVENT / "filter").write_text(f"tos == {tos} || iif == {LOOPBACK_INDEX}")
        (own / EVENT / "enable").write_text("1")
    except OSError as error:
        raise MeasurementError(f"route lookups cannot be traced: {error}") from error

    def lookups_so_far() -> list[Lookup]:
        (own / "tracing_on").write_text("0")  # else the oldest may be overwritten while they are read
        stats = "".join(path.read_text() for path in own.glob("per_cpu/cpu*/stats"))
        if any(map(int, LOST.findall(stats))):
            raise MeasurementError("others look up too many routes here: let nothing else run on this machine")
        found = parse_trace((own / "trace").read_text())
        (own / "tracing_on").write_text("1")
        return found

    try:
        yield lookups_so_far
    finally:
        (own / EVENT / "enable").write_text("0")
        own.rmdir()
        os.close(folder)  # and the lock with it


def parse_trace(trace: str) -> list[Lookup]:
    """The lookups in a trace that found a route."""
    return [
        Lookup(int(line["thread"]), int(line["iif"]), line["source"], line["to"], int(line["tos"]), line["device"])
        for line in LINE.finditer(trace)
    ]
