"""Every metric, by its name; a file of this folder for each kind. The order is that of reports and listings."""

from runner.metrics.cost import COST
from runner.metrics.delay import DELAY
from runner.metrics.failures import FAILURES
from runner.metrics.metric import Metric
from runner.metrics.operations import OPERATIONS
from runner.metrics.packets import PACKETS
from runner.metrics.security import SECURITY
from runner.metrics.throughput import THROUGHPUT

__all__ = ["METRICS", "Metric"]

METRICS: dict[str, Metric] = {
    metric.name: metric for metric in [*THROUGHPUT, *DELAY, *COST, *PACKETS, *FAILURES, *SECURITY, *OPERATIONS]
}
