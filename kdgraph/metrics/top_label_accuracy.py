"""How far the confidence in the predicted class is from whether it is right: the K-class scores, of two classes, right and wrong."""

from __future__ import annotations

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.registry import mean_over_rows
from kdgraph.metrics.top_label import Top


@mean_over_rows("top-label NLL", better="lower", unit="nats")
def nll_top(y: np.ndarray, top: Top, *, clip: float = 1e-12) -> np.ndarray:
    """Negative log likelihood in nats of right and wrong: mean of ``-log c`` where the prediction is right, ``-log(1 - c)`` where wrong.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`; c is its confidence.
    clip : in (0, 0.5). c is kept this far from 0 and 1: a single wrong row at c = 1 costs -log clip (27.6 nats at 1e-12), so the number
        means nothing without ``clip`` beside it.

    References
    ----------
    Salamon et al., kernel-density estimates of top-label confidence, Eq. 14, whose scores of exactly 0 and 1 it leaves open.

    Examples
    --------
    >>> round(nll_top([0, 1], [[0.5, 0.5], [0.5, 0.5]]), 4)
    0.6931
    """
    if not 0 < clip < 0.5:
        raise ParameterError(f"clip must be in (0, 0.5), got {clip!r}")
    c = np.clip(top.confidence, clip, 1 - clip)
    return -np.log(np.where(top.correct(y), c, 1 - c))


@mean_over_rows("top-label Brier", better="lower")
def brier_top(y: np.ndarray, top: Top) -> np.ndarray:
    """Brier score of right and wrong: mean of ``(c - [the prediction is right])²``, in [0, 1].

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`; c is its confidence.

    References
    ----------
    Salamon et al., kernel-density estimates of top-label confidence, Eq. 15, there the sum over rows.

    Examples
    --------
    >>> brier_top([0, 1], [[0.5, 0.5], [0.5, 0.5]])
    0.25
    """
    return (top.confidence - top.correct(y)) ** 2
