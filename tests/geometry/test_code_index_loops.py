"""Each compiled loop against NumPy's unpacked bits and extended precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kdgraph.geometry import code_index

UNUSED = 99


@pytest.mark.parametrize("n", [1, 2, 7, 64, 301])
@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 4), (1, 4), (2, 9), (0, 16), (3, 3)])
def test_mismatches_are_the_different_bits(n, first, last):
    rng = np.random.default_rng(n)
    tile, queries = (
        rng.integers(2**64, size=(17, n + 5), dtype=np.uint64),
        rng.integers(2**64, size=(2, 17), dtype=np.uint64),
    )
    counts = np.full((2, n + 5), UNUSED)
    code_index.count_mismatches(tile, first, last, queries[0], queries[1], n, counts[0], counts[1])
    for query, result in zip(queries, counts, strict=True):
        differ = np.ascontiguousarray((tile ^ query[:, None])[first:last, :n].T).view(np.uint8)
        assert np.array_equal(result[:n], np.unpackbits(differ, axis=1).sum(axis=1))
        assert (result[n:] == UNUSED).all()


@pytest.mark.parametrize("width", [1, 2, 3, 49, 63, 64, 65, 1000, 12_345])
def test_match_fraction_equals_numpy_to_the_last_bit(width):
    counts, initial = np.arange(width + 1), np.random.default_rng(0).random(width + 1)
    similarity = initial.copy()
    code_index.multiply_match_fraction(counts, float(width), width + 1, similarity)
    assert np.array_equal(similarity, initial * (1.0 - counts / width))


def test_log2_of_similarities_matches_extended_precision():
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [
            rng.random(5000),
            1 - rng.random(5000) ** 8,
            2.0 ** -rng.uniform(0, 1074, 5000),
            [1, 0.5, np.sqrt(0.5), 5e-324],
        ]
    )
    result = np.empty(len(x))
    code_index.log2_similarity(x, len(x), result)
    expected = np.log2(x.astype(np.longdouble))
    assert result[x == 1].tolist() == [0] * (x == 1).sum()
    # The tolerance allows for a few roundings.
    np.testing.assert_allclose(result, expected.astype(np.float64), rtol=1e-15, atol=0)


def test_powers_match_extended_precision():
    rng = np.random.default_rng(1)
    logs = -np.concatenate(
        [
            rng.exponential(1, 5000),
            rng.uniform(0, 1e-3, 5000),
            rng.uniform(0, 40, 5000),
            [0, 0.5, 1, 1.5],
        ]
    )
    result = np.empty(len(logs))
    for exponent in (0, 1e-3, 0.3, 1, 2.5, 40, 166, 1e6):
        code_index.power_from_log2(logs, exponent, len(logs), result)
        x = exponent * logs
        expected = np.where(x > -1022, np.exp2(x.astype(np.longdouble)), 0).astype(np.float64)
        error = np.abs(result - expected) / np.where(expected > 0, expected, 1)
        # The terms are the error of the function, and of x: half of 2^-52 · |x| · log 2.
        assert (error <= 1e-14 + 2e-16 * np.abs(x)).all()


def test_powers_of_zero_similarity_are_zero_except_at_exponent_zero():
    logs, result = np.empty(3), np.empty(3)
    code_index.log2_similarity(np.array([0.0, 1.0, 0.0]), 3, logs)
    for exponent, expected in (
        (0.0, [1, 1, 1]),
        (1e-9, [0, 1, 0]),
        (1.0, [0, 1, 0]),
        (1e300, [0, 1, 0]),
    ):
        code_index.power_from_log2(logs, exponent, 3, result)
        assert result.tolist() == expected


@pytest.mark.parametrize("n", [0, 1, 7, 8, 33, 512])
def test_weighted_sum_and_maximum_match_reference(n):
    x, weight = np.random.default_rng(n).random((2, n))
    # The sum has at most 512 positive terms.
    expected = math.fsum(x * weight)
    assert code_index.weighted_sum(x, weight) == pytest.approx(expected, rel=1e-14)
    assert code_index.max_value(x, n, 0.0) == max(x, default=0.0)
    assert code_index.max_value(x, n // 2, 0.5) == max([0.5, *x[: n // 2]])


@pytest.mark.parametrize(
    ("similarity", "current", "expected"),
    [
        ([0.2, 0.7, 0.7], (-1, 0.0), (5, 0.7)),  # the lower number of a tie, at any position
        ([0.2, 0.7, 0.7], (4, 0.7), (4, 0.7)),
        ([0.2, 0.7, 0.7], (6, 0.7), (5, 0.7)),
        ([0.2, 0.7, 0.7], (0, 0.6), (5, 0.7)),
        ([0.2, 0.7, 0.7], (9, 0.8), (9, 0.8)),
        ([0.0, 0.0, 0.0], (-1, 0.0), (-1, 0.0)),
    ],
)
def test_update_nearest_prefers_nearer_then_lower_numbers(similarity, current, expected):
    assert (
        code_index.update_nearest(
            np.array(similarity), max(similarity), np.array([3, 8, 5]), *current
        )
        == expected
    )
