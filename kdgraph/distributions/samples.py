"""Weighted samples as predictive distributions, and sums over samples.

Ensembles, dropout masks and nearest neighbours predict weighted samples. The CRPS of a sample is
exact, by the quantile decomposition of "scoringRules" (Jordan, Krueger and Lerch 2019). The sums
are also used for recalibrated distributions, which are weighted samples of their base.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.distributions.base import (
    Distribution,
    SampleScores,
    apply_to_matrix,
    check_levels,
    count_in_rows,
    cumulative_weight,
    first_step_reaching,
    keep_row_axis,
    levels_by_row,
    normalise_weights,
    row_blocks,
)

_MIN_RELATIVE_SPREAD = 1e-14
"""Fraction of the largest absolute value below which a standard deviation is a rounding error of
equal values.
"""


def crps_of_samples(x: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the CRPS of outcomes y, Float[n], and one weighted sample for each row, Float[n, m].

    CRPS = 2 Σ_i w_i (y - x_i) (c_i - [y < x_i]), where c_i is the sum of the weights before x_i
    plus half of w_i. Samples increase along each row; weights, Float[m] or Float[n, m], sum to 1.
    """
    middle = np.cumsum(weights, axis=-1) - weights / 2
    distance = y[:, None] - x
    return 2 * sequential_sum(weights * distance * (middle - (distance < 0)))


def sequential_sum(values: np.ndarray) -> np.ndarray:
    """Return sums over the last axis: Float[n] of Float[n, m], a number of Float[m].

    Rows are added one number after the other. Zeros at the end of a row then change no bit, as
    they would in numpy's pairwise sum.
    """
    return np.cumsum(values, axis=-1)[..., -1] if values.ndim > 1 else values.sum()


