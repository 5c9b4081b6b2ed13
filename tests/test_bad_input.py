"""Unusable data on the command line: one complete sentence, exit code 2, and no traceback."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.variations import others_slow

TINY = ["parent.n_estimators=5", "ood.n=20", "ood.radii=[2]", "figures=none", "n_jobs=1"]
DROP = "leave it out: 'dataset.drop=[{}]'"


@pytest.fixture
def kdg(kdg) -> Callable[..., tuple[int, str, str]]:
    """Call ``kdg run`` in an empty folder; returns exit code, stdout and stderr."""
    return lambda *arguments: kdg("run", *arguments, *TINY)


def valid_table(n: int = 60, **columns: Any) -> pd.DataFrame:
    """Return a valid table; ``columns`` are added, or replace its own."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "age": rng.normal(size=n),
            "size": rng.normal(size=n),
            "label": np.where(np.arange(n) % 2, "yes", "no"),
        }
    )
    return frame.assign(**columns)


def column_with(value: Any, row: int = 7, n: int = 60) -> list:
    """Return a column of numbers with another value in one row."""
    return [value if i == row else i / 7 for i in range(n)]


def write_csv(text: str | pd.DataFrame, encoding: str = "utf-8") -> Callable[[], None]:
    """Return a function that writes my.csv."""
    content = text if isinstance(text, str) else text.to_csv(index=False)
    return lambda: Path("my.csv").write_text(content, encoding=encoding)  # type: ignore[return-value]


def write_npz(**arrays: Any) -> Callable[[], None]:
    """Return a function that writes my.npz."""
    return lambda: np.savez("my.npz", **arrays)


def write_indices(**indices: Any) -> Callable[[], None]:
    """Return a function that writes my.csv, and rows.json with row numbers."""

    def write() -> None:
        write_csv(valid_table())()
        Path("rows.json").write_text(json.dumps(indices))

    return write


def write_nothing() -> None:
    """Write no file."""


CSV = ["dataset=table", "dataset.path=my.csv", "dataset.target=label"]
NPZ = ["dataset=arrays", "dataset.path=my.npz"]
X, Y = np.random.default_rng(0).normal(size=(60, 3)), np.arange(60) % 2
ROLE_WORDS = "train, calibration, test or unused (or True where a row tests)"

BAD_FILES = {
    "no path": (
        write_nothing,
        ["dataset=table"],
        "dataset.path is missing, and no run can do without it; add dataset.path=…",
    ),
    "no target": (
        write_csv(valid_table()),
        CSV[:2],
        "dataset.target is missing, and no run can do without it; add dataset.target=…",
    ),
    "unknown file": (
        write_csv(valid_table()),
        [*CSV, "dataset.path=mi.csv"],
        "dataset.path=mi.csv: no such file in {cwd}; did you mean 'my.csv'?",
    ),
    "unknown folder": (
        write_nothing,
        [*CSV, "dataset.path=data/my.csv"],
        "dataset.path=data/my.csv: there is no folder {cwd}/data",
    ),
    "a folder": (
        lambda: Path("my.csv").mkdir(),
        CSV,
        "dataset.path=my.csv is a folder; give one file",
    ),
    "unknown suffix": (
        lambda: Path("my.xls").write_bytes(b"PK"),
        [*CSV, "dataset.path=my.xls"],
        (
            "dataset.path=my.xls: the ending of a file determines its kind, and must be one of .csv,"
            " .tsv, .jsonl, .ndjson, .parquet, .pq, .feather, .arff, .xlsx"
        ),
    ),
    "no csv": (
        lambda: valid_table().to_parquet("my.csv"),
        CSV,
        "dataset.path=my.csv is a parquet file, not text; give it the ending of its kind",
    ),
    "letters": (
        write_csv("Dear reader,\nthis, as you see, is a letter.\n"),
        CSV,
        (
            "dataset.path=my.csv is not a table with ',' between cells: some rows have more cells than"
            " the header, which has 2; see dataset.separator, and quote cells that contain it"
        ),
    ),
    "ragged": (
        write_csv("a,label\n1,x\n2,3,y\n"),
        CSV,
        (
            "dataset.path=my.csv is not a table with ',' between cells: line 3 has 3 cells, and those"
            " before it 2; see dataset.separator, and quote cells that contain it"
        ),
    ),
    "wrong encoding": (
        write_csv("a,label\n1,schön\n", "latin-1"),
        CSV,
        (
            "dataset.path=my.csv is not text in utf-8: byte 13 (0xf6) cannot be decoded; it may be"
            " dataset.encoding=latin-1"
        ),
    ),
    "wrong separator": (
        write_csv("a;label\n1;x\n2;y\n"),
        CSV,
        (
            "dataset.path=my.csv has one column, 'a;label'; its cells seem to be separated"
            " otherwise: 'dataset.separator=\";\"'"
        ),
    ),
    "empty file": (write_csv(""), CSV, "dataset.path=my.csv is empty"),
    "header only": (write_csv("a,label\n"), CSV, "my: the table has 2 columns and no rows"),
    "no parquet": (
        lambda: Path("my.parquet").write_text("a,label\n1,x\n"),
        [*CSV, "dataset.path=my.parquet"],
        (
            "dataset.path=my.parquet is not a parquet file, or damaged: Parquet magic bytes not found"
            " in footer. Either the file is corrupted or this is not a parquet file."
        ),
    ),
    "no arff": (
        lambda: Path("my.arff").write_text("a,label\n1,x\n"),
        [*CSV, "dataset.path=my.arff"],
        "dataset.path=my.arff is not ARFF: Invalid layout of the ARFF file, at line 2.",
    ),
}

