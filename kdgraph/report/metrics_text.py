"""Numbers of a record as tables on a terminal have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kdgraph.results.measures import Measure, measured
from kdgraph.results.words import MISSING

Record = Mapping[str, Any]
Entry = Mapping[str, Any]
Values = Mapping[str, Entry]
""""parent" or "calibrated" → its number."""

LARGE = 10_000
"""From here on decimals say nothing."""


def by_measure(record: Record) -> Mapping[Measure, Values]:
    """Everything that was measured, in the order of the config, of the parent and of the calibrated model."""
    found: dict[Measure, dict[str, Entry]] = {}
    for measure, entry in measured(record):
        found.setdefault(measure, {})[entry["of"]] = entry
    return found


def number(value: float | None, unit: str | None = None) -> str:
    """Three decimals, or a dash where there is no value; of rows none, or one where it is their mean.

    >>> number(0.05), number(None), number(-1.0), number(294_123.4)
    ('0.050', '–', '-1.000', '294,123')
    >>> number(31.0, "rows"), number(31.25, "rows")
    ('31', '31.2')
    """
    if value is None:
        return MISSING
    if unit == "rows":
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return f"{value:.3f}" if abs(value) < LARGE else f"{value:,.0f}"


def distance_from_ideal(measure: Measure, value: float | None, prior: Sequence[float] | None) -> float | None:
    """How far a value is from the best there could be, or None where neither direction is better.

    Parameters
    ----------
    prior : class shares of the training rows: far from them the best mean confidence is the largest. None where there are no classes.
    """
    if value is None or measure.ideal == "none" or (measure.ideal == "prior" and not prior):
        return None
    return abs(value - max(prior or ())) if measure.ideal == "prior" else value if measure.ideal == "lower" else -value
