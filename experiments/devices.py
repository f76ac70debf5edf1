"""The device table: 100 MB through ssh as a forecast of what IPsec reaches on this machine."""

from collections.abc import Mapping

from runner.design.experiment import ALL, Experiment, measuring
from runner.design.profile import Profile
from runner.vpn.plugin import Vpn


def wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """The transfer needs no VPN, and plain IP no forecast."""
    driven = params.get("driver", "") == "" or params["integrity"] != "hmac-sha256"
    return (params["measure"] == "device") == (vpn.name == "none") and driven


EXPERIMENT = Experiment(
    name="devices",
    question="Does 100 MB through ssh predict the throughput of IPsec on this device?",
    method="dd makes 100 MB of zeros on the gateway, and ssh carries them to the near host. The result is 800 "
    "Mbit divided by the seconds, with AES-128-CBC and AES-256-CBC as on the page, and with today's "
    "ciphers. For comparison, one TCP stream goes through IPsec with the same ciphers and HMAC-SHA-1, "
    "which the page uses. The facts of the run have openssl speed and the kernel's drivers. All of it is "
    "measured with and without the CPU's crypto instructions.",
    source="the device page, Hardware performance; openssl-speed(1), proc_crypto(5)",
    metrics=("ssh_rate", "tcp_throughput"),
    traffic=(
        measuring("device"),
        measuring("tcp"),
        *(traffic | {"driver": "generic"} for traffic in (measuring("device"), measuring("tcp"))),
    ),
    vary={"cipher": ("aes-128-cbc", "aes-256-cbc"), "integrity": ("hmac-sha1", "hmac-sha256")},
    vary_traffic={"device_cipher": ALL, "driver": ALL},
    only=("none", "ipsec", "ipsec_user"),
    keep=("cipher",),
    wanted=wanted,
)
