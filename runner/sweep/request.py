"""What a call of ``vpneval run`` or ``plan`` asks for, checked before anything starts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from questions import load_question, question_of
from runner.catalogue import (
    add_instrument,
    expand,
    load_experiment,
    load_run,
    load_vpn,
    metrics,
    parse_levels,
    record_of,
    vpn_names,
)
from runner.data.asked import AskedRun
from runner.data.errors import UsageError, require_known
from runner.data.files import is_there
from runner.data.levels import BASELINE, UPLINK, VERSION
from runner.data.needs import Needs
from runner.data.numbers import rate_bps
from runner.data.trials import Cell, ExperimentRecord, Trial, measured_metrics
from runner.design.experiment import Experiment
from runner.design.profile import PROFILES, Profile, between_rates, in_turns, with_duration
from runner.design.question import Question
from runner.instruments.tools.fragments import IPV6_UDP_BYTES
from runner.lab import kernels
from runner.lab.kernels.boot import Kernel
from runner.lab.machine import LEAST_LABS
from runner.lab.names import image_names
from runner.lab.places import check_spec, check_uplinks, device_of
from runner.lab.places.hours import validate_hours
from runner.ranking.model import Weights
from runner.ranking.weights import parse_weights
from runner.sweep.builds import BUILD_INSTANCE_S, builds_of, with_builds
from runner.sweep.going_on import measured_ids
from runner.sweep.plan import TUNNEL_S, Planned, all_cells, all_turn, blocks, expected_trial_s
from runner.sweep.repeating import INITIAL_REPETITIONS, INSTANCE_S, instances
from runner.sweep.versions import in_versions
from runner.vpn.plugin import Vpn

LONGEST_S = 86400  # iperf3's own limit for a test
MOST_REPS = 1000
MOST_ROUNDS = 1000
SLICES_S = (0.1, 10.0)
FEW = 4  # VPNs that begin where none of an experiment's first ones has the musts
MOST_BLOCKS = 100_000  # repetitions on a farm


@dataclass(frozen=True)
class Request:
    """The run that was asked for, every name of it known to exist. ``repetitions``: as many as it is planned with."""

    asked: AskedRun
    experiments: list[Experiment]
    vpns: list[Vpn]
    profile: Profile
    chosen: dict[str, list[str]]
    repetitions: int
    until_significant: bool = False
    first: int = 1  # the repetition to begin with
    weights: Weights | None = None  # of the ranking that until_significant goes by
    limits: dict[str, Any] = field(default_factory=dict)  # of a site lab, before those of its inventory
    later: list[Vpn] = field(default_factory=list)  # candidates that come in when the answer for ``vpns`` is settled
    seen: Needs | None = None  # what was asked for, with what was seen of a site lab's path
    kernels: Sequence[Kernel | None] = (None,)  # to measure under, one after another; None: this machine's own

    @property
    def needs(self) -> Needs:
        """What the user needs, as far as it was stated or seen."""
        return self.seen or self.asked.needs

    @property
    def uplinks(self) -> list[str]:
        """The lines of a site lab that it is about; empty: the one that the inventory has without them."""
        return self.chosen.get(UPLINK, [])

    @property
    def images(self) -> list[str]:
        """The lab images that it needs, that of the nodes first."""
        return list(dict.fromkeys([self.asked.image, *self.asked.gateway_images]))

    @property
    def cells(self) -> list[Cell]:
        """Every cell of these experiments, VPNs and levels, once."""
        return all_cells(self.experiments, self.vpns, self.profile, self.chosen, self.asked.gateway_images)

    @cached_property
    def question(self) -> Question[Any]:
        """What the run is asked."""
        return _question(self.asked, {cell.params["measure"] for cell in self.cells})

    @property
    def records(self) -> list[ExperimentRecord]:
        """The experiments as run.json holds them."""
        records = []
        for experiment in self.experiments:
            record = experiment.record(self.vpns, self.profile, self.chosen)
            cells = all_cells([experiment], self.vpns, self.profile, self.chosen, self.asked.gateway_images)
            records.append(record.model_copy(update={"cells": cells}))
        return records

    def expected_time(self, seen: Sequence[Trial] = ()) -> tuple[int, float]:
        """The number of trials beside those in ``seen``, and the seconds they will take if every VPN is supported."""
        done = measured_ids(seen, self.asked.retry_failed)
        hopeless = {trial.cell for trial in seen if trial.status == "unsupported"}
        sums = blocks(self.cells, self.repetitions, self.asked.seed, done, hopeless, self.profile).sums
        return sums.trials, sums.expected_s

    @property
    def labs(self) -> int:
        """How many labs must be able to stand at once. More tunnels than that can take turns in groups."""
        return max(LEAST_LABS, *(Planned(cell, 1).instrument.labs(cell.params) for cell in self.cells))

    @property
    def shortest_s(self) -> float:
        """The seconds that the shortest trial takes, in a tunnel of its own."""
        return TUNNEL_S + min(expected_trial_s(Planned(cell, 1), self.profile) for cell in self.cells)


def resolve(asked: AskedRun) -> Request:
    """Check everything that a user can get wrong. Raises UsageError; starts nothing."""
    asked = with_builds(asked)
    under = kernels.parse(asked.kernel, asked.lab)
    _load_own(asked)
    levels = _with_line(asked)
    profile = _profile(asked.profile, asked.duration_s, asked.lab, asked.search_rates)
    if asked.rounds is not None or asked.slice_s is not None:
        profile = _in_turns(profile, asked.rounds, asked.slice_s, asked.deadline_s)
    until_significant, many = asked.until_significant, asked.farm is not None
    if until_significant is None:
        until_significant = profile.until_significant and asked.repetitions is None and not many
    most = MOST_BLOCKS if many else MOST_REPS
    if asked.repetitions is not None and not 1 <= asked.repetitions <= most:
        raise UsageError(f"--reps must be from 1 to {most}, not {asked.repetitions}")
    check_spec(asked.lab)
    require_known("image", asked.image, image_names())
    for name in asked.gateway_images:
        require_known("image", name, image_names())
    experiments = _experiments(asked)
    named = asked.vpns or asked.builds or device_of(asked.lab)  # a device by itself has no VPN
    wanted, later = (asked.vpns, []) if named else _candidates(experiments, asked)
    beside = [] if asked.builds else [BASELINE]  # builds are compared with each other
    known = {name: load_vpn(name) for name in dict.fromkeys([*beside, *wanted])}
    chosen = parse_levels(levels, [known[name] for name in asked.vpns])
    plugins = in_versions(known, chosen.pop(VERSION, ()))
    plugins += builds_of(asked, {vpn.name for vpn in plugins})
    twice = sorted({vpn.name for vpn in plugins if [other.name for other in plugins].count(vpn.name) > 1})
    if twice:
        raise UsageError(f"two plugins or builds are called {', '.join(twice)}. Give one of them another name")
    if any(experiment.first for experiment in experiments):
        profile = fit_datagrams(profile, [*plugins, *later])
    repetitions = asked.repetitions or profile.repetitions
    request = Request(
        asked,
        experiments,
        plugins,
        profile,
        chosen,
        max(repetitions, INITIAL_REPETITIONS) if until_significant else repetitions,
        until_significant,
        limits=site_limits(asked.lab, asked.max_rate, asked.between),
        later=later,
        kernels=under,
    )
    check_uplinks(asked.lab, request.uplinks)
    if not request.cells:
        narrowed = [f"--profile {asked.profile}"]
        narrowed += [f"--vpn {','.join(asked.vpns)}"] * bool(asked.vpns) + [f"--set {levels}"] * bool(levels)
        raise UsageError(f"{' '.join(narrowed)} leaves nothing to measure in {', '.join(asked.experiments)}")
    if asked.duration_s is not None and not _last_so_long(request, asked.duration_s):
        raise UsageError(
            f"--duration has no effect on {', '.join(asked.experiments)} with --profile {asked.profile}"
            f"{f' --set {levels}' if levels else ''}: none of these tests has a length that can be chosen. Leave it out"
        )
    if asked.deadline_s is not None and asked.deadline_s < request.shortest_s:
        raise UsageError(
            f"--deadline {asked.deadline_s:g}s is too short: the shortest trial of this run takes about "
            f"{request.shortest_s:.1f} s"
        )
    tunnels = 1 if many else _instances(request)
    return replace(request, repetitions=max(request.repetitions, tunnels), weights=_weights(request))


def fit_datagrams(profile: Profile, vpns: Sequence[Vpn]) -> Profile:
    """The profile, with datagrams that no tunnel of these VPNs refuses for their length, over IPv6 neither."""
    longest = min(vpn.inner_mtu for vpn in vpns) - IPV6_UDP_BYTES
    return replace(profile, udp_payload_bytes=min(profile.udp_payload_bytes, longest))


def _load_own(asked: AskedRun) -> None:
    """Load the user's own instruments and question. Raises UsageError for what is none."""
    for path in asked.instruments:
        add_instrument(path)
    if asked.question:
        load_question(asked.question)


