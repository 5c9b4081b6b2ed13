"""New rows: read in any pieces they are the rows that the model was fitted on, or one line says
what is wrong.
"""

from __future__ import annotations

import gzip
import re
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from kdgraph.data.files.paths import sha256_of
from kdgraph.data.tables import TableFile, TextFile
from kdgraph.data.text_format import TextFormat
from kdgraph.deployment.schema import Feature, GroupSchema, Schema, Texts, read_schema
from kdgraph.errors import DataError, UsageError
from kdgraph.runner.prediction.rows import NewRows

FRAME = pd.DataFrame(
    {
        "age": [31, None, 47, 1e17, -0.0, 0.1 + 0.2],
        "n": [1, 2, 3, 9007199254740993, 5, 6],
        "sure": [True, False, True, True, False, True],
        "color": ["red", "blue", None, "red", "light blue", "blue"],
        "month": [1, 2, 1, 12, 2, 1],
        "label": ["u", "v", "u", "v", "u", "v"],
    }
)
FEATURES = [
    Feature("age"),
    Feature("n"),
    Feature("sure"),
    Feature("color", ["blue", "light blue", "red"]),
    Feature("month", ["1", "2", "12"], of_numbers=True),
]


def schema(**parts) -> Schema:
    known = {
        "dataset": "custom",
        "target": "label",
        "features": FEATURES,
        "shape": [5],
        "text": None,
        "classes": ["u", "v"],
    }
    more = {
        "scaling": {"shift": 0.0, "size": 1.0},
        "missing": [],
        "ood_score": "density",
    }
    return Schema(**{**known, **more, **parts})


def read(path: Path, layout: Schema | None = None, rows: int = 2, unseen="refuse") -> np.ndarray:
    return np.concatenate(
        [
            block.X
            for block in NewRows(path, layout or schema(), unseen, lambda line: None).blocks(rows)
        ]
    )


def written(folder: Path, ending: str, frame: pd.DataFrame = FRAME) -> Path:
    path = folder / f"new{ending}"
    if ending == ".parquet":
        frame.to_parquet(path)
    elif ending == ".arff":
        kinds = {
            "age": "NUMERIC",
            "n": "NUMERIC",
            "sure": "{False,True}",
            "color": "{blue,'light blue',red}",
            "month": "{1,2,12}",
        }
        head = (
            "@RELATION new\n"
            + "".join(f"@ATTRIBUTE {name} {kinds.get(name, '{u,v}')}\n" for name in frame)
            + "@DATA\n"
        )
        cells = (
            frame.astype(object)
            .where(frame.notna(), "?")
            .map(lambda cell: f"'{cell}'" if isinstance(cell, str) and " " in cell else cell)
        )
        path.write_text(
            head + "\n".join(",".join(map(str, row)) for row in cells.to_numpy()) + "\n"
        )
    else:
        frame.to_csv(path, index=False, sep="\t" if ".tsv" in ending else ",")
    return path


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".csv.gz", ".csv.xz", ".parquet", ".arff"])
@pytest.mark.parametrize("rows", [1, 2, 100])
def test_the_rows_are_those_that_training_would_read(tmp_path, ending, rows):
    path = written(tmp_path, ending)
    trained = TableFile(str(path), "label", categorical=["month"]).load()
    features = [
        Feature(name, values and list(values))
        for name, values in zip(trained.feature_names, trained.categories, strict=True)
    ]
    np.testing.assert_array_equal(read(path, schema(features=features), rows), trained.X)


FRACTIONS, WHOLE = st.floats(-1e17, 1e17, allow_nan=False), st.integers(-(10**17), 10**17)


