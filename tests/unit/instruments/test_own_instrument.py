"""An instrument from a file outside of the tree, and what becomes of one that breaks the contract."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from runner import catalogue
from runner.catalogue import add_instrument, factors, instruments, load_experiment
from runner.data.errors import MeasurementError, UsageError
from runner.data.levels import NO_CIPHER, Params
from runner.data.store import open_store, read_slices, read_trials
from runner.data.trials import Cell, Evidence, Proof, Trial
from runner.design.profile import PROFILES
from runner.instruments.result import Measured, measurement
from runner.sweep import tunnels
from runner.sweep.conductor import Conductor
from runner.sweep.plan import Planned
from runner.sweep.records import measurements_of
from runner.sweep.settings import Stage
from runner.tunnel.bring_up import Tunnel
from tests.unit.asking import made_up
from tests.unit.helpers import PaperLab

OF_THE_TREE = instruments()

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
            "from runner.instruments.instrument import *\nclass A(Instrument): pass\nclass B(Instrument): pass\n",
            "./mine.py defines several subclasses of runner.instruments.instrument.Instrument: A, B. "
            "Put each into a file of its own",
        ),
        (
            changed(('    name = "mine"\n', ""), ("def expected_s", "def expects_s")),
            "instrument ./mine.py is not finished: Mine lacks name, expected_s",
        ),
        (
            changed(("(METRIC,)", "(METRIC)")),
            "instrument ./mine.py: metrics must be a tuple of Metric, with a comma after a single one",
        ),
        (
            changed(
                ('    name = "mine"\n', '    name = "mine"\n\n    def __init__(self):\n        self.x = self.y\n\n')
            ),
            "instrument ./mine.py cannot be made: line 15: AttributeError: 'Mine' object has no attribute 'y'",
        ),
        (
            changed(('name = "mine"', 'name = "tcp"')),
            "instrument ./mine.py is called tcp, and another instrument has that name. Choose another name",
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
        UsageError,
        match=r"^instrument \./other\.py is called mine, and another instrument has that name. Choose another",
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
        (measurement("speed", 1.0), "the instrument idle returned the metric speed, which it does not define"),
        (measurement("rtt", float("nan")), "the instrument idle returned nan as rtt"),
        (measurement("rtt", float("-inf")), "the instrument idle returned -inf as rtt"),
    ],
)
def test_a_value_that_is_none_is_not_stored(value: Any, said: str) -> None:
    with pytest.raises(MeasurementError) as error:
        measurements_of(Measured([value]), OF_THE_TREE["idle"])
    assert str(error.value) == said


class Watcher:
    def show_plan(self, trials: int, expected_s: float) -> None: ...
    def tunnel(self, repetition: int, vpn: str, params: Params) -> None: ...
    def show_round(self, number: int, tunnels: int, remaining_s: float) -> None: ...
    def measuring(self, planned: Planned) -> None: ...
    def show_slice(self, *_: object) -> None: ...
    def show_trial(self, trial: Trial, remaining_s: float) -> None: ...
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
        monkeypatch.setattr(tunnels, "TunnelBuilder", Lane)
        monkeypatch.setattr(Lane, "renewed", 0)
        monkeypatch.setattr(Conductor, "probe", lambda self, known: set())
        params = [{**NO_CIPHER, "measure": "mine", "of_mine": level} for level in ("1", "2")]
        params += [{**NO_CIPHER, "measure": "good", "of_good": level} for level in ("1", "2", "3")]
        cells = [Cell(vpn="none", params=one) for one in params]
        image: Any = SimpleNamespace(name="paper", root=Path("/"))
        with open_store(folder / "run") as store:
            vpns = {"none": catalogue.load_vpn("none")}
            stage = Stage(request=made_up(PROFILES["smallest"]), image=image)
            outcome = Conductor(store, vpns, cells, stage, Watcher(), {}).run()
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
            (YIELDS, "        raise OSError(22, 'broken')\n        yield\n"),
            f"bad.py, line {AT}: OSError: [Errno 22] broken",
        ),
        ((YIELDS, "        self.measure(1)\n        yield\n"), f"bad.py, line {AT}: TypeError: "),
        ((YIELDS, ""), "measure() is not a generator: it has no yield. For one that measures in one piece, see Whole"),
        ((YIELDS, "        yield\n"), "a slice must map names to finite numbers, and is None"),
        (
            (YIELDS, "        yield {'x': float('inf')}\n"),
            "a slice must map names to finite numbers, and is {'x': inf}",
        ),
        ((RETURNS, ""), "the instrument mine returned None instead of a Measured"),
        (
            (RETURNS, RETURNS.replace("mine_ms", "yours")),
            "the instrument mine returned the metric yours, which it does not define",
        ),
        ((RETURNS, RETURNS.replace("5.0", "float('nan')")), "the instrument mine returned nan as mine_ms"),
        (
            (RETURNS, RETURNS.replace("5.0", "5.0, [float('nan')]")),
            "the instrument mine returned something that cannot be stored: ",
        ),
        (
            (RETURNS, RETURNS.replace("5.0", "5.0, at=object()")),
            "the instrument mine returned something that cannot be stored: ",
        ),
        (
            (RETURNS, RETURNS.replace("0.1", "0.1, [7]")),
            "the instrument mine returned something that cannot be stored: ",
        ),
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
    ids = Counter(json.loads(line)["id"] for line in lines)
    again = [trials[name].id for name in ("mine 1", "mine 2")]
    # what gave no number is tried once more, and both attempts are kept
    assert ids == {trial.id: 1 + (trial.id in again) for trial in trials.values()}
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
