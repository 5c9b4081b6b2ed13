"""Predictions in parts: the same bytes for any number of processes and after any kill."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier

import kdgraph
from kdgraph.base import FittedModel
from kdgraph.cli.main import main
from kdgraph.deployment import DeployedModel, Schema
from kdgraph.deployment.schema import Feature
from kdgraph.detection import LeafBox
from kdgraph.runner.files import add_checksum
from kdgraph.runner.prediction import predict as predicting
from kdgraph.runner.prediction.parts import PartsFolder
from tests.variations import others_slow

N_ROWS = 9_000
"""Rows of three parts of one block each, of which the last is not full."""


def make_folder(folder: Path, n_rows: int) -> Path:
    """Write a model, and the same rows in a csv file and in parquet files of small and large groups.

    Three rows have a category that the model does not have, one in each third.
    """
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.normal(size=400), rng.integers(2, size=400)])
    y = (X[:, 0] + X[:, 1] > rng.normal(size=400)).astype(int)
    forest = RandomForestClassifier(5, max_depth=4, random_state=0).fit(X, y)
    detector = LeafBox(forest, n_jobs=1).fit(X, y, X_calibration=X[:200], y_calibration=y[:200])
    schema = Schema(
        "people",
        "rich",
        [Feature("age"), Feature("job", ["chef", "nurse"])],
        shape=[2],
        classes=["no", "yes"],
        ood_score="detector",
    )
    kdgraph.save(
        DeployedModel(FittedModel(forest, {"detector": detector}), schema), folder / "model.kdg"
    )
    frame = pd.DataFrame(
        {
            "age": rng.normal(scale=2, size=n_rows).round(3),
            "job": np.array(["chef", "nurse"])[rng.integers(2, size=n_rows)],
        }
    )
    frame.loc[[5, n_rows // 2, n_rows - 9], "job"] = "king"
    frame.to_csv(folder / "new.csv", index=False)
    frame.to_parquet(folder / "new.parquet", row_group_size=n_rows // 3)
    frame.to_parquet(folder / "one_group.parquet", row_group_size=n_rows)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make_folder(tmp_path_factory.mktemp("parts"), N_ROWS)


@pytest.fixture
def small_parts(tmp_path, monkeypatch) -> None:
    """Set parts of one block of rows, in an empty working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(predicting, "PART_BLOCKS", 1)


def caller(folder: Path, capsys) -> Callable[..., tuple[int, str, str]]:
    def call(name: str, output: str, *more: str) -> tuple[int, str, str]:
        code = main(["predict", *words(folder, name, output), *more])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def kdg(folder, small_parts, capsys):
    return caller(folder, capsys)


@pytest.fixture(scope="module")
def large_folder(tmp_path_factory) -> Path:
    """Rows of three parts of the size that they have without ``small_parts``."""
    return make_folder(tmp_path_factory.mktemp("large"), 150_000)


@pytest.fixture
def kdg_large(large_folder, tmp_path, monkeypatch, capsys):
    """Call kdg with the files that a process in another test is killed with."""
    monkeypatch.chdir(tmp_path)
    return caller(large_folder, capsys)


def words(folder: Path, name: str, output: str) -> list[str]:
    model, new = str(folder / "model.kdg"), str(folder / name)
    return ["--model", model, "--input", new, "--output", output, "--unseen", "missing"]


MISSING = (
    "kdg: 3 cells of 'job' have a category that the training data do not have: read as missing\n"
)


FILES = ["new.csv", "new.parquet", "one_group.parquet"]


@pytest.mark.parametrize(
    ("ending", "more", "names"),
    others_slow(
        [
            (".parquet", ("--fdr", "0.2"), FILES[:1]),
            (".csv", (), FILES),
            (".parquet", (), FILES[1:2]),
        ]
    ),
    ids=["fdr", "csv", "parquet"],
)
def test_bytes_are_independent_of_processes_and_file_type(kdg, ending, more, names):
    outputs = []
    for name in names:
        for jobs in ("1", "2"):
            output = f"{name}-{jobs}{ending}"
            code, out, err = kdg(name, output, "--jobs", jobs, *more)
            assert (code, err) == (0, MISSING)
            outputs.append((Path(output).read_bytes(), out.replace(output, "")))
    assert len({content for content, _ in outputs}) == 1
    assert len({out for _, out in outputs}) == 1
    assert {path.suffix for path in Path().iterdir()} == {ending}


