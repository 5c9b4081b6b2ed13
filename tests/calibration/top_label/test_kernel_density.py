"""Kernel density confidence against scikit-learn's densities, and its properties."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KernelDensity

from kdgraph.base import Rows
from kdgraph.calibration.top_label import KernelDensityConfidence
from kdgraph.errors import ParameterError
from kdgraph.parents import PrecomputedScores

PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 3))))
BINARY_PARENT = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 2))))


def draw_rows(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return rows whose predictions are correct with the probability score²."""
    rng = np.random.default_rng(seed)
    X = rng.dirichlet(np.full(3, 0.5), size=n)
    top = X.argmax(axis=1)
    return X, np.where(
        rng.random(n) < X.max(axis=1) ** 2, top, (top + rng.integers(1, 3, size=n)) % 3
    )


def fit_calibrator(X, y, **options) -> KernelDensityConfidence:
    parent = PARENT if X.shape[1] == 3 else BINARY_PARENT
    return KernelDensityConfidence(parent, **options).fit(X, y, X_calibration=X, y_calibration=y)


def density_sum(rows, points, bandwidth) -> np.ndarray:
    """Return Eq. 7 times the number of rows, by scikit-learn."""
    return len(rows) * np.exp(
        KernelDensity(bandwidth=bandwidth).fit(rows[:, None]).score_samples(points[:, None])
    )


@pytest.mark.parametrize("bandwidth", [0.02, 0.2, "b_mon2"])
def test_confidence_is_eq_9_with_scikit_learn_densities(bandwidth):
    X, y = draw_rows(400)
    model = fit_calibrator(X, y, bandwidth=bandwidth)
    for k, curve in enumerate(model.curves_):
        in_class = X.argmax(axis=1) == k
        right, wrong = X[in_class & (y == k), k], X[in_class & (y != k), k]
        grid, b = curve["score"], curve["bandwidth"].item()
        assert (grid[0], grid[-1], len(grid)) == (X[in_class, k].min(), X[in_class, k].max(), 512)
        a, c = density_sum(right, grid, b), density_sum(wrong, grid, b)
        np.testing.assert_allclose(
            curve["confidence"], a / (a + c), atol=1e-8
        )  # log sums are accurate to 1e-9


def test_condition_all_dilutes_the_confidence():
    X, y = draw_rows(300)
    diluted = fit_calibrator(X, y, bandwidth=0.05, condition="all")
    for k, curve in enumerate(diluted.curves_):
        right = (X.argmax(axis=1) == k) & (y == k)
        a, c = (
            density_sum(X[right, k], curve["score"], 0.05),
            density_sum(X[~right, k], curve["score"], 0.05),
        )
        np.testing.assert_allclose(curve["confidence"], a / (a + c), atol=1e-8)
    new, _ = draw_rows(200, seed=1)
    assert (
        diluted.predict_confidence(new)
        <= fit_calibrator(X, y, bandwidth=0.05).predict_confidence(new) + 1e-12
    ).all()
    high = (
        new.max(axis=1) > 0.75
    )  # 5 bandwidths above the largest score of a class that is not predicted
    np.testing.assert_allclose(
        diluted.predict_confidence(new[high]),
        fit_calibrator(X, y, bandwidth=0.05).predict_confidence(new[high]),
        atol=1e-3,
    )


def test_reflected_kernels_keep_their_mass_at_the_boundary():
    """Correct rows fill [0.5, 1], incorrect ones are at 1, so half of their kernels exceeds 1."""
    right, wrong = np.linspace(0.5, 1, 500), np.full(50, 1.0)
    curve = fit_class_0(right, wrong, bandwidth=0.05, boundary="reflect").curves_[0]
    a, c = (
        np.sum(
            [
                density_sum(images, curve["score"], 0.05)
                for images in (scores_of_kind, -scores_of_kind, 2 - scores_of_kind)
            ],
            axis=0,
        )
        for scores_of_kind in (right, wrong)
    )
    np.testing.assert_allclose(curve["confidence"], a / (a + c), atol=1e-8)
    unreflected = fit_class_0(right, wrong, bandwidth=0.05).curves_[0]["confidence"]
    assert curve["confidence"][-1] == pytest.approx(
        unreflected[-1], abs=1e-3
    )  # both sums lose half at the boundary itself,
    inside = np.searchsorted(curve["score"], 0.95)
    assert (
        a[inside] > 1.1 * density_sum(right, curve["score"], 0.05)[inside]
    )  # and less at a distance of one bandwidth


def fit_class_0(right, wrong, **options) -> KernelDensityConfidence:
    """Return a model of class 0, fitted to scores of at least 0.5."""
    s = np.concatenate([right, wrong])
    X = np.stack([s, 1 - s], axis=1)
    model = KernelDensityConfidence(BINARY_PARENT, **options)
    model.classes_ = np.arange(2)
    with pytest.warns(UserWarning, match="^no calibration row is predicted as 1"):
        model._fit_scores(Rows.unweighted(X, (np.arange(len(s)) >= len(right)).astype(int)))
    return model


