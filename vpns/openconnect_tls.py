"""OpenConnect without DTLS: as openconnect, but everything is one TLS connection to port 443. Through any firewall.

TCP inside TCP repeats what is lost twice; the experiment `wan` measures what that costs.
"""

from vpns.openconnect import OpenConnect


class OpenConnectTls(OpenConnect):
    title = "OpenConnect (TLS)"
    transport = "tcp"
    note = "TCP in TCP: losses on the WAN are repaired twice"
    dtls = False
    rekey_says = ("openconnect-{}", "Renegotiated SSL")
