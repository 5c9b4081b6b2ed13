"""Numbers of a record as tables on a terminal have them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kdgraph.results.measures import Measure, measured
from kdgraph.results.numbers import number, numbers_apart

Record = Mapping[str, Any]
Entry = Mapping[str, Any]
Values = Mapping[str, Entry]
""""parent" or "calibrated" → its number."""


def by_measure(record: Record) -> Mapping[Measure, Values]:
    """Everything that was measured, in the order of the config, of the parent and of the calibrated
    model.
    """
    found: dict[Measure, dict[str, Entry]] = {}
    for measure, entry in measured(record):
        found.setdefault(measure, {})[entry["of"]] = entry
    return found


def texts_of(values: Values, unit: str | None, *, marked: bool) -> dict[str, str]:
    """Write the numbers of both models; where one of them is marked, with as many digits as it
    takes to see why.
    """
    numbers = {of: entry["value"] for of, entry in values.items()}
    return (
        numbers_apart(numbers, unit)
        if marked
        else {of: number(value, unit) for of, value in numbers.items()}
    )


def distance_from_ideal(
    measure: Measure, value: float | None, prior: Sequence[float] | None
) -> float | None:
    """How far a value is from the best there could be, or None where neither direction is better.

    Parameters
    ----------
    prior : class shares of the training rows: far from them the best mean confidence is the
        largest. None where there are no classes.
    """
    if value is None or measure.ideal == "none" or (measure.ideal == "prior" and not prior):
        return None
    return (
        abs(value - max(prior or ()))
        if measure.ideal == "prior"
        else value
        if measure.ideal == "lower"
        else -value
    )
