"""Local calibration errors against a double loop and scikit-learn, and their limits."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics.pairwise import laplacian_kernel

from kdgraph.base import Predictions
from kdgraph.errors import DataError, ParameterError
from kdgraph.metrics import (
    TopLabel,
    ece,
    lce,
    lce_by_bandwidth,
    lce_map,
    lce_n_eff,
    local_errors,
    mce,
    mlce,
    mlce_n_eff,
    rms_of,
    score,
    slce,
    tabulate,
)
from kdgraph.runner.evaluate import measure
from kdgraph.smoothing import kernel_means as by_features

ROUNDING = 1e-12  # sums of at most 1,000 terms of order 1 in float64, added in another order
FLOAT32 = 1e-5
"""Effect of float32 on a mean of values in [-1, 1], and relatively on n_eff.

It holds for bandwidths of at least 0.05 of the spread of the features: distances are accurate to
2^-24 of the spread, and weights to that over the bandwidth. For smaller ones float64 is used.
"""


def local_errors_by_loop(
    confidence,
    correct,
    X,
    *,
    bandwidth,
    bins,
    unit,
    strategy="uniform",
    kernel="laplacian",
    leave_one_out=False,
) -> tuple[list[float], list[float]]:
    """Return Eq. 4 without the absolute value, and (Σw)² / Σw², for each row.

    Bins are (j/b, (j+1)/b], or of mass the ranks of distinct confidences in b equal parts.
    """
    gaussian, gamma = kernel == "gaussian", bandwidth * unit
    if strategy == "mass":
        rank = {c: position for position, c in enumerate(sorted(confidence))}
        bin_of = [rank[c] * bins // len(rank) for c in confidence]
    else:
        bin_of = [max(math.ceil(round(c * bins, 9)), 1) for c in confidence]
    slce, n_eff = [], []
    for i, x in enumerate(X):
        weighted_gaps = total_weight = squares = 0.0
        for j, z in enumerate(X):
            if bin_of[j] == bin_of[i] and not (leave_one_out and i == j):
                distance = sum(
                    (a - b) ** 2 / (2 * gamma) if gaussian else abs(a - b)
                    for a, b in zip(x, z, strict=True)
                )
                weight = math.exp(-distance / (len(x) * gamma))
                weighted_gaps += weight * (confidence[j] - correct[j])
                total_weight += weight
                squares += weight**2
        slce.append(weighted_gaps / total_weight if total_weight else math.nan)
        n_eff.append(total_weight**2 / squares if total_weight else math.nan)
    return slce, n_eff


def calibrated_rows(n: int, d: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return confidences from 0.5, correctness, and features of unequal spread."""
    rng = np.random.default_rng(seed)
    confidence = rng.uniform(0.5, 1, n)
    return (
        confidence,
        rng.random(n) < confidence,
        rng.normal(size=(n, d)) * rng.uniform(0.5, 3, d) + 7,
    )


def labels_and_predictions(confidence, correct) -> tuple[np.ndarray, TopLabel]:
    """Return labels and predictions that agree where ``correct`` is True."""
    predicted = np.zeros(len(confidence), dtype=int)
    return np.where(correct, 0, 1), TopLabel(predicted, np.asarray(confidence), 2)


