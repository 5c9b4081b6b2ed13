"""Sums of Gaussians against scipy's, also far from the rows; series against their error bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import logsumexp

from kdgraph.calibration.top_label import kernel_sums
from kdgraph.calibration.top_label.kernel_sums import SERIES_ERROR, KernelSeries, KernelSum, logs_of


def draw_scores(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.beta(*rng.uniform(0.3, 8, size=2), size=n), rng.integers(1, 4, size=n).astype(float)


def log_sum_by_scipy(score, weight, points, bandwidth: float, boundary: str = "none") -> np.ndarray:
    centres = [score] if boundary == "none" else [score, -score, 2 - score]
    exponents = [-(((points[:, None] - centre) / bandwidth) ** 2) / 2 for centre in centres]
    return logsumexp(np.concatenate(exponents, axis=1), axis=1, b=np.tile(weight, len(centres)))


@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 2, 30]),
    st.floats(1e-3, 2),
    st.sampled_from(["none", "reflect"]),
)
def test_log_sum_is_exact_far_from_the_rows(seed, n, bandwidth, boundary):
    score, weight = draw_scores(n, seed)
    points = np.linspace(-3, 4, 50)
    value, error = KernelSum.from_scores(score, weight, boundary).log(points, bandwidth)
    np.testing.assert_allclose(
        value, log_sum_by_scipy(score, weight, points, bandwidth, boundary), rtol=1e-12, atol=1e-12
    )
    assert (error < 1e-12 + 1e-14 * np.abs(value)).all()


@given(
    st.integers(0, 10_000),
    st.sampled_from([1, 2, 12]),
    st.floats(0.003, 2),
    st.sampled_from(["none", "reflect"]),
)
def test_log_sum_without_one_row(seed, n, bandwidth, boundary):
    score, weight = draw_scores(n, seed)
    score[n // 2] = score[0]  # equal scores are several rows
    value, _ = KernelSum.from_scores(score, weight, boundary).log(score, bandwidth, np.arange(n))
    for i in range(n):
        is_other = np.arange(n) != i
        expected = (
            log_sum_by_scipy(
                score[is_other], weight[is_other], score[i : i + 1], bandwidth, boundary
            )[0]
            if n > 1
            else -np.inf
        )
        assert value[i] == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("boundary", ["none", "reflect"])
@pytest.mark.parametrize("n", [1, 40, 3000])
def test_series_is_within_its_error_bound(n, boundary):
    score, weight = draw_scores(n)
    sums, points = (
        KernelSum.from_scores(score, weight, boundary),
        np.linspace(score.min(), score.max() + 0.1, 101),
    )
    for narrowest in (0.006, 0.05, 0.9):
        bandwidths = narrowest * np.array([1.0, 1.3, 1.999])
        series = KernelSeries(sums, points, bandwidths[0], bandwidths[-1])
        series_sums = series.at(bandwidths)
        expected = np.exp([sums.log(points, b)[0] for b in bandwidths])
        assert np.abs(series_sums - expected).max() <= series.error == SERIES_ERROR * sums.total
        log, error = logs_of(series_sums, series.error)
        is_bounded = np.isfinite(error)
        assert (
            np.abs(log - np.log(expected))[is_bounded] <= error[is_bounded]
        ).all() and is_bounded.any()


def test_blocks_change_no_bit(monkeypatch):
    score, weight = draw_scores(500)
    sums, points = KernelSum.from_scores(score, weight), np.linspace(0, 1, 200)
    before = sums.log(points, 0.02)
    monkeypatch.setattr(kernel_sums, "_PAIRS", 3000)
    np.testing.assert_array_equal(sums.log(points, 0.02), before)


def test_series_does_not_fit_kernels_that_are_too_narrow():
    sums, points = KernelSum.from_scores(*draw_scores(10)), np.linspace(0, 1, 10)
    assert KernelSeries.fits(sums, points, 0.005, 0.01)
    assert not KernelSeries.fits(sums, points, 0.0005, 0.001)
