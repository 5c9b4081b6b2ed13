"""How well a score tells rows out of distribution from test rows: ranks alone, so no scale, shift
or threshold of the score matters.

All take ``ood_score`` (Float[m], of what is out of distribution) and ``id_score`` (Float[n], the
same model's scores of the test rows), higher for what is farther out; infinity is the farthest.
Equal scores are one threshold. Of a method that scores sets, a number is one of its units, not a
row. Which class is positive is said by each; the base rate is its share of the m + n scores, so it
is decided by how many rows were drawn, and the areas under precision and recall move with it. A
record's ``n`` is m, and n is its ``dataset.n_test``.

:func:`kdgraph.metrics.ood_metrics` gives all of them at once, with the base rate and bootstrap
intervals.

All that says how well a score tells rows out of distribution from others, with bootstrap intervals.

Ours; what is measured is :mod:`kdgraph.metrics.ood`'s, the intervals are Efron's.

How sure a model is, with and without labels: mean max confidence and the calibration error far from
the data.

How far out of distribution rows are on average, by the score of a method itself.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.inputs import Top, checked
from kdgraph.metrics.registry import mean_over_rows, metric
from kdgraph.parameters import Count, OpenFraction, check_value

PositiveClass = Literal["id", "ood"]
"""Which class is to be found."""


def delong_stderr(ood_score: np.ndarray, id_score: np.ndarray) -> float | None:
    """The standard error of the AUROC over both samples of rows, √(s²(V_ood)/m + s²(V_id)/n); None
    where a side has a single row.

    V are the placements: of a row out of distribution the share of test rows below it, of a test
    row the share of the others above it, equals counting half. It is 0 where no two scores are out
    of order, however few they are. It takes both sides for rows of their own: where those out of
    distribution are made of the test rows themselves, as shifted ones are, the error is smaller
    than it says.

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]; higher is farther out of distribution.

    References
    ----------
    DeLong, DeLong and Clarke-Pearson, "Comparing the areas under two or more correlated receiver
    operating characteristic curves: a nonparametric approach", Biometrics 44, 1988.

    Examples
    --------
    >>> round(delong_stderr(np.array([3.0, 2.0]), np.array([1.0, 2.0])), 3)
    0.177
    """
    if min(len(ood_score), len(id_score)) < 2:
        return None
    placements = _placements(ood_score, id_score), _placements(-id_score, -ood_score)
    return math.sqrt(sum(float(np.var(each, ddof=1)) / len(each) for each in placements))


def _placements(scores: np.ndarray, of_others: np.ndarray) -> np.ndarray:
    """Float[m]: the share of the others below each score, equals counting half."""
    ranked = np.sort(of_others)
    return (np.searchsorted(ranked, scores, "left") + np.searchsorted(ranked, scores, "right")) / (
        2 * len(ranked)
    )


@metric("AUROC", better="higher", stderr=delong_stderr)
def auroc(ood_score: np.ndarray, id_score: np.ndarray) -> float:
    """P(score of a row out of distribution > score of a test row) + P(equal) / 2, in [0, 1]; 0.5
    tells nothing.

    The area under the ROC curve with out of distribution as the positive class. It does not depend
    on the base rate, and is the same with in distribution as the positive class and scores that are
    higher for that.

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]; higher is farther out of distribution.

    References
    ----------
    Hanley and McNeil, "The meaning and use of the area under a receiver operating characteristic
    (ROC) curve", Radiology 143, 1982: it is the Mann-Whitney statistic. It agrees with
    scikit-learn's ``roc_auc_score``. The standard error is :func:`delong_stderr`.

    Examples
    --------
    >>> auroc([3.0, 2.0], [1.0, 2.0])
    0.875
    """
    return float(_placements(ood_score, id_score).mean())


@metric("AUPR-out", better="higher")
def aupr_out(ood_score: np.ndarray, id_score: np.ndarray) -> float:
    """Average precision with out of distribution as the positive class, in (0, 1]; a score that
    tells nothing gets m/(m + n).

    Average precision is Σ_k (R_k - R_{k-1}) P_k over the thresholds of the score, as scikit-learn's
    ``average_precision_score``; published tables often have the trapezoidal area, which is larger.

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]; higher is farther out of distribution. The base rate
        is m/(m + n).

    Examples
    --------
    >>> aupr_out([3.0, 2.0], [1.0, 2.0])
    0.8333333333333333
    """
    return _average_precision(ood_score, id_score)


@metric("AUPR-in", better="higher")
def aupr_in(ood_score: np.ndarray, id_score: np.ndarray) -> float:
    """Average precision with in distribution as the positive class, in (0, 1]; a score that tells
    nothing gets n/(m + n).

    Parameters
    ----------
    ood_score, id_score : as for :func:`aupr_out`, whose definition (scikit-learn's) it shares. The
        base rate is n/(m + n).

    Examples
    --------
    >>> aupr_in([3.0, 2.0], [1.0, 2.0])
    0.8333333333333333
    """
    return _average_precision(-id_score, -ood_score)


@metric("FPR95", better="lower")
def fpr95(ood_score: np.ndarray, id_score: np.ndarray, *, positive: PositiveClass = "id") -> float:
    """False positive rate at the first threshold with a true positive rate of at least .95, in [0,
    1].

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]; higher is farther out of distribution.
    positive : "id": the share of rows out of distribution that pass where 95 % of the test rows do,
        as in most papers since Hendrycks and Gimpel (2017). "ood": the share of test rows that are
        refused where 95 % of the rows out of distribution are, as in OpenOOD and pytorch-ood.

    Notes
    -----
    Thresholds are the scores themselves, from the strictest on; all rows that have the score of the
    threshold are on its positive side.

    Examples
    --------
    >>> fpr95([3.0, 2.0], [1.0, 2.0]), fpr95([3.0, 2.0], [1.0, 0.0])
    (0.5, 0.0)
    """
    return _fpr_at(0.95, ood_score, id_score, positive)


@metric("FPR90", better="lower")
def fpr90(ood_score: np.ndarray, id_score: np.ndarray, *, positive: PositiveClass = "id") -> float:
    """False positive rate at the first threshold with a true positive rate of at least .90, in [0,
    1].

    Parameters
    ----------
    ood_score, id_score, positive : as for :func:`fpr95`, of Hendrycks and Gimpel (2017).

    Examples
    --------
    >>> fpr90([3.0, 2.0], [1.0, 2.0], positive="ood")
    0.5
    """
    return _fpr_at(0.90, ood_score, id_score, positive)


def _average_precision(positive: np.ndarray, negative: np.ndarray) -> float:
    """The mean over positives of the precision among all that score at least as high."""
    true, false = _at_least(positive, positive), _at_least(positive, negative)
    return float((true / (true + false)).mean())


def _fpr_at(tpr: float, ood_score: np.ndarray, id_score: np.ndarray, of: PositiveClass) -> float:
    positive, negative = (ood_score, id_score) if of == "ood" else (-id_score, -ood_score)
    reached = (
        np.arange(1, len(positive) + 1) / len(positive) >= tpr
    )  # k/n and .95 are rounded alike, 0.95·n may lie above k
    threshold = np.sort(positive)[::-1][reached.argmax()]
    return float((negative >= threshold).mean())


def _at_least(thresholds: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Int[t]: how many scores are not below each threshold."""
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, "left")


