"""What every calibrator is compared with: the parent as it is, scikit-learn's maps, and the parent
fitted on all the rows.

The mean of what several calibrators say.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from kdgraph.base import PostHocClassifier, Rows, seeded_clone
from kdgraph.base.posthoc import any_requires_training_rows
from kdgraph.base.rows import sample_weight_kwargs
from kdgraph.errors import ParameterError

MapName = Literal["isotonic", "sigmoid", "temperature"]


class Uncalibrated(PostHocClassifier):
    """The parent's own probabilities; the held-out rows are left unused.

    Parameters
    ----------
    estimator : any classifier with ``predict_proba``; cloned and fitted, unless frozen.
    calibration_size : share of the rows to hold out where ``fit`` is not given any. After a frozen
        estimator give it rows that this was not fitted on, ``fit(X, y, X_calibration=…,
        y_calibration=…)``: see :class:`~kdgraph.base.PostHoc`.
    random_state : seeds the held-out rows, and the parent where it has no seed of its own.
    """

    def _needs_unseen_rows(self) -> bool:
        return False

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self.calibrated_ = self.estimator_

    def _fit_behind_parent(self, calibrator: Any, train: Rows, rows: Rows) -> Any:
        """A clone of ``calibrator`` behind the fitted parent, fitted with these calibration
        ``rows``; seeded by us if it has no seed.
        """
        frozen = (
            self.estimator_
            if isinstance(self.estimator_, FrozenEstimator)
            else FrozenEstimator(self.estimator_)
        )
        given = {
            "X_calibration": rows.X,
            "y_calibration": self.classes_[rows.y],
            "sample_weight_calibration": rows.weight,
        }
        return (
            seeded_clone(calibrator, self.random_state)
            .set_params(estimator=frozen)
            .fit(train.X, self.classes_[train.y], **given)
        )

    @np.errstate(under="ignore")
    def predict_proba(self, X) -> np.ndarray:
        """Float[n, K]."""
        X = self._validate_X(X)
        return self.calibrated_.predict_proba(X)


class Refit(Uncalibrated):
    """The parent fitted once more, on training and held-out rows together: what the held-out rows
    are worth to the parent itself.

    Parameters
    ----------
    estimator, calibration_size, random_state : as in :class:`Uncalibrated`; of a frozen parent, an
        unfitted clone is fitted.
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
class Retrained(Uncalibrated):
    """The parent fitted once more on its own training rows with other parameters, such as a network
    with a loss that calibrates it.

    Parameters
    ----------
    estimator, calibration_size, random_state : as in :class:`Uncalibrated`; of a frozen parent, an
    unfitted clone is fitted.
    changes : parameter → value, of the parent itself; in a pipeline, of its last step.

    Raises
    ------
    ParameterError : for a parameter that the parent does not have.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Table 1, whose row "MMCE
    optimization" is the network trained with the loss of Kumar et al. (2018).
    """

    _: KW_ONLY
    changes: Mapping[str, Any] | None = None

    uses_raw_weights: ClassVar = True

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        parent = (
            self.estimator_.estimator
            if isinstance(self.estimator_, FrozenEstimator)
            else self.estimator_
        )
        again = seeded_clone(parent, self.random_state)
        last = _last_of(again)
        if unknown := sorted(set(self.changes or {}) - set(last.get_params(deep=False))):
            raise ParameterError(
                f"changes must be parameters of the parent, {type(last).__name__}, got"
                f" {unknown[0]!r}"
            )
        last.set_params(**(self.changes or {}))
        self.calibrated_ = again.fit(
            train.X, self.classes_[train.y], **sample_weight_kwargs(again, train.weight)
        )

    def describe(self) -> dict[str, Any]:
        """What the parent has learnt this time, for the record; nothing of one that does not say
        so.
        """
        last = _last_of(self.calibrated_)
        return last.describe() if hasattr(last, "describe") else {}


