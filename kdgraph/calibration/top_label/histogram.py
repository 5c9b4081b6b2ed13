"""Histogram binning of top-label confidence, over all classes or class by class."""

from __future__ import annotations

import warnings
from dataclasses import KW_ONLY, dataclass

import numpy as np

from kdgraph.calibration.top_label.base import TopLabelCalibrator
from kdgraph.metrics import TopLabel
from kdgraph.metrics.calibration import Strategy, bin_edges, bin_of
from kdgraph.parameters import Count


@dataclass(eq=False, repr=False)
class HistogramBinning(TopLabelCalibrator):
    """The share of right predictions among calibration rows of the same class and bin of scores.

    Parameters
    ----------
    estimator, fill_proba, calibration_size, random_state : as in :class:`TopLabelCalibrator`.
    bins : how many, from 1.
    strategy : "uniform": equal widths over [0, 1]. "mass": equal shares of the rows of a class, ties together.
    by_class : bins of each predicted class; False: one set of bins for all.

    Attributes
    ----------
    edges_ : Float[b + 1] for each class, from 0 to 1; a bin holds ``lower < s <= upper``, the first one 0 too.
    accuracy_ : Float[b] for each class: the share of right predictions in each bin.
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
    by_class: bool = True

    def _fit_confidence(self, top: TopLabel, correct: np.ndarray, weight: np.ndarray) -> None:
        of_class = self._bins_for(top.predicted)
        self.edges_, self.accuracy_, precision = [], [], []
        everywhere = float(np.average(correct, weights=weight))
        never = []
        for k in range(len(self.classes_) if self.by_class else 1):
            mine = np.flatnonzero((of_class == k) & (weight > 0))
            if not len(mine):
                never.append(self.classes_[k])
            precision.append(float(np.average(correct[mine], weights=weight[mine])) if len(mine) else everywhere)
            edges = bin_edges(top.confidence[mine], self.bins, self.strategy) if len(mine) else np.array([0.0, 1.0])
            index = bin_of(top.confidence[mine], edges)
            rows = np.bincount(index, weight[mine], minlength=len(edges) - 1)
            right = np.bincount(index, weight[mine] * correct[mine], minlength=len(edges) - 1)
            self.edges_.append(edges)
            self.accuracy_.append(np.where(rows > 0, right / np.where(rows > 0, rows, 1), precision[-1]))
        self.precision_ = np.array(precision)
        if never:
            named = f"{', '.join(map(str, never[:5]))}{f' and {len(never) - 5} more' if len(never) > 5 else ''}"
            warnings.warn(f"no calibration row is predicted as {named}: the confidence there is that of all rows", stacklevel=4)

    def _confidence(self, top: TopLabel) -> np.ndarray:
        of_class, found = self._bins_for(top.predicted), np.empty(len(top))
        for k in np.unique(of_class).tolist():
            mine = of_class == k
            found[mine] = self.accuracy_[k][bin_of(top.confidence[mine], self.edges_[k])]
        return found

    def _bins_for(self, predicted: np.ndarray) -> np.ndarray:
        """Int[n]: which of the sets of bins is for each row."""
        return predicted if self.by_class else np.zeros_like(predicted)
