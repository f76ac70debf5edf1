"""Far host: answer every byte with its complement, so that the two directions carry different bytes.

usage: answer.py PORT
"""

import socket
import sys
import threading

COMPLEMENT = bytes(255 - byte for byte in range(256))


def serve(connection: socket.socket) -> None:
    """Answer one connection until it ends."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    try:
        while data := connection.recv(65536):
            connection.sendall(data.translate(COMPLEMENT))
    except OSError:
        pass  # the asking side gave up, as it does while a tunnel is not up yet
    finally:
        connection.close()


both = socket.has_dualstack_ipv6()
family = socket.AF_INET6 if both else socket.AF_INET
listener = socket.create_server(("", int(sys.argv[1])), family=family, dualstack_ipv6=both, backlog=64)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
