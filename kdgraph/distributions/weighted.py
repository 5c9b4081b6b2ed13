"""The CRPS of weighted samples, exactly (Jordan, Krueger and Lerch 2019, the quantile decomposition of "scoringRules")."""

from __future__ import annotations

import numpy as np


def crps_of_samples(x: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Float[n]: 2 Σ_i w_i (y - x_i) (c_i - [y < x_i]), c_i the sum of the weights before x_i and half its own.

    Parameters
    ----------
    x : Float[n, m], increasing in each row.
    weights : Float[m] or Float[n, m], not negative, which sum to 1.
    y : Float[n].

    Examples
    --------
    >>> crps_of_samples(np.array([[0.0, 1.0]]), np.array([0.5, 0.5]), np.array([3.0])).tolist()  # E|X - y| - E|X - X'|/2
    [2.25]
    """
    middle = np.cumsum(weights, axis=-1) - weights / 2
    distance = y[:, None] - x
    return 2 * total(weights * distance * (middle - (distance < 0)))


def total(values: np.ndarray) -> np.ndarray:
    """Float[n] of Float[n, m], a number of Float[m]: sums over the last axis, one number after the other.

    Zeros at the end of a row change no bit, as they do where sums are in pairs.
    """
    return np.cumsum(values, axis=-1)[..., -1] if values.ndim > 1 else values.sum()


def mean_of_samples(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Float[n] of x: Float[n, m] and weights Float[m] or Float[n, m], which sum to 1; a number of Float[m]."""
    return total(weights * x)


def var_of_samples(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As :func:`mean_of_samples`: the mean square about the mean."""
    return total(weights * np.square(x - mean_of_samples(x, weights)[..., None]))


def crps_of_one_sample(x: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same where all n rows have one sample, x: Float[m] increasing, in (n + m) log m steps.

    The part with c_i is linear in y, and the other needs, of the x_i above y, their weight and their weighted sum.
    """
    middle = np.cumsum(weights) - weights / 2
    above = np.searchsorted(x, y, side="right")  # x[above:] are those above y
    weight_above = np.append(np.cumsum(weights[::-1])[::-1], 0.0)[above]
    sum_above = np.append(np.cumsum((weights * x)[::-1])[::-1], 0.0)[above]
    return 2 * (y * (weights * middle).sum() - (weights * middle * x).sum() - (y * weight_above - sum_above))
