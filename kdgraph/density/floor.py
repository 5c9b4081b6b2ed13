"""The density floor: the constant that Eq. 6 adds to every class-conditional density, kept in log
space.

Classifiers whose probabilities give way to the class prior below a density floor (Dey et al., Eq. 6
and 7).
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
from kdgraph.geometry import NoPartitionError, Partition, check_has_partition, partition_of
from kdgraph.parameters import OpenFraction, Share


def blend_with_prior(
    posterior: np.ndarray,
    prior: np.ndarray,
    log_density: np.ndarray,
    log_floor: float,
    min_weight: float = 0.0,
) -> np.ndarray:
    """Eq. 6 and 7 in one step: w·posterior + (1 - w)·prior with w = f / (f + floor).

    With class-conditional densities f_y and floor b, Bayes' rule gives (f_y + b)·P_y / Σ_k (f_k +
    b)·P_k. Writing f = Σ_k f_k·P_k and p_y = f_y·P_y / f, that is (f·p_y + b·P_y) / (f + b). So any
    posterior p, wherever it comes from, takes the floor in this way.

    Parameters
    ----------
    posterior : Float[n, K], in-distribution posterior.
    prior : Float[K].
    log_density, log_floor : Float[n] and a number, in the same units.
    min_weight : w is never smaller, so that where nothing is left of f the class of the largest
        posterior still leads among equal priors.

    Returns
    -------
    Float[n, K], rows sum to 1.

    Notes
    -----
    Dey et al., Deep discriminative to kernel density graph, Eq. 6, 7 and Proposition 2.
    """
    with np.errstate(invalid="ignore"):
        weight = np.where(np.isneginf(log_density), 0.0, expit(log_density - log_floor))
    weight = np.maximum(weight, min_weight)[:, None]
    return weight * posterior + (1.0 - weight) * prior


def conformal_log_floor(log_density: np.ndarray, alpha: float) -> float:
    """The floor below which at most max(alpha, 1/(m + 1)) of in-distribution rows fall in
    expectation.

    ``log_density``: Float[m], of held-out rows. The floor is the ⌊(m + 1)·alpha⌋-th smallest. Where
    m is too small for that rank to exist, it is the smallest, moved down by half its distance to
    the median: 37 rows would otherwise give up 1/38 of what is in-distribution.
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
    """The highest floor at which rows move by ``max_mean_shift`` in the mean when their probabilities are
    blended with the prior. Ours.

    Parameters
    ----------
    log_density : Float[m], of held-out rows.
    distance_to_prior : Float[m], the total variation ½ Σ_k |p_k - P_k| between their probabilities
    and the prior: as far as a row can move.
    max_mean_shift : the mean of how far rows do move, (1 - w)·``distance_to_prior`` with w as in
        :func:`blend`.

    Notes
    -----
    A rank says how many rows give way and not what that costs: of 30 rows it cannot be a hundredth,
    and a row on which the classifier is at the prior already costs nothing. The mean of what rows
    move bounds what the gate can do to calibration: the distance from calibration of a predictor
    changes by no more than the predictor does in the mean (Błasiok, Gopalan, Hu, Nakkiran, "A
    unifying theory of distance from calibration", STOC 2023).

    The mean is that of the held-out rows and one more, since the next row is the lowest of m + 1
    once in m + 1 times. Conformal risk control (Angelopoulos et al., ICLR 2024) lets it cost all
    that it can, which no price below 1/(m + 1) allows; here its log density is the lowest moved
    down by half its distance to the median, as in :func:`conformal_log_floor`, and its distance to
    the prior that of the others in the mean. Rows without any density give way at every floor, and
    are not counted. The floor is never above the highest density.

    Examples
    --------
    >>> log_density = np.array([-9.0, -2.0, -1.0])
    >>> floor = mean_shift_log_floor(log_density, np.array([0.5, 0.5, 0.5]), max_mean_shift=0.01)
    >>> moved = 0.5 * expit(floor - np.append(log_density, -12.5))
    >>> print(f"{floor:.2f}: {moved.mean():.3f}")
    -14.98: 0.010
    """
    dense = np.isfinite(log_density)
    if not dense.any():
        return -math.inf
    log_density = np.append(log_density[dense], _extrapolate_below(log_density[dense]))
    distance = np.append(distance_to_prior[dense], distance_to_prior[dense].mean())

    def above(log_floor: float) -> float:
        return float(np.mean(distance * expit(log_floor - log_density))) - max_mean_shift

    highest, lowest = (
        float(log_density.max()),
        float(log_density.min()) + math.log(max_mean_shift),
    )  # there no row moves by more than the price
    return highest if above(highest) <= 0 else float(brentq(above, lowest, highest))


