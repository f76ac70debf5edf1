"""The contract that every instrument keeps, how it is played, and what becomes of one that breaks it."""

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from runner import catalogue
from runner.catalogue import add_instrument, factors, instruments, load_experiment
from runner.data import version1
from runner.data.errors import LabError, MeasurementError, UsageError
from runner.data.levels import BY_PROFILE, NO_CIPHER, Levels, Params
from runner.data.store import open_store, read_slices, read_trials
from runner.data.trials import Cell, Evidence, Proof, Trial
from runner.design.profile import PROFILES
from runner.instruments import instrument as contract
from runner.instruments.instrument import Found, Go, Instrument, Measuring, at_once, play
from runner.instruments.result import Measured, measurement
from runner.instruments.traffic.searched import searched
from runner.search import Loss, SearchResult, find_throughput
from runner.search.devices import Device
from runner.search.settings import UdpSearch
from runner.search.steps import Load, steps
from runner.sweep import workshop
from runner.sweep.call import Settings
from runner.sweep.loop import Loop
from runner.sweep.plan import Planned
from runner.sweep.records import stored
from runner.tunnel.bring_up import Tunnel
from tests.unit.helpers import PaperLab

OF_THE_TREE = instruments()
EVERY = pytest.mark.parametrize("instrument", OF_THE_TREE.values(), ids=lambda one: one.name)


# --- what every instrument says of itself ---------------------------------------------------------------------


@EVERY
def test_its_metrics_have_a_definition_and_a_source(instrument: Instrument) -> None:
    assert re.fullmatch(r"[a-z_]+", instrument.name)
    assert instrument.metrics
    for metric in instrument.metrics:
        assert re.fullmatch(r"[a-z0-9_]+", metric.name)
        assert all((metric.title, metric.definition, metric.source))


def is_level(level: str, of: Levels) -> bool:
    low, high = of.range or (1, 0)
    return level in of.named or (level.isdigit() and low <= int(level) <= high)


@EVERY
def test_its_factors_defaults_are_levels(instrument: Instrument) -> None:
    for factor, levels in instrument.factors.items():
        assert levels.named, factor
        assert len(set(levels.named)) == len(levels.named)
        assert levels.default in (None, BY_PROFILE) or is_level(str(levels.default), levels), factor


@EVERY
@pytest.mark.parametrize("profile", PROFILES.values(), ids=lambda profile: profile.name)
def test_each_of_its_trials_takes_time(instrument: Instrument, profile: Any) -> None:
    params = {factor: levels.default or levels.named[0] for factor, levels in instrument.factors.items()}
    decided = {"payload_bytes": str(profile.udp_payload_bytes), "fragmentation": profile.fragmentation}
    params = {"measure": instrument.name} | params | {f: decided[f] for f in decided if f in params}
    for first in (True, False):
        assert 0 < instrument.expected_s(params, profile, first=first) < 24 * 3600


def test_what_two_instruments_call_the_same_is_the_same() -> None:
    names = [metric.name for one in OF_THE_TREE.values() for metric in one.metrics]
    assert len(set(names)) == len(names)
    assert all(name == one.name for name, one in OF_THE_TREE.items())
    for one in OF_THE_TREE.values():
        for factor, levels in one.factors.items():
            assert factors()[factor] == levels


def test_every_class_with_a_name_is_an_instrument_of_its_own() -> None:
    found: list[type[Instrument]] = []

    def below(kind: type[Instrument]) -> None:
        for one in kind.__subclasses__():
            found.extend([one] if hasattr(one, "name") and one.__module__.startswith("runner.") else [])
            below(one)

    below(Instrument)  # type: ignore[type-abstract]
    assert sorted(kind.name for kind in found) == sorted(OF_THE_TREE)


def test_the_metrics_of_version_1_are_what_they_were() -> None:
    def kept(metrics: Mapping[str, Any]) -> dict[str, tuple[object, ...]]:
        return {name: (metric.unit, metric.better, metric.exact) for name, metric in metrics.items()}

    today, then = kept(catalogue.metrics()), kept(version1.metrics())
    assert {name: today.get(name) for name in then} == then


