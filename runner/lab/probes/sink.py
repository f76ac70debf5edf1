"""Far host: count the datagrams of send.py where they come in, and drop them there, before any program or ICMP.

usage: sink.py INTERFACE SOURCE PORT
Prints "counting" when it counts, then waits for a line on standard input and for the last packet. Prints a JSON object:
"first": packets and bytes of those that have the UDP header, "rest": those of later fragments; "by": the packet filter
that counted them, nftables at the interface's ingress, or where the kernel has none of that, iptables' table raw, the
next place on their way; "interface": what the interface itself received meanwhile, in packets; "samples":
[seconds, packets] of the interface whenever its count had changed, looked at every 2 ms.
"""

import gc
import json
import os
import re
import select
import subprocess
import sys
import time
from contextlib import suppress

STILL_S, LONGEST_S = 0.15, 2.0  # RFC 2544 §23: two seconds for residual frames
interface, source, port = sys.argv[1:4]


def tool(*argv: str, text: str | None = None) -> str:
    """Run a command and return its output. Raises CalledProcessError."""
    return subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout


class Nftables:
    """nft(8). It counts what the interface hands over, in bytes of IP."""

    name = "nftables"
    rules = f"""
add table netdev vpneval
delete table netdev vpneval
table netdev vpneval {{
    counter first {{}}
    counter rest {{}}
    chain sink {{
        type filter hook ingress device "{interface}" priority 0
        ip saddr {source} ip protocol udp ip frag-off & 0x1fff != 0 counter name rest drop
        ip saddr {source} udp dport {port} counter name first drop
    }}
}}
"""

    def start(self) -> None:
        """Make the table; one that a killed sink has left goes first."""
        tool("nft", "-f", "-", text=self.rules)

    def counted(self) -> dict[str, list[int]]:
        """``first`` and ``rest`` -> [packets, bytes]."""
        listed = json.loads(tool("nft", "-j", "list", "counters"))["nftables"]
        counters = {entry["counter"]["name"]: entry["counter"] for entry in listed if "counter" in entry}
        return {name: [counters[name]["packets"], counters[name]["bytes"]] for name in ("first", "rest")}

    def stop(self) -> None:
        """Remove the table."""
        tool("nft", "delete", "table", "netdev", "vpneval")


class Iptables:
    """iptables(8) of the legacy kind. Its table raw sees a packet before routing and before fragments are joined."""

    name = "iptables"
    jump = f"PREROUTING -i {interface} -s {source} -p udp -j vpneval"
    rules = f"""
*raw
:vpneval - [0:0]
-A vpneval -f -j DROP
-A vpneval -p udp --dport {port} -j DROP
-I {jump}
COMMIT
"""

    def start(self) -> None:
        """Make the chain; one that a killed sink has left goes first."""
        with suppress(subprocess.CalledProcessError):  # the rest of a sink that was killed
            self.stop()
        tool("iptables-legacy-restore", "--noflush", text=self.rules)

    def counted(self) -> dict[str, list[int]]:
        """``first`` and ``rest`` -> [packets, bytes]."""
        listed = tool("iptables-legacy-save", "--counters", "--table", "raw")
        rest, first = re.findall(r"^\[(\d+):(\d+)\] -A vpneval ", listed, re.MULTILINE)
        return {"first": [int(count) for count in first], "rest": [int(count) for count in rest]}

    def stop(self) -> None:
        """Remove the chain and the jump to it."""
        tool("iptables-legacy", "-t", "raw", *f"-D {self.jump}".split())
        tool("iptables-legacy", "-t", "raw", "-F", "vpneval")
        tool("iptables-legacy", "-t", "raw", "-X", "vpneval")


def open_filter() -> Nftables | Iptables:
    """The first packet filter that works here, counting. Ends the probe with the words of each where none does."""
    refusals = []
    for found in (Nftables(), Iptables()):
        try:
            found.start()
            return found
        except FileNotFoundError as missing:
            refusals.append(f"{found.name}: {missing.filename} is missing")
        except subprocess.CalledProcessError as refused:
            refusals.append(f"{found.name}: {(refused.stderr.strip().splitlines() or ['refused'])[0]}")
    sys.exit("no packet filter that counts: " + "; ".join(refusals))


packet_filter = open_filter()
gc.disable()
with suppress(PermissionError):
    os.nice(-15)  # as send.py
samples = []
try:
    with open(f"/sys/class/net/{interface}/statistics/rx_packets") as counter:

        def count() -> int:
            """Packets that the interface has received so far."""
            counter.seek(0)
            return int(counter.read())

        before = last = count()
        started = changed = time.monotonic()
        told = None
        print("counting", flush=True)
        while True:
            now, seen = time.monotonic(), count()
            if seen != last:
                last, changed = seen, now
                samples.append((round(now - started, 4), seen - before))
            if told is None and select.select([sys.stdin], [], [], 0)[0]:
                told = now
            if told is not None and (now > max(told, changed) + STILL_S or now > told + LONGEST_S):
                break
            time.sleep(0.002)
    counted = packet_filter.counted()
finally:
    packet_filter.stop()
print(json.dumps({**counted, "by": packet_filter.name, "interface": last - before, "samples": samples}))
