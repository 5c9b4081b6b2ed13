"""Linear parent: least squares with an unbiased estimate of the noise."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.data.dataset import Dataset
from kdgraph.parents import GaussianLinear, Preprocess
from tests.companions import assert_rows_agree


def test_fit_solves_the_normal_equations():
    """The reference solves the normal equations."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 3)), rng.normal(size=60)
    design = np.column_stack([np.ones(60), X])
    beta = np.linalg.solve(design.T @ design, design.T @ y)
    line = GaussianLinear().fit(X, y)
    np.testing.assert_allclose([line.intercept_, *line.coef_], beta, rtol=1e-10)
    np.testing.assert_allclose(line.predict(X), design @ beta, rtol=1e-10)
    assert line.sigma_ == pytest.approx(np.sqrt(((y - design @ beta) ** 2).sum() / 56), rel=1e-10)
    distribution = line.predict_dist(X[:5])
    np.testing.assert_array_equal(distribution.mean(), line.predict(X[:5]))
    np.testing.assert_allclose(distribution.var(), np.full(5, line.sigma_**2))


def test_variance_estimate_is_unbiased():
    """1000 samples have 6 rows, 3 features and σ² = 4.

    The estimates have a χ²₂ distribution, so the standard error of their mean is 4/√1000.
    """
    rng = np.random.default_rng(0)
    variances = []
    for _ in range(1000):
        X = rng.normal(size=(6, 3))
        variances.append(GaussianLinear().fit(X, 2 * rng.normal(size=6)).sigma_ ** 2)
    assert np.mean(variances) == pytest.approx(4, abs=4 * 4 / np.sqrt(1000))


def test_degrees_of_freedom_depend_on_the_rank():
    """Two copies of one feature have rank 1 and leave 10 - 1 degrees of freedom."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=10), rng.normal(size=10)
    line = GaussianLinear(fit_intercept=False).fit(np.column_stack([x, x]), y)
    slope = x @ y / (x @ x)
    assert (line.coef_.sum(), line.intercept_) == (pytest.approx(slope), 0)
    assert line.sigma_ == pytest.approx(np.sqrt(((y - slope * x) ** 2).sum() / 9))


def test_a_perfect_fit_has_a_positive_variance():
    X = np.array([[0.0], [1.0], [2.0]])
    for y in (np.full(3, 7.0), 2 * X[:, 0]):
        line = GaussianLinear().fit(X, y)
        assert 0 < line.sigma_ < 1e-14
        np.testing.assert_allclose(line.predict_dist(X).ppf(0.9), y, atol=1e-13)


def test_prediction_of_a_row_does_not_depend_on_other_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(501, 37))
    line = GaussianLinear().fit(X, rng.normal(size=501))
    assert_rows_agree(
        np.concatenate([line.predict(X[i : i + 1]) for i in range(501)]), line.predict(X)
    )


def test_only_encoded_regressors_predict_distributions():
    from sklearn.linear_model import LogisticRegression

    X = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [np.nan, 1.0], [4.0, 0.0]])
    data = Dataset(
        "d", X, np.arange(5.0), np.empty(0), ("a", "b"), "regression", categories=(None, ("u", "v"))
    )
    parent = Preprocess().wrap(GaussianLinear(), data).fit(X, data.y)
    np.testing.assert_array_equal(parent.predict_dist(X).mean(), parent.predict(X))
    assert not hasattr(Preprocess().wrap(LogisticRegression(), data), "predict_dist")
