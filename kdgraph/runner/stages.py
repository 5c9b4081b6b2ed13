"""The four stages as pure functions: config nodes, arrays and a seed in; values out. Nothing here
reads or writes a file, but a parent that trains for long may keep its state in one.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator

from kdgraph.base import FittedModel
from kdgraph.base.posthoc import use_class_names
from kdgraph.base.rows import warn_precision_loss
from kdgraph.config import AFTER, Protocol
from kdgraph.config.compatibility import check_rows, check_upstream, upstream_of
from kdgraph.config.components import Node, build, errors_by_key
from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.data.splits import make_splits, split_options
from kdgraph.errors import DataError
from kdgraph.quoting import override

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
    """The parent, fitted on the training rows, behind what encodes categories and missing values
    where there are any.

    ``has_missing`` says whether any row of any role has a missing value (default: whether a
    training row has). A parent that trains for long tells ``report`` how far it is, and keeps its
    state in the file ``checkpoint``, from which it goes on.

    It predicts on one core from here on: with threads, a random forest adds its trees' votes in the
    order in which they finish, and the last bit of a probability changes from call to call.
    """
    alive = {"report": report, "checkpoint": checkpoint}
    estimator = build(
        parent,
        random_state=_an_int(stage_rng(seed, "fit")),
        n_jobs=n_jobs,
        layer_widths=train.layer_widths,
        **alive,
    )
    check_rows(parent, estimator, train)
    encoded = build(preprocess).wrap(estimator, train, has_missing=has_missing)
    with errors_by_key("parent", parent):
        encoded.fit(train.X, train.y)
    warn_precision_loss(
        train.name,
        encoded,
        train.X,
        train.feature_names,
        scale=override("dataset.scale", "min_max"),
    )
    last = {"n_jobs": 1, "report": None, "checkpoint": None}
    afterwards = {
        name: last[name.split("__")[-1]]
        for name in encoded.get_params()
        if name.split("__")[-1] in last
    }
    return encoded.set_params(**afterwards) if afterwards else encoded


def calibrate(
    nodes: Mapping[str, Node],
    parent: Any,
    splits: Splits,
    *,
    protocol: Protocol = "held_out",
    ood: Node | None = None,
    seed: int,
    n_jobs: int,
) -> FittedModel:
    """The fitted parent with what is fitted after it, each part seeing training and calibration
    rows.

    Parameters
    ----------
    nodes : group → node, of some of :data:`~kdgraph.config.AFTER`. All stand on the parent, but
    the gate around the calibrator.
    protocol : "paper" shows test rows, or rows out of distribution, to those parts whose
    ``paper_protocol`` says that their paper does.
    ood : node of the source of rows out of distribution; only asked by such a part.
    """
    rng = stage_rng(seed, "calibrate")
    after: dict[str, Any] = {}
    for group in AFTER:
        random_state = _an_int(rng)
        below, ground = upstream_of(group, parent, after)
        injected = {
            "estimator": FrozenEstimator(ground),
            "random_state": random_state,
            "n_jobs": n_jobs,
        }
        if group in nodes and (estimator := build(nodes[group], **injected)) is not None:
            check_upstream(group, nodes[group], estimator, ground, f"the {below}")
            with use_class_names(splits.train.classes.tolist()), errors_by_key(group, nodes[group]):
                after[group] = _fitted_after(
                    estimator, splits, protocol, lambda: ood_sets(ood, splits, seed)
                )
    return FittedModel(parent, after)


def ood_sets(ood: Node | None, splits: Splits, seed: int) -> Iterable[OodSet]:
    """The sets out of distribution of a run, drawn one at a time; the same whenever they are asked
    for.
    """
    source = build(ood) if ood is not None else None
    return source.sets(splits, stage_rng(seed, "ood")) if source is not None else []


def _fitted_after(
    estimator: Any, splits: Splits, protocol: Protocol, sets: Callable[[], Iterable[OodSet]]
) -> Any:
    way = getattr(estimator, "paper_protocol", None) if protocol == "paper" else None
    train, held, more = splits.learning, splits.calibration, {}
    if way == "in_sample":
        held = splits.test
    elif way == "transductive":
        more["X_test"] = splits.test.X
    elif way == "ood":
        if not (drawn := [each.X for each in sets()]):
            raise DataError(
                f"{type(estimator).__name__} is fitted with rows out of distribution here, and"
                " there are none; choose an ood"
            )
        more["X_ood"] = np.concatenate(drawn)
    if getattr(estimator, "takes_groups", False):
        if held.groups is None:
            what = (
                f"{splits.train.name} has no groups, and {type(estimator).__name__} does something"
                " for each of them"
            )
            raise DataError(
                f"{what}; name their column: dataset.group=… (of dataset=arrays an array groups)"
            )
        if held.groups_are_target:
            what = (
                f"the groups of {train.name} are its target, and {type(estimator).__name__} would"
                " be told the label of each test row"
            )
            raise DataError(
                f"{what}; name another column for dataset.group, or choose a method that treats no"
                " group apart"
            )
        more |= {"groups": train.groups, "groups_calibration": held.groups}
    if not len(held.y):
        what = (
            f"all {len(splits.test.y):,} rows of {splits.test.name} test, and"
            f" {type(estimator).__name__} has none to be fitted on"
        )
        raise DataError(
            f"{what}; lower dataset.n_test, or give protocol=paper to a method that its paper fits"
            " on test rows"
        )
    return estimator.fit(train.X, train.y, X_calibration=held.X, y_calibration=held.y, **more)


def _an_int(rng: np.random.Generator) -> int:
    """A seed that scikit-learn takes."""
    return int(rng.integers(2**31 - 1))
