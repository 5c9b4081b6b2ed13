"""ODIN as a calibrator: a softmax with a temperature after a small step of the input.

Liang et al. 2018 use it to detect OOD rows; Dey et al. compare with it as a calibrator.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax

from kdgraph.base import PostHocClassifier, Rows
from kdgraph.base.network_access import ODIN_STEP_SIZES, input_spread, logits_after_step
from kdgraph.errors import ParameterError
from kdgraph.metrics import fpr95
from kdgraph.parameters import NonNegative, Positive

TEMPERATURES = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)
"""Candidates of T if OOD rows choose it, as in Liang et al."""
_LOG_TEMPERATURES = (np.log(1e-2), np.log(1e4))
"""Bounds of log T if the calibration rows choose it."""


@dataclass(eq=False, repr=False)
class OdinCalibration(PostHocClassifier):
    """Probabilities softmax(f(x̃)/T) of a network with logits f.

    The input x̃ is the row after a step of size ε that raises the largest probability.

    Parameters
    ----------
    estimator : classifier
        Network of :mod:`kdgraph.parents.networks`, also in a pipeline.
    temperature : float or "auto", default="auto"
        Temperature T; "auto": chosen in ``fit``.
    epsilon : float or "auto", default="auto"
        Step size ε, by which each input of the network changes, in units of the spread of the
        inputs over training rows, as the images of Liang et al. are divided by their standard
        deviation. "auto": one of ``epsilons``, chosen in ``fit``.
    epsilons : sequence of float
        Candidates of ε for "auto", at least one.

    Attributes
    ----------
    temperature_, epsilon_, unit_ : float
        T, ε, and the spread of which ε is a multiple.
    tried_ : list of tuple of float, or None
        (ε, T, loss) of each pair that was compared. The loss is the negative log likelihood of the
        calibration rows in nats; if OOD rows choose, it is the fraction of them that pass at the
        threshold which 95 % of the calibration rows pass. None if nothing was chosen.

    Notes
    -----
    x̃ = x - ε·sign(-∇ₓ log S_ŷ(x; T)), where S is the softmax at T and ŷ its largest class, so a
    step raises the confidence, and ε = 0 is temperature scaling. T and ε have the least negative
    log likelihood on the calibration rows. T is searched for each ε with the step direction at the
    T of ε = 0, on which it hardly depends.

    Liang et al. choose both with OOD rows (``fit(…, X_ood=…)``, in a run ``protocol=paper``) for
    detection, not for calibration: such a T is a hundred or more, and the probabilities are nearly
    equal. Pixels are not clipped to [0, 1].

    References
    ----------
    Liang, Li and Srikant, "Enhancing the reliability of out-of-distribution image detection in
    neural networks", ICLR 2018, Eq. 1 and 2. Dey et al., Tables 1 and 4, compare with ODIN as a
    calibrator.

    Examples
    --------
    >>> from kdgraph.parents.networks import MultilayerPerceptron
    >>> X, y = np.repeat([[-1.0], [1.0]], 100, axis=0), np.repeat([0, 1], 100)
    >>> network = MultilayerPerceptron(hidden=(8,), max_epochs=1, device="cpu", random_state=0)
    >>> scaled = OdinCalibration(network, epsilon=0.0, random_state=0).fit(X, y)
    >>> expected = softmax(scaled.estimator_.logits(X) / scaled.temperature_, axis=1)
    >>> np.allclose(scaled.predict_proba(X), expected)
    True
    """

    _: KW_ONLY
    temperature: Positive | Literal["auto"] = "auto"
    epsilon: NonNegative | Literal["auto"] = "auto"
    epsilons: Sequence[NonNegative] = ODIN_STEP_SIZES

    required_partition: ClassVar = "network"
    paper_protocol: ClassVar = "ood"

    def fit(self, X, y, sample_weight=None, *, X_ood=None, **calibration):
        """Fit as :meth:`~kdgraph.base.PostHocClassifier.fit` does.

        Parameters
        ----------
        X, y, sample_weight, **calibration
            See :meth:`~kdgraph.base.PostHocClassifier.fit`.
        X_ood : array-like like X, or None, default=None
            OOD rows that choose T (of :data:`TEMPERATURES`) and ε as in the paper, with a warning
            that rows like these are no longer OOD for the method: the first pair for which the
            fewest of them pass the threshold on the largest probability which 95 % of the
            calibration rows pass.
        """
        self._X_ood = X_ood
        try:
            super().fit(X, y, sample_weight, **calibration)
        finally:
            del self._X_ood
        if X_ood is not None and self.tried_ is not None:
            reason = (
                "rows out of distribution chose temperature and epsilon; of rows like them it is no"
                " longer true that nothing was seen"
            )
            warnings.warn(f"{type(self).__name__}: {reason}", stacklevel=2)
        return self

    def _needs_unseen_rows(self) -> bool:
        return "auto" in (self.temperature, self.epsilon)

    def _fit_after(self, train: Rows, calibration: Rows) -> None:
        if not len(self.epsilons):
            raise ParameterError("epsilons must have at least one number, got []")
        self.unit_ = input_spread(self.estimator_, train.X)
        if "auto" not in (self.temperature, self.epsilon):
            self.tried_ = None
            self.epsilon_, self.temperature_ = float(self.epsilon), float(self.temperature)
            return
        if self._X_ood is not None:
            self.tried_ = list(
                self._compare_by_outliers(calibration, self._validate_rows(self._X_ood)[0])
            )
        else:
            self.tried_ = list(self._compare_by_likelihood(calibration))
        self.epsilon_, self.temperature_, _ = min(self.tried_, key=lambda trial: trial[2])

    @np.errstate(under="ignore")
    def predict_proba(self, X) -> np.ndarray:
        """Return the class probabilities, Float[n, K]."""
        rows = Rows.unweighted(self._validate_X(X))
        return softmax(
            self._logits(rows, self.temperature_, [self.epsilon_])[0] / self.temperature_, axis=1
        )

    def describe(self) -> dict[str, Any]:
        """Return the fitted values for the record."""
        return {"temperature": self.temperature_, "epsilon": self.epsilon_, "unit": self.unit_}

    def _steps(self) -> list[float]:
        return [
            float(size) for size in (self.epsilons if self.epsilon == "auto" else [self.epsilon])
        ]

    def _logits(
        self, rows: Rows, temperature: float, epsilons: Sequence[float]
    ) -> list[np.ndarray]:
        """Return the logits after a step of each size, Float[n, K] each."""
        sizes = [self.unit_ * step for step in epsilons]
        stacked = rows.apply(
            self.estimator_,
            lambda parent, X: np.stack(logits_after_step(parent, X, temperature, sizes), axis=1),
        )
        return list(np.moveaxis(stacked, 1, 0))

    def _compare_by_likelihood(self, rows: Rows) -> Iterator[tuple[float, float, float]]:
        """Yield ε, T and the negative log likelihood of each pair."""
        steps = self._steps()
        if self.temperature != "auto":
            t = float(self.temperature)
            yield from (
                (e, t, _nll(logits, rows, t))
                for e, logits in zip(steps, self._logits(rows, t, steps), strict=True)
            )
            return
        # The gradient of every step size is taken at the temperature without a step, so a search
        # for T needs one pass through the network. The loss of the pair is computed with its own T.
        unstepped = _best_temperature(self._logits(rows, 1.0, [0.0])[0], rows)
        for e, logits in zip(steps, self._logits(rows, unstepped, steps), strict=True):
            t = _best_temperature(logits, rows) if e else unstepped
            yield e, t, _nll(self._logits(rows, t, [e])[0], rows, t)

    def _compare_by_outliers(self, rows: Rows, X_ood: Any) -> Iterator[tuple[float, float, float]]:
        """Yield ε, T and the fraction of outliers that pass for each pair."""
        for t in TEMPERATURES if self.temperature == "auto" else [float(self.temperature)]:
            steps = self._steps()
            logits_by_step = (
                self._logits(each, t, steps) for each in (Rows.unweighted(X_ood), rows)
            )
            for e, *logits_of_sets in zip(steps, *logits_by_step, strict=True):
                scores = [-softmax(logits / t, axis=1).max(axis=1) for logits in logits_of_sets]
                yield e, t, fpr95(*scores)


@np.errstate(under="ignore")
def _nll(logits: np.ndarray, rows: Rows, temperature: float) -> float:
    """Return the mean negative log likelihood in nats of logits Float[n, K]."""
    log_proba = log_softmax(logits / temperature, axis=1)[np.arange(len(rows)), rows.y]
    return -float(np.average(log_proba, weights=rows.weight))


def _best_temperature(logits: np.ndarray, rows: Rows) -> float:
    """Return the T of the least negative log likelihood, which is convex in 1/T."""
    optimum = minimize_scalar(
        lambda log_t: _nll(logits, rows, float(np.exp(log_t))),
        bounds=_LOG_TEMPERATURES,
        method="bounded",
        options={"xatol": 1e-4},
    )
    return float(np.exp(optimum.x))
