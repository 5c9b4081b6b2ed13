"""Base classes of recalibrators, PIT values, and the feature spaces of their neighbours.

A recalibrator is fitted after a parent that predicts distributions, on calibration rows that the
parent was not fitted on. :class:`PostHocRegressor` is the base of all recalibrators;
:class:`SplitConformalRegressor` divides the calibration rows into those that recalibrate and those
that correct intervals. :func:`compute_pits` computes the PIT values of calibration rows (Torres et
al. 2024, Algorithm 1, step 4), and :class:`FeatureSpace` defines distances between rows.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from sklearn.base import RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from kdgraph.base import PostHoc, Rows
from kdgraph.base.frozen import skip_row_checks, unwrap_frozen
from kdgraph.base.posthoc import any_requires_training_rows, seeded_clone
from kdgraph.base.validation import MAX_SQUARED, check_per_row, check_squares
from kdgraph.distributions import ConcatenatedDistribution, Distribution, as_distribution
from kdgraph.features import features_of
from kdgraph.geometry import partition_kind
from kdgraph.metrics.regression.pit import MIN_STEP, distance_to_uniform
from kdgraph.parameters import OpenFraction, check_parameters


@dataclass(eq=False, repr=False)
class PostHocRegressor(RegressorMixin, PostHoc):
    """Base class of regressors that are fitted after a parent with ``predict_dist``.

    A subclass implements ``_fit_after(train, calibration)`` and ``_recalibrate(base, X)``, which
    returns the distributions that replace those of the parent. Every method of Torres et al. (2024)
    and of Kuleshov et al. (2018) has this form. Calibration rows are drawn at random. The parent's
    ``predict_dist(X)`` returns a :class:`~kdgraph.distributions.Distribution` or a frozen
    distribution of scipy.stats.

    Parameters
    ----------
    estimator : regressor with ``predict_dist``, or a pipeline that ends in one
        The parent. It is cloned and fitted, unless frozen.
    random_state : int, RandomState or None, default=None
        Seed of the hold-out, of draws, also of PIT values at steps
        (:func:`~kdgraph.recalibration.base.compute_pits`), and of the parent if it has no seed.

    Examples
    --------
    A recalibrator that doubles the parent's spread:

    >>> from kdgraph.distributions import Normal
    >>> from kdgraph.parents import GaussianLinear
    >>> class DoubleSpread(PostHocRegressor):
    ...     def _fit_after(self, train, calibration):
    ...         pass
    ...     def _recalibrate(self, base, X):
    ...         return Normal(base.mean(), 2 * np.sqrt(base.var()))
    >>> X = np.arange(40.0)[:, None]
    >>> y = X[:, 0] + np.tile([-1, 1], 20)
    >>> model = DoubleSpread(GaussianLinear(), random_state=0).fit(X, y)
    >>> parent = model.estimator_.predict_dist(X[:1])
    >>> (model.predict_dist(X[:1]).var() / parent.var()).round(6).tolist()
    [4.0]
    """

    required_method: ClassVar = "predict_dist"
    _numeric_targets: ClassVar = True

    @property
    def takes_groups(self) -> bool:
        """True if ``fit`` and ``predict_dist`` use the group of each row."""
        return False

    def fit(
        self, X, y, *, X_calibration=None, y_calibration=None, groups=None, groups_calibration=None
    ):
        """Fit the parent on the training rows, and the recalibrator on the calibration rows.

        After a frozen parent, X and y are its training rows, and ``X_calibration`` and
        ``y_calibration`` are rows that it was not fitted on.

        Parameters
        ----------
        X, y : Float[n, d] or data frame, Float[n]
            Rows and outcomes.
        X_calibration, y_calibration : Float[m, d] or data frame, Float[m], default=None
            Calibration rows. None: a random part of X and y.
        groups, groups_calibration : [n], [m], default=None
            Subgroup of each row; they are used only if :attr:`takes_groups`.

        Raises
        ------
        TypeError
            If the estimator does not predict distributions.
        ValueError
            If X contains infinity, or NaN that the parent does not accept; if calibration rows have
            no outcomes; if there is not one group for each row.
        """
        check_parameters(self)
        parent = self._check_parent()
        all_rows = Rows.unweighted(*self._validate_rows(X, y, reset=True))
        if groups is not None:
            all_rows = replace(all_rows, group=check_per_row("groups", groups, len(all_rows)))
        train, calibration = self._split_rows(
            all_rows, X_calibration, y_calibration, self.random_state
        )
        if groups_calibration is not None:
            calibration = replace(
                calibration,
                group=check_per_row("groups_calibration", groups_calibration, len(calibration)),
            )
        self.estimator_ = self._fit_parent(parent, train, calibration, self.random_state)
        calibration = self._add_unseen_outputs(calibration, parent)
        with skip_row_checks():
            self._fit_after(train, calibration)
        self._check_reads(calibration)
        return self

    def fit_behind(self, other: PostHocRegressor, train: Rows, calibration: Rows) -> Self:
        """Fit a recalibrator to validated rows, behind the fitted parent of another one."""
        check_parameters(self)
        self._take_parent_of(other)
        with skip_row_checks():
            self._fit_after(train, calibration)
        return self

    def predict(self, X) -> np.ndarray:
        """Return the mean of :meth:`predict_dist`, Float[n]."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> Distribution:
        """Return the recalibrated distributions of n rows."""
        X = self._validate_X(X)
        return self._recalibrate(self._parent_distribution(X), X)

    def _recalibrate(self, base: Distribution, X: Any) -> Distribution:
        raise NotImplementedError

    def _parent_distribution(self, X: Any) -> Distribution:
        return _predict_distribution(self.estimator_, X)

    def _calibration_distribution(self, rows: Rows) -> Distribution:
        """Return the distributions that the parent predicts without having seen the rows."""
        if rows.unseen is None:
            return self._parent_distribution(rows.X)
        parts = rows.unseen.apply_by_fold(_predict_distribution)
        return ConcatenatedDistribution.from_parts(parts, len(rows))

    def _recalibrate_rows(self, rows: Rows) -> Distribution:
        """Return :meth:`predict_dist` of calibration rows, without the parent having seen them."""
        return self._recalibrate(self._calibration_distribution(rows), rows.X)

    def _supports(self, parent: Any, method: str) -> bool:
        pipeline = unwrap_frozen(parent)
        return hasattr(parent, method) or (
            isinstance(pipeline, Pipeline) and hasattr(pipeline.steps[-1][1], method)
        )


