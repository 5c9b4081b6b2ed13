"""Calibrators whose confidence is a curve over the score alone: one for each predicted class, or
one for all.

Histogram binning of top-label confidence, over all classes or class by class.

Isotonic regression of being right on the score.

Beta calibration of top-label confidence.

Venn-Abers predictors of top-label confidence.
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
    NEVER,
    NOT_THERE,
    ONE_SIDED,
    SAME,
    ClassShares,
    distinct,
    first_above,
    first_from,
    warn_of,
)
from kdgraph.calibration.top_label.diagnostics import (
    CurveRows,
    findings,
    look_at,
    warn_of_beyond,
    warn_of_seen,
)
from kdgraph.calibration.top_label.shrinkage import PooledCalibrator
from kdgraph.calibration.top_label.temperature import binary_loss, lie_apart, minimised
from kdgraph.metrics import TopLabel
from kdgraph.metrics.compat import Strategy, bin_edges, bin_of
from kdgraph.parameters import Count

Curve = dict[str, np.ndarray]
"""What is learnt of one class, by name; nothing where the class has no curve."""


@dataclass(eq=False, repr=False)
class CurveCalibrator(PooledCalibrator):
    """Confidence as a curve over the score (Salamon et al., Eq. 2).

    A subclass implements ``_learn(score, correct, weight)``, of rows of one class whose weights are
    not 0, and ``_at(curve, score)``. It learns nothing where its fit runs to a bound; ``converged``
    in what it learns says whether it did. One whose curve stands on other rows at each score
    implements ``_rows_at(curve, score)`` too.

    Parameters
    ----------
    estimator, pool, fill_proba, calibration_size, random_state : as in :class:`PooledCalibrator`;
    what is shared is the curve of all rows.
    by_class : a curve for each predicted class; False: one for all, which leaves nothing to pool.

    Attributes
    ----------
    curves_ : what was learnt, for each class; ``shared_``, of all rows, where anything is pooled.
    precision_ : Float[K]: the share of right predictions of each class (Conf1), which is the
        confidence where there is no curve; ``shared_precision_``, of all rows; ``rows_``, Float[K],
        what the calibration rows of each class weigh.
    seen_ : what a look at each curve found
        (:func:`~kdgraph.calibration.top_label.diagnostics.look_at`); warnings say it too.
    """

    _: KW_ONLY
    by_class: bool = True

    _needs_both: ClassVar[bool] = False
    """Whether there is a curve only where some rows are right and some are wrong."""

    @property
    def _pools(self) -> bool:
        return self.by_class

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record; of the visual check, what it found."""
        found = findings(self.seen_)
        return {**super().describe(), **({"visual_check": found} if found else {})}

    def confidence_at(self, k: int, score: np.ndarray) -> np.ndarray:
        """Float[m]: the confidence of rows that are predicted as class ``k`` (its position) with
        the scores Float[m].
        """
        top = TopLabel(np.full(len(score), k), score, len(self.classes_))
        return self._confidence(np.zeros((len(score), len(self.classes_))), top)

    def look_at_new(self, top: TopLabel) -> None:
        """Warn of classes that too many new rows are predicted as with scores where no calibration
        rows were; ``top`` is the parent's.
        """
        warn_of_beyond(self.seen_, self._curve_of(top.predicted), top.confidence)

    def _fit_scores(self, rows: Rows) -> Rows:
        used = super()._fit_scores(rows)
        top = TopLabel.of(used.X)
        group, correct = self._curve_of(top.predicted), top.correct(used.y)
        each = [(k, label, group == k) for k, label in enumerate(self._curve_labels())]
        curves = [
            CurveRows(
                str(n),
                partial(self.confidence_at, k),
                top.confidence[m],
                correct[m],
                used.weight[m],
            )
            for k, n, m in each
        ]
        self.seen_ = look_at(curves)
        warn_of_seen(self.seen_)
        return used

    def _learn_from(self, rows: Rows) -> None:
        top, proba = TopLabel.of(rows.X), rows.X
        correct, weight, group, labels = (
            top.correct(rows.y),
            rows.weight,
            self._curve_of(top.predicted),
            self._curve_labels(),
        )
        shares = ClassShares.of(group, correct, weight, len(labels))
        without = shares.empty | (shares.one_sided & self._needs_both)
        self.precision_, self.rows_, self.curves_ = shares.precision, shares.rows, []
        for k in range(len(labels)):
            score = proba[:, k] if self.by_class else top.confidence
            self.curves_.append(
                {} if without[k] else self._learn_among(score, group == k, correct, weight)
            )
        missing = np.array([not curve for curve in self.curves_])
        self._warn_unless_pooled(labels[shares.empty], NEVER)
        self._warn_unless_pooled(labels[without & ~shares.empty], ONE_SIDED)
        self._warn_unless_pooled(labels[missing & ~without], BOUNDED)
        stuck = np.array([not curve.get("converged", True) for curve in self.curves_])
        warn_of(labels[stuck], NOT_THERE)
        self._learn_shared(top.confidence, correct, weight)

    def _learn_shared(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> None:
        self.shared_precision_, self.shared_ = float(np.average(correct, weights=weight)), Curve()
        if self.pool_ and not (self._needs_both and self.shared_precision_ in (0, 1)):
            self.shared_ = self._learn_among(
                score, np.ones(len(score), dtype=bool), correct, weight
            )

    def _own(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self._by_curve(top, self.precision_, self._at)

    def _near(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self._by_curve(top, self.rows_, self._rows_at)

    def _shared(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return (
            self._at(self.shared_, top.confidence)
            if self.shared_
            else np.full(len(top), self.shared_precision_)
        )

    def _by_curve(
        self,
        top: TopLabel,
        otherwise: np.ndarray,
        of: Callable[[Curve, np.ndarray], np.ndarray | None],
    ) -> np.ndarray:
        """Float[n]: what each row's curve says at its score, or, of a class without a curve,
        ``otherwise``, Float[K].
        """
        group = self._curve_of(top.predicted)
        found = otherwise[group]
        for k in np.unique(group).tolist():
            mine = group == k
            if self.curves_[k] and (said := of(self.curves_[k], top.confidence[mine])) is not None:
                found[mine] = said
        return found

    def _curve_of(self, predicted: np.ndarray) -> np.ndarray:
        """Int[n]: which curve is for each row."""
        return predicted if self.by_class else np.zeros_like(predicted)

    def _curve_labels(self) -> np.ndarray:
        return self.classes_ if self.by_class else np.array(["any class"])

    def _learn_among(
        self, score: np.ndarray, mine: np.ndarray, correct: np.ndarray, weight: np.ndarray
    ) -> Curve:
        """What is learnt of one class, of the score that every row has for it, Float[n], and which
        rows are predicted as it, Bool[n].
        """
        return self._learn(score[mine], correct[mine], weight[mine])

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        raise NotImplementedError

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def _rows_at(self, curve: Curve, score: np.ndarray) -> np.ndarray | None:
        """Float[n]: how many rows stand behind the curve at each score; None: all of the class."""
        return None


@dataclass(eq=False, repr=False)
class HistogramBinning(CurveCalibrator):
    """The share of right predictions among calibration rows of the same class and bin of scores.

    Parameters
    ----------
    estimator, by_class, pool, fill_proba, calibration_size, random_state : as in
    :class:`CurveCalibrator`.
    bins : how many, from 1.
    strategy : "uniform": equal widths over [0, 1]. "mass": equal shares of the rows of a class,
        ties together.

    Attributes
    ----------
    curves_ : of each class ``edges``, Float[b + 1] from 0 to 1, a bin holds ``lower < s <= upper``,
        the first one 0 too; ``share``, Float[b], that of right predictions in each bin; and
        ``rows``, Float[b], what those in each bin weigh.
    precision_ : Float[K]: the share of right predictions of each class (Conf1), which empty bins
        have.

    Notes
    -----
    Salamon et al., Eq. 6, whose partition starts at 0 and whose text says (b_i, b_i+1]. Zadrozny
    and Elkan 2001 for two classes; class by class, it is the top-label histogram binning of Gupta
    and Ramdas 2022. A class that is never predicted on calibration rows has no precision of its
    own: it gets that of all rows, with a warning that names it.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]]), np.array([0, 1, 1, 1])
    >>> parent = FrozenEstimator(PrecomputedScores().fit(X))
    >>> HistogramBinning(parent).fit(X, y, X_calibration=X, y_calibration=y).predict_confidence(X)
    array([0.5, 0.5, 1. , 1. ])
    """

    _: KW_ONLY
    bins: Count = 10
    strategy: Strategy = "uniform"

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        edges = bin_edges(score, self.bins, self.strategy)
        index = bin_of(score - SAME, edges)
        rows, right = (
            np.bincount(index, of, minlength=len(edges) - 1) for of in (weight, weight * correct)
        )
        precision = right.sum() / rows.sum()
        return {
            "edges": edges,
            "rows": rows,
            "share": np.where(rows > 0, right / np.where(rows > 0, rows, 1), precision),
        }

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return curve["share"][bin_of(score - SAME, curve["edges"])]

    def _rows_at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return curve["rows"][bin_of(score - SAME, curve["edges"])]


@dataclass(eq=False, repr=False)
class IsotonicConfidence(CurveCalibrator):
    """The share of right predictions as a function of the score that never falls, as near to the
    calibration rows as it can be.

    Parameters
    ----------
    estimator, by_class, pool, fill_proba, calibration_size, random_state : as in
        :class:`CurveCalibrator`.

    Attributes
    ----------
    curves_ : of each class ``score`` and ``share``, Float[t] each: corners, between which the curve
    is straight; it is level beyond them.
    precision_ : Float[K]: the share of right predictions of each class, which one that is never
        predicted has in place of a curve.

    Notes
    -----
    Zadrozny and Elkan 2002, of top-label confidence as Gupta and Ramdas 2022 reduce it; by
    scikit-learn's ``IsotonicRegression``. Where the highest scores are always right, or the lowest
    never, it says 1 or 0, and one row that is otherwise makes the NLL infinite.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]), np.array([0, 1, 0, 1])
    >>> model = IsotonicConfidence(FrozenEstimator(PrecomputedScores().fit(X)), by_class=False).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence([[0.95, 0.05], [0.75, 0.25], [0.5, 0.5]])
    array([1. , 0.5, 0. ])
    """

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        score, place = distinct(score)  # else a step between two scores that rounding separates
        rows, right = np.bincount(place, weight), np.bincount(place, weight * correct)
        fitted = IsotonicRegression(y_min=0, y_max=1, out_of_bounds="clip").fit(
            score, right / rows, sample_weight=rows
        )
        return {"score": fitted.X_thresholds_, "share": fitted.y_thresholds_}

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return np.interp(score, curve["score"], curve["share"])


CLIP = 1e-12
"""How near to 0 and 1 a score may come before its logarithms."""
_STEEPEST = np.exp(10.0)
"""The largest coefficient, as temperatures have it."""


@dataclass(eq=False, repr=False)
class BetaCalibration(CurveCalibrator):
    """A logistic regression of being right on log s and -log(1 - s), neither of which may lower the
    confidence.

    Parameters
    ----------
    estimator, by_class, pool, fill_proba, calibration_size, random_state : as in
        :class:`CurveCalibrator`.

    Attributes
    ----------
    curves_ : of each class ``coefficients``, Float[3]: a, b and c of the log odds a log s - b log(1
        - s) + c; whether they ``converged``; ``n_clipped``, how many rows have a score within 1e-12
        of 0 or 1, which was taken for that far from it.
    precision_ : Float[K]: the share of right predictions of each class, which is the confidence
        where there is no curve: where a class is never predicted (that of all rows), always right,
        always wrong, or right rows can be told from wrong ones without fail. A warning names the
        class.

    Notes
    -----
    Kull, Silva Filho and Flach 2017, "Beta calibration", Section 4 (three parameters), with a and b
    kept from falling below 0 by bounds of the fit; class by class as Gupta and Ramdas 2022 reduce
    top-label confidence. At a = b = 1, c = 0 it is the identity.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]] * 2), np.array([0, 0, 0, 1, 0, 1, 0, 1])
    >>> model = BetaCalibration(FrozenEstimator(PrecomputedScores().fit(X)), by_class=False).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence([[0.9, 0.1], [0.6, 0.4]]).round(2)
    array([0.94, 0.19])
    """

    _: KW_ONLY

    _needs_both: ClassVar = True

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: how many rows were clipped."""
        return {
            "n_clipped": sum(int(curve["n_clipped"]) for curve in self.curves_ if curve),
            **super().describe(),
        }

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        terms, share = _terms(score), weight / weight.sum()

        def loss(coefficients: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = binary_loss(terms @ coefficients, correct, "nll")
            return float(share @ value), (share * slope) @ terms

        found = minimised(
            loss, [np.array([1.0, 1.0, 0.0])], [(0, _STEEPEST), (0, _STEEPEST), (None, None)]
        )
        if (found.at[:2] >= _STEEPEST).any() or lie_apart(terms @ found.at, correct):
            return {}
        n_clipped = np.count_nonzero((score < CLIP) | (score > 1 - CLIP))
        return {
            "coefficients": found.at,
            "converged": np.array(found.converged),
            "n_clipped": np.array(n_clipped),
        }

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        return expit(_terms(score) @ curve["coefficients"])


def _terms(score: np.ndarray) -> np.ndarray:
    """Float[n, 3]: log s, -log(1 - s) and 1."""
    inside = np.clip(np.asarray(score, dtype=np.float64), CLIP, 1 - CLIP)
    return np.column_stack([np.log(inside), -np.log1p(-inside), np.ones(len(inside))])


Point = tuple[float, float]


@dataclass(eq=False, repr=False)
class VennAbers(CurveCalibrator):
    """Two isotonic regressions, as if the new row were wrong and as if it were right, merged into
    one confidence.

    Of exchangeable rows one of the two is calibrated, whatever their distribution; how far they are
    apart is what the rows leave open.

    Parameters
    ----------
    estimator, by_class, pool, fill_proba, calibration_size, random_state : as in
        :class:`CurveCalibrator`.

    Attributes
    ----------
    curves_ : of each class the distinct ``score`` of calibration rows, Float[m], ``p0`` from each
        score to the next, and ``p1`` up to each score from the one before, Float[m] both.
    precision_ : Float[K]: the share of right predictions of each class, which one that is never
        predicted has in place of a curve.

    Notes
    -----
    Inductive Venn-Abers predictors, Vovk and Petej 2012; merged as p1/(1 - p0 + p1), which is least
    bad in log loss (Vovk, Petej and Fedorova 2015, Section 4). With m distinct scores all of p0 and
    p1 take O(m) after a sort, by their Section 5's walk over the cumulative sum diagram. A new row
    weighs 1.

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]), np.array([0, 1, 0, 1])
    >>> model = VennAbers(FrozenEstimator(PrecomputedScores().fit(X)), by_class=False).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_interval([[0.95, 0.05], [0.75, 0.25]])
    array([[0.5       , 1.        ],
           [0.33333333, 0.66666667]])
    >>> model.predict_confidence([[0.95, 0.05], [0.75, 0.25]])
    array([0.66666667, 0.5       ])
    """

    def predict_interval(self, X) -> np.ndarray:
        """Float[n, 2]: p0 and p1, between which the confidence lies; both are the precision of a
        class without a curve.
        """
        top = TopLabel.of(self._scores(X))
        group = self._curve_of(top.predicted)
        found = np.repeat(self.precision_[group][:, None], 2, axis=1)
        for k in np.unique(group).tolist():
            mine = group == k
            if self.curves_[k]:
                found[mine] = _interval(self.curves_[k], top.confidence[mine])
        return found

    def _learn(self, score: np.ndarray, correct: np.ndarray, weight: np.ndarray) -> Curve:
        score, place = distinct(score)
        rows, right = np.bincount(place, weight), np.bincount(place, weight * correct)
        mirrored = if_right(rows[::-1], (rows - right)[::-1])
        return {"score": score, "p0": 1 - mirrored[::-1], "p1": if_right(rows, right)}

    def _at(self, curve: Curve, score: np.ndarray) -> np.ndarray:
        p0, p1 = _interval(curve, score).T
        return p1 / (1 - p0 + p1)


def _interval(curve: Curve, score: np.ndarray) -> np.ndarray:
    """Float[n, 2]: p0 and p1 at scores Float[n].

    A new right row pools with those above it, so p1 is that of the next score up, and 1 above all;
    a wrong one with those below.
    """
    above, below = first_from(curve["score"], score), first_above(curve["score"], score)
    return np.column_stack([np.append(0.0, curve["p0"])[below], np.append(curve["p1"], 1.0)[above]])


def if_right(rows: np.ndarray, right: np.ndarray) -> np.ndarray:
    """p1 at each distinct score, in rising order: isotonic regression's value there once a right
    row of weight 1 is added.

    Parameters
    ----------
    rows, right : Float[m], the weight of all rows and of right ones at each score.

    Returns
    -------
    Float[m].

    Notes
    -----
    As Vovk, Petej and Fedorova 2015, Section 5. With P_j the sums of (rows, right) up to score j, a
    right row at score j moves P_j and all after it by (1, 1), or, which is the same, all before it
    by (-1, -1). The value at j is the slope of the greatest convex minorant of these points where
    it steps from those that were moved to the others. No slope is above 1, so a point moves to
    below where it was, and of the others only corners of the minorant ever matter again: each is
    put on a stack and taken off it once.

    Examples
    --------
    >>> if_right(np.array([1.0, 1.0]), np.array([0.0, 1.0]))  # 1 pools with 0 at the first score
    array([0.5, 1. ])
    """
    points = list(zip(np.cumsum(rows).tolist(), np.cumsum(right).tolist(), strict=True))
    ahead: list[Point] = []
    for point in reversed(points):
        _look_from(point, ahead)
        ahead.append(point)
    behind: Point = (-1.0, -1.0)
    _look_from(behind, ahead)
    slopes = []
    for x, y in points:
        slopes.append((ahead[-1][1] - behind[1]) / (ahead[-1][0] - behind[0]))
        moved = (x - 1, y - 1)
        if _turn(behind, ahead[-1], moved) < 0:
            behind = moved
            _look_from(behind, ahead)
    return np.array(slopes)


def _look_from(point: Point, ahead: list[Point]) -> None:
    """Take off the corners that the minorant which starts at ``point`` passes below."""
    while len(ahead) > 1 and _turn(point, ahead[-1], ahead[-2]) <= 0:
        ahead.pop()


def _turn(a: Point, b: Point, c: Point) -> float:
    """Above 0 if c lies above the line from a through b."""
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])
