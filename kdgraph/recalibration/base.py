"""The ground of every recalibrator: a parent with predictive distributions, and what is made of these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.pipeline import Pipeline

from kdgraph.distributions import Distribution, as_distribution
from kdgraph.parameters import check_parameters
from kdgraph.parents import PostHoc, Rows
from kdgraph.parents.frozen import rows_checked, unwrap
from kdgraph.parents.rows import one_each


@dataclass(eq=False, repr=False)
class PostHocRegressor(RegressorMixin, PostHoc):
    """A regressor that is fitted after a parent with ``predict_dist``, on rows that the parent has not seen.

    A subclass implements ``_fit_after(train, calibration)`` and ``_after(base, X)``, the distributions that it makes of the parent's; rows,
    held-out rows (at random) and parents are as :class:`~kdgraph.parents.PostHoc` has them. Every method of Torres et al. (2024) and
    of Kuleshov et al. (2018) is of this form.

    The parent's ``predict_dist(X)`` gives a :class:`~kdgraph.distributions.Distribution` or a frozen distribution of scipy.stats. A parent
    may be a pipeline whose last step has it.

    Attributes
    ----------
    estimator_ : the fitted parent.
    """

    parent_says: ClassVar = "predict_dist"
    _numeric_targets: ClassVar = True

    @property
    def takes_groups(self) -> bool:
        """Whether it does something by group: ``fit`` and ``predict_dist`` want to know each row's then."""
        return False

    def fit(self, X, y, *, X_calibration=None, y_calibration=None, groups=None, groups_calibration=None):
        """Fit the parent on X (Float[n, d] or a data frame) and y (Float[n]), and what comes after it on calibration rows.

        After a frozen parent, X and y are its training rows, and ``X_calibration`` and ``y_calibration`` rows that it was not fitted on.

        ``groups``, [n], and ``groups_calibration``, [m], say which subgroup the rows belong to; only what :attr:`takes_groups` looks at
        them.

        Raises
        ------
        TypeError : for an estimator that predicts no distributions.
        ValueError : for infinity; for NaN, unless the parent takes it; for calibration rows without targets; for groups that are not one
            for each row.
        """
        check_parameters(self)
        parent = self._parent()
        everything = Rows.of(*self._validated(X, y, reset=True))
        if groups is not None:
            everything = replace(everything, group=one_each("groups", groups, len(everything)))
        train, calibration = self._divided(everything, X_calibration, y_calibration, self.random_state)
        if groups_calibration is not None:
            calibration = replace(calibration, group=one_each("groups_calibration", groups_calibration, len(calibration)))
        self.estimator_ = self._fitted_parent(parent, train, calibration, self.random_state)
        with rows_checked():
            self._fit_after(train, calibration)
        return self

    def predict(self, X) -> np.ndarray:
        """Float[n]: the mean of :meth:`predict_dist`."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> Distribution:
        """Distributions of the n rows of X: Float[n, d] or a data frame."""
        X = self._checked(X)
        return self._after(self._base(X), X)

    def _after(self, base: Distribution, X: Any) -> Distribution:
        raise NotImplementedError

    def _base(self, X: Any) -> Distribution:
        """What the parent predicts."""
        parent = self.estimator_
        if not hasattr(parent, "predict_dist"):  # a pipeline of scikit-learn passes on no method that it does not know
            pipeline = unwrap(parent)
            X, parent = pipeline[:-1].transform(X) if len(pipeline) > 1 else X, pipeline[-1]
        return as_distribution(parent.predict_dist(X))

    def _supports(self, parent: Any, method: str) -> bool:
        pipeline = unwrap(parent)
        return hasattr(parent, method) or (isinstance(pipeline, Pipeline) and hasattr(pipeline.steps[-1][1], method))
