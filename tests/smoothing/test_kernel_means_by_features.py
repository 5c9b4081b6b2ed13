"""Tests of local means: against plain loops and scikit-learn's kernels, limits, and precision."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from kdgraph.errors import DataError, ParameterError
from kdgraph.runner.monitoring import measure_cost
from kdgraph.smoothing import kernel_means, local_means, rms_of
from kdgraph.smoothing.pair_sums import TILE

KERNELS = ["laplacian", "gaussian"]
FLOAT32 = 1e-5
"""Tolerance of means in float32, relative to the range of the values.

Features of unit spread have errors of a few 2^-24, so a sum of d of them, divided by d γ ≥ 0.1 d,
has an error of about 1e-6.
"""
GRID = [0.0125 * 2**k for k in range(11)]


def means_by_double_loop(at, X, values, gamma, kernel, label_at, label, weight, leave_one_out):
    """Return mean, n_eff and mass, Float[3, m], pair by pair in Python floats.

    Weights are relative to that of the nearest row.
    """
    results = []
    for i, x in enumerate(at):
        pairs = []
        for j, row in enumerate(X):
            if label[j] == label_at[i] and weight[j] > 0 and not (leave_one_out and i == j):
                if kernel == "laplacian":
                    exponent = sum(abs(a - b) for a, b in zip(x, row, strict=True)) / (
                        len(x) * gamma
                    )
                else:
                    exponent = sum((a - b) ** 2 for a, b in zip(x, row, strict=True)) / (
                        2 * len(x) * gamma**2
                    )
                pairs.append((exponent, weight[j], values[j]))
        if not pairs:
            results.append((math.nan, math.nan, 0.0))
            continue
        nearest = min(exponent for exponent, *_ in pairs)
        w = [row_weight * math.exp(nearest - exponent) for exponent, row_weight, _ in pairs]
        mean = sum(a * value for a, (*_, value) in zip(w, pairs, strict=True)) / sum(w)
        results.append((mean, sum(w) ** 2 / sum(a * a for a in w), sum(w) * math.exp(-nearest)))
    return np.array(results).T


def query_points_rows_and_values(n: int, m: int, d: int, seed: int = 0):
    """Return query points and rows with an offset and unequal spread, and values of the rows."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 2, d)
    return (
        rng.normal(size=(m, d)) * spread + 7,
        rng.normal(size=(n, d)) * spread + 7,
        rng.uniform(-1, 1, n),
    )


def assert_equal_means(means, expected) -> None:
    for attribute in ("mean", "n_eff", "mass"):
        np.testing.assert_array_equal(getattr(means, attribute), getattr(expected, attribute))


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_means_agree_with_a_double_loop(d: int, kernel: str, leave_one_out: bool) -> None:
    at, X, values = query_points_rows_and_values(60, 60, d)
    at = X if leave_one_out else at
    rng = np.random.default_rng(1)
    label_at, label, weight = (
        rng.integers(0, 4, 60),
        rng.integers(0, 3, 60),
        rng.exponential(size=60) * rng.integers(0, 2, 60),
    )
    gammas = [0.1, 0.7, 3.0]
    labels = {"within_at": label_at, "within": label, "weight": weight}
    means = local_means(at, X, values, gammas, kernel=kernel, leave_one_out=leave_one_out, **labels)
    for b, gamma in enumerate(gammas):
        mean, n_eff, mass = means_by_double_loop(
            at.tolist(), X.tolist(), values, gamma, kernel, label_at, label, weight, leave_one_out
        )
        np.testing.assert_allclose(means.mean[b], mean, atol=FLOAT32)
        np.testing.assert_allclose(means.n_eff[b], n_eff, rtol=FLOAT32)
        # The mass has the exponential of the nearest distance itself.
        np.testing.assert_allclose(means.mass[b], mass, rtol=1e-4, atol=1e-300)
    assert np.isnan(means.mean[:, label_at == 3]).all()
    assert (means.mass[:, label_at == 3] == 0).all()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(-2, 2), st.integers(-2, 2), st.integers(0, 1), st.booleans()),
        min_size=1,
        max_size=10,
    ),
    st.sampled_from([1e-300, 1e-9, 0.3, 2.0, 1e12, 1e300]),
    st.sampled_from(KERNELS),
    st.sampled_from([1.0, 2.0**60, 2.0**-60]),
    st.booleans(),
)
def test_tied_rows_have_equal_weights_at_any_bandwidth(
    rows, gamma: float, kernel: str, unit: float, leave_one_out: bool
) -> None:
    """The distances on a grid are exact in any unit, with coincident rows and labels of one row."""
    X, label = (
        unit * np.array([[a, b] for a, b, *_ in rows], dtype=float),
        np.array([label for *_, label, _ in rows]),
    )
    values = np.array([float(value) for *_, value in rows])
    labels = {"within_at": label, "within": label}
    means = local_means(X, X, values, [gamma], kernel=kernel, leave_one_out=leave_one_out, **labels)
    gamma_in_units = min(max(gamma / unit, 1e-150), 1e150)  # its square is in the range of float64
    mean, n_eff, _ = means_by_double_loop(
        (X / unit).tolist(),
        (X / unit).tolist(),
        values,
        gamma_in_units,
        kernel,
        label,
        label,
        np.ones(len(X)),
        leave_one_out,
    )
    np.testing.assert_allclose(means.mean[0], mean, atol=FLOAT32)
    np.testing.assert_allclose(means.n_eff[0], n_eff, rtol=FLOAT32)


