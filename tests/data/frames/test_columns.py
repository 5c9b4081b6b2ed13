from __future__ import annotations

import datetime
import re
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN, UNUSED
from kdgraph.data.frames.columns import ColumnOptions, from_frame
from kdgraph.errors import DataError, DataNotAvailable

LABELS = ["a", "b", "a", "b"]


def frame(**columns) -> pd.DataFrame:
    """Return four rows with the feature ``x``, further columns, and the target ``y``."""
    return pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], **columns, "y": columns.get("y", LABELS)})


def load(table: pd.DataFrame, target="y", **options):
    kinds = options.pop("feature_kinds", None)
    return from_frame("t", table, target, options=ColumnOptions(**options), feature_kinds=kinds)


def assert_refused(
    table: pd.DataFrame, message: str, target="y", error=DataError, **options
) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        load(table, target, **options)


def encode_column(values, **options):
    data = load(frame(c=values), **options)
    return data.X[:, 1].tolist(), data.categories[1] if data.categories else None


# Encoding of features.


@pytest.mark.parametrize(
    "values",
    [
        [1, 0, 1, 1],
        [True, False, True, True],
        pd.array([1, 0, 1, 1], dtype="Int64"),
        pd.array([1, 0, 1, 1], dtype="Float32"),
        pd.array([True, False, True, True], dtype="boolean"),
        [Decimal(1), Decimal(0), Decimal(1), Decimal(1)],
        np.array([True, False, True, True], dtype=object),
        ["1", "0", "1", "1.0"],
    ],
    ids=repr,
)
def test_numbers_and_truth_values_are_numeric(values):
    assert encode_column(values) == ([1.0, 0.0, 1.0, 1.0], None)


@pytest.mark.parametrize("dtype", ["object", "string", "category", "string[pyarrow]"])
def test_text_becomes_codes_of_its_sorted_values(dtype):
    assert encode_column(pd.Series(["red", "blue", "red", "green"], dtype=dtype)) == (
        [2.0, 0.0, 2.0, 1.0],
        ("blue", "green", "red"),
    )


def test_categories_without_rows_are_dropped_and_sorted_as_text():
    values = pd.Categorical(
        ["low", "high", "low", "low"], categories=["low", "middle", "high"], ordered=True
    )
    assert encode_column(values) == ([1.0, 0.0, 1.0, 1.0], ("high", "low"))


def test_objects_of_several_types_are_text():
    assert encode_column([1, "one", "a", 1.5]) == ([0.0, 3.0, 2.0, 1.0], ("1", "1.5", "a", "one"))


@pytest.mark.parametrize(
    "values",
    [
        [1, None, np.nan, 2],
        pd.array([1, None, None, 2], dtype="Int64"),
        ["1", None, np.nan, "2"],
    ],
    ids=repr,
)
def test_missing_numbers_are_nan(values):
    codes, categories = encode_column(values)
    np.testing.assert_array_equal(codes, [1, np.nan, np.nan, 2])
    assert categories is None


def test_missing_text_is_nan_and_no_category():
    codes, categories = encode_column(["u", None, "v", np.nan])
    np.testing.assert_array_equal(codes, [0, np.nan, 1, np.nan])
    assert categories == ("u", "v")
    assert load(frame(c=["u", None, "v", np.nan])).has_missing


def test_missing_truth_values_are_nan():
    codes, categories = encode_column(pd.Series([True, None, False, True], dtype=object))
    np.testing.assert_array_equal(codes, [1, np.nan, 0, 1])
    assert categories is None


