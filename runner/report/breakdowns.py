"""Tunnels that broke down under the load of a measurement. An engineer must know this before choosing a VPN."""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.kinds import Strict
from runner.data.levels import tunnel_levels
from runner.data.remarks import Kind
from runner.data.trials import Trial
from runner.report import text

BROKE: tuple[Kind, ...] = ("breakdown", "no payload")


class Breakdown(Strict):
    """A tunnel of ``vpn`` with these ``levels`` that carried nothing any more while it was measured, in ``trials`` of
    the ``of`` trials of that load. ``under``: the load, and the lowest rate at which that happened."""

    vpn: str
    image: str
    levels: dict[str, str]
    under: str
    trials: int
    of: int

    @property
    def sentence(self) -> str:
        """What happened, under which load, and in how many of the trials."""
        times = "" if self.trials == self.of else f" in {self.trials} of {text.count_noun(self.of, 'trial')}"
        return f"{self.vpn}'s tunnel broke down under {self.under}{times}, and was made anew."


def breakdowns(trials: Sequence[Trial]) -> list[Breakdown]:
    """The breakdowns of each tunnel under each kind of load, in the order of the trials."""
    by_load: dict[tuple[str, str, tuple[tuple[str, str], ...], tuple[str, str]], list[Trial]] = {}
    for trial in trials:
        tunnel = tuple(sorted(tunnel_levels(trial.params).items()))
        load = trial.params.get("measure", ""), trial.params.get("failure", "")
        key = trial.vpn, trial.params.get("image", ""), tunnel, load
        by_load.setdefault(key, []).append(trial)
    rows = []
    for (vpn, image, levels, (measure, _)), own in by_load.items():
        if broken := [trial for trial in own if any(remark.kind in BROKE for remark in trial.remarks)]:
            row = Breakdown(
                vpn=vpn,
                image=image,
                levels=dict(levels),
                under=_load_words(broken, measure),
                trials=len(broken),
                of=len(own),
            )
            rows.append(row)
    return rows


def _load_words(trials: Sequence[Trial], measure: str) -> str:
    """The load, with the lowest rate that any trial names."""
    named = [remark for trial in trials for remark in trial.remarks if remark.kind == "breakdown"]
    return min(named, key=lambda remark: remark.value).load if named else f"the measurement of {measure}"
