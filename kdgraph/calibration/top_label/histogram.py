"""Histogram binning of top-label confidence, over all classes or class by class."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np

from kdgraph.calibration.ties import SAME
from kdgraph.calibration.top_label.curves import Curve, CurveCalibrator
from kdgraph.metrics.calibration import Strategy, bin_edges, bin_of
from kdgraph.parameters import Count


@dataclass(eq=False, repr=False)
class HistogramBinning(CurveCalibrator):
    """The share of right predictions among calibration rows of the same class and bin of scores.

    Parameters
    ----------
    estimator, by_class, pool, fill_proba, calibration_size, random_state : as in :class:`CurveCalibrator`.
    bins : how many, from 1.
    strategy : "uniform": equal widths over [0, 1]. "mass": equal shares of the rows of a class, ties together.

    Attributes
    ----------
    curves_ : of each class ``edges``, Float[b + 1] from 0 to 1, a bin holds ``lower < s <= upper``, the first one 0 too; ``share``,
        Float[b], that of right predictions in each bin; and ``rows``, Float[b], what those in each bin weigh.
    precision_ : Float[K]: the share of right predictions of each class (Conf1), which empty bins have.

    Notes
    -----
    Salamon et al., Eq. 6, whose partition starts at 0 and whose text says (b_i, b_i+1]. Zadrozny and Elkan 2001 for two classes; class by
    class, it is the top-label histogram binning of Gupta and Ramdas 2022. A class that is never predicted on calibration rows has no
    precision of its own: it gets that of all rows, with a warning that names it.

    Examples
    --------
    >>> from kdgraph.parents import GivenScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]]), np.array([0, 1, 1, 1])
    >>> parent = FrozenEstimator(GivenScores().fit(X))
    >>> HistogramBinning(parent).fit(X, y, X_calibration=X, y_calibration=y).predict_confidence(X)
    array([0.5, 0.5, 1. , 1. ])
    """

    _: KW_ONLY
    bins: Count = 10
    strategy: Strategy = "uniform"

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        edges = bin_edges(score, self.bins, self.strategy)
        index = bin_of(score - SAME, edges)
        rows, right = (np.bincount(index, of, minlength=len(edges) - 1) for of in (weight, weight * correct))
        precision = right.sum() / rows.sum()
        return {"edges": edges, "rows": rows, "share": np.where(rows > 0, right / np.where(rows > 0, rows, 1), precision)}

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return curve["share"][bin_of(score - SAME, curve["edges"])]

    def _rows_at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return curve["rows"][bin_of(score - SAME, curve["edges"])]