# --- how it is played ---------------------------------------------------------------------------------------


def counting(slices: int, closed: list[str]) -> Measuring:
    """A measurement of so many slices, which says when it has cleaned up."""
    try:
        for number in range(1, slices + 1):
            if (yield {"number": number}) is Go.END:
                break
        return Measured([measurement("mine", number)])
    finally:
        closed.append("cleaned up")


def test_its_slices_are_kept_in_order_and_its_result_returned() -> None:
    kept, closed = list[Found](), list[str]()
    assert play(counting(3, closed), kept.append).measurements[0].value == 3
    assert kept == [{"number": 1}, {"number": 2}, {"number": 3}]
    assert closed == ["cleaned up"]
    assert at_once(counting(4, [])).measurements[0].value == 4


def test_a_measurement_that_nobody_goes_on_with_cleans_up() -> None:
    closed = list[str]()

    def full(found: Found) -> None:
        raise LabError("the disk is full")

    with pytest.raises(LabError, match="the disk is full"):
        play(counting(3, closed), full)
    assert closed == ["cleaned up"]


def test_one_that_is_told_to_end_returns_what_it_has() -> None:
    measuring = counting(5, [])
    assert next(measuring) == {"number": 1}
    assert measuring.send(Go.ON) == {"number": 2}
    with pytest.raises(StopIteration) as end:
        measuring.send(Go.END)
    assert end.value.value.measurements[0].value == 2


def test_one_without_a_yield_is_told_so() -> None:
    with pytest.raises(MeasurementError, match=r"^measure is not a generator: it has no yield; see Whole$"):
        at_once(cast(Measuring, Measured()))


def test_what_cannot_be_cut_has_one_slice() -> None:
    class Mine(contract.Whole):
        name = "mine"

        def expected_s(self, *_: Any, **__: Any) -> float:
            return 1.0

        def once(self, *_: Any) -> Measured:
            return Measured([measurement("a", 1.0), measurement("b", 2.0)])

    kept = list[Found]()
    nobody: Any = None
    assert len(play(Mine().measure(nobody, nobody), kept.append).measurements) == 2
    assert kept == [{"a": 1.0, "b": 2.0}]


# --- a search, cut into its trials ----------------------------------------------------------------------------

SEARCH = UdpSearch(relative_width=0.02, trial_duration_s=1.0, confirm=(3, 2.0))


def device() -> Device:
    return Device(capacity_bps=300e6, noise=0.02, floor=0.001, stalls_per_s=0.01, seed=7)


def drive(search: Any, measure: Callable[[float, float], Loss], most: int | None = None) -> SearchResult:
    """Play the trials of ``steps``; after ``most`` of them, the search is told to end."""
    try:
        load, done = next(search), 0
        while True:
            assert isinstance(load, Load)
            done += 1
            loss = measure(*load)
            load = search.send(None if done == most else loss)
    except StopIteration as end:
        result: SearchResult = end.value
        return result


@pytest.mark.parametrize("engine", ["bayes", "binary"])
def test_steps_find_what_find_throughput_finds(engine: Any) -> None:
    arguments: dict[str, Any] = {"engine": engine, "max_rate_bps": 1e9, "overhead_s": 0.3}
    whole = find_throughput(device(), **arguments)
    stepped = drive(steps(lambda measure: find_throughput(measure, **arguments)), device())
    assert stepped == whole
    assert len(whole.trials) > 5


def test_two_searches_in_turn_find_what_each_finds_alone() -> None:
    devices = [Device(capacity_bps=rate_bps, noise=0.02, seed=3) for rate_bps in (200e6, 700e6)]
    alone = [find_throughput(Device(capacity_bps=one.capacity_bps, noise=0.02, seed=3)) for one in devices]
    running: dict[int, Any] = {number: steps(find_throughput) for number in (0, 1)}
    loads, found = {number: next(search) for number, search in running.items()}, dict[int, SearchResult]()
    while loads:
        for number in list(loads):
            try:
                loads[number] = running[number].send(devices[number](*loads[number]))
            except StopIteration as end:
                found[number] = end.value
                del loads[number]
    assert [found[0], found[1]] == alone


