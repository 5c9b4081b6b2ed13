"""Classifier behind an encoder: a pipeline whose steps are parameters."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from experiments.p3.autoencoder import ConvolutionalAutoencoder, LatentClassifier
from kdgraph import KernelDensityForest
from kdgraph.config.compatibility import takes
from kdgraph.detection import TreeHamming
from kdgraph.geometry import partition_kind, partition_of
from kdgraph.parents.classifiers import clone_for_new_labels
from kdgraph.persistence import from_bytes, to_bytes


def make_latent_classifier() -> LatentClassifier:
    encoder = ConvolutionalAutoencoder(max_epochs=2, device="cpu", random_state=0)
    return LatentClassifier(encoder, ExtraTreesClassifier(10, random_state=0))


@pytest.fixture(scope="module")
def digits() -> tuple[np.ndarray, np.ndarray]:
    X, y = load_digits(return_X_y=True)
    return (X[:400] / 16).astype(np.float32).reshape(-1, 1, 8, 8), y[:400]


@pytest.fixture(scope="module")
def fitted(digits) -> LatentClassifier:
    return make_latent_classifier().fit(digits[0][:300], digits[1][:300])


def test_it_predicts_like_a_pipeline_of_the_same_steps(digits, fitted):
    X, y = digits
    steps = [(name, clone(step)) for name, step in fitted.steps]
    np.testing.assert_array_equal(
        fitted.predict_proba(X), Pipeline(steps).fit(X[:300], y[:300]).predict_proba(X)
    )
    assert fitted.classes_.tolist() == list(range(10)) and fitted.score(X[300:], y[300:]) > 0.5


def test_steps_are_parameters(digits, fitted):
    copy = clone(fitted)
    assert set(copy.get_params(deep=False)) == {"encoder", "classifier"}
    assert copy.encoder is not fitted.encoder and not hasattr(copy.encoder, "module_")
    copy.set_params(encoder__max_epochs=7, classifier=ExtraTreesClassifier(3))
    restored = clone(copy)
    assert (restored.encoder.max_epochs, restored.classifier.n_estimators) == (7, 3)
    assert restored.steps == [("encoder", restored.encoder), ("classifier", restored.classifier)]
    np.testing.assert_array_equal(
        fitted[:-1].transform(digits[0]), fitted.encoder.transform(digits[0])
    )
    assert fitted["classifier"] is fitted[-1] is fitted.classifier


def test_input_type_is_that_of_the_encoder():
    assert takes(make_latent_classifier(), "three_d_array") and not takes(
        make_latent_classifier(), "two_d_array"
    )
    vectors = LatentClassifier(PCA(), ExtraTreesClassifier())
    assert takes(vectors, "two_d_array") and not takes(vectors, "three_d_array")
    assert partition_kind(make_latent_classifier()) == "forest"


def test_polytopes_are_those_of_the_forest_on_latents(digits, fitted):
    X, latents = digits[0], fitted.encoder.transform(digits[0])
    place = partition_of(fitted).locate(X)
    np.testing.assert_array_equal(place.codes, partition_of(fitted.classifier).encode(latents))
    np.testing.assert_array_equal(place.points, latents)


def test_a_kernel_density_forest_uses_its_latents(digits, fitted):
    X, y = digits
    graph = KernelDensityForest(FrozenEstimator(fitted), random_state=0).fit(
        X[:300], y[:300], X_calibration=X[300:], y_calibration=y[300:]
    )
    assert graph.score(X[300:], y[300:]) > 0.5
    np.testing.assert_allclose(
        graph.predict_proba(np.full((1, 1, 8, 8), 1e6)),
        np.bincount(y[:300], minlength=10)[None] / 300,
        atol=1e-6,
    )


def test_a_saved_model_predicts_the_same_bits(digits, fitted):
    restored = from_bytes(to_bytes(fitted), "it").value
    np.testing.assert_array_equal(
        restored.predict_proba(digits[0]), fitted.predict_proba(digits[0])
    )
    assert type(restored) is LatentClassifier and set(restored.get_params()) == set(
        fitted.get_params()
    )


def test_new_labels_refit_the_forest_but_not_the_encoder(digits, fitted):
    X, y = digits
    detector = TreeHamming(FrozenEstimator(fitted), set_size=20, random_state=0).fit(
        X[:300], y[:300], X_calibration=X[300:]
    )
    encoder, forest = (step for _, step in detector.estimator_.steps)
    assert encoder.estimator is fitted.encoder and forest is not fitted.classifier
    codes, parent_codes = (
        forest.apply(fitted.encoder.transform(X)),
        fitted.classifier.apply(fitted.encoder.transform(X)),
    )
    assert len(np.unique(codes[:300, 0])) > 1.5 * len(
        np.unique(parent_codes[:300, 0])
    )  # random labels need more leaves
    restored = from_bytes(to_bytes(detector, {"parent": fitted}), "it", {"parent": fitted}).value
    np.testing.assert_array_equal(restored.score_samples(X[300:]), detector.score_samples(X[300:]))
    unfitted_parent = TreeHamming(make_latent_classifier(), set_size=20, random_state=0).fit(
        X[:300], y[:300], X_calibration=X[300:]
    )
    assert (
        unfitted_parent.estimator_.steps[0][1].n_epochs_ == 2
    )  # an unfitted encoder is trained, as any parent


def test_steps_that_may_use_labels_are_refitted(digits):
    X, y = digits[0].reshape(400, -1), digits[1]
    fitted = LatentClassifier(StandardScaler(), ExtraTreesClassifier(5, random_state=0)).fit(
        X, y
    )  # a scaler does not declare learns_from_labels
    copy = clone_for_new_labels(fitted, 0)
    assert (
        type(copy) is LatentClassifier
        and not hasattr(copy.encoder, "scale_")
        and not hasattr(copy.classifier, "estimators_")
    )
