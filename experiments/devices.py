"""The device table: 100 MB through ssh as a forecast of what IPsec reaches on this machine."""

from collections.abc import Mapping
from functools import partial
from statistics import geometric_mean

from runner.experiment import DEVICE, TCP, Experiment, Profile
from runner.findings import At, Data, Finding, Judgement, NotMeasured, all_of, close, ratio_of, single
from runner.plugin import Vpn
from runner.published import devices

RATIO = geometric_mean(device.aes256_mbit_s / device.aes128_mbit_s for device in devices())


def wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """The transfer needs no VPN, and plain IP no forecast."""
    return (params["transport"] == "device") == (vpn.name == "none")


def transfer(cipher: str) -> At:
    return At("none", {"transport": "device", "device_cipher": cipher})


def key_length(data: Data) -> Judgement:
    judge = ratio_of("ssh_rate", transfer("aes-256-cbc"), transfer("aes-128-cbc"), (0.8, 0.95), RATIO)
    return judge(data)


def forecast(vpn: str, cipher: str, data: Data) -> Judgement:
    """What IPsec reaches over what the ssh transfer says."""
    measured = data.blocks("tcp_throughput", vpn, transport="tcp", streams="1", cipher=cipher, integrity="hmac-sha1")
    said = data.blocks("ssh_rate", "none", transport="device", device_cipher=cipher)
    shares = {block: measured[block] / said[block] for block in measured.keys() & said.keys()}
    if not shares:
        raise NotMeasured("IPsec and the ssh transfer were measured in different repetitions")
    return single(shares, close(0.25))


def predicted(data: Data) -> Judgement:
    vpns = [vpn for vpn in ("ipsec", "ipsec_user") if vpn in data.vpns("tcp_throughput")] or ["ipsec"]
    ciphers = ("aes-128-cbc", "aes-256-cbc")
    return all_of({f"{vpn} {cipher}": partial(forecast, vpn, cipher, data) for vpn in vpns for cipher in ciphers})


EXPERIMENT = Experiment(
    name="devices",
    question="Does 100 MB through ssh foretell what IPsec reaches on this device?",
    method="dd makes 100 MB of zeros on the gateway, ssh carries them to the near host: 800 Mbit over the seconds, "
    "with AES-128-CBC and AES-256-CBC as on the page, and today's ciphers. Beside it one TCP stream through IPsec "
    "with the same ciphers and HMAC-SHA-1, the page's choice. openssl speed and the kernel's drivers are in the facts.",
    source="the device page, Hardware performance; openssl-speed(1), proc_crypto(5)",
    metrics=("ssh_rate", "tcp_throughput"),
    traffic=(DEVICE, TCP),
    vary={"cipher": ("aes-128-cbc", "aes-256-cbc"), "integrity": ("hmac-sha1", "hmac-sha256")},
    vary_traffic={"device_cipher": ("aes-128-cbc", "aes-256-cbc", "aes-128-gcm", "aes-256-gcm", "chacha20-poly1305")},
    only=("none", "ipsec", "ipsec_user"),
    keep=("cipher",),
    wanted=wanted,
    findings=(
        Finding("forecast", "devices", "Hardware performance", "100 MB through ssh foretells IPsec's speed", predicted),
        Finding(
            "aes-256", "devices", "the benchmark table", "AES-256 is about an eighth slower than AES-128", key_length
        ),
    ),
)
