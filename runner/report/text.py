"""Numbers and levels as people read them, the same in every rendering. SI prefixes; three digits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from runner.data.levels import WAN_FACTORS, traffic_factors
from runner.data.metric import Metric
from runner.evidence.model import ALL_EQUAL, Ratio, Summary

HUGE = 1000  # a wider interval is only said to be wider than this factor
NONE = "–"


def short(metric: str, metrics: Mapping[str, Metric]) -> str:
    """What a narrow column calls the metric: its short name, else its name."""
    known = metrics.get(metric)
    return (known and known.short) or metric


def lower(title: str) -> str:
    """A metric's title for the middle of a sentence; abbreviations stay in capitals."""
    return title if title[:2].isupper() else title[:1].lower() + title[1:]


def close_brackets(cut: str) -> str:
    """The beginning of a sentence without a bracket that its cut left open."""
    return cut[: cut.rindex("(")].rstrip() if cut.count("(") > cut.count(")") else cut


def beginning(reason: str, most: int) -> str:
    """The first clause of a reason, to be shown where there is no room for all of it: at most so many characters."""
    for end in ("\n", ". ", "; "):
        reason = reason.partition(end)[0]
    first = close_brackets(reason)
    return first if len(first) <= most else f"{close_brackets(first.partition(':')[0][:most])}, the tables say why"


def digits(value: float) -> str:
    """Three digits, and never an exponent for what is large: ``0.0123``, ``341``, ``2660``."""
    return f"{value:.{_digits(value)}f}"


def quantity(value: float, unit: str) -> str:
    """``341 Mbit/s``: one trial's value, which has no spread."""
    scale, prefixed = prefix(value, unit)
    return in_unit(f"{value / scale:.{_decimals(value / scale, unit)}f}", prefixed)


def in_unit(number: str, unit: str) -> str:
    """The number with its unit behind it; of a count and of a share there is none to say."""
    return number if unit == "1" else f"{number} {unit}"


def with_interval(summary: Summary, unit: str, at_least: bool = False) -> str:
    """``341 (325–358) Mbit/s``: median and 95 % interval; says so where there is none, and where it has no width."""
    scale, prefixed = prefix(summary.median, unit)
    equal = summary.method == ALL_EQUAL
    digits = _decimals(summary.median / scale, unit if equal else "")
    centre = f"{'≥ ' * at_least}{summary.median / scale:.{digits}f}"
    if summary.low is None or summary.high is None:
        spread = "no interval"
    elif equal:
        spread = "all equal"
    else:
        ends = f"{summary.low / scale:.{digits}f}–{summary.high / scale:.{digits}f}"
        spread = _factor(summary.low, summary.high) or ends
    return in_unit(f"{centre} ({spread})", prefixed)


def spread(summary: Summary, scale: float) -> str:
    """``325–358``: the 95 % interval in the unit of a column; says so where there is none."""
    if summary.low is None or summary.high is None:
        return "no interval"
    return f"{digits(summary.low / scale)}–{digits(summary.high / scale)}"


def _factor(low: float, high: float) -> str:
    """``×÷ 25`` for an interval that spans more than a factor of ten: its ends would say no more."""
    if not high > 10 * low > 0:
        return ""
    factor = math.sqrt(high / low)
    return f"×÷ {factor:.0f}" if factor < HUGE else f"×÷ >{HUGE}"


def bound_mark(row_at_least: int, baseline_at_least: bool) -> str:
    """The mark of a share that is a bound: ``≥`` where the value is a lower bound, ``≤`` where the baseline is one,
    ``?`` for both."""
    return {(True, False): "≥ ", (False, True): "≤ ", (True, True): "? "}.get((row_at_least > 0, baseline_at_least), "")


