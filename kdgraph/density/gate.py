"""The density gate: any classifier's probabilities, with the kernel density forest's far field."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils import get_tags

from kdgraph.base import Rows
from kdgraph.density.floor import (
    DensityFloorClassifier,
    blend_with_prior,
    conformal_log_floor,
    mean_shift_log_floor,
)
from kdgraph.density.gaussians import shrunk_variances
from kdgraph.density.graph import KernelDensityGraph, PolytopeDistance, apply_in_blocks
from kdgraph.errors import DataError
from kdgraph.parameters import OpenFraction


@dataclass(eq=False, repr=False)
class DensityGate(DensityFloorClassifier):
    """Blend a classifier's probabilities to the class prior where the density of the training data
    falls below a floor. Ours.

    It is the floor of Dey et al. (Eq. 6 and 7), without their posterior.

    g(x) = w(x)·p(x) + (1 - w(x))·P with w = f / (f + floor): p are the probabilities of
    ``estimator``, P the class shares of the training rows, f the Gaussian density at the nearest
    polytope of a forest, and the floor is learnt on held-out rows.

    Parameters
    ----------
    estimator : any classifier or calibrator with ``predict_proba``. Cloned and fitted;
    ``FrozenEstimator(fitted)`` is used as it is.
    partition : whose polytopes carry the density: a forest, which is cloned and fitted unless
        frozen; None for the forest inside ``estimator``.
    distance : by which the nearest polytope is found, as in :class:`KernelDensityForest`.
    alpha : the expected share of in-distribution rows that the floor may give up; each held-out row
    counts once, whatever it weighs.
    max_mean_shift : in place of ``alpha``, how far the floor may move rows in the mean, in total variation
        (:func:`~kdgraph.density.floor.mean_shift_log_floor`): a bound of what the gate costs in
        calibration, also where held-out rows are few.
    min_weight : w is never smaller, so that the estimator's argmax survives among equal priors.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    n_jobs : threads; never changes a number.
    random_state : seeds the held-out rows, and what is cloned.

    Attributes
    ----------
    estimator_, classes_, prior_ : the fitted estimator, its labels, the class shares of the
    training rows.
    graph_, log_floor_ : the populated polytopes and the log density floor.

    Raises
    ------
    DataError : for images, where ``partition`` takes vectors.

    Notes
    -----
    *Far from the data* g tends to P. Each of the finitely many Gaussians has a bounded variance in
    every direction, so log f(x) ≤ c - ‖x - μ‖²/(2σ²) with c, σ the largest of them: f → 0 as the
    distance of x to the training rows grows, hence w → 0 and
    |g_y - P_y| ≤ w → 0 for every class y, whatever p does. With ``min_weight`` ε the limit is met up to ε.

    *Inside the data* g tends to p. By exchangeability at most max(α, 1/(m + 1)) of rows like the m
    held-out ones have f < floor in expectation, so for all others w ≥ 1/2 and |g_y - p_y| ≤ 1 - w =
    floor/(f + floor) ≤ floor/f, which falls off exponentially above the floor: a row whose log
    density lies t above it moves by at most e^-t. With ``max_mean_shift`` it is how far rows move in the
    mean that is given. As α → 0 and m → ∞ the floor falls to the lowest density that rows of the
    training distribution reach, and what is given up vanishes.

    Between the two, argmax g = argmax p whenever the priors are equal, for then g is an increasing
    function of p, class by class.

    Examples
    --------
    >>> from sklearn.calibration import CalibratedClassifierCV
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> isotonic = CalibratedClassifierCV(RandomForestClassifier(20, random_state=0), method="isotonic", cv=3)
    >>> gate = DensityGate(isotonic, random_state=0).fit(X, y)
    >>> gate.predict_proba([[50.0, 50.0]]).round(6)
    array([[0.5, 0.5]])
    """

    _: KW_ONLY
    partition: Any = None
    distance: PolytopeDistance = "scaled"
    max_mean_shift: OpenFraction | None = None

    def _partition_estimator(self) -> Any:
        return self.estimator if self.partition is None else self.partition

    def _distance_estimator(self) -> Any:
        return self._partition_estimator()

    def _needs_unseen_rows(self) -> bool:
        """Of a partition that is fitted here, the rows that the floor is learnt on are new to it,
        whatever ``estimator`` has seen.
        """
        return self.partition is None or self.max_mean_shift is not None

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        if (
            self.partition is not None
            and np.ndim(train.X) > 2
            and not get_tags(self.partition).input_tags.three_d_array
        ):
            name = type(self.partition).__name__
            raise DataError(
                f"the gate's {name} takes vectors, and rows are images; give partition=null, for"
                " the estimator's own polytopes"
            )
        forest = (
            self.estimator_
            if self.partition is None
            else self._fit_parent(self.partition, train, calibration, self.random_state)
        )
        partition = self._partition_of(forest)
        labels = train.one_hot(len(self.classes_))
        place, held_out = partition.locate(train.X), partition.embed(calibration.X)
        self.graph_ = KernelDensityGraph(
            partition, place, labels, shrunk_variances, distance=self.distance, held_out=held_out
        )
        self.log_floor_ = self._log_floor(
            calibration.X, apply_in_blocks(self.graph_.log_density, calibration.X)
        )

    def _log_floor(self, X, log_density: np.ndarray) -> float:
        """The floor from held-out rows X (Float[m, d]) and their log densities (Float[m])."""
        if self.max_mean_shift is None:
            return conformal_log_floor(log_density, self.alpha)
        to_prior = 0.5 * np.abs(self.estimator_.predict_proba(X) - self.prior_).sum(axis=1)
        return mean_shift_log_floor(log_density, to_prior, self.max_mean_shift)

    def log_density(self, X) -> np.ndarray:
        """Float[n]: the log density f that the floor is held against, that of the nearest
        polytope.
        """
        return apply_in_blocks(self.graph_.log_density, self._validate_X(X))

    def proba_and_log_density(self, X) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`predict_proba` and :meth:`log_density`, of which the first needs the second."""
        X = self._validate_X(X)
        log_density = apply_in_blocks(self.graph_.log_density, X)
        return (
            blend_with_prior(
                self.estimator_.predict_proba(X),
                self.prior_,
                log_density,
                self.log_floor_,
                self.min_weight,
            ),
            log_density,
        )
