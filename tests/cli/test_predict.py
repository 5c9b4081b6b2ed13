"""``kdg predict``: the numbers of the run itself, in any chunks, and one line for what does not
fit.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kdgraph.base import FittedModel
from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.data.text_format import exact_floats
from kdgraph.deployment import model as deployed
from kdgraph.persistence import load, save
from kdgraph.runner.prediction import predict as predicting
from kdgraph.runner.run import run
from kdgraph.runner.stages import split
from tests.variations import others_slow

SMALL = ["parent.n_estimators=10", "ood=none", "figures=none", "n_jobs=1"]


@pytest.fixture
def kdg(kdg):
    return lambda *arguments: kdg("predict", *map(str, arguments))


@pytest.fixture(scope="module")
def table(tmp_path_factory) -> Path:
    """A table with numbers, a category and missing cells; every label is text."""
    rng = np.random.default_rng(0)
    y = np.arange(300) % 2
    frame = pd.DataFrame(
        {
            "a": rng.normal(y, 1.0),
            "b": rng.normal(0, 100.0, 300),
            "c": np.array(["x", "y", "z"])[rng.integers(3, size=300)],
        }
    )
    frame.loc[::17, "b"] = np.nan
    path = tmp_path_factory.mktemp("table") / "custom.csv"
    frame.assign(label=np.where(y, "yes", "no")).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory, table):
    """Finished runs of several methods on the table, by name: their config."""
    out, configs = tmp_path_factory.mktemp("outputs"), {}
    dataset = [
        "dataset=table",
        f"dataset.path={table}",
        "dataset.target=label",
        "dataset.scale=min_max",
    ]
    for name, more in {
        "kdf": ["method=kdf"],
        "gated": ["calibrator=isotonic", "gate=density"],
        "isotonic": ["calibrator=isotonic"],
        "discriminant": ["parent=discriminant", "calibrator=sigmoid"],
    }.items():
        folder = tmp_path_factory.mktemp("conf")
        (folder / "parent").mkdir()
        node = (
            "# Linear\nname: discriminant\n_target_:"
            " sklearn.discriminant_analysis.LinearDiscriminantAnalysis\nsolver: svd\n"
        )
        (folder / "parent" / "discriminant.yaml").write_text(node)
        small = [word for word in SMALL if name != "discriminant" or not word.startswith("parent.")]
        configs[name] = compose([*dataset, *small, *more, f"out={out}"], folder)
        run(configs[name])
    return configs


@pytest.mark.filterwarnings("ignore:custom. columns that number the rows are left out")
def test_the_file_of_a_run_is_predicted_with_dates_ids_and_index(kdg, tmp_path):
    rng, n = np.random.default_rng(0), 120
    y = np.arange(n) % 2
    large = 2**53
    frame = pd.DataFrame(
        {
            "day": pd.Timestamp("2021-01-01")
            + pd.to_timedelta(np.arange(n) % 30 + 40 * y, unit="D"),
            "site": large + rng.integers(3, size=n),
            "x": rng.normal(size=n),
            "label": large + y,
        }
    )
    frame.sample(frac=1, random_state=0).to_csv("custom.csv", date_format="%d/%m/%Y")
    dataset = [
        "dataset=table",
        "dataset.path=custom.csv",
        "dataset.target=label",
        "dataset.categorical=[site]",
        "dataset.parse_dates=[day]",
    ]
    config = compose([*dataset, *SMALL, "calibrator=isotonic", f"out={tmp_path / 'outputs'}"])
    run(config)
    splits = split(config.dataset, config.seed)
    assert splits.train.feature_names == ("day", "site", "x") and splits.train.classes.tolist() == [
        large,
        large + 1,
    ]
    code, _, err = kdg("--run", config.run_dir, "--input", "custom.csv", "--output", "new.parquet")
    assert (code, err) == (
        0,
        "kdg: columns that the model does not use are left out: Unnamed: 0, label\n",
    )
    predicted = pd.read_parquet("new.parquet")["predicted"].to_numpy()
    assert set(predicted) == {large, large + 1}
    assert (predicted == pd.read_csv("custom.csv")["label"]).mean() > 0.9, (
        "the days of the classes are 10 apart"
    )


def test_rows_of_a_file_are_predicted_as_their_group_is(kdg, table, tmp_path):
    dataset = ["dataset=table", f"dataset.path={table}", "dataset.target=label", "dataset.group=c"]
    config = compose(
        [*dataset, *SMALL, "calibrator=group_temperature", f"out={tmp_path / 'outputs'}"]
    )
    run(config)
    assert kdg("--run", config.run_dir, "--input", table, "--output", "new.parquet")[0] == 0
    proba = pd.read_parquet("new.parquet")[["probability_no", "probability_yes"]].to_numpy()
    splits, model = (
        split(config.dataset, config.seed),
        load(config.run_dir / "model" / "calibrated.kdg"),
    )
    everything = {row.tobytes(): p for row, p in zip(_rows(table, splits), proba, strict=True)}
    positions = np.array([everything[row.tobytes()] for row in splits.test.X])
    np.testing.assert_array_equal(
        positions, model.predict_outputs(["proba"], splits.test.X, splits.test.groups)["proba"]
    )
    assert not np.allclose(positions, model.predict_outputs(["proba"], splits.test.X)["proba"])


@pytest.mark.parametrize("name", ["kdf", "gated", "isotonic", "discriminant"])
@pytest.mark.parametrize("ending", others_slow([".parquet", ".csv"]))
def test_the_numbers_are_those_of_the_run(kdg, runs, table, tmp_path, name, ending):
    config = runs[name]
    code, out, err = kdg("--run", config.run_dir, "--input", table, "--output", f"new{ending}")
    assert (code, err) == (0, "kdg: columns that the model does not use are left out: label\n")
    assert out.startswith(f"new{ending}   300 rows")
    predicted = (
        pd.read_parquet("new.parquet")
        if ending == ".parquet"
        else pd.read_csv("new.csv", **exact_floats())
    )
    assert list(predicted) == [
        "row",
        "predicted",
        "confidence",
        "ood_score",
        "probability_no",
        "probability_yes",
    ]
    model = load(config.run_dir / "model" / "calibrated.kdg")
    splits = split(config.dataset, config.seed)
    proba = predicted[["probability_no", "probability_yes"]].to_numpy()
    everything = {row.tobytes(): p for row, p in zip(_rows(table, splits), proba, strict=True)}
    for role in (splits.train, splits.test):
        expected = model.predict_proba(role.X)
        np.testing.assert_array_equal([everything[row.tobytes()] for row in role.X], expected)
    np.testing.assert_array_equal(predicted["confidence"], proba.max(axis=1))
    assert predicted["predicted"].tolist() == np.array(["no", "yes"])[proba.argmax(axis=1)].tolist()
    score = model.predict_outputs(["ood_score"], _rows(table, splits))["ood_score"]
    assert name in ("kdf", "gated") or (score == -proba.max(axis=1)).all()
    np.testing.assert_array_equal(predicted["ood_score"], score)


def _rows(table: Path, splits) -> np.ndarray:
    """Every row of the table as the run's splits have them."""
    from kdgraph.data.tables import TableFile

    return splits.scaling.apply(TableFile(str(table), "label").load().X)


