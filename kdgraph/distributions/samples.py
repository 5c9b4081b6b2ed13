"""The CRPS of weighted samples, exactly (Jordan, Krueger and Lerch 2019, the quantile decomposition
of "scoringRules").

Weighted samples as distributions: what ensembles, dropout masks and neighbours predict.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.distributions.base import (
    Distribution,
    OfSamples,
    blocks,
    by_row,
    checked_levels,
    count_in_rows,
    rows_at,
    shares,
    steps_at,
    steps_up_to,
)


def crps_of_samples(x: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Float[n]: 2 Σ_i w_i (y - x_i) (c_i - [y < x_i]), c_i the sum of the weights before x_i and
    half its own.

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
    """Float[n] of Float[n, m], a number of Float[m]: sums over the last axis, one number after the
    other.

    Zeros at the end of a row change no bit, as they do where sums are in pairs.
    """
    return np.cumsum(values, axis=-1)[..., -1] if values.ndim > 1 else values.sum()


def mean_of_samples(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Float[n] of x: Float[n, m] and weights Float[m] or Float[n, m], which sum to 1; a number of
    Float[m].
    """
    return total(weights * x)


def var_of_samples(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """As :func:`mean_of_samples`: the mean square about the mean."""
    return total(weights * np.square(x - mean_of_samples(x, weights)[..., None]))


def crps_of_one_sample(x: np.ndarray, weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The same where all n rows have one sample, x: Float[m] increasing, in (n + m) log m steps.

    The part with c_i is linear in y, and the other needs, of the x_i above y, their weight and
    their weighted sum.
    """
    middle = np.cumsum(weights) - weights / 2
    above = np.searchsorted(x, y, side="right")  # x[above:] are those above y
    weight_above = np.append(np.cumsum(weights[::-1])[::-1], 0.0)[above]
    sum_above = np.append(np.cumsum((weights * x)[::-1])[::-1], 0.0)[above]
    return 2 * (
        y * (weights * middle).sum() - (weights * middle * x).sum() - (y * weight_above - sum_above)
    )


_NO_SPREAD = 1e-14
"""Of the largest value: a smaller standard deviation is what rounding has made of equal numbers."""


class WeightedSamples(Distribution):
    """The weighted empirical distribution of m values for each of n rows.

    Parameters
    ----------
    x : Float[n, m], finite, in any order.
    weights : Float[m], the same for every row, or Float[n, m]; not negative, in no row all 0. None:
        equal.

    Attributes
    ----------
    x, weights : Float[n, m], increasing in each row, and their weights, which sum to 1.

    Notes
    -----
    Quantiles are the left-continuous inverse, as of :class:`~kdgraph.distributions.WeightedEcdf`.
    PIT values of few samples would be few numbers, and 0 or 1 for all that lies beyond the samples,
    which recalibration could not undo. So :meth:`levels` are linear between the middles of the
    steps, 1/2m and 1 - 1/2m at the ends of an even sample, and beyond these they go on in units of
    the sample's standard deviation: what is put behind them may leave the sample's range. Both are
    ours.

    Examples
    --------
    >>> one = WeightedSamples(np.array([[3.0, 1.0, 2.0]]), np.array([2.0, 1.0, 1.0]))
    >>> one.mean().tolist(), one.ppf(np.array([0.25, 0.5, 0.51])).tolist(), one.cdf(np.array([2.0])).tolist()
    ([2.25], [[1.0, 2.0, 3.0]], [0.5])
    """

    def __init__(self, x: np.ndarray, weights: np.ndarray | None = None) -> None:
        x = np.asarray(x, dtype=np.float64)
        if x.ndim != 2 or not x.shape[1] or not np.isfinite(x).all():
            raise ValueError(
                f"x must have a row of finite numbers for each row, got shape {x.shape}"
            )
        if (
            weights is None
        ):  # one row of weights for all, and no order kept: samples of an ensemble are large
            self.x, self.weights = (
                np.sort(x, axis=1, kind="stable"),
                np.broadcast_to(1 / x.shape[1], x.shape),
            )
            return
        given = np.broadcast_to(np.asarray(weights, dtype=np.float64), x.shape)
        if not (np.isfinite(given) & (given >= 0)).all() or not (given > 0).any(axis=1).all():
            raise ValueError("weights must be numbers from 0, in no row all 0")
        order = np.argsort(x, axis=1, kind="stable")
        self.x = np.take_along_axis(x, order, axis=1)
        self.weights = shares(np.take_along_axis(given, order, axis=1))

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: Any) -> WeightedSamples:
        some = object.__new__(type(self))  # sorted already
        some.x, some.weights = self.x[rows_at(index)], self.weights[rows_at(index)]
        return some

    def cdf(self, y: np.ndarray | float) -> np.ndarray:  # noqa: D102 - as in the base
        return self._of_values(
            lambda values: steps_up_to(self.weights, count_in_rows(self.x, values, equal=True)), y
        )

    def ppf(self, q: np.ndarray | float) -> np.ndarray:  # noqa: D102
        q = checked_levels(q)
        wanted = np.broadcast_to(q, q.shape if q.ndim == 2 else (len(self), q.size))
        found = np.take_along_axis(self.x, steps_at(self.weights, wanted), axis=1)
        return found if q.ndim else found[:, 0]

    def levels(self, y: np.ndarray | float) -> np.ndarray:
        """Linear between the middles of the steps; below 0 and above 1 standard deviations beyond
        the smallest and the largest value.

        Beyond values that are all the same it is infinite: nothing is known of distances there.
        """
        return self._of_values(self._levels, y)

    def at_levels(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        levels = np.broadcast_to(
            levels, levels.shape if levels.ndim == 2 else (len(self), levels.size)
        )
        middle, unit = self._middles(), self._unit()
        inside = _between(middle, self.x, levels)
        below, above = (
            np.where(unit > 0, beyond, 0.0)
            for beyond in (np.minimum(levels, 0), np.maximum(levels - 1, 0))
        )  # 0 · ∞
        return np.where(
            levels < 0,
            self.x[:, :1] + unit * below,
            np.where(levels > 1, self.x[:, -1:] + unit * above, inside),
        )

    def score_scale(self) -> OfSamples:  # noqa: D102 - as in the base
        return OfSamples.steps(self.x.shape[1])

    def mean(self) -> np.ndarray:  # noqa: D102
        return mean_of_samples(self.x, self.weights)

    def var(self) -> np.ndarray:  # noqa: D102
        return var_of_samples(self.x, self.weights)

    def crps(self, y: np.ndarray) -> np.ndarray:
        """Exact: :func:`~kdgraph.distributions.samples.crps_of_samples`."""
        y, score = np.asarray(y, dtype=np.float64), np.empty(len(self))
        for rows in blocks(len(self), self.x.shape[1]):
            score[rows] = crps_of_samples(self.x[rows], self.weights[rows], y[rows])
        return score

    def _of_values(self, function: Any, y: np.ndarray | float) -> np.ndarray:
        """``function`` of Float[n, j], of values as :meth:`cdf` takes them."""
        values = by_row(lambda given: given, len(self), y)
        if values.ndim == 2:
            return function(values)
        return function(np.broadcast_to(values, len(self))[:, None])[:, 0]

    def _levels(self, values: np.ndarray) -> np.ndarray:
        low, high, unit = self.x[:, :1], self.x[:, -1:], self._unit()
        inside = _between(self.x, self._middles(), values)
        with np.errstate(
            divide="ignore", invalid="ignore", over="ignore"
        ):  # of values that are all the same
            below, above = (values - low) / unit, 1 + (values - high) / unit
        return np.where(values < low, below, np.where(values > high, above, inside))

    def _middles(self) -> np.ndarray:
        """Float[n, m]: the middles of the steps, which are in (0, 1) also where the first or the
        last has no weight.
        """
        middle = np.cumsum(self.weights, axis=1) - self.weights / 2
        return np.clip(middle, np.finfo(np.float64).tiny, np.nextafter(1.0, 0.0))

    def _unit(self) -> np.ndarray:
        """Float[n, 1]: standard deviations; 0 where values are the same, but for what rounding has
        made of them.
        """
        spread, size = (
            np.sqrt(self.var())[:, None],
            np.abs(self.x[:, [0, -1]]).max(axis=1, keepdims=True),
        )
        return np.where(spread > _NO_SPREAD * size, spread, 0.0)


def _between(x: np.ndarray, y: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Float[n, j]: linear interpolation of y: Float[n, k] over increasing x: Float[n, k], constant
    beyond; at equal x the last y.
    """
    right = (
        np.clip(count_in_rows(x, at, equal=True), 1, max(x.shape[1] - 1, 1))
        if x.shape[1] > 1
        else np.zeros(at.shape, dtype=np.intp)
    )
    left = np.maximum(right - 1, 0)
    x0, x1, y0, y1 = (
        np.take_along_axis(of, where, axis=1)
        for of, where in ((x, left), (x, right), (y, left), (y, right))
    )
    share = np.clip(np.where(x1 > x0, (at - x0) / np.where(x1 > x0, x1 - x0, 1.0), 1.0), 0.0, 1.0)
    return y0 + share * (y1 - y0)
