"""Calibrators whose confidence is a curve over the score alone.

:class:`CurveCalibrator` is their base class: one curve for each predicted class, or one for all
classes (Salamon et al., Eq. 2). The module holds histogram binning, isotonic regression, beta
calibration and Venn-Abers predictors; cumulative and kernel density confidences have modules of
their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit
from sklearn.isotonic import IsotonicRegression

from kdgraph.base import Rows
from kdgraph.calibration.top_label.base import (
    BOUNDED,
    CONFIDENCE_CLIP,
    NEVER,
    NOT_CONVERGED,
    ONE_SIDED,
    SAME,
    ClassAccuracy,
    distinct,
    first_above,
    first_from,
    warn_of_labels,
)
from kdgraph.calibration.top_label.diagnostics import (
    CurveDiagnostics,
    FittedCurve,
    diagnose_curves,
    summarize_diagnostics,
    warn_of_curves,
    warn_of_unseen_scores,
)
from kdgraph.calibration.top_label.shrinkage import ShrinkageCalibrator
from kdgraph.calibration.top_label.temperature import are_separable, binary_loss, minimize_loss
from kdgraph.metrics import TopLabel
from kdgraph.metrics.reliability_bins import Strategy, bin_edges, bin_of
from kdgraph.parameters import Count

CurveParameters = dict[str, np.ndarray]
"""Fitted arrays of one class by name; empty if the class has no curve."""


@dataclass(eq=False, repr=False)
class CurveCalibrator(ShrinkageCalibrator):
    """Base class of confidences that are a curve over the score (Salamon et al., Eq. 2).

    A subclass implements ``_fit_curve(score, correct, weight)``, for rows of one class whose
    weights are not 0, and ``_evaluate(curve, score)``. An empty curve means that the fit reached a
    bound; an entry ``converged`` is false where an optimiser has not converged. A subclass whose
    curve rests on different rows at each score implements ``_support(curve, score)`` too. The
    shared confidence of shrinkage is the curve of all rows.

    Parameters
    ----------
    by_class : bool, default=True
        Fit a curve for each predicted class. False: one curve for all classes, without shrinkage.
    diagnostics : bool, default=False
        Call :meth:`diagnose` in ``fit``: warn of curves that oscillate or contradict their
        calibration rows, and keep the result for :meth:`describe` and
        :meth:`warn_of_unseen_scores`. The predictions do not depend on it.

    Attributes
    ----------
    curves_ : list of dict
        Fitted arrays of each class; ``shared_`` are those of all rows, if shrinkage is used.
    precision_ : ndarray of shape (K,)
        Accuracy of each class (Conf1), Float[K], that of all rows for a class that is never
        predicted: the confidence, with a warning, of a class without a curve. ``shared_precision_``
        is that of all rows.
    diagnostics_ : list of CurveDiagnostics or None
        Diagnostics of each curve; None without ``diagnostics=True``.
    """

    _: KW_ONLY
    by_class: bool = True
    diagnostics: bool = False

    _needs_both: ClassVar[bool] = False
    """True if a curve requires correct and incorrect rows."""

    @property
    def _has_class_parameters(self) -> bool:
        return self.by_class

    def describe(self) -> dict[str, Any]:
        problems = summarize_diagnostics(self.diagnostics_ or [])
        return {**super().describe(), **({"diagnostics": problems} if problems else {})}

    def confidence_at(self, k: int, score: np.ndarray) -> np.ndarray:
        """Return the confidence of rows that are predicted as class ``k`` with scores Float[m]."""
        top_label = TopLabel(np.full(len(score), k), score, len(self.classes_))
        return self._confidence(np.zeros((len(score), len(self.classes_))), top_label)

    def diagnose(self, X, y, sample_weight=None) -> list[CurveDiagnostics]:
        """Compare the fitted curves with the calibration rows of the fit, Float[n, d].

        The diagnostics are those of
        :func:`~kdgraph.calibration.top_label.diagnostics.diagnose_curves`, one for each curve.
        """
        proba = np.asarray(self._scores(X), dtype=np.float64)
        position = np.searchsorted(self.classes_, np.asarray(y))
        weight = np.ones(len(proba)) if sample_weight is None else np.asarray(sample_weight, float)
        rows = Rows(proba, position, weight)
        return self._diagnose_rows(rows[rows.weight > 0])

    def warn_of_unseen_scores(self, top_label: TopLabel) -> None:
        """Warn of classes with too many scores outside the range of the calibration scores.

        Without ``diagnostics=True`` the method does nothing.
        """
        if self.diagnostics_ is not None:
            group = self._curve_index(top_label.predicted)
            warn_of_unseen_scores(self.diagnostics_, group, top_label.confidence)

    def _fit_scores(self, rows: Rows) -> Rows:
        used = super()._fit_scores(rows)
        self.diagnostics_ = None
        if self.diagnostics:
            self.diagnostics_ = self._diagnose_rows(used)
            warn_of_curves(self.diagnostics_)
        return used

    def _diagnose_rows(self, rows: Rows) -> list[CurveDiagnostics]:
        top_label = TopLabel.from_proba(rows.X)
        group, correct = self._curve_index(top_label.predicted), top_label.correct(rows.y)
        masks = [(k, label, group == k) for k, label in enumerate(self._curve_labels())]
        return diagnose_curves(
            [
                FittedCurve(
                    str(label),
                    partial(self.confidence_at, k),
                    top_label.confidence[mask],
                    correct[mask],
                    rows.weight[mask],
                )
                for k, label, mask in masks
            ]
        )

    def _fit_rows(self, rows: Rows) -> None:
        top_label, proba, weight = TopLabel.from_proba(rows.X), rows.X, rows.weight
        correct, labels = top_label.correct(rows.y), self._curve_labels()
        group = self._curve_index(top_label.predicted)
        accuracy = ClassAccuracy.from_rows(group, correct, weight, len(labels))
        without = accuracy.empty | (accuracy.one_sided & self._needs_both)
        self.precision_, self.rows_, self.curves_ = accuracy.precision, accuracy.rows, []
        for k in range(len(labels)):
            score = proba[:, k] if self.by_class else top_label.confidence
            self.curves_.append(
                {} if without[k] else self._fit_class_curve(score, group == k, correct, weight)
            )
        missing = np.array([not curve for curve in self.curves_])
        self._warn_unless_pooled(labels[accuracy.empty], NEVER)
        self._warn_unless_pooled(labels[without & ~accuracy.empty], ONE_SIDED)
        self._warn_unless_pooled(labels[missing & ~without], BOUNDED)
        stuck = np.array([not curve.get("converged", True) for curve in self.curves_])
        warn_of_labels(labels[stuck], NOT_CONVERGED)
        self.shared_precision_ = float(np.average(correct, weights=weight))
        self.shared_ = CurveParameters()
        if self.pool_ and not (self._needs_both and self.shared_precision_ in (0, 1)):
            all_rows = np.ones(len(weight), dtype=bool)
            self.shared_ = self._fit_class_curve(top_label.confidence, all_rows, correct, weight)

    def _own_confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        return self._by_curve(top_label, self.precision_, self._evaluate)

    def _own_rows(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        return self._by_curve(top_label, self.rows_, self._support)

    def _shared_confidence(self, proba: np.ndarray, top_label: TopLabel) -> np.ndarray:
        if self.shared_:
            return self._evaluate(self.shared_, top_label.confidence)
        return np.full(len(top_label), self.shared_precision_)

    def _by_curve(
        self,
        top_label: TopLabel,
        fallback: np.ndarray,
        function: Callable[[CurveParameters, np.ndarray], np.ndarray | None],
    ) -> np.ndarray:
        """Return ``function`` of each row's curve and score, Float[n].

        Rows of classes without a curve, or for which it returns None, get ``fallback``, Float[K].
        """
        group = self._curve_index(top_label.predicted)
        result = fallback[group]
        for k in np.unique(group).tolist():
            mask = group == k
            if self.curves_[k]:
                values = function(self.curves_[k], top_label.confidence[mask])
                if values is not None:
                    result[mask] = values
        return result

    def _curve_index(self, predicted: np.ndarray) -> np.ndarray:
        """Return the position of each row's curve, Int[n]."""
        return predicted if self.by_class else np.zeros_like(predicted)

    def _curve_labels(self) -> np.ndarray:
        """Return the labels of the curves in messages."""
        return self.classes_ if self.by_class else np.array(["any class"])

    def _fit_class_curve(
        self, score: np.ndarray, is_predicted: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> CurveParameters:
        """Fit the curve of one class.

        ``score``, Float[n], is the score of every row for this class; ``is_predicted``, Bool[n],
        marks the rows that are predicted as it.
        """
        return self._fit_curve(score[is_predicted], correct[is_predicted], weight[is_predicted])

    def _fit_curve(
        self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> CurveParameters:
        raise NotImplementedError

    def _evaluate(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _support(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray | None:
        return None


@dataclass(eq=False, repr=False)
class HistogramBinning(CurveCalibrator):
    """Accuracy of the calibration rows of the same predicted class and bin of scores.

    Salamon et al., Eq. 6, whose partition starts at 0 and whose text has bins (b_i, b_i+1].
    Zadrozny and Elkan 2001 for two classes; class by class, it is the top-label histogram binning
    of Gupta and Ramdas 2022. Empty bins have the accuracy of the class.

    Parameters
    ----------
    bins : int, default=10
        Number of bins, at least 1.
    strategy : "uniform" or "mass", default="uniform"
        "uniform": equal widths over [0, 1]. "mass": equal fractions of the rows of a class, with
        tied scores in one bin.

    Attributes
    ----------
    curves_ : list of dict
        For each class ``edges``, Float[b + 1] from 0 to 1, where a bin contains ``lower < s <=
        upper`` and the first bin also 0; ``accuracy``, Float[b]; and ``rows``, Float[b], the total
        weight of each bin.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]]), np.array([0, 1, 1, 1])
    >>> model = HistogramBinning(FrozenEstimator(PrecomputedScores().fit(X)))
    >>> model.fit(X, y, X_calibration=X, y_calibration=y).predict_confidence(X)
    array([0.5, 0.5, 1. , 1. ])
    """

    _: KW_ONLY
    bins: Count = 10
    strategy: Strategy = "uniform"

    def _fit_curve(
        self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> CurveParameters:
        edges = bin_edges(score, self.bins, self.strategy)
        index = bin_of(score - SAME, edges)
        rows, n_correct = (
            np.bincount(index, values, minlength=len(edges) - 1)
            for values in (weight, weight * correct)
        )
        precision = n_correct.sum() / rows.sum()
        accuracy = np.where(rows > 0, n_correct / np.where(rows > 0, rows, 1), precision)
        return {"edges": edges, "rows": rows, "accuracy": accuracy}

    def _evaluate(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        return curve["accuracy"][bin_of(score - SAME, curve["edges"])]

    def _support(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        return curve["rows"][bin_of(score - SAME, curve["edges"])]


@dataclass(eq=False, repr=False)
class IsotonicConfidence(CurveCalibrator):
    """Isotonic regression of correctness on the score.

    Zadrozny and Elkan 2002, for top-label confidence as reduced by Gupta and Ramdas 2022; the fit
    is scikit-learn's ``IsotonicRegression``. If the highest scores are always correct, or the
    lowest ones never, the confidence is 1 or 0, and a single contradicting row makes the NLL
    infinite.

    Attributes
    ----------
    curves_ : list of dict
        For each class ``score`` and ``accuracy``, Float[t] each: the corners of a curve that is
        linear between them and constant beyond them.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]), np.array([0, 1, 0, 1])
    >>> model = IsotonicConfidence(FrozenEstimator(PrecomputedScores().fit(X)), by_class=False)
    >>> model = model.fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence([[0.95, 0.05], [0.75, 0.25], [0.5, 0.5]])
    array([1. , 0.5, 0. ])
    """

    def _fit_curve(
        self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> CurveParameters:
        # Scores that differ only by rounding are merged; a step between them would be arbitrary.
        score, position = distinct(score)
        rows, n_correct = np.bincount(position, weight), np.bincount(position, weight * correct)
        regression = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(
            score, n_correct / rows, sample_weight=rows
        )
        return {"score": regression.X_thresholds_, "accuracy": regression.y_thresholds_}

    def _evaluate(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        return np.interp(score, curve["score"], curve["accuracy"])


MAX_COEFFICIENT = np.exp(10.0)
"""Largest coefficient of beta calibration; temperatures have the same bound."""


@dataclass(eq=False, repr=False)
class BetaCalibration(CurveCalibrator):
    """Logistic regression of correctness on log s and -log(1 - s) that never falls in the score.

    Kull, Silva Filho and Flach 2017, "Beta calibration", Section 4 (three parameters). Bounds of
    the fit keep a and b from being negative. Class by class, it is a reduction of Gupta and Ramdas
    2022. At a = b = 1, c = 0 it is the identity.

    Attributes
    ----------
    curves_ : list of dict
        For each class ``coefficients``, Float[3]: a, b and c of the log odds a log s - b log(1 - s)
        + c; ``converged``; and ``n_clipped``, the number of rows whose score is within 1e-12 of 0
        or 1 and was clipped.
    precision_ : ndarray of shape (K,)
        Accuracy of each class, Float[K]. It is the confidence, with a warning, of a class that is
        never predicted, always correct or always incorrect, or whose correct and incorrect rows are
        separable.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 2)
    >>> y = np.array([0, 0, 0, 1, 0, 1, 0, 1])
    >>> model = BetaCalibration(FrozenEstimator(PrecomputedScores().fit(X)), by_class=False)
    >>> model = model.fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence([[0.9, 0.1], [0.6, 0.4]]).round(2)
    array([0.94, 0.19])
    """

    _: KW_ONLY

    _needs_both: ClassVar = True

    def describe(self) -> dict[str, Any]:
        return {
            "n_clipped": sum(int(curve["n_clipped"]) for curve in self.curves_ if curve),
            **super().describe(),
        }

    def _fit_curve(
        self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> CurveParameters:
        terms, proportion = _beta_terms(score), weight / weight.sum()

        def loss(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = binary_loss(terms @ coefficients, correct, "nll")
            return float(proportion @ value), (proportion * slope) @ terms

        bounds = [(0, MAX_COEFFICIENT), (0, MAX_COEFFICIENT), (None, None)]
        minimum = minimize_loss(loss, [np.array([1.0, 1.0, 0.0])], bounds)
        coefficients = minimum.parameters
        # An optimum at a bound, or a perfect separation, is not an estimate: the class gets its
        # accuracy instead.
        at_bound = (coefficients[:2] >= MAX_COEFFICIENT).any()
        if at_bound or are_separable(terms @ coefficients, correct):
            return {}
        n_clipped = np.count_nonzero((score < CONFIDENCE_CLIP) | (score > 1 - CONFIDENCE_CLIP))
        return {
            "coefficients": coefficients,
            "converged": np.array(minimum.converged),
            "n_clipped": np.array(n_clipped),
        }

    def _evaluate(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        return expit(_beta_terms(score) @ curve["coefficients"])


def _beta_terms(score: np.ndarray) -> np.ndarray:
    clipped = np.clip(np.asarray(score, dtype=np.float64), CONFIDENCE_CLIP, 1 - CONFIDENCE_CLIP)
    return np.column_stack([np.log(clipped), -np.log1p(-clipped), np.ones(len(clipped))])


Point = tuple[float, float]


@dataclass(eq=False, repr=False)
class VennAbers(CurveCalibrator):
    """Venn-Abers predictor: two isotonic regressions, merged into one confidence.

    One regression assumes that the new row is incorrect, the other that it is correct. For
    exchangeable rows one of the two is calibrated, whatever their distribution. The difference
    between them is the uncertainty that the calibration rows leave.

    Inductive Venn-Abers predictors, Vovk and Petej 2012, merged as p1/(1 - p0 + p1), which
    minimises the largest log loss (Vovk, Petej and Fedorova 2015, Section 4). A new row has weight
    1.

    Attributes
    ----------
    curves_ : list of dict
        For each class the distinct ``score`` of calibration rows, Float[m]; ``p0``, Float[m], valid
        from each score to the next one; and ``p1``, Float[m], valid from the previous score to
        each.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]), np.array([0, 1, 0, 1])
    >>> model = VennAbers(FrozenEstimator(PrecomputedScores().fit(X)), by_class=False)
    >>> model = model.fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_interval([[0.95, 0.05], [0.75, 0.25]])
    array([[0.5       , 1.        ],
           [0.33333333, 0.66666667]])
    >>> model.predict_confidence([[0.95, 0.05], [0.75, 0.25]])
    array([0.66666667, 0.5       ])
    """

    def predict_interval(self, X) -> np.ndarray:
        """Return p0 and p1, between which the confidence lies, Float[n, 2].

        Both are the accuracy of the class if it has no curve.
        """
        top_label = TopLabel.from_proba(self._scores(X))
        group = self._curve_index(top_label.predicted)
        interval = np.repeat(self.precision_[group][:, None], 2, axis=1)
        for k in np.unique(group).tolist():
            mask = group == k
            if self.curves_[k]:
                interval[mask] = _interval(self.curves_[k], top_label.confidence[mask])
        return interval

    def _fit_curve(
        self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> CurveParameters:
        score, position = distinct(score)
        rows, n_correct = np.bincount(position, weight), np.bincount(position, weight * correct)
        # p0 is p1 of the mirrored problem: scores in falling order, correct and incorrect swapped.
        mirrored = isotonic_p1(rows[::-1], (rows - n_correct)[::-1])
        return {"score": score, "p0": 1 - mirrored[::-1], "p1": isotonic_p1(rows, n_correct)}

    def _evaluate(self, curve: CurveParameters, score: np.ndarray) -> np.ndarray:
        p0, p1 = _interval(curve, score).T
        return p1 / (1 - p0 + p1)


def _interval(curve: CurveParameters, score: np.ndarray) -> np.ndarray:
    # A new correct row is pooled with the rows above it, so p1 is that of the next score up, and 1
    # above all scores; a new incorrect row is pooled with the rows below it.
    above, below = first_from(curve["score"], score), first_above(curve["score"], score)
    return np.column_stack([np.append(0.0, curve["p0"])[below], np.append(curve["p1"], 1.0)[above]])


def isotonic_p1(rows: np.ndarray, n_correct: np.ndarray) -> np.ndarray:
    """Return p1 at each distinct score, Float[m] (Vovk, Petej and Fedorova 2015, Section 5).

    p1 is the value of the isotonic regression at a score after a correct row of weight 1 has been
    added there. The weights of all rows and of the correct rows at each score, Float[m], are in
    rising order of scores.

    >>> isotonic_p1(np.array([1.0, 1.0]), np.array([0.0, 1.0]))  # 1 pools with 0 at the first score
    array([0.5, 1. ])
    """
    # Isotonic regression is the slope of the greatest convex minorant of the points P_j, the sums
    # of (rows, correct rows) up to score j. An added correct row at score j shifts P_j and all
    # later points by (1, 1); equivalently, all earlier points by (-1, -1). The value at j is the
    # slope of the segment that leads from the shifted points (``behind``) to the others
    # (``ahead``).
    #
    # ``ahead`` is a stack of the corners of the minorant of the points that are not shifted, the
    # nearest one on top. It is built from right to left once. No slope exceeds 1, so a shifted
    # point lies below its old position and a corner that was removed never returns: each point is
    # pushed and popped at most once, which gives O(m).
    points = list(zip(np.cumsum(rows).tolist(), np.cumsum(n_correct).tolist(), strict=True))
    ahead: list[Point] = []
    for point in reversed(points):
        _drop_hidden_corners(point, ahead)
        ahead.append(point)
    behind: Point = (-1.0, -1.0)
    _drop_hidden_corners(behind, ahead)
    slopes = []
    for x, y in points:
        slopes.append((ahead[-1][1] - behind[1]) / (ahead[-1][0] - behind[0]))
        shifted = (x - 1, y - 1)
        # The shifted point is a new corner only if it lies below the current segment.
        if _turn(behind, ahead[-1], shifted) < 0:
            behind = shifted
            _drop_hidden_corners(behind, ahead)
    return np.array(slopes)


def _drop_hidden_corners(point: Point, ahead: list[Point]) -> None:
    """Pop the corners that lie above the minorant which starts at ``point``."""
    while len(ahead) > 1 and _turn(point, ahead[-1], ahead[-2]) <= 0:
        ahead.pop()


def _turn(a: Point, b: Point, c: Point) -> float:
    """Return a positive number if c lies above the line from a through b."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
