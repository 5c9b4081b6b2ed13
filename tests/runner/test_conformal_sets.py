"""Runs with prediction sets: rows of their own, metrics by group, figures, and new rows."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kdgraph.config import compose, run_id
from kdgraph.runner.stages import calibrate, divide_calibration, fit, split

COMMON = [
    "dataset=table",
    "dataset.path=t.csv",
    "dataset.target=label",
    "dataset.group=region",
    "parent=random_forest",
    "parent.n_estimators=30",
    "parent.min_samples_leaf=5",
    "ood=permuted",
    "n_jobs=1",
]


def write_table(n: int = 3000, n_islands: int = 0) -> pd.DataFrame:
    """Write a table with two classes; labels are far less certain in the south."""
    rng = np.random.default_rng(0)
    region = rng.choice(["north", "south"], n, p=[0.7, 0.3])
    region[rng.permutation(n)[:n_islands]] = "isle"
    x, z = rng.normal(size=(2, n))
    noise = np.where(region == "south", 3.0, 0.3) * rng.normal(size=n)
    frame = pd.DataFrame({"x": x, "z": z, "region": region})
    frame["label"] = np.where(x + noise > 0, "yes", "no")
    frame.to_csv("t.csv", index=False)
    return frame


def metric_values(record, of: str = "calibrated", on: str = "test") -> dict[str, dict]:
    return {m["metric"]: m for m in record["metrics"] if (m["of"], m["on"]) == (of, on)}


def run_record(kdg, *arguments: str) -> tuple[dict, Path]:
    code, out, err = kdg("run", *COMMON, *arguments, "--json")
    assert code == 0, err
    record = json.loads(out)
    (folder,) = (path.parent for path in Path("outputs").rglob(f"{record['run_id']}/result.json"))
    return record, folder


def test_run_has_sets_in_record_tables_figure_and_predictions(kdg, tmp_path):
    frame = write_table()
    record, folder = run_record(
        kdg,
        "calibrator=isotonic",
        "gate=density",
        "conformal=aps",
        "conformal.conditional=group",
        "conformal.coverage=0.8",
        "metrics=sets_by_group",
    )
    assert record["conformal"] == "aps" and record["method"] == "random_forest-isotonic-density-aps"
    numbers = metric_values(record)
    known = pd.read_parquet(folder / "predictions.parquet")
    test = known[known["set"] == "test"]
    sets = test[["calibrated_in_set_no", "calibrated_in_set_yes"]].to_numpy()
    covered = np.where(test["y"] == "yes", sets[:, 1], sets[:, 0])
    assert numbers["set_coverage"]["value"] == covered.mean()
    assert numbers["set_coverage"]["stderr"] == pytest.approx(
        covered.std(ddof=1) / np.sqrt(len(test))
    )
    assert numbers["set_size"]["value"] == sets.sum(axis=1).mean()
    np.testing.assert_array_equal(test["calibrated_set_size"], sets.sum(axis=1))
    assert metric_values(record, of="parent")["set_coverage"]["value"] is None
    assert "parent_set_size" not in known
    # The south has about 60 calibration and 270 test rows: sd .06, and two groups.
    assert numbers["worst_group_set_coverage"]["value"] > 0.8 - 3 * 0.06
    by_group = pd.read_csv(folder / "tables" / "sets_by_group.csv")
    assert by_group["group"].tolist() == ["north", "south"]
    assert numbers["worst_group_set_coverage"]["value"] == by_group["coverage"].min()
    assert list(record["learnt"]["conformal"]["rows"]) == ["north", "south"]
    assert (folder / "figures" / "coverage_of_sets.svg").is_file()
    # New rows get the sets that the same rows got as test rows.
    frame.to_csv("new.csv", index=False)
    code, _, err = kdg("predict", "--run", str(folder), "--input", "new.csv", "--output", "o.csv")
    assert code == 0, err
    new = pd.read_csv("o.csv").iloc[test["row"]]
    assert list(new)[:6] == [
        *("row", "predicted", "confidence", "set_size"),
        *("in_set_no", "in_set_yes"),
    ]
    np.testing.assert_array_equal(new[["in_set_no", "in_set_yes"]], sets)


def test_order_and_company_of_new_rows_change_no_set(kdg, tmp_path):
    frame = write_table(800)
    _, folder = run_record(kdg, "calibrator=isotonic", "conformal=aps", "figures=none")
    order = np.random.default_rng(0).permutation(800)[:500]
    frame.iloc[order].to_csv("some.csv", index=False)
    for name in ("t", "some"):
        arguments = ("--run", str(folder), "--input", f"{name}.csv", "--output", f"{name}.out.csv")
        assert kdg("predict", *arguments)[0] == 0
    columns = ["set_size", "in_set_no", "in_set_yes"]
    everything, some = (pd.read_csv(f"{name}.out.csv")[columns] for name in ("t", "some"))
    np.testing.assert_array_equal(everything.iloc[order], some)
    assert everything["set_size"].nunique() > 1


@pytest.mark.filterwarnings("always:coverage=0.9 needs")  # goes into the record
def test_small_group_is_named_in_a_warning_and_has_full_sets(kdg, tmp_path):
    write_table(1500, n_islands=30)
    options = ["conformal=lac", "conformal.conditional=group", "metrics=sets_by_group"]
    record, folder = run_record(kdg, "calibrator=none", *options, "figures=none")
    (message,) = (w["message"] for w in record["warnings"] if "needs" in w["message"])
    n_rows = record["learnt"]["conformal"]["rows"]["isle"]
    assert message == (
        f"coverage=0.9 needs 9 calibration rows of each group, got {n_rows} of 'isle': their sets"
        " contain all classes; lower coverage, or calibrate on more rows"
    )
    assert record["learnt"]["conformal"]["thresholds"]["isle"] is None
    by_group = pd.read_csv(folder / "tables" / "sets_by_group.csv").set_index("group")
    assert by_group.loc["isle", "set_size"] == 2 and by_group.loc["north", "set_size"] < 2


@pytest.mark.parametrize("calibration", ["held_out", "oob", "cross_fit"])
def test_calibrator_is_not_fitted_to_the_rows_of_the_sets(tmp_path, monkeypatch, calibration):
    """In any way of calibration; without sets, the rows are those of a run without them."""
    monkeypatch.chdir(tmp_path)
    write_table(600)
    options = ["calibrator=isotonic", "conformal=aps", f"calibration={calibration}", "cv=2"]
    config = compose([*COMMON, *options])
    assert config.division == "held_out"
    splits = split(config.dataset, config.seed, config.division)
    others, of_sets = divide_calibration(config.after, splits, config.calibration, config.seed)
    rows = {tuple(row) for row in of_sets.calibration.X}
    if calibration == "held_out":
        assert not rows & {tuple(row) for row in others.calibration.X}
        assert len(of_sets.calibration.y) == round(len(splits.calibration.y) / 2)
        assert len(others.calibration.y) + len(rows) == len(splits.calibration.y)
    else:
        assert of_sets is splits  # the calibrator is fitted to training rows
    assert not rows & {tuple(row) for row in splits.train.X}
    alone = divide_calibration(
        {"conformal": config.conformal}, splits, config.calibration, config.seed
    )
    assert alone == (splits, splits)


def test_rows_that_stay_together_calibrate_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame = write_table(600)
    frame["block"] = np.arange(600) // 4
    frame.to_csv("t.csv", index=False)
    config = compose(
        [*COMMON, "calibrator=isotonic", "conformal=aps", "dataset.split_groups=block"]
    )
    splits = split(config.dataset, config.seed, config.division)
    others, of_sets = divide_calibration(config.after, splits, config.calibration, config.seed)
    blocks = [set(np.asarray(part.calibration.split_groups)) for part in (others, of_sets)]
    assert all(blocks) and not blocks[0] & blocks[1]


def test_sets_change_neither_probabilities_nor_a_detector(tmp_path, monkeypatch):
    """The detector's threshold is from all calibration rows, with sets or without."""
    monkeypatch.chdir(tmp_path)
    write_table(600)
    options = ["calibrator=none", "detector=knn", "conformal=raps"]
    config = compose([*COMMON, *options])
    splits = split(config.dataset, config.seed, config.division)
    parent = fit(config.parent, splits.train, seed=0, n_jobs=1)
    with_sets, without = (
        calibrate(nodes, parent, splits, seed=0, n_jobs=1)
        for nodes in (config.after, {"detector": config.detector})
    )
    outputs = ["proba", "ood_score", "ood_p_value"]
    for actual, expected in zip(
        with_sets.predict_outputs(outputs, splits.test.X).values(),
        without.predict_outputs(outputs, splits.test.X).values(),
        strict=True,
    ):
        np.testing.assert_array_equal(actual, expected)
    sets = with_sets.predict_outputs(["prediction_set"], splits.test.X)["prediction_set"]
    again = with_sets.predict_outputs(["proba", "prediction_set"], splits.test.X)["prediction_set"]
    np.testing.assert_array_equal(sets, again)
    assert without.supports("ood_p_value") and not without.supports("prediction_set")


