"""Improvement of a method over its parent, for metrics where lower is better.

The inputs are values of one metric, usually one for each data set.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kdgraph.errors import ParameterError


@dataclass(frozen=True)
class Improvement:
    """Improvements over the parent, and the number of undefined ones (Dey et al., Eq. 19).

    Attributes
    ----------
    values : Float[...]
        Improvements; NaN if the parent's value is too small to divide by, or a value is missing.
    left_out : int
        Number of pairs whose parent's value is too small.

    Examples
    --------
    >>> improvement = relative_improvement([0.5, 0.0], [0.25, 0.125])
    >>> improvement.values.tolist(), improvement.left_out
    ([0.5, nan], 1)
    """

    values: np.ndarray
    left_out: int


def relative_improvement(
    parent: np.ndarray, method: np.ndarray, *, threshold: float = 1e-3
) -> Improvement:
    """Compute the relative improvement ``(parent - method) / parent``.

    It is Eq. 19 of Dey et al., without a threshold there: 1 if the method removes the parent's
    error, 0 if it leaves it unchanged, and -1 if it doubles it. It is bounded above by 1 and
    unbounded below, so medians over data sets are more informative than means. Exchanging parent
    and method turns v into ``-v / (1 - v)``.

    Parameters
    ----------
    parent, method : Float[...]
        Values of a metric where lower is better, of shapes that broadcast. They are not negative;
        NaN marks missing values.
    threshold : float, default=1e-3
        A pair gets NaN if its parent's value is 0 or below the threshold, at least 0. A ratio to
        less than one error in a thousand rows has no meaning.

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
    """Compute the absolute improvement ``parent - method``, Float[...].

    The published implementation of Dey et al. plots it for OCE instead of their Eq. 19.

    Parameters
    ----------
    parent, method : Float[...]
        Values of a metric, as for :func:`relative_improvement`.

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
