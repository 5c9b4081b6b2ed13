from __future__ import annotations

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from pandas._libs import parsers

from kdgraph.data.dataset import CALIBRATION, TEST, TRAIN, UNUSED, FetchableTable
from kdgraph.data.tables import ScoreFile, TextFile
from kdgraph.data.tables.table_files import TableFile
from kdgraph.data.text_format import MISSING_CELLS
from kdgraph.errors import DataError, DataNotAvailable, ParameterError

pytestmark = pytest.mark.usefixtures("in_tmp_path")


def people() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": [31.5, 42.0, None, 27.0],
            "town": ["Ulm", "Bonn", "Ulm", None],
            "label": ["no", "yes", "no", "yes"],
        }
    )


def write_text(path, text, encoding="utf-8") -> str:
    with open(path, "w", encoding=encoding, newline="") as file:
        file.write(text)
    return path


def assert_refused(message: str, *arguments, error=DataError, **options) -> None:
    with pytest.raises(error, match=f"^{re.escape(message)}$"):
        TableFile(*arguments, **options).load()


WRITERS = {
    "p.csv": lambda f: f.to_csv("p.csv", index=False),
    "p.csv.gz": lambda f: f.to_csv("p.csv.gz", index=False),
    "p.CSV.bz2": lambda f: f.to_csv("p.CSV.bz2", index=False),
    "p.csv.xz": lambda f: f.to_csv("p.csv.xz", index=False),
    "p.tsv": lambda f: f.to_csv("p.tsv", index=False, sep="\t"),
    "p.parquet": lambda f: f.to_parquet("p.parquet"),
    "p.pq": lambda f: f.to_parquet("p.pq", index=False),
}


@pytest.mark.parametrize("path", WRITERS)
def test_all_file_formats_give_the_same_table(path):
    WRITERS[path](people())
    source = TableFile(path, "label")
    data = source.load()
    assert source.name == data.name == "p"
    np.testing.assert_array_equal(data.X, [[31.5, 1], [42, 0], [np.nan, 1], [27, np.nan]])
    assert data.categories == (None, ("Bonn", "Ulm"))
    assert data.classes[data.y].tolist() == ["no", "yes", "no", "yes"]
    assert (
        data.facts["path"] == path
        and data.facts["n_rows"] == 4
        and data.facts["n_columns"] == 3
        and len(data.facts["sha256"]) == 16
    )
    assert isinstance(source, FetchableTable)


ARFF = """% people
@RELATION people
@ATTRIBUTE age NUMERIC
@ATTRIBUTE 'home town' {Ulm, 'New York', Bonn}
@ATTRIBUTE floor {1, 2}
@ATTRIBUTE note STRING
@ATTRIBUTE label {no, yes}
@DATA
31.5,Ulm,1,a,no
?,'New York',2,b,yes
27,?,2,a,no
"""


def test_nominal_attributes_of_arff_are_categorical():
    data = TableFile(write_text("people.arff", ARFF), "label").load()
    assert data.feature_names == ("age", "home town", "floor", "note")
    assert data.categories == (None, ("New York", "Ulm"), ("1", "2"), ("a", "b"))
    np.testing.assert_array_equal(data.X, [[31.5, 1, 0, 0], [np.nan, 0, 1, 1], [27, np.nan, 1, 0]])
    assert data.classes.tolist() == ["no", "yes"]


def test_column_options_are_applied():
    people().assign(
        g=["p", "q", "r", "p"], part=["train", "test", "val", "unused"], when="2020-01-01"
    ).to_csv("p.csv", index=False)
    data = TableFile(
        "p.csv",
        "label",
        drop=["when"],
        missing=[42],
        categorical=["town"],
        split_groups="g",
        split_column="part",
    ).load()
    assert data.feature_names == ("age", "town")
    assert np.isnan(data.X[1, 0])
    assert data.split_groups is not None and data.split_groups.tolist() == [0, 1, 2, 0]
    assert data.roles is not None and data.roles.tolist() == [TRAIN, TEST, CALIBRATION, UNUSED]
    assert TableFile("p.csv", "age", drop=["when"], task="classification").task == "classification"