@given(st.lists(FRACTIONS | WHOLE | st.just(""), min_size=1, max_size=8), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_a_number_is_the_same_whatever_stands_above_and_below_it(tmp_path_factory, numbers, rows):
    path, layout = (
        tmp_path_factory.mktemp("numbers") / "new.csv",
        schema(features=[Feature("x"), Feature("y")], shape=[2]),
    )
    pd.DataFrame({"x": [str(number) for number in numbers], "y": 1}).to_csv(path, index=False)
    np.testing.assert_array_equal(read(path, layout, rows), read(path, layout, 100))


@given(st.lists(FRACTIONS, min_size=1, max_size=8) | st.lists(WHOLE, min_size=1, max_size=8))
@settings(max_examples=60, deadline=None)
def test_a_number_is_the_one_that_training_reads(tmp_path_factory, numbers):
    path = tmp_path_factory.mktemp("numbers") / "new.csv"
    pd.DataFrame({"x": [str(number) for number in numbers]}).to_csv(path, index=False)
    expected = np.array([float(str(number)) for number in numbers])
    np.testing.assert_array_equal(
        read(path, schema(features=[Feature("x")], shape=[1]))[:, 0], expected
    )


def test_columns_have_any_order_and_others_are_reported_once(tmp_path):
    expected, notes = read(written(tmp_path, ".csv")), []
    path = written(tmp_path, ".csv", FRAME[["label", *reversed(FRAME.columns[:5])]].assign(id=1))
    blocks = list(NewRows(path, schema(), "refuse", notes.append).blocks(2))
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), expected)
    assert notes == ["columns that the model does not use are left out: label, id"]


def test_rows_are_scaled_as_the_training_rows(tmp_path):
    layout = schema(scaling={"shift": [1.0, 0.0, 0.0, 0.0, 0.0], "size": [2.0, 1.0, 1.0, 1.0, 1.0]})
    plain, scaled = read(written(tmp_path, ".csv")), read(written(tmp_path, ".csv"), layout)
    np.testing.assert_array_equal(scaled[:, 0], (plain[:, 0] - 1) / 2)
    np.testing.assert_array_equal(scaled[:, 1:], plain[:, 1:])


def test_cells_that_the_run_read_as_missing_are_missing(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("age,n,sure,color,month\n?,-1,True,?,1\n2,3,False,red,-1\n")
    X = read(path, schema(missing=["?", -1]))
    assert np.isnan(X).tolist() == [
        [True, True, False, True, False],
        [False, False, False, False, True],
    ]


def test_whole_numbers_may_be_written_as_fractions(tmp_path):
    assert read(written(tmp_path, ".csv", FRAME.assign(month=[1.0, 2.0, 1.0, 12.0, 2.0, 1.0])))[
        :, 4
    ].tolist() == [0, 1, 0, 2, 1, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda f: f.drop(columns="color"),
            "has no column 'color', which the model needs; did you mean 'colour'?",
        ),
        (
            lambda f: f[["label"]],
            (
                "has no column 'age' (nor n, sure, color, month), which the model needs; it has"
                " label, colour"
            ),
        ),
        (
            lambda f: f.assign(age=["1", "2", "3", "old", "5", "6"]),
            "column 'age' has 'old' in row 3, and the model takes numbers there",
        ),
        (
            lambda f: f.assign(age=[1, 2, 3, 4, np.inf, 6]),
            "column 'age' has inf in row 4, and numbers must be finite and below 1e18",
        ),
        (
            lambda f: f.assign(n=1e18),
            "column 'n' has 1e+18 in row 0, and numbers must be finite and below 1e18",
        ),
        (
            lambda f: f.assign(color=["red", "blue", "red", "red", "green", "red"]),
            (
                "column 'color' has 'green' in row 4, and the training data have blue, light blue,"
                " red; --unseen missing reads such cells as missing"
            ),
        ),
        (
            lambda f: f.assign(month=[1, 2, 3, 1, 1, 1]),
            (
                "column 'month' has '3' in row 2, and the training data have 1, 2, 12; --unseen"
                " missing reads such cells as missing"
            ),
        ),
    ],
    ids=[
        "missing column",
        "missing columns",
        "text",
        "infinity",
        "too large",
        "category",
        "number as category",
    ],
)
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_rows_that_do_not_fit_are_reported_in_one_line(tmp_path, change, message, ending):
    path = written(tmp_path, ending, change(FRAME).assign(colour=1))
    with pytest.raises(DataError) as caught:
        read(path)
    shown = (
        str(caught.value)
        .replace("'1e+18'", "1e+18")
        .replace("'1.0000000000000000e+18'", "1e+18")
        .replace("'inf'", "inf")
    )
    assert shown.removeprefix(f"--input {path}").lstrip(": ") == message.lstrip()


