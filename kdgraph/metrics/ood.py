"""Metrics of out-of-distribution (OOD) detection, and of confidence on OOD rows.

:func:`auroc`, :func:`aupr_out`, :func:`aupr_in`, :func:`fpr95` and :func:`fpr90` measure how well a
score separates OOD rows from test rows. They use ranks only, so no scale, shift or threshold of the
score matters. They take ``ood_score`` (Float[m], scores of the OOD rows) and ``id_score``
(Float[n], scores of the test rows by the same model). Higher scores are farther from the data,
infinity is the farthest, and equal scores form one threshold. For a method that scores sets, m and
n count sets. Each metric states its positive class. The base rate is the fraction of the positive
class among the m + n scores, so it depends on how many rows were drawn, and the areas under
precision and recall depend on it. In a record ``n`` is m, and n is ``dataset.n_test``.
:func:`ood_metrics` returns all of these numbers with the base rate and Efron's bootstrap intervals.

:func:`mmc` and :func:`oce` measure the confidence on OOD rows, and :func:`mean_ood_score` the score
of a detector on average.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from kdgraph.errors import ParameterError
from kdgraph.metrics.inputs import Top, check_inputs
from kdgraph.metrics.registry import mean_over_rows, metric
from kdgraph.parameters import Count, OpenFraction, check_value

PositiveClass = Literal["id", "ood"]
"""The class that counts as positive."""


def delong_stderr(ood_score: np.ndarray, id_score: np.ndarray) -> float | None:
    """Return the standard error of the AUROC over both samples, √(s²(V_ood)/m + s²(V_id)/n).

    V are the placements: for an OOD row the fraction of test rows below it, for a test row the
    fraction of OOD rows above it, where equal scores count half. The result is None if a side has a
    single row. It is 0 if the score separates the sides perfectly, however few rows there are. The
    two samples are assumed to be independent. If the OOD rows are made of the test rows, as shifted
    ones are, the actual error is smaller. It is that of DeLong, DeLong and Clarke-Pearson,
    "Comparing the areas under two or more correlated receiver operating characteristic curves: a
    nonparametric approach", Biometrics 44, 1988.

    Parameters
    ----------
    ood_score, id_score : Float[m], Float[n]
        Scores of the out-of-distribution rows and of the test rows; higher means farther out.

    Examples
    --------
    >>> round(delong_stderr(np.array([3.0, 2.0]), np.array([1.0, 2.0])), 3)
    0.177
    """
    if min(len(ood_score), len(id_score)) < 2:
        return None
    placements = _placements(ood_score, id_score), _placements(-id_score, -ood_score)
    return math.sqrt(sum(float(np.var(side, ddof=1)) / len(side) for side in placements))


def _placements(scores: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Return the fraction of the reference below each score, Float[m]; ties count half."""
    ranked = np.sort(reference)
    return (np.searchsorted(ranked, scores, "left") + np.searchsorted(ranked, scores, "right")) / (
        2 * len(ranked)
    )


