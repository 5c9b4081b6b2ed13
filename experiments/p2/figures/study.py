"""Rows, fitted calibrators, curves and NLL by predicted class of finished runs on PhANNs.

The experiment ``paper/p2/phanns`` has all proteins by counts of scores, ``paper/p2/phanns_scores``
the proteins of ten classes with all scores.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.base import clone

from experiments.common.frames import where
from experiments.common.models import models_of
from experiments.common.runs import runs_of
from experiments.common.titles import titles
from kdgraph.base import FittedModel
from kdgraph.metrics import ReliabilityBins, TopLabel, nll_top, reliability_bins

EXPERIMENT = "paper/p2/phanns"
# Keys that may differ: the path of the file decides no number.
FREE = ("dataset.path", "dataset.name", "dataset.made_by")
TITLES = titles("p2", "figures.study")
ORDER = TITLES["order"]  # Classes as the paper lists them
# Calibrators by the names of the configuration and of the paper, in the order of tables
LABELS: dict[str, str] = TITLES["labels"]
# The same for the runs with all scores: the methods of Figure 17
SCORE_LABELS = TITLES["score_labels"]
# Methods of that figure that counts of scores allow; temperatures need the scores of the other
# classes, see ``SCORE_LABELS``.
FIGURE_17 = ("histogram", "kde_b_mon", "kde", "kde_b_opt", "cum_star", "none")
# Lowest score of the paper's curves, since "the kernel density's imagination" goes "wild" below
# (Section XIII D).
LOW = 0.15


@dataclass(frozen=True)
class Study:
    """Rows Float[n, K] with labels Int[n], the K classes, and calibrators fitted to them."""

    X: np.ndarray
    y: np.ndarray
    classes: tuple[str, ...]
    models: Mapping[str, FittedModel]

    @cached_property
    def top_label(self) -> TopLabel:
        """Return predicted class and score of each row."""
        return TopLabel.from_proba(self.X)

    @cached_property
    def correct(self) -> np.ndarray:
        """Return Bool[n], whether the prediction is right."""
        return self.top_label.correct(self.y)

    @property
    def shown(self) -> list[str]:
        """Return the classes in the order of the paper."""
        return sorted(
            self.classes, key=lambda name: ORDER.index(name) if name in ORDER else len(ORDER)
        )

    def predicted_as(self, name: str) -> np.ndarray:
        """Return Int[m], the rows that are predicted as this class."""
        return np.flatnonzero(self.top_label.predicted == self.classes.index(name))

    def scores(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return scores of the right and of the wrong rows that are predicted as this class."""
        own = self.predicted_as(name)
        right = self.correct[own]
        return self.top_label.confidence[own][right], self.top_label.confidence[own][~right]

    def bins(self, name: str, n: int = 10) -> ReliabilityBins:
        """Return shares of right rows in bins of the score of this class; the paper has ten."""
        own = self.predicted_as(name)
        return reliability_bins(self.top_label.confidence[own], self.correct[own], bins=n)

    @cached_property
    def confidence(self) -> dict[str, TopLabel]:
        """Return the confidence of every row by calibrator."""
        return {
            method: model.predict_outputs(["top_label"], self.X)["top_label"]
            for method, model in self.models.items()
        }

    @cached_property
    def nll(self) -> dict[str, dict[str, float]]:
        """Return calibrator → predicted class → mean NLL in nats of right and wrong (Eq. 14)."""
        return {
            method: {
                name: nll_top(self.y[own], top_label[own], clip=1e-12)
                for name in self.shown
                if len(own := self.predicted_as(name))
            }
            for method, top_label in self.confidence.items()
        }

    def learnt(self, what: str, method: str) -> dict[str, float]:
        """Return "bandwidth" or "sign_changes" of the classes with a kernel density curve."""
        curves = self.models[method].post_hoc["calibrator"].curves_
        result = {name: curves[self.classes.index(name)] for name in self.shown}
        return {name: float(curve[what]) for name, curve in result.items() if curve}

    def curve(self, method: str, name: str, scores: np.ndarray) -> np.ndarray:
        """Return the confidence of a calibrator in a class at scores Float[g] above 1/K."""
        top_label = self.models[method].predict_outputs(
            ["top_label"], rows_at(scores, self.classes.index(name), len(self.classes))
        )["top_label"]
        return top_label.confidence

    def cloud(self, method: str, name: str) -> tuple[np.ndarray, np.ndarray]:
        """Return score and confidence of the rows that are predicted as a class, Float[m] each."""
        own = self.predicted_as(name)
        return self.top_label.confidence[own], self.confidence[method].confidence[own]

    def fitted_to(self, X: np.ndarray, y: np.ndarray | None = None) -> Study:
        """Return the same calibrators fitted to other rows and labels, and applied to them."""
        y = self.y if y is None else y
        models = {}
        for method, model in self.models.items():
            parts = {
                part: clone(each).fit(X, y, X_calibration=X, y_calibration=y)
                for part, each in model.post_hoc.items()
            }
            models[method] = FittedModel(model.parent, parts)
        return replace(self, X=X, y=y, models=models)


