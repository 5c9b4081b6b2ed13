"""How far the confidence in the predicted class is from whether it is right: the K-class scores, of two classes, right and wrong."""

from __future__ import annotations

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.registry import mean_over_rows, metric
from kdgraph.metrics.top_label import Top


@mean_over_rows("top-label NLL", better="lower", unit="nats")
def nll_top(y: np.ndarray, top: Top, *, clip: float = 1e-12) -> np.ndarray:
    """Negative log likelihood in nats of right and wrong: mean of ``-log c`` where the prediction is right, ``-log(1 - c)`` where wrong.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`; c is its confidence.
    clip : in (0, 0.5). c is kept this far from 0 and 1: a single wrong row at c = 1 costs -log clip (27.6 nats at 1e-12), so the number
        means nothing without ``clip`` beside it; :func:`nll_top_clipped` counts such rows.

    References
    ----------
    Salamon et al., kernel-density estimates of top-label confidence, Eq. 14, whose scores of exactly 0 and 1 it leaves open.

    Examples
    --------
    >>> round(nll_top([0, 1], [[0.5, 0.5], [0.5, 0.5]]), 4)
    0.6931
    """
    _check_clip(clip)
    c = np.clip(top.confidence, clip, 1 - clip)
    return -np.log(np.where(top.correct(y), c, 1 - c))


@metric("rows clipped in top-label NLL", better="lower", unit="rows")
def nll_top_clipped(y: np.ndarray, top: Top, *, clip: float = 1e-12) -> float:
    """Count the rows where what happened has a probability below ``clip``: those whose part in :func:`nll_top` is a choice of ``clip``.

    These are right rows with c < clip, and wrong rows with 1 - c < clip. A right row at c = 1 is clipped too, but that costs ``clip`` nats.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`; c is its confidence.
    clip : in (0, 0.5); that of the :func:`nll_top` that it stands beside.

    References
    ----------
    Ours; Salamon et al., Eq. 14, leave open what a score of exactly 0 or 1 costs.

    Examples
    --------
    >>> nll_top_clipped([0, 1, 0], [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])  # the second is sure, and wrong
    1.0
    """
    _check_clip(clip)
    return float((np.where(top.correct(y), top.confidence, 1 - top.confidence) < clip).sum())


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


def _check_clip(clip: float) -> None:
    if not 0 < clip < 0.5:
        raise ParameterError(f"clip must be in (0, 0.5), got {clip!r}")
