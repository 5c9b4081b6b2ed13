"""Tables of openml.org: what becomes of their columns, and folds that tasks prescribe."""

from __future__ import annotations

import os

import numpy as np
import pytest

from kdgraph.components import build
from kdgraph.config import compose
from kdgraph.data.openml.cache import is_cached
from kdgraph.data.openml.tables import OpenmlTable
from kdgraph.data.splits import make_splits, split_options
from kdgraph.errors import DataError, DataNotAvailable, ParameterError
from tests.data.openml.server import arff, bake, description, frame, numbers

pytestmark = pytest.mark.filterwarnings("ignore:.*rows have the features of another row")


@pytest.fixture
def table(openml_cache):
    """Data set 61 in the cache."""
    bake(openml_cache, 61, frame())


def test_columns_become_features_of_their_kind(table):
    dataset = OpenmlTable(61).load()
    assert dataset.name == "openml-61"
    assert dataset.feature_names == ("length", "width", "colour", "month")
    assert dataset.categories == (None, None, ("blue", "red"), ("1", "2"))
    assert (
        dataset.classes.tolist() == ["no", "yes"]
        and dataset.y.tolist() == (frame()["class"] == "yes").astype(int).tolist()
    )
    np.testing.assert_array_equal(dataset.X[:, 1], frame()["width"])
    np.testing.assert_array_equal(dataset.X[:, 2], frame()["colour"] == "red")
    np.testing.assert_array_equal(dataset.X[:, 3], frame()["month"] - 1)


