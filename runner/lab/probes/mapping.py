"""Gateway: a UDP socket that says nothing by itself, to see by it what a NAT makes of an address.

usage: mapping.py ADDRESS PORT
Prints "open". Each line of standard input is a JSON object, answered by one: {"to": [ADDRESS, PORT]} sends a datagram;
{"wait_s": SECONDS} waits so long for the next one that comes, and "from" is then whom it came from: null, if none did.
"""

import json
import socket
import sys
from contextlib import suppress

end = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end.bind((sys.argv[1], int(sys.argv[2])))
print("open", flush=True)
for line in sys.stdin:
    asked, sender = json.loads(line), None
    if "to" in asked:
        end.sendto(b"mapping", tuple(asked["to"]))
    if "wait_s" in asked:
        end.settimeout(asked["wait_s"])
        with suppress(OSError):  # nothing came
            _, sender = end.recvfrom(64)
    print(json.dumps({"from": sender}), flush=True)
