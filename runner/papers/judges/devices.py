"""What the device page predicts, and its judges: rates of ssh transfers, of IPsec and of a service of the gateway,
one over another."""

from contextlib import suppress
from functools import partial
from statistics import geometric_mean

import numpy as np

from runner.papers.claims import LESS, MORE, At, all_of, close, compare, ratio_of
from runner.papers.findings import Blocks, Data, Judgement, NotMeasured, by_repetition
from runner.papers.published import devices
from runner.papers.scales import PLAIN_IP

LOAD = "50000000"  # bit/s, beside the gateway's service
SSH = "ssh from the gateway (OpenSSL, user space)"  # no VPN, and so no plugin
RATIO = geometric_mean(device.aes256_mbit_s / device.aes128_mbit_s for device in devices())
THEIRS = f"the page prints no ratio: its table gives {RATIO:.3g}, computed here"


def transfer(cipher: str) -> At:
    """The cell of the ssh transfer with this cipher."""
    return At("none", {"measure": "device", "device_cipher": cipher})


def key_length(data: Data) -> Judgement:
    """By ssh, AES-256 is slower than AES-128. The page says so of the strongest options, and prints no ratio: the
    number beside ours is computed here from its table, the geometric mean of its devices."""
    judgement = ratio_of("ssh_rate", transfer("aes-256-cbc"), transfer("aes-128-cbc"), LESS)(data).with_systems(SSH)
    return judgement.model_copy(update={"reason": f"{judgement.reason}; {THEIRS}"})


def forecast(vpn: str, cipher: str, data: Data) -> Judgement:
    """IPsec's throughput over the rate of the ssh transfer, which took its turn in the same repetition."""
    measured = data.blocks("tcp_throughput", vpn, measure="tcp", streams="1", cipher=cipher, integrity="hmac-sha1")
    ssh_bps = data.blocks("ssh_rate", "none", measure="device", device_cipher=cipher)
    return data.check_scale(compare(by_repetition(measured), ssh_bps, close(0.25)), vpn, SSH)


def forecasts(vpn: str, data: Data) -> Judgement:
    """The forecast holds with both ciphers."""
    return all_of({cipher: partial(forecast, vpn, cipher, data) for cipher in ("aes-128-cbc", "aes-256-cbc")})


def services(vpn: str, data: Data, load: str) -> Judgement:
    """The share of the gateway's own exchanges that a stream through the VPN leaves, over the share that such a stream
    leaves without a VPN. The page has no number."""

    def rate_left(name: str, **levels: str) -> Blocks:
        idle, loaded = (
            data.blocks(metric, name, measure="service", tunnel_load=load, **levels)
            for metric in ("service_rate", "service_rate_loaded")
        )
        return {block: loaded[block] / idle[block] for block in loaded.keys() & idle.keys()}

    tunnel = rate_left(vpn, cipher="aes-128-cbc", integrity="hmac-sha1")
    return data.check_scale(compare(tunnel, rate_left("none"), LESS), vpn, PLAIN_IP)


def names(vpn: str, data: Data) -> Judgement:
    """The 95th percentile of the gateway's DNS answers beside a stream through the VPN, over that beside a stream
    without one; both streams as fast as they go."""

    def loaded_values(metric: str, name: str, **levels: str) -> Blocks:
        return data.blocks(metric, name, measure="service", tunnel_load="full", **levels)

    def quantiles(name: str, **levels: str) -> str:
        shown = []
        for percent, metric in ((50, "dns_delay_loaded"), (95, "dns_p95_loaded"), (99, "dns_p99_loaded")):
            with suppress(NotMeasured):  # the 99th percentile needs 200 answers
                shown.append(f"p{percent} {np.median([*loaded_values(metric, name, **levels).values()]):.3g} ms")
        lost = np.median([*loaded_values("dns_unanswered_loaded", name, **levels).values()])
        return f"{', '.join(shown)}, {100 * lost:.3g} % unanswered"

    page = {"cipher": "aes-128-cbc", "integrity": "hmac-sha1"}
    judgement = compare(loaded_values("dns_p95_loaded", vpn, **page), loaded_values("dns_p95_loaded", "none"), MORE)
    told = f"beside it {quantiles(vpn, **page)}; beside plain IP {quantiles('none')}"
    return data.check_scale(judgement.model_copy(update={"reason": f"{judgement.reason}; {told}"}), vpn, PLAIN_IP)
