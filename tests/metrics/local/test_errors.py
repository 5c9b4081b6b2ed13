"""Local calibration error against a double loop and a peer's kernel, its two limits, and the rows that it rests on."""

from __future__ import annotations

import math
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import laplacian_kernel

from kdgraph.answers import Predictions
from kdgraph.errors import DataError, ParameterError
from kdgraph.metrics import (
    TopLabel,
    ece,
    lce,
    lce_by_bandwidth,
    lce_map,
    lce_n_eff,
    local_errors,
    local_means,
    mce,
    mlce,
    rms_of,
    score,
    tabulate,
)
from kdgraph.metrics.local import kernel
from kdgraph.runner.measure import measure

ROUNDING = 1e-12  # sums of at most 1,000 terms of order 1 in float64, added in another order


def naive(confidence, correct, X, *, bandwidth, bins, unit, leave_one_out=False) -> tuple[list[float], list[float]]:
    """Eq. 4 without the absolute value, and (Σw)² / Σw², row by row and pair by pair; bins are (j/b, (j+1)/b]."""
    bin_of = [max(math.ceil(round(c * bins, 9)), 1) for c in confidence]
    slce, n_eff = [], []
    for i, x in enumerate(X):
        above = below = squares = 0.0
        for j, other in enumerate(X):
            if bin_of[j] == bin_of[i] and not (leave_one_out and i == j):
                weight = math.exp(-sum(abs(a - b) for a, b in zip(x, other, strict=True)) / (len(x) * bandwidth * unit))
                above += weight * (confidence[j] - correct[j])
                below += weight
                squares += weight**2
        slce.append(above / below if below else math.nan)
        n_eff.append(below**2 / squares if below else math.nan)
    return slce, n_eff


def sample(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Confidence from 0.5, correct, X of unequal spread."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.5, 1, n)
    return confidence, rng.random(n) < confidence, rng.normal(size=(n, d)) * rng.uniform(0.5, 3, d) + 7


def as_metric(confidence, correct) -> tuple[np.ndarray, TopLabel]:
    """Labels and predictions that are right where ``correct``."""
    predicted = np.zeros(len(confidence), dtype=int)
    return np.where(correct, 0, 1), TopLabel(predicted, np.asarray(confidence), 2)


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize(
    ("d", "bins", "bandwidth", "scale"), [(1, 1, 0.2, "rms"), (2, 15, 0.2, "rms"), (3, 5, 0.4, "none"), (20, 10, 1.0, "rms")]
)
def test_it_agrees_with_a_double_loop(d: int, bins: int, bandwidth: float, scale: str, leave_one_out: bool) -> None:
    confidence, correct, X = sample(120, d)
    found = local_errors(confidence, correct, X, bandwidths=[bandwidth], bins=bins, scale=scale, leave_one_out=leave_one_out)
    unit = math.sqrt(((X - X.mean(axis=0)) ** 2).mean()) if scale == "rms" else 1.0
    options = {"bandwidth": bandwidth, "bins": bins, "unit": unit, "leave_one_out": leave_one_out}
    slce, n_eff = naive(confidence.tolist(), correct.tolist(), X.tolist(), **options)
    np.testing.assert_allclose(found.slce[0], slce, atol=ROUNDING)
    np.testing.assert_allclose(found.n_eff[0], n_eff, rtol=ROUNDING)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 10), st.booleans(), st.integers(-2, 2), st.integers(-2, 2)), min_size=1, max_size=12),
    st.sampled_from([0.05, 0.3, 2.0]),
    st.booleans(),
)
def test_it_agrees_with_a_double_loop_where_rows_and_confidences_tie(rows, bandwidth: float, leave_one_out: bool) -> None:
    """Confidences on the edges of ten bins, rows that coincide, bins of one row."""
    confidence, correct = [c / 10 for c, *_ in rows], [right for _, right, *_ in rows]
    X = np.array([place for *_, a, b in rows for place in [[a, b]]], dtype=float)
    options = {"bins": 10, "leave_one_out": leave_one_out}
    found = local_errors(confidence, correct, X, bandwidths=[bandwidth], scale="none", **options)
    slce, n_eff = naive(confidence, correct, X.tolist(), bandwidth=bandwidth, unit=1.0, **options)
    np.testing.assert_allclose(found.slce[0], slce, atol=ROUNDING)
    np.testing.assert_allclose(found.n_eff[0], n_eff, rtol=ROUNDING)
    assert (found.n_eff[0] >= 1 - ROUNDING).all() or leave_one_out


