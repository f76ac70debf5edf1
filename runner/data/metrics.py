"""Every metric, by its name, in the order of reports and listings."""

from runner.data.version1 import metrics

METRICS = metrics()
