"""What a VPN was like when it was watched once for long, at a rate that it would have to carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from runner.data.trials import Trial

GAP, LATE, WORST, LOSS = "steady_gap", "steady_late", "steady_worst_second_loss", "steady_loss"


@dataclass(frozen=True)
class Watched:
    """One uncut stretch of ``seconds`` at ``rate_bps`` of payload. ``longest_gap_s``: in which nothing came;
    ``latest_s``: how much later than the least delayed datagram the latest one came; ``loss_by_second``: the share of
    each second's datagrams that never came. ``bad_windows`` of the ``windows`` of a quarter of a second lost more than
    1 % or had nothing; in ``limited_windows`` the sender fell short, which is no fault of the VPN's. ``broke_down``:
    the tunnel carried nothing afterwards. ``trial``: its id."""

    rate_bps: float
    seconds: float
    windows: int
    bad_windows: int
    limited_windows: int
    longest_gap_s: float
    latest_s: float
    worst_second_loss_ratio: float
    loss_ratio: float
    loss_by_second: tuple[float, ...]
    broke_down: bool = False
    trial: str = ""

    @property
    def mostly_limited(self) -> bool:
        """Did the sender fall short for so long that the stretch tells little?"""
        return 2 * self.limited_windows > self.windows


def long_watch(own: Sequence[Trial]) -> Watched | None:
    """The stretch at the highest rate, of these trials; of several at that rate the last one. None where there is
    none."""
    stretches = [one for trial in own if trial.status == "ok" if (one := _stretch(trial))]
    return max(reversed(stretches), key=lambda one: one.rate_bps, default=None)


def _stretch(trial: Trial) -> Watched | None:
    values = {value.metric: value for value in trial.measurements}
    if not {GAP, LATE, WORST, LOSS} <= values.keys():
        return None
    detail = values[GAP].detail
    rate_bps, seconds, by_second = (detail.get(name) for name in ("rate_bps", "seconds", "loss_by_second"))
    counts = [detail.get(name) for name in ("windows", "bad_windows", "limited_windows")]
    numbers = [rate_bps, seconds, *counts, *(by_second if isinstance(by_second, list) else [None])]
    if not all(isinstance(number, int | float) for number in numbers):
        return None  # somebody else's folder
    return Watched(
        rate_bps=float(detail["rate_bps"]),
        seconds=float(detail["seconds"]),
        windows=int(detail["windows"]),
        bad_windows=int(detail["bad_windows"]),
        limited_windows=int(detail["limited_windows"]),
        longest_gap_s=values[GAP].value,
        latest_s=values[LATE].value,
        worst_second_loss_ratio=values[WORST].value,
        loss_ratio=values[LOSS].value,
        loss_by_second=tuple(float(ratio) for ratio in detail["loss_by_second"]),
        broke_down=bool(detail.get("broke_down")),
        trial=trial.id,
    )