def test_missing_cells_of_text_files_are_those_of_pandas():
    assert set(MISSING_CELLS) == parsers.STR_NA_VALUES


@pytest.mark.filterwarnings("ignore:.*is read as missing in the text of 'b'")
@pytest.mark.parametrize("cell", MISSING_CELLS)
def test_missing_cells_are_missing_among_numbers_and_text(cell):
    data = TableFile(write_text("p.csv", f"a,b,label\n1,u,x\n{cell},{cell},y\n"), "label").load()
    assert np.isnan(data.X[1]).all()


@pytest.mark.parametrize("cell", ["none", "N.A.", "?", "-", " ", " NA"])
def test_other_cells_are_text(cell):
    path = write_text("p.csv", f"a,label\nu,x\n{cell},y\n")
    assert TableFile(path, "label").load().categories == (tuple(sorted([cell, "u"])),)


def test_words_read_as_missing_text_are_reported():
    path = write_text("p.csv", "a,c,label\nNA,1,x\nDE,2,y\nNone,NA,y\n,3,x\n")
    words = r"'dataset\.not_missing=\[NA,None\]'"
    expected = rf"^p: 'NA', 'None' is read as missing in the text of 'a'; {words} takes it as text$"
    with pytest.warns(UserWarning, match=expected):
        data = TableFile(path, "label").load()
    assert data.categories == (("DE",), None)
    loaded = TableFile(path, "label", not_missing=["NA", "None"], missing=["NA"]).load()
    assert loaded.categories == (("DE", "None"), None)
    assert np.isnan(loaded.X[[0, 3], 0]).all()


def test_labels_read_as_missing_are_refused_with_a_remedy():
    path = write_text("p.csv", "a,country\n1,NA\n2,DE\n3,NA\n")
    with pytest.raises(DataError) as raised:
        TableFile(path, "country").load()
    assert str(raised.value) == (
        "p: 'NA' is read as missing, in 2 of 3 labels in 'country'; 'dataset.not_missing=[NA]'"
        " takes it as a label"
    )
    data = TableFile(path, "country", not_missing=["NA"]).load()
    assert data.classes.tolist() == ["DE", "NA"]


def test_spaces_belong_to_text_and_a_warning_names_the_way_out():
    path = write_text("p.csv", "a, b,label\n1, u,x\n2, w,y\n")
    with pytest.warns(UserWarning, match=r"the cells of 'b' begin with a space.*skip_spaces=true"):
        data = TableFile(path, "label").load()
    assert data.categories == (None, (" u", " w")) and data.feature_names == ("a", "b")
    assert TableFile(path, "label", skip_spaces=True).load().categories == (None, ("u", "w"))


def test_decimal_commas():
    path = write_text("p.csv", "a;b;label\n1,5;0,1;x\n2;-3,25e2;y\n")
    data = TableFile(path, "label", separator=";", decimal=",").load()
    assert data.X.tolist() == [[1.5, 0.1], [2.0, -325.0]]


def test_trailing_separators_are_ignored():
    path = write_text("p.csv", 'a, b, label,\n1, "u, v", x,\n2, w, y,\n')
    data = TableFile(path, "label", skip_spaces=True).load()
    assert data.feature_names == ("a", "b")
    assert data.categories == (None, ("u, v", "w"))
    assert data.classes.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("separator", "between"), [(";", ";"), (r"\t", "\t"), ("tab", "\t"), ("|", "|"), (r"\s+", "  ")]
)
def test_separators(separator, between):
    rows = [["a", "b", "label"], ["1", "2", "x"], ["3", "4", "y"]]
    path = write_text("p.csv", "\n".join(between.join(row) for row in rows))
    assert TableFile(path, "label", separator=separator).load().X.tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig", "cp1252"])