@metric("AUROC", better="higher", stderr=delong_stderr)
def auroc(ood_score: np.ndarray, id_score: np.ndarray) -> float:
    """Measure the area under the ROC curve (AUROC), in [0, 1]; an uninformative score has 0.5.

    It is P(score of an OOD row > score of a test row) + P(equal) / 2, with OOD as the positive
    class. It does not depend on the base rate, and is the same if both the positive class and the
    sign of the score are exchanged.

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
    """Measure average precision with OOD as the positive class, in (0, 1].

    Average precision is Σ_k (R_k - R_{k-1}) P_k over the thresholds of the score, as in
    scikit-learn's ``average_precision_score``. Published tables often contain the trapezoidal area,
    which is larger. An uninformative score has m/(m + n).

    Examples
    --------
    >>> aupr_out([3.0, 2.0], [1.0, 2.0])
    0.8333333333333333
    """
    return _average_precision(ood_score, id_score)


@metric("AUPR-in", better="higher")
def aupr_in(ood_score: np.ndarray, id_score: np.ndarray) -> float:
    """Measure average precision with in-distribution as the positive class, in (0, 1].

    An uninformative score has n/(m + n). The definition is that of :func:`aupr_out`, and of
    scikit-learn.

    Examples
    --------
    >>> aupr_in([3.0, 2.0], [1.0, 2.0])
    0.8333333333333333
    """
    return _average_precision(-id_score, -ood_score)


@metric("FPR95", better="lower")
def fpr95(ood_score: np.ndarray, id_score: np.ndarray, *, positive: PositiveClass = "id") -> float:
    """Measure the false positive rate at a true positive rate of at least .95, in [0, 1].

    Rows whose score equals the threshold are on its positive side.

    Parameters
    ----------
    positive : {"id", "ood"}, default="id"
        "id": the fraction of OOD rows that are accepted at the threshold that accepts 95 % of the
        test rows, as in most papers since Hendrycks and Gimpel (2017). "ood": the fraction of test
        rows that are rejected at the threshold that rejects 95 % of the OOD rows, as in OpenOOD and
        pytorch-ood.

    Examples
    --------
    >>> fpr95([3.0, 2.0], [1.0, 2.0]), fpr95([3.0, 2.0], [1.0, 0.0])
    (0.5, 0.0)
    """
    return _fpr_at(0.95, ood_score, id_score, positive)


@metric("FPR90", better="lower", like=fpr95)
def fpr90(ood_score: np.ndarray, id_score: np.ndarray, *, positive: PositiveClass = "id") -> float:
    """Measure the false positive rate at a true positive rate of at least .90, in [0, 1].

    It is otherwise as :func:`fpr95` (Hendrycks and Gimpel, 2017).

    Examples
    --------
    >>> fpr90([3.0, 2.0], [1.0, 2.0], positive="ood")
    0.5
    """
    return _fpr_at(0.90, ood_score, id_score, positive)


def _average_precision(positive: np.ndarray, negative: np.ndarray) -> float:
    """Return the mean over positives of the precision among rows that score at least as high."""
    true, false = _at_least(positive, positive), _at_least(positive, negative)
    return float((true / (true + false)).mean())


def _fpr_at(
    tpr: float, ood_score: np.ndarray, id_score: np.ndarray, positive_class: PositiveClass
) -> float:
    """Return the false positive rate at the first threshold with this true positive rate."""
    if positive_class == "ood":
        positive, negative = ood_score, id_score
    else:
        positive, negative = -id_score, -ood_score
    # k/n is compared with the rate because both are rounded in the same way; 0.95·n may exceed k.
    is_sufficient = np.arange(1, len(positive) + 1) / len(positive) >= tpr
    threshold = np.sort(positive)[::-1][is_sufficient.argmax()]
    return float((negative >= threshold).mean())


def _at_least(thresholds: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Return the number of scores that are not below each threshold, Int[t]."""
    return len(scores) - np.searchsorted(np.sort(scores), thresholds, "left")


COUNTS_AT_A_TIME = 4_000_000
"""Size of one block of resamples: 32 MB for each of a few arrays."""


