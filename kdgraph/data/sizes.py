"""Numbers of training, calibration and test rows, computed from a configuration."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from numbers import Integral
from typing import Annotated, Any, Literal

from kdgraph.errors import DataError
from kdgraph.parameters import ClosedFraction, Count, Fraction, Range, annotations_of, check_value

RowCount = Annotated[int, Range(0)] | Fraction | None
"""Size of a role: an int is a number of rows, a float in (0, 1] a fraction, None the default."""

REST: Literal["rest"] = "rest"
"""Size of the test rows: all rows of a table that neither fit nor calibrate."""

_DEFAULT_SIMULATED_ROWS = 1000
"""Default number of training rows, and of test rows, of a simulation."""
_DEFAULT_TEST_FRACTION = 0.3
"""Default fraction of the rows of a table that test."""
_DEFAULT_CALIBRATION_FRACTION = 0.3
"""Default fraction of calibration rows among the rows that do not test.

Source: Dey et al., "Deep discriminative to kernel density graph".
"""
_CALIBRATION_TO_TRAIN_RATIO = 0.43
"""Calibration rows for each training row, for the same 30 : 70 division."""
_MIN_LOG_SAMPLE = 100
"""Number of rows that fit and calibrate if ``log_share`` is 0.

It is the smallest sample of the tabular study of Dey et al.
"""

_EMPTY_ROLE_REASONS = {
    "n_train": "nothing can be learnt; give a number of rows, or null for the default",
    "n_calibration": (
        "a calibrator needs 2 rows of each class; give a number of rows, or null for 30 % of the"
        " rows that fit and calibrate"
    ),
    "n_test": "nothing can be measured; give a number of rows, or null for the default",
}
"""Reason why each role needs rows, for error messages."""


@dataclass(frozen=True)
class RoleSizes:
    """Numbers of rows by role."""

    train: int
    calibration: int
    test: int

    @property
    def total(self) -> int:
        """Number of rows of all roles together."""
        return self.train + self.calibration + self.test


@dataclass(frozen=True)
class SplitSizes:
    """Requested numbers of rows by role.

    A configuration has these fields as keys, together with the parameters of its source.

    Attributes
    ----------
    n_train : int or float, default=None
        Number of training rows, or fraction of the rows that do not test. None: 1000 from a
        simulation, all remaining rows of a table.
    n_calibration : int or float, default=None
        Number of calibration rows, or the same fraction. None: 30 % of the rows that fit and
        calibrate, which is 0.43 n_train if ``n_train`` is set.
    n_test : int, float or "rest", default=None
        Number of test rows, or fraction of a table. None: 1000 from a simulation, 0.3 of a table,
        all test rows that a source prescribes. "rest": all rows of a table that neither fit nor
        calibrate, in the order of the table; the other sizes are then parts of all rows.
    n_learn : int or float, default=None
        Rows that fit and calibrate together, divided 70 : 30, as a number or as a fraction of the
        rows that do not test. It replaces ``n_train``.
    log_share : float in [0, 1], default=None
        The same on a logarithmic scale: 0 is 100 rows, 1 all rows that do not test, 0.5 the middle
        between their logarithms.
    max_learn : int, default=None
        Largest number of rows that fit and calibrate.
    max_test : int, default=None
        Largest number of test rows.

    Raises
    ------
    DataError
        If more than one of ``n_train``, ``n_learn`` and ``log_share`` is set.
    ParameterError
        If a value does not have the type or range of its field.

    Examples
    --------
    >>> SplitSizes(n_test=0.2).of_table("letters", 100)
    RoleSizes(train=56, calibration=24, test=20)
    """

    n_train: RowCount = None
    n_calibration: RowCount = None
    n_test: RowCount | Literal["rest"] = None
    n_learn: RowCount = None
    log_share: ClosedFraction | None = None
    max_learn: Count | None = None
    max_test: Count | None = None

    def __post_init__(self) -> None:
        for name, annotation in annotations_of(type(self)).items():
            check_value(name, getattr(self, name), annotation)
        specified = [
            name for name in ("n_train", "n_learn", "log_share") if getattr(self, name) is not None
        ]
        if len(specified) > 1:
            raise DataError(
                f"{' and '.join(specified)} each set how many rows learn; give one of them,"
                " and null for the rest"
            )

    def of_simulation(self, name: str) -> RoleSizes:
        """Return the sizes for a simulation, which has no rows to take a fraction of."""
        for role in ("n_train", "n_calibration", "n_test", "n_learn"):
            size = getattr(self, role)
            if size == REST:
                raise DataError(
                    f"n_test is the rest of a table's rows, but {name} is a simulation; give an"
                    " integer"
                )
            if size is not None and not isinstance(size, Integral):
                problem = f"{role} is the share {size:g}, but {name} is a simulation"
                raise DataError(f"{problem}, which has no fixed number of rows; give an integer")
        if self.log_share is not None:
            raise DataError(
                f"log_share is a share of a table's rows, but {name} is a simulation; give n_learn"
            )
        train, calibration = self._train_calibration_sizes(0)
        if self.n_train is None and self.n_learn is None:
            by_default = replace(self, n_train=_DEFAULT_SIMULATED_ROWS)
            train, calibration = by_default._train_calibration_sizes(0)
            # The default of 1000 training rows gives way to a smaller max_learn.
            if train + calibration > (self.max_learn or math.inf):
                train, calibration = self._train_calibration_sizes(self.max_learn or 0)
        test = self._n_test_rows(0, default=_DEFAULT_SIMULATED_ROWS)
        return _check_not_empty(name, RoleSizes(train, calibration, test))

    def of_table(self, name: str, n: int, *, tests: bool = True) -> RoleSizes:
        """Return the sizes for a table of ``n`` rows.

        A fraction of test rows is rounded up, as in scikit-learn's ``train_test_split``, and a
        fraction of calibration rows is rounded down. Without ``tests`` all rows fit and calibrate.
        """
        if self.n_test == REST and tests:
            return self._with_the_rest(name, n)
        test = self._n_test_rows(n, default=_DEFAULT_TEST_FRACTION) if tests else 0
        n_remaining = n - test
        learning = self._train_calibration_sizes(n_remaining) if n_remaining > 0 else (0, 0)
        counts = RoleSizes(*learning, test)
        if n_remaining < 0 or counts.total > n:
            raise DataError(
                f"{name} has {n} rows, too few for {self._requested_sizes(counts)}; ask for fewer"
            )
        required = tuple(_EMPTY_ROLE_REASONS) if tests else ("n_train", "n_calibration")
        return _check_not_empty(name, counts, required)

    def of_scores(
        self, name: str, n: int, prescribed: RoleSizes | None = None, *, tests: bool = True
    ) -> RoleSizes:
        """Return the sizes for a score file: rows that do not test calibrate, and no row trains.

        ``n_learn`` and ``max_learn`` apply to the calibration rows. If all rows test, no row
        calibrates: a model that is only measured needs no calibration rows, and neither does a
        method that is fitted on test rows, as in its paper.
        """
        if self.n_train or self.log_share is not None:
            raise DataError(
                f"{name} has scores of a model that is trained already; give n_calibration, not"
                " n_train or log_share"
            )
        if self.n_test == REST and tests and prescribed is None:
            return self._with_the_rest(name, n, of_scores=True)
        # Without prescribed roles, every row that does not test may calibrate.
        if prescribed is None:
            test = self._n_test_rows(n, default=_DEFAULT_TEST_FRACTION) if tests else 0
            n_available = n - test
        else:
            test = self._n_test_rows(prescribed.test, default=1.0) if tests else 0
            n_available = prescribed.calibration
        calibration = self._n_score_rows(max(n_available, 0), self.max_learn)
        counts = RoleSizes(0, calibration, test)
        if calibration > n_available or (prescribed is not None and test > prescribed.test):
            raise DataError(
                f"{name} has {n} rows, too few for {self._requested_sizes(counts)}; ask for fewer"
            )
        required = ("n_test",) if test == n else ("n_calibration", *(["n_test"] if tests else []))
        return _check_not_empty(name, counts, required)

    def of_roles(self, name: str, prescribed: RoleSizes) -> RoleSizes:
        """Return the sizes for a table with prescribed roles: all rows, unless fewer are requested.

        If no calibration rows are prescribed, they are taken from the training rows, as in any
        table.
        """
        test = self._n_test_rows(prescribed.test, default=1.0)
        # Prescribed calibration rows are a separate pool. Without them, calibration rows are taken
        # from the training rows, so both sizes must fit into one pool.
        if prescribed.calibration:
            size = self.n_learn if self.n_train is None else self.n_train
            train = _row_count(size, prescribed.train, round, limit=self.max_learn)
            calibration = _row_count(self.n_calibration, prescribed.calibration, math.floor)
            counts = RoleSizes(train, calibration, test)
            too_many = train > prescribed.train or calibration > prescribed.calibration
        else:
            counts = RoleSizes(*self._train_calibration_sizes(prescribed.train), test)
            too_many = counts.train + counts.calibration > prescribed.train
        if too_many or test > prescribed.test:
            description = (
                f"{prescribed.train} training, {prescribed.calibration} calibration and"
                f" {prescribed.test} test rows"
            )
            raise DataError(
                f"{name} comes with {description}, too few for {self._requested_sizes(counts)};"
                " ask for fewer, or give dataset.split=random"
            )
        return _check_not_empty(name, counts)

    def _with_the_rest(self, name: str, n: int, *, of_scores: bool = False) -> RoleSizes:
        if of_scores:
            train, calibration = 0, self._n_score_rows(n, min(n, self.max_learn or n))
        else:
            train, calibration = self._train_calibration_sizes(n)
        rest = n - train - calibration
        if rest <= 0:
            raise DataError(
                f"{name}: n_test=rest leaves no row of {n} that tests, since {train + calibration}"
                " fit and calibrate; give max_learn, or a smaller size"
            )
        required = ("n_calibration",) if of_scores else ("n_train", "n_calibration")
        test = min(rest, self.max_test or rest)
        return _check_not_empty(name, RoleSizes(train, calibration, test), required)

    def _n_test_rows(self, n: int, *, default: float) -> int:
        size = default if self.n_test in (None, REST) else self.n_test
        return _row_count(size, n, math.ceil, limit=self.max_test)

    def _n_score_rows(self, n: int, limit: int | None) -> int:
        size = self.n_learn if self.n_calibration is None else self.n_calibration
        return _row_count(size, n, math.floor, limit=limit)

    def _train_calibration_sizes(self, n_rows: int) -> tuple[int, int]:
        if self.n_train is not None:
            train = _row_count(self.n_train, n_rows, round)
            if self.n_calibration is None:
                return train, round(_CALIBRATION_TO_TRAIN_RATIO * train)
            return train, _row_count(self.n_calibration, n_rows, math.floor)
        # The calibration rows are a part of the rows that learn, so the latter are counted first.
        if self.log_share is None:
            learn = _row_count(self.n_learn, n_rows, round, limit=self.max_learn)
        else:
            most = max(min(n_rows, self.max_learn or n_rows), _MIN_LOG_SAMPLE)
            learn = round(_MIN_LOG_SAMPLE ** (1 - self.log_share) * most**self.log_share)
        calibration = _row_count(
            self.n_calibration, learn, math.floor, default=_DEFAULT_CALIBRATION_FRACTION
        )
        return max(learn - calibration, 0), calibration

    def _requested_sizes(self, counts: RoleSizes) -> str:
        return " + ".join(
            f"n_{role} {count}" for role, count in asdict(counts).items() if count > 0
        )


def _row_count(
    size: Any,
    n_rows: int,
    rounding: Callable[[float], int],
    *,
    default: float = 1.0,
    limit: int | None = None,
) -> int:
    """Return an integer as it is, or a fraction of ``n_rows`` as a number, up to a limit."""
    if isinstance(size, Integral):
        count = int(size)
    else:
        # Products are rounded to 6 decimals first, because 0.1 * 30 is above 3 in floating point.
        count = max(rounding(round((default if size is None else size) * n_rows, 6)), 0)
    return count if limit is None else min(count, limit)


def _check_not_empty(
    name: str, counts: RoleSizes, required: Collection[str] = tuple(_EMPTY_ROLE_REASONS)
) -> RoleSizes:
    for role, reason in _EMPTY_ROLE_REASONS.items():
        if role in required and getattr(counts, role.removeprefix("n_")) == 0:
            raise DataError(f"{name}: {role} is 0, and without such rows {reason}")
    return counts
