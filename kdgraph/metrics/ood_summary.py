"""All that says how well a score tells rows out of distribution from others, with bootstrap intervals.

Ours; what is measured is :mod:`kdgraph.metrics.ood`'s, the intervals are Efron's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.inputs import checked
from kdgraph.metrics.ood import aupr_in, aupr_out, auroc, fpr90, fpr95
from kdgraph.parameters import Count, OpenFraction, check_value

COUNTS_AT_A_TIME = 4_000_000
"""Numbers in one block of resamples, 32 MB each of a few arrays."""


@dataclass(frozen=True)
class Bounded:
    """A number and its interval.

    Attributes
    ----------
    value : of the rows as they are.
    low, high : ends of the percentile interval; of a number at the end of its range they may be that end.
    """

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class OodMetrics:
    """What :func:`ood_metrics` found.

    Attributes
    ----------
    n_id, n_ood : rows of each side.
    base_rate : n_ood / (n_id + n_ood), what ``aupr_out`` is where a score tells nothing; that of ``aupr_in`` is 1 minus it.
    level, n_bootstrap : of the intervals.
    metrics : by name: auroc, aupr_out, aupr_in, and fpr95_id, fpr95_ood, fpr90_id and fpr90_ood, where the end says which side is positive.
    """

    n_id: int
    n_ood: int
    base_rate: float
    level: float
    n_bootstrap: int
    metrics: Mapping[str, Bounded]

    def __getitem__(self, name: str) -> Bounded:
        return self.metrics[name]


def ood_metrics(
    id_score: np.ndarray, ood_score: np.ndarray, *, n_bootstrap: Count = 1000, level: OpenFraction = 0.95, rng: np.random.Generator
) -> OodMetrics:
    """Measure AUROC, both AUPR, FPR at 95 and 90 % TPR both ways, each with a percentile bootstrap interval.

    Parameters
    ----------
    id_score, ood_score : Float[n], Float[m], finite or infinite; higher is farther out of distribution.
    n_bootstrap : resamples of both sides, each with replacement and of its own size, so that the base rate stays.
    level : share of the resamples inside the interval.
    rng : draws the resamples.

    Notes
    -----
    The intervals are of the rows alone, for a model as it is. They hold less than they say of a number near the end of its range: with
    every row in order, all resamples agree.

    References
    ----------
    Efron and Tibshirani, "An introduction to the bootstrap", 1993, Section 13.3. The conventions are those of
    :mod:`kdgraph.metrics.ood`.

    Examples
    --------
    >>> found = ood_metrics([1.0, 2.0, 0.0], [3.0, 2.0], rng=np.random.default_rng(0))
    >>> found.base_rate, round(found["auroc"].value, 3), found["fpr95_id"].value
    (0.4, 0.917, 0.5)
    """
    check_value("n_bootstrap", n_bootstrap, Count)
    check_value("level", level, OpenFraction)
    if not isinstance(rng, np.random.Generator):
        raise ParameterError(f"rng must be a numpy Generator, got {rng!r}")
    given = checked({"ood_score": ood_score, "id_score": id_score})
    out, inside = given["ood_score"], given["id_score"]
    values = {
        "auroc": auroc(out, inside),
        "aupr_out": aupr_out(out, inside),
        "aupr_in": aupr_in(out, inside),
        "fpr95_id": fpr95(out, inside, positive="id"),
        "fpr95_ood": fpr95(out, inside, positive="ood"),
        "fpr90_id": fpr90(out, inside, positive="id"),
        "fpr90_ood": fpr90(out, inside, positive="ood"),
    }
    drawn = [of_counts(*counts) for counts in _resampled(out, inside, n_bootstrap, rng)]
    ends = [(1 - level) / 2, (1 + level) / 2]
    bounds = {name: np.quantile(np.concatenate([each[name] for each in drawn]), ends).tolist() for name in values}
    metrics = {name: Bounded(value, *bounds[name]) for name, value in values.items()}
    return OodMetrics(len(inside), len(out), len(out) / (len(out) + len(inside)), level, n_bootstrap, metrics)


def of_counts(out: np.ndarray, inside: np.ndarray) -> dict[str, np.ndarray]:
    """The same numbers of many samples at once, Float[b] each.

    Parameters
    ----------
    out, inside : Int[b, t], how many rows of each side have each of t scores, which increase.
    """
    m, n = out.sum(axis=1, keepdims=True), inside.sum(axis=1, keepdims=True)
    below, refused, caught = (np.cumsum(inside, axis=1) - inside, _at_least(inside), _at_least(out))
    passed, missed = np.cumsum(inside, axis=1), np.cumsum(out, axis=1)
    found = {
        "auroc": (out * (below + inside / 2)).sum(axis=1) / (m * n)[:, 0],
        "aupr_out": _precision(out, caught, refused) / m[:, 0],
        "aupr_in": _precision(inside, passed, missed) / n[:, 0],
    }
    for percent in (95, 90):
        found[f"fpr{percent}_ood"] = _false_at(percent / 100, caught[:, ::-1], refused[:, ::-1])
        found[f"fpr{percent}_id"] = _false_at(percent / 100, passed, missed)
    return found


def _resampled(out: np.ndarray, inside: np.ndarray, n_bootstrap: int, rng: np.random.Generator) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Int[b, t] of both sides, some resamples at a time; each side has a generator of its own, so blocks of any size draw the same."""
    scores, places = np.unique(np.concatenate([out, inside]), return_inverse=True)
    sides = list(zip((places[: len(out)], places[len(out) :]), rng.spawn(2), strict=True))
    at_a_time = max(1, COUNTS_AT_A_TIME // len(scores))
    for start in range(0, n_bootstrap, at_a_time):
        b = min(at_a_time, n_bootstrap - start)
        out_counts, inside_counts = (
            _counts(place[generator.integers(len(place), size=(b, len(place)))], len(scores)) for place, generator in sides
        )
        yield out_counts, inside_counts


def _counts(places: np.ndarray, n_scores: int) -> np.ndarray:
    """Int[b, t]: how often each of the scores is among places: Int[b, m]."""
    offset = np.arange(len(places))[:, None] * n_scores
    return np.bincount((places + offset).ravel(), minlength=len(places) * n_scores).reshape(len(places), n_scores)


def _at_least(counts: np.ndarray) -> np.ndarray:
    """Int[b, t]: rows with this score or a higher one."""
    return np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]


def _precision(counts: np.ndarray, true: np.ndarray, false: np.ndarray) -> np.ndarray:
    """Float[b]: precision summed over the positives, of which ``counts`` have each score; where there is none it may be 0/0."""
    return (counts * true / np.maximum(true + false, 1)).sum(axis=1)


def _false_at(tpr: float, true: np.ndarray, false: np.ndarray) -> np.ndarray:
    """Float[b]: the false positive rate where the true one first reaches ``tpr``, of counts that grow from the strictest threshold on."""
    at = (true / true[:, -1:] >= tpr).argmax(axis=1)
    return false[np.arange(len(false)), at] / false[:, -1]
