"""What the commands share: how they take their options, and what they say first.

It imports little, so that ``--help`` answers at once.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, is_dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from runner.data.errors import UsageError
from runner.data.files import is_there
from runner.data.guest import guest_name
from runner.data.named import MUSTS, TRAFFICS
from runner.data.options import NeedsOptions, RunOptions, option, options_of
from runner.data.streams import standard_error
from runner.lab.names import LAB_FORMS, image_names, kernel_names

if TYPE_CHECKING:
    from runner.data.asked import AskedRun

PROFILE_NAMES = "quick, site, thesis, smallest"  # runner.design.profile has them; a test compares
MOST_REPETITIONS = 30  # runner.sweep.repeating's; a test compares
NAMES = {  # that the help of an option names
    "profiles": PROFILE_NAMES,
    "labs": LAB_FORMS,
    "images": ", ".join(image_names()),
    "kernels": ", ".join(kernel_names()),
    "most": MOST_REPETITIONS,
}


@dataclass(frozen=True)
class Shown:
    """What the user is shown of a run. ``strict``: the exit code is 1 if any trial gave no number."""

    quiet: bool = option(False, "--quiet", "print neither progress nor report; errors are printed")
    full: bool = option(False, "--full", "print every table in the terminal, and the answer below them")
    as_json: bool = option(False, "--json", "print JSON, and nothing else, on standard output")
    strict: bool = False

    def say(self, text: str) -> None:
        """Print what the user is told beside the trials and the report."""
        if not self.quiet:
            tell(text)


def catalogue() -> Any:
    """The catalogue, loaded where a shell asks for names."""
    from runner import catalogue

    return catalogue


def paper_names() -> Iterable[str]:
    """The published papers, looked for where a shell asks for names."""
    from runner.papers.published import names

    return names()


COMPLETIONS: Mapping[str, Callable[[], Iterable[str]]] = {
    "experiments": lambda: [*catalogue().experiment_names(), *catalogue().GROUPS],
    "vpns": lambda: catalogue().vpn_names(),
    "levels": lambda: [f"{name}={level}" for name, levels in catalogue().factors().items() for level in levels.named],
    "profile": lambda: PROFILE_NAMES.split(", "),
    "image": image_names,
    "kernel": kernel_names,
    "papers": paper_names,
    "traffic": lambda: TRAFFICS,
    "must": lambda: MUSTS,
}


def complete(name: str) -> Callable[[str], list[str]] | None:
    """What completes a value of this option: a name, or several with commas between them. None where nothing is
    known."""

    def completions(incomplete: str) -> list[str]:
        before, comma, begun = incomplete.rpartition(",")
        return [f"{before}{comma}{known}" for known in COMPLETIONS[name]() if known.startswith(begun)]

    return completions if name in COMPLETIONS else None


def typer_option(name: str, group: type = RunOptions) -> Any:
    """The option of a group for a command that takes it alone."""
    known = options_of(group)[name]
    return typer.Option(
        known.flag,
        metavar=known.metavar or None,
        help=known.help.format(**NAMES),
        autocompletion=complete(name),
    )


Levels = Annotated[list[str] | None, typer_option("levels")]
QuestionName = Annotated[str, typer_option("question")]
PaperName = Annotated[
    str,
    typer.Option(
        "--paper",
        metavar="NAME|DIR",
        help="judge the findings of this paper alone: thesis, or a folder of your own, ./mine (docs/add-a-paper.md)",
        autocompletion=complete("papers"),
    ),
]
LabSpec = Annotated[str, typer_option("lab")]
ImageName = Annotated[str, typer_option("image")]
MaxRate = Annotated[str, typer_option("max_rate")]
OutDir = Annotated[Path | None, typer_option("out")]
Deadline = Annotated[str, typer_option("deadline_s")]
Weights = Annotated[str, typer_option("weights")]
Full = Annotated[bool, typer_option("full", Shown)]
Quiet = Annotated[bool, typer_option("quiet", Shown)]
Json = Annotated[bool, typer_option("as_json", Shown)]
Experiments = Annotated[
    list[str],
    typer.Argument(
        metavar="EXPERIMENT",
        help="names from `vpneval list experiments`, or a file of your own: ./mine.py",
        autocompletion=complete("experiments"),
    ),
]
TunnelLevels = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="FACTOR=LEVEL,…",
        help="levels of the tunnel; `vpneval list factors` names them",
        autocompletion=complete("levels"),
    ),
]
OfRun = Annotated[Path | None, typer.Option("--run", metavar="DIR", help="the run folder, as the last word names it")]
LastRun = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="the run folder; default: the latest in results/")
]
UplinkName = Annotated[
    str, typer.Option("--uplink", metavar="NAME", help="site lab: this one of the lines that its inventory names")
]
AtLeast = Annotated[str, typer_option("at_least")]
Margin = Annotated[
    str,
    typer.Option(
        "--margin", metavar="10%|metric=10%,…", help="two VPNs count as equal if they differ by no more than this"
    ),
]


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """``command`` as typer takes it: a parameter that is a group of options is these options, one by one. Those that
    ``Annotated`` names beside the group are left out."""
    parameters = list[inspect.Parameter]()
    groups = dict[str, tuple[type, set[str]]]()
    for name, own in inspect.signature(command, eval_str=True).parameters.items():
        group, *without = get_args(own.annotation) or [own.annotation]
        if not (isinstance(group, type) and is_dataclass(group)):
            parameters.append(own.replace(kind=own.KEYWORD_ONLY))
            continue
        taken = {field: known for field, known in options_of(group).items() if field not in without}
        groups[name] = group, {*taken}
        parameters += [
            inspect.Parameter(
                field,
                own.KEYWORD_ONLY,
                default=getattr(group, field),
                annotation=Annotated[known.type, typer_option(field, group)],
            )
            for field, known in taken.items()
        ]

    @wraps(command)
    def one_by_one(**given: Any) -> None:
        made = {name: group(**{field: given.pop(field) for field in taken}) for name, (group, taken) in groups.items()}
        command(**given, **made)

    one_by_one.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return one_by_one


def tell(text: str) -> None:
    """Print this on standard error, as it is."""
    from runner.cli.output import err

    err.print(text, highlight=False, soft_wrap=True)


@contextmanager
def clock(text: str) -> Iterator[None]:
    """Print this on standard error, on a terminal with the time that it takes beside it."""
    from runner.cli.output import err

    if not err.is_terminal:
        tell(text)
        yield
        return
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    with Progress(TextColumn(text), TimeElapsedColumn(), console=err) as shown:
        shown.add_task("", total=None)
        yield


def asked_for(experiments: list[str], given: RunOptions, needs: NeedsOptions) -> AskedRun:
    """What ``run`` and ``plan`` are asked for. Needs that are not stated are those of the run that goes on. Raises
    UsageError for a malformed time, or malformed needs."""
    from pydantic import ValidationError

    from runner.catalogue import read_run
    from runner.choice.stated import state_needs
    from runner.data.asked import AskedRun

    before = None
    with suppress(UsageError):  # whoever opens the folder says what is wrong with it
        if given.out and is_there(given.out / "run.json"):
            before = read_run(given.out / "run.json").needs
    try:
        return AskedRun.from_options(experiments, given, state_needs(needs, before))
    except ValidationError as wrong:
        first = wrong.errors()[0]
        raise UsageError(f"{str(first['input'])[:60]!r} cannot be {first['loc'][0]}: {first['msg']}") from None


def begin(text: str) -> None:
    """Print the first line of a command that loads for a while, on a terminal: within 0.3 s."""
    if standard_error() is not None and standard_error().isatty() and not guest_name():
        tell(text)
