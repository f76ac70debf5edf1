"""The data of a run, as pydantic models: they are the schema of run.json and trials.jsonl."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, FiniteFloat, model_validator

from runner.data.asked import AskedRun
from runner.data.declaration import Declaration
from runner.data.details import Details
from runner.data.kinds import (
    Commit,
    Count,
    Digest,
    FolderName,
    Level,
    Line,
    MetricName,
    Moment,
    Name,
    NotNegative,
    Real,
    Strict,
    Text,
    TrialId,
    Unit,
    Version,
    Whole,
)
from runner.data.lab_facts import ImageFacts, LabFacts
from runner.data.loads import Limit, MachineLoad
from runner.data.metric import Metric, impossible
from runner.data.needs import Needs
from runner.data.remarks import Remark

SCHEMA_VERSION = 2
CPU = "cpu_s"  # the end of the names of a rung's CPU seconds
NORMAL_95 = 1.959964  # standard errors on each side of a 95 % interval
MOST_REPETITIONS = 1_000_000  # of a run of several calls
MOST_LOOKS = 6  # of one call at what has been measured, to decide whether to go on: each look costs certainty

Seconds = NotNegative
Position = Literal["first", "within", "between", "last"]  # a baseline opens, halves or closes its block
# interrupted: it was under way when the run ended. Who reads a run folder finds it completed from its slices.
Status = Literal["ok", "failed", "unsupported", "lab_error", "interrupted"]


def _below(path: str) -> str:
    """The path, if it leads nowhere but below the folder that it is relative to. Raises ValueError."""
    if path.startswith("/") or ".." in path.split("/"):
        raise ValueError("a path below the run folder is needed")
    return path


Below = Annotated[Line, AfterValidator(_below)]
Params = dict[Name, Level]  # factor -> level


class Value(Strict):
    """What an instrument gives of one metric: its value, and the raw samples that it was made from.

    ``value`` is in the metric's unit. ``samples`` are in the same unit, one a second
    (throughput) or one an exchange (rtt). Where the cells of a run took turns, round after round, they are one a
    round, and ``rounds`` has the rounds' numbers, which no other repetition of the run uses. ``detail`` holds what
    else the instrument said: ``estimand``, ``"mean"`` or ``"median"``, where a metric may be either; for example
    every trial of a throughput search as ``{"trials": [{"offered_rate_bps",
    "duration_s", "loss_ratio"}, …], "interval_bps": [low, high], "flags": […]}``.
    """

    metric: str
    value: float
    samples: list[float] = []
    rounds: list[int] = []
    detail: Details = {}

    @model_validator(mode="after")
    def _a_sample_a_round(self) -> Self:
        if self.rounds and len(self.rounds) != len(self.samples):
            raise ValueError(f"{self.metric} has {len(self.samples)} samples of {len(self.rounds)} rounds")
        return self

    @property
    def blocks(self) -> list[tuple[int, float]]:
        """Its rounds, each with the sample of that round; empty where it has none."""
        return list(zip(self.rounds, self.samples, strict=True)) if self.rounds else []

    @property
    def pooled_error(self) -> float | None:
        """The standard error of the value's logarithm, where the value is about all repetitions so far: a search that
        was continued from one to the next says so (``pooled``). None for any other."""
        return self.search_error if self.detail.get("pooled") else None

    @property
    def search_error(self) -> float | None:
        """The standard error of a logarithm by all trials of a search so far, whose interval is a 95 % one. None for
        what no search found."""
        match self.detail:
            case {"interval_bps": [float() | int() as low, float() | int() as high]} if 0 < low <= high:
                return (math.log(high) - math.log(low)) / (2 * NORMAL_95)
        return None

    @property
    def at_least(self) -> bool:
        """Is the value a lower bound only? A search says so by having neither an interval nor a confirmed rate:
        the generator could offer no more, or the time was over, before a higher rate failed. An outage that had not
        ended when it was given up says so itself."""
        if self.detail.get("at_least"):
            return True
        searched = "interval_bps" in self.detail
        return searched and not self.detail["interval_bps"] and not self.detail.get("confirmed_rate_bps")


class Measurement(Value):
    """One metric of one trial as it is stored, with the unit that its definition has (Run.metrics).

    All are numbers; times, rates and sizes are zero or more.
    """

    metric: MetricName
    value: FiniteFloat
    samples: list[FiniteFloat] = []
    rounds: list[Count] = []

    unit: Unit
    better: Literal["higher", "lower"]

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if why := impossible([self.value, *self.samples], self.unit):
            raise ValueError(f"{self.metric} is {why}")
        return self


class Evidence(Strict):
    """What was observed of the tunnel: proof that the VPN asked for is the one that was measured. ``key_exchange``: the
    one that gave the keys, in the daemon's word ("X25519MLKEM768", "ECP_256"); empty where nobody tells."""

    cipher: Text = ""
    integrity: Text = ""
    compression: Text = ""
    key_exchange: Text = ""
    data_path: Text = ""
    version: Text = ""
    facts: dict[Line, Text] = {}


