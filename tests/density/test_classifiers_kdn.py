from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from torch import nn

from kdgraph import DensityGate, KernelDensityNetwork
from kdgraph.calibration import ScoreMap
from kdgraph.density import equations
from kdgraph.density.published import Figure1Network, PaperNetwork, ReferenceNetwork
from kdgraph.parents.networks import ConvolutionalNetwork, MultilayerPerceptron, TorchClassifier

NETWORKS = {
    "kdgraph": KernelDensityNetwork,
    "paper": PaperNetwork,
    "reference": ReferenceNetwork,
    "figure1": Figure1Network,
}

SMALL = {"hidden": (40, 40), "learning_rate": 3e-3, "max_epochs": 40, "random_state": 0}


def make_network(**options) -> MultilayerPerceptron:
    return MultilayerPerceptron(**(SMALL | options))


@pytest.fixture(scope="module")
def blob_rows(three_blobs):
    return three_blobs(300, 5)


@pytest.fixture(scope="module")
def fitted_kdn(blob_rows):
    return KernelDensityNetwork(make_network(), random_state=0).fit(*blob_rows)


def layer_bits(kdn: KernelDensityNetwork, X: np.ndarray) -> list[np.ndarray]:
    """Bits of each layer, computed by calling the modules one by one; the last layer's are p >
    1/K.
    """
    bits, x = [], torch.from_numpy(X.astype(np.float32))
    with torch.no_grad():
        for part in kdn.estimator_.module_:
            x = part(x)
            if isinstance(part, nn.ReLU):
                bits.append((x > 0).numpy())
    p = x.softmax(1).numpy()
    return [*bits, p > 1 / p.shape[1]] if kdn.output_bits else bits


def similarity(kdn: KernelDensityNetwork, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    K = np.ones((len(a), len(b)))
    for bits_a, bits_b in zip(layer_bits(kdn, a), layer_bits(kdn, b), strict=True):
        K *= 1.0 - cdist(bits_a, bits_b, "hamming")
    return K


@pytest.mark.parametrize("output_bits", [True, False])
def test_probabilities_match_the_formula(blob_rows, three_blobs, output_bits):
    X, y = blob_rows
    X_calibration, y_calibration = three_blobs(90, 6)
    kdn = KernelDensityNetwork(make_network(), output_bits=output_bits).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    test = three_blobs(70, 7)[0]
    rows, labels = np.concatenate([X, X_calibration]), np.concatenate([y, y_calibration])
    settings = kdn.describe()
    masses = similarity(kdn, test, rows) ** settings["exponent"] @ np.eye(3)[labels]
    posterior = equations.query_posterior(
        masses,
        kdn.estimator_.predict_proba(test),
        kdn.prior_,
        *(settings[name] for name in ("pseudo_count", "parent_weight", "parent_power")),
    )
    density = kdn.graph_.log_density(test)
    weight = np.maximum(np.exp(np.minimum(density - kdn.log_floor_, 0)), kdn.min_weight)[:, None]
    expected = weight * posterior + (1 - weight) * kdn.prior_
    np.testing.assert_allclose(
        kdn.predict_proba(test), expected, atol=1e-10
    )  # powers of the index are exact to 1e-12


@pytest.mark.parametrize("variant", ["kdgraph", "paper", "figure1"])
@pytest.mark.parametrize("distance", ["geodesic", "euclidean"])
def test_probabilities_tend_to_the_prior_far_from_the_data(blob_rows, variant, distance):
    X, y = blob_rows
    kdn = NETWORKS[variant](make_network(), distance=distance, random_state=0).fit(X, y)
    directions = np.random.default_rng(6).normal(size=(60, 4))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    for radius in (100.0, 1e4, 1e30):
        proba = kdn.predict_proba(radius * directions)
        np.testing.assert_allclose(
            proba, np.tile(kdn.prior_, (60, 1)), atol=1e-9
        )  # min_weight is left
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)
    assert kdn.estimator_.predict_proba(100 * directions).max(axis=1).mean() > 0.9


def test_published_variants_use_the_settings_for_networks(blob_rows):
    kdn = ReferenceNetwork(make_network(), random_state=0).fit(*blob_rows)
    exponent = kdn.posterior_.exponent  # 1, 3, … 19, and from the best of these in steps of .2
    assert 1 <= exponent < 21 and round(5 * exponent) == pytest.approx(5 * exponent, abs=1e-9)
    assert kdn.describe()["distance"] == "geodesic"
    figure1 = Figure1Network(make_network(), random_state=0).fit(*blob_rows)
    assert figure1.posterior_.exponent == pytest.approx(np.log2(210))  # 70 % of 300 rows train


def test_predictions_do_not_depend_on_other_rows_or_threads(fitted_kdn, blob_rows):
    X, _ = blob_rows
    together = fitted_kdn.predict_proba(X)
    assert np.array_equal(fitted_kdn.predict_proba(X[7:8]), together[7:8])
    assert np.array_equal(fitted_kdn.predict_proba(X[5:102][::-1]), together[5:102][::-1])
    threads = pickle.loads(pickle.dumps(fitted_kdn))
    threads.graph_.partition.n_jobs = 2
    assert np.array_equal(threads.predict_proba(X), together)


def test_string_labels_row_types_and_clone(blob_rows):
    X, y = blob_rows
    names = np.array(["sea", "land", "air"])[y]
    kdn = clone(KernelDensityNetwork(make_network(), random_state=0)).fit(X[:301], names[:301])
    assert kdn.classes_.tolist() == ["air", "land", "sea"]
    assert kdn.score(X, names) > 0.75
    binary = KernelDensityNetwork(make_network(), random_state=0).fit(
        X[y < 2], np.where(y[y < 2] == 0, 6, 5)
    )
    assert set(binary.predict(X)) == {5, 6}
    assert (binary.predict(X[y < 2]) == np.where(y[y < 2] == 0, 6, 5)).mean() > 0.8


