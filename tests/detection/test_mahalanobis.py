"""Tests of Mahalanobis distances against scipy's, with the covariance of scikit-learn.

Those of several layers are compared with NumPy's gradient of a linear layer and with pytorch-ood.
"""

from __future__ import annotations

import copy

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import mahalanobis
from sklearn.covariance import LedoitWolf
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.base.network_access import input_spread
from kdgraph.detection import LayerwiseMahalanobis, Mahalanobis
from kdgraph.detection.mahalanobis import _fit_weights, _LayerMeans
from kdgraph.errors import ParameterError
from kdgraph.features import FeatureMap
from kdgraph.metrics import auroc
from kdgraph.parents import GaussianLinear, PrecomputedScores
from kdgraph.parents.networks import ConvolutionalNetwork, MultilayerPerceptron
from tests.companions import assert_rows_agree

ROUNDING = {"rtol": 1e-9, "atol": 1e-9}
"""Tolerance of distances up to some thousands, by another inverse of a regular covariance."""
RAW = FeatureMap(source="rows", reduce="none", scale="none")
"""Features that are the rows in their original units."""


def squared_distances(rows: np.ndarray, train: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return Float[n, c], the squared distances of all pairs of a row and a class mean."""
    means = {c: train[y == c].mean(axis=0) for c in np.unique(y)}
    residuals = train - np.array([means[c] for c in y])
    inverse = LedoitWolf(assume_centered=True).fit(residuals).precision_
    return np.array(
        [[mahalanobis(row, mean, inverse) ** 2 for mean in means.values()] for row in rows]
    )


@pytest.mark.parametrize("class_names", [[0, 1, 2], ["u", "v", "w"]], ids=str)
def test_score_is_scipys_distance_to_the_nearest_class(blobs, class_names):
    X, y, distant_rows = blobs
    detector = Mahalanobis(features=RAW).fit(
        X[:400], np.array(class_names)[y[:400]], X_calibration=X[400:]
    )
    for rows in (X[400:], distant_rows[:50]):
        np.testing.assert_allclose(
            detector.score_samples(rows),
            -squared_distances(rows, X[:400], y[:400]).min(axis=1),
            **ROUNDING,
        )
    assert detector.feature_classes_.tolist() == class_names and detector.describe()["means"] == 3
    assert auroc(detector.ood_score(distant_rows), detector.ood_score(X[400:])) == 1 and set(
        detector.predict(distant_rows)
    ) == {-1}


def test_relative_distance_subtracts_that_to_all_rows(blobs):
    X, y, distant_rows = blobs
    detector = Mahalanobis(relative=True, features=RAW).fit(X[:400], y[:400], X_calibration=X[400:])
    for rows in (X[400:], distant_rows[:50]):
        overall = squared_distances(rows, X[:400], np.zeros(400))[:, 0]
        np.testing.assert_allclose(
            detector.score_samples(rows),
            overall - squared_distances(rows, X[:400], y[:400]).min(axis=1),
            **ROUNDING,
        )
    for labels in (None, np.zeros(400)):
        with pytest.raises(
            ValueError,
            match=(
                "relative=true compares classes with all rows, and needs labels of at least two"
                " classes"
            ),
        ):
            Mahalanobis(relative=True).fit(X[:400], labels, X_calibration=X[400:])


def test_missing_or_continuous_labels_give_one_mean(blobs):
    X, _, distant_rows = blobs
    expected = -squared_distances(distant_rows, X[:400], np.zeros(400))[:, 0]
    target = X @ [1.0, 2.0, 3.0, 4.0]
    for parent, y in (
        (None, None),
        (None, target[:400]),
        (FrozenEstimator(GaussianLinear().fit(X, target)), target[:400]),
    ):
        detector = Mahalanobis(parent, features=RAW).fit(X[:400], y, X_calibration=X[400:])
        np.testing.assert_allclose(detector.score_samples(distant_rows), expected, **ROUNDING)
        assert detector.feature_classes_ is None


def test_scores_are_independent_of_units(blobs):
    """Rescale all columns together, and each column by its own factor."""
    X, y, distant_rows = blobs
    scores = [
        Mahalanobis(random_state=0).fit(factors * X, y).score_samples(factors * distant_rows)
        for factors in (1.0, 1e6, np.array([1, 1e3, 1e-6, 7]))
    ]
    np.testing.assert_allclose(scores[1:], [scores[0]] * 2, rtol=1e-9)


def test_features_are_network_layers_or_transformed_rows(blobs):
    X, y, distant_rows = blobs
    network = MultilayerPerceptron(
        hidden=(8,), learning_rate=0.02, max_epochs=4, device="cpu", random_state=0
    ).fit(X, y)
    detector = Mahalanobis(FrozenEstimator(network)).fit(X[:400], y[:400], X_calibration=X[400:])
    layer = network.transform(X[:400]).astype(np.float64)
    expected = -squared_distances(
        network.transform(distant_rows).astype(np.float64), layer, y[:400]
    ).min(axis=1)
    # Units that are always 0 have a variance by shrinkage only, so the tolerance is larger.
    np.testing.assert_allclose(detector.score_samples(distant_rows), expected, rtol=1e-5)
    pipeline = make_pipeline(StandardScaler(), RandomForestClassifier(5, random_state=0)).fit(
        X[:400], y[:400]
    )
    detector = Mahalanobis(FrozenEstimator(pipeline), features=RAW).fit(
        X[:400], y[:400], X_calibration=X[400:]
    )
    expected = -squared_distances(
        pipeline[0].transform(distant_rows), pipeline[0].transform(X[:400]), y[:400]
    ).min(axis=1)
    np.testing.assert_allclose(detector.score_samples(distant_rows), expected, **ROUNDING)
    reduced = Mahalanobis(features=FeatureMap(source="rows", dimensions=2, random_state=0)).fit(
        X[:400], y[:400], X_calibration=X[400:]
    )
    assert (
        reduced.class_means_.means.shape == (3, 2)
        and auroc(reduced.ood_score(distant_rows), reduced.ood_score(X[400:])) == 1
    )


def test_features_of_precomputed_scores(blobs):
    X, y, distant_rows = blobs
    proba = np.full((600, 3), 1 / 3)
    parent = FrozenEstimator(PrecomputedScores([("hidden", 4)]).fit(np.hstack([proba, X])))
    detector = Mahalanobis(parent).fit(
        np.hstack([proba, X])[:400], y[:400], X_calibration=np.hstack([proba, X])[400:]
    )
    without_parent = Mahalanobis(features=RAW).fit(X[:400], y[:400], X_calibration=X[400:])
    assert_rows_agree(
        detector.score_samples(np.hstack([proba[:200], distant_rows])),
        without_parent.score_samples(distant_rows),
    )
    without_features = Mahalanobis(FrozenEstimator(PrecomputedScores().fit(proba))).fit(
        proba[:400], y[:400], X_calibration=proba[400:]
    )
    assert without_features.feature_map_.source == "rows"


def test_frames_and_missing_values_with_an_imputer(blobs):
    X, y, _ = blobs
    X_missing = np.where(np.random.default_rng(0).random(X.shape) < 0.1, np.nan, X)
    parent = make_pipeline(SimpleImputer(), RandomForestClassifier(5, random_state=0))
    scores = [
        Mahalanobis(parent, random_state=0).fit(rows, y).ood_score(rows)
        for rows in (X_missing, pd.DataFrame(X_missing, columns=list("abcd")))
    ]
    assert_rows_agree(*scores)
    with pytest.raises(ValueError, match="Input X contains NaN"):
        Mahalanobis(random_state=0).fit(X_missing, y)


@pytest.mark.parametrize(
    "rows",
    [
        np.ones((30, 3)),
        np.eye(30)[:, :25],
        np.column_stack([np.arange(30.0), np.zeros(30)]),
        np.arange(30.0)[:, None] * [1e-9, 1, 1e9],
    ],
    ids=["constant rows", "more columns than rows", "constant column", "different units"],
)
def test_degenerate_covariances_give_finite_increasing_scores(rows):
    detector = Mahalanobis().fit(rows[:20], np.arange(20) % 2, X_calibration=rows)
    assert np.isfinite(detector.ood_score(rows)).all()
    assert (
        detector.ood_score(rows[:1] + 1e12)
        > detector.ood_score(rows[:1] + 1e11)
        > detector.ood_score(rows).max()
    )


@pytest.mark.parametrize("relative", [False, True])
def test_rows_are_independent_and_distant_scores_are_ordered(blobs, relative):
    X, y, distant_rows = blobs
    detector = Mahalanobis(relative=relative).fit(X[:400], y[:400], X_calibration=X[400:])
    rows = np.concatenate(
        [X[:20], *(distant_rows[:1] * factor for factor in (1e3, 1e9, 1e60, 1e100, 1e150, 1e306))]
    )
    scores = detector.ood_score(rows)
    assert np.isfinite(scores).all() and (np.diff(scores[20:]) > 0).all()
    assert_rows_agree(
        scores, np.concatenate([detector.ood_score(rows[i : i + 1]) for i in range(len(rows))])
    )


QUICK = {"learning_rate": 0.02, "max_epochs": 4, "patience": None, "device": "cpu"}
FLOAT32 = {"rtol": 1e-3, "atol": 1e-3}
"""Tolerance of distances up to some hundreds of features that a network computes in float32."""


@pytest.fixture(scope="module")
def network(blobs):
    """Return a network whose first layer only flattens; 1, 3 and 5 are linear, 2 and 4 ReLU."""
    X, y, _ = blobs
    return MultilayerPerceptron(hidden=(6, 5), **QUICK, random_state=0).fit(X[:400], y[:400])


def fit_layerwise(network, blobs, **options) -> LayerwiseMahalanobis:
    X, y, _ = blobs
    return LayerwiseMahalanobis(FrozenEstimator(network), **options).fit(
        X[:400], y[:400], X_calibration=X[400:]
    )


def layer_scores(detector: LayerwiseMahalanobis, X: np.ndarray) -> np.ndarray:
    """Return the scores of a detector's only layer, without its weight and constant."""
    return (detector.score_samples(X) - detector.intercept_) / detector.weights_[0]


def nearest_class(features: np.ndarray, means: np.ndarray, inverse: np.ndarray):
    """Return the mean that is nearest to each row, and the squared distances to it."""
    gaps = features[:, None] - means
    distances = np.einsum("nci,ij,ncj->nc", gaps, inverse, gaps)
    return means[distances.argmin(axis=1)], distances.min(axis=1)


@pytest.mark.parametrize("epsilon", [0.0, 0.3])
def test_step_towards_the_nearest_class_agrees_with_numpys_gradient(network, blobs, epsilon):
    """The first layer is φ = Wx + b, so the gradient of the distance is 2 Wᵀ Σ⁻¹ (φ - μ)."""
    X, y, distant_rows = blobs
    linear = network.module_.get_submodule("1")
    weight, bias = (
        values.detach().numpy().astype(np.float64) for values in (linear.weight, linear.bias)
    )
    train = X[:400] @ weight.T + bias
    means = np.stack([train[y[:400] == c].mean(axis=0) for c in range(3)])
    inverse = LedoitWolf(assume_centered=True).fit(train - means[y[:400]]).precision_
    detector = fit_layerwise(network, blobs, layers=["1"], epsilon=epsilon)
    for rows in (X[400:], distant_rows):
        features = rows @ weight.T + bias
        gradient = 2 * (features - nearest_class(features, means, inverse)[0]) @ inverse @ weight
        stepped = rows - epsilon * input_spread(network, X[:400]) * np.sign(gradient)
        expected = -nearest_class(stepped @ weight.T + bias, means, inverse)[1]
        np.testing.assert_allclose(layer_scores(detector, rows), expected, **FLOAT32)


@pytest.mark.parametrize("epsilon", [0.0, 0.05])
def test_score_of_one_layer_is_that_of_pytorch_ood(network, blobs, epsilon):
    oracle_module = pytest.importorskip(
        "pytorch_ood.detector",
        reason="pytorch-ood, or torchvision, which it needs, is not installed",
        exc_type=ImportError,
    )
    import torch

    X, y, distant_rows = blobs
    layer = network.activation_names_[-1]
    unit = input_spread(network, X[:400])
    encoder = copy.deepcopy(network.module_[:-1]).double()
    oracle = oracle_module.MahalanobisODIN(encoder, eps=epsilon * unit)
    train = network.transform(X[:400]).astype(np.float64)
    oracle.fit_features(torch.from_numpy(train), torch.from_numpy(y[:400]).long())
    # Its covariance is the sum of products without shrinkage; here is the shrunk mean.
    means = np.stack([train[y[:400] == c].mean(axis=0) for c in range(3)])
    precision = LedoitWolf(assume_centered=True).fit(train - means[y[:400]]).precision_
    oracle._base.mu, oracle._base.precision = torch.from_numpy(means), torch.from_numpy(precision)
    detector = fit_layerwise(network, blobs, layers=[layer], epsilon=epsilon)
    for rows in (X[400:], distant_rows):
        # Its score is half the squared distance.
        expected = -2 * oracle.predict(torch.from_numpy(rows)).detach().numpy()
        np.testing.assert_allclose(layer_scores(detector, rows), expected, **FLOAT32)


def test_weights_are_those_of_a_regression_on_adversarial_rows(network, blobs):
    X, _, _ = blobs
    single = [
        fit_layerwise(network, blobs, layers=[layer], epsilon=0.01)
        for layer in network.activation_names_
    ]
    detector = fit_layerwise(network, blobs, epsilon=0.01, adversarial_step=0.4)
    confidence = network.input_gradient(X[400:], lambda z: z.log_softmax(dim=1).amax(dim=1))
    adversarial = X[400:] - 0.4 * input_spread(network, X[:400]) * np.sign(confidence)
    rows = np.concatenate([X[400:], adversarial])
    scores = np.stack([layer_scores(each, rows) for each in single], axis=1)
    regression = make_pipeline(StandardScaler(), LogisticRegression(tol=1e-10, max_iter=1000))
    regression.fit(scores, np.repeat([1, 0], 200))
    # The tolerance is that of the two optimisations, in units of the log odds.
    np.testing.assert_allclose(
        detector.score_samples(rows), regression.decision_function(scores), rtol=1e-3, atol=1e-3
    )
    assert detector.layers_ == tuple(network.activation_names_)
    assert detector.describe()["weights"].keys() == set(detector.layers_)


def test_nonnegative_weights_are_those_of_a_bounded_regression(network, blobs):
    """Compare with the signed regression on the layers whose weights are not 0."""
    detector = fit_layerwise(network, blobs, epsilon=0.0, weights="nonnegative")
    assert (detector.weights_ >= 0).all() and detector.weights_.any()
    layers = [layer for layer, w in zip(detector.layers_, detector.weights_, strict=True) if w]
    signed = fit_layerwise(network, blobs, epsilon=0.0, layers=layers)
    # The tolerance is that of the two optimisations.
    np.testing.assert_allclose(
        signed.weights_, detector.weights_[detector.weights_ > 0], rtol=1e-3, atol=1e-9
    )
    scores = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 3.0], [3.0, 2.0]])
    weights, _ = _fit_weights(scores[:2], scores[2:], "nonnegative")
    np.testing.assert_allclose(weights, 1 / scores.std(axis=0))  # rows inside are farther out
    weights, _ = _fit_weights(scores[2:], scores[:2], "nonnegative")
    assert (weights > 0).all()


