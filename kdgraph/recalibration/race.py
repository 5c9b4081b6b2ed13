"""The choice of a setting by rows that score each of several, of which the worse ones drop out early; ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_ROUND = 1000
_OUT = 3.0
"""Standard errors behind the best at which a setting drops out: of 20 settings that are as good, fewer than one in 30 does."""


@dataclass(frozen=True)
class Race:
    """What a race has found.

    Attributes
    ----------
    mean : setting → mean score: of the best over all rows that were looked at; of another that, plus its mean difference to the best over
        the rows on which both were scored.
    error : setting → standard error of that difference; 0 of the best.
    n_rows : how many rows were looked at.
    """

    mean: dict[int, float]
    error: dict[int, float]
    n_rows: int

    @property
    def best(self) -> int:
        """The setting of the least mean score; of equal ones the largest."""
        return min(self.mean, key=lambda setting: (self.mean[setting], -setting))

    @property
    def largest_as_good(self) -> int:
        """The largest setting that is at most one standard error behind the best."""
        with np.errstate(invalid="ignore"):  # where all means are infinite, all settings are as good
            return max(setting for setting in self.mean if not np.subtract(self.mean[setting], self.mean[self.best]) > self.error[setting])


def race(settings: list[int], scores: Callable[[list[int], slice], np.ndarray], n: int, most: float) -> Race:
    """Score settings on rows, 1,000 at a time, and let those drop out that are 3 standard errors behind the best by paired differences.

    Parameters
    ----------
    settings : what there is to choose from; also what a row costs with each of them.
    scores : Float[s, r] of s settings and of consecutive rows, in random order; smaller is better. Infinite ones, as of distributions
        without a mean, are worse than all others, and as good as each other; so is NaN.
    n : how many rows there are.
    most : what all rows together may cost: no round begins that would take more, but the first.

    References
    ----------
    Maron and Moore, "Hoeffding races", NeurIPS 1993; Breiman, Friedman, Olshen and Stone, "Classification and regression trees", 1984,
    section 3.4.3, for the rule of one standard error.

    Examples
    --------
    >>> noise = np.random.default_rng(0).normal(size=3000)  # the same for all settings
    >>> found = race([1, 2, 3], lambda some, rows: np.array([[abs(k - 2.0)] for k in some]) + noise[rows], 3000, np.inf)
    >>> found.best, found.n_rows, round(found.mean[3] - found.mean[2], 3)
    (2, 1000, 1.0)
    """
    running, seen, spent = sorted(settings), 0, 0.0
    table = np.empty((len(running), 0))
    known: dict[int, np.ndarray] = {}
    while seen < n and (not seen or (len(running) > 1 and spent + sum(running) * min(_ROUND, n - seen) <= most)):
        rows = slice(seen, min(seen + _ROUND, n))
        table = np.concatenate([table, np.nan_to_num(scores(running, rows), nan=np.inf, posinf=np.inf, neginf=-np.inf)], axis=1)
        seen, spent = rows.stop, spent + sum(running) * (rows.stop - seen)
        known |= dict(zip(running, table, strict=True))
        leader = int(table.mean(axis=1).argmin())
        behind = _differences(table, table[leader])
        stays = behind.mean(axis=1) <= _OUT * _standard_error(behind)
        stays[leader] = True
        running, table = [setting for setting, stay in zip(running, stays, strict=True) if stay], table[stays]
    best = known[running[int(table.mean(axis=1).argmin())]]
    differences = {setting: _differences(known[setting], best[: len(known[setting])]) for setting in sorted(known)}
    mean = {setting: float(best.mean() + difference.mean()) for setting, difference in differences.items()}
    return Race(mean, {setting: float(_standard_error(difference)) for setting, difference in differences.items()}, seen)


def _differences(scores: np.ndarray, best: np.ndarray) -> np.ndarray:
    """``scores - best``, and 0 where both are infinite."""
    with np.errstate(invalid="ignore"):
        difference = scores - best
    return np.where(np.isnan(difference), 0.0, difference)


def _standard_error(values: np.ndarray) -> np.ndarray:
    """Of means over the last axis; 0 of infinite differences, whose mean is infinite without a doubt."""
    with np.errstate(invalid="ignore"):
        return np.nan_to_num(values.std(axis=-1) / np.sqrt(max(values.shape[-1] - 1, 1)))
