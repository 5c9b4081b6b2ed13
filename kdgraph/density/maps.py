"""Maps of a posterior and of the vote, which are mixed with the posterior.

An average of kernel and vote cannot move one class towards another, nor bend a reliability curve.
:class:`PosteriorMaps` mixes it with structured matrix scalings of the vote and of itself, and with
isotonic maps of the mixture. All shares are averages, weighted by the likelihood of rows that the
maps were not fitted to. Original to kdgraph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from kdgraph.base import Rows
from kdgraph.base.softmax_map import SoftmaxMap, fit_structured_scaling
from kdgraph.density.posterior import nll_of_true_class

_SHARES = np.linspace(0, 1, 21)
_COARSE_SHARES = np.linspace(0, 1, 11)
_N_FOLDS = 5
# Weights below this fraction of the largest one are left out; their sum changes nothing.
_MIN_RELATIVE_WEIGHT = 1e-3

ProbabilityMap = Callable[[np.ndarray], np.ndarray]


@np.errstate(under="ignore")
def likelihood_weights(nll: np.ndarray) -> np.ndarray:
    """Return weights proportional to exp(-nll) with sum 1, without those that are negligible.

    >>> likelihood_weights(np.array([1.0, 1.0, 100.0]))
    array([0.5, 0.5, 0. ])
    """
    weights = np.exp(nll.min() - nll)
    weights[weights < _MIN_RELATIVE_WEIGHT] = 0.0
    return weights / weights.sum()


@dataclass(frozen=True)
class IsotonicMaps:
    """Increasing map of the probability of each class.

    Attributes
    ----------
    thresholds, values : tuple of Float[m], one for each class
        Knots of each map, which is linear between them.

    Notes
    -----
    Original to kdgraph.
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
    """Mixture of a posterior with matrix scalings of the vote and of itself, and isotonic maps.

    q = (1 - a - b)·p + a·A(vote) + b·B(p), then (1 - s)·q + s·isotonic(q).

    Attributes
    ----------
    vote_share, posterior_share : float, default=0.0
        Shares a and b.
    vote_map, posterior_map : SoftmaxMap or None, default=None
        Structured matrix scalings A and B; None if their share is 0.
    isotonic_share : float, default=0.0
        Share s.
    isotonic : IsotonicMaps or None, default=None
        Isotonic maps of q; None if their share is 0.

    Notes
    -----
    Original to kdgraph.
    """

    vote_share: float = 0.0
    vote_map: SoftmaxMap | None = None
    posterior_share: float = 0.0
    posterior_map: SoftmaxMap | None = None
    isotonic_share: float = 0.0
    isotonic: IsotonicMaps | None = None

    def __call__(self, posterior: np.ndarray, vote: np.ndarray) -> np.ndarray:
        """Return the mixture, Float[n, K], of posteriors and votes Float[n, K]."""
        proba = posterior
        if self.vote_map is not None or self.posterior_map is not None:
            proba = (1.0 - self.vote_share - self.posterior_share) * posterior
            if self.vote_map is not None:
                proba = proba + self.vote_share * self.vote_map(vote)
            if self.posterior_map is not None:
                proba = proba + self.posterior_share * self.posterior_map(posterior)
        if self.isotonic is None:
            return proba
        return (1.0 - self.isotonic_share) * proba + self.isotonic_share * self.isotonic(proba)

    def describe(self) -> dict[str, float]:
        """Return the shares for the record."""
        return {
            "vote_scaling_share": self.vote_share,
            "posterior_scaling_share": self.posterior_share,
            "isotonic_share": self.isotonic_share,
        }


