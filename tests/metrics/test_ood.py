"""AUROC, average precision and false positive rates against scikit-learn, with ties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from kdgraph.errors import ConfigError
from kdgraph.metrics import METRICS, aupr_in, aupr_out, auroc, fpr90, fpr95, score

ROUNDING = 1e-12
"""Rounding error of sums of at most 60 fractions."""
SCORES = st.lists(st.integers(-4, 4) | st.floats(-5, 5, width=16), min_size=1, max_size=30).map(
    np.array
)
"""Integers make ties frequent."""


def labels_and_scores(ood_score: np.ndarray, id_score: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return 1 for OOD rows and 0 for test rows, and all scores."""
    return np.repeat([1, 0], [len(ood_score), len(id_score)]), np.concatenate([ood_score, id_score])


def fpr_of_scikit_learn(tpr: float, y: np.ndarray, scores: np.ndarray) -> float:
    """Return the rate by the rule of OpenOOD and pytorch-ood on the curve of scikit-learn."""
    false, true, _ = roc_curve(y, scores, drop_intermediate=False)
    return float(false[np.argmax(true >= tpr)])


@given(SCORES, SCORES)
@settings(max_examples=200)
def test_ranking_metrics_match_scikit_learn(ood_score, id_score):
    y, scores = labels_and_scores(ood_score, id_score)
    assert auroc(ood_score, id_score) == pytest.approx(roc_auc_score(y, scores), abs=ROUNDING)
    assert aupr_out(ood_score, id_score) == pytest.approx(
        average_precision_score(y, scores), abs=ROUNDING
    )
    assert aupr_in(ood_score, id_score) == pytest.approx(
        average_precision_score(1 - y, -scores), abs=ROUNDING
    )
    for metric, tpr in ((fpr95, 0.95), (fpr90, 0.90)):
        assert metric(ood_score, id_score, positive="ood") == pytest.approx(
            fpr_of_scikit_learn(tpr, y, scores), abs=ROUNDING
        )
        assert metric(ood_score, id_score) == pytest.approx(
            fpr_of_scikit_learn(tpr, 1 - y, -scores), abs=ROUNDING
        )


def test_ranking_metrics_of_five_rows():
    """Five of six pairs are in order; the lowest OOD score is below one test row."""
    ood_score, id_score = [5.0, 4.0, 2.0], [3.0, 1.0]
    assert auroc(ood_score, id_score) == pytest.approx(5 / 6)
    assert aupr_out(ood_score, id_score) == pytest.approx((1 / 1 + 2 / 2 + 3 / 4) / 3)
    assert aupr_in(ood_score, id_score) == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert fpr95(ood_score, id_score) == pytest.approx(
        1 / 3
    )  # a threshold of 3.0 accepts all test rows and the OOD score 2.0
    assert fpr95(ood_score, id_score, positive="ood") == pytest.approx(
        1 / 2
    )  # a threshold of 2.0 rejects all OOD rows and the test score 3.0


def test_higher_scores_are_farther_out():
    """With the opposite sign all rows are separated in the wrong direction."""
    high, low = np.array([10.0, 11.0]), np.array([1.0, 2.0, 3.0])
    assert (auroc(high, low), aupr_out(high, low), aupr_in(high, low), fpr95(high, low)) == (
        1,
        1,
        1,
        0,
    )
    assert (auroc(low, high), fpr95(low, high), fpr95(low, high, positive="ood")) == (0, 1, 1)


@given(SCORES, SCORES, st.floats(0.1, 10), st.floats(-3, 3))
def test_metrics_depend_on_ranks_only_and_mirror_swapped_sides(ood_score, id_score, scale, shift):
    assert auroc(ood_score, id_score) == pytest.approx(1 - auroc(id_score, ood_score), abs=ROUNDING)
    assert aupr_in(ood_score, id_score) == pytest.approx(
        aupr_out(-id_score, -ood_score), abs=ROUNDING
    )
    assert fpr95(ood_score, id_score, positive="ood") == fpr95(-id_score, -ood_score)
    ranks = {
        value: rank for rank, value in enumerate(sorted({*ood_score.tolist(), *id_score.tolist()}))
    }
    rank_scores = [
        np.array([scale * ranks[value] + shift for value in side.tolist()])
        for side in (ood_score, id_score)
    ]
    for metric in (auroc, aupr_in, aupr_out, fpr95, fpr90):
        assert metric(*rank_scores) == pytest.approx(metric(ood_score, id_score), abs=ROUNDING), (
            metric.__name__
        )


@pytest.mark.parametrize("n", [20, 60, 100, 140, 1000])
def test_fpr95_threshold_has_no_rounding_error(n):
    """0.95 is no binary fraction: if k rows are 95 % exactly, k rows suffice."""
    positives = np.arange(n, dtype=float)
    threshold = n - round(0.95 * n)
    assert fpr95(positives, [threshold - 0.5], positive="ood") == 0
    assert fpr95(positives, [threshold + 0.5], positive="ood") == 1


def test_equal_scores_give_chance():
    """The areas are the base rate; the first threshold accepts all rows."""
    ood_score, id_score = np.zeros(30), np.zeros(10)
    assert (
        auroc(ood_score, id_score),
        aupr_out(ood_score, id_score),
        aupr_in(ood_score, id_score),
    ) == (0.5, 0.75, 0.25)
    assert fpr95(ood_score, id_score) == fpr95(ood_score, id_score, positive="ood") == 1


def test_infinite_scores_are_the_farthest():
    assert auroc([np.inf, np.inf], [0.0, np.inf]) == 0.75
    assert fpr95([np.inf, 1.0], [0.0, 0.5]) == 0


def test_random_scores_give_chance():
    """With 20,000 scores on each side an AUROC has a standard deviation of 0.003."""
    rng = np.random.default_rng(0)
    ood_score, id_score = rng.normal(size=20_000), rng.normal(size=20_000)
    assert auroc(ood_score, id_score) == pytest.approx(0.5, abs=0.012)
    assert fpr95(ood_score, id_score) == pytest.approx(0.95, abs=0.01)
    assert aupr_in(ood_score[:5000], id_score) == pytest.approx(0.8, abs=0.02)


def test_record_entries_of_ood_metrics():
    entry_score = score(
        "fpr95", {"ood_score": [1.0, 2.0, 3.0], "id_score": [0.0, 1.5]}, {"positive": "ood"}
    )
    assert (entry_score.value, entry_score.stderr, entry_score.n) == (0.5, None, 3)
    directions = {
        name: METRICS[name].better for name in ("auroc", "aupr_in", "aupr_out", "fpr95", "fpr90")
    }
    assert directions == {
        "auroc": "higher",
        "aupr_in": "higher",
        "aupr_out": "higher",
        "fpr95": "lower",
        "fpr90": "lower",
    }


def test_invalid_inputs_are_refused():
    with pytest.raises(ValueError, match=r"ood_score must not be NaN, got nan in row 1 \(1 such\)"):
        auroc([0.0, np.nan], [1.0])
    with pytest.raises(
        ValueError, match=r"id_score must be one number a row, and at least one, got shape \(0,\)"
    ):
        auroc([0.0], [])
    with pytest.raises(
        ConfigError,
        match="auroc needs out-of-distribution scores of the test rows, which test does not have",
    ):
        score("auroc", {"ood_score": [1.0]}, source="test")
