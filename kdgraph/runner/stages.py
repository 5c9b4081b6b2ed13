"""The four stages as pure functions: config nodes, arrays and a seed in; values out. Nothing here reads or writes a file, but a parent that
trains for long may keep its state in one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from sklearn.frozen import FrozenEstimator

from kdgraph.answers import Model
from kdgraph.components import Node, build
from kdgraph.data.dataset import Dataset, Splits
from kdgraph.data.splits import make_splits, split_options
from kdgraph.errors import ConfigError
from kdgraph.parents import GivenScores
from kdgraph.run_config import AFTER, Protocol

DEFAULT_PREPROCESS = {"_target_": "kdgraph.parents.Preprocess"}


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
    if train.given_scores != isinstance(estimator, GivenScores):
        if train.given_scores:
            raise ConfigError(f"dataset={train.name} has class scores and nothing to train on; choose parent=scores")
        raise ConfigError(f"dataset={train.name} has rows to train on, and parent=scores trains nothing; choose parent=random_forest")
    if train.task == "classification" and not hasattr(estimator, "predict_proba"):
        raise ConfigError(f"parent {parent['name']} ({parent['_target_']}) predicts no probabilities; choose one with predict_proba")
    if train.task == "regression" and not hasattr(estimator, "predict_dist"):
        what = "is a classifier" if hasattr(estimator, "predict_proba") else "predicts no distributions (it has no predict_dist)"
        chosen = "method=global_pit metrics=regression figures=regression ood=none"
        remedy = f"choose a data set with classes, or what is for regression: {chosen}"
        raise ConfigError(f"dataset={train.name} is for regression, and parent={parent['name']} {what}; {remedy}")
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


def calibrate(nodes: Mapping[str, Node], parent: Any, splits: Splits, *, protocol: Protocol = "held_out", seed: int, n_jobs: int) -> Model:
    """The fitted parent with what is fitted after it, each part seeing training and calibration rows.

    Parameters
    ----------
    nodes : group → node, of some of :data:`~kdgraph.run_config.AFTER`. All stand on the parent, but the gate around the calibrator.
    protocol : "paper" shows test rows to those parts whose ``paper_protocol`` says that their paper does.
    """
    rng = stage_rng(seed, "calibrate")
    after: dict[str, Any] = {}
    for group in AFTER:
        random_state = _an_int(rng)
        ground = after.get("calibrator", parent) if group == "gate" else parent
        injected = {"estimator": FrozenEstimator(ground), "random_state": random_state, "n_jobs": n_jobs}
        if group in nodes and (estimator := build(nodes[group], **injected)) is not None:
            _check_after(group, nodes[group], estimator, ground)
            after[group] = _fitted_after(estimator, splits, protocol)
    return Model(parent, after)


_REPAIRS = {"classifier": ("predict_proba", "class probabilities"), "regressor": ("predict_dist", "predictive distributions")}
"""By scikit-learn's kind of estimator: what it needs of the parent that it stands on."""


def _check_after(group: str, node: Node, estimator: Any, ground: Any) -> None:
    """What repairs something that the parent does not predict is bad input, not a failed run."""
    kind = estimator.__sklearn_tags__().estimator_type if hasattr(estimator, "__sklearn_tags__") else None
    if kind not in _REPAIRS:
        return
    method, what = _REPAIRS[kind]
    if not hasattr(ground, method):
        raise ConfigError(f"{group}={node['name']} repairs {what}, and the parent predicts none; choose {group}=none")


def _fitted_after(estimator: Any, splits: Splits, protocol: Protocol) -> Any:
    way = getattr(estimator, "paper_protocol", None) if protocol == "paper" else None
    train, held, more = splits.learning, splits.calibration, {}
    if way == "in_sample":
        held = splits.test
    elif way == "transductive":
        more["X_test"] = splits.test.X
    return estimator.fit(train.X, train.y, X_calibration=held.X, y_calibration=held.y, **more)


def _an_int(rng: np.random.Generator) -> int:
    """A seed that scikit-learn takes."""
    return int(rng.integers(2**31 - 1))
