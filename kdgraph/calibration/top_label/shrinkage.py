"""Confidence class by class that leans on what all classes share, the more so the fewer calibration
rows a class has.

The precision of the predicted class: the confidence of whoever knows the prediction and no score.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import KW_ONLY, dataclass
from functools import cache
from typing import Any, Literal, NamedTuple, cast

import numpy as np
from sklearn.utils import check_random_state
from threadpoolctl import ThreadpoolController

from kdgraph.base import Rows
from kdgraph.calibration.top_label.base import (
    N_FOLDS,
    NEVER,
    ClassShares,
    TopLabelCalibrator,
    can_be_judged,
    folds_of,
    warn_of,
)
from kdgraph.metrics import TopLabel, nll_top
from kdgraph.parameters import NonNegative

_nll_top_by_row = cast("Callable[..., np.ndarray]", nll_top.by_row)

Pool = NonNegative | Literal["cv"]
POOLS = (0.0, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10000.0)
"""What "cv" chooses from: the NLL is flat between them, and the last is next to what all classes
share alone.
"""


@cache
def _libraries() -> ThreadpoolController:
    """Those of numpy, scipy and scikit-learn, which are loaded by now: to look for them anew takes
    longer than a small fit.
    """
    return ThreadpoolController()


class Opinions(NamedTuple):
    """What is said of rows before it is pooled. Ours.

    Attributes
    ----------
    own : Float[n], the confidence that the row's predicted class has by itself.
    near : Float[n], on how many calibration rows of the class that stands, at this score.
    shared : Float[n], the confidence that all classes share.
    """

    own: np.ndarray
    near: np.ndarray
    shared: np.ndarray

    def pooled(self, pool: float) -> np.ndarray:
        """Float[n]: the mean of both, of ``near`` rows and of ``pool`` rows. Ours.

        >>> Opinions(np.array([1.0, 1.0]), np.array([3.0, 0.0]), np.array([0.6, 0.6])).pooled(5.0)
        array([0.75, 0.6 ])
        """
        if pool == 0:
            return self.own
        return (self.near * self.own + pool * self.shared) / (self.near + pool)


@dataclass(eq=False, repr=False)
class PooledCalibrator(TopLabelCalibrator):
    """Confidence class by class, with ``pool`` rows' worth of what all classes share in every
    place. Pooling is ours.

    A subclass implements ``_learn_from(rows)``, whose X are the parent's rows Float[n, K] and whose
    weights are not 0; ``_own``, ``_near`` and ``_shared`` of ``(proba, top)``, which are
    :class:`Opinions`; and ``_pools``, whether the classes have anything of their own.

    Parameters
    ----------
    estimator, fill_proba, calibration_size, random_state : as in :class:`TopLabelCalibrator`;
    ``random_state`` also draws the folds.
    pool : m, so many rows: c(k, s) = (n c_own + m c_shared) / (n + m), where n calibration rows of
        the class stand behind c_own at the score s. 0: each class by itself, as Salamon et al. have
        it. "cv": the one of 0, 1, 3, 10, … 10,000 with the least NLL of being right (Eq. 14) on
        calibration rows, in five folds; confidences count as at least 1e-12 from 0 and 1. Where
        fewer than two of the rows are right, or wrong, nothing can be judged, and it is 10,000.

    Attributes
    ----------
    pool_ : m.
    pool_nll_ : Float[10]: in nats a row, for each m that "cv" chose from; None where it did not, or
        could not, choose.

    Notes
    -----
    With few rows, a class that was always right so far says 1, or its curve falls to 0 where its
    only wrong row is, and one row that is otherwise costs what the NLL's clip makes of it. Pooled,
    a share is the mean of a beta distribution with a prior that is worth m rows of the shared
    confidence: what has happened to other classes at such a score is possible here too. Of a curve
    with a formula, such as a temperature, n is all rows of the class; of bins and kernels, those in
    the bin, or as many as the kernels make up there.
    """

    _: KW_ONLY
    pool: Pool = 0.0

    def describe(self) -> dict[str, Any]:
        """What was learnt, for the record: the pool, and what it was chosen by."""
        if not self.pool:
            return {}
        nll = (
            None
            if self.pool_nll_ is None
            else {f"{m:g}": float(value) for m, value in zip(POOLS, self.pool_nll_, strict=True)}
        )
        return {"pool": self.pool_, "pool_nll": nll}

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self._fit_scores(
            Rows(self.estimator_.predict_proba(calibration.X), calibration.y, calibration.weight)
        )

    def _fit_scores(self, rows: Rows) -> Rows:
        """Learn from the parent's rows, Float[n, K]; gives those that count, in double
        precision.
        """
        rows = rows[rows.weight > 0]
        rows = Rows(np.asarray(rows.X, dtype=np.float64), rows.y, rows.weight)
        self.pool_, self.pool_nll_ = (
            0.0 if self.pool == "cv" or not self._pools else float(self.pool),
            None,
        )
        with _libraries().limit(
            limits=1
        ):  # threads add in another order, and on a busy machine made small fits take 15 times as long
            if self.pool == "cv" and self._pools:
                self.pool_, self.pool_nll_ = self._chosen(rows)
            self._learn_from(rows)
        return rows

    def _chosen(self, rows: Rows) -> tuple[float, np.ndarray | None]:
        """The best pool, and the NLL of each."""
        top = TopLabel.of(rows.X)
        if not can_be_judged(top.correct(rows.y)):
            return POOLS[-1], None
        fold = folds_of(
            top.predicted, top.correct(rows.y), N_FOLDS, check_random_state(self.random_state)
        )
        said = Opinions(*np.empty((3, len(rows))))
        for judged in (fold == f for f in range(N_FOLDS)):
            part = copy(self)
            part.pool_ = POOLS[-1]  # which lets it learn what classes share
            with warnings.catch_warnings(
                action="ignore"
            ):  # of the rows of a fold; those of all rows are yet to be looked at
                part._learn_from(rows[~judged])
            for values, of_part in zip(
                said, part._opinions(rows.X[judged], top[judged]), strict=True
            ):
                values[judged] = of_part
        nll = [
            _nll_top_by_row(rows.y, TopLabel(top.predicted, said.pooled(m), top.n_classes))
            for m in POOLS
        ]
        found = np.average(nll, axis=1, weights=rows.weight)
        return POOLS[int(found.argmin())], found

    def _confidence(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return (
            self._opinions(proba, top).pooled(self.pool_) if self.pool_ else self._own(proba, top)
        )

    def _opinions(self, proba: np.ndarray, top: TopLabel) -> Opinions:
        return Opinions(self._own(proba, top), self._near(proba, top), self._shared(proba, top))

    def _warn_unless_pooled(self, labels: Any, sentence: str) -> None:
        """Of classes that have nothing of their own: once they are pooled, that is what the others
        are for.
        """
        warn_of([] if self.pool_ else labels, sentence)

    @property
    def _pools(self) -> bool:
        raise NotImplementedError

    def _learn_from(self, rows: Rows) -> None:
        raise NotImplementedError

    def _own(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        raise NotImplementedError

    def _near(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        raise NotImplementedError

    def _shared(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class ClassPrecision(PooledCalibrator):
    """The share of right predictions among calibration rows of the same predicted class, whatever
    their scores.

    Parameters
    ----------
    estimator, pool, fill_proba, calibration_size, random_state : as in :class:`PooledCalibrator`;
        what is shared is the share of all rows.

    Attributes
    ----------
    precision_ : Float[K], before it is pooled; where a class is never predicted that of all rows,
    with a warning that names the class.
    rows_ : Float[K], what the calibration rows of each class weigh.
    shared_ : the share of all rows.

    Notes
    -----
    Salamon et al., Eq. 1 (Conf1): the diagonal of a confusion matrix whose columns, of a predicted
    class each, sum to 1. It is what they recommend where nearly all scores are 1 (Section XIII D).

    Examples
    --------
    >>> from kdgraph.parents import PrecomputedScores
    >>> from sklearn.frozen import FrozenEstimator
    >>> X, y = np.array([[0.9, 0.1], [0.8, 0.2], [0.4, 0.6], [0.3, 0.7]]), np.array([0, 1, 1, 1])
    >>> model = ClassPrecision(FrozenEstimator(PrecomputedScores().fit(X))).fit(X, y, X_calibration=X, y_calibration=y)
    >>> model.predict_confidence([[0.6, 0.4], [0.0, 1.0]])
    array([0.5, 1. ])
    """

    @property
    def _pools(self) -> bool:
        return True

    def _learn_from(self, rows: Rows) -> None:
        top = TopLabel.of(rows.X)
        correct = top.correct(rows.y)
        shares = ClassShares.of(top.predicted, correct, rows.weight, len(self.classes_))
        self.precision_, self.rows_ = shares.precision, shares.rows
        self.shared_ = float(np.average(correct, weights=rows.weight))
        self._warn_unless_pooled(self.classes_[shares.empty], NEVER)

    def _own(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self.precision_[top.predicted]

    def _near(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return self.rows_[top.predicted]

    def _shared(self, proba: np.ndarray, top: TopLabel) -> np.ndarray:
        return np.full(len(top), self.shared_)
