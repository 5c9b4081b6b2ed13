"""Numbers of ``experiment=paper/p2/mnist`` in the places of those that Salamon et al. print of
MNIST (Section XIII.D, Appendix).

A run is an ensemble of ten networks. Its calibration rows are test set 1, other rows in each seed,
and its test rows are test set 2.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from experiments.common.runs import Record, runs_of
from experiments.p2.mnist.pool import RECIPES, Recipe, rows
from kdgraph.metrics import TopLabel
from kdgraph.persistence import load

EXPERIMENT = "paper/p2/mnist"
FREE = ("parent.learning_rate", "parent.max_epochs")  # Keys that distinguish the recipes
TITLES = {  # Recipe → its published name, and the title of the variant that it is
    RECIPES["as_printed"]: ("under-trained", ""),
    RECIPES["under_trained"]: ("under-trained", "learning rate 5e-5"),
    RECIPES["fully_trained"]: ("fully trained", ""),
}
# Class whose rows the paper counts, and the score below which it counts the right ones.
CLASS, LOW = 0, 0.99
# Networks that train on one fixed mini-batch each; half a minute of one core each.
ONE_BATCH_NETWORKS = 10
MOST = 0.5  # More than this share is most
_NOWHERE = {"dataset": "mnist", "true_class": None, "predicted_class": None, "variant": ""}


def measured(folder: Path) -> pd.DataFrame:
    """Return accuracies of networks, counts of both test sets of ensembles, and their cutoffs."""
    records = runs_of(EXPERIMENT, folder, FREE)
    full = [record for record in records if _recipe(record) == RECIPES["fully_trained"]]
    result = [*_accuracies(records, folder), *_counts(full, folder), *_cutoffs(full)]
    return pd.DataFrame([{**_NOWHERE, **row} for row in result])


def one_batch(networks: int = ONE_BATCH_NETWORKS) -> pd.DataFrame:
    """Return the accuracy of :func:`~experiments.p2.mnist.readings.one_batch_network`."""
    # Imports torch, which pages without runs do without.
    from experiments.p2.mnist.readings import ONE_BATCH, one_batch_network

    (X, y), sets = rows()
    test, labels = sets["2"]
    result = (
        100 * float(np.mean(one_batch_network(X, y, seed).predict(test) == labels))
        for seed in range(networks)
    )
    place = {"item": "Appendix, Network training", "metric": "accuracy on test set 2 in percent"}
    network = {"method": "under-trained", **_NOWHERE, "variant": ONE_BATCH}
    return pd.DataFrame(
        [{**place, **network, "seed": i, "value": value} for i, value in enumerate(result)]
    )


def score_counts(top_label: TopLabel, y: np.ndarray) -> dict[str, float]:
    """Return the counts of Section XIII.D on one test set, by their published names.

    The score of most rows is that of more than half of them, to two digits; without one, it has no
    number.
    """
    own, right = top_label.predicted == CLASS, top_label.correct(y)
    result = {
        "right rows of 0 below that score": float(
            (own & right & (top_label.confidence < LOW)).sum()
        ),
        "wrong rows of 0": float((own & ~right).sum()),
    }
    at, n = np.unique(np.round(top_label.confidence, 2), return_counts=True)
    return result | (
        {"score of most rows": float(at[n.argmax()])} if n.max() > MOST * len(y) else {}
    )


def hundredths(theta: Iterable[float | None]) -> tuple[float, float]:
    """Return the narrowest hundredths that hold more than half of the classes' cutoffs.

    A class without a cutoff (None) is nowhere.

    >>> hundredths([0.9991, 0.9999, 0.994, 0.62, None])
    (0.99, 1.0)
    """
    classes = list(theta)
    result = np.sort([each for each in classes if each is not None])
    wanted = int(MOST * len(classes)) + 1
    if len(result) < wanted:
        raise ValueError(
            f"{len(result)} of {len(classes)} classes have a cutoff, which are not most"
        )
    # Of sorted cutoffs the shortest interval with ``wanted`` of them begins and ends at one.
    width = result[wanted - 1 :] - result[: len(result) - wanted + 1]
    low = int(width.argmin())
    return float(np.floor(100 * result[low]) / 100), float(
        np.ceil(100 * result[low + wanted - 1]) / 100
    )


def _accuracies(records: Iterable[Record], folder: Path) -> Iterator[dict[str, Any]]:
    ensembles = {(recipe, r["seed"]): r for r in records if (recipe := _recipe(r)) in TITLES}
    for (recipe, seed), record in ensembles.items():
        method, variant = TITLES[recipe]
        X, y = _test_set_2()
        right = (
            load(_run(record, folder) / "model" / "parent.kdg").member_log_proba(X).argmax(axis=2)
            == y
        ).mean(axis=1)
        shared = {
            "item": "Appendix, Network training",
            "metric": "accuracy on test set 2 in percent",
            "method": method,
        }
        for member, share in enumerate(right):
            keys = {**shared, "variant": variant, "seed": len(right) * seed + member}
            yield {**keys, "value": 100 * float(share)}


def _counts(records: Iterable[Record], folder: Path) -> Iterator[dict[str, Any]]:
    for seed, record in {record["seed"]: record for record in records}.items():
        frame = pd.read_parquet(_run(record, folder) / record["files"]["predictions"])
        classes = [str(name) for name in record["dataset"]["classes"]]
        for name in ("calibration", "test"):
            of_set = frame[frame.set == name]
            top_label = TopLabel.from_proba(
                of_set[[f"parent_{each}" for each in classes]].to_numpy()
            )
            y = of_set.y.astype(str).map(classes.index).to_numpy()
            for metric, value in score_counts(top_label, y).items():
                yield {**_section(metric, "10000 steps"), "seed": seed, "value": value}


def _cutoffs(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    for record in records:
        if record["calibrator"] == "cum_star":
            ends = hundredths(record["learnt"]["calibrator"]["theta"].values())
            for metric, value in zip(
                ("lowest of most optimal cutoffs", "highest of most optimal cutoffs"),
                ends,
                strict=True,
            ):
                yield {**_section(metric, "Cum*"), "seed": record["seed"], "value": value}


def _section(metric: str, method: str) -> Mapping[str, Any]:
    return {"item": "Section XIII.D", "metric": metric, "method": method}


def _recipe(record: Record) -> Recipe:
    parent = record["config"]["parent"]
    return Recipe(parent["learning_rate"], parent["max_epochs"])


def _run(record: Record, folder: Path) -> Path:
    return next(folder.glob(f"*/*/{record['run_id']}"))


@cache
def _test_set_2() -> tuple[np.ndarray, np.ndarray]:
    _, sets = rows()
    return sets["2"]