@pytest.mark.parametrize(
    ("kernel", "sklearn_kernel"), [("laplacian", laplacian_kernel), ("gaussian", rbf_kernel)]
)
def test_kernels_are_those_of_scikit_learn(kernel: str, sklearn_kernel) -> None:
    """scikit-learn's gamma is 1 / (d γ), or 1 / (2 d γ²)."""
    at, X, values = query_points_rows_and_values(300, 50, 4)
    means = local_means(at, X, values, [0.3], kernel=kernel)
    weight = sklearn_kernel(
        at, X, gamma=1 / (4 * 0.3) if kernel == "laplacian" else 1 / (2 * 4 * 0.3**2)
    )
    np.testing.assert_allclose(means.mean[0], weight @ values / weight.sum(axis=1), atol=FLOAT32)
    np.testing.assert_allclose(
        means.n_eff[0], weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1), rtol=FLOAT32
    )
    np.testing.assert_allclose(means.mass[0], weight.sum(axis=1), rtol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_limits_are_the_nearest_row_and_the_mean(kernel: str) -> None:
    at, X, values = query_points_rows_and_values(500, 40, 3)
    label_at, label = np.arange(40) % 3, np.arange(500) % 3
    means = local_means(
        at, X, values, [1e-300, 1e300], kernel=kernel, within_at=label_at, within=label
    )
    distances = (
        np.abs(at[:, None] - X).sum(axis=2)
        if kernel == "laplacian"
        else ((at[:, None] - X) ** 2).sum(axis=2)
    )
    distances[label_at[:, None] != label] = np.inf
    np.testing.assert_array_equal(means.mean[0], values[distances.argmin(axis=1)])
    np.testing.assert_array_equal(means.n_eff[0], 1)
    np.testing.assert_array_equal(means.mass[0], 0)
    label_means = np.array([values[label == i].mean() for i in range(3)])
    # These are sums of 167 terms in float64.
    np.testing.assert_allclose(means.mean[1], label_means[label_at], rtol=0, atol=1e-15)
    np.testing.assert_array_equal(means.n_eff[1], np.bincount(label)[label_at])
    np.testing.assert_array_equal(means.mass[1], np.bincount(label)[label_at])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("gamma", [1e-300, 0.5, 1e300])
def test_equal_rows_give_the_mean(kernel: str, gamma: float) -> None:
    X, values = np.full((10, 3), 0.1), np.arange(10.0)
    means = local_means(X, X, values, [gamma], kernel=kernel)
    np.testing.assert_array_equal(means.mean[0], 4.5)
    np.testing.assert_array_equal(means.n_eff[0], 10)
    np.testing.assert_array_equal(means.mass[0], 10)
    left_out = local_means(X, X, values, [gamma], kernel=kernel, leave_one_out=True)
    np.testing.assert_allclose(left_out.mean[0], (45 - values) / 9, rtol=1e-15)
    np.testing.assert_array_equal(left_out.n_eff[0], 9)


@pytest.mark.parametrize("n_rows", [0, 1])
def test_mean_is_nan_without_rows(n_rows: int) -> None:
    X = np.zeros((n_rows, 2))
    means = local_means(
        X if n_rows else np.ones((2, 2)), X, np.ones(n_rows), [0.1, 1.0], leave_one_out=n_rows == 1
    )
    assert np.isnan(means.mean).all()
    assert np.isnan(means.n_eff).all()
    assert (means.mass == 0).all()
    assert means.mean.shape == (2, 1 if n_rows else 2)
    assert local_means(np.empty((0, 2)), X, np.ones((n_rows, 3)), [1.0]).mean.shape == (1, 0, 3)


def test_rows_of_weight_zero_are_ignored() -> None:
    at, X, values = query_points_rows_and_values(50, 20, 2)
    weight = np.where(np.arange(50) % 3, 2.5, 0.0)
    is_positive = weight > 0
    means = local_means(at, X, values, [0.01, 1.0], weight=weight)
    expected = local_means(at, X[is_positive], values[is_positive], [0.01, 1.0])
    np.testing.assert_allclose(means.mean, expected.mean, rtol=0, atol=FLOAT32)
    np.testing.assert_allclose(means.mass, 2.5 * expected.mass, rtol=1e-4)
    alone = local_means(X[:2], X[:2], values[:2], [1.0], weight=[1.0, 0.0], leave_one_out=True)
    assert np.isnan(alone.mean[0, 0])
    assert alone.mean[0, 1] == values[0]


def test_integer_weights_repeat_rows() -> None:
    at, X, values = query_points_rows_and_values(40, 10, 2)
    counts = 1 + np.arange(40) % 3
    means = local_means(at, X, values, [0.3, 1e9], weight=counts)
    repeated = local_means(at, np.repeat(X, counts, axis=0), np.repeat(values, counts), [0.3, 1e9])
    np.testing.assert_allclose(means.mean, repeated.mean, rtol=0, atol=FLOAT32)
    np.testing.assert_allclose(means.mass, repeated.mass, rtol=1e-4)
    assert_equal_means(means, local_means(at, X, values, [0.3, 1e9], weight=counts * 1.0))
    np.testing.assert_array_equal(
        local_means(at, X, values, [0.3], weight=1024.0 * counts).mean, means.mean[:1]
    )


@pytest.mark.parametrize(
    ("weight", "spacing"),
    [([1e-50, 1.0], 1.0), ([1e-7, 1e-13, 1.0], 0.3), ([1e-200, 1.0], 100.0), ([1e-290, 1.0], 6.7)],
)
@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_of_very_different_size_are_exact(weight, spacing: float, kernel: str) -> None:
    X, values = spacing * np.arange(len(weight))[:, None], np.arange(float(len(weight)))
    for gammas in ([0.01, 10.0], [1e-3]):
        means = local_means(X[:1], X, values, gammas, kernel=kernel, weight=weight)
        for b, gamma in enumerate(gammas):
            power = 1 if kernel == "laplacian" else 2
            log_weights = np.log(weight) - X[:, 0] ** power / (power * gamma**power)
            w = np.exp(log_weights - log_weights.max())
            assert means.mean[b, 0] == pytest.approx(w @ values / w.sum(), rel=1e-9)
            assert means.n_eff[b, 0] == pytest.approx(w.sum() ** 2 / (w @ w), rel=1e-9)
            assert means.mass[b, 0] == pytest.approx(np.exp(log_weights).sum(), rel=1e-9)


def test_unit_of_weights_changes_no_bit() -> None:
    at, X, values = query_points_rows_and_values(50, 20, 2)
    weight = 2.0 ** -np.random.default_rng(0).integers(0, 60, 50)
    expected = local_means(at, X, values, [0.3], weight=weight)
    for unit in (2.0**-900, 2.0**900):
        means = local_means(at, X, values, [0.3], weight=unit * weight)
        np.testing.assert_array_equal(means.mean, expected.mean)
        np.testing.assert_array_equal(means.n_eff, expected.n_eff)


@pytest.mark.parametrize(("scale", "largest"), [(1e200, 1e250), (1.0, 1e160), (1e-200, 1e-100)])
def test_rms_of_huge_and_tiny_features(scale: float, largest: float) -> None:
    X = np.array([[1.0, -1.0], [3.0, 1.0]])
    assert rms_of(scale * X) == pytest.approx(scale)
    assert rms_of(largest * X) == pytest.approx(largest)
    # In the usual range it is the formula, to the bit.
    for offset in (0.0, 7.3):
        rows = np.random.default_rng(0).normal(size=(300, 5)) + offset
        assert rms_of(rows) == np.sqrt(np.square(rows - rows.mean(axis=0)).mean())


@pytest.mark.parametrize("d", [1, 2, 50, 300])
@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_error_is_within_tolerance(d: int, kernel: str) -> None:
    """Compare with float64; below γ = 0.1 of the spread, only the bound on a weight holds, 2e-3."""
    at, X, values = query_points_rows_and_values(1500, 300, d)
    gammas = rms_of(X) * np.array(GRID)
    means = local_means(at, X, values, gammas, kernel=kernel)
    weight_of = laplacian_kernel if kernel == "laplacian" else rbf_kernel
    for gamma, mean, n_eff in zip(gammas, means.mean, means.n_eff, strict=True):
        rate = 1 / (d * gamma) if kernel == "laplacian" else 1 / (2 * d * gamma**2)
        # The weights at a thousandth of the rate do not underflow.
        exponents = -np.log(np.maximum(weight_of(at, X, gamma=rate * 1e-3), 1e-300)) * 1e3
        weight = np.exp(exponents.min(axis=1, keepdims=True) - exponents)
        error = np.abs(mean - weight @ values / weight.sum(axis=1)).max()
        assert error <= (FLOAT32 if gamma >= 0.1 * rms_of(X) else 2e-3), gamma
        np.testing.assert_allclose(
            n_eff, weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1), rtol=5 * FLOAT32
        )


