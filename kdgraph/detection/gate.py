"""Gate whose weight is an out-of-distribution score, for rows near to the data and far from it.

Behind a :class:`~kdgraph.density.DensityGate`, a row of a new class between the known ones keeps
its confidence. :class:`ScoreGate` blends with the class prior by the score of any detector, by
default an ensemble that also finds such rows. Original to kdgraph.
"""

from __future__ import annotations

import copy
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from kdgraph.base import PostHoc, PostHocClassifier, Rows
from kdgraph.base.frozen import unwrap_frozen
from kdgraph.base.posthoc import seeded_clone
from kdgraph.density.classifiers import blend_with_prior, conformal_log_floor
from kdgraph.detection.base import PostHocDetector
from kdgraph.detection.conformal import UpperTails
from kdgraph.detection.score_ensemble import ForestScoreEnsemble
from kdgraph.detection.sets import check_row_detector
from kdgraph.geometry.kinds import NoPartitionError
from kdgraph.parameters import ClosedFraction, OpenFraction, RequiredPartition
from kdgraph.parents.row_encoder import behind_row_encoder, needs_row_encoder


@dataclass(eq=False, repr=False)
class ScoreGate(PostHocClassifier):
    """Classifier whose probabilities fall back to the class prior where a detector finds outliers.

    g(x) = w(x)·p(x) + (1 - w(x))·P with w = min(1, p̂(x) / b), where p are the probabilities of
    ``estimator``, P the class fractions of the training rows, p̂ the tail probability of the
    detector's score among in-distribution rows (:class:`~kdgraph.detection.conformal.UpperTails`),
    and b its value at the threshold for a fraction α of these rows.

    Parameters
    ----------
    estimator : estimator
        Classifier or calibrator.
    detector : PostHocDetector, default=None
        Detector of single rows, cloned, fitted, and calibrated in the same way as the gate. If its
        own ``estimator`` is None, it is fitted after the parent of ``estimator``, of a calibrator
        the classifier behind it. A forest of its own gets text, categories and missing values as
        ``partition`` of a :class:`~kdgraph.density.DensityGate` does. None for
        :class:`~kdgraph.detection.ForestScoreEnsemble`, which needs a forest.
    alpha : float, default=0.01
        Fraction of in-distribution rows whose probabilities may change.
    min_weight : float, default=1e-9
        Minimum of w, which keeps the argmax of ``estimator`` among equal priors.
    n_jobs : int, default=None
        Number of threads of the default detector. Results do not depend on it.

    Attributes
    ----------
    detector_, tails_ : PostHocDetector, UpperTails
        The fitted detector, and the distribution of its scores over in-distribution rows.
    log_threshold_ : float
        Logarithm of b.

    Notes
    -----
    *In distribution* an expected fraction of at most max(α, 1/(m + 1)) of rows is below the
    threshold, with m calibration scores; all others keep their probabilities. As p̂ of
    in-distribution rows is about uniform, they give away a weight of α/2 on average. *Far from the
    data* g tends to P if the score is unbounded, as that of a density or a distance is, because
    tails are continued exponentially; an entropy or a maximal probability is bounded.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_wine(return_X_y=True)
    >>> forest = RandomForestClassifier(100, random_state=0)
    >>> gate = ScoreGate(forest, alpha=0.05, calibration="oob", random_state=0)
    >>> new_class, gate = X[y == 2], gate.fit(X[y < 2], y[y < 2])
    >>> far = [each.predict_proba(new_class).max(axis=1).mean() for each in (gate, gate.estimator_)]
    >>> bool(far[0] < far[1] - 0.1)
    True
    """

    _: KW_ONLY
    detector: Any = None
    alpha: OpenFraction = 0.01
    min_weight: ClosedFraction = 1e-9
    n_jobs: int | None = None

    @property
    def required_partition(self) -> RequiredPartition | None:  # type: ignore[override]
        """Kind of partition that the detector needs of the parent, if it needs one of it."""
        detector = ForestScoreEnsemble if self.detector is None else self.detector
        has_own = getattr(self.detector, "estimator", None) is not None
        return None if has_own else getattr(detector, "required_partition", None)

    def _check_parent(self) -> Any:
        check_row_detector("detector", self.detector, "GraphDensity(None)")
        return super()._check_parent()

    def _distance_estimator(self) -> Any:
        if not isinstance(self.detector, PostHocDetector | None):
            return None  # an error follows
        if self._needs_row_encoder():
            return None
        return self._detector_behind(_parent_behind(self.estimator))._distance_estimator()

    def _needs_row_encoder(self) -> bool:
        # The detector has a forest that takes fewer rows than ``estimator``.
        return needs_row_encoder(getattr(self.detector, "estimator", None), self.estimator)

    def _detector_behind(self, parent: Any) -> PostHocDetector:
        detector = (
            ForestScoreEnsemble(n_jobs=self.n_jobs)
            if self.detector is None
            else copy.copy(self.detector)
        )
        return detector if detector.estimator is not None else detector.set_params(estimator=parent)

    def _needs_unseen_rows(self) -> bool:
        # Without held-out rows, the detector computes what it needs without each row.
        return self.calibration == "held_out"

    def _requires_training_rows(self) -> bool:
        return True

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        detector = self._detector_behind(FrozenEstimator(_parent_behind(self.estimator_)))
        if self._needs_row_encoder():
            forest = behind_row_encoder(detector.estimator, self.estimator_, train.X)
            detector.set_params(estimator=forest)
        detector.set_params(calibration=self.calibration_, cv=self.cv)
        detector = seeded_clone(detector, self.random_state)
        labels = self.classes_[train.y]
        held_out = self.calibration_ == "held_out"
        try:
            detector.fit(train.X, labels, **({"X_calibration": calibration.X} if held_out else {}))
        except NoPartitionError as error:
            own = f"detector={type(detector).__name__}(RandomForestClassifier())"
            raise TypeError(
                f"{error}; any classifier can be combined with a forest's partition:"
                f" ScoreGate({error.name}(), {own}), or DensityGate({error.name}(),"
                " partition=RandomForestClassifier())"
            ) from None
        self.detector_ = detector
        self.tails_ = UpperTails(-detector.calibration_scores_[:, None])
        self.log_threshold_ = conformal_log_floor(
            self._log_tail(detector.calibration_scores_), self.alpha
        )

    def _log_tail(self, score: np.ndarray) -> np.ndarray:
        return -self.tails_(-score[:, None])[:, 0]

    def proba_and_ood_score(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Return :meth:`predict_proba`, Float[n, K], and :meth:`ood_score`, Float[n], together."""
        X = self._validate_X(X)
        proba, log_tail = self.estimator_.predict_proba(X), self._log_tail_of(X)
        blend = blend_with_prior(
            proba, self.prior_, log_tail, self.log_threshold_, self.min_weight, clipped=True
        )
        return blend, self.log_threshold_ - log_tail

    def predict_proba(self, X) -> np.ndarray:
        """Return class probabilities, Float[n, K], of rows X: Float[n, d], images or DataFrame."""
        return self.proba_and_ood_score(X)[0]

    def ood_score(self, X) -> np.ndarray:
        """Return OOD scores, Float[n]; above 0 the prior has a part in the probabilities."""
        return self.log_threshold_ - self._log_tail_of(self._validate_X(X))

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record."""
        return {**self.detector_.describe(), "log_threshold": self.log_threshold_}

    def _log_tail_of(self, X: Any) -> np.ndarray:
        return self._log_tail(self.detector_.score_samples(X))


def _parent_behind(estimator: Any) -> Any:
    """Return the classifier after which a calibrator, fitted or not, is fitted in the end."""
    estimator = unwrap_frozen(estimator)
    while isinstance(estimator, PostHoc):
        fitted = getattr(estimator, "estimator_", None)
        estimator = unwrap_frozen(estimator._default_estimator() if fitted is None else fitted)
    return estimator