@pytest.mark.parametrize(
    ("values", "missing", "expected"),
    [
        (["5", "?", "6", "5"], ["?"], [5, np.nan, 6, 5]),
        ([5, -1, 6, 5], [-1], [5, np.nan, 6, 5]),
        (["5", "-1", "6", "5"], [-1], [5, np.nan, 6, 5]),
        ([5, -1, 6, 5], ["-1"], [5, np.nan, 6, 5]),
        ([5, -1, 1e30, 5], [-1, "1e30"], [5, np.nan, np.nan, 5]),
        (["p", "?", "q", "?"], ["?", -9], [0, np.nan, 1, np.nan]),
    ],
)
def test_cells_in_missing_become_nan(values, missing, expected):
    np.testing.assert_array_equal(encode_column(values, missing=missing)[0], expected)


def test_missing_does_not_apply_to_labels():
    assert load(frame(y=[-1, 1, -1, 1]), missing=[-1]).classes.tolist() == [-1, 1]


def test_categorical_numbers_are_sorted_as_numbers():
    assert encode_column([10, 9, 10, 2], categorical=["c"]) == (
        [2.0, 1.0, 2.0, 0.0],
        ("2", "9", "10"),
    )
    codes, categories = encode_column([10, None, 9, -1], categorical=["c"], missing=[-1])
    np.testing.assert_array_equal(codes, [1, np.nan, 0, np.nan])
    assert categories == ("9", "10")


def test_feature_kinds_of_the_source_are_used():
    table = frame(month=[1, 2, 1, 2], number=pd.Categorical(["3", "4", "3", "4"]))
    data = load(
        table, feature_kinds={"month": "categorical", "number": "numeric", "y": "categorical"}
    )
    assert data.categories == (None, ("1", "2"), None)
    np.testing.assert_array_equal(data.X[:, 1:], [[0, 3], [1, 4], [0, 3], [1, 4]])


def test_numeric_table_has_no_categories():
    data = load(frame())
    assert data.categories == ()
    assert not data.needs_encoding
    assert data.X.dtype == np.float64 and data.X.flags.c_contiguous


def test_from_frame_does_not_change_the_frame():
    table = frame(c=[1, -1, 2, 3], word=["p", "q", "p", "?"])
    before = table.copy(deep=True)
    load(table, missing=[-1, "?"])
    pd.testing.assert_frame_equal(table, before)


def test_dropped_group_and_split_columns_are_no_features():
    table = frame(
        c=[1, 2, 3, 4],
        g=["p", "q", "r", "p"],
        part=["Train", "TEST", "valid", "unused"],
        when=pd.Timestamp("2020"),
    )
    data = load(table, drop=["c", "when"], split_groups="g", split_column="part")
    assert data.feature_names == ("x",)
    assert (
        data.split_groups is not None
        and data.split_groups.tolist() == [0, 1, 2, 0]
        and data.groups is None
    )
    assert data.roles is not None and data.roles.tolist() == [TRAIN, TEST, CALIBRATION, UNUSED]
    assert data.roles.dtype == np.int8


@pytest.mark.parametrize(
    "values", [[True, False, False, True], ["True", "False", "False", "True"]], ids=repr
)
def test_true_in_a_split_column_means_test(values):
    data = load(frame(part=values), split_column="part")
    assert data.roles is not None and data.roles.tolist() == [TEST, TRAIN, TRAIN, TEST]


@pytest.mark.parametrize(
    ("word", "role"),
    [
        ("validation", CALIBRATION),
        ("val", CALIBRATION),
        ("Cal", CALIBRATION),
        ("training", TRAIN),
        (" test ", TEST),
    ],
)
def test_split_column_accepts_synonyms_of_roles(word, role):
    data = load(frame(part=["train", "test", word, "train"]), split_column="part")
    assert data.roles is not None and data.roles[2] == role


def test_column_names_become_text():
    table = frame().rename(columns={"x": 0})
    assert load(table).feature_names == ("0",)


def test_facts_are_kept():
    facts = {"source": "somewhere"}
    assert from_frame("t", frame(), "y", options=ColumnOptions(), facts=facts).facts == facts


texts = st.lists(
    st.one_of(st.none(), st.text(st.characters(codec="utf-8", exclude_characters="\x00"))),
    min_size=2,
    max_size=20,
)