class Proof(Strict):
    """The marker experiment: random bytes sent both ways through the tunnel while the WAN is captured."""

    confidential_promised: bool
    delivered: bool
    marker_on_wan: bool
    sent_bytes: Count
    captured_bytes: Count
    captured_on: Line = "wan gw1"  # where: the WAN node, or, where there is none, what each gateway sent
    outer: list[Line] = Field(
        default=[], description="what the tunnel travelled in on the WAN: tcp, udp, esp; empty where others use it, too"
    )


class Noise(Strict):
    """What the machine did beside a trial, over the trial's measurement; None where its kernel does not tell.

    ``steal_ratio`` and ``iowait_ratio`` are shares of all CPU time (0 to 1; proc_stat(5)). ``throttled`` counts
    what slowed the CPU down: thermal events of all cores, and periods in which a cgroup's CPU quota was used
    up. ``clock_ratio`` is the fastest core's frequency over its highest, read at the end. ``foreign_ratio`` is the
    share of all CPU time that programs outside of the lab had, while loads of a ladder were running. It is the runner's
    machine; ``machines`` has the others by name, where the lab's nodes are machines of their own: of them the quotas
    alone, and no frequency.
    """

    steal_ratio: Real | None = None
    iowait_ratio: Real | None = None
    throttled: Whole | None = None
    clock_ratio: Real | None = None
    foreign_ratio: Real | None = None
    machines: dict[Line, Noise] = {}


class Event(Strict):
    """Something that was done or seen while a failure was watched; ``at_s`` seconds after the probe stream's start."""

    at_s: Real
    what: Text


class LossGap(Strict):
    """Probes of one direction that were lost, or late, in a row: how many, and from when to when (seconds)."""

    direction: Literal["forward", "reverse"]
    start_s: Real
    end_s: Real
    lost: Count


class Timeline(Strict):
    """One failure: what was done, and what the probe stream saw of it. Bounded: the longest gaps, in their order.

    ``gaps_left_off``: how many shorter ones there were; ``rate`` is the stream's, in datagrams a second each way.
    """

    rate: Real
    events: list[Event] = []
    gaps: list[LossGap] = []
    gaps_left_off: Count = 0


class Rung(Strict):
    """One rate of a ladder, in the rounds in which it was climbed to. ``values`` has by name one value a round, None
    where that round has none: ``carried_ratio`` (of what was offered), ``loss_ratio`` and ``delay_p50_ms``,
    ``delay_p95_ms`` (of the datagrams), ``cpu_s`` (CPU seconds of the whole lab) and what of them the processes of each
    gateway (``gw1_cpu_s``) and the kernel's threads (``threads_cpu_s``) had, in ``seconds`` and for ``carried_bytes``
    of payload; ``broke_down`` is 1 where nothing came through any more afterwards.
    ``attempts``: how often the rate was offered as asked, ``bad_attempts``: how many of these did not carry it; the
    other values are of the first one."""

    rate_bps: Annotated[Real, Field(gt=0)]
    rounds: list[Count]
    values: dict[Name, list[Real | None]]

    @model_validator(mode="after")
    def _a_value_a_round(self) -> Self:
        for name, values in self.values.items():
            if len(values) != len(self.rounds):
                raise ValueError(f"{name} has {len(values)} values of {len(self.rounds)} rounds")
            known = [value for value in values if value is not None]
            if known and name.endswith(CPU) and (why := impossible(known, "s")):
                raise ValueError(f"{name} at {self.rate_bps:g} bit/s is {why}")
        return self


