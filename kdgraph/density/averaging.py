"""Average of query posteriors over the grid of their parameters, and its isotonic share.

With some hundred rows, the parameters of least NLL on a grid are partly chosen by noise. On 18
two-class tables with 240 training rows, out-of-bag parameters chosen in this way cost .006 nats
against those of the same number of other rows, on 17 tables. :func:`average_posteriors` takes the
average of all candidates instead, each with the weight of its likelihood, and mixes it with
isotonic maps of itself, with a share that is averaged in the same way. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import StratifiedKFold

from kdgraph.base import Rows
from kdgraph.density.graph import KernelDensityGraph, QueryResult
from kdgraph.density.posterior import (
    PSEUDO_COUNT_GRID,
    additive_smoothing,
    clipped_nll,
    fit_vote_power,
    grid_nll,
    temper,
)

EXPONENT_STEP = 2
"""Every second exponent of the search is averaged: neighbours differ by little."""
_PSEUDO_COUNTS = PSEUDO_COUNT_GRID[::2]
_VOTE_SHARES = np.linspace(0, 1, 21)
_ISOTONIC_SHARES = np.linspace(0, 1, 21)
# Candidates below this fraction of the largest weight are left out; their sum changes nothing.
_MIN_RELATIVE_WEIGHT = 1e-3
_N_FOLDS = 5
# Rows of the search whose masses at all exponents are in memory at once.
_CHUNK_ROWS = 4096


@dataclass(frozen=True)
class IsotonicMaps:
    """Increasing map of the probability of each class, and their share in the result.

    Attributes
    ----------
    share : float
        Weight s of the mapped probabilities, against those that are mapped.
    thresholds, values : tuple of Float[m], one for each class
        Knots of each map, which is linear between them.

    Notes
    -----
    Original to kdgraph.
    """

    share: float
    thresholds: tuple[np.ndarray, ...] = ()
    values: tuple[np.ndarray, ...] = ()

    def __call__(self, proba: np.ndarray) -> np.ndarray:
        """Return (1 - s)·p + s·map(p) of rows of probabilities, Float[n, K]."""
        if not self.share:
            return proba
        return (1 - self.share) * proba + self.share * self.map(proba)

    def map(self, proba: np.ndarray) -> np.ndarray:
        """Return mapped and normalised rows, Float[n, K]; unchanged where all maps are 0."""
        mapped = np.column_stack(
            [
                np.interp(column, thresholds, values)
                for column, thresholds, values in zip(
                    proba.T, self.thresholds, self.values, strict=True
                )
            ]
        )
        total = mapped.sum(axis=1, keepdims=True)
        return np.where(total > 0, mapped / np.where(total > 0, total, 1.0), proba)

    @classmethod
    def fit(cls, proba: np.ndarray, rows: Rows, share: float = 1.0) -> IsotonicMaps:
        """Fit the map of each class to rows (m of them) with probabilities Float[m, K]."""
        thresholds, values = [], []
        for k, column in enumerate(proba.T):
            fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(
                column, rows.y == k, sample_weight=rows.weight
            )
            thresholds.append(fitted.X_thresholds_)
            values.append(fitted.y_thresholds_)
        return cls(share, tuple(thresholds), tuple(values))


@dataclass(frozen=True)
class AveragedPosterior:
    """Weighted average of query posteriors, mixed with isotonic maps of itself.

    P(y|x) = Σ_β u_β·vote^β/Σ + Σ_k Σ_a w_ka·(masses_k + a·prior)/(Σ masses_k + a), then (1 - s)·P +
    s·isotonic(P).

    Attributes
    ----------
    exponents : Float[k]
        Exponents that :meth:`KernelDensityGraph.query` has to evaluate.
    pseudo_counts : Float[a]
        Pseudo-counts.
    kernel_weights : Float[k, a]
        Weights w.
    vote_powers, vote_weights : Float[b]
        Powers β of the vote, and weights u.
    prior : Float[K]
        Class prior.
    maps : IsotonicMaps
        Maps of the average.

    Notes
    -----
    Original to kdgraph.
    """

    exponents: np.ndarray
    pseudo_counts: np.ndarray
    kernel_weights: np.ndarray
    vote_powers: np.ndarray
    vote_weights: np.ndarray
    prior: np.ndarray
    maps: IsotonicMaps = IsotonicMaps(0.0)

    def __call__(
        self, query_result: QueryResult, graph: KernelDensityGraph
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior, Float[n, K], and the log density, Float[n]."""
        vote = graph.partition.vote(query_result.locations)
        return self.mix(query_result.masses, vote), query_result.log_density

    def mix(self, masses: np.ndarray, vote: np.ndarray) -> np.ndarray:
        """Return the posterior, Float[n, K], of masses Float[n, K, k] and votes Float[n, K]."""
        return self.maps(self.average(masses, vote))

    def average(self, masses: np.ndarray, vote: np.ndarray) -> np.ndarray:
        """Return the average before the isotonic maps, Float[n, K]."""
        total = np.zeros_like(vote)
        for power, weight in zip(self.vote_powers, self.vote_weights, strict=True):
            if weight:
                total += weight * temper(vote, power)
        for k, weights in enumerate(self.kernel_weights):
            for pseudo_count, weight in zip(self.pseudo_counts, weights, strict=True):
                if weight:
                    total += weight * additive_smoothing(masses[:, :, k], pseudo_count, self.prior)
        # The weights sum to 1 up to rounding.
        return total / total.sum(axis=1, keepdims=True)

    def describe(self) -> dict[str, float]:
        """Return the means of the parameters, by weight, for the record."""
        vote_share = float(self.vote_weights.sum())
        kernel = self.kernel_weights.sum(axis=1)
        return {
            "exponent": float(kernel @ self.exponents / kernel.sum()) if kernel.any() else 0.0,
            "n_exponents": len(self.exponents),
            "vote_share": vote_share,
            "vote_power": float(self.vote_weights @ self.vote_powers / vote_share)
            if vote_share
            else 1.0,
            "isotonic_share": self.maps.share,
        }