@settings(deadline=None)
@given(texts.map(lambda cells: [*cells, "letter", "word"]))
def test_codes_and_category_names_reproduce_the_text(cells):
    n = len(cells)
    table = pd.DataFrame({"c": pd.Series(cells, dtype=object), "y": np.arange(n) % 2})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = load(table, categorical=["c"])
    (names,) = data.categories
    assert names is not None and list(names) == sorted(set(cells) - {None})
    assert [None if np.isnan(code) else names[int(code)] for code in data.X[:, 0]] == cells


# Encoding of the target.


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["b", "a", "b", "a"], ["a", "b"]),
        ([2, 10, 2, 10], [2, 10]),
        ([2.0, 10.0, 2.0, 10.0], [2, 10]),
        ([True, False, True, False], [False, True]),
        (pd.Categorical(["2", "10", "2", "10"]), ["10", "2"]),
        (pd.array([1, 0, 1, 0], dtype="Int64"), [0, 1]),
    ],
    ids=repr,
)
def test_classes_are_sorted_and_of_their_type(labels, classes):
    data = load(frame(y=labels))
    assert data.task == "classification"
    assert data.classes.tolist() == classes
    assert [str(label) for label in data.classes[data.y].tolist()] == [
        str(label).removesuffix(".0") for label in labels
    ]


def test_fractions_are_regression():
    data = load(frame(y=[0.5, 1, 2, 3]))
    assert data.task == "regression"
    assert data.y.tolist() == [0.5, 1, 2, 3]
    assert len(data.classes) == 0


@pytest.mark.parametrize(("values", "task"), [(20, "classification"), (21, "regression")])
def test_more_than_20_distinct_integers_are_a_regression(values, task):
    table = pd.DataFrame({"x": np.arange(2.0 * values), "y": np.arange(2 * values) % values})
    assert load(table).task == task


@pytest.mark.parametrize(
    ("labels", "task"),
    [
        ([0, 1, 0, 1], "regression"),
        ([0.5, 1, 0.5, 1], "classification"),
        (["1", "2", "3", "4"], "regression"),
    ],
)
def test_task_overrides_the_inferred_task(labels, task):
    assert load(frame(y=labels), task=task).task == task


def test_categorical_target_is_a_classification():
    table = pd.DataFrame({"x": np.arange(50.0), "y": np.arange(50) % 25})
    assert load(table, categorical=["y"]).task == "classification"
    assert load(table, feature_kinds={"y": "categorical"}).task == "classification"


# Errors.


def test_unknown_target_is_refused_with_a_suggestion():
    assert_refused(
        frame(label=LABELS),
        "t has no column 'lable' (dataset.target); did you mean 'label'?",
        "lable",
    )
    assert_refused(frame(), "t has no column 'outcome' (dataset.target); it has x, y", "outcome")


def test_message_about_a_wide_table_lists_ten_columns():
    table = pd.DataFrame(np.zeros((2, 12)))
    assert_refused(
        table,
        "t has no column 'outcome' (dataset.target); it has 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2"
        " more",
        "outcome",
    )


@pytest.mark.parametrize("key", ["drop", "categorical", "group", "split_groups", "split_column"])
def test_unknown_columns_are_refused(key):
    value = ["z9"] if key in ("drop", "categorical") else "z9"
    assert_refused(frame(), f"t has no column 'z9' (dataset.{key}); it has x, y", **{key: value})


def test_target_cannot_have_a_second_use():
    assert_refused(
        frame(),
        "t: 'y' is the target, and dataset.drop names it too; it can be one of both",
        drop=["y"],
    )
    assert_refused(
        frame(),
        "t: 'y' is the target, and dataset.split_groups names it too; it can be one of both",
        split_groups="y",
    )


