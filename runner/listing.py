"""What there is, as tables: for ``vpneval list``."""

from __future__ import annotations

from runner.experiment import LEVELS, PROFILES, RANGES, experiment_names, load_experiment
from runner.metrics import METRICS
from runner.plugin import Vpn, load_vpn, vpn_names
from runner.wan import FACTORS as WAN_RANGES
from runner.weights import PRESETS


def tables(whole: bool) -> dict[str, list[dict[str, str]]]:
    """Name of the listing -> its rows, column -> text. ``whole``: every level of every VPN, instead of their number."""
    return {
        "vpns": [_vpn_row(load_vpn(name), whole) for name in vpn_names()],
        "experiments": [
            {"name": e.name, "question": e.question, "source": e.source}
            for e in map(load_experiment, experiment_names())
        ],
        "metrics": [
            {"name": m.name, "unit": m.unit, "better": m.better, "definition": m.definition, "source": m.source}
            for m in METRICS.values()
        ],
        "presets": [
            {"name": name, "weights": ", ".join(f"{metric} {value:g}" for metric, value in preset.values.items())}
            for name, preset in PRESETS.items()
        ],
        "factors": [{"name": name, "levels": _levels(name)} for name in LEVELS],
        "profiles": [{"name": name, "note": profile.note} for name, profile in PROFILES.items()],
    }


def _levels(factor: str) -> str:
    low, high = RANGES.get(factor) or WAN_RANGES.get(factor, ("", None, None))[1:]
    return ", ".join(LEVELS[factor]) + ("" if low is None else f" (or any from {low:.10g} to {high:.10g})")


def _vpn_row(vpn: Vpn, whole: bool) -> dict[str, str]:
    row = {
        "name": vpn.name,
        "title": vpn.title,
        "data path": vpn.dataplane,
        "carried in": vpn.transport,
        "carries": vpn.carries,
        "ciphers": ", ".join(vpn.ciphers),
        "compression": ", ".join(vpn.compressions),
    }
    return row if whole else row | {"ciphers": str(len(vpn.ciphers)) if vpn.ciphers != {"none": "none"} else "none"}
