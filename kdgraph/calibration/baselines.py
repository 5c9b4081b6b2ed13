"""Baselines of calibration: the uncalibrated parent, scikit-learn's maps, refits and a linear pool.

Every calibrator is compared with them. Original to kdgraph, except where a paper is cited.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator

from kdgraph.base import PostHocClassifier, Rows, seeded_clone
from kdgraph.base.posthoc import any_requires_training_rows
from kdgraph.base.rows import sample_weight_kwargs
from kdgraph.errors import ParameterError

MapName = Literal["isotonic", "sigmoid", "temperature"]


def fit_behind_parent(model: Any, calibrator: Any, train: Rows, rows: Rows) -> Any:
    """Return a clone of a calibrator that is fitted behind the fitted parent of another one.

    Parameters
    ----------
    model : estimator
        Fitted up to its parent, ``estimator_``; its ``random_state`` seeds a clone without a seed.
    calibrator : estimator
        Calibrator to clone; its own ``estimator`` is replaced by the frozen parent.
    train, rows : Rows
        Training rows and calibration rows, [n, …] each.
    """
    parent = model.estimator_
    frozen = parent if isinstance(parent, FrozenEstimator) else FrozenEstimator(parent)
    return (
        seeded_clone(calibrator, model.random_state)
        .set_params(estimator=frozen)
        .fit(
            train.X,
            model.classes_[train.y],
            X_calibration=rows.X,
            y_calibration=model.classes_[rows.y],
            sample_weight_calibration=rows.weight,
        )
    )


def needs_many_rows(calibrator: Any) -> bool:
    """Return whether few calibration rows can make the calibrator predict 0 or 1."""
    return isinstance(calibrator, PostHocClassifier) and calibrator._needs_many_rows()


class Uncalibrated(PostHocClassifier):
    """The uncalibrated parent; held-out rows are not used.

    Parameters
    ----------
    estimator : classifier
        Any classifier with ``predict_proba``; it is cloned and fitted, unless it is frozen.
    calibration_size : float, default=0.3
        Fraction of the rows that are held out if ``fit`` gets no calibration rows. Behind a frozen
        estimator, pass rows that it was not fitted on: ``fit(X, y, X_calibration=…,
        y_calibration=…)``; see :class:`~kdgraph.base.PostHoc`.
    random_state : int, RandomState or None, default=None
        Seed of the held-out rows, and of a parent without a seed.

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
        self.calibrated_ = self.estimator_

    def _fit_behind_parent(self, calibrator: Any, train: Rows, rows: Rows) -> Any:
        """Return a seeded clone of ``calibrator``, fitted to ``rows`` behind the fitted parent."""
        return fit_behind_parent(self, calibrator, train, rows)

    @np.errstate(under="ignore")
    def predict_proba(self, X) -> np.ndarray:
        """Return the class probabilities, Float[n, K]."""
        X = self._validate_X(X)
        return self.calibrated_.predict_proba(X)


class Refit(Uncalibrated):
    """The parent, refitted on training and held-out rows together.

    The refit shows how much the held-out rows improve the parent if they are not used for
    calibration.

    Parameters
    ----------
    estimator, calibration_size, random_state
        See :class:`Uncalibrated`. If the parent is frozen, an unfitted clone of it is fitted.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_moons(200, noise=0.3, random_state=0)
    >>> Refit(LogisticRegression(), random_state=0).fit(X, y).predict_proba(X).shape
    (200, 2)
    """

    uses_raw_weights: ClassVar = True

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        parent = (
            self.estimator_.estimator
            if isinstance(self.estimator_, FrozenEstimator)
            else self.estimator_
        )
        rows = train + calibration
        missing = np.setdiff1d(np.arange(len(self.classes_)), rows.y)
        if len(missing):
            raise ValueError(
                "Refit needs rows of every class of the frozen parent, got none of"
                f" {self.classes_[missing].tolist()}"
            )
        again = seeded_clone(parent, self.random_state)
        self.calibrated_ = again.fit(
            rows.X, self.classes_[rows.y], **sample_weight_kwargs(again, rows.weight)
        )


