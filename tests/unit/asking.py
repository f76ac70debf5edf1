"""Requests of tests: what ``vpneval run`` is asked for, resolved as the command does."""

from typing import Any

from runner.data.asked import AskedFarm, AskedRun
from runner.sweep.request import Request, resolve

FARM = AskedFarm(address="local:1")


def request(*experiments: str, **asked: Any) -> Request:
    """The request for these experiments, with these fields of AskedRun."""
    return resolve(AskedRun(experiments=experiments, **asked))