def mean_of_samples(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted mean of each sample, Float[n] of Float[n, m], or a number of Float[m]."""
    return sequential_sum(weights * x)


def var_of_samples(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted mean square about the mean; shapes as in :func:`mean_of_samples`."""
    return sequential_sum(weights * np.square(x - mean_of_samples(x, weights)[..., None]))


def crps_of_one_sample(x: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the CRPS Float[n] of n outcomes, where all rows have the same sample, Float[m].

    The result equals :func:`crps_of_samples` and takes (n + m) log m steps.
    """
    # The part with c_i is linear in y. The other part requires only the weight, and the weighted
    # sum, of the values above y: both are read from sums that are cumulated from the end.
    middle = np.cumsum(weights) - weights / 2
    first_above = np.searchsorted(x, y, side="right")
    weight_above = np.append(np.cumsum(weights[::-1])[::-1], 0.0)[first_above]
    sum_above = np.append(np.cumsum((weights * x)[::-1])[::-1], 0.0)[first_above]
    return 2 * (
        y * (weights * middle).sum() - (weights * middle * x).sum() - (y * weight_above - sum_above)
    )


class WeightedSamples(Distribution):
    """Weighted empirical distribution of m values for each of n rows.

    Parameters
    ----------
    x : Float[n, m]
        Finite values in any order; the attribute has them increasing along each row.
    weights : Float[m] or Float[n, m], default=None
        Weights, the same for every row or those of each row. They are not negative, and not all 0
        in any row. None: equal weights. The attribute has those of each row, whose sum is 1.

    Notes
    -----
    Quantiles are the left-continuous inverse, as in :class:`~kdgraph.distributions.WeightedEcdf`.

    The distribution function of a small sample has few values; :meth:`extended_cdf` is therefore
    linear between the middles of the steps (1/2m and 1 - 1/2m at the ends of an unweighted sample).
    Beyond the ends it continues in units of the sample's standard deviation, so that recalibrated
    distributions may leave the range of the sample. Original to kdgraph.

    Examples
    --------
    >>> sample = WeightedSamples(np.array([[3.0, 1.0, 2.0]]), np.array([2.0, 1.0, 1.0]))
    >>> sample.mean().tolist(), sample.cdf(np.array([2.0])).tolist()
    ([2.25], [0.5])
    >>> sample.ppf(np.array([0.25, 0.5, 0.51])).tolist()
    [[1.0, 2.0, 3.0]]
    """

    def __init__(self, x: np.ndarray, weights: np.ndarray | None = None) -> None:
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 2 or not x.shape[1] or not np.isfinite(x).all():
            raise ValueError(
                f"x must have a row of finite numbers for each row, got shape {x.shape}"
            )
        if weights is None:
            # Samples of an ensemble are large: all rows share one number as weight, in a broadcast
            # array, and no order is stored.
            self.x = np.sort(x, axis=1, kind="stable")
            self.weights = np.broadcast_to(1 / x.shape[1], x.shape)
            return
        weights = np.broadcast_to(np.asarray(weights, dtype=np.float64), x.shape)
        is_valid = np.isfinite(weights) & (weights >= 0)
        if not is_valid.all() or not (weights > 0).any(axis=1).all():
            raise ValueError("weights must be numbers from 0, in no row all 0")
        order = np.argsort(x, axis=1, kind="stable")
        self.x = np.take_along_axis(x, order, axis=1)
        self.weights = normalise_weights(np.take_along_axis(weights, order, axis=1))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Any) -> WeightedSamples:
        # The rows are sorted and normalised already, so the constructor is not called again.
        subset = object.__new__(type(self))
        subset.x, subset.weights = self.x[keep_row_axis(index)], self.weights[keep_row_axis(index)]
        return subset

    def cdf(self, y: np.ndarray | float) -> np.ndarray:
        def step_heights(values: np.ndarray) -> np.ndarray:
            return cumulative_weight(self.weights, count_in_rows(self.x, values, equal=True))

        return apply_to_matrix(step_heights, len(self), y)

    def ppf(self, q: np.ndarray | float) -> np.ndarray:
        q = check_levels(q)
        levels = levels_by_row(q, len(self))
        steps = first_step_reaching(self.weights, levels)
        quantiles = np.take_along_axis(self.x, steps, axis=1)
        return quantiles if q.ndim else quantiles[:, 0]

    def extended_cdf(self, y: np.ndarray | float) -> np.ndarray:
        """Return levels that are linear between the middles of the steps, elementwise.

        Below 0 and above 1 they count standard deviations beyond the smallest and the largest
        value. Beyond equal values they are infinite, because no distance is defined there.
        """
        return apply_to_matrix(self._extended_levels, len(self), y)

    def extended_ppf(self, levels: np.ndarray) -> np.ndarray:
        levels = levels_by_row(levels, len(self))
        unit = self._unit()
        inside = _interpolate_rows(self._step_middles(), self.x, levels)
        # Where the unit is 0, a level may be infinite: 0 replaces it, because 0 · ∞ is NaN.
        below, above = (
            np.where(unit > 0, excess, 0.0)
            for excess in (np.minimum(levels, 0), np.maximum(levels - 1, 0))
        )
        return np.where(
            levels < 0,
            self.x[:, :1] + unit * below,
            np.where(levels > 1, self.x[:, -1:] + unit * above, inside),
        )

    def score_scale(self) -> SampleScores:
        return SampleScores.from_size(self.x.shape[1])

    def mean(self) -> np.ndarray:
        return mean_of_samples(self.x, self.weights)

    def var(self) -> np.ndarray:
        return var_of_samples(self.x, self.weights)

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Return the exact CRPS, Float[n], by :func:`crps_of_samples`."""
        y, score = np.asarray(y, dtype=np.float64), np.empty(len(self))
        for rows in row_blocks(len(self), self.x.shape[1]):
            score[rows] = crps_of_samples(self.x[rows], self.weights[rows], y[rows])
        return score

    def _extended_levels(self, values: np.ndarray) -> np.ndarray:
        low, high, unit = self.x[:, :1], self.x[:, -1:], self._unit()
        inside = _interpolate_rows(self.x, self._step_middles(), values)
        # The unit is 0 where all values of a row are equal: levels beyond them become ±∞.
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            below, above = (values - low) / unit, 1 + (values - high) / unit
        return np.where(values < low, below, np.where(values > high, above, inside))

    def _step_middles(self) -> np.ndarray:
        """Return the middle level of each step, Float[n, m], in (0, 1)."""
        middle = np.cumsum(self.weights, axis=1) - self.weights / 2
        return np.clip(middle, np.finfo(np.float64).tiny, np.nextafter(1.0, 0.0))

    def _unit(self) -> np.ndarray:
        """Return the standard deviation of each row, Float[n, 1]; 0 if its values are equal."""
        spread = np.sqrt(self.var())[:, None]
        size = np.abs(self.x[:, [0, -1]]).max(axis=1, keepdims=True)
        return np.where(spread > _MIN_RELATIVE_SPREAD * size, spread, 0.0)


def _interpolate_rows(x: np.ndarray, y: np.ndarray, points: np.ndarray) -> np.ndarray:
    """Return the linear interpolation Float[n, j] of y over increasing x, both Float[n, k].

    It is constant beyond the ends. At equal x the last y is taken.
    """
    # ``upper`` is the first position whose x is above the point, and ``lower`` the one before it.
    # A row with a single x has lower = upper, where the weight of ``upper`` is 1.
    upper = (
        np.clip(count_in_rows(x, points, equal=True), 1, max(x.shape[1] - 1, 1))
        if x.shape[1] > 1
        else np.zeros(points.shape, dtype=np.intp)
    )
    lower = np.maximum(upper - 1, 0)
    x0, x1, y0, y1 = (
        np.take_along_axis(values, positions, axis=1)
        for values, positions in ((x, lower), (x, upper), (y, lower), (y, upper))
    )
    position = np.where(x1 > x0, (points - x0) / np.where(x1 > x0, x1 - x0, 1.0), 1.0)
    return y0 + np.clip(position, 0.0, 1.0) * (y1 - y0)