def test_categories_that_are_new_can_be_read_as_missing(tmp_path):
    path = written(
        tmp_path, ".csv", FRAME.assign(color=["green", "blue", "pink", "red", "green", None])
    )
    new = NewRows(path, schema(), "missing", lambda line: None)
    blocks = list(new.blocks(2))
    missing = [np.isnan(block.X[:, 3]).tolist() for block in blocks]
    assert missing == [[True, False], [True, False], [True, True]]
    assert [block.became_missing["color"] for block in blocks] == [1, 1, 1]


def groups_read(path: Path, groups: GroupSchema, unseen="refuse") -> list[int]:
    blocks = list(NewRows(path, schema(groups=groups), unseen, lambda line: None).blocks(4))
    assert [len(block.X) for block in blocks] == [len(block.groups) for block in blocks] == [4, 2]
    return np.concatenate([block.groups for block in blocks]).tolist()


MONTHS, COLORS = (
    GroupSchema([Feature("month", ["1", "2", "12"])], ["1", "2", "12"]),
    GroupSchema([Feature("hue", ["red", "sky"])], ["red", "sky"]),
)
LARGEST = GroupSchema([Feature("black"), Feature("white")], ["black", "white", "other"])


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arff"])
def test_groups_are_positions_in_the_names_of_a_column(tmp_path, ending):
    path = written(tmp_path, ending)
    assert groups_read(path, MONTHS) == read(path)[:, 4].tolist() == [0, 1, 0, 2, 1, 0]


def test_the_largest_of_several_columns_is_the_group(tmp_path):
    fractions = {"black": [0.2, 0.5, 0.0, 1, 0, 3], "white": [0.7, 0.5, 0.0, 0, 1, 4]}
    assert groups_read(written(tmp_path, ".csv", FRAME.assign(**fractions)), LARGEST) == [
        1,
        0,
        2,
        0,
        1,
        1,
    ]
    assert groups_read(
        written(tmp_path, ".csv", FRAME.assign(**fractions)),
        GroupSchema(LARGEST.columns, LARGEST.names[:2]),
    ) == [1, 0, -1, 0, 1, 1]


def test_a_new_group_is_refused_or_counted_as_unknown(tmp_path):
    path = written(tmp_path, ".csv", FRAME.assign(hue=["red", "sky", "sky", "red", "grey", "red"]))
    with pytest.raises(DataError) as caught:
        groups_read(path, COLORS)
    rule = (
        "the model knows the groups red, sky; --unseen missing treats others as it treats all rows"
    )
    assert str(caught.value) == f"--input {path}: column 'hue' has 'grey' in row 4, and {rule}"
    assert groups_read(path, COLORS, unseen="missing") == [0, 1, 1, 0, -1, 0]


@pytest.mark.parametrize("unseen", ["refuse", "missing"])
def test_a_row_without_a_group_is_refused(tmp_path, unseen):
    path = written(tmp_path, ".csv", FRAME.assign(hue=["red", None, "sky", "red", "red", "red"]))
    with pytest.raises(
        DataError,
        match=r"column 'hue' has 'nan' in row 1, and the model wants the group of each row$",
    ):
        groups_read(path, COLORS, unseen)
    with pytest.raises(
        DataError, match=r"^--input .*new.csv has no column 'hue', which the model needs"
    ):
        groups_read(written(tmp_path, ".csv"), COLORS)


def test_groups_of_arrays_are_an_array(tmp_path):
    layout, path = (
        GroupSchema([Feature("groups", ["a", "b"])], ["a", "b"]),
        tmp_path / "new.npz",
    )
    numbers = schema(features=[Feature("x"), Feature("z")], shape=[2], groups=layout)
    X = np.arange(12.0).reshape(6, 2)
    np.savez(path, X=X, groups=np.array(["a", "b", "b", "a", "b", "a"]))
    blocks = list(NewRows(path, numbers, "refuse", lambda line: None).blocks(4))
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), X)
    assert [block.groups.tolist() for block in blocks] == [[0, 1, 1, 0], [1, 0]]
    for content, message in (
        ({}, "has no array 'groups', and the model wants"),
        ({"groups": ["a"]}, "must name the group of each of 6 rows"),
    ):
        np.savez(path, X=X, **content)
        with pytest.raises(DataError, match=message):
            list(NewRows(path, numbers, "refuse", lambda line: None).blocks(4))


