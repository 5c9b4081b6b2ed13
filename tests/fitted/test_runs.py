"""Runs on a model from a file: rows, identity, refusals and predictions in a new process."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from kdgraph import KernelDensityForest, load_fitted
from kdgraph.config import compose, plan
from kdgraph.errors import KdgError
from kdgraph.geometry import partition_of
from kdgraph.runner.repair import repair
from kdgraph.runner.run import run
from kdgraph.runner.stages import split

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*is trusted",
    "ignore:.*trees of their own",
    "ignore:.*have the features of another row",
)
TABLE = [
    "dataset=table",
    "dataset.path=rows.csv",
    "dataset.target=income",
    "parent=fitted",
    "figures=none",
    "ood=noise",
    "n_jobs=1",
]
PICKLE = ["parent.path=model.joblib", "parent.trust=true"]


@pytest.fixture
def model(tmp_path, monkeypatch):
    """Model of a table with categories and missing values, and a table of new rows."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    frame = pd.DataFrame({"age": rng.normal(40, 10, 600), "job": rng.choice(["c", "d", "n"], 600)})
    income = np.where((frame["age"] > 40) ^ (rng.random(600) < 0.2), "rich", "poor")
    frame.loc[:30, "age"] = np.nan
    columns = make_column_transformer((OneHotEncoder(), ["job"]), (SimpleImputer(), ["age"]))
    model = make_pipeline(columns, LogisticRegression()).fit(frame[:200], income[:200])
    joblib.dump(model, "model.joblib")
    frame[200:].assign(income=income[200:]).to_csv("rows.csv", index=False)
    return model


def test_no_row_trains_and_the_model_predicts_as_alone(model):
    record = run(compose([*TABLE, *PICKLE, "method=isotonic"]))
    sizes = [record["dataset"][f"n_{role}"] for role in ("train", "calibration", "test")]
    assert sizes == [0, 280, 120]
    frame = pd.read_csv("rows.csv")
    predictions = pd.read_parquet(next(Path("outputs").rglob("predictions.parquet")))
    test = predictions[predictions["set"] == "test"]
    expected = model.predict_proba(frame.drop(columns="income"))[test["row"].to_numpy(int)]
    # Rows are predicted in other blocks, in which BLAS may add in another order.
    np.testing.assert_allclose(test[["parent_poor", "parent_rich"]], expected, rtol=1e-10)


def test_gate_uses_training_rows_and_keeps_test_rows(model):
    calibrated = compose([*TABLE, *PICKLE, "method=isotonic"])
    gated = compose([*TABLE, *PICKLE, "method=gated_isotonic"])
    with warnings.catch_warnings():
        warnings.filterwarnings("always", ".*trees of their own")
        record = run(gated)
    assert [record["dataset"][f"n_{r}"] for r in ("train", "calibration", "test")] == [196, 84, 120]
    assert "use a forest of 100 trees of their own, fitted on 196 rows" in str(record["warnings"])
    parts = [
        split(config.dataset, 0, trains=trains)
        for config, trains in ((calibrated, False), (gated, True))
    ]
    np.testing.assert_array_equal(parts[0].test.X, parts[1].test.X)


def test_candidates_that_estimate_a_density_take_training_rows(model):
    """With calibration rows alone a density candidate would be measured on the rows of its fit."""
    frame = pd.read_csv("rows.csv")
    X, y = frame.drop(columns="income"), frame["income"]
    joblib.dump(
        make_pipeline(model[0], RandomForestClassifier(20, random_state=0)).fit(X, y), "f.joblib"
    )
    trees = [*TABLE, "parent.path=f.joblib", "parent.trust=true", "method=best"]
    record = run(compose(trees))
    assert [record["dataset"][f"n_{r}"] for r in ("train", "calibration", "test")] == [196, 84, 120]
    candidates = compose([*trees, "~calibrator.candidates.kdf", "calibrator.default=null"])
    assert run(candidates)["dataset"]["n_train"] == 0


def test_density_candidate_needs_a_partition(model):
    with pytest.raises(
        KdgError,
        match=r"^calibrator.candidates.kdf needs the partition of trees, which cannot be read of"
        r" the model in model.joblib; choose method=gated_isotonic, method=isotonic or another"
        r" calibrator$",
    ):
        run(compose([*TABLE, *PICKLE, "method=best"]))


def test_rows_of_the_density_calibrate_too(model):
    """All rows are new to the model: a calibrator before a gate is that of all of them."""
    words = [*TABLE, *PICKLE]
    alone, gated = (
        repair(compose([*words, f"method={name}"])) for name in ("isotonic", "gated_isotonic")
    )
    assert (gated.n_train, gated.n_calibration, alone.n_calibration) == (280, 120, 400)
    maps = [repaired.model.model.post_hoc["calibrator"] for repaired in (alone, gated)]
    X = pd.read_csv("rows.csv").drop(columns="income")
    codes = np.column_stack([X["age"], X["job"].map({"c": 0.0, "d": 1.0, "n": 2.0})])
    # Rows calibrate in another order, in which sums differ in the last bits.
    np.testing.assert_allclose(*(each.predict_proba(codes) for each in maps), rtol=1e-10)


