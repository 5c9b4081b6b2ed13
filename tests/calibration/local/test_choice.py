"""The bandwidth and the bins that calibration rows choose, each left out of its own neighbourhood,
against a choice made by hand.
"""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.calibration.local import LocalClassShares, LocalRecalibration
from kdgraph.errors import ParameterError
from tests.calibration.local.conftest import PARENT, ROWS, bin_of, drawn, fit, laplacian, naive

GAMMAS = (0.1, 0.5, 2.0, 50.0)


def kernel_by_hand(X, gamma) -> np.ndarray:
    """Float[n, n]: whatever the bins."""
    return np.array([[laplacian(a, b, gamma) for b in X] for a in X])


def brier_by_hand(X, values, weight, kernel, bins) -> float:
    result = naive(X, X, values, lambda i, j: kernel[i, j], bins, weight, leave_one_out=True)
    return float(
        np.average(np.square(result - values).reshape(len(X), -1).sum(axis=1), weights=weight)
    )


@pytest.mark.parametrize("kind", [LocalRecalibration, LocalClassShares])
@pytest.mark.parametrize("bins", ["cv", 5])
def test_bandwidth_and_bins_minimise_cross_validated_brier_score(bins, kind):
    X, y = drawn(70)
    weight = np.random.default_rng(1).integers(1, 4, size=70).astype(float)
    model = kind(PARENT, features=ROWS, bandwidths=GAMMAS, bins=bins, random_state=0)
    fit(model, X, y, sample_weight_calibration=weight)
    values = (
        (X[:, :3].argmax(axis=1) == y).astype(float) if kind is LocalRecalibration else np.eye(3)[y]
    )
    kernels = [kernel_by_hand(X, g) for g in GAMMAS[::-1]]
    by_hand = {
        b: [brier_by_hand(X, values, weight, kernel, b) for kernel in kernels]
        for b in ([1, 5, 15] if bins == "cv" else [5])
    }
    assert model.brier_.keys() == by_hand.keys()
    for b in by_hand:
        np.testing.assert_allclose(
            model.brier_[b], by_hand[b], rtol=1e-4
        )  # distances are of single precision
    _, best_gamma, best_bins = min(
        (value, g, b) for b in by_hand for g, value in zip(GAMMAS[::-1], by_hand[b], strict=True)
    )
    assert (model.bandwidth_, model.bins_) == (best_gamma, best_bins)


def effective_by_hand(X, kernel, bins, weight) -> float:
    cell = np.array([bin_of(row.max(), bins) for row in PARENT.predict_proba(X)])
    near = kernel * weight * (cell[:, None] == cell) * ~np.eye(len(X), dtype=bool)
    total, squares = near.sum(axis=1), np.square(near).sum(axis=1)
    return float(np.median(np.where(squares > 0, total**2 / np.where(squares > 0, squares, 1), 0)))


@pytest.mark.parametrize("seed", range(4))
def test_one_standard_error_rule_prefers_few_bins_then_wide_bandwidths(
    seed,
):
    X, y = drawn(70, seed=seed)
    weight = np.random.default_rng(seed).integers(1, 4, size=70).astype(float)
    best, simplest = (
        fit(
            LocalRecalibration(
                PARENT, features=ROWS, bandwidths=GAMMAS, bins="cv", choice=choice, random_state=0
            ),
            *(X, y),
            sample_weight_calibration=weight,
        )
        for choice in ("best", "simplest")
    )
    values = (X[:, :3].argmax(axis=1) == y).astype(float)
    result = naive(
        X,
        X,
        values,
        lambda i, j: laplacian(X[i], X[j], best.bandwidth_),
        best.bins_,
        weight,
        leave_one_out=True,
    )
    share, squared = weight / weight.sum(), np.square(result - values)
    bound = share @ squared + np.sqrt(np.sum((share * (squared - share @ squared)) ** 2))
    kernels = {g: kernel_by_hand(X, g) for g in GAMMAS}
    good = [
        (b, g)
        for b in (1, 5, 15)
        for g in GAMMAS
        if brier_by_hand(X, values, weight, kernels[g], b) <= bound
    ]
    assert len(good) > 1
    expected = min(
        good, key=lambda each: (each[0], -effective_by_hand(X, kernels[each[1]], each[0], weight))
    )
    assert (simplest.bins_, simplest.bandwidth_) == expected


def test_a_row_of_weight_0_is_as_good_as_none():
    X, y = drawn(60)
    weight = (np.arange(60) % 3 > 0).astype(float)
    weighted, without = (
        LocalRecalibration(PARENT, features=ROWS, bins="cv", random_state=0) for _ in range(2)
    )
    fit(weighted, X, y, sample_weight_calibration=weight)
    fit(without, X[weight > 0], y[weight > 0])
    assert (weighted.bandwidth_, weighted.bins_) == (without.bandwidth_, without.bins_)
    assert np.array_equal(weighted.predict_confidence(X), without.predict_confidence(X))


def test_ties_prefer_wide_bandwidths_and_few_bins():
    X, y = drawn(40)
    X[:] = X[0]  # nothing tells rows apart
    model = fit(
        LocalRecalibration(PARENT, features=ROWS, bandwidths=GAMMAS, bins="cv", random_state=0),
        X,
        y,
    )
    assert (model.bandwidth_, model.bins_) == (50.0, 1)


def test_order_of_bandwidths_does_not_matter():
    X, y = drawn(60)
    one, other = (
        fit(LocalRecalibration(PARENT, features=ROWS, bandwidths=b, random_state=0), X, y)
        for b in (GAMMAS, GAMMAS[::-1])
    )
    assert one.bandwidth_ == other.bandwidth_ and np.array_equal(one.brier_[15], other.brier_[15])


def test_groups_have_no_bandwidth_to_choose_but_bins():
    X, y = drawn(60)
    groups = np.arange(60) % 2
    one = fit(LocalRecalibration(PARENT, kernel="group"), X, y, groups_calibration=groups)
    assert one.brier_ is None and one.bins_ == 15
    several = fit(
        LocalRecalibration(PARENT, kernel="group", bins="cv"), X, y, groups_calibration=groups
    )
    assert {b: brier.shape for b, brier in several.brier_.items()} == {1: (1,), 5: (1,), 15: (1,)}
    assert several.bins_ == min(several.brier_, key=lambda b: several.brier_[b][0])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"bandwidth": 0}, "bandwidth must be in (0, inf) or one of cv, got 0"),
        (
            {"bandwidths": [1.0, -1.0]},
            "bandwidths must be a list of which each is in (0, inf), got [1.0, -1.0]",
        ),
        ({"bandwidths": []}, "bandwidths must hold at least one number above 0, got none"),
        ({"bins": 0}, "bins must be in [1, inf) or one of cv, got 0"),
        (
            {"kernel": "box"},
            "kernel must be one of laplacian, gaussian, geodesic, group, got 'box'",
        ),
    ],
)
def test_invalid_parameters_are_refused_in_one_line(options, sentence):
    with pytest.raises(ParameterError) as caught:
        fit(LocalRecalibration(PARENT, **{"features": ROWS, **options}), *drawn(20))
    assert str(caught.value) == sentence