def _with_checksum(schema: dict[str, Any]) -> None:
    schema["properties"]["crc32"] = {
        "description": "of the line without this member, as eight hexadecimal digits; it stands last; none in older "
        "runs",
        "pattern": "^[0-9a-f]{8}$",
        "type": "string",
    }


class Checked(Strict):
    """A line of a file, which has a checksum there (runner/data/checksum.py)."""

    model_config = ConfigDict(json_schema_extra=_with_checksum)


class Trial(Checked):
    """One line of trials.jsonl: one VPN, one level of each factor, one repetition."""

    schema_version: int = SCHEMA_VERSION
    id: TrialId
    vpn: Name
    params: Params
    repetition: Count
    position: Position = "within"
    experiments: list[Name] = []
    status: Status
    reason: Text = ""
    encrypted: bool = False
    warnings: list[Text] = Field(default=[], description="sentences for a reader")
    remarks: list[Remark] = Field(default=[], description="what a report reads beside the numbers")
    started_at: Moment
    duration_s: Seconds = 0.0
    measuring_s: Seconds = 0.0
    log: Below = ""  # folder of its tunnel's commands and daemon logs, relative to the run folder
    machine: Line = Field(default="", description="of a farm: on which of Run.machines; empty where there is no farm")
    evidence: Evidence | None = None
    proof: Proof | None = None
    noise: Noise | None = None
    attempt: Details = Field(default={}, description="what a failed measurement saw, a search's trials, say")
    measurements: list[Measurement] = []
    curve: list[Rung] = Field(default=[], description="of a ladder: what was measured at each rate")
    timelines: list[Timeline] = Field(default=[], description="one for each failure that this trial caused on purpose")
    loads: list[MachineLoad] = Field(default=[], description="of each machine, while a throughput was measured")
    limit: Limit | None = Field(default=None, description="what limits the throughput, as its machines' loads say")

    @property
    def cell(self) -> str:
        """The key of this trial's VPN and levels, equal for all its repetitions."""
        return cell_key(self.vpn, self.params)


class Slice(Checked):
    """One row of slices.jsonl: the shortest piece of a measurement, and what it found.

    ``trial`` is the id of the trial that it belongs to, ``number`` counts a trial's slices from 1. ``round``: one slice
    of every cell is a round, and 0 is none: its trial was measured by itself (1 in older runs); ``instance``: which of
    the tunnels of its cell, brought up anew, it was measured in. ``at_s`` is its begin, seconds after the trial's
    ``started_at``. ``values`` are in units that their names tell.
    """

    trial: TrialId
    number: Count
    round: Count = 1
    instance: Count = 1
    at_s: Seconds
    duration_s: Seconds
    values: dict[Name, FiniteFloat] = {}


class Cell(Strict):
    """One VPN at one level of each factor: what a repetition is a repetition of."""

    vpn: Name
    params: Params

    @property
    def key(self) -> str:
        """A stable text for the cell; see ``cell_key``."""
        return cell_key(self.vpn, self.params)


class ExperimentRecord(Strict):
    """An experiment as it was asked: its question, its factors, and the cells that belong to it."""

    name: Name
    question: Text
    method: Text
    source: Text
    factors: dict[Name, list[Level]]
    metrics: list[MetricName]
    cells: list[Cell]


class VpnRecord(Strict):
    """What the report needs to know of a plugin. ``configurations`` maps the ranked configurations'
    names (``comparable``, ``recommended``) to their tunnel levels; ``reference`` VPNs are shown, not ranked.
    ``digest`` is of the plugin's files, so that another one of the same name is known from it; ``build``: of the build
    that was measured in the place of the image's software, "" for the image's own. ``family``: VPNs of one
    protocol share it. ``declared``: None in older runs, and of a plugin that declares nothing."""

    title: Line
    dataplane: Line
    transport: Line
    reference: bool
    carries: Line
    configurations: dict[Name, Params]
    note: Text = ""
    digest: Digest = ""
    build: Digest = Field(default="", description="the digest of its build, where --build gave one")
    speaks: Line = Field(default="", description="the protocol on the WAN, the same for all VPNs that speak it")
    family: Line = ""
    declared: Declaration | None = None
    one_connection: bool | None = Field(
        default=None, description="does all that it carries share one TCP connection on the WAN? None in older runs"
    )
    roams: Line = Field(
        default="", description="whose address may change in its recipe: none, dialing or both; empty in older runs"
    )
    after: Count = Field(default=0, description="the repetitions that the run had when this VPN came in")

    @property
    def is_one_connection(self) -> bool:
        """Does all that it carries share one TCP connection? Of an older run: so as most that travel in TCP."""
        return self.transport == "tcp" if self.one_connection is None else self.one_connection


