"""Normal scores of PIT values, and back: the scale on which a slope across a neighbourhood means something, however far out. Ours."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

_MOST = 37.5
"""The score of the smallest number that a probability can be in either tail, 5e-308; what lies beyond has no quantile."""


class Scores(ABC):
    """A scale of z for :meth:`~kdgraph.distributions.Distribution.levels`: Φ⁻¹(p), and beyond 0 and 1 what the family can tell; ours."""

    @abstractmethod
    def of(self, levels: np.ndarray) -> np.ndarray:
        """Scores of levels, Float[...], elementwise; increasing. Ours."""

    @abstractmethod
    def levels(self, scores: np.ndarray) -> np.ndarray:
        """The inverse of :meth:`of`, Float[...], elementwise. Ours."""


@dataclass(frozen=True)
class Standardised(Scores):
    """Of normal distributions: levels Float[...] beyond 0 and 1 are standardised values themselves; ours."""

    def of(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102 - as in the base
        beyond = (levels < 0) | (levels > 1)
        return np.where(beyond, levels, _ppf(np.where(beyond, 0.5, levels)))

    def levels(self, scores: np.ndarray) -> np.ndarray:  # noqa: D102
        p = _cdf(scores)
        return np.where(((p == 0) & (scores < 0)) | ((p == 1) & (scores > 1)), scores, p)


@dataclass(frozen=True)
class LogTails(Scores):
    """Of other families: levels beyond 0 and 1 are logarithms, log F(y) below, 1 - log P(Y > y) above; ours.

    Examples
    --------
    >>> LogTails().of(np.array([0.5, 51.0])).round(2).tolist()  # P(Y > y) = exp(-50)
    [0.0, 9.67]
    """

    def of(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102
        from scipy.special import ndtri_exp

        beyond, below = levels > 1, levels < 0
        inside = _ppf(np.where(beyond | below, 0.5, levels))
        above = -ndtri_exp(np.where(beyond, 1 - levels, -1.0))
        return np.clip(np.where(beyond, above, np.where(below, ndtri_exp(np.where(below, levels, -1.0)), inside)), -_MOST, _MOST)

    def levels(self, scores: np.ndarray) -> np.ndarray:  # noqa: D102
        from scipy.special import log_ndtr

        scores = np.clip(scores, -_MOST, _MOST)
        levels = _cdf(scores)
        beyond = levels == 1
        return np.where(beyond, 1 - log_ndtr(-np.where(beyond, scores, 1.0)), levels)


@dataclass(frozen=True)
class OfSamples(Scores):
    """Of samples: levels beyond 0 and 1 are standard deviations beyond the first and the last value, and scores go on with them; ours.

    Parameters
    ----------
    last : score of the last value.

    Examples
    --------
    >>> OfSamples(2.0).of(np.array([0.5, 0.9999, 1.5])).tolist()
    [0.0, 2.0, 2.5]
    """

    last: float

    @classmethod
    def steps(cls, m: int) -> OfSamples:
        """Of m equal steps: the last value is at the middle of its step, 1 - 1/2m; ours."""
        return cls(float(_ppf(np.array(1 - 0.5 / m))))

    def of(self, levels: np.ndarray) -> np.ndarray:  # noqa: D102
        inside = np.clip(levels, 0.0, 1.0)
        return np.clip(_ppf(inside), -self.last, self.last) + (levels - inside)

    def levels(self, scores: np.ndarray) -> np.ndarray:  # noqa: D102
        inside = np.clip(scores, -self.last, self.last)
        beyond = scores - inside
        return np.where(beyond == 0, _cdf(inside), beyond + (beyond > 0))


def _cdf(z: np.ndarray) -> np.ndarray:
    from scipy.special import ndtr  # here, not above: who only lists configurations must not wait for scipy

    return ndtr(z)


def _ppf(p: np.ndarray) -> np.ndarray:
    from scipy.special import ndtri

    return ndtri(p)