BAD_COLUMNS = {
    "no such target": (
        write_csv(valid_table()),
        [*CSV, "dataset.target=lable"],
        "my has no column 'lable' (dataset.target); did you mean 'label'?",
    ),
    "missing labels": (
        write_csv(valid_table(label=["yes", "no", None] * 20)),
        CSV,
        "my: 20 of 60 rows have no label in 'label' (first: row 2); remove them",
    ),
    "one class": (
        write_csv(valid_table(label="yes")),
        CSV,
        "my: a classifier needs two classes, the target 'label' has only ['yes']",
    ),
    "text among numbers": (
        write_csv(valid_table(age=column_with("n.b."))),
        CSV,
        (
            "my: column 'age' has 'n.b.' in row 7, and most of its cells are numbers;"
            " 'dataset.missing=[n.b.]' reads it as missing, 'dataset.categorical=[age]' takes all as"
            " names"
        ),
    ),
    "dates": (
        write_csv(valid_table(when=pd.date_range("2020-01-01", periods=60).astype(str))),
        CSV,
        (
            "my: column 'when' holds dates or times (2020-01-01); 'dataset.parse_dates=[when]'"
            " turns it into days since 1970-01-01, 'dataset.drop=[when]' leaves it out"
        ),
    ),
    "dates and a stray": (
        write_csv(
            valid_table(when=["unknown", *pd.date_range("2020-01-01", periods=59).astype(str)])
        ),
        CSV,
        (
            "my: column 'when' holds dates or times (2020-01-01), and 'unknown', which is not a date;"
            " 'dataset.parse_dates=[when]' 'dataset.missing=[unknown]' turns it into days since"
            " 1970-01-01, 'dataset.drop=[when]' leaves it out"
        ),
    ),
    "numbers with commas and a stray": (
        write_csv(valid_table(size=["n.b.", *(f"{i},5" for i in range(59))])),
        CSV,
        (
            "my: column 'size' has numbers with commas, such as '0,5', which are read as text;"
            " write plain numbers such as 1234.5, or 'dataset.categorical=[size]' takes them as"
            " names"
        ),
    ),
    "identifiers of more digits than a float has": (
        write_csv(valid_table(patient=[2**53 + i for i in range(60)])),
        CSV,
        (
            "my: column 'patient' has whole numbers from 2^53 on (9007199254740992), and 29"
            " different values of 60 would be lost in double precision; if they are names,"
            " 'dataset.categorical=[patient]' takes them as such, and 'dataset.drop=[patient]'"
            " leaves them out"
        ),
    ),
    "many whole numbers as classes": (
        write_csv(valid_table(letter=np.arange(60) % 24)),
        [*CSV, "dataset.target=letter", "dataset.drop=[label]"],
        (
            "dataset=my is for regression, and parent=random_forest is a classifier;"
            " dataset.task=classification takes its 24 whole numbers as classes; else choose a data"
            " set with classes, or what is for regression: method=local_pit"
        ),
    ),
    "a target of dates": (
        write_csv(valid_table(day=pd.date_range("2020-01-01", periods=60).astype(str))),
        [*CSV, "dataset.target=day", "dataset.drop=[label]"],
        (
            "my: the target 'day' holds dates or times (2020-01-01); 'dataset.parse_dates=[day]'"
            " turns it into days since 1970-01-01, 'dataset.task=classification' takes its values"
            " as classes"
        ),
    ),
    "infinity": (
        write_csv(valid_table(age=column_with(np.inf))),
        CSV,
        (
            "my: column 'age' has inf in row 7, and features must be finite: "
            "'dataset.missing=[\"inf\"]' reads it as missing, else write a number"
        ),
    ),
    "a code for missing": (
        write_csv(valid_table(age=column_with(1e30))),
        CSV,
        (
            "my: column 'age' has 1e+30 in row 7; values from 1e18 on are usually codes for"
            " missing, and their squares lose all others: 'dataset.missing=[1e+30]' reads it as"
            " missing, else rescale the column"
        ),
    ),
    "columns of one name": (
        write_csv("a,a,label\n1,2,x\n3,4,y\n"),
        CSV,
        "my: several columns have the same name (a); give each column its own",
    ),
    "drop nothing": (
        write_csv(valid_table()),
        [*CSV, "dataset.drop=[ago]"],
        "my has no column 'ago' (dataset.drop); did you mean 'age'?",
    ),
    "categorical nothing": (
        write_csv(valid_table()),
        [*CSV, "dataset.categorical=[colour]"],
        "my has no column 'colour' (dataset.categorical); it has age, size, label",
    ),
    "no features": (
        write_csv(valid_table()),
        [*CSV, "dataset.drop=[age,size]"],
        "my: no feature is left besides the target 'label' and the 2 columns put aside",
    ),
    "nothing in a column": (
        write_csv(valid_table(age=np.nan)),
        CSV,
        f"my: column 'age' has no value in any row; {DROP.format('age')}",
    ),
    "free text": (
        write_csv(valid_table(2400, note=[f"note {i}" for i in range(2400)])),
        CSV,
        (
            "my: column 'note' has 2,400 different texts in 2,400 rows, which are not categories;"
            f" {DROP.format('note')}"
        ),
    ),
    "no such groups": (
        write_csv(valid_table()),
        [*CSV, "dataset.split_groups=who"],
        "my has no column 'who' (dataset.split_groups); it has age, size, label",
    ),
    "a group of text": (
        write_csv(valid_table(town=["Ulm", "Bonn"] * 30)),
        [*CSV, "dataset.group=[age,town]"],
        (
            "my: dataset.group names 'town', which has 'Ulm'; of several columns the largest"
            " counts, so each must hold numbers or truth values"
        ),
    ),
    "a threshold of text": (
        write_csv(valid_table()),
        [*CSV, "dataset.threshold=median"],
        (
            "my: the target 'label' has 'no' in row 0, and dataset.threshold cuts finite numbers;"
            " leave it null, and each value is a class"
        ),
    ),
    "a threshold that is none": (
        write_csv(valid_table()),
        [*CSV, "dataset.threshold=mean"],
        "dataset.threshold must be a number or one of median or null, got 'mean'",
    ),
    "two groups": (
        write_csv(valid_table(who=["Ada", "Bob"] * 30)),
        [*CSV, "dataset.split_groups=who"],
        "my has 2 groups, and each of 3 roles needs its own; give dataset.split=random",
    ),
    "an unknown role": (
        write_csv(valid_table(part=["train", "test", "dev"] * 20)),
        [*CSV, "dataset.split_column=part"],
        f"my: dataset.split_column='part' has 'dev', which is none of {ROLE_WORDS}",
    ),
    "folds by number": (
        write_csv(valid_table(fold=[0, 1, 2] * 20)),
        [*CSV, "dataset.split_column=fold"],
        (
            "my: dataset.split_column='fold' has numbers such as 0, and which of them test is not"
            " guessed; 'dataset.split_at=[1]' trains on those up to 1 and tests on larger ones, or"
            f" replace them with {ROLE_WORDS}"
        ),
    ),
    "no test rows": (
        write_csv(valid_table(part="train")),
        [*CSV, "dataset.split_column=part"],
        (
            "my: dataset.split_column='part' names no row for test; a split needs rows that train"
            " and rows that test"
        ),
    ),
    "overlapping indices": (
        write_indices(train=[*range(40)], test=[*range(30, 60)]),
        [*CSV, "dataset.indices=rows.json"],
        "my: dataset.indices has row 30 in train and in test (10 such rows); a row has one role",
    ),
    "an index out of range": (
        write_indices(train=[*range(40)], test=[60]),
        [*CSV, "dataset.indices=rows.json"],
        "my: dataset.indices: test has row 60, but rows go from 0 to 59",
    ),
    "require": (
        write_csv(valid_table(town=["Ulm", "Bonn"] * 30)),
        [*CSV, "dataset.require=numeric"],
        (
            "my has 1 categorical column (town), and dataset.require=numeric shuts it out;"
            " dataset.require=any lets it in"
        ),
    ),
    "a bad parameter": (
        write_csv(valid_table()),
        [*CSV, "dataset.require=numbers"],
        "dataset.require must be one of any, numeric, got 'numbers'",
    ),
}

