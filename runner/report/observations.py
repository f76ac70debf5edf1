"""Every measurement of every trial, as a flat list: the tidy table and the points of the plots are made from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runner.data.trials import Trial


@dataclass(frozen=True, slots=True)  # no model: of 100,000 trials that saves 300 MB
class Observation:
    """One measurement of one trial, for the tidy table; ``metric`` is empty for a trial without any.

    ``log`` is its folder of commands and logs, relative to the run folder; ``tunnel`` what was negotiated, in the
    daemon's words; ``search`` has (offered rate, loss ratio) of each trial of a search, in bit/s or packet/s;
    ``layers`` those of one packet on the WAN, by the closed form (name -> bytes, the outermost first), where it is
    known; ``rounds`` says that its samples are those of its rounds, one each; ``proof`` is the number of its row of
    evidence (runner.report.proofs), 0 where there is none."""

    trial: str
    experiments: list[str]
    vpn: str
    params: dict[str, str]
    repetition: int
    position: str
    status: str
    reason: str
    encrypted: bool
    metric: str = ""
    unit: str = ""
    value: float | None = None
    samples: list[float] = field(default_factory=list)
    log: str = ""
    tunnel: str = ""
    search: list[tuple[float, float]] = field(default_factory=list)
    layers: dict[str, int] | None = None
    rounds: bool = False
    proof: int = 0


def observations_of(trials: Sequence[Trial], proofs: Mapping[str, int]) -> list[Observation]:
    """An observation for each measurement, and one for a trial without any, in the order of the trials. ``proofs``:
    trial's id -> the number of its row of evidence."""
    return list(_observations_of(trials, proofs))


def _observations_of(trials: Sequence[Trial], proofs: Mapping[str, int]) -> Iterable[Observation]:
    for trial in trials:
        common: dict[str, Any] = {
            "trial": trial.id,
            "experiments": trial.experiments,
            "vpn": trial.vpn,
            "params": trial.params,
            "repetition": trial.repetition,
            "position": trial.position,
            "status": trial.status,
            "reason": trial.reason,
            "encrypted": trial.encrypted,
            "log": trial.log,
            "tunnel": _tunnel(trial),
            "proof": proofs.get(trial.id, 0),
        }
        if not trial.measurements:
            yield Observation(**common)
        for m in trial.measurements:
            own: dict[str, Any] = {"metric": m.metric, "unit": m.unit, "value": m.value, "samples": m.samples}
            own["rounds"] = bool(m.rounds)
            yield Observation(**common, **own, search=_search(m.detail.get("trials")), layers=_layers(m.detail))


def _search(trials: Any) -> list[tuple[float, float]]:
    """(Offered rate, loss ratio) of a search's trials, where the detail has them: its form is the instrument's own."""
    points = []
    for trial in trials if isinstance(trials, list) else ():
        rate, loss = (trial.get(key) if isinstance(trial, dict) else None for key in ("offered_rate_bps", "loss_ratio"))
        if isinstance(rate, int | float) and isinstance(loss, int | float) and rate > 0:
            points.append((float(rate), float(loss)))
    return points


def _layers(detail: dict[str, Any]) -> dict[str, int] | None:
    """The layers of one packet, where the detail has them as name -> bytes."""
    layers = detail.get("layers")
    good = isinstance(layers, dict) and all(isinstance(length, int) and length >= 0 for length in layers.values())
    return layers if good else None


def _tunnel(trial: Trial) -> str:
    """What was negotiated, and by which path the data went, as the evidence has it."""
    if not trial.evidence:
        return ""
    evidence = trial.evidence
    parts = (evidence.cipher, evidence.integrity, evidence.compression, evidence.data_path)
    return ", ".join(word for word in parts if word)