def test_runs_without_sets_keep_their_ids_and_keys():
    config = compose(["dataset=moons", "method=isotonic"])
    assert "conformal" not in config.science() and "conformal" not in config.after
    with_sets = compose(["dataset=moons", "method=isotonic", "conformal=aps", "metrics=default"])
    assert with_sets.run_id != config.run_id and with_sets.method == "random_forest-isotonic-aps"
    science = {name: node for name, node in with_sets.science().items() if name != "conformal"}
    assert science == {**config.science(), "figures": with_sets.figures}
    assert run_id(config.science()) == config.run_id


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["dataset=heteroscedastic", "conformal=aps"],
            "conformal=aps needs class probabilities, and parent=linear predicts none; choose"
            " conformal=none",
        ),
        (
            ["dataset=moons", "calibrator=isotonic_top_label", "conformal=aps"],
            "conformal=aps needs class probabilities, and calibrator=isotonic_top_label predicts"
            " none; choose conformal=none, or calibrator.fill_proba=true",
        ),
        (
            ["dataset=moons", "metrics=sets"],
            "metrics.test: set_coverage needs sets of classes, which the method does not give;"
            " choose conformal=aps, lac or raps",
        ),
        (
            ["dataset=moons", "detector=tood", "metrics=fdr"],
            "metrics.ood: realised_fdr needs p-values of being in distribution, which the method"
            " does not give; choose a detector of rows, such as detector=leaf_box",
        ),
        (
            ["dataset=moons", "conformal=aps", "conformal.conditional=group"],
            "moons has no groups, and ConformalClassifier does something for each of them; name"
            " their column: dataset.group=…",
        ),
        (
            ["dataset=moons", "conformal=aps", "conformal.coverage=1"],
            "conformal.coverage must be in (0, 1), got 1",
        ),
    ],
    ids=["regression", "top label", "no sets", "sets of rows", "no groups", "coverage"],
)
def test_what_cannot_have_sets_is_refused_in_a_line(kdg, arguments, message):
    code, _, err = kdg("run", *arguments, "n_jobs=1")
    assert code == 2 and re.sub(r"\s+", " ", err).startswith(f"kdg: {message}"), err