@dataclass(eq=False, repr=False)
class ScoreMap(Uncalibrated):
    """A map from the parent's scores to probabilities, by scikit-learn.

    Parameters
    ----------
    estimator, calibration_size, random_state : as in :class:`Uncalibrated`.
    method : "isotonic" (Zadrozny and Elkan 2001) or "sigmoid" (Platt 1999), each class against the
        rest; or "temperature" (Guo et al. 2017), one number that divides all logits: those of
        ``decision_function``, or log probabilities of a parent that has none. The first two take
        the probability of each class; of a parent that has a ``decision_function`` too, such as a
        network, its log odds: a logit alone says nothing of its class, for all of a row may be
        raised together.
    """

    _: KW_ONLY
    method: MapName = "isotonic"

    def _needs_unseen_rows(self) -> bool:
        return True

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        self.calibrated_ = score_map(self.estimator_, self.method, calibration, self.classes_)


class AgainstTheRest(FrozenEstimator):
    """A fitted classifier of several classes whose scores are the log odds of each class against
    all others.
    """

    def decision_function(self, X) -> np.ndarray:
        """Float[n, K]; of a probability of 0 or 1 that of the nearest number."""
        inside = np.finfo(np.float64)
        proba = np.clip(
            self.estimator.predict_proba(X).astype(np.float64), inside.tiny, 1 - inside.epsneg
        )
        return np.log(proba) - np.log1p(-proba)


def _last_of(parent: Any) -> Any:
    """The step of a pipeline that predicts, or the parent."""
    return parent.steps[-1][1] if isinstance(parent, Pipeline) else parent


def score_map(
    parent: Any, method: MapName, rows: Rows, classes: np.ndarray
) -> CalibratedClassifierCV:
    """The map ``method`` behind the fitted ``parent``, fitted on ``rows``.

    They need some of every one of the ``classes``, [K]; for "temperature", some of two of them.
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
        found = classes[np.unique(rows.y)].tolist()
        raise ValueError(
            "temperature calibration needs rows of two classes, the calibration rows have only"
            f" {found}"
        )
    if method == "temperature" and len(missing):  # scikit-learn needs all: rows that weigh nothing
        rows = rows + replace(
            rows[np.zeros(len(missing), dtype=np.intp)], y=missing, weight=np.zeros(len(missing))
        )
    elif len(missing):
        named = classes[missing].tolist()
        raise ValueError(
            f"{method} calibration needs rows of every class, the calibration rows have none of"
            f" {named}"
        )
    labels, everyone = classes[rows.y], np.arange(len(rows))
    more = {} if (rows.weight == 1).all() else {"sample_weight": rows.weight}
    with (
        warnings.catch_warnings()
    ):  # it is right that a frozen parent ignores the weights: only the maps are fitted
        warnings.filterwarnings(
            "ignore", message="Since FrozenEstimator does not appear to accept sample_weight"
        )
        maps = CalibratedClassifierCV(
            frozen, method=method, cv=[(everyone, everyone)], ensemble=False
        )
        return maps.fit(rows.X, labels, **more)


@dataclass(eq=False, repr=False)
class LinearPool(Uncalibrated):
    """The mean of the probabilities of several calibrators of one parent, each fitted on the same
    calibration rows.

    Isotonic regression bends to the rows that it is fitted on, and one temperature cannot bend at
    all: they err in different places.

    Parameters
    ----------
    estimator, calibration_size, random_state : as in :class:`~kdgraph.calibration.Uncalibrated`; it
    seeds members without a seed, too.
    members : calibrators by name, whose own ``estimator`` is replaced by the fitted parent; None:
        temperature and isotonic.

    Attributes
    ----------
    members_ : the fitted calibrators by name.

    Raises
    ------
    ParameterError : without members.

    References
    ----------
    Stone, "The opinion pool", Annals of Mathematical Statistics 32, 1961. Ranjan and Gneiting,
    "Combining probability forecasts", JRSSB 72, 2010: the mean of members that are calibrated each
    is not, but too close to the middle, unless they agree. Those that are fitted on few rows are
    too far from it.

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
        """Float[n, K]."""
        X = self._validate_X(X)
        return np.mean([member.predict_proba(X) for member in self.members_.values()], axis=0)