def test_forest_receives_missing_values_after_a_density(tmp_path, monkeypatch):
    """Trees of scikit-learn send a missing value to a side; distances take the median for it."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(500, 2))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=500) > 0, 1, 0)
    X[::4, 1] = np.nan
    forest = RandomForestClassifier(20, random_state=0).fit(X[:200], y[:200])
    joblib.dump(forest, "forest.joblib")
    parent = load_fitted("forest.joblib", trust=True).fit(X[200:350], y[200:350])
    held_out = {"X_calibration": X[350:], "y_calibration": y[350:]}
    kdf = KernelDensityForest(FrozenEstimator(parent), random_state=0)
    proba = kdf.fit(X[200:350], y[200:350], **held_out).predict_proba(X)
    assert partition_of(parent).takes_missing and np.isnan(partition_of(parent).embed(X)).any()
    np.testing.assert_array_equal(partition_of(parent).encode(X), forest.apply(X))
    median = np.where(np.isnan(X), np.nanmedian(X[200:350], axis=0), X)
    # Where a row's missing value is on the median's side of all splits, the two are one row.
    same = (forest.apply(X) == forest.apply(median)).all(axis=1)
    assert same.sum() > len(X) / 2
    np.testing.assert_allclose(proba[same], kdf.predict_proba(median)[same], rtol=1e-10)
    far = np.array([[1e6, np.nan]])
    np.testing.assert_allclose(kdf.predict_proba(far)[0], np.bincount(y[200:350]) / 150)


def test_another_content_of_the_file_is_another_run(model):
    overrides = [*TABLE, *PICKLE, "method=isotonic"]
    first = run(compose(overrides))
    assert first["reads"]["parent.path"]["path"] == str(Path("model.joblib").absolute())
    frame = pd.read_csv("rows.csv")
    joblib.dump(model.fit(frame.drop(columns="income"), frame["income"]), "model.joblib")
    second = run(compose(overrides))
    assert first["run_id"] != second["run_id"]
    digests = [record["reads"]["parent.path"]["sha256"] for record in (first, second)]
    assert digests[0] != digests[1]
    nll = [
        next(m["value"] for m in record["metrics"] if m["metric"] == "nll" and m["of"] == "parent")
        for record in (first, second)
    ]
    assert nll[0] != nll[1]


def test_predictions_ignore_the_order_of_columns(tmp_path, monkeypatch):
    """No row trains, so the rows of two tables do not differ where the parent is stored."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    frame = pd.DataFrame(rng.normal(size=(300, 2)), columns=["a", "b"])
    income = np.where(frame["a"] > 0, "rich", "poor")
    joblib.dump(LogisticRegression().fit(frame, income), "model.joblib")
    error = []
    for order in (["a", "b"], ["b", "a"]):
        frame[order].assign(income=income).to_csv("rows.csv", index=False)
        record = run(compose([*TABLE, *PICKLE, "method=isotonic"]))
        error += [
            m["value"] for m in record["metrics"] if (m["metric"], m["of"]) == ("error", "parent")
        ]
    assert len(error) == 2
    assert max(error) < 0.1


