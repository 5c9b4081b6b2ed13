"""Selective prediction: metrics of confidence for a model that may abstain.

Rows are rejected in the order of their confidence, the least confident first. :func:`prr`,
:func:`aurc` and :func:`e_aurc` summarise all rejection rates, :func:`reward` fixes the costs of an
error and of an abstention.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.inputs import Top, TopLabel
from kdgraph.metrics.ood import auroc
from kdgraph.metrics.registry import mean_over_rows, metric, table
from kdgraph.parameters import Count, Positive

RATIOS = (1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0)
"""Costs of an incorrect prediction, in units of the cost of an abstention."""


@metric("PRR", better="higher")
def prr(y: np.ndarray, top_label: Top) -> float:
    """Measure the prediction rejection ratio (PRR), in [-1, 1].

    It is 1 if every incorrect prediction is less confident than every correct one, and 0 on average
    for random confidences. Rows are rejected in the order of their confidence, the least confident
    first. A rejected row counts as correct, as if an oracle labelled it, so the fraction of
    incorrect predictions falls from the error to 0. Random rejection follows a straight line. PRR
    is the area between the curve and this line, divided by that of an oracle that rejects the
    incorrect predictions first. For rows of equal confidence the mean over their orders is used.
    PRR therefore depends only on ranks, and a recalibration that preserves ranks does not change
    it. It equals ``2 AUROC - 1`` of the confidence as a detector of incorrect predictions. It is
    NaN if all predictions are correct or all are incorrect.

    References
    ----------
    Malinin, Mlodozeniec, Gales, "Ensemble distribution distillation", ICLR 2020, Section 4; Luo et
    al., UAI 2022, Table 4. The identity with AUROC is original to kdgraph: an incorrect prediction
    of rank r (from 1, the first to be rejected) contributes r - 1/2 of n steps to the area under
    the curve, and the sum of these ranks is the Mann-Whitney statistic.

    Examples
    --------
    >>> y, proba = [0, 0, 1, 0], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> prr(y, proba)  # one error; one of three correct predictions is rejected before it
    0.33333333333333326
    """
    wrong = ~top_label.correct(y)
    if wrong.all() or not wrong.any():
        return np.nan
    return 2 * auroc(-top_label.confidence[wrong], -top_label.confidence[~wrong]) - 1


@metric("AURC", better="lower")
def aurc(y: np.ndarray, top_label: Top) -> float:
    """Measure the area under the risk-coverage curve (AURC), in [0, 1].

    It is the error of the k most confident rows, averaged over k = 1 to n (Geifman, Uziel,
    El-Yaniv, "Bias-reduced uncertainty estimation for deep neural classifiers", ICLR 2019, Section
    2). It is lower for models with a lower error as well as for better ranks; :func:`e_aurc`
    subtracts the area of the best possible ranks. For rows of equal confidence the mean over their
    orders is used.

    Examples
    --------
    >>> aurc([0, 1], [[0.9, 0.1], [0.8, 0.2]])  # errors 0 of one row, 1/2 of two
    0.25
    """
    return float(_risk(top_label.confidence, ~top_label.correct(y)).mean())


@metric("excess AURC", better="lower")
def e_aurc(y: np.ndarray, top_label: Top) -> float:
    """Measure the excess AURC (E-AURC), in [0, 1]; 0 is the best.

    It is :func:`aurc` minus the AURC of the same errors in the best order, which Geifman et al.
    (2019) approximate by e + (1 - e) log(1 - e), with e the error.

    Examples
    --------
    >>> e_aurc([0, 1], [[0.9, 0.1], [0.8, 0.2]]), e_aurc([1, 0], [[0.9, 0.1], [0.8, 0.2]])
    (0.0, 0.5)
    """
    wrong = ~top_label.correct(y)
    return float((_risk(top_label.confidence, wrong) - _risk(-wrong.astype(float), wrong)).mean())


@mean_over_rows("reward", better="higher")
def reward(
    y: np.ndarray, top_label: Top, *, unsure_cost: Positive = 1.0, wrong_cost: Positive = 10.0
) -> np.ndarray:
    """Measure the mean reward of a model that abstains where this maximises the expected reward.

    The model abstains below the confidence ``1 - unsure_cost / wrong_cost``, the optimal threshold
    if confidences are calibrated. An abstention costs ``unsure_cost``, an incorrect prediction
    ``wrong_cost``, and a correct prediction nothing. The reward is therefore at most 0. Always
    abstaining gives ``-unsure_cost``. If an abstention costs more than an incorrect prediction, the
    model never abstains.

    Parameters
    ----------
    unsure_cost : float, default=1.0
        Cost of an abstention, above 0.
    wrong_cost : float, default=10.0
        Cost of an incorrect prediction, above 0. The threshold depends only on the ratio.

    References
    ----------
    Luo et al., UAI 2022, Section 5.4, with u = -1 and w = -10 for Table 4; the rule is that of
    Chow, "On optimum recognition error and reject tradeoff", IEEE Transactions on Information
    Theory 16, 1970.

    Examples
    --------
    >>> reward([0, 0, 1, 0], [[0.95, 0.05], [0.6, 0.4], [0.6, 0.4], [0.95, 0.05]])  # abstains twice
    -0.5
    """
    return _rewards(top_label, ~top_label.correct(y), unsure_cost, wrong_cost)


@table("reward by cost ratio")
def reward_by_ratio(
    y: np.ndarray, top_label: Top, *, ratios: Sequence[Positive] = RATIOS
) -> dict[str, np.ndarray]:
    """Tabulate :func:`reward` by the ratio of the cost of an error to that of an abstention.

    Rewards are in units of the cost of an abstention (Luo et al., UAI 2022, Figure 4, which plots
    them less those of the parent).

    The columns are ``ratio``, ``threshold`` (confidence below which the model abstains), ``reward``
    (mean over rows), ``unsure`` (fraction of abstentions), ``error`` (error on the other rows, NaN
    if there are none), each Float[r].

    Parameters
    ----------
    ratios : sequence of float
        Ratios of the costs, each above 0.

    Examples
    --------
    >>> table = reward_by_ratio([0, 1], [[0.75, 0.25], [0.75, 0.25]], ratios=[2, 10])
    >>> {name: values.tolist() for name, values in table.items() if name != "error"}
    {'ratio': [2.0, 10.0], 'threshold': [0.5, 0.9], 'reward': [-1.0, -1.0], 'unsure': [0.0, 1.0]}
    """
    ratio = np.asarray(ratios, dtype=np.float64)
    if ratio.ndim != 1 or not len(ratio) or not (ratio > 0).all():
        raise ParameterError(f"ratios must be a list of numbers above 0, got {ratios!r}")
    wrong = ~top_label.correct(y)
    # In units of the cost of an abstention, an error costs the ratio itself.
    threshold = 1 - 1 / ratio
    unsure = np.array([(top_label.confidence < at).mean() for at in threshold])
    predicted_wrong = np.array([(wrong & (top_label.confidence >= at)).mean() for at in threshold])
    predicted = np.where(unsure < 1, 1 - unsure, np.nan)
    mean = np.array([_rewards(top_label, wrong, 1.0, cost).mean() for cost in ratio])
    return {
        "ratio": ratio,
        "threshold": threshold,
        "reward": mean,
        "unsure": unsure,
        "error": predicted_wrong / predicted,
    }


@table("risk by coverage")
def risk_coverage(y: np.ndarray, top_label: Top, *, points: Count = 100) -> dict[str, np.ndarray]:
    """Tabulate the error of the most confident rows by their fraction of all rows (coverage).

    For rows of equal confidence the mean over their orders is used (El-Yaniv and Wiener, "On the
    foundations of noise-free selective classification", JMLR 11, 2010, Section 2).

    The columns are ``coverage`` (k / n), ``risk`` (error of the k most confident rows),
    ``confidence`` (of the least confident of them), each Float[p].

    Parameters
    ----------
    points : int, default=100
        Largest number p of points; there are never more points than rows.

    Examples
    --------
    >>> table = risk_coverage([0, 1], [[0.9, 0.1], [0.8, 0.2]])
    >>> {name: values.tolist() for name, values in table.items()}
    {'coverage': [0.5, 1.0], 'risk': [0.0, 0.5], 'confidence': [0.9, 0.8]}
    """
    risk = _risk(top_label.confidence, ~top_label.correct(y))
    n = len(risk)
    k = np.unique(np.ceil(np.arange(1, points + 1) * n / points).astype(int))
    return {
        "coverage": k / n,
        "risk": risk[k - 1],
        "confidence": np.sort(top_label.confidence)[::-1][k - 1],
    }


def _risk(confidence: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Return the expected error of the k most confident rows for k = 1 to n, Float[n]."""
    # The expectation is over the orders of rows with equal confidence. Within such a group of ties
    # the expected number of errors grows linearly, so it is interpolated between the group's ends.
    order = np.argsort(-confidence, kind="stable")
    group_end = np.flatnonzero(np.append(np.diff(confidence[order]) != 0, True)) + 1
    k = np.arange(1, len(confidence) + 1)
    errors = np.interp(
        k, np.append(0, group_end), np.append(0, np.cumsum(wrong[order])[group_end - 1])
    )
    return errors / k


def _rewards(
    top_label: TopLabel, wrong: np.ndarray, unsure_cost: float, wrong_cost: float
) -> np.ndarray:
    """Return the reward of each row, Float[n]."""
    for name, cost in (("unsure_cost", unsure_cost), ("wrong_cost", wrong_cost)):
        if not cost > 0:
            raise ParameterError(f"{name} must be above 0, got {cost!r}")
    return -np.where(
        top_label.confidence < 1 - unsure_cost / wrong_cost, unsure_cost, wrong_cost * wrong
    )
