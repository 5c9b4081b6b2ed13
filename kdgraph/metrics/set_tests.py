"""Whether a set of rows comes from where a reference sample comes from, by any score of rows:
permutation tests, and their power.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.registry import table
from kdgraph.parameters import Count, OpenFraction, Range, Seed, Share, check_value

Statistic = Literal["mean", "max", "ks"]
"""What is compared. mean: of the scores of a set. max: the largest of them, for a few rows that are
far out; its p-value is never below m/(m + n), so it needs a reference of 19 times the rows of a set
to find anything at .05. ks: the largest distance of the two empirical distribution functions, which
sees scores that are too low as well.
"""

SHARES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Of rows out of distribution in a set."""
SetSize = Annotated[int, Range(2)]
"""Rows that a test can tell from one row."""
EQUAL = 1e-12
"""Relative difference below which two statistics are equal: sums of the same numbers in another
order.
"""


def set_p_values(
    sets: np.ndarray,
    reference: np.ndarray,
    *,
    statistic: Statistic = "mean",
    n_permutations: Count = 999,
    rng: np.random.Generator,
) -> np.ndarray:
    """Float[s]: for each set, how often sets that are drawn from it and the reference together look
    at least as far out, (k + 1)/(N + 1).

    Where set and reference come from one distribution, P(p ≤ a) ≤ a, and as near to a as steps of
    1/(N + 1) and equal scores let it. That holds of scores of rows that no row of the two has
    decided: the reference must be held out, as test rows are.

    Parameters
    ----------
    sets : Float[s, m], scores of the rows of s sets, or Float[m] of one; higher is farther out. An
        infinite score counts as the farthest finite one.
    reference : Float[n], scores of rows from the distribution.
    statistic : see :data:`Statistic`; large is far out.
    n_permutations : N, the same for all sets, so their p-values are not independent.
    rng : draws the permutations.

    References
    ----------
    Phipson and Smyth, "Permutation p-values should never be zero", Statistical Applications in
    Genetics and Molecular Biology 9, 2010, for k + 1 over N + 1. ``scipy.stats.permutation_test``
    gives the same of one set.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> reference = rng.normal(size=200)
    >>> set_p_values([rng.normal(size=20), rng.normal(size=20) + 2], reference, rng=rng).round(3)
    array([0.343, 0.001])
    """
    given, reference = (
        np.atleast_2d(np.asarray(sets, dtype=np.float64)),
        np.asarray(reference, dtype=np.float64),
    )
    _check(given, reference, statistic, n_permutations)
    pooled = np.hstack([given, np.broadcast_to(reference, (len(given), len(reference)))])
    return _p_values(pooled, given.shape[1], statistic, n_permutations, rng)


def power_curve(
    ood_score: np.ndarray,
    id_score: np.ndarray,
    *,
    shares: Sequence[Share] = SHARES,
    set_size: int = 50,
    n_sets: int = 200,
    statistic: Statistic = "mean",
    false_alarm: float = 0.05,
    n_permutations: int = 199,
    rng: np.random.Generator,
) -> dict[str, np.ndarray]:
    """How often a set is called out of distribution, p ≤ ``false_alarm``, by the share of its rows
    that are.

    For each set the rows in distribution are divided anew, by chance: one half is its reference,
    the other half gives the rows of the set that are in distribution. The points of a curve are not
    independent: all shares have the same divisions and the same permutations, and sets of one
    number differ only in their share. So differences between shares are surer, and the curve is
    smoother, than the standard errors of its points say; and what chance has moved at one share, it
    has moved at all.

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]; higher is farther out.
    shares : of rows out of distribution in a set; what is measured is the nearest number of rows,
    at least one of a share above 0.
    set_size : rows of a set, or as many as one half in distribution or all rows out of it have.
    n_sets : sets of each share; the power of a share has a standard error of about 1/(2 √n_sets),
    for these rows and permutations.
    statistic, n_permutations : of :func:`set_p_values`.
    false_alarm : the share of sets in distribution that may be called out of it; what it comes to
    is the power at share 0.
    rng : divides, draws and permutes.

    Returns
    -------
    dict
        ``share`` (k / set_size, each once), ``set_size``, ``power``, each Float[r]; none where a
        set would have fewer than two rows.

    References
    ----------
    Ours, with the p-value of :func:`set_p_values`.

    Examples
    --------
    >>> inside, far = np.arange(100.0), np.arange(100.0) + 50
    >>> power_curve(far, inside, shares=[0, 0.5, 1], set_size=10, rng=np.random.default_rng(0))["share"]
    array([0. , 0.5, 1. ])
    """
    out, inside = np.asarray(ood_score, dtype=np.float64), np.asarray(id_score, dtype=np.float64)
    if len(out) and len(inside):
        _check(out[None], inside, statistic, n_permutations)
    half = len(inside) // 2
    size = min(set_size, half, len(out))
    counts = (
        np.unique([0 if share == 0 else max(1, round(share * size)) for share in shares])
        if size > 1
        else np.empty(0, dtype=int)
    )
    within = rng.permuted(np.broadcast_to(inside, (n_sets, len(inside))), axis=1)
    without = rng.permuted(np.broadcast_to(out, (n_sets, len(out))), axis=1)
    permutations, power = rng.spawn(1)[0].integers(2**63), []
    for k in counts.tolist():
        pooled = np.hstack([within[:, : size - k], without[:, :k], within[:, half:]])
        p = _p_values(pooled, size, statistic, n_permutations, np.random.default_rng(permutations))
        power.append((p <= false_alarm + EQUAL).mean())
    return {
        "share": counts / max(size, 1),
        "set_size": np.full(len(counts), size),
        "power": np.array(power),
    }


