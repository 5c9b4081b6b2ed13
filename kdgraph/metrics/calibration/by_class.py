"""Calibration errors class by class: of every class's probability, and of the confidence in each predicted class."""

from __future__ import annotations

import numpy as np

from kdgraph.metrics.calibration.bins import BinnedRows, Norm, binned_rows
from kdgraph.metrics.calibration.edges import Edges, Strategy
from kdgraph.metrics.calibration.numbers import if_calibrated
from kdgraph.metrics.registry import metric
from kdgraph.metrics.top_label import Top, TopLabel
from kdgraph.parameters import Count, Seed, check_value


@metric("top-label ECE", better="lower")
def top_label_ece(
    y: np.ndarray,
    top: Top,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    edges: Edges = "right",
    debiased: bool = False,
) -> float:
    """Measure the calibration error of top-label confidence within each predicted class, in [0, 1].

    As :func:`~kdgraph.metrics.ece`, but only rows of one predicted class share a bin: a class that is too sure and one that is not sure
    enough do not make up for each other. All bins of all classes are weighted by their rows. There are up to K times as many, so sampling
    adds more to it than to an ECE of as many bins; :func:`top_label_ece_if_calibrated` says how much.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    bins : for each predicted class.
    strategy : "mass": equal shares of the rows of a class.
    norm, edges, debiased : as for :func:`~kdgraph.metrics.ece`.

    References
    ----------
    Gupta, Ramdas, "Top-label calibration and multiclass-to-binary reductions", ICLR 2022, whose TL-ECE it estimates.

    Examples
    --------
    >>> y, proba = [0, 0, 1, 0], [[0.75, 0.25], [0.75, 0.25], [0.25, 0.75], [0.25, 0.75]]
    >>> top_label_ece(y, proba)  # class 0 is always right, class 1 half of the time, together three in four
    0.25
    """
    return _within_classes(top, bins, strategy, edges).error(top.correct(y), norm, debiased)


@metric("top-label ECE if calibrated", better=None)
def top_label_ece_if_calibrated(
    top: Top,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    edges: Edges = "right",
    debiased: bool = False,
    draws: Count = 200,
    seed: Seed = 0,
) -> float:
    """Simulate what :func:`top_label_ece` would be on these rows if the stated confidences were true: what sampling alone gives.

    Parameters
    ----------
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`. No label is looked at.
    bins, strategy, norm, edges, debiased : as for the :func:`top_label_ece` that it stands beside.
    draws, seed : as for :func:`~kdgraph.metrics.ece_if_calibrated`.

    References
    ----------
    Bröcker and Smith, Weather and Forecasting 22, 2007: consistency resampling, here within predicted classes.

    Examples
    --------
    >>> round(top_label_ece_if_calibrated([[0.5, 0.5]] * 100), 2)
    0.04
    """
    check_value("seed", seed, Seed)
    return if_calibrated(_within_classes(top, bins, strategy, edges), norm, debiased, draws, np.random.default_rng(seed))


@metric("class-wise ECE", better="lower")
def classwise_ece(
    y: np.ndarray,
    proba: np.ndarray,
    *,
    bins: Count = 15,
    strategy: Strategy = "uniform",
    norm: Norm = "l1",
    edges: Edges = "right",
    debiased: bool = False,
) -> float:
    """Measure the calibration error of every class's probability, the mean over the classes, in [0, 1].

    For each class, rows are binned by the probability of that class, and a bin's gap is |share of rows of the class - mean probability|.
    With many classes most probabilities are near 0 and right there, so the number falls with K, whatever the model.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    proba : Float[n, K].
    bins, strategy, edges, debiased : as for :func:`~kdgraph.metrics.ece`.
    norm : "l1" the mean over classes of the mean gap; "l2" the root of the mean over classes of the mean squared gap; "max" the largest.

    References
    ----------
    Kull et al., "Beyond temperature scaling: obtaining well-calibrated multi-class probabilities with Dirichlet calibration", NeurIPS 2019,
    Section 2; "l2", and that debiased, is the marginal calibration error of Kumar, Liang, Ma, NeurIPS 2019.

    Examples
    --------
    >>> round(classwise_ece([0, 1], [[0.9, 0.1], [0.9, 0.1]]), 6)
    0.4
    """
    errors = np.array([binned_rows(p, bins, strategy, edges).error(y == k, norm, debiased) for k, p in enumerate(proba.T)])
    if norm == "max":
        return float(errors.max())
    return float(errors.mean() if norm == "l1" else np.sqrt((errors**2).mean()))


def _within_classes(top: TopLabel, bins: int, strategy: Strategy, edges: Edges) -> BinnedRows:
    confidence = np.asarray(top.confidence, dtype=np.float64)
    return binned_rows(confidence, bins, strategy, edges, within=np.asarray(top.predicted))
