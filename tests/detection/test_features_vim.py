"""ViM against the paper's formulas, written out on arrays."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import logsumexp, softmax
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph.detection import Energy, VirtualLogit
from kdgraph.features import FeatureMap
from kdgraph.metrics import auroc
from kdgraph.parents.networks import MultilayerPerceptron, MultilayerPerceptronEnsemble
from tests.companions import assert_rows_agree

QUICK = {
    "learning_rate": 0.02,
    "batch_size": 64,
    "max_epochs": 4,
    "patience": None,
    "device": "cpu",
    "random_state": 0,
}


@pytest.fixture(scope="module")
def network(blobs):
    return MultilayerPerceptron(hidden=(16, 12), activation="leaky_relu", **QUICK).fit(
        blobs[0][:400], blobs[1][:400]
    )


def fitted(network, blobs, **options) -> VirtualLogit:
    return VirtualLogit(FrozenEstimator(network), **options).fit(
        blobs[0][:400], X_calibration=blobs[0][400:]
    )


def reference_scores(
    features: np.ndarray,
    logits: np.ndarray,
    train: np.ndarray,
    train_logits: np.ndarray,
    origin: np.ndarray,
    d: int,
) -> np.ndarray:
    """Probability of the virtual logit (Eq. 7), by the singular vectors of the training
    features.
    """
    _, _, axes = np.linalg.svd(train - origin)
    rest = axes[d:].T
    alpha = train_logits.max(axis=1).sum() / np.linalg.norm((train - origin) @ rest, axis=1).sum()
    virtual = alpha * np.linalg.norm((features - origin) @ rest, axis=1)
    return softmax(np.column_stack([logits, virtual]), axis=1)[:, -1]


@pytest.mark.parametrize("dimensions", [None, 2, 11])
def test_virtual_logit_matches_its_definition(network, blobs, dimensions):
    """The score is the energy less the virtual logit, and its logistic function the paper's
    probability.
    """
    X = blobs[0]
    detector = fitted(network, blobs, dimensions=dimensions)
    last = network.module_[-1]
    weight, bias = (
        values.detach().numpy().astype(np.float64) for values in (last.weight, last.bias)
    )
    train, rows = (network.transform(values).astype(np.float64) for values in (X[:400], X[400:]))
    assert (network.logits(X[:400]).max(axis=1) > 0).all()  # as the paper has them
    expected = reference_scores(
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


def test_rows_off_the_principal_space_are_farther_out(blobs):
    """Also where the network is the more certain of them the farther they are."""
    X, y, distant = blobs
    network = MultilayerPerceptron(hidden=(16, 12), **{**QUICK, "max_epochs": 30}).fit(
        X[:400], y[:400]
    )
    energy, vim = (
        kind(FrozenEstimator(network)).fit(X[:400], X_calibration=X[400:])
        for kind in (Energy, VirtualLogit)
    )
    assert auroc(energy.ood_score(distant), energy.ood_score(X[400:])) < 0.05
    assert (
        auroc(vim.ood_score(distant), vim.ood_score(X[400:])) > 0.95
        and vim.predict(distant).mean() == -1
    )


def test_mean_virtual_logit_equals_mean_largest_logit(network, blobs):
    X = blobs[0][:400]
    score = fitted(network, blobs).score_samples(X)
    logits = network.logits(X)
    assert np.mean(logsumexp(logits, axis=1) - score) == pytest.approx(
        np.abs(logits.max(axis=1)).mean(), rel=1e-9
    )


def test_origin_is_the_mean_of_features_that_the_last_layer_does_not_use(network, blobs):
    X = blobs[0]
    first = FeatureMap(
        source="layer", layer="1", reduce="none", scale="none"
    )  # 16 numbers that are linear in 4
    everywhere = FeatureMap(source="rows", reduce="none", scale="none")
    for features, d in ((first, 2), (everywhere, 2), (FeatureMap(source="layer"), 6)):
        detector = fitted(network, blobs, features=features)
        assert detector.origin_kind_ == "mean" and detector.describe()["dimensions"] == d
        train, rows = (
            detector.feature_map_.transform(network, values) for values in (X[:400], X[400:])
        )
        expected = reference_scores(
            rows, network.logits(X[400:]), train, network.logits(X[:400]), train.mean(axis=0), d
        )
        np.testing.assert_allclose(
            1 / (1 + np.exp(detector.score_samples(X[400:]))), expected, rtol=1e-6, atol=1e-12
        )


def test_ensemble_without_one_last_layer_is_refused(blobs):
    ensemble = MultilayerPerceptronEnsemble(members=2, hidden=(6,), **QUICK).fit(
        blobs[0][:400], blobs[1][:400]
    )
    detector = fitted(ensemble, blobs)
    assert detector.origin_kind_ == "mean" and detector.residual_basis_.shape == (12, 6)


def test_pipeline_and_unfitted_parent_give_the_same_score(blobs):
    X, y, distant = blobs
    detector = VirtualLogit(
        make_pipeline(StandardScaler(), MultilayerPerceptron(hidden=(12,), **QUICK)), random_state=0
    ).fit(X, y)
    assert detector.origin_kind_ == "bias" and np.isfinite(detector.ood_score(distant)).all()


def test_constant_units_give_finite_scores(blobs):
    """Of rows in a plane, a linear layer has features in a plane, so there is no residual to
    match.
    """
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(200, 2)), np.arange(200) % 2
    network = MultilayerPerceptron(hidden=(8,), **QUICK).fit(X, y)
    rows = FeatureMap(source="rows", reduce="none", scale="none")
    flat = np.column_stack([X[:, 0], np.zeros(200)])
    detector = VirtualLogit(FrozenEstimator(network), features=rows, dimensions=1).fit(
        flat[:100], X_calibration=flat[100:]
    )
    assert (
        np.isfinite(detector.ood_score(X)).all()
        and detector.ood_score(X)[0] > detector.ood_score(flat).max()
    )


def test_rows_are_independent_and_distant_scores_are_ordered(network, blobs):
    detector = fitted(network, blobs)
    rows = np.concatenate(
        [blobs[0][:20], *(blobs[2][:1] * scale for scale in (1e3, 1e9, 1e14, 1e40, 1e306))]
    )
    together = detector.ood_score(rows)
    assert np.isfinite(together).all() and (np.diff(together[20:23]) > 0).all()
    assert_rows_agree(
        together, np.concatenate([detector.ood_score(rows[i : i + 1]) for i in range(len(rows))])
    )


def test_invalid_input_of_fit_is_refused(network, blobs):
    X, y, _ = blobs
    with pytest.raises(ValueError, match="VirtualLogit needs an estimator, got None"):
        VirtualLogit().fit(X, y)
    with pytest.raises(TypeError, match="RandomForestClassifier has no logits or layers to read"):
        VirtualLogit(RandomForestClassifier(3)).fit(X, y)
    with pytest.raises(
        ValueError,
        match="dimensions must be less than the 12 features, of which some have to be left, got 12",
    ):
        fitted(network, blobs, dimensions=12)