def test_the_kernel_is_scikit_learn_s() -> None:
    """Its gamma is one over the number of features times ours, in units of the features."""
    confidence, correct, X = sample(300, 4)
    found = local_errors(confidence, correct, X, bandwidths=[0.3], bins=1)
    weight = laplacian_kernel(X, gamma=1 / (4 * 0.3 * rms_of(X)))
    np.testing.assert_allclose(found.slce[0], weight @ (confidence - correct) / weight.sum(axis=1), atol=ROUNDING)
    np.testing.assert_allclose(found.n_eff[0], weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1), rtol=ROUNDING)


@pytest.mark.parametrize("bins", [1, 5, 15])
def test_with_a_large_bandwidth_mlce_is_mce_and_mean_lce_is_ece(bins: int) -> None:
    """Lemma 1; weights differ from 1 by less than 1e-11 at this bandwidth."""
    confidence, correct, X = sample(500, 3)
    y, top = as_metric(confidence, correct)
    assert mlce(y, top, X, bandwidth=1e12, bins=bins) == pytest.approx(mce(y, top, bins=bins), abs=1e-10)
    assert lce(y, top, X, bandwidth=1e12, bins=bins) == pytest.approx(ece(y, top, bins=bins), abs=1e-10)
    found = local_errors(confidence, correct, X, bandwidths=[1e12], bins=bins)
    np.testing.assert_allclose(found.n_eff[0], found.count, rtol=1e-10)


@pytest.mark.parametrize("bandwidth", [1e-6, 1e-300])
def test_with_a_small_bandwidth_every_row_is_alone(bandwidth: float) -> None:
    confidence, correct, X = sample(200, 3)
    found = local_errors(confidence, correct, X, bandwidths=[bandwidth])
    np.testing.assert_array_equal(np.abs(found.slce[0]), np.abs(correct - confidence))
    np.testing.assert_array_equal(found.n_eff[0], 1)
    y, top = as_metric(confidence, correct)
    assert mlce(y, top, X, bandwidth=bandwidth) == np.abs(correct - confidence).max()


def test_left_out_of_its_own_a_row_is_its_nearest_neighbour_in_its_bin() -> None:
    """As the bandwidth goes to 0, where every weight is 0 in float64."""
    confidence, correct, X = sample(200, 3)
    found = local_errors(confidence, correct, X, bandwidths=[1e-300], bins=5, leave_one_out=True)
    apart = np.abs(X[:, None] - X).sum(axis=2)
    bin_of = np.ceil(confidence * 5)
    apart[bin_of[:, None] != bin_of] = np.inf
    np.fill_diagonal(apart, np.inf)
    np.testing.assert_array_equal(found.slce[0], (confidence - correct)[apart.argmin(axis=1)])


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_the_size_of_a_block_changes_no_bit(leave_one_out: bool, monkeypatch) -> None:
    confidence, correct, X = sample(700, 2)
    found = []
    for block in (1, 97, 3000, 10**7):
        monkeypatch.setattr(kernel, "BLOCK", block)
        found.append(local_errors(confidence, correct, X, bandwidths=[0.05, 0.4], bins=3, leave_one_out=leave_one_out))
    for other in found[1:]:
        np.testing.assert_array_equal(other.slce, found[0].slce)
        np.testing.assert_array_equal(other.n_eff, found[0].n_eff)


def test_memory_grows_with_the_rows_and_not_with_their_pairs() -> None:
    """All distances at once would be 288 MB."""
    confidence, correct, X = sample(6000, 3)
    tracemalloc.start()
    local_errors(confidence, correct, X, bins=1)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10e6