def test_encodings(encoding):
    path = write_text("p.csv", "a,label\n1,schön\n2,übel\n", encoding)
    options = {} if encoding == "utf-8-sig" else {"encoding": encoding}
    assert TableFile(path, "label", **options).load().classes.tolist() == ["schön", "übel"]


@pytest.mark.parametrize("ending", ["csv", "arff"])
@pytest.mark.parametrize(
    ("file_encoding", "names"),
    [
        ("utf-8", ["utf-8", "UTF-8", "utf8", "utf_8", "utf-8-sig", "UTF_8_SIG", "U8"]),
        (
            "utf-8-sig",
            ["utf-8", "UTF-8", "utf8", "utf_8", "utf-8-sig", "utf_8_sig", "UTF-8-SIG", "cp65001"],
        ),
        ("latin-1", ["latin-1", "Latin1", "latin_1", "ISO-8859-1", "L1", "cp1252", "windows-1252"]),
        ("utf-16", ["utf-16", "UTF16", "utf_16", "utf-16-le", "utf-16-be"]),
        ("utf-16-be", ["utf-16-be", "UTF_16BE"]),
        ("utf-32", ["utf-32", "U32", "utf-32-be"]),
    ],
)
def test_synonyms_of_encodings_and_byte_order_marks(file_encoding, names, ending):
    heads = {
        "csv": "größe,label\n",
        "arff": "@RELATION r\n@ATTRIBUTE größe NUMERIC\n@ATTRIBUTE label {süß,übel}\n@DATA\n",
    }
    path = write_text(f"p.{ending}", heads[ending] + "1,süß\n2,übel\n", file_encoding)
    for encoding in names:
        data = TableFile(path, "label", encoding=encoding).load()
        assert (data.feature_names, data.classes.tolist()) == (("größe",), ["süß", "übel"])


def test_byte_order_mark_of_another_encoding_is_refused():
    for file_encoding, encoding in (
        ("utf-8-sig", "latin-1"),
        ("utf-16", "utf-8"),
        ("utf-32", "utf-16"),
    ):
        write_text("p.csv", "a,label\n1,x\n2,y\n", file_encoding)
        marked = file_encoding.removesuffix("-sig")
        assert_refused(
            f"dataset.path=p.csv is text in {marked.upper()}; give dataset.encoding={marked}",
            "p.csv",
            "label",
            encoding=encoding,
        )
        assert TableFile("p.csv", "label", encoding=marked).load().feature_names == ("a",)


def test_file_with_only_a_byte_order_mark_is_empty():
    assert_refused("dataset.path=p.csv is empty", write_text("p.csv", "", "utf-8-sig"), "label")
    assert_refused(
        "dataset.path=p.csv is empty",
        write_text("p.csv", "\n \n", "utf-16"),
        "label",
        encoding="utf-16",
    )


@pytest.mark.parametrize("encoding", ["utf-9", "hex", "rot13", "undefined", ""])
def test_unknown_encoding_is_refused_before_the_file_is_opened(encoding):
    rule = "is not an encoding of Python; it has utf-8, latin-1, utf-16 and others"
    for source in (TableFile, ScoreFile, TextFile):
        with pytest.raises(
            DataError, match=f"^{re.escape(f'dataset.encoding={encoding} {rule}')}$"
        ):
            source("absent.csv", target="label", encoding=encoding)


@pytest.mark.parametrize("line_ending", ["\n", "\r\n"], ids=repr)
@pytest.mark.parametrize("line", ["sep=;", "SEP=;", '"sep=;"', "sep=;;;"])
@pytest.mark.parametrize("separator", [None, ";"])
@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_separator_line_of_excel_is_no_row(line, line_ending, separator, encoding):
    path = write_text(
        "p.csv", line_ending.join([line, "a;b;label", "1;2,x;u", "3;4,y;v", ""]), encoding
    )
    data = TableFile(path, "label", separator=separator, encoding=encoding).load()
    assert data.feature_names == ("a", "b") and data.categories == (None, ("2,x", "4,y"))
    assert data.X[:, 0].tolist() == [1, 3]


