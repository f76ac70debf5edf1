"""Finds VPNs, instruments, experiments and questions by name.

Each is a file of the tree, or anywhere: ``./mine.py``. No other module imports ``vpns`` and ``experiments``.
"""

from __future__ import annotations

import hashlib
import importlib
import pkgutil
import sys
from collections.abc import Callable, Sequence
from functools import cache, partial
from pathlib import Path

from runner.data import irregular, store
from runner.data.errors import UsageError, require_known
from runner.data.levels import LEVELS, SHARES, UPLINK, VERSION, Levels
from runner.data.metric import Metric
from runner.data.numbers import number, real
from runner.data.trials import Run, Trial, VpnRecord
from runner.data.wan import FACTORS as WAN_RANGES
from runner.data.wan import in_range
from runner.design.experiment import Experiment
from runner.design.loading import blame_file, classes_in, import_file, is_path, last_class
from runner.instruments.instrument import Instrument
from runner.vpn.guard import files_of, guard, in_words
from runner.vpn.plugin import Vpn, with_version


def vpn_names() -> list[str]:
    """The names of the plugins in vpns/, sorted."""
    import vpns

    return sorted(module.name for module in pkgutil.iter_modules(vpns.__path__) if module.name[0] != "_")


def version_names() -> list[str]:
    """The names of the plugins' versions beside the image's own, VPN@LEVEL."""
    return [f"{name}@{level}" for name in vpn_names() for level in load_vpn(name).versions]


def load_vpn(name: str) -> Vpn:
    """The plugin ``name``: a file of vpns/, or a path to a file outside the tree (``./mine.py``); or one of its
    versions (``nebula@1.10``).

    Raises UsageError with the near matches for an unknown name, and for a file that is not a plugin, or is several.
    """
    plain, at, level = name.rpartition("@")
    if at and not name.endswith(".py"):
        if not (versions := load_vpn(plain).versions):
            raise UsageError(f"{plain} has one version only, that of the image: leave @{level} out")
        require_known(f"version of {plain}", level, [*versions])
        return load_vpn_as(plain, partial(with_version, level=level))
    if is_path("plugin", name):
        module, stem = import_file("plugin", name), Path(name).stem
    else:
        if name not in vpn_names():
            require_known("VPN", name, vpn_names(), {known: load_vpn(known).title for known in vpn_names()})
        module, stem = importlib.import_module(f"vpns.{name}"), name
    kind = last_class(name, classes_in(module, Vpn), "runner.vpn.plugin.Vpn")
    kind.name = stem
    return make_plugin(name, kind)


def load_vpn_as(name: str, change: Callable[[type[Vpn]], type[Vpn]]) -> Vpn:
    """The plugin ``name`` as another class of it."""
    return make_plugin(name, change(type(load_vpn(name))))


def instruments() -> dict[str, Instrument]:
    """Every instrument by its name, which is the level of the factor ``measure``: those of the tree, then the added
    ones."""
    return {**_of_the_tree(), **_ADDED}


def add_instrument(path: str) -> Instrument:
    """Add the instrument in the file ``path`` to the catalogue, for this process.

    Raises UsageError for a file that is not an instrument, an instrument or metric with a name that is taken, and a
    factor whose levels differ from those of another instrument.
    """
    if not is_path("instrument", path):
        raise UsageError(f"an instrument from outside the tree is a file whose name ends in .py, not {path}")
    kinds = classes_in(import_file("instrument", path), Instrument)
    made = make_instrument(path, last_class(path, kinds, "runner.instruments.instrument.Instrument"))
    others = {name: instrument for name, instrument in instruments().items() if _FILES.get(name) != Path(path)}
    if made.name in others:
        raise UsageError(
            f"instrument {path} is called {made.name}, and another instrument has that name. Choose another name"
        )
    for metric in made.metrics:
        if taken := [
            instrument.name for instrument in others.values() if metric.name in {own.name for own in instrument.metrics}
        ]:
            raise UsageError(f"instrument {path}: {metric.name} is a metric of {taken[0]}; choose another name")
    for factor, levels in made.factors.items():
        if (there := factors().get(factor, levels)) != levels:
            raise UsageError(f"instrument {path}: the factor {factor} is known with other levels: {there.named}")
    _ADDED[made.name], _FILES[made.name] = made, Path(path)
    return made