def share(ratio: Ratio | None, better: str, bound: str = "") -> str:
    """``12.3 (11.8–12.9) %`` of the baseline for what should be high, ``2.41 (2.30–2.52) ×`` for costs."""
    if ratio is None or ratio.ratio is None:
        return NONE
    scale, unit = (100.0, "%") if better == "higher" else (1.0, "×")
    digits = min(2, _digits(ratio.ratio * scale))
    centre = f"{bound}{ratio.ratio * scale:.{digits}f}"
    if ratio.low is None or ratio.high is None:
        return f"{centre} {unit} (n={ratio.blocks})"  # the median beside it says that there is no interval
    if wide := _factor(ratio.low, ratio.high):
        return f"{centre} ({wide}) {unit}"
    return f"{centre} ({ratio.low * scale:.{digits}f}–{ratio.high * scale:.{digits}f}) {unit}"


def change(ratio: Ratio) -> str:
    """``−8.1 % (−13.0 to −3.0)``: a ratio as the change that it is."""
    if ratio.ratio is None:
        return NONE
    if ratio.low is None or ratio.high is None:
        return f"{_signed_percent(ratio.ratio)} % (no interval)"
    return f"{_signed_percent(ratio.ratio)} % ({_signed_percent(ratio.low)} to {_signed_percent(ratio.high)})"


def percent(value: float | None, digits: int = 1) -> str:
    """``12.3 %`` for a share of 0.123; a dash for None."""
    return NONE if value is None else f"{100 * value:.{digits}f} %"


def duration(seconds: float) -> str:
    """``95 s``, and from two minutes on ``12 min 5 s``."""
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def roughly(seconds: float) -> str:
    """``12 min``, and from two hours on ``3 h``: a time that is an estimate, rounded up to minutes."""
    minutes = math.ceil(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes / 60:.0f} h"


def trials(counts: Mapping[str, int]) -> str:
    """``166 ok, 59 unsupported``; empty where there is none."""
    return ", ".join(f"{number} {status.replace('_', ' ')}" for status, number in counts.items() if number)


NO_ENCRYPTION = "no encryption"


def configuration(levels: Mapping[str, str]) -> str:
    """Tunnel levels in one phrase: ``aes-128-cbc hmac-sha256``, or ``no encryption``."""
    words = []
    if "cipher" in levels:
        words.append(NO_ENCRYPTION if levels["cipher"] == "none" else levels["cipher"])
    if levels.get("integrity", "none") not in ("none", "aead"):
        words.append(levels["integrity"])
    if levels.get("compression", "off") != "off":
        words.append(levels["compression"] + " compression")
    if levels.get("image"):
        words.append(levels["image"])
    return " ".join(words)


NAMES = {"recommended": "as recommended", "comparable": "on equal terms"}


def configuration_name(configuration: str, image: str) -> str:
    """What a named configuration is called: ``as recommended``, with the gateways' software where that is a factor."""
    return NAMES.get(configuration, configuration) + (f", {image}" if image else "")


# The words for levels that would not be understood alone.
PHRASES = {
    "streams": "{} streams",
    "clients": "{} of them",
    "payload_bytes": "{} B",
    "load": "{} load",
    "congestion": "congestion control {}",
    "packet_bytes": "{}-byte packets",
    "fragmentation": "fragmentation: {}",
    "rekey": "rekey: {}",
    "driver": "{} driver",
    "ike": "IKE {}",
    "key_exchange": "key exchange {}",
    "path": "path: {}",
    "gw2_cpu": "gateway 2 at {} of a CPU",
    "device_cipher": "ssh with {}",
    "wan_delay_ms": "{} ms delay",
    "wan_jitter_ms": "{} ms jitter",
    "wan_loss_ratio": "loss ratio {}",
    "wan_queue_ms": "{} ms queue",
    "wan_mtu_bytes": "MTU {} B",
    "underlay": "IPv{}",
}
INNER = {"4": "IPv4 inside", "6": "IPv6 inside", "both": "IPv4 and IPv6 inside"}
INNER["ipv6"] = INNER["6"]  # as it was called
ORDER = ("measure", "streams", "clients", "payload", "direction")


