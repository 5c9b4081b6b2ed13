"""The kernel density confidence against scikit-learn's densities, and what it promises."""

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
ALONE = FrozenEstimator(PrecomputedScores().fit(np.empty((0, 2))))


def drawn(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows whose prediction is right with the probability that they state, squared."""
    rng = np.random.default_rng(seed)
    X = rng.dirichlet(np.full(3, 0.5), size=n)
    top = X.argmax(axis=1)
    return X, np.where(
        rng.random(n) < X.max(axis=1) ** 2, top, (top + rng.integers(1, 3, size=n)) % 3
    )


def fitted(X, y, **options) -> KernelDensityConfidence:
    parent = PARENT if X.shape[1] == 3 else ALONE
    return KernelDensityConfidence(parent, **options).fit(X, y, X_calibration=X, y_calibration=y)


def density(rows, points, bandwidth) -> np.ndarray:
    """Eq. 7 times the number of rows, by scikit-learn."""
    return len(rows) * np.exp(
        KernelDensity(bandwidth=bandwidth).fit(rows[:, None]).score_samples(points[:, None])
    )


@pytest.mark.parametrize("bandwidth", [0.02, 0.2, "b_mon2"])
def test_confidence_matches_equation_9_with_scikit_learn_densities(bandwidth):
    X, y = drawn(400)
    model = fitted(X, y, bandwidth=bandwidth)
    for k, curve in enumerate(model.curves_):
        mine = X.argmax(axis=1) == k
        right, wrong = X[mine & (y == k), k], X[mine & (y != k), k]
        grid, b = curve["score"], curve["bandwidth"].item()
        assert (grid[0], grid[-1], len(grid)) == (X[mine, k].min(), X[mine, k].max(), 512)
        a, c = density(right, grid, b), density(wrong, grid, b)
        np.testing.assert_allclose(
            curve["confidence"], a / (a + c), atol=1e-8
        )  # its log sums are known to 1e-9


def test_rows_of_other_classes_that_score_for_the_class_lower_it():
    X, y = drawn(300)
    diluted = fitted(X, y, bandwidth=0.05, condition="all")
    for k, curve in enumerate(diluted.curves_):
        right = (X.argmax(axis=1) == k) & (y == k)
        a, c = (
            density(X[right, k], curve["score"], 0.05),
            density(X[~right, k], curve["score"], 0.05),
        )
        np.testing.assert_allclose(curve["confidence"], a / (a + c), atol=1e-8)
    new, _ = drawn(200, seed=1)
    assert (
        diluted.predict_confidence(new)
        <= fitted(X, y, bandwidth=0.05).predict_confidence(new) + 1e-12
    ).all()
    high = (
        new.max(axis=1) > 0.75
    )  # 5 bandwidths above what a row can score for a class that it is not predicted as
    np.testing.assert_allclose(
        diluted.predict_confidence(new[high]),
        fitted(X, y, bandwidth=0.05).predict_confidence(new[high]),
        atol=1e-3,
    )


def test_reflected_kernels_lose_nothing_at_the_boundary():
    """Right rows fill [0.5, 1], wrong ones stand at 1: half of their kernels is beyond it, and so
    is half of the right ones' there.
    """
    right, wrong = np.linspace(0.5, 1, 500), np.full(50, 1.0)
    curve = at_scores(right, wrong, bandwidth=0.05, boundary="reflect").curves_[0]
    a, c = (
        np.sum([density(at, curve["score"], 0.05) for at in (rows, -rows, 2 - rows)], axis=0)
        for rows in (right, wrong)
    )
    np.testing.assert_allclose(curve["confidence"], a / (a + c), atol=1e-8)
    half = at_scores(right, wrong, bandwidth=0.05).curves_[0]["confidence"]
    assert curve["confidence"][-1] == pytest.approx(
        half[-1], abs=1e-3
    )  # of both kinds half is lost right at the boundary,
    inside = np.searchsorted(curve["score"], 0.95)
    assert (
        a[inside] > 1.1 * density(right, curve["score"], 0.05)[inside]
    )  # and less of either, a bandwidth from it


def at_scores(right, wrong, **options) -> KernelDensityConfidence:
    """A model of class 0 from its scores, from 0.5."""
    s = np.concatenate([right, wrong])
    X = np.stack([s, 1 - s], axis=1)
    model = KernelDensityConfidence(ALONE, **options)
    model.classes_ = np.arange(2)
    with pytest.warns(UserWarning, match="^no calibration row is predicted as 1"):
        model._fit_scores(Rows.unweighted(X, (np.arange(len(s)) >= len(right)).astype(int)))
    return model


scores = st.lists(st.floats(0.5, 1), min_size=1, max_size=12)


@settings(max_examples=40)
@given(scores, scores, scores, st.floats(0.005, 0.5))
def test_more_correct_rows_never_lower_confidence_at_fixed_bandwidth(right, wrong, more, bandwidth):
    """More of them between the lowest and the highest score, which the grid spans."""
    low, high = min(right + wrong), max(right + wrong)
    before = at_scores(right, wrong, bandwidth=bandwidth).curves_[0]["confidence"]
    after = at_scores([*right, *np.clip(more, low, high)], wrong, bandwidth=bandwidth).curves_[0][
        "confidence"
    ]
    assert (after >= before - 1e-8).all()  # log sums are known to 1e-9


def test_confidence_beyond_the_scores_equals_that_at_the_edge():
    X, y = drawn(300)
    model = fitted(X, y)
    curve = model.curves_[0]
    assert model.predict_confidence(
        [[0.335, 0.335 - 1e-3, 0.331], [1.0, 0.0, 0.0]]
    ) == pytest.approx(curve["confidence"][[0, -1]], abs=1e-3)
    assert model._evaluate(curve, np.array([0.0, 2.0])) == pytest.approx(
        curve["confidence"][[0, -1]]
    )


def test_one_curve_for_all_classes():
    X, y = drawn(300)
    (curve,) = fitted(X, y, by_class=False, bandwidth=0.1).curves_
    right = X.argmax(axis=1) == y
    a, c = (density(X.max(axis=1)[kind], curve["score"], 0.1) for kind in (right, ~right))
    np.testing.assert_allclose(curve["confidence"], a / (a + c), atol=1e-8)


def test_summary_contains_bandwidths():
    X, y = drawn(600)
    result = fitted(X, y, bandwidth="b_mon").describe()
    assert (
        result["sign_changes"] == {"0": 0, "1": 0, "2": 0}
        and result["step"] == 0.0005
        and result["first"] == 0.005
    )
    steps = [(b - 0.005) / 0.0005 for b in result["bandwidth"].values()]
    np.testing.assert_allclose(steps, np.round(steps), atol=1e-6)
    assert fitted(X, y, bandwidth=0.1).describe()["bandwidth"] == {"0": 0.1, "1": 0.1, "2": 0.1}


def test_weaker_rules_fit_better():
    """Salamon et al., Figure 19: NLL falls as constraints relax; here of the calibration rows
    themselves, in the mean.
    """
    losses = {rule: [] for rule in ("b_mon", "b_mon2", "b_mon4")}
    for seed in range(4):
        X, y = drawn(600, seed)
        right = X.argmax(axis=1) == y
        for rule, found in losses.items():
            c = fitted(X, y, bandwidth=rule).predict_confidence(X)
            found.append(-np.log(np.where(right, c, 1 - c)).mean())
    assert np.mean(losses["b_mon"]) > np.mean(losses["b_mon2"]) > np.mean(losses["b_mon4"])


def test_always_correct_class_uses_its_precision_and_is_named():
    X, y = drawn(200)
    y = np.where(X.argmax(axis=1) == 2, 2, y)
    sentence = (
        r"^the calibration rows predicted as 2 are all correct or all incorrect: the confidence there is"
        r" their accuracy$"
    )
    with pytest.warns(UserWarning, match=sentence):
        model = fitted(X, y)
    assert (
        model.predict_confidence([[0.1, 0.1, 0.8]]) == [1.0]
        and model.describe()["bandwidth"]["2"] is None
    )


def test_class_without_wide_enough_kernel_uses_its_precision():
    s = np.array(
        [0.5625, 0.9375, 0.75, 0.25, 0.125]
    )  # of class 0 a right row on either side of the wrong one, as far from it
    X, y = np.stack([s, 1 - s], axis=1), np.array([0, 0, 1, 1, 0])
    with pytest.warns(
        UserWarning,
        match=(
            r"^the fit of 0 reaches a bound: the confidence there is the accuracy of the calibration"
            r" rows$"
        ),
    ):
        model = fitted(X, y, bandwidth="b_mon", first=0.8, step=0.05)
    assert model.predict_confidence([[0.7, 0.3]]) == pytest.approx([2 / 3])


def test_a_row_of_weight_two_is_two_rows():
    X, y = drawn(150)
    weight = np.random.default_rng(1).integers(1, 3, size=150)
    weighted = KernelDensityConfidence(PARENT)
    weighted.classes_ = np.arange(3)
    weighted._fit_scores(Rows(X, y, weight.astype(float)))
    twice = fitted(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    for a, b in zip(weighted.curves_, twice.curves_, strict=True):
        assert a["bandwidth"] == b["bandwidth"]
        np.testing.assert_allclose(a["confidence"], b["confidence"], atol=1e-8)


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
def test_bad_options_are_named(options, sentence):
    X, y = drawn(50)
    with pytest.raises(ParameterError) as caught:
        fitted(X, y, **options)
    assert str(caught.value) == sentence
