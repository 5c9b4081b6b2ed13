"""Beta calibration against scikit-learn's logistic regression, and conditions of a bounded minimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from kdgraph.calibration.top_label import BetaCalibration
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 3))))


def draw_rows(
    a: float, b: float, c: float, n: int = 800, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows, labels, and the probability of a correct prediction.

    Its log odds are a log s - b log(1 - s) + c for the score s.
    """
    rng = np.random.default_rng(seed)
    s, k = rng.uniform(0.4, 0.98, size=n), rng.integers(3, size=n)
    X = np.repeat((1 - s[:, None]) / 2, 3, axis=1)
    X[np.arange(n), k] = s
    likely = expit(a * np.log(s) - b * np.log(1 - s) + c)
    return X, np.where(rng.random(n) < likely, k, (k + 1) % 3), likely


def fit_calibrator(X, y, **options) -> BetaCalibration:
    return BetaCalibration(PARENT, **options).fit(X, y, X_calibration=X, y_calibration=y)


def test_fit_is_logistic_regression_with_positive_coefficients():
    X, y, _ = draw_rows(2.0, 0.7, 0.5, n=3000)
    model = fit_calibrator(X, y, by_class=False)
    s = X.max(axis=1)
    terms = np.stack([np.log(s), -np.log(1 - s)], axis=1)
    regression = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(
        terms, X.argmax(axis=1) == y
    )
    expected = [*regression.coef_[0], *regression.intercept_]
    assert (regression.coef_ > 0).all()
    np.testing.assert_allclose(
        model.curves_[0]["coefficients"], expected, rtol=1e-4
    )  # both stop at a small gradient
    np.testing.assert_allclose(
        model.predict_confidence(X), regression.predict_proba(terms)[:, 1], rtol=1e-5
    )


def test_curves_by_class_are_separate_fits():
    X, y, _ = draw_rows(1.0, 1.0, 0.0)
    by_class = fit_calibrator(X, y).predict_confidence(X)
    for k in range(3):
        in_class = X.argmax(axis=1) == k
        np.testing.assert_allclose(
            by_class[in_class],
            fit_calibrator(X[in_class], y[in_class], by_class=False).predict_confidence(
                X[in_class]
            ),
            rtol=1e-12,
        )


def test_fit_recovers_the_true_curve():
    X, y, likely = draw_rows(2.0, 0.7, 0.5, n=40_000)
    assert (
        np.abs(fit_calibrator(X, y, by_class=False).predict_confidence(X) - likely).max() < 0.02
    )  # three parameters with errors of about 1/sqrt(n)


@given(st.integers(0, 10_000), st.floats(-3, 3), st.floats(-1, 2))
@settings(max_examples=25, deadline=None)
def test_fit_is_a_bounded_minimum_and_never_falls(seed, a, b):
    X, y, _ = draw_rows(a, b, 0.0, n=300, seed=seed)
    model = fit_calibrator(X, y, by_class=False)
    coefficients, s = model.curves_[0]["coefficients"], X.max(axis=1)
    residual = expit(np.stack([np.log(s), -np.log(1 - s), np.ones(300)], axis=1) @ coefficients) - (
        X.argmax(axis=1) == y
    )
    slope = np.array(
        [(residual * np.log(s)).mean(), (residual * -np.log(1 - s)).mean(), residual.mean()]
    )
    is_free = coefficients > [1e-9, 1e-9, -np.inf]
    assert (np.abs(slope[is_free]) < 1e-6).all() and (
        slope[~is_free] > -1e-6
    ).all()  # converged at 1e-7, for sums of 300 rows
    assert (coefficients[:2] >= 0).all()
    order = np.argsort(s)
    assert (np.diff(model.predict_confidence(X)[order]) >= -1e-12).all()


def test_rows_separable_up_to_one_tie_have_no_finite_optimum():
    s = np.array([0.6, 0.65, 0.7, 0.7, 0.7, 0.8, 0.9] * 3)
    X = np.stack([s, (1 - s) / 2, (1 - s) / 2], axis=1)
    y = np.array([1, 1, 1, 0, 0, 0, 0] * 3)  # both labels at 0.7
    with pytest.warns(UserWarning, match=r"^the fit of any class reaches a bound"):
        assert fit_calibrator(X, y, by_class=False).predict_confidence(X) == pytest.approx(12 / 21)
    y[:7] = [1, 0, 1, 0, 0, 0, 0]  # one correct row below it
    assert fit_calibrator(X, y, by_class=False).predict_confidence(X).std() > 0.1


def test_scores_of_0_and_1_are_clipped_and_counted():
    X, y, _ = draw_rows(1.0, 1.0, 0.0)
    X[:4] = [1.0, 0.0, 0.0]
    y[:4] = 0
    model = fit_calibrator(X, y, by_class=False)
    assert model.describe() == {"n_clipped": 4}
    assert 0.99 < model.predict_confidence(X)[0] <= 1


# pytest.warns re-emits the warnings that it does not match.
@pytest.mark.filterwarnings("ignore:the confidence of 1 contradicts")
def test_class_without_a_fit_has_its_accuracy_with_a_warning():
    X, y, _ = draw_rows(1.0, 1.0, 0.0)
    k, s = X.argmax(axis=1), X.max(axis=1)
    y = np.select([k == 0, k == 1], [0, np.where(s > 0.7, 1, 2)], y)
    with pytest.warns(UserWarning, match="the confidence there") as caught:
        model = fit_calibrator(X, y, diagnostics=True)
    assert [str(warning.message) for warning in caught] == [
        (
            "the calibration rows predicted as 0 are all correct or all incorrect: the confidence there"
            " is their accuracy"
        ),
        "the fit of 1 reaches a bound: the confidence there is the accuracy of the calibration rows",
        (
            "the confidence of 1 contradicts the accuracy of the calibration rows in some bins of"
            " scores: plot it"
        ),
    ]
    assert {warning.filename for warning in caught} == {__file__}
    confidence = model.predict_confidence(X)
    assert (confidence[k == 0] == 1).all() and np.allclose(
        confidence[k == 1], (y == 1)[k == 1].mean()
    )


def test_warning_names_a_fit_that_does_not_converge(monkeypatch):
    X, y, _ = draw_rows(1.0, 1.0, 0.0)
    monkeypatch.setattr("kdgraph.calibration.top_label.temperature._GRADIENT_TOLERANCE", 0.0)
    with pytest.warns(
        UserWarning,
        match=r"^the fit of any class did not converge: a better confidence may exist$",
    ) as caught:
        fit_calibrator(X, y, by_class=False)
    assert caught[0].filename == __file__