def _predict_distribution(parent: Any, X: Any) -> Distribution:
    """Return the distributions that a parent predicts, also at the end of a pipeline."""
    if not hasattr(parent, "predict_dist"):
        # A pipeline of scikit-learn does not delegate methods that scikit-learn does not define:
        # its transformers and its last step are called one after the other.
        pipeline = unwrap_frozen(parent)
        X, parent = pipeline[:-1].transform(X) if len(pipeline) > 1 else X, pipeline[-1]
    return as_distribution(parent.predict_dist(X))


def hash_rows(X: Any) -> np.ndarray:
    """Return a hash of each row of any number of axes, UInt64[n]; equal rows have the same one."""
    frame = X if isinstance(X, pd.DataFrame) else pd.DataFrame(np.reshape(X, (len(X), -1)))
    return pd.util.hash_pandas_object(frame, index=False).to_numpy()


def uniform_numbers(hashes: np.ndarray, n_draws: int, seed: int) -> np.ndarray:
    """Return independent uniform numbers of each row, Float[n, n_draws].

    The numbers of a row depend on the seed, not negative, and on the hash of the row, not on the
    rows beside it.
    """
    numbers = np.empty((len(hashes), n_draws))
    for i, row_hash in enumerate(hashes):
        key = np.array([row_hash, seed], dtype=np.uint64)
        np.random.Generator(np.random.Philox(key=key)).random(out=numbers[i])
    return numbers


_END_TOLERANCE = 1e-12
"""Distance from 0 or 1 below which a PIT value is at the end."""