def test_float32_is_used_only_where_it_is_accurate(monkeypatch) -> None:
    """Without this, the tests of float32 above could be tests of float64."""
    at, X, values = query_points_rows_and_values(200, 20, 3)
    at[0] += 1e7
    dtypes = []
    averager = kernel_means.KernelAverager
    monkeypatch.setattr(
        kernel_means,
        "KernelAverager",
        lambda frame, *arguments: dtypes.append(frame.dtype) or averager(frame, *arguments),
    )
    for gamma, expected in (
        (1.0, [np.float32, np.float64]),
        (1e-4, [np.float64]),
        (1e9, [np.float32]),
    ):
        dtypes.clear()
        local_means(at, X, values, [gamma])
        assert dtypes == expected


@pytest.mark.parametrize("kernel", KERNELS)
def test_distant_clusters_need_float64(kernel: str) -> None:
    """Two clusters are 1e9 apart, their rows 1e-3: each has the same means as alone."""
    rng = np.random.default_rng(0)
    fine, values = rng.normal(size=(40, 2)) * 1e-3, rng.normal(size=80)
    # At 2^30 float64 has a resolution of 2e-7, 1e-4 of the spread of the rows.
    X = np.vstack([fine, fine + 2.0**30])
    means = local_means(X, X, values, [1e-3], kernel=kernel)
    for rows in (slice(0, 40), slice(40, 80)):
        expected = local_means(
            X[rows] - X[rows][0], X[rows] - X[rows][0], values[rows], [1e-3], kernel=kernel
        )
        np.testing.assert_allclose(means.mean[:, rows], expected.mean, atol=5 * FLOAT32)
        np.testing.assert_allclose(means.n_eff[:, rows], expected.n_eff, rtol=5 * FLOAT32)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("unit", [1e-160, 1e-30, 1e30, 1e150, 1e300])
