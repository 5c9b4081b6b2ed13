"""All OOD metrics at once, against the single metrics and a loop over resamples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.errors import ParameterError
from kdgraph.metrics import (
    aupr_in,
    aupr_out,
    auroc,
    delong_stderr,
    fpr90,
    fpr95,
    ood_metrics,
    score,
)
from kdgraph.metrics import ood as ood_summary
from kdgraph.metrics.ood import metrics_of_counts

ROUNDING = 1e-12
"""Rounding error of sums of at most 60 fractions."""
SCORES = st.lists(
    st.integers(-4, 4) | st.sampled_from([-np.inf, np.inf, 0.5]), min_size=1, max_size=30
).map(np.array)
SINGLE_METRICS = {
    "auroc": auroc,
    "aupr_out": aupr_out,
    "aupr_in": aupr_in,
    "fpr95_id": lambda out, inside: fpr95(out, inside, positive="id"),
    "fpr95_ood": lambda out, inside: fpr95(out, inside, positive="ood"),
    "fpr90_id": lambda out, inside: fpr90(out, inside, positive="id"),
    "fpr90_ood": lambda out, inside: fpr90(out, inside, positive="ood"),
}
"""The metric functions, which are tested against scikit-learn's."""


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(SCORES, SCORES)
@settings(max_examples=60, deadline=None)
def test_metrics_of_counts_match_metrics_of_scores(ood_score, id_score):
    scores = np.unique(np.concatenate([ood_score, id_score]))
    counts = [
        np.array([[(side == score).sum() for score in scores]]) for side in (ood_score, id_score)
    ]
    result = metrics_of_counts(*counts)
    assert result.keys() == SINGLE_METRICS.keys()
    for name, metric in SINGLE_METRICS.items():
        assert result[name][0] == pytest.approx(metric(ood_score, id_score), abs=ROUNDING), name


def test_values_base_rate_and_rows():
    ood_score, id_score = rng(1).normal(1, 1, 60), rng(2).normal(0, 1, 140)
    result = ood_metrics(id_score, ood_score, n_bootstrap=50, rng=rng())
    assert (result.n_id, result.n_ood, result.base_rate) == (140, 60, 0.3)
    for name, metric in SINGLE_METRICS.items():
        assert result[name].value == metric(ood_score, id_score)
        assert result[name].low <= result[name].high


def test_intervals_are_quantiles_over_resamples_of_both_sides(monkeypatch):
    """Compare with a loop over the same resamples; the block size has no effect."""
    ood_score, id_score = np.round(rng(1).normal(1, 1, 25), 1), np.round(rng(2).normal(0, 1, 40), 1)
    result = ood_metrics(id_score, ood_score, n_bootstrap=80, level=0.8, rng=rng())
    ood_rows, id_rows = (
        np.vstack([g.integers(len(s), size=(80, len(s)))])
        for g, s in zip(rng().spawn(2), (ood_score, id_score), strict=True)
    )
    for name, metric in SINGLE_METRICS.items():
        values = [metric(ood_score[a], id_score[b]) for a, b in zip(ood_rows, id_rows, strict=True)]
        assert (result[name].low, result[name].high) == pytest.approx(
            tuple(np.quantile(values, [0.1, 0.9])), abs=ROUNDING
        ), name
    monkeypatch.setattr(ood_summary, "COUNTS_AT_A_TIME", 300)
    assert ood_metrics(id_score, ood_score, n_bootstrap=80, level=0.8, rng=rng()) == result


def test_swapping_sides_swaps_the_positive_class():
    ood_score, id_score = rng(1).normal(1, 1, 30), rng(2).normal(0, 1, 50)
    metrics, swapped = (
        ood_metrics(id_score, ood_score, rng=rng()),
        ood_metrics(-ood_score, -id_score, rng=rng()),
    )
    for name, swapped_name in (
        ("auroc", "auroc"),
        ("aupr_in", "aupr_out"),
        ("fpr95_id", "fpr95_ood"),
        ("fpr90_ood", "fpr90_id"),
    ):
        assert metrics[name].value == pytest.approx(swapped[swapped_name].value, abs=ROUNDING)
    mirrored = ood_metrics(ood_score, id_score, rng=rng())
    assert mirrored["auroc"].value == pytest.approx(1 - metrics["auroc"].value, abs=ROUNDING)
    assert mirrored.base_rate == 1 - metrics.base_rate


def test_delong_error_matches_the_bootstrap():
    """Two estimates of one standard error, for 100 and 150 rows with ties.

    That of the bootstrap varies by 1 / √(2 · 400), about 4 %.
    """
    ood_score, id_score = (
        np.round(rng(1).normal(1, 1, 100), 1),
        np.round(rng(2).normal(0, 1, 150), 1),
    )
    resampled = [
        auroc(rng(i).choice(ood_score, 100), rng(1000 + i).choice(id_score, 150))
        for i in range(400)
    ]
    assert delong_stderr(ood_score, id_score) == pytest.approx(np.std(resampled), rel=0.12)


def test_delong_error_is_the_standard_deviation_over_samples():
    """1,000 samples of 30 and 50 rows from two normal distributions.

    The tolerance of 5 % is two standard errors of the standard deviation.
    """
    pairs = [(rng(i).normal(1, 1, 30), rng(5000 + i).normal(0, 1, 50)) for i in range(1000)]
    result = np.sqrt(np.mean([delong_stderr(*pair) ** 2 for pair in pairs]))
    assert result == pytest.approx(np.std([auroc(*pair) for pair in pairs]), rel=0.05)


def test_delong_error_matches_its_formula():
    ood_score, id_score = [3.0, 2.0, 2.0], [1.0, 2.0, 0.0, 2.5]
    pairs = np.array([[(o > i) + (o == i) / 2 for i in id_score] for o in ood_score])
    expected = np.sqrt(pairs.mean(axis=1).var(ddof=1) / 3 + pairs.mean(axis=0).var(ddof=1) / 4)
    assert delong_stderr(np.array(ood_score), np.array(id_score)) == pytest.approx(expected)
    assert delong_stderr(np.array([1.0]), np.array([0.0, 2.0])) is None
    assert score("auroc", {"ood_score": ood_score, "id_score": id_score}).stderr == pytest.approx(
        expected
    )


@pytest.mark.parametrize(
    ("more", "error"), [({"level": 1.0}, ParameterError), ({"n_bootstrap": 0}, ParameterError)]
)
def test_invalid_options_are_refused(more, error):
    with pytest.raises(error):
        ood_metrics([0.0], [1.0], rng=rng(), **more)
    with pytest.raises(ParameterError, match=r"^rng must be a numpy Generator, got 3$"):
        ood_metrics([0.0], [1.0], rng=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="id_score must not be NaN"):
        ood_metrics([np.nan], [1.0], rng=rng())
