"""The device table: 100 MB through ssh as a forecast of what IPsec reaches on this machine."""

from collections.abc import Mapping

from runner.design.experiment import ALL, Experiment, measuring
from runner.design.profile import Profile
from runner.papers.judges.devices import LOAD
from runner.vpn.plugin import Vpn


def is_wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """The transfer needs no VPN. Plain IP shows both ways what the link carries, and only the page's ciphers need both
    drivers. The service stands beside one tunnel, and beside none."""
    if params.get("device_cipher", "").endswith("-ctr") and "driver" in params:
        return False
    if vpn.name == "none" and params["measure"] == "tcp":
        return "driver" not in params
    if params.get("direction") == "reverse":
        return False
    if params["measure"] == "service":
        return vpn.name == "none" or (params["cipher"], params["integrity"]) == ("aes-128-cbc", "hmac-sha1")
    if params["integrity"] == "hmac-md5" and (params["cipher"] != "aes-128-cbc" or "driver" in params):
        return False
    driven = params.get("driver", "") == "" or params["integrity"] != "hmac-sha256"
    return (params["measure"] == "device") == (vpn.name == "none") and driven


EXPERIMENT = Experiment(
    name="devices",
    question="Does 100 MB through ssh predict the throughput of IPsec on this device, and does the VPN's load harm the "
    "device's other services?",
    method="dd makes 100 MB of zeros on the gateway, and ssh carries them to the near host. The result is 800 "
    "Mbit divided by the seconds, with AES-128-CBC and AES-256-CBC as on the page, and with today's "
    "ciphers. One TCP stream each way without a VPN shows what the link carries. For comparison, one TCP stream goes "
    "through IPsec with the same ciphers and HMAC-SHA-1 (the page names no integrity for its table). The facts of the "
    "run have openssl speed and the kernel's drivers. All of it is measured with and without the CPU's crypto "
    "instructions. The near host also asks a web server and a DNS server on its gateway, idle, and while the tunnel "
    "carries a TCP stream of 50 Mbit/s, or one as fast as it goes; and the same without a VPN.",
    source="the device page, Hardware performance; openssl-speed(1), proc_crypto(5)",
    metrics=(
        "ssh_rate",
        "tcp_throughput",
        "service_rate",
        "service_rate_loaded",
        "service_delay",
        "service_delay_loaded",
        *("dns_delay", "dns_delay_loaded", "dns_p95_loaded", "dns_p99_loaded", "dns_unanswered_loaded"),
    ),
    traffic=(
        measuring("device"),
        measuring("tcp"),
        measuring("tcp", direction="reverse"),
        *(traffic | {"driver": "generic"} for traffic in (measuring("device"), measuring("tcp"))),
        *(measuring("service", tunnel_load=load) for load in (LOAD, "full")),
    ),
    vary={"cipher": ("aes-128-cbc", "aes-256-cbc"), "integrity": ("hmac-sha1", "hmac-sha256", "hmac-md5")},
    vary_traffic={"device_cipher": ALL, "driver": ALL},
    only=("none", "ipsec", "ipsec_user"),
    keep=("cipher",),
    wanted=is_wanted,
)