@table("power of a set test by contamination")
def contamination(
    ood_score: np.ndarray,
    id_score: np.ndarray,
    *,
    shares: Sequence[Share] = SHARES,
    set_sizes: Sequence[SetSize] = (10, 50),
    n_sets: Count = 200,
    statistic: Statistic = "mean",
    false_alarm: OpenFraction = 0.05,
    n_permutations: Count = 199,
    seed: Seed = 0,
) -> dict[str, np.ndarray]:
    """Tabulate how often a set of rows is called out of distribution by the share of its rows that
    are, and the size of the set.

    Nobody is told which rows of a set are which; a monitor of a stream asks this. Of scores of sets
    there is no such table.

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]; higher is farther out of distribution.
    shares, n_sets, statistic, false_alarm, n_permutations : of :func:`power_curve`.
    set_sizes : rows of a set; one that is larger than what half of the test rows allow becomes
    that, once.
    seed : of division, draws and permutations, and of nothing else: the table is a function of the
        scores.

    Returns
    -------
    dict
        ``share``, ``set_size``, ``power``, each Float[r].

    References
    ----------
    Ours; the contamination of a set is what the average Hamming distance of TOOD turns around at
    (:class:`kdgraph.detection.TreeHamming`), and no published table has it.

    Examples
    --------
    >>> found = contamination(np.arange(100.0) + 50, np.arange(100.0), shares=[0, 0.5, 1], set_sizes=[10])
    >>> found["share"].tolist(), found["power"].round(1).tolist()
    ([0.0, 0.5, 1.0], [0.0, 0.8, 1.0])
    """
    how = {
        "n_sets": n_sets,
        "statistic": statistic,
        "false_alarm": false_alarm,
        "n_permutations": n_permutations,
    }
    check_value("seed", seed, Seed)
    sizes = sorted({min(size, len(id_score) // 2, len(ood_score)) for size in set_sizes})
    curves = [
        power_curve(
            ood_score,
            id_score,
            shares=shares,
            set_size=size,
            **how,
            rng=np.random.default_rng([seed, size]),
        )
        for size in sizes
    ]
    return {
        column: np.concatenate([curve[column] for curve in curves])
        for column in ("share", "set_size", "power")
    }


def _p_values(
    pooled: np.ndarray, m: int, statistic: Statistic, n_permutations: int, rng: np.random.Generator
) -> np.ndarray:
    """Float[s] of s sets, the first m columns of Float[s, m + n], against a reference each, the
    others; of the same permutations.
    """
    members = np.argsort(rng.random((n_permutations, pooled.shape[1])), axis=1)[:, :m]
    drawn = np.vstack([np.arange(m), members])  # the set itself is measured as its permutations are
    found = _STATISTICS[statistic](np.stack([_finite(each) for each in pooled]), drawn)
    at_least = ~(
        found[:, 1:] < found[:, :1] - EQUAL * np.abs(found).max(axis=1, keepdims=True)
    )  # of what is no number nothing is found
    return (at_least.sum(axis=1) + 1) / (n_permutations + 1)


def _finite(scores: np.ndarray) -> np.ndarray:
    """Float[n]: infinite scores as the farthest finite ones on their side; 0 where all are
    infinite.
    """
    known = np.isfinite(scores)
    if known.all():
        return scores
    low, high = (scores[known].min(), scores[known].max()) if known.any() else (0.0, 0.0)
    return np.clip(scores, low, high)


def _indicators(drawn: np.ndarray, n: int) -> np.ndarray:
    """Bool[N, n]: which of n rows each of N draws has."""
    inside = np.zeros((len(drawn), n), dtype=bool)
    np.put_along_axis(inside, drawn, True, axis=1)
    return inside


def _mean(pooled: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """Float[s, N], of the scores Float[s, n] and the rows of each draw, Int[N, m]; so are the
    others.
    """
    unit = np.maximum(
        np.abs(pooled).max(axis=1, keepdims=True), 1.0
    )  # sums of the largest numbers would not be finite
    return (
        pooled
        / unit
        @ _indicators(drawn, pooled.shape[1]).T.astype(np.float64)
        / drawn.shape[1]
        * unit
    )


def _max(pooled: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    return np.stack([each[drawn].max(axis=1) for each in pooled])


def _ks(pooled: np.ndarray, drawn: np.ndarray) -> np.ndarray:
    """The two-sample statistic of Kolmogorov and Smirnov of each draw against what it leaves."""
    inside = _indicators(drawn, pooled.shape[1])
    m, n = drawn.shape[1], pooled.shape[1] - drawn.shape[1]
    found = []
    for each in pooled:
        order = np.argsort(each, kind="stable")
        last = np.flatnonzero(
            np.append(np.diff(each[order]) > 0, True)
        )  # of equal scores only the last one is past all of them
        taken = np.cumsum(inside[:, order], axis=1, dtype=np.int32)[:, last]
        found.append(np.abs(taken * (1 / m + 1 / n) - (last + 1) / n).max(axis=1))
    return np.stack(found)


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