def test_auto_selects_the_step_with_the_highest_auroc(network, blobs):
    steps = (0.3, 0.0, 0.02)
    detector = fit_layerwise(network, blobs, epsilons=steps)
    single = [fit_layerwise(network, blobs, epsilons=[step]).aurocs_[0] for step in steps]
    assert detector.aurocs_ == single and len(set(single)) == 3
    assert detector.epsilon_ == steps[int(np.argmax(single))]
    distant_rows = blobs[2]
    np.testing.assert_array_equal(
        detector.score_samples(distant_rows),
        fit_layerwise(network, blobs, epsilon=detector.epsilon_).score_samples(distant_rows),
    )
    assert fit_layerwise(network, blobs, epsilon=0.02).aurocs_ is None


def test_channels_of_images_are_averaged_over_pixels():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    images = rng.random((60, 2, 12, 12), dtype=np.float32)
    images[y == 1] **= 2
    network = ConvolutionalNetwork(max_epochs=1, device="cpu", random_state=0).fit(images, y)
    layer = network.activation_names_[0]
    detector = LayerwiseMahalanobis(FrozenEstimator(network), layers=[layer], epsilon=0.0)
    detector.fit(images[:40], y[:40], X_calibration=images[40:])
    channels = network.transform(images, layer).reshape(60, 3, -1).mean(axis=2).astype(np.float64)
    expected = -squared_distances(channels[40:], channels[:40], y[:40]).min(axis=1)
    np.testing.assert_allclose(layer_scores(detector, images[40:]), expected, **FLOAT32)


