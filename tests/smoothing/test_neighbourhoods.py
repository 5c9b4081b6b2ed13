"""Tests of the bound on the float32 error of distances, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.smoothing.neighbourhoods import Frame, rounding_error
from kdgraph.smoothing.pair_sums import fill_distances


def exact_distance(a: np.ndarray, b: np.ndarray, power: int) -> float:
    return float(
        sum(
            abs(Fraction(float(x)) - Fraction(float(y))) ** power for x, y in zip(a, b, strict=True)
        )
    )


def computed_distances(frame: Frame, at: np.ndarray, X: np.ndarray, squared: bool) -> np.ndarray:
    """Return the distances of the compiled loops, Float[m, n], of fewer rows than a tile."""
    distances = np.empty((len(at) + 1, len(X)), frame.dtype)
    fill_distances(
        frame.transform(at),
        np.ascontiguousarray(frame.transform(X).T).ravel(),
        0,
        len(X),
        squared,
        distances,
    )
    return distances[: len(at)].astype(np.float64)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 70),
    st.sampled_from([0.0, 1.0, 1e5]),
    st.sampled_from([1e-20, 1.0, 1e20]),
    st.sampled_from([0.1, 3.0]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_rounding_errors_are_within_the_bound(
    d: int, offset: float, unit: float, tail: float, squared: bool, seed: int
) -> None:
    """Features have an offset, heavy tails and any unit.

    The float64 rounding of the centring is below a thousandth of the bound.
    """
    rng = np.random.default_rng(seed)
    at, X = (unit * (offset + np.sinh(tail * rng.normal(size=(rows, d)))) for rows in (3, 5))
    frame = Frame.centred(X)
    sums = computed_distances(frame, at, X, squared)
    bound = rounding_error(frame, at, X, "gaussian" if squared else "laplacian")
    power = 2 if squared else 1
    errors = [
        [
            abs(value - frame.scale**power * exact_distance(a, b, power))
            for b, value in zip(X, row, strict=True)
        ]
        for a, row in zip(at, sums, strict=True)
    ]
    assert (
        np.max(errors, axis=1) <= 1.001 * bound + 1e-12 * (offset + 1) * frame.scale * unit
    ).all()


@pytest.mark.parametrize("squared", [False, True])
def test_the_bound_is_within_a_factor_of_200_of_the_error(squared: bool) -> None:
    """With 50 features of unit spread it is about ten times the error, whose signs mostly cancel."""
    rng = np.random.default_rng(0)
    at, X = rng.normal(size=(20, 50)), rng.normal(size=(50, 50))
    frame = Frame.centred(X)
    sums = computed_distances(frame, at, X, squared)
    power = 2 if squared else 1
    error = max(
        abs(sums[i, j] - frame.scale**power * exact_distance(at[i], X[j], power))
        for i in range(20)
        for j in range(50)
    )
    bound = rounding_error(frame, at, X, "gaussian" if squared else "laplacian").max()
    assert 2 < bound / error < 200


def test_float64_keeps_equal_distances_equal() -> None:
    """k/10 and -k/10 are equally far from 0; centring on another mean rounds them differently."""
    k = np.arange(1, 30)[:, None] / 10
    X = np.vstack([k, -k, [[7.7]]])
    from_uncentred = computed_distances(Frame.uncentred(X), np.zeros((1, 1)), X, squared=False)[0]
    np.testing.assert_array_equal(from_uncentred[:29], from_uncentred[29:58])
    from_centred = computed_distances(
        Frame(X.mean(axis=0), 1.0, np.float64), np.zeros((1, 1)), X, squared=False
    )[0]
    assert (from_centred[:29] != from_centred[29:58]).any()


def test_frame_scale_is_a_power_of_two_that_maps_rows_to_one() -> None:
    for extent in (1e-300, 0.3, 1.0, 7.0, 1e300):
        for frame in (
            Frame.centred(np.array([[extent], [-extent]])),
            Frame.uncentred(np.array([[extent], [0.0]])),
        ):
            assert np.frexp(frame.scale)[0] == 0.5
            assert 0.5 <= np.abs(frame.transform(np.array([[extent]]))).max() <= 1
    assert Frame.centred(np.zeros((2, 2))).scale == 1
