"""How large a difference must be to matter: the reader's own margins in place of the metrics'."""

from __future__ import annotations

import math
from collections.abc import Collection

from runner.data.errors import UsageError, require_known
from runner.data.trials import Run

FORMS = "metric=10%,metric=1.5 (up to 10 % more; up to 1.5 times), or one for all"


def with_margins(run: Run, text: str) -> Run:
    """The run with other margins for its metrics: ``5%``, or ``rtt=10%,jitter=1.5``.

    Raises UsageError for anything malformed, for a metric that the run does not have, and for no margin at all.
    """
    margins = parse_margins(text, run.metrics)
    if not margins:
        return run
    metrics = {
        name: metric.model_copy(update={"margin": margins[name]}) if name in margins else metric
        for name, metric in run.metrics.items()
    }
    return run.model_copy(update={"metrics": metrics})


def parse_margins(text: str, known: Collection[str]) -> dict[str, float]:
    """Metric -> its margin, a factor above 1; of all ``known`` metrics where ``text`` names none. Raises UsageError."""
    margins: dict[str, float] = {}
    for pair in text.split(",") if text.strip() else ():
        metric, equals, value = (part.strip() for part in pair.rpartition("="))
        if not equals:
            margins = dict.fromkeys(known, _margin(text, value)) | margins
            continue
        require_known("metric", metric, [*known])
        margins[metric] = _margin(text, value)
    return margins


def _margin(text: str, value: str) -> float:
    """``10%`` and ``1.1`` are the same margin."""
    try:
        margin = 1 + float(value.removesuffix("%")) / 100 if value.endswith("%") else float(value)
    except ValueError:
        raise UsageError(f"margin {text!r}: {value!r} is not a number. Margins are: {FORMS}") from None
    if not 1 < margin < math.inf:
        raise UsageError(
            f"margin {text!r}: {value} is not a valid margin. A margin is more than 0 %, or a factor above 1"
        )
    return margin
