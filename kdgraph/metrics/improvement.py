"""How much better than its parent a method is: arithmetic on values of one metric of which lower is
better, one for each data set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdgraph.errors import ParameterError


@dataclass(frozen=True)
class Improvement:
    """Improvements over the parent by Dey et al., Eq. 19, and what has none.

    Attributes
    ----------
    values : Float[...], NaN where the parent's value is too small to divide by or one of the two is
    missing.
    left_out : for how many pairs the parent's value is too small.
    """

    values: np.ndarray
    left_out: int


def relative_improvement(
    parent: np.ndarray, method: np.ndarray, *, threshold: float = 1e-3
) -> Improvement:
    """Compute ``(parent - method) / parent``: 1 where nothing of the parent's error is left, 0
    where all of it, -1 where it has doubled.

    It is not symmetric: it ends at 1 and falls without bound, so medians over data sets say more
    than means. Exchanging the two turns v into ``-v / (1 - v)``.

    Parameters
    ----------
    parent, method : Float[...] of one shape or that broadcast, not negative, NaN where missing; a
    metric of which lower is better.
    threshold : at least 0. A pair whose parent's value is below it, or 0, gets NaN: one test row of
        a thousand more would be a ratio without meaning.

    Raises
    ------
    ParameterError
        ``threshold`` is negative.
    ValueError
        A negative value.

    References
    ----------
    Dey et al., "Deep discriminative to kernel density graph", Eq. 19, for classification error, MCE
    and OCE; it has no threshold.

    Examples
    --------
    >>> relative_improvement([0.2, 0.1, 0.0], [0.1, 0.2, 0.1])
    Improvement(values=array([ 0.5, -1. ,  nan]), left_out=1)
    """
    if not threshold >= 0:
        raise ParameterError(f"threshold must be at least 0, got {threshold!r}")
    p, m = _pairs(parent, method)
    small = (p < threshold) | (p == 0)
    values = (p - m) / np.where(small, np.nan, p)
    return Improvement(values, int((small & ~np.isnan(m)).sum()))


def absolute_improvement(parent: np.ndarray, method: np.ndarray) -> np.ndarray:
    """Compute ``parent - method``, which the published implementation of Dey et al. plots for OCE
    instead of their Eq. 19.

    Parameters
    ----------
    parent, method : as for :func:`relative_improvement`.

    Examples
    --------
    >>> absolute_improvement([0.5, 0.0], [0.25, 0.125])
    array([ 0.25 , -0.125])
    """
    p, m = _pairs(parent, method)
    return p - m


def _pairs(parent: np.ndarray, method: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p, m = np.broadcast_arrays(
        np.asarray(parent, dtype=np.float64), np.asarray(method, dtype=np.float64)
    )
    for name, values in (("parent", p), ("method", m)):
        if (values < 0).any():
            raise ValueError(
                f"{name} must not be negative, got {values[values < 0].flat[0]:g}"
                f" ({(values < 0).sum()} such)"
            )
    return p, m
