"""The table of all numbers: every number once, under documented columns, and the same from a
file.
"""

from __future__ import annotations

import csv

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kdgraph.cli.main import main
from kdgraph.errors import UsageError
from kdgraph.results.export import cell_text, file_kind, latex_lines, markdown_lines, write_columns
from kdgraph.results.measures import choose_measures, read_measures
from kdgraph.results.table import TABLE_COLUMNS, number_table

VALUES = {"error": 0.1, "ece": None, "oce@sphere:radius=2": 0.25}


@pytest.fixture
def runs(record, as_runs):
    return as_runs(
        [
            record("a", values=VALUES),
            record("b|c", "gated_kdf", calibrator="kdf", gate="density", seed=3, values=VALUES),
        ]
    )


def test_every_number_is_a_row_under_documented_columns(runs) -> None:
    table = number_table(runs)
    assert list(table) == list(TABLE_COLUMNS) and all(what for what in TABLE_COLUMNS.values())
    assert {len(values) for values in table.values()} == {
        sum(len(run.record["metrics"]) for run in runs)
    }
    last = {name: values[-1] for name, values in table.items()}
    assert last == {
        "dataset": "b|c",
        "method": "gated_kdf",
        "parent": "random_forest",
        "calibrator": "kdf",
        "gate": "density",
        "detector": "none",
        "recalibrator": "none",
        "conformal": "none",
        "protocol": "strict",
        "calibration": "held_out",
        "seed": 3,
        "run_id": runs[1].record["run_id"],
        "of": "calibrated",
        "metric": "oce",
        "on": "ood",
        "ood": "sphere",
        "params": "radius=2",
        "in_distribution": False,
        "options": "",
        "value": 0.25,
        "stderr": 0.01,
        "n": 50,
        "n_of": "rows",
        "label": "OCE",
        "better": "lower",
        "unit": None,
        "prior": 0.6,
        "n_train": 100,
        "n_calibration": 30,
        "n_test": 40,
        "n_features": 2,
        "fingerprint": "b|c 3",
        "seconds": 1.75,
        "peak_memory_mb": 200.0,
        "path": str(runs[1].path),
    }
    assert table["options"][1] == "bins=15 strategy=uniform norm=l1"


def test_a_regressor_has_no_prior_and_a_recalibrator(record, as_runs) -> None:
    parts = {"calibrator": "none", "recalibrator": "global_pit", "prior": None, "protocol": "paper"}
    table = number_table(
        as_runs(
            [record("x", "global_pit-as_in_paper", values={"crps": 0.3, "my_score": 2.0}, **parts)]
        )
    )
    last = {name: values[-1] for name, values in table.items()}
    assert (last["recalibrator"], last["protocol"], last["prior"], last["detector"]) == (
        "global_pit",
        "paper",
        None,
        "none",
    )
    assert (last["metric"], last["value"], last["better"]) == ("my_score", 2.0, None)


def test_some_measures_only(runs) -> None:
    chosen = choose_measures([measure for measure, _ in read_measures(runs[0].record)], ["error"])
    table = number_table(runs, wanted=set(chosen))
    assert set(table["metric"]) == {"error"} and len(table["value"]) == 4


def test_a_run_without_numbers_has_no_row(record, as_runs) -> None:
    assert {len(values) for values in number_table(as_runs([record(values={})])).values()} == {0}


