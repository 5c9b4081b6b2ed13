"""Theorems 4.1 to 4.4: what is measured against sums and pairs taken one by one, and the
verdicts.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from experiments.p3 import theorems
from experiments.p3.theorems import (
    SCALES,
    Scale,
    by_regions,
    by_shift,
    by_trees,
    claims,
    counter_example,
    expected_h,
    forest_on,
    grid_cells,
    mean_h,
)

SMALL = Scale(train=120, test=100, trees=5, draws=2, many_trees=400)


def test_the_mean_is_over_all_pairs_and_trees() -> None:
    X = np.random.default_rng(0).random((30, 2))
    forest = forest_on(X, 4, 0)
    assert all(tree.get_n_leaves() == len(X) for tree in forest.estimators_), "a row in each leaf"
    assert mean_h(forest, X + 0.1) == pytest.approx(
        pdist(forest.apply(X + 0.1), "hamming").mean(), abs=1e-12
    )


def test_the_grid_has_the_hamming_distance_of_the_theorems() -> None:
    """A grid of 50² cells, and shifts by 0 and 1/2: 1 - 1/K, and 1 - a^(2d) but for pairs in one
    cell; 2,000 rows.
    """
    rng = np.random.default_rng(0)
    X = rng.random((2000, 2))
    assert theorems.aphd(grid_cells(X, 50)).mean() == pytest.approx(1 - 1 / 2500, abs=1e-4)
    outside = ((X + 0.5) >= 0.98).all(
        axis=1
    )  # in the cell at the corner, which goes on to infinity
    assert theorems.aphd(grid_cells(X + 0.5, 50)).mean() == pytest.approx(
        1 - outside.mean() ** 2, abs=0.03
    )
    assert expected_h(0.5, 2) == pytest.approx(0.9375) and expected_h(
        np.array([0.0, 1.0]), 5
    ).tolist() == [1.0, 0.0]


def test_disjoint_hulls_are_separated_by_unshifted_features() -> None:
    """Theorem 4.1 as stated has 0 for each of these but the first."""
    result = counter_example(SMALL)
    assert list(result) == [0, 1, 5, 9, 10]
    assert result[10] == 0 and result[1] > 0.9 and result[5] > 0.4
    assert list(result.values()) == sorted(result.values(), reverse=True)


def test_shared_leaves_are_more_than_with_equal_regions() -> None:
    for name, (k, shared) in by_regions(SMALL, 2).items():
        ratio = shared.mean(axis=0) * k
        assert (
            (ratio > 0.7).all() and (ratio < 1.4).all() if name == "grid" else (ratio > 1.15).all()
        )


def test_one_dimension_follows_the_formula_and_five_do_not() -> None:
    a = np.array([0.25, 0.75])
    each, five = (by_shift(SMALL, d, a)["trees"].mean(axis=0) for d in (1, 5))
    np.testing.assert_allclose(
        each, expected_h(a, 1), atol=0.08
    )  # of 100 rows: 3 standard errors of the share beyond 1
    assert expected_h(0.75, 5) - five[1] > 0.3


def test_a_pair_has_a_mean_of_its_own() -> None:
    trees, away = by_trees(SMALL, 1)
    assert trees.tolist() == [1, 2, 5, 10, 20]
    assert away["pair"][0, -1] < 0.1, "the mean over trees settles"
    assert away["all"][0, -1] > 0.9, (
        "and not where the mean over pairs is: both rows are beyond 1 or they are not"
    )


@pytest.mark.slow
def test_verdicts_and_pictures_from_end_to_end(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setitem(SCALES, "smoke", SMALL)
    monkeypatch.setattr(theorems, "DIMENSIONS", (1, 5))
    monkeypatch.setattr(sys, "argv", ["theorems", "--figures", str(tmp_path)])
    theorems.main()
    printed = capsys.readouterr().out
    assert "FAIL: H is 0 where the convex hulls are disjoint (Theorem 4.1)" in printed
    assert "FAIL: E H = 1 − a^(2d) (Theorem 4.3), trees, d = 5" in printed
    assert {path.name for path in tmp_path.iterdir()} == {
        f"theorem{k}.{kind}" for k in (42, 43, 44) for kind in ("svg", "pdf")
    }


def test_a_theorem_that_holds_is_not_failed() -> None:
    a = np.array([0.0, 0.5])
    shifts = {d: {"trees": expected_h(a, d)[None]} for d in theorems.DIMENSIONS}
    regions = {d: {"trees": (np.array([4.0]), np.array([[0.25]]))} for d in theorems.DIMENSIONS}
    none = (np.array([1.0]), {"all": np.zeros((1, 1)), "pair": np.zeros((1, 1))})
    result = theorems.Found(
        {0: 1.0, 1: 0.0}, regions, shifts, dict.fromkeys(theorems.DIMENSIONS, none), a
    )
    assert all(claim.holds for claim in claims(result))
    often = (np.array([200.0]), {"all": np.ones((1, 1)), "pair": np.zeros((1, 1))})
    fails = [claim for claim in claims(replace(result, trees={1: often})) if not claim.holds]
    assert len(fails) == 1 and "the mean over pairs" in fails[0].text
