"""OpenVPN over TCP: as openvpn, but the tunnel is one TCP connection. For networks that let nothing else through.

TCP inside TCP repeats what is lost twice; the experiment `wan` measures what that costs. Source: openvpn(8) 2.6.
"""

from collections.abc import Sequence
from dataclasses import replace

from runner.data.levels import Params
from runner.lab.shape.site import Site
from runner.vpn.plugin import Secrets
from vpns.openvpn import OpenVpn


class OpenVpnTcp(OpenVpn):
    title = "OpenVPN (TCP)"
    sign = replace(OpenVpn.sign, marks=(r"^proto tcp",))
    speaks = ""
    transport = "tcp"
    copies_marks = False  # a segment has bytes of many packets
    ports = "tcp/1194"
    hub_and_spokes = False
    note = "TCP inside the tunnel runs over TCP: losses on the WAN are repaired twice"

    def render(self, me: Site, peers: Sequence[Site], params: Params, secrets: Secrets) -> dict[str, str]:
        files = super().render(me, peers, params, secrets)
        for peer in peers:
            path = f"/etc/openvpn/{peer.name}.conf"
            end = "client" if me.number < peer.number else "server"
            # connect-retry: the peer may come up a moment later, and the default is to wait 5 s for it. After a move it
            # refuses for a minute, while it takes its old connection for alive; by default the waits double.
            at_most = " 5" if "roaming" in params else ""
            retry = f"connect-retry 1{at_most}\n" if end == "client" else ""
            for family in "46":
                tcp = f"proto tcp{family}-{end}\n{retry}socket-flags TCP_NODELAY\n"
                files[path] = files[path].replace(f"proto udp{family}\n", tcp)
        return files