def test_keys_of_the_config_are_columns(runs) -> None:
    table = number_table(
        runs, ["calibrator.alpha", "calibrator.layers", "parent.max_depth", "metrics.test.ece.bins"]
    )
    assert list(table)[len(TABLE_COLUMNS) :] == [
        "calibrator.alpha",
        "calibrator.layers",
        "parent.max_depth",
        "metrics.test.ece.bins",
    ]
    assert (
        table["calibrator.alpha"][0],
        table["calibrator.layers"][0],
        table["parent.max_depth"][0],
    ) == (0.005, "[200,200]", None)
    with pytest.raises(UsageError) as caught:
        number_table(runs, ["calibrator.alfa"])
    assert str(caught.value) == "unknown key 'calibrator.alfa'; did you mean 'calibrator.alpha'?"
    with pytest.raises(UsageError) as caught:
        number_table(runs, ["seed"])
    assert (
        str(caught.value)
        == "'seed' is a column of the table already; --with takes other keys of the config"
    )


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_has_the_same_numbers(runs, tmp_path, kind) -> None:
    table = number_table(runs, ["calibrator.layers"])
    path = tmp_path / f"numbers.{kind}"
    write_columns(table, path)
    read = (
        pd.read_parquet(path)
        if kind == "parquet"
        else pd.read_csv(path, keep_default_na=False, na_values={"value": "", "stderr": ""})
    )
    expected = pd.DataFrame(
        {name: ["" if v is None else v for v in values] for name, values in table.items()}
    )
    expected[["value", "stderr"]] = expected[["value", "stderr"]].replace("", None).astype(float)
    if kind == "parquet":
        expected[["ood", "unit"]] = expected[["ood", "unit"]].replace("", None)
    pd.testing.assert_frame_equal(read, expected, check_exact=True, check_dtype=kind == "parquet")


def test_columns_of_several_kinds_become_text_and_empty_ones_too(tmp_path) -> None:
    path = tmp_path / "x.parquet"
    write_columns(
        {
            "mixed": [1, "auto", None],
            "numbers": [1, 2.5, None],
            "none": [None] * 3,
            "true": [True, None, False],
        },
        path,
    )
    read = pd.read_parquet(path)
    assert [value if isinstance(value, str) else None for value in read["mixed"]] == [
        "1",
        "auto",
        None,
    ]
    assert (
        read["numbers"].dtype == float
        and read["none"].isna().all()
        and read["true"].tolist() == [True, None, False]
    )


def test_markdown_and_latex_keep_every_letter(tmp_path) -> None:
    write_columns({"a_b": ["x|y", "50 %"], "n": [1, None]}, tmp_path / "x.md")
    assert (
        tmp_path / "x.md"
    ).read_text() == "| a_b | n |\n| --- | ---: |\n| x\\|y | 1 |\n| 50 % |  |\n"
    write_columns({"a_b": ["x|y", "50 %"], "n": [1, None]}, tmp_path / "x.tex")
    lines = [
        r"\begin{tabular}{lr}",
        r"\toprule",
        r"a\_b & n \\",
        r"\midrule",
        r"x|y & 1 \\",
        r"50 \% &  \\",
        r"\bottomrule",
    ]
    assert (tmp_path / "x.tex").read_text().splitlines() == [*lines, r"\end{tabular}"]
    assert latex_lines(["m"], [["**0.1 ± 0.2**"], ["a*b"]], ["left"])[4:6] == [
        r"\textbf{0.1 $\pm$ 0.2} \\",
        r"a*b \\",
    ]
    assert markdown_lines(["m"], [["**0.1**"], ["a*b"], ["<0.001"]], ["right"])[2:] == [
        "| **0.1** |",
        "| a\\*b |",
        "| &lt;0.001 |",
    ]


def test_cells_are_exact() -> None:
    assert [cell_text(value) for value in (None, True, 0.1 + 0.2, 3, "x")] == [
        "",
        "true",
        "0.30000000000000004",
        "3",
        "x",
    ]


def test_only_kinds_that_are_known_and_folders_that_are_there(tmp_path) -> None:
    assert file_kind(tmp_path / "a.b.csv", ("parquet", "csv")) == "csv"
    with pytest.raises(UsageError) as caught:
        file_kind("x.xlsx", ("parquet", "csv", "md"))
    with pytest.raises(UsageError, match=r"--output must end in \.html, got 'x\.pdf'$"):
        file_kind("x.pdf", ("html",))
    assert str(caught.value) == "--output must end in .parquet, .csv or .md, got 'x.xlsx'"
    with pytest.raises(UsageError) as caught:
        file_kind(tmp_path / "no" / "x.svg", ("svg", "png"), "--figure")
    assert str(caught.value) == f"--figure: no folder '{tmp_path / 'no'}'; make it first"


