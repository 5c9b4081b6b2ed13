"""The bandwidth under which rows that are left out one by one are judged best."""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from kdgraph.calibration.top_label.bandwidth import CLOSE, WIDEST
from kdgraph.calibration.top_label.kernel_sums import KernelSeries, KernelSum, logs_of

CLIP = 1e-12
"""How near to 0 and 1 a confidence may come before its logarithm."""
_APART = 1.1
"""The ratio of the bandwidths that are looked at first."""


def leave_one_out(
    sums: tuple[KernelSum, KernelSum],
    score: np.ndarray,
    correct: np.ndarray,
    weight: np.ndarray,
    *,
    first: float = 0.005,
    step: float = 0.0005,
) -> float:
    """The one of the bandwidths first, first + step, … up to 1 with the least NLL of rows that are left out one by one (b_opt).

    Parameters
    ----------
    sums : kernels of right rows, and of those beside them in the denominator, whose first rows are the wrong ones.
    score, correct, weight : Float[n], Bool[n], Float[n]: the rows.
    first, step : in units of the score.

    Notes
    -----
    Salamon et al., Section 12 and its Appendix, where b_opt is what leave-one-out prefers. A row is left out by taking its own kernel off.
    Bandwidths a tenth apart are looked at first, then those between the neighbours of the best, closer and closer; of equals it is the
    widest.
    """
    known: dict[int, float] = {}

    def best_of(places: np.ndarray) -> int:
        for place in places.tolist():
            if place not in known:
                known[place] = leave_one_out_nll(sums, score, correct, weight, first + step * place)
        return max(known, key=lambda place: (-known[place], place))

    last = int(np.floor((WIDEST - first) / step + 1e-9))
    ratios = _APART ** np.arange(np.ceil(np.log(max(WIDEST / first, 1)) / np.log(_APART)) + 1)
    best = best_of(np.unique(np.round((first * ratios - first) / step).astype(int).clip(0, last)))
    while True:
        looked_at = sorted(known)
        at = looked_at.index(best)
        between = looked_at[max(at - 1, 0)], looked_at[min(at + 1, len(looked_at) - 1)]
        closer = np.unique(np.linspace(*between, 9).astype(int))
        if known.keys() >= set(closer.tolist()):
            return first + step * best
        best = best_of(closer)


def leave_one_out_nll(
    sums: tuple[KernelSum, KernelSum], score: np.ndarray, correct: np.ndarray, weight: np.ndarray, bandwidth: float
) -> float:
    """Mean NLL in nats of right and wrong (Salamon et al., Eq. 14), each row judged by the kernels of all others; as leave_one_out has it.

    Parameters
    ----------
    sums, score, correct, weight : Float[n], Bool[n], Float[n], as for :func:`leave_one_out`.
    bandwidth : of all kernels.

    Notes
    -----
    Confidences are at least 1e-12 from 0 and 1.
    """
    logs = []
    for kernels, own in zip(sums, (correct, ~correct), strict=True):
        row = np.where(own, np.cumsum(own) - 1, -1)
        value, error = np.zeros(len(score)), np.full(len(score), np.inf)
        if KernelSeries.fits(kernels, score, bandwidth, bandwidth):
            series = KernelSeries(kernels, score, bandwidth, bandwidth)
            total = series.at(np.array([bandwidth]))[0]
            value, error = logs_of(total - own * kernels.of_one(score, weight, bandwidth), series.error)
        rough = error > CLOSE
        value[rough] = kernels.log(score[rough], bandwidth, row[rough])[0]
        logs.append(value)
    confidence = np.clip(expit(np.where(correct, 1, -1) * (logs[0] - logs[1])), CLIP, 1 - CLIP)
    return float(np.average(-np.log(confidence), weights=weight))
