"""Requests of tests: what ``vpneval run`` is asked for, resolved as the command does."""

import shlex
from typing import Any

from typer.main import get_command

from runner.cli.app import app
from runner.cli.options import asked_for
from runner.data.asked import AskedFarm, AskedRun
from runner.data.options import NeedsOptions, RunOptions, options_of
from runner.design.profile import Profile
from runner.sweep.request import Request, resolve

FARM = AskedFarm(address="local:1")


def request(*experiments: str, **asked: Any) -> Request:
    """The request for these experiments, with these fields of AskedRun."""
    return resolve(AskedRun(experiments=experiments, **asked))


def by_the_command(line: str) -> AskedRun:
    """What ``vpneval run`` with these words asks for, read as the command reads them."""
    group: Any = get_command(app)
    with group.commands["run"].make_context("run", shlex.split(line)) as context:
        options = RunOptions(**{name: context.params[name] for name in options_of(RunOptions)})
        needs = NeedsOptions(**{name: context.params[name] for name in options_of(NeedsOptions)})
        return asked_for(context.params["experiments"], options, needs)


def made_up(profile: Profile, repetitions: int = 1, first: int = 1, **asked: Any) -> Request:
    """A request whose VPNs and cells the test has."""
    return Request(AskedRun(experiments=(), **asked), [], [], profile, {}, repetitions, first=first)