def test_all_rows_are_those_of_the_model(kdg, folder):
    assert kdg("new.parquet", "out.csv", "--fdr", "0.2")[0] == 0
    predicted = pd.read_csv("out.csv")
    model = kdgraph.load(folder / "model.kdg")
    frame = pd.read_csv(folder / "new.csv").replace({"job": {"king": None}})
    expected = model.predict_frame(frame)
    assert predicted["row"].tolist() == list(range(N_ROWS))
    pd.testing.assert_frame_equal(
        predicted.drop(columns=["row", "ood_flagged"]), expected, check_dtype=False
    )
    # The rule of Benjamini and Hochberg: all rows up to the last p-value below its line.
    p = np.sort(expected["ood_p_value"])
    below = np.flatnonzero(p <= 0.2 * np.arange(1, N_ROWS + 1) / N_ROWS)
    limit = p[below[-1]] if len(below) else -1
    assert predicted["ood_flagged"].tolist() == (expected["ood_p_value"] <= limit).tolist()


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize(
    ("name", "output"), [("new.csv", "out.csv"), ("new.parquet", "out.parquet")]
)
def test_a_killed_command_goes_on_after_its_finished_parts(
    kdg_large, large_folder, name, output, jobs
):
    assert kdg_large(name, f"whole-{output}")[0] == 0
    command = [sys.executable, "-m", "kdgraph", "predict", *words(large_folder, name, output)]
    process = subprocess.Popen([*command, "--jobs", jobs], start_new_session=True)
    parts = Path(f"{output}.parts")
    deadline = time.monotonic() + 60
    while not list(parts.glob("0*.json")) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not Path(output).exists()
    finished = {path: path.stat().st_mtime_ns for path in parts.glob("0*.json")}
    assert finished
    times = {}

    class Watched(PartsFolder):
        def join(self):
            times.update({path: path.stat().st_mtime_ns for path in finished})
            return super().join()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predicting, "PartsFolder", Watched)
        code, _, err = kdg_large(name, output, "--jobs", jobs)
    assert code == 0 and times == finished
    assert re.match(
        rf"kdg: goes on after [\d,]+ rows that an earlier call predicted, in {output}.parts\n", err
    )
    assert err.endswith(MISSING)
    assert Path(output).read_bytes() == Path(f"whole-{output}").read_bytes()
    time.sleep(1.5)  # workers of the killed process end within a second
    assert sorted(path.name for path in Path().iterdir()) == [output, f"whole-{output}"]


def stop_after(parts: int, monkeypatch) -> None:
    """Interrupt the next call in this process after so many parts."""
    real, done = predicting.finish_part, []

    def finish(*arguments):
        real(*arguments)
        done.append(arguments)
        if len(done) >= parts:
            raise KeyboardInterrupt

    monkeypatch.setattr(predicting, "finish_part", finish)


def test_an_interrupted_command_reads_nothing_twice(kdg, monkeypatch):
    assert kdg("new.csv", "whole.csv")[0] == 0
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        assert kdg("new.csv", "out.csv")[0] == 130
    assert sorted(path.name for path in Path("out.csv.parts").iterdir()) == [
        "000000.csv",
        "000000.json",
        "000001.csv",
        "000001.json",
        "identity.json",
    ]
    with monkeypatch.context() as patch:
        numbers, real = [], predicting._Work.finish
        patch.setattr(
            predicting._Work,
            "finish",
            lambda self, part, *more: numbers.append(part) or real(self, part, *more),
        )
        code, _, err = kdg("new.csv", "out.csv")
    assert (code, numbers) == (0, [2])
    assert err == (
        "kdg: goes on after 8,192 rows that an earlier call predicted, in out.csv.parts\n" + MISSING
    )
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("input", "another input"),
        ("model", "another model"),
        ("options", "other options"),
        ("damage", "another call"),
    ],
)
def test_parts_of_something_else_are_not_used(
    kdg, folder, tmp_path, monkeypatch, capsys, change, reason
):
    own, more = tmp_path / "own", []
    own.mkdir()
    for name in ("model.kdg", "new.csv"):
        (own / name).write_bytes((folder / name).read_bytes())

    def call(*more: str) -> int:
        return main(["predict", *words(own, "new.csv", "out.csv"), *more])

    with monkeypatch.context() as patch:
        stop_after(2, patch)
        assert call() == 130
    if change == "input":
        lines = (own / "new.csv").read_text().splitlines()
        (own / "new.csv").write_text("\n".join([*lines[:-1], "3.5,chef", ""]))
    elif change == "model":
        model = kdgraph.load(own / "model.kdg")
        kdgraph.save(DeployedModel(model.model, model.schema, "missing"), own / "model.kdg")
    elif change == "options":
        more = ["--fdr", "0.2"]
    else:
        Path("out.csv.parts/identity.json").write_text("{")
    capsys.readouterr()
    assert call(*more) == 0
    assert capsys.readouterr().err == (
        f"kdg: out.csv.parts has parts of {reason}; they are removed, and all rows are predicted\n"
        + MISSING
    )
    whole = ["predict", *words(own, "new.csv", "whole.csv"), *more]
    assert main(whole) == 0
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()


