"""How the words of a command line are read: what click does, with errors that say what is valid."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption
from typer.exceptions import TyperException

from runner.cli.options import tell
from runner.data.errors import UsageError, nearest, unfinished_methods
from runner.data.streams import output_to, standard_output, visible_text


@contextmanager
def _as_text() -> Iterator[None]:
    """Write control characters in an error about the arguments as text, so that they do not steer a terminal."""
    try:
        yield
    except TyperException as wrong:
        wrong.message = visible_text(wrong.message)
        raise


class Words(TyperGroup):
    """A group of commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What click makes of the arguments."""
        with _as_text():
            return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Which command is meant."""
        with _as_text():
            return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        """The options."""
        return _without_type(super().get_params(ctx))


def _without_type(parameters: list[Any]) -> list[Any]:
    """Take the types out of the help: an option without a value has none, and an argument's name says enough. Typer's
    own options without a value are not given, instead of unknown: of an unknown value it would ask pydantic."""
    for parameter in parameters:
        if parameter.param_type_name == "argument" or parameter.is_flag:
            parameter.display_type_rich = lambda ctx: ""
        if parameter.expose_value is False and parameter.is_flag and parameter.default is None:
            parameter.default = False
    return parameters


def _instead(option: str, args: list[str], known: list[Any]) -> str:
    """What is valid in place of an unknown option: for a factor, ``--set``."""
    from runner.catalogue import factors

    name = option.lstrip("-").replace("-", "_")
    if name in factors():
        level = next((after for word, after in pairwise(args) if word == option), "LEVEL")
        return f". {name} is a factor: --set {name}={level}"
    valid = [opt for parameter in known for opt in parameter.opts if opt.startswith("--")]
    near = nearest(option, valid, {})
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    return f"{hint} Valid: {', '.join(valid)}"


def _no_number(value: str, wrong: Any) -> str:
    """The error about a value that is no number. Numbers are the only type of an option that a value can miss."""
    kind, form = ("whole number", r"\d+") if wrong.param.bare_type() == "int" else ("number", r"\d+\.?\d*")
    near = re.match(form, value)
    hint = f"; did you mean {near[0]}?" if near else "."
    return f"{value!r:.60} is not a {kind}{hint} It takes: {getattr(wrong.param, 'help', '')}"


class Once(TyperCommand):
    """A command that refuses an option given twice, of which only the last would count.

    While it works, standard output is its alone: what a plugin prints goes to standard error.

    Raises UsageError.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """The options and arguments."""
        return _without_type(super().get_params(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """What click makes of the arguments. Raises UsageError for an option that is given twice."""
        with _as_text():
            try:
                values, _, order = self.make_parser(ctx).parse_args(args=list(args))
            except TyperException as wrong:
                if hasattr(wrong, "possibilities"):  # no such option
                    wrong.message += _instead(wrong.option_name, args, ctx.command.params)  # type: ignore[attr-defined]
                    wrong.possibilities = None
                raise
            for given in order:
                once = isinstance(given, TyperOption) and not given.is_flag and not given.multiple
                if once and order.count(given) > 1:
                    raise UsageError(f"{given.opts[0]} is given {order.count(given)} times; give it once")
                if once and values[given.name] == "":
                    raise UsageError(f"{given.opts[0]} is given without a value. Leave it out, or give {given.metavar}")
            try:
                return super().parse_args(ctx, args)
            except typer.BadParameter as wrong:
                if hasattr(wrong, "param_type"):  # a missing one
                    wrong.message = f"It is: {getattr(wrong.param, 'help', '')}"
                elif wrong.param is not None:
                    wrong.message = _no_number(str(values.get(wrong.param.name)), wrong)
                raise

    def invoke(self, ctx: Any) -> Any:
        """Do the command's work."""
        with output_to(standard_output()):
            try:
                return super().invoke(ctx)
            except KeyboardInterrupt as ended:  # of which typer makes an exit code
                if where := unfinished_methods(ended):
                    tell(f"vpneval was interrupted{where}")
                raise
