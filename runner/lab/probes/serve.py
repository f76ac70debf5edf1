"""Far host: serve any HTTP GET with random bytes, paced by the sender's TCP, so that a stall is never made up for.

usage: serve.py PORT BYTES BYTES_PER_SECOND   4294967295: as fast as it goes
Prints "serving" when it listens. SO_MAX_PACING_RATE (socket(7)) counts headers, too: the download takes 3 % longer than
BYTES / BYTES_PER_SECOND.
"""

import os
import socket
import sys
import threading

SO_MAX_PACING_RATE = getattr(socket, "SO_MAX_PACING_RATE", 47)
CHUNK = os.urandom(2**16)
port, length, rate = (int(text) for text in sys.argv[1:])


def serve(connection: socket.socket) -> None:
    """Answer one GET at the paced rate, then close."""
    try:
        connection.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate.to_bytes(4, sys.byteorder))  # unsigned
        request = b""
        while b"\r\n\r\n" not in request:
            if not (part := connection.recv(4096)):
                return
            request += part
        connection.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n".encode())
        for start in range(0, length, len(CHUNK)):
            connection.sendall(CHUNK[: length - start])
    except OSError:
        pass  # who asked has given up
    finally:
        connection.close()


listener = socket.create_server(("0.0.0.0", port), backlog=8)
print("serving", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
