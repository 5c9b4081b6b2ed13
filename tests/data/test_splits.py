from __future__ import annotations

import pickle
import re
from dataclasses import replace

import numpy as np
import pytest

from kdgraph.data import Dataset, make_splits
from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN, UNUSED
from kdgraph.data.simulations import Circle, Polynomial, Shapes, Spiral, Trunk
from kdgraph.data.tables.scikit_learn import SklearnTable
from kdgraph.errors import DataError, ParameterError


class InMemory:
    """Table in memory."""

    name = "toy"

    def __init__(self, data: Dataset) -> None:
        self.data = data

    def load(self) -> Dataset:
        return self.data


def toy_table(labels, scale=1.0) -> InMemory:
    """Return a table in which row i has the feature i + 1, which identifies it."""
    return InMemory(
        Dataset.from_labels(
            "toy", scale * np.arange(1.0, len(labels) + 1)[:, None], np.array(labels)
        )
    )


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


@pytest.mark.parametrize("simulation", [Spiral(), Trunk(5)], ids=["spiral", "trunk"])
def test_size_of_a_role_does_not_change_other_roles(simulation):
    sizes = {"n_train": 50, "n_calibration": 40, "n_test": 30}
    splits = make_splits(simulation, **sizes, rng=rng())
    for changed_size in sizes:
        changed_splits = make_splits(simulation, **{**sizes, changed_size: 61}, rng=rng())
        for role in ("train", "calibration", "test"):
            is_equal = np.array_equal(getattr(splits, role).X, getattr(changed_splits, role).X)
            assert is_equal == (f"n_{role}" != changed_size)


def test_samples_differ_and_are_reproducible_by_seed():
    a, b, c = (
        make_splits(Spiral(), n_train=30, n_calibration=30, n_test=30, rng=rng(seed))
        for seed in (0, 0, 1)
    )
    assert a.fingerprint == b.fingerprint != c.fingerprint
    assert len({a.train.fingerprint, a.calibration.fingerprint, a.test.fingerprint}) == 3


def test_defaults_of_a_simulation():
    splits = make_splits(Polynomial(), rng=rng())
    assert [len(role.y) for role in (splits.train, splits.calibration, splits.test)] == [
        1000,
        430,
        1000,
    ]
    assert splits.train.name == "polynomial"
    np.testing.assert_allclose(splits.prior, [0.5, 0.5])


@pytest.mark.parametrize("scale", ["none", "min_max", "max_norm"])
def test_posterior_is_that_of_the_sample_in_scaled_features(scale):
    simulation = Spiral()
    splits = make_splits(simulation, n_train=100, n_test=40, scale=scale, rng=rng())
    raw = make_splits(simulation, n_train=100, n_test=40, rng=rng())
    np.testing.assert_allclose(
        splits.test.posterior(splits.test.X), simulation.posterior(raw.test.X, n=40), atol=1e-12
    )
    np.testing.assert_allclose(
        splits.train.posterior(splits.test.X), simulation.posterior(raw.test.X, n=100), atol=1e-12
    )
    np.testing.assert_allclose(splits.scaling.undo(splits.test.X), raw.test.X, atol=1e-14)


def test_splits_can_be_pickled():
    splits = make_splits(
        Circle(), n_train=20, n_calibration=20, n_test=20, scale="max_norm", rng=rng()
    )
    restored = pickle.loads(pickle.dumps(splits))
    assert restored.fingerprint == splits.fingerprint
    np.testing.assert_array_equal(
        restored.test.posterior(splits.test.X), splits.test.posterior(splits.test.X)
    )


def test_table_is_divided_into_disjoint_roles():
    splits = make_splits(toy_table([0, 1] * 50), rng=rng())
    roles = [set(role.X[:, 0].tolist()) for role in (splits.train, splits.calibration, splits.test)]
    assert [len(role) for role in roles] == [49, 21, 30]
    assert set.union(*roles) == set(range(1, 101))


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "wine", "iris"])
def test_roles_have_the_class_proportions_of_the_table(name):
    """Compare class counts of each role with the proportions of the table, within 2 rows.

    The last role takes the remaining rows; the others are within 1.
    """
    table = SklearnTable(name)
    proportions = np.bincount(table.load().y) / len(table.load().y)
    splits = make_splits(table, n_test=0.3, scale="max_norm", rng=rng())
    for role in (splits.train, splits.calibration, splits.test):
        assert np.abs(np.bincount(role.y) - proportions * len(role.y)).max() < 2
    assert np.linalg.norm(splits.train.X, axis=1).max() == pytest.approx(1)


def test_test_rows_do_not_depend_on_the_other_sizes():
    a = make_splits(toy_table([0, 1] * 50), n_test=20, rng=rng())
    b = make_splits(toy_table([0, 1] * 50), n_train=30, n_calibration=10, n_test=20, rng=rng())
    np.testing.assert_array_equal(a.test.X, b.test.X)


