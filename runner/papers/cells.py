"""The cells of the papers' tests, which their judges and their tables share."""

from runner.data.levels import TCP
from runner.papers.findings import Blocks, Data, NotMeasured
from runner.papers.published import paper

# The thesis' plain test, of iPerf: how long one takes unless told otherwise, and the thesis tells of nothing else.
PLAIN = TCP | {"cipher": "aes-128-cbc", "compression": "off"}
IPERFS_S = 10
# The OSLV paper's link, and what it divides all overheads by (figure 3a).
LINK_BPS = paper("oslv")["link"] * 1e6
LEAST_OVERHEAD_BYTES = paper("oslv")["overhead.least"]
WAN = {"wan_rate_bps": f"{LINK_BPS:.0f}"}
LONG, SHORT = ({"measure": "overhead", "packet_bytes": length} for length in ("512", "64"))
TRAFFIC = {"overhead_bytes": LONG, "tcp_throughput": TCP, "rtt": {"measure": "idle"}, "jitter": {"measure": "udp"}}


def compressing(vpn: str, payload: str) -> str:
    """The level of compression by which a VPN's test with this payload is judged: on. OpenVPN's LZO that adapts, its
    default then, is how §5.4 explains the result with compressed data. Zeros are judged with LZO always on: they take
    turns with random data in one tunnel, after which LZO that adapts leaves off for a minute."""
    return "adaptive" if (vpn, payload) == ("openvpn", "random") else "on"


def metric_of(data: Data, metric: str, vpn: str, cipher: str = "", **more: str) -> Blocks:
    """Block -> ``metric`` of a VPN at its comparable levels, or with another cipher, on the shaped link."""
    if vpn not in data.run.vpns:
        raise NotMeasured(f"{vpn} is not in this run")
    levels = data.run.vpns[vpn].configurations["comparable"]
    tunnel = {"cipher": cipher or levels["cipher"], "integrity": levels["integrity"]}
    return data.blocks(metric, vpn, **(WAN | tunnel | TRAFFIC[metric] | more))
