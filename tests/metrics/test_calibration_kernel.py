"""The maximum mean calibration error, against the sum over all pairs of rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.metrics import TopLabel, mmce, score


def mmce_by_loop(y, top_label, width, debiased=False):
    n, total = len(y), 0.0
    for i in range(n):
        for j in range(n):
            gaps = (top_label.confidence[i] - (top_label.predicted[i] == y[i])) * (
                top_label.confidence[j] - (top_label.predicted[j] == y[j])
            )
            total += (
                0
                if debiased and i == j
                else gaps * np.exp(-abs(top_label.confidence[i] - top_label.confidence[j]) / width)
            )
    return np.sqrt(max(total, 0) / (n * (n - 1) if debiased else n**2))


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 100), st.booleans()), min_size=2, max_size=15),
    st.sampled_from([1e-4, 0.05, 0.4, 30.0]),
    st.booleans(),
)
def test_mmce_is_the_sum_over_pairs(rows, width, debiased):
    top_label = TopLabel(np.zeros(len(rows), dtype=int), np.array([c / 100 for c, _ in rows]), 2)
    y = np.array([int(wrong) for _, wrong in rows])
    # If the sum is 0 up to a rounding error of 1e-16, its root is 1e-8.
    assert mmce(y, top_label, width=width, debiased=debiased) == pytest.approx(
        mmce_by_loop(y, top_label, width, debiased), rel=1e-9, abs=1e-7
    )


def overconfident_rows(n: int) -> tuple[np.ndarray, TopLabel]:
    rng = np.random.default_rng(0)
    c = rng.uniform(0.5, 1, n)
    return (rng.random(n) > c**2).astype(int), TopLabel(np.zeros(n, dtype=int), c, 2)


def test_wide_kernel_gives_the_mean_gap():
    y, top_label = overconfident_rows(1000)
    assert mmce(y, top_label, width=1e9) == pytest.approx(
        abs((top_label.confidence - (y == 0)).mean()), rel=1e-6
    )  # the kernel is 1 - 1e-9


def test_narrow_kernel_leaves_only_the_row_itself():
    y, top_label = overconfident_rows(1000)
    gaps = top_label.confidence - (y == 0)
    assert mmce(y, top_label, width=1e-12) == pytest.approx(
        np.sqrt((gaps**2).sum()) / 1000, rel=1e-6
    )


def test_debiased_mmce_does_not_grow_with_fewer_rows():
    """The mean squared U-statistic over 200 samples of 50 rows is that of many rows.

    The V-statistic is larger by 1/50 of a variance.
    """
    large = mmce(*overconfident_rows(100_000)) ** 2
    y, top_label = overconfident_rows(10_000)
    parts = [(y[i : i + 50], top_label[i : i + 50]) for i in range(0, 10_000, 50)]
    u, v = (
        np.array([np.square(mmce(*part, debiased=debiased)) for part in parts])
        for debiased in (True, False)
    )
    spread = u.std() / np.sqrt(len(parts))
    assert abs(u.mean() - large) < 4 * spread < v.mean() - large


def test_mmce_of_one_row():
    assert mmce([1], [[0.75, 0.25]]) == 0.75
    assert score("mmce", {"y": [1], "proba": [[0.75, 0.25]]}, {"debiased": True}).value is None


def test_confidences_in_float32_are_summed_in_float64():
    y, top_label = overconfident_rows(1000)
    narrow = TopLabel(top_label.predicted, top_label.confidence.astype(np.float32), 2)
    wide = TopLabel(top_label.predicted, narrow.confidence.astype(np.float64), 2)
    assert mmce(y, narrow) == mmce(y, wide)


def test_calibrated_rows_have_zero_mmce():
    top_label = TopLabel(np.zeros(10, dtype=int), np.array([1.0, 0.0] * 5), 2)
    assert mmce(np.array([0, 1] * 5), top_label) == 0