HEADER = b"age,n,sure,color,month\n"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("new.csv", b"", "--input {} is empty"),
        (
            "new.csv",
            HEADER + b"1,1,1,red,1\n1,1,1,red,1,1\n",
            "--input {} cannot be read: Expected 5 fields in line 3, saw 6",
        ),
        (
            "new.csv",
            HEADER + b"1,1,1,red,1,1\n",
            "--input {} cannot be read: Length of header or names does not match length of data",
        ),
        (
            "new.csv",
            HEADER + b"1,2,True,\xff,1\n",
            "--input {} cannot be read: 'utf-8' codec can't decode byte 0xff",
        ),
        ("new.csv.gz", b"no gzip", "--input {} cannot be read: Not a gzipped file (b'no')"),
        (
            "new.parquet",
            b"PAR1",
            "--input {} is not a parquet file, or damaged: Parquet file size is 4 bytes",
        ),
        ("new.arff", b"@RELATION a\n@DATA\n1\n", "--input {} cannot be read: "),
        (
            "new.npz",
            b"no zip",
            "--input {}: the model takes text in columns; give a table, such as .csv or .parquet",
        ),
        ("new.xlsx", b"", "--input {} is not a spreadsheet, or damaged: File is not a zip file"),
        (
            "new.xls",
            b"",
            (
                "--input {}: the ending of a file determines its kind, and must be one of .csv, .tsv,"
                " .jsonl, .ndjson, .parquet, .pq, .feather, .arff, .xlsx, .npz"
            ),
        ),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, message):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(UsageError) as caught:
        read(path)
    assert str(caught.value).startswith(message.format(path)) and "\n" not in str(caught.value)


def test_a_file_that_is_cut_off_is_no_shorter_table(tmp_path):
    path = tmp_path / "new.csv.gz"
    path.write_bytes(gzip.compress(written(tmp_path, ".csv").read_bytes() * 1000)[:-20])
    with pytest.raises(DataError, match="cannot be read"):
        read(path)


def test_a_name_that_is_near_is_offered(tmp_path):
    written(tmp_path, ".csv")
    with pytest.raises(UsageError) as caught:
        read(tmp_path / "nwe.csv")
    assert (
        str(caught.value)
        == f"--input {tmp_path / 'nwe.csv'}: no such file; did you mean 'new.csv'?"
    )


IMAGES = schema(features=[], shape=[1, 4, 4])


def test_images_come_from_arrays_and_are_in_0_to_1(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (7, 1, 4, 4), dtype=np.uint8)
    np.savez(tmp_path / "new.npz", X=pixels)
    X = read(tmp_path / "new.npz", IMAGES, rows=3)
    np.testing.assert_array_equal(X, pixels.astype(np.float32) / np.float32(255))
    np.savez_compressed(tmp_path / "new.npz", X=X, y=np.zeros(7))
    np.testing.assert_array_equal(read(tmp_path / "new.npz", IMAGES, rows=2), X)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"Y": np.zeros(3)}, " has no array 'X'; it has Y; name the rows X"),
        (
            {"X": np.zeros((3, 1, 5, 5))},
            ": the model takes rows of shape [1, 4, 4], and those of X have [1, 5, 5]",
        ),
        (
            {"X": np.zeros((3, 4))},
            ": the model takes rows of shape [1, 4, 4], and those of X have [4]",
        ),
        (
            {"X": np.array([["a"]])},
            ": X must hold numbers, [n, d] or images [n, c, h, w], got <U1, shape (1, 1)",
        ),
        (
            {"X": np.array([[None]], dtype=object)},
            ": X must hold numbers, [n, d] or images [n, c, h, w], got object, shape (1, 1)",
        ),
        (
            {"X": np.asfortranarray(np.zeros((3, 1, 4, 4)))},
            ": X lies column by column; write np.ascontiguousarray(X)",
        ),
    ],
    ids=["no X", "other images", "vectors", "text", "objects", "by column"],
)
def test_arrays_that_do_not_fit(tmp_path, arrays, message):
    path = tmp_path / "new.npz"
    np.savez(path, **arrays)
    with pytest.raises(DataError) as caught:
        read(path, IMAGES)
    assert str(caught.value) == f"--input {path}{message}"


