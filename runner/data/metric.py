"""What a metric is: its unit, which way is better, its definition, and where the definition comes from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from runner.data.kinds import LARGEST, Line, MetricName, Real, Strict, Text, Unit

MARGIN = 1.1
ROUNDED = 1e-9  # by how much sums of shares may be off


class Metric(Strict):
    """One quantity that a trial can measure, and all that a report knows of it.

    ``unit`` is SI; ``better`` says which way a VPN wins; ``measure`` is the name of its instrument, which the catalogue
    adds. ``exact``: a count on paper, or a verdict that had its control: one repetition settles what does not vary.
    ``margin``: two VPNs of which one has up to this many times the other's value are the same for a user.
    A run that does not tell the fields from ``short`` on is an older one: runner/catalogue.py has them.
    """

    name: MetricName  # a word: files, addresses and --weights are made of it
    title: Line
    unit: Unit
    better: Literal["higher", "lower"]
    definition: Text
    source: Text
    measure: Line = ""
    exact: bool = False
    margin: Annotated[Real, Field(gt=1)] = MARGIN
    short: Line = Field(default="", description="what a narrow column calls it; empty: it has no shorter name")
    bounds: tuple[Real, Real] = Field(
        default=(-LARGEST, LARGEST), description="the least and the most that a value can be; a time is never negative"
    )
    plot: Literal["values", "distribution", "boxes", "timelines"] = Field(
        default="values",
        description="what is drawn beside the values: their samples in two ways, or what each failure did",
    )
    absolute: bool = Field(default=False, description="does plain IP beside a VPN say nothing of it in a comparison?")
    aside: Line = Field(default="", description="why a comparison of two runs does not judge it; empty: it does")
    limited: bool = Field(default=False, description="is it the highest that something, a core or a queue, lets pass?")
    secondary: bool = Field(default=False, description="measured beside another; a line about a trial leaves it out")

    def refusal(self, value: float) -> str:
        """Why this cannot be its value, or ""."""
        least, most = self.bounds
        return "" if least - ROUNDED <= value <= most + ROUNDED else f"{value:g}; it is from {least:g} to {most:g}"


time_s = partial(Metric, unit="s", better="lower")
time_ms = partial(Metric, unit="ms", better="lower")
bit_rate = partial(Metric, unit="bit/s", better="higher")
# What has the unit 1, which tells nothing by itself.
share = partial(Metric, unit="1", bounds=(0.0, 1.0))  # of all
verdict = partial(share, better="higher", exact=True)  # 1 or 0, or a share that does not vary
count = partial(Metric, unit="1", better="lower", exact=True, bounds=(0.0, LARGEST))


# Of these, nothing can be less than none. (An overhead in byte/packet can: compression.)
NEVER_NEGATIVE = (
    *("s", "ms", "bit/s", "packet/s", "exchange/s", "B", "byte", "packet"),
    *("s/GB", "/packet", "packet/packet", "byte/byte"),
    *("ms/min", "/min", "B/min"),
)
# Whatever its unit, nothing but 0 was measured beyond these, where ratios and sums are no numbers any more.
SMALLEST = 1e-100


def impossible(numbers: Sequence[float], unit: str = "") -> str:
    """Why these cannot have been measured in this unit, or ""."""
    if min(numbers) < 0 and unit in NEVER_NEGATIVE:
        return f"{min(numbers):g} {unit}; it cannot be less than zero"
    sizes = [abs(number) for number in numbers if number] or [1.0]
    if not SMALLEST <= min(sizes) <= max(sizes) <= LARGEST:
        wrong = min(sizes) if min(sizes) < SMALLEST else max(sizes)
        return f"{wrong:g} in size; what is measured is 0, or from {SMALLEST:g} to {LARGEST:g}"
    return ""
