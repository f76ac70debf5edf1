"""Which measurements go on at a look although their pairs are decided, and which have twice their turns."""

import math
from collections.abc import Mapping

import numpy as np

from questions.rank import WIDTHS
from runner.data.levels import BASELINE
from runner.data.trials import Cell, Run, Trial
from runner.design.question import Going
from runner.evidence.estimates import RoundValues
from tests.bench.decide import FIVE, MACHINES, until_known
from tests.bench.simulated_rounds import run_of
from tests.unit.looking import doubts, going
from tests.unit.synthetic import CBC, GCM, IDLE, PLAIN, TCP

VPNS = "abcde"
TRUTH = {vpn: 0.9 * number for number, vpn in enumerate(VPNS)}  # logarithms: far apart, whatever scatters
CELLS = [Cell(vpn=vpn, params=CBC | traffic) for vpn in VPNS for traffic in (TCP, IDLE)]
CELLS += [Cell(vpn=BASELINE, params=PLAIN | traffic) for traffic in (TCP, IDLE)]


def rounds(scatter: Mapping[str, float], number: int = 30) -> dict[str, RoundValues]:
    """Two instances of each VPN, of which a slice scatters by so much."""
    rng, instances = np.random.default_rng(1), {at: 1 + 2 * at // number for at in range(number)}
    return {
        vpn: RoundValues(dict(enumerate(np.exp(TRUTH[vpn] + rng.normal(0, scatter[vpn], number)).tolist())), instances)
        for vpn in VPNS
    }


def at_a_look(run: Run, trials: list[Trial], left_s: float = 100.0) -> Going:
    return going(run, trials, CELLS, None, left_s, 0.9)


EVEN = dict.fromkeys(VPNS, 0.05)


def test_what_is_decided_and_known_gets_no_more_of_the_time() -> None:
    assert at_a_look(*run_of({"tcp_throughput": rounds(EVEN)})) == Going([], [], set())


def test_a_ratio_of_tcp_that_is_decided_and_wide_goes_on_until_it_is_known() -> None:
    wide = {"tcp_throughput": rounds(dict.fromkeys(VPNS, 0.4))}
    cells, undecided, _, *_ = at_a_look(*run_of(wide))
    assert {cell.vpn for cell in cells} == {*VPNS, BASELINE}
    assert {cell.params["measure"] for cell in cells} == {"tcp"}
    assert undecided == []
    run, trials = run_of(wide)
    found = doubts(run, trials, widths=WIDTHS)
    assert {(one.decided, one.configuration) for one in found} == {(True, "comparable")}
    assert len(found) == 10


def test_only_a_deadline_has_time_for_what_is_decided() -> None:
    """Who measures block after block until all is decided has asked for no more."""
    assert at_a_look(*run_of({"tcp_throughput": rounds(dict.fromkeys(VPNS, 0.4))}), math.inf) == Going([], [], set())


def test_other_metrics_end_with_their_verdicts() -> None:
    assert at_a_look(*run_of({"rtt": rounds(dict.fromkeys(VPNS, 0.4))})) == Going([], [], set())


def test_the_vpn_whose_slices_scatter_has_two_in_a_round() -> None:
    cells, _, twice, *_ = at_a_look(*run_of({"tcp_throughput": rounds(EVEN | {"c": 0.5})}))
    assert {cell.vpn for cell in cells} == {*VPNS, BASELINE}, "it is compared with all"
    assert twice == {Cell(vpn="c", params=CBC | TCP).key}


def test_what_is_recommended_has_no_width_to_reach() -> None:
    """It has a third of the turns."""
    run, trials = run_of({"tcp_throughput": rounds(EVEN)})
    recommended = run_of({"tcp_throughput": rounds(dict.fromkeys(VPNS, 0.4))})[1]
    trials += [trial.model_copy(update={"params": GCM | TCP, "id": f"{trial.id}-gcm"}) for trial in recommended]
    cells = [*CELLS, *(Cell(vpn=vpn, params=GCM | TCP) for vpn in VPNS)]
    assert going(run, trials, cells, None, 100.0, 0.9) == Going([], [], set())


def test_who_stops_when_a_ratio_is_narrow_covers_the_truth_all_the_same() -> None:
    """With 40 runs, 95 % of the intervals to four hundredths or so; pairs of a run are not independent."""
    machine = MACHINES["one machine quiet, VPNs unlike"]
    covered, width = until_known(machine, FIVE, 9, 40, np.random.default_rng(2))
    _, one_each = until_known(machine, FIVE, 9, 40, np.random.default_rng(2), looks=False)
    assert covered.ratio > 0.9
    assert width < one_each
