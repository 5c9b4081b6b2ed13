"""The stages of one run that are kept in the store: found there, or done and put there.

A key is made of the data that a stage sees and of every choice that leads to it. The split has
none: it is made each time, which costs little, and its fingerprint is how changed data are noticed.
More test rows fit nothing again.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kdgraph.base import Evaluation, FittedModel
from kdgraph.config import RunConfig, file_digests
from kdgraph.config.compatibility import is_fitted_with_ood
from kdgraph.config.components import Node, build
from kdgraph.config.data_sources import seen_in_training
from kdgraph.data.dataset import Splits
from kdgraph.data.openml.client import offline
from kdgraph.runner import stages
from kdgraph.runner.evaluate import asked_for, evaluate
from kdgraph.runner.model_dir import trusted_packages
from kdgraph.runner.spaces import Spaces
from kdgraph.runner.store import FOLDER, Made, Store, entry_name, stage_key
from kdgraph.runner.watch import Watch


class StoredStages:
    """Fit, calibrate and evaluate of one run.

    Parameters
    ----------
    config : what to do.
    splits : the rows to do it with.
    watch : told of each stage, and of what the store has to say.

    Attributes
    ----------
    keys : of each stage, and of what the parent says.
    """

    def __init__(self, config: RunConfig, splits: Splits, watch: Watch) -> None:
        self.config, self.splits, self.watch = config, splits, watch
        self.store = Store(
            Path(config.out) / FOLDER,
            watch,
            reuse=not config.force,
            trusted=trusted_packages(config.science()),
        )
        self.keys = stage_keys(config, splits)

    @property
    def entries(self) -> dict[str, str]:
        """Names of the entries in the store."""
        return {name: entry_name(name, key) for name, key in self.keys.items()}

    def fit(self) -> Made:
        """The fitted parent; while it trains, its state is beside its entry."""
        config, splits = self.config, self.splits
        self.watch.stage("fit")
        encoding = {"preprocess": config.preprocess, "has_missing": splits.has_missing}
        alive = {
            "report": self.watch.progress,
            "checkpoint": self.store.path("fit", self.keys["fit"]).with_suffix(".training"),
        }
        return self.store.get_or_make(
            "fit",
            self.keys["fit"],
            lambda: stages.fit(
                config.parent,
                splits.train,
                **encoding,
                **alive,
                seed=config.seed,
                n_jobs=config.n_jobs,
            ),
        )

    def calibrate(self, parent: Any) -> Made:
        """The :class:`~kdgraph.base.FittedModel` of the parent and what is fitted after it; its entry
        leaves the parent out.
        """
        config = self.config
        how = {
            "protocol": config.protocol,
            "ood": config.ood,
            "seed": config.seed,
            "n_jobs": config.n_jobs,
        }
        self.watch.stage("calibrate")
        return self.store.get_or_make(
            "calibrate",
            self.keys["calibrate"],
            lambda: stages.calibrate(config.after, parent, self.splits, **how),
            shared={"parent": parent},
        )

    def evaluate(self, parent: FittedModel, model: FittedModel) -> Made:
        """The :class:`~kdgraph.base.Evaluation` of both."""
        self.watch.stage("evaluate")
        return self.store.get_or_make(
            "evaluate", self.keys["evaluate"], lambda: self._evaluated(parent, model)
        )

    def _evaluated(self, parent: FittedModel, model: FittedModel) -> Evaluation:
        """What the parent says is kept apart, for other methods on it."""
        config, key = self.config, self.keys["parent_outputs"]
        sets = {
            "dataset": config.dataset,
            "ood": config.ood,
            "splits": self.splits,
            "seed": config.seed,
        }
        for message in seen_in_training(config.science()):
            warnings.warn(message, stacklevel=2)
        known = self.store.find("parent_outputs", key)
        spaces = Spaces(config.spaces, parent.parent, self.splits, config.seed, self._space)
        found = evaluate(
            parent, model, config.measures, **sets, parent_outputs=known, spaces=spaces
        )
        if known is None:
            self.store.keep("parent_outputs", key, [each.parent for each in found.predictions])
        return found

    def _space(self, name: str, make: Callable[[], np.ndarray]) -> np.ndarray:
        """An embedding from the store, or made and kept there, for other methods on the parent;
        each of them hears what it warned of.
        """
        node = self.config.spaces[name.rpartition(" ")[0]]
        key = stage_key(
            "space",
            self.splits.fingerprint,
            {"of": self.keys["fit"], "node": node, "name": name},
            self.config.seed,
        )
        made = self.store.get_or_make("space", key, make)
        for message in made.warnings:
            warnings.warn(message, stacklevel=2)
        return made.value


def _absent(ood: Node) -> list[str]:
    """What this machine does not have of the sources of a config that goes on without."""
    if ood.get("missing") != "skip":
        return []
    with offline():
        return build(ood).absent()


def stage_keys(config: RunConfig, splits: Splits) -> dict[str, str]:
    """Stage → its key in the store."""
    train, rest = splits.train.fingerprint, splits.calibration.fingerprint
    seen = splits.fingerprint if config.protocol == "paper" else train + rest
    parent = {
        "parent": config.parent,
        "preprocess": config.preprocess,
        "has_missing": splits.has_missing,
    }
    if outliers := {
        name: digest
        for name, digest in file_digests(config.science()).items()
        if name.startswith("outliers.")
    }:
        parent["files"] = outliers
    after = parent | config.after | {"protocol": config.protocol}
    sets = {"dataset": config.dataset, "ood": config.ood, "files": file_digests(config.science())}
    if absent := _absent(config.ood):  # other sets are drawn once they are at hand
        sets["absent"] = absent
    of_parent = (
        parent
        | sets
        | {
            "grid": bool(config.metrics.get("grid")),
            "asked_for": asked_for(config.measures),
        }
    )
    of_parent |= (
        {"calibration": True} if config.metrics.get("calibration") else {}
    )  # keys are as before where nothing is asked of them
    all_of_it = after | sets | {"metrics": config.metrics}
    return {
        "fit": stage_key("fit", train, parent, config.seed),
        "calibrate": stage_key(
            "calibrate", seen, after | (sets if is_fitted_with_ood(config) else {}), config.seed
        ),
        "parent_outputs": stage_key("parent_outputs", splits.fingerprint, of_parent, config.seed),
        "evaluate": stage_key("evaluate", splits.fingerprint, all_of_it, config.seed),
    }
