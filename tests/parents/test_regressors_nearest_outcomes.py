"""The neighbours' outcomes: their mean is scikit-learn's regression, their distribution a loop over
rows.
"""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsRegressor
from sklearn.utils.estimator_checks import parametrize_with_checks

from kdgraph.components import build
from kdgraph.config import compose
from kdgraph.errors import ParameterError
from kdgraph.parents import NearestNeighbourRegressor
from kdgraph.persistence import from_bytes, to_bytes


@parametrize_with_checks([NearestNeighbourRegressor(k=5)])
@pytest.mark.filterwarnings("ignore:k=5 neighbours were asked for")  # in checks of one row
def test_scikit_learns_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2)) * [1.0, 50.0]
    return X, X[:, 0] + rng.normal(size=300)


@pytest.mark.parametrize("kernel", ["uniform", "epanechnikov", "gaussian"])
def test_its_mean_is_scikit_learns_regression(rows, kernel):
    X, y = rows
    weigh = {
        "uniform": "uniform",
        "epanechnikov": lambda d: 1 - (d / d[:, -1:]) ** 2,
        "gaussian": lambda d: np.exp(-((d / d[:, -1:]) ** 2) / 2),
    }
    known = KNeighborsRegressor(20, weights=weigh[kernel]).fit(X / X.std(axis=0), y)
    at = X[:50] + 0.1
    np.testing.assert_allclose(
        NearestNeighbourRegressor(k=20, kernel=kernel).fit(X, y).predict(at),
        known.predict(at / X.std(axis=0)),
        rtol=1e-9,
    )
    raw = KNeighborsRegressor(20, weights=weigh[kernel]).fit(X, y)
    np.testing.assert_allclose(
        NearestNeighbourRegressor(k=20, kernel=kernel, scale="none").fit(X, y).predict(at),
        raw.predict(at),
        rtol=1e-9,
    )


def test_its_distribution_by_a_loop(rows):
    X, y = rows
    said = NearestNeighbourRegressor(k=15).fit(X, y).predict_dist(X[:20] + 0.1)
    for i, place in enumerate(X[:20] + 0.1):
        distance = np.linalg.norm((X - place) / X.std(axis=0), axis=1)
        near = np.argsort(distance)[:15]
        weight = 1 - (distance[near] / distance[near[-1]]) ** 2
        assert said.cdf(np.full(20, 0.3))[i] == pytest.approx(
            (weight * (y[near] <= 0.3)).sum() / weight.sum()
        )


def test_a_row_does_not_depend_on_the_rows_beside_it_and_a_saved_one_says_the_same(rows):
    X, y = rows
    near = NearestNeighbourRegressor(k=15).fit(X, y)
    whole = near.predict_dist(X).ppf(0.3)
    np.testing.assert_array_equal(
        np.concatenate([near.predict_dist(X[i : i + 1]).ppf(0.3) for i in range(0, 300, 50)]),
        whole[::50],
    )
    np.testing.assert_array_equal(
        from_bytes(to_bytes(near), "it").value.predict_dist(X).ppf(0.3), whole
    )


def test_few_rows_and_rows_that_are_all_alike():
    with pytest.warns(
        UserWarning, match="k=100 is more than the 3 training rows; all of them are used as neighbours"
    ):
        near = NearestNeighbourRegressor().fit(np.full((3, 2), 7.0), [1.0, 2.0, 6.0])
    np.testing.assert_allclose(
        near.predict([[7.0, 7.0], [9.0, 0.0]]), 3.0
    )  # equal weights, where all are at one distance
    with pytest.raises(ParameterError) as caught:
        NearestNeighbourRegressor().set_params(kernel="cubic").fit([[0.0]], [1.0])
    assert str(caught.value) == "kernel must be one of epanechnikov, uniform, gaussian, got 'cubic'"


def test_its_configuration():
    made = build(compose(["parent=nearest_outcomes", "dataset=heteroscedastic"]).parent)
    assert made.get_params() == NearestNeighbourRegressor().get_params()