@pytest.mark.parametrize("name", ["kdf", "discriminant"])
def test_no_chunk_changes_a_number(kdg, runs, table, tmp_path, monkeypatch, name):
    monkeypatch.setattr(deployed, "BLOCK", 64)
    for chunk in ("1", "64", "100", "100000"):
        assert (
            kdg(
                "--run",
                runs[name].run_dir,
                "--input",
                table,
                "--output",
                f"{chunk}.csv",
                "--chunk",
                chunk,
            )[0]
            == 0
        )
    contents = {Path(f"{chunk}.csv").read_bytes() for chunk in ("1", "64", "100", "100000")}
    assert len(contents) == 1


def test_a_chunk_bounds_the_rows_in_memory(runs, table, monkeypatch, kdg):
    monkeypatch.setattr(deployed, "BLOCK", 32)
    seen, real = [], predicting._predict_block
    monkeypatch.setattr(
        predicting,
        "_predict_block",
        lambda saved, rows, *more: seen.append(len(rows.X)) or real(saved, rows, *more),
    )
    kdg("--run", runs["isotonic"].run_dir, "--input", table, "--output", "new.csv", "--chunk", "50")
    assert seen == [64, 64, 64, 64, 44]
    seen.clear()
    monkeypatch.setattr(deployed, "BLOCK_BYTES", 8 * 3 * 10)  # ten rows of three numbers
    kdg("--run", runs["isotonic"].run_dir, "--input", table, "--output", "new.csv")
    assert max(seen) == 8 * predicting.READ_BLOCKS


