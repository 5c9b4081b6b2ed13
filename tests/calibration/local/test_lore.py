"""Local recalibration against Luo et al.'s Eq. 6 as two loops, and its two limits: histogram
binning and the nearest neighbour.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph.calibration import GroupWise
from kdgraph.calibration.local import LocalRecalibration
from kdgraph.calibration.top_label import HistogramBinning
from kdgraph.features import FeatureMap
from kdgraph.geometry import partition_of
from tests.calibration.local.conftest import (
    PARENT,
    ROWS,
    bin_of,
    drawn,
    fit,
    gaussian,
    laplacian,
    naive,
)

KERNELS = {"laplacian": laplacian, "gaussian": gaussian}


def correct(X, y) -> np.ndarray:
    return (X[:, :3].argmax(axis=1) == y).astype(float)


def lore(**options) -> LocalRecalibration:
    return LocalRecalibration(PARENT, **{"features": ROWS, "random_state": 0, **options})


def of_rows(kernel: str, at: np.ndarray, X: np.ndarray, gamma: float):
    return lambda i, j: KERNELS[kernel](at[i], X[j], gamma)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 30),
    st.integers(1, 12),
    st.sampled_from([0.3, 1.0, 10.0]),
    st.sampled_from(["laplacian", "gaussian"]),
    st.booleans(),
    st.integers(0, 10_000),
)
def test_lore_matches_equation_6(n, bins, gamma, kernel, weighted, seed):
    (X, y), (new, _) = drawn(n, seed), drawn(12, seed + 1)
    weight = (
        np.random.default_rng(seed).integers(0, 3, size=n).astype(float) if weighted else np.ones(n)
    )
    weight[0] = 1.0
    model = fit(
        lore(kernel=kernel, bandwidth=gamma, bins=bins), X, y, sample_weight_calibration=weight
    )
    expected = naive(new, X, correct(X, y), of_rows(kernel, new, X, gamma), bins, weight)
    np.testing.assert_allclose(
        model.predict_confidence(new), expected, atol=1e-5
    )  # distances are of single precision
    np.testing.assert_array_equal(model.predict(new), new[:, :3].argmax(axis=1))


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
@pytest.mark.parametrize("bins", [1, 5, 15])
def test_large_bandwidth_gives_histogram_binning(kernel, bins):
    (X, y), (new, _) = drawn(300), drawn(200, 1)
    confidence = fit(lore(kernel=kernel, bandwidth=1e9, bins=bins), X, y).predict_confidence(new)
    histogram = fit(HistogramBinning(PARENT, by_class=False, bins=bins), X, y)
    taken = np.isin(
        [bin_of(p, bins) for p in new[:, :3].max(axis=1)],
        [bin_of(p, bins) for p in X[:, :3].max(axis=1)],
    )
    assert taken.sum() > 190
    np.testing.assert_allclose(
        confidence[taken], histogram.predict_confidence(new)[taken], atol=1e-7
    )  # weights are within 1e-8 of 1


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
def test_small_bandwidth_gives_nearest_neighbour_in_the_bin(kernel):
    (X, y), (new, _) = drawn(200), drawn(60, 1)
    confidence = fit(lore(kernel=kernel, bandwidth=1e-9, bins=5), X, y).predict_confidence(new)
    right = correct(X, y)
    for place, said in zip(new, confidence, strict=True):
        same = [j for j in range(200) if bin_of(X[j, :3].max(), 5) == bin_of(place[:3].max(), 5)]
        order = 1 if kernel == "laplacian" else 2
        nearest = min(same, key=lambda j: np.linalg.norm(X[j] - place, ord=order)) if same else None
        assert said == (place[:3].max() if nearest is None else right[nearest])


def test_equally_near_rows_share():
    X, y = drawn(8)
    X[:, :3], y[:] = [0.1, 0.2, 0.7], [2, 0, 2, 2, 0, 0, 0, 0]
    X[:4, 3:], X[4:, 3:] = 1.0, 5.0
    assert fit(lore(bandwidth=1e-9), X, y).predict_confidence(X[:1]).tolist() == [0.75]


def test_the_kernel_of_groups_is_histogram_binning_group_by_group():
    (X, y), (new, _) = drawn(400), drawn(150, 1)
    groups, of_new = (
        np.random.default_rng(seed).integers(3, size=n) for seed, n in ((2, 400), (3, 150))
    )
    local = fit(lore(kernel="group", bins=5), X, y, groups_calibration=groups)
    by_group = fit(
        GroupWise(PARENT, HistogramBinning(None, by_class=False, bins=5)),
        X,
        y,
        groups_calibration=groups,
    )
    cells = {(g, bin_of(p, 5)) for g, p in zip(groups, X[:, :3].max(axis=1), strict=True)}
    known = np.array(
        [(g, bin_of(p, 5)) in cells for g, p in zip(of_new, new[:, :3].max(axis=1), strict=True)]
    )
    assert known.sum() > 140
    found, expected = (model.predict_confidence(new, of_new) for model in (local, by_group))
    np.testing.assert_allclose(found[known], expected[known], rtol=0, atol=1e-15)
    np.testing.assert_allclose(
        found, naive_groups(new, of_new, X, groups, correct(X, y), bins=5), rtol=0, atol=1e-15
    )  # also where a group has no row in the bin
    assert local.groups_.tolist() == [0, 1, 2] and local.takes_groups and not lore().takes_groups


def naive_groups(new, of_new, X, groups, values, bins):
    return naive(new, X, values, lambda i, j: float(of_new[i] == groups[j]), bins)


def test_unknown_groups_use_the_whole_bin():
    (X, y), (new, _) = drawn(300), drawn(40, 1)
    names = np.array(["Ada", "Bob"])[np.arange(300) % 2]
    model = fit(lore(kernel="group", bins=5), X, y, groups_calibration=names)
    expected = naive(new, X, correct(X, y), lambda i, j: 1.0, 5)
    np.testing.assert_allclose(model.predict_confidence(new), expected, atol=1e-15)
    np.testing.assert_allclose(
        model.predict_confidence(new, np.full(40, "Cyd")), expected, atol=1e-15
    )
    mixed = model.predict_confidence(new, np.where(np.arange(40) < 20, "Cyd", "Ada"))
    np.testing.assert_allclose(mixed[:20], expected[:20], atol=1e-15)
    assert (mixed[20:] != expected[20:]).any()
    assert (model.predict_n_eff(new) == 0).all() and (
        model.predict_n_eff(new, np.full(40, "Ada")) > 0
    ).any()


def test_groups_are_required_for_all_rows():
    X, y = drawn(30)
    with pytest.raises(
        ValueError,
        match=(
            r"^LocalRecalibration with kernel=group needs the groups of the calibration rows:"
            r" groups_calibration$"
        ),
    ):
        fit(lore(kernel="group"), X, y)
    model = fit(lore(kernel="group"), X, y, groups_calibration=np.zeros(30, dtype=int))
    with pytest.raises(
        ValueError, match=r"^groups must have one for each of 30 rows, got shape \(7,\)$"
    ):
        model.predict_confidence(X, np.zeros(7, dtype=int))


@pytest.mark.parametrize("gamma", [0.05, 0.5, 5.0])
def test_the_geodesic_kernel_is_a_power_of_the_similarity(gamma):
    X, y = make_moons(260, noise=0.3, random_state=0)
    forest = RandomForestClassifier(20, max_depth=4, random_state=0).fit(X[:100], y[:100])
    new, X, y = X[100:130], X[130:], y[130:]
    model = LocalRecalibration(
        FrozenEstimator(forest), kernel="geodesic", bandwidth=gamma, bins=5, random_state=0
    )
    model.fit(X, y, X_calibration=X, y_calibration=y)
    codes, of_new, K = forest.apply(X), forest.apply(new), np.empty((30, 130))
    for i, j in np.ndindex(30, 130):
        K[i, j] = sum(a == b for a, b in zip(of_new[i], codes[j], strict=True)) / 20
    as_told = [
        np.column_stack([forest.predict_proba(rows), np.zeros(len(rows))]) for rows in (new, X)
    ]
    expected = naive(
        *as_told, (forest.predict(X) == y).astype(float), lambda i, j: K[i, j] ** (1 / gamma), 5
    )
    np.testing.assert_allclose(model.predict_confidence(new), expected, atol=1e-12)
    assert model.map_ is None


def test_geodesic_kernel_of_a_network_uses_hidden_units_only():
    from kdgraph.parents.networks import MultilayerPerceptron

    X, y = make_moons(120, noise=0.3, random_state=0)
    network = MultilayerPerceptron(
        hidden=(6,), max_epochs=5, patience=None, device="cpu", random_state=0
    ).fit(X, y)
    model = LocalRecalibration(FrozenEstimator(network), kernel="geodesic", bandwidth=0.5, bins=1)
    model.fit(X, y, X_calibration=X, y_calibration=y)
    partition = partition_of(network, output_bits=False)
    weight = partition.similarity(partition.encode(X[:10]), partition.encode(X)) ** 2
    expected = weight @ (network.predict(X) == y) / weight.sum(axis=1)
    np.testing.assert_allclose(model.predict_confidence(X[:10]), expected, atol=1e-12)


def test_n_eff_is_kishs():
    (X, y), (new, _) = drawn(80), drawn(20, 1)
    weight = np.arange(80) % 3 + 1.0
    model = fit(lore(bandwidth=0.5, bins=3), X, y, sample_weight_calibration=weight)
    for place, found in zip(new, model.predict_n_eff(new), strict=True):
        same = [j for j in range(80) if bin_of(X[j, :3].max(), 3) == bin_of(place[:3].max(), 3)]
        w = np.array([weight[j] * laplacian(place, X[j], 0.5) for j in same])
        assert found == pytest.approx(w.sum() ** 2 / (w**2).sum() if same else 0.0, rel=1e-4)


def test_summary_contains_bins_and_bandwidth():
    X, y = drawn(80)
    X[0, :3] = [0.02, 0.0, 0.98]  # alone in its bin
    X[1:, :3] = X[1:, :3] * 0.5 + 0.5 / 3
    model = fit(lore(bandwidth=0.5, bins=5), X, y)
    assert model.describe() == {
        "bandwidth": 0.5,
        "bins": 5,
        "n_eff": model.n_eff_,
        "fallback": {"bin": 0, "confidence": 1},
    }
    own = naive(X, X, np.zeros(80), lambda i, j: 1.0, 5, leave_one_out=True)
    assert own[0] == 0.98 and model.brier_ is None and 1 < model.n_eff_ < 79


def test_row_without_shared_leaves_falls_back_to_its_bin():
    forest = RandomForestClassifier(3, bootstrap=False, max_features=None, random_state=0)
    X = np.arange(6.0)[:, None]
    forest.fit(X, [0, 1, 0, 1, 0, 1])  # a leaf for each row
    model = LocalRecalibration(FrozenEstimator(forest), kernel="geodesic", bandwidth=1.0, bins=1)
    model.fit(X, [0, 1] * 3, X_calibration=X[:4], y_calibration=[0, 0, 0, 1])
    assert model.fallback_ == {"bin": 4, "confidence": 0} and model.n_eff_ == 0
    assert model.predict_confidence(X).tolist() == [1, 0, 1, 1, 0.75, 0.75]
    assert model.predict_n_eff(X).tolist() == [1, 1, 1, 1, 0, 0]


def test_fill_proba_adds_rows_of_probabilities():
    X, y = drawn(100)
    model = fit(lore(bandwidth=0.5, fill_proba=True), X, y)
    proba = model.predict_proba(X)
    np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(
        proba[np.arange(100), X[:, :3].argmax(axis=1)], model.predict_confidence(X)
    )
    assert not hasattr(fit(lore(bandwidth=0.5), X, y), "predict_proba")


@pytest.mark.parametrize(
    "options", [{}, {"kernel": "gaussian", "bins": "cv"}, {"features": None}], ids=str
)
def test_the_number_of_threads_and_of_rows_changes_nothing(options):
    (X, y), (new, _) = drawn(400), drawn(300, 1)
    one, two = (fit(lore(n_jobs=n_jobs, **options), X, y) for n_jobs in (1, 2))
    assert (one.bandwidth_, one.bins_) == (two.bandwidth_, two.bins_)
    together = one.predict_confidence(new)
    assert np.array_equal(together, two.predict_confidence(new))
    assert np.array_equal(together, fit(clone(one), X, y).predict_confidence(new))
    apart = np.concatenate([one.predict_confidence(new[i : i + 1]) for i in range(0, 300, 10)])
    if "features" not in options:  # nothing is multiplied, so nothing is added in another order
        assert np.array_equal(apart, together[::10])
    np.testing.assert_allclose(apart, together[::10], atol=1e-9)


def test_feature_map_is_cloned_and_seeded():
    X, y = drawn(100)
    given = FeatureMap(source="rows", dimensions=2)
    model = fit(lore(features=given), X, y)
    assert not hasattr(given, "unit_") and given.random_state is None
    assert isinstance(model.map_.random_state, int)
    assert fit(lore(features=FeatureMap(random_state=7)), X, y).map_.random_state == 7
