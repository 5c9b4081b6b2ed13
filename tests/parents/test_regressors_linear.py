"""The linear parent is least squares; its noise is the unbiased estimate."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.data.dataset import Dataset
from kdgraph.parents import GaussianLinear, Preprocess
from tests.companions import assert_rows_agree


def test_it_is_least_squares():
    """By the normal equations, solved apart."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    design = np.column_stack([np.ones(60), X])
    beta = np.linalg.solve(design.T @ design, design.T @ y)
    line = GaussianLinear().fit(X, y)
    np.testing.assert_allclose([line.intercept_, *line.coef_], beta, rtol=1e-10)
    np.testing.assert_allclose(line.predict(X), design @ beta, rtol=1e-10)
    assert line.sigma_ == pytest.approx(np.sqrt(((y - design @ beta) ** 2).sum() / 56), rel=1e-10)
    said = line.predict_dist(X[:5])
    np.testing.assert_array_equal(said.mean(), line.predict(X[:5]))
    np.testing.assert_allclose(said.var(), np.full(5, line.sigma_**2))


def test_the_estimate_of_the_variance_is_unbiased():
    """Of 1000 samples of 6 rows and 3 features, σ² = 4; the standard error of the mean of χ²₂-like
    values is 4/√1000.
    """
    rng = np.random.default_rng(0)
    found = []
    for _ in range(1000):
        X = rng.normal(size=(6, 3))
        found.append(GaussianLinear().fit(X, 2 * rng.normal(size=6)).sigma_ ** 2)
    assert np.mean(found) == pytest.approx(4, abs=4 * 4 / np.sqrt(1000))


def test_equal_features_and_no_intercept():
    """The rank counts, not the number of features: two copies of one feature leave 10 - 1 degrees
    of freedom.
    """
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=10), rng.normal(size=10)
    line = GaussianLinear(fit_intercept=False).fit(np.column_stack([x, x]), y)
    slope = x @ y / (x @ x)
    assert (line.coef_.sum(), line.intercept_) == (pytest.approx(slope), 0)
    assert line.sigma_ == pytest.approx(np.sqrt(((y - slope * x) ** 2).sum() / 9))


def test_a_line_through_every_point_still_has_distributions():
    X = np.array([[0.0], [1.0], [2.0]])
    for y in (np.full(3, 7.0), 2 * X[:, 0]):
        line = GaussianLinear().fit(X, y)
        assert 0 < line.sigma_ < 1e-14
        np.testing.assert_allclose(line.predict_dist(X).ppf(0.9), y, atol=1e-13)


def test_a_row_does_not_depend_on_the_rows_beside_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(501, 37))
    line = GaussianLinear().fit(X, rng.normal(size=501))
    assert_rows_agree(
        np.concatenate([line.predict(X[i : i + 1]) for i in range(501)]), line.predict(X)
    )


def test_behind_an_encoder_it_predicts_distributions_and_a_classifier_does_not():
    from sklearn.linear_model import LogisticRegression

    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [np.nan, 1.0], [4.0, 0.0]])
    data = Dataset(
        "d", X, np.arange(5.0), np.empty(0), ("a", "b"), "regression", categories=(None, ("u", "v"))
    )
    parent = Preprocess().wrap(GaussianLinear(), data).fit(X, data.y)
    np.testing.assert_array_equal(parent.predict_dist(X).mean(), parent.predict(X))
    assert not hasattr(Preprocess().wrap(LogisticRegression(), data), "predict_dist")
