"""Outcomes of neighbours against scikit-learn's regression and a loop over rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor

from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.errors import ParameterError
from kdgraph.parents import NearestNeighbourRegressor
from kdgraph.persistence import from_bytes, to_bytes


@pytest.fixture(scope="module")
def regression_rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) * [1.0, 50.0]
    return X, X[:, 0] + rng.normal(size=300)


@pytest.mark.parametrize("kernel", ["uniform", "epanechnikov", "gaussian"])
def test_mean_matches_k_neighbors_regressor(regression_rows, kernel):
    X, y = regression_rows
    weights = {
        "uniform": "uniform",
        "epanechnikov": lambda d: 1 - (d / d[:, -1:]) ** 2,
        "gaussian": lambda d: np.exp(-((d / d[:, -1:]) ** 2) / 2),
    }
    expected = KNeighborsRegressor(20, weights=weights[kernel]).fit(X / X.std(axis=0), y)
    query = X[:50] + 0.1
    np.testing.assert_allclose(
        NearestNeighbourRegressor(k=20, kernel=kernel).fit(X, y).predict(query),
        expected.predict(query / X.std(axis=0)),
        rtol=1e-9,
    )
    raw = KNeighborsRegressor(20, weights=weights[kernel]).fit(X, y)
    np.testing.assert_allclose(
        NearestNeighbourRegressor(k=20, kernel=kernel, scale="none").fit(X, y).predict(query),
        raw.predict(query),
        rtol=1e-9,
    )


def test_distribution_matches_a_loop_over_rows(regression_rows):
    X, y = regression_rows
    distribution = NearestNeighbourRegressor(k=15).fit(X, y).predict_dist(X[:20] + 0.1)
    for i, point in enumerate(X[:20] + 0.1):
        distance = np.linalg.norm((X - point) / X.std(axis=0), axis=1)
        neighbours = np.argsort(distance)[:15]
        weight = 1 - (distance[neighbours] / distance[neighbours[-1]]) ** 2
        assert distribution.cdf(np.full(20, 0.3))[i] == pytest.approx(
            (weight * (y[neighbours] <= 0.3)).sum() / weight.sum()
        )


def test_prediction_of_a_row_does_not_depend_on_other_rows_or_saving(regression_rows):
    X, y = regression_rows
    neighbours = NearestNeighbourRegressor(k=15).fit(X, y)
    together = neighbours.predict_dist(X).ppf(0.3)
    np.testing.assert_array_equal(
        np.concatenate([neighbours.predict_dist(X[i : i + 1]).ppf(0.3) for i in range(0, 300, 50)]),
        together[::50],
    )
    np.testing.assert_array_equal(
        from_bytes(to_bytes(neighbours), "it").value.predict_dist(X).ppf(0.3), together
    )


def test_few_and_identical_rows_have_equal_weights():
    with pytest.warns(
        UserWarning,
        match="k=100 is more than the 3 training rows; all of them are used as neighbours",
    ):
        neighbours = NearestNeighbourRegressor().fit(np.full((3, 2), 7.0), [1.0, 2.0, 6.0])
    np.testing.assert_allclose(
        neighbours.predict([[7.0, 7.0], [9.0, 0.0]]), 3.0
    )  # equal weights, where all are at one distance
    with pytest.raises(ParameterError) as caught:
        NearestNeighbourRegressor().set_params(kernel="cubic").fit([[0.0]], [1.0])
    assert str(caught.value) == "kernel must be one of epanechnikov, uniform, gaussian, got 'cubic'"


def test_config_has_the_defaults():
    model = build(compose(["parent=nearest_outcomes", "dataset=heteroscedastic"]).parent)
    assert model.get_params() == NearestNeighbourRegressor().get_params()
