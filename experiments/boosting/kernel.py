"""Weights of the trees in the geodesic similarity of boosted trees.

``python -m experiments.boosting.kernel`` fits LightGBM to tables of OpenML-CC18, stopped early, and
estimates classes by the rows that share leaves with a row, as :class:`~kdgraph.KernelDensityForest`
does: with equal weights of all trees, with the variance of a tree's output over the training rows,
with its root, and with the first quarter of the rounds alone. Late trees are fitted to residuals
and have small outputs, so that equal weights might be the wrong ones. It prints mean NLL of test
rows, of the neighbours' classes alone and mixed with the parent, and on how many tables each
weighting is better than equal weights.

Exponent, pseudo-count, weight and power of the parent are chosen on the calibration rows, each
without itself, by the search that the class uses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from experiments.common.frames import where
from experiments.common.markdown import number, signed
from experiments.common.markdown import table as markdown_table
from kdgraph.base import Rows
from kdgraph.config import plan
from kdgraph.data.splits import Splits
from kdgraph.density.posterior import PosteriorParameters, clipped_nll, fit_posterior
from kdgraph.runner import stages

TABLES = (
    *("diabetes", "balance_scale", "banknote_authentication", "blood_transfusion", "wilt", "pc4"),
    *("mfeat_morphological", "mfeat_zernike", "qsar_biodeg", "satimage", "steel_plates_fault"),
    "spambase",
)
SEEDS = (0, 1)
# Largest number of leaves of a tree, and learning rate.
MODELS = {"31 leaves, rate .1": (31, 0.1), "8 leaves, rate .05": (8, 0.05)}
MAX_TRAIN, MAX_OTHER = 2500, 1000  # Rows at most: similarities of all pairs are in memory here


@dataclass(frozen=True)
class Sample:
    """Rows of one part of a table with their leaves and the probabilities of the parent."""

    rows: Rows
    leaves: np.ndarray
    parent_proba: np.ndarray


def similarity(a: np.ndarray, b: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted share of trees in which rows have the same leaf, Float[m, n]."""
    total = np.zeros((len(a), len(b)))
    for t in np.flatnonzero(weights):
        total += weights[t] * (a[:, t, None] == b[None, :, t])
    return total / weights.sum()