@dataclass(eq=False, repr=False)
class ScoreMap(Uncalibrated):
    """Map from the parent's scores to probabilities, by scikit-learn.

    Parameters
    ----------
    estimator, calibration_size, random_state
        See :class:`Uncalibrated`.
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
        self.calibrated_ = score_map(self.estimator_, self.method, calibration, self.classes_)


class AgainstTheRest(FrozenEstimator):
    """Fitted classifier whose scores are the log odds of each class against the rest."""

    def decision_function(self, X) -> np.ndarray:
        """Return the log odds, Float[n, K], with probabilities kept off 0 and 1."""
        limits = np.finfo(np.float64)
        proba = np.clip(
            self.estimator.predict_proba(X).astype(np.float64), limits.tiny, 1 - limits.epsneg
        )
        return np.log(proba) - np.log1p(-proba)


def score_map(
    parent: Any, method: MapName, rows: Rows, classes: np.ndarray
) -> CalibratedClassifierCV:
    """Return scikit-learn's map ``method`` behind a fitted parent.

    Parameters
    ----------
    parent : classifier
        Fitted parent.
    method : "isotonic", "sigmoid" or "temperature"
        Name of the map.
    rows : Rows
        Calibration rows, [n, …].
    classes : ndarray of shape (K,)
        Labels, [K].

    Raises
    ------
    ValueError
        If a class has no calibration row; for "temperature", if fewer than two classes have one.
    """
    frozen = parent if isinstance(parent, FrozenEstimator) else FrozenEstimator(parent)
    if (
        method != "temperature"
        and len(classes) > 2
        and hasattr(frozen, "decision_function")
        and hasattr(frozen, "predict_proba")
    ):
        frozen = AgainstTheRest(frozen.estimator)
    missing = np.setdiff1d(np.arange(len(classes)), rows.y)
    if method == "temperature" and len(missing) >= len(classes) - 1:
        available = classes[np.unique(rows.y)].tolist()
        raise ValueError(
            "temperature calibration needs rows of two classes, the calibration rows have only"
            f" {available}"
        )
    # scikit-learn requires rows of all classes; rows of weight 0 do not change the temperature.
    if method == "temperature" and len(missing):
        rows = rows + replace(
            rows[np.zeros(len(missing), dtype=np.intp)], y=missing, weight=np.zeros(len(missing))
        )
    elif len(missing):
        named = classes[missing].tolist()
        raise ValueError(
            f"{method} calibration needs rows of every class, the calibration rows have none of"
            f" {named}"
        )
    labels, all_rows = classes[rows.y], np.arange(len(rows))
    weights = {} if (rows.weight == 1).all() else {"sample_weight": rows.weight}
    # A frozen parent ignores the weights; only the maps are fitted, so the warning is suppressed.
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="Since FrozenEstimator does not appear to accept sample_weight"
        )
        maps = CalibratedClassifierCV(
            frozen, method=method, cv=[(all_rows, all_rows)], ensemble=False
        )
        return maps.fit(rows.X, labels, **weights)


@dataclass(eq=False, repr=False)
class LinearPool(Uncalibrated):
    """Mean of the probabilities of several calibrators of one parent.

    All are fitted on the same calibration rows. Isotonic regression follows these rows closely, and
    one temperature is rigid, so their errors differ.

    Parameters
    ----------
    estimator, calibration_size, random_state
        See :class:`Uncalibrated`; ``random_state`` also seeds members without a seed.
    members : mapping of str to estimator, or None, default=None
        Calibrators by name, whose own ``estimator`` is replaced by the fitted parent. None:
        temperature and isotonic.

    Attributes
    ----------
    members_ : dict of str to estimator
        Fitted calibrators by name.

    Raises
    ------
    ParameterError
        If there are no members.

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
            name: self._fit_behind_parent(member, train, calibration)
            for name, member in members.items()
        }

    def predict_proba(self, X) -> np.ndarray:
        """Return the mean of the members' probabilities, Float[n, K]."""
        X = self._validate_X(X)
        return np.mean([member.predict_proba(X) for member in self.members_.values()], axis=0)