def test_table_without_rows_or_features_is_refused():
    assert_refused(frame().iloc[:0], "t: the table has 2 columns and no rows")
    assert_refused(
        frame()[["y"]], "t: no feature is left besides the target 'y' and the 0 columns put aside"
    )
    assert_refused(
        frame(),
        "t: no feature is left besides the target 'y' and the 1 columns put aside",
        drop=["x"],
    )
    repeated_names = frame().set_axis(["x", "x"], axis=1)
    assert_refused(
        repeated_names, "t: several columns have the same name (x); give each column its own"
    )


def test_missing_labels_are_refused():
    assert_refused(
        frame(y=["a", None, "b", np.nan]),
        "t: 2 of 4 rows have no label in 'y' (first: row 1); remove them",
    )


def test_single_class_is_refused():
    assert_refused(
        frame(y=["a"] * 4), "t: a classifier needs two classes, the target 'y' has only ['a']"
    )


def test_regression_on_text_or_infinity_is_refused():
    rule = (
        "and a regression needs finite numbers; dataset.task=classification takes them as classes"
    )
    assert_refused(frame(), f"t: the target 'y' has 'a' in row 0, {rule}", task="regression")
    assert_refused(frame(y=[0.5, np.inf, 1, 2]), f"t: the target 'y' has 'inf' in row 1, {rule}")


@pytest.mark.parametrize(
    ("values", "first_date"),
    [
        (pd.date_range("2020-01-01", periods=4), "2020-01-01 00:00:00"),
        (pd.date_range("2020-01-01", periods=4, tz="UTC"), "2020-01-01 00:00:00+00:00"),
        (pd.to_timedelta([1, 2, 3, 4], unit="D"), "1 days 00:00:00"),
        (pd.period_range("2020-01", periods=4, freq="M"), "2020-01"),
        ([datetime.date(2020, 1, day) for day in (1, 2, 3, 4)], "2020-01-01"),
        (["2020-01-01", "2020-01-02", None, "2020-01-01"], "2020-01-01"),
        (["1/2/2020 10:00", "3/4/2020 11:00"] * 2, "1/2/2020 10:00"),
        (["31.12.99", "30.12.99"] * 2, "31.12.99"),
    ],
    ids=repr,
)
def test_dates_are_refused_with_overrides(values, first_date):
    ambiguous = (
        """ with 'dataset.date_format="%d/%m/%Y %H:%M"' or 'dataset.date_format="%m/%d/%Y %H:%M"'"""
    )
    overrides = f"'dataset.parse_dates=[when]'{ambiguous if first_date == '1/2/2020 10:00' else ''}"
    way_out = (
        f"{overrides} turns it into days since 1970-01-01, 'dataset.drop=[when]' leaves it out"
    )
    assert_refused(
        frame(when=values), f"t: column 'when' holds dates or times ({first_date}); {way_out}"
    )


def test_dates_may_be_categorical():
    data = load(frame(c=["2020-01-01", "2020-01-02"] * 2), categorical=["c"])
    assert data.categories[1] == ("2020-01-01", "2020-01-02")


def test_text_among_numbers_is_refused():
    remedy = (
        "'dataset.missing=[n/a]' reads it as missing, 'dataset.categorical=[c]' takes all as names"
    )
    assert_refused(
        frame(c=["12", "n/a", "13", "14"]),
        f"t: column 'c' has 'n/a' in row 1, and most of its cells are numbers; {remedy}",
    )
    assert encode_column(["12", "n/a", "13", "n/a"])[1] == (
        "12",
        "13",
        "n/a",
    ), "half of the cells are not most of them"


def test_several_texts_among_numbers_are_refused():
    remedy = (
        "'dataset.missing=[n/a,none]' reads such cells as missing, 'dataset.categorical=[c]' takes"
        " all as names"
    )
    table = pd.DataFrame({"c": ["n/a", "12", "none", "14", "15"], "y": list("ababa")})
    assert_refused(
        table, f"t: column 'c' has 'n/a' in row 0, and most of its cells are numbers; {remedy}"
    )