HOSTILE = [
    "[bold]",
    "*x",
    "_x_",
    "a_b",
    "$x$",
    "a|b\\|c",
    "<b>&amp;",
    "`c`",
    "~~x~~",
    "50 %\nmore",
    "x^2#{}",
]


def test_names_stand_in_markdown_as_they_are():
    lines = markdown_lines(["m"], [[name] for name in HOSTILE], ["left"])[2:]
    expected = [
        "\\[bold]",
        "\\*x",
        "\\_x\\_",
        "a_b",
        "\\$x\\$",
        "a\\|b\\\\\\|c",
        "&lt;b>&amp;amp;",
        "\\`c\\`",
    ]
    assert lines == [f"| {cell} |" for cell in [*expected, "\\~\\~x\\~\\~", "50 % more", "x^2#{}"]]


def test_names_stand_in_latex_as_they_are():
    lines = latex_lines(["m"], [[name] for name in HOSTILE], ["left"])[4:-2]
    expected = [
        "{}[bold]",
        "{}*x",
        r"\_x\_",
        r"a\_b",
        r"\$x\$",
        r"a|b\textbackslash{}|c",
        r"$<$b$>$\&amp;",
        "`c`",
    ]
    expected += [
        r"\textasciitilde{}\textasciitilde{}x\textasciitilde{}\textasciitilde{}",
        r"50 \% more",
        r"x\textasciicircum{}2\#\{\}",
    ]
    assert lines == [rf"{cell} \\" for cell in expected]


def test_a_csv_file_has_labels_as_they_are(tmp_path):
    write_columns({"label": ["=1+1", "@x", "-2"], "n": [1, 2, 3]}, tmp_path / "x.csv")
    assert pd.read_csv(tmp_path / "x.csv")["label"].tolist() == ["=1+1", "@x", "-2"]


BIG = [2**53 + 1, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30]
"""Whole numbers at the ends of what float64, int64 and uint64 hold, and beyond."""


@pytest.mark.parametrize("high", BIG)
@pytest.mark.parametrize("low", [0, 7, -1, -(2**63) - 1])
def test_whole_numbers_of_any_size_are_exact_in_every_kind_of_file(tmp_path, low, high):
    columns = {
        "seed": [low, None, high],
        "with_a_float": [high, 0.5, None],
        "with_text": [high, "auto", True],
    }
    for kind in ("parquet", "csv", "md", "tex"):
        write_columns(columns, tmp_path / f"x.{kind}")
    table = pq.read_table(tmp_path / "x.parquet").to_pydict()
    assert [None if value is None else int(value) for value in table["seed"]] == columns["seed"]
    assert int(table["with_a_float"][0]) == high and float(table["with_a_float"][1]) == 0.5
    assert table["with_text"] == [str(high), "auto", "true"]
    rows = list(csv.reader((tmp_path / "x.csv").read_text().splitlines()))
    assert [row[0] for row in rows] == ["seed", str(low), "", str(high)]
    for kind in ("md", "tex"):
        assert (tmp_path / f"x.{kind}").read_text().count(str(high)) == 3
    is_number = pq.read_schema(tmp_path / "x.parquet").field("seed").type in (
        pa.int64(),
        pa.uint64(),
    )
    assert is_number == ((high < 2**63 and low > -(2**63) - 1) or (high < 2**64 and low >= 0))


def test_a_seed_beyond_64_bits_ends_no_table(record, outputs, tmp_path, capsys):
    out = outputs([record(seed=seed) for seed in (3, 2**63, 2**64)])
    for kind in ("parquet", "csv", "md", "tex"):
        assert main(["table", "--out", str(out), "--output", str(tmp_path / f"all.{kind}")]) == 0
    assert set(pq.read_table(tmp_path / "all.parquet")["seed"].to_pylist()) == {
        "3",
        str(2**63),
        str(2**64),
    }
    assert main(["table", "--out", str(out)]) == 0 == main(["compare", "--out", str(out)])
    assert str(2**64) in capsys.readouterr().out