@dataclass(frozen=True)
class PitValues:
    """PIT values of n rows, none of them 0 or 1, with counts of unusual ones.

    They may be beyond (0, 1), see :meth:`~kdgraph.distributions.Distribution.extended_cdf`.
    ``n_clipped`` is the number of rows so far out that the predicted family does not define their
    distance, and ``n_at_steps`` that of outcomes at which the distribution function has a step.
    """

    values: np.ndarray
    n_clipped: int
    n_at_steps: int

    def describe(self) -> dict[str, int | float]:
        """Return number of values, distance from uniform and unusual values for the record.

        ``pit_beyond``, unless it is 0, is the fraction of PIT values at 0 or 1 and beyond, whose
        outcomes the parent considers impossible. A calibrated ensemble of m values has 2/(m + 1); a
        larger fraction means that the ensemble is too narrow. ``pit_at_steps`` is the fraction of
        outcomes that are values of an ensemble, as counts are.
        """
        beyond = float(((self.values < _END_TOLERANCE) | (self.values > 1 - _END_TOLERANCE)).mean())
        summary = {
            "n_pits": len(self.values),
            "pit_ks": distance_to_uniform(np.clip(self.values, 0, 1)),
            "n_clipped": self.n_clipped,
        }
        if beyond:
            summary["pit_beyond"] = beyond
        if self.n_at_steps:
            summary["pit_at_steps"] = self.n_at_steps / len(self.values)
        return summary


def compute_pits(
    base: Distribution, y: np.ndarray, random_state: Any = None, *, stacklevel: int = 4
) -> PitValues:
    """Return the PIT values F(y_i | x_i) of n rows with outcomes Float[n].

    If a family does not define how far out an outcome is, the value is the level of
    :meth:`~kdgraph.distributions.Distribution.fallback_levels`, by default the number nearest to 0
    or 1 inside (0, 1), and a warning is given.

    If F has a step at y (in an ensemble, several members may predict the same number, such as no
    rain), the PIT value is drawn uniformly between the lower and the upper end of the step (Czado,
    Gneiting and Held, "Predictive model assessment for count data", Biometrics 65, 2009, Section
    2.1). The PIT values of a calibrated forecaster are then uniform, and recalibration does not
    change it. The upper ends are not uniform, and rows with steps of different heights distort each
    other's map.
    """
    # A step is detected from the levels of the outcome and of the next smaller float. Numbers are
    # drawn for all rows, so that the draw of a row does not depend on which other rows have steps.
    upper, lower = base.extended_cdf(y), base.extended_cdf(np.nextafter(y, -np.inf))
    bottom, top = np.clip(lower, 0, 1), np.clip(upper, 0, 1)
    at_step = top - bottom > MIN_STEP
    pits = upper
    if at_step.any():
        uniform = check_random_state(random_state).uniform(size=len(y))
        pits = np.where(at_step, bottom + uniform * (top - bottom), upper)
    lowest, highest = base.fallback_levels()
    finite = np.where(
        (pits == 0) | (pits == -np.inf),
        lowest,
        np.where((pits == 1) | (pits == np.inf), highest, pits),
    )
    n_clipped = int((finite != pits).sum())
    if n_clipped:
        warnings.warn(
            f"{n_clipped} of {len(pits)} calibration rows lie where the predicted distribution"
            " function is 0 or 1 to the last bit: its tails are much too light, and how far out"
            " these rows are is lost",
            stacklevel=stacklevel,
        )
    return PitValues(finite, n_clipped, int(at_step.sum()))