@dataclass(frozen=True)
class BootstrapEstimate:
    """Value on the original rows with its percentile interval (Efron and Tibshirani, 1993)."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class OodMetrics:
    """Result of :func:`ood_metrics` (Efron and Tibshirani, 1993).

    Attributes
    ----------
    n_id, n_ood : int
        Numbers of test rows and of OOD rows.
    base_rate : float
        n_ood / (n_id + n_ood), the ``aupr_out`` of an uninformative score. For ``aupr_in`` it is 1
        minus this rate.
    level, n_bootstrap : float, int
        Nominal coverage of the intervals and number of resamples.
    metrics : dict
        Estimates by name: auroc, aupr_out, aupr_in, fpr95_id, fpr95_ood, fpr90_id and fpr90_ood.
        The suffix is the positive class.

    Examples
    --------
    >>> result = ood_metrics([1.0, 2.0, 0.0], [3.0, 2.0], rng=np.random.default_rng(0))
    >>> result.n_id, result.n_ood, result.level, result["auroc"].low <= result["auroc"].value
    (3, 2, 0.95, True)
    """

    n_id: int
    n_ood: int
    base_rate: float
    level: float
    n_bootstrap: int
    metrics: Mapping[str, BootstrapEstimate]

    def __getitem__(self, name: str) -> BootstrapEstimate:
        return self.metrics[name]


def ood_metrics(
    id_score: np.ndarray,
    ood_score: np.ndarray,
    *,
    n_bootstrap: Count = 1000,
    level: OpenFraction = 0.95,
    rng: np.random.Generator,
) -> OodMetrics:
    """Measure AUROC, AUPR and FPR in both directions, with percentile bootstrap intervals.

    The intervals cover the sampling of rows for a fixed model. Their coverage is below ``level``
    near the end of a range: if the score separates all rows, all resamples agree.

    Parameters
    ----------
    id_score : Float[n]
        Scores of the test rows, finite or infinite.
    ood_score : Float[m]
        Scores of the OOD rows; higher means farther from the data.
    n_bootstrap : int, default=1000
        Number of resamples. Both sides are resampled with replacement at their sizes, so the base
        rate is constant.
    level : float, default=0.95
        Fraction of the resamples inside the interval.
    rng : numpy.random.Generator
        Source of the resamples.

    References
    ----------
    Efron and Tibshirani, "An introduction to the bootstrap", 1993, Section 13.3. The conventions
    are those of :mod:`kdgraph.metrics.ood`.

    Examples
    --------
    >>> result = ood_metrics([1.0, 2.0, 0.0], [3.0, 2.0], rng=np.random.default_rng(0))
    >>> result.base_rate, round(result["auroc"].value, 3), result["fpr95_id"].value
    (0.4, 0.917, 0.5)
    """
    check_value("n_bootstrap", n_bootstrap, Count)
    check_value("level", level, OpenFraction)
    if not isinstance(rng, np.random.Generator):
        raise ParameterError(f"rng must be a numpy Generator, got {rng!r}")
    scores = check_inputs({"ood_score": ood_score, "id_score": id_score})
    ood_score, id_score = scores["ood_score"], scores["id_score"]
    values = {
        "auroc": auroc(ood_score, id_score),
        "aupr_out": aupr_out(ood_score, id_score),
        "aupr_in": aupr_in(ood_score, id_score),
        "fpr95_id": fpr95(ood_score, id_score, positive="id"),
        "fpr95_ood": fpr95(ood_score, id_score, positive="ood"),
        "fpr90_id": fpr90(ood_score, id_score, positive="id"),
        "fpr90_ood": fpr90(ood_score, id_score, positive="ood"),
    }
    # A resample is drawn as counts of the distinct scores, which are sorted once for all.
    resampled = [
        metrics_of_counts(*counts)
        for counts in _resampled_counts(ood_score, id_score, n_bootstrap, rng)
    ]
    ends = [(1 - level) / 2, (1 + level) / 2]
    bounds = {
        name: np.quantile(np.concatenate([block[name] for block in resampled]), ends).tolist()
        for name in values
    }
    metrics = {name: BootstrapEstimate(value, *bounds[name]) for name, value in values.items()}
    m, n = len(ood_score), len(id_score)
    return OodMetrics(n, m, m / (m + n), level, n_bootstrap, metrics)


def metrics_of_counts(ood_counts: np.ndarray, id_counts: np.ndarray) -> dict[str, np.ndarray]:
    """Return the metrics of :func:`ood_metrics` for b samples at once, Float[b] each.

    The samples are numbers of OOD rows and of test rows with each of t increasing scores, Int[b, t]
    (Efron and Tibshirani, 1993).
    """
    # A resample only changes how often each score occurs. With counts by score, every metric is a
    # few cumulative sums, so the scores need not be sorted again for each resample. At the
    # threshold of a score, rows with this score or a higher one are rejected if OOD is the positive
    # class, and rows with this score or a lower one are accepted if in-distribution is.
    m, n = ood_counts.sum(axis=1, keepdims=True), id_counts.sum(axis=1, keepdims=True)
    ood_rejected, id_rejected = _cumulative_from_top(ood_counts), _cumulative_from_top(id_counts)
    ood_accepted, id_accepted = np.cumsum(ood_counts, axis=1), np.cumsum(id_counts, axis=1)
    id_below = id_accepted - id_counts
    metrics = {
        "auroc": (ood_counts * (id_below + id_counts / 2)).sum(axis=1) / (m * n)[:, 0],
        "aupr_out": _precision(ood_counts, ood_rejected, id_rejected) / m[:, 0],
        "aupr_in": _precision(id_counts, id_accepted, ood_accepted) / n[:, 0],
    }
    for percent in (95, 90):
        tpr = percent / 100
        metrics[f"fpr{percent}_ood"] = _false_at(tpr, ood_rejected[:, ::-1], id_rejected[:, ::-1])
        metrics[f"fpr{percent}_id"] = _false_at(tpr, id_accepted, ood_accepted)
    return metrics


def _resampled_counts(
    ood_score: np.ndarray, id_score: np.ndarray, n_bootstrap: int, rng: np.random.Generator
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield blocks of resamples as counts of OOD rows and of test rows by score, Int[b, t]."""
    # Each side has a separate generator, so that blocks of any size draw the same rows.
    scores, ranks = np.unique(np.concatenate([ood_score, id_score]), return_inverse=True)
    m = len(ood_score)
    sides = list(zip((ranks[:m], ranks[m:]), rng.spawn(2), strict=True))
    block_size = max(1, COUNTS_AT_A_TIME // len(scores))
    for start in range(0, n_bootstrap, block_size):
        b = min(block_size, n_bootstrap - start)
        ood_counts, id_counts = (
            _counts(rank[generator.integers(len(rank), size=(b, len(rank)))], len(scores))
            for rank, generator in sides
        )
        yield ood_counts, id_counts


def _counts(ranks: np.ndarray, n_scores: int) -> np.ndarray:
    offset = np.arange(len(ranks))[:, None] * n_scores
    return np.bincount((ranks + offset).ravel(), minlength=len(ranks) * n_scores).reshape(
        len(ranks), n_scores
    )


def _cumulative_from_top(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts[:, ::-1], axis=1)[:, ::-1]


def _precision(counts: np.ndarray, true: np.ndarray, false: np.ndarray) -> np.ndarray:
    """Return the sum of the precision over the positives, ``counts`` by score, Float[b]."""
    # A score without any row would be 0/0; its count is 0, so the denominator may be 1.
    return (counts * true / np.maximum(true + false, 1)).sum(axis=1)


def _false_at(tpr: float, true: np.ndarray, false: np.ndarray) -> np.ndarray:
    """Return the false positive rate where the true positive rate first reaches ``tpr``, Float[b].

    Counts are cumulative from the strictest threshold on.
    """
    threshold = (true / true[:, -1:] >= tpr).argmax(axis=1)
    return false[np.arange(len(false)), threshold] / false[:, -1]


@mean_over_rows("mean max confidence", better=None)
def mmc(top_label: Top) -> np.ndarray:
    """Measure the mean maximum confidence (MMC), in [1/K, 1].

    Far from the data it should equal the largest class prior (Hein, Andriushchenko, Bitterwolf,
    "Why ReLU networks yield high-confidence predictions far away from the training data", CVPR
    2019).

    Examples
    --------
    >>> mmc([[0.75, 0.25], [0.5, 0.5]])
    0.625
    """
    return top_label.confidence


@mean_over_rows("mean max confidence where wrong", better="lower")
def mmc_wrong(y: np.ndarray, top_label: Top) -> np.ndarray:
    """Measure the mean confidence of incorrect predictions, in [1/K, 1].

    It is MMC* of Dey et al., Table 1, NaN if all predictions are correct. It averages over the
    incorrect predictions of a model, so two models are compared on different rows. If several
    classes are equally probable, the first one is the prediction.

    Examples
    --------
    >>> mmc_wrong([0, 1], [[0.75, 0.25], [0.625, 0.375]])
    0.625
    """
    return top_label.confidence[~top_label.correct(y)]


@mean_over_rows("OCE", better="lower")
def oce(top_label: Top, prior: np.ndarray) -> np.ndarray:
    """Measure the out-of-distribution calibration error (OCE), in [0, 1 - 1/K].

    It is the mean over rows of ``|max_k proba[i, k] - max_k prior[k]|`` (Dey et al., Eq. 18). The
    absolute value is taken for each row, as published. ``|mmc - max prior|``, which is
    :func:`oce_of_mean`, is smaller if some rows are above the prior and some below.

    Parameters
    ----------
    prior : Float[K]
        Class fractions of the training rows. They are uniform only if the training data are
        balanced.

    Examples
    --------
    >>> oce([[0.75, 0.25], [0.5, 0.5]], prior=[0.625, 0.375])
    0.125
    """
    return np.abs(top_label.confidence - prior.max())


@metric("OCE of the mean", better="lower", like=oce)
def oce_of_mean(top_label: Top, prior: np.ndarray) -> float:
    """Measure the OCE of the mean confidence, ``|mmc - max_k prior[k]|``, in [0, 1 - 1/K].

    Rows above the prior and rows below it cancel, so it is at most :func:`oce`. The published
    implementation of Dey et al. computes it instead of Eq. 18 of their paper.

    Examples
    --------
    >>> oce_of_mean([[0.75, 0.25], [0.5, 0.5]], prior=[0.625, 0.375])
    0.0
    """
    return float(abs(top_label.confidence.mean() - prior.max()))


@metric("mean OOD score", better=None, unit="units of the score")
def mean_ood_score(ood_score: np.ndarray) -> float:
    """Measure the mean of the out-of-distribution score, in the units of the method.

    A score above 0 means OOD by the threshold of the method. Units differ between methods, so their
    scores cannot be compared. Figures 4 and 7 of TOOD (Section 6) show how the mean on test rows
    and on OOD rows depends on the number of training rows and of dimensions; its score is the
    threshold minus the average pairwise Hamming distance.

    Examples
    --------
    >>> mean_ood_score([0.5, -0.25, -1.0])
    -0.25
    """
    return float(np.mean(ood_score))
