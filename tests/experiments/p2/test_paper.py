"""Which numbers of the paper are made again: by runs that are found again, under its own names, and
nothing is passed over in silence.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from experiments.common.published import ABOUT, read_published
from experiments.common.runs import runs_of
from experiments.p2 import phanns_scores
from experiments.p2.figures import study
from experiments.p2.mnist import published as mnist
from experiments.p2.mnist.pool import RECIPES
from experiments.reproduction.papers import paper
from experiments.reproduction.reasons import MISSING, reasons_of
from experiments.reproduction.verdicts import cells_of
from kdgraph.config import plan
from kdgraph.metrics import TopLabel

PAPER = paper("p2")

PUBLISHED = read_published(PAPER.folder)
RESULTS = PUBLISHED[PUBLISHED.kind != "setting"]


def own_rows(measured: pd.DataFrame, variant: str = "", **of: str) -> list[float]:
    """Means of cells; keys that no published number has are refused."""
    assert set(measured) == {*PUBLISHED.columns} - ABOUT - PAPER.about | {
        "seed",
        "value",
        "variant",
    }
    cells = [
        c
        for c in cells_of(PAPER, RESULTS, measured)
        if all(c.published[name] == value for name, value in of.items())
    ]
    result = [cell.variants.get(variant) if variant else cell.measured for cell in cells]
    return [item.mean for item in result if item is not None]


def write(folder: Path, frame: pd.DataFrame) -> str:
    """The file of predictions of a run, which is named."""
    name = f"run_{len(list(folder.glob('*/*/*')))}"
    (folder / "data" / "method" / name).mkdir(parents=True)
    frame.to_parquet(folder / "data" / "method" / name / "predictions.parquet", index=False)
    return name


@pytest.mark.slow
@pytest.mark.parametrize(
    "of", [of for of in PAPER.studies if of.measured], ids=lambda of: of.items[0]
)
def test_runs_of_a_study_are_read_by_its_experiments(of, tmp_path) -> None:
    experiment, free, n_runs = {
        "Section III": (study.EXPERIMENT, study.FREE, 1),
        "Figure 1": (phanns_scores.EXPERIMENT, ["dataset.path"], 5),
        "Section XIII.D": (mnist.EXPERIMENT, mnist.FREE, 5),
    }[of.items[0]]
    jobs = [
        job for words in of.sizes["workstation"].runs for job in plan(words, multirun=True).jobs
    ]
    for number, job in enumerate(jobs):
        (tmp_path / "data" / "method" / str(number)).mkdir(parents=True)
        record = {
            "config": job.config.science(),
            "run_id": job.config.run_id,
            "overrides": job.config.origin.overrides,
            "experiment": job.config.origin.experiment,
        }
        (tmp_path / "data" / "method" / str(number) / "result.json").write_text(
            json.dumps(record, default=str)
        )
    result = runs_of(experiment, tmp_path, free)
    if experiment == phanns_scores.EXPERIMENT:
        assert len(result) == 3
        result += runs_of(phanns_scores.REBUILT, tmp_path, free)
    assert len({record["run_id"] for record in result}) == len(jobs) == n_runs
    if experiment == mnist.EXPERIMENT:
        assert (
            {mnist._recipe(record) for record in result}
            == set(mnist.TITLES)
            == set(RECIPES.values())
        )


def test_section_3_is_the_confidence_of_conf1_in_minor_capsid(tmp_path, monkeypatch) -> None:
    text = {"Minor capsid": 0.25, "Other": 0.875}
    predicted = ["Other", "Minor capsid", "Other", "Minor capsid", "Minor capsid"]
    frame = pd.DataFrame(
        {
            "set": "test",
            "calibrated_predicted": predicted,
            "calibrated_confidence": [text[name] for name in predicted],
        }
    )
    frame.loc[4, ["set", "calibrated_confidence"]] = ["calibration", 0.5]
    shared = {
        "seed": 0,
        "dataset": {"fingerprint": "a"},
        "files": {"predictions": "predictions.parquet"},
    }
    records = [
        {"run_id": write(tmp_path, frame), "calibrator": name, **shared}
        for name in (
            "precision",
            "histogram",
            "precision",
        )  # the last of the same file by another path
    ]
    monkeypatch.setattr(study, "runs_of", lambda *_: records)
    measured = study.measured(tmp_path)
    assert len(measured) == 1 and own_rows(measured, item="Section III") == [0.25]


class Networks:
    """Two of them, of which one has one row of four wrong and the other two."""

    def member_log_proba(self, X: np.ndarray) -> np.ndarray:
        wrong = np.array([[0, 0, 0, 1], [0, 0, 1, 1]])
        return np.log(0.01 + np.eye(10)[(X[:, 0].astype(int) + wrong) % 10])


def test_mnist_numbers_are_by_network_and_by_set(tmp_path, monkeypatch) -> None:
    y = np.array([0, 1, 2, 3])
    monkeypatch.setattr(mnist, "_test_set_2", lambda: (y[:, None].astype(float), y))
    monkeypatch.setattr(mnist, "load", lambda path: Networks())
    score = {"calibration": [0.5, 0.75, 1.0, 1.0, 1.0], "test": [0.995, 1.0, 1.0, 1.0, 0.999]}
    labels = {"calibration": [0, 0, 0, 7, 8], "test": [0, 0, 3, 3, 3]}
    rows = [
        {
            "set": name,
            "y": str(label),
            **{f"parent_{k}": s if k == 0 else (1 - s) / 9 for k in range(10)},
        }
        for name in score
        for s, label in zip(score[name], labels[name], strict=True)
    ]
    theta = dict(
        zip("0123456789", [*np.linspace(0.991, 0.9999, 6), 0.3, 0.4, 0.5, None], strict=True)
    )
    records = [
        {
            "run_id": write(tmp_path, pd.DataFrame(rows)),
            "seed": seed,
            "calibrator": calibrator,
            "learnt": {"calibrator": {"theta": theta}},
        }
        | {
            "config": {
                "parent": {"learning_rate": recipe.learning_rate, "max_epochs": recipe.epochs}
            }
        }
        | {"dataset": {"classes": list(range(10))}, "files": {"predictions": "predictions.parquet"}}
        for recipe, calibrator in zip(RECIPES.values(), ("none", "none", "cum_star"), strict=True)
        for seed in (0, 1)
    ]
    monkeypatch.setattr(
        mnist, "runs_of", lambda *_: [*records, {**records[0], "calibrator": "kde"}]
    )
    measured = mnist.measured(tmp_path)
    accuracy = measured[measured.metric.str.startswith("accuracy")]
    assert len(accuracy) == 3 * 2 * 2 and set(accuracy.value) == {50.0, 75.0}
    assert accuracy.groupby(["method", "variant"]).seed.nunique().tolist() == [4, 4, 4]
    assert own_rows(measured, item="Appendix, Network training") == [62.5, 62.5]
    assert own_rows(measured, "learning rate 5e-5", item="Appendix, Network training") == [62.5]
    assert own_rows(measured, metric="right rows of 0 below that score") == [(2 + 0) / 2]
    assert own_rows(measured, metric="wrong rows of 0") == [(2 + 3) / 2]
    assert own_rows(measured, metric="score of most rows") == [1.0]
    assert own_rows(measured, metric="lowest of most optimal cutoffs") == [0.99]
    assert own_rows(measured, metric="highest of most optimal cutoffs") == [1.0]


def test_no_score_is_named_without_most_rows() -> None:
    top_label = TopLabel(np.zeros(4, dtype=int), np.array([0.2, 0.5, 1.0, 1.0]), 10)
    assert mnist.score_counts(top_label, np.array([0, 1, 0, 0])) == {
        "right rows of 0 below that score": 1.0,
        "wrong rows of 0": 1.0,
    }


def test_most_cutoffs_are_more_than_half_of_the_classes() -> None:
    assert mnist.hundredths([0.111, 0.4, 0.404, 0.409]) == (0.4, 0.41)
    with pytest.raises(ValueError, match=r"^2 of 4 classes have a cutoff, which are not most$"):
        mnist.hundredths([0.5, 0.6, None, None])


def test_every_result_has_a_study_or_a_reason() -> None:
    missing = [reason for reason in reasons_of(PAPER.folder) if reason.kind == MISSING]
    for _, row in RESULTS[RESULTS.value.notna()].iterrows():
        assert PAPER.study_of(row["item"]) or any(
            reason.applies_to(dict(row)) for reason in missing
        ), row["item"]


def test_every_reason_is_of_a_result() -> None:
    for reason in reasons_of(PAPER.folder):
        assert any(reason.applies_to(dict(row)) for _, row in RESULTS.iterrows()), reason


def test_one_batch_networks_are_a_variant_of_under_trained_ones(monkeypatch) -> None:
    y = np.arange(4) % 2
    X = y[:, None].astype(float)
    monkeypatch.setattr(mnist, "rows", lambda: ((X, y), {"2": (X, y)}))
    wrong = {0: 0, 1: 1, 2: 3}  # rows by seed
    monkeypatch.setattr(
        "experiments.p2.mnist.readings.one_batch_network",
        lambda X, y, seed: SimpleNamespace(predict=lambda rows: y ^ (np.arange(4) < wrong[seed])),
    )
    measured = mnist.one_batch(3)
    assert measured.value.tolist() == [100, 75, 25]
    cells = own_rows(measured, "one fixed mini-batch", item="Appendix, Network training")
    assert cells == [pytest.approx(200 / 3)]


def test_a_workstation_does_it_in_an_hour() -> None:
    minutes = [of.sizes["workstation"].minutes for of in PAPER.studies]
    assert None not in minutes and sum(each or 0 for each in minutes) <= 66