@pytest.mark.parametrize("scale", ["min_max", "max_norm"])
def test_scaling_depends_on_training_rows_only(scale):
    before = toy_table([0, 1] * 50)
    plain = make_splits(before, rng=rng())
    data = before.data
    changed = data.X.copy()
    changed[np.isin(data.X, np.concatenate([plain.test.X, plain.calibration.X]))] *= 1000
    after = InMemory(Dataset("toy", changed, data.y, data.classes, data.feature_names))
    a, b = (make_splits(source, scale=scale, rng=rng()) for source in (before, after))
    np.testing.assert_array_equal(a.train.X, b.train.X)
    assert np.abs(b.test.X).max() > 100 * np.abs(a.test.X).max()


def test_fingerprint_depends_on_data_scaling_and_seed():
    base = make_splits(toy_table([0, 1] * 50), rng=rng())
    changed_splits = [
        make_splits(toy_table([0, 1] * 50, scale=1 + 1e-12), rng=rng()),
        make_splits(toy_table([1, 0] * 50), rng=rng()),
        make_splits(toy_table(["a", "b"] * 50), rng=rng()),
        make_splits(toy_table([0, 1] * 50), scale="max_norm", rng=rng()),
        make_splits(toy_table([0, 1] * 50), rng=rng(1)),
    ]
    assert len({splits.fingerprint for splits in [base, *changed_splits]}) == 6
    assert make_splits(toy_table([0, 1] * 50), rng=rng()).fingerprint == base.fingerprint


def test_a_regression_table_is_divided_without_classes():
    y = np.linspace(0, 1, 50)
    data = Dataset("line", y[:, None], y, np.empty(0), ("x",), task="regression")
    splits = make_splits(InMemory(data), rng=rng())
    assert (
        sorted(np.concatenate([splits.train.y, splits.calibration.y, splits.test.y]).tolist())
        == y.tolist()
    )


@pytest.mark.parametrize(
    ("labels", "sizes", "message"),
    [
        (
            ["a"] * 40 + ["b"] * 3,
            {},
            (
                "toy: too few rows to calibrate, class 'b' has 1 of the 9 calibration rows and"
                " needs 2; raise dataset.n_calibration, or leave rare classes out"
                " (dataset.rare=drop)"
            ),
        ),
        (
            [0] * 40 + [1] * 8,
            {"n_train": 2, "n_calibration": 20},
            (
                "toy: class 1 has no row among 2 training rows, 2 among the test rows; ask for more"
                " training rows, some of this class, or leave rare classes out (dataset.rare=drop)"
            ),
        ),
        ([0, 1] * 5, {"n_test": 12}, "toy has 10 rows, too few for n_test 12; ask for fewer"),
    ],
)
def test_tables_that_cannot_be_split_are_refused(labels, sizes, message):
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        make_splits(toy_table(labels), **sizes, rng=rng())


def test_missing_class_of_a_simulation_is_refused():
    message = (
        r"^trunk: class [01] has no row among 1 training rows(, \d+ among the test rows)?; ask for"
        r" more training rows, some of this class, or leave rare classes out \(dataset.rare=drop\)$"
    )
    with pytest.raises(DataError, match=message):
        make_splits(Trunk(), n_train=1, n_calibration=50, rng=rng())


def test_objects_that_are_no_source_are_refused():
    message = (
        "dict is no source of data; a table needs name and load, a simulation name, classes,"
        " feature_names and sample"
    )
    with pytest.raises(DataError, match=f"^{message}$"):
        make_splits({}, rng=rng())


def test_unknown_scale_is_refused():
    with pytest.raises(
        ParameterError, match=r"^scale must be one of none, min_max, max_norm, got 'unit'$"
    ):
        make_splits(Spiral(), scale="unit", rng=rng())


def test_simulation_of_images_has_no_posterior():
    splits = make_splits(Shapes(size=60), n_train=10, n_calibration=8, n_test=6, rng=rng())
    assert splits.train.X.shape == (10, 3, 60, 60)
    assert splits.test.X.dtype == np.float32
    assert splits.train.posterior is splits.test.posterior is None
    assert splits.prior.tolist() == [0.5, 0.5]
    assert (
        splits.fingerprint
        == make_splits(
            Shapes(size=60), n_train=10, n_calibration=8, n_test=6, rng=rng()
        ).fingerprint
    )


def test_table_of_images_is_divided_like_vectors():
    X = np.broadcast_to(np.arange(40, dtype=np.float32)[:, None, None, None] / 40, (40, 1, 2, 2))
    splits = make_splits(
        InMemory(Dataset.from_labels("toy", X, np.arange(40) % 2)), n_test=0.25, rng=rng()
    )
    roles = (splits.train, splits.calibration, splits.test)
    assert (
        sorted(np.concatenate([role.X[:, 0, 0, 0] for role in roles]).tolist())
        == X[:, 0, 0, 0].tolist()
    )
    assert {role.X.dtype for role in roles} == {np.dtype(np.float32)}


def row_numbers(role: Dataset) -> set[int]:
    """Return the numbers of the rows of :func:`toy_table` in a role, from 1."""
    return set(role.X[:, 0].astype(int).tolist())