BAD_ARRAYS = {
    "no X": (
        write_npz(Z=X, y=Y),
        NPZ,
        (
            "dataset.path=my.npz has an array 'Z' with an unknown name; known: X, y, X_test, y_test,"
            " groups, split_groups, feature_names"
        ),
    ),
    "no y": (write_npz(X=X), NPZ, "dataset.path=my.npz has no array 'y'; it has X"),
    "objects": (
        write_npz(X=X, y=np.array(["a", None] * 30, dtype=object)),
        NPZ,
        (
            "dataset.path=my.npz holds Python objects, which are not read because they can run"
            " code; save numbers, or text as numpy strings (np.asarray(labels, dtype=str))"
        ),
    ),
    "labels for other rows": (
        write_npz(X=X, y=Y[:50]),
        NPZ,
        "dataset.path=my.npz: y must have one label for each of 60 rows of X, got shape (50,)",
    ),
    "images beyond [0, 1]": (
        write_npz(X=np.linspace(0, 200, 60 * 16).reshape(60, 1, 4, 4), y=Y),
        [*NPZ, "dataset.scale=none"],
        "my: images must lie in [0, 1], got 0 to 200; divide by the largest intensity",
    ),
    "images that would be scaled": (
        write_npz(X=np.linspace(0, 1, 60 * 16).reshape(60, 1, 4, 4), y=Y),
        NPZ,
        (
            "scale must be none for images, which are in [0, 1] already, got 'max_norm'; it is for"
            " vectors"
        ),
    ),
    "images for a forest": (
        write_npz(X=np.linspace(0, 1, 60 * 16).reshape(60, 1, 4, 4), y=Y),
        [*NPZ, "dataset.scale=none"],
        (
            "dataset=my has images, and parent=random_forest takes vectors; choose a network:"
            " parent=cnn"
        ),
    ),
}

