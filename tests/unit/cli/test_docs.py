"""The README and the pages: every link leads somewhere, every command is one, and does what it says where
it only reads, every VPN and every page is listed."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.exceptions import TyperException

from runner.catalogue import experiment_names, vpn_names
from runner.cli.app import app
from runner.cli.main import main
from runner.ranking.weights import PRESETS

ROOT = Path(__file__).parents[3]
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


def commands(page: Path) -> Iterator[tuple[str, bool]]:
    """Every command line of a page, and whether it stands in the text: the others are indented, or in a fenced block.
    What is written on after a backslash is one line. A final `…` is the reader's to fill in."""
    text = page.read_text().replace("\\\n", " ").replace("\\`", "`")
    fences = re.findall(r"^```.*?^```", text, re.MULTILINE | re.DOTALL)
    lines = [(line, False) for line in re.findall(r"^    (?:\.venv/bin/)?(vpneval .+)$", text, re.MULTILINE)]
    for fence in fences:
        lines += [(line, False) for line in re.findall(r"^ *(?:\.venv/bin/)?(vpneval .+)$", fence, re.MULTILINE)]
        text = text.replace(fence, "")
    lines += [(line, True) for line in re.findall(r"`(?:\.venv/bin/)?(vpneval [^`]+)`", text)]
    for line, in_text in lines:
        yield re.sub(r" ?…$", "", " ".join(line.split())), in_text


# Decisions name what was refused, too.
GIVEN = [
    (page, line, in_text)
    for page in (*PAGES, ROOT / "results" / "README.md")
    if page.parent.name != "decisions"
    for line, in_text in dict.fromkeys(commands(page))
]


def words_of(line: str) -> list[str]:
    """The words behind `vpneval`, up to a comment, a pipe or a redirection."""
    words = shlex.shlex(line, posix=True, punctuation_chars="|>")
    words.whitespace_split = True
    return list(takewhile(lambda word: word not in ("|", ">"), words))[1:]