@dataclass(eq=False, repr=False)
class SplitConformalRegressor(PostHocRegressor):
    """Base class of split-conformal regressors (Papadopoulos et al. 2002).

    Some calibration rows recalibrate; the others, the held-out rows, correct the intervals. Nothing
    else is fitted on the held-out rows.

    A subclass implements ``_fit_correction(train, recalibrating, held_out)`` and ``_recalibrate``.
    Its ``_requires_recalibrating_rows`` returns whether rows of the first part are required even if
    no recalibrator uses them.

    Parameters
    ----------
    recalibrator : recalibrator or None, default=None
        For example :class:`~kdgraph.recalibration.LocalPit` with ``estimator=None``. None: only
        intervals are corrected.
    correction_fraction : float, default=0.5
        Fraction of the calibration rows that correct intervals; all of them, if none recalibrate.

    Attributes
    ----------
    recalibrated_ : object
        The fitted recalibrator after it, or the parent.
    held_out_, y_held_out_ : Distribution, Float[h]
        Predicted distributions and outcomes of the held-out rows.
    """

    recalibrator: Any = None
    correction_fraction: OpenFraction = 0.5

    def describe(self) -> dict[str, Any]:
        """Return the number of held-out rows and the highest level with finite intervals."""
        recalibrated = self.recalibrated_
        inner_summary = recalibrated.describe() if hasattr(recalibrated, "describe") else {}
        n = self._smallest_cell_size()
        return {"n_correcting": len(self.y_held_out_), "highest_level": n / (n + 1)} | inner_summary

    def _fit_correction(self, train: Rows, recalibrating: Rows, held_out: Rows) -> None:
        raise NotImplementedError

    def _requires_recalibrating_rows(self) -> bool:
        raise NotImplementedError

    def _max_held_out_rows(self) -> int | None:
        return None

    def _smallest_cell_size(self) -> int:
        return len(self.y_held_out_)

    def _requires_training_rows(self) -> bool:
        return any_requires_training_rows([self.recalibrator])

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        # The two parts are drawn at random, so that held-out and new rows are exchangeable. Each
        # part keeps the order of the calibration rows.
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        order, n = np.random.default_rng(seed).permutation(len(calibration)), len(calibration)
        if self.recalibrator is None and not self._requires_recalibrating_rows():
            n_held_out = n
        else:
            n_held_out = min(max(round(self.correction_fraction * n), 1), max(n - 1, 1))
        n_held_out = min(n_held_out, self._max_held_out_rows() or n)
        held_out = calibration[np.sort(order[:n_held_out])]
        recalibrating = calibration[np.sort(order[n_held_out:])]
        self.recalibrated_ = self._fit_recalibrator(train, recalibrating)
        self.held_out_, self.y_held_out_ = self._recalibrated_rows(held_out), held_out.y
        self._fit_correction(train, recalibrating, held_out)

    def _fit_recalibrator(self, train: Rows, recalibrating: Rows) -> Any:
        """Return the recalibrator, fitted after the frozen parent; the parent without one."""
        if self.recalibrator is None or not len(recalibrating):
            return self.estimator_
        model = seeded_clone(self.recalibrator, self.random_state)
        return model.fit_behind(self, train, recalibrating)

    def _recalibrated_distribution(self, X: Any) -> Distribution:
        return (
            self._parent_distribution(X)
            if self.recalibrated_ is self.estimator_
            else self.recalibrated_.predict_dist(X)
        )

    def _recalibrated_rows(self, rows: Rows) -> Distribution:
        """Return the distributions of calibration rows before intervals are corrected."""
        if self.recalibrated_ is self.estimator_:
            return self._calibration_distribution(rows)
        return self.recalibrated_._recalibrate_rows(rows)


SpaceName = Literal["input", "untransformed", "layer", "output", "geodesic"]
"""Space in which neighbours are searched.

- input: the rows, after the parent's own transformations;
- untransformed: the rows before these, with categories as their positions;
- layer: the activations of a layer of a network;
- output: predicted mean and standard deviation;
- geodesic: distance 1 - K, where K is the fraction of a forest's trees that put two rows into the
  same leaf (Dey et al., Eq. 14).
"""
FeatureUnits = Literal["sd", "raw", "whiten"]
"""Units of features.

- sd: each feature is divided by its standard deviation over calibration rows;
- raw: unchanged;
- whiten: principal components, each divided by its standard deviation.
"""

_MIN_RELATIVE_SPREAD = 1e-12
"""Fraction of the largest value or spread below which a spread is a rounding error of 0."""