def test_a_table_is_no_image(tmp_path):
    with pytest.raises(UsageError, match=r"the model takes images; give them as X in a .npz file$"):
        read(written(tmp_path, ".csv"), IMAGES)


def test_texts_are_hashed_as_in_training(tmp_path):
    from kdgraph.data.tables.text import hash_texts

    path = tmp_path / "new.csv"
    path.write_text('id,review\n1,"Rain, rain"\n2,\n3,go away\n')
    X = read(path, schema(features=[], shape=[8], text=Texts(["review"], 8)))
    np.testing.assert_array_equal(X, hash_texts(["Rain, rain", "", "go away"], 8))


@settings(deadline=None)
@given(
    st.integers(1, 40),
    st.integers(1, 9),
    st.integers(1, 9),
    st.tuples(st.integers(0, 44), st.integers(0, 44)),
)
def test_rows_of_a_parquet_file_are_read_from_any_row_on(
    tmp_path_factory, n_rows, group_rows, rows, bounds
):
    path = tmp_path_factory.mktemp("parquet") / "new.parquet"
    pd.DataFrame({"x": np.arange(float(n_rows))}).to_parquet(path, row_group_size=group_rows)
    new_rows = NewRows(
        path, schema(features=[Feature("x")], shape=[1]), "refuse", lambda line: None
    )
    start, stop = bounds
    blocks = list(new_rows.blocks(rows, start, stop))
    expected = np.arange(n_rows)[start:stop].tolist()
    assert [x for block in blocks for x in block.X[:, 0]] == expected
    assert [block.start for block in blocks] == expected[::rows]
    assert new_rows.row_groups == [*range(group_rows, n_rows, group_rows), n_rows]


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".npz"])
def test_blocks_that_are_skipped_are_not_converted(tmp_path, ending):
    path = tmp_path / f"new{ending}"
    if ending == ".npz":
        np.savez(path, X=np.arange(5.0)[:, None])
    else:
        getattr(pd.DataFrame({"x": ["0", "1", "ten", "3", "4"]}), f"to_{ending[1:]}")(path)
    layout = schema(features=[Feature("x")], shape=[1])
    rows = NewRows(path, layout, "refuse", lambda line: None)
    blocks = list(rows.blocks(2, skip=lambda first: first == 2))
    assert [(block.start, block.X[:, 0].tolist()) for block in blocks] == [(0, [0, 1]), (4, [4])]


@pytest.mark.parametrize(
    "content",
    ["", "[]", "{}", '{"format": 1}', '{"format": 1, "features": [{"nme": "a"}]}', '{"format": 7}'],
)
def test_a_schema_that_is_none(tmp_path, content):
    (tmp_path / "schema.json").write_text(content)
    with pytest.raises(DataError, match="do the run again with force=true"):
        read_schema(tmp_path / "schema.json")


@pytest.mark.parametrize("ending", [".csv", ".arff", ".parquet"])
def test_warnings_are_as_before_while_rows_are_used(tmp_path, ending):
    """The file of a reader that is abandoned is closed too.

    The garbage collector would close it later, perhaps in another test.
    """
    before = list(warnings.filters)
    blocks = NewRows(written(tmp_path, ending), schema(), "refuse", lambda line: None).blocks(2)
    next(blocks)
    between = list(warnings.filters)
    warnings.simplefilter("ignore", FutureWarning)
    of_others = list(warnings.filters)
    blocks.close()
    assert between == before and warnings.filters == of_others != before


@pytest.mark.parametrize(
    ("separator", "between"),
    [(r"\t", "\t"), ("tab", "\t"), ("\t", "\t"), (";", ";"), (r"\s+", "  "), (" ", " ")],
)
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_the_separator_of_the_run_divides_new_rows(tmp_path, separator, between, ending):
    path = tmp_path / f"new{ending}"
    path.write_text(
        "\n".join(between.join(row) for row in (["y", "x"], ["1.5", "2"], ["3", "4"])) + "\n"
    )
    trained = TableFile(str(path), "y", task="regression", separator=separator).load()
    assert trained.X.tolist() == [[2], [4]]
    layout = schema(features=[Feature("x")], shape=[1], text_format=TextFormat(separator=separator))
    assert read(path, layout).tolist() == trained.X.tolist()


