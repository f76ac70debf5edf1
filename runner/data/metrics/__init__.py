"""Every metric, by its name; a file of this folder for each kind. The order is that of reports and listings."""

from runner.data.metrics.cost import COST
from runner.data.metrics.delay import DELAY
from runner.data.metrics.failures import FAILURES
from runner.data.metrics.metric import Metric
from runner.data.metrics.operations import OPERATIONS
from runner.data.metrics.packets import PACKETS
from runner.data.metrics.security import SECURITY
from runner.data.metrics.throughput import THROUGHPUT

__all__ = ["METRICS", "Metric"]

METRICS: dict[str, Metric] = {
    metric.name: metric for metric in [*THROUGHPUT, *DELAY, *COST, *PACKETS, *FAILURES, *SECURITY, *OPERATIONS]
}
