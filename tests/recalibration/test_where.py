"""Local recalibration in every space against Algorithm 1 of Torres et al., written row by row."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.frozen import FrozenEstimator
from sklearn.preprocessing import FunctionTransformer

from kdgraph.parents import GaussianLinear
from kdgraph.parents.columns import Encoded
from kdgraph.parents.networks import MultilayerPerceptronRegressor
from kdgraph.recalibration import LocalPit

K = 20
RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(260, 3))
Y = X[:, 0] ** 2 + np.abs(X[:, 1]) * RNG.normal(size=260)
TRAIN, CALIBRATION, NEW = slice(0, 100), slice(100, 240), slice(240, 260)


def written_out(parent, distance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and median of the new rows, given how far each is from each calibration row, Float[new, calibration]."""
    pits = parent.predict_dist(X[CALIBRATION]).cdf(Y[CALIBRATION])
    mean, median = [], []
    for row, away in zip(X[NEW], distance, strict=True):
        near = np.argsort(away, kind="stable")[:K]
        u = away[near[-1]]
        weight = 1 - (away[near] / u) ** 2
        sample = parent.predict_dist(row[None]).ppf(pits[near])[0]
        order = np.argsort(sample)
        mean.append((weight * sample).sum() / weight.sum())
        median.append(sample[order][np.searchsorted(np.cumsum(weight[order]) / weight.sum(), 0.5)])
    return np.array(mean), np.array(median)


def distances(of) -> np.ndarray:
    """Euclidean, of what ``of`` makes of rows, in units of its standard deviation over calibration rows."""
    known, new = of(X[CALIBRATION]), of(X[NEW])
    spread = known.std(axis=0)
    spread[spread == 0] = 1
    return np.sqrt((((new[:, None] - known[None]) / spread) ** 2).sum(axis=2))


def fitted(parent, **options):
    model = LocalPit(FrozenEstimator(parent), k=K, random_state=0, **options)
    return model.fit(X[TRAIN], Y[TRAIN], X_calibration=X[CALIBRATION], y_calibration=Y[CALIBRATION])


def compare(model, parent, distance: np.ndarray) -> None:
    """Weights are kept in Float32, so that means differ by 6e-8 of themselves; medians are the same values of the same rows."""
    mean, median = written_out(parent, distance)
    found = model.predict_dist(X[NEW])
    np.testing.assert_allclose(found.mean(), mean, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found.ppf(0.5), median, rtol=1e-5, atol=1e-6)


@pytest.fixture(scope="module")
def network():
    return MultilayerPerceptronRegressor(hidden=(8, 4), max_epochs=3, device="cpu", random_state=0).fit(X[TRAIN], Y[TRAIN])


@pytest.mark.parametrize("layer", [None, 0])
def test_in_a_layer_of_a_network(network, layer):
    """The last hidden layer, if none is named; or any that ``layer_names_`` has."""
    name = None if layer is None else network.layer_names_[layer]
    model = fitted(network, where="layer", layer=name)
    compare(model, network, distances(lambda rows: network.transform(rows, name).astype(float)))


def test_in_the_leaves_of_a_forest():
    """Far is the share of trees that part two rows; ties are many, so only rows whose neighbours are certain are compared."""
    parent = GaussianLinear().fit(X[TRAIN], Y[TRAIN])
    forest = RandomForestRegressor(200, min_samples_leaf=5, random_state=0).fit(X[TRAIN], Y[TRAIN])
    model = fitted(parent, where="geodesic", forest=FrozenEstimator(forest))
    apart = (forest.apply(X[NEW])[:, None] != forest.apply(X[CALIBRATION])[None]).mean(axis=2)
    ordered = np.sort(apart, axis=1)
    certain = ordered[:, K] - ordered[:, K - 1] > 1e-9
    assert certain.sum() > 5
    mean, _ = written_out(parent, apart)
    np.testing.assert_allclose(model.predict_dist(X[NEW]).mean()[certain], mean[certain], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("where", ["input", "given"])
def test_before_and_behind_the_parents_own_transformations(where):
    parent = Encoded([("columns", FunctionTransformer(np.exp)), ("model", GaussianLinear())]).fit(X[TRAIN], Y[TRAIN])
    model = fitted(parent, where=where)
    compare(model, parent, distances(parent[:-1].transform if where == "input" else np.asarray))


def test_in_the_output(network):
    model = fitted(network, where="output")
    compare(model, network, distances(lambda rows: network.predict(rows)[:, None]))  # the deviation is one for all


@pytest.mark.parametrize("k", [5, 30])
def test_few_neighbours_in_many_features_give_numbers(k):
    rng = np.random.default_rng(1)
    many, outcome = rng.normal(size=(120, 20)), rng.normal(size=120)
    model = LocalPit(GaussianLinear(), k=k, degree=1, random_state=0).fit(many[:100], outcome[:100])
    found = model.predict_dist(3 * many[100:])
    assert np.isfinite([found.mean(), found.var(), *found.interval(0.99)]).all()