COUNTS_AT_A_TIME = 4_000_000
"""Numbers in one block of resamples, 32 MB each of a few arrays."""


@dataclass(frozen=True)
class Bounded:
    """A number and its interval.

    Attributes
    ----------
    value : of the rows as they are.
    low, high : ends of the percentile interval; of a number at the end of its range they may be
        that end.
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
    base_rate : n_ood / (n_id + n_ood), what ``aupr_out`` is where a score tells nothing; that of
    ``aupr_in`` is 1 minus it.
    level, n_bootstrap : of the intervals.
    metrics : by name: auroc, aupr_out, aupr_in, and fpr95_id, fpr95_ood, fpr90_id and fpr90_ood,
        where the end says which side is positive.
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
    id_score: np.ndarray,
    ood_score: np.ndarray,
    *,
    n_bootstrap: Count = 1000,
    level: OpenFraction = 0.95,
    rng: np.random.Generator,
) -> OodMetrics:
    """Measure AUROC, both AUPR, FPR at 95 and 90 % TPR both ways, each with a percentile bootstrap
    interval.

    Parameters
    ----------
    id_score, ood_score : Float[n], Float[m], finite or infinite; higher is farther out of
    distribution.
    n_bootstrap : resamples of both sides, each with replacement and of its own size, so that the
    base rate stays.
    level : share of the resamples inside the interval.
    rng : draws the resamples.

    Notes
    -----
    The intervals are of the rows alone, for a model as it is. They hold less than they say of a
    number near the end of its range: with every row in order, all resamples agree.

    References
    ----------
    Efron and Tibshirani, "An introduction to the bootstrap", 1993, Section 13.3. The conventions
    are those of :mod:`kdgraph.metrics.ood`.

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
    bounds = {
        name: np.quantile(np.concatenate([each[name] for each in drawn]), ends).tolist()
        for name in values
    }
    metrics = {name: Bounded(value, *bounds[name]) for name, value in values.items()}
    return OodMetrics(
        len(inside), len(out), len(out) / (len(out) + len(inside)), level, n_bootstrap, metrics
    )


