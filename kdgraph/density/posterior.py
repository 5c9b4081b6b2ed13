"""Posterior inside the training distribution, and the fit of its parameters.

:class:`QueryPosterior` mixes the classes of the rows around a query with the probabilities of the
parent. Its parameters, exponent k·log n (Dey et al. 2024, Eq. 15), pseudo-count, weight and power
of the parent, are fitted by :func:`fit_posterior` on rows that are each predicted without
themselves; :mod:`kdgraph.density.out_of_sample` has the three sources of such rows. An average of
kernel and parent cannot move one class towards another, nor bend a reliability curve:
:class:`PosteriorMaps` mixes it with structured matrix scalings of the parent and of itself, and
with isotonic maps of the mixture. All of it is original to kdgraph; Dey et al. evaluate the
posterior at the centre of the nearest polytope (:mod:`kdgraph.density.published`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from kdgraph.base import Rows
from kdgraph.base.softmax_map import SoftmaxMap, fit_structured_scaling
from kdgraph.density.graph import KernelDensityGraph, QueryResult

ProbabilityMap = Callable[[np.ndarray], np.ndarray]
Automatic = float | Literal["auto"]
"""A parameter: a number, or "auto" to fit it."""

EXPONENT_FACTOR_GRID = np.geomspace(0.02, 20, 24)
"""Factors of log n in the exponent of Eq. 15: from nearly flat (a power of 0.14 at 1,000 rows) to
the nearest polytope alone.
"""
PSEUDO_COUNT_GRID = np.geomspace(1e-5, 10, 13)
"""Pseudo-counts a of the search."""
PARENT_WEIGHT_GRID = np.linspace(0, 1, 5)
"""Weights v of the parent in the search."""
PARENT_POWER_GRID = np.geomspace(0.1, 10, 41)
"""Powers β of the parent's probabilities, inverse temperatures. They are below 1 for an
overconfident network, and above 1 for a forest, whose fully grown trees are underconfident.
"""
# An average needs fewer exponents and pseudo-counts than a search, neighbours of which differ by
# little, and more weights of the parent.
_AVERAGE_STEP = 2
_AVERAGE_WEIGHTS = np.linspace(0, 1, 21)

# Rows of the fit whose masses at all exponents are in memory at once, so that memory does not grow
# with rows × classes × exponents.
_CHUNK_ROWS = 4096
# Masses that are kept between their two uses: 16 MB.
_MOST_MASSES = 2_000_000

# Fractions of the maps, alone and where there are two, and folds that predict them.
_FRACTIONS = np.linspace(0, 1, 21)
_COARSE_FRACTIONS = np.linspace(0, 1, 11)
_N_MAP_FOLDS = 5

MIN_PROBABILITY = 1e-6
"""Least probability of a row's class. Without it, one empty neighbourhood would decide."""
# Rows that are scored at once, so that all candidates of an exponent stay in the cache.
_GRID_ROWS = 512
# Weights below this fraction of the largest one are left out; their sum changes nothing.
_MIN_RELATIVE_WEIGHT = 1e-3
# Weight of exponents that are not evaluated, at most: each costs a power for every row that a query
# meets. It moves to the nearest of the others, so that no probability of the average changes by
# more than this, and by a tenth of it where posteriors of neighbouring exponents differ by .1.
_MAX_MOVED_WEIGHT = 0.02


