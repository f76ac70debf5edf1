"""Far host: count the datagrams of send.py where they come in, and drop them there, before any program or ICMP.

usage: sink.py INTERFACE SOURCE PORT
Prints "counting" when it counts, then waits for a line on standard input and for the last packet. Prints a JSON object:
"first": packets and bytes of those that have the UDP header, "rest": those of later fragments, counted by nftables
at the interface's ingress; "interface": what the interface itself received meanwhile, in packets; "samples":
[seconds, packets] of the interface whenever its count had changed, looked at every 2 ms.
"""

import gc
import json
import os
import select
import subprocess
import sys
import time
from contextlib import suppress

STILL_S, LONGEST_S = 0.15, 2.0  # RFC 2544 §23: two seconds for residual frames
interface, source, port = sys.argv[1:4]
RULES = f"""
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


def nft(*argv: str, text: str | None = None) -> str:
    return subprocess.run(["nft", *argv], input=text, capture_output=True, text=True, check=True).stdout


nft("-f", "-", text=RULES)
gc.disable()
with suppress(PermissionError):
    os.nice(-15)  # as send.py
samples = []
try:
    with open(f"/sys/class/net/{interface}/statistics/rx_packets") as counter:

        def count() -> int:
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
    listed = json.loads(nft("-j", "list", "counters"))["nftables"]
finally:
    nft("delete", "table", "netdev", "vpneval")
counted = {entry["counter"]["name"]: entry["counter"] for entry in listed if "counter" in entry}
result = {name: [counted[name]["packets"], counted[name]["bytes"]] for name in ("first", "rest")}
print(json.dumps({**result, "interface": last - before, "samples": samples}))
