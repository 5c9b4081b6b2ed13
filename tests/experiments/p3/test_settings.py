"""What other trees, latents and moved images are measured by: small rows go through, and every
number that a claim asks is there.
"""

from __future__ import annotations

import sys
from collections import Counter
from typing import Any

import numpy as np
import pandas as pd
import pytest

from experiments.common.claims import Claim, saved_claims
from experiments.common.seconds import in_turn
from experiments.p3 import attack, latents, trees
from experiments.p3.command import faster, run_study
from kdgraph.config import plan
from kdgraph.detection import aphd

SHAPES = [
    "dataset=shapes",
    "dataset.size=16",
    "dataset.channels=1",
    "dataset.radius=3",
    "dataset.sides=[8,4]",
    "ood=noise",
    "figures=none",
    "dataset.n_train=40",
    "dataset.n_calibration=110",
    "dataset.n_test=110",
]


def shapes(method: str, epochs: str) -> Any:
    """A run's config on small images, with one epoch."""
    return plan([*SHAPES, f"method=paper/p3/{method}", f"parent.{epochs}=1"]).jobs[0].config


@pytest.mark.slow
def test_trees_on_half_of_the_digits(monkeypatch) -> None:
    monkeypatch.setattr(trees, "UNITS", 20)
    monkeypatch.setattr(trees, "seconds_of", lambda *_: {"tood": 1.0, "network": 2.0})
    config = trees.configs()[trees.HALF_OF_DIGITS]
    table = trees.draw_table(trees.HALF_OF_DIGITS, config, 0)
    frame = pd.DataFrame(
        trees.measure(table, 0, {trees.DEFAULT: {}, "2 rows to a leaf": {"min_samples_leaf": 2}})
    )
    assert Counter(frame.metric) == {"auroc": 2 * (2 + 2 + 1 + 1), "error": 2, "seconds": 2}
    assert set(frame["rows"]) == {len(table.splits.train.y), trees.FEW_TRAINING_ROWS}
    error = frame[frame.metric == "error"].set_index("labels").value
    assert error.given < 0.1 < 0.6 < error.shuffled, "five digits are guessed right once in five"
    assert set(table.sets) == {"left_out"}


@pytest.mark.slow
def test_latents_and_pixels_are_scored_on_the_same_sets() -> None:
    of = {
        "given": shapes("mnist/tood_given", "encoder.max_epochs"),
        "shuffled": shapes("mnist/tood_shuffled", "encoder.max_epochs"),
    }
    frame = pd.DataFrame(
        latents.measure("shapes", {**of, "network": shapes("mnist/msp", "max_epochs")}, 0)
    )
    assert set(frame[frame.metric == "seconds"].setting) == {"tood", "network"}
    scores = frame[frame.metric == "auroc"]
    assert Counter(zip(scores.setting, scores.labels, strict=True)) == {
        (setting, labels): scores.set.nunique()
        for setting in ("latents", "pixels")
        for labels in latents.LABELS
    }
    assert scores.value.between(0, 1).all()


@pytest.mark.slow
def test_images_are_moved_both_ways(monkeypatch) -> None:
    monkeypatch.setattr(attack, "SETS", ("noise",))
    of = {
        name: shapes(f"cifar/{name}", "encoder.max_epochs" if name in attack.TOOD else "max_epochs")
        for name in attack.TITLES
    }
    frame = pd.DataFrame(attack.measure("shapes", of, 0))
    assert set(frame.method) == set(attack.TITLES) and sorted(set(frame.step)) == [
        -8,
        -4,
        -2,
        0,
        2,
        4,
        8,
    ]
    assert set(frame.network) == {"", *attack.OWN, attack.ATTACKED, attack.ANOTHER}
    own = frame[frame.network.isin(attack.OWN)]
    assert set(own.method) == set(attack.TOOD) and set(own.step) == {0, 8}
    msp = (
        frame[(frame.method == "msp") & (frame.network == attack.ATTACKED)].set_index("step").value
    )
    assert msp[-8] <= msp[0] <= msp[8], (
        "what makes the network surer of its class is the attack on its confidence"
    )


def test_attack_on_trees_spreads_images_over_leaves() -> None:
    """Six images in one leaf of each tree, which may go to leaves of their own, or to a full one."""
    alone = np.arange(6)[:, None] + [1, 1, 1]
    crowded = np.ones((6, 3), dtype=int)
    candidates = np.stack([crowded, alone, np.zeros((6, 3), dtype=int)])
    chosen = attack._fewest_shared(candidates, np.random.default_rng(0))
    before, after = candidates[-1], candidates[chosen, np.arange(6)]
    assert aphd(before).mean() == 0 and aphd(after).mean() == 1


def test_work_is_timed_by_turns() -> None:
    done: list[str] = []
    works = {"tood": lambda: done.append("tood"), "network": lambda: done.append("network")}
    assert set(in_turn(works, 0)) == set(in_turn(works, 1)) == {"tood", "network"}
    assert done == ["network", "tood", "tood", "network"]


def test_often_is_more_than_half() -> None:
    def seconds(*tood: float) -> pd.DataFrame:
        rows = [
            {
                "dataset": str(i),
                "seed": seed,
                "setting": name,
                "value": value + 0.01 * seed * (name == "tood"),
            }
            for i, each in enumerate(tood)
            for seed in range(3)
            for name, value in (("tood", each), ("network", 2.0))
        ]
        return pd.DataFrame(rows)

    assert [next(faster(seconds(*each), "x")).holds for each in ((1.0, 1.0, 3.0), (1.0, 3.0))] == [
        True,
        False,
    ]


def test_claims_are_saved_in_the_given_folder(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(sys, "argv", ["study", "--seeds", "2", "--keep", str(tmp_path)])
    run_study(
        "about",
        "p3_made",
        5,
        {"made": None},
        lambda title, config, seed: [{"seed": seed}],
        lambda frame: [Claim("seeds", True, str(list(frame.seed)), ("a",))],
    )
    assert capsys.readouterr().out == "- pass: seeds. [0, 1]\n\n1 of 1 hold.\n"
    assert [item.measured for item in saved_claims(tmp_path, "p3_made")] == ["[0, 1]"]
