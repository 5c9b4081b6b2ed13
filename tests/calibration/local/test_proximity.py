"""ProCal's two maps against scipy's densities in Bayes' rule and against loops over rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import gaussian_kde
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

from kdgraph.calibration.local import BinMeanShift, DensityRatio
from kdgraph.calibration.local.proximity import ProximityCalibrator
from kdgraph.errors import ParameterError
from kdgraph.features import FeatureMap
from tests.calibration.local.conftest import PARENT, ROWS, fit, random_rows

CALIBRATORS = [DensityRatio, BinMeanShift]


def proximity_by_loops(
    queries: np.ndarray, X: np.ndarray, k: int, leave_one_out: bool = False
) -> np.ndarray:
    """Return exp(-mean distance to the k nearest rows / √d) by a loop over rows."""
    proximities = []
    for i, query in enumerate(queries):
        distances = sorted(
            np.sqrt(((query - row) ** 2).sum() / len(row))
            for j, row in enumerate(X)
            if not (leave_one_out and i == j)
        )
        proximities.append(np.exp(-np.mean(distances[:k])))
    return np.array(proximities)


@pytest.mark.parametrize("k", [1, 10, 500])
def test_proximity_is_exp_of_mean_distance_to_nearest_neighbours(k):
    (X, y), (new, _) = random_rows(60), random_rows(20, 1)
    model = fit(BinMeanShift(PARENT, features=ROWS, neighbours=k), X, y)
    np.testing.assert_allclose(
        model.proximity(new), proximity_by_loops(new, X, min(k, 59)), atol=1e-12
    )
    assert (model.proximity(new * 1e3) < 1e-9).any() and model.proximity(new).max() <= 1


def test_proximity_is_to_a_sample_of_the_calibration_rows():
    (X, y), (new, _) = random_rows(200), random_rows(20, 1)

    class Recorded(BinMeanShift):
        def _fit_map(self, confidence, proximity, correct, weight):
            self.proximity_ = proximity
            super()._fit_map(confidence, proximity, correct, weight)

    model = Recorded(PARENT, features=ROWS, neighbours=20, max_reference_rows=50, random_state=0)
    fit(model, X, y)
    reference = model.index_._fit_X
    # 20 of 200 rows are 5 of 50.
    np.testing.assert_allclose(
        model.proximity(new), proximity_by_loops(new, reference, 5), atol=1e-12
    )
    is_reference = (X[:, None] == reference).all(axis=2).any(axis=1)
    assert is_reference.sum() == 50
    np.testing.assert_allclose(
        model.proximity_[is_reference],
        proximity_by_loops(reference, reference, 5, leave_one_out=True),
        atol=1e-12,
    )
    np.testing.assert_allclose(
        model.proximity_[~is_reference],
        proximity_by_loops(X[~is_reference], reference, 5),
        atol=1e-12,
    )


def test_density_ratio_has_the_densities_of_the_sample():
    X, y = random_rows(200)
    model = DensityRatio(PARENT, features=ROWS, max_reference_rows=50, random_state=0)
    (correct, _), (incorrect, _) = fit(model, X, y).points_
    assert correct.shape[1] + incorrect.shape[1] == 50


def test_density_ratio_is_bayes_rule_with_scipy_densities():
    (X, y), (new, _) = random_rows(150), random_rows(40, 1)
    weight = np.random.default_rng(2).integers(1, 4, size=150).astype(float)
    model = fit(
        DensityRatio(PARENT, features=ROWS, neighbours=3), X, y, sample_weight_calibration=weight
    )
    is_correct = X[:, :3].argmax(axis=1) == y
    points = np.stack([X[:, :3].max(axis=1), proximity_by_loops(X, X, 3, leave_one_out=True)])
    query_points = np.stack([new[:, :3].max(axis=1), proximity_by_loops(new, X, 3)])
    accuracy = np.average(is_correct, weights=weight)
    correct_density, incorrect_density = (
        gaussian_kde(points[:, mask], weights=weight[mask])(query_points)
        for mask in (is_correct, ~is_correct)
    )
    expected = (
        accuracy
        * correct_density
        / (accuracy * correct_density + (1 - accuracy) * incorrect_density)
    )
    np.testing.assert_allclose(model.predict_confidence(new), expected, atol=1e-9)
    np.testing.assert_array_equal(model.predict(new), new[:, :3].argmax(axis=1))
    distant = new[:1] * [1, 1, 1, 1e9, 1e9]
    assert 0 <= model.predict_confidence(distant)[0] <= 1


def test_density_ratio_is_accuracy_where_both_densities_vanish():
    X, y = random_rows(60)
    model = fit(DensityRatio(PARENT, features=ROWS), X, y)
    model.points_ = tuple((points * 1e-6 + 1e3, weight) for points, weight in model.points_)
    np.testing.assert_allclose(model.predict_confidence(X), np.mean(X[:, :3].argmax(axis=1) == y))


@pytest.mark.parametrize("n_incorrect", [0, 1, 2])
def test_density_ratio_of_too_few_rows_keeps_parent_confidence(n_incorrect):
    X, _ = random_rows(40)
    y = X[:, :3].argmax(axis=1)
    y[:n_incorrect] = (y[:n_incorrect] + 1) % 3
    with pytest.warns(UserWarning, match="keeps the parent's confidence") as caught:
        model = fit(DensityRatio(PARENT, features=ROWS), X, y)
    assert str(caught[0].message).startswith(
        f"DensityRatio keeps the parent's confidence: {n_incorrect} of 40 calibration rows are"
        " predicted incorrectly"
    )
    assert model.points_ == () and np.array_equal(model.predict_confidence(X), X[:, :3].max(axis=1))


@settings(deadline=None, max_examples=25)
@given(
    st.integers(2, 40),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.integers(0, 10_000),
)
def test_bin_mean_shift_moves_confidence_towards_accuracy(n, proximity_bins, bins, shift, seed):
    (X, y), (new, _) = random_rows(n, seed), random_rows(15, seed + 1)
    weight = np.random.default_rng(seed).integers(1, 4, size=n).astype(float)
    model = BinMeanShift(
        PARENT, features=ROWS, neighbours=3, proximity_bins=proximity_bins, bins=bins, shift=shift
    )
    fit(model, X, y, sample_weight_calibration=weight)
    confidence, is_correct = X[:, :3].max(axis=1), X[:, :3].argmax(axis=1) == y
    row_proximity = proximity_by_loops(X, X, min(3, n - 1), leave_one_out=True)
    rows = quantile_edges(row_proximity, proximity_bins)
    expected = []
    for query, p in zip(new, proximity_by_loops(new, X, min(3, n - 1)), strict=True):
        in_row = [
            j for j in range(n) if bin_by_scan(row_proximity[j], rows) == bin_by_scan(p, rows)
        ]
        columns = quantile_edges(confidence[in_row], bins)
        in_cell = [
            j
            for j in in_row
            if bin_by_scan(confidence[j], columns) == bin_by_scan(query[:3].max(), columns)
        ]
        gap = (
            np.average(is_correct[in_cell] - confidence[in_cell], weights=weight[in_cell])
            if in_cell
            else 0.0
        )
        expected.append(np.clip(query[:3].max() + shift * gap, 0, 1))
    np.testing.assert_allclose(model.predict_confidence(new), expected, atol=1e-9)


def quantile_edges(values: np.ndarray, bins: int) -> list[float]:
    """Return upper edges of bins with equal numbers of values and ties in one bin."""
    order = sorted(values)
    inner = (
        [order[int(np.ceil(j * len(order) / bins)) - 1] for j in range(1, bins)]
        if len(order)
        else []
    )
    return [*sorted({edge for edge in inner if 0 < edge < 1}), 1.0]


def bin_by_scan(value: float, upper: list[float]) -> int:
    """Return the bin (lower, upper] of a value."""
    return next(b for b, edge in enumerate(upper) if value <= edge)


@pytest.mark.parametrize("calibrator", CALIBRATORS)
@pytest.mark.filterwarnings(
    "ignore:.*X_calibration=",  # the parent may be in sample here
    "ignore:DensityRatio keeps the parent's confidence",
)
def test_default_features_are_unreduced_and_tsne_is_refused(calibrator):
    X, y = random_rows(80)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    model = calibrator(FrozenEstimator(forest)).fit(X, y, X_calibration=X, y_calibration=y)
    leaves = FeatureMap(reduce="none").fit(forest, X).transform(forest, X)
    np.testing.assert_allclose(
        model.proximity(X[:5]), proximity_by_loops(leaves[:5], leaves, 10), atol=1e-7
    )  # equal rows: the square root of a rounding error
    with pytest.raises(ParameterError) as caught:
        fit(calibrator(PARENT, features=FeatureMap(reduce="tsne")), X, y)
    assert (
        str(caught.value)
        == "features.reduce=tsne has no place for new rows, which need neighbours; use none, pca or"
        " umap"
    )


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_fill_proba_adds_predict_proba(calibrator):
    X, y = random_rows(100)
    model = fit(calibrator(PARENT, features=ROWS, fill_proba=True), X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(
        model.predict_proba(X)[np.arange(100), X[:, :3].argmax(axis=1)], model.predict_confidence(X)
    )
    assert not hasattr(fit(calibrator(PARENT, features=ROWS), X, y), "predict_proba")


@pytest.mark.parametrize("calibrator", CALIBRATORS)
def test_predictions_do_not_depend_on_other_rows(calibrator):
    (X, y), (new, _) = random_rows(200), random_rows(60, 1)
    model = fit(calibrator(PARENT, features=ROWS), X, y)
    by_row = np.concatenate([model.predict_confidence(new[i : i + 1]) for i in range(60)])
    np.testing.assert_allclose(by_row, model.predict_confidence(new), rtol=0, atol=1e-12)


def test_no_paper_protocol_is_needed():
    assert [calibrator(PARENT).paper_protocol for calibrator in CALIBRATORS] == [
        None,
        None,
    ] and issubclass(DensityRatio, ProximityCalibrator)