def test_the_summary_names_the_score(kdg, runs, table):
    def summary(name: str) -> str:
        return kdg("--run", runs[name].run_dir, "--input", table, "--output", "new.csv")[1]

    assert (
        summary("isotonic")
        == "new.csv   300 rows; the model has no density, so ood_score is minus the confidence\n"
    )
    above = int((pd.read_csv("new.csv")["ood_score"] > 0).sum())
    assert above == 0
    line = summary("kdf")
    above = int((pd.read_csv("new.csv")["ood_score"] > 0).sum())
    assert (
        line == f"new.csv   300 rows, {above} of them ({above / 300:.1%}) below the density floor\n"
    )


def test_a_copied_run_needs_nothing_but_its_model(kdg, runs, table, tmp_path):
    shutil.copytree(runs["kdf"].run_dir / "model", tmp_path / "copied" / "model")
    assert kdg("--run", "copied", "--input", table, "--output", "sub/new.csv")[0] == 0
    assert [path.name for path in (tmp_path / "sub").iterdir()] == ["new.csv"]


def test_categories_that_are_new(kdg, runs, table, tmp_path):
    pd.read_csv(table).assign(c="w").to_csv("new.csv", index=False)
    code, out, err = kdg(
        "--run", runs["kdf"].run_dir, "--input", "new.csv", "--output", "found.csv"
    )
    assert (code, out) == (2, "") and not Path("found.csv").exists()
    assert (
        err.splitlines()[-1]
        == "kdg: --input new.csv: column 'c' has 'w' in row 0, and the training data have x, y, z; "
        "--unseen missing reads such cells as missing"
    )
    code, out, err = kdg(
        "--run",
        runs["kdf"].run_dir,
        "--input",
        "new.csv",
        "--output",
        "found.csv",
        "--unseen",
        "missing",
    )
    assert code == 0
    assert (
        err.splitlines()[-1]
        == "kdg: 300 cells of 'c' have a category that the training data do not have: read as"
        " missing"
    )