@pytest.mark.filterwarnings(
    "ignore:.*X_calibration="
)  # the parent is fitted on the calibration rows
def test_user_module_is_supported(blob_rows):
    X, y = blob_rows
    trained = make_network().fit(X, y)
    user_network = TorchClassifier(module=trained.module_, max_epochs=0).fit(X, y)
    a = KernelDensityNetwork(FrozenEstimator(user_network), random_state=0).fit(X, y)
    b = KernelDensityNetwork(FrozenEstimator(trained), random_state=0).fit(X, y)
    assert np.array_equal(a.predict_proba(X), b.predict_proba(X))


def test_forest_parent_raises_for_networks(blob_rows):
    with pytest.raises(TypeError) as caught:
        KernelDensityNetwork(RandomForestClassifier(5), random_state=0).fit(*blob_rows)
    assert (
        str(caught.value)
        == "KernelDensityNetwork needs a network, got RandomForestClassifier, which consists of trees;"
        " use KernelDensityForest instead"
    )


def test_density_of_images_uses_the_input_of_the_dense_head():
    rng = np.random.default_rng(0)
    y = np.arange(160) % 2
    X = rng.random((160, 1, 8, 8)).astype(np.float32) * 0.2
    X[y == 1, :, 2:6, 2:6] += 0.7
    kdn = KernelDensityNetwork(
        ConvolutionalNetwork(max_epochs=30, learning_rate=3e-3, random_state=0), random_state=0
    ).fit(X, y)
    assert kdn.score(X, y) == 1.0
    assert kdn.graph_.gaussians.means.shape[1] == 3 * 6 * 6
    far_proba = kdn.predict_proba(20 * rng.random((30, 1, 8, 8)).astype(np.float32))
    np.testing.assert_allclose(far_proba, 0.5, atol=1e-6)
    gate = DensityGate(
        ScoreMap(ConvolutionalNetwork(max_epochs=5, random_state=0), method="temperature"),
        random_state=0,
    ).fit(X, y)
    np.testing.assert_allclose(
        gate.predict_proba(20 * rng.random((30, 1, 8, 8)).astype(np.float32)), 0.5, atol=1e-6
    )
    with pytest.raises(ValueError, match="3"):
        kdn.predict_proba(X[0])


def test_temperature_scaling_keeps_the_order_and_lowers_the_loss(blob_rows, three_blobs):
    X, y = blob_rows
    overfitted = make_network(max_epochs=300, patience=None).fit(X, y)
    calibration, test = three_blobs(300, 8), three_blobs(2000, 9)
    scaled = ScoreMap(FrozenEstimator(overfitted), method="temperature")
    scaled.fit(X, y, X_calibration=calibration[0], y_calibration=calibration[1])
    assert np.array_equal(scaled.predict(test[0]), overfitted.predict(test[0]))
    loss = {
        model: -np.log(model.predict_proba(test[0])[np.arange(2000), test[1]]).mean()
        for model in (scaled, overfitted)
    }
    assert loss[scaled] < loss[overfitted] - 0.05


# error, NLL with clip 1e-6, mean max confidence at radius 1.5 (rows reach 1; classes are equally
# frequent)
GOLDEN = {
    "kdgraph": (0.142, 0.337392, 0.500000),
    "paper": (0.434, 0.670912, 0.500000),
    "reference": (0.408, 0.675752, 0.564799),
    "figure1": (0.224, 0.567490, 0.536783),
}


def make_random_features() -> nn.Sequential:
    """Network with weights drawn by NumPy, because training results differ between processors."""
    rng, widths = np.random.default_rng(0), (2, 60, 60)
    module = nn.Sequential(
        nn.Linear(2, 60), nn.ReLU(), nn.Linear(60, 60), nn.ReLU(), nn.Linear(60, 2)
    )
    with torch.no_grad():
        for part, width in zip(module[::2], widths, strict=True):
            part.weight.copy_(
                torch.from_numpy(rng.normal(0, np.sqrt(2 / width), part.weight.shape))
            )
            part.bias.copy_(torch.from_numpy(rng.normal(0, 0.3, part.bias.shape)))
    return module


def draw_spiral_arms(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y, radius = np.arange(n) % 2, rng.random(n)
    angle = 4 * np.pi * radius + np.pi * y + rng.normal(0, 0.8, n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), y


@pytest.mark.parametrize("variant", GOLDEN)
def test_golden_numbers(variant):
    """Numbers of a fixed network; float32 may round differently elsewhere, which can switch a few
    units and tip a few of 500 rows.
    """
    (X, y), (X_calibration, y_calibration), (test, truth) = (
        draw_spiral_arms(300, 0),
        draw_spiral_arms(130, 1),
        draw_spiral_arms(500, 2),
    )
    frozen = FrozenEstimator(TorchClassifier(module=make_random_features(), max_epochs=0).fit(X, y))
    kdn = NETWORKS[variant](frozen).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    circle_angle = np.linspace(0, 2 * np.pi, 200, endpoint=False)
    error = (kdn.predict(test) != truth).mean()
    nll = -np.log(np.maximum(kdn.predict_proba(test)[np.arange(500), truth], 1e-6)).mean()
    confidence = (
        kdn.predict_proba(1.5 * np.column_stack([np.cos(circle_angle), np.sin(circle_angle)]))
        .max(axis=1)
        .mean()
    )
    assert error == pytest.approx(GOLDEN[variant][0], abs=2.5 / 500)
    assert nll == pytest.approx(GOLDEN[variant][1], abs=2e-3)
    assert confidence == pytest.approx(GOLDEN[variant][2], abs=2e-3)
