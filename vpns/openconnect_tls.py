"""OpenConnect without DTLS: as openconnect, but everything is one TLS connection to port 443. Through any firewall.

TCP inside TCP repeats what is lost twice; the experiment `wan` measures what that costs.
"""

from dataclasses import replace

from vpns.openconnect import OpenConnect


class OpenConnectTls(OpenConnect):
    title = "OpenConnect (TLS)"
    sign = replace(OpenConnect.sign, marks=("^no-dtls",))  # as the end says that dials
    transport = "tcp"
    ports = "tcp/443"
    note = "TCP inside the tunnel runs over TCP: losses on the WAN are repaired twice"
    dtls = False
    copies_marks = False
    # Each rekey is a new connection: what ocserv does when no rekey-method is named, and the only way with TLS 1.3. In
    # a renegotiation (ssl), GnuTLS on the dialing side takes payload that is under way for an error, and all breaks.
    connected = "CSTP connected"