def fit_posterior_maps(
    posterior: np.ndarray,
    vote: np.ndarray,
    rows: Rows,
    *,
    scaling_share: float | Literal["auto"] = "auto",
    isotonic_share: float | Literal["auto"] = "auto",
    random_state: Any = None,
) -> PosteriorMaps:
    """Fit the maps of a posterior to rows whose posterior and vote do not depend on the row.

    Parameters
    ----------
    posterior, vote : Float[m, K]
        Probabilities of the rows.
    rows : Rows
        The rows, m of them.
    scaling_share : float or "auto", default="auto"
        Share a + b of the matrix scalings, or "auto" for the average over a grid of a and b.
    isotonic_share : float or "auto", default="auto"
        Share s of the isotonic maps, or "auto" for the average over a grid.
    random_state : int, RandomState or None, default=None
        Seed of the folds.

    Returns
    -------
    PosteriorMaps
        Maps that are fitted to all rows, with shares for which maps of the other folds predicted
        each row: maps of the rows that they are evaluated on would always win. There are none if
        the rows of all folds but one may have a single class.

    Notes
    -----
    Original to kdgraph; matrix scaling is that of Berta et al. (2025), see
    :func:`~kdgraph.base.softmax_map.fit_structured_scaling`. Weights of shares are proportional to
    the likelihood, as those of :func:`~kdgraph.density.averaging.average_posteriors`.
    """
    counts = np.bincount(rows.y, minlength=2)
    n_folds = min(_N_FOLDS, int(counts.max()))
    if n_folds < 2 or (counts > 1).sum() < 2:
        return PosteriorMaps()
    fold = _draw_stratified_folds(rows.y, n_folds, random_state)
    fitted: dict[str, Any] = {}
    proba = posterior
    # BLAS adds in another order for another number of threads.
    with threadpool_limits(1, user_api="blas"):
        if scaling_share != 0:
            proba, fitted = _fit_scalings(posterior, vote, rows, fold, scaling_share)
        if isotonic_share != 0:
            mapped = _predict_by_folds(proba, rows, fold, IsotonicMaps.fit)
            share = (
                float(_average_shares(proba, [mapped], [(s,) for s in _SHARES], rows)[0])
                if isotonic_share == "auto"
                else float(isotonic_share)
            )
            if share:
                # Scalings of all rows are a little too confident on these rows, so the isotonic
                # maps are fitted to the mixture by scalings of the other folds.
                fitted |= {"isotonic_share": share, "isotonic": IsotonicMaps.fit(proba, rows)}
    return PosteriorMaps(**fitted)


def _fit_scalings(
    posterior: np.ndarray,
    vote: np.ndarray,
    rows: Rows,
    fold: np.ndarray,
    total: float | Literal["auto"],
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the mixture by maps of the other folds, Float[m, K], and the maps of all rows."""
    scaled = [_predict_by_folds(proba, rows, fold, _fit_scaling) for proba in (vote, posterior)]
    shares = (
        [(a, b) for a in _COARSE_SHARES for b in _COARSE_SHARES if a + b < 1 + 1e-9]
        if total == "auto"
        else [(total * part, total * (1 - part)) for part in _COARSE_SHARES]
    )
    a, b = _average_shares(posterior, scaled, shares, rows)
    mixture = (1 - a - b) * posterior + a * scaled[0] + b * scaled[1]
    return mixture, {
        "vote_share": float(a),
        "vote_map": _fit_scaling(vote, rows) if a else None,
        "posterior_share": float(b),
        "posterior_map": _fit_scaling(posterior, rows) if b else None,
    }


def _fit_scaling(proba: np.ndarray, rows: Rows) -> SoftmaxMap:
    """Return structured matrix scaling of rows with probabilities Float[m, K]."""
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


def _average_shares(
    proba: np.ndarray,
    mapped: Sequence[np.ndarray],
    candidates: Sequence[tuple[float, ...]],
    rows: Rows,
) -> np.ndarray:
    """Return the shares of mapped probabilities, Float[j], averaged by likelihood.

    ``proba`` and each of the j ``mapped`` are Float[m, K]; a candidate is a share of each.
    """
    # The likelihood is of the true class alone.
    true_class = np.arange(len(rows)), rows.y
    true = np.array([each[true_class] for each in (proba, *mapped)])
    nll = [
        nll_of_true_class(np.array([1 - sum(shares), *shares]) @ true, rows)
        for shares in candidates
    ]
    return likelihood_weights(np.array(nll)) @ np.array(candidates)


def _draw_stratified_folds(y: np.ndarray, n_folds: int, random_state: Any) -> np.ndarray:
    """Return the fold of each row, Int[m], drawn by class."""
    fold = np.empty(len(y), dtype=np.intp)
    # A class with fewer rows than folds is in some of them only, of which scikit-learn warns.
    with warnings.catch_warnings(action="ignore"):
        splits = StratifiedKFold(n_folds, shuffle=True, random_state=random_state).split(y, y)
        for f, (_, inside) in enumerate(splits):
            fold[inside] = f
    return fold
