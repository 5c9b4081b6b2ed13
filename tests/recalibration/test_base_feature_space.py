"""Feature spaces: each against a loop of Algorithm 1 with distances computed by numpy."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator

from kdgraph.data.dataset import Dataset
from kdgraph.parents import Design, GammaGlm, GaussianLinear
from kdgraph.parents.networks import MultilayerPerceptronRegressor
from kdgraph.recalibration import LocalPit

K = 25
Q = np.array([0.05, 0.5, 0.95])


def make_outcome_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows with one relevant feature of two, in different units, and positive outcomes."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0.5, 2, size=(n, 2)) * [1.0, 50.0]
    return X, 1 + 2 * X[:, 0] ** 2 + X[:, 0] * rng.uniform(-1, 1, size=n)


@pytest.fixture(scope="module")
def parts():
    return make_outcome_rows(150, 1), make_outcome_rows(160, 2), make_outcome_rows(40, 3)


def assert_equals_algorithm_1(
    parent, parts, distance_matrix: np.ndarray, rtol: float, **settings
) -> None:
    """Compare LocalPit with the weighted samples of distances Float[test, calibration]."""
    train, (X_held, y_held), (X, y) = parts
    model = LocalPit(FrozenEstimator(parent), k=K, random_state=0, **settings).fit(
        *train, X_calibration=X_held, y_calibration=y_held
    )
    pits, base, recalibrated = (
        parent.predict_dist(X_held).cdf(y_held),
        parent.predict_dist(X),
        model.predict_dist(X),
    )
    result = np.stack([recalibrated.mean(), recalibrated.var(), recalibrated.crps(y)], axis=1)
    quantiles = recalibrated.ppf(Q)
    for i, row_distances in enumerate(distance_matrix):
        neighbour_ids = np.argsort(row_distances, kind="stable")[:K]
        weights = np.maximum(
            1 - (row_distances[neighbour_ids] / row_distances[neighbour_ids[-1]]) ** 2, 0
        )
        weights /= weights.sum()
        sample = base[i].ppf(pits[neighbour_ids])[0]
        mean = sample @ weights
        crps = (
            np.abs(sample - y[i]) @ weights
            - weights @ np.abs(sample[:, None] - sample) @ weights / 2
        )
        np.testing.assert_allclose(
            result[i], [mean, (sample - mean) ** 2 @ weights, crps], rtol=rtol, atol=rtol
        )
        order = np.argsort(sample)
        cumulative_weights = np.cumsum(weights[order])
        for q, quantile in zip(Q, quantiles[i], strict=True):
            if (
                np.abs(cumulative_weights - q).min() > rtol
            ):  # otherwise rounding decides between two values
                assert quantile == pytest.approx(
                    sample[order][np.searchsorted(cumulative_weights, q)], rel=1e-9
                )


def distances(points: np.ndarray, calibration_points: np.ndarray, units: str = "sd") -> np.ndarray:
    """Return Euclidean distances Float[m, n], in standard deviations of ``held`` or raw units.

    A constant feature is not rescaled.
    """
    spread = calibration_points.std(axis=0)
    unit = (
        np.where(spread > 0, spread, 1.0) if units == "sd" else np.ones(calibration_points.shape[1])
    )
    return np.array(
        [
            [
                np.sqrt((((point - calibration_point) / unit) ** 2).sum())
                for calibration_point in calibration_points
            ]
            for point in points
        ]
    )


@pytest.fixture(scope="module")
def network(parts):
    options = {
        "learning_rate": 0.03,
        "batch_size": 30,
        "max_epochs": 30,
        "patience": None,
        "device": "cpu",
        "random_state": 0,
    }
    return MultilayerPerceptronRegressor(hidden=(16, 8), activation="leaky_relu", **options).fit(
        parts[0][0] / [1, 50], parts[0][1]
    )


@pytest.mark.parametrize("units", ["sd", "raw"])
@pytest.mark.parametrize(
    ("layer", "depth", "active"), [(None, 2, True), ("3", 2, False), ("2", 1, True)]
)
def test_layer_space_matches_activations_in_numpy(network, parts, layer, depth, active, units):
    """Layer None is the last hidden one; the network computes in float32, to 1e-5."""
    parts = tuple((X / [1, 50], y) for X, y in parts)
    weights = {
        name: value.numpy().astype(float) for name, value in network.module_.state_dict().items()
    }

    def outputs(values: np.ndarray) -> np.ndarray:
        for i in range(depth):
            values = values @ weights[f"{2 * i + 1}.weight"].T + weights[f"{2 * i + 1}.bias"]
            values = (
                np.where(values > 0, values, 0.01 * values) if active or i + 1 < depth else values
            )
        return values

    distance_matrix = distances(outputs(parts[2][0]), outputs(parts[1][0]), units)
    assert len(np.unique(distance_matrix)) > distance_matrix.size / 2
    assert_equals_algorithm_1(
        network, parts, distance_matrix, 1e-5, feature_space="layer", layer=layer, units=units
    )


@pytest.mark.parametrize("frozen", [False, True])
def test_geodesic_space_matches_shared_leaves(parts, frozen):
    """The distance is 1 minus the fraction of trees with a common leaf.

    A forest is fitted on the parent's training rows, unless it is frozen. Rows at the distance of
    the k-th neighbour have no weight. Weights are stored in float32.
    """
    (X, y), (X_held, _), (X_test, _) = parts
    forest = RandomForestRegressor(30, min_samples_leaf=10, max_features=1, random_state=0)
    other_forest = RandomForestRegressor(
        20, min_samples_leaf=5, max_features=1, random_state=1
    ).fit(*make_outcome_rows(150, 4))
    forest_parameter, fitted_forest = (
        (FrozenEstimator(other_forest), other_forest)
        if frozen
        else (forest, RandomForestRegressor(**forest.get_params()).fit(X, y))
    )
    leaves_test, leaves_held = fitted_forest.apply(X_test), fitted_forest.apply(X_held)
    distance_matrix = np.array([[1 - np.mean(a == b) for b in leaves_held] for a in leaves_test])
    assert_equals_algorithm_1(
        GaussianLinear().fit(X, y),
        parts,
        distance_matrix,
        1e-6,
        feature_space="geodesic",
        forest=forest_parameter,
    )


@pytest.mark.parametrize("units", ["sd", "raw"])
def test_output_space_is_mean_and_standard_deviation(parts, units):
    """The deviation of a Gamma model grows with its mean; weights are stored in float32."""
    parent = GammaGlm().fit(*parts[0])
    predicted = [parent.predict_dist(X) for X, _ in parts[1:]]
    held_coordinates, test_coordinates = (
        np.stack([distribution.mean(), np.sqrt(distribution.var())], axis=1)
        for distribution in predicted
    )
    assert_equals_algorithm_1(
        parent,
        parts,
        distances(test_coordinates, held_coordinates, units),
        1e-6,
        feature_space="output",
        units=units,
    )


@pytest.mark.parametrize("units", ["sd", "raw"])
def test_untransformed_space_skips_input_transformations(parts, units):
    """The input space has the logarithm of one column, the untransformed space both columns."""
    (X, y), (X_held, _), (X_test, _) = parts
    table = Dataset("table", X, y, np.empty(0), ("weight", "depth"), "regression")
    parent = Design(log=("weight",), columns=("weight",)).wrap(GaussianLinear(), table).fit(X, y)
    input_distances = distances(np.log(X_test[:, :1]), np.log(X_held[:, :1]), units)
    assert_equals_algorithm_1(
        parent, parts, input_distances, 1e-6, feature_space="input", units=units
    )
    assert_equals_algorithm_1(
        parent,
        parts,
        distances(X_test, X_held, units),
        1e-6,
        feature_space="untransformed",
        units=units,
    )


@pytest.mark.parametrize("k", [5, 12, 20, 21, 22, 30])
def test_local_linear_is_finite_with_fewer_neighbours_than_slopes(k):
    """There are 20 slopes; quantiles increase and stay near the outcomes."""
    rng = np.random.default_rng(k)
    X = rng.normal(size=(500, 20))
    y = X[:, 0] + X[:, 1] ** 2 + np.exp(X[:, 2] / 2) * rng.normal(size=500)
    model = LocalPit(GaussianLinear(), k=k, local_linear=True).fit(
        X[:200], y[:200], X_calibration=X[200:400], y_calibration=y[200:400]
    )
    predicted = model.predict_dist(X[400:])
    for numbers in (
        predicted.mean(),
        predicted.var(),
        predicted.crps(y[400:]),
        predicted.ppf(np.array([0.01, 0.5, 0.99])),
    ):
        assert np.isfinite(numbers).all()
    assert (predicted.var() > 0).all() and (
        np.diff(predicted.ppf(np.linspace(0, 1, 21)), axis=1) >= 0
    ).all()
    assert np.ptp(predicted.ppf(np.array([0.01, 0.99]))) < 3 * np.ptp(y)
