"""Values of metrics as text, and when two of them are the same: with what floating point leaves
open, and in any unit.
"""

from __future__ import annotations

from collections.abc import Mapping

from kdgraph.results.words import MISSING
from kdgraph.wording import significant, with_spread

NOISE = 1e-9
"""Numbers of which the larger has this share more than the smaller are the same: far above what
floating point and the order of a sum
leave open, far below what a metric can show. A tie is relative, so that a target in other units has
the same ties.
"""
DIMENSIONLESS = (None, "nats", "rows")
"""Units of metrics whose numbers do not change with the unit of the target."""


def tie_scale(unit: str | None) -> float:
    """Return 1 for numbers without a dimension, and 0 for those in a unit, such as that of y, in
    which any number may be small.
    """
    return 1.0 if unit in DIMENSIONLESS else 0.0


def number(value: float | None, unit: str | None = None, digits: int = 3) -> str:
    """Write a value of a metric, or a dash where there is none; of rows no decimals, or one where
    it is their mean.

    >>> number(0.05), number(None), number(-1.0), number(294_123.4)
    ('0.050', '–', '-1.000', '294,123')
    >>> number(31.0, "rows"), number(31.25, "rows"), number(1.2345e-7, "units of y"), number(1e-17)
    ('31', '31.2', '1.23e-07', '0.000')
    """
    if value is None:
        return MISSING
    if unit == "rows":
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return significant(without_dust(value, unit), digits)


def mean_number(value: float, deviation: float, unit: str | None = None, digits: int = 3) -> str:
    """Write a mean with its standard deviation.

    >>> mean_number(0.318, 0.0123), mean_number(31.25, 2.5, "rows"), mean_number(0.3, 1e-17)
    ('0.318 ± 0.012', '31.2 ± 2.5', '0.300 ± 0.000')
    """
    if unit == "rows":
        return f"{number(value, unit)} ± {number(deviation, unit)}"
    spread = 0.0 if deviation <= NOISE * abs(value) else without_dust(deviation, unit)
    return with_spread(without_dust(value, unit), spread, digits)


def without_dust(value: float, unit: str | None) -> float:
    """Return a number, or 0 where it is what floating point left of a difference of shares; in a
    unit any number may be small.

    >>> without_dust(1e-17, None), without_dust(1e-17, "units of y")
    (0.0, 1e-17)
    """
    return 0.0 if abs(value) <= NOISE * tie_scale(unit) else value


def is_tie(first: float, second: float, unit: str | None) -> bool:
    """Return whether floating-point noise alone tells two values of a metric apart.

    >>> is_tie(0.1 + 0.2, 0.3, None), is_tie(1e-7, 2e-7, "units of y"), is_tie(1e-17, 2e-17, None)
    (True, False, True)
    """
    return abs(first - second) <= NOISE * max(abs(first), abs(second), tie_scale(unit))


def numbers_apart(
    values: Mapping[str, float | None], unit: str | None = None, digits: int = 3
) -> dict[str, str]:
    """Write two numbers of which one is marked with as many digits as it takes to see why.

    >>> numbers_apart({"parent": 0.05021, "calibrated": 0.05018})
    {'parent': '0.05021', 'calibrated': '0.05018'}
    """
    texts: dict[str, str] = {}
    for more in range(digits, digits + 4):
        texts = {name: number(value, unit, more) for name, value in values.items()}
        if len(set(texts.values())) > 1:
            break
    return texts
