"""Blocks of one size: the same bits for any division of the rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from kdgraph.detection.blocks import ROWS, in_full_blocks

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n", [1, ROWS - 1, ROWS, ROWS + 1, 3 * ROWS + 7])
def test_all_rows_are_there_once_and_in_order(n):
    X = RNG.normal(size=(n, 3))
    seen = []
    np.testing.assert_array_equal(in_full_blocks(X, lambda block: seen.append(block) or block), X)
    assert {len(block) for block in seen} == {ROWS}
    np.testing.assert_array_equal(in_full_blocks(pd.DataFrame(X), lambda block: block[0].to_numpy()), X[:, 0])


@pytest.mark.parametrize("m", [3, 64, 301])
def test_a_matrix_product_has_the_same_bits_for_any_division(m):
    X, W = RNG.normal(size=(700, m)), RNG.normal(size=(m, m))

    def product(rows: np.ndarray) -> np.ndarray:
        return in_full_blocks(rows, lambda block: block @ W)

    together, order = product(X), RNG.permutation(700)
    np.testing.assert_array_equal(product(X[order]), together[order])
    np.testing.assert_array_equal(np.concatenate([product(X[i : i + 1]) for i in range(0, 700, 50)]), together[::50])
    np.testing.assert_array_equal(np.concatenate([product(X[:100]), product(X[100:])]), together)
    np.testing.assert_allclose(together, X @ W, rtol=0, atol=1e-11)  # sums of 301 terms, in another order
