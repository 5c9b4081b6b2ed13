"""Beta calibration: scikit-learn's logistic regression where no bound holds, and the conditions of
a minimum where one does.
"""

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


def drawn(
    a: float, b: float, c: float, n: int = 800, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, labels, and how likely the prediction is right: log odds a log s - b log(1 - s) + c of
    its score s.
    """
    rng = np.random.default_rng(seed)
    s, k = rng.uniform(0.4, 0.98, size=n), rng.integers(3, size=n)
    X = np.repeat((1 - s[:, None]) / 2, 3, axis=1)
    X[np.arange(n), k] = s
    likely = expit(a * np.log(s) - b * np.log(1 - s) + c)
    return X, np.where(rng.random(n) < likely, k, (k + 1) % 3), likely


def fitted(X, y, **options) -> BetaCalibration:
    return BetaCalibration(PARENT, **options).fit(X, y, X_calibration=X, y_calibration=y)


def test_beta_matches_logistic_regression_with_positive_coefficients():
    X, y, _ = drawn(2.0, 0.7, 0.5, n=3000)
    result = fitted(X, y, by_class=False)
    s = X.max(axis=1)
    terms = np.stack([np.log(s), -np.log(1 - s)], axis=1)
    theirs = LogisticRegression(C=np.inf, tol=1e-10, max_iter=1000).fit(
        terms, X.argmax(axis=1) == y
    )
    expected = [*theirs.coef_[0], *theirs.intercept_]
    assert (theirs.coef_ > 0).all()
    np.testing.assert_allclose(
        result.curves_[0]["coefficients"], expected, rtol=1e-4
    )  # both stop at a slope, not at a coefficient
    np.testing.assert_allclose(
        result.predict_confidence(X), theirs.predict_proba(terms)[:, 1], rtol=1e-5
    )


def test_each_class_has_a_separate_beta_curve():
    X, y, _ = drawn(1.0, 1.0, 0.0)
    by_class = fitted(X, y).predict_confidence(X)
    for k in range(3):
        mine = X.argmax(axis=1) == k
        np.testing.assert_allclose(
            by_class[mine],
            fitted(X[mine], y[mine], by_class=False).predict_confidence(X[mine]),
            rtol=1e-12,
        )


def test_beta_recovers_true_parameters():
    X, y, likely = drawn(2.0, 0.7, 0.5, n=40_000)
    assert (
        np.abs(fitted(X, y, by_class=False).predict_confidence(X) - likely).max() < 0.02
    )  # three parameters' share of 1/sqrt(n) each


@given(st.integers(0, 10_000), st.floats(-3, 3), st.floats(-1, 2))
@settings(max_examples=25, deadline=None)
def test_the_loss_is_least_within_the_bounds_and_the_curve_never_falls(seed, a, b):
    X, y, _ = drawn(a, b, 0.0, n=300, seed=seed)
    model = fitted(X, y, by_class=False)
    coefficients, s = model.curves_[0]["coefficients"], X.max(axis=1)
    away = expit(np.stack([np.log(s), -np.log(1 - s), np.ones(300)], axis=1) @ coefficients) - (
        X.argmax(axis=1) == y
    )
    slope = np.array([(away * np.log(s)).mean(), (away * -np.log(1 - s)).mean(), away.mean()])
    free = coefficients > [1e-9, 1e-9, -np.inf]
    assert (np.abs(slope[free]) < 1e-6).all() and (
        slope[~free] > -1e-6
    ).all()  # it converges at 1e-7; sums of 300 rows
    assert (coefficients[:2] >= 0).all()
    order = np.argsort(s)
    assert (np.diff(model.predict_confidence(X)[order]) >= -1e-12).all()


def test_separable_rows_with_one_tie_have_no_finite_optimum():
    s = np.array([0.6, 0.65, 0.7, 0.7, 0.7, 0.8, 0.9] * 3)
    X = np.stack([s, (1 - s) / 2, (1 - s) / 2], axis=1)
    y = np.array([1, 1, 1, 0, 0, 0, 0] * 3)  # at 0.7 both
    with pytest.warns(UserWarning, match=r"^the fit of any class reaches a bound"):
        assert fitted(X, y, by_class=False).predict_confidence(X) == pytest.approx(12 / 21)
    y[:7] = [1, 0, 1, 0, 0, 0, 0]  # one right row below it
    assert fitted(X, y, by_class=False).predict_confidence(X).std() > 0.1


def test_scores_of_0_and_1_are_clipped_and_counted():
    X, y, _ = drawn(1.0, 1.0, 0.0)
    X[:4] = [1.0, 0.0, 0.0]
    y[:4] = 0
    model = fitted(X, y, by_class=False)
    assert model.describe() == {"n_clipped": 4}
    assert 0.99 < model.predict_confidence(X)[0] <= 1


# pytest.warns re-emits the warnings that it does not match.
@pytest.mark.filterwarnings("ignore:the confidence of 1 contradicts")
def test_class_without_fit_uses_its_precision_and_is_named():
    X, y, _ = drawn(1.0, 1.0, 0.0)
    k, s = X.argmax(axis=1), X.max(axis=1)
    y = np.select([k == 0, k == 1], [0, np.where(s > 0.7, 1, 2)], y)
    with pytest.warns(UserWarning, match="the confidence there") as caught:
        model = fitted(X, y, diagnostics=True)
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


def test_fit_without_convergence_is_named(monkeypatch):
    X, y, _ = drawn(1.0, 1.0, 0.0)
    monkeypatch.setattr("kdgraph.calibration.top_label.temperature._GRADIENT_TOLERANCE", 0.0)
    with pytest.warns(
        UserWarning,
        match=r"^the fit of any class did not converge: a better confidence may exist$",
    ) as caught:
        fitted(X, y, by_class=False)
    assert caught[0].filename == __file__
