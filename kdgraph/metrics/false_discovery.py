"""Out-of-distribution rows flagged at a false discovery rate, by the p-values of a detector.

A threshold for single rows flags 5 % of the rows in distribution, so that most flagged rows of a
batch may be false alarms where few rows are out of distribution. :func:`benjamini_hochberg` flags
rows of a batch such that a fraction of at most ``fdr`` of them is in distribution, on average.
:func:`realised_fdr` and :func:`fdr_power` measure it on the test rows together with an OOD set.
"""

from __future__ import annotations

import numpy as np

from kdgraph.metrics.registry import metric
from kdgraph.parameters import OpenFraction

_TOLERANCE = 1e-12
"""Relative: adjusted p-values are products and quotients of small fractions, and may equal fdr."""


def benjamini_hochberg(p_values: np.ndarray, fdr: float = 0.1) -> np.ndarray:
    """Return the rows of a batch that are flagged at a false discovery rate.

    Parameters
    ----------
    p_values : Float[n]
        P-value of each row of the batch, for the hypothesis that it is in distribution.
    fdr : float in (0, 1), default=0.1
        Largest expected fraction of rows in distribution among those that are flagged; it is 0
        where none is flagged.

    Returns
    -------
    Bool[n]
        True for the rows with the k smallest p-values, where k is the largest number for which the
        k-th smallest is at most fdr · k / n.

    Notes
    -----
    With conformal p-values on calibration rows that are exchangeable with the rows in distribution
    and independent of the score, the rate is at most fdr times the fraction of the batch that is in
    distribution: the p-values depend on each other positively, because they share the calibration
    rows (Bates et al. 2023, Theorem 2). With m calibration rows a p-value is at least 1 / (m + 1):
    no row can be flagged unless n / (k (m + 1)) is at most fdr for some k.

    References
    ----------
    Benjamini and Hochberg, "Controlling the false discovery rate", JRSS B 57, 1995. Bates, Candès,
    Lei, Romano and Sesia, "Testing for outliers with conformal p-values", Annals of Statistics
    51(1), 2023.

    Examples
    --------
    >>> benjamini_hochberg(np.array([0.01, 0.04, 0.06, 0.5]), fdr=0.1).tolist()
    [True, True, True, False]
    """
    from scipy.stats import false_discovery_control

    if not len(p_values):
        return np.zeros(0, dtype=bool)
    return false_discovery_control(p_values, method="bh") <= fdr * (1 + _TOLERANCE)


def _flagged(
    ood_p_value: np.ndarray, id_p_value: np.ndarray, fdr: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the flagged rows of the OOD set, Bool[m], and of the test rows, Bool[n]."""
    flagged = benjamini_hochberg(np.concatenate([ood_p_value, id_p_value]), fdr)
    return flagged[: len(ood_p_value)], flagged[len(ood_p_value) :]


@metric("realised FDR", better="lower")
def realised_fdr(
    ood_p_value: np.ndarray, id_p_value: np.ndarray, *, fdr: OpenFraction = 0.1
) -> float:
    """Measure the fraction of test rows among the flagged rows of test rows and an OOD set.

    It is the false discovery proportion of one batch, 0 if no row is flagged (Bates et al. 2023,
    Section 4). Its mean over batches and calibration rows is at most ``fdr``; that of one batch may
    be above.

    Parameters
    ----------
    fdr : float in (0, 1), default=0.1
        False discovery rate of :func:`~kdgraph.metrics.benjamini_hochberg`.

    Examples
    --------
    >>> realised_fdr(np.array([0.01, 0.01, 0.5]), np.array([0.02, 0.7, 0.9]))
    0.3333333333333333
    """
    out, test = _flagged(ood_p_value, id_p_value, fdr)
    return float(test.sum() / max(out.sum() + test.sum(), 1))


@metric("power at the FDR", better="higher", like=realised_fdr)
def fdr_power(ood_p_value: np.ndarray, id_p_value: np.ndarray, *, fdr: OpenFraction = 0.1) -> float:
    """Measure the fraction of an OOD set that is flagged, in a batch with the test rows.

    It is the power of Bates et al. 2023, Section 4.

    Examples
    --------
    >>> round(fdr_power(np.array([0.01, 0.01, 0.5]), np.array([0.02, 0.7, 0.9])), 3)
    0.667
    """
    return float(_flagged(ood_p_value, id_p_value, fdr)[0].mean())
