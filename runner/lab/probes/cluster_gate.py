"""Gateway of a CLUSTERIP cluster: forward what comes from the LAN only while this gateway is the responsible one.

usage: cluster_gate.py SITE_ADDRESS WAN_PORT LAN_PORT COMMAND…
It looks every 10 ms whether CLUSTERIP has the only hash bucket here and the WAN port is up; on becoming responsible it
opens the LAN port and runs COMMAND, which asks for new keys, because ESP's sequence numbers begin anew here. It
stands for the kernel patches of the ClusterIP paper, which no distribution has. Says each change; runs until its end.
"""

import os
import subprocess
import sys
import time
from pathlib import Path

PAUSE_S = 0.01
address, wan, lan, *renew = sys.argv[1:]
state, port = Path(f"/proc/net/ipt_CLUSTERIP/{address}"), Path(f"/sys/class/net/{wan}/operstate")
forwarding = Path(f"/proc/sys/net/ipv4/conf/{lan}/forwarding")
began, before = time.monotonic(), None
files = [os.open(each, os.O_RDONLY) for each in (state, port)]  # read again from the start: cheaper than to open
while True:
    buckets, carrier = (os.pread(each, 64, 0).strip() for each in files)
    responsible = bool(buckets) and carrier == b"up"
    if responsible != before:
        forwarding.write_text("1" if responsible else "0")
        if responsible and before is not None:
            subprocess.Popen(renew)  # what it says stands in our log
        print(f"{time.monotonic() - began:.3f} {'responsible' if responsible else 'not responsible'}", flush=True)
    before = responsible
    time.sleep(PAUSE_S)
