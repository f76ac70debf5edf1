"""What a user asks of a run, as data: run.json keeps it, and guests and the machines of a farm get it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, Field

from runner.data.kinds import Line, Real, Strict, Whole
from runner.data.needs import Needs
from runner.data.numbers import seconds
from runner.data.options import RunOptions, each_level, join_values

SITE = "site:"


def _split_names(given: object) -> object:
    """``a,b`` as names; a list of them as it is."""
    if isinstance(given, str):
        return tuple(name.strip() for name in given.split(",") if name.strip())
    return tuple(given) if isinstance(given, list) else given


Listed = Annotated[tuple[Line, ...], BeforeValidator(_split_names)]


class AskedFarm(Strict):
    """The farm that a run is spread over: its scheduler's address, and what its machines must have in common.
    ``timeout``: how long a repetition may take, in the option's notation; ``insecure``: without TLS."""

    address: Line
    equal: Line = RunOptions.farm_equal
    timeout: Line = ""
    insecure: bool = False


class AskedRun(Strict):
    """What one call of ``vpneval run`` asks for, not checked against the catalogue.

    Experiments, VPNs, instruments and the question are names, or paths of the user's files; ``question``: empty where
    what is measured says it; ``levels`` are ``factor=level``;
    ``builds`` (``VPN@NAME=PATH``), ``at_least``, ``weights``, ``max_rate``, ``between`` and ``search_rates`` are in the
    notation of their options. ``kernel``: the one that it runs under. ``until_significant``: None leaves it to the
    profile, unless repetitions are given. ``farm``: None where this machine measures it.
    """

    experiments: Listed
    vpns: Listed = ()
    instruments: tuple[Line, ...] = ()
    question: Line = ""
    levels: Listed = ()
    profile: Line = RunOptions.profile
    repetitions: Whole | None = None
    duration_s: Whole | None = None
    rounds: Whole | None = None
    slice_s: float | None = None
    seed: Whole = RunOptions.seed
    lab: Line = RunOptions.lab
    kernel: Line = RunOptions.kernel
    image: Line = RunOptions.image
    gateway_images: Listed = ()
    builds: tuple[Line, ...] = ()
    at_least: Line = ""
    out: Path | None = Field(default=None, description="the run folder, where one was named")
    deadline_s: Real | None = None
    retry_failed: bool = False
    until_significant: bool | None = None
    weights: Line = ""
    max_rate: Line = ""
    between: Line = ""
    search_rates: Line = ""
    needs: Needs = Needs()
    farm: AskedFarm | None = None

    @classmethod
    def from_options(cls, experiments: Sequence[str], given: RunOptions, needs: Needs) -> AskedRun:
        """What these options and needs ask for. Raises UsageError for a malformed time, and ValidationError."""
        kept = {name: value for name, value in vars(given).items() if name in cls.model_fields}
        kept |= {
            "vpns": join_values(given.vpns),
            "levels": join_values([*map(each_level, given.levels or ())]),
            "instruments": given.instruments or (),
            "builds": given.builds or (),
            "deadline_s": seconds(given.deadline_s) if given.deadline_s else None,
            "farm": None,
        }
        if given.farm:
            names = {"address": "farm", "equal": "farm_equal", "timeout": "farm_timeout", "insecure": "farm_insecure"}
            kept["farm"] = AskedFarm(**{name: getattr(given, option) for name, option in names.items()})
        return cls(experiments=experiments, needs=needs, **kept)

    @property
    def sites(self) -> str:
        """The inventory of a run between two sites; empty for any other lab."""
        return self.lab.removeprefix(SITE) if self.lab.startswith(SITE) else ""

    def with_changes(self, **what: object) -> AskedRun:
        """The same with other values of these fields, checked as those of a new one."""
        return AskedRun.model_validate(dict(self) | what)