@pytest.mark.parametrize("strategy", ["uniform", "mass"])
@pytest.mark.parametrize("leave_one_out", [False, True])
@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
@pytest.mark.parametrize(
    ("d", "bins", "bandwidth", "scale"),
    [(1, 1, 0.2, "rms"), (2, 15, 0.2, "rms"), (3, 5, 0.4, "none"), (20, 10, 1.0, "rms")],
)
def test_lce_matches_a_double_loop(
    d: int, bins: int, bandwidth: float, scale: str, kernel: str, leave_one_out: bool, strategy: str
) -> None:
    confidence, correct, X = calibrated_rows(120, d)  # 120 is divisible by each number of bins
    options = {
        "bins": bins,
        "strategy": strategy,
        "kernel": kernel,
        "leave_one_out": leave_one_out,
    }
    result = local_errors(confidence, correct, X, bandwidths=[bandwidth], scale=scale, **options)
    unit = math.sqrt(((X - X.mean(axis=0)) ** 2).mean()) if scale == "rms" else 1.0
    slce, n_eff = local_errors_by_loop(
        confidence.tolist(), correct.tolist(), X.tolist(), bandwidth=bandwidth, unit=unit, **options
    )
    np.testing.assert_allclose(result.slce[0], slce, atol=FLOAT32)
    np.testing.assert_allclose(result.n_eff[0], n_eff, rtol=FLOAT32)


def test_float64_lce_matches_a_double_loop_to_rounding() -> None:
    """At this bandwidth float32 is not used; rows come in pairs that are close to each other."""
    confidence, correct, X = calibrated_rows(60, 2)
    X = np.vstack([X, X + 1e-6])
    confidence, correct = np.tile(confidence, 2), np.append(correct, ~correct)
    result = local_errors(confidence, correct, X, bandwidths=[1e-6], scale="none")
    slce, n_eff = local_errors_by_loop(
        confidence.tolist(), correct.tolist(), X.tolist(), bandwidth=1e-6, bins=15, unit=1.0
    )
    np.testing.assert_allclose(
        result.slce[0], slce, atol=1e-8
    )  # features of size 10 are rounded to 1e-15, which is 1e-9 of γ
    np.testing.assert_allclose(result.n_eff[0], n_eff, rtol=1e-8)
    assert result.n_eff[0].min() > 1.4


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 10), st.booleans(), st.integers(-2, 2), st.integers(-2, 2)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([0.05, 0.3, 2.0]),
    st.booleans(),
)
def test_lce_matches_a_double_loop_with_ties(rows, bandwidth: float, leave_one_out: bool) -> None:
    """Confidences are on the edges of ten bins, rows coincide, and some bins have one row."""
    confidence, correct = [c / 10 for c, *_ in rows], [is_correct for _, is_correct, *_ in rows]
    X = np.array([features for *_, a, b in rows for features in [[a, b]]], dtype=float)
    options = {"bins": 10, "leave_one_out": leave_one_out}
    result = local_errors(confidence, correct, X, bandwidths=[bandwidth], scale="none", **options)
    slce, n_eff = local_errors_by_loop(
        confidence, correct, X.tolist(), bandwidth=bandwidth, unit=1.0, **options
    )
    np.testing.assert_allclose(result.slce[0], slce, atol=FLOAT32)
    np.testing.assert_allclose(result.n_eff[0], n_eff, rtol=FLOAT32)
    assert (result.n_eff[0] >= 1 - FLOAT32).all() or leave_one_out


def test_laplacian_kernel_matches_scikit_learn() -> None:
    """The gamma of scikit-learn is 1 / (d γ), in units of the features."""
    confidence, correct, X = calibrated_rows(300, 4)
    result = local_errors(confidence, correct, X, bandwidths=[0.3], bins=1)
    weight = laplacian_kernel(X, gamma=1 / (4 * 0.3 * rms_of(X)))
    np.testing.assert_allclose(
        result.slce[0], weight @ (confidence - correct) / weight.sum(axis=1), atol=FLOAT32
    )
    np.testing.assert_allclose(
        result.n_eff[0], weight.sum(axis=1) ** 2 / (weight**2).sum(axis=1), rtol=FLOAT32
    )


