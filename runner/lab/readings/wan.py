"""Checks the WAN between the bare gateways: nothing is measured unless delay, loss, MTU and rate are what was asked
for."""

from __future__ import annotations

import json
import re
import time

import scipy

from runner.data.errors import InstrumentError
from runner.data.wan import Conditions
from runner.lab import probes
from runner.lab.node import PATIENCE, wait_until
from runner.lab.node.iproute import interface
from runner.lab.readings.path import HEADERS_BYTES
from runner.lab.readings.wire import outer
from runner.lab.shape.site import ip_version
from runner.lab.shape.site_to_site import Lab
from runner.lab.shape.wan import bucket_bytes

PINGS = 1000
PROBE_S = 1.0
MOST_BURST = 16
SLOWER = 0.5  # than what could be offered
UNLIKELY = 1e-4  # a loss that chance brings about less often than this was not the one asked for


def verify(lab: Lab, wanted: Conditions) -> str:
    """Probe the WAN between the bare gateways, and return its measured conditions in words.

    Raises InstrumentError where delay, loss, MTU or rate are not what was asked for.
    """
    parts = []
    near, far = lab.gateway(lab.sites[0]), lab.sites[-1].wan_address
    if wanted.is_impaired or wanted.mtu_bytes != Conditions.mtu_bytes:
        parts.append(_check_ping(lab, wanted))
    full = wanted.mtu_bytes - HEADERS_BYTES[ip_version(far)]
    fits = near.run("ping", "-c3", "-W3", "-i0.2", "-Mdo", f"-s{full}", far, check=False).code
    longer = near.run("ping", "-c1", "-W1", "-Mdo", f"-s{full + 1}", far, check=False).code
    if (fits != 0 and wanted.loss_ratio < 0.2) or longer == 0:
        raise InstrumentError(f"the WAN's MTU is not {wanted.mtu_bytes} bytes")
    if wanted.rate_bps:
        parts.append(_rate(lab, wanted))
    return ", ".join(parts)


def _check_ping(lab: Lab, wanted: Conditions) -> str:
    """Round-trip time and loss of a thousand pings."""
    near, far = lab.gateway(lab.sites[0]), lab.sites[-1].wan_address
    count = PINGS if wanted.loss_ratio else 40
    done = near.run("ping", "-q", f"-c{count}", "-i0.002", "-W3", far, check=False, timeout=60)
    times = re.search(r"= ([\d.]+)/([\d.]+)/", done.stdout)
    received = re.search(r"(\d+) received", done.stdout)
    if not times or not received:
        raise InstrumentError(f"the WAN carries no ping: {done.stdout.strip()[-200:]}")
    fastest_ms, mean_ms = float(times[1]), float(times[2])
    expected_ms = 2 * wanted.delay_ms
    slack_ms = 1 + 0.1 * expected_ms + wanted.jitter_ms
    if fastest_ms < 0.9 * expected_ms - 8 * wanted.jitter_ms or mean_ms > expected_ms + slack_ms * 3:
        raise InstrumentError(f"the WAN's round trip takes {mean_ms:.1f} ms, not {expected_ms:g} ms")
    lost = count - int(received[1])
    both_ways = 1 - (1 - wanted.loss_ratio) ** 2
    if scipy.stats.binomtest(lost, count, both_ways).pvalue < UNLIKELY:
        raise InstrumentError(f"the WAN lost {lost} of {count} round trips, not {both_ways:.2%}")
    return f"RTT {mean_ms:.2f} ms, {lost} of {count} round trips lost"


def _rate(lab: Lab, wanted: Conditions) -> str:
    """The rate that passes, measured for a second while more is sent, after the queue has filled."""
    assert wanted.rate_bps is not None
    near, far = lab.gateway(lab.sites[0]), lab.sites[-1].wan_address
    length = min(wanted.mtu_bytes, 1400)
    near.write(f"{probes.FOLDER}/generate.py", probes.source("generate"), mode=0o644)
    per_s = 1.3 * wanted.rate_bps / 8 / (length + 14) / (1 - wanted.loss_ratio)
    filled_s = 0.2 + (wanted.queue_ms / 0.3 + wanted.delay_ms) / 1e3
    seconds = filled_s + 10 * PROBE_S * PATIENCE  # at most: it is stopped when all is seen
    # Bursts cost far less than so many packets singly, and are a share of what the bucket holds.
    burst = min(MOST_BURST, max(1, bucket_bytes(wanted) // (4 * length)))
    trial = {"address": far, "port": 9, "ip_bytes": [length], "per_s": per_s, "seconds": seconds}
    trial |= {"burst": burst, "segment": burst > 1}
    idle = outer(lab).packets + 20
    sender = near.spawn("python3", "-IS", f"{probes.FOLDER}/generate.py", json.dumps(trial), log="wan-rate")
    wait_until(lambda: outer(lab).packets > idle, "the probe's packets on the WAN")
    time.sleep(filled_s)  # nothing tells that the queue is full
    counter = f"/sys/class/net/{interface(near, lab.sites[0].wan_interface)}/statistics/tx_bytes"
    # The time is taken after each reading: nearly all that one takes, a tenth of a second and more on a busy machine
    # or in a guest kernel, goes by before its command looks at the counter.
    before, started, sent = outer(lab), time.monotonic(), int(near.run("cat", counter).stdout)
    time.sleep(PROBE_S * PATIENCE)
    passed, elapsed, sent = outer(lab) - before, time.monotonic() - started, int(near.run("cat", counter).stdout) - sent
    if not sender.alive():
        raise InstrumentError("the probe of the WAN's rate was over before it was read: this machine is too busy")
    sender.stop()
    found_bps = 8 * (passed.ip_bytes + 14 * passed.packets) / elapsed
    offered_bps = 8 * sent / elapsed * (1 - wanted.loss_ratio)  # at least: a burst may count its headers once
    if found_bps < 0.85 * wanted.rate_bps and offered_bps < 1.1 * wanted.rate_bps:
        raise InstrumentError(
            f"the WAN's rate cannot be probed: this machine offered {offered_bps / 1e6:.5g} Mbit/s to a WAN of "
            f"{wanted.rate_bps / 1e6:.5g}. Let nothing else run on it, or ask for a slower WAN: --set wan_rate_bps="
            f"{float(f'{max(1e5, SLOWER * offered_bps):.0e}'):.0f}"
        )
    if not 0.85 * wanted.rate_bps <= found_bps <= 1.1 * wanted.rate_bps:
        raise InstrumentError(f"the WAN carries {found_bps / 1e6:.4g} Mbit/s, not {wanted.rate_bps / 1e6:.4g}")
    return f"{found_bps / 1e6:.4g} Mbit/s"
