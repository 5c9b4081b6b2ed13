"""Choice of bandwidth and bins by leave-one-out scores, against loops over all settings."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.calibration.local import LocalClassShares, LocalRecalibration
from kdgraph.errors import ParameterError
from tests.calibration.local.conftest import (
    PARENT,
    ROWS,
    average_by_loops,
    bin_by_scan,
    fit,
    laplacian,
    random_rows,
)

GAMMAS = (0.1, 0.5, 2.0, 50.0)


def kernel_by_loops(X, gamma) -> np.ndarray:
    """Return the kernel of all pairs of rows, Float[n, n], regardless of bins."""
    return np.array([[laplacian(a, b, gamma) for b in X] for a in X])


def brier_by_loops(X, values, weight, kernel, bins) -> float:
    averages = average_by_loops(
        X, X, values, lambda i, j: kernel[i, j], bins, weight, leave_one_out=True
    )
    return float(
        np.average(np.square(averages - values).reshape(len(X), -1).sum(axis=1), weights=weight)
    )


@pytest.mark.parametrize("calibrator", [LocalRecalibration, LocalClassShares])
@pytest.mark.parametrize("bins", ["cv", 5])
def test_cv_has_the_least_leave_one_out_brier_score(bins, calibrator):
    X, y = random_rows(70)
    weight = np.random.default_rng(1).integers(1, 4, size=70).astype(float)
    model = calibrator(PARENT, features=ROWS, bandwidths=GAMMAS, bins=bins, random_state=0)
    fit(model, X, y, sample_weight_calibration=weight)
    values = (
        (X[:, :3].argmax(axis=1) == y).astype(float)
        if calibrator is LocalRecalibration
        else np.eye(3)[y]
    )
    kernels = [kernel_by_loops(X, g) for g in GAMMAS[::-1]]
    expected = {
        b: [brier_by_loops(X, values, weight, kernel, b) for kernel in kernels]
        for b in ([1, 5, 15] if bins == "cv" else [5])
    }
    assert model.brier_.keys() == expected.keys()
    for b in expected:
        np.testing.assert_allclose(
            model.brier_[b], expected[b], rtol=1e-4
        )  # distances are of single precision
    _, best_gamma, best_bins = min(
        (value, g, b) for b in expected for g, value in zip(GAMMAS[::-1], expected[b], strict=True)
    )
    assert (model.bandwidth_, model.bins_) == (best_gamma, best_bins)


def n_eff_by_loops(X, kernel, bins, weight) -> float:
    cell = np.array([bin_by_scan(row.max(), bins) for row in PARENT.predict_proba(X)])
    kernel_weight = kernel * weight * (cell[:, None] == cell) * ~np.eye(len(X), dtype=bool)
    total, squares = kernel_weight.sum(axis=1), np.square(kernel_weight).sum(axis=1)
    return float(np.median(np.where(squares > 0, total**2 / np.where(squares > 0, squares, 1), 0)))


@pytest.mark.parametrize("seed", range(4))
def test_simplest_has_fewest_bins_within_one_standard_error(
    seed,
):
    X, y = random_rows(70, seed=seed)
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
    averages = average_by_loops(
        X,
        X,
        values,
        lambda i, j: laplacian(X[i], X[j], best.bandwidth_),
        best.bins_,
        weight,
        leave_one_out=True,
    )
    proportion, squared = weight / weight.sum(), np.square(averages - values)
    bound = proportion @ squared + np.sqrt(
        np.sum((proportion * (squared - proportion @ squared)) ** 2)
    )
    kernels = {g: kernel_by_loops(X, g) for g in GAMMAS}
    good_settings = [
        (b, g)
        for b in (1, 5, 15)
        for g in GAMMAS
        if brier_by_loops(X, values, weight, kernels[g], b) <= bound
    ]
    assert len(good_settings) > 1
    expected = min(
        good_settings,
        key=lambda setting: (
            setting[0],
            -n_eff_by_loops(X, kernels[setting[1]], setting[0], weight),
        ),
    )
    assert (simplest.bins_, simplest.bandwidth_) == expected


def test_rows_of_weight_0_are_ignored():
    X, y = random_rows(60)
    weight = (np.arange(60) % 3 > 0).astype(float)
    weighted, subset = (
        LocalRecalibration(PARENT, features=ROWS, bins="cv", random_state=0) for _ in range(2)
    )
    fit(weighted, X, y, sample_weight_calibration=weight)
    fit(subset, X[weight > 0], y[weight > 0])
    assert (weighted.bandwidth_, weighted.bins_) == (subset.bandwidth_, subset.bins_)
    assert np.array_equal(weighted.predict_confidence(X), subset.predict_confidence(X))


def test_ties_go_to_the_widest_bandwidth_and_fewest_bins():
    X, y = random_rows(40)
    X[:] = X[0]  # all rows are equal
    model = fit(
        LocalRecalibration(PARENT, features=ROWS, bandwidths=GAMMAS, bins="cv", random_state=0),
        X,
        y,
    )
    assert (model.bandwidth_, model.bins_) == (50.0, 1)


def test_order_of_bandwidths_is_irrelevant():
    X, y = random_rows(60)
    ascending, descending = (
        fit(LocalRecalibration(PARENT, features=ROWS, bandwidths=b, random_state=0), X, y)
        for b in (GAMMAS, GAMMAS[::-1])
    )
    assert ascending.bandwidth_ == descending.bandwidth_ and np.array_equal(
        ascending.brier_[15], descending.brier_[15]
    )


def test_group_kernel_chooses_bins_but_no_bandwidth():
    X, y = random_rows(60)
    groups = np.arange(60) % 2
    fixed = fit(LocalRecalibration(PARENT, kernel="group"), X, y, groups_calibration=groups)
    assert fixed.brier_ is None and fixed.bins_ == 15
    chosen = fit(
        LocalRecalibration(PARENT, kernel="group", bins="cv"), X, y, groups_calibration=groups
    )
    assert {b: brier.shape for b, brier in chosen.brier_.items()} == {1: (1,), 5: (1,), 15: (1,)}
    assert chosen.bins_ == min(chosen.brier_, key=lambda b: chosen.brier_[b][0])


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
def test_invalid_parameter_raises_one_line(options, sentence):
    with pytest.raises(ParameterError) as caught:
        fit(LocalRecalibration(PARENT, **{"features": ROWS, **options}), *random_rows(20))
    assert str(caught.value) == sentence
