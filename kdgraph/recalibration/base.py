"""The ground of every recalibrator: a parent with predictive distributions, and what is made of
these.

PIT values of calibration rows, ready for a map (Torres et al. 2024, Algorithm 1, step 4).

Calibration rows in two parts: one recalibrates, the other corrects the intervals, which neither
parent nor recalibrator has seen.

Where neighbours are looked for: the input, a layer of a network, the output, or the leaves of a
forest; and in which units.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from kdgraph.base import PostHoc, Rows
from kdgraph.base.frozen import skip_row_checks, unwrap_frozen
from kdgraph.base.posthoc import any_requires_training_rows, seeded_clone
from kdgraph.base.rows import check_per_row
from kdgraph.distributions import Distribution, as_distribution
from kdgraph.features import features_of
from kdgraph.geometry import partition_kind
from kdgraph.metrics.regression import distance_to_uniform
from kdgraph.parameters import OpenFraction, check_parameters


@dataclass(eq=False, repr=False)
class PostHocRegressor(RegressorMixin, PostHoc):
    """A regressor that is fitted after a parent with ``predict_dist``, on rows that the parent has
    not seen.

    A subclass implements ``_fit_after(train, calibration)`` and ``_after(base, X)``, the
    distributions that it makes of the parent's; rows, held-out rows (at random) and parents are as
    :class:`~kdgraph.base.PostHoc` has them. Every method of Torres et al. (2024) and of Kuleshov et
    al. (2018) is of this form.

    The parent's ``predict_dist(X)`` gives a :class:`~kdgraph.distributions.Distribution` or a
    frozen distribution of scipy.stats. A parent may be a pipeline whose last step has it.

    Attributes
    ----------
    estimator_ : the fitted parent.
    """

    required_method: ClassVar = "predict_dist"
    _numeric_targets: ClassVar = True

    @property
    def takes_groups(self) -> bool:
        """Whether it does something by group: ``fit`` and ``predict_dist`` want to know each row's
        then.
        """
        return False

    def fit(
        self, X, y, *, X_calibration=None, y_calibration=None, groups=None, groups_calibration=None
    ):
        """Fit the parent on X (Float[n, d] or a data frame) and y (Float[n]), and what comes after
        it on calibration rows.

        After a frozen parent, X and y are its training rows, and ``X_calibration`` and
        ``y_calibration`` rows that it was not fitted on.

        ``groups``, [n], and ``groups_calibration``, [m], say which subgroup the rows belong to;
        only what :attr:`takes_groups` looks at them.

        Raises
        ------
        TypeError : for an estimator that predicts no distributions.
        ValueError : for infinity; for NaN, unless the parent takes it; for calibration rows without
            targets; for groups that are not one for each row.
        """
        check_parameters(self)
        parent = self._check_parent()
        everything = Rows.of(*self._validate_rows(X, y, reset=True))
        if groups is not None:
            everything = replace(everything, group=check_per_row("groups", groups, len(everything)))
        train, calibration = self._split_rows(
            everything, X_calibration, y_calibration, self.random_state
        )
        if groups_calibration is not None:
            calibration = replace(
                calibration,
                group=check_per_row("groups_calibration", groups_calibration, len(calibration)),
            )
        self.estimator_ = self._fit_parent(parent, train, calibration, self.random_state)
        with skip_row_checks():
            self._fit_after(train, calibration)
        return self

    def predict(self, X) -> np.ndarray:
        """Float[n]: the mean of :meth:`predict_dist`."""
        return self.predict_dist(X).mean()

    def predict_dist(self, X) -> Distribution:
        """Distributions of the n rows of X: Float[n, d] or a data frame."""
        X = self._validate_X(X)
        return self._after(self._base(X), X)

    def _after(self, base: Distribution, X: Any) -> Distribution:
        raise NotImplementedError

    def _base(self, X: Any) -> Distribution:
        """What the parent predicts."""
        parent = self.estimator_
        if not hasattr(
            parent, "predict_dist"
        ):  # a pipeline of scikit-learn passes on no method that it does not know
            pipeline = unwrap_frozen(parent)
            X, parent = pipeline[:-1].transform(X) if len(pipeline) > 1 else X, pipeline[-1]
        return as_distribution(parent.predict_dist(X))

    def _supports(self, parent: Any, method: str) -> bool:
        pipeline = unwrap_frozen(parent)
        return hasattr(parent, method) or (
            isinstance(pipeline, Pipeline) and hasattr(pipeline.steps[-1][1], method)
        )


_STEP = 1e-9
"""Where F rises by more from just below an outcome to the outcome itself, it has a step there;
rounding makes less than 1e-15.
"""
_AT_AN_END = 1e-12


@dataclass(frozen=True)
class Pits:
    """PIT values of n rows, and what is unusual about them; ours.

    Attributes
    ----------
    values : Float[n], none of them 0 or 1; beyond (0, 1) as :meth:`Distribution.levels
        <kdgraph.distributions.Distribution.levels>` has them.
    n_clipped : how many rows are so far out that the predicted family cannot tell how far.
    n_at_steps : how many outcomes are where the predicted distribution function has a step.
    """

    values: np.ndarray
    n_clipped: int
    n_at_steps: int

    def describe(self) -> dict[str, int | float]:
        """For the record: how many, how far from uniform (largest distance), how many clipped; and
        two shares of rows, where not 0.

        ``pit_beyond``: of PIT values at 0 or 1 and beyond, which the parent holds impossible. Of a
        right ensemble of m values it is 2/(m + 1); more says that the ensemble is too narrow.
        ``pit_at_steps``: of outcomes that are values of an ensemble, as counts are.
        """
        beyond = float(((self.values < _AT_AN_END) | (self.values > 1 - _AT_AN_END)).mean())
        found = {
            "n_pits": len(self.values),
            "pit_ks": distance_to_uniform(np.clip(self.values, 0, 1)),
            "n_clipped": self.n_clipped,
        }
        found |= {"pit_beyond": beyond} if beyond else {}
        return found | (
            {"pit_at_steps": self.n_at_steps / len(self.values)} if self.n_at_steps else {}
        )


def pits_of(
    base: Distribution, y: np.ndarray, random_state: Any = None, *, stacklevel: int = 4
) -> Pits:
    """PIT values F(y_i | x_i) of n rows, of which ``base`` is predicted and y, Float[n], came;
    ``random_state`` seeds draws at steps.

    Notes
    -----
    Those so far out that the predicted family cannot tell how far have the level that
    :meth:`Distribution.unknown_levels <kdgraph.distributions.Distribution.unknown_levels>` gives,
    by default the nearest number inside (0, 1), with a warning.

    Where F has a step at y, as an ensemble has where several members say the same number, such as
    no rain, the PIT value is drawn uniformly between the lower and the upper end of the step: then
    PIT values of a forecaster that is right are uniform, and recalibration leaves it as it is.
    Taken at the upper end they are not, and rows with steps of different heights spoil each other's
    map.

    References
    ----------
    Czado, Gneiting and Held, "Predictive model assessment for count data", Biometrics 65, 2009,
    Section 2.1, for the draw (Brockwell, Statistics and Probability Letters 77, 2007).
    """
    upper, lower = base.levels(y), base.levels(np.nextafter(y, -np.inf))
    bottom, top = np.clip(lower, 0, 1), np.clip(upper, 0, 1)
    at_step = top - bottom > _STEP
    pits = upper
    if at_step.any():
        drawn = check_random_state(random_state).uniform(size=len(y))
        pits = np.where(at_step, bottom + drawn * (top - bottom), upper)
    lowest, highest = base.unknown_levels()
    known = np.where(
        (pits == 0) | (pits == -np.inf),
        lowest,
        np.where((pits == 1) | (pits == np.inf), highest, pits),
    )
    clipped = int((known != pits).sum())
    if clipped:
        warnings.warn(
            f"{clipped} of {len(pits)} calibration rows lie where the predicted distribution"
            " function is 0 or 1 to the last bit: its tails are much too light, and how far out"
            " these rows are is lost",
            stacklevel=stacklevel,
        )
    return Pits(known, clipped, int(at_step.sum()))


@dataclass(eq=False, repr=False)
class HalvesOfRows(PostHocRegressor):
    """The ground of what corrects intervals by rows that nothing else has seen, as in split
    conformal prediction (Papadopoulos 2002).

    A subclass implements ``_learn_from(train, rest, held)`` of the training rows, those that
    recalibrate and those that correct, and ``_after``; and says in ``_needs_rest`` whether the
    former are needed where nothing recalibrates.

    Attributes
    ----------
    estimator_ : the fitted parent.
    recalibrated_ : the fitted recalibrator behind it, or the parent.
    held_, y_held_ : predicted distributions and outcomes of the rows that correct.
    """

    recalibrator: Any = None
    share: OpenFraction = 0.5

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: how many rows correct, the highest level of finite
        intervals, what the recalibrator says.
        """
        more = self.recalibrated_.describe() if hasattr(self.recalibrated_, "describe") else {}
        fewest = self._fewest()
        return {"n_correcting": len(self.y_held_), "highest_level": fewest / (fewest + 1)} | more

    def _learn_from(self, train: Rows, rest: Rows, held: Rows) -> None:
        raise NotImplementedError

    def _needs_rest(self) -> bool:
        raise NotImplementedError

    def _fewest(self) -> int:
        """How many rows the correction stands on that stands on the fewest."""
        return len(self.y_held_)

    def _distance_estimator(self) -> Any:
        return None if self.recalibrator is None else self.estimator

    def _requires_training_rows(self) -> bool:
        return any_requires_training_rows([self.recalibrator])

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        order, n = np.random.default_rng(seed).permutation(len(calibration)), len(calibration)
        all_correct = self.recalibrator is None and not self._needs_rest()
        n_held = n if all_correct else min(max(round(self.share * n), 1), max(n - 1, 1))
        held, rest = calibration[np.sort(order[:n_held])], calibration[np.sort(order[n_held:])]
        self.recalibrated_ = self._recalibrated(train, rest)
        self.held_, self.y_held_ = self._said(held.X), held.y
        self._learn_from(train, rest, held)

    def _recalibrated(self, train: Rows, rest: Rows) -> Any:
        if self.recalibrator is None or not len(rest):
            return self.estimator_
        frozen = (
            self.estimator_
            if isinstance(self.estimator_, FrozenEstimator)
            else FrozenEstimator(self.estimator_)
        )
        model = seeded_clone(self.recalibrator, self.random_state).set_params(estimator=frozen)
        return model.fit(train.X, train.y, X_calibration=rest.X, y_calibration=rest.y)

    def _said(self, X: Any) -> Distribution:
        return (
            self._base(X)
            if self.recalibrated_ is self.estimator_
            else self.recalibrated_.predict_dist(X)
        )