def test_separator_line_of_excel_may_name_a_tab():
    data = TableFile(write_text("p.csv", "sep=\t\na\tlabel\n1\tx\n3\ty\n"), "label").load()
    assert data.feature_names == ("a",)


def test_name_in_a_header_may_contain_a_line_break():
    assert TableFile(
        write_text("p.csv", '"a\nb",c,label\n1,5,x\n2,6,y\n'), "label"
    ).load().feature_names == ("a\nb", "c")


@pytest.mark.parametrize(
    "index",
    [["u7", "u3", "u9", "u1"], [4.5, 2.0, 8.0, 1.0], range(10, 18, 2)],
    ids=["text", "numbers", "range"],
)
def test_named_index_of_parquet_is_a_column(index):
    frame = pd.DataFrame(
        {"a": [1.0, 2.0, 3.0, 4.0], "label": list("xyxy")}, index=pd.Index(index, name="visit")
    )
    frame.to_parquet("p.parquet")
    data = TableFile("p.parquet", "label", split_groups="visit").load()
    assert data.feature_names == ("a",) and len(set(data.split_groups)) == 4
    assert TableFile("p.parquet", "label").load().feature_names == ("visit", "a")


def test_nameless_index_levels_of_parquet_are_no_columns():
    levels = pd.MultiIndex.from_arrays([list("pqrs"), [4, 3, 2, 1]], names=["ward", None])
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0], "label": list("xyxy")}, index=levels)
    frame.to_parquet("p.parquet")
    assert TableFile("p.parquet", "label").load().feature_names == ("ward", "a")
    frame.reset_index(drop=True).iloc[::-1].to_parquet("q.parquet")
    assert TableFile("q.parquet", "label").load().feature_names == ("a",)


def test_index_and_column_with_the_same_name_are_refused():
    frame = pd.DataFrame({"a": [1.0, 2.0], "label": list("xy")}, index=pd.RangeIndex(2, name="a"))
    frame.to_parquet("p.parquet")
    assert_refused(
        "dataset.path=p.parquet: the index and a column are both named 'a'; give each its own name",
        "p.parquet",
        "label",
    )


@pytest.mark.parametrize("line_ending", ["\n", "\r\n", "\r"], ids=repr)
def test_line_endings(line_ending):
    assert TableFile(
        write_text("p.csv", line_ending.join(["", "a,label", "1,x", "2,y", ""])), "label"
    ).load().X.tolist() == [[1], [2]]


def test_nameless_row_numbers_are_dropped():
    people().to_csv("p.csv")
    with pytest.warns(
        UserWarning,
        match=r"^p: columns that number the rows are left out: 'Unnamed: 0'; rename one to use it$",
    ):
        assert TableFile("p.csv", "label").load().feature_names == ("age", "town")
    with pytest.warns(
        UserWarning,
        match=r"^q: columns that number the rows are left out: 'Unnamed: 0'; rename one to use it$",
    ):
        assert TableFile(
            write_text("q.csv", ",a,label\n5,1,x\n3,2,y\n"), "label"
        ).load().feature_names == ("a",)
    repeated_names = write_text("s.csv", ",Unnamed: 0,a,label\n5,6,1,x\n3,7,2,y\n")
    with pytest.warns(
        UserWarning,
        match=(
            r"^s: columns that number the rows are left out: 'Unnamed: 0.1', 'Unnamed: 0'; rename"
            r" one to use it$"
        ),
    ):
        assert TableFile(repeated_names, "label").load().feature_names == ("a",)
    text = TableFile(write_text("r.csv", "a,,label\n1,p,x\n2,q,y\n"), "label").load()
    assert text.feature_names == ("a", "Unnamed: 1"), "as pandas calls it where new rows are read"
    dates = TableFile(
        write_text("d.csv", ",a,label\n2020-01-01,1,x\n2020-01-03,2,y\n"),
        "label",
        parse_dates=["Unnamed: 0"],
    ).load()
    assert dates.feature_names == ("Unnamed: 0", "a"), "a column that is asked for is no index"
    groups = TableFile(
        write_text("g.csv", ",a,label\n0,1,x\n1,2,y\n"), "label", split_groups="Unnamed: 0"
    ).load()
    assert groups.feature_names == ("a",) and groups.split_groups is not None


