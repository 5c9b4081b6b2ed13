"""How many rows train, calibrate and test, from what the configuration says."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from numbers import Integral
from typing import Annotated

from kdgraph.errors import DataError
from kdgraph.parameters import Fraction, Range, check_value

Size = Annotated[int, Range(0)] | Fraction | None
"""An integer is a number of rows, a float in (0, 1] a share, None the default."""

SIMULATED_ROWS = 1000
"""Rows of training and of test that a simulation draws where nothing is said."""
TEST_SHARE = 0.3
"""Share of a table's rows that test where nothing is said."""
CALIBRATION_SHARE = 0.3
"""Share of calibration among the rows that fit and calibrate, as in Dey et al., "Deep discriminative to kernel density graph"."""
CALIBRATION_PER_TRAIN = 0.43
"""The same share, 30 : 70, from the number of training rows."""

ROLES = {
    "n_train": "nothing can be learnt; give a number of rows, or null for the default",
    "n_calibration": "a calibrator needs 2 rows of each class; give a number of rows, or null for 30 % of the rows that fit and calibrate",
    "n_test": "nothing can be measured; give a number of rows, or null for the default",
}
"""What is impossible without rows of each role."""


def simulated_counts(name: str, sizes: Mapping[str, Size]) -> dict[str, int]:
    """Rows by role (``n_train``, ``n_calibration``, ``n_test``) of the simulation ``name``; it has no rows to take a share of."""
    _check_types(sizes)
    for role, size in sizes.items():
        if size is not None and not isinstance(size, Integral):
            raise DataError(f"{role} is the share {size:g}, but {name} is a simulation, which has no fixed number of rows; give an integer")
    given = {role: int(size) for role, size in sizes.items() if size is not None}
    train = given.get("n_train", SIMULATED_ROWS)
    calibration = given.get("n_calibration", round(CALIBRATION_PER_TRAIN * train))
    test = given.get("n_test", SIMULATED_ROWS)
    return _checked(name, {"n_train": train, "n_calibration": calibration, "n_test": test})


def table_counts(name: str, n: int, sizes: Mapping[str, Size]) -> dict[str, int]:
    """Rows by role of the table ``name`` of ``n`` rows; shares of training and calibration are of the rows that are not for test.

    A share of test is rounded up, as scikit-learn's ``train_test_split`` does, and one of calibration down.
    """
    _check_types(sizes)
    test = _rows(sizes["n_test"], n, TEST_SHARE, math.ceil)
    rest = n - test
    if sizes["n_train"] is None:
        calibration = _rows(sizes["n_calibration"], rest, CALIBRATION_SHARE, math.floor)
        train = rest - calibration
    else:
        train = _rows(sizes["n_train"], rest, 1.0, round)
        default = round(CALIBRATION_PER_TRAIN * train)
        calibration = default if sizes["n_calibration"] is None else _rows(sizes["n_calibration"], rest, CALIBRATION_SHARE, math.floor)
    counts = {"n_train": train, "n_calibration": calibration, "n_test": test}
    if min(train, rest) < 0 or sum(counts.values()) > n:
        asked = " + ".join(f"{role} {count}" for role, count in counts.items() if count > 0)
        raise DataError(f"{name} has {n} rows, too few for {asked}; ask for fewer")
    return _checked(name, counts)


def _rows(size: Size, of: int, default: float, rounding: Callable[[float], int]) -> int:
    """A number of rows as it is, a share of ``of`` rows rounded; 6 decimals are kept first, because 0.1 * 30 is above 3."""
    if isinstance(size, Integral):
        return int(size)
    return max(rounding(round((default if size is None else size) * of, 6)), 0)


def _check_types(sizes: Mapping[str, Size]) -> None:
    for role, size in sizes.items():
        check_value(role, size, Size)


def _checked(name: str, counts: dict[str, int]) -> dict[str, int]:
    for role, count in counts.items():
        if count == 0:
            raise DataError(f"{name}: {role} is 0, and without such rows {ROLES[role]}")
    return counts