Where = Literal["input", "given", "layer", "output", "geodesic"]
"""input: the rows, behind the parent's own transformations; given: the rows as they come,
categories as their positions; layer: what a layer of a network puts out; output: predicted mean and
standard deviation; geodesic: 1 - K, K the share of a forest's trees that put two rows into one leaf
(Dey et al., Eq. 14).
"""
Units = Literal["sd", "raw", "whiten"]
"""sd: of each feature its standard deviation over calibration rows; raw: as they come; whiten:
principal components, each in its own.
"""

_NO_SPREAD = 1e-12
"""Of the largest spread: below it, spread is what rounding has made of nothing."""


@dataclass
class Space:
    """A space for neighbours, fitted on calibration rows.

    Parameters
    ----------
    where, units : see :data:`Where` and :data:`Units`; leaves have no units.
    layer : of a network, its name; None: what enters the last linear layer, which is the last
    hidden one.
    forest : for "geodesic", a forest of scikit-learn, cloned and fitted on the parent's training
        rows, unless frozen; None: the parent is one, or 100 trees of at least 20 rows a leaf.
    random_state : of that forest.

    Notes
    -----
    Torres et al. measure Euclidean distances in units as they come. On their third data set,
    diamonds, standard deviations instead of raw units take another 1 % off the error.
    """

    where: Where = "input"
    units: Units = "sd"
    layer: str | None = None
    forest: Any = None
    random_state: Any = None

    def fit(self, parent: Any, train: Rows, calibration: Rows, base: Distribution) -> Any:
        """Fit behind the fitted ``parent`` and give the coordinates of the calibration rows, of
        which ``base`` is predicted.
        """
        self.forest_ = self._fitted_forest(parent, train) if self.where == "geodesic" else None
        found = self._features(parent, calibration.X, base)
        if self.where == "geodesic":
            return found
        self.middle_ = found.mean(axis=0)
        self.matrix_ = _matrix(found - self.middle_, self.units)
        return self._scaled(found)

    def of(self, parent: Any, X: Any, base: Distribution) -> Any:
        """Float[n, d], coordinates of rows of which ``base`` is predicted; sparse leaves for
        "geodesic".
        """
        found = self._features(parent, X, base)
        return found if self.where == "geodesic" else self._scaled(found)

    def _features(self, parent: Any, X: Any, base: Distribution) -> Any:
        if self.where == "output":
            return np.column_stack([base.mean(), np.sqrt(base.var())])
        if self.where == "layer":
            return features_of(parent, X, "layer", self.layer)
        if self.where == "geodesic":
            rows = X if self.forest_ is None else features_of(parent, X, "rows")
            return features_of(parent if self.forest_ is None else self.forest_, rows, "leaves")
        return features_of(None if self.where == "given" else parent, X, "rows")

    def _scaled(self, features: np.ndarray) -> np.ndarray:
        centred = features - self.middle_
        return centred * self.matrix_ if self.matrix_.ndim == 1 else centred @ self.matrix_

    def _fitted_forest(self, parent: Any, train: Rows) -> Any:
        """None where the parent's own leaves are meant."""
        if isinstance(self.forest, FrozenEstimator):
            return self.forest
        if self.forest is None and partition_kind(getattr(parent, "estimator", parent)) == "forest":
            return None
        from sklearn.ensemble import RandomForestRegressor

        forest = (
            RandomForestRegressor(100, min_samples_leaf=20) if self.forest is None else self.forest
        )
        return seeded_clone(forest, self.random_state).fit(
            features_of(parent, train.X, "rows"), train.y
        )


def _matrix(centred: np.ndarray, units: Units) -> np.ndarray:
    """What centred features are multiplied with: Float[d], or Float[d, r] of r directions in which
    they differ.
    """
    if units == "raw":
        return np.ones(centred.shape[1])
    if units == "sd":
        spread = np.sqrt(np.square(centred).mean(axis=0))
        flat = spread <= _NO_SPREAD * np.abs(centred).max(initial=1.0)
        return 1 / np.where(flat, 1.0, spread)
    _, spread, directions = np.linalg.svd(centred / np.sqrt(len(centred)), full_matrices=False)
    kept = spread > _NO_SPREAD * spread.max(initial=0.0)
    return directions[kept].T / spread[kept] if kept.any() else np.ones(centred.shape[1])