@pytest.mark.slow
def test_predictions_in_a_new_process_need_no_file(model, tmp_path):
    record = run(compose([*TABLE, *PICKLE, "method=lore_geodesic"]))
    Path("model.joblib").unlink()
    folder = next(Path("outputs").rglob(f"{record['run_id']}"))
    code = "import sys; from kdgraph.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = ["predict", "--run", str(folder), "--input", "rows.csv", "--output", "new.csv"]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, "-c", code, *command], env=environment, check=True)
    new = pd.read_csv("new.csv")
    expected = model.predict(pd.read_csv("rows.csv").drop(columns="income"))
    assert (new["predicted"] == expected).all()
    process = subprocess.run(
        [sys.executable, "-c", code, *command, "--trust"],
        env=environment | {"KDGRAPH_KEY_FILE": str(tmp_path / "other.key")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 2
    assert "needs what is not known to be harmless: pickle.loads; " in process.stderr


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["parent.path=model.joblib", "method=isotonic"],
            "parent.path=model.joblib: is a pickle, which can run any code when it is read; save it"
            " with skops (skops.io.dump), or as ONNX; if you know and trust its origin, give"
            " parent.trust=true",
        ),
        (
            [*PICKLE, "method=kdf"],
            "calibrator=kdf needs the partition of trees, which cannot be read of the model in"
            " model.joblib; choose method=gated_isotonic, method=isotonic or another calibrator",
        ),
        (
            [*PICKLE, "method=kdf_paper"],
            "calibrator=kdf_paper needs the partition of trees, which cannot be read of the model"
            " in model.joblib; choose method=gated_isotonic, method=isotonic or another calibrator",
        ),
        (
            [
                *PICKLE,
                "method=linear_pool",
                "+calibrator.members.kdf._target_=kdgraph.density.KernelDensityForest",
            ],
            "calibrator.members.kdf needs the partition of trees, which cannot be read of the model"
            " in model.joblib; choose method=gated_isotonic, method=isotonic or another calibrator",
        ),
        (
            [*PICKLE, "method=energy"],
            "detector=energy needs the partition of a network, and the model in model.joblib is no"
            " network whose layers can be read; choose another detector",
        ),
        (
            [*PICKLE, "method=isotonic", "dataset.scale=min_max"],
            "dataset.scale=min_max changes the rows, and parent=fitted takes them as they are in"
            " the data; give dataset.scale=none",
        ),
        (
            [*PICKLE, "method=isotonic", "preprocess=standardized"],
            "preprocess=standardized encodes rows for a parent that is fitted here, and parent=fitted takes"
            " them as they are; leave preprocess=default",
        ),
        (
            [*PICKLE, "method=isotonic", "calibration=cross_fit"],
            "calibration=cross_fit fits the parent on folds, and parent=fitted trains nothing;"
            " choose calibration=held_out",
        ),
        (
            [*PICKLE, "method=isotonic", "dataset.drop=[age]"],
            "parent.path=model.joblib: was fitted on other columns than those of the rows (age"
            " missing)",
        ),
        (
            [*PICKLE, "method=isotonic", "dataset.target=job"],
            "parent.path=model.joblib: was fitted on other columns than those of the rows (job"
            " missing, income unknown to it)",
        ),
    ],
)
@pytest.mark.usefixtures("model")
def test_what_does_not_fit_is_refused_in_one_line(overrides, message):
    def plan_and_run():
        run(plan([*TABLE, *overrides]).jobs[0].config)

    with pytest.raises(KdgError) as raised:
        plan_and_run()
    assert str(raised.value) == message
    assert raised.value.exit_code == 2


def test_regressors_are_repaired_by_recalibrators(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(rng.normal(size=(600, 2)), columns=["a", "b"])
    target = frame["a"] + rng.exponential(size=600)
    joblib.dump(LinearRegression().fit(frame[:200], target[:200]), "model.joblib")
    frame[200:].assign(income=target[200:]).to_csv("rows.csv", index=False)
    record = run(compose([*TABLE, *PICKLE, "method=global_pit", "ood=none"]))
    crps = {m["of"]: m["value"] for m in record["metrics"] if m["metric"] == "crps"}
    assert crps["calibrated"] < crps["parent"]


@pytest.mark.usefixtures("model")
def test_fitted_parent_replaces_the_default_scaling():
    scales = [
        compose([*TABLE[:3], *words, "method=isotonic"]).dataset["scale"]
        for words in (["parent=fitted", *PICKLE], ["parent=random_forest"])
    ]
    assert scales == ["none", "max_norm"]


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_kernel_density_forest_of_the_trees_of_a_file(library, model, tmp_path):
    """It is the one of the model that was saved, in a run and in the library."""
    module = pytest.importorskip(library, reason=f"{library} is not installed; extra boosting")
    rows = pd.read_csv("rows.csv", dtype={"job": "category"})
    X, y = rows[["age", "job"]], (rows["income"] == "rich").to_numpy().astype(int)
    if library == "lightgbm":
        trees = module.LGBMClassifier(n_estimators=5, verbose=-1).fit(X[:200], y[:200])
        trees.booster_.save_model("trees.txt")
    else:
        trees = module.XGBClassifier(n_estimators=5, enable_categorical=True)
        trees.fit(X[:200], y[:200]).save_model("trees.json")
    path = str(next(Path().glob("trees.*")))
    expected, of_file = (
        KernelDensityForest(FrozenEstimator(parent), random_state=0)
        .fit(X[200:300], y[200:300], X_calibration=X[300:], y_calibration=y[300:])
        .predict_proba(X)
        for parent in (trees, load_fitted(path))
    )
    # Predictions of the file are divided by their sum, which single precision leaves beside 1.
    np.testing.assert_allclose(of_file, expected, atol=1e-6)
    classes = "parent.classes=[poor,rich]"
    record = run(compose([*TABLE, f"parent.path={path}", classes, "calibrator=kdf"]))
    # The density takes rows of its own, which the model has not seen either.
    assert record["dataset"]["n_train"] > 0 and record["dataset"]["n_calibration"] > 0
