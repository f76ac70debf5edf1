"""What of a run is compared: which VPNs, which trials of a metric, and why a VPN has no value of one."""

from __future__ import annotations

from collections.abc import Sequence

from runner.data.levels import ranked_by
from runner.data.metric import Metric
from runner.data.scale import no_scale
from runner.data.trials import Run, Trial

TCP_ONLY = "carries TCP only"


def comparable(run: Run) -> list[str]:
    """The VPNs that the run may compare: on machines that are no scale for data planes (runner/data/scale.py), those
    whose packets the kernel carries."""
    apart = no_scale(run) is not None
    return [
        vpn
        for vpn, record in run.vpns.items()
        if not record.reference and not (apart and record.dataplane == "userspace")
    ]


def absent(run: Run, trials: Sequence[Trial]) -> list[str]:
    """The VPNs without a number, those of the kernel's data path first."""
    measured = {trial.vpn for trial in trials if trial.status == "ok"}
    without = [vpn for vpn in comparable(run) if vpn not in measured]
    return sorted(without, key=lambda vpn: (run.vpns[vpn].dataplane != "kernel", vpn))


def for_metric(metric: Metric, trials: Sequence[Trial]) -> list[Trial]:
    """The trials that measure the metric with the traffic that it is ranked by, whether they ended ok or not."""
    wanted = ranked_by(metric.measure)
    return [
        trial
        for trial in trials
        if trial.params.get("measure") == wanted["measure"]
        and all(trial.params.get(factor, level) == level for factor, level in wanted.items())
    ]


def why_absent(run: Run, vpn: str, metric: str) -> str:
    """Why an ok trial has no value of ``metric``, as far as the plugin's own data tells."""
    udp = metric == "udp_rtt" or (metric in run.metrics and run.metrics[metric].measure == "udp")
    return TCP_ONLY if udp and vpn in run.vpns and run.vpns[vpn].carries == "tcp" else "not measured"