def _experiments(asked: AskedRun) -> list[Experiment]:
    """The experiments, with what the needs ask for beside: where an experiment measures with that instrument."""
    experiments = [load_experiment(name) for name in expand(asked.experiments)]
    more = _question(asked, _measured_by(experiments)).more_traffic(asked)
    return [
        replace(each, traffic=(*each.traffic, *(one for one in more if one["measure"] in _measured_by([each]))))
        for each in experiments
    ]


def _measured_by(experiments: Sequence[Experiment]) -> set[str]:
    """The instruments that these experiments measure with."""
    return {each["measure"] for experiment in experiments for each in experiment.traffic}


def _question(asked: AskedRun, instruments: Collection[str]) -> Question[Any]:
    """The question that was named, or that of a run that measures with these instruments."""
    return load_question(asked.question) if asked.question else question_of(instruments)


def _candidates(experiments: Sequence[Experiment], asked: AskedRun) -> tuple[Sequence[str], list[Vpn]]:
    """The VPNs that are measured where none is named: all, or the question's candidates. Under a deadline its first
    ones begin, and the others come in later."""
    first = [name for experiment in experiments for name in experiment.first]
    if not first:
        return vpn_names(), []
    every = {name: load_vpn(name) for name in vpn_names()}
    in_turn = asked.deadline_s is not None and asked.farm is None
    question = _question(asked, _measured_by(experiments))
    records = {name: record_of(vpn) for name, vpn in every.items()}
    able = question.candidates(records, asked.needs, tries=shows(asked))
    known = question.candidates(records, asked.needs)
    begin = [name for name in first if name in known] or able[:FEW]
    return (begin, [every[name] for name in able if name not in begin]) if in_turn else (able, [])


