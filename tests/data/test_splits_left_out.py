"""Classes that no role has."""

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
    """A table for tests."""

    name = "toy"

    def __init__(self, labels: Any = LETTERS, **more) -> None:
        """Row i has feature i + 1, so that rows can be told apart."""
        self.data = Dataset.from_labels(
            "toy", np.arange(1.0, len(labels) + 1)[:, None], np.array(labels)
        )
        self.data = replace(self.data, **more)

    def load(self) -> Dataset:
        return self.data


def splits(left_out, source=None, seed: int = 0, **more) -> Any:
    return make_splits(
        source or InMemory(), left_out=left_out, rng=np.random.default_rng(seed), **more
    )


def test_no_role_has_a_row_of_a_class_that_is_left_out_and_every_row_is_somewhere():
    found = splits(["b", "d"])
    roles = (found.train, found.calibration, found.test)
    for role in roles:
        assert role.classes.tolist() == ["a", "c", "e"] and set(
            LETTERS[role.X[:, 0].astype(int) - 1]
        ) == set("ace")
        np.testing.assert_array_equal(role.classes[role.y], LETTERS[role.X[:, 0].astype(int) - 1])
    assert found.left_out.classes.tolist() == ["b", "d"]
    np.testing.assert_array_equal(
        found.left_out.classes[found.left_out.y], LETTERS[found.left_out.X[:, 0].astype(int) - 1]
    )
    everywhere = np.concatenate([each.X[:, 0] for each in (*roles, found.left_out)])
    np.testing.assert_array_equal(np.sort(everywhere), np.arange(1.0, 151))
    assert found.train.facts["left_out"] == found.test.facts["left_out"] == ["b", "d"]
    assert found.prior.shape == (3,)


def test_shares_are_of_what_remains():
    found = splits(["e"], n_test=0.3)
    assert [len(each.y) for each in (found.train, found.calibration, found.test)] == [49, 21, 30]
    few = splits(["e"], max_learn=60, max_test=10)
    assert [len(each.y) for each in (few.train, few.calibration, few.test)] == [42, 18, 10] and len(
        few.left_out.y
    ) == 50


def test_a_number_is_drawn_by_the_seed_and_the_rest_is_divided_as_if_the_classes_had_been_named():
    drawn = splits(2, seed=5)
    named = splits(drawn.left_out.classes.tolist(), seed=5)
    assert drawn.fingerprint == named.fingerprint
    assert len({tuple(splits(2, seed=seed).left_out.classes) for seed in range(8)}) > 2


def test_rows_that_are_left_out_are_part_of_the_fingerprint_and_scaled_with_the_rest():
    one = splits(["e"], scale="min_max")
    other = InMemory()
    other.data.X[LETTERS == "e"] += 100
    assert one.fingerprint != splits(["e"], other, scale="min_max").fingerprint
    assert one.train.fingerprint == splits(["e"], other, scale="min_max").train.fingerprint
    np.testing.assert_allclose(
        one.scaling.undo(one.left_out.X)[:, 0], np.arange(101.0, 151), rtol=1e-12
    )


def test_labels_may_be_numbers_or_their_text():
    digits = SklearnTable("digits")
    assert splits([3], digits).fingerprint == splits(["3"], digits).fingerprint
    assert splits([3], digits).left_out.classes.tolist() == [3]


def test_nothing_left_out_changes_nothing():
    assert splits(None).left_out is None and splits([]).left_out is None
    assert (
        splits(None).fingerprint
        == splits([]).fingerprint
        == make_splits(InMemory(), rng=np.random.default_rng(0)).fingerprint
    )


def test_roles_of_the_source_are_kept_and_its_unused_rows_are_nowhere():
    roles = np.tile(np.array([TRAIN, TRAIN, CALIBRATION, TEST, UNUSED], dtype=np.int8), 30)
    source = InMemory(roles=roles)
    found = splits(["b"], source)
    for role, dataset in (
        (TRAIN, found.train),
        (CALIBRATION, found.calibration),
        (TEST, found.test),
    ):
        expected = np.flatnonzero((roles == role) & (LETTERS != "b")) + 1
        np.testing.assert_array_equal(np.sort(dataset.X[:, 0]), expected)
    np.testing.assert_array_equal(
        found.left_out.X[:, 0], np.flatnonzero((roles != UNUSED) & (LETTERS == "b")) + 1
    )
    assert len(splits(["b"], source, split="random").left_out.y) == 30
    (drawn,) = LeftOutClasses().sets(found, np.random.default_rng(0))
    np.testing.assert_array_equal(
        np.sort(drawn.X[:, 0]), np.flatnonzero((roles == TEST) & (LETTERS == "b")) + 1
    )
    assert drawn.facts["rows"] == "6 at random of 6 test rows, class b"


def test_groups_stay_together():
    groups = np.arange(150) % 15
    found = splits(["e"], InMemory(split_groups=groups))
    seen = [
        set(each.split_groups.tolist()) for each in (found.train, found.calibration, found.test)
    ]
    assert not seen[0] & seen[1] and not seen[0] & seen[2] and not seen[1] & seen[2]
    assert set(found.left_out.split_groups.tolist()) == set(range(15))


def test_rare_classes_are_dropped_beside_it():
    with pytest.warns(UserWarning, match=r"^toy: rare classes are left out, 1 rows: z$"):
        found = splits(["b"], InMemory([*LETTERS, "z"]), rare="drop")
    assert found.train.classes.tolist() == [
        "a",
        "c",
        "d",
        "e",
    ] and found.left_out.classes.tolist() == ["b"]


def test_missing_values_among_them_are_known():
    source = InMemory()
    source.data.X[LETTERS == "b"] = np.nan
    assert splits(["b"], source).has_missing and not splits(["b"], source).train.has_missing
    assert not splits(["a"]).has_missing


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
def test_what_cannot_be_left_out(left_out, source, sentence):
    with pytest.raises(DataError, match=f"^{re.escape(sentence)}"):
        splits(left_out, source)


@pytest.mark.parametrize(
    ("wrong", "rule"), [(0, "in"), ("a", "an integer in"), (1.5, "an integer in")]
)
def test_what_is_no_choice_of_classes(wrong, rule):
    with pytest.raises(
        ParameterError, match=rf"^left_out must be {rule} \[1, inf\) or a list or null, got "
    ):
        splits(wrong)


def test_the_set_has_their_rows_and_says_which_classes():
    found = splits(["b", "d"])
    (drawn,) = LeftOutClasses(n=25).sets(found, np.random.default_rng(0))
    assert drawn.name == "left_out" and drawn.X.shape == (25, 1) and len(np.unique(drawn.X)) == 25
    assert set(LETTERS[drawn.X[:, 0].astype(int) - 1]) == {"b", "d"}
    assert drawn.facts == {"classes": ["b", "d"], "rows": "25 at random of 40 rows, class b, d"}
    many = splits(list(range(9)), InMemory(np.repeat(np.arange(20), 10)))
    assert (
        LeftOutClasses()
        .sets(many, np.random.default_rng(0))[0]
        .facts["rows"]
        .endswith(" 90 rows, class 0, 1, 2, 3, 4, 5, 6, 7, 8")
    )


def test_without_them_there_is_no_set():
    with pytest.raises(
        DataNotAvailable,
        match=r"^no class of toy is left out; name some, or give their number: dataset.left_out=…$",
    ):
        LeftOutClasses().sets(splits(None), np.random.default_rng(0))
