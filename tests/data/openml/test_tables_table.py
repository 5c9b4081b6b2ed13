"""Tables of openml.org: kinds of columns, and folds that tasks prescribe."""

from __future__ import annotations

import numpy as np
import pytest

from kdgraph.config import compose
from kdgraph.config.components import build
from kdgraph.data.openml.tables import OpenmlTable
from kdgraph.data.splits import make_splits, split_options
from kdgraph.errors import DataError, DataNotAvailable, ParameterError
from tests.data.openml.server import (
    arff,
    description,
    mixed_table,
    numeric_table,
    write_cached_dataset,
)
from tests.openml_data import require_cached

pytestmark = pytest.mark.filterwarnings("ignore:.*rows have the features of another row")


@pytest.fixture
def cached_table(openml_cache):
    """Write data set 61 to the cache."""
    write_cached_dataset(openml_cache, 61, mixed_table())


def test_columns_become_features_of_their_declared_kind(cached_table):
    dataset = OpenmlTable(61).load()
    assert dataset.name == "openml-61"
    assert dataset.feature_names == ("length", "width", "colour", "month")
    assert dataset.categories == (None, None, ("blue", "red"), ("1", "2"))
    assert (
        dataset.classes.tolist() == ["no", "yes"]
        and dataset.y.tolist() == (mixed_table()["class"] == "yes").astype(int).tolist()
    )
    np.testing.assert_array_equal(dataset.X[:, 1], mixed_table()["width"])
    np.testing.assert_array_equal(dataset.X[:, 2], mixed_table()["colour"] == "red")
    np.testing.assert_array_equal(dataset.X[:, 3], mixed_table()["month"] - 1)


def test_facts_describe_the_origin_of_the_rows(openml_cache):
    write_cached_dataset(
        openml_cache,
        61,
        mixed_table(),
        description="About flowers\nSUBSET of the original: 40 of 90 rows\n",
        md5_checksum="0" * 32,
    )
    facts = OpenmlTable(61).load().facts
    assert facts == {
        "source": "openml",
        "id": 61,
        "version": 2,
        "name": "made-up-61",
        "loader": "parquet",
        "subset": "SUBSET of the original: 40 of 90 rows",
    }


def test_both_kinds_of_files_give_the_same_rows(openml_cache):
    """Check that categories are sorted by value: ARFF has red before blue, Parquet any order."""
    folder = write_cached_dataset(openml_cache, 61, mixed_table(), md5_checksum="0" * 32)
    from_parquet = OpenmlTable(61).load()
    (folder / "dataset_61.pq").unlink()
    (folder / "dataset.arff").write_text(arff(mixed_table()))
    from_arff = OpenmlTable(61).load()
    assert from_arff.fingerprint == from_parquet.fingerprint
    assert from_arff.categories == from_parquet.categories
    assert (from_arff.facts["loader"], from_arff.facts["md5"]) == ("arff", "0" * 32)


def test_kinds_are_inferred_without_the_list_of_features(cached_table, openml_cache):
    next(openml_cache.rglob("features.xml")).unlink()
    dataset = OpenmlTable(61).load()
    assert dataset.categories == (None, None, ("blue", "red"), None)


def test_ignored_columns_are_dropped_unless_requested(openml_cache):
    write_cached_dataset(openml_cache, 61, mixed_table(), ignore_attribute="colour,month")
    assert OpenmlTable(61).load().feature_names == ("length", "width")
    assert OpenmlTable(61, categorical=["month"]).load().feature_names == (
        "length",
        "width",
        "month",
    )
    assert OpenmlTable(61, drop=["colour"]).load().feature_names == ("length", "width")
    assert OpenmlTable(61, split_groups="row").load().split_groups.tolist() == list(range(40))


def test_ignored_columns_may_be_groups_without_being_features(openml_cache):
    write_cached_dataset(openml_cache, 61, mixed_table(), ignore_attribute="colour,month")
    by_colour = OpenmlTable(61, group="colour").load()
    assert by_colour.group_names == ("blue", "red") and by_colour.feature_names == (
        "length",
        "width",
    )
    assert OpenmlTable(61, group="colour", drop=["colour", "width"]).load().feature_names == (
        "length",
    )
    by_largest_column = OpenmlTable(61, group=["length", "month"]).load()
    expected = np.where(mixed_table()["length"] >= mixed_table()["month"], "length", "month")
    assert (
        np.array(by_largest_column.group_names)[by_largest_column.groups].tolist()
        == expected.tolist()
    )


def test_target_and_task_may_be_chosen(cached_table):
    dataset = OpenmlTable(61, target="length", drop=["class"], name="lengths").load()
    assert (dataset.name, dataset.task) == ("lengths", "regression")
    np.testing.assert_array_equal(dataset.y, mixed_table()["length"])


