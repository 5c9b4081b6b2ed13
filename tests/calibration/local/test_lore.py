"""LoRe against Luo et al.'s Eq. 6 as two loops, and its limits: histogram binning and the nearest
neighbour.
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
from kdgraph.calibration.local import LocalClassShares, LocalRecalibration
from kdgraph.calibration.top_label import HistogramBinning
from kdgraph.errors import ParameterError
from kdgraph.features import FeatureMap
from kdgraph.geometry import partition_of
from kdgraph.smoothing.neighbours import draw_reference_rows
from tests.calibration.local.conftest import (
    PARENT,
    ROWS,
    average_by_loops,
    bin_by_scan,
    fit,
    gaussian,
    laplacian,
    random_rows,
)

KERNELS = {"laplacian": laplacian, "gaussian": gaussian}


def correct(X, y) -> np.ndarray:
    return (X[:, :3].argmax(axis=1) == y).astype(float)


def lore(**options) -> LocalRecalibration:
    return LocalRecalibration(PARENT, **{"features": ROWS, "random_state": 0, **options})


def row_kernel(kernel: str, queries: np.ndarray, X: np.ndarray, gamma: float):
    return lambda i, j: KERNELS[kernel](queries[i], X[j], gamma)


@settings(deadline=None, max_examples=40)
@given(
    st.integers(1, 30),
    st.integers(1, 12),
    st.sampled_from([0.3, 1.0, 10.0]),
    st.sampled_from(["laplacian", "gaussian"]),
    st.booleans(),
    st.integers(0, 10_000),
)
def test_confidence_is_eq_6(n, bins, gamma, kernel, weighted, seed):
    (X, y), (new, _) = random_rows(n, seed), random_rows(12, seed + 1)
    weight = (
        np.random.default_rng(seed).integers(0, 3, size=n).astype(float) if weighted else np.ones(n)
    )
    weight[0] = 1.0
    model = fit(
        lore(kernel=kernel, bandwidth=gamma, bins=bins), X, y, sample_weight_calibration=weight
    )
    expected = average_by_loops(
        new, X, correct(X, y), row_kernel(kernel, new, X, gamma), bins, weight
    )
    np.testing.assert_allclose(
        model.predict_confidence(new), expected, atol=1e-5
    )  # distances are in single precision
    np.testing.assert_array_equal(model.predict(new), new[:, :3].argmax(axis=1))


@pytest.mark.parametrize("kernel", ["laplacian", "geodesic"])
def test_a_sample_of_the_calibration_rows_is_averaged(kernel):
    (X, y), (new, _) = random_rows(200, 3), random_rows(30, 4)
    forest = RandomForestClassifier(10, random_state=0).fit(*random_rows(100, 5))
    options = {"features": ROWS, "random_state": 0, "kernel": kernel}
    parent = FrozenEstimator(forest)
    model = fit(LocalRecalibration(parent, max_reference_rows=60, **options), X, y)
    rows = draw_reference_rows(200, 60, 0)
    expected = fit(LocalRecalibration(parent, **options), X[rows], y[rows])
    assert len(model.neighbours_.values) == 60 and model.bandwidth_ == expected.bandwidth_
    np.testing.assert_array_equal(model.predict_confidence(new), expected.predict_confidence(new))


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
@pytest.mark.parametrize("bins", [1, 5, 15])
def test_wide_bandwidth_is_histogram_binning(kernel, bins):
    (X, y), (new, _) = random_rows(300), random_rows(200, 1)
    confidence = fit(lore(kernel=kernel, bandwidth=1e9, bins=bins), X, y).predict_confidence(new)
    histogram = fit(HistogramBinning(PARENT, by_class=False, bins=bins), X, y)
    in_used_bin = np.isin(
        [bin_by_scan(p, bins) for p in new[:, :3].max(axis=1)],
        [bin_by_scan(p, bins) for p in X[:, :3].max(axis=1)],
    )
    assert in_used_bin.sum() > 190
    np.testing.assert_allclose(
        confidence[in_used_bin], histogram.predict_confidence(new)[in_used_bin], atol=1e-7
    )  # weights are within 1e-8 of 1


@pytest.mark.parametrize("calibrator", [LocalRecalibration, LocalClassShares])
def test_bins_of_equal_mass_have_equal_numbers_of_calibration_rows(calibrator):
    (X, y), (new, _) = random_rows(300), random_rows(200, 1)
    options = {"features": ROWS, "bandwidth": 1e9, "bins": 5, "random_state": 0}
    model = fit(calibrator(PARENT, strategy="mass", **options), X, y)
    confidence, edges = X[:, :3].max(axis=1), model.neighbours_.edges
    in_bin = (edges[:-1] < confidence[:, None]) & (confidence[:, None] <= edges[1:])
    assert in_bin.sum(axis=0).tolist() == [60] * 5
    chosen = fit(calibrator(PARENT, strategy="mass", features=ROWS, bins="cv"), X, y)
    assert len(chosen.neighbours_.edges) == chosen.bins_ + 1
    if calibrator is LocalRecalibration:  # at this bandwidth it is histogram binning
        histogram = HistogramBinning(PARENT, by_class=False, bins=5, strategy="mass")
        np.testing.assert_allclose(
            model.predict_confidence(new),
            fit(histogram, X, y).predict_confidence(new),
            atol=1e-7,  # weights are within 1e-8 of 1
        )
    with pytest.raises(ParameterError, match="strategy must be one of uniform, mass, got 'rows'"):
        fit(calibrator(PARENT, strategy="rows", **options), X, y)


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
def test_narrow_bandwidth_is_nearest_neighbour_in_the_bin(kernel):
    (X, y), (new, _) = random_rows(200), random_rows(60, 1)
    confidence = fit(lore(kernel=kernel, bandwidth=1e-9, bins=5), X, y).predict_confidence(new)
    is_correct = correct(X, y)
    for query, predicted in zip(new, confidence, strict=True):
        in_bin = [
            j
            for j in range(200)
            if bin_by_scan(X[j, :3].max(), 5) == bin_by_scan(query[:3].max(), 5)
        ]
        order = 1 if kernel == "laplacian" else 2
        nearest = (
            min(in_bin, key=lambda j: np.linalg.norm(X[j] - query, ord=order)) if in_bin else None
        )
        assert predicted == (query[:3].max() if nearest is None else is_correct[nearest])


def test_equidistant_rows_are_averaged():
    X, y = random_rows(8)
    X[:, :3], y[:] = [0.1, 0.2, 0.7], [2, 0, 2, 2, 0, 0, 0, 0]
    X[:4, 3:], X[4:, 3:] = 1.0, 5.0
    assert fit(lore(bandwidth=1e-9), X, y).predict_confidence(X[:1]).tolist() == [0.75]


def test_group_kernel_is_histogram_binning_by_group():
    (X, y), (new, _) = random_rows(400), random_rows(150, 1)
    groups, new_groups = (
        np.random.default_rng(seed).integers(3, size=n) for seed, n in ((2, 400), (3, 150))
    )
    model = fit(lore(kernel="group", bins=5), X, y, groups_calibration=groups)
    by_group = fit(
        GroupWise(PARENT, HistogramBinning(None, by_class=False, bins=5)),
        X,
        y,
        groups_calibration=groups,
    )
    cells = {(g, bin_by_scan(p, 5)) for g, p in zip(groups, X[:, :3].max(axis=1), strict=True)}
    in_used_cell = np.array(
        [
            (g, bin_by_scan(p, 5)) in cells
            for g, p in zip(new_groups, new[:, :3].max(axis=1), strict=True)
        ]
    )
    assert in_used_cell.sum() > 140
    confidence, expected = (
        calibrator.predict_confidence(new, new_groups) for calibrator in (model, by_group)
    )
    np.testing.assert_allclose(confidence[in_used_cell], expected[in_used_cell], rtol=0, atol=1e-15)
    np.testing.assert_allclose(
        confidence,
        group_average_by_loops(new, new_groups, X, groups, correct(X, y), bins=5),
        rtol=0,
        atol=1e-15,
    )  # also where a group has no row in the bin
    assert model.groups_.tolist() == [0, 1, 2] and model.takes_groups and not lore().takes_groups


def group_average_by_loops(new, new_groups, X, groups, values, bins):
    return average_by_loops(new, X, values, lambda i, j: float(new_groups[i] == groups[j]), bins)


def test_unknown_or_missing_groups_have_the_mean_of_the_bin():
    (X, y), (new, _) = random_rows(300), random_rows(40, 1)
    names = np.array(["Ada", "Bob"])[np.arange(300) % 2]
    model = fit(lore(kernel="group", bins=5), X, y, groups_calibration=names)
    expected = average_by_loops(new, X, correct(X, y), lambda i, j: 1.0, 5)
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


def test_group_kernel_requires_groups_for_all_rows():
    X, y = random_rows(30)
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
def test_geodesic_kernel_is_a_power_of_the_similarity(gamma):
    X, y = make_moons(260, noise=0.3, random_state=0)
    forest = RandomForestClassifier(20, max_depth=4, random_state=0).fit(X[:100], y[:100])
    new, X, y = X[100:130], X[130:], y[130:]
    model = LocalRecalibration(
        FrozenEstimator(forest), kernel="geodesic", bandwidth=gamma, bins=5, random_state=0
    )
    model.fit(X, y, X_calibration=X, y_calibration=y)
    codes, new_codes, K = forest.apply(X), forest.apply(new), np.empty((30, 130))
    for i, j in np.ndindex(30, 130):
        K[i, j] = sum(a == b for a, b in zip(new_codes[i], codes[j], strict=True)) / 20
    padded = [
        np.column_stack([forest.predict_proba(rows), np.zeros(len(rows))]) for rows in (new, X)
    ]
    expected = average_by_loops(
        *padded, (forest.predict(X) == y).astype(float), lambda i, j: K[i, j] ** (1 / gamma), 5
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


def test_n_eff_is_kish_effective_sample_size():
    (X, y), (new, _) = random_rows(80), random_rows(20, 1)
    weight = np.arange(80) % 3 + 1.0
    model = fit(lore(bandwidth=0.5, bins=3), X, y, sample_weight_calibration=weight)
    for query, n_eff in zip(new, model.predict_n_eff(new), strict=True):
        in_bin = [
            j
            for j in range(80)
            if bin_by_scan(X[j, :3].max(), 3) == bin_by_scan(query[:3].max(), 3)
        ]
        w = np.array([weight[j] * laplacian(query, X[j], 0.5) for j in in_bin])
        assert n_eff == pytest.approx(w.sum() ** 2 / (w**2).sum() if in_bin else 0.0, rel=1e-4)


def test_describe_has_bandwidth_bins_n_eff_and_fallbacks():
    X, y = random_rows(80)
    X[0, :3] = [0.02, 0.0, 0.98]  # alone in its bin
    X[1:, :3] = X[1:, :3] * 0.5 + 0.5 / 3
    model = fit(lore(bandwidth=0.5, bins=5), X, y)
    assert model.describe() == {
        "bandwidth": 0.5,
        "bins": 5,
        "n_eff": model.n_eff_,
        "fallback": {"bin": 0, "confidence": 1},
    }
    fallbacks = average_by_loops(X, X, np.zeros(80), lambda i, j: 1.0, 5, leave_one_out=True)
    assert fallbacks[0] == 0.98 and model.brier_ is None and 1 < model.n_eff_ < 79


def test_row_alone_in_all_leaves_falls_back_to_its_bin():
    forest = RandomForestClassifier(3, bootstrap=False, max_features=None, random_state=0)
    X = np.arange(6.0)[:, None]
    forest.fit(X, [0, 1, 0, 1, 0, 1])  # a leaf for each row
    model = LocalRecalibration(FrozenEstimator(forest), kernel="geodesic", bandwidth=1.0, bins=1)
    model.fit(X, [0, 1] * 3, X_calibration=X[:4], y_calibration=[0, 0, 0, 1])
    assert model.fallback_ == {"bin": 4, "confidence": 0} and model.n_eff_ == 0
    assert model.predict_confidence(X).tolist() == [1, 0, 1, 1, 0.75, 0.75]
    assert model.predict_n_eff(X).tolist() == [1, 1, 1, 1, 0, 0]


def test_fill_proba_adds_predict_proba():
    X, y = random_rows(100)
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
def test_predictions_do_not_depend_on_threads_or_other_rows(options):
    (X, y), (new, _) = random_rows(400), random_rows(300, 1)
    single, threaded = (fit(lore(n_jobs=n_jobs, **options), X, y) for n_jobs in (1, 2))
    assert (single.bandwidth_, single.bins_) == (threaded.bandwidth_, threaded.bins_)
    together = single.predict_confidence(new)
    assert np.array_equal(together, threaded.predict_confidence(new))
    assert np.array_equal(together, fit(clone(single), X, y).predict_confidence(new))
    by_row = np.concatenate([single.predict_confidence(new[i : i + 1]) for i in range(0, 300, 10)])
    if "features" not in options:  # without a matrix product the order of sums is fixed
        assert np.array_equal(by_row, together[::10])
    np.testing.assert_allclose(by_row, together[::10], atol=1e-9)


def test_feature_map_is_cloned_and_seeded():
    X, y = random_rows(100)
    feature_map = FeatureMap(source="rows", dimensions=2)
    model = fit(lore(features=feature_map), X, y)
    assert not hasattr(feature_map, "unit_") and feature_map.random_state is None
    assert isinstance(model.map_.random_state, int)
    assert fit(lore(features=FeatureMap(random_state=7)), X, y).map_.random_state == 7
