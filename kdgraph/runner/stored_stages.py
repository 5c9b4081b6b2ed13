"""The stages of a run with their results in the store.

:class:`StoredStages` looks each result up in the store before it calls the functions of
:mod:`kdgraph.runner.stages`.

A key is a hash of the data that a stage sees and of every choice that leads to it. The split has
none: it is computed each time, which costs little, and its fingerprint shows changed data. More
test rows fit nothing again, unless a stage sees them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kdgraph.base import Evaluation, FittedModel
from kdgraph.config import RunConfig
from kdgraph.config.compatibility import is_fitted_with_ood, trains_on_unlabelled
from kdgraph.config.components import Node, build
from kdgraph.config.data_sources import file_digests, seen_in_training
from kdgraph.config.run_config import FITTED_PARENT
from kdgraph.data.dataset import Splits
from kdgraph.data.openml.client import offline
from kdgraph.runner import stages
from kdgraph.runner.evaluate import Spaces, evaluate, ood_sets, required_outputs
from kdgraph.runner.launchers.dask_fits import FitWorkers
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.store import (
    STORE_FOLDER,
    StageResult,
    Store,
    entry_name,
    stage_key,
    trusted_packages,
)


class StoredStages:
    """Fit, calibrate and evaluate of one run, with their results in the store.

    ``workers`` fit, or this process where there are none. ``keys`` maps stages to keys in the
    store.
    """

    def __init__(
        self,
        config: RunConfig,
        splits: Splits,
        reporter: ProgressReporter,
        workers: FitWorkers | None = None,
    ) -> None:
        self.config, self.splits, self.reporter = config, splits, reporter
        self._workers = workers or FitWorkers(None, config.n_jobs, reporter)
        self.store = Store(
            Path(config.out) / STORE_FOLDER,
            reporter,
            reuse=not config.force,
            trusted=trusted_packages(config.science()),
        )
        self.keys = stage_keys(config, splits)

    @property
    def entries(self) -> dict[str, str]:
        """Stage → name of its entry in the store."""
        return {name: entry_name(name, key) for name, key in self.keys.items()}

    def fit(self) -> StageResult:
        """Return the fitted parent; the state of its training is in a file beside its entry."""
        config, splits = self.config, self.splits
        self.reporter.stage("fit")
        return self.store.get_or_run(
            "fit",
            self.keys["fit"],
            lambda: self._workers.run(
                lambda: stages.fit(
                    config.parent,
                    splits.train,
                    **stages.fit_options(config, splits),
                    report=self.reporter.progress,
                    checkpoint=self.store.path("fit", self.keys["fit"]).with_suffix(".training"),
                    unlabelled=self._unlabelled(),
                )
            ),
        )

    def _unlabelled(self) -> list[np.ndarray]:
        """Return test rows and the rows of each OOD set, if the parent trains on them."""
        config, splits = self.config, self.splits
        if not trains_on_unlabelled(config.components):
            return []
        sets = ood_sets(config.ood, splits, config.seed)
        return [splits.test.X, *(ood_set.X for ood_set in sets)]

    def cross_fit(self) -> StageResult | None:
        """Return the parents of the folds, where the run is calibrated by cross-fitting."""
        config, splits = self.config, self.splits
        has_components = any(node["_target_"] is not None for node in config.after.values())
        if config.calibration != "cross_fit" or not has_components:
            return None
        self.reporter.stage("cross_fit")
        return self.store.get_or_run(
            "cross_fit",
            self.keys["cross_fit"],
            lambda: self._workers.run(
                lambda: stages.cross_fit(
                    config.parent,
                    splits.train,
                    cv=config.cv,
                    **stages.fit_options(config, splits),
                )
            ),
        )

    def calibrate(self, parent: Any, folds: Any = None) -> StageResult:
        """Return the :class:`~kdgraph.base.FittedModel` of the parent and the components after it.

        Its entry leaves the parent out. ``folds``: result of :meth:`cross_fit`.
        """
        config, splits = self.config, self.splits
        self.reporter.stage("calibrate")
        return self.store.get_or_run(
            "calibrate",
            self.keys["calibrate"],
            lambda: self._workers.run(
                lambda: stages.calibrate(
                    config.after,
                    parent,
                    splits,
                    calibration=config.calibration,
                    folds=folds,
                    protocol=config.protocol,
                    ood=config.ood,
                    seed=config.seed,
                    n_jobs=config.n_jobs,
                )
            ),
            shared={"parent": parent},
        )

    def evaluate(self, parent: FittedModel, model: FittedModel) -> StageResult:
        """Return the :class:`~kdgraph.base.Evaluation` of the parent and of the full model."""
        self.reporter.stage("evaluate")
        return self.store.get_or_run(
            "evaluate", self.keys["evaluate"], lambda: self._evaluate(parent, model)
        )

    def _evaluate(self, parent: FittedModel, model: FittedModel) -> Evaluation:
        """Evaluate; the parent's outputs have an entry of their own, for other methods on it."""
        config, key = self.config, self.keys["parent_outputs"]
        for message in seen_in_training(config.science()):
            warnings.warn(message, stacklevel=2)
        stored_outputs = self.store.find("parent_outputs", key)
        evaluation = evaluate(
            parent,
            model,
            config.measures,
            dataset=config.dataset,
            ood=config.ood,
            splits=self.splits,
            seed=config.seed,
            parent_outputs=stored_outputs,
            spaces=Spaces(config.spaces, parent.parent, self.splits, config.seed, self._embed),
        )
        if stored_outputs is None:
            outputs = [predictions.parent for predictions in evaluation.predictions]
            self.store.put("parent_outputs", key, outputs)
        return evaluation

    def _embed(self, name: str, embed: Callable[[], np.ndarray]) -> np.ndarray:
        """Return an embedding from the store, or compute and store it, for other methods.

        Its warnings are repeated for each of them.
        """
        node = self.config.spaces[name.rpartition(" ")[0]]
        key = stage_key(
            "space",
            self.splits.fingerprint,
            {"of": self.keys["fit"], "node": node, "name": name},
            self.config.seed,
        )
        result = self.store.get_or_run("space", key, embed)
        for message in result.warnings:
            warnings.warn(message, stacklevel=2)
        return result.value


