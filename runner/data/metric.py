"""What a metric is: its unit, which way is better, its definition, and where the definition comes from."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Metric(BaseModel):
    """One quantity that a trial can measure.

    ``unit`` is SI; ``better`` says which way a VPN wins; ``measure`` is the name of its instrument, which the catalogue
    adds. ``exact``: a count on paper, or a verdict that had its control: one repetition settles what does not vary.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(pattern="^[a-z0-9_]+$")  # a word: files, addresses and --weights are made of it
    title: str
    unit: str
    better: Literal["higher", "lower"]
    definition: str
    source: str
    measure: str = ""
    exact: bool = False