def test_home_absolute_and_relative_paths(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    people().to_csv("p.csv", index=False)
    for path in ("~/p.csv", str(tmp_path / "p.csv"), "./p.csv"):
        assert TableFile(path, "label").load().name == "p"


def test_name_may_be_set():
    people().to_csv("p.csv", index=False)
    assert TableFile("p.csv", "label", name="people").load().name == "people"


def test_constructor_does_not_read_the_file():
    assert TableFile("not/there.csv", "label").name == "there"
    with pytest.raises(ParameterError, match=r"^path must be a string, got None$"):
        TableFile(None, "label")  # type: ignore[arg-type]


# Invalid files.


def test_missing_file_is_refused_with_a_suggestion(tmp_path):
    people().to_csv("people.csv", index=False)
    assert_refused(
        f"dataset.path=poeple.csv: no such file in {tmp_path}; did you mean 'people.csv'?",
        "poeple.csv",
        "label",
    )
    assert_refused(f"dataset.path=x.csv: no such file in {tmp_path}", "x.csv", "label")
    assert_refused(
        f"dataset.path=data/x.csv: there is no folder {tmp_path}/data", "data/x.csv", "label"
    )
    (tmp_path / "folder.csv").mkdir()
    assert_refused("dataset.path=folder.csv is a folder; give one file", "folder.csv", "label")


@pytest.mark.parametrize("path", ["p.xls", "p", "p.csv.7z", ".csv"])
def test_unknown_endings_are_refused(path):
    write_text(path, "a,label\n1,x\n")
    endings = ".csv, .tsv, .jsonl, .ndjson, .parquet, .pq, .feather, .arff, .xlsx"
    assert_refused(
        f"dataset.path={path}: the ending of a file determines its kind, and must be one of"
        f" {endings}",
        path,
        "label",
    )


@pytest.mark.parametrize("text", ["", "\n \n\n"], ids=repr)
@pytest.mark.parametrize("path", ["p.csv", "p.arff"])
def test_empty_file_is_refused(path, text):
    assert_refused(f"dataset.path={path} is empty", write_text(path, text), "label")


def test_header_without_rows_is_refused():
    assert_refused(
        "p: the table has 2 columns and no rows", write_text("p.csv", "a,label\n"), "label"
    )


@pytest.mark.parametrize("ending", ["parquet", "pq"])
def test_invalid_parquet_file_is_refused(ending):
    path = write_text(f"p.{ending}", "a,label\n1,x\n")
    with pytest.raises(
        DataError, match=rf"^dataset\.path=p\.{ending} is not a parquet file, or damaged: [^\n]+$"
    ):
        TableFile(path, "label").load()


def test_other_formats_named_csv_are_refused():
    people().to_parquet("p.csv")
    assert_refused(
        "dataset.path=p.csv is a parquet file, not text; give it the ending of its kind",
        "p.csv",
        "label",
    )
    np.savez("q.npz", X=np.zeros(2))
    with open("q.npz", "rb") as file, open("q.csv", "wb") as copy:
        copy.write(file.read())
    message = (
        "dataset.path=q.csv is a zip archive, as spreadsheets and npz files are, not text; give"
        " it the ending of its kind"
    )
    assert_refused(message, "q.csv", "label")
    write_text("r.csv", "a,label\n1,x\n\0,y\n")
    assert_refused("dataset.path=r.csv is not text: byte 12 is 0", "r.csv", "label")
    write_text("s.csv.gz", "a,label\n1,x\n")
    assert_refused(
        "dataset.path=s.csv.gz cannot be read: Not a gzipped file (b'a,')", "s.csv.gz", "label"
    )


def test_truncated_compressed_file_is_refused():
    people().to_csv("p.csv.gz", index=False)
    with open("p.csv.gz", "rb+") as file:
        file.truncate(40)
    assert_refused(
        "dataset.path=p.csv.gz cannot be read: Compressed file ended before the end-of-stream"
        " marker was reached",
        "p.csv.gz",
        "label",
    )


def test_text_in_another_encoding_is_refused():
    path = write_text("p.csv", "a,label\n1,schön\n2,no\n", "latin-1")
    problem = (
        "is not text in utf-8: byte 13 (0xf6) cannot be decoded; it may be dataset.encoding=latin-1"
    )
    assert_refused(f"dataset.path=p.csv {problem}", path, "label")
    assert_refused(
        "dataset.path=p.csv is not text in ascii: byte 13 (0xf6) cannot be decoded",
        path,
        "label",
        encoding="ascii",
    )
    assert_refused(
        "dataset.path=q.csv is text in UTF-16; give dataset.encoding=utf-16",
        write_text("q.csv", "a,label\n", "utf-16"),
        "label",
    )
    rule = "is not an encoding of Python; it has utf-8, latin-1, utf-16 and others"
    for encoding in ("utf9", "base64"):
        assert_refused(f"dataset.encoding={encoding} {rule}", path, "label", encoding=encoding)
    assert_refused(
        "dataset.path=p.csv is not text in utf-16: UTF-16 stream does not start with BOM",
        path,
        "label",
        encoding="utf-16",
    )


def test_invalid_byte_deep_in_a_file_is_located():
    start = "a,label\n" + "1,x\n" * 600_000
    with open("p.csv", "wb") as file:
        file.write(start.encode() + "é,y\n".encode()[:1] + b",y\n")
    position = f"{len(start):,}"
    message = (
        f"dataset.path=p.csv is not text in utf-8: byte {position} (0xc3) cannot be decoded; it may"
        " be dataset.encoding=latin-1"
    )
    assert_refused(message, "p.csv", "label")


def test_rows_that_do_not_fit_the_header_are_refused():
    way_out = "see dataset.separator, and quote cells that contain it"
    problem = "dataset.path=p.csv is not a table with ',' between cells:"
    write_text("p.csv", "a,label\n1,x\n2,3,4,y\n")
    assert_refused(
        f"{problem} line 3 has 4 cells, and those before it 2; {way_out}", "p.csv", "label"
    )
    write_text("p.csv", "a,label\n1,x,2\n2,y,3\n")
    assert_refused(
        f"{problem} some rows have more cells than the header, which has 2; {way_out}",
        "p.csv",
        "label",
    )
    write_text("p.csv", 'a,label\n1,"x\n2,y\n')
    assert_refused(f"{problem} EOF inside string starting at row 1; {way_out}", "p.csv", "label")
    write_text("p.csv", "a b\n1 2 3 4\n")
    write_text("p.tsv", "a\tlabel\n1\tx\n2\t3\t4\ty\n")
    message = (
        "dataset.path=p.tsv is not a table with tab between cells: line 3 has 4 cells, and those"
        f" before it 2; {way_out}"
    )
    assert_refused(message, "p.tsv", "label")


@pytest.mark.parametrize(
    ("separator", "override"),
    [
        (";", "'dataset.separator=\";\"'"),
        ("\t", "dataset.separator=tab"),
        ("|", "'dataset.separator=\"|\"'"),
    ],
)
def test_wrong_separator_is_refused_with_advice(separator, override):
    rows = ["a", "label"], ["1", "x"], ["2", "y"]
    path = write_text("p.csv", "\n".join(separator.join(row) for row in rows))
    header = repr(separator.join(rows[0]))
    assert_refused(
        f"dataset.path=p.csv has one column, {header}; its cells seem to be separated otherwise:"
        f" {override}",
        path,
        "label",
    )


def test_invalid_separators_are_refused():
    write_text("p.csv", "a,label\n1,x\n")
    rule = (
        r"dataset.separator must be one ASCII character such as ; or |, tab for a tab or \s+ for"
        r" white space"
    )
    for separator in (", ", "", '"', "§", "\n"):
        assert_refused(f"{rule}, got '{separator}'", "p.csv", "label", separator=separator)


def test_repeated_column_names_are_refused():
    assert_refused(
        "p: several columns have the same name (a); give each column its own",
        write_text("p.csv", "a,a,label\n1,2,x\n3,4,y\n"),
        "label",
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a,label\n1,x\n", "Invalid layout of the ARFF file, at line 2."),
        ("@RELATION t\n@ATTRIBUTE a DATE\n@DATA\n1\n", "Bad @ATTRIBUTE type, at line 2."),
        (
            "@RELATION t\n@ATTRIBUTE a {p,q}\n@DATA\np\nr\n",
            "Data value r not found in nominal declaration",
        ),
        ("@RELATION t\n@ATTRIBUTE a NUMERIC\n@DATA\none\n", "Invalid numerical value"),
    ],
)
def test_invalid_arff_is_refused(text, reason):
    assert_refused(
        f"dataset.path=p.arff is not ARFF: {reason}", write_text("p.arff", text), "label"
    )


