"""The README and the pages: every link leads somewhere, every command is one, every VPN and every page is listed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from runner.catalogue import experiment_names, load_vpn, vpn_names
from runner.cli.commands import app
from runner.ranking.weights import PRESETS

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
PAGES = [README, ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    lost = []
    for link in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            lost.append(link)
    assert not lost


def commands(page: Path) -> list[str]:
    return [
        re.split(r" #| > ", line)[0].strip()
        for line in re.findall(r"^    (?:\.venv/bin/)?(vpneval .+)$", page.read_text(), re.MULTILINE)
        if "…" not in line.split(" #")[0] and not line.endswith("\\")
    ]


GIVEN = [(page.name, command) for page in PAGES for command in commands(page)]


@pytest.mark.parametrize(("page", "command"), GIVEN, ids=lambda value: value)
def test_commands_have_the_options_that_the_pages_give_them(page: str, command: str) -> None:
    words = shlex.split(command)[1:]
    found: Any = typer.main.get_command(app)
    while hasattr(found, "commands"):
        found = found.commands[words.pop(0)]
    found.make_context(found.name, words)


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "tutorial.md"], ids=lambda page: page.name)
def test_a_reader_who_begins_is_told_where_vpneval_is(page: Path) -> None:
    """And to name a folder of his own: beside the runs, results/ has other folders."""
    text = page.read_text()
    before_the_first_command = re.split(r"^    vpneval |`vpneval (?:why|report)", text, flags=re.MULTILINE)[0]
    assert "`.venv/bin/vpneval`" in before_the_first_command
    assert not re.search(r"results/\*[ `]", text)


def test_every_benchmark_of_the_makefile_is_on_the_page_of_commands() -> None:
    phony = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(".PHONY:"))
    made = {name for name in phony.split() if name.startswith("bench-")}
    assert len(made) > 10
    assert set(re.findall(r"bench-[a-z-]+", (ROOT / "docs" / "commands.md").read_text())) == made


def test_the_readme_is_short_and_the_table_of_vpns_lists_every_vpn() -> None:
    assert len(README.read_text().splitlines()) <= 200
    table = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "vpns.md").read_text(), re.MULTILINE)
    assert sorted(table) == sorted({*vpn_names(), "none"})
    families = README.read_text().split("## The VPNs")[1].split("\n## ")[0]
    assert {*re.findall(r"`(\w+)`", families)} == {*vpn_names(), "none"}


def test_the_index_lists_every_page() -> None:
    text = (ROOT / "docs" / "README.md").read_text()
    pages = {path.name for path in (ROOT / "docs").glob("*.md")} - {"README.md"}
    assert pages == {*re.findall(r"\]\((\w[\w-]*\.md)\)", text)}


def test_the_experiments_and_presets_are_those_that_there_are() -> None:
    text = (ROOT / "docs" / "experiments.md").read_text()
    assert {*re.findall(r"^\| `(\w+)`", text, re.MULTILINE)} <= {
        *experiment_names(),
        *PRESETS,
        "quick",
        "site",
        "thesis",
        "smallest",
    }


def test_the_method_names_what_keeps_each_compared_tunnel_alive() -> None:
    compared = re.search(r"^COMPARED := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert compared
    rows = {row[0]: row for row in table_of("what keeps the tunnel alive")}
    said = {name.strip(): " ".join(row) for names, row in rows.items() for name in names.split(",")}
    assert {*compared[1].split(",")} <= said.keys()
    for name in compared[1].split(","):
        timers = load_vpn(name).lifecycle().timers
        assert (f"`{timers[0].lines}`" in said[name]) if timers else ("nothing" in said[name])


def table_of(column: str) -> list[list[str]]:
    """The rows of the table in the method that has this column."""
    lines = (ROOT / "docs" / "method.md").read_text().split(f"| {column} |", 1)[1].split("\n\n")[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]