def test_prescribed_roles_are_used():
    data = toy_table([0, 1] * 50).data
    roles = np.full(100, TRAIN, dtype=np.int8)
    roles[60:90], roles[90:] = TEST, UNUSED
    splits = make_splits(InMemory(replace(data, roles=roles)), rng=rng())
    assert row_numbers(splits.test) == set(range(61, 91))
    assert row_numbers(splits.train) | row_numbers(splits.calibration) == set(range(1, 61))
    assert len(splits.train.y) == 42
    roles[:10] = CALIBRATION
    splits = make_splits(InMemory(replace(data, roles=roles)), n_test=10, rng=rng())
    assert row_numbers(splits.calibration) == set(range(1, 11))
    assert row_numbers(splits.train) == set(range(11, 61))
    assert len(splits.test.y) == 10 and row_numbers(splits.test) < set(range(61, 91))
    random_splits = make_splits(InMemory(replace(data, roles=roles)), split="random", rng=rng())
    assert random_splits.fingerprint != splits.fingerprint and len(random_splits.test.y) == 30


def test_only_stratified_splits_keep_class_fractions():
    """Without strata the class counts of a role are hypergeometric, so they vary over seeds."""
    table = toy_table([0, 1] * 100)
    n_zeros = {
        split: {
            int(np.sum(make_splits(table, split=split, n_test=60, rng=rng(seed)).test.y == 0))
            for seed in range(20)
        }
        for split in ("random", "unstratified")
    }
    assert n_zeros["random"] == {30}
    # A standard deviation of 3.2: no count of 20 is seven of them away, and not all are alike.
    assert len(n_zeros["unstratified"]) > 3 and n_zeros["unstratified"] <= set(range(8, 53))
    splits = make_splits(table, split="unstratified", rng=rng())
    roles = [row_numbers(role) for role in (splits.train, splits.calibration, splits.test)]
    assert sum(map(len, roles)) == len(set.union(*roles)) == 200


def test_groups_stay_together():
    data = replace(toy_table([0, 1] * 200).data, split_groups=np.arange(400) // 7)
    for split in ("auto", "group"):
        splits = make_splits(InMemory(data), split=split, rng=rng())
        groups = [
            set(role.split_groups.tolist())
            for role in (splits.train, splits.calibration, splits.test)
        ]
        assert not (groups[0] & groups[1] or groups[0] & groups[2] or groups[1] & groups[2])
        assert len(splits.test.y) == 120 and len(splits.calibration.y) == 84
    random_splits = make_splits(InMemory(data), split="random", rng=rng())
    assert set(random_splits.train.split_groups.tolist()) & set(
        random_splits.test.split_groups.tolist()
    )


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            None,
            (
                "toy has no groups to keep together; name their column (dataset.split_groups; "
                "of dataset=arrays an array split_groups), or give dataset.split=random"
            ),
        ),
        (
            np.arange(100) % 2,
            "toy has 2 groups, and each of 3 roles needs its own; give dataset.split=random",
        ),
    ],
)
def test_groups_that_cannot_be_kept_together_are_refused(groups, message):
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        make_splits(
            InMemory(replace(toy_table([0, 1] * 50).data, split_groups=groups)),
            split="group",
            rng=rng(),
        )


def test_rare_classes_may_be_dropped():
    source = toy_table(["a"] * 60 + ["b"] * 3 + ["c"] * 40 + ["d"])
    with pytest.warns(UserWarning, match=r"^toy: rare classes are left out, 4 rows: b, d$"):
        splits = make_splits(source, rare="drop", rng=rng())
    assert splits.train.classes.tolist() == ["a", "c"]
    for role in (splits.train, splits.calibration, splits.test):
        labels = role.classes[role.y]
        assert all(
            (label == "a") == (number <= 60)
            for label, number in zip(labels, role.X[:, 0], strict=True)
        )
    with pytest.raises(
        DataError,
        match=r"^toy: without the rare classes \['b'\] there are not two left; ask for more rows$",
    ):
        make_splits(toy_table(["a"] * 60 + ["b"] * 3), rare="drop", rng=rng())


def test_categories_and_missing_values_pass_through_the_scaling():
    X = np.column_stack(
        [np.arange(100.0), np.arange(100) % 3, np.where(np.arange(100) % 5, 50.0, np.nan)]
    )
    data = Dataset.from_labels(
        "toy", X, np.arange(100) % 2, categories=(None, ("a", "b", "c"), None)
    )
    for scale, largest in (("max_norm", 1.0), ("min_max", 1.0)):
        splits = make_splits(InMemory(data), scale=scale, rng=rng())
        train = splits.train.X
        assert set(train[:, 1]) == {0, 1, 2}
        assert splits.has_missing and np.isnan(train[:, 2]).sum() > 0
        row = (
            np.linalg.norm(np.nan_to_num(train[:, [0, 2]]), axis=1)
            if scale == "max_norm"
            else train[:, 0]
        )
        assert row.max() == pytest.approx(largest)
        np.testing.assert_allclose(splits.scaling.undo(splits.test.X)[:, 1], splits.test.X[:, 1])
