"""Gamma GLM against a general optimiser and closed forms of its shape."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.distributions import as_distribution
from kdgraph.errors import ParameterError
from kdgraph.parents import GammaGlm
from kdgraph.persistence import from_bytes, to_bytes
from tests.companions import assert_rows_agree


def make_gamma_rows(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * [1.0, 100.0, 0.01] + [0.0, 5.0, 1.0]
    mean = np.exp(1 + X @ [0.5, -0.004, 20.0])
    return X, rng.gamma(4.0, mean / 4.0)


def test_fit_maximises_the_likelihood():
    """The reference minimises SciPy's density over mean and shape together, without gradients.

    It reaches a precision of 1e-5.
    """
    X, y = make_gamma_rows()
    glm = GammaGlm(dispersion="ml").fit(X, y)

    def nll(theta: np.ndarray) -> float:
        shape = np.exp(theta[-1])
        mean = np.exp(theta[0] + (X * [1, 0.01, 100]) @ theta[1:4])
        return -stats.gamma.logpdf(y, shape, scale=mean / shape).mean()

    start = np.array([glm.intercept_, *glm.coef_ * [1, 100, 0.01], np.log(glm.shape_)])
    optimum = optimize.minimize(
        nll,
        start + 0.1,
        method="Nelder-Mead",
        options={"maxiter": 8000, "maxfev": 8000, "xatol": 1e-9, "fatol": 1e-14},
    )
    np.testing.assert_allclose(start, optimum.x, atol=1e-5)
    assert nll(start) <= optimum.fun + 1e-12


def test_pearson_dispersion_and_distribution():
    X, y = make_gamma_rows()
    glm = GammaGlm().fit(X, y)
    mean = np.exp(glm.intercept_ + X @ glm.coef_)
    assert 1 / glm.shape_ == pytest.approx(np.square(y / mean - 1).sum() / (300 - 4), rel=1e-10)
    distribution, expected = (
        glm.predict_dist(X[:7]),
        stats.gamma(glm.shape_, scale=mean[:7] / glm.shape_),
    )
    np.testing.assert_allclose(distribution.mean(), glm.predict(X[:7]), rtol=1e-12)
    np.testing.assert_allclose(distribution.ppf(0.9), expected.ppf(0.9), rtol=1e-12)
    np.testing.assert_allclose(distribution.var(), as_distribution(expected).var(), rtol=1e-12)


def test_a_saturated_design_predicts_group_means():
    """Indicators of all groups together with an intercept are allowed."""
    y = np.array([1.0, 3.0, 4.0, 12.0, 8.0])
    one_hot = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]], dtype=float)
    for intercept in (True, False):
        glm = GammaGlm(fit_intercept=intercept).fit(one_hot, y)
        np.testing.assert_allclose(glm.predict(one_hot), [2, 2, 8, 8, 8], rtol=1e-8)
        assert glm.shape_ == pytest.approx(
            3 / (0.25 + 0.25 + 0.25 + 0.25), rel=1e-8
        )  # the rank is 2, with an intercept or without


def test_fit_does_not_depend_on_units():
    X, y = make_gamma_rows()
    reference, rescaled = GammaGlm().fit(X, y), GammaGlm().fit(X * [1e-9, 1.0, 1e9], y * 1e12)
    np.testing.assert_allclose(
        rescaled.predict(X * [1e-9, 1.0, 1e9]), reference.predict(X) * 1e12, rtol=1e-7
    )
    assert rescaled.shape_ == pytest.approx(reference.shape_, rel=1e-7)


def test_a_constant_feature_and_a_fit_without_residuals():
    X = np.column_stack([np.full(6, 3.0), np.arange(6.0)])
    for dispersion in ("pearson", "ml"):
        glm = GammaGlm(dispersion=dispersion).fit(X, np.exp(1 + X[:, 1]))
        np.testing.assert_allclose(glm.coef_, [0, 1], atol=1e-8)
        assert (
            glm.shape_ == pytest.approx(1e12, rel=1)
            and np.isfinite(glm.predict_dist(X).ppf(0.975)).all()
        )
        constant = GammaGlm(dispersion=dispersion).fit(X[:, :1], np.arange(1.0, 7.0))
        np.testing.assert_allclose(constant.predict([[3.0], [9.0]]), 3.5)


def test_distribution_is_finite_far_from_the_data():
    X, y = make_gamma_rows()
    distribution = GammaGlm().fit(X, y).predict_dist(np.array([[1e200, 0, 0], [-1e200, 0, 0]]))
    assert (
        np.isfinite(distribution.ppf(np.array([0.025, 0.975]))).all()
        and (distribution.mean() > 0).all()
    )


def test_prediction_of_a_row_does_not_depend_on_other_rows():
    X, y = make_gamma_rows()
    glm = GammaGlm().fit(X, y)
    assert_rows_agree(
        np.concatenate([glm.predict(X[i : i + 1]) for i in range(len(X))]), glm.predict(X)
    )


def test_invalid_arguments_are_refused():
    with pytest.raises(ParameterError) as caught:
        GammaGlm().fit([[0.0], [1.0]], [1.0, 0.0])
    assert str(caught.value) == "GammaGlm needs y above 0, got 0 in row 1"
    with pytest.raises(ParameterError) as caught:
        GammaGlm().set_params(dispersion="deviance").fit([[0.0], [1.0]], [1.0, 2.0])
    assert str(caught.value) == "dispersion must be one of pearson, ml, got 'deviance'"


def test_config_has_defaults_and_saved_model_agrees():
    X, y = make_gamma_rows()
    glm = build(compose(["parent=gamma_glm", "dataset=heteroscedastic"]).parent)
    assert glm.get_params() == GammaGlm().get_params()
    restored = from_bytes(to_bytes(glm.fit(X, y)), "it").value
    np.testing.assert_array_equal(restored.predict_dist(X).ppf(0.3), glm.predict_dist(X).ppf(0.3))