def average_posteriors(
    masses_of: Callable[[slice], np.ndarray],
    vote: np.ndarray,
    rows: Rows,
    prior: np.ndarray,
    *,
    exponents: np.ndarray,
    pseudo_count: float | Literal["auto"] = "auto",
    vote_share: float | Literal["auto"] = "auto",
    vote_power: float | Literal["auto"] = "auto",
    isotonic_share: float | Literal["auto"] = "auto",
    random_state: Any = None,
) -> AveragedPosterior:
    """Average query posteriors with weights proportional to their likelihood.

    Parameters
    ----------
    masses_of : callable
        Function of a slice of the rows that returns their class masses at all ``exponents``,
        Float[c, K, k], without the mass of each row itself.
    vote : Float[m, K]
        Class probabilities of the parent, which was not fitted on the rows.
    rows : Rows
        The rows, m of them.
    prior : Float[K]
        Class prior.
    exponents : Float[k]
        Exponents to average over.
    pseudo_count, vote_share, vote_power, isotonic_share : float or "auto", default="auto"
        Fixed values, or "auto" for the average over a grid.
    random_state : int, RandomState or None, default=None
        Seed of the folds that choose the isotonic share.

    Returns
    -------
    AveragedPosterior
        The average.

    Notes
    -----
    Original to kdgraph. The weight of a candidate is exp(-Σ NLL over the rows), with equal prior
    weights: Bayesian model averaging over the grid, where each row is predicted without itself. As
    the rows grow in number, one candidate takes all the weight, and the average is the search of
    :func:`~kdgraph.density.posterior.search_query_posterior`.
    """
    pseudo_counts = _PSEUDO_COUNTS if pseudo_count == "auto" else np.array([pseudo_count])
    vote_shares = _VOTE_SHARES if vote_share == "auto" else np.array([vote_share])
    powers = (
        list(dict.fromkeys([1.0, fit_vote_power(vote, rows)]))
        if vote_power == "auto"
        else [float(vote_power)]
    )
    scores = np.zeros((len(powers), len(exponents), len(pseudo_counts), len(vote_shares)))
    for chunk in _chunks(len(rows)):
        masses = masses_of(chunk)
        for power_scores, power in zip(scores, powers, strict=True):
            tempered = temper(vote[chunk], power)
            power_scores += grid_nll(
                masses, tempered, rows[chunk], prior, pseudo_counts, vote_shares
            )
    weights = _likelihood_weights(scores)
    kernel_weights = (weights * (1 - vote_shares)).sum(axis=(0, 3))
    is_used = kernel_weights.any(axis=1)
    posterior = AveragedPosterior(
        exponents=exponents[is_used],
        pseudo_counts=pseudo_counts,
        kernel_weights=kernel_weights[is_used],
        vote_powers=np.array(powers),
        vote_weights=(weights * vote_shares).sum(axis=(1, 2, 3)),
        prior=prior,
    )
    if isotonic_share == 0:
        return posterior
    average = np.concatenate(
        [
            posterior.average(masses_of(chunk)[:, :, is_used], vote[chunk])
            for chunk in _chunks(len(rows))
        ]
    )
    maps = _fit_isotonic_maps(average, rows, isotonic_share, random_state)
    return AveragedPosterior(**{**vars(posterior), "maps": maps})


