"""The report's data for other programs: one tidy table (CSV), or all of it (JSON)."""

from __future__ import annotations

import csv
import io

from runner.model import TRAFFIC_FACTORS, TUNNEL_FACTORS
from runner.report.model import Report


def csv_text(report: Report) -> str:
    """Tidy CSV (RFC 4180): a line for the ``value`` of each measurement of each trial, one for each of its
    ``sample``s, and one of kind ``none`` for a trial without a measurement. Values are in ``unit``, unscaled."""
    factors = list(TUNNEL_FACTORS + TRAFFIC_FACTORS)
    factors += sorted({name for seen in report.observations for name in seen.params} - set(factors))
    out = io.StringIO()
    writer = csv.writer(out)
    about = ["repetition", "position", "status", "reason", "encrypted"]
    measured = ["metric", "unit", "kind", "index", "value"]
    writer.writerow(["run", "trial", "experiments", "vpn", *factors, *about, *measured])
    for seen in report.observations:
        trial = [report.run_id, seen.trial, " ".join(seen.experiments), seen.vpn]
        trial += [seen.params.get(factor, "") for factor in factors]
        trial += [str(seen.repetition), seen.position, seen.status, seen.reason, str(seen.encrypted).lower()]
        if seen.value is None:
            writer.writerow([*trial, "", "", "none", "", ""])
            continue
        writer.writerow([*trial, seen.metric, seen.unit, "value", "", repr(seen.value)])
        for index, sample in enumerate(seen.samples):
            writer.writerow([*trial, seen.metric, seen.unit, "sample", index, repr(sample)])
    return out.getvalue()


def json_text(report: Report) -> str:
    """The whole report but for the raw samples, which trials.jsonl and the CSV have."""
    return report.model_dump_json(indent=1, exclude={"observations": {"__all__": {"samples"}}}) + "\n"