def searching(offer: Any, ended_after: int | None = None) -> tuple[SearchResult, list[Found]]:
    """Play ``searched``; after so many slices it is told to end."""
    measuring, slices, go = searched(SEARCH, offer, None, 0.3), list[Found](), Go.ON
    try:
        slices.append(next(measuring))
        while True:
            go = Go.END if len(slices) == ended_after else Go.ON
            slices.append(measuring.send(go))
    except StopIteration as end:
        return end.value, slices


def test_each_trial_of_a_search_is_a_slice() -> None:
    result, slices = searching(device())
    assert result == SEARCH.find(device(), None, 0.3)
    assert [found["asked_rate_bps"] for found in slices] == [trial.asked_rate_bps for trial in result.trials]
    assert all(0 <= found["received"] <= found["sent"] for found in slices)


@pytest.mark.parametrize("count", [1, 4, 8])
def test_a_search_that_is_told_to_end_returns_what_it_has(count: int) -> None:
    whole, all_slices = searching(device())
    result, slices = searching(device(), ended_after=count)
    assert slices == all_slices[:count]
    assert list(result.trials) == list(whole.trials)[:count]
    assert {"unconfirmed"} <= {*result.flags}


def test_a_trial_that_does_not_end_fails_the_search() -> None:
    def hang(rate_bps: float, duration_s: float) -> Loss:
        raise TimeoutError("iperf3 said nothing for 30 s")

    with pytest.raises(
        MeasurementError, match=r"^the trial at [\d.]+ Mbit/s did not end: iperf3 said nothing for 30 s$"
    ):
        searching(hang)


def test_a_search_that_is_closed_early_leaves_nothing_behind() -> None:
    measuring = searched(SEARCH, device(), None, 0.3)
    next(measuring)
    measuring.close()
    with pytest.raises(StopIteration):
        next(measuring)


# --- from a file outside of the tree ----------------------------------------------------------------------------

