"""The two consoles that the commands write to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from runner.data.streams import ERRORS, OUTPUT, fit


class Output(Console):
    """A console that shows control characters in a text as text, and secrets by their names: while a live display is
    on, rich passes on to it what others print. It takes no markup of rich's: ``[bold]`` or ``:bomb:`` may be a folder
    of the user's."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """As rich's, with every text made fit to be shown."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=fit(segment.text))


err = Output(file=ERRORS)
out = Output(file=OUTPUT)  # both are those of the command, not what anybody prints to
