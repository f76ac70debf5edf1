"""A download that is under way while a gateway fails."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from runner.instruments.tools.visits import HTTP_PORT
from runner.lab.node import PATIENCE, LabNode, Process, wait_until
from runner.lab.node.probing import probe
from runner.lab.shape.site_to_site import Lab

FILE_BYTES, LIMIT = 10_000_000, 2_000_000  # the download beside the probe stream, and its bytes a second
BEGINS_WITHIN_S = 10.0
UNLIMITED = 2**32 - 1  # socket(7), SO_MAX_PACING_RATE: no limit


def limit_of(params: Mapping[str, str]) -> int:
    """The rate that a download is limited to, bytes a second."""
    return UNLIMITED if params.get("download_limit", "off") == "off" else int(params["download_limit"])


@dataclass
class Transfer:
    """A download whose server already listens: ``begin`` starts curl on ``node`` with ``argv``."""

    node: LabNode
    argv: Sequence[str]
    longest_s: float
    started: float = 0.0  # time.monotonic()
    seconds: float = 0.0  # until it ended or broke off

    def begin(self) -> None:
        """Start it, and wait until the first bytes have come, or it has broken off. Raises TimeoutError."""
        before = self.node.read_log("curl")
        self.curl: Process = self.node.spawn(*self.argv, log="curl")
        self.started = time.monotonic()
        wait_until(
            lambda: self.has_ended or self.node.read_log("curl") != before, "the download's beginning", BEGINS_WITHIN_S
        )

    @property
    def has_ended(self) -> bool:
        """Has curl ended, whether whole or broken off?"""
        return not self.curl.alive()

    def end(self) -> float | str:
        """Await the end: its time in seconds, or curl's reason why it broke off."""
        code = self.curl.wait((self.longest_s + 10) * PATIENCE)
        self.seconds = time.monotonic() - self.started
        lines = self.node.read_log("curl").split("\n")
        return float(lines[-2]) if code == 0 else " ".join(lines[-3:]).strip()[-200:]


def downloading(lab: Lab, address: str, limit_s: float) -> AbstractContextManager[Transfer]:
    """A download through the tunnel, slow enough to be under way when something breaks right after its beginning."""
    return fetching(lab.host2, lab.host1, address, limit_s + 4 * FILE_BYTES / LIMIT, FILE_BYTES, LIMIT)


def download_from_pair(
    lab: Lab, longest_s: float, size: int, limit: int, stall_s: float
) -> AbstractContextManager[Transfer]:
    """A download from the host behind the two gateways, as in the paper; given up after ``stall_s`` without a byte."""
    stalls = ("--speed-limit", "1", "--speed-time", f"{stall_s:.0f}")
    return fetching(lab.host1, lab.host2, lab.sites[0].host_address, longest_s, size, limit, *stalls)


@contextmanager
def fetching(
    server: LabNode, client: LabNode, address: str, longest_s: float, size: int, limit: int, *options: str
) -> Iterator[Transfer]:
    """``size`` bytes by HTTP from ``server``, at ``limit`` bytes a second, which the block begins and sees end."""
    with probe(server, "serve", str(HTTP_PORT), str(size), str(limit), ready="serving"):
        argv = ("curl", "--silent", "--show-error", "--max-time", f"{longest_s:.0f}", "--output", "/dev/null")
        # The headers go to its log as they come, which tells that the download has begun.
        wanted = ("--dump-header", "-", "--write-out", "%{time_total}\n", f"http://{address}:{HTTP_PORT}/")
        download = Transfer(client, (*argv, *options, *wanted), longest_s)
        try:
            yield download
        finally:
            if download.started:
                download.curl.stop()