def test_what_the_bin_averages_away_is_seen() -> None:
    """Too sure by 0.2 on one side and as much not sure enough on the other: the paper's reason for a local error.

    Around a row inside of a side about 300 rows count; √(0.8 · 0.2 / 300) = 0.023, and 5 such are allowed.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 2))
    confidence = np.full(4000, 0.7)
    correct = rng.random(4000) < 0.7 + 0.2 * np.sign(X[:, 0])
    y, top = as_metric(confidence, correct)
    assert ece(y, top) < 0.02
    found = local_errors(confidence, correct, X, bandwidths=[0.1])
    inside = (np.abs(X[:, 0]) > 0.4) & (found.n_eff[0] > 100)
    assert inside.sum() > 1000
    np.testing.assert_allclose(found.slce[0][inside], -0.2 * np.sign(X[inside, 0]), atol=0.12)
    assert lce(y, top, X, bandwidth=0.1) > 0.1


def test_units_and_origin_of_the_features_do_not_matter() -> None:
    confidence, correct, X = sample(200, 3)
    expected = local_errors(confidence, correct, X)
    for other in (1000 * X, X - 50):
        np.testing.assert_allclose(local_errors(confidence, correct, other).slce, expected.slce, atol=1e-10)
    plain = local_errors(confidence, correct, X, bandwidths=[0.2 * rms_of(X)], scale="none")
    np.testing.assert_array_equal(plain.slce, expected.slce)
    assert rms_of(np.full((3, 2), 5.0)) == 1


def test_the_order_of_rows_does_not_matter() -> None:
    confidence, correct, X = sample(200, 3)
    order = np.random.default_rng(1).permutation(200)
    expected = local_errors(confidence, correct, X)
    found = local_errors(confidence[order], correct[order], X[order])
    np.testing.assert_allclose(found.slce[0], expected.slce[0][order], atol=ROUNDING)


def test_few_rows_in_a_bin_can_be_left_out() -> None:
    """One row alone in its bin, sure of 0.1 and right, is 0.9 at any bandwidth."""
    confidence, correct, X = sample(200, 2)
    confidence, correct, X = np.append(confidence, 0.1), np.append(correct, True), np.vstack([X, X[:1]])
    y, top = as_metric(confidence, correct)
    assert mlce(y, top, X, bandwidth=1e9) == pytest.approx(0.9)
    without = mlce(y[:200], top[:200], X[:200], bandwidth=1e9)
    assert mlce(y, top, X, bandwidth=1e9, min_count=2) == pytest.approx(without, abs=1e-8)
    assert mlce(y, top, X, bandwidth=1e9, leave_one_out=True) < 0.9  # nobody is left to look at
    assert lce_n_eff(y, top, X, bandwidth=1e-9, min_count=2) == 1
    assert math.isnan(mlce(y, top, X, min_count=202))
    assert score("lce", {"y": y, "top": top, "X": X}, {"min_count": 202}).value is None
    alone = local_errors([0.9], [True], [[1.0, 2.0]], leave_one_out=True)
    assert np.isnan(alone.slce).all() and np.isnan(alone.n_eff).all()


def test_there_is_no_standard_error_of_rows_that_share_neighbours() -> None:
    confidence, correct, X = sample(50, 2)
    y, top = as_metric(confidence, correct)
    assert score("lce", {"y": y, "top": top, "X": X}).stderr is None


def test_the_map_has_every_row_with_its_place() -> None:
    confidence, correct, X = sample(60, 2)
    y, top = as_metric(confidence, correct)
    found = local_errors(confidence, correct, X, bandwidths=[0.3], bins=5)
    rows = tabulate("lce_map", {"y": y, "top": top, "X": X}, {"bandwidth": 0.3, "bins": 5})
    assert len(rows) == 60
    assert rows[7] == {
        "x1": X[7, 0],
        "x2": X[7, 1],
        "confidence": confidence[7],
        "correct": correct[7],
        "slce": found.slce[0, 7],
        "n_eff": found.n_eff[0, 7],
        "bin_count": found.count[7],
        "bandwidth": 0.3,
    }


@pytest.mark.parametrize("shape", [(60, 1), (60, 3), (60, 1, 2, 1), (60, 2, 1, 1)])
def test_of_other_than_two_features_there_is_no_map_and_no_file(shape: tuple[int, ...]) -> None:
    confidence, correct, _ = sample(60, 2)
    y, top = as_metric(confidence, correct)
    X = np.random.default_rng(0).random(shape)
    assert lce_map(y, top, X) == {}
    test = Predictions("test", 60, {"top": top}, {"top": top}, y=y)
    rows = SimpleNamespace(X=X, groups=None)
    splits = SimpleNamespace(prior=np.array([0.5, 0.5]), test=rows, calibration=rows)
    _, tables = measure([test], {"test": {"lce_map": {}, "lce_by_bandwidth": {}}}, splits, "here")
    assert list(tables) == ["lce_by_bandwidth"]


def test_by_bandwidth_is_what_each_bandwidth_gives_alone() -> None:
    confidence, correct, X = sample(150, 3)
    y, top = as_metric(confidence, correct)
    found = lce_by_bandwidth(y, top, X, bandwidths=[0.4, 0.1], min_count=5)
    assert found["bandwidth"].tolist() == [0.4, 0.1]
    for i, bandwidth in enumerate([0.4, 0.1]):
        options = {"bandwidth": bandwidth, "min_count": 5}
        assert found["lce"][i] == lce(y, top, X, **options)
        assert found["mlce"][i] == mlce(y, top, X, **options)
        assert found["n_eff"][i] == lce_n_eff(y, top, X, **options)
        alone = local_errors(confidence, correct, X, bandwidths=[bandwidth])
        assert found["n_eff"][i] == np.median(alone.n_eff[0][alone.count >= 5])
        worst = np.where(alone.count >= 5, np.abs(alone.slce[0]), -1).argmax()
        assert found["mlce_n_eff"][i] == alone.n_eff[0, worst]


def test_by_bandwidth_of_no_row_that_counts_is_nan() -> None:
    confidence, correct, X = sample(20, 2)
    found = lce_by_bandwidth(*as_metric(confidence, correct), X, min_count=21)
    assert all(np.isnan(found[column]).all() for column in ("lce", "mlce", "n_eff", "mlce_n_eff"))


def test_images_are_vectors_of_their_pixels() -> None:
    confidence, correct, X = sample(40, 12)
    y, top = as_metric(confidence, correct)
    images = (X - X.min()).astype(np.float32).reshape(40, 3, 2, 2)
    assert lce(y, top, images) == lce(y, top, images.reshape(40, 12))


def test_means_around_other_rows() -> None:
    """Around a place that is not among the rows, and so far away that every weight is 0 in float64: the nearest row's value."""
    rng = np.random.default_rng(0)
    X, values, at = rng.normal(size=(50, 2)), rng.normal(size=50), np.array([[0.0, 0.0], [1e6, 0.0]])
    found = local_means(at, X, values, [0.5, 1e-3])
    weight = laplacian_kernel(at[:1], X, gamma=1 / (2 * 0.5))[0]
    assert found.mean[0, 0] == pytest.approx(np.average(values, weights=weight), abs=ROUNDING)
    assert found.mean[1, 1] == pytest.approx(values[(X[:, 0] - np.abs(X[:, 1])).argmax()], abs=1e-6)
    assert np.isfinite(found.mean).all() and (found.n_eff >= 1).all()