def test_an_empty_cell_where_the_model_takes_none(kdg, tmp_path, monkeypatch):
    config = compose(["dataset=wine", "method=kdf", *SMALL, f"out={tmp_path}"])
    run(config)
    X = split(config.dataset, 0).test.X[:5].copy()
    X[3, 1] = np.nan
    np.savez("new.npz", X=X)
    code, out, err = kdg("--run", config.run_dir, "--input", "new.npz", "--output", "found.csv")
    assert (code, out) == (2, "") and not list(tmp_path.glob("*found*"))
    assert (
        err
        == "kdg: --input new.npz: row 3 has an empty cell ('malic_acid'), and the model takes none:"
        " its training rows had none\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [],
            (
                "the following arguments are required: --input, --output; 'kdg predict"
                " --help' lists the options"
            ),
        ),
        (
            ["--run", "gone"],
            (
                "--run gone: there is no such folder; it is <out>/<dataset>/<method>/<id>, as kdg"
                " run prints it"
            ),
        ),
        (["--run", "."], "--run . is no finished run (it has no result.json)"),
        (
            ["--output", "new.txt"],
            "--output new.txt: the ending chooses the format, and must be .parquet or .csv",
        ),
        (["--output", "in.csv"], "--output in.csv is the file of --input; give another name"),
        (["--input", "elsewhere.parquet"], "--input elsewhere.parquet: no such file"),
        (
            ["--chunk", "0"],
            (
                "argument --chunk: must be a number of rows from 1, got '0'; 'kdg predict --help'"
                " lists the options"
            ),
        ),
        (
            ["--unseen", "drop"],
            (
                "argument --unseen: invalid choice: 'drop' (choose from 'refuse', 'missing'); 'kdg"
                " predict --help' lists the options"
            ),
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_unusable_input_is_reported_in_one_line(kdg, runs, arguments, message):
    Path("in.csv").write_text("a,b,c\n1,2,x\n")
    usual = {"--run": str(runs["kdf"].run_dir), "--input": "in.csv", "--output": "new.csv"}
    merged = (
        {**usual, **dict(zip(arguments[::2], arguments[1::2], strict=True))} if arguments else {}
    )
    code, out, err = kdg(*(word for pair in merged.items() for word in pair))
    assert (code, out, err) == (2, "", f"kdg: {message}\n")


def test_the_reason_for_a_run_without_a_model_is_reported(kdg, runs, table, tmp_path):
    (tmp_path / "bare").mkdir()
    shutil.copy(runs["kdf"].run_dir / "result.json", tmp_path / "bare")
    assert (
        kdg("--run", "bare", "--input", table, "--output", "new.csv")[2]
        == "kdg: --run bare has no model/calibrated.kdg: it was made with save=false or cannot be"
        " saved; force=true makes it again\n"
    )


def test_a_table_without_rows(kdg, runs):
    Path("in.csv").write_text("a,b,c\n")
    assert kdg("--run", runs["kdf"].run_dir, "--input", "in.csv", "--output", "new.csv")[::2] == (
        2,
        "kdg: --input in.csv has no rows\n",
    )
    assert not Path("new.csv").exists()


OWN = """
from sklearn.ensemble import RandomForestClassifier
class OwnForest(RandomForestClassifier):
    pass
"""


@pytest.fixture
def another_user(tmp_path, monkeypatch) -> Path:
    """Later commands use another key, which is in this file."""
    monkeypatch.setenv("KDGRAPH_KEY_FILE", str(tmp_path / "other.key"))
    return tmp_path / "other.key"


def test_a_run_of_another_user_is_read_only_if_it_is_trusted(
    kdg, runs, table, another_user, monkeypatch
):
    """Each remedy that the line names works."""
    own = Path(os.environ["XDG_CONFIG_HOME"]) / "kdgraph" / "model.key"
    shutil.copytree(runs["kdf"].run_dir, "copied")
    arguments = ["--run", "copied", "--input", table, "--output", "new.csv"]
    code, _, err = kdg(*arguments)
    assert (
        code == 2
        and err
        == f"kdg: copied/model/calibrated.kdg was not made with your key ({another_user}), and a"
        " model can run code of its maker's choosing when it is read; if you know and trust its"
        " origin, add --trust; else do the run again with force=true, or name its maker's key"
        " with KDGRAPH_KEY_FILE=FILE\n"
    )
    assert not Path("new.csv").exists()
    assert kdg(*arguments, "--trust")[0] == 0
    expected = Path("new.csv").read_text()
    monkeypatch.setenv("KDGRAPH_KEY_FILE", str(own))
    Path("new.csv").unlink()
    assert kdg(*arguments)[0] == 0 and Path("new.csv").read_text() == expected


def test_user_class_is_loaded_in_its_run_or_by_name(kdg, tmp_path, monkeypatch):
    (tmp_path / "own_forest.py").write_text(OWN)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "conf" / "parent").mkdir(parents=True)
    text = (
        "# Own\ndefaults: [random_forest, _self_]\nname: custom\n_target_: own_forest.OwnForest\n"
    )
    (tmp_path / "conf" / "parent" / "custom.yaml").write_text(text)
    config = compose(
        ["dataset=wine", "parent=custom", *SMALL, f"out={tmp_path / 'outputs'}"], tmp_path / "conf"
    )
    run(config)
    np.savez("new.npz", X=split(config.dataset, 0).test.X)
    arguments = ["--run", config.run_dir, "--input", "new.npz", "--output", "new.csv"]
    assert kdg(*arguments)[0] == 0
    monkeypatch.setenv("KDGRAPH_KEY_FILE", str(tmp_path / "other.key"))
    code, _, err = kdg(*arguments, "--trust")
    assert (
        code == 2
        and err
        == f"kdg: {config.run_dir}/model/parent.kdg needs what is not known to be harmless:"
        " own_forest.OwnForest; if you know what these are, and trust the origin of the run: --trust"
        " own_forest.OwnForest\n"
    )
    assert kdg(*arguments, "--trust", "another_package")[0] == 2
    assert kdg(*arguments, "--trust", "another_package", "--trust", "own_forest.OwnForest")[0] == 0
    assert kdg(*arguments, "--trust", "own_forest")[0] == 0


FORCE = "do the run again with force=true"