@pytest.mark.parametrize("encoding", ["UTF8", "utf-8-sig", "utf_8", "latin-1", "UTF_16"])
@pytest.mark.parametrize("written_as", ["utf-8-sig", "utf-16", "utf-32"])
@pytest.mark.parametrize("ending", [".csv", ".arff"])
def test_a_byte_order_mark_decides_how_new_rows_are_decoded(tmp_path, encoding, written_as, ending):
    text = {".csv": "größe\n", ".arff": "@RELATION r\n@ATTRIBUTE größe NUMERIC\n@DATA\n"}[ending]
    path = tmp_path / f"new{ending}"
    path.write_text(text + "1\n2\n", encoding=written_as)
    assert read(
        path, schema(features=[Feature("größe")], shape=[1], text_format=TextFormat(encoding))
    ).tolist() == [[1], [2]]


@pytest.mark.parametrize("encoding", ["Latin1", "ISO-8859-1", "cp1252"])
def test_new_rows_without_a_mark_are_decoded_as_the_run_was(tmp_path, encoding):
    path = tmp_path / "new.csv"
    path.write_text("größe\n1\n", encoding="latin-1")
    assert read(
        path, schema(features=[Feature("größe")], shape=[1], text_format=TextFormat(encoding))
    ).tolist() == [[1]]


@pytest.mark.parametrize("line", ["", "sep=;\n"])
def test_excels_line_is_no_header_of_new_rows(tmp_path, line):
    path = tmp_path / "new.csv"
    path.write_text(f"{line}x;y\n1,5;2\n" if line else "x,y\n2,2\n")
    layout = schema(features=[Feature("y")], shape=[1])
    assert read(path, layout).tolist() == [[2]]


