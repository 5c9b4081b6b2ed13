"""Network regressors against linear models without hidden layers, and their training with them."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.errors import ParameterError
from kdgraph.features import FeatureMap
from kdgraph.parents import GammaGlm, GaussianLinear
from kdgraph.parents.networks import MultilayerPerceptronRegressor
from kdgraph.persistence import from_bytes, to_bytes

SMALL = {
    "hidden": (16,),
    "learning_rate": 0.03,
    "batch_size": 32,
    "max_epochs": 20,
    "device": "cpu",
    "random_state": 0,
}


@pytest.mark.parametrize("head", ["normal", "normal_scale", "gamma", "gamma_shape"])
def test_warns_if_no_better_than_constant(head):
    """Compare a learning rate that is too small with a sufficient one.

    Both are tested with and without held-out rows.
    """
    X, y = make_regression_rows(200)
    for options in ({"patience": None}, {"patience": 3}):
        options |= {"head": head, "hidden": (16,), "device": "cpu", "random_state": 0}
        predicted = (
            "learnt nothing: its loss, .* is not below that of one distribution for all rows; try"
        )
        with pytest.warns(ConvergenceWarning, match=predicted) as caught:
            MultilayerPerceptronRegressor(**options, learning_rate=1e-9, max_epochs=1).fit(X, y)
        assert caught[0].filename == __file__  # it points at the call of fit
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            MultilayerPerceptronRegressor(**options, learning_rate=0.02, max_epochs=15).fit(X, y)


def make_regression_rows(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 2))
    return X, rng.gamma(9.0, np.exp(4 + X[:, 0]) / 9.0)


def fit_linear_model(head: str) -> MultilayerPerceptronRegressor:
    """Fit a linear model until it converges: on all rows, with a rate that falls to 0."""
    options = {
        "learning_rate": 0.05,
        "batch_size": 100,
        "max_epochs": 40,
        "patience": None,
        "schedule": "cosine",
    }
    return MultilayerPerceptronRegressor(
        hidden=(), head=head, **options, device="cpu", random_state=0
    )


def test_without_hidden_layers_matches_least_squares():
    """Compare to 1 % of the residual standard deviation, the accuracy of training in batches.

    That standard deviation is over n, not over n - 3.
    """
    X, y = make_regression_rows()
    network, expected = fit_linear_model("normal").fit(X, y), GaussianLinear().fit(X, y)
    np.testing.assert_allclose(network.predict(X), expected.predict(X), atol=0.01 * expected.sigma_)
    assert network.predict_dist(X[:1]).var()[0] == pytest.approx(
        expected.sigma_**2 * (397 / 400), rel=1e-3
    )


def test_without_hidden_layers_matches_the_gamma_glm():
    X, y = make_regression_rows()
    network, expected = fit_linear_model("gamma").fit(X, y), GammaGlm(dispersion="ml").fit(X, y)
    np.testing.assert_allclose(network.predict(X), expected.predict(X), rtol=0.01)
    assert network.dispersion_ == pytest.approx(expected.shape_, rel=1e-3)


def test_dispersion_is_estimated_on_held_out_rows():
    """Fit noise with an overfitted network: its predictions must not be overconfident.

    Its residuals on its own training rows are far smaller.
    """
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 30)), rng.normal(size=60)
    options = {
        "hidden": (64,),
        "learning_rate": 0.01,
        "max_epochs": 60,
        "patience": 60,
        "device": "cpu",
        "random_state": 0,
    }
    learnt = MultilayerPerceptronRegressor(**options, validation_fraction=0.3).fit(X, y)
    learnt_by_heart = MultilayerPerceptronRegressor(**{**options, "patience": None}).fit(X, y)
    assert learnt.predict_dist(X).var()[0] > 0.5 > 0.05 > learnt_by_heart.predict_dist(X).var()[0]


@pytest.mark.parametrize(
    "head", ["normal_scale", pytest.param("gamma_shape", marks=pytest.mark.slow)]
)
def test_learns_heteroscedastic_noise(head):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(800, 1))
    y = 50 + rng.normal(size=800) * np.where(X[:, 0] < 0, 1.0, 6.0)
    options = {
        "hidden": (32,),
        "learning_rate": 0.003,
        "max_epochs": 60,
        "batch_size": 200,
        "patience": None,
        "device": "cpu",
        "random_state": 0,
    }
    predicted = (
        MultilayerPerceptronRegressor(head=head, **options)
        .fit(X, y)
        .predict_dist(np.array([[-0.6], [0.6]]))
    )
    # Ten initial weights give means of 49.1 to 51.0, and standard deviations of 1.00 to 1.32 and
    # 5.6 to 6.3: the limits are beyond all of them, as sums in another order move less.
    np.testing.assert_allclose(predicted.mean(), 50, atol=1.5)
    near, far = np.sqrt(predicted.var())
    assert 0.8 < near < 1.6 and 4.8 < far < 7.2


def test_predictions_scale_with_the_units_of_the_outcome():
    X, y = make_regression_rows()
    for head in ("normal", "gamma"):
        reference, rescaled = (
            MultilayerPerceptronRegressor(**{**SMALL, "max_epochs": 5}, head=head).fit(X, unit * y)
            for unit in (1.0, 2.0**20)
        )
        np.testing.assert_allclose(rescaled.predict(X), reference.predict(X) * 2.0**20, rtol=1e-6)


def test_is_determined_by_the_seed_and_independent_of_other_rows():
    X, y = make_regression_rows(300)
    mlp = MultilayerPerceptronRegressor(**SMALL, head="normal_scale").fit(X, y)
    predicted, by_row = (
        mlp.predict_dist(X),
        [mlp.predict_dist(X[i : i + 1]).ppf(0.9) for i in range(0, 300, 60)],
    )
    np.testing.assert_array_equal(np.concatenate(by_row), predicted.ppf(0.9)[::60])
    np.testing.assert_array_equal(
        clone(mlp).set_params(n_jobs=2).fit(X, y).predict(X), mlp.predict(X)
    )


def test_transform_returns_any_layer_and_the_output():
    X, y = make_regression_rows(300)
    mlp = MultilayerPerceptronRegressor(**{**SMALL, "hidden": (16, 5)}).fit(X, y)
    assert mlp.layer_names_ == ["0", "1", "2", "3", "4", "5"]
    features = {
        layer: (
            FeatureMap(source="layer", layer=layer, reduce="none", scale="none")
            .fit(mlp, X)
            .transform(mlp, X)
        )
        for layer in "245"
    }
    assert [features[layer].shape[1] for layer in "245"] == [16, 5, 1]
    np.testing.assert_array_equal(features["5"], mlp.predict_parameters(X))
    np.testing.assert_array_equal(
        FeatureMap(reduce="none", scale="none").fit(mlp, X).transform(mlp, X), features["4"]
    )


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        (
            {"head": "poisson"},
            [1.0, 2.0],
            "head must be one of normal, normal_scale, lognormal, gamma, gamma_shape, got 'poisson'",
        ),
        ({"head": "gamma"}, [1.0, 0.0], "head=gamma needs y above 0, got 0 in row 1"),
        ({"head": "lognormal"}, [-1.0, 2.0], "head=lognormal needs y above 0, got -1 in row 0"),
        ({"hidden": 10}, [1.0, 2.0], "hidden must be a list, got 10"),
    ],
)
def test_rejects_invalid_parameters_and_outcomes(options, y, message):
    with pytest.raises(ParameterError) as caught:
        MultilayerPerceptronRegressor(**options).fit([[0.0], [1.0]], y)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    "name", ["mlp_regressor", "mlp_normal_scale", "mlp_lognormal", "mlp_gamma"]
)
def test_configs_and_saved_models(name):
    X, y = make_regression_rows(60)
    mlp = build(compose([f"parent={name}", "dataset=heteroscedastic"]).parent)
    assert type(mlp) is MultilayerPerceptronRegressor and name.endswith(
        mlp.head.replace("normal", "regressor") if name == "mlp_regressor" else mlp.head
    )
    mlp.set_params(hidden=(4,), max_epochs=2, device="cpu", random_state=0).fit(X, y)
    restored = from_bytes(to_bytes(mlp), "it").value
    np.testing.assert_array_equal(restored.predict_dist(X).ppf(0.3), mlp.predict_dist(X).ppf(0.3))
    assert restored.describe() == mlp.describe()