# Row numbers by role.


def with_indices(indices, name="rows.json", n=6) -> TableFile:
    pd.DataFrame({"a": np.arange(n), "label": np.arange(n) % 2}).to_csv("p.csv", index=False)
    if name.endswith(".npz"):
        np.savez(name, **indices)
    else:
        write_text(name, json.dumps(indices))
    return TableFile("p.csv", "label", indices=name)


@pytest.mark.parametrize("name", ["rows.json", "rows.npz"])
def test_indices_define_the_roles(name):
    data = with_indices({"train": [0, 1, 4], "calibration": [3], "test": [5]}, name).load()
    assert data.roles is not None and data.roles.tolist() == [
        TRAIN,
        TRAIN,
        UNUSED,
        CALIBRATION,
        TRAIN,
        TEST,
    ]


@pytest.mark.parametrize(
    ("indices", "problem"),
    [
        (
            {"train": [0, 1, 2], "test": [2, 3, 1]},
            " has row 2 in train and in test (2 such rows); a row has one role",
        ),
        ({"train": [0, 6], "test": [1]}, ": train has row 6, but rows go from 0 to 5"),
        ({"train": [0], "test": [-1]}, ": test has row -1, but rows go from 0 to 5"),
        (
            {"train": [0, 0, 1], "test": [2]},
            ": train has 1 row numbers more than once; each row counts once",
        ),
        (
            {"train": [0.5], "test": [2]},
            ": train must be a list of row numbers, got float64 of shape (1,)",
        ),
        ({"train": 3, "test": [2]}, ": train must be a list of row numbers, got int64 of shape ()"),
        (
            {"train": [[0], [1, 2]], "test": [2]},
            ": train must be a list of row numbers, got lists of several lengths",
        ),
        (
            {"train": [0], "tset": [1]},
            " has 'tset'; it may have train, calibration and test; did you mean 'test'?",
        ),
        (
            {"train": [0]},
            " names no row for test; a split needs rows that train and rows that test",
        ),
        (
            {"train": [], "test": [0]},
            " names no row for train; a split needs rows that train and rows that test",
        ),
    ],
    ids=repr,
)
def test_invalid_indices_are_refused(indices, problem):
    with pytest.raises(DataError, match=f"^{re.escape(f'p: dataset.indices{problem}')}$"):
        with_indices(indices).load()


