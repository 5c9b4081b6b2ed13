"""Scores of PhANNs: rows of the stored arrays, and the numbers of Figure 1 and Section IX."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from experiments.common.published import read_published
from experiments.p2.figures.joint import PREDICTED, with_other
from experiments.p2.phanns_scores import figure1, rebuilt_other, temperatures, to_rows
from experiments.reproduction.papers import paper

PAPER = paper("p2")

CLASSES = np.array(list(PREDICTED))


def softmax_of(rng: np.random.Generator, n: int) -> np.ndarray:
    scores = rng.random((n, 10, len(CLASSES))) ** 4
    return (scores / scores.sum(axis=2, keepdims=True)).astype(np.float32)


def predictions_of(rows: pd.DataFrame) -> pd.DataFrame:
    scores = rows.drop(columns="label")
    return scores.add_prefix("parent_").assign(y=rows.label)


def test_rows_have_the_mean_over_networks() -> None:
    scores, y = softmax_of(np.random.default_rng(0), 5), np.array([0, 3, 3, 1, 9])
    rows = to_rows(scores, y, CLASSES)
    assert rows.label.tolist() == CLASSES[y].tolist()
    summed = scores.astype(float).sum(axis=1)
    result = rows[list(CLASSES)].to_numpy()
    assert result == pytest.approx(summed / 10, abs=1e-6)
    assert (result.argmax(axis=1) == summed.argmax(axis=1)).all()


def test_arrays_that_do_not_belong_together_are_refused() -> None:
    scores = softmax_of(np.random.default_rng(0), 5)
    with pytest.raises(ValueError, match=r"\(4, m, 11\), got \(5, 10, 11\)"):
        to_rows(scores, np.zeros(4, int), CLASSES)
    with pytest.raises(ValueError, match="must sum to 1"):
        to_rows(2 * scores, np.zeros(5, int), CLASSES)


def test_figure_1_counts_rows_by_true_and_predicted_class() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(10, size=300)  # none of class Other
    rows = to_rows(softmax_of(rng, 300), y, CLASSES)
    result = pd.DataFrame(figure1(predictions_of(rows)))
    predicted = CLASSES[rows[list(CLASSES)].to_numpy().argmax(axis=1)]
    # By hand, pair by pair.
    cells = result.set_index(["metric", "true_class", "predicted_class"]).value
    for true, guess in (("Portal", "Collar"), ("HTJ", "HTJ"), ("Baseplate", "Other")):
        n = int(((rows.label == true) & (predicted == guess)).sum())
        assert cells["joint count", true, guess] == n
        assert cells["share of the true class", true, guess] == pytest.approx(
            n / (rows.label == true).sum()
        )
        assert cells["share of the predicted class", true, guess] == pytest.approx(
            n / PREDICTED[guess]
        )
    assert len(result) == 3 * 11 * 11
    n = int((predicted == "Collar").sum())
    assert cells["joint count", "Other", "Collar"] == PREDICTED["Collar"] - n
    with pytest.raises(
        ValueError, match=r"^600 proteins are predicted as Collar, more than the 507"
    ):
        with_other(pd.DataFrame(0, index=CLASSES, columns=CLASSES).replace({0: 60}))


def test_rebuilt_rows_have_the_counts_of_class_other() -> None:
    names = list(CLASSES)
    first, other = names.index("Major capsid"), names.index("Other")
    scores = np.full((3, 11), 0.2 / 10)
    scores[0, first], scores[1, first], scores[2, other] = 0.8, 0.8, 0.8
    rows = pd.DataFrame(scores, columns=names).assign(label=["Major capsid", "Portal", "Portal"])
    counts = pd.DataFrame(
        {"class": k, "threshold": t, "right": right, "wrong": wrong}
        for k in names
        for t, right, wrong in (
            # At or above .5 one of the three wrong rows is known; below .5 none of the two.
            ((0, 5, 5), (5, 3, 3), (10, 0, 0))
            if k == "Major capsid"
            else ((0, 4, 1), (5, 2, 1), (10, 1, 0))
            if k == "Other"
            else ((0, 0, 0), (5, 0, 0), (10, 0, 0))
        )
    )
    made = rebuilt_other(rows, counts)
    assert set(made.label) == {"Other"}
    result = made[names].to_numpy()
    assert result.sum(axis=1) == pytest.approx(np.ones(len(made)))
    by_class = {names[k]: np.sort(result[result.argmax(axis=1) == k].max(axis=1)) for k in (0, 10)}
    assert by_class["Major capsid"].tolist() == [0.25, 0.25, 0.75, 0.75]
    assert by_class["Other"].tolist() == [0.25, 0.25, 0.75, 1.0]


def test_section_9_has_the_extremes_of_the_temperatures_by_class() -> None:
    assert [row["value"] for row in temperatures(0.85, ["a"])] == [0.85]
    names = sorted(["Baseplate", "HTJ", "Portal"])
    result = list(temperatures({"0": 0.3, "1": 0.8, "2": 3.6}, names))
    assert {row["metric"].rpartition(" ")[2]: row["value"] for row in result} == {
        "down": 3.6,
        "up": 0.3,
        "HTJ": 0.8,
    }


@pytest.mark.skipif(
    "KDGRAPH_PHANNS" not in os.environ,
    reason="KDGRAPH_PHANNS names no file of the scores of the ten networks",
)
def test_the_stored_scores_have_the_counts_of_the_paper() -> None:
    """All but a few counts to the protein, and those within two."""
    with np.load(Path(os.environ["KDGRAPH_PHANNS"])) as stored:
        rows = to_rows(stored["scores"], stored["y"], stored["classes"])
    assert len(rows) == 14_477
    measured = pd.DataFrame(figure1(predictions_of(rows)))
    keys = ["metric", "true_class", "predicted_class"]
    both = measured.merge(read_published(PAPER.folder), on=keys, suffixes=("", "_published"))
    counts = both[both.metric == "joint count"].dropna(subset="value_published")
    apart = (counts.value - counts.value_published).abs()
    # Ten legible rows of eleven classes, of which that of Other is a difference, and the stored
    # diagonal of HTJ.
    assert (len(counts), int((apart > 0).sum()), apart.max()) == (111, 13, 2)
