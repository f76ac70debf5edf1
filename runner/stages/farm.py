"""A request on a farm, whose machines measure its repetitions; and one repetition on one of them."""

from __future__ import annotations

import os
import secrets
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from runner.catalogue import read_run
from runner.data.asked import AskedRun
from runner.data.errors import CannotRunHere, Interrupted, LabError, UsageError
from runner.data.files import from_json, is_there, no_link, read_bytes, word, write_text
from runner.data.invocation import begin_invocation, end_invocation
from runner.data.named import HOST
from runner.data.numbers import seconds
from runner.data.store import Store, open_store
from runner.data.trials import Invocation, Machine, Run
from runner.farm import block
from runner.farm.coordinator import Coordinator
from runner.farm.dask import DaskWorkers, check_farm, connect_farm
from runner.farm.keep import Keeper
from runner.farm.machine import differences, most_frequent, parse_equal
from runner.lab.software.image import Image
from runner.sweep.plan import blocks
from runner.sweep.request import Request, resolve
from runner.sweep.run import on_disk, run
from runner.sweep.run_record import describe, measured_vpns, save_packages
from runner.sweep.settings import Outcome, Watch

LATE = 5  # times the expected duration, and
LATE_S = 600  # are what a block may take
COMPARED = {"kernel", "image"}  # machines that may differ in these are asked for on purpose
KEY = ".farm"  # the file with the key that a run has in the spools


@dataclass
class FarmAsked:
    """The farm that is asked for, checked. Raises UsageError, also for what a farm does not have."""

    asked: AskedRun

    def __post_init__(self) -> None:
        asked, farm = self.asked, self.asked.farm
        assert farm is not None
        not_there = {
            "--kernel": asked.kernel != HOST,
            "--lab": asked.lab != "netns",
            "--deadline": asked.deadline_s is not None,
            "--until-significant": bool(asked.until_significant),
        }
        for option in (option for option, given in not_there.items() if given):
            raise UsageError(f"{option} cannot be used with --farm")
        check_farm(farm.address, farm.insecure)
        self.farm = farm.address
        self.equal_names = parse_equal(farm.equal)
        self.timeout_s = seconds(farm.timeout, "--farm-timeout") if farm.timeout else None


def play(request: Request, folder: Path, say: Callable[[str], None]) -> Outcome:
    """Have measured what is missing in ``folder``. Returns what was done.

    Raises Interrupted on Ctrl-C, after the invocation has been written down, and UsageError where the folder
    belongs to another run.
    """
    farm = FarmAsked(request.asked)
    with ExitStack() as stack:
        # A farm that is not there leaves no empty run folder behind.
        workers = None if is_there(folder / "run.json") else stack.enter_context(connect_farm(farm.farm, say))
        store = stack.enter_context(open_store(folder))
        stack.enter_context(on_disk(store))
        request = _with_stored_seed(request, store)
        todo, outcome = missing(request, store), Outcome()
        keeper = Keeper(store, outcome)
        machine_of = {trial.repetition: trial.machine for trial in store.trials if trial.machine}
        began = {trial.repetition: trial.started_at for trial in store.trials if trial.status != "unsupported"}
        measured = measured_vpns(store)
        store.trials = []  # nobody needs them any more, and a farm has many
        call = _Call(farm, request, store, keeper, say, machine_of, began, measured)
        if todo:
            _spread(workers or stack.enter_context(connect_farm(farm.farm, say)), request, todo, call)
            if keeper.run is None:
                raise CannotRunHere(outcome.stopped or "the farm has measured nothing")
        return outcome


