"""Local means against plain loops and a peer's kernels, their limits, what float32 may change, and
what may change no bit.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import laplacian_kernel, rbf_kernel

from kdgraph.errors import DataError, ParameterError
from kdgraph.runner.cost import measured
from kdgraph.smoothing import kernel_means as by_features
from kdgraph.smoothing import local_means, rms_of
from kdgraph.smoothing import pair_sums as kernels

KERNELS = ["laplacian", "gaussian"]
FLOAT32 = 1e-5
"""Of the values' range. Features of unit spread are off by 2^-24 of a few, so a sum of d of them,
divided by d γ ≥ 0.1 d, by about 1e-6.
"""
GRID = [0.0125 * 2**k for k in range(11)]


def naive(at, X, values, gamma, kernel, label_at, label, weight, leave_one_out):
    """(mean, n_eff, mass) pair by pair in Python's floats, with weights relative to the
    nearest's.
    """
    found = []
    for i, x in enumerate(at):
        pairs = []
        for j, other in enumerate(X):
            if label[j] == label_at[i] and weight[j] > 0 and not (leave_one_out and i == j):
                if kernel == "laplacian":
                    exponent = sum(abs(a - b) for a, b in zip(x, other, strict=True)) / (
                        len(x) * gamma
                    )
                else:
                    exponent = sum((a - b) ** 2 for a, b in zip(x, other, strict=True)) / (
                        2 * len(x) * gamma**2
                    )
                pairs.append((exponent, weight[j], values[j]))
        if not pairs:
            found.append((math.nan, math.nan, 0.0))
            continue
        nearest = min(exponent for exponent, *_ in pairs)
        w = [each * math.exp(nearest - exponent) for exponent, each, _ in pairs]
        mean = sum(a * value for a, (*_, value) in zip(w, pairs, strict=True)) / sum(w)
        found.append((mean, sum(w) ** 2 / sum(a * a for a in w), sum(w) * math.exp(-nearest)))
    return np.array(found).T


def sample(n: int, m: int, d: int, seed: int = 0):
    """Places, rows of unequal spread off the origin, and values."""
    rng = np.random.default_rng(seed)
    spread = rng.uniform(0.5, 2, d)
    return (
        rng.normal(size=(m, d)) * spread + 7,
        rng.normal(size=(n, d)) * spread + 7,
        rng.uniform(-1, 1, n),
    )


def same(one, other) -> None:
    for attribute in ("mean", "n_eff", "mass"):
        np.testing.assert_array_equal(getattr(one, attribute), getattr(other, attribute))


@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 5])
def test_they_agree_with_a_double_loop(d: int, kernel: str, leave_one_out: bool) -> None:
    at, X, values = sample(60, 60, d)
    at = X if leave_one_out else at
    rng = np.random.default_rng(1)
    label_at, label, weight = (
        rng.integers(0, 4, 60),
        rng.integers(0, 3, 60),
        rng.exponential(size=60) * rng.integers(0, 2, 60),
    )
    gammas = [0.1, 0.7, 3.0]
    labels = {"within_at": label_at, "within": label, "weight": weight}
    found = local_means(at, X, values, gammas, kernel=kernel, leave_one_out=leave_one_out, **labels)
    for b, gamma in enumerate(gammas):
        mean, n_eff, mass = naive(
            at.tolist(), X.tolist(), values, gamma, kernel, label_at, label, weight, leave_one_out
        )
        np.testing.assert_allclose(found.mean[b], mean, atol=FLOAT32)
        np.testing.assert_allclose(found.n_eff[b], n_eff, rtol=FLOAT32)
        np.testing.assert_allclose(
            found.mass[b], mass, rtol=1e-4, atol=1e-300
        )  # exp of the nearest distance itself
    assert np.isnan(found.mean[:, label_at == 3]).all()
    assert (found.mass[:, label_at == 3] == 0).all()


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
def test_at_any_bandwidth_rows_that_tie_share(
    rows, gamma: float, kernel: str, unit: float, leave_one_out: bool
) -> None:
    """On a grid whose distances are exact, in any unit: places that coincide, equal distances,
    labels of one row.
    """
    X, label = (
        unit * np.array([[a, b] for a, b, *_ in rows], dtype=float),
        np.array([label for *_, label, _ in rows]),
    )
    values = np.array([float(right) for *_, right in rows])
    labels = {"within_at": label, "within": label}
    found = local_means(X, X, values, [gamma], kernel=kernel, leave_one_out=leave_one_out, **labels)
    plain = min(max(gamma / unit, 1e-150), 1e150)  # which has a square in float64
    mean, n_eff, _ = naive(
        (X / unit).tolist(),
        (X / unit).tolist(),
        values,
        plain,
        kernel,
        label,
        label,
        np.ones(len(X)),
        leave_one_out,
    )
    np.testing.assert_allclose(found.mean[0], mean, atol=FLOAT32)
    np.testing.assert_allclose(found.n_eff[0], n_eff, rtol=FLOAT32)


@pytest.mark.parametrize(
    ("kernel", "peer"), [("laplacian", laplacian_kernel), ("gaussian", rbf_kernel)]
)
def test_the_kernels_are_scikit_learn_s(kernel: str, peer) -> None:
    """Their gamma is 1 / (d γ), or 1 / (2 d γ²)."""
    at, X, values = sample(300, 50, 4)
    found = local_means(at, X, values, [0.3], kernel=kernel)
    weight = peer(at, X, gamma=1 / (4 * 0.3) if kernel == "laplacian" else 1 / (2 * 4 * 0.3**2))
    np.testing.assert_allclose(found.mean[0], weight @ values / weight.sum(axis=1), atol=FLOAT32)
    np.testing.assert_allclose(
        found.n_eff[0], weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1), rtol=FLOAT32
    )
    np.testing.assert_allclose(found.mass[0], weight.sum(axis=1), rtol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
def test_in_the_limits_it_is_the_mean_and_the_nearest_row(kernel: str) -> None:
    at, X, values = sample(500, 40, 3)
    label_at, label = np.arange(40) % 3, np.arange(500) % 3
    found = local_means(
        at, X, values, [1e-300, 1e300], kernel=kernel, within_at=label_at, within=label
    )
    apart = (
        np.abs(at[:, None] - X).sum(axis=2)
        if kernel == "laplacian"
        else ((at[:, None] - X) ** 2).sum(axis=2)
    )
    apart[label_at[:, None] != label] = np.inf
    np.testing.assert_array_equal(found.mean[0], values[apart.argmin(axis=1)])
    np.testing.assert_array_equal(found.n_eff[0], 1)
    np.testing.assert_array_equal(found.mass[0], 0)
    means = np.array([values[label == each].mean() for each in range(3)])
    np.testing.assert_allclose(
        found.mean[1], means[label_at], rtol=0, atol=1e-15
    )  # sums of 167 terms in float64
    np.testing.assert_array_equal(found.n_eff[1], np.bincount(label)[label_at])
    np.testing.assert_array_equal(found.mass[1], np.bincount(label)[label_at])


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("gamma", [1e-300, 0.5, 1e300])
def test_where_all_rows_are_the_same_it_is_the_mean(kernel: str, gamma: float) -> None:
    X, values = np.full((10, 3), 0.1), np.arange(10.0)
    found = local_means(X, X, values, [gamma], kernel=kernel)
    np.testing.assert_array_equal(found.mean[0], 4.5)
    np.testing.assert_array_equal(found.n_eff[0], 10)
    np.testing.assert_array_equal(found.mass[0], 10)
    without = local_means(X, X, values, [gamma], kernel=kernel, leave_one_out=True)
    np.testing.assert_allclose(without.mean[0], (45 - values) / 9, rtol=1e-15)
    np.testing.assert_array_equal(without.n_eff[0], 9)


@pytest.mark.parametrize("rows", [0, 1])
def test_where_no_row_is_left_there_is_no_mean(rows: int) -> None:
    X = np.zeros((rows, 2))
    found = local_means(
        X if rows else np.ones((2, 2)), X, np.ones(rows), [0.1, 1.0], leave_one_out=rows == 1
    )
    assert np.isnan(found.mean).all()
    assert np.isnan(found.n_eff).all()
    assert (found.mass == 0).all()
    assert found.mean.shape == (2, 1 if rows else 2)
    assert local_means(np.empty((0, 2)), X, np.ones((rows, 3)), [1.0]).mean.shape == (1, 0, 3)


def test_a_row_of_weight_zero_is_not_there_and_is_no_neighbour_of_itself() -> None:
    at, X, values = sample(50, 20, 2)
    weight = np.where(np.arange(50) % 3, 2.5, 0.0)
    seen = weight > 0
    found = local_means(at, X, values, [0.01, 1.0], weight=weight)
    without = local_means(at, X[seen], values[seen], [0.01, 1.0])
    np.testing.assert_allclose(found.mean, without.mean, rtol=0, atol=FLOAT32)
    np.testing.assert_allclose(found.mass, 2.5 * without.mass, rtol=1e-4)
    alone = local_means(X[:2], X[:2], values[:2], [1.0], weight=[1.0, 0.0], leave_one_out=True)
    assert np.isnan(alone.mean[0, 0])
    assert alone.mean[0, 1] == values[0]


def test_a_weight_of_three_is_a_row_three_times() -> None:
    at, X, values = sample(40, 10, 2)
    times = 1 + np.arange(40) % 3
    found = local_means(at, X, values, [0.3, 1e9], weight=times)
    repeated = local_means(at, np.repeat(X, times, axis=0), np.repeat(values, times), [0.3, 1e9])
    np.testing.assert_allclose(found.mean, repeated.mean, rtol=0, atol=FLOAT32)
    np.testing.assert_allclose(found.mass, repeated.mass, rtol=1e-4)
    same(found, local_means(at, X, values, [0.3, 1e9], weight=times * 1.0))
    np.testing.assert_array_equal(
        local_means(at, X, values, [0.3], weight=1024.0 * times).mean, found.mean[:1]
    )


@pytest.mark.parametrize(
    ("weight", "apart"),
    [([1e-50, 1.0], 1.0), ([1e-7, 1e-13, 1.0], 0.3), ([1e-200, 1.0], 100.0), ([1e-290, 1.0], 6.7)],
)
@pytest.mark.parametrize("kernel", KERNELS)
def test_weights_of_very_different_size_count_as_they_are(
    weight, apart: float, kernel: str
) -> None:
    X, values = apart * np.arange(len(weight))[:, None], np.arange(float(len(weight)))
    for gammas in ([0.01, 10.0], [1e-3]):
        found = local_means(X[:1], X, values, gammas, kernel=kernel, weight=weight)
        for b, gamma in enumerate(gammas):
            power = 1 if kernel == "laplacian" else 2
            log = np.log(weight) - X[:, 0] ** power / (power * gamma**power)
            w = np.exp(log - log.max())
            assert found.mean[b, 0] == pytest.approx(w @ values / w.sum(), rel=1e-9)
            assert found.n_eff[b, 0] == pytest.approx(w.sum() ** 2 / (w @ w), rel=1e-9)
            assert found.mass[b, 0] == pytest.approx(np.exp(log).sum(), rel=1e-9)


def test_weights_are_relative_to_the_largest() -> None:
    at, X, values = sample(50, 20, 2)
    weight = 2.0 ** -np.random.default_rng(0).integers(0, 60, 50)
    expected = local_means(at, X, values, [0.3], weight=weight)
    for unit in (2.0**-900, 2.0**900):
        found = local_means(at, X, values, [0.3], weight=unit * weight)
        np.testing.assert_array_equal(found.mean, expected.mean)
        np.testing.assert_array_equal(found.n_eff, expected.n_eff)


@pytest.mark.parametrize(("reach", "largest"), [(1e200, 1e250), (1.0, 1e160), (1e-200, 1e-100)])
def test_the_unit_of_large_and_small_features_is_theirs(reach: float, largest: float) -> None:
    X = np.array([[1.0, -1.0], [3.0, 1.0]])
    assert rms_of(reach * X) == pytest.approx(reach)
    assert rms_of(largest * X) == pytest.approx(largest)
    for offset in (0.0, 7.3):  # and of all others it is what the formula gives, to the bit
        other = np.random.default_rng(0).normal(size=(300, 5)) + offset
        assert rms_of(other) == np.sqrt(np.square(other - other.mean(axis=0)).mean())


@pytest.mark.parametrize("d", [1, 2, 50, 300])
@pytest.mark.parametrize("kernel", KERNELS)
def test_float32_changes_as_little_as_is_said(d: int, kernel: str) -> None:
    """Against float64 of the same loops, from γ = 0.1 of the spread on; below, only what the bound
    on a weight allows, 2 · 10⁻³.
    """
    at, X, values = sample(1500, 300, d)
    gammas = rms_of(X) * np.array(GRID)
    found = local_means(at, X, values, gammas, kernel=kernel)
    weight_of = laplacian_kernel if kernel == "laplacian" else rbf_kernel
    for gamma, mean, n_eff in zip(gammas, found.mean, found.n_eff, strict=True):
        rate = 1 / (d * gamma) if kernel == "laplacian" else 1 / (2 * d * gamma**2)
        apart = (
            -np.log(np.maximum(weight_of(at, X, gamma=rate * 1e-3), 1e-300)) * 1e3
        )  # of a thousandth, so that none is 0
        weight = np.exp(apart.min(axis=1, keepdims=True) - apart)
        off = np.abs(mean - weight @ values / weight.sum(axis=1)).max()
        assert off <= (FLOAT32 if gamma >= 0.1 * rms_of(X) else 2e-3), gamma
        np.testing.assert_allclose(
            n_eff, weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1), rtol=5 * FLOAT32
        )


def test_float32_is_used_where_it_is_enough_and_nowhere_else(monkeypatch) -> None:
    """Otherwise what is said of it above would be said of float64."""
    at, X, values = sample(200, 20, 3)
    at[0] += 1e7
    used = []
    search = by_features.KernelAverager
    monkeypatch.setattr(
        by_features,
        "KernelAverager",
        lambda frame, *rest: used.append(frame.dtype) or search(frame, *rest),
    )
    for gamma, expected in (
        (1.0, [np.float32, np.float64]),
        (1e-4, [np.float64]),
        (1e9, [np.float32]),
    ):
        used.clear()
        local_means(at, X, values, [gamma])
        assert used == expected


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_float32_cannot_hold_is_right(kernel: str) -> None:
    """Two clusters 1e9 apart whose rows differ by 1e-3; around each what its own rows say, as
    without the other.
    """
    rng = np.random.default_rng(0)
    fine, values = rng.normal(size=(40, 2)) * 1e-3, rng.normal(size=80)
    X = np.vstack(
        [fine, fine + 2.0**30]
    )  # which float64 still has to 2e-7 of a unit, 1e-4 of their spread
    found = local_means(X, X, values, [1e-3], kernel=kernel)
    for rows in (slice(0, 40), slice(40, 80)):
        alone = local_means(
            X[rows] - X[rows][0], X[rows] - X[rows][0], values[rows], [1e-3], kernel=kernel
        )
        np.testing.assert_allclose(found.mean[:, rows], alone.mean, atol=5 * FLOAT32)
        np.testing.assert_allclose(found.n_eff[:, rows], alone.n_eff, rtol=5 * FLOAT32)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("unit", [1e-160, 1e-30, 1e30, 1e150, 1e300])
def test_units_do_not_matter(kernel: str, unit: float) -> None:
    at, X, values = sample(50, 20, 3)
    expected = local_means(at, X, values, [0.3], kernel=kernel)
    found = local_means(at * unit, X * unit, values, [0.3 * unit], kernel=kernel)
    np.testing.assert_allclose(found.mean, expected.mean, atol=FLOAT32)
    np.testing.assert_allclose(found.mass, expected.mass, rtol=1e-4)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("far", [1e6, 1e20, 1e160, 1e308])
def test_however_far_a_place_is_it_has_a_mean(kernel: str, far: float) -> None:
    """At 1e6 the nearest row's, though all its weights are 0 in float64; so far out that all are
    equally near, that of all.
    """
    X = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = local_means([[far, 0.0], [0.5, 0.0]], X, [0.0, 5.0, 1.0], [1e-3], kernel=kernel)
    assert found.mean[0].tolist() == [5.0 if far == 1e6 else 2.0, 2.5]
    assert found.mass[0, 0] == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_neither_blocks_nor_threads_nor_company_change_a_bit(kernel: str, monkeypatch) -> None:
    """Bits of a place at a bandwidth follow from it and the rows alone: not from other places,
    other bandwidths, or which are done when.
    """
    at, X, values = sample(1300, 75, 6)
    at[3] *= 1e9
    label_at, label, weight = np.arange(75) % 2, np.arange(1300) % 2, np.linspace(0, 1, 1300)
    options = {"kernel": kernel, "within": label, "weight": weight}
    gammas = [1e-7, 0.05, 0.1, 0.3, 0.2, 0.4, 1.7]
    whole = local_means(at, X, values, gammas, within_at=label_at, **options)
    for pairs, n_jobs in ((1, 1), (3000, 2), (10**9, 2)):
        monkeypatch.setattr(by_features, "PAIRS_PER_BLOCK", pairs)
        same(
            local_means(at, X, values, gammas, within_at=label_at, n_jobs=n_jobs, **options), whole
        )
    some = [3, 70, 8, 41, 3]
    part = local_means(at[some], X, values, gammas[3:5], within_at=label_at[some], **options)
    np.testing.assert_array_equal(part.mean, whole.mean[3:5, some])
    np.testing.assert_array_equal(part.n_eff, whole.n_eff[3:5, some])
    np.testing.assert_array_equal(part.mass, whole.mass[3:5, some])


def test_labels_are_as_if_each_had_its_own_call_and_columns_too() -> None:
    """Where features are what float32 has without rounding around their mean, to the bit."""
    rng = np.random.default_rng(0)
    X, values = rng.integers(-8, 9, (2000, 3)).astype(float), rng.normal(size=(2000, 2))
    X -= np.round(X.mean(axis=0))
    label = rng.integers(-5, 5, 2000)
    found = local_means(X, X, values, [0.5], within_at=label, within=label, leave_one_out=True)
    assert found.mean.shape == (1, 2000, 2)
    for each in (-5, 0, 4):
        own = label == each
        alone = local_means(X[own], X[own], values[own], [0.5], leave_one_out=True)
        np.testing.assert_allclose(found.mean[:, own], alone.mean, atol=FLOAT32)
    for column in range(2):
        one = local_means(
            X, X, values[:, column], [0.5], within_at=label, within=label, leave_one_out=True
        )
        np.testing.assert_array_equal(found.mean[..., column], one.mean)
        np.testing.assert_array_equal(found.n_eff, one.n_eff)


def test_what_all_rows_say_is_what_is_found() -> None:
    """Not the like to 1e-7: a confidence of 1 stays 1."""
    at, X, _ = sample(3000, 50, 7)
    np.testing.assert_array_equal(local_means(at, X, np.ones(3000), GRID).mean, 1)


def test_memory_does_not_grow_with_pairs() -> None:
    """All distances at once would be 1,600 MB in float32."""
    _, X, values = sample(20_000, 1, 2)
    local_means(X[:2], X, values, [0.3])
    with measured() as before:
        pass
    with measured() as during:
        local_means(X, X, values, [0.3])
    assert during.peak_memory_mb - before.peak_memory_mb < 20


@pytest.mark.parametrize(
    "n", [1, 7, kernels.TILE - 1, kernels.TILE, kernels.TILE + 1, 2 * kernels.TILE + 9]
)
def test_tiles_have_ends(n: int) -> None:
    at, X, values = sample(n, 9, 5)
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
                " the places"
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
            "leave_one_out needs the rows themselves as places, got 2 places and 3 rows",
        ),
    ],
)
def test_what_cannot_be_smoothed(change, error, message: str) -> None:
    arguments = {
        "at": np.zeros((2, 2)),
        "X": np.eye(3)[:, :2],
        "values": [0.0, 1.0, 2.0],
        "bandwidths": [1.0],
    }
    with pytest.raises(error, match=f"^{message}$"):
        local_means(**arguments | change)
