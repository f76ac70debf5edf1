"""One call of the trial loop: what it is played with, the watcher that follows it, and its outcome."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from runner.data.trials import Run, Trial
from runner.design.profile import Profile
from runner.lab.places import NamespaceRig, Rig
from runner.lab.places.hours import Hours
from runner.lab.software.image import Image
from runner.sweep.plan import Planned
from runner.sweep.request import Request


class Watcher(Protocol):
    """Is told how the run goes: the live display, or plain lines."""

    def show_plan(self, trials: int, expected_s: float) -> None:
        """So many trials are ahead, and will take about ``expected_s`` seconds."""

    def tunnel(self, repetition: int, vpn: str, params: Mapping[str, str]) -> None:
        """The VPN's tunnel at these levels, of this repetition, is coming up."""

    def show_round(self, number: int, tunnels: int, remaining_s: float) -> None:
        """This round begins: a slice of each of the cells of ``tunnels`` tunnels that stand."""

    def measuring(self, planned: Planned) -> None:
        """This trial begins now, in the tunnel that is up."""

    def show_slice(self, planned: Planned, values: Mapping[str, float]) -> None:
        """A slice of this trial found these values."""

    def show_trial(self, trial: Trial, remaining_s: float) -> None:
        """This trial is written down; what is planned will take ``remaining_s`` seconds more."""

    def say(self, text: str) -> None:
        """A line of text for the user."""


Watch = Callable[[Path, Run], AbstractContextManager[Watcher]]  # who watches the run of that folder


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What a request is played with: its rig, the images of its nodes, and the time there is."""

    request: Request
    rig: Rig = field(default_factory=NamespaceRig)  # where the labs are set up
    image: Image
    gateway_images: Mapping[str, Image] = field(default_factory=dict)
    hours: Hours = field(default_factory=Hours)  # outside of which nothing is measured
    deadline: float | None = None  # time.monotonic() at which the run should have ended
    most_repetitions: int | None = None  # for --until-significant; None where the deadline alone ends it
    wanted: Mapping[str, Collection[str]] = field(default_factory=dict)  # cell key -> metrics that are asked for

    @property
    def profile(self) -> Profile:
        """How long and how finely to measure."""
        return self.request.profile

    @property
    def seed(self) -> int:
        """What the order of the trials is drawn from."""
        return self.request.asked.seed

    @property
    def retry_failed(self) -> bool:
        """Are trials that failed before measured again?"""
        return self.request.asked.retry_failed

    @property
    def images(self) -> dict[str, Image]:
        """Level of the factor ``image`` -> the gateways' image; where it is no factor, that of all nodes."""
        return {"": self.image, **self.gateway_images}


@dataclass
class Outcome:
    """What a call of the loop did."""

    measured: int = 0
    failed: int = 0
    trimmed: int = 0  # trials that the deadline left no time for
    passed_over: int = 0  # and those that a look ended: their pairs were decided, or needed more time than was left
    measuring_s: float = 0.0
    stopped: str = ""
    looks: int = 1  # at the verdicts, that of the report included
    separation: str = ""  # what --until-significant came to