def _spread(workers: DaskWorkers, request: Request, todo: list[int], call: _Call) -> None:
    """Have the blocks ``todo`` measured, and write into run.json how that ended. Raises Interrupted."""
    store, keeper, outcome, say = call.store, call.keeper, call.keeper.outcome, call.say
    key = _key(store)
    images = [request.asked.image, *request.asked.gateway_images]
    coordinator = Coordinator(
        workers,
        key,
        images,
        elsewhere(request.asked),
        todo,
        call.spread.timeout_s or LATE * expected_s(request) + LATE_S,
        call.admit,
        keeper.keep,
        say,
        None if call.reference else call.choose,
        call.leave_out,
        call.shared,
        {number: call.began[number] for number in todo if number in call.began},
    )
    say(f"{len(todo)} blocks are to be measured. Each is one repetition on one machine.")
    try:
        outcome.stopped = _spread_all(coordinator, store)
        if outcome.stopped:
            workers.everywhere(block.drop, key, sorted(keeper.kept))
        else:
            workers.everywhere(block.forget, key)
    except KeyboardInterrupt:
        call.record_end("interrupted", outcome)
        say("vpneval ends what the machines measure.")
        workers.everywhere(block.stop, key, sorted(keeper.kept))
        safe = f"interrupted; what was measured is safe in {store.folder}"
        raise Interrupted(f"{safe}. To continue: the same command with --out {word(store.folder)}") from None
    call.record_end(f"stopped: {outcome.stopped}" if outcome.stopped else "complete", outcome)


