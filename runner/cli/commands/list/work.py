"""What there is, as tables: for ``vpneval list``."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from runner.catalogue import (
    GROUPS,
    experiment_names,
    factors,
    load_experiment,
    load_vpn,
    metrics,
    record_of,
    version_names,
    vpn_names,
)
from runner.choice.musts import WORDS, states, words_of
from runner.data.levels import OWN_VERSION, SHARES, UPLINK, VERSION, Levels
from runner.data.shipped import shipped_folder
from runner.data.shipped_runs import shipped_runs
from runner.data.wan import FACTORS as WAN_RANGES
from runner.design.profile import PROFILES
from runner.lab.names import DEFAULT_IMAGE, SUITES
from runner.lab.places.modules import absent_here
from runner.lab.software import layers
from runner.lab.software.image import packages_of
from runner.ranking.weights import PRESETS
from runner.vpn.declared import UNDECLARED
from runner.vpn.plugin import Vpn

NO_FAMILY = "–"
# Systems of the papers that nobody can build any more, each with its citation and the living system of its class.
EXTINCT = json.loads((shipped_folder("published") / "extinct.json").read_text())
# VPNs of today whose software no layer can be built of, each with the reason.
ABSENT = json.loads((shipped_folder("layers") / "absent.json").read_text())


def tables(whole: bool) -> dict[str, list[dict[str, str]]]:
    """Name of the listing -> its rows, column -> text. ``whole``: all that is known, also what
    80 columns have no room for: every level of every VPN, what it carries and declares, sources."""
    return {
        "vpns": vpn_rows([load_vpn(name) for name in [*vpn_names(), *version_names()]], whole),
        "extinct": [
            {**system, "source": f"{EXTINCT['source']}, tables 1, 4, 5"} if whole else _few(system)
            for system in EXTINCT["systems"]
        ],
        "absent": ABSENT,
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
    if factor == VERSION:
        return f"{OWN_VERSION} (the image's own), or what follows an @ in `vpneval list vpns`"
    low, high = levels.range or SHARES.get(factor) or WAN_RANGES.get(factor, ("", None, None))[1:]
    return ", ".join(levels.named) + ("" if low is None else f" (or any from {low:.10g} to {high:.10g})")


def _few(system: dict[str, str]) -> dict[str, str]:
    """What of an extinct system fits a terminal; ``--json`` has the rest."""
    return {name: system[name] for name in ("name", "class", "transport", "ciphers", "effort", "living")}


def _declared_texts(vpn: Vpn) -> dict[str, str]:
    """What the plugin declares of its security and abilities (runner/vpn/declared.py), as texts."""
    if vpn.declared is UNDECLARED:
        return {}
    parts = asdict(vpn.declared.security) | asdict(vpn.declared.abilities)
    parts["maintained"] = vpn.declared.security.maintained.words
    return {name: _in_words(value) for name, value in parts.items()}


def _in_words(value: bool | str | tuple[str, ...] | dict[str, str]) -> str:
    """A declared value as a text."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else ", ".join(value.values() if isinstance(value, dict) else value)


def vpn_rows(vpns: Sequence[Vpn], whole: bool) -> list[dict[str, str]]:
    """The VPNs by family, those without one last: what makes each run here, and how many musts it has in which word.
    ``whole``: in their own order, with all that is known of each."""
    run, trials = shipped_runs()[0]
    asked = run.model_copy(update={"vpns": {vpn.name: record_of(vpn) for vpn in vpns}})
    known = words_of(states(asked, trials, shipped_runs()[1:]))
    absent = absent_here(module for vpn in vpns for module in vpn.modules.split())
    rows = []
    by_family = sorted(vpns, key=lambda vpn: (not vpn.family, vpn.family.lower(), vpn.name))
    for vpn in vpns if whole else by_family:
        words = known[vpn.name]
        row = {"family": vpn.family or NO_FAMILY, "name": vpn.name, "here": what_it_needs(vpn, absent)}
        if whole:
            row |= _all_of(vpn) | {f"must {must}": word for must, word in words.items()}
        else:
            row |= {word: str(list(words.values()).count(word)) for word in reversed(WORDS)}
        rows.append(row)
    return rows


def what_it_needs(vpn: Vpn, absent: Mapping[str, bool]) -> str:
    """What makes the VPN run on this machine; ``yes`` where nothing is missing that can be seen without a lab.
    ``absent``: modules that the kernel does not show -> whether it is sure to lack them; else ``doctor`` tells."""
    if lacks := [module for module in vpn.modules.split() if module in absent]:
        return f"{'kernel' if all(absent[module] for module in lacks) else 'doctor'}: {' '.join(lacks)}"
    if layer := vpn.software.layer:
        return "yes" if layers.locate(layer, DEFAULT_IMAGE).exists() else f"layer {layer}"
    known = {suite: packages for suite in SUITES if (packages := packages_of(suite)) is not None}
    if able := [suite for suite, packages in known.items() if vpn.software.is_in(packages)]:
        return "yes" if able[0] == DEFAULT_IMAGE else f"yes, in {SUITES[able[0]]}"
    return next((f"image {suite}" for suite in SUITES if suite not in known), "no package")


def _all_of(vpn: Vpn) -> dict[str, str]:
    return {
        "title": vpn.title,
        "data path": vpn.dataplane,
        "carried in": vpn.transport,
        "carries": vpn.carries,
        "ciphers": ", ".join(vpn.offers.ciphers),
        "compression": ", ".join(vpn.offers.compressions),
    } | _declared_texts(vpn)