BAD_SPLITS = {
    "one row of a class": (
        write_csv(
            valid_table(label=["maybe" if i == 9 else "yes" if i % 2 else "no" for i in range(60)])
        ),
        CSV,
        (
            "my: too few rows to calibrate, class 'maybe' has 0 of the 12 calibration rows and"
            " needs 2; raise dataset.n_calibration, or leave rare classes out (dataset.rare=drop)"
        ),
    ),
    "too few rows": (
        write_csv(valid_table(60)),
        [*CSV, "dataset.n_train=100"],
        "my has 60 rows, too few for n_train 100 + n_calibration 43 + n_test 18; ask for fewer",
    ),
    "hardly any rows": (
        write_csv(valid_table(4)),
        CSV,
        (
            "my: n_calibration is 0, and without such rows a calibrator needs 2 rows of each class;"
            " give a number of rows, or null for 30 % of the rows that fit and calibrate"
        ),
    ),
    "a regression": (
        write_csv(valid_table()),
        [*CSV, "dataset.target=age", "dataset.drop=[label]"],
        (
            "dataset=my is for regression, and parent=random_forest is a classifier; "
            "choose a data set with classes, or what is for regression: method=local_pit"
        ),
    ),
    "a regression, before the file is read": (
        write_csv(valid_table(age=np.inf)),
        [*CSV, "dataset.task=regression"],
        (
            "dataset=my is for regression, and parent=random_forest is a classifier; "
            "choose a data set with classes, or what is for regression: method=local_pit"
        ),
    ),
}

BAD_IDS = {
    "openml without id": (
        write_nothing,
        ["dataset=openml"],
        "dataset.id is missing, and no run can do without it; add dataset.id=…",
    ),
    "openml 0": (
        write_nothing,
        ["dataset=openml", "dataset.id=0"],
        "dataset.id must be in [1, inf), got 0",
    ),
    "openml by name": (
        write_nothing,
        ["dataset=openml", "dataset.id=iris"],
        "dataset.id must be an integer in [1, inf), got 'iris'",
    ),
}