def stage_keys(config: RunConfig, splits: Splits) -> dict[str, str]:
    """Return stage → its key in the store."""
    science = config.science()
    digests = file_digests(science)
    train, calibration = splits.train.fingerprint, splits.calibration.fingerprint
    rows_seen = splits.fingerprint if config.protocol == "paper" else train + calibration
    parent = {
        "parent": config.parent,
        "preprocess": config.preprocess,
        "has_missing": splits.has_missing,
    }
    if files := {
        name: digest
        for name, digest in digests.items()
        if name.startswith(("outliers.", "parent."))
    }:
        parent["files"] = files
    # A model from a file finds its columns by their names, which no fingerprint contains.
    if config.parent.get("_target_") == FITTED_PARENT:
        parent["columns"] = splits.train.source_columns
    sets = {"dataset": science["dataset"], "ood": config.ood, "files": digests}
    # A run may go on without absent sources: once one of them is there, other sets are drawn.
    if absent := _absent_sources(config.ood):
        sets["absent"] = absent
    fitted_on = train
    if trains_on_unlabelled(config.components):
        fitted_on, parent["unlabelled"] = splits.fingerprint, sets
    after = parent | config.after | {"protocol": config.protocol}
    if config.calibration != "held_out":
        after["calibration"] = config.calibration
    if config.parent.get("_target_") == FITTED_PARENT:
        after["calibrates"] = "all rows"  # :func:`calibrates_on_all_rows`
    folds = {"cv": config.cv} if config.calibration == "cross_fit" else {}
    outputs = (
        parent
        | sets
        | {
            "grid": bool(config.metrics.get("grid")),
            "asked_for": required_outputs(config.measures),
        }
    )
    # Only where there are such metrics: keys of runs without them stay as they were.
    if config.metrics.get("calibration"):
        outputs["calibration"] = True
    everything = after | folds | sets | {"metrics": config.metrics}
    cross_fitted = (
        {"cross_fit": stage_key("cross_fit", train, parent | folds, config.seed)} if folds else {}
    )
    return {
        "fit": stage_key("fit", fitted_on, parent, config.seed),
        **cross_fitted,
        "calibrate": stage_key(
            "calibrate",
            rows_seen,
            after | folds | (sets if is_fitted_with_ood(config.components) else {}),
            config.seed,
        ),
        "parent_outputs": stage_key("parent_outputs", splits.fingerprint, outputs, config.seed),
        "evaluate": stage_key("evaluate", splits.fingerprint, everything, config.seed),
    }


def _absent_sources(ood: Node) -> list[str]:
    """Return the OOD sources that this machine lacks, if the config allows the run without them."""
    if ood.get("missing") != "skip":
        return []
    with offline():
        return build(ood).absent()
