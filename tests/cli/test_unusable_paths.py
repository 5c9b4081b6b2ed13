"""Names of files that cannot be used: each command prints one line with the name, and ends with 2."""

from __future__ import annotations

import json
import os
import pickle
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression

import kdgraph
from kdgraph.base import FittedModel
from kdgraph.deployment import DeployedModel, Schema
from kdgraph.deployment.schema import Feature
from kdgraph.runner.files import add_checksum
from tests.results.conftest import make_record
from tests.variations import others_slow

TINY = ["method=isotonic", "n_jobs=1", "figures=none", "ood=none"]
TABLE = ["dataset=table", "dataset.path=rows.csv", "dataset.target=y"]
PREDICT = ["predict", "--model", "m.kdg", "--input", "rows.csv", "--output", "out.csv"]
MODEL = ["--trust", "--model", "m.pkl", "--data", "rows.csv", "--target", "y"]
CHECK = ["check", *MODEL, "--methods", "isotonic", "--folds", "2"]
REPAIR = ["repair", *MODEL, "--method", "isotonic", "--output", "r.kdg"]


def with_value(words: list[str], option: str) -> Callable[[str], list[str]]:
    """Return a function of a path that puts it behind an option of a command."""

    def command(path: str) -> list[str]:
        if option not in words:
            return [*words, option, path]
        place = words.index(option) + 1
        return [*words[:place], path, *words[place + 1 :]]

    return command


COMMANDS = {
    "table --out": (with_value(["table"], "--out"), ""),
    "table --output": (with_value(["table"], "--output"), ".csv"),
    "compare --out": (with_value(["compare"], "--out"), ""),
    "compare --output": (with_value(["compare"], "--output"), ".md"),
    "compare --figure": (with_value(["compare"], "--figure"), ".svg"),
    "report --out": (with_value(["report"], "--out"), ""),
    "report --output": (with_value(["report"], "--output"), ".html"),
    "gc --out": (with_value(["gc", "--yes"], "--out"), ""),
    "predict --run": (with_value(["predict", *PREDICT[3:]], "--run"), ""),
    "predict --model": (with_value(PREDICT, "--model"), ".kdg"),
    "predict --input": (with_value(PREDICT, "--input"), ".csv"),
    "predict --input .parquet": (with_value(PREDICT, "--input"), ".parquet"),
    "predict --input .npz": (with_value(PREDICT, "--input"), ".npz"),
    "predict --output": (with_value(PREDICT, "--output"), ".csv"),
    "list --config-dir": (with_value(["list"], "--config-dir"), ""),
    "data list --config-dir": (with_value(["data", "list"], "--config-dir"), ""),
    "check --model": (with_value(CHECK, "--model"), ".pkl"),
    "check --data": (with_value(CHECK, "--data"), ".csv"),
    "check --ood": (with_value(CHECK, "--ood"), ".csv"),
    "check --output": (with_value(CHECK, "--output"), ".html"),
    "check --out": (with_value(CHECK, "--out"), ""),
    "repair --model": (with_value(REPAIR, "--model"), ".pkl"),
    "repair --data": (with_value(REPAIR, "--data"), ".csv"),
    "repair --output": (with_value(REPAIR, "--output"), ".kdg"),
    **{
        f"{command} {key}": (
            lambda path, w=(command, *words, *TINY), k=key: [*w, f"{k}{path}"],
            end,
        )
        for command in ("run", "plan", "show")
        for words, key, end in (
            (["dataset=iris"], "out=", ""),
            (TABLE, "dataset.path=", ".csv"),
            (TABLE, "dataset.path=", ".parquet"),
            (["dataset=text", *TABLE[1:], "dataset.text=y"], "dataset.vectors=", ".txt"),
            (["dataset=image_files"], "dataset.path=", ""),
            (TABLE, "dataset.indices=", ".json"),
            ([*TABLE, "parent=fitted"], "parent.path=", ".pkl"),
        )
    },
    **{
        f"{command} --config-dir": (with_value([command, "dataset=iris"], "--config-dir"), "")
        for command in ("run", "plan", "show")
    },
}
QUICK = ["table --out", "table --output", "report --output", "gc --out", "predict --model"]
QUICK += ["predict --input", "predict --output", "list --config-dir", "plan out=", "check --model"]
# What is fine: an output that a link or nothing is in the place of, a folder that is made, and a
# plan of rows that are not there.
WRITTEN = ("--output", "--figure", " out=", "check --out")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A model of scikit-learn, a repaired one, rows, a finished run, and names of every kind."""
    folder = tmp_path_factory.mktemp("paths")
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = (X.sum(axis=1) > 0).astype(int)
    model = LogisticRegression().fit(X, y)
    frame = pd.DataFrame(X, columns=["a", "b"])
    (folder / "m.pkl").write_bytes(pickle.dumps(LogisticRegression().fit(frame, y)))
    schema = Schema("d", "y", [Feature("a"), Feature("b")], shape=[2], classes=[0, 1])
    kdgraph.save(DeployedModel(FittedModel(model, {}), schema), folder / "m.kdg")
    frame.assign(y=y).to_csv(folder / "rows.csv", index=False)
    run = folder / "outputs" / "spiral" / "kdf" / "0"
    run.mkdir(parents=True)
    (run / "result.json").write_bytes(add_checksum(make_record()))
    return folder


@pytest.fixture
def kdg(kdg, files, tmp_path) -> Callable[[list[str]], tuple[int, str]]:
    """Call ``kdg`` beside the files; returns exit code and stderr."""
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)

    def call(words: list[str]) -> tuple[int, str]:
        code, _, err = kdg(*words)
        return code, err

    return call


def unusable(ending: str) -> dict[str, str]:
    """Return names of files or folders, by the kind of what is wrong with them."""
    for name in ("loop", f"loop{ending}"):
        if not os.path.lexists(name):
            os.symlink(name, name)
    Path("file").write_text("not a folder")
    return {
        "too long": "e" * 300 + ending,
        "too long as a whole": "/".join(["d" * 200] * 25) + f"/x{ending}",
        "loop": f"loop{ending}",
        "below a loop": f"loop/x{ending}",
        "below a file": f"file/x{ending}",
    }


@pytest.mark.parametrize(
    "name",
    others_slow(COMMANDS, *QUICK),
)
def test_unusable_names_are_reported_in_one_line(kdg, name):
    command, ending = COMMANDS[name]
    for kind, path in unusable(ending).items():
        code, err = kdg(command(path))
        assert "Traceback" not in err and code in (0, 2), (kind, err)
        if code == 2:
            *notes, error = err.splitlines()
            assert error.startswith("kdg: "), (kind, err)
            assert not notes or name.split()[0] in ("check", "repair"), (kind, err)
            words = {"compare --figure": "--figure"}.get(
                name, path.partition("/")[0].partition(".")[0]
            )
            assert words in error, (kind, err)
        else:
            is_fine = name.endswith(WRITTEN) or name.startswith(("plan", "show")) or "out=" in name
            assert is_fine and kind in ("loop", "below a file"), (kind, err)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ["table", "--out", "e" * 300],
            f"cannot use {'e' * 300}: File name too long; give a shorter name",
        ),
        (
            ["plan", "dataset=iris", "out=loop"],
            "cannot use loop/iris/kdf/{id}/result.json: Too many levels of symbolic links; its"
            " links lead in a circle; name the file itself",
        ),
        (
            ["report", "--output", f"{'e' * 240}.html"],
            f"cannot write {'e' * 240}.html: File name too long; give a shorter name with --output",
        ),
        (
            ["predict", "--run", "", "--input", "rows.csv", "--output", "o.csv"],
            "--run . is no finished run (it has no result.json)",
        ),
        (["table", "--out", "a\udcff"], "an argument is not text in UTF-8: a\\udcff; rename the"),
    ],
    ids=["table", "plan", "report", "predict", "bytes"],
)
def test_lines_name_the_file_the_reason_and_a_remedy(kdg, words, line):
    unusable("")
    code, err = kdg(words)
    start, _, end = line.partition("{id}")
    assert code == 2 and err.startswith(f"kdg: {start}") and err.strip().endswith(end), err


def test_working_directories_that_cannot_be_used_are_reported(kdg, tmp_path, monkeypatch):
    os.mkdir(b"a\xff")
    monkeypatch.chdir(os.fsdecode(b"a\xff"))
    assert kdg(["table"]) == (
        2,
        f"kdg: the working directory is not text in UTF-8: {tmp_path}/a\\udcff; rename the file or"
        " folder\n",
    )
    Path.cwd().rmdir()
    assert kdg(["table"]) == (
        2,
        "kdg: the working directory does not exist any more; change to another one with 'cd'\n",
    )
    assert kdg(["--version"])[0] == 0


def test_a_record_below_links_that_lead_in_a_circle_is_read(kdg):
    os.symlink("loop", "outputs/loop")
    os.symlink("../outputs", "outputs/up")
    assert kdg(["table"]) == (0, "")


SCRIPT = """
import contextlib, io, json, os, resource, sys
from kdgraph.cli.main import main
import kdgraph.cli.table, kdgraph.report.terminal, kdgraph.results.table
if sys.argv[1] == "files":
    resource.setrlimit(resource.RLIMIT_NOFILE, (20, 20))
    with contextlib.suppress(OSError):
        while True:
            os.open(os.devnull, os.O_RDONLY)
