"""The device table: 100 MB through ssh as a forecast of what IPsec reaches on this machine."""

from collections.abc import Mapping
from functools import partial
from statistics import geometric_mean

from runner.data.levels import DEVICE, LEVELS, TCP
from runner.design.experiment import Experiment
from runner.design.profile import Profile
from runner.papers.findings import (
    MORE,
    At,
    Data,
    Finding,
    Judgement,
    NotMeasured,
    all_of,
    close,
    on_ipsec,
    ratio_of,
    single,
)
from runner.papers.published import devices
from runner.vpn.plugin import Vpn

RATIO = geometric_mean(device.aes256_mbit_s / device.aes128_mbit_s for device in devices())


def wanted(vpn: Vpn, params: Mapping[str, str], profile: Profile) -> bool:
    """The transfer needs no VPN, and plain IP no forecast."""
    driven = params.get("driver", "") == "" or params["integrity"] != "hmac-sha256"
    return (params["measure"] == "device") == (vpn.name == "none") and driven


def transfer(cipher: str) -> At:
    """The cell of the ssh transfer with this cipher."""
    return At("none", {"measure": "device", "device_cipher": cipher})


def key_length(data: Data) -> Judgement:
    """By ssh, AES-256 has 0.8 to 0.95 of the rate of AES-128; beside it the geometric mean of the page's devices."""
    judge = ratio_of("ssh_rate", transfer("aes-256-cbc"), transfer("aes-128-cbc"), (0.8, 0.95), RATIO)
    return judge(data)


def forecast(vpn: str, cipher: str, data: Data) -> Judgement:
    """What IPsec reaches over what the ssh transfer says."""
    measured = data.blocks("tcp_throughput", vpn, measure="tcp", streams="1", cipher=cipher, integrity="hmac-sha1")
    said = data.blocks("ssh_rate", "none", measure="device", device_cipher=cipher)
    shares = {block: measured[block] / said[block] for block in measured.keys() & said.keys()}
    if not shares:
        raise NotMeasured("IPsec and the ssh transfer were measured in different repetitions")
    return single(shares, close(0.25))


def predicted(vpn: str, data: Data) -> Judgement:
    """The forecast holds with both ciphers."""
    return all_of({cipher: partial(forecast, vpn, cipher, data) for cipher in ("aes-128-cbc", "aes-256-cbc")})


def optimised(data: Data) -> Judgement:
    """The page has assembler in the kernel of routers; here it is the instructions of the CPU."""

    def against(cipher: str) -> Judgement:
        fast, slow = (At("none", {**transfer(cipher).levels, "driver": driver}) for driver in LEVELS["driver"])
        return ratio_of("ssh_rate", fast, slow, MORE)(data)

    return all_of({cipher: partial(against, cipher) for cipher in ("aes-128-cbc", "aes-256-cbc")})


EXPERIMENT = Experiment(
    name="devices",
    question="Does 100 MB through ssh foretell what IPsec reaches on this device?",
    method="dd makes 100 MB of zeros on the gateway, ssh carries them to the near host: 800 Mbit over the seconds, "
    "with AES-128-CBC and AES-256-CBC as on the page, and today's ciphers. Beside it one TCP stream through IPsec "
    "with the same ciphers and HMAC-SHA-1, the page's choice. openssl speed and the kernel's drivers are in the facts. "
    "All of it once more with each driver: with the CPU's instructions, and without.",
    source="the device page, Hardware performance; openssl-speed(1), proc_crypto(5)",
    metrics=("ssh_rate", "tcp_throughput"),
    traffic=(DEVICE, TCP, *(traffic | {"driver": "generic"} for traffic in (DEVICE, TCP))),
    vary={"cipher": ("aes-128-cbc", "aes-256-cbc"), "integrity": ("hmac-sha1", "hmac-sha256")},
    vary_traffic={"device_cipher": LEVELS["device_cipher"], "driver": LEVELS["driver"]},
    only=("none", "ipsec", "ipsec_user"),
    keep=("cipher",),
    wanted=wanted,
    findings=(
        Finding(
            *("forecast", "devices", "Hardware performance", "100 MB through ssh foretells IPsec's speed"),
            on_ipsec("tcp_throughput", predicted),
        ),
        Finding(
            "aes-256", "devices", "the benchmark table", "AES-256 is about an eighth slower than AES-128", key_length
        ),
        Finding("driver", "devices", "IPsec security & speed", "an optimised crypto driver makes it faster", optimised),
    ),
)
