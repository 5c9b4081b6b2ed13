"""``kdg check``, ``kdg repair`` and ``kdg predict --model`` on a model in a file."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import kdgraph
from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.data.text_format import TextFormat
from kdgraph.runner.repair import repair

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*is trusted", "ignore:.*trees of their own", "ignore:.*have the features of another"
)
MODEL = ["--model", "model.joblib", "--trust", "--data", "new.csv", "--target", "rich"]


ISOTONIC = ["--method", "isotonic", "--output", "m.kdg"]


def make_files(folder: Path):
    """Write an overconfident forest, and rows that it was not fitted to."""
    rng = np.random.default_rng(1)
    n = 700
    frame = pd.DataFrame(
        {
            "age": rng.normal(40, 12, n),
            "job": rng.choice(["chef", "clerk", "nurse"], n),
            "sex": rng.choice(["f", "m"], n),
        }
    )
    rich = (frame["age"] > 40) ^ (frame["job"] == "nurse") ^ (rng.random(n) < 0.2)
    y = np.where(rich, "yes", "no")
    frame.loc[::15, "age"] = np.nan
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["job", "sex"]), remainder="passthrough"
    )
    model = make_pipeline(columns, RandomForestClassifier(20, random_state=0))
    model.fit(frame[:300], y[:300])
    joblib.dump(model, folder / "model.joblib")
    frame[300:].assign(rich=y[300:]).to_csv(folder / "new.csv", index=False)
    return model


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """Folder with a checked model, and what the command printed."""
    folder = tmp_path_factory.mktemp("checked")
    model = make_files(folder)
    process = subprocess.run(
        [
            *(sys.executable, "-m", "kdgraph", "check", *MODEL),
            *("--group", "sex", "--folds", "3", "hydra.launcher.n_jobs=1"),
        ],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return folder, model, process.stdout


def table_of(printed: str) -> dict[str, list[str]]:
    """Return method → cells of the table on the terminal."""
    lines = printed.splitlines()[2:]
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines if line.startswith("  ")]
    return {row[0]: row[1:] for row in rows if len(row) > 5}


@pytest.mark.slow
def test_the_numbers_of_the_model_are_those_of_all_rows(checked):
    folder, model, printed = checked
    new = pd.read_csv(folder / "new.csv")
    proba = model.predict_proba(new.drop(columns="rich"))
    table = table_of(printed)
    bare = table["the model as it is"]
    clipped = np.clip(proba, 1e-6, 1)
    expected = log_loss(new["rich"], clipped / clipped.sum(axis=1, keepdims=True))
    assert float(bare[0]) == pytest.approx(expected, abs=0.002)
    error = (model.classes_[proba.argmax(axis=1)] != new["rich"]).mean()
    assert float(bare[4]) == pytest.approx(error, abs=0.0006)
    assert list(table) == [
        *("the model as it is", "temperature", "sigmoid", "isotonic", "group_temperature"),
        *("gated_temperature", "gated_sigmoid", "gated_isotonic", "kdf"),
    ]
    percents = [int(cells[3].rstrip("%")) for cells in table.values()]
    assert sum(percents) == pytest.approx(100, abs=len(percents) / 2)


@pytest.mark.slow
def test_gates_fall_back_far_away_and_the_page_has_everything(checked):
    folder, _, printed = checked
    table = table_of(printed)
    prior = max(pd.read_csv(folder / "new.csv")["rich"].value_counts(normalize=True))
    for name in ("gated_isotonic", "kdf"):
        assert float(table[name][6]) == pytest.approx(prior, abs=0.01)
    assert float(table["isotonic"][6]) > prior + 0.1
    page = (folder / "check.html").read_text()
    for title in ("Which repair helps most", "Is its certainty right?", "By group", "By class"):
        assert title in page
    assert page.count("data:image/svg+xml;base64,") == 3
    assert "f, the model as it is" in page and "local calibration error" in page
    assert "kdg repair --model model.joblib --trust" in printed
    (advice,) = re.findall(r"^(?:kdf|gated_\w+) is recommended: .*\.$", printed, re.MULTILINE)
    assert advice in page


@pytest.mark.slow
def test_runs_with_equal_test_rows_are_compared_silently(checked, capsys, monkeypatch):
    """Calibrators take all other rows, and gates divide them into training and calibration."""
    folder, _, _ = checked
    monkeypatch.chdir(folder)
    assert main(["compare", "--metric", "nll"]) == 0
    assert "different rows" not in capsys.readouterr().err
    assert main(["table", "--output", "runs.csv"]) == 0
    assert len(set(pd.read_csv("runs.csv")["n_calibration"])) > 1


@pytest.mark.usefixtures("files")
def test_other_predictions_of_the_user_are_reported_first(capsys):
    model, new = joblib.load("model.joblib"), pd.read_csv("new.csv")
    other = pd.DataFrame(model.predict_proba(new.drop(columns="rich")), columns=model.classes_)
    other.loc[7] = 1 - other.loc[7]
    other.to_csv("custom.csv", index=False)
    words = ["check", *MODEL, "--methods", "sigmoid", "--folds", "2", "--expect", "custom.csv"]
    assert main([*words, "hydra.launcher.n_jobs=1"]) == 0
    printed = capsys.readouterr().out
    difference = abs(other.loc[7].iloc[1] - other.loc[7].iloc[0])
    sentence = (
        f"The model was not read as you use it: 1 of {len(new)} rows have other probabilities than"
        f" in custom.csv, by up to {difference:.2g} (row 7)."
    )
    printed = " ".join(printed.split())
    assert sentence in printed
    # No repair of a model that is not the user's is recommended.
    assert "Nothing is recommended for a model that was read otherwise" in printed
    assert "kdg repair" not in printed and "kdg repair" not in Path("check.html").read_text()


@pytest.mark.slow
def test_the_command_that_it_names_writes_a_model_that_predicts(checked, capsys, monkeypatch):
    folder, _, printed = checked
    monkeypatch.chdir(folder)
    (line,) = [line for line in printed.splitlines() if line.startswith("kdg repair ")]
    assert main(line.split()[1:]) == 0
    out = capsys.readouterr().out
    assert re.match(r"repaired\.kdg   model\.joblib with \w+, fitted on 400 rows\n", out)
    words = ["--model", "repaired.kdg", "--input", "new.csv", "--output", "out.csv"]
    assert main(["predict", *words]) == 0
    predicted = pd.read_csv("out.csv")
    code = (
        "import sys, pandas as pd, kdgraph; model = kdgraph.load('repaired.kdg');"
        " model.predict_frame(pd.read_csv('new.csv')).to_csv('again.csv', index=False);"
        " print([name for name in ('hydra', 'omegaconf', 'torch', 'matplotlib', 'openml')"
        " if name in sys.modules])"
    )
    process = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", code],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (process.returncode, process.stdout) == (0, "[]\n"), process.stderr
    again = pd.read_csv("again.csv")
    pd.testing.assert_frame_equal(again, predicted.drop(columns="row"), rtol=1e-10)


@pytest.mark.slow
def test_the_program_of_the_page_repairs_as_the_command_does(checked, monkeypatch):
    """Rows of density and of calibration are drawn otherwise, so probabilities are near."""
    import html

    folder, _, _ = checked
    monkeypatch.chdir(folder)
    page = (folder / "check.html").read_text()
    *_, program = re.findall(r"<code>(.*?)</code></pre>", page, re.DOTALL)
    scope: dict = {}
    exec(compile(html.unescape(program), "program.py", "exec"), scope)
    final = scope["gate" if "gate" in scope else "calibrator"]
    new = pd.read_csv("new.csv", dtype={"job": "category", "sex": "category"})
    proba = final.predict_proba(new.drop(columns="rich"))
    assert proba.shape == (400, 2)
    assert isinstance(final.estimator, FrozenEstimator)
    config = compose(
        [
            *("dataset=table", "dataset.path=new.csv", "dataset.target=rich", "parent=fitted"),
            *("parent.path=model.joblib", "parent.trust=true", "method=kdf", "n_jobs=1"),
        ]
    )
    assert "KernelDensityForest(" in program  # in 97 % of the resamples, so on any CPU
    other = repair(config).model.predict_proba(new)
    assert np.corrcoef(other[:, 0], proba[:, 0])[0, 1] > 0.8


@pytest.mark.slow
@pytest.mark.usefixtures("files")
def test_rows_of_the_user_s_own_are_a_set_out_of_distribution(capsys):
    new = pd.read_csv("new.csv")
    frame, frame_prior = new.drop(columns="rich"), max(new["rich"].value_counts(normalize=True))
    frame[:50].assign(age=500.0, job="pilot").to_csv("strange.csv", index=False)
    words = ["check", *MODEL, "--methods", "gated_isotonic", "--folds", "2"]
    assert main([*words, "--ood", "strange.csv", "hydra.launcher.n_jobs=1"]) == 0
    page = Path("check.html").read_text()
    row = re.search(r"<th scope=\"row\">rows of --ood</th>(.*?)</tr>", page)[1]
    bare, gated, auroc = (float(cell) for cell in re.findall(r">([\d.]+)<", row))
    assert gated == pytest.approx(frame_prior, abs=0.02) and auroc == 1.0
    assert bare > gated
    frame[["age"]].to_csv("narrow.csv", index=False)
    capsys.readouterr()
    assert main([*words, "--ood", "narrow.csv", "hydra.launcher.n_jobs=1"]) == 2
    assert "kdg: --ood narrow.csv has no column 'job'" in capsys.readouterr().err


@pytest.fixture(scope="module")
def model_files(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    make_files(folder)
    return folder


@pytest.fixture
def files(model_files, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(model_files, tmp_path, dirs_exist_ok=True)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["check", *MODEL[:-1], "rch"], "new has no column 'rch' (--target); did you mean"),
        (["check", *MODEL, "--group", "sx"], "new has no column 'sx' (--group)"),
        (["check", *MODEL, "dataset.group=sx"], "new has no column 'sx' (--group)"),
        (["check", *MODEL, "--methods", "isotonc"], "no method named 'isotonc'; did you mean"),
        (["check", *MODEL, "--methods", "kdn"], "calibrator=kdn needs the partition of a network"),
        (["check", *MODEL, "--folds", "1"], "argument --folds: must be a number of folds from 2"),
        (["check", *MODEL, "dataset.drop=[age]"], "was fitted on other columns than those of the"),
        (["check", *MODEL[:-2]], "--data new.csv needs --target COLUMN, the column of its labels"),
        (["check", "--model", "model.joblib", *MODEL[3:]], "trust its origin, give --trust\n"),
        (["check", "--model", "m.txt", *MODEL[3:]], "--model m.txt: cannot be read"),
        (["check", "--model", "new.csv", *MODEL[3:]], "--model new.csv: has an ending that is no"),
        (["check", *MODEL[:4], "nw.csv", *MODEL[5:]], "--data nw.csv: no such file"),
        (["check", *MODEL, "--max-rows", "0"], "--max-rows must be in [1, inf)"),
        (["check", *MODEL, "--seed=-1"], "--seed: must be a whole number from 0, got '-1'"),
        (["check", *MODEL, "--out", "new.csv"], "--out must be a folder"),
        (["repair", *MODEL[:-1], "rch", *ISOTONIC], "new has no column 'rch' (--target)"),
        (["repair", *MODEL, "dataset.group=sx", *ISOTONIC], "no column 'sx' (dataset.group)"),
        (
            ["check", "--model", "model.joblib", "--data", "rows.npz", "--target", "y"],
            "--data rows.npz has labels in its array y; leave out --target",
        ),
        (
            ["repair", *MODEL, "--method", "isotonic", "--output", "model.pkl"],
            "--output model.pkl: a model file ends in .kdg, got '.pkl'",
        ),
        (["predict", "--input", "new.csv", "--output", "o.csv"], "one of the arguments --run"),
        (
            ["predict", "--model", "x.kdg", "--input", "new.csv", "--output", "o.csv"],
            "--model x.kdg: no such file; 'kdg repair' writes one",
        ),
    ],
)
def test_arguments_that_cannot_be_used_are_one_line(words, message, capsys):
    assert main(words) == 2
    error = capsys.readouterr().err
    assert message in error and error.startswith("kdg: ") and error.count("\n") == 1


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("command", "output", "message"),
    [
        ("check", "new.csv", "--output new.csv is the file of --data; give another name"),
        ("check", "./../{here}/new.csv", "/new.csv is the file of --data; give another name"),
        ("check", "model.joblib", "--output model.joblib is the file of --model; give another"),
        ("check", "strange.csv", "--output strange.csv is the file of --ood; give another name"),
        ("check", "link.html", "--output link.html is the file of --data; give another name"),
        ("check", "page.pdf", "--output must end in .html, got 'page.pdf'"),
        ("repair", "link.kdg", "--output link.kdg is the file of --model; give another name"),
        ("repair", "data.kdg", "--output data.kdg is the file of --data; give another name"),
    ],
)
def test_unusable_output_is_refused_before_any_run(command, output, message):
    Path("strange.csv").write_bytes(Path("new.csv").read_bytes())
    Path("link.html").symlink_to("new.csv")
    Path("link.kdg").symlink_to("model.joblib")
    Path("data.kdg").hardlink_to("new.csv")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    more = ["--ood", "strange.csv"] if command == "check" else ["--method", "isotonic"]
    output = output.format(here=Path().absolute().name)
    errors = io.StringIO()
    with contextlib.redirect_stderr(errors):
        assert main([command, *MODEL, *more, "--output", output]) == 2
    assert message in errors.getvalue() and errors.getvalue().count("\n") == 1
    assert {path: path.read_bytes() for path in Path().iterdir()} == before


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    "words", [["check", *MODEL, "--output", "x.html"], ["repair", *MODEL, *ISOTONIC]]
)
def test_a_folder_that_cannot_be_written_ends_it_before_any_run(words, capsys, monkeypatch):
    def refuse(**options):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert main(words) == 1
    assert capsys.readouterr().err == (
        f"kdg: cannot write {Path().absolute()}: Permission denied; change the rights of the folder,"
        " or name another one with --output\n"
    )
    assert not Path("outputs").exists()


@pytest.mark.usefixtures("files")
def test_a_repaired_model_is_measured_as_any_other(capsys):
    assert main(["repair", *MODEL, "--method", "kdf", "--output", "repaired.kdg"]) == 0
    words = ["check", "--model", "repaired.kdg", *MODEL[3:], "--methods", "gated_temperature"]
    capsys.readouterr()
    assert main([*words, "--folds", "2", "hydra.launcher.n_jobs=1"]) == 0
    printed = capsys.readouterr().out
    new = pd.read_csv("new.csv")
    expected = log_loss(new["rich"], kdgraph.load("repaired.kdg").predict_proba(new))
    assert float(table_of(printed)["the model as it is"][0]) == pytest.approx(expected, abs=6e-4)
    assert "--output repaired_again.kdg" in printed, "the model must not be written over"
    assert "kdgraph.load(&#34;repaired_again.kdg&#34;)" in Path("check.html").read_text()


@pytest.mark.usefixtures("files")
def test_a_file_of_another_value_is_no_repaired_model(capsys):
    kdgraph.save({"a": 1}, "other.kdg")
    words = ["--model", "other.kdg", "--input", "new.csv", "--output", "o.csv"]
    assert main(["predict", *words]) == 2
    assert capsys.readouterr().err == (
        "kdg: other.kdg holds a dict, not a repaired model with the columns of its rows; write it"
        " again with 'kdg repair'\n"
    )


def changed(value: TextFormat, **fields) -> TextFormat:
    """Change fields of an object without its checks, as an edited file does."""
    for name, field in fields.items():
        object.__setattr__(value, name, field)
    return value


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"scaling": {"shift": "a", "size": 1.0}}, "other.kdg is damaged (could not convert"),
        ({"scaling": {"size": 1.0}}, "other.kdg is damaged ('shift')"),
        (
            {"text_format": changed(TextFormat(), encoding="nonesuch")},
            "other.kdg is damaged (dataset.encoding=nonesuch is not an encoding",
        ),
        ({"classes": []}, "other.kdg holds a model that predicts no distributions"),
    ],
)
def test_a_file_with_another_schema_is_refused(changes, message, capsys):
    assert main(["repair", *MODEL, "--method", "isotonic", "--output", "m.kdg"]) == 0
    model = kdgraph.load("m.kdg")
    kdgraph.save(replace(model, schema=replace(model.schema, **changes)), "other.kdg")
    capsys.readouterr()
    words = ["--model", "other.kdg", "--input", "new.csv", "--output", "o.csv"]
    assert main(["predict", *words]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1


@pytest.mark.usefixtures("files")
def test_a_model_with_another_key_needs_trust(capsys, monkeypatch, tmp_path):
    repair_words = ["repair", *MODEL, "--method", "isotonic", "--output", "repaired.kdg"]
    assert main(repair_words) == 0
    monkeypatch.setenv("KDGRAPH_KEY_FILE", str(tmp_path / "another.key"))
    words = ["predict", "--model", "repaired.kdg", "--input", "new.csv", "--output", "o.csv"]
    capsys.readouterr()
    assert main(words) == 2
    error = capsys.readouterr().err
    assert "repaired.kdg was not made with your key" in error
    assert "else write it again with 'kdg repair'" in error
    assert main([*words, "--trust", "pickle.loads"]) == 0


@pytest.mark.usefixtures("files")
def test_regressors_are_refused(capsys):
    frame = pd.read_csv("new.csv")
    joblib.dump(
        LinearRegression().fit(frame[["age"]].fillna(0), frame["age"].fillna(0)), "r.joblib"
    )
    words = ["--model", "r.joblib", "--trust", "--data", "new.csv", "--target", "age"]
    assert main(["check", *words]) == 2
    assert "predicts numbers, and kdg check takes classifiers" in capsys.readouterr().err
