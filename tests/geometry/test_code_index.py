"""Tests of class masses and nearest polytopes of activation codes.

They are compared with SciPy's Hamming distances, NumPy and an enumeration of all paths.
"""

from __future__ import annotations

import itertools
import math
import re
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from kdgraph.geometry import code_index
from kdgraph.geometry.code_index import CodeIndex, code_similarity

ROUNDING = 1e-12
"""Tolerance of sums of a few hundred positive terms.

Powers have a relative error of 1e-14, plus 1e-16 times an exponent below 1,000.
"""
EXPONENTS = np.array([0.0, 0.02, 0.3, 1.0, 2.0, 7.5, 30.0, 138.0])
ODD_WIDTHS = [1, 63, 64, 65, 1000, 2]


def pack_codes(bits):
    """Return codes UInt64[n, W], contiguous by column, of the bits Bool[n, width] of each layer."""
    layers = []
    for layer_bits in bits:
        padded_bits = np.zeros((len(layer_bits), 64 * -(-layer_bits.shape[1] // 64)), dtype=bool)
        padded_bits[:, : layer_bits.shape[1]] = layer_bits
        layers.append(
            np.packbits(padded_bits, axis=1, bitorder="little").view("<u8").astype(np.uint64)
        )
    return np.asfortranarray(np.hstack(layers))


def random_bits(n, widths, seed=0, likeness=0.85):
    """Return bits of each layer that mostly agree with one pattern, so that K is not tiny."""
    rng = np.random.default_rng(seed)
    pattern = np.random.default_rng(99)
    return [(pattern.random(width) < 0.5) ^ (rng.random((n, width)) > likeness) for width in widths]


def hamming_similarity(a, b):
    """Return the product over layers of 1 minus SciPy's distance, Float[m, n]."""
    return math.prod(1 - cdist(x, y, "hamming") for x, y in zip(a, b, strict=True))


def dense_masses(similarity, class_weights, exponents, n_anchors=None):
    masses = np.stack([similarity**exponent @ class_weights for exponent in exponents], axis=2)
    anchors = similarity[:, :n_anchors]
    return masses, np.where(anchors.max(axis=1) > 0, anchors.argmax(axis=1), -1)


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 700), (33, 513), (40, 1)])
def test_similarity_matches_hamming_distances_to_the_last_bit(m, n):
    a, b = random_bits(m, ODD_WIDTHS), random_bits(n, ODD_WIDTHS, 1)
    assert np.array_equal(
        code_similarity(pack_codes(a), pack_codes(b), ODD_WIDTHS), hamming_similarity(a, b)
    )


@pytest.mark.parametrize("width", ODD_WIDTHS)
def test_number_of_matching_units_is_exact(width):
    (a,), (b,) = random_bits(11, [width]), random_bits(77, [width], 1)
    matches = (a[:, None] == b[None]).sum(axis=2)
    assert np.array_equal(
        np.rint(code_similarity(pack_codes([a]), pack_codes([b]), [width]) * width), matches
    )


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.integers(0, 2**31))
def test_similarity_is_the_exact_fraction_of_equal_activation_paths(widths, seed):
    """Eq. 16 of Dey et al., term by term.

    A path contains one unit of each layer; its mode is the state of these units.
    """
    (a, b), paths = (
        np.random.default_rng(seed).random((2, sum(widths))) < 0.5,
        list(itertools.product(*map(range, widths))),
    )
    layer_starts = np.cumsum(widths)[:-1]
    a, b = np.split(a, layer_starts), np.split(b, layer_starts)
    n_equal_paths = sum(
        all(a[layer][unit] == b[layer][unit] for layer, unit in enumerate(path)) for path in paths
    )
    fractions = [Fraction(int((x == y).sum()), len(x)) for x, y in zip(a, b, strict=True)]
    assert math.prod(fractions) == Fraction(n_equal_paths, len(paths))
    result = code_similarity(
        pack_codes([x[None] for x in a]), pack_codes([x[None] for x in b]), widths
    )[0, 0]
    assert result == pytest.approx(n_equal_paths / len(paths), rel=1e-15)  # four factors, rounded
    assert (result == 0) == (n_equal_paths == 0) and (result == 1) == (n_equal_paths == len(paths))