def rows_at(scores: np.ndarray, k: int, n_classes: int) -> np.ndarray:
    """Return Float[g, K], rows predicted as class k with these scores; others share the rest."""
    if (scores <= 1 / n_classes).any():
        raise ValueError(
            f"a score of {scores.min():g} may be no largest one of"
            f" {n_classes}: it must be above 1/{n_classes}"
        )
    rows = np.repeat((1 - scores)[:, None] / (n_classes - 1), n_classes, axis=1)
    rows[:, k] = scores
    return rows


def study_of(
    outputs: Path, free: tuple[str, ...] = (), experiment: str = EXPERIMENT
) -> Study | None:
    """Return the finished runs of an experiment, of its most frequent file; None without any."""
    labels = LABELS if experiment == EXPERIMENT else SCORE_LABELS
    records = runs_of(experiment, outputs, [*FREE, *free])
    missing = [m for m in labels if m not in {record["calibrator"] for record in records}]
    if missing:
        print(
            f"{experiment}: no run of {', '.join(missing)} found; kdg"
            f" run experiment={experiment} makes them",
            file=sys.stderr,
        )
    if not records:
        return None
    files = Counter(record["dataset"]["fingerprint"] for record in records)
    most, _ = files.most_common(1)[0]
    if len(files) > 1:
        print(
            f"{experiment}: runs of {len(files)} files; those of {most} are drawn", file=sys.stderr
        )
    loaded = {
        record["calibrator"]: (record, *models_of(record, outputs))
        for record in records
        if record["dataset"]["fingerprint"] == most
    }
    record, splits, *_ = next(iter(loaded.values()))
    models = {method: loaded[method][3] for method in labels if method in loaded}
    return Study(splits.test.X, splits.test.y, tuple(record["dataset"]["classes"]), models)


def measured(folder: Path) -> pd.DataFrame:
    """Return the precision of Section III, the confidence of Conf1 in Minor capsid."""
    records = [r for r in runs_of(EXPERIMENT, folder, FREE) if r["calibrator"] == "precision"]
    result = []
    for (_, seed), record in {(r["dataset"]["fingerprint"], r["seed"]): r for r in records}.items():
        (path,) = folder.glob(f"*/*/{record['run_id']}/{record['files']['predictions']}")
        predicted = pd.read_parquet(
            path, columns=["set", "calibrated_predicted", "calibrated_confidence"]
        )
        own = where(predicted, set="test", calibrated_predicted="Minor capsid")
        value = float(own.calibrated_confidence.mean())
        result.append(
            {"metric": "precision of Minor capsid", "method": "Conf1", "seed": seed, "value": value}
        )
    place = {"item": "Section III", "dataset": "phanns"}
    place |= dict.fromkeys(("true_class", "predicted_class")) | {"variant": ""}
    return pd.DataFrame([{**place, **row} for row in result])
