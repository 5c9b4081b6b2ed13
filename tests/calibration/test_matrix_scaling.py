"""Matrix scaling and Dirichlet calibration against dense minimisations and the authors' package."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from scipy.optimize import minimize, minimize_scalar
from scipy.special import log_softmax, softmax
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator

from kdgraph.base import softmax_map
from kdgraph.base.softmax_map import fit_inverse_temperature, fit_softmax_map, penalty_matrix
from kdgraph.calibration import DirichletCalibration, MatrixScaling
from kdgraph.calibration.matrix_scaling import DIAGONAL_PENALTY, PENALTY_GRID
from kdgraph.parents import PrecomputedScores

OPTIMUM = 1e-6
"""Distance of probabilities from those of a minimisation by BFGS, which stops at a gradient of
1e-9. Errors of the formulas would be above 1e-3.
"""


def draw_scores(n, n_classes, seed=0, noise=0.3):
    """Return overconfident probabilities of a parent, and labels of a matrix-scaled truth."""
    rng = np.random.default_rng(seed)
    logits = 3 * rng.normal(size=(n, n_classes))
    change = 0.6 * np.eye(n_classes) + noise / n_classes * rng.normal(size=(n_classes, n_classes))
    truth = softmax(logits @ change + 0.3 * rng.normal(size=n_classes), axis=1)
    y = (truth.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1)
    return softmax(logits, axis=1), y


def fit(calibrator, proba, y, weight=None):
    """Return the calibrator behind scores that are the rows themselves."""
    label = np.repeat(np.arange(proba.shape[1]), 3)
    one_hot = np.eye(proba.shape[1])[label]
    parent = FrozenEstimator(PrecomputedScores().fit(one_hot, label))
    return calibrator.set_params(estimator=parent).fit(
        one_hot,
        label,
        X_calibration=proba,
        y_calibration=y,
        sample_weight_calibration=weight,
    )


def dense_map(log_proba, y, weight, diagonal, off_diagonal, intercept, structure="matrix"):
    """Return the function of log probabilities that minimises the penalised NLL, by BFGS."""
    K = log_proba.shape[1]

    def unpack(flat):
        if structure == "vector":
            return np.diag(flat[:K]), flat[K:]
        return flat[: K * K].reshape(K, K), flat[K * K :]

    def loss(flat):
        W, b = unpack(flat)
        log_q = log_softmax(log_proba @ W.T + b, axis=1)
        off = ~np.eye(K, dtype=bool)
        return (
            -np.average(log_q[np.arange(len(y)), y], weights=weight)
            + diagonal * np.sum((np.diag(W) - 1) ** 2)
            + off_diagonal * np.sum(W[off] ** 2)
            + intercept * np.sum(b**2)
        )

    start = np.ones(K) if structure == "vector" else np.eye(K).ravel()
    optimum = minimize(
        loss, np.append(start, np.zeros(K)), jac="3-point", method="BFGS", options={"gtol": 1e-9}
    )
    W, b = unpack(optimum.x)
    return lambda log_proba: softmax(log_proba @ W.T + b, axis=1)


def mix(proba, n):
    return (1 - 1 / (n + 1)) * proba + 1 / (n + 1) / proba.shape[1]


def temper(proba, y, weight):
    """Return the function that divides log probabilities by the temperature of least NLL."""

    def loss(log_beta):
        log_q = log_softmax(np.exp(log_beta[0]) * np.log(proba), axis=1)
        return -np.average(log_q[np.arange(len(y)), y], weights=weight)

    beta = np.exp(minimize(loss, [0.0], jac="3-point", options={"gtol": 1e-9}).x[0])
    return lambda proba: softmax(beta * np.log(proba), axis=1)


@pytest.mark.parametrize("structure", ["matrix", "vector"])
@pytest.mark.parametrize(("n", "n_classes"), [(40, 2), (120, 3), (200, 5)])
def test_matrix_scaling_minimises_the_penalised_nll(n, n_classes, structure):
    proba, y = draw_scores(n, n_classes)
    weight = np.random.default_rng(1).uniform(0.2, 2, n)
    new = draw_scores(50, n_classes, seed=1)[0]
    model = fit(MatrixScaling(None, structure=structure), proba, y, weight)
    scale = temper(mix(proba, n), y, weight)
    expected = dense_map(
        np.log(mix(scale(mix(proba, n)), n)),
        y,
        weight,
        n_classes / n,
        n_classes * (n_classes - 1) / n,
        n_classes / n,
        structure,
    )
    np.testing.assert_allclose(
        model.predict_proba(new), expected(np.log(mix(scale(mix(new, n)), n))), atol=OPTIMUM
    )
    if structure == "vector":
        assert np.array_equal(model.map_.coef, np.diag(np.diag(model.map_.coef)))


@pytest.mark.parametrize(("n", "n_classes"), [(40, 2), (120, 3), (200, 4)])
def test_dirichlet_calibration_minimises_the_penalised_nll(n, n_classes):
    proba, y = draw_scores(n, n_classes)
    weight = np.random.default_rng(1).uniform(0.2, 2, n)
    new = draw_scores(50, n_classes, seed=1)[0]
    model = fit(DirichletCalibration(None, penalty=0.3), proba, y, weight)
    off_diagonal = 0.3 / (n_classes * (n_classes - 1))
    expected = dense_map(
        np.log(mix(proba, n)), y, weight, DIAGONAL_PENALTY, off_diagonal, 0.3 / n_classes
    )
    np.testing.assert_allclose(
        model.predict_proba(new), expected(np.log(mix(new, n))), atol=OPTIMUM
    )


@pytest.mark.parametrize(("name", "structure"), [("sms", "matrix"), ("svs", "vector")])
@pytest.mark.parametrize(("n", "n_classes"), [(60, 2), (200, 3), (500, 10)])
def test_matrix_scaling_agrees_with_probmetrics(name, structure, n, n_classes):
    reason = "probmetrics is an optional peer: pip install 'kdgraph[peers]'"
    factory = pytest.importorskip("probmetrics.calibrators", reason=reason)
    proba, y = draw_scores(n, n_classes)
    proba[:5], y[:5] = np.eye(n_classes)[[0] * 5], 0  # probabilities of 0
    new = draw_scores(100, n_classes, seed=1)[0]
    with warnings.catch_warnings(action="ignore"):
        peer = factory.get_calibrator(name).fit(proba, y)
    model = fit(MatrixScaling(None, structure=structure, mix_before_temperature=False), proba, y)
    # The package computes in single precision and stops at a gradient of 1e-5; where it stops,
    # and so its distance from the minimum, depends on the CPU: up to 5.2e-4 with ten classes.
    np.testing.assert_allclose(model.predict_proba(new), peer.predict_proba(new), atol=2e-3)
    # Both are far from the parent's probabilities, so that equality means something.
    assert np.abs(model.predict_proba(new) - new).max() > 0.05


def test_map_recovers_the_truth():
    rng = np.random.default_rng(0)
    log_proba = np.log(softmax(2 * rng.normal(size=(50_000, 3)), axis=1))
    truth = np.array([[0.7, 0.1, 0, 0.2], [0, 1.2, -0.2, 0], [0.1, 0, 0.8, -0.3]])
    q = softmax(log_proba @ truth[:, :-1].T + truth[:, -1], axis=1)
    y = (q.cumsum(axis=1) < rng.random((len(q), 1))).sum(axis=1)
    W = fit_softmax_map(log_proba, y, np.ones(len(y)), np.full((3, 4), 1e-7))
    estimate = softmax(log_proba @ W[:, :-1].T + W[:, -1], axis=1)
    # Probabilities have standard errors of about sqrt(12 / 50,000) / 4 = .004.
    assert np.abs(estimate - q).mean() < 0.005


def test_weights_count_rows():
    proba, y = draw_scores(60, 3)
    count = np.random.default_rng(0).integers(1, 4, 60)
    penalty = penalty_matrix(3, 0.01, 0.02, 0.01)
    weighted = fit_softmax_map(np.log(proba), y, count.astype(float), penalty)
    repeated = fit_softmax_map(
        np.log(np.repeat(proba, count, axis=0)), np.repeat(y, count), np.ones(count.sum()), penalty
    )
    np.testing.assert_allclose(weighted, repeated, atol=1e-7)  # the gradient's tolerance / penalty


def test_order_of_rows_is_irrelevant():
    proba, y = draw_scores(300, 6)
    order = np.random.default_rng(0).permutation(300)
    ordered, shuffled = (
        fit(MatrixScaling(None), proba[rows], y[rows]).predict_proba(proba)
        for rows in (slice(None), order)
    )
    np.testing.assert_allclose(
        ordered, shuffled, atol=1e-8
    )  # tolerance of the gradient times n / K


def test_large_penalties_leave_temperature_scaling():
    proba, y = draw_scores(200, 4)
    large = {f"{kind}_penalty": 1e9 for kind in ("intercept", "diagonal", "off_diagonal")}
    model = fit(MatrixScaling(None, **large), proba, y)
    scaled = temper(mix(proba, 200), y, np.ones(200))(mix(proba, 200))
    np.testing.assert_allclose(model.predict_proba(proba), mix(scaled, 200), atol=OPTIMUM)


@pytest.mark.parametrize("calibrator", [MatrixScaling(None), DirichletCalibration(None)])
@pytest.mark.parametrize("n_classes", [2, 5])
def test_zeros_and_separable_rows_give_bounded_probabilities(calibrator, n_classes):
    y = np.arange(40) % n_classes
    proba = np.eye(n_classes)[y]
    model = fit(calibrator, proba, y)
    predicted = model.predict_proba(np.vstack([proba, np.full((1, n_classes), 1 / n_classes)]))
    np.testing.assert_allclose(predicted.sum(axis=1), 1, rtol=1e-12)
    assert (predicted > 0).all()
    assert (predicted[:-1].argmax(axis=1) == y).all()
    # The optimum exists, so the map is not a step.
    np.testing.assert_allclose(predicted[-1], 1 / n_classes, atol=0.01)


def test_label_with_probability_zero_does_not_decide_the_temperature():
    proba, y = draw_scores(200, 3, noise=0)
    rare = np.append(proba, [[1.0, 0.0, 0.0]], axis=0), np.append(y, 2)
    expected = fit(MatrixScaling(None), proba, y).map_.inverse_temperature
    assert fit(MatrixScaling(None), *rare).map_.inverse_temperature == pytest.approx(
        expected, rel=0.2
    )
    clipped = fit(MatrixScaling(None, mix_before_temperature=False), *rare).map_.inverse_temperature
    assert clipped < 0.6 * expected  # its logit of -87 outweighs the others


@pytest.mark.parametrize("calibrator", [MatrixScaling(None), DirichletCalibration(None)])
def test_class_without_calibration_rows_keeps_a_probability(calibrator):
    proba, y = draw_scores(200, 4)
    has_row = y != 3
    model = fit(calibrator, proba[has_row], y[has_row])
    predicted = model.predict_proba(proba)
    assert 0 < predicted[:, 3].mean() < proba[:, 3].mean()


@pytest.mark.parametrize("calibrator", [MatrixScaling(None), DirichletCalibration(None)])
def test_rows_of_one_class_are_refused(calibrator):
    proba, y = draw_scores(50, 3)
    message = r"needs calibration rows of two classes, got only rows of \[1\]"
    with pytest.raises(ValueError, match=message):
        fit(calibrator, proba[y == 1], y[y == 1])


def test_inverse_temperature_reaches_its_bounds():
    log_proba = np.log([[0.9, 0.1], [0.2, 0.8]])
    weight = np.ones(2)
    assert fit_inverse_temperature(log_proba, np.array([0, 1]), weight) == np.exp(16)
    assert fit_inverse_temperature(log_proba, np.array([1, 0]), weight) == np.exp(-16)


@pytest.mark.parametrize("true_log_scale", [-4.0, -1.5, 0.0, 0.7, 2.0])
def test_inverse_temperature_is_that_of_a_bounded_minimisation(true_log_scale):
    rng = np.random.default_rng(1)
    logits = rng.normal(size=(3000, 4))
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(axis=1)
    weight = rng.uniform(0.1, 2, size=3000)
    log_proba = log_softmax(logits / np.exp(true_log_scale), axis=1)

    def nll(log_scale):
        chosen = log_softmax(np.exp(log_scale) * log_proba, axis=1)[np.arange(3000), labels]
        return -weight @ chosen

    best = minimize_scalar(nll, bounds=(-16, 16), method="bounded", options={"xatol": 1e-9})
    # The minimum is flat: a comparison of values finds it to the square root of the precision.
    fitted = fit_inverse_temperature(log_proba, labels, weight)
    assert np.log(fitted) == pytest.approx(best.x, abs=1e-5)
    assert np.log(fitted) == pytest.approx(true_log_scale, abs=0.1)


def test_many_classes_converge():
    proba, y = draw_scores(500, 60)
    model = fit(MatrixScaling(None), proba, y)  # a warning of the fit would be an error
    assert model.map_.coef.shape == (60, 60)
    nll = [-np.log(q[np.arange(500), y]).mean() for q in (proba, model.predict_proba(proba))]
    assert nll[1] < nll[0]


def test_fit_that_does_not_converge_warns(monkeypatch):
    monkeypatch.setattr(softmax_map, "MAX_ITERATIONS", 1)
    with pytest.warns(ConvergenceWarning, match="the fit of the scaling matrix did not converge"):
        fit(MatrixScaling(None), *draw_scores(100, 3))


def test_cross_validation_chooses_a_rigid_map_for_calibrated_parents():
    rng = np.random.default_rng(0)
    proba = softmax(2 * rng.normal(size=(300, 6)), axis=1)
    y = (proba.cumsum(axis=1) < rng.random((300, 1))).sum(axis=1)
    model = fit(DirichletCalibration(None, random_state=0), proba, y)
    assert model.penalty_ >= 10
    assert model.penalty_ == PENALTY_GRID[np.nanargmin(model.penalty_nll_)]
    # Two classes that the parent confuses with each other need a flexible one.
    swapped = np.array([1, 0, 2, 3, 4, 5])[y]
    assert fit(DirichletCalibration(None, random_state=0), proba, swapped).penalty_ < 10


def test_description_has_the_candidates_that_were_tried():
    model = fit(DirichletCalibration(None, random_state=0), *draw_scores(100, 3))
    description = model.describe()
    tried = [float(penalty) for penalty in description["penalty_nll"]]
    assert tried == list(PENALTY_GRID[: len(tried)])
    assert description["penalty"] in tried
    fixed = fit(DirichletCalibration(None, penalty=2), *draw_scores(100, 3))
    assert fixed.describe() == {"penalty": 2.0}