def test_a_part_that_was_cut_off_is_made_again(kdg, monkeypatch):
    assert kdg("new.csv", "whole.csv")[0] == 0
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        kdg("new.csv", "out.csv")
    part = Path("out.csv.parts/000001.csv")
    part.write_bytes(part.read_bytes()[:-100])
    assert kdg("new.csv", "out.csv")[0] == 0
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()


@pytest.mark.parametrize("jobs", others_slow(["1", "2"]))
@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_the_first_row_that_does_not_fit_is_reported(kdg, folder, tmp_path, kind, jobs):
    frame = pd.read_csv(folder / "new.csv").astype({"age": object})
    frame.loc[[5_000, 8_500], "age"] = ["old", "older"]
    new = tmp_path / f"bad.{kind}"
    if kind == "csv":
        frame.to_csv(new, index=False)
    else:
        frame.astype({"age": str}).to_parquet(new, row_group_size=3_000)
    code, _, err = kdg(str(new), "out.csv", "--jobs", jobs)
    assert code == 2
    assert err == (
        f"kdg: --input {new}: column 'age' has 'old' in row 5000, and the model takes numbers"
        " there\n"
    )
    assert [path.name for path in Path().iterdir()] == [new.name]


def test_a_lost_process_is_one_line_and_the_next_call_goes_on(kdg, monkeypatch):
    with monkeypatch.context() as patch:
        # A process ends with the one that started it, which is gone.
        ended = {**predicting.process_identity(), "pid": 2**22 + 1}
        patch.setattr(predicting, "process_identity", lambda: ended)
        code, _, err = kdg("new.parquet", "out.csv", "--jobs", "2")
    assert code == 1
    assert err == (
        "kdg: a process that predicted was lost, perhaps because memory ran out; the same command"
        " goes on after 0 predicted rows, and --jobs 1 takes less memory\n"
    )
    assert kdg("new.parquet", "out.csv")[0] == 0 and kdg("new.parquet", "whole.csv")[0] == 0
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()


def small_input(tmp_path: Path) -> str:
    path = tmp_path / "small.csv"
    pd.DataFrame({"age": [1.0, 2.0], "job": ["chef", "nurse"]}).to_csv(path, index=False)
    return str(path)


def test_a_small_input_starts_no_process_and_leaves_no_folder(kdg, tmp_path, monkeypatch):
    small = small_input(tmp_path)
    monkeypatch.setattr(predicting, "_finish_in_processes", None)
    for jobs in ("1", "2"):
        assert kdg(small, f"{jobs}.csv", "--jobs", jobs)[::2] == (0, "")
    assert Path("1.csv").read_bytes() == Path("2.csv").read_bytes()
    assert sorted(path.name for path in Path().iterdir()) == ["1.csv", "2.csv", "small.csv"]


@pytest.mark.parametrize(
    "leftovers", others_slow([["x.parts", "x.parts/.000000.csv.0a.csv"], ["x.parts"]])
)
def test_files_of_a_killed_part_are_removed_by_the_next_call(kdg, tmp_path, leftovers):
    small = small_input(tmp_path)
    for name in leftovers:
        path = Path(name.replace("x", "out.csv"))
        path.mkdir() if path.suffix == ".parts" else path.write_text("half a row")
    Path(".out.csv.parts.lock").write_text("")  # killed before it wrote its name
    assert kdg(small, "out.csv")[0] == 0
    assert sorted(path.name for path in Path().iterdir()) == ["out.csv", "small.csv"]


@pytest.mark.slow
def test_killed_command_leaves_no_hidden_files(kdg_large, large_folder):
    arguments = words(large_folder, "new.csv", "out.csv")
    command = [sys.executable, "-m", "kdgraph", "predict", *arguments]
    process, deadline = subprocess.Popen(command), time.monotonic() + 60
    while not list(Path().glob("out.csv.parts/.000000*")) and time.monotonic() < deadline:
        time.sleep(0.001)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert sorted(path.name for path in Path().iterdir()) == [
        ".out.csv.parts.lock",
        "out.csv.parts",
    ]
    assert kdg_large("new.csv", "out.csv")[0] == 0
    assert [path.name for path in Path().iterdir()] == ["out.csv"]


