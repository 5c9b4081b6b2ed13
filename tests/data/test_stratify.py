from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.data.stratify import quotas, stratified_parts


@settings(max_examples=100, deadline=None)
@given(data=st.data(), y=st.lists(st.integers(0, 4), min_size=1, max_size=60), seed=st.integers(0, 99))
def test_parts_are_disjoint_and_each_class_has_its_share(data, y, seed):
    y = np.array(y)
    first = data.draw(st.integers(0, len(y)))
    second = data.draw(st.integers(0, len(y) - first))
    parts = stratified_parts(y, [first, second], np.random.default_rng(seed))
    assert [len(part) for part in parts] == [first, second]
    assert len(np.unique(np.concatenate(parts))) == first + second
    for c in np.unique(y):
        assert abs((y[parts[0]] == c).sum() - first * np.mean(y == c)) < 1


def test_a_part_does_not_depend_on_those_after_it():
    y = np.random.default_rng(0).integers(3, size=50)
    a = stratified_parts(y, [10, 5, 5], np.random.default_rng(1))
    b = stratified_parts(y, [10, 20, 1], np.random.default_rng(1))
    np.testing.assert_array_equal(a[0], b[0])


def test_every_row_can_be_drawn():
    seen = {
        row for seed in range(200) for row in stratified_parts(np.array([0] * 8 + [1] * 2), [5], np.random.default_rng(seed))[0].tolist()
    }
    assert seen == set(range(10))


def test_chance_breaks_ties_between_classes():
    drawn = {tuple(quotas(np.array([5, 5]), 3, np.random.default_rng(seed)).tolist()) for seed in range(20)}
    assert drawn == {(1, 2), (2, 1)}
