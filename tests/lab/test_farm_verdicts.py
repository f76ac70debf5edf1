"""A farm of three machines, one of them slow, gives the verdicts that one machine gives, whatever breaks on the way."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from runner.data.store import load_run
from runner.lab.node import wait_until
from runner.ranking.model import Verdict
from tests.lab.commands import VPNEVAL
from tests.lab.conftest import descendants
from tests.lab.test_farm import SCHEDULER, WORKER, Farm, farm, kill, says

__all__ = ["farm"]  # the fixture: machines in namespaces of their own, the second with a quota

BLOCKS = 12
RUN = ["run", "transport", "--vpn", "openvpn,wireguard_go", "--profile", "smallest"]
RUN += ["--set", "measure=tcp,streams=1,direction=forward", "--reps", str(BLOCKS)]

Key = tuple[str, str, str, str]  # configuration, metric and pair


def verdicts(ended: subprocess.Popen[bytes], out: Path, said: Path) -> dict[Key, Verdict]:
    """The verdicts of a run that comes to its end, by configuration, metric and pair."""
    assert ended.wait(280) == 0, said.read_text()[-3000:]
    rows = json.loads((out / "report.json").read_text())["judgements"]["rank"]["verdicts"]
    found = [one if one.a < one.b else one.other_way for one in map(Verdict.model_validate, rows)]
    return {(one.configuration, one.metric, one.a, one.b): one for one in found}


def wide(one: Verdict) -> tuple[float, float]:
    """An interval of the ratio, twice as wide as that of 95 %: chance leaves it in fewer than one of a thousand."""
    assert one.ratio is not None
    assert one.low is not None
    assert one.high is not None
    return one.low**2 / one.ratio, one.high**2 / one.ratio


def break_it(farm: Farm, start: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """A worker hangs, another is killed in the middle of a block, the coordinator is killed and started again, and the
    scheduler is restarted."""
    coordinator = start()
    m1, m2, m3 = farm.machines
    wait_until(lambda: m2.measuring() and m1.measuring(), "blocks on m1 and m2", 120)
    hung = m2.pids(WORKER)
    kill(hung, signal.SIGSTOP)
    kill(m1.pids(WORKER))
    m1.worker()
    for name in ("m1", "m2"):
        says(farm, f"came to nothing on {name}: its worker died or did not answer")
    kill({coordinator.pid} | descendants(coordinator.pid))
    coordinator.wait()
    assert len(farm.stored()) < BLOCKS, "there is something left for the next coordinator"
    kill(hung)
    m2.worker()
    before = len(farm.said())
    coordinator = start()
    wait_until(lambda: "m3 takes part" in farm.said()[before:] and m3.measuring(), "m3 has a block", 120)
    assert len(farm.stored()) < BLOCKS, "there is something left for the next scheduler"
    farm.reschedule(m1, m2, m3)
    says(farm, "The scheduler does not answer")
    return coordinator


def same(many: Mapping[Key, Verdict], single: Mapping[Key, Verdict]) -> None:
    """No verdict is turned round, and the intervals of each ratio, twice as wide, have values in common."""
    assert many.keys() == single.keys()
    for key, verdict in single.items():
        mine = many[key]
        print(*key, *((told.ratio, told.low, told.high, told.decision) for told in (verdict, mine)))
        assert mine.ratio is not None
        assert verdict.ratio is not None
        assert (mine.ratio > 1) == (verdict.ratio > 1), "they are five times apart, in whatever metric"
        assert {verdict.decision, mine.decision} != {"better", "worse"}, (key, verdict, mine)
        (low, high), (lower, higher) = wide(verdict), wide(mine)
        assert max(low, lower) <= min(high, higher), (key, verdict, mine)


@pytest.mark.alone
@pytest.mark.timeout(900)
def test_a_farm_gives_the_verdicts_of_one_machine(farm: Farm) -> None:
    """Also where a worker is killed, one hangs, the coordinator is killed and the scheduler restarted on the way."""
    farm.schedule()
    for machine in farm.machines:
        machine.worker()

    def start() -> subprocess.Popen[bytes]:
        argv = [*VPNEVAL, *RUN, "--farm", SCHEDULER, "--farm-timeout", "90", "--out", str(farm.out)]
        return farm.hub.start(*argv, name="coordinator")

    found: list[dict[Key, Verdict]] = []
    for begin in (start, lambda: break_it(farm, start)):
        farm.out = farm.out.with_name(f"run-{len(found)}")
        found.append(verdicts(begin(), farm.out, farm.hub.folder / "coordinator.log"))
        _, trials = load_run(farm.out)
        assert {trial.status for trial in trials} == {"ok"}
        assert {trial.machine for trial in trials} >= {"m1", "m3"}
    undisturbed, disturbed = found
    assert [call.outcome for call in load_run(farm.out)[0].invocations] == ["", "complete"]

    one, alone = farm.machines[0], farm.machines[0].folder / "alone"
    single = verdicts(one.start(*VPNEVAL, *RUN, "--out", str(alone), name="alone"), alone, one.folder / "alone.log")
    assert farm.machines[1].throttled() != 0
    same(undisturbed, single)
    same(disturbed, single)
