"""Near host: ask the answering host, through the tunnel.

usage: ask.py first  ADDRESS PORT SECONDS   try until the first payload is answered; exit 3 if it never is
       ask.py rtt    ADDRESS PORT SECONDS [AT_LEAST]   one byte and its answer, again and again; JSON list of ms.
                                            Goes on to three times SECONDS until AT_LEAST exchanges were done
       ask.py marker ADDRESS PORT SECONDS   send the hex on standard input; exit 3 unless all comes back

Any other exit code says that this program has failed, and nothing of the path.
"""

import json
import os
import socket
import sys
import threading
import time

NO_ANSWER = 3
COMPLEMENT = bytes(255 - byte for byte in range(256))


def exchange(connection: socket.socket, data: bytes) -> bytes:
    """Send ``data`` and read as much back."""
    connection.sendall(data)
    answer = b""
    while len(answer) < len(data):
        part = connection.recv(65536)
        if not part:
            raise OSError("connection closed before the whole answer came")
        answer += part
    return answer


def first(address: str, port: int, seconds: float) -> int:
    """Exit code 0 as soon as one byte has come back as its complement, NO_ANSWER if none has within ``seconds``."""
    # A new attempt every 10 ms beside those that wait: the first packets into a tunnel that is not up are
    # lost, and TCP would repeat a SYN after a whole second only. Who has waited for long asks less often, to a
    # hundredth of that time, and with more patience: a slow machine drowns in what it cannot answer.
    answered = threading.Event()

    def attempt(patience_s: float) -> None:
        try:
            with socket.create_connection((address, port), timeout=patience_s) as connection:
                if exchange(connection, b"\x55") == b"\xaa":
                    answered.set()
        except OSError:
            pass  # not yet

    begun = time.monotonic()
    while (waited_s := time.monotonic() - begun) < seconds:
        threading.Thread(target=attempt, args=(2 + waited_s / 10,), daemon=True).start()
        if answered.wait(max(0.01, waited_s / 100)):
            return 0
    return NO_ANSWER


def rtt(address: str, port: int, seconds: float) -> int:
    """Print the round-trip times of single bytes over one connection, a JSON list of milliseconds. Returns 0."""
    times: list[float] = []
    at_least = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    with socket.create_connection((address, port), timeout=5) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(5):  # neighbours, caches and congestion window warm up
            exchange(connection, b"\x55")
        begun = time.monotonic()
        while time.monotonic() < begun + seconds * (1 if len(times) >= at_least else 3):
            started = time.perf_counter()
            exchange(connection, b"\x55")
            times.append(round((time.perf_counter() - started) * 1e3, 4))
            time.sleep(0.002)  # one packet at a time on an idle tunnel, not a flood
    print(json.dumps(times))
    return 0


def marker(address: str, port: int, seconds: float) -> int:
    """Exit code 0 if the bytes on standard input (hex) came back as their complement, else NO_ANSWER and the reason on
    standard error."""
    data = bytes.fromhex(sys.stdin.read())
    try:
        with socket.create_connection((address, port), timeout=seconds) as connection:
            connection.settimeout(seconds)
            if exchange(connection, data) == data.translate(COMPLEMENT):
                return 0
            print("other bytes came back", file=sys.stderr)
    except OSError as error:
        print(error, file=sys.stderr)
    return NO_ANSWER


WHAT = {"first": first, "rtt": rtt, "marker": marker}
code = WHAT[sys.argv[1]](sys.argv[2], int(sys.argv[3]), float(sys.argv[4]))
sys.stdout.flush()
os._exit(code)  # without waiting for attempts that are still under way