def shows(asked: AskedRun) -> bool:
    """May the run show musts that nobody has tried? Only with time to spare, in labs of this machine's own kernel."""
    return asked.deadline_s is not None and asked.farm is None and asked.lab == "netns"


def _with_line(asked: AskedRun) -> str:
    """``--set`` with the stated line, whose shares the ladder then climbs to."""
    line_bps, given = asked.needs.up_bps, any(level.partition("=")[0] == "line_bps" for level in asked.levels)
    return ",".join([*asked.levels, *([f"line_bps={line_bps:.0f}"] if line_bps and not given else [])])


def site_limits(lab: str, max_rate: str, between: str) -> dict[str, Any]:
    """``--max-rate`` and ``--between`` as the keys of a site's inventory. Raises UsageError for a malformed rate,
    malformed hours, and a lab that is not a site's."""
    given = [name for name, text in (("--max-rate", max_rate), ("--between", between)) if text]
    if given and not lab.startswith("site:"):
        raise UsageError(f"{given[0]} protects the path of a site lab: give --lab site:SITES.toml, too")
    try:
        limits: dict[str, Any] = {"between": validate_hours(between)} if between else {}
    except ValueError as wrong:
        raise UsageError(f"--between {wrong}") from None
    return limits | ({"max_rate_bps": rate_bps(max_rate)} if max_rate else {})


def _profile(name: str, duration_s: int | None, lab: str, search_rates: str) -> Profile:
    """The profile, with what the options change of it. Raises UsageError."""
    require_known("profile", name, list(PROFILES))
    profile = PROFILES[name]
    if duration_s is not None:
        if not 1 <= duration_s <= LONGEST_S:
            raise UsageError(f"--duration must be a whole number of seconds from 1 to {LONGEST_S}, not {duration_s}")
        profile = with_duration(profile, duration_s)
    return between_rates(profile, *_search_rates(lab, search_rates)) if search_rates else profile


def _last_so_long(request: Request, duration_s: int) -> bool:
    """Is any test longer where ``--duration`` is?"""
    longer = with_duration(request.profile, duration_s + 1)
    tests = [Planned(cell, 1) for cell in request.cells]
    return any(expected_trial_s(test, longer) != expected_trial_s(test, request.profile) for test in tests)


def _in_turns(profile: Profile, rounds: int | None, slice_s: float | None, deadline_s: float | None) -> Profile:
    """The profile with other rounds, or slices of TCP. Raises UsageError for too few or many, and where the VPNs do not
    take turns, or a deadline decides how many rounds there are."""
    option = "--rounds" if rounds is not None else "--slice"
    if not profile.rounds:
        raise UsageError(f"{option} is for profiles whose VPNs take turns (quick, site), and without --duration")
    if rounds is not None and deadline_s is not None:
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
    asked = request.asked
    goes_on = request.until_significant and asked.out is not None and is_there(asked.out / "trials.jsonl")
    if asked.repetitions or goes_on or not asked.deadline_s or not all_turn(request.cells, request.profile):
        return 1
    return instances(asked.deadline_s, BUILD_INSTANCE_S if asked.builds else INSTANCE_S)


def _weights(request: Request) -> Weights | None:
    """The weights of the run. Raises UsageError where they count a metric that the run will not measure."""
    text, out = request.asked.weights, request.asked.out
    kinds = {cell.params["measure"] for cell in request.cells}
    known = metrics()
    there = {metric.name for metric in known.values() if metric.measure in kinds}
    if not text and request.asked.builds:  # what the experiments ask for decides
        asked = dict.fromkeys(name for experiment in request.experiments for name in experiment.metrics)
        text = ",".join(f"{name}=1" for name in asked if name in there)
    if not text:
        return None
    if out and is_there(out / "run.json"):  # by earlier calls
        run, trials = load_run(out)
        known, there = known | run.metrics, there | set(measured_metrics(trials))
    weights = parse_weights(text, known, there)
    return weights if request.until_significant else None
