"""Calibration by group, against metrics of the rows of each group and loops."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.errors import DataError, ParameterError
from kdgraph.metrics import (
    Groups,
    TopLabel,
    by_group,
    ece,
    group_ece,
    group_mce,
    mce,
    score,
    tabulate,
)

RNG = np.random.default_rng(0)
PROBA, Y, GROUP = (
    RNG.dirichlet(np.ones(3), size=300),
    RNG.integers(3, size=300),
    RNG.integers(4, size=300),
)


@pytest.mark.parametrize("strategy", ["uniform", "mass"])
@pytest.mark.parametrize(("of_groups", "of_rows"), [(group_ece, ece), (group_mce, mce)])
def test_group_errors_are_those_of_the_rows_of_each_group(of_groups, of_rows, strategy):
    options = {"bins": 5, "strategy": strategy}
    errors = np.array(
        [
            of_rows(Y[rows], PROBA[rows], **options)
            for rows in (np.flatnonzero(g == GROUP) for g in range(4))
        ]
    )
    rows = np.bincount(GROUP)
    assert of_groups(Y, PROBA, GROUP, **options) == pytest.approx(errors.max(), rel=1e-12)
    assert of_groups(Y, PROBA, GROUP, **options, reduce="mean") == pytest.approx(
        errors.mean(), rel=1e-12
    )
    assert of_groups(Y, PROBA, GROUP, **options, reduce="rows") == pytest.approx(
        errors @ rows / 300, rel=1e-12
    )


def group_gaps_by_loop(y, top_label, group, bins, min_count):
    """Return (gap, rows) of the bins with ``min_count`` rows by group."""
    cells: dict[int, list[int]] = {}
    for i, (c, g) in enumerate(zip(top_label.confidence, group, strict=True)):
        b = next(b for b in range(bins) if c <= (b + 1) / bins)
        cells.setdefault((g, b), []).append(i)
    gaps: dict[int, list[tuple[float, int]]] = {}
    for (g, _), rows in sorted(cells.items()):
        if len(rows) >= min_count:
            gap = abs(
                sum(top_label.confidence[i] - (top_label.predicted[i] == y[i]) for i in rows)
                / len(rows)
            )
            gaps.setdefault(g, []).append((gap, len(rows)))
    return gaps


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.booleans(), st.integers(0, 3)), min_size=1, max_size=40
    ),
    st.integers(1, 6),
    st.integers(1, 4),
)
def test_group_errors_match_loops_over_rows(rows, bins, min_count):
    top_label = TopLabel(np.zeros(len(rows), dtype=int), np.array([c / 20 for c, _, _ in rows]), 2)
    y, group = np.array([int(wrong) for _, wrong, _ in rows]), np.array([g for _, _, g in rows])
    cells = group_gaps_by_loop(y, top_label, group, bins, min_count)
    options = {"bins": bins, "min_count": min_count}
    if not cells:
        assert (
            np.isnan(group_mce(y, top_label, group, **options))
            and score("group_mce", {"y": y, "top_label": top_label, "groups": group}, options).value
            is None
        )
        return
    largest_gaps = [max(gap for gap, _ in gaps) for gaps in cells.values()]
    mean_gaps = [
        sum(gap * n for gap, n in gaps) / sum(n for _, n in gaps) for gaps in cells.values()
    ]
    assert group_mce(y, top_label, group, **options) == pytest.approx(max(largest_gaps), abs=1e-12)
    assert group_mce(y, top_label, group, **options, reduce="mean") == pytest.approx(
        np.mean(largest_gaps), abs=1e-12
    )
    assert group_ece(y, top_label, group, **options) == pytest.approx(max(mean_gaps), abs=1e-12)


def test_single_group_gives_the_error_of_all_rows():
    group = np.zeros(300, dtype=int)
    assert group_mce(Y, PROBA, group) == mce(Y, PROBA) and group_ece(
        Y, PROBA, group
    ) == pytest.approx(ece(Y, PROBA), rel=1e-12)


def test_opposite_errors_do_not_cancel():
    top_label = TopLabel(np.zeros(200, dtype=int), np.full(200, 0.5), 2)
    y, group = np.repeat([0, 1], 100), np.repeat(["right", "wrong"], 100)
    assert (
        ece(y, top_label) == 0
        and group_ece(y, top_label, group) == group_mce(y, top_label, group) == 0.5
    )


def test_table_names_groups_and_bins():
    top_label = TopLabel(np.zeros(7, dtype=int), np.array([0.9, 0.9, 0.9, 0.3, 0.9, 0.9, 0.3]), 2)
    y = np.array([0, 0, 0, 0, 1, 0, 0])
    groups = Groups(np.array([2, 2, 2, 2, 0, 0, 0]), ("north", "empty", "south"))
    rows = tabulate("by_group", {"y": y, "top_label": top_label, "groups": groups}, {"bins": 2})
    assert [row["group"] for row in rows] == ["north", "empty", "south"]
    assert [row["rows"] for row in rows] == [3, 0, 4]
    north, empty, south = rows
    assert north["error"] == pytest.approx(1 / 3) and north["confidence"] == pytest.approx(0.7)
    assert (north["worst_from"], north["worst_to"], north["worst_rows"]) == (0, 0.5, 1) and north[
        "mce"
    ] == pytest.approx(0.7)
    assert north["ece"] == pytest.approx((2 * 0.4 + 0.7) / 3)
    assert (south["worst_from"], south["worst_rows"]) == (0, 1)
    assert all(
        np.isnan(empty[name])
        for name in ("error", "confidence", "ece", "mce", "worst_from", "worst_to", "worst_rows")
    )
    north, _, south = tabulate(
        "by_group", {"y": y, "top_label": top_label, "groups": groups}, {"bins": 2, "min_count": 3}
    )
    assert (
        np.isnan(north["mce"]) and south["worst_rows"] == 3 and south["mce"] == pytest.approx(0.1)
    )


@given(st.permutations(range(12)))
def test_group_errors_ignore_order_of_rows_and_group_numbers(order):
    y, proba, group = Y[:12], PROBA[:12], GROUP[:12]
    renumbered = np.array([7, 0, 3, 5])[group][order]
    assert group_mce(y[order], proba[order], renumbered) == pytest.approx(
        group_mce(y, proba, group), rel=1e-12
    )
    assert group_ece(y[order], proba[order], renumbered, reduce="mean") == pytest.approx(
        group_ece(y, proba, group, reduce="mean"), rel=1e-12
    )


def test_group_names_are_the_sorted_values():
    assert by_group(Y, PROBA, np.array(["b", "a", "c"])[GROUP % 3])["group"].tolist() == [
        "a",
        "b",
        "c",
    ]
    assert by_group(Y, PROBA, 3 * 10**9 * GROUP)["group"].tolist() == [
        "0",
        "3000000000",
        "6000000000",
        "9000000000",
    ]
    assert by_group(Y, PROBA, GROUP > 1)["group"].tolist() == ["False", "True"]
    assert group_mce(Y, PROBA, GROUP > 1) == group_mce(Y, PROBA, (GROUP > 1).astype(int))


RULE = "groups must be one whole number or one text for each row, and at least one, got"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: group_mce([0], [[1.0]], [0.5]), ValueError, f"{RULE} float64 of shape (1,)"),
        (lambda: group_mce([0], [[1.0]], [None]), ValueError, f"{RULE} object of shape (1,)"),
        (lambda: group_mce([0], [[1.0]], [[0]]), ValueError, f"{RULE} int64 of shape (1, 1)"),
        (
            lambda: group_mce([0], [[1.0]], [0, 1]),
            ValueError,
            "groups must have shape (1,) to fit proba, got (2,)",
        ),
        (
            lambda: group_mce([0, 0], [[1.0], [1.0]], Groups(np.array([0, -1]), ("a", "b"))),
            DataError,
            (
                "groups must be positions in 2 names, from 0 to 1, got -1 in row 1 (1 such); leave"
                " out rows of no group"
            ),
        ),
        (
            lambda: group_mce([0, 0], [[1.0], [1.0]], Groups(np.array([2, 1]), ("a", "b"))),
            DataError,
            (
                "groups must be positions in 2 names, from 0 to 1, got 2 in row 0 (1 such); leave"
                " out rows of no group"
            ),
        ),
        (
            lambda: group_mce([0], [[1.0]], [0], reduce="min"),
            ParameterError,
            "reduce must be one of max, mean, rows, got 'min'",
        ),
    ],
)
def test_invalid_groups_are_refused(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert str(raised.value) == message
