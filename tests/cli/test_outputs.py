"""Files that a command cannot write: one line that names the option, and nothing
half-written.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.errors import CannotWrite
from kdgraph.runner import files
from kdgraph.runner.files import wrap_os_errors
from kdgraph.runner.prediction import parts
from kdgraph.runner.run import run
from tests.results.conftest import make_record, write

ROWS = {".csv": "_CsvWriter", ".parquet": "_ParquetWriter"}


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory) -> Path:
    """A finished run of two numeric features, beside its table."""
    folder = tmp_path_factory.mktemp("run")
    rng = np.random.default_rng(0)
    label = np.arange(120) % 2
    frame = pd.DataFrame(
        {"a": rng.normal(label), "b": rng.normal(size=120), "label": np.where(label, "on", "off")}
    )
    frame.to_csv(folder / "table.csv", index=False)
    dataset = ["dataset=table", f"dataset.path={folder / 'table.csv'}", "dataset.target=label"]
    config = compose(
        [
            *dataset,
            "parent.n_estimators=5",
            "method=isotonic",
            "ood=none",
            "figures=none",
            f"out={folder / 'out'}",
        ]
    )
    run(config)
    return config.run_dir


@pytest.fixture
def predict(run_dir, capsys, tmp_path, monkeypatch):
    """Call ``kdg predict`` on the run's table; returns exit code, stdout and the last line of
    stderr.
    """
    monkeypatch.chdir(tmp_path)
    table = run_dir.parents[3] / "table.csv"

    def call(output: str, new: str = str(table)) -> tuple[int, str, str]:
        code = main(["predict", "--run", str(run_dir), "--input", new, "--output", output])
        out, err = capsys.readouterr()
        return code, out, err.splitlines()[-1] if err else ""

    return call


@pytest.fixture
def kdg(kdg, tmp_path):
    """Call a command where runs of three methods on eight data sets are."""
    for d in range(8):
        values = {"kdf": 0.1 + d / 100, "isotonic": 0.2 + d / 100, "sigmoid": 0.3 + d / 100}
        for method, value in values.items():
            write(tmp_path, [make_record(f"d{d}", method, seed=0, values={"error": value})])
    return kdg


@pytest.mark.parametrize("ending", ROWS)
def test_predictions_into_a_folder_are_refused(predict, ending):
    Path(f"taken{ending}").mkdir()
    assert predict(f"taken{ending}") == (
        2,
        "",
        f"kdg: --output must be a file, got 'taken{ending}', which is a folder",
    )


@pytest.mark.parametrize("ending", ROWS)
def test_predictions_below_a_file_are_refused(predict, ending):
    Path("file").write_text("")
    line = f"kdg: cannot write file/new{ending}: Not a directory; name another place with --output"
    assert predict(f"file/new{ending}") == (2, "", line)
    assert Path("file").read_text() == ""


@pytest.mark.parametrize("ending", ROWS)
def test_a_name_that_is_too_long_is_refused(predict, ending):
    name = "n" * 300 + ending
    assert predict(name) == (
        2,
        "",
        f"kdg: cannot write {name}: File name too long; give a shorter name with --output",
    )


@pytest.mark.parametrize("ending", ROWS)
@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc")
def test_predictions_where_no_file_can_be_made_are_refused(predict, ending):
    line = (
        f"kdg: cannot write /proc/new{ending}: No such file or directory; name another place with"
        " --output"
    )
    assert predict(f"/proc/new{ending}") == (1, "", line)


@pytest.mark.parametrize("ending", ROWS)
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_full_disk_keeps_the_earlier_predictions(predict, monkeypatch, tmp_path, ending):
    name = f"new{ending}"
    assert predict(name)[0] == 0
    before = Path(name).read_bytes()
    real = getattr(parts, ROWS[ending])
    monkeypatch.setattr(
        parts, ROWS[ending], lambda path, **options: real(Path("/dev/full"), **options)
    )
    way_out = (
        "free some space ('kdg gc' deletes what no run needs) or name another folder with --output,"
        " and give the same command again"
    )
    assert predict(name) == (1, "", f"kdg: cannot write {name}: No space left on device; {way_out}")
    assert Path(name).read_bytes() == before and os.listdir(tmp_path) == [name]


@pytest.mark.parametrize("ending", ROWS)
def test_a_closed_folder_is_named(predict, monkeypatch, tmp_path, ending):
    def closed(path: Path, **options: bool) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(parts, ROWS[ending], closed)
    way_out = "change the rights of the folder, or name another one with --output"
    assert predict(f"new{ending}") == (
        1,
        "",
        f"kdg: cannot write new{ending}: Permission denied; {way_out}",
    )
    assert not os.listdir(tmp_path)


def test_an_error_of_the_input_is_not_one_of_the_output(predict):
    Path("new.csv").write_text("a,b\n1,2\n3,\n4,x\n")
    code, out, line = predict("out.parquet", "new.csv")
    assert (code, out) == (2, "")
    assert (
        line
        == "kdg: --input new.csv: column 'b' has 'x' in row 2, and the model takes numbers there"
    )
    assert os.listdir() == ["new.csv"]


def test_a_folder_as_input_is_named_as_one(predict):
    Path("rows.csv").mkdir()
    assert predict("out.csv", "rows.csv") == (
        2,
        "",
        "kdg: --input rows.csv is a folder without parquet files; give one file",
    )


@pytest.mark.parametrize(
    ("command", "flag", "name"),
    [
        (["table"], "--output", "taken.csv"),
        (["table"], "--output", "taken.md"),
        (["compare"], "--output", "taken.tex"),
        (["compare"], "--figure", "taken.svg"),
        (["report"], "--output", "taken.html"),
    ],
)
def test_a_folder_is_refused_by_every_command_that_writes_a_file(kdg, command, flag, name):
    Path(name).mkdir()
    assert kdg(*command, flag, name) == (
        2,
        "",
        f"kdg: {flag} must be a file, got '{name}', which is a folder\n",
    )


@pytest.mark.parametrize(
    ("command", "flag", "name"),
    [
        (["table"], "--output", "numbers.parquet"),
        (["compare"], "--output", "numbers.md"),
        (["compare"], "--output", "numbers.csv"),
        (["report"], "--output", "page.html"),
    ],
)
def test_what_the_disk_refuses_names_the_option_of_the_command(
    kdg, monkeypatch, command, flag, name
):
    def full(path: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.Path, "write_bytes", full)
    code, _, err = kdg(*command, flag, name)
    way_out = (
        f"free some space ('kdg gc' deletes what no run needs) or name another folder with {flag},"
        " and give the same command again"
    )
    assert (code, err.splitlines()[-1]) == (
        1,
        f"kdg: cannot write {name}: No space left on device; {way_out}",
    )
    assert not Path(name).exists()


def test_a_picture_that_cannot_be_written_names_its_option(kdg, monkeypatch):
    def closed(*_: object, **__: object) -> None:
        raise PermissionError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", closed)
    line = (
        "kdg: cannot write ranks.svg: Read-only file system; change the rights of the folder, or"
        " name another one with --figure\n"
    )
    assert kdg("compare", "--figure", "ranks.svg") == (1, "", line)


def test_pages_of_numbers_need_a_folder_before_any_run(kdg, monkeypatch):
    Path("page").write_text("")
    monkeypatch.setattr("kdgraph.cli.reproduce._run", lambda tasks: pytest.fail("runs were made"))
    code, _, err = kdg("reproduce", "p5", "--scale", "smoke", "--page", "page")
    assert (code, err) == (
        1,
        "kdg: cannot write page: File exists; name another place with --page\n",
    )


@pytest.mark.parametrize(
    "error",
    [
        OSError("no number\nin two lines"),
        OSError(errno.ENOSPC, "Error writing bytes to file. Detail: [errno 28]"),
    ],
)
def test_the_words_of_a_library_become_those_of_the_system(error):
    with pytest.raises(CannotWrite) as caught, wrap_os_errors(Path("x"), "--output"):
        raise error
    reason = os.strerror(error.errno) if error.errno else "no number in two lines"
    assert str(caught.value).startswith(f"cannot write x: {reason}; ")


def test_an_input_whose_name_is_too_long_is_not_there(predict):
    name = "n" * 300 + ".csv"
    assert predict("out.csv", name) == (2, "", f"kdg: --input {name}: no such file")


@pytest.mark.parametrize("command", ["table", "compare"])
def test_names_that_are_formulas_are_escaped_on_request(kdg, tmp_path, command):
    write(tmp_path, [make_record("=1+1", values={"error": 0.1})])
    assert kdg(command, "--output", "raw.csv")[0] == 0
    assert kdg(command, "--output", "safe.csv", "--safe-csv")[0] == 0
    raw, safe = pd.read_csv("raw.csv"), pd.read_csv("safe.csv")
    assert "=1+1" in set(raw["dataset"]) and "'=1+1" in set(safe["dataset"])
    numbers = raw.select_dtypes("number").columns
    pd.testing.assert_frame_equal(raw[numbers], safe[numbers])


@pytest.mark.parametrize("command", ["table", "compare"])
def test_escaped_formulas_are_for_a_csv(kdg, command):
    way_out = "which no spreadsheet evaluates; leave --safe-csv out"
    assert kdg(command, "--output", "t.md", "--safe-csv") == (
        2,
        "",
        f"kdg: --safe-csv is for a .csv, got --output t.md, {way_out}\n",
    )
    assert kdg(command, "--safe-csv") == (
        2,
        "",
        "kdg: --safe-csv is for a file; give --output FILE too\n",
    )