def test_flagged_rows_of_a_detector_have_metrics_and_a_column(kdg, tmp_path):
    frame = write_table(1500)
    options = ["calibrator=none", "detector=knn", "metrics=fdr", "ood=box", "figures=none"]
    record, folder = run_record(kdg, *options)
    on_ood = metric_values(record, on="ood")
    assert 0 <= on_ood["realised_fdr"]["value"] < 0.3 and on_ood["fdr_power"]["value"] > 0.3
    assert metric_values(record, of="parent", on="ood")["fdr_power"]["value"] is None
    assert record["about_metrics"]["fdr_power"]["detects"]
    far = frame.assign(x=np.where(np.arange(1500) < 200, 50.0, frame["x"]))
    far.to_csv("far.csv", index=False)
    arguments = ["--run", str(folder), "--input", "far.csv", "--fdr", "0.2"]
    outputs = {}
    for chunk, name in (("100000", "o.csv"), ("1", "o.parquet")):
        code, out, err = kdg("predict", *arguments, "--output", name, "--chunk", chunk)
        assert code == 0, err
        outputs[name] = pd.read_csv(name) if name == "o.csv" else pd.read_parquet(name)
    new = outputs["o.csv"]
    pd.testing.assert_frame_equal(new, outputs["o.parquet"], check_dtype=False)
    flagged = new["ood_flagged"].to_numpy()
    assert flagged[:200].all()
    # One batch, whose rate may be above .2; the sd over batches is about .05.
    assert flagged[200:].sum() / flagged.sum() < 0.35
    assert f"{flagged.sum()} rows flagged as out of distribution at a false discovery rate" in out
    p_values = new["ood_p_value"].to_numpy()
    assert p_values[flagged].max() < p_values[~flagged].min()
    assert not [
        path
        for path in tmp_path.iterdir()
        if path.name.startswith((".o", "o.csv.", "o.p")) and path.name not in outputs
    ]


def test_flags_need_a_detector_of_rows_and_a_rate(kdg, tmp_path):
    write_table(600)
    _, folder = run_record(kdg, "calibrator=isotonic", "figures=none")
    arguments = ["predict", "--run", str(folder), "--input", "t.csv", "--output", "o.csv", "--fdr"]
    code, _, err = kdg(*arguments, "0.1")
    assert (code, err.strip()) == (
        2,
        "kdg: --fdr needs p-values, and the model has no detector of single rows; do the run again"
        " with one, such as detector=leaf_box",
    )
    code, _, err = kdg(*arguments, "2")
    assert code == 2 and "must be a number between 0 and 1, got '2'" in err
    assert not Path("o.csv").exists()