def test_unit_of_features_and_bandwidth_does_not_matter(kernel: str, unit: float) -> None:
    at, X, values = query_points_rows_and_values(50, 20, 3)
    expected = local_means(at, X, values, [0.3], kernel=kernel)
    means = local_means(at * unit, X * unit, values, [0.3 * unit], kernel=kernel)
    np.testing.assert_allclose(means.mean, expected.mean, atol=FLOAT32)
    np.testing.assert_allclose(means.mass, expected.mass, rtol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("distance", [1e6, 1e20, 1e160, 1e308])
def test_distant_query_points_have_a_mean(kernel: str, distance: float) -> None:
    """At 1e6 it is the nearest row's, although all weights underflow in float64.

    Farther out all rows are equally near, and it is the mean of all rows.
    """
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    means = local_means([[distance, 0.0], [0.5, 0.0]], X, [0.0, 5.0, 1.0], [1e-3], kernel=kernel)
    assert means.mean[0].tolist() == [5.0 if distance == 1e6 else 2.0, 2.5]
    assert means.mass[0, 0] == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_blocks_threads_and_other_query_points_change_no_bit(kernel: str, monkeypatch) -> None:
    """A result depends on its query point, its bandwidth and the rows alone."""
    at, X, values = query_points_rows_and_values(1300, 75, 6)
    at[3] *= 1e9
    label_at, label, weight = np.arange(75) % 2, np.arange(1300) % 2, np.linspace(0, 1, 1300)
    options = {"kernel": kernel, "within": label, "weight": weight}
    gammas = [1e-7, 0.05, 0.1, 0.3, 0.2, 0.4, 1.7]
    expected = local_means(at, X, values, gammas, within_at=label_at, **options)
    for pairs, n_jobs in ((1, 1), (3000, 2), (10**9, 2)):
        monkeypatch.setattr(kernel_means, "PAIRS_PER_BLOCK", pairs)
        assert_equal_means(
            local_means(at, X, values, gammas, within_at=label_at, n_jobs=n_jobs, **options),
            expected,
        )
    query_ids = [3, 70, 8, 41, 3]
    part = local_means(
        at[query_ids], X, values, gammas[3:5], within_at=label_at[query_ids], **options
    )
    np.testing.assert_array_equal(part.mean, expected.mean[3:5, query_ids])
    np.testing.assert_array_equal(part.n_eff, expected.n_eff[3:5, query_ids])
    np.testing.assert_array_equal(part.mass, expected.mass[3:5, query_ids])


def test_labels_and_columns_agree_with_separate_calls() -> None:
    """The centred features are exact in float32, so columns agree to the bit."""
    rng = np.random.default_rng(0)
    X, values = rng.integers(-8, 9, (2000, 3)).astype(float), rng.normal(size=(2000, 2))
    X -= np.round(X.mean(axis=0))
    label = rng.integers(-5, 5, 2000)
    means = local_means(X, X, values, [0.5], within_at=label, within=label, leave_one_out=True)
    assert means.mean.shape == (1, 2000, 2)
    for query_label in (-5, 0, 4):
        has_label = label == query_label
        expected = local_means(
            X[has_label], X[has_label], values[has_label], [0.5], leave_one_out=True
        )
        np.testing.assert_allclose(means.mean[:, has_label], expected.mean, atol=FLOAT32)
    for column in range(2):
        expected = local_means(
            X, X, values[:, column], [0.5], within_at=label, within=label, leave_one_out=True
        )
        np.testing.assert_array_equal(means.mean[..., column], expected.mean)
        np.testing.assert_array_equal(means.n_eff, expected.n_eff)


def test_mean_of_equal_values_is_exact() -> None:
    """Not only to 1e-7: a confidence of 1 stays 1."""
    at, X, _ = query_points_rows_and_values(3000, 50, 7)
    np.testing.assert_array_equal(local_means(at, X, np.ones(3000), GRID).mean, 1)


def test_peak_memory_does_not_grow_with_pairs() -> None:
    """All distances at once would take 1,600 MB in float32."""
    _, X, values = query_points_rows_and_values(20_000, 1, 2)
    local_means(X[:2], X, values, [0.3])
    with measure_cost() as before:
        pass
    with measure_cost() as during:
        local_means(X, X, values, [0.3])
    assert during.peak_memory_mb - before.peak_memory_mb < 20


@pytest.mark.parametrize("n", [1, 7, TILE - 1, TILE, TILE + 1, 2 * TILE + 9])
def test_numbers_of_rows_around_the_tile_size(n: int) -> None:
    at, X, values = query_points_rows_and_values(n, 9, 5)
    weight = laplacian_kernel(at, X, gamma=1 / 5)
    np.testing.assert_allclose(
        local_means(at, X, values, [1.0]).mean[0],
        weight @ values / weight.sum(axis=1),
        atol=FLOAT32,
    )


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"bandwidths": [0.2, 0.0]}, ParameterError, r"bandwidth must be in \(0, inf\), got 0.0"),
        (
            {"bandwidths": []},
            ParameterError,
            "bandwidths must hold at least one number above 0, got none",
        ),
        (
            {"kernel": "cosine"},
            ParameterError,
            "kernel must be one of laplacian, gaussian, got 'cosine'",
        ),
        ({"at": np.ones((2, 3))}, DataError, "at and X must have the same features, got 3 and 2"),
        (
            {"at": np.ones(2)},
            DataError,
            r"at must be vectors of features, one a row, got shape \(2,\)",
        ),
        (
            {"X": np.full((3, 2), np.nan)},
            DataError,
            r"X must be finite for distances, got nan in row 0 \(6 such\)",
        ),
        (
            {"at": [[0.0, np.inf]]},
            DataError,
            r"at must be finite for distances, got inf in row 0 \(1 such\)",
        ),
        (
            {"values": [1.0]},
            DataError,
            r"values must have a number, or a row of numbers, for each of 3 rows, got shape \(1,\)",
        ),
        (
            {"values": np.ones((3, 0))},
            DataError,
            (
                r"values must have a number, or a row of numbers, for each of 3 rows, got shape"
                r" \(3, 0\)"
            ),
        ),
        (
            {"values": [1.0, np.nan, 0.0]},
            DataError,
            "values must be finite, got nan among them; leave out rows that have none",
        ),
        (
            {"within": [0, 0, 1]},
            DataError,
            (
                "within and within_at go together, got only one of them; label both the rows and"
                " the query points"
            ),
        ),
        (
            {"within": [0.0, 0.5, 1.0], "within_at": [0, 0]},
            DataError,
            r"within must be an integer for each of 3 rows, got float64 of shape \(3,\)",
        ),
        (
            {"within": [0, 0, 1], "within_at": [0]},
            DataError,
            r"within_at must be an integer for each of 2 rows, got int64 of shape \(1,\)",
        ),
        (
            {"weight": [1.0, -1.0, np.inf]},
            DataError,
            r"weight must be finite and not negative, got -1 in row 1 \(2 such\)",
        ),
        (
            {"weight": [1.0]},
            DataError,
            r"weight must be a number for each of 3 rows, got shape \(1,\)",
        ),
        (
            {"leave_one_out": True},
            DataError,
            "leave_one_out needs the rows themselves as query points, got 2 query points and 3 rows",
        ),
    ],
)
def test_invalid_arguments_raise(change, error, message: str) -> None:
    arguments = {
        "at": np.zeros((2, 2)),
        "X": np.eye(3)[:, :2],
        "values": [0.0, 1.0, 2.0],
        "bandwidths": [1.0],
    }
    with pytest.raises(error, match=f"^{message}$"):
        local_means(**arguments | change)
