"""Preview of runs for ``kdg show``: what a run would do, without doing it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from kdgraph.config import Job, RunConfig
from kdgraph.config.compatibility import uses_training_rows
from kdgraph.runner.availability import MissingData
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import RunDir
from kdgraph.runner.stages import split
from kdgraph.runner.store import Store
from kdgraph.runner.stored_stages import stage_keys
from kdgraph.wording import counted


def preview_run(config: RunConfig, missing: MissingData | None = None) -> str:
    """Return the state of a run as two YAML comments.

    Parameters
    ----------
    config : RunConfig
        The run.
    missing : MissingData or None, default=None
        Data that the run would have to fetch. Without them, the second comment lists the stages
        that are in the store.
    """
    folder = RunDir(config.run_dir)
    if folder.is_running:
        state = "running at the moment"
    elif folder.record():
        state = "done; it will be run again" if config.force else "done"
    elif failure := folder.failure():
        state = f"failed last time ({failure})"
    else:
        state = "not done"
    details = (
        f"not at hand: {missing.error}"
        if missing
        else f"in the store: {', '.join(_stored_stages(config)) or 'no stage'}"
    )
    return f"# {config.run_dir}   {state}\n# {details}"


def sweep_summary(jobs: Sequence[Job], missing: Mapping[str, MissingData]) -> str:
    """Return the number of runs of a sweep, and of data sets that it would have to fetch."""
    n_missing = len({data.name for data in missing.values()})
    n_datasets = len({str(job.config.dataset["name"]) for job in jobs})
    not_at_hand = ""
    if n_missing:
        verb = "is" if n_missing == 1 else "are"
        not_at_hand = (
            f"; {n_missing} of {counted(n_datasets, 'data set')} {verb} not at hand, and a run"
            " fetches what it can"
        )
    return f"# {counted(len(jobs), 'run')}{not_at_hand}"


def _stored_stages(config: RunConfig) -> list[str]:
    store = Store(Path(config.out) / ".store", ProgressReporter())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself reports them
        trains = uses_training_rows(config)
        splits = split(config.dataset, config.seed, config.division, trains=trains)
    keys = stage_keys(config, splits)
    return [
        stage
        for stage in ("fit", "calibrate", "evaluate")
        if store.path(stage, keys[stage]).exists()
    ]