BAD = sample(3, 2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"bandwidths": [0.2, 0.0]}, ParameterError, r"bandwidth must be in \(0, inf\), got 0.0"),
        ({"bandwidths": [math.nan]}, ParameterError, r"bandwidth must be a number in \(0, inf\), got nan"),
        ({"bandwidths": []}, ParameterError, "bandwidths must hold at least one number above 0, got none"),
        ({"bins": 0}, ParameterError, "bins must be an integer from 1, got 0"),
        ({"scale": "std"}, ParameterError, "scale must be one of rms, none, got 'std'"),
        ({"X": np.ones((2, 2))}, ValueError, "X must have a row for each of 3 confidences, got 2"),
        (
            {"X": np.array([[1.0, 2.0], [np.nan, 0.0], [0.0, np.inf]])},
            DataError,
            r"X must be finite for distances, got nan in row 1 \(2 such\); fill what is missing, "
            r"or do not measure local calibration \(metrics=default\)",
        ),
        ({"confidence": [0.5, 1.5, 0.5]}, ValueError, r"confidence must lie in \[0, 1\], got 1.5 in row 1 \(1 such\)"),
    ],
)
def test_what_cannot_be_measured(change, error, message: str) -> None:
    confidence, correct, X = BAD
    with pytest.raises(error, match=f"^{message}$"):
        local_errors(**{"confidence": confidence, "correct": correct, "X": X} | change)
