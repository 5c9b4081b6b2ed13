"""Histograms of APHD: what they are made of, and that what is drawn is that."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import StepPatch

from experiments.p3 import figure3
from experiments.p3.figure3 import Block, Distances, distances, figure_3
from experiments.p3.records import IN
from kdgraph.base import Evaluation, Predictions, SetScores


def printed(name: str | None, aphd: list[float], offset: float) -> Predictions:
    scores = SetScores(offset - np.array(aphd), 100, "instance")
    return Predictions("ood" if name else "test", 3, {}, {"ood_score": scores}, ood_name=name)


def made(seed: int, offset: float) -> dict:
    return {"seed": seed, "learnt": {"detector": {"offset": offset, "set_size": 100}}}


@pytest.fixture
def result(monkeypatch, tmp_path) -> Distances:
    """Two seeds, of which the second lacks a set."""
    offsets = {0: 0.9, 1: 0.8}
    test, near = {0: [0.99, 0.98], 1: [0.97, 0.96]}, {0: [0.985, 0.5], 1: [0.99, 0.98]}

    def evaluation(record, folder):
        seed, offset = record["seed"], offsets[record["seed"]]
        far = [printed("far", [0.1, 0.2], offset)] if seed == 0 else []
        return Evaluation(
            [], {}, [printed(None, test[seed], offset), printed("near", near[seed], offset), *far]
        )

    monkeypatch.setattr(figure3, "evaluation_of", evaluation)
    return distances([made(seed, offset) for seed, offset in offsets.items()], tmp_path)


def test_distances_are_thresholds_less_scores_pooled_over_seeds(result) -> None:
    np.testing.assert_allclose(result.sets[IN], [0.99, 0.98, 0.97, 0.96])
    np.testing.assert_allclose(result.sets["near"], [0.985, 0.5, 0.99, 0.98])
    np.testing.assert_allclose(result.sets["far"], [0.1, 0.2])
    assert result.thresholds == [0.9, 0.8]
    assert result.auroc == {
        "near": pytest.approx((0.75 + 0.0) / 2),
        "far": 1.0,
    }, "of each seed by itself"


def test_each_set_has_a_strip_over_the_test_rows(result) -> None:
    block = Block(
        "MNIST",
        1500,
        {"far": "far away", "absent": "no run has it", "near": "near by"},
        {"given labels": result},
    )
    (axes,) = figure_3([block], "of what").axes
    stairs = {patch.get_gid(): patch for patch in axes.patches if isinstance(patch, StepPatch)}
    assert set(stairs) == {"test rows", "far", "near"} and axes.get_ylim() == (0, 2)
    heights, edges, floor = stairs["far"].get_data()
    assert floor == 1.0, "the first is the highest"
    at = edges[:-1][np.asarray(heights) > 1.0]
    np.testing.assert_array_less(at, -np.log10(1 - np.array([0.1, 0.2])))
    assert {text.get_text() for text in axes.texts} >= {
        "MNIST,\n1,500 training rows",
        "far away",
        "near by",
        "1.00",
        ".38",
    }
    lines = [
        np.asarray(line.get_xdata(), dtype=float)[0]
        for line in axes.lines
        if line.get_gid() == "threshold"
    ]
    np.testing.assert_allclose(lines, -np.log10([0.1, 0.2]))


def test_bins_hold_all_rows_also_those_at_the_ends() -> None:
    shares = figure3._shares(np.array([0.0, 1.0, 1.0, 0.5]))
    assert shares[-1] == 0.9 and shares[0] == pytest.approx(0.45) and np.count_nonzero(shares) == 3