@cache
def every_command() -> Any:
    return typer.main.get_command(app)


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The command, and the words behind it. Raises KeyError where there is none of this name."""
    found: Any = every_command()
    while hasattr(found, "commands") and words and not words[0].startswith("-"):
        found, words = found.commands[words[0]], words[1:]
    return found, words


@pytest.mark.parametrize(
    ("page", "line", "in_text"), [pytest.param(*given, id=f"{given[0].name}: {given[1]}") for given in GIVEN]
)
def test_every_command_line_of_every_page_is_one(page: Path, line: str, in_text: bool) -> None:
    """In the text a command may be named alone, or with its options: then it has those."""
    command, words = command_of(words_of(line))
    options = {option for one in command.params for option in (*one.opts, *one.secondary_opts)} | {"--help"}
    if not (in_text and set(words) <= options):
        command.make_context(command.name, words)


def test_a_line_that_is_wrong_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "Give `vpneval plan\n--nonsense`.\n\n    vpneval report DIR \\\n        --wights tcp  # so\n\n"
        "```sh\nvpneval compare > b\n```\n\nOr `vpneval frobnicate | head`, `vpneval plan --lab LAB`.\n"
    )
    found = [*commands(page)]
    assert found == [
        *(("vpneval report DIR --wights tcp # so", False), ("vpneval compare > b", False)),
        *(("vpneval plan --nonsense", True), ("vpneval frobnicate | head", True), ("vpneval plan --lab LAB", True)),
    ]
    for line, in_text in found:
        with pytest.raises((KeyError, TyperException)):
            test_every_command_line_of_every_page_is_one(page, line, in_text)


READS = ("report", "papers", "why", "compare", "history", "watch", "list", "plan", "recipe")
# What a run must have measured, where the example has not.
RUN_WITH = {"operations": "papers/operations", "security": "papers/security-table4", "--line": "choice/two-cores"}
LAB = "vagrant"  # of which the plan knows without asking it
EXAMPLE = next((ROOT / "results" / "examples").glob("*/run.json")).parent


def reading() -> Iterator[Any]:
    """The lines of the pages that only read. Files of one's own are tested with the pages that have them; a recipe
    that writes keys needs a lab. Of lines that differ in the run's name or an option's value alone the first is in the
    gate."""
    seen = set[tuple[str, ...]]()
    for page, line, _ in GIVEN:
        words = [LAB if word == "LAB" else word for word in words_of(line)]
        own = any(word.startswith(("./", "/tmp/", "--write", "--site")) for word in words)
        if words[0] in READS and not own and not set(words[1:]) <= {"--lab", "--weights"} and tuple(words) not in seen:
            watch = shape(words) in seen or "pdf" in words
            seen |= {tuple(words), shape(words)}
            yield pytest.param(words, id=f"{page.name}: {line}", marks=[pytest.mark.slow] if watch else [])


def shape(words: list[str]) -> tuple[str, ...]:
    """What chooses the code that a line runs: its command, its options, the form; of a run, that there is one."""
    options = [word for word in words if word.startswith("--")]
    form = words[words.index("--format") + 1] if "--format" in words else ""
    named = words[1:] if words[0] == "list" else [str(len(words) - len(options))]
    return ("shape", words[0], *named, *sorted(options), form)


def give(folder: Path, run: Path, less: int = 0) -> None:
    """A run folder of this name; ``less``: without so many of its last trials."""
    folder.mkdir(parents=True, exist_ok=True)
    for path in (run / "run.json", *run.glob("slices.jsonl")):
        shutil.copy(path, folder)
    trials = (run / "trials.jsonl").read_text().splitlines(keepends=True)
    (folder / "trials.jsonl").write_text("".join(trials[: len(trials) - less]))


@pytest.mark.parametrize("words", [*reading()])
def test_what_only_reads_does_what_the_page_says(
    words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Whatever run the page names, it is there: the example. One that is compared has become another."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    command, behind = command_of(words)
    run = next((ROOT / "results" / where for weights, where in RUN_WITH.items() if weights in words), EXAMPLE)
    params = command.make_context(command.name, behind).params
    folders = [
        *(params.get("folders") or ()),
        *filter(None, map(params.get, ("folder", "before", "after", "out_dir", "of_run"))),
    ]
    for number, folder in enumerate(folders or [Path("results/mine")]):
        give(folder / "mine" if folder == Path("results") else folder, run, less=number)
    with pytest.raises(SystemExit) as ended:
        main(words)
    out, err = capsysbinary.readouterr()
    assert (ended.value.code or 0, b"Traceback" in err) == (0, False), err.decode()
    assert out


@pytest.mark.parametrize("page", [README, ROOT / "docs" / "tutorial.md"], ids=lambda page: page.name)
def test_a_reader_who_begins_is_told_where_vpneval_is(page: Path) -> None:
    """And to name a folder of his own: beside the runs, results/ has other folders."""
    text = page.read_text()
    before_the_first_command = re.split(r"^    vpneval |`vpneval (?:why|report)", text, flags=re.MULTILINE)[0]
    assert "`.venv/bin/vpneval`" in before_the_first_command
    assert not re.search(r"results/\*[ `]", text)


def test_the_levels_that_the_story_of_the_virtual_machines_asks_for_exist() -> None:
    """It takes an hour, and nobody tells it every day."""
    story = (ROOT / "tests/vagrant/story.sh").read_text()
    (traffic,) = re.findall(r"^traffic=(\S+)$", story, re.MULTILINE)
    asked = re.findall(r"^phase \S+ run (\S+) \$traffic(\S*)$", story, re.MULTILINE)
    assert len(asked) == 3
    for experiment, levels in asked:
        words = ["plan", experiment, "--lab", LAB, "--profile", "smallest", "--vpn", "openvpn"]
        with pytest.raises(SystemExit) as ended:
            main([*words, "--set", traffic + levels])
        assert not ended.value.code


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
