"""Maps of a posterior and of the parent's probabilities, which are mixed with the posterior.

An average of kernel and parent cannot move one class towards another, nor bend a reliability curve.
:class:`PosteriorMaps` mixes it with structured matrix scalings of the parent and of itself, and
with isotonic maps of the mixture. All fractions are averages, weighted by the likelihood of rows
that the maps were not fitted to. Original to kdgraph.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.isotonic import IsotonicRegression
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

from kdgraph.base import Rows
from kdgraph.base.softmax_map import SoftmaxMap, fit_structured_scaling
from kdgraph.density.likelihood import likelihood_weights, nll_of_true_class

_FRACTIONS = np.linspace(0, 1, 21)
_COARSE_FRACTIONS = np.linspace(0, 1, 11)
_N_FOLDS = 5

ProbabilityMap = Callable[[np.ndarray], np.ndarray]


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

    Notes
    -----
    Original to kdgraph.
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

    Parameters
    ----------
    posterior, parent_proba : Float[m, K]
        Probabilities of the rows, computed without each row.
    rows : Rows
        The rows, m of them.

    Returns
    -------
    PosteriorMaps
        Maps that are fitted to all rows, with fractions for which maps of the other folds predicted
        each row: maps of the rows that they are evaluated on would always win. There are none if
        the rows of all folds but one may have a single class.

    Notes
    -----
    Original to kdgraph; matrix scaling is that of Berta et al. (2025), see
    :func:`~kdgraph.base.softmax_map.fit_structured_scaling`. Weights of fractions are proportional
    to the likelihood, as those of :func:`~kdgraph.density.posterior.fit_posterior`.
    """
    counts = np.bincount(rows.y, minlength=2)
    n_folds = min(_N_FOLDS, int(counts.max()))
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
    """Return the fold of each row, Int[m], drawn by class."""
    fold = np.empty(len(y), dtype=np.intp)
    # A class with fewer rows than folds is in some of them only, of which scikit-learn warns.
    with warnings.catch_warnings(action="ignore"):
        splits = StratifiedKFold(n_folds, shuffle=True, random_state=0).split(y, y)
        for f, (_, inside) in enumerate(splits):
            fold[inside] = f
    return fold
