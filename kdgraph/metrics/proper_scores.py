"""Error, negative log likelihood, Brier score and Hellinger distance of class probabilities.

All are means over rows, and lower is better. The ``…_top`` versions are the same scores for the
two-class problem of whether the predicted class is correct. :func:`hellinger` compares with a
known posterior, which exists in simulations.
"""

from __future__ import annotations

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.inputs import Top
from kdgraph.metrics.registry import mean_over_rows, metric


@mean_over_rows("error", better="lower")
def error(y: np.ndarray, top_label: Top) -> np.ndarray:
    """Measure the fraction of rows whose most probable class is not the label, in [0, 1].

    It is the ``zero_one_loss`` of scikit-learn. If several classes are equally probable, the first
    one is the prediction.

    Examples
    --------
    >>> error([0, 1], [[0.9, 0.1], [0.8, 0.2]])
    0.5
    """
    return (top_label.predicted != y).astype(np.float64)


@mean_over_rows("NLL", better="lower", unit="nats")
def nll(y: np.ndarray, proba: np.ndarray, *, clip: float = 1e-6) -> np.ndarray:
    """Measure the negative log likelihood (NLL) of the labels in nats, in [0, -log clip].

    It is the mean of ``-log max(proba[i, y_i], clip)``.

    If no probability is below ``clip``, it equals scikit-learn's ``log_loss``, which clips at the
    machine epsilon of the data type.

    Parameters
    ----------
    clip : float, default=1e-6
        Lower bound of the label's probability, in (0, 1). Probabilities are not renormalised, and
        not clipped from above. A single row with probability 0 costs -log clip (13.8 nats at 1e-6),
        so always report ``clip`` with the number; :func:`nll_clipped` counts such rows.

    Examples
    --------
    >>> round(nll([0, 1], [[0.5, 0.5], [1.0, 0.0]], clip=0.25), 4)  # (log 2 + log 4) / 2
    1.0397
    """
    return -np.log(np.clip(_label_probability(y, proba, clip), clip, 1.0))


@metric("rows clipped in NLL", better="lower", unit="rows")
def nll_clipped(y: np.ndarray, proba: np.ndarray, *, clip: float = 1e-6) -> float:
    """Count the rows whose label has a probability below ``clip``.

    Each of them adds -log clip to the sum of :func:`nll`, so a single one makes the mean depend on
    the choice of ``clip``, which Salamon et al., Eq. 14, do not define. Isotonic calibration
    predicts 0 for many rows.

    Parameters
    ----------
    clip : float, default=1e-6
        The ``clip`` of the :func:`nll` with which the count is reported.

    Examples
    --------
    >>> nll_clipped([0, 1], [[0.5, 0.5], [1.0, 0.0]])
    1.0
    """
    return float((_label_probability(y, proba, clip) < clip).sum())


@mean_over_rows("Brier", better="lower")
def brier(y: np.ndarray, proba: np.ndarray) -> np.ndarray:
    """Measure the Brier score summed over all classes, in [0, 2].

    It is the mean of ``Σ_k (proba[i, k] - [y_i = k])²``, as Brier defined it (Monthly Weather
    Review 78, 1950). For two classes it is twice the mean of ``(p - y)²`` of the positive class.

    Examples
    --------
    >>> brier([0], [[0.5, 0.5]])
    0.5
    """
    residual = proba.copy()
    residual[np.arange(len(y)), y] -= 1
    return (residual**2).sum(axis=1)


def _label_probability(y: np.ndarray, proba: np.ndarray, clip: float) -> np.ndarray:
    """Return the probabilities of the labels, Float[n], after a check of ``clip``."""
    if not 0 < clip < 1:
        raise ParameterError(f"clip must be in (0, 1), got {clip!r}")
    return proba[np.arange(len(y)), y]


@mean_over_rows("top-label NLL", better="lower", unit="nats")
def nll_top(y: np.ndarray, top_label: Top, *, clip: float = 1e-12) -> np.ndarray:
    """Measure the negative log likelihood in nats of predictions being correct.

    It is the mean of ``-log c`` over correct and ``-log(1 - c)`` over incorrect predictions, with c
    the confidence (Salamon et al., Eq. 14, which does not define the cost of a score of exactly 0
    or 1).

    Parameters
    ----------
    clip : float, default=1e-12
        Smallest distance of c from 0 and 1, in (0, 0.5). A single incorrect prediction with c = 1
        costs -log clip (27.6 nats at 1e-12), so always report ``clip`` with the number;
        :func:`nll_top_clipped` counts such rows.

    Examples
    --------
    >>> round(nll_top([0, 1], [[0.5, 0.5], [0.5, 0.5]]), 4)
    0.6931
    """
    _check_clip(clip)
    c = np.clip(top_label.confidence, clip, 1 - clip)
    return -np.log(np.where(top_label.correct(y), c, 1 - c))


@metric("rows clipped in top-label NLL", better="lower", unit="rows")
def nll_top_clipped(y: np.ndarray, top_label: Top, *, clip: float = 1e-12) -> float:
    """Count the rows whose outcome has a probability below ``clip``.

    Their contribution to :func:`nll_top` depends on the choice of ``clip`` (see Salamon et al., Eq.
    14). They are correct predictions with a confidence c < clip, and incorrect ones with 1 - c <
    clip. A correct prediction with c = 1 is clipped, too, but that costs only ``clip`` nats.

    Parameters
    ----------
    clip : float, default=1e-12
        The ``clip`` of the :func:`nll_top` with which the count is reported.

    Examples
    --------
    >>> nll_top_clipped([0, 1, 0], [[1.0, 0.0], [1.0, 0.0], [0.5, 0.5]])
    1.0
    """
    _check_clip(clip)
    c = top_label.confidence
    return float((np.where(top_label.correct(y), c, 1 - c) < clip).sum())


@mean_over_rows("top-label Brier", better="lower")
def brier_top(y: np.ndarray, top_label: Top) -> np.ndarray:
    """Measure the Brier score of predictions being correct, in [0, 1].

    It is the mean of ``(c - [the prediction is correct])²``, with c the confidence (Salamon et al.,
    Eq. 15, there the sum over rows).

    Examples
    --------
    >>> brier_top([0, 1], [[0.5, 0.5], [0.5, 0.5]])
    0.25
    """
    return (top_label.confidence - top_label.correct(y)) ** 2


def _check_clip(clip: float) -> None:
    if not 0 < clip < 0.5:
        raise ParameterError(f"clip must be in (0, 0.5), got {clip!r}")


@mean_over_rows("Hellinger", better="lower")
def hellinger(proba: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Measure the mean Hellinger distance ``||√proba_i - √truth_i||₂ / √2``, in [0, 1].

    It is 0 only if all rows are equal (Dey et al., Section 5.1.1 and Figure 1). On test rows it
    averages over the distribution of the data, and on a grid over the area.

    Parameters
    ----------
    truth : Float[n, K]
        True posterior P(y|x) of the same rows.

    Examples
    --------
    >>> hellinger([[1.0, 0.0]], truth=[[0.0, 1.0]])
    1.0
    """
    return np.linalg.norm(np.sqrt(proba) - np.sqrt(truth), axis=1) / np.sqrt(2)