def _chunks(n_rows: int) -> list[slice]:
    """Return slices of all rows."""
    return [slice(start, start + _CHUNK_ROWS) for start in range(0, n_rows, _CHUNK_ROWS)]


def _likelihood_weights(scores: np.ndarray) -> np.ndarray:
    """Return weights proportional to exp(-scores), without those that are negligible."""
    weights = np.exp(scores.min() - scores)
    weights[weights < _MIN_RELATIVE_WEIGHT] = 0.0
    return weights / weights.sum()


def _fit_isotonic_maps(
    proba: np.ndarray, rows: Rows, share: float | Literal["auto"], random_state: Any
) -> IsotonicMaps:
    """Return isotonic maps of all rows, with the share that cross-validation gives them."""
    # Maps that are fitted to the rows that they are evaluated on would always win, so that the
    # share is chosen by maps of the other folds.
    if share != "auto":
        return IsotonicMaps.fit(proba, rows, float(share))
    n_folds = min(_N_FOLDS, int(np.bincount(rows.y)[np.unique(rows.y)].max()))
    if n_folds < 2:
        return IsotonicMaps(0.0)
    mapped = np.empty_like(proba)
    fold_ids = _draw_stratified_folds(rows.y, n_folds, random_state)
    for f in range(n_folds):
        inside = fold_ids == f
        mapped[inside] = IsotonicMaps.fit(proba[~inside], rows[~inside]).map(proba[inside])
    nll = [clipped_nll((1 - s) * proba + s * mapped, rows) for s in _ISOTONIC_SHARES]
    share = float(_ISOTONIC_SHARES @ _likelihood_weights(np.array(nll)))
    return IsotonicMaps.fit(proba, rows, share)


def _draw_stratified_folds(y: np.ndarray, n_folds: int, random_state: Any) -> np.ndarray:
    """Return the fold of each row, Int[m], drawn by class."""
    import warnings

    fold = np.empty(len(y), dtype=np.intp)
    # A class with fewer rows than folds is in some of them only, of which scikit-learn warns.
    with warnings.catch_warnings(action="ignore"):
        splits = StratifiedKFold(n_folds, shuffle=True, random_state=random_state).split(y, y)
        for f, (_, inside) in enumerate(splits):
            fold[inside] = f
    return fold
