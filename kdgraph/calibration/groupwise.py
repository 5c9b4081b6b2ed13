"""The groups of rows that a calibrator is fitted by: said of each row.

A calibrator for each group of rows, where it is known which group a row belongs to.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kdgraph.base import PostHocClassifier, Rows, seeded_clone
from kdgraph.base.posthoc import any_requires_training_rows
from kdgraph.base.rows import check_per_row, select_rows
from kdgraph.parameters import Count


def known_groups(rows: Rows, method: str, missing: str) -> np.ndarray:
    """[n]: the group of each of the calibration rows. Ours.

    Raises
    ------
    ValueError
        In one line, with the words ``missing`` where nobody says the groups, and with the value
        where a row has None or NaN for one.
    """
    from pandas import isna

    if rows.group is None:
        raise ValueError(missing)
    if (nobody := isna(rows.group)).any():
        found = (
            f"got {rows.group[nobody][0]} among those of the calibration rows ({nobody.sum()} such)"
        )
        raise ValueError(
            f"{method} needs the group of each row, {found}; name one, or leave the row out"
        )
    return rows.group


def _gives(method: str) -> Callable[[GroupWise], bool]:
    """Whether the calibrator has it."""

    def has(self: GroupWise) -> bool:
        getattr(self.calibrator, method)  # says itself what is missing
        return True

    return has


@dataclass(eq=False, repr=False)
class GroupWise(PostHocClassifier):
    """Any calibrator, fitted group by group behind one parent.

    Parameters
    ----------
    estimator : any classifier with ``predict_proba``. Cloned and fitted;
    ``FrozenEstimator(fitted)`` is used as it is.
    calibrator : what is fitted for each group; its own ``estimator`` is replaced by the parent.
    min_rows : a group with fewer calibration rows has the calibrator of all rows.
    calibration_size, random_state : as in :class:`~kdgraph.base.PostHocClassifier`.

    Attributes
    ----------
    groups_ : the groups that have a calibrator of their own, sorted.
    calibrators_ : one for each; ``shared_`` is that of all rows.
    without_ : group → why it has none: too few rows, or what the calibrator said of them.

    Notes
    -----
    Rows of a group that is not among ``groups_``, and rows of which nobody says the group, get what
    ``shared_`` makes of them. Histogram binning by group is LoRe with the kernel "group".

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Table 1: temperature
    scaling and histogram binning by group.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from kdgraph.calibration import ScoreMap
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> side = (X[:, 0] > 0.5).astype(int)
    >>> model = GroupWise(RandomForestClassifier(50, random_state=0), ScoreMap(None, method="temperature"), random_state=0)
    >>> model.fit(X, y, groups=side).groups_
    array([0, 1])
    """

    calibrator: Any = None
    _: KW_ONLY
    min_rows: Count = 2

    takes_groups: ClassVar = True

    def _requires_training_rows(self) -> bool:
        return any_requires_training_rows([self.calibrator])

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        if self.calibrator is None:
            raise ValueError("GroupWise needs a calibrator, got None")
        needed = (
            "GroupWise needs the group of each row: groups, and groups_calibration where there are"
            " calibration rows"
        )
        of_row = known_groups(calibration, "GroupWise", needed)
        self.shared_ = self._fitted(train, calibration)
        groups, self.calibrators_, self.without_ = [], [], {}
        for group in np.unique(of_row).tolist():
            mine = calibration[of_row == group]
            if len(mine) < self.min_rows:
                self.without_[group] = f"{len(mine)} calibration rows"
                continue
            try:
                self.calibrators_.append(self._fitted(train, mine))
            except (
                ValueError,
                RuntimeError,
            ) as error:  # of one class, or too easily told apart: some calibrators make nothing of these
                self.without_[group] = str(error)
                continue
            groups.append(group)
        self.groups_ = np.array(groups)

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: which groups have no calibrator of their own."""
        return {
            "groups": len(self.groups_),
            "without": {str(group): why for group, why in self.without_.items()},
        }

    @available_if(_gives("predict_proba"))
    def predict_proba(self, X, groups=None) -> np.ndarray:
        """Float[n, K]: rows are finite and sum to 1; ``groups``, [n], says to which each row
        belongs.
        """
        return self._by_group("predict_proba", X, groups)

    @available_if(_gives("predict_confidence"))
    def predict_confidence(self, X, groups=None) -> np.ndarray:
        """Float[n] in [0, 1]: the probability that :meth:`predict` is right; ``groups``, [n], says
        to which each row belongs.
        """
        return self._by_group("predict_confidence", X, groups)

    def predict(self, X, groups=None) -> np.ndarray:
        """[n] labels, as the calibrator of each row's group predicts them."""
        return self._by_group("predict", X, groups)

    def _fitted(self, train: Rows, rows: Rows) -> Any:
        frozen = (
            self.estimator_
            if isinstance(self.estimator_, FrozenEstimator)
            else FrozenEstimator(self.estimator_)
        )
        given = {
            "X_calibration": rows.X,
            "y_calibration": self.classes_[rows.y],
            "sample_weight_calibration": rows.weight,
        }
        return (
            seeded_clone(self.calibrator, self.random_state)
            .set_params(estimator=frozen)
            .fit(train.X, self.classes_[train.y], **given)
        )

    def _by_group(self, method: str, X: Any, groups: Any) -> np.ndarray:
        """What each row's calibrator says; that of all rows is asked first, and gives way."""
        check_is_fitted(self)
        X = self._validate_X(X)
        said = np.array(
            getattr(self.shared_, method)(X)
        )  # a copy: given scores answer with a part of X itself
        if groups is None:
            return said
        given = check_per_row("groups", groups, len(said))
        for group, calibrator in zip(self.groups_, self.calibrators_, strict=True):
            mine = given == group
            if mine.any():
                said[mine] = getattr(calibrator, method)(select_rows(X, mine))
        return said
