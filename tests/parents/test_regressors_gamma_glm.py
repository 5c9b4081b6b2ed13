"""The Gamma GLM maximises its likelihood, which another optimiser finds too; its shape has closed
forms.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from kdgraph.components import build
from kdgraph.config import compose
from kdgraph.distributions import as_distribution
from kdgraph.errors import ParameterError
from kdgraph.parents import GammaGlm
from kdgraph.persistence import from_bytes, to_bytes
from tests.companions import assert_rows_agree
from tests.sklearn_checks import with_checks


@with_checks([GammaGlm(), GammaGlm(dispersion="ml")])
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def rows(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)) * [1.0, 100.0, 0.01] + [0.0, 5.0, 1.0]
    mean = np.exp(1 + X @ [0.5, -0.004, 20.0])
    return X, rng.gamma(4.0, mean / 4.0)


def test_it_is_the_maximum_of_the_likelihood():
    """Of SciPy's density, over mean and shape together, by a minimiser that knows neither GLM nor
    gradient: to 1e-5, as far as it gets.
    """
    X, y = rows()
    glm = GammaGlm(dispersion="ml").fit(X, y)

    def nll(theta: np.ndarray) -> float:
        shape = np.exp(theta[-1])
        mean = np.exp(theta[0] + (X * [1, 0.01, 100]) @ theta[1:4])
        return -stats.gamma.logpdf(y, shape, scale=mean / shape).mean()

    start = np.array([glm.intercept_, *glm.coef_ * [1, 100, 0.01], np.log(glm.shape_)])
    found = optimize.minimize(
        nll,
        start + 0.1,
        method="Nelder-Mead",
        options={"maxiter": 8000, "maxfev": 8000, "xatol": 1e-9, "fatol": 1e-14},
    )
    np.testing.assert_allclose(start, found.x, atol=1e-5)
    assert nll(start) <= found.fun + 1e-12


def test_the_pearson_dispersion_and_the_distribution():
    X, y = rows()
    glm = GammaGlm().fit(X, y)
    mean = np.exp(glm.intercept_ + X @ glm.coef_)
    assert 1 / glm.shape_ == pytest.approx(np.square(y / mean - 1).sum() / (300 - 4), rel=1e-10)
    said, known = glm.predict_dist(X[:7]), stats.gamma(glm.shape_, scale=mean[:7] / glm.shape_)
    np.testing.assert_allclose(said.mean(), glm.predict(X[:7]), rtol=1e-12)
    np.testing.assert_allclose(said.ppf(0.9), known.ppf(0.9), rtol=1e-12)
    np.testing.assert_allclose(said.var(), as_distribution(known).var(), rtol=1e-12)


def test_two_groups_have_their_means():
    """Of a saturated design the fitted means are those of the groups; indicators of all groups
    beside an intercept are no harm.
    """
    y = np.array([1.0, 3.0, 4.0, 12.0, 8.0])
    one_hot = np.array([[1, 0], [1, 0], [0, 1], [0, 1], [0, 1]], dtype=float)
    for intercept in (True, False):
        glm = GammaGlm(fit_intercept=intercept).fit(one_hot, y)
        np.testing.assert_allclose(glm.predict(one_hot), [2, 2, 8, 8, 8], rtol=1e-8)
        assert glm.shape_ == pytest.approx(
            3 / (0.25 + 0.25 + 0.25 + 0.25), rel=1e-8
        )  # the rank is 2, with an intercept or without


def test_units_of_features_and_outcome_change_nothing():
    X, y = rows()
    one, other = GammaGlm().fit(X, y), GammaGlm().fit(X * [1e-9, 1.0, 1e9], y * 1e12)
    np.testing.assert_allclose(
        other.predict(X * [1e-9, 1.0, 1e9]), one.predict(X) * 1e12, rtol=1e-7
    )
    assert other.shape_ == pytest.approx(one.shape_, rel=1e-7)


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


def test_far_away_there_is_still_a_distribution():
    X, y = rows()
    said = GammaGlm().fit(X, y).predict_dist(np.array([[1e200, 0, 0], [-1e200, 0, 0]]))
    assert np.isfinite(said.ppf(np.array([0.025, 0.975]))).all() and (said.mean() > 0).all()


def test_a_row_does_not_depend_on_the_rows_beside_it():
    X, y = rows()
    glm = GammaGlm().fit(X, y)
    assert_rows_agree(
        np.concatenate([glm.predict(X[i : i + 1]) for i in range(len(X))]), glm.predict(X)
    )


def test_what_is_refused():
    with pytest.raises(ParameterError) as caught:
        GammaGlm().fit([[0.0], [1.0]], [1.0, 0.0])
    assert str(caught.value) == "GammaGlm needs y above 0, got 0 in row 1"
    with pytest.raises(ParameterError) as caught:
        GammaGlm().set_params(dispersion="deviance").fit([[0.0], [1.0]], [1.0, 2.0])
    assert str(caught.value) == "dispersion must be one of pearson, ml, got 'deviance'"


def test_its_configuration_and_a_saved_one():
    X, y = rows()
    glm = build(compose(["parent=gamma_glm", "dataset=heteroscedastic"]).parent)
    assert glm.get_params() == GammaGlm().get_params()
    again = from_bytes(to_bytes(glm.fit(X, y)), "it").value
    np.testing.assert_array_equal(again.predict_dist(X).ppf(0.3), glm.predict_dist(X).ppf(0.3))