@dataclass
class _Call:
    """One call of ``vpneval run --farm``, as run.json records it; decides which machines may take part."""

    spread: FarmAsked
    request: Request
    store: Store
    keeper: Keeper
    say: Callable[[str], None]
    machine_of: Mapping[int, str]  # which machine measured which block before
    began: Mapping[int, str]  # when a trial of each block began
    measured: Set[str]  # VPNs of which the folder has numbers
    reference: Machine | None = None
    shared: Counter[str] | None = None  # blocks of each kind of machine, where kinds may differ by what is compared
    before: list[Invocation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.started = time.monotonic()
        self.call = begin_invocation(self.request.asked)
        if not COMPARED.issubset(self.spread.equal_names):
            self.shared = Counter()
        path = self.store.folder / "run.json"
        if not is_there(path):
            return
        old = read_run(path)
        if not old.machines:
            raise UsageError(
                f"{self.store.folder} was measured without --farm. Continue it so, or choose another --out"
            )
        if old.profile_note not in (self.request.profile.note, *self.request.profile.noted_before):
            raise UsageError(f"{self.store.folder} was measured with another profile: {old.profile_note}")
        self.reference = next(iter(old.machines.values()))
        if self.shared is not None:
            self.shared.update(old.machines[name].kind for name in self.machine_of.values() if name in old.machines)

    def choose(self, machines: Sequence[Machine]) -> None:
        """Set the reference that all machines must be like: the most frequent kind of the first ones."""
        self.reference = most_frequent(machines, self.spread.equal_names)

    def admit(self, name: str, machine: Machine, images: Mapping[str, Any]) -> str:
        """Admit a machine, or return why it may not take part; else "". The first one that is admitted makes
        run.json."""
        assert self.reference is not None
        if why := differences(machine, self.reference, self.spread.equal_names):
            return why
        if self.keeper.run is None:
            self._begin(machine, images)
        if why := self.keeper.join(name, machine):
            return why
        self.say(f"{name} takes part: {machine.kind}")
        return ""

    def leave_out(self, name: str, why: str) -> None:
        """Record that this machine gets no blocks in this call, in run.json as soon as there is one. An empty ``why``
        takes it back, because the machine is asked again."""
        others = {other: reason for other, reason in self.call.left_out.items() if other != name}
        self.call = self.call.model_copy(update={"left_out": others | ({name: why} if why else {})})
        if self.keeper.run is not None:
            self.keeper.save(invocations=[*self.before, self.call])

    def _begin(self, machine: Machine, images: Mapping[str, Any]) -> None:
        path = self.store.folder / "run.json"
        lab = (
            read_run(path).lab if is_there(path) else machine.model_dump(exclude={"image", "versions", "lab", "lacks"})
        )
        opened = [
            Image(name, Path(), description["digest"], description["packages"]) for name, description in images.items()
        ]
        known = opened
        if is_there(path) and "image" not in self.spread.equal_names:
            known = [_as_before(image, read_run(path)) for image in opened]
        gateways = {image.name: image for image in known[1:]}
        run = describe(self.request, self.store, {"kind": "netns", **lab}, known[0], gateways, self.measured)
        save_packages(self.store, [image for image in opened if image in known])
        self.before = run.invocations
        self.keeper.begin(run.model_copy(update={"invocations": [*self.before, self.call]}))

    def record_end(self, how: str, outcome: Outcome) -> None:
        """Write into run.json how this call ended."""
        if self.keeper.run is None:
            return
        took_s = round(time.monotonic() - self.started, 3)
        self.call = end_invocation(self.call, how, elapsed_s=took_s, measuring_s=round(outcome.measuring_s, 3))
        self.keeper.save(invocations=[*self.before, self.call])


def _spread_all(coordinator: Coordinator, store: Store) -> str:
    """Have all blocks measured. Returns why it ended before that, or ""."""
    try:
        return coordinator.spread()
    except LabError as broken:
        return str(broken)
    except OSError as error:
        return store.trouble(error)


def missing(request: Request, store: Store) -> list[int]:
    """The numbers of the blocks that the run folder does not have whole. Each is measured as a whole, on one
    machine."""
    trials = store.trials
    done = {trial.id for trial in trials if trial.status in ("ok", "unsupported") or not request.asked.retry_failed}
    done -= {trial.id for trial in trials if trial.status == "lab_error"}
    hopeless = {trial.cell for trial in trials if trial.status == "unsupported"}
    begun = {trial.repetition for trial in trials if trial.id in done and trial.status != "unsupported"}
    plan = blocks(request.cells, request.repetitions, request.asked.seed, done, hopeless, request.profile)
    return [number for number in range(1, request.repetitions + 1) if number not in begun or plan.block(number).tunnels]


def expected_s(request: Request) -> float:
    """How long a block takes on a machine like this one, in seconds."""
    return replace(request, repetitions=1).expected_time()[1]


def measure_block(path: Path, watch: Watch) -> None:
    """``vpneval block``: measure what the coordinator asks for in the file ``path``.

    Raises UsageError for a file that is no such request, and LabError where the run was stopped.
    """
    try:
        options: dict[str, Any] = from_json(read_bytes(path))
        repetition, out = int(options.pop("repetition")), Path(options.pop("out"))
        request = resolve(AskedRun.model_validate(options | {"out": out}))
    except (ValueError, KeyError, TypeError, AttributeError) as wrong:
        raise UsageError(f"{path} is not what a coordinator asks for: {wrong}") from None
    outcome = run(replace(request, first=repetition, repetitions=repetition), out, lambda text: None, watch)
    if outcome.stopped:
        raise LabError(outcome.stopped)


def _with_stored_seed(request: Request, store: Store) -> Request:
    """The request with the seed of the folder's first call. Raises UsageError where its run.json cannot be read."""
    path = store.folder / "run.json"
    return replace(request, asked=request.asked.with_changes(seed=read_run(path).seed)) if is_there(path) else request


def _as_before(image: Image, run: Run) -> Image:
    """The image as run.json has it, where machines may differ in their images: each machine's facts name its own."""
    known = {run.image.get("name"): run.image.get("digest"), **run.image.get("gateways", {})}
    before = known.get(image.name, image.digest)
    return image if before == image.digest else replace(image, digest=before, packages={})


def _key(store: Store) -> str:
    """The name of this run in the machines' spools: random, and the same whenever the folder is opened."""
    path = no_link(store.folder / KEY)
    if not is_there(path):
        write_text(path, secrets.token_hex(8))
        os.sync()
    return read_bytes(path).decode()


def elsewhere(asked: AskedRun) -> dict[str, Any]:
    """What is asked of each machine, as JSON. Files of the user are named by their whole path, under which every
    machine has them; what is about this folder and its report is left out."""
    whole = {name: [*map(_path, getattr(asked, name))] for name in ("experiments", "instruments", "vpns")}
    question = {"question": _path(asked.question)}
    here = {"out": None, "weights": "", "retry_failed": False}
    return asked.with_changes(**whole | question | here).model_dump(mode="json")


def _path(name: str) -> str:
    return str(Path(name).resolve()) if name.endswith(".py") else name