@pytest.mark.parametrize(
    "values",
    [["1,5", "2,5", "-3", "4"], ["1,234", "5,678", "9,012", "1"], ["1.234,5", "6", "7", "8,0"]],
    ids=repr,
)
def test_numbers_with_commas_are_refused(values):
    way_out = "write plain numbers such as 1234.5, or 'dataset.categorical=[c]' takes them as names"
    assert_refused(
        frame(c=values),
        f"t: column 'c' has numbers with commas, such as '{values[0]}', which are read as text;"
        f" {way_out}",
    )


def test_text_in_a_declared_numeric_column_is_refused():
    remedy = (
        "'dataset.missing=[b]' reads it as missing, 'dataset.categorical=[c]' takes all as names"
    )
    message = f"t: column 'c' has 'b' in row 0, and most of its cells are numbers; {remedy}"
    assert_refused(frame(c=["b", "1", "b", "b"]), message, feature_kinds={"c": "numeric"})


@pytest.mark.parametrize("sign", [1, -1])
def test_infinity_and_numbers_from_1e18_on_are_refused(sign):
    infinity = sign * np.inf
    way_out = f"'dataset.missing=[\"{infinity}\"]' reads it as missing, else write a number"
    message = f"t: column 'c' has {infinity} in row 2, and features must be finite: {way_out}"
    assert_refused(frame(c=[1, 2, infinity, 3]), message)
    assert np.isnan(load(frame(c=[1, 2, infinity, 3]), missing=[str(infinity)]).X[2, 1])
    reason = "values from 1e18 on are usually codes for missing, and their squares lose all others"
    value = f"{sign * 1e18:g}"
    remedy = f"'dataset.missing=[{value}]' reads it as missing, else rescale the column"
    assert_refused(
        frame(c=[1, 2, 3, sign * 1e18]), f"t: column 'c' has {value} in row 3; {reason}: {remedy}"
    )
    assert np.isnan(load(frame(c=[1, 2, 3, sign * 1e18]), missing=[value]).X[3, 1])
    assert load(frame(c=[1, 2, 3, sign * 9.9e17])).X[3, 1] == sign * 9.9e17


@pytest.mark.parametrize(
    "values", [[np.nan] * 4, [None] * 4, pd.Categorical([None] * 4, categories=["p"])], ids=repr
)
def test_empty_column_is_refused(values):
    assert_refused(
        frame(c=values), "t: column 'c' has no value in any row; leave it out: 'dataset.drop=[c]'"
    )


def test_column_of_missing_cells_is_refused():
    assert_refused(
        frame(c=["?"] * 4),
        "t: column 'c' has no value in any row; leave it out: 'dataset.drop=[c]'",
        missing=["?"],
    )


def test_lists_and_complex_numbers_are_refused():
    assert_refused(
        frame(c=[[1], [2], [3], [4]]),
        "t: column 'c' has cells of type list; a feature is a number or text: 'dataset.drop=[c]'",
    )
    assert_refused(
        frame(c=[1j, 2, 3, 4]),
        "t: column 'c' holds complex numbers; split them into real columns, or 'dataset.drop=[c]'",
    )


def test_free_text_is_refused():
    n = 1500
    table = pd.DataFrame(
        {
            "x": np.arange(n) % 7,
            "z": np.arange(n) / 2,
            "id": [f"row {i}" for i in range(n)],
            "y": np.arange(n) % 2,
        }
    )
    assert_refused(
        table,
        "t: column 'id' has 1,500 different texts in 1,500 rows, which are not categories; leave it"
        " out: 'dataset.drop=[id]'",
    )
    assert (
        len(load(table.assign(id=[f"row {i % 700}" for i in range(n)])).categories[2] or ()) == 700
    )


