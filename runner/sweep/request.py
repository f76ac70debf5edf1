"""What a call of ``vpneval run`` or ``plan`` asks for, checked before anything starts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.catalogue import (
    add_instrument,
    expand,
    load_experiment,
    load_vpn,
    metrics,
    parse_levels,
    record_of,
    vpn_names,
)
from runner.choice.candidates import candidates
from runner.choice.stated import Given, stated
from runner.data.errors import UsageError, require_known
from runner.data.files import is_there
from runner.data.levels import BASELINE
from runner.data.needs import Needs
from runner.data.numbers import rate_bps, seconds
from runner.data.store import load_run, read_run
from runner.data.trials import Cell, ExperimentRecord, Trial
from runner.design.experiment import Experiment
from runner.design.profile import PROFILES, Profile, between_rates, changed, in_turns
from runner.lab.machine import LEAST_LABS
from runner.lab.names import DEFAULT_IMAGE, image_names
from runner.lab.places import check_spec
from runner.lab.places.sites import HOURS
from runner.ranking.basis import measured_metrics
from runner.ranking.weights import Weights, parse_weights
from runner.sweep.going_on import measured
from runner.sweep.plan import TUNNEL_S, Planned, all_cells, all_turn, blocks, expected_trial_s
from runner.sweep.stopping import INITIAL_REPETITIONS, instances
from runner.vpn.plugin import Vpn

LONGEST_S = 86400  # iperf3's own limit for a test
MOST_REPS = 1000
MOST_ROUNDS = 1000
SLICES_S = (0.1, 10.0)
FEW = 4  # VPNs that begin where none of an experiment's first ones has the musts
MOST_BLOCKS = 100_000  # repetitions on a farm


@dataclass(frozen=True)
class Options:
    """What the options of ``run`` and ``plan`` say, not checked yet. ``many``: the repetitions are a farm's.
    ``until_significant``: None leaves it to the profile, unless repetitions are given."""

    experiments: Sequence[str]
    vpns: str = ""
    levels: str = ""
    profile: str = "quick"
    repetitions: int | None = None
    duration_s: int | None = None
    rounds: int | None = None
    slice_s: float | None = None
    seed: int = 1
    image: str = DEFAULT_IMAGE
    gateway_images: str = ""
    out: Path | None = None
    deadline: str = ""
    retry_failed: bool = False
    until_significant: bool | None = None
    weights: str = ""
    lab: str = "netns"
    instruments: Sequence[str] = ()
    many: bool = False
    max_rate: str = ""
    between: str = ""
    search_rates: str = ""
    needs: Path | None = None
    line: str = ""
    path_rtt: str = ""
    path_loss: str = ""
    traffic: str = ""
    must: str = ""


@dataclass
class Request:
    """The run that a command line describes, every name of it known to exist."""

    experiments: list[Experiment]
    vpns: list[Vpn]
    profile: Profile
    chosen: dict[str, list[str]]
    repetitions: int
    seed: int = 1
    given_repetitions: int | None = None  # by --reps
    first: int = 1  # the repetition to begin with
    image: str = DEFAULT_IMAGE
    gateway_images: list[str] = field(default_factory=list)
    out: Path | None = None
    deadline_s: float | None = None
    retry_failed: bool = False
    until_significant: bool = False
    weights: Weights | None = None  # of the ranking that until_significant goes by
    lab: str = "netns"
    options: Options = field(default_factory=lambda: Options([]))  # to ask the same on another machine
    needs: Needs = field(default_factory=Needs)
    limits: dict[str, Any] = field(default_factory=dict)  # of a site lab, before those of its inventory
    later: list[Vpn] = field(default_factory=list)  # candidates that come in when the answer for ``vpns`` is settled

    @property
    def cells(self) -> list[Cell]:
        """Every cell of these experiments, VPNs and levels, once."""
        return all_cells(self.experiments, self.vpns, self.profile, self.chosen, self.gateway_images)

    @property
    def records(self) -> list[ExperimentRecord]:
        """The experiments as run.json holds them."""
        records = []
        for experiment in self.experiments:
            record = experiment.record(self.vpns, self.profile, self.chosen)
            cells = all_cells([experiment], self.vpns, self.profile, self.chosen, self.gateway_images)
            records.append(record.model_copy(update={"cells": cells}))
        return records

    def expected(self, seen: Sequence[Trial] = ()) -> tuple[int, float]:
        """The number of trials beside those in ``seen``, and the seconds they will take if every VPN is supported."""
        done = measured(seen, self.retry_failed)
        hopeless = {trial.cell for trial in seen if trial.status == "unsupported"}
        sums = blocks(self.cells, self.repetitions, self.seed, done, hopeless, self.profile).sums
        return sums.trials, sums.expected_s

    @property
    def labs(self) -> int:
        """How many labs must be able to stand at once. More tunnels than that can take turns in groups."""
        return max(LEAST_LABS, *(Planned(cell, 1).instrument.labs(cell.params) for cell in self.cells))

    @property
    def shortest_s(self) -> float:
        """The seconds that the shortest trial takes, in a tunnel of its own."""
        return TUNNEL_S + min(expected_trial_s(Planned(cell, 1), self.profile) for cell in self.cells)


def ask(options: Options) -> Request:
    """Check everything that a user can get wrong. Raises UsageError; starts nothing."""
    for path in options.instruments:
        add_instrument(path)
    needs = _needs(options)
    levels = _with_line(options.levels, needs)
    chosen_profile = _profile(options.profile, options.duration_s, options.lab, options.search_rates)
    if options.rounds is not None or options.slice_s is not None:
        chosen_profile = _in_turns(chosen_profile, options.rounds, options.slice_s, options.deadline)
    until_significant = options.until_significant
    if until_significant is None:
        until_significant = chosen_profile.until_significant and options.repetitions is None and not options.many
    most = MOST_BLOCKS if options.many else MOST_REPS
    if options.repetitions is not None and not 1 <= options.repetitions <= most:
        raise UsageError(f"--reps must be from 1 to {most}, not {options.repetitions}")
    check_spec(options.lab)
    require_known("image", options.image, image_names())
    gateways = [name.strip() for name in options.gateway_images.split(",") if name.strip()]
    for name in gateways:
        require_known("image", name, image_names())
    experiments = [load_experiment(name) for name in expand(options.experiments)]
    wanted = [name.strip() for name in options.vpns.split(",") if name.strip()]
    later: list[Vpn] = []
    if not wanted:
        wanted, later = _candidates(experiments, needs, in_turn=bool(options.deadline) and not options.many)
    plugins = [load_vpn(name) for name in dict.fromkeys([BASELINE, *wanted])]  # none: to be compared with
    twice = sorted({vpn.name for vpn in plugins if [other.name for other in plugins].count(vpn.name) > 1})
    if twice:
        raise UsageError(f"--vpn names two plugins called {', '.join(twice)}. Rename your file")
    request = Request(
        experiments,
        plugins,
        chosen_profile,
        parse_levels(levels, plugins[1:] if options.vpns else ()),
        options.repetitions or chosen_profile.repetitions,
        options.seed,
        options.repetitions,
        1,
        options.image,
        gateways,
        options.out,
        None,
        options.retry_failed,
        until_significant,
        lab=options.lab,
        options=replace(options, levels=levels),
        needs=needs,
        limits=site_limits(options.lab, options.max_rate, options.between),
        later=later,
    )
    if until_significant:
        request.repetitions = max(request.repetitions, INITIAL_REPETITIONS)
    if not request.cells:
        narrowed = [f"--profile {options.profile}"]
        narrowed += [f"--vpn {options.vpns}"] * bool(options.vpns) + [f"--set {levels}"] * bool(levels)
        raise UsageError(f"{' '.join(narrowed)} leaves nothing to measure in {', '.join(options.experiments)}")
    request.deadline_s = _deadline_s(options.deadline, request)
    request.repetitions = max(request.repetitions, 1 if options.many else _instances(request))
    request.weights = _weights(options.weights, request)
    return request


def _candidates(experiments: Sequence[Experiment], needs: Needs, *, in_turn: bool) -> tuple[list[str], list[Vpn]]:
    """The VPNs that are measured where none is named: all; for a choice those that have the musts. ``in_turn``: only
    its first ones at once, and then those that come in later."""
    first = [name for experiment in experiments for name in experiment.first]
    if not first:
        return vpn_names(), []
    every = {name: load_vpn(name) for name in vpn_names()}
    able = candidates({name: record_of(vpn) for name, vpn in every.items()}, needs, ports=True)
    begin = [name for name in first if name in able] or able[:FEW]
    return (begin, [every[name] for name in able if name not in begin]) if in_turn else (able, [])


def _with_line(levels: str, needs: Needs) -> str:
    """``--set`` with the stated line, whose shares the ladder then climbs to."""
    line = [f"line_bps={needs.line_bps:.0f}"] if needs.line_bps and "line_bps=" not in levels else []
    return ",".join(filter(None, (levels, *line)))


def _needs(options: Options) -> Needs:
    """What the user needs: by this call, and where it does not say, by those before it on the same folder."""
    given, before = Given(*(getattr(options, name) for name in Given._fields)), None
    with suppress(UsageError):  # whoever opens the folder says what is wrong with it
        if options.out and is_there(options.out / "run.json"):
            before = read_run(options.out / "run.json").needs
    return stated(given, before)


def site_limits(lab: str, max_rate: str, between: str) -> dict[str, Any]:
    """``--max-rate`` and ``--between`` as the keys of a site's inventory. Raises UsageError for a malformed rate,
    malformed hours, and a lab that is not a site's."""
    given = [name for name, text in (("--max-rate", max_rate), ("--between", between)) if text]
    if given and not lab.startswith("site:"):
        raise UsageError(f"{given[0]} protects the path of a site lab: give --lab site:SITES.toml, too")
    if between and not re.fullmatch(HOURS, between):
        raise UsageError(f"--between must be hours like 01:00-05:00, not {between!r:.60}")
    limits: dict[str, Any] = {"between": between} if between else {}
    return limits | ({"max_rate_bps": rate_bps(max_rate)} if max_rate else {})


