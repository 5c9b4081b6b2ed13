"""Tests of ViM against the formulas of the paper on arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.detection import Energy, VirtualLogit
from kdgraph.features import FeatureMap
from kdgraph.metrics import auroc
from kdgraph.parents.networks import MultilayerPerceptron, MultilayerPerceptronEnsemble
from tests.companions import assert_rows_agree
from tests.detection.conftest import QUICK


@pytest.fixture(scope="module")
def network(blobs):
    return MultilayerPerceptron(hidden=(16, 12), activation="leaky_relu", **QUICK).fit(
        blobs[0][:400], blobs[1][:400]
    )


def fit_vim(network, blobs, **options) -> VirtualLogit:
    return VirtualLogit(FrozenEstimator(network), **options).fit(
        blobs[0][:400], X_calibration=blobs[0][400:]
    )


def virtual_logit_probability(
    features: np.ndarray,
    logits: np.ndarray,
    train: np.ndarray,
    train_logits: np.ndarray,
    origin: np.ndarray,
    d: int,
) -> np.ndarray:
    """Return the probability of the virtual logit (Eq. 7), by singular vectors."""
    _, _, axes = np.linalg.svd(train - origin)
    residual_basis = axes[d:].T
    alpha = (
        train_logits.max(axis=1).sum()
        / np.linalg.norm((train - origin) @ residual_basis, axis=1).sum()
    )
    virtual = alpha * np.linalg.norm((features - origin) @ residual_basis, axis=1)
    return softmax(np.column_stack([logits, virtual]), axis=1)[:, -1]


@pytest.mark.parametrize("dimensions", [None, 2, 11])
def test_score_agrees_with_the_formulas_of_the_paper(network, blobs, dimensions):
    """Compare the logistic function of the score with the probability of the paper."""
    X = blobs[0]
    detector = fit_vim(network, blobs, dimensions=dimensions)
    last_layer = network.module_[-1]
    weight, bias = (
        values.detach().numpy().astype(np.float64)
        for values in (last_layer.weight, last_layer.bias)
    )
    train, rows = (network.transform(values).astype(np.float64) for values in (X[:400], X[400:]))
    assert (network.logits(X[:400]).max(axis=1) > 0).all()  # as the paper assumes
    expected = virtual_logit_probability(
        rows,
        network.logits(X[400:]),
        train,
        network.logits(X[:400]),
        -np.linalg.pinv(weight) @ bias,
        dimensions or 6,
    )
    score = detector.score_samples(X[400:])
    np.testing.assert_allclose(1 / (1 + np.exp(score)), expected, rtol=1e-6, atol=1e-12)
    energy = logsumexp(network.logits(X[400:]), axis=1)
    assert (score < energy).all() and detector.origin_kind_ == "bias"
    assert detector.describe() == {
        "offset": detector.offset_,
        "alpha": detector.alpha_,
        "dimensions": dimensions or 6,
        "origin": "bias",
    }


def test_rows_outside_the_principal_space_have_higher_scores(blobs):
    """Test a network whose energy score fails on distant rows."""
    X, y, distant_rows = blobs
    network = MultilayerPerceptron(hidden=(16, 12), **{**QUICK, "max_epochs": 30}).fit(
        X[:400], y[:400]
    )
    energy, vim = (
        kind(FrozenEstimator(network)).fit(X[:400], X_calibration=X[400:])
        for kind in (Energy, VirtualLogit)
    )
    assert auroc(energy.ood_score(distant_rows), energy.ood_score(X[400:])) < 0.05
    assert (
        auroc(vim.ood_score(distant_rows), vim.ood_score(X[400:])) > 0.95
        and vim.predict(distant_rows).mean() == -1
    )


def test_mean_virtual_logit_is_that_of_the_largest_logits(network, blobs):
    X = blobs[0][:400]
    score = fit_vim(network, blobs).score_samples(X)
    logits = network.logits(X)
    assert np.mean(logsumexp(logits, axis=1) - score) == pytest.approx(
        np.abs(logits.max(axis=1)).mean(), rel=1e-9
    )


def test_origin_of_other_features_is_their_mean(network, blobs):
    X = blobs[0]
    first_layer = FeatureMap(
        source="layer", layer="1", reduce="none", scale="none"
    )  # 16 linear functions of 4 features
    row_features = FeatureMap(source="rows", reduce="none", scale="none")
    for features, d in ((first_layer, 2), (row_features, 2), (FeatureMap(source="layer"), 6)):
        detector = fit_vim(network, blobs, features=features)
        assert detector.origin_kind_ == "mean" and detector.describe()["dimensions"] == d
        train, rows = (
            detector.feature_map_.transform(network, values) for values in (X[:400], X[400:])
        )
        expected = virtual_logit_probability(
            rows, network.logits(X[400:]), train, network.logits(X[:400]), train.mean(axis=0), d
        )
        np.testing.assert_allclose(
            1 / (1 + np.exp(detector.score_samples(X[400:]))), expected, rtol=1e-6, atol=1e-12
        )


def test_origin_of_an_ensemble_is_the_mean(blobs):
    ensemble = MultilayerPerceptronEnsemble(members=2, hidden=(6,), **QUICK).fit(
        blobs[0][:400], blobs[1][:400]
    )
    detector = fit_vim(ensemble, blobs)
    assert detector.origin_kind_ == "mean" and detector.residual_basis_.shape == (12, 6)


def test_network_in_a_pipeline_is_fitted(blobs):
    X, y, distant_rows = blobs
    detector = VirtualLogit(
        make_pipeline(StandardScaler(), MultilayerPerceptron(hidden=(12,), **QUICK)), random_state=0
    ).fit(X, y)
    assert detector.origin_kind_ == "bias" and np.isfinite(detector.ood_score(distant_rows)).all()


def test_training_rows_without_residual_give_finite_scores(blobs):
    """Test rows in a subspace of dimension 1, which have no residual outside of it."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 2
    network = MultilayerPerceptron(hidden=(8,), **QUICK).fit(X, y)
    row_features = FeatureMap(source="rows", reduce="none", scale="none")
    X_flat = np.column_stack([X[:, 0], np.zeros(200)])
    detector = VirtualLogit(FrozenEstimator(network), features=row_features, dimensions=1).fit(
        X_flat[:100], X_calibration=X_flat[100:]
    )
    assert (
        np.isfinite(detector.ood_score(X)).all()
        and detector.ood_score(X)[0] > detector.ood_score(X_flat).max()
    )


def test_rows_are_independent_and_distant_scores_are_ordered(network, blobs):
    detector = fit_vim(network, blobs)
    rows = np.concatenate(
        [blobs[0][:20], *(blobs[2][:1] * scale for scale in (1e3, 1e9, 1e14, 1e40, 1e306))]
    )
    scores = detector.ood_score(rows)
    assert np.isfinite(scores).all() and (np.diff(scores[20:23]) > 0).all()
    assert_rows_agree(
        scores, np.concatenate([detector.ood_score(rows[i : i + 1]) for i in range(len(rows))])
    )


def test_dimensions_must_leave_some_features(network, blobs):
    with pytest.raises(
        ValueError,
        match="dimensions must be less than the 12 features, of which some have to be left, got 12",
    ):
        fit_vim(network, blobs, dimensions=12)