SCORES = st.lists(st.floats(0.5, 1), min_size=1, max_size=12)


@settings(max_examples=40)
@given(SCORES, SCORES, SCORES, st.floats(0.005, 0.5))
def test_more_correct_rows_never_lower_the_confidence(right, wrong, additional, bandwidth):
    """The additional rows are within the range of the scores, which the grid spans."""
    low, high = min(right + wrong), max(right + wrong)
    before = fit_class_0(right, wrong, bandwidth=bandwidth).curves_[0]["confidence"]
    after = fit_class_0(
        [*right, *np.clip(additional, low, high)], wrong, bandwidth=bandwidth
    ).curves_[0]["confidence"]
    assert (after >= before - 1e-8).all()  # log sums are accurate to 1e-9


def test_confidence_is_constant_outside_the_range_of_scores():
    X, y = draw_rows(300)
    model = fit_calibrator(X, y)
    curve = model.curves_[0]
    assert model.predict_confidence(
        [[0.335, 0.335 - 1e-3, 0.331], [1.0, 0.0, 0.0]]
    ) == pytest.approx(curve["confidence"][[0, -1]], abs=1e-3)
    assert model._evaluate(curve, np.array([0.0, 2.0])) == pytest.approx(
        curve["confidence"][[0, -1]]
    )


def test_one_curve_for_all_classes():
    X, y = draw_rows(300)
    (curve,) = fit_calibrator(X, y, by_class=False, bandwidth=0.1).curves_
    right = X.argmax(axis=1) == y
    a, c = (density_sum(X.max(axis=1)[mask], curve["score"], 0.1) for mask in (right, ~right))
    np.testing.assert_allclose(curve["confidence"], a / (a + c), atol=1e-8)


def test_describe_has_bandwidths_and_sign_changes_by_class():
    X, y = draw_rows(600)
    description = fit_calibrator(X, y, bandwidth="b_mon").describe()
    assert (
        description["sign_changes"] == {"0": 0, "1": 0, "2": 0}
        and description["step"] == 0.0005
        and description["first"] == 0.005
    )
    steps = [(b - 0.005) / 0.0005 for b in description["bandwidth"].values()]
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)
    assert fit_calibrator(X, y, bandwidth=0.1).describe()["bandwidth"] == {
        "0": 0.1,
        "1": 0.1,
        "2": 0.1,
    }


def test_weaker_rules_fit_calibration_rows_better():
    """Salamon et al., Figure 19: the NLL falls as constraints relax, here on calibration rows."""
    losses = {rule: [] for rule in ("b_mon", "b_mon2", "b_mon4")}
    for seed in range(4):
        X, y = draw_rows(600, seed)
        right = X.argmax(axis=1) == y
        for rule, rule_losses in losses.items():
            confidence = fit_calibrator(X, y, bandwidth=rule).predict_confidence(X)
            rule_losses.append(-np.log(np.where(right, confidence, 1 - confidence)).mean())
    assert np.mean(losses["b_mon"]) > np.mean(losses["b_mon2"]) > np.mean(losses["b_mon4"])


def test_class_without_errors_has_its_accuracy_with_a_warning():
    X, y = draw_rows(200)
    y = np.where(X.argmax(axis=1) == 2, 2, y)
    sentence = (
        r"^the calibration rows predicted as 2 are all correct or all incorrect: the confidence there is"
        r" their accuracy$"
    )
    with pytest.warns(UserWarning, match=sentence):
        model = fit_calibrator(X, y)
    assert (
        model.predict_confidence([[0.1, 0.1, 0.8]]) == [1.0]
        and model.describe()["bandwidth"]["2"] is None
    )


def test_class_without_a_wide_enough_bandwidth_has_its_accuracy():
    s = np.array(
        [0.5625, 0.9375, 0.75, 0.25, 0.125]
    )  # class 0 has a correct row on either side of the incorrect one, at equal distances
    X, y = np.stack([s, 1 - s], axis=1), np.array([0, 0, 1, 1, 0])
    with pytest.warns(
        UserWarning,
        match=(
            r"^the fit of 0 reaches a bound: the confidence there is the accuracy of the calibration"
            r" rows$"
        ),
    ):
        model = fit_calibrator(X, y, bandwidth="b_mon", first=0.8, step=0.05)
    assert model.predict_confidence([[0.7, 0.3]]) == pytest.approx([2 / 3])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"bandwidth": "b_mon3"},
            (
                "bandwidth must be one of b_mon, b_mon2, b_mon4, b_opt or a number in (0, inf), got"
                " 'b_mon3'"
            ),
        ),
        (
            {"bandwidth": -1.0},
            "bandwidth must be one of b_mon, b_mon2, b_mon4, b_opt or in (0, inf), got -1.0",
        ),
        ({"grid": 100}, "grid must be in [512, inf), got 100"),
        ({"step": 0}, "step must be in (0, 1], got 0"),
    ],
)
def test_invalid_options_raise_one_line(options, sentence):
    X, y = draw_rows(50)
    with pytest.raises(ParameterError) as caught:
        fit_calibrator(X, y, **options)
    assert str(caught.value) == sentence
