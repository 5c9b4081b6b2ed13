"""How far out of distribution rows are on average, by the score of a method itself."""

from __future__ import annotations

import numpy as np

from kdgraph.metrics.registry import metric


@metric("mean OOD score", better=None, unit="units of the score")
def mean_ood_score(ood_score: np.ndarray) -> float:
    """The mean of the out-of-distribution score; above 0 is out by the method's threshold. In the units of the method, so no two compare.

    Test rows have one as well. How both change with the number of training rows or of dimensions is Figures 4 and 7 of TOOD, whose score is
    its threshold less the average pairwise Hamming distance.

    Parameters
    ----------
    ood_score : Float[m]; higher is farther out of distribution.

    References
    ----------
    Tree-based Ensemble Learning for Out-of-distribution Detection (TOOD), Section 6.

    Examples
    --------
    >>> mean_ood_score([0.5, -0.25, -1.0])
    -0.25
    """
    return float(np.mean(ood_score))
