"""Services of the gateway itself, as its web interface and its DNS, which the near host uses while the tunnel has a
load."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from runner.data.errors import CommandError, MeasurementError
from runner.data.levels import Levels
from runner.data.metric import Metric, time_ms
from runner.data.remarks import Remark
from runner.design.profile import Profile
from runner.instruments.instrument import Asked, Whole
from runner.instruments.result import Measured, measurement
from runner.instruments.tools.counters import arrived_bytes
from runner.instruments.traffic import resolver
from runner.instruments.traffic.idle import percentiles
from runner.instruments.traffic.loaded import (
    check_load,
    streaming,
)
from runner.instruments.traffic.resolver import Resolving, answering, ask_gateway
from runner.lab.node import Process, wait_until
from runner.lab.shape.site_to_site import Lab
from runner.tunnel.bring_up import Bench

PORT = 8080
CONFIG = "/run/vpneval/service.conf"
BLOCK_BYTES = 131072  # what iperf3 hands to TCP at a time, unless told
REACHED = 0.9  # of the load's rate: with less, its VPN has less to do than the others
# nginx.org/en/docs/http/ngx_http_rewrite_module.html. One process, which reads no file.
NGINX = """daemon off;
user root;
worker_processes 1;
pid /run/vpneval/service.pid;
error_log stderr;
events {{ }}
http {{
    access_log off;
    server {{
        listen {address}:{port};
        location / {{ return 200 "ok"; }}
    }}
}}
"""
# Runs on host1. HTTP/1.0: the server ends each connection with its answer.
PROGRAM = """
import json, socket, sys, time

address, port, seconds, at_least = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
times, began = [], time.monotonic()
while (spent := time.monotonic() - began) < seconds or (len(times) < at_least and spent < 3 * seconds):
    asked, answer = time.perf_counter(), b""
    with socket.create_connection((address, port), timeout=5) as connection:
        connection.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")
        while part := connection.recv(4096):
            answer += part
    if b" 200 " not in answer[:16]:
        sys.exit(f"the service answered {answer[:80]!r}")
    times.append(1000 * (time.perf_counter() - asked))