def test_invalid_split_columns_are_refused():
    source = "t: dataset.split_column='part'"
    role_names = "train, calibration, test or unused (or True where a row tests)"
    options = {"split_column": "part"}
    assert_refused(
        frame(part=["train", "test", "dev", "train"]),
        f"{source} has 'dev', which is none of {role_names}",
        **options,
    )
    problem = f"{source} has numbers such as 0, and which of them test is not guessed"
    suggestion = "'dataset.split_at=[0]' trains on those up to 0 and tests on larger ones"
    assert_refused(
        frame(part=[0, 1, 0, 1]),
        f"{problem}; {suggestion}, or replace them with {role_names}",
        **options,
    )
    assert_refused(
        frame(part=list("0101")), f"{problem}; replace them with {role_names}", **options
    )
    large = [2**53 + 1, 2**53 + 3, 2**53 + 2, 2**53 + 1]
    data = load(frame(part=large), split_at=[2**53 + 1, 2**53 + 2], **options)
    assert data.roles is not None and data.roles.tolist() == [
        TRAIN,
        TEST,
        CALIBRATION,
        TRAIN,
    ], "float64 has no 2^53 + 1"
    empty_cell = f"{source} is empty in row 1; write train, calibration, test or unused"
    assert_refused(frame(part=["train", None, "test", "test"]), empty_cell, **options)
    for word, word_of_all_rows in (("test", "train"), ("train", "test")):
        missing_role = (
            f"{source} names no row for {word}; a split needs rows that train and rows that test"
        )
        assert_refused(
            frame(part=[word_of_all_rows, "val", word_of_all_rows, word_of_all_rows]),
            missing_role,
            **options,
        )
    missing_role = (
        f"{source} names no row for test; a split needs rows that train and rows that test"
    )
    assert_refused(frame(part=[False] * 4), missing_role, **options)


def test_missing_group_is_refused():
    assert_refused(
        frame(g=["p", None, "q", "r"]),
        "t: dataset.split_groups='g' is empty in row 1; name the group of each row",
        split_groups="g",
    )


def test_require_numeric_excludes_categories_and_missing_cells():
    table = frame(c=["p", "q", "p", "q"], d=["p", "q", "p", "p"], e=[1, None, 3, None])
    message = (
        "t has 2 categorical columns (c, d) and 2 missing cells, and dataset.require=numeric shuts"
        " it out; dataset.require=any lets it in"
    )
    assert_refused(table, message, error=DataNotAvailable, require="numeric")
    assert load(table, require="numeric", drop=["c", "d", "e"]).feature_names == ("x",)


# Warnings.


def test_constant_columns_are_named_in_a_warning():
    constant = {f"c{i}": 7 for i in range(7)}
    with pytest.warns(
        UserWarning,
        match=r"^t: columns that never change carry no information: c0, c1, c2, c3, c4 and 2 more$",
    ):
        assert load(frame(**constant)).X.shape == (4, 8)


def test_column_with_missing_cells_is_not_constant():
    load(frame(c=[1, np.nan, 1, np.nan]))


def test_duplicate_rows_are_counted_in_a_warning():
    table = frame(c=[1, np.nan, 1, np.nan]).assign(x=[1, 2, 1, 2])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(table)
    reason = "copies that fall into train and test make the test easy"
    assert [str(warning.message) for warning in caught] == [
        f"t: 4 of 4 rows have the features of another row; {reason}"
    ]


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from([-1.0, 0.0, -0.0, 1.0, 2.0]), st.sampled_from([0.0, 1.0, np.nan])
        ),
        min_size=2,
        max_size=12,
    )
)
def test_duplicate_rows_agree_with_pandas(rows):
    table = pd.DataFrame([*rows, (5.0, 5.0), (6.0, 5.0)], columns=["p", "q"])
    expected = int(table.duplicated(keep=False).sum())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        load(table.assign(y=np.arange(len(table)) % 2))
    counts = [
        int(str(warning.message).split()[1])
        for warning in caught
        if "of another row" in str(warning.message)
    ]
    assert counts == ([expected] if expected else [])