_ADDED: dict[str, Instrument] = {}
_FILES: dict[str, Path] = {}  # of those


def describe_fault(instrument: Instrument, broken: BaseException) -> str:
    """A sentence on an exception that an instrument should not have raised, with the line of its file."""
    file = _FILES.get(instrument.name) or Path(sys.modules[type(instrument).__module__].__file__ or "")
    return f"the instrument {instrument.name} is broken: {file.name}, {in_words(broken, [file])}"


def make_instrument(path: str, kind: type[Instrument]) -> Instrument:
    """The instrument of a file. Raises UsageError for any error that can be seen in it."""
    lacks = [what for what in ("name", "metrics") if not hasattr(kind, what)] + sorted(kind.__abstractmethods__)
    if lacks:
        raise UsageError(f"instrument {path} is not finished: {kind.__name__} lacks {', '.join(lacks)}")
    with blame_file(f"instrument {path} cannot be made", [Path(path)]):
        made = kind()
    if not isinstance(made.metrics, tuple) or not all(isinstance(metric, Metric) for metric in made.metrics):
        raise UsageError(f"instrument {path}: metrics must be a tuple of Metric, with a comma after a single one")
    return made


@cache
def _of_the_tree() -> dict[str, Instrument]:
    by_name = {}
    for folder in ("traffic", "failures", "security", "path", "operator"):
        package = importlib.import_module(f"runner.instruments.{folder}")
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            for kind in classes_in(importlib.import_module(module.name), Instrument):
                if hasattr(kind, "name"):  # not what several instruments have in common
                    by_name[kind.name] = kind()
    return by_name


def metrics() -> dict[str, Metric]:
    """Every metric of every instrument, by its name."""
    return {
        metric.name: metric.model_copy(update={"measure": instrument.name})
        for instrument in instruments().values()
        for metric in instrument.metrics
    }


def read_run(path: Path) -> Run:
    """run.json as data, as ``runner.data.store`` reads it; what an older run does not tell of its metrics is as it is
    now."""
    return store.read_run(path, metrics_ever)


def load_run(folder: Path) -> tuple[Run, list[Trial]]:
    """A run folder as data, as ``runner.data.store`` reads it, with its metrics as in ``read_run``."""
    return store.load_run(folder, today=metrics_ever)


def load_told(folder: Path) -> tuple[Run, list[Trial], list[str]]:
    """The same, with sentences on what its files lack and what they have twice."""
    return irregular.load_told(folder, metrics_ever)


def metrics_ever() -> dict[str, Metric]:
    """The metrics that there are, and those that older runs have beside them."""
    retired = (metric for instrument in instruments().values() for metric in instrument.retired)
    return metrics() | {metric.name: metric for metric in retired}


def factors() -> dict[str, Levels]:
    """Every factor that --set takes, with its levels: the tunnel's and the WAN's, then the instruments'."""
    known = {factor: Levels(named) for factor, named in LEVELS.items()} | {UPLINK: Levels(()), VERSION: Levels(())}
    known["measure"] = Levels(tuple(instruments()))
    for instrument in instruments().values():
        known |= instrument.factors
    return known


def parse_levels(text: str, of: Sequence[Vpn] = ()) -> dict[str, list[str]]:
    """``--set``: ``factor=level,factor=level``; a factor named twice has both levels. ``of``: the VPNs that the levels
    are for; an error about an unknown level names theirs.

    Raises UsageError for an unknown factor or level, and for a number outside of its factor's range.
    """
    known, chosen = factors(), dict[str, list[str]]()
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        factor, equals, level = part.partition("=")
        if not equals or not level:
            raise UsageError(f"--set takes factor=level, not {part!r}; factors: {', '.join(known)}")
        require_known("factor", factor, list(known))
        if between := known[factor].range:
            level = level if level in known[factor].named else _whole_number(factor, level, between)
        elif factor in WAN_RANGES:
            level = in_range(factor, level)
        elif factor in SHARES:
            level = _share(factor, level)
        elif factor not in (UPLINK, VERSION):  # whose levels are the inventory's, and the plugins'
            _require_level(factor, level, known[factor].named, of)
        chosen.setdefault(factor, []).append(level)
    return chosen