print(json.dumps({"times_ms": times, "seconds": time.monotonic() - began}))
"""


class Asking:
    """Exchanges with the service, one after another: how long each took, ms, and how many there were in a second."""

    def __init__(self, lab: Lab, duration_s: float) -> None:
        report = ask_gateway(lab, PROGRAM, PORT, duration_s, "service")
        self.times_ms: list[float] = report["times_ms"]
        self.per_s: float = len(self.times_ms) / report["seconds"]


def service(lab: Lab, address: str, load: str, duration_s: float) -> Measured:
    """The exchanges with the first gateway's web and DNS servers beside an idle tunnel, and beside one with a ``load``.

    ``load``: ``full`` is one TCP stream to ``address`` as fast as it goes; a number is its rate, bit/s.
    ``duration_s``: of each of the four. Raises MeasurementError where the service does not answer, the load ends too
    early, or a rate is not reached.
    """
    with serving(lab), answering(lab) as answers:
        idle = Asking(lab, duration_s)
        names = [Resolving(lab, duration_s)] if answers else []
        with loading(lab, address, load, duration_s) as stream:
            since, before = time.monotonic(), arrived_bytes(lab.host2)
            beside = Asking(lab, duration_s)
            names += [Resolving(lab, duration_s)] if answers else []
            load_bps = 8 * (arrived_bytes(lab.host2) - before) / (time.monotonic() - since)
            check_load(lab, stream)
    if load != "full" and load_bps < REACHED * float(load):
        raise MeasurementError(
            f"the load reached {load_bps / 1e6:.3g} of {float(load) / 1e6:.3g} Mbit/s. Choose a lower one: "
            "--set tunnel_load=RATE, in bit/s"
        )
    detail: dict[str, Any] = {"load_bps": round(load_bps), "kept_ratio": round(beside.per_s / idle.per_s, 4)}
    no_dns = Remark(kind="no value", subject="delay of DNS", why=resolver.NO_SERVER.format(lab.sites[0].name))
    delays = [(float(np.median(asking.times_ms)), percentiles(asking.times_ms)) for asking in (idle, beside)]
    return Measured(
        [
            measurement("service_rate", idle.per_s),
            measurement("service_rate_loaded", beside.per_s, **detail),
            measurement("service_delay", delays[0][0], idle.times_ms, **delays[0][1]),
            measurement("service_delay_loaded", delays[1][0], beside.times_ms, **delays[1][1]),
            *(resolver.delays(*names) if answers else ()),
        ],
        remarks=[] if answers else [no_dns],
    )


@contextmanager
def serving(lab: Lab) -> Iterator[None]:
    """nginx on the first gateway, at its address in the LAN. Raises MeasurementError where it does not listen."""
    site = lab.sites[0]
    gateway = lab.gateway(site)
    if gateway.run("which", "nginx", check=False).code != 0:
        raise MeasurementError(f"{gateway.name} has no nginx (Debian: apt-get install nginx-light)")
    gateway.write(CONFIG, NGINX.format(address=site.lan_address, port=PORT), mode=0o644)
    nginx = gateway.spawn("nginx", "-e", "stderr", "-c", CONFIG, log="service")
    try:
        wait_until(lambda: f":{PORT} " in gateway.run("ss", "-Hltn").stdout, "the service listening", deadline_s=5)
        yield
    except TimeoutError as never:
        raise MeasurementError(f"{never}: {gateway.read_log('service').strip()[-300:]}") from never
    except CommandError as late:
        raise MeasurementError(f"the gateway's service hung: {late}") from late
    finally:
        nginx.stop()


def loading(lab: Lab, address: str, load: str, duration_s: float) -> AbstractContextManager[Process]:
    """A TCP stream through the tunnel, which has begun to arrive, and goes on until the block ends.

    A stream with a rate limit sends a block every 50 ms at least. With iperf3's default blocks (128 KiB), 2 Mbit/s
    would be two blocks a second, and a second could have one more or one less.
    """
    rate = () if load == "full" else ("--bitrate", load, "--length", str(min(int(load) // 160, BLOCK_BYTES)))
    return streaming(lab, address, 6 * duration_s, *rate)


class Service(Whole):
    """Exchanges with a service of the gateway, idle and beside the tunnel's load."""

    name = "service"
    factors = {"tunnel_load": Levels(("20000000", "50000000", "full"), (100_000, 10**11), "50000000", told="".format)}
    metrics = (
        Metric(
            name="service_rate",
            title="Exchanges with the gateway",
            unit="exchange/s",
            better="higher",
            definition="The near host asks a web server on its gateway for a page of two bytes, one exchange after "
            "another, each over a new TCP connection. The tunnel carries nothing. The value is the number of exchanges "
            "in a second.",
            source="the device page, Hardware performance (other services of the router); RFC 9110 §9.3.1 (GET)",
        ),
        Metric(
            name="service_rate_loaded",
            title="Exchanges with the gateway under load",
            unit="exchange/s",
            better="higher",
            definition="The same exchanges, while a TCP stream from the near host to the far host goes through the "
            "tunnel: at a fixed rate that every VPN carries, or as fast as it goes (factor tunnel_load).",
            source="the device page, Hardware performance (other services of the router); RFC 9110 §9.3.1 (GET)",
        ),
        time_ms(
            name="service_delay",
            title="Delay of the gateway's answer",
            definition="The median time of the same exchanges beside an idle tunnel, from the call of connect() to the "
            "end of the answer.",
            source="RFC 2681 §4.1 (percentiles of round-trip delay), with an HTTP exchange as the Type-P",
            margin=1.15,
        ),
        time_ms(
            name="service_delay_loaded",
            title="Delay of the gateway's answer under load",
            definition="The median time of the same exchanges beside a tunnel with a load (factor tunnel_load).",
            source="RFC 2681 §4.1 (percentiles of round-trip delay), with an HTTP exchange as the Type-P",
            margin=1.15,
            plot="distribution",
        ),
        *resolver.METRICS,
    )

    def expected_s(self, params: Mapping[str, str], profile: Profile, *, first: bool) -> float:
        return 1.0 + 4 * profile.loaded_s

    def once(self, bench: Bench, asked: Asked) -> Measured:
        return service(bench.lab, bench.address, asked.params["tunnel_load"], asked.profile.loaded_s)
