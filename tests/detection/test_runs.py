"""Runs with a detector of sets: its numbers beside those of the parent, what is drawn, what files
have, and what new rows get.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kdgraph.base import FittedModel, Predictions, SetScores, predictions_frame
from kdgraph.cli import main
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
def small(tmp_path_factory):
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
def parts():
    """Config, rows, parent and model."""
    config = compose(["dataset=spiral", "method=tood", *TINY, *SETS, "metrics=default"])
    splits = split(config.dataset, 0)
    parent = fit(config.parent, splits.train, seed=0, n_jobs=1)
    return config, splits, parent, calibrate(config.after, parent, splits, seed=0, n_jobs=1)


def values(record, metric: str, of: str) -> dict[float | None, float]:
    return {
        m["params"].get("radius"): m["value"]
        for m in record["metrics"]
        if (m["metric"], m["of"]) == (metric, of)
    }


def test_one_run_has_id_and_ood_metrics(small):
    config, record = small
    assert (record["parent"], record["calibrator"], record["detector"]) == (
        "extra_trees",
        "none",
        "tood",
    )
    learnt = record["learnt"]["detector"]
    assert (learnt["level"], learnt["set_size"], learnt["repeats"]) == (
        "instance",
        10,
        4,
    ) and 0 < learnt["offset"] < 1
    for metric in ("error", "nll", "ece", "mmc", "oce"):
        assert (
            values(record, metric, "calibrated") == values(record, metric, "parent") != {}
        )  # a detector changes no probability
    assert (
        set(values(record, "auroc", "parent"))
        == set(values(record, "fpr95", "calibrated"))
        == {0.5, 2.0}
    )
    assert (
        values(record, "auroc", "calibrated")[2.0] > 0.95 > values(record, "auroc", "parent")[2.0]
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
        *(("mmc", of, None) for of in ("parent", "calibrated")),
    }
    of_auroc = {
        m["of"]: m["stderr"]
        for m in record["metrics"]
        if m["metric"] == "auroc" and m["params"]["radius"] == 2
    }
    assert (
        of_auroc["parent"] > 0 and of_auroc["calibrated"] is None
    )  # rows of one set are no sample of their own
    (table,) = (
        config.run_dir / name
        for name in record["files"]["tables"].values()
        if "contamination" in name
    )
    assert set(pd.read_csv(table)["of"]) == {"parent"}  # and of their scores no sets are mixed
    assert record["about_metrics"]["auroc"] == {
        "label": "AUROC",
        "better": "higher",
        "detects": True,
    }
    drawn = (config.run_dir / "figures" / "ood_scores.svg").read_text()
    assert all(
        words in drawn
        for words in ("sphere, radius 2: 40 rows", "tood, rows in sets of 10", "threshold")
    )


def test_the_numbers_follow_from_sets_drawn_by_hand(small):
    """Of the saved model, with the generator of each set."""
    config, record = small
    detector = load(config.run_dir / "model" / "calibrated.kdg").post_hoc["detector"]
    splits = split(config.dataset, 0)
    distant = next(iter(config_sets(config, splits)))

    def scores(X, name) -> np.ndarray:
        sets = draw_sets(len(X), 10, 4, stage_rng(0, f"sets drawn from {name}"))
        return np.concatenate([detector.ood_score(X[rows]) for rows in sets])

    expected = auroc(
        scores(distant, ["ood", "sphere", ("radius", 0.5)]), scores(splits.test.X, ["test", None])
    )
    assert values(record, "auroc", "calibrated")[0.5] == pytest.approx(expected, abs=1e-12)


def config_sets(config, splits):
    from kdgraph.components import build

    return [found.X for found in build(config.ood).sets(splits, stage_rng(0, "ood"))]


def test_set_scores_have_no_column_in_predictions(small):
    config, _ = small
    frame = pd.read_parquet(config.run_dir / "predictions.parquet")
    assert (
        len(frame) == 3 * 40 and "parent_ood_score" in frame and "calibrated_ood_score" not in frame
    )
    assert {"calibrated_0", "calibrated_1"} <= set(frame)
    result = {"proba": np.full((3, 2), 0.5), "ood_score": SetScores(np.arange(3.0), 2, "instance")}
    frame = predictions_frame([Predictions("test", 3, result, result)], np.array([0, 1]))
    assert list(frame) == [
        "set",
        "row",
        "y",
        "parent_0",
        "parent_1",
        "calibrated_0",
        "calibrated_1",
    ]


def test_set_scores_cannot_be_sliced():
    scores = SetScores(np.arange(3.0), 2, "instance")
    assert len(scores) == 3 and auroc(scores, [-1.0]) == 1
    np.testing.assert_array_equal(np.asarray(scores), np.arange(3.0))
    with pytest.raises(TypeError):
        scores[:2]  # type: ignore[index]


def test_drawn_sets_do_not_depend_on_groups_or_other_sets(parts, monkeypatch):
    config, splits, parent, model = parts
    given = {"dataset": config.dataset, "splits": splits, "seed": 0}

    def entries(ood, seed=0):
        result = evaluate(
            FittedModel(parent), model, config.metrics, **{**given, "seed": seed}, ood=ood
        )
        return {
            json.dumps([m[key] for key in ("metric", "of", "on", "params")]): m["value"]
            for m in result.metrics
        }

    usual = entries(config.ood)
    monkeypatch.setattr(module, "BYTES_AT_A_TIME", 1)
    assert entries(config.ood) == usual
    fewer = entries({**config.ood, "radii": [2]})
    assert fewer == {key: usual[key] for key in fewer} and len(fewer) < len(usual)
    assert entries(config.ood, seed=1) != usual


def test_a_set_model_cannot_score_a_single_row(parts):
    _, splits, parent, model = parts
    assert model.has_set_scores and not FittedModel(parent).has_set_scores
    with pytest.raises(
        TypeError,
        match=("TreeHamming scores sets of rows and has no score for a single row; use score_sets"),
    ):
        model.predict_outputs(["proba", "ood_score"], splits.test.X)
    assert model.is_classifier and model.supports("ood_score")


def test_loaded_model_draws_and_scores_the_same_sets(parts):
    _, splits, parent, model = parts
    again = from_bytes(to_bytes(model, {"parent": parent}), "it", {"parent": parent}).value
    found, expected = (
        each.score_sets(splits.test.X, np.random.default_rng(0)) for each in (again, model)
    )
    np.testing.assert_array_equal(found.values, expected.values)
    assert (found.set_size, found.unit) == (10, "instance") and again.summary() == model.summary()


@pytest.mark.parametrize(
    "option", ["labels=given", "level=set", "set_size=12", "repeats=5", "target_fpr=0.4"]
)
def test_every_option_reaches_the_detector(parts, option):
    _, splits, parent, model = parts
    node = compose(["dataset=spiral", "method=tood", *SETS, f"detector.{option}"]).detector
    other = calibrate({"detector": node}, parent, splits, seed=0, n_jobs=1)
    scores = [
        each.score_sets(splits.test.X, np.random.default_rng(0)).values for each in (model, other)
    ]
    assert len(scores[0]) != len(scores[1]) or not np.allclose(*scores)


def test_calibrator_and_detector_each_provide_their_output(tmp_path):
    """Probabilities and far field of the density forest, scores of the detector."""
    config = compose(
        ["dataset=spiral", "method=kdf", "detector=tood", *TINY, *SETS, f"out={tmp_path}"]
    )
    record = run(config)
    assert record["method"] == "random_forest-kdf-tood"
    alone = run(compose(["dataset=spiral", "method=kdf", *TINY, f"out={tmp_path}"]))
    for metric in ("nll", "mmc"):
        assert values(record, metric, "calibrated") == values(alone, metric, "calibrated")
    assert values(record, "auroc", "calibrated") != values(alone, "auroc", "calibrated")
    assert values(record, "auroc", "parent") == values(alone, "auroc", "parent")


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
def test_the_preset_uses_noise_unless_another_set_is_chosen(overrides, expected):
    assert compose([*overrides, "method=tood"]).ood["name"] == expected


def test_new_rows_get_no_score_and_a_line_with_the_reason(capsys, tmp_path, monkeypatch):
    """Of a table with categories and missing values, which the leaves are found behind."""
    monkeypatch.chdir(tmp_path)
    rng, y = np.random.default_rng(0), np.arange(200) % 2
    frame = pd.DataFrame(
        {
            "a": rng.normal(y),
            "b": np.where(rng.random(200) < 0.1, np.nan, rng.normal(size=200)),
            "c": list("xyzz") * 50,
        }
    )
    frame.assign(label=np.where(y, "yes", "no")).to_csv("mine.csv", index=False)
    table = [
        "dataset=table",
        "dataset.path=mine.csv",
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
    assert 0 <= values(run(config), "auroc", "calibrated")[None] <= 1
    assert (
        json.loads((config.run_dir / "model" / "schema.json").read_text())["ood_score_means"]
        == "none: the detector scores sets of rows, and says nothing of a row by itself"
    )
    capsys.readouterr()
    assert (
        main(
            ["predict", "--run", str(config.run_dir), "--input", "mine.csv", "--output", "new.csv"]
        )
        == 0
    )
    assert (
        capsys.readouterr().out
        == "new.csv   200 rows; the detector scores sets of rows, not one row by itself, so there"
        " is no ood_score\n"
    )
    assert list(pd.read_csv(Path("new.csv"))) == [
        "row",
        "predicted",
        "confidence",
        "probability_no",
        "probability_yes",
    ]
