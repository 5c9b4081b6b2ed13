"""The local-linear correction of PIT values: what is a slope across the neighbourhood is taken out of it; ours."""

from __future__ import annotations

import numpy as np

from kdgraph.distributions import Distribution, Normal


def normal_scores(base: Distribution, pits: np.ndarray) -> np.ndarray:
    """Float[n]: Φ⁻¹ of PIT values; of a normal distribution its standardised residuals, however far out.

    Of another family, values beyond what its distribution function can tell are as far out as one in 4n rows.
    """
    if isinstance(base, Normal):
        return Normal.standard_at(pits)
    least = 1 / (4 * len(pits))
    return Normal.standard_ppf(np.clip(pits, least, 1 - least))


def without_slope(scores: np.ndarray, X: np.ndarray, at: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Scores as they would be at each place: minus the slope of their weighted regression on where their rows lie.

    Parameters
    ----------
    scores : Float[m, k], normal scores of the neighbours' PIT values.
    X : Float[m, k, d], where they lie.
    at : Float[m, d], the places.
    weight : Float[m, k], not negative, in no row all 0.

    Returns
    -------
    Float[m, k] : z_i - b·(x_i - x), with b the slopes of the regression of z on x with these weights.

    Notes
    -----
    Ours. Algorithm 1 of Torres et al. takes the neighbours' PIT values as they are, a local constant: to the side of the data, or where
    the parent's error has a slope, their mean is off in first order of the bandwidth, and their spread has the slope in it. With the
    slope taken out both are off in second order, so that more neighbours may be taken. Slopes are shrunk as by a ridge of (d + 1) / n_eff
    of the mean variance, so that few rows, or rows on a line, give none; beyond the range of the neighbours in a coordinate, x is where
    that ends: nothing is extrapolated.

    Examples
    --------
    >>> x = np.linspace(0, 1, 101)
    >>> moved = without_slope(3 * x[None], x[None, :, None], np.array([[0.25]]), np.ones((1, 101)))
    >>> bool(np.ptp(moved) < 0.1 and abs(moved.mean() - 0.75) < 0.03)
    True
    """
    share = weight / weight.sum(axis=1, keepdims=True)
    counts = (weight > 0)[:, :, None]
    low, high = np.where(counts, X, np.inf).min(axis=1), np.where(counts, X, -np.inf).max(axis=1)
    middle = (share[:, :, None] * X).sum(axis=1)
    off = X - middle[:, None, :]
    weighted = share[:, :, None] * off
    square = np.swapaxes(weighted, 1, 2) @ off
    product = (weighted * (scores - (share * scores).sum(axis=1, keepdims=True))[:, :, None]).sum(axis=1)
    d, n_eff = X.shape[2], 1 / np.square(share).sum(axis=1)
    mean_variance = np.trace(square, axis1=1, axis2=2) / d
    ridge = (d + 1) / n_eff * mean_variance
    ridge = np.where(mean_variance > 0, ridge, 1.0)  # all rows at one place: no slope
    slope = np.linalg.solve(square + ridge[:, None, None] * np.eye(d), product[:, :, None])[:, :, 0]
    return scores - ((X - np.clip(at, low, high)[:, None, :]) * slope[:, None, :]).sum(axis=2)
