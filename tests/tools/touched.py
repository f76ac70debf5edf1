"""Which tests a change touches: those that import what has changed, by however many steps.

    pytest --since REVISION            leaves out those of ``ON_CHANGE`` that the change does not touch: the gate
    pytest --since REVISION --touched  leaves out all that the change does not touch: ``make test-touched``

The change is what differs from the commit where HEAD left REVISION, committed or not. Where git knows no such commit,
or HEAD adds none to it, everything runs. The last lines of the output say what was left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path, PurePath

import grimp
import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("runner", "vpns", "experiments", "questions", "tests")
# What the gate runs only where the change touches it: folders and files of tests that look at one room, or at one VPN
# a case.
ON_CHANGE = (
    *("tests/unit/farm", "tests/unit/papers", "tests/unit/search", "tests/unit/vpn"),
    *(
        "tests/lab/test_contract.py",
        "tests/lab/test_farm_lies.py",
        "tests/lab/test_papers.py",
        "tests/lab/test_vpns.py",
    ),
)
PLUGINS = ("vpns", "experiments", "questions")  # which runner.catalogue loads by name
PROBES = "runner.lab.probes"  # whose modules are read as text and run on nodes


@dataclass(frozen=True)
class Selection:
    """The files of tests that do not run, and of others the VPNs whose cases do. ``since``: the commit; empty where
    everything runs, for the reason ``why``."""

    since: str = ""
    why: str = ""
    left_out: frozenset[str] = frozenset()
    vpns: dict[str, list[str]] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """What was left out, for people."""
        if not self.since:
            return [f"Nothing is left out: {self.why}."]
        said = [f"Left out, because nothing that they import has changed since {self.since[:12]}:"]
        folders = {str(PurePath(path).parent) for path in self.left_out}
        for folder in sorted(folders):
            names = sorted(PurePath(path).name for path in self.left_out if str(PurePath(path).parent) == folder)
            said.append(f"  {folder}: {', '.join(names)}")
        if self.vpns:
            names = sorted({name for names in self.vpns.values() for name in names})
            said.append(f"  in {len(self.vpns)} other files the cases of VPNs, but for: {', '.join(names) or 'none'}")
        return said if len(said) > 1 else [f"Nothing is left out: all is touched since {self.since[:12]}."]


def git(*words: str) -> str:
    """What git prints; empty where it refuses, or where this is no clone."""
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def changed_since(commit: str) -> set[str]:
    """The files that differ from ``commit``, on either side, and those that git does not know yet."""
    new = git("ls-files", "--others", "--exclude-standard")
    return {*git("diff", "--name-only", "--no-renames", commit).splitlines(), *new.splitlines()}


def select(revision: str, paths: Iterable[str], files: Iterable[str] | None = None) -> Selection:
    """Of the tests below ``paths``, those that the change since ``revision`` touches; ``files``: the change itself."""
    base = git("merge-base", "HEAD", revision)
    changed = set(files) if files is not None else changed_since(base) if base else set()
    if not base or not changed:
        return Selection(why=f"nothing has changed since {base[:12]}" if base else f"git knows no commit {revision}")
    imports = Imports()
    if unknown := sorted(path for path in changed if imports.reaches_all(path)):
        return Selection(why=f"{unknown[0]} has changed, which any test may depend on")
    left_out, vpns = set(), dict[str, list[str]]()
    for path in tests_below(paths):
        by_import, by_name = imports.of_test(path)
        if any(imports.touches(one, by_import) for one in changed):
            continue
        if any(imports.touches(one, by_name) for one in changed):
            vpns[path] = sorted(name for name in imports.vpns() if imports.vpn_touched(name, changed))
        else:
            left_out.add(path)
    return Selection(base, "", frozenset(left_out), vpns)


def tests_below(paths: Iterable[str]) -> list[str]:
    """The files of tests in these folders, from the checkout's root."""
    found = [
        found for path in paths for found in ([ROOT / path] if path.endswith(".py") else (ROOT / path).rglob("*.py"))
    ]
    return sorted(str(path.relative_to(ROOT)) for path in found if path.name.startswith("test_"))


