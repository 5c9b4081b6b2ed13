"""How well a score tells rows out of distribution from test rows: ranks alone, so no scale, shift or threshold of the score matters.

All take ``ood_score`` (Float[m], of what is out of distribution) and ``id_score`` (Float[n], the same model's scores of the test rows),
higher for what is farther out; infinity is the farthest. Equal scores are one threshold. Of a method that scores sets, a number is one of
its units, not a row. Which class is positive is said by each; the base rate is its share of the m + n scores, so it is decided by how many
rows were drawn, and the areas under precision and recall move with it. A record's ``n`` is m, and n is its ``dataset.n_test``.

:func:`kdgraph.metrics.ood_metrics` gives all of them at once, with the base rate and bootstrap intervals.
"""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from kdgraph.metrics.registry import metric

PositiveClass = Literal["id", "ood"]
"""Which class is to be found."""


def delong_stderr(ood_score: np.ndarray, id_score: np.ndarray) -> float | None:
    """The standard error of the AUROC over both samples of rows, √(s²(V_ood)/m + s²(V_id)/n); None where a side has a single row.

    V are the placements: of a row out of distribution the share of test rows below it, of a test row the share of the others above it,
    equals counting half. It is 0 where no two scores are out of order, however few they are. It takes both sides for rows of their own:
    where those out of distribution are made of the test rows themselves, as shifted ones are, the error is smaller than it says.

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]; higher is farther out of distribution.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating characteristic curves: a
    nonparametric approach", Biometrics 44, 1988.

    Examples
    --------
    >>> round(delong_stderr(np.array([3.0, 2.0]), np.array([1.0, 2.0])), 3)
    0.177
    """
    if min(len(ood_score), len(id_score)) < 2:
        return None
    placements = _placements(ood_score, id_score), _placements(-id_score, -ood_score)
    return math.sqrt(sum(float(np.var(each, ddof=1)) / len(each) for each in placements))


def _placements(scores: np.ndarray, of_others: np.ndarray) -> np.ndarray:
    """Float[m]: the share of the others below each score, equals counting half."""
    ranked = np.sort(of_others)
    return (np.searchsorted(ranked, scores, "left") + np.searchsorted(ranked, scores, "right")) / (2 * len(ranked))


@metric("AUROC", better="higher", stderr=delong_stderr)
def auroc(ood_score: np.ndarray, id_score: np.ndarray) -> float:
    """P(score of a row out of distribution > score of a test row) + P(equal) / 2, in [0, 1]; 0.5 tells nothing.

    The area under the ROC curve with out of distribution as the positive class. It does not depend on the base rate, and is the same with
    in distribution as the positive class and scores that are higher for that.

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]; higher is farther out of distribution.

    References
    ----------
    Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic (ROC) curve", Radiology 143, 1982: it is
    the Mann-Whitney statistic. It agrees with scikit-learn's ``roc_auc_score``. The standard error is :func:`delong_stderr`.

    Examples
    --------
    >>> auroc([3.0, 2.0], [1.0, 2.0])
    0.875
    """
    return float(_placements(ood_score, id_score).mean())


@metric("AUPR-out", better="higher")
def aupr_out(ood_score: np.ndarray, id_score: np.ndarray) -> float:
    """Average precision with out of distribution as the positive class, in (0, 1]; a score that tells nothing gets m/(m + n).

    Average precision is Σ_k (R_k - R_{k-1}) P_k over the thresholds of the score, as scikit-learn's ``average_precision_score``; published
    tables often have the trapezoidal area, which is larger.

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]; higher is farther out of distribution. The base rate is m/(m + n).

    Examples
    --------
    >>> aupr_out([3.0, 2.0], [1.0, 2.0])
    0.8333333333333333
    """
    return _average_precision(ood_score, id_score)


@metric("AUPR-in", better="higher")
def aupr_in(ood_score: np.ndarray, id_score: np.ndarray) -> float:
    """Average precision with in distribution as the positive class, in (0, 1]; a score that tells nothing gets n/(m + n).

    Parameters
    ----------
    ood_score, id_score : as for :func:`aupr_out`, whose definition (scikit-learn's) it shares. The base rate is n/(m + n).

    Examples
    --------
    >>> aupr_in([3.0, 2.0], [1.0, 2.0])
    0.8333333333333333
    """
    return _average_precision(-id_score, -ood_score)


@metric("FPR95", better="lower")
def fpr95(ood_score: np.ndarray, id_score: np.ndarray, *, positive: PositiveClass = "id") -> float:
    """False positive rate at the first threshold with a true positive rate of at least .95, in [0, 1].

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]; higher is farther out of distribution.
    positive : "id": the share of rows out of distribution that pass where 95 % of the test rows do, as in most papers since Hendrycks and
        Gimpel (2017). "ood": the share of test rows that are refused where 95 % of the rows out of distribution are, as in OpenOOD and
        pytorch-ood.

    Notes
    -----
    Thresholds are the scores themselves, from the strictest on; all rows that have the score of the threshold are on its positive side.

    Examples
    --------
    >>> fpr95([3.0, 2.0], [1.0, 2.0]), fpr95([3.0, 2.0], [1.0, 0.0])
    (0.5, 0.0)
    """
    return _fpr_at(0.95, ood_score, id_score, positive)


@metric("FPR90", better="lower")
def fpr90(ood_score: np.ndarray, id_score: np.ndarray, *, positive: PositiveClass = "id") -> float:
    """False positive rate at the first threshold with a true positive rate of at least .90, in [0, 1].

    Parameters
    ----------
    ood_score, id_score, positive : as for :func:`fpr95`, of Hendrycks and Gimpel (2017).

    Examples
    --------
    >>> fpr90([3.0, 2.0], [1.0, 2.0], positive="ood")
    0.5
    """
    return _fpr_at(0.90, ood_score, id_score, positive)


def _average_precision(positive: np.ndarray, negative: np.ndarray) -> float:
    """The mean over positives of the precision among all that score at least as high."""
    true, false = _at_least(positive, positive), _at_least(positive, negative)
    return float((true / (true + false)).mean())


def _fpr_at(tpr: float, ood_score: np.ndarray, id_score: np.ndarray, of: PositiveClass) -> float:
    positive, negative = (ood_score, id_score) if of == "ood" else (-id_score, -ood_score)
    reached = np.arange(1, len(positive) + 1) / len(positive) >= tpr  # k/n and .95 are rounded alike, 0.95·n may lie above k
    threshold = np.sort(positive)[::-1][reached.argmax()]
    return float((negative >= threshold).mean())


def _at_least(thresholds: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Int[t]: how many scores are not below each threshold."""
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, "left")