def test_cross_fitted_weights_use_means_of_other_folds(blobs, monkeypatch):
    X, y, _ = blobs
    fitted_on, scored = [], []
    fit, score = _LayerMeans.fit, _LayerMeans.score

    def record_fit(parent, layers, rows):
        means = fit(parent, layers, rows)
        fitted_on.append((means, rows.X))
        return means

    def record_score(self, inputs, step):
        scored.append((self, inputs))
        return score(self, inputs, step)

    monkeypatch.setattr(_LayerMeans, "fit", record_fit)
    monkeypatch.setattr(_LayerMeans, "score", record_score)
    LayerwiseMahalanobis(
        MultilayerPerceptron(hidden=(6,), **QUICK, random_state=0),
        epsilon=0.0,
        calibration="cross_fit",
        cv=2,
        random_state=0,
    ).fit(X[:200], y[:200])
    training_rows = {id(means): {row.tobytes() for row in rows} for means, rows in fitted_on}
    assert sorted(map(len, training_rows.values())) == [100, 100, 100, 100, 200]
    assert scored and not any(
        row.tobytes() in training_rows[id(means)] for means, rows in scored for row in rows
    )


def test_layers_and_steps_that_do_not_exist_are_rejected(network, blobs):
    X, y, _ = blobs
    with pytest.raises(ParameterError, match=r"epsilons must have at least one number, got \[\]"):
        fit_layerwise(network, blobs, epsilons=[])
    with pytest.raises(ValueError, match="no layer named 'hidden'; layer_names_ lists them"):
        fit_layerwise(network, blobs, layers=["hidden"])
    linear = MultilayerPerceptron(hidden=(), **QUICK, random_state=0).fit(X[:400], y[:400])
    with pytest.raises(
        ValueError,
        match="the network has no activation functions to take features from, got layers=null",
    ):
        fit_layerwise(linear, blobs)


def test_layerwise_rows_are_independent_and_finite(network, blobs):
    detector = fit_layerwise(network, blobs, epsilon=0.01)
    rows = np.concatenate([blobs[0][:20], blobs[0][:5] * 1e20, blobs[0][:5] * 1e300])
    scores = detector.ood_score(rows)
    assert np.isfinite(scores).all()
    assert_rows_agree(
        scores, np.concatenate([detector.ood_score(rows[i : i + 1]) for i in range(len(rows))])
    )
