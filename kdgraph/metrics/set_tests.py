"""Permutation tests of whether a set of rows comes from the distribution of a reference sample.

The tests use any OOD score of rows. :func:`set_p_values` returns their p-values,
:func:`power_curve` and :func:`contamination` their power by the fraction of OOD rows in a set, and
:func:`holm` adjusts p-values of several tests for their number. What has no reference is original
to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.registry import table
from kdgraph.parameters import ClosedFraction, Count, OpenFraction, Range, Seed, check_value

Statistic = Literal["mean", "max", "ks"]
"""Test statistic. "mean": the mean score of a set. "max": the largest score, for sets with few OOD
rows; its p-value is at least m/(m + n), so at level .05 the reference needs 19 times the rows of a
set. "ks": the largest distance of the two empirical distribution functions, which also detects
scores that are too low.
"""

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Fractions of OOD rows in a set."""
SetSize = Annotated[int, Range(2)]
"""Number of rows in a set, at least 2."""
EQUAL = 1e-12
"""Relative difference below which two statistics count as equal.

Sums of the same numbers in another order differ by less.
"""


def set_p_values(
    sets: np.ndarray,
    reference: np.ndarray,
    *,
    statistic: Statistic = "mean",
    n_permutations: Count = 999,
    rng: np.random.Generator,
) -> np.ndarray:
    """Return the permutation p-value (k + 1)/(N + 1) of each set, Float[s].

    k is the number of N sets, drawn from the set and the reference together, whose statistic is at
    least as large. If set and reference come from one distribution, P(p ≤ a) ≤ a, and it is as
    close to a as steps of 1/(N + 1) and ties allow. This requires scores that were not fitted on
    any of these rows, so the reference must be held out, as test rows are.

    Parameters
    ----------
    sets : Float[s, m] or Float[m]
        Scores of the rows of s sets, or of one; higher means farther from the data. An infinite
        score counts as the farthest finite one.
    reference : Float[n]
        Scores of rows from the distribution.
    statistic : {"mean", "max", "ks"}, default="mean"
        See :data:`Statistic`; large values are far from the data.
    n_permutations : int, default=999
        Number of permutations N. They are the same for all sets, so the p-values are dependent.
    rng : numpy.random.Generator
        Source of the permutations.

    References
    ----------
    Phipson and Smyth, "Permutation p-values should never be zero", Statistical Applications in
    Genetics and Molecular Biology 9, 2010, for k + 1 over N + 1. For a single set the p-value is
    that of ``scipy.stats.permutation_test``.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> reference = rng.normal(size=200)
    >>> set_p_values([rng.normal(size=20), rng.normal(size=20) + 2], reference, rng=rng).round(3)
    array([0.343, 0.001])
    """
    set_scores, reference = (
        np.atleast_2d(np.asarray(sets, dtype=np.float64)),
        np.asarray(reference, dtype=np.float64),
    )
    _check(set_scores, reference, statistic, n_permutations)
    pooled = np.hstack([set_scores, np.broadcast_to(reference, (len(set_scores), len(reference)))])
    return _p_values(pooled, set_scores.shape[1], statistic, n_permutations, rng)