@pytest.mark.parametrize(
    ("write", "message"),
    [
        (lambda path: save(range(3), path), "holds a range, not the model of a run"),
        (lambda path: save({"parent": [1]}, path), "holds a dict, not the model of a run"),
        (
            lambda path: save(FittedModel(parent=[1]), path),
            "holds a model that predicts no classes, which schema.json beside it lists",
        ),
        (
            lambda path: path.write_bytes(path.read_bytes()[:-9]),
            "is damaged or no file of kdgraph (its checksum is not there)",
        ),
        (
            lambda path: path.write_bytes(path.read_bytes().replace(b"document", b"documemt")),
            "is damaged (its checksum does not fit)",
        ),
        (
            lambda path: path.write_text("a,b\n1,2\n"),
            "is damaged or no file of kdgraph (its checksum is not there)",
        ),
        (
            lambda path: path.write_bytes(b"PK" + b"kdgraph 1 sha256 " + b"0" * 64),
            "was written by another version of kdgraph",
        ),
    ],
    ids=[
        "a value",
        "a dict",
        "a model of a list",
        "cut off",
        "changed",
        "a table",
        "an older file",
    ],
)
def test_what_is_no_model_is_refused_in_one_line(kdg, runs, table, write, message):
    shutil.copytree(runs["kdf"].run_dir, "copied")
    write(Path("copied/model/calibrated.kdg"))
    code, _, err = kdg("--run", "copied", "--input", table, "--output", "new.csv")
    assert (code, err) == (2, f"kdg: copied/model/calibrated.kdg {message}; {FORCE}\n")


@pytest.mark.parametrize(
    ("part", "value", "why"),
    [
        ("classes", 3, "classes must be a list, got 3"),
        ("shape", ["x"], "shape must be a list of which each is an integer, got ['x']"),
        ("missing", None, "missing must be a list, got None"),
        ("text_format", {"separator": [";"]}, "separator must be a string or null, got [';']"),
        (
            "text_format",
            {"encoding": "utf-99"},
            "dataset.encoding=utf-99 is not an encoding of Python; it has utf-8, latin-1, utf-16 "
            "and others",
        ),
        ("text_format", {"decimal": ";"}, "decimal must be one of ., ,, got ';'"),
        ("scaling", {"shift": 0.0}, "'size'"),
        ("scaling", {"shift": "far", "size": 1.0}, "could not convert string to float: 'far'"),
        (
            "text",
            {"column": "text"},
            "Texts.__init__() got an unexpected keyword argument 'column'",
        ),
        (
            "ood_score",
            "luck",
            "ood_score must be one of density, detector, confidence, sets, none, got 'luck'",
        ),
    ],
)
def test_a_schema_that_was_edited_is_refused_in_one_line(kdg, runs, table, part, value, why):
    shutil.copytree(runs["kdf"].run_dir, "copied")
    path = Path("copied/model/schema.json")
    schema = json.loads(path.read_text())
    if part == "text_format":
        value = schema[part] | value
    path.write_text(json.dumps(schema | {part: value}))
    code, _, err = kdg("--run", "copied", "--input", table, "--output", "new.csv")
    assert (code, err) == (2, f"kdg: {path} is no schema of a model, or damaged ({why}); {FORCE}\n")


def test_a_model_that_cannot_be_read_is_one_line_too(kdg, runs, table):
    shutil.copytree(runs["kdf"].run_dir, "copied")
    Path("copied/model/parent.kdg").unlink()
    Path("copied/model/parent.kdg").mkdir()
    code, _, err = kdg("--run", "copied", "--input", table, "--output", "new.csv")
    assert (code, err) == (2, "kdg: copied/model/parent.kdg cannot be read (Is a directory)\n")


def test_force_makes_a_damaged_model_again(kdg, tmp_path, capsys):
    words = ["dataset=wine", *SMALL, "out=outputs"]
    assert main(["run", *words]) == 0
    (model,) = Path("outputs").rglob("model/calibrated.kdg")
    np.savez("new.npz", X=split(compose(words).dataset, 0).test.X)
    arguments = ["--run", model.parents[1], "--input", "new.npz", "--output", "new.csv"]
    model.write_bytes(model.read_bytes()[:100])
    capsys.readouterr()
    code, _, err = kdg(*arguments)
    assert code == 2 and err.endswith(f"; {FORCE}\n")
    assert main(["run", *words, "force=true"]) == 0 and kdg(*arguments)[0] == 0


def test_help_states_what_is_guaranteed(kdg):
    code, out, _ = kdg("--help")
    text = " ".join(out.split())
    assert code == 0
    assert "A model is like a program: reading one can run code of its maker's choosing." in text
    assert "but promises nothing." in text
