"""What a busy machine spoils now and then is tried some times."""

from collections.abc import Callable
from typing import TypeVar

from runner.data.errors import MeasurementError

ATTEMPTS = 5  # other work on the machine makes a sender late, and a receiver lose packets
Tried = TypeVar("Tried")


def unspoiled(attempt: Callable[[], Tried], spoiled: str) -> Tried:
    """The result of the first attempt that does not end with a MeasurementError that has the words ``spoiled``."""
    for left in reversed(range(ATTEMPTS)):
        try:
            return attempt()
        except MeasurementError as error:
            if not left or spoiled not in str(error):
                raise
    raise AssertionError


def best(attempt: Callable[[], Tried], good: Callable[[Tried], bool]) -> Tried:
    """The first of some results that is good, or the last."""
    for _ in range(ATTEMPTS):
        found = attempt()
        if good(found):
            break
    return found
