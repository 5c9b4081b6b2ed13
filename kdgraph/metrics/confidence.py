"""How sure a model is, with and without labels: mean max confidence and the calibration error far from the data."""

from __future__ import annotations

import numpy as np

from kdgraph.metrics.registry import mean_over_rows, metric


@mean_over_rows("mean max confidence", better="neither")
def mmc(proba: np.ndarray) -> np.ndarray:
    """Mean over rows of the largest probability, in [1/K, 1]. Far from the data it should be the largest class prior.

    Parameters
    ----------
    proba : Float[n, K].

    References
    ----------
    Hein, Andriushchenko, Bitterwolf, "Why ReLU networks yield high-confidence predictions far away from the training data",
    CVPR 2019.

    Examples
    --------
    >>> mmc([[0.75, 0.25], [0.5, 0.5]])
    0.625
    """
    return proba.max(axis=1)


@mean_over_rows("mean max confidence where wrong", better="lower")
def mmc_wrong(y: np.ndarray, proba: np.ndarray) -> np.ndarray:
    """Mean largest probability of the rows whose predicted class is wrong, in [1/K, 1]; NaN where no row is wrong.

    Dey et al., "Deep discriminative to kernel density graph", Table 1, call it MMC*. Its rows are the wrong ones only, so
    two models are compared on different rows.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    proba : Float[n, K]. Of equally probable classes the first is the prediction.

    Examples
    --------
    >>> mmc_wrong([0, 1], [[0.75, 0.25], [0.625, 0.375]])
    0.625
    """
    return proba.max(axis=1)[proba.argmax(axis=1) != y]


@mean_over_rows("OCE", better="lower")
def oce(proba: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Out-of-distribution calibration error: mean over rows of ``|max_k proba[i, k] - max_k prior[k]|``, in [0, 1 - 1/K].

    The absolute value is taken row by row, as printed. ``|mmc - max prior|``, which is :func:`oce_of_mean`, is smaller wherever some
    rows are above the prior and some below.

    Parameters
    ----------
    proba : Float[n, K] on out-of-distribution rows.
    prior : Float[K], class shares of the training rows (the base rate; uniform only if the training data are balanced).

    References
    ----------
    Dey et al., "Deep discriminative to kernel density graph", Eq. 18.

    Examples
    --------
    >>> oce([[0.75, 0.25], [0.5, 0.5]], prior=[0.625, 0.375])
    0.125
    """
    return np.abs(proba.max(axis=1) - prior.max())


@metric("OCE of the mean", better="lower")
def oce_of_mean(proba: np.ndarray, prior: np.ndarray) -> float:
    """``|mmc - max_k prior[k]|``: rows above the prior and rows below it cancel, so it is at most :func:`oce`, in [0, 1 - 1/K].

    This is what the published implementation of Dey et al. computes where their paper has Eq. 18.

    Parameters
    ----------
    proba, prior : as for :func:`oce`.

    Examples
    --------
    >>> oce_of_mean([[0.75, 0.25], [0.5, 0.5]], prior=[0.625, 0.375])
    0.0
    """
    return float(abs(proba.max(axis=1).mean() - prior.max()))
