from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.data import Dataset, make_splits
from kdgraph.data.dataset import TEST, TRAIN
from kdgraph.data.division import Fold, class_quotas, grouped_split, stratified_split
from kdgraph.data.simulations import Spiral
from kdgraph.data.sizes import SplitSizes
from kdgraph.data.splits import split_indices
from kdgraph.errors import DataError


@settings(max_examples=100, deadline=None)
@given(
    groups=st.lists(st.integers(0, 12), min_size=3, max_size=80).filter(
        lambda values: len(set(values)) >= 3
    ),
    fractions=st.tuples(st.floats(0.05, 0.9), st.floats(0.05, 0.9), st.floats(0.05, 0.9)),
    seed=st.integers(0, 99),
)
def test_grouped_parts_are_disjoint_nonempty_and_small_enough(groups, fractions, seed):
    groups = np.array(groups)
    sizes = [max(1, int(fraction * len(groups))) for fraction in fractions]
    parts = grouped_split(
        "toy", np.zeros(len(groups), dtype=int), groups, sizes, np.random.default_rng(seed)
    )
    groups_by_part = [set(groups[part].tolist()) for part in parts]
    assert all(1 <= len(part) <= size for part, size in zip(parts, sizes, strict=True))
    assert not (
        groups_by_part[0] & groups_by_part[1]
        or groups_by_part[0] & groups_by_part[2]
        or groups_by_part[1] & groups_by_part[2]
    )
    assert len(np.unique(np.concatenate(parts))) == sum(map(len, parts))


def test_grouped_parts_have_their_size_if_rows_suffice():
    groups = np.repeat(np.arange(50), 4)
    parts = grouped_split("toy", np.arange(200) % 2, groups, [60, 42, 98], np.random.default_rng(0))
    assert [len(part) for part in parts] == [
        60,
        42,
        96,
    ]  # 60 and 44 rows are whole groups: 96 are left
    assert abs(np.bincount(np.arange(200)[parts[0]] % 2) - 30).max() <= 1


def test_grouped_parts_contain_classes_of_few_large_groups():
    """Check 8 of 40 groups in the second class, for which one random order would not suffice.

    With one order, a part lacks the class in a sixth of all draws.
    """
    groups = np.repeat(np.arange(40), 10)
    y = (groups < 8).astype(int)
    for seed in range(30):
        parts = grouped_split("toy", y, groups, [120, 84, 196], np.random.default_rng(seed))
        assert all(0.1 <= y[part].mean() <= 0.3 for part in parts)


@settings(max_examples=100, deadline=None)
@given(
    data=st.data(), y=st.lists(st.integers(0, 4), min_size=1, max_size=60), seed=st.integers(0, 99)
)
def test_stratified_parts_are_disjoint_with_proportional_classes(data, y, seed):
    y = np.array(y)
    first = data.draw(st.integers(0, len(y)))
    second = data.draw(st.integers(0, len(y) - first))
    parts = stratified_split(y, [first, second], np.random.default_rng(seed))
    assert [len(part) for part in parts] == [first, second]
    assert len(np.unique(np.concatenate(parts))) == first + second
    for c in np.unique(y):
        assert abs((y[parts[0]] == c).sum() - first * np.mean(y == c)) < 1


def test_part_does_not_depend_on_later_sizes():
    y = np.random.default_rng(0).integers(3, size=50)
    a = stratified_split(y, [10, 5, 5], np.random.default_rng(1))
    b = stratified_split(y, [10, 20, 1], np.random.default_rng(1))
    np.testing.assert_array_equal(a[0], b[0])


def test_every_row_can_be_drawn():
    drawn_rows = {
        row
        for seed in range(200)
        for row in stratified_split(np.array([0] * 8 + [1] * 2), [5], np.random.default_rng(seed))[
            0
        ].tolist()
    }
    assert drawn_rows == set(range(10))


def test_class_quotas_break_ties_at_random():
    quotas = {
        tuple(class_quotas(np.array([5, 5]), 3, np.random.default_rng(seed)).tolist())
        for seed in range(20)
    }
    assert quotas == {(1, 2), (2, 1)}


@settings(max_examples=60, deadline=None)
@given(
    y=st.lists(st.integers(0, 2), min_size=8, max_size=60),
    n=st.integers(2, 5),
    by_group=st.booleans(),
    seed=st.integers(0, 99),
)
def test_each_row_is_in_the_test_of_one_fold(y, n, by_group, seed):
    y = np.array(y)
    groups = np.arange(len(y)) // 2 if by_group else None
    if by_group and len(np.unique(groups)) < n:
        with pytest.raises(DataError, match="groups, too few for"):
            Fold(n, 0, seed).test_rows("toy", y, groups)
        return
    if by_group and np.bincount(y).max() < n:
        with pytest.raises(DataError, match="toy has fewer rows of each class than"):
            Fold(n, 0, seed).test_rows("toy", y, groups)
        return
    tests = [Fold(n, index, seed).test_rows("toy", y, groups) for index in range(n)]
    assert np.sort(np.concatenate(tests)).tolist() == list(range(len(y)))
    if groups is not None:
        assert sum(len(np.unique(groups[test])) for test in tests) == len(np.unique(groups))


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("groups", [None, np.arange(90) // 3])
def test_the_rows_outside_of_the_fold_are_divided_as_ever(trains, groups):
    y = np.arange(90) % 3
    table = Dataset("toy", np.arange(90.0)[:, None], y, np.arange(3), ("x",), split_groups=groups)
    parts = split_indices(
        table, SplitSizes(), "auto", np.random.default_rng(0), trains=trains, fold=Fold(5, 1, 7)
    )
    assert [len(part) for part in parts] == ([51, 21, 18] if trains else [0, 72, 18])
    assert len(np.unique(np.concatenate(parts))) == 90
    if groups is not None:
        assert sum(len(np.unique(groups[part])) for part in parts) == 30


def test_a_fold_may_test_a_sample_of_its_rows():
    y = np.arange(100) % 2
    table = Dataset("toy", np.arange(100.0)[:, None], y, np.arange(2), ("x",))
    sizes = SplitSizes(max_test=10)
    _, _, test = split_indices(table, sizes, "auto", np.random.default_rng(0), fold=Fold(4, 0, 7))
    assert len(test) == 10 and y[test].sum() == 5
    assert set(test) < set(Fold(4, 0, 7).test_rows("toy", y, None))


@pytest.mark.parametrize(
    ("sizes", "roles", "n", "message"),
    [
        ({"n_test": 3}, None, 2, "decides the number of test rows, and so does dataset.n_test=3;"),
        ({}, np.array([TRAIN, TEST] * 5), 2, "toy prescribes its test rows, and dataset.folds=2"),
        ({}, None, 11, "toy has 10 rows, too few for 11 folds; lower dataset.folds"),
    ],
)
def test_folds_are_refused_where_they_contradict(sizes, roles, n, message):
    table = Dataset(
        "toy", np.arange(10.0)[:, None], np.arange(10) % 2, np.arange(2), ("x",), roles=roles
    )
    with pytest.raises(DataError, match=message):
        split_indices(
            table, SplitSizes(**sizes), "auto", np.random.default_rng(0), fold=Fold(n, 0, 0)
        )


def test_folds_of_a_simulation_are_refused():
    with pytest.raises(DataError, match="spiral is a simulation, and only a table has rows to"):
        make_splits(Spiral(), fold=Fold(2, 0, 0), rng=np.random.default_rng(0))
