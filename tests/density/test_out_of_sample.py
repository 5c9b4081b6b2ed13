"""Kernel density forests and gates that hold no row out, compared with dense computations."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import make_classification, make_moons
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from kdgraph import DensityGate, KernelDensityForest, KernelDensityNetwork
from kdgraph.base import Rows
from kdgraph.base.rows import OutOfBag
from kdgraph.calibration import MatrixScaling
from kdgraph.density import equations
from kdgraph.density.graph import KernelDensityGraph, OutOfBagCounts, draw_rows
from kdgraph.density.posterior import (
    EXPONENT_FACTOR_GRID,
    PSEUDO_COUNT_GRID,
    IsotonicMaps,
    PosteriorMaps,
    fit_posterior_maps,
)
from kdgraph.density.published import ReferenceForest
from kdgraph.geometry import partition_of
from kdgraph.parents import PrecomputedScores
from kdgraph.parents.networks import MultilayerPerceptron
from kdgraph.persistence import from_bytes, to_bytes

X, Y = make_moons(250, noise=0.3, random_state=0)
TEST, TEST_Y = make_moons(200, noise=0.3, random_state=1)


def forest(**options) -> RandomForestClassifier:
    return RandomForestClassifier(**{"n_estimators": 60, "random_state": 0, **options})


@pytest.fixture(scope="module")
def kdf() -> KernelDensityForest:
    return KernelDensityForest(forest(), random_state=0).fit(X, Y)


def out_of_bag_similarity(model) -> tuple[np.ndarray, np.ndarray]:
    """Return K of all training rows, and of test rows and training rows, from dense arrays."""
    parent = model.estimator_
    is_out, codes = OutOfBag(parent, X).is_out, parent.apply(X)
    training = equations.out_of_bag_kernel(codes, codes, is_out, np.arange(len(X)))
    return training, equations.out_of_bag_kernel(parent.apply(TEST), codes, is_out)


def class_masses(similarity: np.ndarray, exponent: float) -> np.ndarray:
    return np.where(similarity > 0, similarity**exponent, 0) @ np.eye(2)[Y]


def test_posterior_is_the_likelihood_weighted_average(kdf):
    similarity, new_similarity = out_of_bag_similarity(kdf)
    parent, prior = kdf.estimator_, np.bincount(Y) / len(Y)
    own_proba = forest(oob_score=True).fit(X, Y).oob_decision_function_
    new_proba = parent.predict_proba(TEST)

    def nll(p):
        return -np.log(np.maximum(p[np.arange(len(Y)), Y], 1e-6)).sum()

    def candidate(masses, proba, *values):
        return equations.query_posterior(masses, proba, prior, *values)

    none = np.zeros((len(Y), 2))
    powers = np.geomspace(0.1, 10, 41)
    best_power = min(powers, key=lambda power: nll(candidate(none, own_proba, 1.0, 1.0, power)))
    scores, new = [], []
    for factor in EXPONENT_FACTOR_GRID[::2]:
        exponent = equations.exponent(factor, len(Y))
        masses, new_masses = (class_masses(K, exponent) for K in (similarity, new_similarity))
        for a in PSEUDO_COUNT_GRID[::2]:
            for power in (1.0, best_power):
                for v in np.linspace(0, 1, 21):
                    scores.append(nll(candidate(masses, own_proba, a, v, power)))
                    new.append(candidate(new_masses, new_proba, a, v, power))
    weights = np.exp(np.min(scores) - np.array(scores))
    weights[weights < 1e-3] = 0
    weights, new = weights / weights.sum(), np.array(new)
    # Exponents of which all together weigh at most .02 in the kernel take the posteriors of the
    # nearest other one.
    factors = EXPONENT_FACTOR_GRID[::2]
    shape = (len(factors), len(PSEUDO_COUNT_GRID[::2]), 2, 21)
    of_kernel = (weights.reshape(shape) * (1 - np.linspace(0, 1, 21))).sum(axis=(1, 2, 3))
    lightest = sorted(range(len(factors)), key=lambda k: of_kernel[k])
    others = [k for i, k in enumerate(lightest) if of_kernel[lightest[: i + 1]].sum() > 0.02]
    nearest = [min(sorted(others), key=lambda other: abs(other - k)) for k in range(len(factors))]
    exact = np.tensordot(weights, new, 1)
    average = np.tensordot(
        weights, new.reshape(*shape, *exact.shape)[nearest].reshape(new.shape), 1
    )
    assert len(others) < np.count_nonzero(of_kernel)
    assert np.abs(average - exact).max() < 0.02
    without_maps = replace(kdf.posterior_, maps=PosteriorMaps())
    query_result = kdf.graph_.query(kdf.graph_.partition.locate(TEST), without_maps.exponents)
    actual, log_density = without_maps(query_result, kdf.graph_)
    # Powers and sums are rounded differently.
    np.testing.assert_allclose(actual, average, atol=1e-8)

    mapped = kdf.posterior_.maps(actual, new_proba)
    above = log_density - kdf.log_floor_
    weight = np.maximum(np.exp(np.minimum(above, 0)), 1e-9)[:, None]
    np.testing.assert_allclose(
        kdf.predict_proba(TEST), weight * mapped + (1 - weight) * prior, atol=1e-12
    )


def test_isotonic_fraction_is_chosen_by_maps_of_other_folds():
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 1], 3000)
    # The probabilities are calibrated in the first problem. In the second the class depends on them
    # by two steps, which an increasing map has and no scaling.
    calibrated = (rng.random(3000) < proba[:, 1]).astype(int)
    steps = 0.05 + 0.45 * (proba[:, 1] > 0.3) + 0.45 * (proba[:, 1] > 0.9)
    stepped = (rng.random(3000) < steps).astype(int)
    fractions = [
        fit_posterior_maps(proba, proba, Rows.unweighted(proba, y)).isotonic_fraction
        for y in (calibrated, stepped)
    ]
    assert fractions[0] < 0.5 < 0.8 < fractions[1]


def test_isotonic_maps_leave_rows_of_zeros_unchanged():
    maps = IsotonicMaps((np.array([0.0, 0.5]),) * 2, (np.array([0.0, 0.0]),) * 2)
    proba = np.array([[0.3, 0.7]])
    np.testing.assert_array_equal(maps(proba), proba)
    np.testing.assert_array_equal(PosteriorMaps()(proba, proba), proba)


def test_scalings_of_the_calibrator_are_mixed_by_fractions():
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(600, 3))
    change = np.array([[1.0, 0.8, 0.0], [0.0, 0.5, 0.0], [0.0, 0.0, 1.0]])
    truth, posterior = softmax(logits @ change, axis=1), softmax(0.5 * logits, axis=1)
    y = (truth.cumsum(axis=1) < rng.random((600, 1))).sum(axis=1)
    proba, rows = softmax(2 * logits, axis=1), Rows.unweighted(logits, y)
    maps = fit_posterior_maps(posterior, proba, rows)
    assert maps.parent_fraction + maps.posterior_fraction > 0.5
    label = np.arange(9) % 3
    expected = (1 - maps.parent_fraction - maps.posterior_fraction) * posterior
    for fraction, each in ((maps.parent_fraction, proba), (maps.posterior_fraction, posterior)):
        scores = PrecomputedScores().fit(np.eye(3)[label], label)
        scaling = MatrixScaling(FrozenEstimator(scores)).fit(
            np.eye(3)[label], label, X_calibration=each, y_calibration=y
        )
        expected += fraction * scaling.predict_proba(each)
    np.testing.assert_allclose(replace(maps, isotonic=None)(posterior, proba), expected, atol=1e-9)


@pytest.mark.parametrize("y", [[0, 0, 0, 1], [0, 1], [0, 0, 1, 1]])
def test_few_rows_have_maps_only_with_two_classes_in_each_fold(y):
    y, proba = np.array(y), np.full((len(y), 2), 0.5)
    maps = fit_posterior_maps(proba, proba, Rows.unweighted(proba, y))
    assert (maps.isotonic is None) == (min(np.bincount(y)) < 2)
    assert np.isfinite(maps(proba, proba)).all()


def test_fixed_parameters_are_used_as_they_are():
    fixed = {"k": 0.7, "pseudo_count": 0.2, "parent_weight": 0.25, "parent_power": 1.5}
    model = KernelDensityForest(forest(), **fixed, alpha=None).fit(X, Y)
    _, similarity = out_of_bag_similarity(model)
    masses, prior = class_masses(similarity, 0.7 * np.log(250)), np.bincount(Y) / len(Y)
    parent_proba = model.estimator_.predict_proba(TEST)
    posterior = equations.query_posterior(masses, parent_proba, prior, 0.2, 0.25, 1.5)
    expected = model.posterior_.maps(posterior, parent_proba)
    np.testing.assert_allclose(model.predict_proba(TEST), expected, atol=1e-12)


def test_without_alpha_there_is_no_floor():
    model = KernelDensityForest(forest(), alpha=None, random_state=0).fit(X, Y)
    far = np.array([[30.0, 40.0], [60.0, 80.0]])
    assert "log_floor" not in model.describe()
    assert np.abs(model.predict_proba(far) - model.prior_).max() > 0.1
    np.testing.assert_array_equal(model.ood_score(far), -model.log_density(far))
    assert model.ood_score(far)[1] > model.ood_score(far)[0] > model.ood_score(TEST).max()


@pytest.mark.parametrize("distance", ["scaled", "whitened", "euclidean", "geodesic"])
def test_densities_of_left_out_rows_are_lower_than_in_sample(distance):
    partition = partition_of(forest().fit(X, Y))
    graph = KernelDensityGraph(
        partition,
        partition.locate(X),
        np.eye(2)[Y],
        distance=distance,
        leave_one_out=True,
    )
    left_out_rows = graph.left_out_log_density(np.arange(250))
    in_sample, new = graph.log_density(X), graph.log_density(TEST)
    assert np.median(left_out_rows) < np.median(in_sample) - 0.05
    # 250 and 200 rows of a standard deviation of 2 to 5; distances that leave out folds have a
    # fifth fewer rows to be near to.
    assert abs(np.median(left_out_rows) - np.median(new)) < 0.8


@pytest.mark.parametrize(
    ("n", "n_repeats"),
    [(100, 60), pytest.param(300, 200, marks=pytest.mark.slow)],
)
@pytest.mark.parametrize("kind", ["normal", "sparse"])
def test_share_of_new_rows_below_the_floor_is_within_its_bound(n, n_repeats, kind):
    rejected, alpha = [], 0.02
    for repeat in range(n_repeats):
        rng = np.random.default_rng([n, repeat])

        def draw(size, rng=rng):
            if kind == "normal":
                return rng.normal(size=(size, 2))
            return rng.exponential(size=(size, 8)) * (rng.random((size, 8)) < 0.3)

        rows, new = draw(n), draw(500)
        y = (rows[:, 0] + 0.5 * rng.normal(size=n) > 0.3).astype(int)
        model = DensityGate(forest(n_estimators=8), alpha=alpha, calibration="oob").fit(rows, y)
        rejected.append(float((model.ood_score(new) > 0).mean()))
    bound = max(alpha, 1 / (n + 1))
    error = np.std(rejected) / np.sqrt(n_repeats)
    # The bound holds in expectation: three standard errors of the mean over repeats.
    assert np.mean(rejected) < bound + 3 * error


def test_automatic_calibration_follows_the_parent_and_the_rows():
    fitted = FrozenEstimator(forest().fit(X, Y))
    assert KernelDensityForest(forest()).fit(X, Y).calibration_ == "oob"
    assert KernelDensityForest(fitted).fit(X, Y).calibration_ == "oob"
    pipeline = make_pipeline(StandardScaler(), forest())
    assert KernelDensityForest(pipeline).fit(X, Y).calibration_ == "oob"
    held_out = {"X_calibration": TEST, "y_calibration": TEST_Y}
    assert KernelDensityForest(fitted).fit(X, Y, **held_out).calibration_ == "held_out"
    extra_trees = ExtraTreesClassifier(20, random_state=0)
    assert KernelDensityForest(extra_trees).fit(X, Y).calibration_ == "held_out"
    paper = ReferenceForest(forest(), random_state=0)
    assert paper.fit(X, Y).calibration_ == "held_out"
    with pytest.warns(UserWarning, match="takes the 200 rows of fit for rows that the frozen"):
        new = KernelDensityForest(fitted, random_state=0).fit(TEST, TEST_Y)
    assert new.calibration_ == "held_out"


def test_a_frozen_forest_is_not_calibrated_on_memorised_rows():
    X_train, y_train = make_classification(400, 10, flip_y=0.2, random_state=0)
    X_new, y_new = X_train[200:], y_train[200:]
    X_train, y_train = X_train[:200], y_train[:200]
    fitted = FrozenEstimator(forest().fit(X_train, y_train))

    def nll(model):
        p = model.predict_proba(X_new)
        return -np.log(np.maximum(p[np.arange(200), y_new], 1e-6)).mean()

    # Parameters that are chosen on memorised rows trust the nearest row: the loss is doubled.
    assert nll(KernelDensityForest(fitted).fit(X_train, y_train)) < 1.1 * nll(fitted)


def test_threads_pickles_and_files_change_no_bit(kdf):
    expected = kdf.predict_proba(TEST)
    threaded = KernelDensityForest(forest(), n_jobs=2, random_state=0).fit(X, Y)
    np.testing.assert_array_equal(threaded.predict_proba(TEST), expected)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(kdf)).predict_proba(TEST), expected)
    loaded = from_bytes(to_bytes(kdf), "kdf").value
    np.testing.assert_array_equal(loaded.predict_proba(TEST), expected)
    np.testing.assert_array_equal(loaded.ood_score(TEST), kdf.ood_score(TEST))


def test_equal_rows_few_trees_and_rare_classes_are_handled():
    rows, y = np.concatenate([X, X[:100], X[:100]]), np.concatenate([Y, Y[:100], Y[:100]])
    y[:2] = 2
    for model in (
        KernelDensityForest(forest(n_estimators=3), random_state=0),
        KernelDensityForest(forest(), calibration="cross_fit", cv=3, random_state=0),
    ):
        with np.errstate(all="raise", under="ignore"):
            proba = model.fit(rows, y).predict_proba(TEST)
        assert proba.shape == (200, 3)
        np.testing.assert_allclose(proba.sum(axis=1), 1, atol=1e-12)


def test_a_number_of_polytopes_limits_gaussians_and_counted_rows():
    limited = KernelDensityForest(forest(), max_polytopes=20, random_state=0).fit(X, Y)
    graph = limited.graph_
    assert len(graph.gaussians.means) == len(graph.counts.class_rows) == 20
    assert (np.diff(graph.counts.class_rows) > 0).all()
    # At an exponent near 0 each counted row that shares a leaf counts as 1.
    masses = graph.query(graph.partition.locate(TEST), np.array([1e-9])).masses
    assert masses.sum(axis=1).max() <= 20 + 1e-6


def test_counted_rows_are_compared_with_other_rows():
    fitted = forest().fit(X, Y)
    partition, is_out = partition_of(fitted), OutOfBag(fitted, X).is_out
    codes, class_rows = partition.encode(X), draw_rows(len(X), 75)
    counts = OutOfBagCounts(
        partition, codes, Rows.unweighted(X, Y), is_out, 2, np.arange(len(X)), class_rows
    )
    rows = np.arange(0, len(X), 7)
    masses = counts.query_training(codes[rows], is_out[rows], rows, np.array([2.0]))[:, :, 0]
    similarity = equations.out_of_bag_kernel(codes[rows], codes, is_out, rows)[:, class_rows] ** 2
    # Sums of up to 75 terms of at most 1, added in another order.
    np.testing.assert_allclose(masses, similarity @ np.eye(2)[Y[class_rows]], atol=1e-12)


@pytest.mark.parametrize("calibration", ["oob", "cross_fit"])
def test_probabilities_tend_to_the_prior_far_from_the_data(calibration):
    model = KernelDensityForest(forest(), calibration=calibration, random_state=0).fit(X, Y)
    for radius in (20.0, 1e6, 1e100):
        far = radius * np.array([[1.0, 0.3], [-1.0, 0.0], [0.2, -1.0]])
        np.testing.assert_allclose(
            model.predict_proba(far), np.tile(model.prior_, (3, 1)), atol=1e-8
        )


@pytest.mark.parametrize("cv", [1, 3])
def test_networks_are_cross_fitted(cv):
    network = MultilayerPerceptron(
        hidden=(20, 20), max_epochs=30, learning_rate=0.01, device="cpu", random_state=0
    )
    model = KernelDensityNetwork(network, calibration="cross_fit", cv=cv, random_state=0).fit(X, Y)
    parent = clone(network).fit(X, Y)

    def nll(p):
        return -np.log(np.maximum(p[np.arange(200), TEST_Y], 1e-6)).mean()

    assert model.calibration_ == "cross_fit"
    # It is as good as the network near the data, and at the prior far away. The standard error of
    # the difference is about .02.
    assert nll(model.predict_proba(TEST)) < nll(parent.predict_proba(TEST)) + 0.06
    np.testing.assert_allclose(model.predict_proba([[1e3, 1e3]])[0], model.prior_, atol=1e-8)
