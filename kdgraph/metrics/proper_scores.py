"""How far predicted probabilities are from the labels: error, NLL, Brier. All are means over rows;
lower is better.

How far the confidence in the predicted class is from whether it is right: the K-class scores, of
two classes, right and wrong.

How far a predicted posterior is from the true one, where the truth is known (simulations).
"""

from __future__ import annotations

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.inputs import Top
from kdgraph.metrics.registry import mean_over_rows, metric


@mean_over_rows("error", better="lower")
def error(y: np.ndarray, top: Top) -> np.ndarray:
    """Share of rows whose most probable class is not the label (zero-one loss), in [0, 1];
    scikit-learn's ``zero_one_loss``.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`. Of equally probable classes the
        first is the prediction.

    Examples
    --------
    >>> error([0, 1], [[0.9, 0.1], [0.8, 0.2]])
    0.5
    """
    return (top.predicted != y).astype(np.float64)


@mean_over_rows("NLL", better="lower", unit="nats")
def nll(y: np.ndarray, proba: np.ndarray, *, clip: float = 1e-6) -> np.ndarray:
    """Negative log likelihood of the labels in nats: mean of ``-log max(proba[i, y_i], clip)``, in
    [0, -log clip].

    Parameters
    ----------
    y : Int[n], positions in the classes.
    proba : Float[n, K].
    clip : in (0, 1). The label's probability is raised to at least this and not renormalised;
        nothing is clipped from above. A single row that gives its label probability 0 costs -log
        clip (13.8 nats at 1e-6), so the number means nothing without ``clip`` beside it;
        :func:`nll_clipped` counts such rows.

    Notes
    -----
    Where no probability is below ``clip`` it is scikit-learn's ``log_loss``, which clips at the
    smallest step of its type.

    Examples
    --------
    >>> round(clipped_nll([0, 1], [[0.5, 0.5], [1.0, 0.0]], clip=0.25), 4)  # (log 2 + log 4) / 2
    1.0397
    """
    return -np.log(np.clip(_of_label(y, proba, clip), clip, 1.0))


@metric("rows clipped in NLL", better="lower", unit="rows")
def nll_clipped(y: np.ndarray, proba: np.ndarray, *, clip: float = 1e-6) -> float:
    """Count the rows whose label has a probability below ``clip``: the rows of :func:`nll` that say
    ``clip`` and not what the model says.

    Each adds -log clip to the sum there, so with a single one the mean is a choice of ``clip`` (an
    isotonic map gives many rows 0).

    Parameters
    ----------
    y : Int[n], positions in the classes.
    proba : Float[n, K].
    clip : in (0, 1); that of the :func:`nll` that it stands beside.

    References
    ----------
    Ours; Salamon et al., kernel-density estimates of top-label confidence, Eq. 14, leave open what
    a probability of 0 costs.

    Examples
    --------
    >>> nll_clipped([0, 1], [[0.5, 0.5], [1.0, 0.0]])
    1.0
    """
    return float((_of_label(y, proba, clip) < clip).sum())


@mean_over_rows("Brier", better="lower")
def brier(y: np.ndarray, proba: np.ndarray) -> np.ndarray:
    """Brier score summed over all classes: mean of ``Σ_k (proba[i, k] - [y_i = k])²``, in [0, 2].

    This is the score as Brier defined it; for two classes it is twice the ``Σ (p - y)²`` of the
    positive class alone.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    proba : Float[n, K].

    References
    ----------
    Brier, "Verification of forecasts expressed in terms of probability", Monthly Weather Review 78,
    1950.

    Examples
    --------
    >>> brier([0], [[0.5, 0.5]])
    0.5
    """
    residual = proba.copy()
    residual[np.arange(len(y)), y] -= 1
    return (residual**2).sum(axis=1)


def _of_label(y: np.ndarray, proba: np.ndarray, clip: float) -> np.ndarray:
    """Float[n]: the label's probability."""
    if not 0 < clip < 1:
        raise ParameterError(f"clip must be in (0, 1), got {clip!r}")
    return proba[np.arange(len(y)), y]


@mean_over_rows("top-label NLL", better="lower", unit="nats")
def nll_top(y: np.ndarray, top: Top, *, clip: float = 1e-12) -> np.ndarray:
    """Negative log likelihood in nats of right and wrong: mean of ``-log c`` where the prediction
    is right, ``-log(1 - c)`` where wrong.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`; c is its confidence.
    clip : in (0, 0.5). c is kept this far from 0 and 1: a single wrong row at c = 1 costs -log clip
        (27.6 nats at 1e-12), so the number means nothing without ``clip`` beside it;
        :func:`nll_top_clipped` counts such rows.

    References
    ----------
    Salamon et al., kernel-density estimates of top-label confidence, Eq. 14, whose scores of
    exactly 0 and 1 it leaves open.

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
    """Count the rows where what happened has a probability below ``clip``: those whose part in
    :func:`nll_top` is a choice of ``clip``.

    These are right rows with c < clip, and wrong rows with 1 - c < clip. A right row at c = 1 is
    clipped too, but that costs ``clip`` nats.

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
    Salamon et al., kernel-density estimates of top-label confidence, Eq. 15, there the sum over
    rows.

    Examples
    --------
    >>> brier_top([0, 1], [[0.5, 0.5], [0.5, 0.5]])
    0.25
    """
    return (top.confidence - top.correct(y)) ** 2


def _check_clip(clip: float) -> None:
    if not 0 < clip < 0.5:
        raise ParameterError(f"clip must be in (0, 0.5), got {clip!r}")


@mean_over_rows("Hellinger", better="lower")
def hellinger(proba: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Mean over rows of the Hellinger distance ``||√proba_i - √truth_i||₂ / √2``, in [0, 1]; 0 only
    for equal rows.

    It is an average over where the rows are: on test rows over the data's own distribution, on a
    grid over the area.

    Parameters
    ----------
    proba : Float[n, K].
    truth : Float[n, K], the true posterior P(y|x) at the same rows.

    References
    ----------
    Dey et al., "Deep discriminative to kernel density graph", Section 5.1.1 and Figure 1.

    Examples
    --------
    >>> hellinger([[1.0, 0.0]], truth=[[0.0, 1.0]])
    1.0
    """
    return np.linalg.norm(np.sqrt(proba) - np.sqrt(truth), axis=1) / np.sqrt(2)
