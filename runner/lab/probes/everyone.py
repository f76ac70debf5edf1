"""Gateway of a mesh: reach other sites through its tunnels.

usage: everyone.py SOURCE PORT SECONDS RTT_S ADDRESS…
Tries each address from SOURCE until answer.py there has answered a byte, with patience for two round trips of the
path, RTT_S. Exit code 1, and the addresses that never answered, after SECONDS.
"""

import os
import socket
import sys
import threading
import time

source, port, addresses = sys.argv[1], int(sys.argv[2]), sys.argv[5:]
seconds, rtt_s = float(sys.argv[3]), float(sys.argv[4])
patience_s = 0.5 + 2 * rtt_s
end = time.monotonic() + seconds
answered: set[str] = set()


def reach(address: str) -> None:
    """Try one address until it has answered or the time is over."""
    while time.monotonic() < end:
        try:
            with socket.create_connection((address, port), timeout=patience_s, source_address=(source, 0)) as line:
                line.sendall(b"\x55")
                if line.recv(1) == b"\xaa":
                    answered.add(address)
                    return
        except OSError:
            time.sleep(0.05)  # not yet


threads = [threading.Thread(target=reach, args=(address,), daemon=True) for address in addresses]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(max(0.0, end - time.monotonic()) + 2 * patience_s + 0.5)
missing = [address for address in addresses if address not in answered]
print(" ".join(missing), flush=True)
os._exit(1 if missing else 0)
