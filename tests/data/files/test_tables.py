"""One table in files of all kinds, read for a run and for a prediction."""

from __future__ import annotations

import gzip
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kdgraph.data.tables import TableFile
from kdgraph.data.text_format import TextFormat
from kdgraph.deployment.schema import Feature, Schema
from kdgraph.errors import DataError, UsageError
from kdgraph.runner.prediction.rows import NewRows

LARGE = 2**53 + 1
FRAME = pd.DataFrame(
    {
        "age": [31.5, np.nan, 0.1, 1e-300],
        "zip": [4, 5, 6, 7],
        "job": ["chef", "nurse", None, "chef"],
        "sure": [True, False, True, True],
        "label": ["no", "yes", "no", "yes"],
    }
)
EXPECTED = np.array([[31.5, 4, 0, 1], [np.nan, 5, 1, 0], [0.1, 6, np.nan, 1], [1e-300, 7, 0, 1]])
SCHEMA = Schema(
    "rows",
    "label",
    [Feature("age"), Feature("zip"), Feature("job", ["chef", "nurse"]), Feature("sure")],
    shape=[4],
    classes=["no", "yes"],
)


def write_zip(path: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inner/rows.csv", FRAME.to_csv(index=False))
        archive.writestr("__MACOSX/._rows.csv", b"\0\1")


def write_spreadsheet(path: str) -> None:
    pytest.importorskip("openpyxl", reason="the extra excel is not installed")
    FRAME.to_excel(path, index=False)


def write_json_lines(path: str) -> None:
    FRAME.to_json(path, orient="records", lines=True, double_precision=15)
    if not path.endswith(".gz"):  # pandas writes 1e-300 as 0
        Path(path).write_text(Path(path).read_text().replace('"age":0.0', '"age":1e-300'))
        return
    text = gzip.decompress(Path(path).read_bytes()).decode().replace('"age":0.0', '"age":1e-300')
    Path(path).write_bytes(gzip.compress(text.encode()))


WRITERS: dict[str, Callable[[str], None]] = {
    "rows.csv": lambda path: FRAME.to_csv(path, index=False),
    "rows.csv.zip": write_zip,
    "rows.zip": write_zip,
    "rows.jsonl": write_json_lines,
    "rows.ndjson": write_json_lines,
    "rows.jsonl.gz": write_json_lines,
    "rows.parquet": FRAME.to_parquet,
    "rows.feather": FRAME.to_feather,
    "rows.xlsx": write_spreadsheet,
    "rows": lambda path: FRAME.assign(part=[1, 1, 2, 2]).to_parquet(path, partition_cols=["part"]),
}


pytestmark = pytest.mark.usefixtures("in_tmp_path")


def new_rows(path: str, rows: int = 3) -> np.ndarray:
    blocks = NewRows(Path(path), SCHEMA, "refuse", lambda line: None).blocks(rows)
    return np.concatenate([block.X for block in blocks])


@pytest.mark.parametrize("path", WRITERS)
def test_a_table_is_the_same_in_files_of_every_kind(path):
    WRITERS[path](path)
    data = TableFile(path, "label", drop=["part"] if path == "rows" else []).load()
    np.testing.assert_array_equal(data.X, EXPECTED)
    assert data.feature_names == ("age", "zip", "job", "sure") and data.name == "rows"
    assert data.classes.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(new_rows(path), EXPECTED)
    assert len(data.facts["sha256"]) == 16


def test_the_folders_of_a_partitioned_table_are_a_column():
    WRITERS["rows"]("rows")
    data = TableFile("rows", "label").load()
    assert data.feature_names[-1] == "part" and data.categories[-1] == ("1", "2")
    column = data.source_columns[-1].restore(data.X[:, -1])
    pd.testing.assert_series_equal(column, pd.read_parquet("rows")["part"])


def test_the_digest_of_a_folder_is_that_of_its_files():
    WRITERS["rows"]("rows")
    before = TableFile("rows", "label").load().facts["sha256"]
    file = next(Path("rows").rglob("*.parquet"))
    file.rename(file.with_name("other.parquet"))
    assert TableFile("rows", "label").load().facts["sha256"] != before


def test_whole_numbers_of_json_lines_keep_their_digits():
    lines = [f'{{"id": {LARGE}, "y": 0}}', '{"id": null, "y": 1}', f'{{"id": {LARGE - 1}, "y": 0}}']
    Path("rows.jsonl").write_text("\n".join(lines))
    data = TableFile("rows.jsonl", "y", categorical=["id"]).load()
    assert data.categories == ((str(LARGE - 1), str(LARGE)),)


def test_numbers_and_text_of_json_lines_keep_their_types():
    Path("rows.jsonl").write_text('{"a": "01", "y": 0}\n{"a": "1", "y": 1}\n{"a": "2", "y": 1}')
    data = TableFile("rows.jsonl", "y", categorical=["a"]).load()
    column = data.source_columns[0].restore(data.X[:, 0])
    assert column.tolist() == ["01", "1", "2"]


def test_first_sheet_is_read_and_other_sheets_are_named():
    pytest.importorskip("openpyxl", reason="the extra excel is not installed")
    with pd.ExcelWriter("rows.xlsx") as book:
        FRAME.to_excel(book, sheet_name="may", index=False)
        FRAME.to_excel(book, sheet_name="june", index=False)
    with pytest.warns(UserWarning, match="'may' is read, the first sheet; .* left out: june"):
        assert len(TableFile("rows.xlsx", "label").load().y) == 4


def test_codes_of_a_spreadsheet_keep_leading_zeros():
    pytest.importorskip("openpyxl", reason="the extra excel is not installed")
    frame = pd.DataFrame({"code": ["01", "1", "02"], "country": ["NA", "DE", None], "y": [0, 1, 1]})
    frame.to_excel("rows.xlsx", index=False)
    options = {"categorical": ["code"], "not_missing": ["NA"]}
    assert TableFile("rows.xlsx", "y", **options).load().categories == (
        ("01", "02", "1"),
        ("DE", "NA"),
    )


DAMAGED = {
    "two.zip": (lambda p: zipfile.ZipFile(p, "w").close(), "ending of a file determines its kind"),
    "rows.csv.zip": (lambda p: Path(p).write_bytes(b"no archive"), "not a zip file"),
    "rows.jsonl": (lambda p: Path(p).write_text("[1, 2]"), "line 1 must be an object such as"),
    "list.jsonl": (lambda p: Path(p).write_text('{"a": [1]}'), "line 1 has a list in 'a'"),
    "text.jsonl": (lambda p: Path(p).write_text('{"a": 1}\n{'), "line 2 is not JSON"),
    "rows.feather": (lambda p: Path(p).write_bytes(b"ARROW1"), "is not a feather file, or damaged"),
    "rows.xlsx": (lambda p: Path(p).write_bytes(b"PK\3\4"), "is not a spreadsheet, or damaged"),
    "folder": (lambda p: Path(p).mkdir(), "is a folder"),
}


@pytest.mark.parametrize("path", DAMAGED)
def test_what_is_no_such_file_is_refused_in_one_line(path):
    write, message = DAMAGED[path]
    write(path)
    with pytest.raises(DataError, match=message) as of_run:
        TableFile(path, "label").load()
    with pytest.raises(UsageError) as of_prediction:
        new_rows(path)
    assert not any("\n" in str(error.value) for error in (of_run, of_prediction))
    assert str(of_prediction.value).startswith(f"--input {path}")


def test_decimal_commas_and_kept_words_hold_for_new_rows_too():
    Path("rows.csv").write_text("age;job\n1,5;NA\n-2e-1;chef\n")
    text_format = TextFormat(separator=";", decimal=",", not_missing=["NA"])
    features = [Feature("age"), Feature("job", ["NA", "chef"])]
    schema = Schema("rows", "y", features, shape=[2], text_format=text_format)
    (block,) = NewRows(Path("rows.csv"), schema, "refuse", lambda line: None).blocks(10)
    assert block.X.tolist() == [[1.5, 0], [-0.2, 1]]
    assert not np.isnan(block.X).any()