def of_counts(out: np.ndarray, inside: np.ndarray) -> dict[str, np.ndarray]:
    """The same numbers of many samples at once, Float[b] each.

    Parameters
    ----------
    out, inside : Int[b, t], how many rows of each side have each of t scores, which increase.
    """
    m, n = out.sum(axis=1, keepdims=True), inside.sum(axis=1, keepdims=True)
    below, refused, caught = (
        np.cumsum(inside, axis=1) - inside,
        _at_least_ood_summary(inside),
        _at_least_ood_summary(out),
    )
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


def _resampled(
    out: np.ndarray, inside: np.ndarray, n_bootstrap: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Int[b, t] of both sides, some resamples at a time; each side has a generator of its own, so
    blocks of any size draw the same.
    """
    scores, places = np.unique(np.concatenate([out, inside]), return_inverse=True)
    sides = list(zip((places[: len(out)], places[len(out) :]), rng.spawn(2), strict=True))
    at_a_time = max(1, COUNTS_AT_A_TIME // len(scores))
    for start in range(0, n_bootstrap, at_a_time):
        b = min(at_a_time, n_bootstrap - start)
        out_counts, inside_counts = (
            _counts(place[generator.integers(len(place), size=(b, len(place)))], len(scores))
            for place, generator in sides
        )
        yield out_counts, inside_counts


def _counts(places: np.ndarray, n_scores: int) -> np.ndarray:
    """Int[b, t]: how often each of the scores is among places: Int[b, m]."""
    offset = np.arange(len(places))[:, None] * n_scores
    return np.bincount((places + offset).ravel(), minlength=len(places) * n_scores).reshape(
        len(places), n_scores
    )


def _at_least_ood_summary(counts: np.ndarray) -> np.ndarray:
    """Int[b, t]: rows with this score or a higher one."""
    return np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]


def _precision(counts: np.ndarray, true: np.ndarray, false: np.ndarray) -> np.ndarray:
    """Float[b]: precision summed over the positives, of which ``counts`` have each score; where
    there is none it may be 0/0.
    """
    return (counts * true / np.maximum(true + false, 1)).sum(axis=1)


def _false_at(tpr: float, true: np.ndarray, false: np.ndarray) -> np.ndarray:
    """Float[b]: the false positive rate where the true one first reaches ``tpr``, of counts that
    grow from the strictest threshold on.
    """
    at = (true / true[:, -1:] >= tpr).argmax(axis=1)
    return false[np.arange(len(false)), at] / false[:, -1]


@mean_over_rows("mean max confidence", better=None)
def mmc(top: Top) -> np.ndarray:
    """Mean over rows of the confidence, the largest probability, in [1/K, 1]. Far from the data it
    should be the largest class prior.

    Parameters
    ----------
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`.

    References
    ----------
    Hein, Andriushchenko, Bitterwolf, "Why ReLU networks yield high-confidence predictions far away
    from the training data", CVPR 2019.

    Examples
    --------
    >>> mmc([[0.75, 0.25], [0.5, 0.5]])
    0.625
    """
    return top.confidence


@mean_over_rows("mean max confidence where wrong", better="lower")
def mmc_wrong(y: np.ndarray, top: Top) -> np.ndarray:
    """Mean largest probability of the rows whose predicted class is wrong, in [1/K, 1]; NaN where
    no row is wrong.

    Dey et al., "Deep discriminative to kernel density graph", Table 1, call it MMC*. Its rows are
    the wrong ones only, so two models are compared on different rows.

    Parameters
    ----------
    y : Int[n], positions in the classes.
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`. Of equally probable classes the
        first is the prediction.

    Examples
    --------
    >>> mmc_wrong([0, 1], [[0.75, 0.25], [0.625, 0.375]])
    0.625
    """
    return top.confidence[~top.correct(y)]


@mean_over_rows("OCE", better="lower")
def oce(top: Top, prior: np.ndarray) -> np.ndarray:
    """Out-of-distribution calibration error: mean over rows of ``|max_k proba[i, k] - max_k
    prior[k]|``, in [0, 1 - 1/K].

    The absolute value is taken row by row, as printed. ``|mmc - max prior|``, which is
    :func:`oce_of_mean`, is smaller wherever some rows are above the prior and some below.

    Parameters
    ----------
    top : Float[n, K], or a :class:`~kdgraph.metrics.TopLabel`, on out-of-distribution rows.
    prior : Float[K], class shares of the training rows (the base rate; uniform only if the training
        data are balanced).

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
    """``|mmc - max_k prior[k]|``: rows above the prior and rows below it cancel, so it is at most
    :func:`oce`, in [0, 1 - 1/K].

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


@metric("mean OOD score", better=None, unit="units of the score")
def mean_ood_score(ood_score: np.ndarray) -> float:
    """The mean of the out-of-distribution score; above 0 is out by the method's threshold. In the
    units of the method, so no two compare.

    Test rows have one as well. How both change with the number of training rows or of dimensions is
    Figures 4 and 7 of TOOD, whose score is its threshold less the average pairwise Hamming
    distance.

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
