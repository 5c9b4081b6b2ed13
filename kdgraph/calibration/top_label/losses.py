"""Losses of the log odds that a prediction is right (Salamon et al., Eq. 14 and 15), and the one way to minimise them: scipy's L-BFGS-B."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

Loss = Literal["nll", "brier", "full_nll"]
Objective = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""From parameters, Float[p], to a mean over rows and its gradient, Float[p]."""

_FRESH_STARTS = 3
"""How often a fit that stops short of an optimum goes on from there."""
_SLACK = 1e-7
"""The largest slope at a minimum; what is minimised is a mean over rows, whose losses are near 1."""
_APART = 0.01
"""A confidence so near to 0 of a wrong row, or to 1 of a right one, is all but sure."""


class Minimum(NamedTuple):
    """Where a loss is least.

    Attributes
    ----------
    at : Float[p], the parameters.
    converged : whether the slope is 0 there, but for bounds.
    bounded : Bool[p], the parameters that are at a bound.
    """

    at: np.ndarray
    converged: bool
    bounded: np.ndarray


def binary_loss(z: np.ndarray, correct: np.ndarray, loss: Loss) -> tuple[np.ndarray, np.ndarray]:
    """Eq. 14 or 15 of Salamon et al. by row, and its derivative by z.

    Parameters
    ----------
    z : Float[n], log odds of the confidence.
    correct : Bool[n], whether the prediction is right.
    loss : "brier" is Eq. 15, the others Eq. 14, without the rounding that ``log(1 - p)`` has near 1.

    Returns
    -------
    Float[n], Float[n].

    Examples
    --------
    >>> value, slope = binary_loss(np.zeros(2), np.array([True, False]), "nll")
    >>> value.round(4), slope
    (array([0.6931, 0.6931]), array([-0.5,  0.5]))
    """
    p = expit(z)
    away = np.where(correct, -expit(-z), p)  # p - correct
    if loss == "brier":
        return away**2, 2 * away * p * expit(-z)
    return np.logaddexp(0, np.where(correct, -z, z)), away


def minimised(objective: Objective, starts: Sequence[np.ndarray], bounds: Sequence[tuple[float | None, float | None]]) -> Minimum:
    """Go down from the best of the ``starts``, Float[p] each, by scipy's L-BFGS-B: the end is no worse than any of them.

    Ours: a mean loss that has more than one minimum, as that of a temperature may, is looked at in several places.
    """
    best = min(starts, key=lambda parameters: objective(parameters)[0])
    low = np.array([-np.inf if least is None else least for least, _ in bounds])
    high = np.array([np.inf if most is None else most for _, most in bounds])
    options = {"ftol": 0, "gtol": _SLACK / 10, "maxiter": 1000}

    def is_flat(at: np.ndarray) -> bool:
        return bool(np.abs(np.clip(at - objective(at)[1], low, high) - at).max() <= _SLACK)

    for _ in range(_FRESH_STARTS):  # one that gives up on its way, with what it remembers of the curvature, goes on without that
        found = minimize(objective, best, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        best = found.x if found.fun <= objective(best)[0] else best
        if is_flat(best):
            break
    return Minimum(best, is_flat(best), (best <= low + 1e-6) | (best >= high - 1e-6))


def lie_apart(z: np.ndarray, correct: np.ndarray) -> bool:
    """Whether log odds z, Float[n], of a curve that may be as steep as it likes tell right rows from wrong ones, Bool[n], but for one tie.

    Ours: then there is no finite optimum, and the last step before it is taken for one. Where rows do not lie apart, some right row has a
    score below that of a wrong one, and at least these two, at different z, cannot both be all but surely what they are.
    """
    unsure = expit(np.where(correct, z, -z)) <= 1 - _APART
    mixed = correct[unsure].any() and not correct[unsure].all()
    return bool(not unsure.any() or (mixed and not unsure.all() and np.ptp(z[unsure]) < 1e-6))