@pytest.mark.parametrize(
    ("target", "problem"),
    [("", "names no target"), ("colour,class", "names several targets")],
)
def test_data_set_without_a_single_target_needs_a_choice(openml_cache, target, problem):
    write_cached_dataset(openml_cache, 61, mixed_table(), default_target_attribute=target)
    with pytest.raises(DataError) as caught:
        OpenmlTable(61).load()
    assert (
        str(caught.value)
        == f"openml-61: OpenML {problem} for data set 61; choose a column: dataset.target=… (row,"
        " length, width, colour, month, …)"
    )
    assert OpenmlTable(61, target="class").load().classes.tolist() == ["no", "yes"]


def test_prefetch_checks_require_numeric(cached_table, openml_cache):
    with pytest.raises(
        DataNotAvailable, match=r"openml-61 has 2 categorical columns \(colour, month\)"
    ):
        OpenmlTable(61, require="numeric").prefetch()
    write_cached_dataset(openml_cache, 62, numeric_table())
    OpenmlTable(62, require="numeric").prefetch()


def test_cached_data_set_needs_no_network(cached_table, no_network):
    OpenmlTable(61).prefetch()
    assert OpenmlTable(61).load().X.shape == (40, 4)


def test_reading_writes_nothing_to_the_cache(cached_table, openml_cache):
    """Check that no pickles appear, which the reader of openml-python would write."""
    before = sorted(openml_cache.rglob("*"))
    OpenmlTable(61).prefetch()
    OpenmlTable(61).load()
    assert sorted(openml_cache.rglob("*")) == before


@pytest.mark.parametrize("name", ["dataset_61.pq", "description.xml", "features.xml"])
def test_damaged_file_is_reported_with_the_way_out(cached_table, openml_cache, name):
    file = next(openml_cache.rglob(name))
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(DataError) as caught:
        OpenmlTable(61).load()
    message = str(caught.value)
    assert not isinstance(caught.value, DataNotAvailable) and "\n" not in message
    assert message.startswith(f"{file} is damaged (") and message.endswith(
        f"); delete {file.parent} and fetch it again with 'kdg data get 61'"
    )


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"id": 0}, "id must be in [1, inf), got 0"),
        ({"id": "spambase"}, "id must be an integer in [1, inf), got 'spambase'"),
        ({"id": 61, "fold": -1, "task_id": 59}, "fold must be in [0, inf) or null, got -1"),
        ({"id": 61, "require": "numbers"}, "require must be one of any, numeric, got 'numbers'"),
        (
            {"id": 61, "fold": 1},
            (
                "openml-61: task_id and fold belong together, got task_id None and fold 1; give"
                " both or neither"
            ),
        ),
    ],
)
def test_parameters_out_of_range(parameters, sentence):
    with pytest.raises((ParameterError, DataError)) as caught:
        OpenmlTable(**parameters)
    assert str(caught.value) == sentence


def test_description_without_version_is_damaged(openml_cache):
    folder = write_cached_dataset(openml_cache, 61, mixed_table())
    (folder / "description.xml").write_text(
        description(61, "x").replace("oml:version", "oml:edition")
    )
    with pytest.raises(DataError, match="no name or no version"):
        OpenmlTable(61).load()


REAL = [(44, 57, 2, 0), (31, 20, 2, 13), (40975, 6, 4, 6), (6, 16, 26, 0)]
"""Number, features, classes, categorical features, as listed on openml.org."""


@pytest.mark.parametrize(("id", "features", "classes", "categorical"), REAL)
def test_real_openml_tables_agree_with_their_description(
    id, features, classes, categorical, no_network
):
    require_cached(id)
    dataset = OpenmlTable(id).load()
    assert dataset.X.shape[1] == features and len(dataset.classes) == classes
    assert dataset.is_categorical.sum() == categorical


def test_communities_and_crime_have_the_groups_of_luo_et_al():
    """Check target and groups of Luo et al. (2022), Section 5.3: crime rate, plurality race.

    The table has no column for the group "Indian" of the paper.
    """
    require_cached(42730)
    node = compose(["dataset=crime"]).dataset
    data = build(node).load()
    assert (
        data.X.shape == (1994, 122)
        and data.classes.tolist() == ["<= 0.15", "> 0.15"]
        and data.facts["threshold"] == 0.15
    )
    assert np.bincount(data.y).tolist() == [1001, 993]  # some rows are at the median itself
    assert data.groups is not None
    group_sizes = dict(zip(data.group_names, np.bincount(data.groups).tolist(), strict=True))
    assert group_sizes == {
        "racePctWhite": 1573,
        "racepctblack": 218,
        "racePctAsian": 88,
        "racePctHisp": 115,
    }
    splits = make_splits(
        build(node),
        rng=np.random.default_rng(0),
        **{key: node[key] for key in split_options() if key != "folds"},
    )
    assert [len(role.y) for role in (splits.train, splits.calibration, splits.test)] == [
        994,
        500,
        500,
    ]
