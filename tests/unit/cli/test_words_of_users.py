"""What a user, or a run folder from elsewhere, calls things is printed as it is, and is one word of a
printed command."""

import html
import io
import re
import shlex
import shutil
from itertools import cycle
from pathlib import Path

import pytest
from rich.panel import Panel
from rich.rule import Rule
from rich.table import Table

from questions.rank.words import recipe
from runner.cli.main import main
from runner.cli.output import Output, err, out
from runner.report.forms.html import html_text
from tests.unit.synthetic import realistic_run
from tests.unit.whole_report import build

EXAMPLE = Path("results/examples/two-cores-quick")
MARKUP = ["[bold]x", "[/]", "[red]a[/red]", "[link=file:///etc]x[/link]", ":bomb:", "[[x]]", "\\[bold]"]
SHELL = ["$(id)", "`id`", "a b", "a;id", "a|id", "a&id", "it's", '"a"', "a>b", "*", "~", "-rf", "\\", "#a", "ä"]


@pytest.mark.parametrize("word", [*MARKUP, *SHELL])
def test_a_console_prints_words_as_they_are(word: str) -> None:
    table = Table(title=word, caption=word)
    table.add_column(word)
    table.add_row(word)
    for what in (word, table, Rule(word), Panel(word)):
        said = io.StringIO()
        console = Output(file=said, width=200)
        console.print(what)
        printed = said.getvalue()
        assert printed.count(word) == (4 if what is table else 1), printed
    assert err._markup is out._markup is False


@pytest.mark.parametrize("word", ["[bold]x :bomb:", "$(id)", "it's"])
def test_the_next_command_is_about_the_same_folder(
    word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(EXAMPLE, folder := tmp_path / word)
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.chdir(tmp_path)
    main_of(["report", word])
    said = capsys.readouterr().out
    see_all = next(line for line in said.splitlines() if "See all" in line).partition("See all")[2]
    assert shlex.split(see_all) == ["vpneval", "report", folder.name, "--full"]
    main_of(["more", word, "--rounds"])  # refused by its options
    main_of(["report", f"no {word}"])
    assert f"no {word}" in capsys.readouterr().err


def main_of(argv: list[str]) -> None:
    with pytest.raises(SystemExit):
        main(argv)


@pytest.mark.parametrize(
    ("word", "option"),
    [*zip([*MARKUP, *SHELL], cycle([["--lab", "site:{}.toml"], ["--lab=site:{}.toml"]]), strict=False)],
)
def test_what_is_copied_from_a_foreign_run_has_the_words_that_it_seems_to_have(word: str, option: list[str]) -> None:
    run, trials = realistic_run(1)
    argv = ["vpneval", "run", word, *[part.format(word) for part in option]]
    call = run.invocations[0].model_copy(update={"command_line": argv})
    report = build(run.model_copy(update={"invocations": [call]}), trials)
    assert shlex.split(report.command_line) == argv
    page = html_text(report, Path("results") / word)
    copied = [shlex.split(html.unescape(text)) for text in re.findall(r'data-copy="([^"]*)"', page)]
    recipes = [words for words in copied if words[1] == "recipe"]
    assert len(recipes) > 3
    assert all(words[-4:] == ["--site", f"{word}.toml", "--write", "tunnel"] for words in recipes)
    assert all(words[-1] == f"results/{word}" for words in copied if words[1] == "more")


@pytest.mark.parametrize("word", [*MARKUP, *SHELL])
def test_a_recipe_of_a_vpn_and_levels_that_only_a_foreign_run_has(word: str) -> None:
    command = recipe(word, {"cipher": word})
    assert shlex.split(command) == ["vpneval", "recipe", word, "--set", f"cipher={word}"]