def traffic(levels: Mapping[str, str]) -> str:
    """Traffic levels in one phrase: ``tcp, 1 stream, random, forward``."""
    return ", ".join(_traffic(levels))


def _traffic(levels: Mapping[str, str]) -> list[str]:
    factors = dict.fromkeys([factor for factor in ORDER if factor in levels] + traffic_factors(levels))
    return [_level_words(factor, levels[factor]) for factor in factors]


def wan(levels: Mapping[str, str]) -> str:
    """The levels of the WAN and of what the tunnel joins in one phrase: ``WAN 25 ms delay, 20 Mbit/s, IPv6 inside``;
    empty where none is named."""
    words = [_level_words(factor, levels[factor]) for factor in WAN_FACTORS if factor in levels and factor != "inner"]
    under, inside = f"WAN {', '.join(words)}" if words else "", INNER.get(levels.get("inner", ""), "")
    return ", ".join(filter(None, (under, inside)))


def phrases(params: Mapping[str, str]) -> list[str]:
    """A cell's levels in words: what the tunnel is, what lies under it, and each that runs inside it."""
    return [words for words in (configuration(params), wan(params), *_traffic(params)) if words]


def levels(params: Mapping[str, str]) -> str:
    """The same in one phrase."""
    return ", ".join(phrases(params))


def _level_words(factor: str, level: str) -> str:
    if factor == "ways":
        return {"both": "both ways", "reverse": "from gw2 to gw1"}.get(level, level)
    if factor == "streams" and level == "1":
        return "1 stream"
    if factor == "file_bytes":
        return f"{float(level) / 1e6:g} MB"
    if factor in ("wan_rate_bps", "cost_rate_bps", "line_bps"):
        scale, unit = prefix(float(level), "bit/s")
        return f"{float(level) / scale:g} {unit}"
    if factor not in PHRASES and level.isdigit():  # a number alone says nothing
        return f"{factor} {level}"
    return PHRASES.get(factor, "{}").format(level)


def join_names(names: Sequence[str], word: str = "and") -> str:
    """``a, b and c``."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def experiment_anchor(number: int) -> str:
    """The name that links to the experiment of this number lead to."""
    return f"experiment-{number}"


def count_noun(number: int, noun: str) -> str:
    """``1 trial``, ``2 trials``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


PREFIXES: dict[str, list[tuple[float, str]]] = {
    "bit/s": [(1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")],
    "ms": [(1e3, "s"), (1.0, "ms"), (1e-3, "µs")],
    "s": [(1.0, "s"), (1e-3, "ms")],
    "B": [(2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")],  # memory
}


def prefix(value: float, unit: str) -> tuple[float, str]:
    """The scale and unit in which ``value`` has one to three digits before the point, where there is one."""
    choices = PREFIXES.get(unit, [])
    fitting = [choice for choice in choices if abs(value) >= choice[0] * 0.9995]
    return fitting[0] if fitting else (1.0, unit)


def _digits(value: float) -> int:
    """Decimals for three significant digits; 0.9996 is read as 1.00."""
    return 3 if value == 0 else min(6, max(0, 2 - math.floor(math.log10(abs(value) * 1.0005))))


def _decimals(value: float, unit: str) -> int:
    """As ``_digits``; a count is whole."""
    return 0 if unit == "1" and float(value).is_integer() else _digits(value)


def _signed_percent(ratio: float) -> str:
    return f"{100 * (ratio - 1):+.1f}".replace("-", "−")


def crypto_limit(shares: Mapping[str, Sequence[float]]) -> str:
    """The shares of what OpenSSL encrypts on one core, in a sentence. ``shares``: VPN -> shares. The order is that of
    the names, because a large share is no merit."""
    if not shares:
        return ""
    phrases = []
    for vpn, values in sorted(shares.items()):
        low, high = percent(min(values), 0), percent(max(values), 0)
        phrases.append(f"{vpn} {low if low == high else f'{low} to {high}'}")
    return f"Of what OpenSSL encrypts on one core with the same cipher and HMAC: {', '.join(phrases)}."
