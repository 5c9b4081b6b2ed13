"""The stages of a run as pure functions.

:func:`split`, :func:`fit`, :func:`calibrate` and :func:`~kdgraph.runner.evaluate.evaluate` take
config nodes, arrays and a seed, and return values. They read and write no file, but a parent that
trains for long may keep its state in one. :class:`~kdgraph.runner.stored_stages.StoredStages` looks
each result up in the store before it calls them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import StratifiedGroupKFold

from kdgraph.base import FittedModel
from kdgraph.base.rows import CrossFitted, draw_folds_of_rows
from kdgraph.base.validation import warn_precision_loss
from kdgraph.config import AFTER, RunConfig
from kdgraph.config.compatibility import (
    calibrates_on_all_rows,
    check_rows,
    check_upstream,
)
from kdgraph.config.components import Node, build, errors_by_key
from kdgraph.config.models import upstream_of
from kdgraph.data.dataset import Dataset, OodSet, Splits
from kdgraph.data.division import Fold, Folds
from kdgraph.data.splits import join_rows, make_splits, split_options
from kdgraph.errors import DataError, DataNotAvailable
from kdgraph.parameters import CalibrationMode, Protocol, check_value
from kdgraph.quoting import override
from kdgraph.runner.evaluate import ood_sets
from kdgraph.runner.store import stage_rng
from kdgraph.wording import use_class_names

DEFAULT_PREPROCESS = {"_target_": "kdgraph.parents.Preprocess"}


def fit_options(config: RunConfig, splits: Splits) -> dict[str, Any]:
    """Return the options that :func:`fit` and :func:`cross_fit` share in a run."""
    return {
        "preprocess": config.preprocess,
        "has_missing": splits.has_missing,
        "seed": config.seed,
        "n_jobs": config.n_jobs,
    }


def split(
    dataset: Node,
    seed: int,
    calibration: CalibrationMode = "held_out",
    *,
    trains: bool = True,
    tests: bool = True,
) -> Splits:
    """Return the rows of a data set by role: train, calibration, test.

    Unless ``calibration`` is "held_out", the rows that would calibrate are training rows. With
    ``trains=False``, for a model that was fitted elsewhere, no row of a table trains. With
    ``dataset.folds=n`` the seeds 0 to n - 1 test each row of a table once, and the next n seeds in
    another division. With ``tests=False``, for a model that is not evaluated, no row tests.
    """
    options = {name: dataset[name] for name in split_options() if name in dataset}
    folds = options.pop("folds", None)
    check_value("dataset.folds", folds, Folds)
    return make_splits(
        build(dataset),
        **options,
        fold=folds and Fold(folds, seed % folds, _draw_seed(stage_rng(seed // folds, "folds"))),
        hold_out=calibration == "held_out",
        trains=trains,
        tests=tests,
        rng=stage_rng(seed, "split"),
    )


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
    unlabelled: Sequence[np.ndarray] = (),
) -> Any:
    """Fit the parent on the training rows.

    A preprocessing step encodes categories and missing values before it, where there are any. The
    fitted parent predicts on one core: with threads, a random forest adds its trees' votes in the
    order in which they finish, and the last bit of a probability changes from call to call.

    ``has_missing`` is True if any row of any role has a missing value; None: look at the training
    rows. ``report`` receives the progress of a parent that trains for long, and ``checkpoint`` is
    the file of its state, from which it resumes. ``unlabelled`` are test and OOD rows, for a parent
    that trains on them too in its paper.
    """
    estimator = build(
        parent,
        random_state=_draw_seed(stage_rng(seed, "fit")),
        n_jobs=n_jobs,
        layer_widths=train.layer_widths,
        data_columns=train.source_columns,
        data_labels=train.classes.tolist(),
        report=report,
        checkpoint=checkpoint,
    )
    check_rows(str(parent.get("name")), estimator, train)
    pipeline = _behind_preprocessing(preprocess, estimator, train, has_missing)
    further = {"X_unlabelled": list(unlabelled)} if len(unlabelled) else {}
    with errors_by_key("parent", parent):
        pipeline.fit(train.X, train.y, **further)
    warn_precision_loss(
        train.name,
        pipeline,
        train.X,
        train.feature_names,
        scale=override("dataset.scale", "min_max"),
    )
    after_fit = {"n_jobs": 1, "report": None, "checkpoint": None}
    changes = {
        name: after_fit[name.split("__")[-1]]
        for name in pipeline.get_params()
        if name.split("__")[-1] in after_fit
    }
    return pipeline.set_params(**changes) if changes else pipeline


def _behind_preprocessing(
    preprocess: Node, estimator: Any, train: Dataset, has_missing: bool | None
) -> Any:
    """Return the parent behind its preprocessing; a model from elsewhere has its own."""
    if not getattr(estimator, "learns_from_rows", True):
        return estimator
    return build(preprocess).wrap(estimator, train, has_missing=has_missing)


def cross_fit(
    parent: Node,
    train: Dataset,
    *,
    cv: int,
    preprocess: Node = DEFAULT_PREPROCESS,
    has_missing: bool | None = None,
    seed: int,
    n_jobs: int,
) -> tuple[list[Any], np.ndarray]:
    """Fit a parent for each of ``cv`` folds, on the rows outside of the fold.

    Folds are drawn by class, and by group where the rows have groups to keep together. Returns the
    fitted parents, and Int[n], the fold of each row.
    """
    random_state = _draw_seed(stage_rng(seed, "cross_fit"))
    strata = train.y if train.task == "classification" else np.zeros(len(train.y), dtype=int)
    folds: Any = cv
    if train.split_groups is not None and cv == 1:
        raise DataError(
            f"{train.name} has groups of rows to keep together, which a single fold does not; give"
            " cv=2 or more"
        )
    if train.split_groups is not None:
        folds = StratifiedGroupKFold(cv, shuffle=True, random_state=random_state).split(
            strata, strata, train.split_groups
        )
    fold = draw_folds_of_rows(
        len(train.y), folds, train.y if train.task == "classification" else None, random_state
    )
    parents = [
        fit(
            parent,
            train.rows(np.flatnonzero(fold != f)),
            preprocess=preprocess,
            has_missing=train.has_missing if has_missing is None else has_missing,
            seed=seed,
            n_jobs=n_jobs,
        )
        for f in range(cv)
    ]
    return parents, fold


def calibrate(
    nodes: Mapping[str, Node],
    parent: Any,
    splits: Splits,
    *,
    calibration: CalibrationMode = "held_out",
    folds: tuple[list[Any], np.ndarray] | None = None,
    protocol: Protocol = "strict",
    ood: Node | None = None,
    seed: int,
    n_jobs: int,
) -> FittedModel:
    """Fit the components after the parent, each on training and calibration rows.

    ``nodes`` maps some groups of :data:`~kdgraph.config.AFTER` to their nodes. All build on the
    parent, but the gate on the calibrator. ``folds`` is the result of :func:`cross_fit`, for
    "cross_fit". The protocol "paper" shows test rows, or OOD rows of ``ood``, to the components
    whose ``paper_protocol`` states that their paper does.
    """
    rng = stage_rng(seed, "calibrate")
    components: dict[str, Any] = {}
    others, of_sets = divide_calibration(nodes, splits, calibration, seed)
    splits_of_group = {"calibrator": others, "gate": others, "conformal": of_sets}
    for group in AFTER:
        random_state = _draw_seed(rng)
        below, upstream = upstream_of(group, parent, components)
        frozen = FrozenEstimator(upstream)
        if folds is not None and upstream is parent:
            frozen = CrossFitted(parent, *folds)
        injected = {
            "estimator": FrozenEstimator(upstream) if group == "conformal" else frozen,
            "random_state": random_state,
            "n_jobs": n_jobs,
            "calibration": "held_out" if group == "conformal" else calibration,
        }
        if group in nodes and (estimator := build(nodes[group], **injected)) is not None:
            check_upstream(
                group, str(nodes[group].get("name")), estimator, upstream, f"the {below}"
            )
            names = splits.train.classes.tolist(), splits.train.group_names
            with use_class_names(*names), errors_by_key(group, nodes[group]):
                rows = splits_of_group.get(group, splits)
                if group == "calibrator" and calibrates_on_all_rows(parent, estimator):
                    rows = replace(rows, calibration=join_rows(rows.train, rows.calibration))
                components[group] = _fit_component(
                    estimator,
                    rows,
                    protocol,
                    lambda: ood_sets(ood, splits, seed),
                )
            # The parents of the folds are not part of the model.
            components[group].set_params(estimator=FrozenEstimator(upstream))
    return FittedModel(parent, components)


def divide_calibration(
    nodes: Mapping[str, Node], splits: Splits, calibration: CalibrationMode, seed: int
) -> tuple[Splits, Splits]:
    """Divide the calibration rows between calibrator and gate, and the prediction sets after them.

    A row that a calibrator was fitted on is not exchangeable with new rows any more, and the sets
    would cover too little. Nothing is divided where no sets follow, or where calibrator and gate
    use no calibration rows: they are calibrated out of bag or by cross-fitting, or there are none.

    ``calibration_size`` of the sets is their fraction of the rows. Rows that stay together in the
    division into roles do so here, too.
    """
    sets, rows = nodes.get("conformal"), splits.calibration
    uses_rows = calibration == "held_out" and any(
        nodes.get(group, {}).get("_target_") is not None for group in ("calibrator", "gate")
    )
    if sets is None or not uses_rows:
        return splits, splits
    together = np.arange(len(rows.y)) if rows.split_groups is None else rows.split_groups
    units, unit_of_row = np.unique(together, return_inverse=True)
    order = stage_rng(seed, "conformal").permutation(len(units))
    is_of_sets = order[unit_of_row] < round(sets["calibration_size"] * len(units))
    others, of_sets = (rows.rows(np.flatnonzero(mask)) for mask in (~is_of_sets, is_of_sets))
    return replace(splits, calibration=others), replace(splits, calibration=of_sets)


def _fit_component(
    estimator: Any, splits: Splits, protocol: Protocol, sets: Callable[[], Iterable[OodSet]]
) -> Any:
    train, calibration = splits.learning, _calibration_rows(estimator, splits, protocol)
    arguments: dict[str, Any] = {}
    paper_protocol = getattr(estimator, "paper_protocol", None) if protocol == "paper" else None
    if paper_protocol == "transductive":
        arguments["X_test"] = splits.test.X
    elif paper_protocol == "ood":
        if not (arrays := [ood_set.X for ood_set in sets()]):
            raise DataError(
                f"{type(estimator).__name__} is fitted with rows out of distribution here, and"
                " there are none; choose an ood"
            )
        arguments["X_ood"] = np.concatenate(arrays)
    if calibration is None:
        if getattr(estimator, "takes_groups", False):
            arguments["groups"] = train.groups
        return estimator.fit(train.X, train.y, **arguments)
    if getattr(estimator, "takes_groups", False):
        arguments |= {"groups": train.groups, "groups_calibration": calibration.groups}
    return estimator.fit(
        train.X, train.y, X_calibration=calibration.X, y_calibration=calibration.y, **arguments
    )


def _calibration_rows(estimator: Any, splits: Splits, protocol: Protocol) -> Dataset | None:
    """Return the rows that a component is calibrated on, None for its training rows."""
    name = type(estimator).__name__
    if getattr(estimator, "calibration", "held_out") != "held_out":
        if getattr(estimator, "takes_groups", False):
            check_groups(name, splits.train)
        return None
    in_sample = protocol == "paper" and getattr(estimator, "paper_protocol", None) == "in_sample"
    rows = splits.test if in_sample else splits.calibration
    if getattr(estimator, "takes_groups", False):
        check_groups(name, rows)
    if not len(rows.y):
        raise DataError(
            f"all {len(splits.test.y):,} rows of {splits.test.name} test, and {name} has none to be"
            " fitted on; lower dataset.n_test, or give protocol=paper to a method that its paper"
            " fits on test rows"
        )
    return rows


def check_groups(component: str, rows: Dataset) -> None:
    """Raise DataError unless the rows have groups that a component of this name may use."""
    if rows.groups is None:
        problem = f"{rows.name} has no groups, and {component} does something for each of them"
        raise DataError(
            f"{problem}; name their column: dataset.group=… (of dataset=arrays an array groups)"
        )
    if rows.groups_are_target:
        problem = (
            f"the groups of {rows.name} are its target, and {component} would see the label of each"
            " test row"
        )
        raise DataError(
            f"{problem}; name another column for dataset.group, or choose a method that treats no"
            " group apart"
        )


def check_stages(config: RunConfig, splits: Splits) -> None:
    """Raise an error that a later stage would raise, if it can be known before the first fit."""
    run = config.components
    if run.parent is not None:  # else a function makes the parent, and may take long
        check_rows(run.names["parent"], run.parent, splits.train)
        _behind_preprocessing(config.preprocess, run.parent, splits.train, splits.has_missing)
        for path, component in {"parent": run.parent, **run.after}.items():
            if hasattr(component, "check_device"):
                with errors_by_key(path, getattr(config, path)):
                    component.check_device()
        others, of_sets = divide_calibration(config.after, splits, config.calibration, config.seed)
        for group, component in run.after.items():
            rows = of_sets if group == "conformal" else others
            _calibration_rows(component, rows, config.protocol)
        if config.calibration == "oob" and run.after and splits.train.split_groups is not None:
            raise DataError(
                f"{splits.train.name} has groups of rows to keep together, and calibration=oob"
                " predicts a row by trees that were fitted on other rows of its group; choose"
                " calibration=cross_fit"
            )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the evaluation repeats them
        _check_ood(config.ood, splits, config.seed)


def _check_ood(ood: Node, splits: Splits, seed: int) -> None:
    """Draw the first set of each OOD source, which raises the errors of all its sets."""
    source = build(ood)
    if source is None:
        return
    skip_absent = getattr(source, "missing", "refuse") == "skip"
    for single in getattr(source, "sources", {"": source}).values():
        try:
            next(iter(single.sets(splits, stage_rng(seed, "ood"))), None)
        except DataNotAvailable:
            if not skip_absent:
                raise


def _draw_seed(rng: np.random.Generator) -> int:
    return int(rng.integers(2**31 - 1))