def power_curve(
    ood_score: np.ndarray,
    id_score: np.ndarray,
    *,
    shares: Sequence[ClosedFraction] = SHARES,
    set_size: int = 50,
    n_sets: int = 200,
    statistic: Statistic = "mean",
    false_alarm: float = 0.05,
    n_permutations: int = 199,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """Return the power of the set test by the fraction of OOD rows in a set.

    The power is the fraction of sets with p ≤ ``false_alarm``. For each set the in-distribution
    rows are split at random: one half is the reference, the other half supplies the in-distribution
    rows of the set. The points of a curve are dependent, because all fractions use the same splits
    and permutations. Differences between fractions are therefore more accurate, and the curve is
    smoother, than the standard errors of the points suggest. A random error at one fraction affects
    all of them.

    The columns are ``fraction`` (distinct fractions k / set_size), ``set_size`` and ``power``, each
    Float[r]; they are empty if a set would have fewer than two rows.

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]
        Scores of the OOD rows and of the test rows; higher means farther from the data.
    shares : sequence of float
        Fractions of OOD rows in a set. Each is rounded to a number of rows, at least one for a
        fraction above 0.
    set_size : int, default=50
        Number of rows in a set, at most one half of the test rows, or all OOD rows.
    n_sets : int, default=200
        Number of sets for each fraction. The power has a standard error of at most 1/(2 √n_sets),
        for these rows and permutations.
    statistic : {"mean", "max", "ks"}, default="mean"
        Test statistic, as for :func:`set_p_values`.
    n_permutations : int, default=199
        Number of permutations.
    false_alarm : float, default=0.05
        Level of the test. The actual rate of false alarms is the power at fraction 0.
    rng : numpy.random.Generator
        Source of splits, draws and permutations.

    Examples
    --------
    >>> id_score, rng = np.arange(100.0), np.random.default_rng(0)
    >>> power_curve(id_score + 50, id_score, shares=[0, 0.5, 1], set_size=10, rng=rng)["fraction"]
    array([0. , 0.5, 1. ])
    """
    ood_score = np.asarray(ood_score, dtype=np.float64)
    id_score = np.asarray(id_score, dtype=np.float64)
    if len(ood_score) and len(id_score):
        _check(ood_score[None], id_score, statistic, n_permutations)
    half = len(id_score) // 2
    size = min(set_size, half, len(ood_score))
    counts = (
        np.unique([0 if share == 0 else max(1, round(share * size)) for share in shares])
        if size > 1
        else np.empty(0, dtype=int)
    )
    # Every set has one permutation of the scores of each kind. A set with k OOD rows takes the
    # first k of the one and size - k of the other; from position ``half`` on, scores are the
    # reference. All fractions thus differ only in k.
    id_shuffled = rng.permuted(np.broadcast_to(id_score, (n_sets, len(id_score))), axis=1)
    ood_shuffled = rng.permuted(np.broadcast_to(ood_score, (n_sets, len(ood_score))), axis=1)
    test_seed, power = rng.spawn(1)[0].integers(2**63), []
    for k in counts.tolist():
        pooled = np.hstack([id_shuffled[:, : size - k], ood_shuffled[:, :k], id_shuffled[:, half:]])
        p = _p_values(pooled, size, statistic, n_permutations, np.random.default_rng(test_seed))
        power.append((p <= false_alarm + EQUAL).mean())
    return {
        "fraction": counts / max(size, 1),
        "set_size": np.full(len(counts), size),
        "power": np.array(power),
    }


@table("power of a set test by contamination", like=power_curve)
def contamination(
    ood_score: np.ndarray,
    id_score: np.ndarray,
    *,
    shares: Sequence[ClosedFraction] = SHARES,
    set_sizes: Sequence[SetSize] = (10, 50),
    n_sets: Count = 200,
    statistic: Statistic = "mean",
    false_alarm: OpenFraction = 0.05,
    n_permutations: Count = 199,
    seed: Seed = 0,
) -> dict[str, np.ndarray]:
    """Tabulate the power of the set test by the fraction of OOD rows and the size of the set.

    The test does not use which rows of a set are OOD, as in the monitoring of a stream. It requires
    scores of rows, so there is no such table for methods that score sets.

    The columns are ``fraction``, ``set_size``, ``power``, each Float[r]. There is no published
    table of them.

    Parameters
    ----------
    set_sizes : sequence of int, default=(10, 50)
        Numbers of rows in a set. Sizes that exceed one half of the test rows are reduced to it, and
        duplicates are dropped.
    seed : int, default=0
        Seed of splits, draws and permutations. The table is a function of scores and seed.

    Examples
    --------
    >>> id_score = np.arange(100.0)
    >>> table = contamination(id_score + 50, id_score, shares=[0, 0.5, 1], set_sizes=[10])
    >>> table["fraction"].tolist(), table["power"].round(1).tolist()
    ([0.0, 0.5, 1.0], [0.0, 0.8, 1.0])
    """
    options = {
        "n_sets": n_sets,
        "statistic": statistic,
        "false_alarm": false_alarm,
        "n_permutations": n_permutations,
    }
    check_value("seed", seed, Seed)
    # Each size has a separate generator, so that its curve does not depend on the other sizes.
    sizes = sorted({min(size, len(id_score) // 2, len(ood_score)) for size in set_sizes})
    curves = [
        power_curve(
            ood_score,
            id_score,
            shares=shares,
            set_size=size,
            **options,
            rng=np.random.default_rng([seed, size]),
        )
        for size in sizes
    ]
    return {
        column: np.concatenate([curve[column] for curve in curves])
        for column in ("fraction", "set_size", "power")
    }


def holm(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """Adjust the p-values of several tests for their number by Holm's method.

    Parameters
    ----------
    p : sequence of float
        One for each of m tests.

    Returns
    -------
    Float[m]
        Smallest level at which each test is rejected if the probability of any false rejection is
        to stay below the level: max_{i≤j} min(1, (m - i + 1)·p_(i)) for the j-th smallest.

    References
    ----------
    Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of
    Statistics 6, 1979, Section 3.

    Examples
    --------
    >>> holm([0.02, 0.5, 0.01])
    array([0.04, 0.5 , 0.03])
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    stepped = np.maximum.accumulate(values[order] * (len(values) - np.arange(len(values))))
    adjusted = np.empty(len(values))
    adjusted[order] = np.minimum(stepped, 1.0)
    return adjusted


def _p_values(
    pooled: np.ndarray, m: int, statistic: Statistic, n_permutations: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the p-values of s sets, the first m columns of Float[s, m + n], Float[s].

    The other columns are the reference of each set. All sets use the same permutations.
    """
    # The set is the first of its permutations and is measured in the same way, so that rounding
    # treats both alike. The comparison below is negated, so that a statistic that is NaN counts as
    # at least as large, and gives no evidence.
    members = np.argsort(rng.random((n_permutations, pooled.shape[1])), axis=1)[:, :m]
    draws = np.vstack([np.arange(m), members])
    statistics = _STATISTICS[statistic](np.stack([_finite(scores) for scores in pooled]), draws)
    at_least = ~(
        statistics[:, 1:]
        < statistics[:, :1] - EQUAL * np.abs(statistics).max(axis=1, keepdims=True)
    )
    return (at_least.sum(axis=1) + 1) / (n_permutations + 1)


def _finite(scores: np.ndarray) -> np.ndarray:
    """Return scores with infinities replaced by the farthest finite score, or 0 without any."""
    finite = np.isfinite(scores)
    if finite.all():
        return scores
    low, high = (scores[finite].min(), scores[finite].max()) if finite.any() else (0.0, 0.0)
    return np.clip(scores, low, high)


def _indicators(draws: np.ndarray, n: int) -> np.ndarray:
    is_member = np.zeros((len(draws), n), dtype=bool)
    np.put_along_axis(is_member, draws, True, axis=1)
    return is_member


def _mean(pooled: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return the mean of scores Float[s, n] over the rows of draws Int[N, m], Float[s, N]."""
    # Scores are divided by the largest one first, so that sums of very large scores stay finite.
    unit = np.maximum(np.abs(pooled).max(axis=1, keepdims=True), 1.0)
    return (
        pooled
        / unit
        @ _indicators(draws, pooled.shape[1]).T.astype(np.float64)
        / draws.shape[1]
        * unit
    )


def _max(pooled: np.ndarray, draws: np.ndarray) -> np.ndarray:
    return np.stack([scores[draws].max(axis=1) for scores in pooled])


def _ks(pooled: np.ndarray, draws: np.ndarray) -> np.ndarray:
    """Return two-sample Kolmogorov-Smirnov statistics of draws against the other rows, [s, N]."""
    # With c members of a draw among the first k sorted scores, the distribution functions of the
    # m members and the n other rows are c/m and (k - c)/n.
    is_member = _indicators(draws, pooled.shape[1])
    m, n = draws.shape[1], pooled.shape[1] - draws.shape[1]
    statistics = []
    for scores in pooled:
        order = np.argsort(scores, kind="stable")
        # Distribution functions are compared after the last of equal scores only.
        last = np.flatnonzero(np.append(np.diff(scores[order]) > 0, True))
        member_counts = np.cumsum(is_member[:, order], axis=1, dtype=np.int32)[:, last]
        statistics.append(np.abs(member_counts * (1 / m + 1 / n) - (last + 1) / n).max(axis=1))
    return np.stack(statistics)


_STATISTICS = {"mean": _mean, "max": _max, "ks": _ks}


def _check(sets: np.ndarray, reference: np.ndarray, statistic: str, n_permutations: int) -> None:
    check_value("statistic", statistic, Statistic)
    check_value("n_permutations", n_permutations, Count)
    for name, scores, dimensions in (("sets", sets, 2), ("reference", reference, 1)):
        if scores.ndim != dimensions or not scores.size:
            raise ParameterError(
                f"{name} must have the scores of at least one row, got shape {scores.shape}"
            )
        if np.isnan(scores).any():
            raise ParameterError(
                f"{name} must be scores, and {int(np.isnan(scores).sum())} of them are NaN"
            )