def _require_level(factor: str, level: str, named: Sequence[str], of: Sequence[Vpn]) -> None:
    """Raise UsageError for an unknown level; for a factor of the tunnel it names the levels that the VPNs ``of``
    offer."""
    if level in named:
        return
    offers = {"cipher": "ciphers", "integrity": "integrities", "compression": "compressions"}
    offered = {offer for vpn in of if factor in offers for offer in getattr(vpn.offers, offers[factor])}
    where = f"for {' or '.join(vpn.name for vpn in of)}" if offered else ""
    require_known(f"{factor} level", level, [name for name in named if name in offered] or named, where=where)


def _share(factor: str, level: str) -> str:
    """The number ``level`` as it is written in a trial. Raises UsageError unless it is in range."""
    try:
        return f"{number(level, *SHARES[factor]):.4g}"
    except ValueError as wrong:
        raise UsageError(f"{factor} takes {wrong}") from None


def _whole_number(factor: str, level: str, between: tuple[int, int]) -> str:
    """The number ``level`` as it is written in a trial. Raises UsageError unless it is whole and in range."""
    low, high = between
    if not (level.isascii() and level.isdigit() and low <= real(level) <= high):
        raise UsageError(f"{factor} takes a whole number from {low} to {high}, not {level!r:.60}")
    return str(int(level))


def make_plugin(name: str, plugin: type[Vpn]) -> Vpn:
    """An instance of the plugin. Raises UsageError that names what is missing in it."""
    needed = ("title", "dataplane", "transport", "comparable", "recommended")
    missing = [attribute for attribute in needed if not hasattr(plugin, attribute)]
    missing += sorted(plugin.__abstractmethods__)
    if missing:
        raise UsageError(f"plugin {name} is not finished: {plugin.__name__} lacks {', '.join(missing)}")
    cannot = f"plugin {name} cannot be made"
    with blame_file(cannot, files_of(plugin)):
        made = plugin()
    with blame_file(cannot, files_of(plugin), UsageError):  # which says itself what is wrong
        return guard(made)


def digest_of(vpn: Vpn) -> str:
    """A digest that tells a plugin from another of the same name: of the file of its class and of those that it is made
    of."""
    files = sorted({*files_of(type(vpn))})
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]


def record_of(vpn: Vpn) -> VpnRecord:
    """What run.json keeps of a plugin."""
    return VpnRecord(
        title=vpn.title,
        dataplane=vpn.dataplane,
        transport=vpn.transport,
        reference=vpn.reference,
        carries=vpn.carries,
        one_connection=vpn.transport == "tcp" and not vpn.own_connections,
        configurations={"comparable": dict(vpn.comparable), "recommended": dict(vpn.recommended)},
        note=vpn.note,
        digest=digest_of(vpn),
        build=vpn.build.digest if vpn.build else "",
        speaks=vpn.speaks,
        family=vpn.family,
        roams=vpn.roams,
        declared=vpn.declared.record,
    )


def experiment_names() -> list[str]:
    """The experiments of experiments/, sorted. A file whose name begins with _ is not one."""
    import experiments

    return sorted(module.name for module in pkgutil.iter_modules(experiments.__path__) if module.name[0] != "_")


# Names that stand for several experiments.
GROUPS = {"papers": ("thesis", "crypto_matrix", "oslv", "devices", "rekey", "load")}


def expand(names: Sequence[str]) -> list[str]:
    """The experiments in ``names``, with groups expanded, each once. Raises UsageError for an unknown name."""
    for name in names:
        if not is_path("experiment", name):
            require_known("experiment", name, [*experiment_names(), *GROUPS])
    return list(dict.fromkeys(member for name in names for member in GROUPS.get(name, (name,))))


def load_experiment(name: str) -> Experiment:
    """The experiment ``name``: a file of experiments/, or a path to a file outside the tree, with its instruments'
    defaults. Raises UsageError with the near matches for an unknown one, and for a file that is no experiment."""
    if is_path("experiment", name):
        module = import_file("experiment", name)
    else:
        require_known("experiment", name, experiment_names())
        module = importlib.import_module(f"experiments.{name}")
    experiment = getattr(module, "EXPERIMENT", None)
    if not isinstance(experiment, Experiment):
        raise UsageError(f"{name} defines no EXPERIMENT (runner.design.experiment.Experiment)")
    return experiment.with_defaults(
        factors(), {instrument.name: instrument.factors for instrument in instruments().values()}
    )
