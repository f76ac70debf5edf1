"""What the device page foretells, and its judges: rates of ssh transfers and of IPsec, one over another."""

from functools import partial
from statistics import geometric_mean

from runner.data.levels import LEVELS
from runner.papers.claims import LESS, MORE, At, all_of, apart, close, on_ipsec, ratio_of
from runner.papers.findings import Data, Finding, Judgement, NotMeasured
from runner.papers.published import devices

RATIO = geometric_mean(device.aes256_mbit_s / device.aes128_mbit_s for device in devices())


def transfer(cipher: str) -> At:
    """The cell of the ssh transfer with this cipher."""
    return At("none", {"measure": "device", "device_cipher": cipher})


def key_length(data: Data) -> Judgement:
    """By ssh, AES-256 is slower than AES-128. The page says so of the strongest options; the ratio beside it, 0.87, is
    computed from its table: the geometric mean of its devices."""
    return ratio_of("ssh_rate", transfer("aes-256-cbc"), transfer("aes-128-cbc"), LESS, RATIO)(data)


def forecast(vpn: str, cipher: str, data: Data) -> Judgement:
    """What IPsec reaches over what the ssh transfer says, which took no turns with it."""
    measured = data.blocks("tcp_throughput", vpn, measure="tcp", streams="1", cipher=cipher, integrity="hmac-sha1")
    said = data.blocks("ssh_rate", "none", measure="device", device_cipher=cipher)
    return apart(measured, said, close(0.25)).of(vpn, "none")


def predicted(vpn: str, data: Data) -> Judgement:
    """The forecast holds with both ciphers."""
    return all_of({cipher: partial(forecast, vpn, cipher, data) for cipher in ("aes-128-cbc", "aes-256-cbc")})


def optimised(data: Data) -> Judgement:
    """The page has assembler in the kernel of routers; here it is the instructions of the CPU."""

    def against(cipher: str) -> Judgement:
        fast, slow = (At("none", {**transfer(cipher).levels, "driver": driver}) for driver in LEVELS["driver"])
        return ratio_of("ssh_rate", fast, slow, MORE)(data)

    return all_of({cipher: partial(against, cipher) for cipher in ("aes-128-cbc", "aes-256-cbc")})


def services(data: Data) -> Judgement:
    """A service of the gateway itself, as its web server, while the tunnel is loaded: no instrument measures one."""
    raise NotMeasured("open: no instrument measures a service of the gateway beside the tunnel's load")


FINDINGS = (
    Finding(
        *("forecast", "devices", "Hardware performance", "100 MB through ssh foretells IPsec's speed"),
        on_ipsec(predicted),
    ),
    Finding(
        *("aes-256", "devices", "IPsec security & speed; the benchmark table", "AES-256 costs speed against AES-128"),
        key_length,
    ),
    Finding("driver", "devices", "Tuning crypto providers", "an optimised crypto driver makes it faster", optimised),
    Finding("services", "devices", "Hardware performance", "a busy VPN harms the router's other services", services),
)