def _extrapolate_below(log_density: np.ndarray) -> float:
    """The lowest of these, Float[m], moved down by half its distance to the median."""
    lowest = float(log_density.min())
    return lowest - 0.5 * (float(np.median(log_density)) - lowest)


def density_ood_score(log_density: np.ndarray, log_floor: float) -> np.ndarray:
    """Float[n]: log floor - log density, infinite where there is no density at all, whatever the
    floor.
    """
    with np.errstate(invalid="ignore"):
        return np.where(np.isneginf(log_density), math.inf, log_floor - log_density)


def paper_log_floor(n: int) -> float:
    """log(b / log n) with b = exp(-1e-7) (Eq. 6 and Table 2): so high that it drowns the
    in-distribution densities too.
    """
    return -1e-7 - math.log(math.log(n))


def figure1_log_floor(n: int, d: int, multiplier: float = 1e9) -> float:
    """The floor behind the paper's Figure 1: log(multiplier) - 10^√d - log10 n."""
    return math.log(multiplier) - 10 ** math.sqrt(d) - math.log10(n)


@contextmanager
def _suggest_gate() -> Iterator[None]:
    try:
        yield
    except NoPartitionError as error:
        gate = f"DensityGate({error.name}(), partition=RandomForestClassifier())"
        raise TypeError(
            f"{error}; any classifier can stand in front of a forest's partition: {gate}"
        ) from None


@dataclass(eq=False, repr=False)
class DensityFloorClassifier(PostHocClassifier):
    """A density graph and a floor: what the kernel density forest and network, and the gate around
    any classifier, share.

    A subclass fits ``graph_`` and ``log_floor_``, and implements :meth:`proba_and_log_density`.

    Parameters
    ----------
    alpha : the expected share of in-distribution rows that a floor from held-out rows may give up.
    min_weight : the posterior keeps at least this weight, so that its argmax survives among equal
    priors.
    n_jobs : threads; never changes a number.
    **others : those of :class:`~kdgraph.base.PostHocClassifier`.

    Attributes
    ----------
    graph_ : the populated polytopes.
    log_floor_ : the log density floor.
    """

    _: KW_ONLY
    alpha: OpenFraction = 0.005
    min_weight: Share = 1e-9
    n_jobs: int | None = None

    def _partition_estimator(self) -> Any:
        """The estimator whose partition carries the density, not fitted yet."""
        return self._default_estimator()

    def _check_parent(self) -> Any:
        parent = super()._check_parent()
        with _suggest_gate():
            check_has_partition(self._partition_estimator())
        return parent

    def _partition_of(self, fitted: Any, **network_options: Any) -> Partition:
        """The partition of the fitted :meth:`_partition_estimator`."""
        with _suggest_gate():
            return partition_of(fitted, n_jobs=self.n_jobs, **network_options)

    def _requires_training_rows(self) -> bool:
        return True

    def proba_and_log_density(self, X) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`predict_proba` and :meth:`log_density` of the rows X (Float[n, d]) at one visit to
        the graph.
        """
        raise NotImplementedError

    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]: class probabilities; rows are finite and sum to 1 however far ``X``
        (Float[n, d]) is from the data.
        """
        return self.proba_and_log_density(X)[0]

    def log_density(self, X) -> np.ndarray:
        """Float[n]: the log density f that the floor is held against, that of the nearest polytope;
        -inf where none shares anything.
        """
        return self.proba_and_log_density(X)[1]

    def ood_score(self, X) -> np.ndarray:
        """Float[n]: log floor - log density. Higher is farther from the training data, and above 0
        the prior has more than half the say.
        """
        return density_ood_score(self.log_density(X), self.log_floor_)

    def proba_and_ood_score(self, X) -> tuple[np.ndarray, np.ndarray]:
        """:meth:`predict_proba` and :meth:`density_ood_score`, as :meth:`proba_and_log_density`."""
        proba, log_density = self.proba_and_log_density(X)
        return proba, density_ood_score(log_density, self.log_floor_)

    def describe(self) -> dict[str, float | int]:
        """What was learnt, for the record: polytopes, the share of them that hold one row, what a
        search chose, the log floor.
        """
        polytopes = self.graph_.polytopes
        learnt = {"n_polytopes": len(polytopes), "singleton_share": polytopes.singleton_share}
        return {**learnt, **self._searched_parameters(), "log_floor": self.log_floor_}

    def _searched_parameters(self) -> dict[str, float]:
        """What was searched on held-out rows, by name."""
        return {}