def test_invalid_files_of_indices_are_refused(tmp_path):
    people().to_csv("p.csv", index=False)
    assert_refused(
        f"dataset.indices=rows.json: no such file in {tmp_path}",
        "p.csv",
        "label",
        indices="rows.json",
    )
    write_text("rows.json", "[1]")
    assert_refused(
        'dataset.indices=rows.json must be like {"train": [0, 1], "test": [2]}, got list',
        "p.csv",
        "label",
        indices="rows.json",
    )
    assert_refused(
        "dataset.indices=p.csv: the ending of a file determines its kind, and must be one of .json,"
        " .npz",
        "p.csv",
        "label",
        indices="p.csv",
    )
    for name in ("rows.json", "rows.npz"):
        write_text(name, "{")
        with pytest.raises(
            DataError,
            match=(
                rf"^dataset\.indices={name} is not a {name[5:]} file with lists of row numbers:"
                r" [^\n]+$"
            ),
        ):
            TableFile("p.csv", "label", indices=name).load()


def test_indices_and_split_column_exclude_each_other():
    message = (
        "^dataset.indices and dataset.split_column both define which rows test; give one of them$"
    )
    with pytest.raises(DataError, match=message):
        TableFile("p.csv", "label", indices="i.json", split_column="part")


# Checks before a run starts.


