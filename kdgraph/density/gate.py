"""Density gate, which adds a density floor to any classifier.

:class:`DensityGate` blends the probabilities of a classifier with the class prior where the density
of the training data is low. So any classifier has the behaviour of a kernel density forest in the
OOD region. Original to kdgraph.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import brentq
from sklearn.utils import get_tags

from kdgraph.base import Rows
from kdgraph.base.frozen import last_step
from kdgraph.base.rows import unseen_rows
from kdgraph.base.validation import apply_in_blocks
from kdgraph.density.classifiers import (
    DensityFloorClassifier,
    blend_with_prior,
    conformal_log_floor,
    extrapolate_below,
)
from kdgraph.density.graph import GraphLimits, KernelDensityGraph, PolytopeDistance
from kdgraph.errors import DataError
from kdgraph.geometry import finite_space_of, forest_partition_of
from kdgraph.parameters import ClosedFraction, Count, OpenFraction
from kdgraph.parents.row_encoder import behind_row_encoder, needs_row_encoder


@dataclass(eq=False, repr=False)
class DensityGate(DensityFloorClassifier):
    """Classifier whose probabilities fall back to the class prior below a density floor.

    g(x) = w(x)·p(x) + (1 - w(x))·P with w = min(1, f / floor), where p are the probabilities of
    ``estimator``, P the class fractions of the training rows, f the Gaussian density at the nearest
    polytope of a forest, and the floor is fitted to rows that the density does not contain. This is
    the floor of Dey et al. (2024, Eq. 6 and 7) without their posterior, and with a weight that is 1
    above the floor.

    Parameters
    ----------
    estimator : estimator, default=None
        Any classifier or calibrator with ``predict_proba``. It is cloned and fitted;
        ``FrozenEstimator(fitted)`` is used without fitting.
    partition : estimator, default=None
        Forest whose polytopes have the density. It is cloned and fitted unless frozen. None for the
        forest inside ``estimator``. Text, categories and missing values, where ``estimator`` takes
        them, reach the forest as numbers, behind the transformers of the pipeline that ends in
        ``estimator`` and a :class:`~kdgraph.parents.row_encoder.RowEncoder`.
    distance : {"scaled", "geodesic", "euclidean", "whitened"}, default="scaled"
        Distance by which the nearest polytope is found, as in :class:`KernelDensityForest`.
    alpha : float, default=0.002
        Expected fraction of in-distribution rows below the floor. Each row counts once, whatever
        its weight.
    max_mean_shift : float, default=None
        Instead of ``alpha``, the mean shift of in-distribution probabilities by the floor, in total
        variation (:func:`~kdgraph.density.gate.mean_shift_log_floor`). It bounds the effect
        of the gate on calibration, also if there are few held-out rows.
    max_polytopes : int, float, "auto" or None, default="auto"
        Merge neighbouring polytopes down to this number, or this fraction of the training rows.
        "auto": merge their Gaussians down to 65,536, so that predictions take a time that does not
        grow with the training rows. None for no limit.
    min_weight : float, default=1e-9
        Minimum of w, which keeps the argmax of ``estimator`` among equal priors.

    Raises
    ------
    DataError
        If rows are images and ``partition`` accepts vectors only.

    *Far from the data* g tends to P. Each of the finitely many Gaussians has a bounded variance in
    every direction, so that log f(x) ≤ c - ‖x - μ‖²/(2σ²) with c, σ the largest of them. As the
    distance of x to the training rows grows, f → 0, hence w → 0 and |g_y - P_y| ≤ w → 0 for every
    class y and every p. With ``min_weight`` ε the limit is reached up to ε.

    *Inside the data* g is p. Let m be the number of held-out rows. By exchangeability an expected
    fraction of at most max(α, 1/(m + 1)) of such rows has f < floor; all others have w = 1 and keep
    their probabilities. With ``max_mean_shift`` the mean shift is set instead. As α → 0 and m → ∞
    the floor falls to the lowest density of the training distribution, and the fraction of rows
    that change vanishes. Where no row is held out, the log density of each training row is computed
    without the row. If one more row never lowers the density of another one, as with equal
    variances and a fixed spacing, the bound is the same: the n + 1 densities of n training rows and
    a new one, each without the row itself, are exchangeable, and those of the training rows that
    also lack the new row are no higher. The spacing and the variances of polytopes of several rows
    make this approximate: the fraction of new rows below a floor for 2 % was .017 to .021 on seven
    distributions of 100 to 1,000 rows.

    Everywhere, argmax g = argmax p whenever the priors are equal, because g is then an
    increasing function of p, class by class.

    Examples
    --------
    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> forest = RandomForestClassifier(20, random_state=0)
    >>> isotonic = CalibratedClassifierCV(forest, method="isotonic", cv=3)
    >>> gate = DensityGate(isotonic, random_state=0).fit(X, y)
    >>> gate.predict_proba([[50.0, 50.0]]).round(6)
    array([[0.5, 0.5]])
    """

    _: KW_ONLY
    partition: Any = None
    alpha: OpenFraction = 0.002
    min_weight: ClosedFraction = 1e-9
    distance: PolytopeDistance = "scaled"
    max_mean_shift: OpenFraction | None = None
    max_polytopes: Count | OpenFraction | Literal["auto"] | None = "auto"

    def _partition_estimator(self) -> Any:
        return self.estimator if self.partition is None else self.partition

    def _distance_estimator(self) -> Any:
        if needs_row_encoder(self.partition, self.estimator):
            return None
        return finite_space_of(self._partition_estimator())

    def _needs_unseen_rows(self) -> bool:
        # A partition that is fitted by the gate is never fitted on the held-out rows, so that their
        # densities are unbiased even if ``estimator`` is. The mean shift depends on the
        # probabilities of ``estimator`` too.
        if self.calibration != "held_out":
            return self.max_mean_shift is not None
        return self.partition is None or self.max_mean_shift is not None

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        if (
            self.partition is not None
            and np.ndim(train.X) > 2
            and not get_tags(self.partition).input_tags.three_d_array
        ):
            name = type(self.partition).__name__
            raise DataError(
                f"the gate's {name} takes vectors, but the rows are images; set partition=null to"
                " use the estimator's own polytopes"
            )
        forest = self._partition_estimator()
        if needs_row_encoder(self.partition, self.estimator):
            forest = behind_row_encoder(forest, self.estimator_, train.X)
        forest = (
            self.estimator_
            if self.partition is None
            else self._fit_parent(forest, train, calibration, self.random_state)
        )
        # Training rows populate the polytopes, calibration rows set the floor: their densities must
        # be those of new rows, so that a fraction alpha of new rows is expected below the floor.
        # The graph uses calibration rows for one number only, the shrinkage of the spacing.
        partition = self._partition_of(forest)
        locations = partition.locate(train.X, with_proba=False)
        leaves_out = self.calibration_ != "held_out"
        self.graph_ = KernelDensityGraph(
            partition,
            locations,
            distance=self.distance,
            limits=GraphLimits.of(self.max_polytopes),
            held_out=None if leaves_out else partition.embed(calibration.X),
            leave_one_out=leaves_out,
        )
        # Without held-out rows, all rows populate the polytopes and the density of each is computed
        # without it, which needs no other parent.
        if not leaves_out:
            log_density = apply_in_blocks(self.graph_.log_density, calibration.X)
        elif self.max_mean_shift is None:
            log_density = self.graph_.floor_log_density
        else:
            log_density = self.graph_.left_out_log_density(unseen_rows(calibration).positions)
        self.log_floor_ = self._log_floor(calibration, log_density)

    def _log_floor(self, rows: Rows, log_density: np.ndarray) -> float:
        """Return the floor from calibration rows and log densities (Float[m])."""
        if self.max_mean_shift is None:
            return conformal_log_floor(log_density, self.alpha)
        distance = 0.5 * np.abs(rows.predict(self.estimator_) - self.prior_).sum(axis=1)
        return mean_shift_log_floor(log_density, distance, self.max_mean_shift)

    def _predict_rows(self, rows: Rows) -> np.ndarray:
        if rows.unseen is None:
            return self.predict_proba(rows.X)
        log_density = self.graph_.left_out_log_density(rows.unseen.positions)
        return self._blend(rows.predict(self.estimator_), log_density)

    def log_density(self, X) -> np.ndarray:
        # The probabilities of ``estimator``, which may be expensive, are not needed.
        return apply_in_blocks(self.graph_.log_density, self._validate_X(X))

    def _posterior_and_log_density(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        return self._estimator_proba(X), self.graph_.log_density(X)

    def _estimator_proba(self, X: Any) -> np.ndarray:
        partition = self.graph_.partition
        forest = forest_partition_of(partition)
        if forest is not None and forest.model is last_step(self.estimator_):
            # The mean of the leaves has the same bits, in half of the time, also for rows beyond
            # single precision.
            return partition.parent_proba(partition.locate(X))
        return self.estimator_.predict_proba(X)

    def _blend(self, posterior: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        return blend_with_prior(
            posterior, self.prior_, log_density, self.log_floor_, self.min_weight, clipped=True
        )


def mean_shift_log_floor(
    log_density: np.ndarray, distance_to_prior: np.ndarray, max_mean_shift: float
) -> float:
    """Return the highest floor at which the blend shifts rows by ``max_mean_shift`` on average.

    Parameters
    ----------
    log_density : Float[m]
        Log densities of held-out rows.
    distance_to_prior : Float[m]
        Total variation ½ Σ_k |p_k - P_k| between the probabilities of each row and the prior, the
        maximum shift of the row.
    max_mean_shift : float
        Mean of the shifts (1 - w)·``distance_to_prior``, with the clipped w of
        :func:`blend_with_prior`.

    Returns
    -------
    float
        Log density floor, at most the highest log density; -inf if no log density is finite.

    Notes
    -----
    A rank, as in :func:`conformal_log_floor`, determines how many rows fall back to the prior, but
    not what that costs: with 30 rows it cannot be a hundredth, and a row whose probabilities are
    equal to the prior costs nothing. The mean shift bounds the effect of the floor on calibration,
    because the distance from calibration of a predictor changes by at most the mean change of the
    predictor (Błasiok, Gopalan, Hu, Nakkiran, "A unifying theory of distance from calibration",
    STOC 2023).

    The mean is over the held-out rows and one more, because the next row has the lowest density of
    m + 1 rows with probability 1/(m + 1). Conformal risk control (Angelopoulos et al., ICLR 2024)
    assumes the maximum cost for this row, which no bound below 1/(m + 1) allows. Here its log
    density is the lowest one, lowered by half of its distance to the median, and its distance to
    the prior is the mean of the others. Rows with zero density fall back at every floor and are not
    counted.

    Examples
    --------
    >>> log_density = np.array([-9.0, -2.0, -1.0])
    >>> floor = mean_shift_log_floor(log_density, np.array([0.5, 0.5, 0.5]), max_mean_shift=0.01)
    >>> shift = 0.5 * (1 - np.exp(np.minimum(np.append(log_density, -12.5) - floor, 0)))
    >>> print(f"{floor:.2f}: {shift.mean():.3f}")
    -12.42: 0.010
    """
    is_finite = np.isfinite(log_density)
    if not is_finite.any():
        return -math.inf
    log_density = np.append(log_density[is_finite], extrapolate_below(log_density[is_finite]))
    distance = np.append(distance_to_prior[is_finite], distance_to_prior[is_finite].mean())

    def excess_shift(log_floor: float) -> float:
        shift = -np.expm1(np.minimum(log_density - log_floor, 0.0))
        return float(np.mean(distance * shift)) - max_mean_shift

    # The shift grows with the floor; at the lowest log density no row shifts.
    highest, lowest = float(log_density.max()), float(log_density.min())
    return highest if excess_shift(highest) <= 0 else float(brentq(excess_shift, lowest, highest))
