"""Classes that no role contains."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kdgraph.data import Dataset, make_splits
from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN, UNUSED
from kdgraph.data.ood import LeftOutClasses
from kdgraph.data.simulations import Spiral
from kdgraph.data.tables.scikit_learn import SklearnTable
from kdgraph.errors import DataError, DataNotAvailable, ParameterError

LETTERS = np.repeat(list("abcde"), [40, 30, 20, 10, 50])


class InMemory:
    """Table in memory."""

    name = "toy"

    def __init__(self, labels: Any = LETTERS, **more) -> None:
        """Create a table in which row i has the feature i + 1, which identifies it."""
        self.data = Dataset.from_labels(
            "toy", np.arange(1.0, len(labels) + 1)[:, None], np.array(labels)
        )
        self.data = replace(self.data, **more)

    def load(self) -> Dataset:
        return self.data


def split_toy_table(left_out, source=None, seed: int = 0, **more) -> Any:
    return make_splits(
        source or InMemory(), left_out=left_out, rng=np.random.default_rng(seed), **more
    )


def test_left_out_classes_are_in_no_role_and_no_row_is_lost():
    splits = split_toy_table(["b", "d"])
    roles = (splits.train, splits.calibration, splits.test)
    for role in roles:
        assert role.classes.tolist() == ["a", "c", "e"] and set(
            LETTERS[role.X[:, 0].astype(int) - 1]
        ) == set("ace")
        np.testing.assert_array_equal(role.classes[role.y], LETTERS[role.X[:, 0].astype(int) - 1])
    assert splits.left_out.classes.tolist() == ["b", "d"]
    np.testing.assert_array_equal(
        splits.left_out.classes[splits.left_out.y], LETTERS[splits.left_out.X[:, 0].astype(int) - 1]
    )
    all_rows = np.concatenate([role.X[:, 0] for role in (*roles, splits.left_out)])
    np.testing.assert_array_equal(np.sort(all_rows), np.arange(1.0, 151))
    assert splits.train.facts["left_out"] == splits.test.facts["left_out"] == ["b", "d"]
    assert splits.prior.shape == (3,)


def test_fractions_refer_to_the_remaining_rows():
    splits = split_toy_table(["e"], n_test=0.3)
    assert [len(role.y) for role in (splits.train, splits.calibration, splits.test)] == [49, 21, 30]
    limited_splits = split_toy_table(["e"], max_learn=60, max_test=10)
    assert [
        len(role.y)
        for role in (limited_splits.train, limited_splits.calibration, limited_splits.test)
    ] == [42, 18, 10] and len(limited_splits.left_out.y) == 50


def test_random_left_out_classes_divide_rows_like_named_ones():
    random_splits = split_toy_table(2, seed=5)
    named_splits = split_toy_table(random_splits.left_out.classes.tolist(), seed=5)
    assert random_splits.fingerprint == named_splits.fingerprint
    assert len({tuple(split_toy_table(2, seed=seed).left_out.classes) for seed in range(8)}) > 2


def test_left_out_rows_are_fingerprinted_and_scaled():
    splits = split_toy_table(["e"], scale="min_max")
    changed_source = InMemory()
    changed_source.data.X[LETTERS == "e"] += 100
    assert splits.fingerprint != split_toy_table(["e"], changed_source, scale="min_max").fingerprint
    assert (
        splits.train.fingerprint
        == split_toy_table(["e"], changed_source, scale="min_max").train.fingerprint
    )
    np.testing.assert_allclose(
        splits.scaling.undo(splits.left_out.X)[:, 0], np.arange(101.0, 151), rtol=1e-12
    )


def test_left_out_labels_may_be_numbers_or_text():
    digits = SklearnTable("digits")
    assert split_toy_table([3], digits).fingerprint == split_toy_table(["3"], digits).fingerprint
    assert split_toy_table([3], digits).left_out.classes.tolist() == [3]


def test_empty_left_out_changes_nothing():
    assert split_toy_table(None).left_out is None and split_toy_table([]).left_out is None
    assert (
        split_toy_table(None).fingerprint
        == split_toy_table([]).fingerprint
        == make_splits(InMemory(), rng=np.random.default_rng(0)).fingerprint
    )


def test_left_out_rows_respect_prescribed_roles():
    roles = np.tile(np.array([TRAIN, TRAIN, CALIBRATION, TEST, UNUSED], dtype=np.int8), 30)
    source = InMemory(roles=roles)
    splits = split_toy_table(["b"], source)
    for role, dataset in (
        (TRAIN, splits.train),
        (CALIBRATION, splits.calibration),
        (TEST, splits.test),
    ):
        expected = np.flatnonzero((roles == role) & (LETTERS != "b")) + 1
        np.testing.assert_array_equal(np.sort(dataset.X[:, 0]), expected)
    np.testing.assert_array_equal(
        splits.left_out.X[:, 0], np.flatnonzero((roles != UNUSED) & (LETTERS == "b")) + 1
    )
    assert len(split_toy_table(["b"], source, split="random").left_out.y) == 30
    (ood_set,) = LeftOutClasses().sets(splits, np.random.default_rng(0))
    np.testing.assert_array_equal(
        np.sort(ood_set.X[:, 0]), np.flatnonzero((roles == TEST) & (LETTERS == "b")) + 1
    )
    assert ood_set.facts["rows"] == "6 at random of 6 test rows, class b"


def test_groups_stay_together_without_left_out_classes():
    groups = np.arange(150) % 15
    splits = split_toy_table(["e"], InMemory(split_groups=groups))
    groups_by_role = [
        set(role.split_groups.tolist()) for role in (splits.train, splits.calibration, splits.test)
    ]
    assert (
        not groups_by_role[0] & groups_by_role[1]
        and not groups_by_role[0] & groups_by_role[2]
        and not groups_by_role[1] & groups_by_role[2]
    )
    assert set(splits.left_out.split_groups.tolist()) == set(range(15))


def test_rare_classes_are_dropped_besides_left_out_ones():
    with pytest.warns(UserWarning, match=r"^toy: rare classes are left out, 1 rows: z$"):
        splits = split_toy_table(["b"], InMemory([*LETTERS, "z"]), rare="drop")
    assert splits.train.classes.tolist() == [
        "a",
        "c",
        "d",
        "e",
    ] and splits.left_out.classes.tolist() == ["b"]


def test_missing_values_of_left_out_rows_are_detected():
    source = InMemory()
    source.data.X[LETTERS == "b"] = np.nan
    assert (
        split_toy_table(["b"], source).has_missing
        and not split_toy_table(["b"], source).train.has_missing
    )
    assert not split_toy_table(["a"]).has_missing


@pytest.mark.parametrize(
    ("left_out", "source", "sentence"),
    [
        (["x"], None, "dataset.left_out: toy has no class 'x'; it has a, b, c, d, e"),
        (
            list("abcd"),
            None,
            (
                "toy has 5 classes, and without 4 of them 1 would remain, but a classifier needs 2;"
                " lower dataset.left_out"
            ),
        ),
        (9, None, "toy has 5 classes, and without 5 of them 0 would remain"),
        (
            1,
            Spiral(),
            (
                "spiral is a simulation, and only a table can leave out classes; give"
                " dataset.left_out=null"
            ),
        ),
        (
            1,
            SklearnTable("diabetes"),
            (
                "diabetes_progression has a target to regress on, and dataset.left_out leaves out"
                " classes; give"
            ),
        ),
        (
            1,
            InMemory(has_scores=True),
            "toy has the scores of a model that has seen every class; give dataset.left_out=null",
        ),
    ],
)
def test_left_out_classes_that_do_not_fit_are_refused(left_out, source, sentence):
    with pytest.raises(DataError, match=f"^{re.escape(sentence)}"):
        split_toy_table(left_out, source)


@pytest.mark.parametrize(
    ("left_out", "rule"), [(0, "in"), ("a", "an integer in"), (1.5, "an integer in")]
)
def test_invalid_left_out_is_refused(left_out, rule):
    with pytest.raises(
        ParameterError, match=rf"^left_out must be {rule} \[1, inf\) or a list or null, got "
    ):
        split_toy_table(left_out)


def test_left_out_set_has_rows_and_names_of_the_classes():
    splits = split_toy_table(["b", "d"])
    (ood_set,) = LeftOutClasses(n=25).sets(splits, np.random.default_rng(0))
    assert (
        ood_set.name == "left_out"
        and ood_set.X.shape == (25, 1)
        and len(np.unique(ood_set.X)) == 25
    )
    assert set(LETTERS[ood_set.X[:, 0].astype(int) - 1]) == {"b", "d"}
    assert ood_set.facts == {"classes": ["b", "d"], "rows": "25 at random of 40 rows, class b, d"}
    many_classes = split_toy_table(list(range(9)), InMemory(np.repeat(np.arange(20), 10)))
    assert (
        LeftOutClasses()
        .sets(many_classes, np.random.default_rng(0))[0]
        .facts["rows"]
        .endswith(" 90 rows, class 0, 1, 2, 3, 4, 5, 6, 7, 8")
    )


def test_left_out_set_needs_left_out_classes():
    with pytest.raises(
        DataNotAvailable,
        match=r"^no class of toy is left out; name some, or give their number: dataset.left_out=…$",
    ):
        LeftOutClasses().sets(split_toy_table(None), np.random.default_rng(0))
