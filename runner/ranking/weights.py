"""How much each metric counts in the ranking: presets for typical users, or the reader's own numbers."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from runner.data.errors import UsageError, require_known
from runner.data.files import from_json, from_toml, read_text
from runner.data.numbers import SAME, real
from runner.ranking.model import Slack, Weights

# The weighted CPU cost is the gateways' at a fixed rate: that of a test at full speed is throughput turned over on
# shared cores. It stands in where a run has no other.
COST, COST_AT_FULL_SPEED = "gateway_cpu_per_gigabyte", "cpu_per_gigabyte"
LEAST, MOST = 1e-6, 1e6  # only proportions matter, and sums of these stay exact enough

# These count where nobody gives weights. A metric that is measured beside them counts when it is given one.
BALANCED = ("tcp_throughput", "udp_throughput", "rtt", "jitter", "setup_time", COST)
PRESETS: dict[str, Weights] = {
    preset.name: preset
    for preset in [
        Weights(name="balanced", values=dict.fromkeys(BALANCED, 1.0)),
        # The OSLV paper's plain case: the attributes of its figure 3 (a to d), "when all … are equally important".
        Weights(name="oslv", values=dict.fromkeys(("overhead_bytes", "tcp_throughput", "rtt", "jitter"), 1.0)),
        # Its "home user interested in maximum bandwidth": downloads are TCP, video calls and games are UDP.
        Weights(name="bandwidth", values={"tcp_throughput": 3, "udp_throughput": 1}),
        # Voice and video: delay and its variation decide; the rate must hold, but is seldom the limit.
        Weights(name="realtime", values={"rtt": 2, "jitter": 2, "udp_throughput": 1}),
        # Terminals, web pages, connections that come and go: delay first, then set-up and page load.
        Weights(name="interactive", values={"rtt": 3, "setup_time": 1, "tcp_throughput": 1}),
        # What everything carries, also what forwards TCP connections only.
        Weights(name="tcp", values=dict.fromkeys(("tcp_throughput", "rtt", "setup_time", COST), 1.0)),
        # The four properties of the OSLV paper's Table 4 (authentication in two ways), and what a probe cannot see.
        Weights(
            name="security",
            values={
                **dict.fromkeys(("confidentiality", "data_integrity", "anti_replay"), 2),
                **dict.fromkeys(("peer_authentication", "key_authentication", "fail_closed"), 1),
                "declared_strength": 2,
            },
        ),
        # Who has to set it up and keep it: little to write and to type, and little more for another site.
        Weights(
            name="operations",
            values={
                **dict.fromkeys(("setup_lines", "setup_commands", "setup_secrets", "cipher_choice"), 1),
                "scaling_effort": 2,
            },
        ),
    ]
}
# What users call a metric, where its name has another word.
CALLED = {
    "rtt": "round-trip time latency delay ping",
    "tcp_throughput": "tcp bandwidth speed throughput",
    "udp_throughput": "udp",
    "setup_time": "connect",
    COST: "cpu load",
}
FORMS = f"{', '.join(PRESETS)}, a .toml or .json file of metric = weight, or metric=weight,metric=weight"


def parse_weights(text: str, known: Collection[str], measured: Collection[str] | None = None) -> Weights:
    """The weights that ``text`` names: ``PRESET | FILE | metric=weight,…``.

    ``known`` are the metrics that there are, ``measured`` those that the run has; None leaves that check out. Raises
    UsageError for anything malformed, negative, not finite, all zero, of an unknown metric, or not measured.
    """
    if text in PRESETS:
        weights = of_run(PRESETS[text], measured if measured is not None else known)
    elif text.endswith((".toml", ".json")):
        weights = _check(text, _read(Path(text)), known, measured)
    elif "=" in text:
        weights = _check(text, _pairs(text), known, measured)
    elif text in known:
        raise UsageError(f"{text!r} is a metric, and a metric needs its weight: {text}=1. Weights are: {FORMS}")
    else:
        require_known("weights", text, list(PRESETS))
    absent = sorted(weights.counted_metrics.keys() - set(measured)) if measured is not None else []
    if measured is not None and absent:
        have = ", ".join(sorted(measured)) or "none"
        raise UsageError(f"weights {text!r}: this run does not measure {', '.join(absent)} (it measures: {have})")
    return weights


def default_weights(measured: Collection[str]) -> Weights:
    """``balanced`` over the measured metrics, for a report without given weights."""
    balanced = of_run(PRESETS["balanced"], measured).values
    return Weights(
        name="balanced", values={metric: weight for metric, weight in balanced.items() if metric in measured}
    )


def of_run(preset: Weights, measured: Collection[str]) -> Weights:
    """The preset, with the one of the CPU cost metrics that was ``measured``."""
    if COST in measured or COST_AT_FULL_SPEED not in measured:
        return preset
    values = {COST_AT_FULL_SPEED if metric == COST else metric: weight for metric, weight in preset.values.items()}
    return Weights(name=preset.name, values=values)


def slack(ranks: Mapping[str, Mapping[str, float]], weights: Weights) -> list[Slack]:
    """The slack of each counted weight, exact: Σ weight·rank is linear in each weight, and the ranks stay.

    ``ranks``: VPN -> metric -> rank, with every counted metric. Empty for fewer than two VPNs, and where one
    metric alone counts.
    """
    counted = weights.counted_metrics
    if len(ranks) < 2 or len(counted) < 2:
        return []
    slacks = []
    for metric, weight in counted.items():
        rest = {vpn: _without(metric, own, counted) for vpn, own in ranks.items()}

        def leaders(at: float, metric: str = metric, rest: Mapping[str, float] = rest) -> list[str]:
            sums = {vpn: rest[vpn] + at * own[metric] for vpn, own in ranks.items()}
            return sorted(vpn for vpn, total in sums.items() if total < min(sums.values()) + SAME)

        winners = set(leaders(weight))
        crossings = {
            (rest[b] - rest[a]) / (ranks[a][metric] - ranks[b][metric])
            for a in winners
            for b in ranks.keys() - winners
            if ranks[a][metric] != ranks[b][metric]
        }
        # Another leads from a crossing on if it does so halfway to the next one.
        up = [*sorted(at for at in crossings if at > weight), math.inf]
        down = [*sorted((at for at in crossings if 0 < at < weight), reverse=True), 0.0]
        higher = [
            (at, leaders((at + next_at) / 2 if next_at < math.inf else 2 * at + 1)) for at, next_at in pairwise(up)
        ]
        lower = [(at, leaders((at + next_at) / 2)) for at, next_at in pairwise(down)]
        high, above = next(((at, led) for at, led in higher if not winners & set(led)), (None, []))
        low, below = next(((at, led) for at, led in lower if not winners & set(led)), (0.0, []))
        slacks.append(Slack(metric=metric, weight=weight, low=low, high=high, below=below, above=above))
    return slacks


def _without(metric: str, own: Mapping[str, float], counted: Mapping[str, float]) -> float:
    """Σ weight·rank over the other metrics, added in the order of the report's page (``sum`` compensates since Python
    3.12)."""
    total = 0.0
    for other, weight in counted.items():
        if other != metric:
            total += weight * own[other]
    return total


def _pairs(text: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for pair in text.split(","):
        metric, equals, weight = (part.strip() for part in pair.partition("="))
        if not equals or not metric:
            raise UsageError(f"weights {text!r}: {pair.strip()!r} is not metric=weight. Weights are: {FORMS}")
        if metric in values:
            raise UsageError(f"weights {text!r}: {metric} is given twice")
        try:
            values[metric] = float(weight)
        except ValueError:
            raise UsageError(f"weights {text!r}: {weight!r} is not a number, for {metric}") from None
    return values


def _read(path: Path) -> dict[str, Any]:
    try:
        text = read_text(path)
        data = from_toml(text) if path.suffix == ".toml" else from_json(text)
    except UsageError as error:
        raise UsageError(f"weights file {error}") from None
    except ValueError as error:
        raise UsageError(f"weights file {path} cannot be read: {error}. It holds lines of metric = weight") from None
    if isinstance(data, dict) and isinstance(data.get("weights"), dict):
        data = data["weights"]
    if not isinstance(data, dict):
        raise UsageError(f"weights file {path}: expected a table of metric = weight")
    return data


def _check(name: str, values: Mapping[str, Any], known: Collection[str], measured: Collection[str] | None) -> Weights:
    checked = dict[str, float]()
    for metric, weight in values.items():
        if metric not in known:
            where = "in this run" if measured is not None else ""
            require_known("metric", metric, sorted(measured or known), CALLED, where)
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise UsageError(f"weights {name!r}: {weight!r} is not a number, for {metric}")
        checked[metric] = real(weight)
        if checked[metric] != 0 and not LEAST <= checked[metric] <= MOST:
            raise UsageError(
                f"weights {name!r}: the weight of {metric} is {checked[metric]:g}; it must be finite, zero or more: "
                f"0, or from {LEAST:g} to {MOST:g}"
            )
    if not any(checked.values()):
        raise UsageError(f"weights {name!r}: all weights are zero, so nothing can be ranked")
    return Weights(name=name, values=checked)
