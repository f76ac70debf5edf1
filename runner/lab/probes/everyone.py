"""Gateway of a mesh: reach other sites through its tunnels.

usage: everyone.py SOURCE PORT SECONDS ADDRESS…
Tries each address from SOURCE until answer.py there has answered a byte. Exit code 1, and the addresses that never
answered, after SECONDS.
"""

import os
import socket
import sys
import threading
import time

source, port, seconds, addresses = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:]
end = time.monotonic() + seconds
answered: set[str] = set()


def reach(address: str) -> None:
    """Try one address until it has answered or the time is over."""
    while time.monotonic() < end:
        try:
            with socket.create_connection((address, port), timeout=0.5, source_address=(source, 0)) as connection:
                connection.sendall(b"\x55")
                if connection.recv(1) == b"\xaa":
                    answered.add(address)
                    return
        except OSError:
            time.sleep(0.05)  # not yet


threads = [threading.Thread(target=reach, args=(address,), daemon=True) for address in addresses]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(max(0.0, end - time.monotonic()) + 1.5)
missing = [address for address in addresses if address not in answered]
print(" ".join(missing), flush=True)
os._exit(1 if missing else 0)