class Imports:
    """Who imports whom in this checkout, and which files modules read."""

    def __init__(self) -> None:
        sys.path.insert(0, str(ROOT))
        try:
            self.graph = grimp.build_graph(*PACKAGES, cache_dir=None)
        finally:
            sys.path.remove(str(ROOT))
        plugins = self.below(PLUGINS)
        self.plugins = plugins.union(*map(self.graph.find_upstream_modules, plugins))
        self.texts: dict[str, str] = {}

    def of_test(self, path: str) -> tuple[set[str], set[str]]:
        """The modules that this file of tests imports, and those that it may load by name. What tests/conftest.py
        imports is for tests with labs, and these import it, too."""
        module = path.removesuffix(".py").replace("/", ".")
        return self.above(module, f"{module.rpartition('.')[0]}.conftest")

    def above(self, *modules: str) -> tuple[set[str], set[str]]:
        """These modules and what they import; and what that loads by name."""
        begins = {*modules} & self.graph.modules
        found = begins.union(*map(self.graph.find_upstream_modules, begins))
        if PROBES in found:
            found |= self.below([PROBES])
        named = self.plugins if "runner.catalogue" in found else set()
        return found, named - found

    def below(self, packages: Iterable[str]) -> set[str]:
        """These packages and the modules in them."""
        return {each for each in self.graph.modules for name in packages if f"{each}.".startswith(f"{name}.")}

    def vpns(self) -> list[str]:
        """The names of the VPNs' files."""
        names = (name.removeprefix("vpns.") for name in self.below(["vpns"]) if name != "vpns")
        return sorted(name for name in names if not name.startswith("_"))

    def vpn_touched(self, name: str, changed: set[str]) -> bool:
        """Is the change in this VPN's file, or in what it imports?"""
        return any(self.touches(path, self.above(f"vpns.{name}")[0]) for path in changed)

    def reaches_all(self, path: str) -> bool:
        """Does nobody know who reads it? So it is with pyproject.toml, the Makefile and what else is at the root."""
        top = PurePath(path).parts[0]
        return path == "tests/conftest.py" or not (
            top in (*PACKAGES, "docs", "results", "vagrant") or path.endswith(".md")
        )

    def touches(self, path: str, modules: set[str]) -> bool:
        """Does what changed in this file reach who has these modules? A file that is no module, or no more, reaches
        those of its package; where it is in none, those whose code has its folder's name as a word of a path."""
        if path.endswith(".py"):
            module = path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
            if module in self.graph.modules:
                return module in modules
        folder = PurePath(path).parent
        if (ROOT / folder / "__init__.py").exists():
            return bool(self.below([str(folder).replace("/", ".")]) & modules)
        data = next((each for each in [*reversed(folder.parents), folder] if is_data(each)), PurePath(path))
        word = re.compile(rf"[\"'/]{re.escape(data.name)}[\"'/]")
        return any(word.search(self.text(module)) for module in modules if module != __name__)

    def text(self, module: str) -> str:
        if module not in self.texts:
            path = ROOT / module.replace(".", "/")
            file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            self.texts[module] = file.read_text()
        return self.texts[module]


def is_data(folder: PurePath) -> bool:
    """Is it a folder with no modules, of the root's or of a package?"""
    return bool(folder.parts) and not (ROOT / folder / "__init__.py").exists()


# --- in pytest ---------------------------------------------------------------------------------------------------


def add_options(parser: pytest.Parser) -> None:
    parser.addoption("--since", help="Leave out what no change since this revision touches, of tests of one room.")
    parser.addoption("--touched", action="store_true", help="With --since: of all tests.")


class Touched:
    """Leaves out tests, and says so at the end. The first process selects, its workers are told."""

    def __init__(self, config: pytest.Config) -> None:
        if told := getattr(config, "workerinput", {}).get("selection"):
            self.selection = Selection(told[0], told[1], frozenset(told[2]), told[3])
            return
        revision, touched = config.getoption("--since"), config.getoption("--touched")
        if not touched and not git("rev-list", f"{revision}..HEAD"):
            self.selection = Selection(why=f"HEAD adds no commit to {revision}")
            return
        self.selection = select(revision, ["tests"] if touched else ON_CHANGE)
        if touched and not self.selection.since:
            raise pytest.UsageError(
                f"--touched has nothing to choose by: {self.selection.why}. `make test-all` runs all"
            )

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: object) -> None:
        one = self.selection
        node.workerinput["selection"] = (one.since, one.why, sorted(one.left_out), one.vpns)  # type: ignore[attr-defined]

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return True if self.within(collection_path) in self.selection.left_out else None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        known = {*Imports().vpns()} if self.selection.vpns else set()
        spared = [item for item in items if self.is_spared(item, known)]
        if spared:
            config.hook.pytest_deselected(items=spared)
            items[:] = [item for item in items if item not in {*spared}]

    def is_spared(self, item: pytest.Item, known: set[str]) -> bool:
        """Is it a case of VPNs of which none was touched?"""
        touched = self.selection.vpns.get(self.within(item.path))
        params = item.callspec.params.values() if hasattr(item, "callspec") else ()
        names = {str(getattr(value, "name", value)).partition("@")[0] for value in params} & known
        return touched is not None and bool(names) and not names & {*touched}

    def within(self, path: Path) -> str:
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""

    @pytest.hookimpl(trylast=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self.selection.lines():
            terminalreporter.write_line(line)