class Invocation(Strict):
    """One call of ``vpneval run`` on this folder."""

    command_line: list[Text]
    asked: AskedRun | None = Field(default=None, description="what it asked for; None in older runs")
    started_at: Moment
    ended_at: Moment = ""
    outcome: Text = ""
    elapsed_s: Seconds = 0.0
    measuring_s: Seconds = 0.0
    trimmed: Count = Field(default=0, description="planned trials that the deadline left no time for")
    passed_over: Count = Field(
        default=0, description="planned trials whose pairs of VPNs were decided, or needed more time than was left"
    )
    separation: Text = Field(default="", description="with --until-significant: what is separated, and what is not")
    left_out: dict[Line, Text] = Field(
        default={}, description="of a farm: the machines that this call refused or left out, and why"
    )


class Machine(Strict):
    """A machine of a farm. ``image``: the digest of the lab image, and of each gateway image; ``versions``: vpneval's
    and a digest of its code; ``lab``: what its first block found of it, as ``Run.lab``."""

    cpu: Line
    cores: Count
    memory_bytes: Count
    kernel: Line
    image: Line
    versions: Line
    lab: LabFacts = Field(default={}, description="what its first block says of it, as lab of the run")
    lacks: dict[Text, Text] = Field(default={}, description="cell -> why this machine could not measure it")

    @property
    def kind(self) -> str:
        """What machines must share for their numbers to be in one ranking."""
        return f"{self.cpu}, {self.cores} core{'s' * (self.cores != 1)}, kernel {self.kernel}, image {self.image}"


class Run(Strict):
    """run.json: everything about a run that is not a trial."""

    schema_version: int = SCHEMA_VERSION
    vpneval_version: Version
    commit: Commit = Field(
        default="", description="of vpneval's tree, with + where files differ from it; empty: no tree"
    )
    run_id: FolderName
    created_at: Moment
    profile: Name
    profile_note: Text = ""
    seed: Whole
    repetitions: Annotated[int, Field(ge=0, le=MOST_REPETITIONS)]
    looks: int = Field(
        default=1,
        ge=1,
        le=MOST_REPETITIONS,
        description="how often it was asked whether to stop, in all calls together",
    )
    needs: Needs = Field(default=Needs(), description="the line, path, traffic and musts that the user stated")
    lab: LabFacts = Field(default={}, description="kind, kernel, CPU, cores, offloads, clock source")
    image: ImageFacts = Field(default={}, description="name, digest, package versions")
    experiments: list[ExperimentRecord] = []
    metrics: dict[MetricName, Metric] = Field(default={}, description="what each metric of this run is, by its name")
    vpns: dict[Name, VpnRecord] = {}
    machines: dict[Line, Machine] = Field(default={}, description="of a farm: each machine that measured, by its name")
    invocations: list[Invocation] = []


def cell_key(vpn: str, params: Mapping[str, str]) -> str:
    """A stable text for a VPN and its levels, independent of the order of the factors."""
    return _cell_key(vpn, tuple(params.items()))


@lru_cache(maxsize=50_000)  # a trial's is asked for again and again, and its repetitions share it
def _cell_key(vpn: str, params: tuple[tuple[str, str], ...]) -> str:
    return vpn + " " + json.dumps(dict(sorted(params)), separators=(",", ":"))


def trial_id(vpn: str, params: Mapping[str, str], repetition: int, position: str = "within") -> str:
    """The trial's name: VPN, repetition, and a digest of its levels; safe as a file name."""
    digest = hashlib.sha256(cell_key(vpn, params).encode()).hexdigest()[:10]
    suffix = "" if position == "within" else f"-{position}"
    return f"{vpn}-{digest}-r{repetition}{suffix}"


def measured_metrics(trials: Sequence[Trial]) -> set[str]:
    """The metrics that at least one ok trial measured: those that weights may name."""
    return {measurement.metric for trial in trials if trial.status == "ok" for measurement in trial.measurements}
