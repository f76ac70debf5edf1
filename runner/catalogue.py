"""Finds VPN plugins and experiments by name, in the tree and outside of it."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import traceback
from collections.abc import Sequence
from pathlib import Path

from runner.data.errors import UsageError, require_known
from runner.design.experiment import Experiment
from runner.vpn.plugin import Vpn


def vpn_names() -> list[str]:
    """The names of the plugins in vpns/, sorted."""
    import vpns

    return sorted(module.name for module in pkgutil.iter_modules(vpns.__path__) if module.name[0] != "_")


def load_vpn(name: str) -> Vpn:
    """The plugin ``name``: a file of vpns/, or a path to a file outside the tree (``./mine.py``).

    Raises UsageError with the near matches for an unknown name, and for a file that is not a plugin.
    """
    if name.endswith(".py"):
        path = Path(name)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if not path.is_file() or spec is None or spec.loader is None:
            raise UsageError(f"no plugin file {name}")
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as broken:
            raise UsageError(f"plugin file {name} cannot be loaded: {_told(broken, path)}") from broken
        stem = path.stem
    else:
        if "/" in name:
            raise UsageError(f"a plugin from outside the tree is a file whose name ends in .py, not {name}")
        require_known("VPN", name, vpn_names())
        module, stem = importlib.import_module(f"vpns.{name}"), name
    for value in vars(module).values():
        if isinstance(value, type) and issubclass(value, Vpn) and value.__module__ == module.__name__:
            value.name = stem
            return _finished(name, value)
    raise UsageError(f"{name} defines no subclass of runner.vpn.plugin.Vpn")


# Members that plugins had before, and where what they said belongs now.
MOVED = {
    **dict.fromkeys(("ciphers", "integrities", "compressions", "limits"), "offers = Offers(…)"),
    **dict.fromkeys(("tools", "image_layer", "openssl"), "software = Software(…)"),
    **dict.fromkeys(("security", "abilities"), "declared = Declared(…)"),
    **dict.fromkeys(("rekeys", "rekey_says", "rekey", "rekey_mark"), "lifecycle()"),
    **{"confidential": "the level of its cipher", "entry": "carries"},
}


def _finished(name: str, plugin: type[Vpn]) -> Vpn:
    """An instance of the plugin. Raises UsageError that names what is missing in it, or stands where it did before."""
    if moved := [member for member in MOVED if hasattr(plugin, member)]:
        where = ", ".join(f"{member} is now in {MOVED[member]}" for member in moved)
        raise UsageError(f"plugin {name} was written for an earlier vpneval: {where}; docs/add-a-vpn.md has an example")
    needed = ("title", "dataplane", "transport", "comparable", "recommended")
    missing = [attribute for attribute in needed if not hasattr(plugin, attribute)]
    missing += sorted(plugin.__abstractmethods__)
    if missing:
        raise UsageError(f"plugin {name} is not finished: {plugin.__name__} lacks {', '.join(missing)}")
    return plugin()


def _told(broken: Exception, path: Path) -> str:
    """An error of a plugin file in words, with the line of that file that it comes from."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(broken.__traceback__) if Path(frame.filename) == path.resolve()
    ]
    line = broken.lineno if isinstance(broken, SyntaxError) else lines[-1] if lines else None
    what = broken.msg if isinstance(broken, SyntaxError) else str(broken)
    return f"{f'line {line}: ' if line else ''}{type(broken).__name__}: {what}"


def experiment_names() -> list[str]:
    """The experiments of experiments/, sorted. A file whose name begins with _ is not one."""
    import experiments

    return sorted(module.name for module in pkgutil.iter_modules(experiments.__path__) if module.name[0] != "_")


# Names that stand for several experiments.
GROUPS = {"papers": ("thesis", "crypto_matrix", "oslv", "devices", "rekey", "load")}


def expand(names: Sequence[str]) -> list[str]:
    """The experiments that ``names`` name, groups opened, each once. Raises UsageError for an unknown name."""
    for name in names:
        require_known("experiment", name, [*experiment_names(), *GROUPS])
    return list(dict.fromkeys(member for name in names for member in GROUPS.get(name, (name,))))


def load_experiment(name: str) -> Experiment:
    """The experiment ``name``. Raises UsageError with the near matches for an unknown one."""
    require_known("experiment", name, experiment_names())
    experiment: Experiment = importlib.import_module(f"experiments.{name}").EXPERIMENT
    return experiment