@pytest.mark.parametrize("strategy", ["uniform", "mass"])
@pytest.mark.parametrize("bins", [1, 5, 15])
def test_large_bandwidth_gives_mce_and_ece(bins: int, strategy: str) -> None:
    """Lemma 1; weights differ from 1 by less than 1e-11 at this bandwidth."""
    confidence, correct, X = calibrated_rows(500, 3)
    y, top_label = labels_and_predictions(confidence, correct)
    options = {"bins": bins, "strategy": strategy}
    assert mlce(y, top_label, X, bandwidth=1e12, **options) == pytest.approx(
        mce(y, top_label, **options), abs=1e-10
    )
    assert lce(y, top_label, X, bandwidth=1e12, **options) == pytest.approx(
        ece(y, top_label, **options), abs=1e-10
    )
    result = local_errors(confidence, correct, X, bandwidths=[1e12], **options)
    np.testing.assert_allclose(result.n_eff[0], result.count, rtol=1e-10)


@pytest.mark.parametrize("bandwidth", [1e-6, 1e-300])
def test_small_bandwidth_leaves_only_the_row_itself(bandwidth: float) -> None:
    confidence, correct, X = calibrated_rows(200, 3)
    result = local_errors(confidence, correct, X, bandwidths=[bandwidth])
    np.testing.assert_array_equal(np.abs(result.slce[0]), np.abs(correct - confidence))
    np.testing.assert_array_equal(result.n_eff[0], 1)
    y, top_label = labels_and_predictions(confidence, correct)
    assert mlce(y, top_label, X, bandwidth=bandwidth) == np.abs(correct - confidence).max()


def test_leave_one_out_uses_the_nearest_neighbour_in_the_bin() -> None:
    """This is the limit of a bandwidth of 0, where all weights are 0 in float64."""
    confidence, correct, X = calibrated_rows(200, 3)
    result = local_errors(confidence, correct, X, bandwidths=[1e-300], bins=5, leave_one_out=True)
    distance = np.abs(X[:, None] - X).sum(axis=2)
    bin_of = np.ceil(confidence * 5)
    distance[bin_of[:, None] != bin_of] = np.inf
    np.fill_diagonal(distance, np.inf)
    np.testing.assert_array_equal(result.slce[0], (confidence - correct)[distance.argmin(axis=1)])


def test_lce_detects_errors_that_cancel_in_a_bin() -> None:
    """The model is overconfident by 0.2 on one side and underconfident by 0.2 on the other.

    About 300 rows count around a row in the interior of a side. The tolerance is 5 standard errors
    of √(0.8 · 0.2 / 300) = 0.023.
    """
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (4000, 2))
    confidence = np.full(4000, 0.7)
    correct = rng.random(4000) < 0.7 + 0.2 * np.sign(X[:, 0])
    y, top_label = labels_and_predictions(confidence, correct)
    assert ece(y, top_label) < 0.02
    result = local_errors(confidence, correct, X, bandwidths=[0.1])
    is_interior = (np.abs(X[:, 0]) > 0.4) & (result.n_eff[0] > 100)
    assert is_interior.sum() > 1000
    np.testing.assert_allclose(
        result.slce[0][is_interior], -0.2 * np.sign(X[is_interior, 0]), atol=0.12
    )
    assert lce(y, top_label, X, bandwidth=0.1) > 0.1


def test_local_errors_ignore_units_and_origin_of_the_features() -> None:
    confidence, correct, X = calibrated_rows(200, 3)
    expected = local_errors(confidence, correct, X)
    for transformed in (1000 * X, X - 50):
        np.testing.assert_allclose(
            local_errors(confidence, correct, transformed).slce, expected.slce, atol=FLOAT32
        )
    unscaled = local_errors(confidence, correct, X, bandwidths=[0.2 * rms_of(X)], scale="none")
    np.testing.assert_array_equal(unscaled.slce, expected.slce)
    assert rms_of(np.full((3, 2), 5.0)) == 1


def test_local_errors_ignore_the_order_of_rows() -> None:
    confidence, correct, X = calibrated_rows(200, 3)
    order = np.random.default_rng(1).permutation(200)
    expected = local_errors(confidence, correct, X)
    result = local_errors(confidence[order], correct[order], X[order])
    np.testing.assert_allclose(result.slce[0], expected.slce[0][order], atol=FLOAT32)


