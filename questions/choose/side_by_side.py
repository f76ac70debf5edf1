"""The VPNs that are equally good, side by side: what each has beside what the answer goes by, and where each value is
from. By it an engineer gives reasons for one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from questions.choose.judgement import ComparedCell, ComparedRow, Kind, SideBySide
from runner.choice.device import Device
from runner.choice.model import RATES_BPS, Answer, State
from runner.choice.musts import same_tunnel
from runner.choice.thresholds import USUAL
from runner.data.levels import unusual
from runner.data.named import Must
from runner.data.needs import Needs
from runner.data.trials import Measurement, Run, Trial

MOST = 5  # VPNs
FEWEST = 2  # one alone stands beside nothing
NOT_BACK = ("never", "dead")  # behind a NAT: it did not come back while it was watched, or had not come up before
Runs = Sequence[tuple[Run, Sequence[Trial]]]
AnswerOn = Callable[[Needs], Answer]


@dataclass(frozen=True)
class _Sought:
    """A value that trials have: the worst of ``metrics`` in ``unit`` seconds (of a count: 1), in trials with
    ``params``. ``here``: no other run tells it; ``levels``: it is that of a tunnel with other parameters, too."""

    metrics: tuple[str, ...]
    unit: float = 1.0
    params: Mapping[str, str] = field(default_factory=dict)
    here: bool = False
    any_levels: bool = True


SOUGHT: Mapping[Kind, _Sought] = {
    "worst_second": _Sought(("steady_worst_second_loss",), here=True),
    "gap": _Sought(("steady_gap",), here=True),
    "address": _Sought(("outage_ms",), 1e-3, {"failure": "roaming"}),
    "nat": _Sought(("nat_port_back", "nat_address_back")),
    "restart": _Sought(("outage_ms",), 1e-3, {"failure": "restart"}),
    "setup_commands": _Sought(("setup_commands",)),
    "setup_lines": _Sought(("setup_lines",)),
    "scaling_lines": _Sought(("scaling_lines",)),
    "packet_bytes": _Sought(("overhead_bytes",), any_levels=False),
}


def side_by_side(
    vpns: Sequence[str],
    answer_on: AnswerOn,
    needs: Needs,
    devices: Mapping[str, Device],
    known: Mapping[str, Mapping[Must, State]],
    runs: Runs,
) -> SideBySide | None:
    """The first MOST of ``vpns``, None where they are fewer than two. ``answer_on``: the answer for any needs, with a
    candidate for each VPN; ``known``: VPN -> must -> state; ``runs``: this one, then the shipped ones, of which the
    first that tells a value counts."""
    if len(vpns) < FEWEST:
        return None
    shown = vpns[:MOST]
    line_bps = needs.line_bps or _common(shown, answer_on, needs)
    own = [answer_on(needs.on_line(line_bps)).candidate_of(vpn) for vpn in shown]
    share, demand_bps = USUAL.share(needs.traffic), USUAL.demand_bps(line_bps, needs.traffic)
    over = demand_bps if needs.line_bps else 1.0
    bounds = {kind for kind, part in (("tcp", 1 - share), ("udp", share)) if part}
    carried = [
        ComparedCell(value=one.here_bps and one.here_bps / over, at_least=bool(bounds & devices[one.vpn].at_least))
        for one in own
    ]
    rows = [
        ComparedRow(kind="room" if needs.line_bps else "carries", cells=carried),
        ComparedRow(kind="cores", cells=[ComparedCell(value=one.cores) for one in own]),
    ]
    rows += [
        ComparedRow(
            kind=kind, cells=[_worst_value(devices[vpn], sought, runs[:1] if sought.here else runs) for vpn in shown]
        )
        for kind, sought in SOUGHT.items()
    ]
    rows += [
        ComparedRow(kind="must", must=must, cells=[_state(known[vpn][must]) for vpn in shown]) for must in needs.must
    ]
    return SideBySide(vpns=[*shown], at_bps=line_bps, stated=bool(needs.line_bps), rows=rows)


def _common(vpns: Sequence[str], answer_on: AnswerOn, needs: Needs) -> float:
    """The highest of the usual lines that all VPNs carry; the lowest where there is none."""
    lowest = answer_on(needs.on_line(RATES_BPS[0]))
    least_bps = min(lowest.candidate_of(vpn).here_bps or 0.0 for vpn in vpns)
    return max((rate for rate in RATES_BPS if USUAL.demand_bps(rate) <= least_bps), default=RATES_BPS[0])


def _worst_value(device: Device, sought: _Sought, runs: Runs) -> ComparedCell:
    """The worst value of the first run that has one: a failure may meet a timer early or late."""
    this = runs[0][0]
    record = this.vpns[device.vpn]
    for run, trials in runs:
        if device.vpn not in run.vpns or not same_tunnel(run.vpns[device.vpn], record):
            continue
        seen = [
            (value.at_least or value.detail.get("kind") in NOT_BACK, sought.unit * value.value, trial)
            for trial, value in _measurements_of(device, sought, trials)
        ]
        if seen:
            at_least, worst, trial = max(seen, key=lambda each: each[:2])
            name, day = ("", "") if run is this else (run.run_id, trial.started_at[:10])
            return ComparedCell(value=worst, at_least=at_least, trial=trial.id, run=name, day=day)
    return ComparedCell()


def _measurements_of(device: Device, sought: _Sought, trials: Sequence[Trial]) -> Iterator[tuple[Trial, Measurement]]:
    levels = sought.params if sought.any_levels else {**device.levels, **sought.params}
    for trial in trials:
        params = trial.params
        usual = not (params.get("image") or params.get("inner") or params.get("underlay") or unusual(params))
        if trial.vpn == device.vpn and trial.status == "ok" and usual and params.items() >= levels.items():
            yield from ((trial, value) for value in trial.measurements if value.metric in sought.metrics)


def _state(state: State) -> ComparedCell:
    return ComparedCell(word=state.word, trial=state.trial, run=state.run, day=state.day)
