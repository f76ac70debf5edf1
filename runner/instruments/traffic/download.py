"""Download time of a file by HTTP: nginx on the far host, curl on the near one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext

from runner.data.errors import CommandError, MeasurementError
from runner.data.levels import Levels
from runner.data.metric import time_s
from runner.data.trials import Value
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.fragments import fitting
from runner.instruments.tools.limits import Limits, Piece
from runner.instruments.tools.visits import HTTP_PORT, HTTP_SERVER
from runner.lab.node import proc, wait_until
from runner.lab.node.probing import error_class
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench

EXPECTED_BPS = 400e6  # a guess, for how long a download will take
FOLDER = "/run/vpneval/www"
CONFIG = "/run/vpneval/nginx.conf"
SLOWEST_BPS = 5e6  # a tunnel below this is given up
# nginx.org/en/docs/http/ngx_http_core_module.html. One process, in the foreground; nothing but this folder.
NGINX = f"""daemon off;
user root;
worker_processes 1;
pid /run/vpneval/nginx.pid;
error_log stderr;
events {{ }}
http {{
    access_log off;
    sendfile on;
    server {{
        listen {HTTP_PORT};
        root {FOLDER};
    }}
}}
"""
WANTED = "%{http_code} %{size_download} %{time_connect} %{time_starttransfer} %{time_total}"


def download(lab: Lab, address: str, file_bytes: int, around: AbstractContextManager[Piece] | None = None) -> Measured:
    """Time to fetch ``file_bytes`` random bytes, which no compression shrinks, in one HTTP GET.

    The file is made first, in memory on the far host. ``around``: what watches the transfer. Raises MeasurementError
    where it does not fit there, and as ``fetch``.
    """
    make_file(lab, file_bytes)
    return fetch(lab, address, file_bytes, around)


def fetch(lab: Lab, address: str, file_bytes: int, around: AbstractContextManager[Piece] | None = None) -> Measured:
    """Time to fetch the file that ``make_file`` has made. ``around`` as in ``download``.

    Raises MeasurementError where a tool is missing, curl fails, or what came is not the whole file.
    """
    limit_s = 10 + file_bytes * 8 / SLOWEST_BPS
    with serving(lab), around or nullcontext(Piece(0)) as piece:
        started = time.monotonic()
        argv = ("curl", "--silent", "--show-error", "--max-time", f"{limit_s:.0f}", "--output", "/dev/null")
        url = f"http://{address}:{HTTP_PORT}/{file_bytes}"
        done = lab.host1.run(*argv, "--write-out", WANTED, url, check=False, timeout=limit_s + 5)
        elapsed = time.monotonic() - started
        piece.carried_bytes = file_bytes if done.code == 0 else 0.0
    if done.code != 0:
        raise error_class(done.code)(f"{done.stderr.strip()[-300:]} (exit {done.code})")
    return Measured([read_curl(done.stdout, file_bytes)], elapsed)


@contextmanager
def serving(lab: Lab) -> Iterator[None]:
    """nginx on the far host, for as long as the near one fetches from it.

    Raises MeasurementError where a tool is missing, nginx does not listen, or curl hangs.
    """
    for node, tool, package in ((lab.host1, "curl", "curl"), (lab.host2, "nginx", "nginx-light")):
        if node.run("which", tool, check=False).code != 0:
            raise MeasurementError(f"{node.name} has no {tool} (Debian: apt-get install {package})")
    lab.host2.write(CONFIG, NGINX, mode=0o644)
    nginx = lab.host2.spawn("nginx", "-e", "stderr", "-c", CONFIG, log="nginx")
    try:
        wait_until(lambda: f":{HTTP_PORT} " in lab.host2.run("ss", "-Hltn").stdout, "nginx listening", deadline_s=5)
        yield
    except CommandError as late:
        raise MeasurementError(f"curl hung: {late}") from late
    except TimeoutError as never:
        raise MeasurementError(f"{never}: {lab.host2.read_log('nginx').strip()[-300:]}") from never
    finally:
        nginx.stop()


def read_curl(output: str, file_bytes: int) -> Value:
    """The measurement in what curl wrote out. Raises MeasurementError unless the whole file came."""
    code, size, connected, began, total = output.split()
    if code != "200" or int(size) != file_bytes:
        raise MeasurementError(f"HTTP status {code} and {size} bytes, not 200 and {file_bytes}")
    return measurement(
        "download_time",
        float(total),
        file_bytes=file_bytes,
        connect_s=float(connected),
        first_byte_s=float(began),
        rate_bps=round(file_bytes * 8 / float(total)),
    )


def make_file(lab: Lab, file_bytes: int) -> None:
    """Random bytes in a file whose name is its size. Raises MeasurementError where they do not fit into memory."""
    free = proc.memory_of(lab.host2.run("cat", "/proc/meminfo").stdout, "MemAvailable")
    if file_bytes > free / 2:
        raise MeasurementError(f"a file of {file_bytes} bytes does not fit: {free} bytes of memory are free on host2")
    lab.host2.run("rm", "-rf", FOLDER)
    lab.host2.run("mkdir", "-p", FOLDER)
    count = ("bs=1M", f"count={file_bytes}", "iflag=count_bytes,fullblock")
    lab.host2.run("dd", "if=/dev/urandom", f"of={FOLDER}/{file_bytes}", *count, "status=none", timeout=120)


class Download(Whole):
    """A file by HTTP."""

    name = "download"
    factors = {
        "file_bytes": Levels(
            ("20000000", "50000000", "500000000", "1000000000"),
            *((1, 10**11), "20000000"),
            told=lambda level: f"{int(level) / 1e6:g} MB",
        )
    }
    metrics = (
        time_s(
            name="download_time",
            title="Download time",
            definition="curl on the near host fetches an incompressible file by HTTP from nginx on the far host. The "
            "value is the time from the start of curl to the last byte. Connection set-up is included.",
            source="curl(1) --write-out, time_total; RFC 9110 §9.3.1 (GET)",
            limited=True,
        ),
    )

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 0.3 + int(params["file_bytes"]) * 8 / EXPECTED_BPS

    def once(self, bench: Bench, asked: Asked) -> Measured:
        limits = Limits()
        bench.free(HTTP_SERVER)
        with fitting(bench):
            measured = download(bench.lab, bench.address, int(asked.params["file_bytes"]), limits.watch(bench))
        return limits.add_loads(bench, measured)