@dataclass(frozen=True)
class QueryPosterior:
    """Weighted average over candidates of class masses around the query and of the parent.

    P(y|x) = Σ_β u_β·q^β/Σ + Σ_k Σ_a w_ka·(masses_k + a·prior)/(Σ masses_k + a), where q are the
    probabilities of the parent, then the ``maps`` of it. All weights add up to 1.

    Attributes
    ----------
    exponents : Float[k]
        Exponents that :meth:`KernelDensityGraph.query` has to evaluate.
    pseudo_counts : Float[a]
        Pseudo-counts.
    kernel_weights : Float[k, a]
        Weights w.
    parent_powers, parent_weights : Float[b]
        Powers β of the parent's probabilities, and weights u.
    prior : Float[K]
        Class prior.
    maps : PosteriorMaps or None, default=None
        Maps of the average and of the parent; None for a single candidate.
    """

    exponents: np.ndarray
    pseudo_counts: np.ndarray
    kernel_weights: np.ndarray
    parent_powers: np.ndarray
    parent_weights: np.ndarray
    prior: np.ndarray
    maps: PosteriorMaps | None = None

    def __call__(
        self, query_result: QueryResult, graph: KernelDensityGraph
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the posterior, Float[n, K], and the log density, Float[n]."""
        parent_proba = None
        if self.maps is not None or self.parent_weights.any():
            parent_proba = graph.partition.parent_proba(query_result.locations)
        return self.mix(query_result.masses, parent_proba), query_result.log_density

    def mix(self, masses: np.ndarray, parent_proba: np.ndarray | None) -> np.ndarray:
        """Return the posterior, Float[n, K].

        ``masses``: Float[n, K, k], at each exponent; ``parent_proba``: Float[n, K], or None where
        they have no weight.
        """
        average = self._average(masses, parent_proba)
        if self.maps is None or parent_proba is None:
            return average
        # The weights of many candidates add up to 1 up to rounding.
        return self.maps(average / average.sum(axis=1, keepdims=True), parent_proba)

    def _average(self, masses: np.ndarray, parent_proba: np.ndarray | None) -> np.ndarray:
        """Return the average of the candidates, Float[n, K]."""
        total = np.zeros((len(masses), len(self.prior)))
        if parent_proba is not None:
            for power, weight in zip(self.parent_powers, self.parent_weights, strict=True):
                if weight:
                    total += weight * temper(parent_proba, power)
        for k, weights in enumerate(self.kernel_weights):
            # Pseudo-counts share the masses: each costs a division for a row, not for each class.
            a, mass = self.pseudo_counts[weights > 0], masses[:, :, k]
            shares = weights[weights > 0] / (mass.sum(axis=1, keepdims=True) + a)
            total += mass * shares.sum(axis=1, keepdims=True)
            total += self.prior * (shares * a).sum(axis=1, keepdims=True)
        return total

    def describe(self) -> dict[str, float]:
        """Return the means of the parameters, by weight, for the record."""
        by_exponent, by_count = self.kernel_weights.sum(axis=1), self.kernel_weights.sum(axis=0)
        kernel, parent_weight = float(by_count.sum()), float(self.parent_weights.sum())
        return {
            "exponent": float(by_exponent @ self.exponents) / kernel if kernel else 0.0,
            "n_exponents": len(self.exponents),
            "pseudo_count": float(by_count @ self.pseudo_counts) / kernel if kernel else 0.0,
            "parent_weight": parent_weight,
            "parent_power": float(self.parent_weights @ self.parent_powers) / parent_weight
            if parent_weight
            else 1.0,
            **({} if self.maps is None else self.maps.describe()),
        }


@dataclass(frozen=True)
class PosteriorParameters:
    """Parameters of the posterior that a user can fix.

    Attributes
    ----------
    k, pseudo_count, parent_weight, parent_power : float or "auto", default="auto"
        Factor of log n in the exponent, pseudo-count, weight and power of the parent's
        probabilities. "auto" for a fit.
    """

    k: Automatic = "auto"
    pseudo_count: Automatic = "auto"
    parent_weight: Automatic = "auto"
    parent_power: Automatic = "auto"

    def exponents(self, n_rows: int) -> np.ndarray:
        """Return the exponents k log n to try for n training rows (Eq. 15), Float[k]."""
        factors = EXPONENT_FACTOR_GRID if self.k == "auto" else np.array([self.k])
        return factors * math.log(n_rows)


def fit_posterior(
    masses_at: Callable[[np.ndarray], Callable[[slice], np.ndarray]],
    parent_proba: np.ndarray,
    rows: Rows,
    prior: np.ndarray,
    parameters: PosteriorParameters,
    n_rows: int,
    *,
    average: bool,
) -> QueryPosterior:
    """Fit the posterior to rows that are each predicted without themselves.

    Parameters
    ----------
    masses_at : callable
        Function of exponents (Float[k]) that returns a function of a slice of the rows, which
        returns their class masses, Float[c, K, k], without the mass of each row itself.
    parent_proba : Float[m, K]
        Probabilities of a parent that was not fitted on the rows.
    rows, prior, parameters
        The m rows, the class prior, Float[K], and the parameters that are fixed.
    n_rows : int
        Number of training rows n of Eq. 15.
    average : bool
        Average all candidates, with maps of the average. False for the candidate of least NLL.

    Notes
    -----
    All combinations of exponent, pseudo-count and weight of the parent are scored. The power of the
    parent's probabilities is fitted first, alone, by temperature scaling: they are tried with this
    power and with power 1, not with every power, which would multiply the grid by 41.

    With some hundred rows, the candidate of least NLL on a grid is partly chosen by noise. On 18
    two-class tables with 240 training rows, out-of-bag parameters chosen in this way cost .006 nats
    against those of the same number of other rows, on 17 tables. The weight of a candidate in the
    average is exp(-Σ NLL over the rows), with equal prior weights: Bayesian model averaging over
    the grid, where each row is predicted without itself. As the rows grow in number, one candidate
    takes all the weight.
    """
    step = _AVERAGE_STEP if average else 1
    exponents = parameters.exponents(n_rows)[::step]
    pseudo_counts = _grid(parameters.pseudo_count, PSEUDO_COUNT_GRID[::step])
    weights_grid = _AVERAGE_WEIGHTS if average else PARENT_WEIGHT_GRID
    parent_weights = _grid(parameters.parent_weight, weights_grid)
    powers = [parameters.parent_power]
    if parameters.parent_power == "auto":
        powers = list(dict.fromkeys([1.0, fit_parent_power(parent_proba, rows)]))
    masses_of = _remembered(masses_at(exponents), parent_proba.size * len(exponents))
    scores = np.zeros((len(powers), len(exponents), len(pseudo_counts), len(parent_weights)))
    for chunk in _chunks(len(rows)):
        masses = masses_of(chunk)
        for power_scores, power in zip(scores, powers, strict=True):
            tempered = temper(parent_proba[chunk], float(power))
            power_scores += grid_nll(
                masses, tempered, rows[chunk], prior, pseudo_counts, parent_weights
            )
    weights = likelihood_weights(scores) if average else weight_of_best(scores)
    used, kernel_weights = _few_exponents((weights * (1 - parent_weights)).sum(axis=(0, 3)))
    posterior = QueryPosterior(
        exponents=exponents[used],
        pseudo_counts=pseudo_counts,
        kernel_weights=kernel_weights,
        parent_powers=np.array(powers, dtype=np.float64),
        parent_weights=(weights * parent_weights).sum(axis=(1, 2, 3)),
        prior=prior,
    )
    if not average:
        return posterior
    mixed = replace(posterior, maps=PosteriorMaps())
    own_proba = np.concatenate(
        [
            mixed.mix(masses_of(chunk)[:, :, used], parent_proba[chunk])
            for chunk in _chunks(len(rows))
        ]
    )
    return replace(posterior, maps=fit_posterior_maps(own_proba, parent_proba, rows))


def _few_exponents(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the exponents that are evaluated, Int[u], and their weights, Float[u, a]."""
    by_exponent = weights.sum(axis=1)
    order, most = np.argsort(by_exponent, kind="stable"), by_exponent.max()
    is_light = np.cumsum(by_exponent[order]) <= min(_MAX_MOVED_WEIGHT, by_exponent.sum() - most)
    used = np.sort(order[~is_light & (most > 0)])
    moved = np.zeros((len(used), weights.shape[1]))
    for k in np.flatnonzero(by_exponent):
        moved[np.abs(used - k).argmin()] += weights[k]
    return used, moved


def _grid(value: Automatic, grid: np.ndarray) -> np.ndarray:
    return grid if value == "auto" else np.array([value])


def fit_parent_power(parent_proba: np.ndarray, rows: Rows) -> float:
    """Return the power of the parent's probabilities with the smallest NLL on ``rows``.

    This is temperature scaling (Guo et al. 2017) of Float[m, K] on :data:`PARENT_POWER_GRID`.
    """
    nll = [clipped_nll(temper(parent_proba, power), rows) for power in PARENT_POWER_GRID]
    return float(PARENT_POWER_GRID[np.argmin(nll)])


def temper(proba: np.ndarray, power: float) -> np.ndarray:
    """Return probabilities, Float[n, K], raised to ``power`` and normalised.

    This divides the logits by a temperature of 1/power.
    """
    if power == 1:
        return proba
    raised = (proba / proba.max(axis=1, keepdims=True)) ** power
    return raised / raised.sum(axis=1, keepdims=True)


def _remembered(
    masses_of: Callable[[slice], np.ndarray], size: int
) -> Callable[[slice], np.ndarray]:
    """Return a function that computes the masses of each chunk once, if they are few enough."""
    known: dict[int, np.ndarray] = {}

    def look_up(chunk: slice) -> np.ndarray:
        if chunk.start not in known:
            known[chunk.start] = masses_of(chunk)
        return known[chunk.start]

    return look_up if size <= _MOST_MASSES else masses_of


def _chunks(n_rows: int) -> list[slice]:
    return [slice(start, start + _CHUNK_ROWS) for start in range(0, n_rows, _CHUNK_ROWS)]


@dataclass(frozen=True)
class IsotonicMaps:
    """Increasing map of the probability of each class.

    Attributes
    ----------
    thresholds, values : tuple of Float[m], one for each class
        Knots of each map, which is linear between them.
    """

    thresholds: tuple[np.ndarray, ...]
    values: tuple[np.ndarray, ...]

    def __call__(self, proba: np.ndarray) -> np.ndarray:
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
    def fit(cls, proba: np.ndarray, rows: Rows) -> IsotonicMaps:
        """Fit the map of each class to rows (m of them) with probabilities Float[m, K]."""
        thresholds, values = [], []
        for k, column in enumerate(proba.T):
            fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(
                column, rows.y == k, sample_weight=rows.weight
            )
            thresholds.append(fitted.X_thresholds_)
            values.append(fitted.y_thresholds_)
        return cls(tuple(thresholds), tuple(values))


@dataclass(frozen=True)
class PosteriorMaps:
    """Mixture of a posterior with matrix scalings of the parent and of itself, and isotonic maps.

    q = (1 - a - b)·p + a·A(parent) + b·B(p), then (1 - s)·q + s·isotonic(q).

    Attributes
    ----------
    parent_fraction, posterior_fraction : float, default=0.0
        Fractions a and b.
    parent_map, posterior_map : SoftmaxMap or None, default=None
        Structured matrix scalings A and B; None if their fraction is 0.
    isotonic_fraction : float, default=0.0
        Fraction s.
    isotonic : IsotonicMaps or None, default=None
        Isotonic maps of q; None if their fraction is 0.
    """

    parent_fraction: float = 0.0
    parent_map: SoftmaxMap | None = None
    posterior_fraction: float = 0.0
    posterior_map: SoftmaxMap | None = None
    isotonic_fraction: float = 0.0
    isotonic: IsotonicMaps | None = None

    def __call__(self, posterior: np.ndarray, parent_proba: np.ndarray) -> np.ndarray:
        """Return the mixture, Float[n, K], of posteriors and of the parent, Float[n, K]."""
        proba = posterior
        if self.parent_map is not None or self.posterior_map is not None:
            proba = (1.0 - self.parent_fraction - self.posterior_fraction) * posterior
            if self.parent_map is not None:
                proba = proba + self.parent_fraction * self.parent_map(parent_proba)
            if self.posterior_map is not None:
                proba = proba + self.posterior_fraction * self.posterior_map(posterior)
        if self.isotonic is None:
            return proba
        return (1.0 - self.isotonic_fraction) * proba + self.isotonic_fraction * self.isotonic(
            proba
        )

    def describe(self) -> dict[str, float]:
        """Return the fractions for the record."""
        return {
            "parent_scaling_fraction": self.parent_fraction,
            "posterior_scaling_fraction": self.posterior_fraction,
            "isotonic_fraction": self.isotonic_fraction,
        }


def fit_posterior_maps(
    posterior: np.ndarray, parent_proba: np.ndarray, rows: Rows
) -> PosteriorMaps:
    """Fit the maps of a posterior to rows that neither it nor the parent depends on.

    The maps are fitted to all rows, with fractions for which maps of the other folds predicted each
    row: maps of the rows that they are evaluated on would always win. There are none if the rows of
    all folds but one may have a single class. Weights of fractions are proportional to the
    likelihood, as those of :func:`fit_posterior`. Matrix scaling is that of Berta et al. (2025).
    ``posterior``, ``parent_proba``: Float[m, K], computed without each row.
    """
    counts = np.bincount(rows.y, minlength=2)
    n_folds = min(_N_MAP_FOLDS, int(counts.max()))
    if n_folds < 2 or (counts > 1).sum() < 2:
        return PosteriorMaps()
    fold = _draw_stratified_folds(rows.y, n_folds)
    # BLAS adds in another order for another number of threads.
    with threadpool_limits(1, user_api="blas"):
        scaled = [
            _predict_by_folds(proba, rows, fold, _fit_scaling)
            for proba in (parent_proba, posterior)
        ]
        candidates = [
            (a, b) for a in _COARSE_FRACTIONS for b in _COARSE_FRACTIONS if a + b < 1 + 1e-9
        ]
        a, b = _average_fractions(posterior, scaled, candidates, rows)
        mixture = (1 - a - b) * posterior + a * scaled[0] + b * scaled[1]
        mapped = _predict_by_folds(mixture, rows, fold, IsotonicMaps.fit)
        (s,) = _average_fractions(mixture, [mapped], [(s,) for s in _FRACTIONS], rows)
        return PosteriorMaps(
            parent_fraction=float(a),
            parent_map=_fit_scaling(parent_proba, rows) if a else None,
            posterior_fraction=float(b),
            posterior_map=_fit_scaling(posterior, rows) if b else None,
            isotonic_fraction=float(s),
            # Scalings of all rows are a little too confident on these rows, so the isotonic maps
            # are fitted to the mixture by scalings of the other folds.
            isotonic=IsotonicMaps.fit(mixture, rows) if s else None,
        )


def _fit_scaling(proba: np.ndarray, rows: Rows) -> SoftmaxMap:
    return fit_structured_scaling(proba, rows.y, rows.weight)


def _predict_by_folds(
    proba: np.ndarray,
    rows: Rows,
    fold: np.ndarray,
    fit: Callable[[np.ndarray, Rows], ProbabilityMap],
) -> np.ndarray:
    """Return probabilities, Float[m, K], mapped by a map of the rows of all other folds."""
    mapped = np.empty_like(proba)
    for f in np.unique(fold):
        inside = fold == f
        mapped[inside] = fit(proba[~inside], rows[~inside])(proba[inside])
    return mapped


def _average_fractions(
    proba: np.ndarray,
    mapped: Sequence[np.ndarray],
    candidates: Sequence[tuple[float, ...]],
    rows: Rows,
) -> np.ndarray:
    """Return the fractions of mapped probabilities, Float[j], averaged by likelihood.

    ``proba`` and each of the j ``mapped`` are Float[m, K]; a candidate is a fraction of each.
    """
    # The likelihood is of the true class alone.
    true_class = np.arange(len(rows)), rows.y
    true = np.array([each[true_class] for each in (proba, *mapped)])
    nll = [
        nll_of_true_class(np.array([1 - sum(fractions), *fractions]) @ true, rows)
        for fractions in candidates
    ]
    return likelihood_weights(np.array(nll)) @ np.array(candidates)


def _draw_stratified_folds(y: np.ndarray, n_folds: int) -> np.ndarray:
    fold = np.empty(len(y), dtype=np.intp)
    # A class with fewer rows than folds is in some of them only, of which scikit-learn warns.
    with warnings.catch_warnings(action="ignore"):
        splits = StratifiedKFold(n_folds, shuffle=True, random_state=0).split(y, y)
        for f, (_, inside) in enumerate(splits):
            fold[inside] = f
    return fold


def clipped_nll(proba: np.ndarray, rows: Rows) -> float:
    """Return the weighted sum of negative log likelihoods, of probabilities Float[n, K].

    Probabilities count as at least :data:`MIN_PROBABILITY`.
    """
    return nll_of_true_class(proba[np.arange(len(rows)), rows.y], rows)


def mean_nll(proba: np.ndarray, rows: Rows) -> float:
    """Return :func:`clipped_nll` of the probabilities Float[n, K] by unit of weight, in nats."""
    return clipped_nll(proba, rows) / float(rows.weight.sum())


def nll_of_true_class(proba: np.ndarray, rows: Rows) -> float:
    """Return :func:`clipped_nll` of the probabilities of each row's class, Float[n]."""
    return -float(np.log(np.maximum(proba, MIN_PROBABILITY)) @ rows.weight)


@np.errstate(under="ignore")
def likelihood_weights(nll: np.ndarray) -> np.ndarray:
    """Return weights proportional to exp(-nll) with sum 1, without those that are negligible.

    >>> likelihood_weights(np.array([1.0, 1.0, 100.0]))
    array([0.5, 0.5, 0. ])
    """
    weights = np.exp(nll.min() - nll)
    weights[weights < _MIN_RELATIVE_WEIGHT] = 0.0
    return weights / weights.sum()


def weight_of_best(nll: np.ndarray) -> np.ndarray:
    """Return weight 1 for the first of the smallest values, and 0 for all others.

    >>> weight_of_best(np.array([3.0, 1.0, 1.0]))
    array([0., 1., 0.])
    """
    weights = np.zeros(nll.shape)
    weights.flat[np.argmin(nll)] = 1.0
    return weights


def grid_nll(
    masses: np.ndarray,
    parent_proba: np.ndarray,
    rows: Rows,
    prior: np.ndarray,
    pseudo_counts: np.ndarray,
    parent_weights: np.ndarray,
) -> np.ndarray:
    """Return the NLL of every candidate, Float[k, a, v], on m rows.

    ``masses``: Float[m, K, k], at each of k exponents; ``parent_proba``: Float[m, K], tempered;
    ``pseudo_counts``, ``parent_weights``: Float[a], Float[v], the grid.
    """
    # NLL needs the column of the true class only, so that the whole grid of pseudo-counts and
    # weights of an exponent is one array operation: Float[a, v, m].
    true_class = np.arange(len(rows)), rows.y
    true_mass, total_mass = masses[true_class], masses.sum(axis=1)
    a = pseudo_counts[:, None, None]
    scores = np.zeros((masses.shape[2], len(pseudo_counts), len(parent_weights)))
    for start in range(0, len(rows), _GRID_ROWS):
        block = slice(start, start + _GRID_ROWS)
        scaled_prior, true_proba = a * prior[rows.y[block]], parent_proba[true_class][block]
        of_parent, weight = parent_weights[:, None] * true_proba, 1 - parent_weights[:, None]
        for k in range(masses.shape[2]):
            smoothed = (true_mass[block, k] + scaled_prior) / (total_mass[block, k] + a)
            proba = of_parent + weight * smoothed
            np.maximum(proba, MIN_PROBABILITY, out=proba)
            scores[k] -= _weighted_log_sum(proba, rows.weight[block])
    return scores


def _weighted_log_sum(proba: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the sums of weight times log, Float[a, v], of probabilities Float[a, v, m].

    A logarithm takes several times as long as a product, so that rows of one weight are multiplied
    first: at most eight of them, each at least 1e-6.
    """
    if (weight != weight[0]).any():
        return np.log(proba) @ weight
    for _ in range(3):
        half = proba.shape[2] // 2
        if proba.shape[2] % 2:
            break
        proba = proba[:, :, :half] * proba[:, :, half:]
    return weight[0] * np.log(proba).sum(axis=2)