def test_min_count_leaves_out_rows_in_small_bins() -> None:
    """A correct row with confidence 0.1, alone in its bin, has an error of 0.9 at any bandwidth."""
    confidence, correct, X = calibrated_rows(200, 2)
    confidence, correct, X = (
        np.append(confidence, 0.1),
        np.append(correct, True),
        np.vstack([X, X[:1]]),
    )
    y, top_label = labels_and_predictions(confidence, correct)
    assert mlce(y, top_label, X, bandwidth=1e9) == pytest.approx(0.9)
    mlce_of_others = mlce(y[:200], top_label[:200], X[:200], bandwidth=1e9)
    assert mlce(y, top_label, X, bandwidth=1e9, min_count=2) == pytest.approx(
        mlce_of_others, abs=1e-8
    )
    assert (
        mlce(y, top_label, X, bandwidth=1e9, leave_one_out=True) < 0.9
    )  # the row has no neighbour
    assert lce_n_eff(y, top_label, X, bandwidth=1e-9, min_count=2) == 1
    assert mlce_n_eff(y, top_label, X, bandwidth=1e9) == 1  # at the added row
    assert mlce_n_eff(y, top_label, X, bandwidth=1e9, min_count=2) > 2
    assert math.isnan(mlce(y, top_label, X, min_count=202))
    assert score("lce", {"y": y, "top_label": top_label, "X": X}, {"min_count": 202}).value is None
    single_row = local_errors([0.9], [True], [[1.0, 2.0]], leave_one_out=True)
    assert np.isnan(single_row.slce).all() and np.isnan(single_row.n_eff).all()


def test_lce_has_no_standard_error() -> None:
    confidence, correct, X = calibrated_rows(50, 2)
    y, top_label = labels_and_predictions(confidence, correct)
    assert score("lce", {"y": y, "top_label": top_label, "X": X}).stderr is None


def test_map_contains_every_row_with_its_position() -> None:
    confidence, correct, X = calibrated_rows(60, 2)
    y, top_label = labels_and_predictions(confidence, correct)
    result = local_errors(confidence, correct, X, bandwidths=[0.3], bins=5)
    rows = tabulate(
        "lce_map", {"y": y, "top_label": top_label, "X": X}, {"bandwidth": 0.3, "bins": 5}
    )
    assert len(rows) == 60
    assert rows[7] == {
        "x1": X[7, 0],
        "x2": X[7, 1],
        "confidence": confidence[7],
        "correct": correct[7],
        "slce": result.slce[0, 7],
        "n_eff": result.n_eff[0, 7],
        "bin_count": result.count[7],
        "bandwidth": 0.3,
    }


@pytest.mark.parametrize("shape", [(60, 1), (60, 3), (60, 1, 2, 1), (60, 2, 1, 1)])
def test_map_requires_two_features(shape: tuple[int, ...]) -> None:
    confidence, correct, _ = calibrated_rows(60, 2)
    y, top_label = labels_and_predictions(confidence, correct)
    X = np.random.default_rng(0).random(shape)
    assert lce_map(y, top_label, X) == {}
    test = Predictions("test", 60, {"top_label": top_label}, {"top_label": top_label}, y=y)
    rows = SimpleNamespace(X=X, groups=None)
    splits = SimpleNamespace(prior=np.array([0.5, 0.5]), test=rows, calibration=rows)
    _, tables = measure([test], {"test": {"lce_map": {}, "lce_by_bandwidth": {}}}, splits, "here")
    assert list(tables) == ["lce_by_bandwidth"]


