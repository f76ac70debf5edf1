"""Code that others wrote (plugins, instruments, experiments, Dask): what it raises is caught here, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def caught(tell: Callable[[BaseException], object], *passing: type[BaseException]) -> Iterator[None]:
    """Hand whatever is raised within to ``tell``, which may raise that or another error. Ctrl-C and ``passing`` are
    raised as they are."""
    try:
        yield
    except BaseException as error:
        if isinstance(error, (KeyboardInterrupt, *passing)):
            raise
        tell(error)