def weightings(model, train: Sample, n_classes: int) -> dict[str, np.ndarray]:
    """Return the weights of the trees, Float[T], by name."""
    n_trees = train.leaves.shape[1]
    variance = np.empty(n_trees)
    for t, leaves in enumerate(train.leaves.T):
        outputs = [model.booster_.get_leaf_output(t, leaf) for leaf in range(leaves.max() + 1)]
        variance[t] = np.array(outputs)[leaves].var()
    # A round of boosting has a tree for each class, but one alone for two classes.
    trees_of_round = 1 if n_classes == 2 else n_classes
    quarter = max(trees_of_round, n_trees // 4 // trees_of_round * trees_of_round)
    return {
        "equal": np.ones(n_trees),
        "variance": variance,
        "root of the variance": np.sqrt(variance),
        "first quarter": (np.arange(n_trees) < quarter).astype(float),
    }


def losses(
    train: Sample, calibration: Sample, test: Sample, weights: np.ndarray, n_classes: int
) -> dict[str, float]:
    """Return the mean NLL of the neighbours' classes alone, and mixed with the parent."""
    reference = Rows(
        np.concatenate([train.rows.X, calibration.rows.X]),
        np.concatenate([train.rows.y, calibration.rows.y]),
        np.ones(len(train.rows) + len(calibration.rows)),
    )
    leaves = np.concatenate([train.leaves, calibration.leaves])
    labels = reference.one_hot(n_classes)
    prior = train.rows.one_hot(n_classes).mean(axis=0)
    exponents = PosteriorParameters().exponents(len(reference))

    def masses(sample: Sample, *, without_itself: bool) -> np.ndarray:
        # Calibration rows follow the training rows; each is its own nearest neighbour, and
        # would choose parameters that trust the nearest row alone.
        K = similarity(sample.leaves, leaves, weights)
        if without_itself:
            own = np.arange(len(sample.rows))
            K[own, len(train.rows) + own] = 0
        return np.stack([K**exponent @ labels for exponent in exponents], axis=2)

    calibration_masses = masses(calibration, without_itself=True)
    test_masses = masses(test, without_itself=False)
    result = {}
    weights_of_parent: dict[str, float | Literal["auto"]] = {"alone": 0.0, "mixed": "auto"}
    for name, weight in weights_of_parent.items():
        best = fit_posterior(
            lambda _: lambda rows: calibration_masses[rows],
            calibration.parent_proba,
            calibration.rows,
            prior,
            PosteriorParameters(parent_weight=weight),
            len(reference),
            average=False,
        )
        proba = best.mix(test_masses[:, :, np.isin(exponents, best.exponents)], test.parent_proba)
        result[name] = clipped_nll(proba, test.rows) / len(test.rows)
    return result


def split(table: str, seed: int) -> Splits:
    """Return the rows of a run with this table and seed."""
    config = plan([f"dataset=cc18/{table}", f"seed={seed}", "method=kdf"]).jobs[0].config
    return stages.split(config.dataset, config.seed)


def measure(table: str, seed: int) -> Iterator[dict[str, object]]:
    """Yield the NLL of each model and weighting on one table."""
    from lightgbm import LGBMClassifier, early_stopping

    splits = split(table, seed)
    parts = []
    for data, most in (
        (splits.train, MAX_TRAIN),
        (splits.calibration, MAX_OTHER),
        (splits.test, MAX_OTHER),
    ):
        chosen = np.random.default_rng(0).permutation(len(data.y))[:most]
        parts.append(Rows(data.X[chosen], data.y[chosen].astype(int), np.ones(len(chosen))))
    n_classes = 1 + max(int(rows.y.max()) for rows in parts)
    for name, (n_leaves, rate) in MODELS.items():
        X, X_validation, y, y_validation = train_test_split(
            parts[0].X, parts[0].y, test_size=0.1, random_state=0, stratify=parts[0].y
        )
        options: dict[str, Any] = {"num_leaves": n_leaves, "learning_rate": rate}
        model = LGBMClassifier(n_estimators=1000, random_state=0, n_jobs=1, verbose=-1, **options)
        model.fit(
            X,
            y,
            eval_X=X_validation,
            eval_y=y_validation,
            callbacks=[early_stopping(30, verbose=False)],
        )
        train, calibration, test = (
            Sample(
                rows,
                np.asarray(model.predict(rows.X, pred_leaf=True)).reshape(len(rows), -1),
                np.asarray(model.predict_proba(rows.X)),
            )
            for rows in parts
        )
        parent = clipped_nll(test.parent_proba, test.rows) / len(test.rows)
        for weighting, weights in weightings(model, train, n_classes).items():
            result = losses(train, calibration, test, weights, n_classes)
            place = {"model": name, "weights": weighting, "table": table, "seed": seed}
            yield {**place, "parent": parent, **result}


def tables_of(measured: pd.DataFrame) -> str:
    """Return the means over tables as a table of Markdown."""
    columns = ["NLL of the parent", "neighbours alone", "mixed with the vote", "against equal"]
    body = []
    for (model, weights), rows in measured.groupby(["model", "weights"], sort=False):
        equal = where(measured, model=model, weights="equal")
        means = rows.groupby("table")[["parent", "alone", "mixed"]].mean()
        difference = means.mixed - equal.groupby("table").mixed.mean()
        cells = [number(float(means[name].mean()), 4) for name in means]
        is_equal = weights == "equal"
        cells += ["–" if is_equal else signed(float(difference.mean()), 4)]
        cells += ["–" if is_equal else f"{int((difference < 0).sum())} of {len(difference)}"]
        body.append([str(model), str(weights), *cells])
    return markdown_table(["model", "weights", *columns, "tables better"], body)


def main() -> None:
    """Measure all tables, and print the means."""
    measured = [row for table in TABLES for seed in SEEDS for row in measure(table, seed)]
    print(tables_of(pd.DataFrame(measured)))


if __name__ == "__main__":
    main()
