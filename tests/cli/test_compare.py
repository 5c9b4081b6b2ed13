"""``kdg compare``: what is printed, written and drawn, and each argument that is wrong."""

from __future__ import annotations

import re
from functools import partial
from itertools import product

import pandas as pd
import pytest

from kdgraph.results.comparison.tables import COMPARISON_COLUMNS
from tests.results.conftest import make_record, write

LEVELS = {"kdf": -0.1, "isotonic": 0.0, "sigmoid": 0.1}


@pytest.fixture
def kdg(kdg, tmp_path):
    """Call ``kdg compare`` where three methods have run on 8 data sets with 2 seeds."""
    for d, s in product(range(8), range(2)):
        base = 0.5 + 0.02 * d + 0.002 * s
        for method, change in LEVELS.items():
            values = {"error": base + change, "oce@sphere:radius=2": base - change, "mmc": 0.9}
            of_parent = dict.fromkeys(values, base)
            write(
                tmp_path, [make_record(f"d{d}", method, seed=s, values=values, of_parent=of_parent)]
            )
    return partial(kdg, "compare")


def test_over_many_data_sets_there_is_a_table_for_each_measure(kdg) -> None:
    code, out, err = kdg("--digits", "3")
    assert (code, err) == (0, "")
    first, error, oce, notes, rest = out.split("\n\n")
    assert first == "48 runs · 8 data sets · 3 methods on 1 parent · 2 seeds (0, 1)"
    assert error.splitlines()[:3] == [
        "error, lower is better, 8 data sets, against random_forest (parent)",
        (
            "                           mean rank     median   wins/ties/losses   median change   "
            "    p"
        ),
        (
            "  kdf                           1.00 ◂    0.471              8/0/0          −0.100  "
            " 0.023"
        ),
    ]
    assert (
        oce.splitlines()[0]
        == "OCE at radius 2, lower is better, 8 data sets, against random_forest (parent)"
    )
    assert oce.splitlines()[2].split()[0] == "sigmoid"
    assert notes.splitlines() == [
        "  median, median change: over data sets, of means over seeds.",
        (
            "  Numbers are compared as they are, not as they are printed; a relative difference of"
            " 1e-09 is a tie."
        ),
        "  p: two-sided Wilcoxon signed-rank test, adjusted over the methods (Holm).",
        (
            "  ◂: the best, and all that do not differ significantly from it; omitted if no"
            " difference is significant."
        ),
        (
            "  OCE: out-of-distribution calibration error, the mean distance of the largest"
            " probability from the largest class prior."
        ),
    ]
    assert (
        rest == "  --each shows every data set, --output FILE writes them, --figure FILE draws the"
        " ranks\n"
    )


def test_few_data_sets_are_shown_one_by_one(kdg) -> None:
    code, out, _ = kdg("dataset=d0,d3", "method=kdf", "--metric", "error", "--digits", "3")
    assert code == 0
    assert out.splitlines()[:10] == [
        "4 runs · 2 data sets · 1 method on 1 parent · 2 seeds (0, 1)",
        "",
        "d0",
        "                                   error",
        "  random_forest (parent)   0.501 ± 0.001",
        "  kdf                      0.401 ± 0.001",
        "",
        "d0, 2 seeds, against random_forest (parent): wins/ties/losses",
        "        error",
        "  kdf   2/0/0",
    ]
    assert kdg("--each")[1].count("wins/ties/losses\n") == 8


@pytest.mark.parametrize(
    ("name", "baseline"), [("isotonic", "isotonic"), ("random_forest", "random_forest (parent)")]
)
def test_another_baseline(kdg, name, baseline) -> None:
    code, out, _ = kdg("--against", name, "--metric", "error")
    assert code == 0 and f"8 data sets, against {baseline}\n" in out


def test_a_file_of_one_data_set_has_what_the_terminal_shows(kdg, tmp_path) -> None:
    arguments = ("dataset=d0", "--metric", "error,mmc")
    assert kdg(*arguments, "--output", "t.md")[0] == 0
    text = (tmp_path / "t.md").read_text()
    for line in kdg(*arguments)[1].splitlines()[1:]:
        for words in re.split(r"\s{2,}", line.strip()):
            assert words in text
    assert "| kdf | 2/0/0 |" in text and "| kdf | 0.4010 ± 0.0014 | 0.9000 ± 0.0000 |" in text
    for absent in ("p:", "bold:", "median"):
        assert absent not in text