X_40 = np.random.default_rng(0).normal(size=40)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_features_that_determine_the_target_warn(task):
    cells = np.arange(40) % 4
    table = pd.DataFrame({"x": X_40, "copy": cells, "y": cells})
    if task == "classification":
        # Other names of the same classes, in another order, are a copy as well.
        table = table.assign(copy=np.array([3.5, -1.0, 8.0, 0.0])[cells])
    message = (
        "t: 'copy' determines the target of every row, as a copy of it would; if it is not known"
        " when a row is predicted, leave it out: 'dataset.drop=[copy]'"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        load(table, task=task)


@pytest.mark.parametrize(
    "copy",
    [
        np.where(np.arange(40) == 39, 0, np.arange(40) % 4),  # one row differs
        np.where(np.arange(40) == 39, np.nan, np.arange(40) % 4),
        np.arange(40) % 8,  # finer than the target
        np.arange(40) % 2,  # coarser
    ],
)
def test_features_that_differ_from_the_target_are_no_copies(copy):
    load(pd.DataFrame({"x": X_40, "copy": copy, "y": np.arange(40) % 4}))


def test_distinct_numbers_determine_no_classes_of_one_row_each():
    load(pd.DataFrame({"x": X_40, "y": [f"row {i}" for i in range(40)]}))


def test_distinct_text_in_each_row_of_a_small_table_warns():
    table = pd.DataFrame(
        {"x": np.arange(21) / 2, "c": [f"row {i}" for i in range(21)], "y": np.arange(21) % 2}
    )
    message = (
        "t: column 'c' has a different text in each of 21 rows, so it carries no information about"
        " new rows; 'dataset.drop=[c]'"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        load(table)
    load(table.iloc[:20])


# Overrides in messages.


@pytest.mark.parametrize(
    ("values", "override"),
    [
        (["1,5", "2,5", "3", "4"], "'dataset.categorical=[x,c]'"),
        (["2020-01-01"] * 4, "'dataset.parse_dates=[when,c]'"),
        (["2020-01-01"] * 4, "'dataset.drop=[z,c]'"),
        (["1", "2", "3", "n/a"], "'dataset.missing=[-9,n/a]'"),
        ([2**53, 2**53 + 1, 1, 2], "'dataset.drop=[z,c]'"),
        ([1, 2, 3, 1e20], "'dataset.missing=[-9,1e+20]'"),
        ([None] * 4, "'dataset.drop=[z,c]'"),
    ],
    ids=repr,
)
def test_advice_adds_to_the_current_lists(values, override):
    """Check that an override repeats the entries of the list that it replaces.

    Otherwise each suggestion would undo the one before it.
    """
    table = frame(z=1, c=values, when=["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-05"])
    with pytest.raises(DataError) as caught:
        load(table, drop=["z"], categorical=["x"], parse_dates=["when"], missing=[-9])
    assert override in str(caught.value)


# Selection of the first numeric features.


def test_first_numeric_selects_features_in_table_order():
    table = frame(
        name=["a", "b", "a", "b"], size=[4, 3, 2, 1], month=[1, 2, 1, 2], last=[0.5, 0.0, 0.5, 0.0]
    )
    data = load(table, first_numeric=2, categorical=["month"], require="numeric")
    assert data.feature_names == ("x", "size") and data.categories == ()
    np.testing.assert_array_equal(data.X, table[["x", "size"]])
    assert load(table, first_numeric=2, categorical=["month"], drop=["x"]).feature_names == (
        "size",
        "last",
    )
    assert load(table, first_numeric=4).feature_names == ("x", "size", "month", "last")


def test_too_few_numeric_features_are_refused():
    message = "t has 2 numeric features, and dataset.first_numeric is 3; set it to fewer"
    assert_refused(frame(name=["a", "b", "a", "b"], size=[4, 3, 2, 1]), message, first_numeric=3)