def test_bins_of_equal_mass_leave_no_row_alone() -> None:
    """The row of test_min_count_leaves_out_rows_in_small_bins shares a bin with 39 others."""
    confidence, correct, X = calibrated_rows(199, 2)
    confidence, correct = np.append(confidence, 0.1), np.append(correct, True)
    X = np.vstack([X, X[:1]])
    errors = local_errors(confidence, correct, X, bins=5, strategy="mass")
    assert set(errors.count) == {40}
    at_rows = local_errors(confidence, correct, X, at=(X, confidence), bins=5, strategy="mass")
    np.testing.assert_array_equal(at_rows.slce, errors.slce)
    y, top_label = labels_and_predictions(confidence, correct)
    options = {"bins": 5, "strategy": "mass"}
    assert mlce(y, top_label, X, **options) == np.abs(errors.slce).max()
    assert lce_by_bandwidth(y, top_label, X, **options)["mlce"][4] == np.abs(errors.slce).max()
    np.testing.assert_array_equal(lce_map(y, top_label, X, **options)["slce"], errors.slce[0])
    # Both kinds of bins are cached apart.
    assert mlce(y, top_label, X, bins=5, bandwidth=1e9) == pytest.approx(0.9)
    with pytest.raises(ParameterError, match="strategy must be one of uniform, mass, got 'rows'"):
        local_errors(confidence, correct, X, strategy="rows")


def test_table_by_bandwidth_matches_single_bandwidths() -> None:
    confidence, correct, X = calibrated_rows(150, 3)
    y, top_label = labels_and_predictions(confidence, correct)
    result = lce_by_bandwidth(y, top_label, X, bandwidths=[0.4, 0.1], min_count=5)
    assert result["bandwidth"].tolist() == [0.4, 0.1]
    for i, bandwidth in enumerate([0.4, 0.1]):
        options = {"bandwidth": bandwidth, "min_count": 5}
        assert result["lce"][i] == lce(y, top_label, X, **options)
        assert result["mlce"][i] == mlce(y, top_label, X, **options)
        assert result["n_eff"][i] == lce_n_eff(y, top_label, X, **options)
        assert result["mlce_n_eff"][i] == mlce_n_eff(y, top_label, X, **options)
        errors = local_errors(confidence, correct, X, bandwidths=[bandwidth])
        assert result["n_eff"][i] == np.median(errors.n_eff[0][errors.count >= 5])
        worst = np.where(errors.count >= 5, np.abs(errors.slce[0]), -1).argmax()
        assert result["mlce_n_eff"][i] == errors.n_eff[0, worst]


def test_table_by_bandwidth_without_rows_is_nan() -> None:
    confidence, correct, X = calibrated_rows(20, 2)
    result = lce_by_bandwidth(*labels_and_predictions(confidence, correct), X, min_count=21)
    assert all(np.isnan(result[column]).all() for column in ("lce", "mlce", "n_eff", "mlce_n_eff"))


def test_images_are_vectors_of_their_pixels() -> None:
    confidence, correct, X = calibrated_rows(40, 12)
    y, top_label = labels_and_predictions(confidence, correct)
    images = (X - X.min()).astype(np.float32).reshape(40, 3, 2, 2)
    assert lce(y, top_label, images) == lce(y, top_label, images.reshape(40, 12))


