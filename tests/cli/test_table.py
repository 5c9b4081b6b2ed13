"""``kdg table``: what is printed and written, and unusable arguments."""

from __future__ import annotations

from functools import partial

import pandas as pd
import pytest

from kdgraph.results.table import TABLE_COLUMNS
from tests.results.conftest import make_record, write

VALUES = {"error": 0.1, "nll": 0.3, "oce@sphere:radius=2": 0.01}


@pytest.fixture
def kdg(kdg, tmp_path):
    """Call ``kdg table`` where four runs are."""
    runs = (("a", "kdf", 0), ("a", "kdf", 1), ("a", "sigmoid", 0), ("b", "kdf", 0))
    write(
        tmp_path,
        (make_record(dataset, method, seed=seed, values=VALUES) for dataset, method, seed in runs),
    )
    return partial(kdg, "table")


def test_a_line_is_one_model_of_one_run(kdg) -> None:
    code, out, err = kdg("dataset=a", "--metric", "nll,oce")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "                                           nll       oce",
        "data set  model                   seed    test  radius=2",
        "a         random_forest (parent)     0  0.2000    0.2000",
        "a         random_forest (parent)     1  0.2000    0.2000",
        "a         kdf                        0  0.3000    0.0100",
        "a         kdf                        1  0.3000    0.0100",
        "a         sigmoid                    0  0.3000    0.0100",
        "",
        (
            "OCE: out-of-distribution calibration error, the mean distance of the largest"
            " probability from the largest class prior"
        ),
        "",
        (
            "3 runs: 5 lines, 2 measures; --output FILE writes every number with its standard"
            " error, --metric and --on choose"
        ),
    ]


def test_the_paper_protocol_has_a_note(kdg, tmp_path) -> None:
    write(
        tmp_path,
        [
            make_record(
                "a", "sigmoid-as_in_paper", calibrator="sigmoid", protocol="paper", values=VALUES
            )
        ],
    )
    out = kdg("calibrator=sigmoid", "--metric", "error")[1].splitlines()
    assert out[3:6] == [
        "a         sigmoid                      0  0.1000",
        "a         sigmoid (paper protocol)     0  0.1000",
        "",
    ]
    assert out[6].startswith(
        "(paper protocol): fitted on test rows, or by the rows out of distribution, where the method's"
        " paper does"
    )
    assert "(paper protocol):" not in kdg("protocol=strict")[1]


def test_a_terminal_gets_what_fits(kdg, monkeypatch) -> None:
    monkeypatch.setattr("kdgraph.cli.table.MOST_LINES", 2)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "48")
    code, out, _ = kdg()
    assert (
        code == 0
        and "… 5 more lines and 2 more columns" in out
        and max(map(len, out.splitlines()[:4])) <= 48
    )


def test_a_file_has_every_requested_number(kdg) -> None:
    assert kdg("--output", "x.parquet") == (0, "x.parquet   24 rows, 35 columns, of 4 runs\n", "")
    read = pd.read_parquet("x.parquet")
    assert list(read) == list(TABLE_COLUMNS) and len(read) == 24 and read["path"].nunique() == 4
    assert (
        kdg("method=kdf", "--on", "ood", "--with", "calibrator.alpha", "--output", "x.csv")[0] == 0
    )
    read = pd.read_csv("x.csv")
    assert (
        set(read["metric"]) == {"oce"}
        and len(read) == 6
        and set(read["calibrator.alpha"]) == {0.005}
    )


def test_the_columns_are_described_without_any_run(kdg, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path / "outputs" / "b")
    code, out, _ = kdg("--columns")
    assert (
        code == 0
        and out.splitlines()[0] == "dataset         name of the data set"
        and len(out.splitlines()) == len(TABLE_COLUMNS)
    )


def test_help_is_help(kdg) -> None:
    code, out, _ = kdg("--help")
    assert code == 0 and out.startswith("usage: kdg table") and "--output FILE" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["datset=a"], "unknown key 'datset'; did you mean 'dataset'?"),
        (["dataset=c"], "no run has dataset=c; they have a, b"),
        (["spiral"], "a filter is key=value[,value…] or key!=value, got 'spiral'"),
        (
            ["--metric", "nlll"],
            "no run has the metric 'nlll'; did you mean 'nll'? (--metric takes: error, nll, oce)",
        ),
        (["--output", "x.xlsx"], "--output must end in .parquet, .csv, .md or .tex, got 'x.xlsx'"),
        (["--output", "no/x.csv"], "--output: no folder 'no'; make it first"),
        (
            ["--with", "parent.n", "--output", "x.csv"],
            "unknown key 'parent.n' (parent has: max_depth, n_estimators, name)",
        ),
        (["--with", "calibrator.alpha"], "--with adds columns to a file; give --output FILE too"),
        (
            ["--metric", "nll,,ece"],
            (
                "argument --metric: words with commas between them, got 'nll,,ece'; 'kdg table"
                " --help' lists the options"
            ),
        ),
        (["--outs", "x"], "unrecognized arguments: --outs; did you mean '--out'?"),
        (["--out"], "argument --out: expected one argument; 'kdg table --help' lists the options"),
        (
            ["--out", "nowhere"],
            "--out must be a folder with runs, got 'nowhere', which is no folder",
        ),
    ],
)
def test_what_is_wrong_is_one_line(kdg, arguments, message) -> None:
    assert kdg(*arguments) == (2, "", f"kdg: {message}\n")