for words in json.loads(sys.argv[2]):
    err = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(err):
        code = main(words)
    print(json.dumps([code, err.getvalue()]))
"""


def results_of(words: list[list[str]], *before: str, mode: str = "") -> list[tuple[int, str]]:
    """Return code and stderr of commands in a process of its own."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    process = subprocess.run(
        [*before, sys.executable, "-c", SCRIPT, mode, json.dumps(words)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert process.returncode == 0, process.stderr
    return [tuple(json.loads(line)) for line in process.stdout.splitlines()]


@pytest.mark.slow
def test_too_few_file_descriptors_are_reported_in_one_line(kdg):
    ((code, err),) = results_of([["table"]], mode="files")
    assert code == 2 and err == (
        "kdg: cannot use outputs: Too many open files; raise the limit of open files with 'ulimit"
        " -n 4096', or run fewer jobs at a time\n"
    )


@pytest.mark.slow
def test_closed_files_of_another_user_are_reported_in_one_line(kdg, tmp_path, as_user):
    for path in tmp_path.iterdir():
        path.chmod(0o700)
    words = [
        command(path)
        for name, (command, ending) in COMMANDS.items()
        if name.split()[0] not in ("check", "repair")
        for path in (f"outputs/x{ending}",)
    ]
    for code, err in results_of(words, *as_user(2001)):
        assert "Traceback" not in err and code in (0, 1, 2)
        assert err == "" or err.splitlines()[-1].startswith("kdg: ")


def test_a_full_device_is_reported_in_one_line(kdg, tmp_path):
    """The limit of a file's size stands for a full disk: writing fails in the middle."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, before[1]))
    try:
        code, err = kdg(["report"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (code, err) == (
        1,
        "kdg: cannot write report.html: File too large; raise the limit with 'ulimit -f', or name"
        " another folder with --output\n",
    )
    assert not Path("report.html").exists() and not list(Path().glob(".report*"))
