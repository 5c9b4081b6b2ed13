"""Calibration by group of rows, where the group of each row is given."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from kdgraph.base import PostHocClassifier, Rows
from kdgraph.base.posthoc import any_requires_training_rows
from kdgraph.base.validation import check_per_row, select_rows
from kdgraph.calibration.baselines import fit_behind_parent
from kdgraph.parameters import Count


def known_groups(rows: Rows, method: str, missing: str) -> np.ndarray:
    """Return the group of each calibration row, [n], for a calibrator of some name.

    ValueError is raised if there are no groups, with the message ``missing``, or if the group of a
    row is None or NaN. Original to kdgraph.
    """
    from pandas import isna

    if rows.group is None:
        raise ValueError(missing)
    is_missing = isna(rows.group)
    if is_missing.any():
        value, count = rows.group[is_missing][0], is_missing.sum()
        raise ValueError(
            f"{method} needs the group of each row, got {value} among those of the calibration rows"
            f" ({count} such); name one, or leave the row out"
        )
    return rows.group


def _calibrator_has(method: str) -> Callable[[GroupWise], bool]:
    def has(self: GroupWise) -> bool:
        # The error of the attribute names what is missing.
        getattr(self.calibrator, method)
        return True

    return has


@dataclass(eq=False, repr=False)
class GroupWise(PostHocClassifier):
    """Any calibrator, fitted for each group behind one parent.

    Rows without a group, or of a group that is not among ``groups_``, use ``shared_``. Histogram
    binning by group is LoRe with the kernel "group".

    Parameters
    ----------
    calibrator : estimator
        Calibrator of each group, which is needed; its own ``estimator`` is replaced by the parent.
    min_rows : int, default=2
        A group with fewer calibration rows uses the calibrator of all rows.

    Attributes
    ----------
    groups_ : ndarray
        Sorted groups with a separate calibrator.
    calibrators_ : list of estimator
        One for each of ``groups_``; ``shared_`` is the calibrator of all rows.
    without_ : dict
        Reason for each other group: too few rows, or the error of the calibrator.

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
    >>> parent = RandomForestClassifier(50, random_state=0)
    >>> model = GroupWise(parent, ScoreMap(None, method="temperature"), random_state=0)
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
            raise ValueError(
                "GroupWise needs a calibrator, got None; pass one without a parent, such as"
                " calibrator=ScoreMap(None)"
            )
        missing = (
            "GroupWise needs the group of each row: groups, and groups_calibration where there are"
            " calibration rows"
        )
        group_of_row = known_groups(calibration, "GroupWise", missing)
        self.shared_ = fit_behind_parent(self, self.calibrator, train, calibration)
        groups, self.calibrators_, self.without_ = [], [], {}
        for group in np.unique(group_of_row).tolist():
            group_rows = calibration[group_of_row == group]
            if len(group_rows) < self.min_rows:
                self.without_[group] = f"{len(group_rows)} calibration rows"
                continue
            # Some calibrators fail for rows of one class, or for separable rows.
            try:
                self.calibrators_.append(
                    fit_behind_parent(self, self.calibrator, train, group_rows)
                )
            except (ValueError, RuntimeError) as error:
                self.without_[group] = str(error)
                continue
            groups.append(group)
        self.groups_ = np.array(groups)

    def describe(self) -> dict[str, Any]:
        """Return the number of groups, and the reasons of groups without a calibrator."""
        return {
            "groups": len(self.groups_),
            "without": {str(group): why for group, why in self.without_.items()},
        }

    @available_if(_calibrator_has("predict_proba"))
    def predict_proba(self, X, groups=None) -> np.ndarray:
        """Return rows of probabilities that sum to 1, Float[n, K]; ``groups`` are [n]."""
        return self._by_group("predict_proba", X, groups)

    @available_if(_calibrator_has("predict_confidence"))
    def predict_confidence(self, X, groups=None) -> np.ndarray:
        """Return the probability that :meth:`predict` is correct, Float[n]; ``groups`` are [n]."""
        return self._by_group("predict_confidence", X, groups)

    def predict(self, X, groups=None) -> np.ndarray:
        """Return the labels that the calibrator of each row's group predicts, [n]."""
        return self._by_group("predict", X, groups)

    def _predict_rows(self, rows: Rows) -> np.ndarray:
        proba = self.shared_._predict_rows(rows)
        groups = known_groups(rows, "GroupWise", "GroupWise needs the group of each row")
        for mask, calibrator in self._calibrators_of(groups):
            proba[mask] = calibrator._predict_rows(rows[mask])
        return proba

    def _by_group(self, method: str, X: Any, groups: Any) -> np.ndarray:
        check_is_fitted(self)
        X = self._validate_X(X)
        # A copy, because precomputed scores return a view of X.
        predictions = np.array(getattr(self.shared_, method)(X))
        if groups is not None:
            groups = check_per_row("groups", groups, len(predictions))
            for mask, calibrator in self._calibrators_of(groups):
                predictions[mask] = getattr(calibrator, method)(select_rows(X, mask))
        return predictions

    def _calibrators_of(self, groups: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
        """Yield the rows of each group that has a calibrator, Bool[n], with the calibrator."""
        for group, calibrator in zip(self.groups_, self.calibrators_, strict=True):
            if (mask := groups == group).any():
                yield mask, calibrator
