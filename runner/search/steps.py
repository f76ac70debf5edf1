"""Runs a search one trial at a time: it asks for the next rate to offer, and waits for the outcome.

The engines call a ``measure`` function, as FD.io's MLRsearch does. A greenlet turns that around, so that whoever
drives the search may do something else between two of its trials.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from greenlet import getcurrent, greenlet

from runner.search.model import BudgetSpent, Loss, Measure, SearchResult


class Offer(NamedTuple):
    """The next trial that a search wants: offer this rate (bit/s) for so long (s)."""

    rate_bps: float
    duration_s: float


def steps(find: Callable[[Measure], SearchResult]) -> Generator[Offer, Loss | None, SearchResult]:
    """The trials of the search ``find``: yields each ``Offer``, is sent its ``Loss``, and returns the result.

    Sent None instead, the search ends as if its budget were spent, with what it has. Raises what ``find`` raises.
    """
    spent = False

    def ask(rate_bps: float, duration_s: float) -> Loss:
        nonlocal spent
        if spent:  # an engine may ask for a confirmation yet
            raise BudgetSpent
        driver = getcurrent().parent
        assert driver is not None
        loss = driver.switch(Offer(rate_bps, duration_s))
        if loss is None:
            spent = True
            raise BudgetSpent
        answer: Loss = loss
        return answer

    searching = greenlet(find)
    message: Any = ask
    while True:
        searching.parent = getcurrent()
        message = searching.switch(message)
        if searching.dead:
            result: SearchResult = message
            return result
        message = yield message
