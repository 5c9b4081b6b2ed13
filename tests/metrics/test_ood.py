"""AUROC, areas under precision and recall, false positive rates: scikit-learn's, with ties and
infinities, and whose side is positive.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score, roc_curve

from kdgraph.errors import ConfigError
from kdgraph.metrics import METRICS, aupr_in, aupr_out, auroc, fpr90, fpr95, score

ROUNDING = 1e-12
"""Sums of at most 60 shares."""
SCORES = st.lists(st.integers(-4, 4) | st.floats(-5, 5, width=16), min_size=1, max_size=30).map(
    np.array
)
"""Integers so that many are equal."""


def labelled(ood: np.ndarray, inside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """1 for out of distribution, and the scores."""
    return np.repeat([1, 0], [len(ood), len(inside)]), np.concatenate([ood, inside])


def sklearns_fpr(tpr: float, y: np.ndarray, scores: np.ndarray) -> float:
    """The rule of OpenOOD and pytorch-ood on scikit-learn's curve, all of whose thresholds are
    kept.
    """
    false, true, _ = roc_curve(y, scores, drop_intermediate=False)
    return float(false[np.argmax(true >= tpr)])


@given(SCORES, SCORES)
@settings(max_examples=200)
def test_ranking_metrics_match_scikit_learn(ood, inside):
    y, scores = labelled(ood, inside)
    assert auroc(ood, inside) == pytest.approx(roc_auc_score(y, scores), abs=ROUNDING)
    assert aupr_out(ood, inside) == pytest.approx(average_precision_score(y, scores), abs=ROUNDING)
    assert aupr_in(ood, inside) == pytest.approx(
        average_precision_score(1 - y, -scores), abs=ROUNDING
    )
    for metric, tpr in ((fpr95, 0.95), (fpr90, 0.90)):
        assert metric(ood, inside, positive="ood") == pytest.approx(
            sklearns_fpr(tpr, y, scores), abs=ROUNDING
        )
        assert metric(ood, inside) == pytest.approx(sklearns_fpr(tpr, 1 - y, -scores), abs=ROUNDING)


def test_ranking_metrics_of_five_rows():
    """Of six pairs, five are in order; the lowest of the three outside lies below one test row."""
    ood, inside = [5.0, 4.0, 2.0], [3.0, 1.0]
    assert auroc(ood, inside) == pytest.approx(5 / 6)
    assert aupr_out(ood, inside) == pytest.approx((1 / 1 + 2 / 2 + 3 / 4) / 3)
    assert aupr_in(ood, inside) == pytest.approx((1 / 1 + 2 / 3) / 2)
    assert fpr95(ood, inside) == pytest.approx(
        1 / 3
    )  # up to 3.0 all test rows pass, and 2.0 with them
    assert fpr95(ood, inside, positive="ood") == pytest.approx(
        1 / 2
    )  # from 2.0 on all others are refused, and 3.0 with them


def test_higher_scores_are_farther_out():
    """Higher is farther out: the other way round everything is wrong."""
    far, near = np.array([10.0, 11.0]), np.array([1.0, 2.0, 3.0])
    assert (auroc(far, near), aupr_out(far, near), aupr_in(far, near), fpr95(far, near)) == (
        1,
        1,
        1,
        0,
    )
    assert (auroc(near, far), fpr95(near, far), fpr95(near, far, positive="ood")) == (0, 1, 1)


@given(SCORES, SCORES, st.floats(0.1, 10), st.floats(-3, 3))
def test_only_ranks_matter_and_swapping_the_sides_mirrors(ood, inside, scale, shift):
    assert auroc(ood, inside) == pytest.approx(1 - auroc(inside, ood), abs=ROUNDING)
    assert aupr_in(ood, inside) == pytest.approx(aupr_out(-inside, -ood), abs=ROUNDING)
    assert fpr95(ood, inside, positive="ood") == fpr95(-inside, -ood)
    ranks = {value: rank for rank, value in enumerate(sorted({*ood.tolist(), *inside.tolist()}))}
    of_ranks = [
        np.array([scale * ranks[value] + shift for value in side.tolist()])
        for side in (ood, inside)
    ]
    for metric in (auroc, aupr_in, aupr_out, fpr95, fpr90):
        assert metric(*of_ranks) == pytest.approx(metric(ood, inside), abs=ROUNDING), (
            metric.__name__
        )


@pytest.mark.parametrize("n", [20, 60, 100, 140, 1000])
def test_fpr95_threshold_has_no_rounding_error(n):
    """0.95 is no binary fraction: where it is 95 % exactly, the next row is not needed."""
    positives = np.arange(n, dtype=float)
    threshold = n - round(0.95 * n)
    assert fpr95(positives, [threshold - 0.5], positive="ood") == 0
    assert fpr95(positives, [threshold + 0.5], positive="ood") == 1


def test_equal_scores_give_chance():
    """Areas are the base rate; the first threshold takes everything."""
    ood, inside = np.zeros(30), np.zeros(10)
    assert (auroc(ood, inside), aupr_out(ood, inside), aupr_in(ood, inside)) == (0.5, 0.75, 0.25)
    assert fpr95(ood, inside) == fpr95(ood, inside, positive="ood") == 1


def test_no_density_at_all_is_infinitely_far():
    assert auroc([np.inf, np.inf], [0.0, np.inf]) == 0.75
    assert fpr95([np.inf, 1.0], [0.0, 0.5]) == 0


def test_random_scores_give_chance():
    """20,000 scores a side: an AUROC has a standard deviation of 0.003."""
    rng = np.random.default_rng(0)
    ood, inside = rng.normal(size=20_000), rng.normal(size=20_000)
    assert auroc(ood, inside) == pytest.approx(0.5, abs=0.012)
    assert fpr95(ood, inside) == pytest.approx(0.95, abs=0.01)
    assert aupr_in(ood[:5000], inside) == pytest.approx(0.8, abs=0.02)


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