def _profile(name: str, duration_s: int | None, lab: str, search_rates: str) -> Profile:
    """The profile, with what the options change of it. Raises UsageError."""
    require_known("profile", name, list(PROFILES))
    profile = PROFILES[name]
    if duration_s is not None:
        if not 1 <= duration_s <= LONGEST_S:
            raise UsageError(f"--duration must be a whole number of seconds from 1 to {LONGEST_S}, not {duration_s}")
        profile = changed(profile, duration_s)
    return between_rates(profile, *_search_rates(lab, search_rates)) if search_rates else profile


def _in_turns(profile: Profile, rounds: int | None, slice_s: float | None, deadline: str) -> Profile:
    """The profile with other rounds, or slices of TCP. Raises UsageError for too few or many, and where the VPNs do not
    take turns, or a deadline decides how many rounds there are."""
    option = "--rounds" if rounds is not None else "--slice"
    if not profile.rounds:
        raise UsageError(f"{option} is for profiles whose VPNs take turns (quick, site), and without --duration")
    if rounds is not None and deadline:
        raise UsageError("--rounds and --deadline both say how many rounds there are: give one of them")
    if rounds is not None and not 1 <= rounds <= MOST_ROUNDS:
        raise UsageError(f"--rounds must be from 1 to {MOST_ROUNDS}, not {rounds}")
    if slice_s is not None and not SLICES_S[0] <= slice_s <= SLICES_S[1]:
        raise UsageError(f"--slice must be from {SLICES_S[0]:g} to {SLICES_S[1]:g} seconds, not {slice_s:g}")
    return in_turns(profile, rounds, slice_s)


