"""Tests of blocks of one size: reproducible bits, and rows independent up to rounding."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from threadpoolctl import threadpool_limits

from kdgraph.detection.base import _BLOCK_ROWS, apply_in_fixed_blocks
from tests.companions import assert_independent

RNG = np.random.default_rng(0)


@pytest.mark.parametrize(
    ("n", "block_rows"),
    [
        (1, 1),
        (5, 8),
        (_BLOCK_ROWS - 1, _BLOCK_ROWS),
        (_BLOCK_ROWS, _BLOCK_ROWS),
        (_BLOCK_ROWS + 1, _BLOCK_ROWS),
        (3 * _BLOCK_ROWS + 7, _BLOCK_ROWS),
    ],
)
def test_blocks_contain_all_rows_in_order(n, block_rows):
    X = RNG.normal(size=(n, 3))
    blocks = []
    np.testing.assert_array_equal(
        apply_in_fixed_blocks(X, lambda block: blocks.append(block) or block), X
    )
    assert {len(block) for block in blocks} == {block_rows}
    np.testing.assert_array_equal(
        apply_in_fixed_blocks(pd.DataFrame(X), lambda block: block[0].to_numpy()), X[:, 0]
    )


@pytest.mark.parametrize("m", [3, 64, 301])
def test_matrix_product_is_independent_of_other_rows(m):
    X, W = RNG.normal(size=(300, m)), RNG.normal(size=(m, m))

    def product(rows: np.ndarray) -> np.ndarray:
        return apply_in_fixed_blocks(rows, lambda block: block @ W)

    expected = product(X)
    assert_independent(product, X, RNG)
    # The sums have up to 301 terms, in another order.
    np.testing.assert_allclose(expected, X @ W, rtol=0, atol=1e-11)


@pytest.mark.parametrize("threads", [1, 2])
def test_number_of_blas_threads_changes_no_bit(threads):
    X, W = RNG.normal(size=(600, 301)), RNG.normal(size=(301, 301))
    expected = apply_in_fixed_blocks(X, lambda block: block @ W)
    with threadpool_limits(threads, user_api="blas"):
        np.testing.assert_array_equal(apply_in_fixed_blocks(X, lambda block: block @ W), expected)