@pytest.mark.parametrize("kernel", ["laplacian", "gaussian"])
def test_error_at_a_point_is_that_of_a_row_without_weight(kernel: str) -> None:
    """Compare with the double loop around a row at the point that is left out.

    The row has the confidence of the model at the point; the scale is that of the other rows.
    """
    confidence, correct, X = calibrated_rows(150, 2)
    points, confidence_at = X[:40] + 0.3, np.linspace(0, 1, 40)
    result = local_errors(
        *(confidence, correct, X),
        at=(points, confidence_at),
        bandwidths=[0.3, 1e12],
        bins=5,
        kernel=kernel,
    )
    assert np.isnan(
        result.slce[:, :16]
    ).all()  # confidences are at least 0.5, so bins up to 0.4 are empty
    assert (result.count[:16] == 0).all()
    for i in range(16, 40):
        rows = (
            np.append(confidence, confidence_at[i]).tolist(),
            np.append(correct, True).tolist(),
            np.vstack([X, points[i]]).tolist(),
        )
        options = {"bins": 5, "unit": rms_of(X), "kernel": kernel, "leave_one_out": True}
        slce_at, n_eff = (
            values[-1] for values in local_errors_by_loop(*rows, bandwidth=0.3, **options)
        )
        assert result.slce[0, i] == pytest.approx(slce_at, abs=FLOAT32)
        assert result.n_eff[0, i] == pytest.approx(n_eff, rel=FLOAT32)
    for b in range(2, 5):  # Lemma 1 at points
        in_bin, points_in_bin = (
            np.ceil(confidence * 5) == b + 1,
            np.ceil(confidence_at * 5) == b + 1,
        )
        np.testing.assert_allclose(
            result.slce[1, points_in_bin], (confidence - correct)[in_bin].mean(), atol=1e-12
        )
        np.testing.assert_array_equal(result.count[points_in_bin], in_bin.sum())


def test_error_at_the_rows_is_their_error() -> None:
    confidence, correct, X = calibrated_rows(200, 3)
    errors, errors_at = (
        local_errors(confidence, correct, X),
        local_errors(confidence, correct, X, at=(X, confidence)),
    )
    for attribute in ("slce", "n_eff", "count"):
        np.testing.assert_array_equal(getattr(errors, attribute), getattr(errors_at, attribute))


@pytest.mark.parametrize("leave_one_out", [False, True])
def test_equal_rows_have_the_error_of_the_bin(leave_one_out: bool) -> None:
    """The features and confidences of all rows are equal; the bandwidth has no effect.

    With ``leave_one_out`` the error is that of the other rows.
    """
    confidence, correct, X = np.full(20, 0.8), np.arange(20) % 4 > 0, np.full((20, 3), 2.5)
    result = local_errors(
        confidence, correct, X, bandwidths=[1e-9, 0.2, 1e9], leave_one_out=leave_one_out
    )
    accuracy = (correct.sum() - correct) / 19 if leave_one_out else np.full(20, correct.mean())
    np.testing.assert_allclose(result.slce, [0.8 - accuracy] * 3, atol=ROUNDING)
    np.testing.assert_allclose(result.n_eff, 19 if leave_one_out else 20, rtol=ROUNDING)


def test_bin_of_one_row_has_no_leave_one_out_error() -> None:
    result = local_errors([0.95, 0.55, 0.55], [False, True, False], [[0.0], [1.0], [1.0]])
    assert result.slce[0].tolist() == pytest.approx([0.95, 0.05, 0.05])
    assert result.count.tolist() == [1, 2, 2]
    assert result.n_eff[0].tolist() == [1, 2, 2]
    without_own_row = local_errors(
        [0.95, 0.55, 0.55], [False, True, False], [[0.0], [1.0], [1.0]], leave_one_out=True
    )
    assert np.isnan(without_own_row.slce[0, 0])
    assert without_own_row.slce[0, 1:].tolist() == pytest.approx([0.55, -0.45])
    y, top_label = labels_and_predictions([0.95, 0.55, 0.55], [False, True, False])
    assert mlce(y, top_label, np.array([[0.0], [1.0], [1.0]]), leave_one_out=True) == pytest.approx(
        0.55
    )


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_threads_change_no_bit(n_jobs: int, monkeypatch) -> None:
    confidence, correct, X = calibrated_rows(700, 2)
    expected = local_errors(confidence, correct, X, bandwidths=[1e-6, 0.4])
    tasks, around = [], by_features.KernelAverager.average
    monkeypatch.setattr(by_features, "PAIRS_PER_BLOCK", 3000)
    monkeypatch.setattr(
        by_features.KernelAverager,
        "average",
        lambda search, *task: tasks.append(search) or around(search, *task),
    )
    result = local_errors(confidence, correct, X, bandwidths=[1e-6, 0.4], n_jobs=n_jobs)
    searches = set(tasks)
    assert len(searches) == 2 and all(
        tasks.count(search) > 1 for search in searches
    )  # in float32 and in float64
    np.testing.assert_array_equal(result.slce, expected.slce)
    np.testing.assert_array_equal(result.n_eff, expected.n_eff)


