"""``predictions.parquet`` of a run, joined to the file that the run was made of."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from kdgraph.base import Predictions, fitted_model, predictions_frame, write_predictions
from kdgraph.cli.main import main
from kdgraph.config import compose
from kdgraph.distributions import Normal
from kdgraph.metrics import TopLabel
from kdgraph.runner.run import run

SMALL = ["parent.n_estimators=5", "figures=none", "n_jobs=1", "method=isotonic"]


def predict(input: str, output: str, *, run: Path) -> None:
    assert main(["predict", "--run", str(run), "--input", input, "--output", output]) == 0


@pytest.fixture
def clinic(tmp_path, monkeypatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(5)
    n = 300
    label = rng.choice(["mild", "none", "severe"], n)
    frame = pd.DataFrame(
        {
            "age": rng.permutation(n) + 0.25,
            "dose": rng.normal((label == "mild").astype(float), 1.0),
            "part": rng.choice(["train", "train", "calibration", "test"], n),
            "outcome": label,
        }
    )
    frame.to_csv("clinic.csv", index=False)
    return frame


def test_predictions_join_the_input_file_by_row_and_set(clinic, tmp_path):
    dataset = [
        "dataset=table",
        "dataset.path=clinic.csv",
        "dataset.target=outcome",
        "dataset.split_column=part",
    ]
    more = [
        "dataset.left_out=[severe]",
        "ood=left_out",
        "+metrics.calibration.error={}",
        f"out={tmp_path}",
    ]
    config = compose([*dataset, *SMALL, *more])
    run(config)
    stored = pd.read_parquet(config.run_dir / "predictions.parquet")
    assert list(stored)[:3] == ["set", "row", "y"]
    joined = stored.merge(
        clinic, left_on="row", right_index=True, how="left", validate="one_to_one"
    )
    labelled = joined[joined.set != "left_out"]
    assert (labelled.y == labelled.outcome).all() and (labelled.set == labelled.part).all()
    known = clinic[clinic.outcome != "severe"]
    for name in ("test", "calibration"):
        assert set(stored.row[stored.set == name]) == set(known.index[known.part == name])
    left_out = joined[joined.set == "left_out"]
    assert len(left_out) and (left_out.outcome == "severe").all() and left_out.y.isna().all()


def test_the_model_predicts_the_joined_rows_as_the_run_did(clinic, tmp_path):
    """The features of a joined row are those that the run predicted."""
    dataset = [
        "dataset=table",
        "dataset.path=clinic.csv",
        "dataset.target=outcome",
        "dataset.drop=[part]",
    ]
    config = compose(
        [
            *dataset,
            *SMALL,
            "ood=sphere",
            "ood.n=4",
            "ood.radii=[3]",
            "dataset.n_test=70",
            f"out={tmp_path}",
        ]
    )
    run(config)
    stored = pd.read_parquet(config.run_dir / "predictions.parquet")
    predict("clinic.csv", "new.parquet", run=config.run_dir)
    new = pd.read_parquet("new.parquet")
    assert new.row.tolist() == list(range(len(clinic)))
    test = stored[stored.set == "test"]
    assert len(test) == 70 and test.row.is_unique
    again = new.iloc[test.row]
    for name in ("mild", "none", "severe"):
        # a row's prediction may depend on its companions in the last bits
        np.testing.assert_allclose(
            test[f"calibrated_{name}"], again[f"probability_{name}"], rtol=1e-10
        )
    assert stored.row[stored.set == "sphere"].isna().all()


def test_row_numbers_stay_integers_with_missing_ones():
    outputs = {"proba": np.full((2, 2), 0.5)}
    test = Predictions(
        "test", 2, outputs, outputs, y=np.array([0, 1]), source_rows=np.array([2**60 + 1, 3])
    )
    drawn = Predictions("ood", 2, outputs, outputs, ood_name="noise")
    frame = predictions_frame([test, drawn], np.array([0, 1]))
    assert (
        frame.row.dtype == "Int64"
        and frame.row.tolist()[:2] == [3, 2**60 + 1]
        and frame.row.isna().tolist() == [False] * 2 + [True] * 2
    )


def test_an_ood_set_has_another_name_than_the_rows_of_the_run():
    """The rows of a file test.csv are a set of that name."""
    outputs = {"proba": np.full((1, 2), 0.5)}
    sets = [Predictions("test", 1, outputs, outputs, y=np.array([0]))]
    sets += [
        Predictions("ood", 1, outputs, outputs, ood_name=name)
        for name in ("test", "calibration", "far")
    ]
    assert predictions_frame(sets, np.array([0, 1])).set.tolist() == [
        "test",
        "ood test",
        "ood calibration",
        "far",
    ]


@pytest.mark.parametrize("kind", ["logits", "probabilities"])
def test_the_model_of_a_run_on_scores_predicts_the_file_of_the_run(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    label = np.arange(120) % 3
    scores = rng.normal(size=(120, 3)) + 2 * np.eye(3)[label]
    if kind == "probabilities":
        scores = np.round(np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True), 3)
    names = np.array(["NA", "01", "true"])
    pd.DataFrame(scores, columns=names).assign(label=names[label]).to_csv("scores.csv", index=False)
    dataset = ["dataset=scores", "dataset.path=scores.csv", f"dataset.kind={kind}"]
    config = compose([*dataset, "method=temperature", "figures=none", f"out={tmp_path}"])
    run(config)
    predict("scores.csv", "new.csv", run=config.run_dir)
    new = pd.read_csv("new.csv", dtype={"predicted": str}, keep_default_na=False)
    stored = pd.read_parquet(config.run_dir / "predictions.parquet").query("set == 'test'")
    assert (names[label][stored.row] == stored.y).all()
    for name in names:
        # decimals are written with 15 digits or more
        np.testing.assert_allclose(
            new[f"probability_{name}"][stored.row], stored[f"calibrated_{name}"], rtol=1e-10
        )


@pytest.mark.parametrize(
    "more",
    [["dataset.text=[title,body]"], ["dataset.text=title", "dataset.vectors=v.txt"]],
    ids=["columns", "vectors"],
)
def test_the_model_of_a_run_on_texts_predicts_the_file_of_the_run(tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(2)
    words = {"sea": ["sun", "sand", "sail"], "ice": ["snow", "cold", "white"]}
    labels = rng.choice(["sea", "ice"], 120)
    titles = [
        " ".join(rng.choice([*words[label], "day"], 4)) + f" row{i}"
        for i, label in enumerate(labels)
    ]
    pd.DataFrame({"title": titles, "body": [*titles[1:], titles[0]], "label": labels}).to_csv(
        "t.csv", index=False
    )
    everything = [*words["sea"], *words["ice"], "day", *(f"row{i}" for i in range(120))]
    with open("v.txt", "w") as file:
        file.writelines(f"{word} {' '.join(map(str, rng.normal(size=3)))}\n" for word in everything)
    config = compose(
        [
            "dataset=text",
            "dataset.path=t.csv",
            "dataset.n_features=64",
            *more,
            *SMALL,
            "ood=none",
            f"out={tmp_path}",
        ]
    )
    run(config)
    predict("t.csv", "new.parquet", run=config.run_dir)
    new, stored = (
        pd.read_parquet("new.parquet"),
        pd.read_parquet(config.run_dir / "predictions.parquet"),
    )
    assert (labels[stored.row] == stored.y).all()
    # a row's prediction may depend on its companions in the last bits
    np.testing.assert_allclose(
        new["probability_sea"][stored.row], stored["calibrated_sea"], rtol=1e-10
    )


def test_a_class_named_like_a_column_has_a_column_of_its_own():
    classes = np.array(["confidence", "ood_score", "x"])
    proba = np.array([[0.5, 0.25, 0.25]])
    outputs = {
        "proba": proba,
        "top_label": TopLabel.from_proba(proba),
        "ood_score": np.array([-7.0]),
    }
    (row,) = predictions_frame(
        [Predictions("test", 1, outputs, outputs, y=np.array([2]))], classes
    ).to_dict("records")
    assert (
        row["parent_probability_confidence"],
        row["parent_probability_ood_score"],
        row["parent_x"],
    ) == (0.5, 0.25, 0.25)
    assert (
        row["parent_predicted"],
        row["parent_confidence"],
        row["parent_ood_score"],
        row["y"],
    ) == ("confidence", 0.5, -7.0, "x")


@pytest.mark.parametrize("classes", [np.array(["no", "yes"]), np.empty(0)], ids=["classes", "none"])
def test_a_file_that_is_written_in_pieces_is_the_table(tmp_path, monkeypatch, classes):
    rng = np.random.default_rng(0)

    def outputs(n):
        if not len(classes):
            return {"distribution": Normal(rng.normal(size=n), np.ones(n))}
        proba = rng.dirichlet([1, 1], n)
        return {"proba": proba, "ood_score": rng.normal(size=n)}

    y = rng.integers(2, size=11) if len(classes) else rng.normal(size=11)
    rows = rng.permutation(100)[:11]
    sets = [
        Predictions("test", 11, outputs(11), outputs(11), y=y, source_rows=rows),
        Predictions("grid", 4, outputs(4), outputs(4)),
        Predictions("ood", 5, outputs(5), outputs(5), "sphere", {"radius": 2.0}),
        Predictions("ood", 2, outputs(2), outputs(2), "noise"),
    ]
    write_predictions(tmp_path / "whole.parquet", sets, classes)
    monkeypatch.setattr(fitted_model, "FRAME_ROWS", 3)
    write_predictions(tmp_path / "pieces.parquet", sets, classes)
    whole, pieces = (pd.read_parquet(tmp_path / f"{name}.parquet") for name in ("whole", "pieces"))
    pd.testing.assert_frame_equal(pieces, whole)
    assert len(whole) == 18 and whole["row"][:11].tolist() == sorted(rows)