@pytest.mark.parametrize("labels", ["one class each", "several classes"])
@pytest.mark.parametrize("n", [1, 511, 1301])
def test_masses_and_nearest_polytopes_match_dense_similarities(n, labels):
    rng = np.random.default_rng(3)
    weights = rng.uniform(0.1, 3, (n, 5))
    weights *= (
        np.eye(5)[rng.integers(5, size=n)]
        if labels == "one class each"
        else rng.random((n, 5)) < 0.4
    )
    a, b = random_bits(37, ODD_WIDTHS), random_bits(n, ODD_WIDTHS, 1)
    for n_anchors in (None, n // 2 + 1):
        masses, nearest = CodeIndex(pack_codes(b), weights, ODD_WIDTHS, n_anchors=n_anchors).query(
            pack_codes(a), EXPONENTS
        )
        expected, expected_nearest = dense_masses(
            hamming_similarity(a, b), weights, EXPONENTS, n_anchors
        )
        np.testing.assert_allclose(masses, expected, rtol=ROUNDING, atol=0)
        assert np.array_equal(nearest, expected_nearest)


@settings(deadline=None, max_examples=80)
@given(st.data())
def test_random_codes_match_dense_similarities(data):
    widths = data.draw(st.lists(st.sampled_from([1, 2, 3, 5, 64, 65, 130]), min_size=1, max_size=4))
    n, m, n_classes = (
        data.draw(st.integers(1, 30)),
        data.draw(st.integers(1, 8)),
        data.draw(st.integers(1, 4)),
    )
    n_anchors, seed = data.draw(st.integers(0, n)), data.draw(st.integers(0, 2**31))
    exponents = np.array(
        data.draw(st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 60)), max_size=4))
    )
    likeness = data.draw(st.sampled_from([0.5, 0.9, 1.0]))
    a, b = random_bits(m, widths, seed, likeness), random_bits(n, widths, seed + 1, likeness)
    weights = np.random.default_rng(seed).integers(0, 3, (n, n_classes)) * np.random.default_rng(
        seed
    ).random((n, n_classes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_index, "_POLYTOPES_PER_TILE", data.draw(st.sampled_from([1, 3, 8, 512])))
        masses, nearest = CodeIndex(pack_codes(b), weights, widths, n_anchors=n_anchors).query(
            pack_codes(a), exponents
        )
    similarity = hamming_similarity(a, b)
    assert masses.shape == (m, n_classes, len(exponents))
    for k, exponent in enumerate(exponents):
        # Subnormal masses count as 0.
        np.testing.assert_allclose(
            masses[:, :, k], similarity**exponent @ weights, rtol=ROUNDING, atol=1e-300
        )
    anchors = np.hstack([np.zeros((m, 1)), similarity[:, :n_anchors]])  # column 0: no polytope
    assert np.array_equal(nearest, anchors.argmax(axis=1) - 1)


def test_results_do_not_depend_on_threads_blocks_or_other_queries(monkeypatch):
    widths = [200, 63, 2]
    codes, queries = pack_codes(random_bits(1100, widths)), pack_codes(random_bits(301, widths, 1))
    weights = np.random.default_rng(0).random((1100, 3)) * (
        np.random.default_rng(1).random((1100, 3)) < 0.5
    )

    def masses(queries, n_jobs=1):
        return CodeIndex(codes, weights, widths, n_jobs=n_jobs).query(queries, EXPONENTS)

    expected, expected_nearest = masses(queries)
    for block, n_jobs in itertools.product((1, 7, 128, 1000), (1, 2)):
        monkeypatch.setattr(code_index, "_QUERY_BLOCK", block)
        result, nearest = masses(queries, n_jobs)
        assert np.array_equal(result, expected) and np.array_equal(nearest, expected_nearest)
    order = np.random.default_rng(2).permutation(301)
    assert np.array_equal(masses(queries[order], 2)[0], expected[order])
    for row in (0, 1, 300):
        assert np.array_equal(masses(queries[[row]])[0][0], expected[row])


def test_each_exponent_is_independent_of_the_others():
    widths = [100, 2]
    index = CodeIndex(pack_codes(random_bits(600, widths)), np.eye(3)[np.arange(600) % 3], widths)
    queries = pack_codes(random_bits(9, widths, 1))
    masses, nearest = index.query(queries, EXPONENTS)
    for k, exponent in enumerate(EXPONENTS):
        assert np.array_equal(
            index.query(queries, np.array([exponent]))[0][:, :, 0], masses[:, :, k]
        )
    no_masses, expected_by_rows = index.query(queries, np.empty(0))
    assert no_masses.shape == (9, 3, 0) and np.array_equal(expected_by_rows, nearest)
    masses, nearest = index.query(queries[:0], EXPONENTS)
    assert masses.shape == (0, 3, len(EXPONENTS)) and nearest.shape == (0,)


def test_ties_of_polytopes_go_to_the_lowest_across_classes_and_tiles(monkeypatch):
    monkeypatch.setattr(code_index, "_POLYTOPES_PER_TILE", 2)
    # The class weights below reverse the order of the polytopes by class.
    codes = np.array([[0b1100], [0b0001], [0b0010], [0b0100], [0b1000]], dtype=np.uint64)
    index = CodeIndex(codes, np.eye(5)[::-1], [4])
    assert index.query(
        np.array([[0b0000], [0b0011], [0b1111], [0b1001]], dtype=np.uint64), np.array([1.0])
    )[1].tolist() == [1, 1, 0, 1]


def test_only_anchors_are_nearest_but_all_polytopes_add_mass():
    codes = np.array([[0b00], [0b01], [0b11]], dtype=np.uint64)
    masses, nearest = CodeIndex(codes, np.eye(3), [2], n_anchors=2).query(codes, np.array([1.0]))
    assert nearest.tolist() == [0, 1, 1]
    assert np.array_equal(masses[:, :, 0], [[1, 0.5, 0], [0.5, 1, 0.5], [0, 0.5, 1]])


def test_zero_similarity_gives_no_mass_and_no_neighbour():
    codes = np.array([[0b01, 0b10], [0b11, 0b10]], dtype=np.uint64)
    masses, nearest = CodeIndex(codes, np.array([[1.0], [3.0]]), [2, 2]).query(
        np.array([[0b01, 0b01], [0b10, 0b10]], dtype=np.uint64), np.array([0.0, 1e-6, 1.0])
    )
    assert nearest.tolist() == [-1, 1]
    assert np.array_equal(masses[0], [[4, 0, 0]])  # 0 to the power of 0 is 1
    np.testing.assert_allclose(masses[1], [[4, 3 * 0.5**1e-6, 1.5]], rtol=ROUNDING)


def test_rows_argument_selects_the_representatives():
    widths = [70, 3]
    codes, rows = pack_codes(random_bits(50, widths)), np.array([3, 4, 9, 31, 40])
    weights, queries = (
        np.random.default_rng(0).random((5, 2)),
        pack_codes(random_bits(6, widths, 1)),
    )
    by_rows = CodeIndex(codes, weights, widths, rows=rows).query(queries, EXPONENTS)
    expected_by_rows = CodeIndex(codes[rows], weights, widths).query(queries, EXPONENTS)
    assert np.array_equal(by_rows[0], expected_by_rows[0]) and np.array_equal(
        by_rows[1], expected_by_rows[1]
    )


@pytest.mark.parametrize("exponent", [-0.5, np.inf, np.nan])
def test_negative_and_infinite_exponents_raise(exponent):
    index = CodeIndex(np.zeros((1, 1), dtype=np.uint64), np.ones((1, 1)), [1])
    message = (
        f"exponents contain {exponent}; each must be finite and >= 0: a weight K^exponent must not grow"
        " with distance"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        index.query(np.zeros((1, 1), dtype=np.uint64), np.array([1.0, exponent]))


def test_no_array_of_all_pairs_is_allocated():
    codes, weights = pack_codes(random_bits(4000, [64])), np.ones((4000, 1))
    # The first call of a process compiles the loops, or loads them, which takes 25 MB.
    CodeIndex(codes[:2], weights[:2], [64]).query(codes[:2], np.array([1.0]))
    tracemalloc.start()
    CodeIndex(codes, weights, [64]).query(codes, np.array([1.0]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2e6  # all pairs would take 16e6 at one byte each