def test_slce_has_one_signed_error_per_row() -> None:
    confidence, correct, X = calibrated_rows(60, 3)
    y, top_label = labels_and_predictions(confidence, correct)
    result = local_errors(
        confidence, correct, X, bandwidths=[0.3], kernel="gaussian", leave_one_out=True
    )
    rows = tabulate(
        "slce",
        {"y": y, "top_label": top_label, "X": X},
        {"bandwidth": 0.3, "kernel": "gaussian", "leave_one_out": True},
    )
    assert [row["slce"] for row in rows] == [
        None if math.isnan(error) else error for error in result.slce[0]
    ]
    assert list(rows[0]) == ["confidence", "correct", "slce", "n_eff", "bin_count", "bandwidth"]
    assert slce(y, top_label, X)["slce"].min() < 0 < slce(y, top_label, X)["slce"].max()


THREE_ROWS = calibrated_rows(3, 2)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"bandwidths": [0.2, 0.0]}, ParameterError, r"bandwidth must be in \(0, inf\), got 0.0"),
        (
            {"bandwidths": [math.nan]},
            ParameterError,
            r"bandwidth must be a number in \(0, inf\), got nan",
        ),
        (
            {"bandwidths": []},
            ParameterError,
            "bandwidths must hold at least one number above 0, got none",
        ),
        ({"bins": 0}, ParameterError, "bins must be an integer from 1, got 0"),
        ({"scale": "std"}, ParameterError, "scale must be one of rms, none, got 'std'"),
        ({"kernel": "box"}, ParameterError, "kernel must be one of laplacian, gaussian, got 'box'"),
        ({"X": np.ones((2, 2))}, ValueError, "X must have a row for each of 3 confidences, got 2"),
        (
            {"X": np.array([[1.0, 2.0], [np.nan, 0.0], [0.0, np.inf]])},
            DataError,
            r"X must be finite for distances, got nan in row 1 \(2 such\); fill what is missing, "
            r"or do not measure local calibration \(metrics=default\)",
        ),
        (
            {"confidence": [0.5, 1.5, 0.5]},
            ValueError,
            r"confidence must lie in \[0, 1\], got 1.5 in row 1 \(1 such\)",
        ),
    ],
)
def test_invalid_inputs_are_refused(change, error, message: str) -> None:
    confidence, correct, X = THREE_ROWS
    with pytest.raises(error, match=f"^{message}$"):
        local_errors(**{"confidence": confidence, "correct": correct, "X": X} | change)


@pytest.mark.parametrize(
    ("points", "confidence_at", "error", "message"),
    [
        (np.ones((2, 3)), [0.5, 0.5], ValueError, "points must have the 2 features of X, got 3"),
        (
            np.ones((2, 2)),
            [0.5],
            ValueError,
            r"confidence_at must have a number for each of 2 points, got shape \(1,\)",
        ),
        (
            np.ones((2, 2)),
            [0.5, math.nan],
            ValueError,
            r"confidence_at must lie in \[0, 1\], got nan at point 1 \(1 such\)",
        ),
        (
            np.full((2, 2), np.inf),
            [0.5, 0.5],
            DataError,
            r"points must be finite for distances, got inf in row 0 \(4 such\); fill what is"
            r" missing, "
            r"or do not measure local calibration \(metrics=default\)",
        ),
    ],
)
def test_invalid_points_are_refused(points, confidence_at, error, message: str) -> None:
    confidence, correct, X = THREE_ROWS
    with pytest.raises(error, match=f"^{message}$"):
        local_errors(confidence, correct, X, at=(points, confidence_at))
