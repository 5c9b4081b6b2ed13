"""How many rows train, calibrate and test, from what the configuration says."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Annotated

from kdgraph.errors import DataError
from kdgraph.parameters import Count, Fraction, Range, Share, annotations_of, check_value

RowCount = Annotated[int, Range(0)] | Fraction | None
"""An integer is a number of rows, a float in (0, 1] a share, None the default."""

_DEFAULT_SIMULATED_ROWS = 1000
"""Rows of training and of test that a simulation draws where nothing is said."""
_DEFAULT_TEST_FRACTION = 0.3
"""Share of a table's rows that test where nothing is said."""
_DEFAULT_CALIBRATION_FRACTION = 0.3
"""Share of calibration among the rows that fit and calibrate, as in Dey et al., "Deep
discriminative to kernel density graph".
"""
_CALIBRATION_TO_TRAIN_RATIO = 0.43
"""The same share, 30 : 70, from the number of training rows."""
_MIN_LOG_SAMPLE = 100
"""Rows that fit and calibrate at ``log_share`` 0: the smallest sample of the tabular study of Dey
et al.
"""

_EMPTY_ROLE_REASONS = {
    "n_train": "nothing can be learnt; give a number of rows, or null for the default",
    "n_calibration": (
        "a calibrator needs 2 rows of each class; give a number of rows, or null for 30 % of the"
        " rows that fit and calibrate"
    ),
    "n_test": "nothing can be measured; give a number of rows, or null for the default",
}
"""What is impossible without rows of each role."""


@dataclass(frozen=True)
class RoleSizes:
    """Rows of each role."""

    train: int
    calibration: int
    test: int

    @property
    def total(self) -> int:
        """Rows of all roles."""
        return self.train + self.calibration + self.test


