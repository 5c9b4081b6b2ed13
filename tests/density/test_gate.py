"""The density gate against the guarantees of its docstring inside the data."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from kdgraph import DensityGate
from kdgraph.calibration import ScoreMap
from kdgraph.density.graph import KernelDensityGraph
from kdgraph.errors import DataError
from kdgraph.geometry import partition_of
from kdgraph.parents.networks import ConvolutionalNetwork


@pytest.fixture(scope="module")
def rows(spirals):
    """Training and calibration rows with as many of either class, and test rows."""
    X, y = spirals(1500, 3)
    of_class = [np.flatnonzero(y == c)[:500] for c in (0, 1)]
    train, calibration, test = (
        np.concatenate([rows[part] for rows in of_class])
        for part in (slice(200), slice(200, 350), slice(350, 500))
    )
    return X[train], y[train], X[calibration], y[calibration], X[test], y[test]


@pytest.fixture(scope="module")
def isotonic(rows):
    X, y, X_calibration, y_calibration, *_ = rows
    forest = FrozenEstimator(RandomForestClassifier(40, random_state=0, n_jobs=1).fit(X, y))
    return ScoreMap(forest).fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)


@pytest.fixture(scope="module")
def gate(rows, isotonic):
    X, y, X_calibration, y_calibration, *_ = rows
    return DensityGate(FrozenEstimator(isotonic), alpha=0.05).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )


def test_gate_keeps_argmax_with_equal_priors(rows, isotonic, gate):
    test = rows[4]
    assert gate.prior_.tolist() == [0.5, 0.5]
    proba = isotonic.predict_proba(test)
    decided = np.abs(proba[:, 0] - 0.5) > 1e-6  # at 0.5 : 0.5 rounding decides the order
    assert decided.mean() > 0.9
    assert np.array_equal(gate.predict(test)[decided], isotonic.predict(test)[decided])
    far_rows = test[decided] + 3  # only the minimum weight, 1e-9, remains here
    is_confident = np.abs(isotonic.predict_proba(far_rows)[:, 0] - 0.5) > 1e-6
    assert np.array_equal(
        gate.predict(far_rows)[is_confident], isotonic.predict(far_rows)[is_confident]
    )


def test_rows_above_the_floor_keep_their_probabilities(rows, isotonic, gate):
    test = rows[4]
    above = gate.graph_.log_density(test) - gate.log_floor_
    shift = np.abs(gate.predict_proba(test) - isotonic.predict_proba(test)).max(axis=1)
    assert (shift[above >= 0] == 0).all()
    assert (above >= 0).mean() >= 0.95 - 3 * np.sqrt(
        2 * 0.05 * 0.95 / 300
    )  # alpha, with the errors of 300 calibration and 300 test rows
    assert shift.max() > 0  # the gate has an effect


def test_gate_weight_follows_density_and_floor(rows, isotonic, gate):
    test = np.vstack([rows[4], 1.3 * rows[4]])
    log_density = gate.graph_.log_density(test)
    weight = np.maximum(np.minimum(1, np.exp(log_density - gate.log_floor_)), 1e-9)[:, None]
    expected = weight * isotonic.predict_proba(test) + (1 - weight) * gate.prior_
    np.testing.assert_allclose(gate.predict_proba(test), expected, atol=1e-14)


def test_smaller_alpha_never_lowers_weights(rows, isotonic):
    X, y, X_calibration, y_calibration, test, _ = rows
    shift = []
    for alpha in (0.3, 0.05, 0.005, 0.0005):
        gate = DensityGate(FrozenEstimator(isotonic), alpha=alpha).fit(
            X, y, X_calibration=X_calibration, y_calibration=y_calibration
        )
        shift.append(np.abs(gate.predict_proba(test) - isotonic.predict_proba(test)).max(axis=1))
    assert (np.diff(shift, axis=0) <= 1e-15).all()
    assert shift[0].mean() > 10 * shift[-1].mean()


@pytest.mark.parametrize("max_mean_shift", [0.003, 0.05])
def test_max_mean_shift_bounds_the_mean_shift(rows, isotonic, max_mean_shift):
    X, y, X_calibration, y_calibration, test, _ = rows
    gate = DensityGate(FrozenEstimator(isotonic), max_mean_shift=max_mean_shift, min_weight=0.0)
    gate.fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)

    def mean_shift(X):
        return np.abs(gate.predict_proba(X) - isotonic.predict_proba(X)).sum(axis=1) / 2

    log_density = gate.log_density(X_calibration)
    one_more = np.append(log_density, 1.5 * log_density.min() - 0.5 * np.median(log_density))
    to_prior = np.abs(isotonic.predict_proba(X_calibration) - gate.prior_).sum(axis=1) / 2
    expected = np.append(to_prior, to_prior.mean()) * (
        1 - np.minimum(1, np.exp(one_more - gate.log_floor_))
    )
    np.testing.assert_allclose(mean_shift(X_calibration), expected[:-1], atol=1e-12)
    assert expected.mean() == pytest.approx(max_mean_shift, rel=1e-6)
    test_move = mean_shift(test)
    assert test_move.mean() <= max_mean_shift + 3 * test_move.std() / np.sqrt(
        len(test)
    )  # three standard errors
    far_rows = 40.0 + test
    assert np.abs(gate.predict_proba(far_rows) - gate.prior_).max() < 1e-6


def test_gate_uses_the_density_of_the_inner_forest(rows, isotonic, gate):
    X, y, *_ = rows
    partition = partition_of(isotonic)
    graph = KernelDensityGraph(partition, partition.locate(X), np.eye(2)[y], distance="scaled")
    assert np.array_equal(gate.graph_.log_density(rows[4]), graph.log_density(rows[4]))
    assert gate.describe() == {
        "n_polytopes": len(graph.polytopes),
        "singleton_fraction": graph.polytopes.singleton_fraction,
        "n_gaussians": len(graph.polytopes),
        "distance": "scaled",
        "log_floor": gate.log_floor_,
    }


def test_partition_forest_gates_an_estimator_without_partition(rows):
    X, y, *_ = rows
    gate = DensityGate(
        LogisticRegression(), partition=ExtraTreesClassifier(10), random_state=0
    ).fit(X, y)
    assert isinstance(gate.graph_.partition.forest, ExtraTreesClassifier)
    refitted = DensityGate(
        LogisticRegression(), partition=ExtraTreesClassifier(10), random_state=0
    ).fit(X, y)
    assert np.array_equal(gate.predict_proba(X), refitted.predict_proba(X))
    frozen = RandomForestClassifier(10, random_state=0).fit(X, y)
    assert (
        DensityGate(LogisticRegression(), partition=FrozenEstimator(frozen))
        .fit(X, y)
        .graph_.partition.forest
        is frozen
    )


def test_estimator_without_partition_raises(rows):
    with pytest.raises(TypeError) as caught:
        DensityGate(LogisticRegression(), random_state=0).fit(*rows[:2])
    assert (
        str(caught.value)
        == "LogisticRegression has no partition to read; pass a fitted forest, tree or boosted"
        " trees, or a network of torch; any classifier can be combined with a forest's"
        " partition: DensityGate(LogisticRegression(), partition=RandomForestClassifier())"
    )


@pytest.mark.filterwarnings("ignore:ConvolutionalNetwork learnt nothing")  # in one epoch
def test_partition_forest_raises_for_images():
    images = np.random.default_rng(0).random((40, 1, 12, 12), dtype=np.float32)
    gate = DensityGate(
        ConvolutionalNetwork(max_epochs=1, device="cpu"),
        partition=ExtraTreesClassifier(10),
        random_state=0,
    )
    with pytest.raises(DataError) as caught:
        gate.fit(images, np.arange(40) % 2)
    expected = (
        "the gate's ExtraTreesClassifier takes vectors, but the rows are images; set partition=null"
        " to use the estimator's own polytopes"
    )
    assert str(caught.value) == expected


def test_inner_calibrator_is_fitted_on_the_same_held_out_rows(rows):
    X, y, X_calibration, y_calibration, test, _ = rows
    inner = ScoreMap(RandomForestClassifier(10, random_state=1))
    gate = DensityGate(inner).fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
    expected = clone(inner).fit(X, y, X_calibration=X_calibration, y_calibration=y_calibration)
    assert np.array_equal(gate.estimator_.predict_proba(test), expected.predict_proba(test))


def test_threads_and_pickling_change_no_bit(rows, isotonic, gate):
    X, y, X_calibration, y_calibration, test, _ = rows
    threaded = DensityGate(FrozenEstimator(isotonic), alpha=0.05, n_jobs=2).fit(
        X, y, X_calibration=X_calibration, y_calibration=y_calibration
    )
    for copy in (threaded, pickle.loads(pickle.dumps(gate))):
        assert np.array_equal(copy.predict_proba(test), gate.predict_proba(test))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"alpha": 0}, "alpha must be in (0, 1), got 0"),
        ({"min_weight": -1e-9}, "min_weight must be in [0, 1], got -1e-09"),
        (
            {"min_weight": 2},
            "min_weight must be in [0, 1], got 2",
        ),  # a weight above 1 would give probabilities below 0
        ({"calibration_size": 1.0}, "calibration_size must be in (0, 1), got 1.0"),
        ({"n_jobs": 1.5}, "n_jobs must be an integer or null, got 1.5"),
    ],
)
def test_invalid_parameters_raise(rows, isotonic, options, message):
    with pytest.raises(ValueError, match="must be") as caught:
        DensityGate(FrozenEstimator(isotonic), **options).fit(*rows[:2])
    assert str(caught.value) == message
