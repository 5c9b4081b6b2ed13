"""How sure a model is, with and without labels: mean max confidence and the calibration error far from the data."""

from __future__ import annotations

import numpy as np

from kdgraph.metrics.registry import mean_over_rows, metric
from kdgraph.metrics.top_label import Top


@mean_over_rows("mean max confidence", better=None)
def mmc(top: Top) -> np.ndarray:
    """Mean over rows of the confidence, the largest probability, in [1/K, 1]. Far from the data it should be the largest class prior.

    Parameters
    ----------
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.

    References
    ----------
    Hein, Andriushchenko, Bitterwolf, "Why ReLU networks yield high-confidence predictions far away from the training data",
    CVPR 2019.

    Examples
    --------
    >>> mmc([[0.75, 0.25], [0.5, 0.5]])
    0.625
    """
    return top.confidence


@mean_over_rows("mean max confidence where wrong", better="lower")
def mmc_wrong(y: np.ndarray, top: Top) -> np.ndarray:
    """Mean largest probability of the rows whose predicted class is wrong, in [1/K, 1]; NaN where no row is wrong.

    Dey et al., "Deep discriminative to kernel density graph", Table 1, call it MMC*. Its rows are the wrong ones only, so
    two models are compared on different rows.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`. Of equally probable classes the first is the prediction.

    Examples
    --------
    >>> mmc_wrong([0, 1], [[0.75, 0.25], [0.625, 0.375]])
    0.625
    """
    return top.confidence[~top.correct(y)]


@mean_over_rows("OCE", better="lower")
def oce(top: Top, prior: np.ndarray) -> np.ndarray:
    """Out-of-distribution calibration error: mean over rows of ``|max_k proba[i, k] - max_k prior[k]|``, in [0, 1 - 1/K].

    The absolute value is taken row by row, as printed. ``|mmc - max prior|``, which is :func:`oce_of_mean`, is smaller wherever some
    rows are above the prior and some below.

    Parameters
    ----------
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`, on out-of-distribution rows.
    prior : Float[K], class shares of the training rows (the base rate; uniform only if the training data are balanced).

    References
    ----------
    Dey et al., "Deep discriminative to kernel density graph", Eq. 18.

    Examples
    --------
    >>> oce([[0.75, 0.25], [0.5, 0.5]], prior=[0.625, 0.375])
    0.125
    """
    return np.abs(top.confidence - prior.max())


@metric("OCE of the mean", better="lower")
def oce_of_mean(top: Top, prior: np.ndarray) -> float:
    """``|mmc - max_k prior[k]|``: rows above the prior and rows below it cancel, so it is at most :func:`oce`, in [0, 1 - 1/K].

    This is what the published implementation of Dey et al. computes where their paper has Eq. 18.

    Parameters
    ----------
    top, prior : as for :func:`oce`.

    Examples
    --------
    >>> oce_of_mean([[0.75, 0.25], [0.5, 0.5]], prior=[0.625, 0.375])
    0.0
    """
    return float(abs(top.confidence.mean() - prior.max()))
