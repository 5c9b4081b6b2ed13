"""Baselines of calibration: the uncalibrated parent, scikit-learn's maps and a linear pool.

Every calibrator is compared with them. Original to kdgraph, except where a paper is cited.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metaestimators import available_if

from kdgraph.base import PostHocClassifier, Rows, seeded_clone
from kdgraph.base.posthoc import any_requires_training_rows
from kdgraph.base.rows import MORE_ROWS_ADVICE
from kdgraph.errors import ParameterError

MapName = Literal["isotonic", "sigmoid", "temperature"]
ResponseName = Literal["decision_function", "log_odds", "predict_proba"]


def fit_behind_parent(model: Any, calibrator: Any, train: Rows, rows: Rows) -> Any:
    """Return a clone of a calibrator, fitted to calibration rows behind a model's fitted parent.

    The ``random_state`` of the model seeds a clone without a seed.
    """
    return seeded_clone(calibrator, model.random_state).fit_behind(model, train, rows)


def needs_many_rows(calibrator: Any) -> bool:
    """Return whether few calibration rows can make the calibrator predict 0 or 1."""
    return isinstance(calibrator, PostHocClassifier) and calibrator._needs_many_rows()


class Uncalibrated(PostHocClassifier):
    """The uncalibrated parent; held-out rows are not used.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_moons(200, noise=0.3, random_state=0)
    >>> model = Uncalibrated(LogisticRegression(), random_state=0).fit(X, y)
    >>> bool(np.allclose(model.predict_proba(X), model.estimator_.predict_proba(X)))
    True
    """

    def _needs_unseen_rows(self) -> bool:
        return False

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        calibration[:1].predict(self.estimator_)  # refuses probabilities without a class
        self.calibrated_ = self.estimator_

    @np.errstate(under="ignore")
    def predict_proba(self, X) -> np.ndarray:
        """Return the class probabilities, Float[n, K]."""
        X = self._validate_X(X)
        return self.calibrated_.predict_proba(X)

    def _predict_rows(self, rows: Rows) -> np.ndarray:
        calibrated = self.calibrated_
        if calibrated is self.estimator_:
            return rows.predict(calibrated)
        return calibrated._predict_rows(rows)


@dataclass(eq=False, repr=False)
class ScoreMap(Uncalibrated):
    """Map from the parent's scores to probabilities, by scikit-learn.

    Parameters
    ----------
    method : "isotonic", "sigmoid" or "temperature", default="isotonic"
        "isotonic" (Zadrozny and Elkan 2001) and "sigmoid" (Platt 1999) are fitted for each class
        against the rest. "temperature" (Guo et al. 2017) divides all logits by one number: those of
        ``decision_function``, or the log probabilities of a parent without it. The first two use
        the probability of each class, or its log odds if the parent has a ``decision_function``
        too, such as a network. A single logit is not sufficient, because all logits of a row can be
        raised together.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = make_moons(200, noise=0.3, random_state=0)
    >>> model = ScoreMap(GaussianNB(), method="sigmoid", random_state=0).fit(X, y)
    >>> model.predict_proba(X).shape
    (200, 2)
    """

    _: KW_ONLY
    method: MapName = "isotonic"

    def _needs_unseen_rows(self) -> bool:
        return True

    def _needs_many_rows(self) -> bool:
        return self.method == "isotonic"  # its steps begin at 0 and end at 1

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self.response_ = self._choose_response()
        self.calibrated_ = fit_score_map(
            self.method, self._scores_of(calibration), calibration, self.classes_, self.response_
        )

    def predict_proba(self, X) -> np.ndarray:
        return self._predict_rows(Rows.unweighted(self._validate_X(X)))

    @np.errstate(under="ignore")
    def _predict_rows(self, rows: Rows) -> np.ndarray:
        return apply_score_map(self.calibrated_, self._scores_of(rows))

    def _choose_response(self) -> ResponseName:
        has_logits, has_proba = (
            hasattr(self.estimator_, name) for name in ("decision_function", "predict_proba")
        )
        if has_logits and has_proba and self.method != "temperature" and len(self.classes_) > 2:
            return "log_odds"
        return "decision_function" if has_logits else "predict_proba"

    def _scores_of(self, rows: Rows) -> np.ndarray:
        """Return the scores of rows, Float[n, K], or Float[n] of binary logits."""
        if self.response_ != "log_odds":
            return rows.predict(self.estimator_, self.response_)
        # Probabilities are kept off 0 and 1, where the log odds are infinite.
        limits = np.finfo(np.float64)
        proba = np.clip(
            rows.predict(self.estimator_).astype(np.float64), limits.tiny, 1 - limits.epsneg
        )
        return np.log(proba) - np.log1p(-proba)


class GivenScores(ClassifierMixin, BaseEstimator):
    """Classifier whose rows, Float[n, K], are scores that another one computed by ``response``."""

    def __init__(self, response: str = "predict_proba"):
        self.response = response

    def fit(self, X, y) -> GivenScores:
        """Take the labels of ``y`` as classes."""
        self.classes_ = np.unique(y)
        return self

    def predict(self, X) -> np.ndarray:
        """Return the labels of the largest scores, or of binary logits above 0."""
        positions = np.argmax(X, axis=1) if np.ndim(X) == 2 else (np.asarray(X) > 0).astype(int)
        return self.classes_[positions]

    @available_if(lambda self: self.response == "predict_proba")
    def predict_proba(self, X) -> np.ndarray:
        """Return the rows."""
        return X

    @available_if(lambda self: self.response == "decision_function")
    def decision_function(self, X) -> np.ndarray:
        """Return the rows."""
        return X


def fit_score_map(
    method: MapName,
    scores: np.ndarray,
    rows: Rows,
    classes: np.ndarray,
    response: ResponseName = "predict_proba",
) -> CalibratedClassifierCV:
    """Return scikit-learn's map ``method`` of scores Float[n, K], or Float[n] of binary logits.

    Of the calibration rows only labels and weights are used. ValueError is raised if a class has no
    calibration row; for "temperature", if fewer than two classes have one.
    """
    kind = "predict_proba" if response == "predict_proba" else "decision_function"
    # The map is fitted to positions of classes: temperature scaling of scikit-learn 1.9 takes
    # labels that are numbers for columns, and reads beyond the scores if they are not 0 to K - 1.
    frozen = FrozenEstimator(GivenScores(kind).fit(None, np.arange(len(classes))))
    y, weight = rows.y, rows.weight
    missing = np.setdiff1d(np.arange(len(classes)), y)
    if method == "temperature" and len(missing) >= len(classes) - 1:
        available = classes[np.unique(y)].tolist()
        raise ValueError(
            "temperature calibration needs rows of two classes, the calibration rows have only"
            f" {available}; {MORE_ROWS_ADVICE}"
        )
    # scikit-learn requires rows of all classes; rows of weight 0 do not change the temperature.
    if method == "temperature" and len(missing):
        scores = np.concatenate([scores, np.repeat(scores[:1], len(missing), axis=0)])
        y, weight = np.concatenate([y, missing]), np.append(weight, np.zeros(len(missing)))
    elif len(missing):
        named = classes[missing].tolist()
        raise ValueError(
            f"{method} calibration needs rows of every class, the calibration rows have none of"
            f" {named}; {MORE_ROWS_ADVICE}"
        )
    all_rows = np.arange(len(y))
    weights = {} if (weight == 1).all() else {"sample_weight": weight}
    # A frozen estimator ignores the weights; only the maps are fitted, so the warning is
    # suppressed.
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Since FrozenEstimator does not appear to accept sample_weight"
        )
        maps = CalibratedClassifierCV(
            frozen, method=method, cv=[(all_rows, all_rows)], ensemble=False
        )
        return maps.fit(scores, y, **weights)


def apply_score_map(maps: CalibratedClassifierCV, scores: np.ndarray) -> np.ndarray:
    """Return the probabilities Float[n, K] of a map of :func:`fit_score_map`.

    They are ``maps.predict_proba(scores)`` to the bit. For one row, what scikit-learn finds out
    about scores and labels around the maps takes three times as long as the maps.
    """
    fitted = maps.calibrated_classifiers_[0]
    n_classes = len(fitted.classes)
    is_binary, is_proba = n_classes == 2, fitted.estimator.response == "predict_proba"
    if np.ndim(scores) == 1:
        scores = scores[:, None]
    elif is_binary and is_proba:
        scores = scores[:, 1:]
    if fitted.method == "temperature":
        if is_binary and is_proba:
            scores = np.concatenate([1 - scores, scores], axis=1)
        proba = np.asarray(fitted.calibrators[0].predict(scores), dtype=np.float64)
    else:
        mapped = [map_.predict(of) for map_, of in zip(fitted.calibrators, scores.T, strict=True)]
        if is_binary:
            mapped = [1 - np.asarray(mapped[0], dtype=np.float64), mapped[0]]
        proba = np.stack(mapped, axis=1).astype(np.float64)
        if not is_binary:
            total = proba.sum(axis=1, keepdims=True)
            uniform = np.full_like(proba, 1 / n_classes)
            proba = np.divide(proba, total, out=uniform, where=total != 0)
    proba[(proba > 1.0) & (proba <= 1.0 + 1e-5)] = 1.0
    return proba


@dataclass(eq=False, repr=False)
class LinearPool(Uncalibrated):
    """Mean of the probabilities of several calibrators of one parent.

    All are fitted on the same calibration rows. Isotonic regression follows these rows closely, and
    one temperature is rigid, so their errors differ.

    Parameters
    ----------
    members : mapping of str to estimator, or None, default=None
        At least one calibrator by name, whose own ``estimator`` is replaced by the fitted parent;
        ``random_state`` seeds those without a seed. None: temperature and isotonic.

    Attributes
    ----------
    members_ : dict of str to estimator
        Fitted calibrators by name.

    References
    ----------
    Stone, "The opinion pool", Annals of Mathematical Statistics 32, 1961. Ranjan and Gneiting,
    "Combining probability forecasts", JRSSB 72, 2010: the mean of calibrated members is not
    calibrated but too close to the middle, unless they agree. Members that are fitted on few rows
    are too far from it.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = make_moons(600, noise=0.3, random_state=0)
    >>> pool = LinearPool(RandomForestClassifier(50, random_state=0), random_state=0).fit(X, y)
    >>> both = [member.predict_proba(X) for member in pool.members_.values()]
    >>> bool(np.allclose(pool.predict_proba(X), (both[0] + both[1]) / 2))
    True
    """

    _: KW_ONLY
    members: Mapping[str, Any] | None = None

    def _needs_unseen_rows(self) -> bool:
        return True

    def _requires_training_rows(self) -> bool:
        return any_requires_training_rows((self.members or {}).values())

    def _needs_many_rows(self) -> bool:
        members = (self.members or {}).values()
        return bool(members) and all(needs_many_rows(member) for member in members)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        members = self.members
        if members is None:
            members = {
                "temperature": ScoreMap(None, method="temperature"),
                "isotonic": ScoreMap(None, method="isotonic"),
            }
        if not members:
            raise ParameterError("members must name at least one calibrator, got none")
        self.members_ = {
            name: fit_behind_parent(self, member, train, calibration)
            for name, member in members.items()
        }

    def predict_proba(self, X) -> np.ndarray:
        X = self._validate_X(X)
        rows = Rows.unweighted(X, keep_outputs=True)
        proba = [
            # Others, such as a density graph, compute more of the rows than outputs of the parent.
            member._predict_rows(rows)
            if isinstance(member, Uncalibrated)
            else member.predict_proba(X)
            for member in self.members_.values()
        ]
        return np.mean(proba, axis=0)

    def _predict_rows(self, rows: Rows) -> np.ndarray:
        return np.mean([member._predict_rows(rows) for member in self.members_.values()], axis=0)
