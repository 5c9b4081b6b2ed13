"""The four stages as pure functions: config nodes, arrays and a seed in; values out. Nothing here reads or writes a file, but a parent that
trains for long may keep its state in one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.frozen import FrozenEstimator

from kdgraph.components import Node, build
from kdgraph.data.dataset import Dataset, Splits
from kdgraph.data.splits import make_splits, split_options
from kdgraph.errors import ConfigError

DEFAULT_PREPROCESS = {"_target_": "kdgraph.parents.Preprocess"}


@dataclass(frozen=True)
class Calibrated:
    """What is fitted after the parent: the calibrator, and the gate around it or None."""

    calibrator: Any
    gate: Any

    @property
    def model(self) -> Any:
        """The one that has the last word."""
        return self.calibrator if self.gate is None else self.gate

    def learnt(self) -> dict[str, dict[str, Any]]:
        """What calibrator and gate say they have learnt, for the record."""
        parts = {"calibrator": self.calibrator, "gate": self.gate}
        return {name: part.describe() for name, part in parts.items() if hasattr(part, "describe")}


def stage_rng(seed: int, stage: str) -> np.random.Generator:
    """The randomness of one stage: a stage more shifts no other."""
    return np.random.default_rng([seed, zlib.crc32(stage.encode())])


def split(dataset: Node, seed: int) -> Splits:
    """Rows by role."""
    options = {name: dataset[name] for name in split_options() if name in dataset}
    return make_splits(build(dataset), **options, rng=stage_rng(seed, "split"))


def fit(
    parent: Node,
    train: Dataset,
    *,
    preprocess: Node = DEFAULT_PREPROCESS,
    has_missing: bool | None = None,
    seed: int,
    n_jobs: int,
    report: Callable[[Any], None] | None = None,
    checkpoint: Path | None = None,
) -> Any:
    """The parent, fitted on the training rows, behind what encodes categories and missing values where there are any.

    ``has_missing`` says whether any row of any role has a missing value (default: whether a training row has). A parent that trains for
    long tells ``report`` how far it is, and keeps its state in the file ``checkpoint``, from which it goes on.

    It predicts on one core from here on: with threads, a random forest adds its trees' votes in the order in which they finish, and the
    last bit of a probability changes from call to call.
    """
    alive = {"report": report, "checkpoint": checkpoint}
    estimator = build(parent, random_state=_an_int(stage_rng(seed, "fit")), n_jobs=n_jobs, **alive)
    _check_parent(parent, estimator, train)
    encoded = build(preprocess).around(estimator, train, has_missing=has_missing)
    encoded.fit(train.X, train.y)
    last = {"n_jobs": 1, "report": None, "checkpoint": None}
    afterwards = {name: last[name.split("__")[-1]] for name in encoded.get_params() if name.split("__")[-1] in last}
    return encoded.set_params(**afterwards) if afterwards else encoded


def _check_parent(parent: Node, estimator: Any, train: Dataset) -> None:
    """A parent that cannot learn from such rows is bad input, not a failed run."""
    if not hasattr(estimator, "predict_proba"):
        raise ConfigError(f"parent {parent['name']} ({parent['_target_']}) predicts no probabilities; choose one with predict_proba")
    if train.task == "regression":
        raise ConfigError(
            f"dataset={train.name} is for regression, and parent={parent['name']} is a classifier; choose a data set with classes"
        )
    if train.are_images and not takes(estimator, "three_d_array"):
        flat = ", or vectors of pixels: dataset.flat=true" if "flat" in train.facts else ""
        raise ConfigError(f"dataset={train.name} has images, and parent={parent['name']} takes vectors; choose a network: parent=cnn{flat}")
    if not train.are_images and not takes(estimator, "two_d_array"):
        raise ConfigError(f"dataset={train.name} has vectors, and parent={parent['name']} takes images; choose another: parent=mlp")


def takes(estimator: Any, kind: Literal["two_d_array", "three_d_array"]) -> bool:
    """Whether X may have two axes, or more, as scikit-learn's tag of that name says; who has no tags, or checks nothing, takes all."""
    if not hasattr(estimator, "__sklearn_tags__"):
        return True
    tags = estimator.__sklearn_tags__()
    return tags.no_validation or getattr(tags.input_tags, kind)


def calibrate(calibrator: Node, gate: Node, parent: Any, splits: Splits, *, seed: int, n_jobs: int) -> Calibrated:
    """The calibrator around the fitted parent, and the gate around the calibrator, each seeing training and calibration rows."""
    rng = stage_rng(seed, "calibrate")
    fitted = _fit_after(calibrator, parent, splits, _an_int(rng), n_jobs)
    return Calibrated(fitted, _fit_after(gate, fitted, splits, _an_int(rng), n_jobs))


def _fit_after(node: Node, fitted: Any, splits: Splits, random_state: int, n_jobs: int) -> Any:
    estimator = build(node, estimator=FrozenEstimator(fitted), random_state=random_state, n_jobs=n_jobs)
    if estimator is None:
        return None
    return estimator.fit(splits.train.X, splits.train.y, X_calibration=splits.calibration.X, y_calibration=splits.calibration.y)


def _an_int(rng: np.random.Generator) -> int:
    """A seed that scikit-learn takes."""
    return int(rng.integers(2**31 - 1))
