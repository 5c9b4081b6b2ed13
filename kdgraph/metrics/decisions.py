"""What confidence is worth where a model may decline to answer: rows are rejected from the least
confident on.
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
"""Costs of a wrong answer in costs of none."""


@metric("PRR", better="higher")
def prr(y: np.ndarray, top: Top) -> float:
    """Measure the prediction rejection ratio (PRR): 1 if every wrong row is less confident than
    every right one, 0 at random, -1 at worst.

    Rows are rejected from the least confident on, and a rejected row is right, as if an oracle
    labelled it. The share of all rows that is wrong then falls from the error to 0. The area
    between this curve and the straight line, which rejection at random follows, is divided by that
    of an oracle that rejects the wrong rows first. Rows of equal confidence count with the mean
    over their orders, so the number depends on ranks alone: no recalibration that keeps them
    changes it. It equals ``2 AUROC - 1`` with wrong rows to be told from right ones. NaN where all
    rows are right or all are wrong.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.

    References
    ----------
    Malinin, Mlodozeniec, Gales, "Ensemble distribution distillation", ICLR 2020, Section 4; Luo et
    al., "Local calibration: metrics and recalibration", UAI 2022, Table 4. That it is an AUROC is
    ours: a wrong row of rank r (from 1, the first rejected) keeps the curve up over r - 1/2 of n
    steps, and the sum of their ranks is the Mann-Whitney statistic.

    Examples
    --------
    >>> y, proba = [0, 0, 1, 0], [[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.6, 0.4]]
    >>> prr(y, proba)  # one wrong row; one of three right ones is rejected before it
    0.33333333333333326
    """
    wrong = ~top.correct(y)
    if wrong.all() or not wrong.any():
        return np.nan
    return 2 * auroc(-top.confidence[wrong], -top.confidence[~wrong]) - 1


@metric("AURC", better="lower")
def aurc(y: np.ndarray, top: Top) -> float:
    """Measure the area under the risk-coverage curve (AURC): the error of the k most confident
    rows, averaged over k = 1 to n, in [0, 1].

    It falls with the error of the model as well as with better ranks: :func:`e_aurc` takes off what
    the best ranks would leave.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`. Rows of equal confidence count with
        the mean over their orders.

    References
    ----------
    Geifman, Uziel, El-Yaniv, "Bias-reduced uncertainty estimation for deep neural classifiers",
    ICLR 2019, Section 2.

    Examples
    --------
    >>> aurc([0, 1], [[0.9, 0.1], [0.8, 0.2]])  # 0 of the first row, 1/2 of both
    0.25
    """
    return float(_risk(top.confidence, ~top.correct(y)).mean())


@metric("excess AURC", better="lower")
def e_aurc(y: np.ndarray, top: Top) -> float:
    """Measure the excess AURC: :func:`aurc` less that of the same errors in the best order, in [0,
    1]; 0 is the best.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.

    References
    ----------
    Geifman, Uziel, El-Yaniv, "Bias-reduced uncertainty estimation for deep neural classifiers",
    ICLR 2019, Section 2. They approximate the best order's area by e + (1 - e) log(1 - e), with e
    the error; this is the exact one.

    Examples
    --------
    >>> e_aurc([0, 1], [[0.9, 0.1], [0.8, 0.2]]), e_aurc([1, 0], [[0.9, 0.1], [0.8, 0.2]])
    (0.0, 0.5)
    """
    wrong = ~top.correct(y)
    return float((_risk(top.confidence, wrong) - _risk(-wrong.astype(float), wrong)).mean())


@mean_over_rows("reward", better="higher")
def reward(
    y: np.ndarray, top: Top, *, unsure_cost: Positive = 1.0, wrong_cost: Positive = 10.0
) -> np.ndarray:
    """Mean reward of a row where the model says "unsure" below the confidence that would make this
    the better choice, were it true.

    That is ``1 - unsure_cost / wrong_cost``: a row below it costs ``unsure_cost``; of the others a
    wrong one costs ``wrong_cost`` and a right one nothing. So the reward is at most 0; saying
    nothing but "unsure" gives ``-unsure_cost``. Where "unsure" costs more than a wrong answer, it
    is never said.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    unsure_cost, wrong_cost : above 0; only their ratio decides when "unsure" is said.

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Section 5.4, with u = -1
    and w = -10 for Table 4; the rule is that of Chow, "On optimum recognition error and reject
    tradeoff", IEEE Transactions on Information Theory 16, 1970.

    Examples
    --------
    >>> reward([0, 0, 1, 0], [[0.95, 0.05], [0.6, 0.4], [0.6, 0.4], [0.95, 0.05]])  # two "unsure", two right
    -0.5
    """
    return _rewards(top, ~top.correct(y), unsure_cost, wrong_cost)


@table("reward by cost ratio")
def reward_by_ratio(
    y: np.ndarray, top: Top, *, ratios: Sequence[Positive] = RATIOS
) -> dict[str, np.ndarray]:
    """Tabulate :func:`reward` by the ratio of the cost of a wrong answer to that of "unsure", in
    units of the latter.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.
    ratios : r of them.

    Returns
    -------
    dict
        ``ratio``, ``threshold`` (the confidence below which a row is unsure), ``reward`` (mean over
        rows), ``unsure`` (share of the rows), ``error`` (share of the other rows that is wrong, NaN
        if there are none), each Float[r].

    References
    ----------
    Luo et al., "Local calibration: metrics and recalibration", UAI 2022, Figure 4, which plots the
    reward less that of the parent.

    Examples
    --------
    >>> found = reward_by_ratio([0, 1], [[0.75, 0.25], [0.75, 0.25]], ratios=[2, 10])
    >>> {name: values.tolist() for name, values in found.items() if name != "error"}
    {'ratio': [2.0, 10.0], 'threshold': [0.5, 0.9], 'reward': [-1.0, -1.0], 'unsure': [0.0, 1.0]}
    """
    ratio = np.asarray(ratios, dtype=np.float64)
    if ratio.ndim != 1 or not len(ratio) or not (ratio > 0).all():
        raise ParameterError(f"ratios must be a list of numbers above 0, got {ratios!r}")
    wrong = ~top.correct(y)
    threshold = 1 - 1 / ratio
    unsure = np.array([(top.confidence < at).mean() for at in threshold])
    told_wrong = np.array([(wrong & (top.confidence >= at)).mean() for at in threshold])
    answered = np.where(unsure < 1, 1 - unsure, np.nan)
    mean = np.array([_rewards(top, wrong, 1.0, each).mean() for each in ratio])
    return {
        "ratio": ratio,
        "threshold": threshold,
        "reward": mean,
        "unsure": unsure,
        "error": told_wrong / answered,
    }


@table("risk by coverage")
def risk_coverage(y: np.ndarray, top: Top, *, points: Count = 100) -> dict[str, np.ndarray]:
    """Tabulate the error of the most confident rows by their share of all rows.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`. Rows of equal confidence count with
    the mean over their orders.
    points : p, at most; fewer rows give as many.

    Returns
    -------
    dict
        ``coverage`` (k / n), ``risk`` (error of the k most confident rows), ``confidence`` (of the
        least confident of them), each Float[p].

    References
    ----------
    El-Yaniv, Wiener, "On the foundations of noise-free selective classification", JMLR 11, 2010,
    Section 2.

    Examples
    --------
    >>> {name: values.tolist() for name, values in risk_coverage([0, 1], [[0.9, 0.1], [0.8, 0.2]]).items()}
    {'coverage': [0.5, 1.0], 'risk': [0.0, 0.5], 'confidence': [0.9, 0.8]}
    """
    risk = _risk(top.confidence, ~top.correct(y))
    n = len(risk)
    k = np.unique(np.ceil(np.arange(1, points + 1) * n / points).astype(int))
    return {
        "coverage": k / n,
        "risk": risk[k - 1],
        "confidence": np.sort(top.confidence)[::-1][k - 1],
    }


def _risk(confidence: np.ndarray, wrong: np.ndarray) -> np.ndarray:
    """Float[n]: the expected share of wrong rows among the k most confident, k = 1 to n, over the
    orders of equally confident ones.
    """
    order = np.argsort(-confidence, kind="stable")
    last = (
        np.flatnonzero(np.append(np.diff(confidence[order]) != 0, True)) + 1
    )  # how many rows each level of confidence reaches
    k = np.arange(1, len(confidence) + 1)
    errors = np.interp(k, np.append(0, last), np.append(0, np.cumsum(wrong[order])[last - 1]))
    return errors / k


def _rewards(top: TopLabel, wrong: np.ndarray, unsure_cost: float, wrong_cost: float) -> np.ndarray:
    """Float[n]: the reward of each row."""
    for name, cost in (("unsure_cost", unsure_cost), ("wrong_cost", wrong_cost)):
        if not cost > 0:
            raise ParameterError(f"{name} must be above 0, got {cost!r}")
    return -np.where(top.confidence < 1 - unsure_cost / wrong_cost, unsure_cost, wrong_cost * wrong)
