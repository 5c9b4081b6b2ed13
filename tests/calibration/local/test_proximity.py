"""ProCal's two maps, against scipy's densities put together by hand and against loops over rows."""

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
from tests.calibration.local.conftest import PARENT, ROWS, drawn, fit

KINDS = [DensityRatio, BinMeanShift]


def proximity(at: np.ndarray, X: np.ndarray, k: int, leave_one_out: bool = False) -> np.ndarray:
    """Row by row: exp(-mean distance to the k nearest / √d)."""
    found = []
    for i, place in enumerate(at):
        distances = sorted(
            np.sqrt(((place - row) ** 2).sum() / len(row))
            for j, row in enumerate(X)
            if not (leave_one_out and i == j)
        )
        found.append(np.exp(-np.mean(distances[:k])))
    return np.array(found)


@pytest.mark.parametrize("k", [1, 10, 500])
def test_proximity_is_of_the_mean_distance_to_the_nearest(k):
    (X, y), (new, _) = drawn(60), drawn(20, 1)
    model = fit(BinMeanShift(PARENT, features=ROWS, neighbours=k), X, y)
    np.testing.assert_allclose(model.proximity(new), proximity(new, X, min(k, 59)), atol=1e-12)
    assert (model.proximity(new * 1e3) < 1e-9).any() and model.proximity(new).max() <= 1


def test_a_density_ratio_is_bayes_rule_with_scipys_densities():
    (X, y), (new, _) = drawn(150), drawn(40, 1)
    weight = np.random.default_rng(2).integers(1, 4, size=150).astype(float)
    model = fit(
        DensityRatio(PARENT, features=ROWS, neighbours=3), X, y, sample_weight_calibration=weight
    )
    right = X[:, :3].argmax(axis=1) == y
    points = np.stack([X[:, :3].max(axis=1), proximity(X, X, 3, leave_one_out=True)])
    at = np.stack([new[:, :3].max(axis=1), proximity(new, X, 3)])
    share = np.average(right, weights=weight)
    of_right, of_wrong = (
        gaussian_kde(points[:, kind], weights=weight[kind])(at) for kind in (right, ~right)
    )
    expected = share * of_right / (share * of_right + (1 - share) * of_wrong)
    np.testing.assert_allclose(model.predict_confidence(new), expected, atol=1e-9)
    np.testing.assert_array_equal(model.predict(new), new[:, :3].argmax(axis=1))
    far = new[:1] * [1, 1, 1, 1e9, 1e9]
    assert 0 <= model.predict_confidence(far)[0] <= 1


def test_where_neither_density_reaches_it_is_the_share_of_right_rows():
    X, y = drawn(60)
    model = fit(DensityRatio(PARENT, features=ROWS), X, y)
    model.points_ = tuple((points * 1e-6 + 1e3, weight) for points, weight in model.points_)
    np.testing.assert_allclose(model.predict_confidence(X), np.mean(X[:, :3].argmax(axis=1) == y))


@pytest.mark.parametrize("few", [0, 1, 2])
def test_too_few_rows_of_a_kind_leave_the_parents_confidence(few):
    X, _ = drawn(40)
    y = X[:, :3].argmax(axis=1)
    y[:few] = (y[:few] + 1) % 3
    model = fit(DensityRatio(PARENT, features=ROWS), X, y)
    assert model.points_ == () and np.array_equal(model.predict_confidence(X), X[:, :3].max(axis=1))


@settings(deadline=None, max_examples=25)
@given(
    st.integers(2, 40),
    st.integers(1, 4),
    st.integers(1, 4),
    st.sampled_from([0.1, 0.5, 1.0]),
    st.integers(0, 10_000),
)
def test_a_shift_goes_part_of_the_way_from_confidence_to_the_share_right(
    n, proximity_bins, bins, shift, seed
):
    (X, y), (new, _) = drawn(n, seed), drawn(15, seed + 1)
    weight = np.random.default_rng(seed).integers(1, 4, size=n).astype(float)
    model = BinMeanShift(
        PARENT, features=ROWS, neighbours=3, proximity_bins=proximity_bins, bins=bins, shift=shift
    )
    fit(model, X, y, sample_weight_calibration=weight)
    said, right = X[:, :3].max(axis=1), X[:, :3].argmax(axis=1) == y
    near = proximity(X, X, min(3, n - 1), leave_one_out=True)
    rows = quantile_bins(near, proximity_bins)
    expected = []
    for place, p in zip(new, proximity(new, X, min(3, n - 1)), strict=True):
        mine = [j for j in range(n) if cell(near[j], rows) == cell(p, rows)]
        columns = quantile_bins(said[mine], bins)
        same = [j for j in mine if cell(said[j], columns) == cell(place[:3].max(), columns)]
        gap = np.average(right[same] - said[same], weights=weight[same]) if same else 0.0
        expected.append(np.clip(place[:3].max() + shift * gap, 0, 1))
    np.testing.assert_allclose(model.predict_confidence(new), expected, atol=1e-9)


def quantile_bins(values: np.ndarray, bins: int) -> list[float]:
    """Upper edges of bins with equal shares of the values, ties together."""
    order = sorted(values)
    inner = (
        [order[int(np.ceil(j * len(order) / bins)) - 1] for j in range(1, bins)]
        if len(order)
        else []
    )
    return [*sorted({edge for edge in inner if 0 < edge < 1}), 1.0]


def cell(value: float, upper: list[float]) -> int:
    """(lower, upper]."""
    return next(b for b, edge in enumerate(upper) if value <= edge)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore:.*X_calibration=")  # the parent may be in sample here
def test_features_are_what_the_parent_sees_as_it_is_unless_a_map_is_given(kind):
    X, y = drawn(80)
    forest = RandomForestClassifier(10, random_state=0).fit(X, y)
    model = kind(FrozenEstimator(forest)).fit(X, y, X_calibration=X, y_calibration=y)
    leaves = FeatureMap(reduce="none").fit(forest, X).transform(forest, X)
    np.testing.assert_allclose(
        model.proximity(X[:5]), proximity(leaves[:5], leaves, 10), atol=1e-7
    )  # of equal rows: a root of round-off
    with pytest.raises(ParameterError) as caught:
        fit(kind(PARENT, features=FeatureMap(reduce="tsne")), X, y)
    assert (
        str(caught.value)
        == "features.reduce=tsne has no place for new rows, which need neighbours; use none, pca or"
        " umap"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_probabilities_are_asked_for(kind):
    X, y = drawn(100)
    model = fit(kind(PARENT, features=ROWS, fill_proba=True), X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1, atol=1e-12)
    np.testing.assert_array_equal(
        model.predict_proba(X)[np.arange(100), X[:, :3].argmax(axis=1)], model.predict_confidence(X)
    )
    assert not hasattr(fit(kind(PARENT, features=ROWS), X, y), "predict_proba")


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_said_of_a_row_depends_on_no_other(kind):
    (X, y), (new, _) = drawn(200), drawn(60, 1)
    model = fit(kind(PARENT, features=ROWS), X, y)
    apart = np.concatenate([model.predict_confidence(new[i : i + 1]) for i in range(60)])
    np.testing.assert_allclose(apart, model.predict_confidence(new), rtol=0, atol=1e-12)


def test_neither_of_them_is_fitted_on_test_rows_in_its_paper():
    assert [kind(PARENT).paper_protocol for kind in KINDS] == [None, None] and issubclass(
        DensityRatio, ProximityCalibrator
    )