MINE = '''\
"""An instrument of one's own."""

from runner.data.levels import Levels
from runner.data.metric import Metric
from runner.instruments.instrument import Instrument
from runner.instruments.result import Measured, measurement

METRIC = Metric(name="mine_ms", title="Mine", unit="ms", better="lower", definition="What it is.", source="none")


class Mine(Instrument):
    name = "mine"
    factors = {"of_mine": Levels(("1", "2"), range=(1, 9), default="1")}
    metrics = (METRIC,)

    def expected_s(self, params, profile, *, first):
        return 1.0

    def measure(self, bench, asked):
        yield {"mine_ms": 5.0}
        return Measured([measurement("mine_ms", 5.0)], 0.1)
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder. What is added to the catalogue is gone after the test."""
    monkeypatch.setattr(catalogue, "_ADDED", {})
    monkeypatch.setattr(catalogue, "_FILES", {})
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text)
    return f"./{name}"


def changed(*pairs: tuple[str, str]) -> str:
    text = MINE
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_an_instrument_outside_the_tree_is_one_like_any_other(folder: Path) -> None:
    path = write(folder, MINE)
    assert add_instrument(path).name == "mine"
    add_instrument(path)  # named twice is named once
    assert list(instruments()) == [*OF_THE_TREE, "mine"]
    assert catalogue.metrics()["mine_ms"].measure == "mine"
    assert catalogue.parse_levels("of_mine=7,measure=mine") == {"of_mine": ["7"], "measure": ["mine"]}


def test_a_file_may_have_dataclasses(folder: Path) -> None:
    kind = "\n\n@dataclass\nclass Seen:\n    count: int\n"
    text = "from __future__ import annotations\n\nfrom dataclasses import dataclass\n" + MINE.partition("\n")[2] + kind
    assert add_instrument(write(folder, text)).name == "mine"


def line(text: str, of: str) -> int:
    return next(number for number, one in enumerate(text.splitlines(), 1) if of in one)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class Mine(:\n", "instrument file ./mine.py cannot be loaded: line 1: SyntaxError: invalid syntax"),
        (
            "\nimport no_such_module\n",
            "instrument file ./mine.py cannot be loaded: line 2: ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("x = 1\n", "./mine.py defines no subclass of runner.instruments.instrument.Instrument"),
        (
            changed(('    name = "mine"\n', ""), ("def expected_s", "def expects_s")),
            "instrument ./mine.py is not finished: Mine lacks name, expected_s",
        ),
        (
            changed(("(METRIC,)", "(METRIC)")),
            "instrument ./mine.py: metrics is a tuple of Metric, with a comma after a single one",
        ),
        (
            changed(
                ('    name = "mine"\n', '    name = "mine"\n\n    def __init__(self):\n        self.x = self.y\n\n')
            ),
            "instrument ./mine.py cannot be made: line 15: AttributeError: 'Mine' object has no attribute 'y'",
        ),
        (
            changed(('name = "mine"', 'name = "tcp"')),
            "instrument ./mine.py is called tcp, as one that there is; choose another name",
        ),
        (
            changed(('(name="mine_ms"', '(name="rtt"')),
            "instrument ./mine.py: rtt is a metric of idle; choose another name",
        ),
        (
            changed(('"of_mine"', '"streams"')),
            f"instrument ./mine.py: the factor streams is known with other levels: {factors()['streams'].named}",
        ),
        (
            changed(('"of_mine"', '"cipher"')),
            f"instrument ./mine.py: the factor cipher is known with other levels: {factors()['cipher'].named}",
        ),
    ],
)
def test_a_file_that_is_no_instrument(folder: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        add_instrument(write(folder, text))
    assert str(error.value) == said
    assert instruments() == OF_THE_TREE


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("./absent.py", "no instrument file ./absent.py"),
        ("absent", "an instrument from outside the tree is a file whose name ends in .py, not absent"),
        ("./mine.txt", "an instrument from outside the tree is a file whose name ends in .py, not ./mine.txt"),
    ],
)
def test_a_path_that_is_no_instrument(folder: Path, path: str, said: str) -> None:
    write(folder, MINE, "mine.txt")
    with pytest.raises(UsageError) as error:
        add_instrument(path)
    assert str(error.value) == said


def test_two_files_cannot_have_the_same_name(folder: Path) -> None:
    add_instrument(write(folder, MINE))
    with pytest.raises(
        UsageError, match=r"^instrument \./other\.py is called mine, as one that there is; choose another"
    ):
        add_instrument(write(folder, MINE, "other.py"))


EXPERIMENT = """\
from runner.design.experiment import Experiment, measuring

EXPERIMENT = Experiment(
    name="own", question="?", method="!", source="none", metrics=("mine_ms",),
    traffic=(measuring("mine"),), vary_traffic={"of_mine": ("1", "2")},
)
"""


def test_an_experiment_of_ones_own_uses_it(folder: Path) -> None:
    add_instrument(write(folder, MINE))
    experiment = load_experiment(write(folder, EXPERIMENT, "own.py"))
    assert list(experiment.traffic) == [{"of_mine": "1", "measure": "mine"}]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "./own.py defines no EXPERIMENT (runner.design.experiment.Experiment)"),
        (EXPERIMENT, f"experiment own measures 'mine'; instruments: {', '.join(OF_THE_TREE)}"),
        (
            EXPERIMENT.replace('"mine"', '"idle"').replace("of_mine", "of_nobody"),
            "experiment own has unknown factors: of_nobody",
        ),
        (
            EXPERIMENT.replace("runner.design", "runner.desing"),
            "experiment file ./own.py cannot be loaded: line 1: ModuleNotFoundError: No module named 'runner.desing'",
        ),
    ],
)
def test_a_file_that_is_no_experiment(folder: Path, text: str, said: str) -> None:
    with pytest.raises(UsageError) as error:
        load_experiment(write(folder, text, "own.py"))
    assert str(error.value) == said


# --- what is stored, and an instrument that is broken --------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (measurement("speed", 1.0), "the instrument idle gave speed, which it does not define"),
        (measurement("rtt", float("nan")), "the instrument idle gave nan as rtt"),
        (measurement("rtt", float("-inf")), "the instrument idle gave -inf as rtt"),
    ],
)
def test_a_value_that_is_none_is_not_stored(value: Any, said: str) -> None:
    with pytest.raises(MeasurementError) as error:
        stored(Measured([value]), OF_THE_TREE["idle"])
    assert str(error.value) == said


class Watcher:
    def planned(self, trials: int, expected_s: float) -> None: ...
    def tunnel(self, repetition: int, vpn: str, params: Params) -> None: ...
    def round(self, number: int, tunnels: int, remaining_s: float) -> None: ...
    def measuring(self, planned: Planned) -> None: ...
    def finished(self, trial: Trial, remaining_s: float) -> None: ...
    def say(self, text: str) -> None: ...


class Lane:
    """In the place of the builder: a bench on paper, whose tunnel carries payload and can be made anew."""

    renewed = 0

    def __init__(self, *_: object) -> None:
        self.lab = PaperLab({})
        evidence = Evidence(cipher="none", integrity="none", compression="off", data_path="paper", version="1")
        proof = Proof(confidential_promised=False, delivered=True, marker_on_wan=True, sent_bytes=1, captured_bytes=1)
        self.tunnel = Tunnel("10.2.0.2", 0.1, evidence, proof)

    def __enter__(self) -> "Lane":
        return self

    def __exit__(self, *_: object) -> None: ...

    def bench(self) -> "Lane":
        return self

    def carries_payload(self) -> bool:
        return True

    def renew(self) -> None:
        Lane.renewed += 1


@pytest.fixture
def sweep(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Trial]]:
    """Run the loop over one tunnel on paper, in which the instrument in ``text`` is measured beside a good one. Gives
    the trials of the run folder, by what was measured."""

    def run(text: str) -> dict[str, Trial]:
        good = MINE.replace("mine", "good")
        for name, source in (("bad", text), ("good", good)):
            add_instrument(write(folder, source, f"{name}.py"))
        monkeypatch.setattr(workshop, "Builder", Lane)
        monkeypatch.setattr(Lane, "renewed", 0)
        monkeypatch.setattr(Loop, "probe", lambda self, known: set())
        params = [{**NO_CIPHER, "measure": "mine", "of_mine": level} for level in ("1", "2")]
        params += [{**NO_CIPHER, "measure": "good", "of_good": level} for level in ("1", "2", "3")]
        cells = [Cell(vpn="none", params=one) for one in params]
        image: Any = SimpleNamespace(name="paper")
        with open_store(folder / "run") as store:
            vpns = {"none": catalogue.load_vpn("none")}
            settings = Settings(PROFILES["smallest"], 1, 1, image, {}, False, None)
            outcome = Loop(store, vpns, cells, settings, Watcher(), {}).run()
        assert not outcome.stopped
        return {" ".join(list(one.params.values())[3:]): one for one in read_trials(folder / "run" / "trials.jsonl")}

    return run


YIELDS = '        yield {"mine_ms": 5.0}\n'
RETURNS = '        return Measured([measurement("mine_ms", 5.0)], 0.1)\n'
AT = line(MINE, "yield {")


def test_what_it_found_is_in_the_run_folder(folder: Path, sweep: Callable[[str], dict[str, Trial]]) -> None:
    trials = sweep(MINE)
    assert {name: one.status for name, one in trials.items()} == dict.fromkeys(trials, "ok")
    assert len(trials) == 5
    (found,) = trials["mine 1"].measurements
    assert (found.metric, found.value, found.unit, found.better) == ("mine_ms", 5.0, "ms", "lower")
    (row,) = read_slices(folder / "run")[trials["mine 1"].id]
    assert row.values == {"mine_ms": 5.0}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            (YIELDS, "        yield {}\n        int('x')\n"),
            f"bad.py, line {AT + 1}: ValueError: invalid literal for int()",
        ),
        ((YIELDS, "        raise SystemExit('bye')\n        yield\n"), f"bad.py, line {AT}: SystemExit: bye"),
        (
            (YIELDS, "        raise OSError(5, 'broken')\n        yield\n"),
            f"bad.py, line {AT}: OSError: [Errno 5] broken",
        ),
        ((YIELDS, "        self.measure(1)\n        yield\n"), f"bad.py, line {AT}: TypeError: "),
        ((YIELDS, ""), "measure is not a generator: it has no yield; see Whole"),
        ((YIELDS, "        yield\n"), "a slice is a mapping of names to finite numbers, not None"),
        (
            (YIELDS, "        yield {'x': float('inf')}\n"),
            "a slice is a mapping of names to finite numbers, not {'x': inf}",
        ),
        ((RETURNS, ""), "the instrument mine returned None, which is not a Measured"),
        ((RETURNS, RETURNS.replace("mine_ms", "yours")), "the instrument mine gave yours, which it does not define"),
        ((RETURNS, RETURNS.replace("5.0", "float('nan')")), "the instrument mine gave nan as mine_ms"),
        ((RETURNS, RETURNS.replace("5.0", "5.0, [float('nan')]")), "the instrument mine gave what cannot be stored: "),
        ((RETURNS, RETURNS.replace("5.0", "5.0, at=object()")), "the instrument mine gave what cannot be stored: "),
        ((RETURNS, RETURNS.replace("0.1", "0.1, [7]")), "the instrument mine gave what cannot be stored: "),
        (
            ("    def measure", "    def known_bps(self, trial):\n        return trial.none\n\n    def measure"),
            "bad.py, line 20: AttributeError: 'Trial' object has no attribute 'none'",
        ),
    ],
)
def test_a_broken_instrument_fails_its_own_trials_only(
    folder: Path, sweep: Callable[[str], dict[str, Trial]], change: tuple[str, str], said: str
) -> None:
    trials = sweep(changed(change))
    assert len(trials) == 5
    for name, trial in trials.items():
        assert trial.status == ("failed" if name.startswith("mine") else "ok"), trial.reason
    for name in ("mine 1", "mine 2"):
        assert said in trials[name].reason
        assert said.startswith("bad.py") == trials[name].reason.startswith("the instrument mine is broken: ")
    lines = (folder / "run" / "trials.jsonl").read_text().splitlines()
    assert len(lines) == 5  # none is written twice
    assert len(read_slices(folder / "run")) >= 3
    if said.startswith("bad.py"):
        assert Lane.renewed >= 1  # nobody knows what it left behind


def test_one_that_needs_no_tunnel_fails_its_own_trial_only(sweep: Callable[[str], dict[str, Trial]]) -> None:
    trials = sweep(changed(("(METRIC,)", "(METRIC,)\n    needs_tunnel = False"), ("5.0)", "float('nan'))")))
    assert trials["mine 1"].status == "failed"
    assert trials["good 1"].status == "ok"


def test_one_that_cannot_say_how_long_it_takes_is_refused_before_anything_starts(
    sweep: Callable[[str], dict[str, Trial]],
) -> None:
    with pytest.raises(UsageError, match=r"^the instrument mine is broken: bad\.py, line \d+: ZeroDivisionError: "):
        sweep(changed(("return 1.0", "return 1 / 0")))


def test_a_full_disk_is_no_fault_of_the_instrument(sweep: Callable[[str], dict[str, Trial]]) -> None:
    with pytest.raises(AssertionError):  # the run stopped
        sweep(changed((YIELDS, "        raise OSError(28, 'No space left on device')\n        yield\n")))
