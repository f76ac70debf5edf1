"""A run folder cut down to what shows musts, for results/evidence/: usage: evidence.py RUN_FOLDER TO_FOLDER

What TO_FOLDER has of other trials it keeps.
"""

import json
import sys
from pathlib import Path
from typing import Any

from runner.catalogue import load_run, load_vpn, record_of, vpn_names
from runner.data.trials import Measurement, Run, Trial

LAB = ("kind", "kernel", "guest", "wan_ip_version")
METRICS = (
    *("fail_closed", "outage_ms", "udp_throughput", "nat_port_back", "passes_without_udp", "narrow_mtu"),
    *("policed_share", "dscp_copied"),
)
DETAIL = ("at_least", "watched_s", "sizes", "too_slow_sites", "reason", "refutes", "kind")


def kept(detail: dict[str, Any]) -> dict[str, Any]:
    """Of what an instrument said beside its value, that which a must goes by; of a mesh's sizes, their numbers."""
    chosen = {name: value for name, value in detail.items() if name in DETAIL}
    return chosen | ({"sizes": {size: {} for size in chosen["sizes"]}} if "sizes" in chosen else {})


def short_measurement(measurement: Measurement) -> Measurement:
    return measurement.model_copy(update={"samples": [], "rounds": [], "detail": kept(measurement.detail)})


def short_trial(trial: Trial) -> Trial:
    measurements = [short_measurement(each) for each in trial.measurements if each.metric in METRICS]
    gone: dict[str, Any] = {
        "noise": None,
        "log": "",
        "curve": [],
        "timelines": [],
        "loads": [],
        "limit": None,
        "warnings": [],
        "experiments": [],
    }
    return trial.model_copy(update=gone | {"attempt": kept(trial.attempt), "measurements": measurements})


def short_run(run: Run, name: str) -> Run:
    """With what every plugin declares today, so that a run of one VPN knows who else of its family can."""
    lab = {fact: run.lab[fact] for fact in LAB if fact in run.lab}
    metrics = {metric: run.metrics[metric] for metric in METRICS if metric in run.metrics}
    vpns = {vpn: record_of(load_vpn(vpn)) for vpn in vpn_names()}
    gone: dict[str, Any] = {"experiments": [], "invocations": [], "metrics": metrics}
    return run.model_copy(update=gone | {"run_id": name, "lab": lab, "vpns": vpns})


def packages(run: Run) -> dict[str, str]:
    known: dict[str, str] = run.image["packages"]
    return known


def main(source: Path, target: Path) -> None:
    run, trials = load_run(source)
    target.mkdir(parents=True, exist_ok=True)
    if (target / "run.json").exists():
        before, kept_trials = load_run(target)
        again = {trial.id for trial in trials}
        trials = [trial for trial in kept_trials if trial.id not in again] + trials
        image = run.image | {"packages": packages(before) | packages(run)}
        more = {"image": image, "metrics": before.metrics | run.metrics, "created_at": before.created_at}
        run = run.model_copy(update=more)
    (target / "run.json").write_text(text(short_run(run, target.name), indent=1))
    (target / "trials.jsonl").write_text("".join(text(short_trial(trial)) for trial in trials))


def text(model: Run | Trial, indent: int | None = None) -> str:
    """What differs from the defaults, and the schema's version, which is one of them."""
    version = {"schema_version": model.schema_version}
    return json.dumps(version | model.model_dump(mode="json", exclude_defaults=True), indent=indent) + "\n"


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