def _search_rates(lab: str, text: str) -> tuple[float, float]:
    """``1M-5G`` in bit/s. Raises UsageError for anything else, and for another lab than a site's."""
    option = "--search-rates"
    if not lab.startswith("site:"):
        raise UsageError(f"{option} is for the path of a site lab: give --lab site:SITES.toml, too")
    lowest, _, highest = text.partition("-")
    rates = rate_bps(lowest, option), rate_bps(highest, option)
    if rates[0] >= rates[1]:
        raise UsageError(f"{option} must be the lowest rate and a higher one, like 1M-5G, not {text!r:.60}")
    return rates


def _instances(request: Request) -> int:
    """How many tunnels of each VPN, one after another, a deadline has time for. It is 1 where ``--reps`` says the
    number, where some measurements are not made in slices and so need their own time, and where the deadline is for the
    undecided pairs of a run in the folder, which get new tunnels."""
    goes_on = request.until_significant and request.out is not None and is_there(request.out / "trials.jsonl")
    if request.given_repetitions or goes_on or not request.deadline_s or not all_turn(request.cells, request.profile):
        return 1
    return instances(request.deadline_s)


def _deadline_s(text: str, request: Request) -> float | None:
    """The deadline ``text`` in seconds. Raises UsageError for a malformed time, and for one in which nothing can be
    measured."""
    if not text:
        return None
    deadline_s, shortest_s = seconds(text), request.shortest_s
    if deadline_s < shortest_s:
        raise UsageError(
            f"--deadline {text} is too short: the shortest trial of this run takes about {shortest_s:.1f} s"
        )
    return deadline_s


def _weights(text: str, request: Request) -> Weights | None:
    """The weights of the run. Raises UsageError where they count a metric that the run will not measure."""
    if not text:
        return None
    kinds = {cell.params["measure"] for cell in request.cells}
    known = metrics()
    there = {metric.name for metric in known.values() if metric.measure in kinds}
    if request.out and is_there(request.out / "run.json"):  # by earlier calls
        run, trials = load_run(request.out)
        known, there = known | run.metrics, there | set(measured_metrics(trials))
    weights = parse_weights(text, known, there)
    return weights if request.until_significant else None
