"""What there is, as tables: for ``vpneval list``."""

from __future__ import annotations

import json
from dataclasses import asdict

from runner.catalogue import GROUPS, experiment_names, factors, load_experiment, load_vpn, metrics, vpn_names
from runner.data.levels import SHARES, UPLINK, Levels
from runner.data.shipped import shipped
from runner.data.wan import FACTORS as WAN_RANGES
from runner.design.profile import PROFILES
from runner.ranking.weights import PRESETS
from runner.vpn.declared import UNDECLARED
from runner.vpn.plugin import Vpn

# Systems of the papers that nobody can build any more, each with its citation and the living system of its class.
EXTINCT = json.loads((shipped("published") / "extinct.json").read_text())


def tables(whole: bool) -> dict[str, list[dict[str, str]]]:
    """Name of the listing -> its rows, column -> text. ``whole``: all that is known, also what
    80 columns have no room for: every level of every VPN, what it carries and declares, sources."""
    return {
        "vpns": [_vpn_row(load_vpn(name), whole) for name in vpn_names()],
        "extinct": [
            {**system, "source": f"{EXTINCT['source']}, tables 1, 4, 5"} if whole else _few(system)
            for system in EXTINCT["systems"]
        ],
        "experiments": [
            {"name": e.name, "question": e.question} | ({"source": e.source} if whole else {})
            for e in map(load_experiment, experiment_names())
        ]
        + [
            {"name": name, "question": f"all of: {', '.join(members)}"} | ({"source": ""} if whole else {})
            for name, members in GROUPS.items()
        ],
        "metrics": [
            {"name": m.name, "unit": m.unit, "better": m.better, "definition": m.definition}
            | ({"source": m.source} if whole else {})
            for m in metrics().values()
        ],
        "presets": [
            {"name": name, "weights": ", ".join(f"{metric} {value:g}" for metric, value in preset.values.items())}
            for name, preset in PRESETS.items()
        ],
        "factors": [{"name": name, "levels": _levels(name, levels)} for name, levels in factors().items()],
        "profiles": [{"name": name, "note": profile.note} for name, profile in PROFILES.items()],
    }


def _levels(factor: str, levels: Levels) -> str:
    if factor == UPLINK:
        return "the lines that the inventory of a site lab names, [uplink.NAME]"
    low, high = levels.range or SHARES.get(factor) or WAN_RANGES.get(factor, ("", None, None))[1:]
    return ", ".join(levels.named) + ("" if low is None else f" (or any from {low:.10g} to {high:.10g})")


def _few(system: dict[str, str]) -> dict[str, str]:
    """What of an extinct system fits a terminal; ``--json`` has the rest."""
    return {name: system[name] for name in ("name", "class", "transport", "ciphers", "effort", "living")}


def _declared(vpn: Vpn) -> dict[str, str]:
    """What the plugin declares of its security and abilities (runner/vpn/declared.py), as texts."""
    if vpn.declared is UNDECLARED:
        return {}
    return {
        name: ", ".join(value)
        if isinstance(value, tuple)
        else ("yes" if value else "no")
        if value in (True, False)
        else value
        for part in (asdict(vpn.declared.security), asdict(vpn.declared.abilities))
        for name, value in part.items()
    }


def _vpn_row(vpn: Vpn, whole: bool) -> dict[str, str]:
    if whole:
        return {
            "name": vpn.name,
            "title": vpn.title,
            "data path": vpn.dataplane,
            "carried in": vpn.transport,
            "carries": vpn.carries,
            "ciphers": ", ".join(vpn.offers.ciphers),
            "compression": ", ".join(vpn.offers.compressions),
        } | _declared(vpn)
    return {
        "name": vpn.name,
        "data path": vpn.dataplane,
        "carried in": vpn.transport,
        "ciphers": str(len(vpn.offers.ciphers)) if vpn.offers.ciphers != {"none": "none"} else "none",
        "compression": ", ".join(vpn.offers.compressions).removeprefix("off, "),
        "title": vpn.title,
    }
