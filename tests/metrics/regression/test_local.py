"""Metrics by cells of rows and by groups, against loops over rows."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from kdgraph.distributions import Normal
from kdgraph.errors import DataError, ParameterError
from kdgraph.metrics import (
    METRICS,
    coverage,
    crps,
    group_coverage,
    local_coverage,
    local_pit,
    pit_histogram,
    pit_ks,
    score,
    worst_cell_gap,
    worst_group_gap,
)
from kdgraph.metrics.regression.local import cells_of, grid_cells, kmeans_cells

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, size=(600, 2))
Y = RNG.normal(size=600) * np.where(
    X[:, 0] > 0, 2.0, 0.5
)  # one width for both halves: too wide left, too narrow right
PREDICTED = Normal(np.zeros(600), np.full(600, 1.45))
HALF = np.where(X[:, 0] > 0, "right", "left")


def test_group_coverage_matches_metrics_of_each_group():
    result = group_coverage(Y, PREDICTED, HALF, level=0.9)
    assert result["cell"].tolist() == ["left", "right"]
    for i, name in enumerate(result["cell"]):
        rows = name == HALF
        assert result["n_eff"][i] == rows.sum()
        assert result["coverage"][i] == pytest.approx(
            coverage(Y[rows], PREDICTED[rows], level=0.9), abs=1e-12
        )
        assert result["gap"][i] == pytest.approx(result["coverage"][i] - 0.9, abs=1e-12)
        assert result["crps"][i] == pytest.approx(crps(Y[rows], PREDICTED[rows]), rel=1e-12)
        assert result["pit_ks"][i] == pytest.approx(pit_ks(Y[rows], PREDICTED[rows]), abs=1e-15)
        assert result["pit_mean"][i] == pytest.approx(PREDICTED.cdf(Y)[rows].mean(), rel=1e-12)
        assert result["high"][i] == binom.ppf(0.975, rows.sum(), 0.9) / rows.sum()
    assert result["coverage"][0] > result["high"][0] and result["coverage"][1] < result["low"][1]
    assert (
        abs(coverage(Y, PREDICTED, level=0.9) - 0.9) < np.abs(result["gap"]).min()
    )  # which the mean over all rows does not show
    assert worst_group_gap(Y, PREDICTED, HALF, level=0.9) == pytest.approx(
        np.abs(result["gap"]).max(), abs=1e-12
    )


@pytest.mark.parametrize("by", ["kmeans", "grid"])
def test_local_coverage_is_group_coverage_of_cells(by):
    groups = cells_of(X, 9, by, (0, 1))
    table, group_table = (
        local_coverage(Y, PREDICTED, X, cells=9, by=by),
        group_coverage(Y, PREDICTED, groups),
    )
    for column, values in table.items():
        np.testing.assert_array_equal(values, group_table[column])
    assert table["n_eff"].sum() == 600 and len(table["cell"]) == 9
    large = table["n_eff"] >= 60
    assert worst_cell_gap(Y, PREDICTED, X, cells=9, by=by, min_count=60) == pytest.approx(
        np.abs(table["gap"])[large].max(), abs=1e-12
    )


def test_local_pit_matches_histograms_of_cells():
    result = local_pit(Y, PREDICTED, X, bins=5, cells=4, by="grid")
    cells = grid_cells(X, 4, [0, 1])
    for (name, rows), i in zip(cells.rows(), range(0, 20, 5), strict=True):
        assert set(result["cell"][i : i + 5]) == {name} and set(result["n_eff"][i : i + 5]) == {
            len(rows)
        }
        np.testing.assert_array_equal(
            result["count"][i : i + 5], pit_histogram(Y[rows], PREDICTED[rows], bins=5)["count"]
        )


def test_grid_cells_are_cut_at_quantiles():
    result = grid_cells(X, 9, [1, 0])
    strip = [
        np.searchsorted(np.quantile(X[:, f], [1 / 3, 2 / 3]), X[:, f], side="right") for f in (1, 0)
    ]
    np.testing.assert_array_equal(result.position, 3 * strip[0] + strip[1])
    assert len(result.names) == 9 and result.names[0].startswith("x2 ")
    assert set(np.bincount(strip[0])) == {200}
    constant = grid_cells(np.zeros((5, 1)), 4, [0])
    assert constant.position.tolist() == [0] * 5 and len(constant.names) == 1


def test_kmeans_cells_match_separated_groups():
    """Three separated groups of rows are the cells, sorted by the first feature in any unit."""
    centres = np.array([[0.0, 0.0], [1.0, 5.0], [2.0, -5.0]])
    cell_of_row = RNG.integers(3, size=200)
    rows = centres[cell_of_row] + 0.01 * RNG.normal(size=(200, 2))
    for unit in (1.0, 1e6):
        np.testing.assert_array_equal(kmeans_cells(rows * [unit, 1.0], 3).position, cell_of_row)
    assert len(kmeans_cells(np.array([[0.0], [0.0], [1.0]]), 5).names) == 2


def test_calibrated_rows_are_inside_the_band():
    """At most 5 % of 400 cells are outside; the tolerance is 4 standard errors."""
    rng = np.random.default_rng(4)
    n = 40_000
    result = group_coverage(
        rng.normal(size=n), Normal(np.zeros(n), np.ones(n)), np.arange(n) % 400, level=0.8
    )
    outside = (result["coverage"] < result["low"]) | (result["coverage"] > result["high"])
    assert outside.mean() < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 400)


def test_metrics_by_name_and_invalid_options():
    inputs = {"y": Y, "distribution": PREDICTED, "X": X, "groups": HALF}
    assert score("worst_cell_gap", inputs, {"cells": 4}).value == worst_cell_gap(
        Y, PREDICTED, X, cells=4
    )
    assert score("worst_cell_gap", inputs, {"min_count": 601}).value is None
    assert all(METRICS[name].is_table for name in ("local_coverage", "local_pit", "group_coverage"))
    with pytest.raises(
        ParameterError,
        match=r"^features must be one or two different positions from 0 to 1, got \[0, 2\]$",
    ):
        local_coverage(Y, PREDICTED, X, by="grid", features=[0, 2])
    with pytest.raises(DataError, match=r"^rows with missing values lie in no cell; "):
        local_coverage(Y, PREDICTED, np.where(X > 0.9, np.nan, X))
    with pytest.raises(ParameterError, match=r"^cells must be in \[1, inf\), got 0$"):
        local_pit(Y, PREDICTED, X, cells=0)
