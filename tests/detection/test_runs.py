"""Tests of runs with a set detector: metrics, drawn sets, files, and predictions of new rows."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kdgraph.base import FittedModel, Predictions, SetScores, predictions_frame
from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.detection import draw_sets
from kdgraph.metrics import auroc
from kdgraph.persistence import from_bytes, load, to_bytes
from kdgraph.runner import evaluate as module
from kdgraph.runner.evaluate import evaluate
from kdgraph.runner.run import run
from kdgraph.runner.stages import calibrate, fit, split, stage_rng

SPHERES = ["ood=sphere", "ood.radii=[0.5,2]", "ood.n=40"]
TINY = [
    "dataset.n_train=60",
    "dataset.n_test=40",
    "parent.n_estimators=15",
    *SPHERES,
    "figures=none",
    "n_jobs=1",
]
SETS = ["detector.set_size=10", "detector.repeats=4"]
"""Four sets of ten rows: as many units as there are rows."""


@pytest.fixture(scope="module")
def small_run(tmp_path_factory):
    config = compose(
        [
            "dataset=spiral",
            "method=tood",
            *TINY,
            *SETS,
            "metrics=detection",
            "figures=default",
            f"out={tmp_path_factory.mktemp('outputs')}",
        ]
    )
    return config, run(config)


@pytest.fixture(scope="module")
def run_parts():
    """Return config, splits, parent and model."""
    config = compose(["dataset=spiral", "method=tood", *TINY, *SETS, "metrics=default"])
    splits = split(config.dataset, 0)
    parent = fit(config.parent, splits.train, seed=0, n_jobs=1)
    return config, splits, parent, calibrate(config.after, parent, splits, seed=0, n_jobs=1)


def metric_values(record, metric: str, model: str) -> dict[float | None, float]:
    return {
        m["params"].get("radius"): m["value"]
        for m in record["metrics"]
        if (m["metric"], m["of"]) == (metric, model)
    }


def test_run_has_metrics_of_rows_and_of_sets(small_run):
    config, record = small_run
    assert (record["parent"], record["calibrator"], record["detector"]) == (
        "extra_trees",
        "none",
        "tood",
    )
    summary = record["learnt"]["detector"]
    assert (summary["level"], summary["set_size"], summary["repeats"]) == (
        "instance",
        10,
        4,
    ) and 0 < summary["offset"] < 1
    for metric in ("error", "nll", "ece", "mmc", "oce"):
        assert (
            metric_values(record, metric, "calibrated")
            == metric_values(record, metric, "parent")
            != {}
        )  # a detector changes no probability
    assert (
        set(metric_values(record, "auroc", "parent"))
        == set(metric_values(record, "fpr95", "calibrated"))
        == {0.5, 2.0}
    )
    assert (
        metric_values(record, "auroc", "calibrated")[2.0]
        > 0.95
        > metric_values(record, "auroc", "parent")[2.0]
    )
    assert {m["n"] for m in record["metrics"] if m["metric"] == "auroc"} == {40}
    units = {
        (m["metric"], m["of"], m.get("n_of"))
        for m in record["metrics"]
        if m["metric"] in ("auroc", "mmc")
    }
    assert units == {
        ("auroc", "parent", None),
        ("auroc", "calibrated", "rows in sets of 10"),
        *(("mmc", model, None) for model in ("parent", "calibrated")),
    }
    stderr_by_model = {
        m["of"]: m["stderr"]
        for m in record["metrics"]
        if m["metric"] == "auroc" and m["params"]["radius"] == 2
    }
    assert (
        stderr_by_model["parent"] > 0 and stderr_by_model["calibrated"] is None
    )  # rows of one set are not independent
    (table,) = (
        config.run_dir / name
        for name in record["files"]["tables"].values()
        if "contamination" in name
    )
    assert set(pd.read_csv(table)["of"]) == {"parent"}  # scores of sets cannot be mixed
    assert record["about_metrics"]["auroc"] == {
        "label": "AUROC",
        "better": "higher",
        "detects": True,
    }
    svg = (config.run_dir / "figures" / "ood_scores.svg").read_text()
    assert all(
        text in svg
        for text in ("sphere, radius 2", "40 rows", "TOOD, rows in sets of 10", "threshold")
    )


def test_auroc_is_that_of_sets_drawn_with_the_run_generator(small_run):
    """Compute the AUROC with the saved model and the generator of each set."""
    config, record = small_run
    detector = load(config.run_dir / "model" / "calibrated.kdg").post_hoc["detector"]
    splits = split(config.dataset, 0)
    ood_rows = next(iter(ood_sets_of(config, splits)))

    def scores(X, name) -> np.ndarray:
        sets = draw_sets(len(X), 10, 4, stage_rng(0, f"sets drawn from {name}"))
        return np.concatenate([detector.ood_score(X[rows]) for rows in sets])

    expected = auroc(
        scores(ood_rows, ["ood", "sphere", ("radius", 0.5)]), scores(splits.test.X, ["test", None])
    )
    assert metric_values(record, "auroc", "calibrated")[0.5] == pytest.approx(expected, abs=1e-12)


def ood_sets_of(config, splits):
    from kdgraph.config.components import build

    return [ood_set.X for ood_set in build(config.ood).sets(splits, stage_rng(0, "ood"))]


def test_set_scores_have_no_column_in_predictions(small_run):
    config, _ = small_run
    frame = pd.read_parquet(config.run_dir / "predictions.parquet")
    assert (
        len(frame) == 3 * 40 and "parent_ood_score" in frame and "calibrated_ood_score" not in frame
    )
    assert {"calibrated_0", "calibrated_1"} <= set(frame)
    outputs = {"proba": np.full((3, 2), 0.5), "ood_score": SetScores(np.arange(3.0), 2, "instance")}
    frame = predictions_frame([Predictions("test", 3, outputs, outputs)], np.array([0, 1]))
    assert list(frame) == [
        "set",
        "row",
        "y",
        "parent_0",
        "parent_1",
        "calibrated_0",
        "calibrated_1",
    ]


def test_set_scores_are_an_array_that_cannot_be_sliced():
    scores = SetScores(np.arange(3.0), 2, "instance")
    assert len(scores) == 3 and auroc(scores, [-1.0]) == 1
    np.testing.assert_array_equal(np.asarray(scores), np.arange(3.0))
    with pytest.raises(TypeError):
        scores[:2]  # type: ignore[index]


def test_drawn_sets_are_independent_of_blocks_and_other_sets(run_parts, monkeypatch):
    config, splits, parent, model = run_parts
    arguments = {"dataset": config.dataset, "splits": splits, "seed": 0}

    def entries(ood, seed=0):
        evaluation = evaluate(
            FittedModel(parent), model, config.metrics, **{**arguments, "seed": seed}, ood=ood
        )
        return {
            json.dumps([m[key] for key in ("metric", "of", "on", "params")]): m["value"]
            for m in evaluation.metrics
        }

    default_entries = entries(config.ood)
    monkeypatch.setattr(module, "BATCH_BYTES", 1)
    assert entries(config.ood) == default_entries
    entries_of_one_radius = entries({**config.ood, "radii": [2]})
    assert entries_of_one_radius == {
        key: default_entries[key] for key in entries_of_one_radius
    } and len(entries_of_one_radius) < len(default_entries)
    assert entries(config.ood, seed=1) != default_entries


def test_a_set_model_cannot_score_a_single_row(run_parts):
    _, splits, parent, model = run_parts
    assert model.has_set_scores and not FittedModel(parent).has_set_scores
    with pytest.raises(
        TypeError,
        match=("TreeHamming scores sets of rows and has no score for a single row; use score_sets"),
    ):
        model.predict_outputs(["proba", "ood_score"], splits.test.X)
    assert model.is_classifier and model.supports("ood_score")


def test_loaded_model_gives_identical_set_scores(run_parts):
    _, splits, parent, model = run_parts
    loaded = from_bytes(to_bytes(model, {"parent": parent}), "model", {"parent": parent}).value
    scores, expected = (
        scored_model.score_sets(splits.test.X, np.random.default_rng(0))
        for scored_model in (loaded, model)
    )
    np.testing.assert_array_equal(scores.values, expected.values)
    assert (scores.set_size, scores.unit) == (
        10,
        "instance",
    ) and loaded.summary() == model.summary()


@pytest.mark.parametrize(
    "option", ["labels=given", "level=set", "set_size=12", "repeats=5", "target_fpr=0.4"]
)
def test_every_option_reaches_the_detector(run_parts, option):
    _, splits, parent, model = run_parts
    node = compose(["dataset=spiral", "method=tood", *SETS, f"detector.{option}"]).detector
    changed_model = calibrate({"detector": node}, parent, splits, seed=0, n_jobs=1)
    scores = [
        scored_model.score_sets(splits.test.X, np.random.default_rng(0)).values
        for scored_model in (model, changed_model)
    ]
    assert len(scores[0]) != len(scores[1]) or not np.allclose(*scores)


@pytest.mark.filterwarnings("ignore:TreeHamming cannot go out of bag")
def test_calibrator_and_detector_provide_separate_outputs(tmp_path):
    """Probabilities are those of the density forest, OOD scores those of the detector."""
    config = compose(
        ["dataset=spiral", "method=kdf", "detector=tood", *TINY, *SETS, f"out={tmp_path}"]
    )
    record = run(config)
    assert record["method"] == "random_forest-kdf-tood"
    without_detector = run(compose(["dataset=spiral", "method=kdf", *TINY, f"out={tmp_path}"]))
    for metric in ("nll", "mmc"):
        assert metric_values(record, metric, "calibrated") == metric_values(
            without_detector, metric, "calibrated"
        )
    assert metric_values(record, "auroc", "calibrated") != metric_values(
        without_detector, "auroc", "calibrated"
    )
    assert metric_values(record, "auroc", "parent") == metric_values(
        without_detector, "auroc", "parent"
    )


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["dataset=digits"], "noise"),
        (["dataset=spiral"], "noise"),
        (["dataset=digits", "ood=sphere"], "sphere"),
        (["dataset=shapes"], "shape_shifts"),
        (["dataset=scores", "dataset.path=softmax.npz"], "none"),
    ],
)
def test_preset_uses_noise_unless_ood_is_set(overrides, expected):
    assert compose([*overrides, "method=tood"]).ood["name"] == expected


def test_prediction_of_new_rows_omits_the_score_with_a_reason(capsys, tmp_path, monkeypatch):
    """Test a table with categories and missing values."""
    monkeypatch.chdir(tmp_path)
    rng, y = np.random.default_rng(0), np.arange(200) % 2
    frame = pd.DataFrame(
        {
            "a": rng.normal(y),
            "b": np.where(rng.random(200) < 0.1, np.nan, rng.normal(size=200)),
            "c": list("xyzz") * 50,
        }
    )
    frame.assign(label=np.where(y, "yes", "no")).to_csv("custom.csv", index=False)
    table = [
        "dataset=table",
        "dataset.path=custom.csv",
        "dataset.target=label",
        "ood=gaussian",
        "ood.n=40",
    ]
    config = compose(
        [
            *table,
            "method=tood",
            "parent.n_estimators=15",
            *SETS,
            "figures=none",
            "n_jobs=1",
            "out=outputs",
        ]
    )
    assert 0 <= metric_values(run(config), "auroc", "calibrated")[None] <= 1
    assert (
        json.loads((config.run_dir / "model" / "schema.json").read_text())["ood_score_means"]
        == "none: the detector scores sets of rows, and no single row"
    )
    capsys.readouterr()
    assert (
        main(
            [
                "predict",
                "--run",
                str(config.run_dir),
                "--input",
                "custom.csv",
                "--output",
                "new.csv",
            ]
        )
        == 0
    )
    assert (
        capsys.readouterr().out
        == "new.csv   200 rows; the detector scores sets of rows, not single rows, so there"
        " is no ood_score\n"
    )
    assert list(pd.read_csv(Path("new.csv"))) == [
        "row",
        "predicted",
        "confidence",
        "probability_no",
        "probability_yes",
    ]
