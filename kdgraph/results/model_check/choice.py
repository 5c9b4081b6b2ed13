"""Choice among methods by their losses on the same rows, with the uncertainty of the choice.

The least of several mean losses is chosen, and rows are few: another sample of rows might have
chosen another method, and the least of several noisy numbers is smaller than it ought to be. The
bootstrap over rows shows both. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

RESAMPLES = 2000
"""Bootstrap resamples: a share of .5 has a standard error of .011."""
_BLOCK_CELLS = 20_000_000
"""Largest number of counts, resamples times units, in memory at once."""
_NOISE = 1e-12
"""Relative difference of mean losses below which methods are tied; sums depend on their order."""


@dataclass(frozen=True)
class Interval:
    """An estimate, and the 2.5 % and 97.5 % quantiles of its resamples."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class MethodLoss:
    """Loss of one method, a mean over rows.

    ``gain`` is the mean loss of the reference minus that of the method, paired by row, and
    ``behind`` that of the method minus that of the chosen one. ``chosen_share`` is the fraction of
    the resamples in which this method has the least loss.
    """

    loss: float
    gain: Interval
    behind: Interval
    chosen_share: float


@dataclass(frozen=True)
class Choice:
    """The method with the least loss, of tied ones the first, among all in the order given.

    ``as_good`` are not clearly worse than the chosen one, itself included: the interval of
    ``behind`` contains 0. ``gain`` is that over the reference of the method that a resample
    chooses, on the rows outside of the resample. It has no optimism from choosing the best of
    several.
    """

    chosen: str
    methods: Mapping[str, MethodLoss]
    as_good: tuple[str, ...]
    gain: Interval


def choose_by_loss(
    losses: Mapping[str, np.ndarray],
    reference: str,
    *,
    units: np.ndarray | None = None,
    draws: int = RESAMPLES,
    seed: int = 0,
) -> Choice:
    """Choose the method with the least mean loss.

    ``losses`` are Float[n] of rows outside of those that the method was fitted on; ``reference`` is
    one of their names. Rows with the same number in ``units``, Int[n], are drawn together, such as
    rows of one patient. ValueError is raised if there are no rows, or numbers of rows differ.

    The bootstrap draws rows, not fits: that another division into folds would fit other components
    is not in the intervals.

    >>> rng = np.random.default_rng(0)
    >>> parent = rng.exponential(1.0, 400)
    >>> losses = {"parent": parent, "a": parent - 0.2 + 0.01 * rng.normal(size=400)}
    >>> choice = choose_by_loss(losses, "parent")
    >>> choice.chosen, choice.as_good, round(choice.gain.value, 1)
    ('a', ('a',), 0.2)
    """
    names = list(losses)
    sizes = {len(values) for values in losses.values()}
    if len(sizes) != 1 or sizes == {0}:
        raise ValueError(f"losses must be of the same rows, at least one, got {sorted(sizes)} rows")
    loss = np.stack([losses[name] for name in names])
    sums, counts = _sums_by_unit(loss, units)
    mean = loss.mean(axis=1)
    chosen = int(_first_least(mean[None])[0])
    inside, outside = _resampled_means(sums, counts, draws, np.random.default_rng(seed))
    origin = names.index(reference)
    picks = _first_least(inside)
    share = np.bincount(picks, minlength=len(names)) / len(picks)
    methods = {
        name: MethodLoss(
            float(mean[k]),
            _interval(mean[origin] - mean[k], inside[:, origin] - inside[:, k]),
            _interval(mean[k] - mean[chosen], inside[:, k] - inside[:, chosen]),
            float(share[k]),
        )
        for k, name in enumerate(names)
    }
    as_good = tuple(
        name for name, k in methods.items() if name == names[chosen] or k.behind.low <= _NOISE
    )
    gains = outside[:, origin] - outside[np.arange(len(picks)), picks]
    gains = gains[np.isfinite(gains)]
    gain = _interval(float(gains.mean()) if len(gains) else np.nan, gains)
    return Choice(names[chosen], methods, as_good, gain)


def _sums_by_unit(loss: np.ndarray, units: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Return the sum of losses of each unit, Float[m, u], and its number of rows, Float[u]."""
    if units is None:
        return loss, np.ones(loss.shape[1])
    _, position = np.unique(units, return_inverse=True)
    counts = np.bincount(position).astype(np.float64)
    return np.stack([np.bincount(position, values) for values in loss]), counts


def _resampled_means(
    sums: np.ndarray, counts: np.ndarray, draws: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return mean losses of the units in, and of those outside, each resample: Float[draws, m].

    A resample of very few units may leave none out: its means outside are NaN.
    """
    n, inside, outside = len(counts), [], []
    block = max(1, _BLOCK_CELLS // n)
    for start in range(0, draws, block):
        size = min(block, draws - start)
        drawn = rng.multinomial(n, np.full(n, 1 / n), size=size).astype(np.float64)
        left_out = (drawn == 0).astype(np.float64)
        inside.append(drawn @ sums.T / (drawn @ counts)[:, None])
        with np.errstate(invalid="ignore"):
            outside.append(left_out @ sums.T / (left_out @ counts)[:, None])
    return np.concatenate(inside), np.concatenate(outside)


def _first_least(means: np.ndarray) -> np.ndarray:
    """Return the position of the least of each row of Float[b, m]; of tied ones the first."""
    least = means.min(axis=1, keepdims=True)
    return (means <= least + _NOISE * np.abs(least)).argmax(axis=1)


def _interval(value: float, resamples: np.ndarray) -> Interval:
    if not len(resamples):
        return Interval(float(value), np.nan, np.nan)
    low, high = np.quantile(resamples, [0.025, 0.975])
    return Interval(float(value), float(low), float(high))
