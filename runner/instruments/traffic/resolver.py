"""The DNS server of a gateway, which the near host asks while the tunnel has a load, or none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from runner.data.metric import share, time_ms
from runner.data.trials import Value
from runner.instruments.result import measurement
from runner.instruments.traffic.idle import percentiles
from runner.instruments.traffic.loaded import EXCHANGES
from runner.lab.node import wait_until
from runner.lab.node.probing import error_class
from runner.lab.shape.site_to_site import Lab

PORT = 8053  # 53 may be taken on a gateway that is a machine of its own
NO_SERVER = "{} has no dnsmasq (Debian: apt-get install dnsmasq-base)"
# dnsmasq(8): no file and no other server, so that the gateway alone answers. --no-daemon also keeps the user and the
# groups, which a lab without root cannot change.
SERVER = (
    *("dnsmasq", "--no-daemon", "--conf-file=/dev/null", "--no-hosts", "--no-resolv", "--pid-file="),
    *("--bind-interfaces", f"--port={PORT}", "--address=/router.test/192.0.2.1"),
)
# Runs on host1. RFC 1035 §4.1: one question of class IN and type A. An answer that comes later than a second is none.
PROGRAM = """
import json, socket, struct, sys, time

address, port, seconds, at_least = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
link.connect((address, port))
times, unanswered, number, began = [], 0, 0, time.monotonic()
while (spent := time.monotonic() - began) < seconds or (len(times) < at_least and spent < 3 * seconds):
    number = (number + 1) % 65536
    asked = time.perf_counter()
    link.send(struct.pack("!6H", number, 0x0100, 1, 0, 0, 0) + b"\\x06router\\x04test\\x00\\x00\\x01\\x00\\x01")
    try:
        while True:
            link.settimeout(max(1e-3, asked + 1 - time.perf_counter()))
            answer = link.recv(4096)
            if struct.unpack("!H", answer[:2])[0] == number:
                break
        if answer[3] & 15 or answer[-4:] != bytes((192, 0, 2, 1)):
            sys.exit(f"the name server answered {answer!r}")
        times.append(1000 * (time.perf_counter() - asked))
    except TimeoutError:
        unanswered += 1
print(json.dumps({"times_ms": times, "unanswered": unanswered}))
"""


class Resolving:
    """Questions to the gateway's DNS server, one after another: how long each answer took (ms), and how many had
    none."""

    def __init__(self, lab: Lab, duration_s: float) -> None:
        report = ask_gateway(lab, PROGRAM, PORT, duration_s, "DNS server")
        self.times_ms: list[float] = report["times_ms"]
        self.unanswered: int = report["unanswered"]

    @property
    def unanswered_ratio(self) -> float:
        """The share of the questions that had no answer."""
        return self.unanswered / (self.unanswered + len(self.times_ms))


def ask_gateway(lab: Lab, program: str, port: int, duration_s: float, what: str) -> dict[str, Any]:
    """What a program on host1 says that asks the first gateway for so long. Raises MeasurementError where it fails."""
    to = lab.sites[0].lan_address, str(port), str(duration_s), str(EXCHANGES)
    done = lab.host1.run("python3", "-IS", "-c", program, *to, check=False, timeout=3 * duration_s + 15)
    if done.code != 0:
        raise error_class(done.code)(f"the gateway's {what} failed: {done.stderr.strip()[-200:]}")
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@contextmanager
def answering(lab: Lab) -> Iterator[bool]:
    """dnsmasq on the first gateway, at its address in the LAN; False where the gateway has none. Raises TimeoutError
    where it does not listen."""
    site = lab.sites[0]
    gateway = lab.gateway(site)
    if gateway.run("which", "dnsmasq", check=False).code != 0:
        yield False
        return
    dnsmasq = gateway.spawn(*SERVER, f"--listen-address={site.lan_address}", log="dns")
    try:
        wait_until(lambda: f":{PORT} " in gateway.run("ss", "-Hlun").stdout, "the DNS server listening", deadline_s=5)
        yield True
    finally:
        dnsmasq.stop()


def delays(idle: Resolving, loaded: Resolving) -> list[Value]:
    """What the two found, as values; a delay or a percentile that too few answers have is left out."""
    values = []
    for name, asking in (("dns_delay", idle), ("dns_delay_loaded", loaded)):
        counts: dict[str, Any] = {
            "unanswered": asking.unanswered,
            "unanswered_ratio": round(asking.unanswered_ratio, 5),
        }
        if asking.times_ms:
            shown = counts | percentiles(asking.times_ms)
            values.append(measurement(name, float(np.median(asking.times_ms)), asking.times_ms, **shown))
            values += [
                measurement(f"dns_p{percent}_loaded", shown[f"p{percent}_ms"], **counts)
                for percent in (95, 99)
                if name == "dns_delay_loaded" and f"p{percent}_ms" in shown
            ]
    return [*values, measurement("dns_unanswered_loaded", loaded.unanswered_ratio, unanswered=loaded.unanswered)]


SOURCE = "RFC 1035 §4.1; RFC 2681 §4.1 (percentiles of round-trip delay), with a question of DNS as the Type-P"
METRICS = (
    time_ms(
        name="dns_delay",
        title="Delay of the gateway's DNS",
        definition="The near host asks the DNS server of its gateway (dnsmasq) for a name that this server knows, one "
        "question after another, each in one datagram. The tunnel carries nothing. The value is the median time until "
        "the answer.",
        source=SOURCE,
        margin=1.15,
    ),
    time_ms(
        name="dns_delay_loaded",
        title="Delay of the gateway's DNS under load",
        definition="The median of the same, beside a tunnel with a load (factor tunnel_load).",
        source=SOURCE,
        margin=1.15,
        plot="distribution",
    ),
    time_ms(
        name="dns_p95_loaded",
        title="Delay of the gateway's DNS under load, 95th percentile",
        definition="95 % of the answers that make up dns_delay_loaded came within this time.",
        source=SOURCE,
        margin=1.15,
    ),
    time_ms(
        name="dns_p99_loaded",
        title="Delay of the gateway's DNS under load, 99th percentile",
        definition="99 % of the answers that make up dns_delay_loaded came within this time. It needs 200 answers.",
        source=SOURCE,
        margin=1.15,
    ),
    share(
        name="dns_unanswered_loaded",
        title="Questions to the gateway's DNS without an answer, under load",
        better="lower",
        definition="The share of the questions beside a tunnel with a load that had no answer within a second.",
        source="RFC 1035 §4.2.1 (datagrams may be lost)",
    ),
)
