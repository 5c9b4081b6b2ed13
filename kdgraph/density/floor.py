"""Density floor, below which class probabilities fall back to the class prior.

The floor is the constant that Dey et al. (2024) add to every class-conditional density (Eq. 6 and
7). It is handled in log space, as a threshold of the log density. This module contains the blend of
posterior and prior (:func:`blend_with_prior`), the rules that choose a floor, and
:class:`DensityFloorClassifier`, the base class of all classifiers with a floor. The rules and the
clipped weight of the blend are original to kdgraph.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from kdgraph.base import PostHocClassifier
from kdgraph.base.rows import iterate_blocks
from kdgraph.geometry import NoPartitionError, Partition, check_has_partition, partition_of


def blend_with_prior(
    posterior: np.ndarray,
    prior: np.ndarray,
    log_density: np.ndarray,
    log_floor: float,
    min_weight: float = 0.0,
    *,
    clipped: bool = False,
) -> np.ndarray:
    """Return w·posterior + (1 - w)·prior with w = f / (f + floor) (Eq. 6 and 7).

    With ``clipped``, w = min(1, f / floor): rows above the floor keep their posterior unchanged.

    With class-conditional densities f_y and floor b, Bayes' rule gives (f_y + b)·P_y / Σ_k (f_k +
    b)·P_k. With f = Σ_k f_k·P_k and p_y = f_y·P_y / f, that is (f·p_y + b·P_y) / (f + b). So the
    floor can be applied in this way to any posterior p.

    Parameters
    ----------
    posterior : Float[n, K]
        Posterior inside the training distribution.
    prior : Float[K]
        Class prior.
    log_density : Float[n]
        Log density of each row.
    log_floor : float
        Log density floor, in the same units.
    min_weight : float, default=0.0
        Minimum of w. If f underflows to 0, the class of the largest posterior then still has the
        largest probability among equal priors.
    clipped : bool, default=False
        Leave the posterior unchanged above the floor.

    Returns
    -------
    Float[n, K]
        Probabilities; rows sum to 1.

    Notes
    -----
    The clipped weight is original to kdgraph. Both weights are at most f / floor, so that the
    blend tends to the prior as f does to 0. With the weight of Eq. 6 every row moves towards the
    prior, and half of the way at the floor. On 30 tables and leave-one-out floors for .2 % of the
    rows, the clipped weight cost .0005 nats in distribution and nothing on the median table.

    References
    ----------
    Dey et al. (2024), Deep discriminative to kernel density graph for in- and out-of-distribution
    calibrated inference, Eq. 6, 7 and Proposition 2.

    Examples
    --------
    >>> posterior, prior = np.array([[0.9, 0.1], [0.9, 0.1]]), np.array([0.5, 0.5])
    >>> blend_with_prior(posterior, prior, log_density=np.array([0.0, -100.0]), log_floor=-9.0)
    array([[0.89995064, 0.10004936],
           [0.5       , 0.5       ]])
    """
    with np.errstate(invalid="ignore"):
        above = log_density - log_floor
        weight = np.exp(np.minimum(above, 0.0)) if clipped else expit(above)
        weight = np.where(np.isneginf(log_density), 0.0, weight)
    weight = np.maximum(weight, min_weight)[:, None]
    return weight * posterior + (1.0 - weight) * prior


def conformal_log_floor(log_density: np.ndarray, alpha: float) -> float:
    """Return the floor with an expected fraction of at most max(α, 1/(m + 1)) of rows below it.

    Parameters
    ----------
    log_density : Float[m]
        Log densities of held-out rows. Infinite values are ignored.
    alpha : float
        Fraction of in-distribution rows below the floor.

    Returns
    -------
    float
        Log density floor, -inf if no log density is finite.

    Notes
    -----
    The floor is the ⌊(m + 1)·α⌋-th smallest log density. If m is too small for that rank, it is the
    smallest, lowered by half of its distance to the median. Without this step, 37 rows would have a
    floor that rejects 1/38 of in-distribution rows.

    Examples
    --------
    >>> log_density = -np.arange(1.0, 200.0)
    >>> conformal_log_floor(log_density, alpha=0.01), conformal_log_floor(log_density, alpha=0.001)
    (-198.0, -248.5)
    """
    ranked = np.sort(log_density[np.isfinite(log_density)])
    if not len(ranked):
        return -math.inf
    rank = math.floor((len(ranked) + 1) * alpha)
    if rank >= 1:
        return float(ranked[rank - 1])
    return _extrapolate_below(ranked)


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
    log_density = np.append(log_density[is_finite], _extrapolate_below(log_density[is_finite]))
    distance = np.append(distance_to_prior[is_finite], distance_to_prior[is_finite].mean())

    def excess_shift(log_floor: float) -> float:
        shift = -np.expm1(np.minimum(log_density - log_floor, 0.0))
        return float(np.mean(distance * shift)) - max_mean_shift

    # The shift grows with the floor; at the lowest log density no row shifts.
    highest, lowest = float(log_density.max()), float(log_density.min())
    return highest if excess_shift(highest) <= 0 else float(brentq(excess_shift, lowest, highest))


def _extrapolate_below(log_density: np.ndarray) -> float:
    """Return the lowest log density, lowered by half of its distance to the median."""
    lowest = float(log_density.min())
    return lowest - 0.5 * (float(np.median(log_density)) - lowest)


def density_ood_score(log_density: np.ndarray, log_floor: float) -> np.ndarray:
    """Return log floor - log density, Float[n]; infinite where the density is 0, at any floor.

    Without a floor, which is then -inf, it is the negative log density.
    """
    zero = 0.0 if math.isinf(log_floor) else log_floor
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(log_density), math.inf, zero - log_density)


@contextmanager
def _suggest_gate() -> Iterator[None]:
    """Add the advice to use a density gate to errors about a missing partition."""
    try:
        yield
    except NoPartitionError as error:
        gate = f"DensityGate({error.name}(), partition=RandomForestClassifier())"
        raise TypeError(
            f"{error}; any classifier can be combined with a forest's partition: {gate}"
        ) from None


@dataclass(eq=False, repr=False)
class DensityFloorClassifier(PostHocClassifier):
    """Base class of classifiers with a density graph and a floor.

    These are the kernel density forest, the kernel density network and the density gate. A subclass
    fits ``graph_`` and ``log_floor_``, and implements ``_posterior_and_log_density`` and
    ``_blend``.

    Parameters
    ----------
    n_jobs : int, default=None
        Number of threads. Results do not depend on it.

    Attributes
    ----------
    graph_ : KernelDensityGraph
        Graph of the populated polytopes.
    log_floor_ : float
        Log density floor, -inf if there is none.
    """

    _: KW_ONLY
    n_jobs: int | None = None

    def _partition_estimator(self) -> Any:
        """Return the estimator, not fitted yet, whose partition has the density."""
        return self._default_estimator()

    def _check_parent(self) -> Any:
        parent = super()._check_parent()
        with _suggest_gate():
            check_has_partition(self._partition_estimator())
        return parent

    def _partition_of(self, fitted: Any, **network_options: Any) -> Partition:
        """Return the partition of the fitted ``_partition_estimator()``."""
        with _suggest_gate():
            return partition_of(fitted, n_jobs=self.n_jobs, **network_options)

    def _requires_training_rows(self) -> bool:
        return True

    def proba_and_log_density(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`predict_proba` (Float[n, K]) and :meth:`log_density` (Float[n]) together.

        ``X``: Float[n, d]; both come from one query of the graph.
        """
        blocks = iterate_blocks(self._validate_X(X))
        posteriors, log_densities = zip(
            *(self._posterior_and_log_density(block) for block in blocks), strict=True
        )
        log_density = np.concatenate(log_densities)
        return self._blend(np.concatenate(posteriors), log_density), log_density

    def _posterior_and_log_density(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return posteriors (Float[n, K]) and log densities (Float[n]) of one block of rows."""
        raise NotImplementedError

    def _blend(self, posterior: np.ndarray, log_density: np.ndarray) -> np.ndarray:
        """Return the posterior, blended with the prior below the floor, Float[n, K]."""
        raise NotImplementedError

    def predict_proba(self, X) -> np.ndarray:
        """Return class probabilities, Float[n, K], of rows Float[n, d].

        They are finite and sum to 1 at any distance from the training data.
        """
        return self.proba_and_log_density(X)[0]

    def log_density(self, X) -> np.ndarray:
        """Return the log density f of the nearest polytope, Float[n], of rows Float[n, d].

        It is compared with the floor, and -inf if no polytope shares anything with the row.
        """
        return self.proba_and_log_density(X)[1]

    def ood_score(self, X) -> np.ndarray:
        """Return the OOD score, log floor - log density, Float[n], of rows Float[n, d].

        Higher is farther from the training data. Above 0 the density is below the floor, and the
        prior has a part in the probabilities.
        """
        return density_ood_score(self.log_density(X), self.log_floor_)

    def proba_and_ood_score(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`predict_proba`, Float[n, K], and :meth:`ood_score`, Float[n], together."""
        proba, log_density = self.proba_and_log_density(X)
        return proba, density_ood_score(log_density, self.log_floor_)

    def describe(self) -> dict[str, float | int | str]:
        """Return the fitted values that are recorded for a run: sizes, parameters and log floor."""
        polytopes = self.graph_.polytopes
        summary = {
            "n_polytopes": len(polytopes),
            "singleton_fraction": polytopes.singleton_fraction,
            "n_gaussians": len(self.graph_.gaussians.means),
            "distance": self.graph_.distance,
        }
        floor = {"log_floor": self.log_floor_} if math.isfinite(self.log_floor_) else {}
        return {**summary, **self._searched_parameters(), **floor}

    def _searched_parameters(self) -> dict[str, float]:
        """Return the values chosen by a search on held-out rows, by name."""
        return {}