def test_a_folder_of_the_user_at_the_place_of_the_parts_stays(kdg, tmp_path):
    small = small_input(tmp_path)
    Path("out.csv.parts").mkdir()
    Path("out.csv.parts/thesis.tex").write_text("years of work")
    Path("out.csv.parts/1abc.json").write_text("{}")
    code, _, err = kdg(small, "out.csv")
    assert (code, err) == (
        2,
        "kdg: out.csv.parts holds 1abc.json, thesis.tex and is no folder of 'kdg predict', which needs this"
        " name for its parts; move it, or name another file with --output\n",
    )
    assert Path("out.csv.parts/thesis.tex").read_text() == "years of work"


@pytest.fixture(scope="module")
def formulas(tmp_path_factory) -> Path:
    """A model whose labels a spreadsheet would evaluate, and rows of two parts."""
    folder = tmp_path_factory.mktemp("formulas")
    X = np.random.default_rng(0).normal(size=(60, 1))
    y = np.where(X[:, 0] > 0, "=cmd|' /C calc'!A0", "@SUM(A1)")
    forest = RandomForestClassifier(2, max_depth=2, random_state=0).fit(X, y)
    detector = LeafBox(forest, n_jobs=1).fit(X, y, X_calibration=X, y_calibration=y)
    schema = Schema(
        "d",
        "y",
        [Feature("a")],
        shape=[1],
        classes=list(forest.classes_),
        ood_score="detector",
    )
    model = DeployedModel(FittedModel(forest, {"detector": detector}), schema)
    kdgraph.save(model, folder / "model.kdg")
    rows = pd.DataFrame({"a": np.random.default_rng(1).normal(size=5_000)})
    rows.to_parquet(folder / "new.parquet", row_group_size=3_000)
    return folder


@pytest.mark.parametrize("more", others_slow([[], ["--fdr", "0.2"]]), ids=["plain", "fdr"])
@pytest.mark.usefixtures("small_parts")
def test_labels_that_are_formulas_are_escaped_on_request(formulas, monkeypatch, more):
    def predict(output: str, *options: str) -> int:
        return main(["predict", *words(formulas, "new.parquet", output), *more, *options])

    assert predict("raw.csv") == predict("safe.csv", "--safe-csv") == 0
    with monkeypatch.context() as patch:
        stop_after(1, patch)
        assert predict("again.csv", "--safe-csv") == 130
    assert predict("again.csv", "--safe-csv", "--jobs", "2") == 0
    assert Path("again.csv").read_bytes() == Path("safe.csv").read_bytes()
    raw, safe = pd.read_csv("raw.csv"), pd.read_csv("safe.csv")
    assert set(safe["predicted"]) == {"'=cmd|' /C calc'!A0", "'@SUM(A1)"}
    assert (safe["predicted"] == "'" + raw["predicted"]).all()
    numbers = [name for name in raw.columns if name != "predicted"]
    pd.testing.assert_frame_equal(raw[numbers], safe[numbers])
    assert not any(name.startswith(("=", "+", "-", "@")) for name in safe.columns)
    assert predict("out.parquet", "--safe-csv") == 2


@pytest.mark.usefixtures("small_parts")
def test_parts_of_escaped_cells_are_not_joined_with_others(formulas, monkeypatch, capsys):
    command = ["predict", *words(formulas, "new.parquet", "out.csv")]
    with monkeypatch.context() as patch:
        stop_after(1, patch)
        assert main([*command, "--safe-csv"]) == 130
    capsys.readouterr()
    assert main(command) == 0
    assert "out.csv.parts has parts of other options; they are removed" in capsys.readouterr().err
    assert "'=cmd" not in Path("out.csv").read_text()


@pytest.mark.parametrize("name", others_slow(["000001.json", "000002.json", "000009.json"]))
def test_counts_of_another_shape_or_of_no_part_are_not_used(kdg, monkeypatch, name):
    assert kdg("new.csv", "whole.csv")[0] == 0
    with monkeypatch.context() as patch:
        stop_after(2, patch)
        kdg("new.csv", "out.csv")
    counts = {"n_rows": "5", "n_ood": [], "n_bytes": 1, "became_missing": {"job": None}}
    Path("out.csv.parts", name).write_bytes(add_checksum(counts))
    assert kdg("new.csv", "out.csv")[0] == 0
    assert Path("out.csv").read_bytes() == Path("whole.csv").read_bytes()


def test_a_number_of_processes_is_refused_in_one_line(kdg):
    code, _, err = kdg("new.csv", "out.csv", "--jobs", "0")
    assert code == 2
    assert err.startswith(
        "kdg: argument --jobs: must be a number of processes from 1, or -1, got '0'"
    )