def test_other_separator_is_refused_with_that_of_the_run(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("x;y\n1;2\n")
    message = (
        f"--input {path} has one column, 'x;y'; its cells seem to be separated otherwise; write ','"
        " between them"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        read(path, schema(features=[Feature("x"), Feature("y")], shape=[2]))


def test_needed_duplicate_columns_are_refused(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("x,y,x\n1,2,3\n")
    message = f"--input {path} has several columns named 'x'; give each its own name"
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        read(path, schema(features=[Feature("x"), Feature("y")], shape=[2]))
    assert read(path, schema(features=[Feature("y")], shape=[1])).tolist() == [[2]]


@pytest.mark.parametrize("index", [[7, 3, 9, 1, 2], range(10, 20, 2)], ids=["stored", "range"])
@pytest.mark.parametrize("rows", [2, 100])
def test_named_parquet_index_is_a_column_of_new_rows(tmp_path, index, rows):
    frame = pd.DataFrame({"x": np.arange(5.0)}, index=pd.Index(index, name="visit"))
    frame.to_parquet(tmp_path / "new.parquet")
    actual = read(
        tmp_path / "new.parquet", schema(features=[Feature("visit"), Feature("x")], shape=[2]), rows
    )
    assert actual.tolist() == [[float(visit), x] for visit, x in zip(index, range(5), strict=True)]


def test_an_index_without_a_name_is_no_column_of_new_rows(tmp_path):
    pd.DataFrame({"x": [1.0, 2.0]}, index=[5, 3]).to_parquet(tmp_path / "new.parquet")
    notes = []
    rows = NewRows(
        tmp_path / "new.parquet", schema(features=[Feature("x")], shape=[1]), "refuse", notes.append
    )
    assert (
        np.concatenate([block.X for block in rows.blocks(1)]).tolist() == [[1], [2]] and notes == []
    )


LARGE = 2**53


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arff"])
def test_large_integers_are_the_categories_and_groups_of_training(tmp_path, ending):
    """From 2^53 on a float stands for several integers."""
    frame = pd.DataFrame({"code": pd.array([LARGE + 1, None, LARGE, LARGE + 2], dtype="Int64")})
    path = tmp_path / f"new{ending}"
    if ending == ".arff":
        path.write_text(
            "@RELATION n\n@ATTRIBUTE code NUMERIC\n@DATA\n"
            + f"{LARGE + 1}\n?\n{LARGE}\n{LARGE + 2}\n"
        )
    elif ending == ".csv":
        frame.to_csv(path, index=False, na_rep="NA")  # a line with one empty cell is no row
    else:
        frame.to_parquet(path)
    names = [str(LARGE + i) for i in range(3)]
    np.testing.assert_array_equal(
        read(path, schema(features=[Feature("code", names)], shape=[1]), 2)[:, 0], [1, np.nan, 0, 2]
    )
    grouped = schema(
        features=[Feature("code", names)],
        shape=[1],
        groups=GroupSchema([Feature("code", names)], names),
    )
    if ending != ".arff":
        frame.dropna().to_csv(tmp_path / "full.csv", index=False)
        blocks = NewRows(tmp_path / "full.csv", grouped, "refuse", lambda line: None).blocks(2)
        assert [
            int(group) for block in blocks if block.groups is not None for group in block.groups
        ] == [1, 0, 2]


@pytest.mark.parametrize(("cell", "position"), [(f"{LARGE + 1}.0", 1), ("9.007199254740992e15", 0)])
def test_a_large_category_is_found_digit_by_digit(tmp_path, cell, position):
    (tmp_path / "new.csv").write_text(f"code,a\n{cell},1\n")
    names = [str(LARGE), str(LARGE + 1)]
    assert read(
        tmp_path / "new.csv", schema(features=[Feature("code", names, of_numbers=True)], shape=[1])
    ).tolist() == [[position]]


@pytest.mark.parametrize("cell", ["1e999999999", "NaN ", "sNaN", "Infinity"])
def test_numbers_that_are_no_category(tmp_path, cell):
    (tmp_path / "new.csv").write_text(f"code,a\n{cell},1\n")
    rule = "the training data have 1, 2; --unseen missing reads such cells as missing"
    with pytest.raises(DataError, match=f"column 'code' has '{cell}' in row 0, and {rule}$"):
        read(tmp_path / "new.csv", schema(features=[Feature("code", ["1", "2"])], shape=[1]))


@pytest.mark.parametrize("form", ["ISO8601", "%d/%m/%Y", "duration"])
@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_dates_are_the_numbers_that_they_were_in_training(tmp_path, form, ending):
    typed = (
        pd.to_timedelta(["36h", "1h", None, "0h"])
        if form == "duration"
        else pd.to_datetime(["2001-02-03", "1969-12-31", None, "2001-02-28"])
    )
    frame = pd.DataFrame({"when": typed, "label": list("uvuv")})
    if form == "%d/%m/%Y":
        frame["when"] = frame["when"].dt.strftime(form)
    path = tmp_path / f"t{ending}"
    frame.to_csv(path, index=False) if ending == ".csv" else frame.to_parquet(path)
    trained = TableFile(str(path), "label", parse_dates=["when"]).load()
    layout = schema(
        features=[Feature("when", None, trained.facts["date_formats"]["when"])], shape=[1]
    )
    np.testing.assert_array_equal(read(path, layout), trained.X)
    assert trained.X[0, 0] == (1.5 if form == "duration" else 11356)


def test_a_new_cell_that_is_no_date(tmp_path):
    (tmp_path / "new.csv").write_text("when,a\n03/02/2001,1\n?,1\n2001-02-03,1\n")
    layout = schema(features=[Feature("when", None, "%d/%m/%Y")], shape=[1], missing=["?"])
    rule = "the model takes a date or time such as 31/01/2020 there"
    with pytest.raises(DataError, match=f"column 'when' has '2001-02-03' in row 2, and {rule}$"):
        read(tmp_path / "new.csv", layout)


def test_a_column_without_a_name_is_found_again(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,,label\n1,p,u\n2,q,v\n")
    trained = TableFile(str(path), "label").load()
    features = [
        Feature(name, values and list(values))
        for name, values in zip(trained.feature_names, trained.categories, strict=True)
    ]
    np.testing.assert_array_equal(read(path, schema(features=features, shape=[2])), trained.X)


SCORES = {
    "features": [Feature("a"), Feature("b"), Feature("h1")],
    "shape": [3],
    "classes": ["a", "b"],
}


@pytest.mark.parametrize("rows", [1, 2, 100])
def test_class_scores_become_probabilities_as_in_the_run(tmp_path, rows):
    scores = np.array([[0.501, 0.5, 7.0], [0.333, 0.666, -7.0], [0.25, 0.75, 0.0]])
    pd.DataFrame(scores, columns=["a", "b", "h1"]).to_csv(tmp_path / "new.csv", index=False)
    actual = read(tmp_path / "new.csv", schema(**SCORES, scores="probabilities"), rows)
    np.testing.assert_allclose(
        actual[:, :2], scores[:, :2] / scores[:, :2].sum(axis=1, keepdims=True), rtol=1e-15
    )
    np.testing.assert_array_equal(actual[:, 2], scores[:, 2])
    softmaxes = read(tmp_path / "new.csv", schema(**SCORES, scores="logits"), rows)
    np.testing.assert_allclose(softmaxes[:, :2], softmax(scores[:, :2], axis=1), rtol=1e-15)


def test_invalid_class_scores_are_refused_with_their_row(tmp_path):
    path = tmp_path / "new.csv"
    path.write_text("a,b,h1\n.5,.5,0\n.25,.75,0\n3,-1,0\n")
    problem = (
        "row 2 has sum 2 and least score -1 (1 such); the run was made of probabilities; give such"
    )
    message = (
        f"--input {path}: probabilities must be at least 0 and sum to 1 within 0.01, {problem}"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        read(path, schema(**SCORES, scores="probabilities"), 100)
    path.write_text("a,b,h1\n.5,.5,0\n,.75,0\n")
    with pytest.raises(
        DataError, match=f"^{re.escape(f'--input {path}: scores must be finite, row 1 is not')}$"
    ):
        read(path, schema(**SCORES, scores="logits"), 1)


def texts(columns, n_features: int = 16, **more) -> Schema:
    return schema(features=[], shape=[n_features], text=Texts(columns, n_features, **more))


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("columns", [["title"], ["title", "body"], ["body", "title"]])
@pytest.mark.parametrize("posts", [False, True])
def test_new_texts_become_rows_as_in_training(tmp_path, rows, columns, posts):
    path = tmp_path / "new.csv"
    head = "From: me\n\n"
    titles = [f"{head}Sun at sea", f"{head}NA ice\n> who?\nNorth we go", None]
    frame = pd.DataFrame(
        {"title": titles, "body": [f"{head}We sail", None, f"{head}snow"], "label": ["a", "b", "a"]}
    )
    frame.to_csv(path, index=False)
    trained = TextFile(str(path), text=columns, n_features=16, posts=posts).load()
    np.testing.assert_array_equal(read(path, texts(columns, posts=posts), rows), trained.X)


@pytest.mark.parametrize("rows", [1, 100])
def test_new_texts_have_the_mean_of_the_vectors_of_the_run(tmp_path, rows):
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("sun 1 2 3\nsea 5 6 7\n")
    path = tmp_path / "new.csv"
    path.write_text("text,label\nSun and sea,a\nnothing known,b\n")
    known = {"vectors": str(vectors), "vectors_sha256": sha256_of(vectors)}
    layout = schema(features=[], shape=[3], text=Texts(["text"], 16, **known))
    assert read(path, layout, rows).tolist() == [[3, 4, 5], [0, 0, 0]]
    vectors.write_text("sun 1 2 3\nsea 5 6 8\n")
    changed = (
        "has other content than when the run was made; put the former file back, or do the run"
        " again with force=true"
    )
    with pytest.raises(DataError, match=f"^{re.escape(f'dataset.vectors={vectors} {changed}')}$"):
        read(path, layout, rows)


@pytest.mark.parametrize("header", [",a,Unnamed: 0", "Unnamed: 1,,a", "a,,"])
def test_a_column_without_a_name_is_called_as_in_the_run(tmp_path, header):
    path = tmp_path / "new.csv"
    path.write_text(f"{header},label\n0.5,1.5,0.7,x\n0.3,2.5,0.9,y\n")
    trained = TableFile(str(path), "label").load()
    layout = schema(features=[Feature(name) for name in trained.feature_names], shape=[3])
    np.testing.assert_array_equal(read(path, layout), trained.X)
