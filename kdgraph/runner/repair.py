"""Repair of a model with all rows of a data set, none of which tests."""

from __future__ import annotations

from dataclasses import dataclass

from kdgraph.config import RunConfig
from kdgraph.deployment import DeployedModel


@dataclass(frozen=True)
class Repair:
    """A repaired model, and the numbers of rows that it was fitted on."""

    model: DeployedModel
    n_train: int
    n_calibration: int

    @property
    def n_rows(self) -> int:
        """Number of all rows."""
        return self.n_train + self.n_calibration


def repair(config: RunConfig) -> Repair:
    """Return the model of a checked config, fitted on all rows of its data set.

    How well it does is a question for runs, which hold rows out; here no row does. OOD rows,
    metrics and figures of the config have no effect. Raises KdgError if rows and components do not
    go together.
    """
    from threadpoolctl import threadpool_limits

    from kdgraph.config.compatibility import uses_training_rows
    from kdgraph.deployment import schema_of
    from kdgraph.runner.stages import calibrate, check_stages, cross_fit, fit, fit_options, split

    with threadpool_limits(1, user_api="blas"):
        splits = split(
            config.dataset,
            config.seed,
            config.division,
            trains=uses_training_rows(config.components),
            tests=False,
        )
        check_stages(config, splits)
        shared = fit_options(config, splits)
        parent = fit(config.parent, splits.train, **shared)
        folds = (
            cross_fit(config.parent, splits.train, cv=config.cv, **shared)
            if config.calibration == "cross_fit"
            else None
        )
        fitted = calibrate(
            config.after,
            parent,
            splits,
            calibration=config.calibration,
            folds=folds,
            seed=config.seed,
            n_jobs=config.n_jobs,
        )
        schema = schema_of(config.dataset, splits, fitted)
    return Repair(DeployedModel(fitted, schema), len(splits.train.y), len(splits.calibration.y))