def test_facts_say_where_the_rows_come_from(openml_cache):
    bake(
        openml_cache,
        61,
        frame(),
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
    """ARFF declares red before blue, Parquet may hold them in any order: positions go by sorted
    value.
    """
    folder = bake(openml_cache, 61, frame(), md5_checksum="0" * 32)
    from_parquet = OpenmlTable(61).load()
    (folder / "dataset_61.pq").unlink()
    (folder / "dataset.arff").write_text(arff(frame()))
    from_arff = OpenmlTable(61).load()
    assert from_arff.fingerprint == from_parquet.fingerprint
    assert from_arff.categories == from_parquet.categories
    assert (from_arff.facts["loader"], from_arff.facts["md5"]) == ("arff", "0" * 32)


def test_without_openmls_list_of_features_the_values_decide(table, openml_cache):
    next(openml_cache.rglob("features.xml")).unlink()
    dataset = OpenmlTable(61).load()
    assert dataset.categories == (None, None, ("blue", "red"), None)


def test_columns_to_ignore_are_left_out_unless_they_are_asked_for(openml_cache):
    bake(openml_cache, 61, frame(), ignore_attribute="colour,month")
    assert OpenmlTable(61).load().feature_names == ("length", "width")
    assert OpenmlTable(61, categorical=["month"]).load().feature_names == (
        "length",
        "width",
        "month",
    )
    assert OpenmlTable(61, drop=["colour"]).load().feature_names == ("length", "width")
    assert OpenmlTable(61, split_groups="row").load().split_groups.tolist() == list(range(40))


def test_groups_are_read_from_columns_to_ignore_which_stay_no_features(openml_cache):
    bake(openml_cache, 61, frame(), ignore_attribute="colour,month")
    named = OpenmlTable(61, group="colour").load()
    assert named.group_names == ("blue", "red") and named.feature_names == ("length", "width")
    assert OpenmlTable(61, group="colour", drop=["colour", "width"]).load().feature_names == (
        "length",
    )
    largest = OpenmlTable(61, group=["length", "month"]).load()
    expected = np.where(frame()["length"] >= frame()["month"], "length", "month")
    assert np.array(largest.group_names)[largest.groups].tolist() == expected.tolist()


def test_another_target_and_task(table):
    dataset = OpenmlTable(61, target="length", drop=["class"], name="lengths").load()
    assert (dataset.name, dataset.task) == ("lengths", "regression")
    np.testing.assert_array_equal(dataset.y, frame()["length"])


@pytest.mark.parametrize(
    ("target", "says"),
    [("", "names no target"), ("colour,class", "names several targets")],
)
def test_a_set_without_one_target_needs_a_choice(openml_cache, target, says):
    bake(openml_cache, 61, frame(), default_target_attribute=target)
    with pytest.raises(DataError) as caught:
        OpenmlTable(61).load()
    assert (
        str(caught.value)
        == f"openml-61: OpenML {says} for data set 61; choose a column: dataset.target=… (row,"
        " length, width, colour, month, …)"
    )
    assert OpenmlTable(61, target="class").load().classes.tolist() == ["no", "yes"]


def test_require_numeric_shuts_out_before_any_run(table, openml_cache):
    with pytest.raises(
        DataNotAvailable, match=r"openml-61 has 2 categorical columns \(colour, month\)"
    ):
        OpenmlTable(61, require="numeric").prefetch()
    bake(openml_cache, 62, numbers())
    OpenmlTable(62, require="numeric").prefetch()


def test_a_cached_set_needs_no_network(table, no_network):
    OpenmlTable(61).prefetch()
    assert OpenmlTable(61).load().X.shape == (40, 4)


def test_reading_leaves_nothing_in_the_cache(table, openml_cache):
    """Of openml-python's own reader there would be pickles, which two processes may write at
    once.
    """
    before = sorted(openml_cache.rglob("*"))
    OpenmlTable(61).prefetch()
    OpenmlTable(61).load()
    assert sorted(openml_cache.rglob("*")) == before


@pytest.mark.parametrize("name", ["dataset_61.pq", "description.xml", "features.xml"])
def test_a_damaged_file_is_named_with_the_way_out(table, openml_cache, name):
    file = next(openml_cache.rglob(name))
    file.write_bytes(file.read_bytes()[:-30])
    with pytest.raises(DataError) as caught:
        OpenmlTable(61).load()
    says = str(caught.value)
    assert not isinstance(caught.value, DataNotAvailable) and "\n" not in says
    assert says.startswith(f"{file} is damaged (") and says.endswith(
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


def test_a_description_without_its_parts_is_damaged(openml_cache):
    folder = bake(openml_cache, 61, frame())
    (folder / "description.xml").write_text(
        description(61, "x").replace("oml:version", "oml:edition")
    )
    with pytest.raises(DataError, match="no name or no version"):
        OpenmlTable(61).load()


REAL = [(44, 57, 2, 0), (31, 20, 2, 13), (40975, 6, 4, 6), (6, 16, 26, 0)]
"""Number, features, classes, categorical features, as openml.org says."""


@pytest.mark.parametrize(("id", "features", "classes", "categorical"), REAL)
def test_sets_of_openml_are_read_as_openml_describes_them(
    id, features, classes, categorical, no_network
):
    if "OPENML_CACHE_DIR" not in os.environ or not is_cached(id):
        pytest.skip(f"OpenML {id} is in no folder that OPENML_CACHE_DIR names")
    dataset = OpenmlTable(id).load()
    assert dataset.X.shape[1] == features and len(dataset.classes) == classes
    assert dataset.is_categorical.sum() == categorical


def test_communities_and_crime_have_the_groups_of_luo_et_al():
    """UAI 2022, Section 5.3: is the rate above the median, by plurality race; "Indian" is no column
    of the table.
    """
    if "OPENML_CACHE_DIR" not in os.environ or not is_cached(42730):
        pytest.skip("OpenML 42730 is in no folder that OPENML_CACHE_DIR names")
    node = compose(["dataset=crime"]).dataset
    data = build(node).load()
    assert (
        data.X.shape == (1994, 122)
        and data.classes.tolist() == ["<= 0.15", "> 0.15"]
        and data.facts["threshold"] == 0.15
    )
    assert np.bincount(data.y).tolist() == [1001, 993]  # some rows are at the median itself
    assert data.groups is not None
    found = dict(zip(data.group_names, np.bincount(data.groups).tolist(), strict=True))
    assert found == {
        "racePctWhite": 1573,
        "racepctblack": 218,
        "racePctAsian": 88,
        "racePctHisp": 115,
    }
    splits = make_splits(
        build(node), rng=np.random.default_rng(0), **{key: node[key] for key in split_options()}
    )
    assert [len(role.y) for role in (splits.train, splits.calibration, splits.test)] == [
        994,
        500,
        500,
    ]