@dataclass
class FeatureSpace:
    """Space of the neighbours of a row, fitted on calibration rows.

    ``layer`` is the name of a layer of a network, None the input of the last linear one. ``forest``
    is that of "geodesic": it is cloned and fitted on the parent's training rows, unless frozen;
    None is the parent, if it is a forest, or else 100 trees of at least 20 rows in a leaf. Torres
    et al. (2024) measure Euclidean distances in raw units. A missing value, which the parent
    accepts, is at the mean of the calibration rows.
    """

    name: SpaceName = "input"
    units: FeatureUnits = "sd"
    layer: str | None = None
    forest: Any = None
    random_state: Any = None

    def fit(self, parent: Any, train: Rows, calibration: Rows, base: Distribution) -> Any:
        """Fit the space and return the :meth:`coordinates` of the calibration rows."""
        is_geodesic = self.name == "geodesic"
        self.forest_ = self._fit_forest(parent, train) if is_geodesic else None
        features = self._features(parent, calibration.X, base)
        if is_geodesic:
            return features
        check_squares(features, type(unwrap_frozen(parent)).__name__)
        is_missing = np.isnan(features)
        self.missing_value_ = np.where(is_missing, 0, features).sum(axis=0) / np.maximum(
            (~is_missing).sum(axis=0), 1
        )
        features = self._impute(features)
        self.center_ = features.mean(axis=0)
        self.matrix_ = _scaling_matrix(features - self.center_, self.units)
        return self._scale(features)

    def coordinates(self, parent: Any, X: Any, base: Distribution) -> Any:
        """Return the coordinates Float[n, d] of rows; for "geodesic", a sparse matrix of leaves."""
        features = self._features(parent, X, base)
        return features if self.name == "geodesic" else self._scale(self._impute(features))

    def _impute(self, features: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(features), self.missing_value_, features)

    def _features(self, parent: Any, X: Any, base: Distribution) -> Any:
        if self.name == "output":
            return np.column_stack([base.mean(), np.sqrt(base.var())])
        if self.name == "layer":
            return features_of(parent, X, "layer", self.layer)
        if self.name == "geodesic":
            rows = X if self.forest_ is None else features_of(parent, X, "rows", allow_missing=True)
            return features_of(parent if self.forest_ is None else self.forest_, rows, "leaves")
        source = None if self.name == "untransformed" else parent
        return features_of(source, X, "rows", allow_missing=True)

    def _scale(self, features: np.ndarray) -> np.ndarray:
        # Rows so far away that their squares are not finite are as far as others.
        centred = np.clip(features, -MAX_SQUARED, MAX_SQUARED) - self.center_
        return centred * self.matrix_ if self.matrix_.ndim == 1 else centred @ self.matrix_

    def _fit_forest(self, parent: Any, train: Rows) -> Any:
        """Return the fitted forest, or None if the leaves are those of the parent."""
        if isinstance(self.forest, FrozenEstimator):
            return self.forest
        kind = partition_kind(getattr(parent, "estimator", parent))
        if self.forest is None and kind in ("forest", "boosted"):
            return None
        from sklearn.ensemble import RandomForestRegressor

        forest = (
            RandomForestRegressor(100, min_samples_leaf=20) if self.forest is None else self.forest
        )
        return seeded_clone(forest, self.random_state).fit(
            features_of(parent, train.X, "rows", allow_missing=True), train.y
        )


def _scaling_matrix(centred: np.ndarray, units: FeatureUnits) -> np.ndarray:
    """Return the factor of centred features: Float[d], or Float[d, r] of r principal directions."""
    if units == "raw":
        return np.ones(centred.shape[1])
    if units == "sd":
        spread = np.sqrt(np.square(centred).mean(axis=0))
        is_constant = spread <= _MIN_RELATIVE_SPREAD * np.abs(centred).max(initial=1.0)
        return 1 / np.where(is_constant, 1.0, spread)
    _, spread, directions = np.linalg.svd(centred / np.sqrt(len(centred)), full_matrices=False)
    varies = spread > _MIN_RELATIVE_SPREAD * spread.max(initial=0.0)
    return directions[varies].T / spread[varies] if varies.any() else np.ones(centred.shape[1])


@dataclass(eq=False, repr=False)
class NeighbourRegressor(PostHocRegressor):
    """Base class of recalibrators that search the neighbours of a row in a feature space.

    Parameters
    ----------
    feature_space : {"input", "untransformed", "layer", "output", "geodesic"}, default="input"
        Space in which rows are near, see :data:`~kdgraph.recalibration.base.SpaceName`.
    layer, units, forest : str or None, str, forest or None
        See :class:`~kdgraph.recalibration.base.FeatureSpace`.
    """

    feature_space: SpaceName = "input"
    layer: str | None = None
    units: FeatureUnits = "sd"
    forest: Any = None

    def _requires_training_rows(self) -> bool:
        # A forest whose leaves are the space is fitted on training rows.
        return self.feature_space == "geodesic" or super()._requires_training_rows()

    def _unfitted_space(self) -> FeatureSpace:
        return FeatureSpace(
            self.feature_space, self.units, self.layer, self.forest, self.random_state
        )