def test_a_file_has_the_outcomes_over_seeds_of_each_data_set(kdg, tmp_path) -> None:
    assert kdg("--output", "t.md", "--metric", "error")[0] == 0
    lines = (tmp_path / "t.md").read_text().splitlines()
    at = lines.index("## error, against random_forest (parent), wins/ties/losses: each data set")
    assert lines[at + 2 : at + 5] == [
        "| data set | isotonic | kdf | sigmoid |",
        "| --- | ---: | ---: | ---: |",
        "| d0 | 0/2/0 | 2/0/0 | 0/0/2 |",
    ]


@pytest.mark.parametrize("kind", ["md", "tex"])
def test_people_get_means_of_each_data_set_and_the_tests(kdg, tmp_path, kind) -> None:
    code, out, _ = kdg("--output", f"t.{kind}", "--metric", "error,mmc")
    assert (code, out) == (
        0,
        f"t.{kind}   48 runs · 8 data sets · 3 methods on 1 parent · 2 seeds (0, 1)\n",
    )
    text = (tmp_path / f"t.{kind}").read_text()
    cell = "| d7 | 0.6410 ± 0.0014 |" if kind == "md" else r"d7 & 0.6410 $\pm$ 0.0014 &"
    assert cell in text and "◂" not in text
    assert (
        "error, lower is better: each data set" in text
        and "mean max confidence, neither direction is better: each data set" in text
    )
    assert (
        "| kdf | **1.00** |" if kind == "md" else r"kdf & \textbf{1.00} &"
    ) in text and "standard deviation (n - 1) over seeds" in text


def test_programs_get_every_mean_and_test(kdg) -> None:
    assert kdg("--output", "t.csv", "--metric", "error")[0] == 0
    read = pd.read_csv("t.csv")
    assert list(read) == list(COMPARISON_COLUMNS) and len(read) == 8 * 4 + 4
    kdf = read[(read["over"] == "data sets") & (read["method"] == "kdf")].iloc[0]
    assert (kdf["wins"], kdf["losses"], kdf["mean_rank"], kdf["best"]) == (8, 0, 1.0, True)


def test_ranks_are_drawn(kdg, tmp_path) -> None:
    assert kdg("--figure", "r.svg") == (0, "r.svg   mean ranks of error, OCE at radius 2\n", "")
    picture = (tmp_path / "r.svg").read_text()
    assert all(
        f">{word}<" in picture
        for word in ("error", "OCE at radius 2", "KDF", "Random forest (parent)", "1.00")
    )


def test_help_is_help(kdg) -> None:
    code, out, _ = kdg("--help")
    assert code == 0 and out.startswith("usage: kdg compare") and "--against METHOD" in out


NO_FIGURE = (
    "--figure needs three methods or more with runs on the same two data sets or more; without it,"
    " means are shown"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--against", "kfd"],
            (
                "--against: no method 'kfd'; did you mean 'kdf'? (there are: random_forest"
                " (parent), isotonic, kdf, sigmoid)"
            ),
        ),
        (
            ["--against", "zzz"],
            "--against: no method 'zzz'; there are: random_forest (parent), isotonic, kdf, sigmoid",
        ),
        (
            ["--metric", "eror"],
            "no run has the metric 'eror'; did you mean 'error'? (--metric takes: error, mmc, oce)",
        ),
        (
            ["--metric", "error", "--on", "radius=2"],
            "error was not measured on radius=2; 'kdg table' shows what was",
        ),
        (["--output", "t.parquet"], "--output must end in .csv, .md or .tex, got 't.parquet'"),
        (["--figure", "t.jpg"], "--figure must end in .svg, .png or .pdf, got 't.jpg'"),
        (["dataset=d0", "--figure", "t.svg"], NO_FIGURE),
        (["method=kdf", "--figure", "t.svg"], NO_FIGURE),
        (
            ["--digits", "x"],
            "argument --digits: invalid int value: 'x'; 'kdg compare --help' lists the options",
        ),
        (["--digits", "0"], "--digits must be from 1 to 15, got 0"),
    ],
)
def test_what_is_wrong_is_one_line(kdg, arguments, message) -> None:
    assert kdg(*arguments) == (2, "", f"kdg: {message}\n")