def test_prefetch_reports_missing_files(tmp_path):
    with pytest.raises(DataError, match=r"^dataset\.path=p\.csv: no such file"):
        TableFile("p.csv", "label").prefetch()
    write_text("p.csv", "this is read later")
    TableFile("p.csv", "label").prefetch()
    with pytest.raises(DataError, match=r"^dataset\.indices=i\.json: no such file"):
        TableFile("p.csv", "label", indices="i.json").prefetch()


def test_prefetch_checks_require_numeric():
    people().to_csv("p.csv")
    message = (
        "p has 1 categorical column (town) and 2 missing cells, and dataset.require=numeric shuts"
        " it out; dataset.require=any lets it in"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(DataNotAvailable, match=f"^{re.escape(message)}$"):
            TableFile("p.csv", "label", require="numeric").prefetch()


# Names of columns that a command line does not read as text.


def test_column_names_may_be_numbers_or_contain_commas():
    table = pd.DataFrame(
        {
            "1": [0.5, 1.5, 2.5, 3.5],
            "2": [1, 2, 1, 2],
            "3": list("pqpq"),
            "a,b": [1, 0, 1, 0],
            "2020": list("uvuv"),
            "5": ["train", "test", "train", "test"],
            "6": [f"2020-01-0{i}" for i in range(1, 5)],
        }
    )
    table.to_csv("n.csv", index=False)
    data = TableFile(
        "n.csv",
        2020,
        drop=["a,b"],
        categorical=[2],
        split_groups=3,
        split_column=5,
        group=2,
        parse_dates=[6],
    ).load()
    assert data.feature_names == ("1", "2", "6") and data.categories == (None, ("1", "2"), None)
    assert (
        data.group_names == ("1", "2") and data.split_groups is not None and data.roles is not None
    )
    two_targets = TableFile("n.csv", ["a,b", 1], drop=[2020, 5], parse_dates=[6]).load()
    assert two_targets.classes[two_targets.y].tolist() == ["a,b", "1", "1", "1"]
    with pytest.raises(
        DataError, match=r"^n has no column '2021' \(dataset\.target\); did you mean '2020'\?$"
    ):
        TableFile("n.csv", 2021).load()


def test_target_may_be_a_number_or_contain_a_comma():
    for value, name in ((2020, "2020"), ("a,b", "a,b"), ("1.5", "1.5")):
        assert TableFile("n.csv", value).target == name
    with pytest.raises(
        ParameterError, match=r"^target must be a string or a number or a list, got True$"
    ):
        TableFile("n.csv", True)  # type: ignore[arg-type]