BAD = BAD_FILES | BAD_COLUMNS | BAD_ARRAYS | BAD_SPLITS | BAD_IDS


@pytest.mark.parametrize("case", others_slow(BAD, *list(BAD)[::4]))
def test_unusable_data_is_one_sentence_with_exit_code_2(kdg, case, tmp_path):
    write, arguments, sentence = BAD[case]
    write()
    code, out, err = kdg(*arguments)
    assert err == f"kdg: {sentence.replace('{cwd}', str(tmp_path))}\n"
    assert (code, out) == (2, "")


N_REMEDIES = {
    "dates": 1,
    "dates and a stray": 2,
    "numbers with commas and a stray": 1,
    "identifiers of more digits than a float has": 1,
    "folds by number": 1,
}
"""Number of overrides in the sentence of a case that are pasted together."""


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", N_REMEDIES)
def test_remedy_runs_when_pasted(kdg, case):
    write, arguments, _ = BAD[case]
    write()
    overrides = re.findall(r"'dataset\.\w+=[^']*'", kdg(*arguments)[2])
    code, _, err = kdg(
        *arguments,
        *(shlex.split(override)[0] for override in overrides[: N_REMEDIES[case]]),
        "--json",
    )
    assert (code, err) == (0, "")


@pytest.mark.filterwarnings("default")
def test_whole_numbers_run_as_classes_with_the_pasted_remedy(kdg):
    write_csv(valid_table(240, letter=np.arange(240) % 24))()
    arguments = [*CSV, "dataset.target=letter", "dataset.drop=[label]"]
    assert "; dataset.task=classification takes its 24 whole numbers" in kdg(*arguments)[2]
    code, _, err = kdg(*arguments, "dataset.task=classification", "--json")
    assert (code, err) == (0, "")


def split_warnings(out: str) -> list[str]:
    return [
        warning["message"] for warning in json.loads(out)["warnings"] if warning["stage"] == "split"
    ]


@pytest.mark.filterwarnings("default")
def test_constant_columns_and_copies_run_with_one_warning_each(kdg):
    frame = valid_table(30, planet="Earth", year=2020)
    write_csv(pd.concat([frame, frame], ignore_index=True))()
    code, out, err = kdg(*CSV, "--json")
    reason = "copies that fall into train and test make the test easy"
    assert (code, err) == (0, "")
    assert split_warnings(out) == [
        "my: columns that never change carry no information: planet, year",
        f"my: 60 of 60 rows have the features of another row; {reason}",
    ]


@pytest.mark.filterwarnings("default")
def test_unnamed_row_numbers_are_left_out_with_a_warning(kdg):
    valid_table().to_csv("my.csv")
    code, out, _ = kdg(*CSV, "--json")
    assert code == 0
    assert split_warnings(out) == [
        "my: columns that number the rows are left out: 'Unnamed: 0'; rename one to use it"
    ]


def test_table_with_all_types_of_columns_runs(kdg):
    columns = {
        "town": ["Ulm", "Bonn", None] * 20,
        "open": [True, False, False] * 20,
        "count": column_with(np.nan),
        "month": np.arange(60) % 12 + 1,
    }
    write_csv(valid_table(**columns, part=(["train"] * 6 + ["test"] * 4 + ["valid"] * 2) * 5))()
    code, out, err = kdg(*CSV, "dataset.categorical=[month]", "dataset.split_column=part", "--json")
    assert (code, err) == (0, "")
    dataset = json.loads(out)["dataset"]
    assert (dataset["name"], dataset["n_train"], dataset["n_calibration"], dataset["n_test"]) == (
        "my",
        40,
        0,
        20,
    )


def test_output_folder_is_named_after_the_file(kdg, tmp_path):
    valid_table().to_csv("my table.csv", index=False)
    assert kdg("dataset=table", "dataset.path=my table.csv", "dataset.target=label")[0] == 0
    assert [
        path.name for path in (tmp_path / "outputs").iterdir() if not path.name.startswith(".")
    ] == ["my_table"]
    assert (
        kdg(
            "dataset=table",
            "dataset.path=my table.csv",
            "dataset.target=label",
            "dataset.name=custom",
        )[0]
        == 0
    )
    assert (tmp_path / "outputs" / "custom").is_dir()