@dataclass(frozen=True)
class SplitSizes:
    """How many rows of each role are asked for; a configuration has these keys beside the
    parameters of its source.

    Attributes
    ----------
    n_train : number of rows, or a share of those that are not for test. None: 1000 from a
    simulation, what is left of a table.
    n_calibration : the same. None: 30 % of the rows that fit and calibrate, which is 0.43 n_train
    where ``n_train`` is given.
    n_test : number of rows, or a share of a table. None: 1000 from a simulation, 0.3 of a table,
    all test rows that a source prescribes.
    n_learn : rows that fit and calibrate together, 70 : 30, as a number or a share of those that
    are not for test; instead of ``n_train``.
    log_share : the same on a logarithmic scale: 0 is 100 rows, 1 all that may learn, 0.5 half-way
    between their logarithms.
    max_learn, max_test : never more than this many rows that fit and calibrate, and that test.
    """

    n_train: RowCount = None
    n_calibration: RowCount = None
    n_test: RowCount = None
    n_learn: RowCount = None
    log_share: Share | None = None
    max_learn: Count | None = None
    max_test: Count | None = None

    def __post_init__(self) -> None:
        for name, annotation in annotations_of(type(self)).items():
            check_value(name, getattr(self, name), annotation)
        given = [
            name for name in ("n_train", "n_learn", "log_share") if getattr(self, name) is not None
        ]
        if len(given) > 1:
            raise DataError(
                f"{' and '.join(given)} both say how many rows learn; give one of them, and null"
                " for the other"
            )

    def of_simulation(self, name: str) -> RoleSizes:
        """Rows of the simulation ``name``; it has no rows to take a share of."""
        for role in ("n_train", "n_calibration", "n_test", "n_learn"):
            size = getattr(self, role)
            if size is not None and not isinstance(size, Integral):
                what = "is a simulation, which has no fixed number of rows"
                raise DataError(f"{role} is the share {size:g}, but {name} {what}; give an integer")
        if self.log_share is not None:
            raise DataError(
                f"log_share is a share of a table's rows, but {name} is a simulation; give n_learn"
            )
        if self.n_train is None and self.n_learn is None:
            train, calibration = replace(
                self, n_train=_DEFAULT_SIMULATED_ROWS
            )._train_calibration_sizes(0)
            if train + calibration > (self.max_learn or math.inf):
                train, calibration = self._train_calibration_sizes(self.max_learn or 0)
        else:
            train, calibration = self._train_calibration_sizes(0)
        return _check_not_empty(
            name,
            RoleSizes(train, calibration, self._n_test_rows(0, default=_DEFAULT_SIMULATED_ROWS)),
        )

    def of_table(self, name: str, n: int) -> RoleSizes:
        """Rows of the table ``name`` of ``n`` rows.

        A share of test is rounded up, as scikit-learn's ``train_test_split`` does, and one of
        calibration down.
        """
        test = self._n_test_rows(n, default=_DEFAULT_TEST_FRACTION)
        rest = n - test
        counts = RoleSizes(*(self._train_calibration_sizes(rest) if rest > 0 else (0, 0)), test)
        if rest < 0 or counts.total > n:
            raise DataError(
                f"{name} has {n} rows, too few for {self._requested_sizes(counts)}; ask for fewer"
            )
        return _check_not_empty(name, counts)

    def of_scores(self, name: str, n: int, found: RoleSizes | None = None) -> RoleSizes:
        """Rows of the score file ``name`` of ``n`` rows: none trains, those that do not test
        calibrate; of ``found``, where it has roles.

        ``n_learn`` and ``max_learn`` are those that calibrate. Where all rows test, none is left to
        calibrate: what is fitted on test rows, as its paper does, needs none, and neither does a
        model that is only measured.
        """
        if self.n_train or self.log_share is not None:
            raise DataError(
                f"{name} has scores of a model that is trained already; give n_calibration, not"
                " n_train or log_share"
            )
        test = self._n_test_rows(
            n if found is None else found.test,
            default=_DEFAULT_TEST_FRACTION if found is None else 1.0,
        )
        rest = n - test if found is None else found.calibration
        calibration = _limit_rows(
            _resolve_row_count(
                _first_specified(self.n_calibration, self.n_learn), max(rest, 0), 1.0, math.floor
            ),
            self.max_learn,
        )
        counts = RoleSizes(0, calibration, test)
        if calibration > rest or (found is not None and test > found.test):
            raise DataError(
                f"{name} has {n} rows, too few for {self._requested_sizes(counts)}; ask for fewer"
            )
        return _check_not_empty(
            name, counts, ("n_test",) if test == n else ("n_calibration", "n_test")
        )

    def of_roles(self, name: str, found: RoleSizes) -> RoleSizes:
        """Rows of the table ``name``, whose source prescribes roles: all of them, unless fewer are
        asked for.

        Without calibration rows, these come out of the training rows, as from any table.
        """
        test = self._n_test_rows(found.test, default=1.0)
        if found.calibration:
            train = _limit_rows(
                _resolve_row_count(
                    _first_specified(self.n_train, self.n_learn), found.train, 1.0, round
                ),
                self.max_learn,
            )
            counts = RoleSizes(
                train,
                _resolve_row_count(self.n_calibration, found.calibration, 1.0, math.floor),
                test,
            )
            too_many = counts.train > found.train or counts.calibration > found.calibration
        else:
            counts = RoleSizes(*self._train_calibration_sizes(found.train), test)
            too_many = counts.train + counts.calibration > found.train
        if too_many or test > found.test:
            prescribed = (
                f"{found.train} training, {found.calibration} calibration and {found.test} test"
                " rows"
            )
            raise DataError(
                f"{name} comes with {prescribed}, too few for {self._requested_sizes(counts)}; ask for fewer,"
                " or give dataset.split=random"
            )
        return _check_not_empty(name, counts)

    def _n_test_rows(self, n: int, *, default: float) -> int:
        return _limit_rows(
            _resolve_row_count(_first_specified(self.n_test, default), n, 1.0, math.ceil),
            self.max_test,
        )

    def _train_calibration_sizes(self, rest: int) -> tuple[int, int]:
        """Rows that train and that calibrate, of ``rest`` that do not test."""
        if self.n_train is not None:
            train = _resolve_row_count(self.n_train, rest, 1.0, round)
            if self.n_calibration is None:
                return train, round(_CALIBRATION_TO_TRAIN_RATIO * train)
            return train, _resolve_row_count(
                self.n_calibration, rest, _DEFAULT_CALIBRATION_FRACTION, math.floor
            )
        most = _limit_rows(rest, self.max_learn)
        if self.log_share is not None:
            learn = round(
                _MIN_LOG_SAMPLE ** (1 - self.log_share)
                * max(most, _MIN_LOG_SAMPLE) ** self.log_share
            )
        else:
            learn = (
                _resolve_row_count(self.n_learn, rest, 1.0, round)
                if self.n_learn is not None
                else most
            )
            learn = _limit_rows(learn, self.max_learn)
        calibration = _resolve_row_count(
            self.n_calibration, learn, _DEFAULT_CALIBRATION_FRACTION, math.floor
        )
        return max(learn - calibration, 0), calibration

    def _requested_sizes(self, counts: RoleSizes) -> str:
        named = {
            "n_train": counts.train,
            "n_calibration": counts.calibration,
            "n_test": counts.test,
        }
        return " + ".join(f"{role} {count}" for role, count in named.items() if count > 0)


def _first_specified(*sizes: RowCount) -> RowCount:
    """The first size that is given, or None."""
    return next((size for size in sizes if size is not None), None)


def _limit_rows(n: int, most: int | None) -> int:
    return n if most is None else min(n, most)


def _resolve_row_count(
    size: RowCount, of: int, default: float, rounding: Callable[[float], int]
) -> int:
    """A number of rows as it is, a share of ``of`` rows rounded; 6 decimals are kept first, because
    0.1 * 30 is above 3.
    """
    if isinstance(size, Integral):
        return int(size)
    return max(rounding(round((default if size is None else size) * of, 6)), 0)


def _check_not_empty(
    name: str, counts: RoleSizes, needed: Collection[str] = tuple(_EMPTY_ROLE_REASONS)
) -> RoleSizes:
    for role, reason in _EMPTY_ROLE_REASONS.items():
        if role in needed and getattr(counts, role.removeprefix("n_")) == 0:
            raise DataError(f"{name}: {role} is 0, and without such rows {reason}")
    return counts
