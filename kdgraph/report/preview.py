"""Preview of runs for ``kdg show``: what a run would do, without doing it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kdgraph.config import Job, RunConfig
from kdgraph.config.compatibility import uses_training_rows
from kdgraph.containment import LeadsOutside, path_inside
from kdgraph.runner.availability import MissingData
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.run_dir import RunDir
from kdgraph.runner.stages import split
from kdgraph.runner.store import STORE_FOLDER, SUFFIX, Store
from kdgraph.runner.stored_stages import stage_keys
from kdgraph.wording import counted

_STAGES = ("fit", "calibrate", "evaluate")
"""Stages that a preview names."""


def preview_run(config: RunConfig, missing: MissingData | None = None) -> str:
    """Return the state of a run as two YAML comments.

    The second one lists data that the run would have to fetch, or else its stages in the store.
    """
    folder = RunDir(config.run_dir)
    record = folder.record()
    if folder.is_running:
        state = "running at the moment"
    elif record:
        state = "done; it will be run again" if config.force else "done"
    elif failure := folder.failure():
        state = f"failed last time ({failure})"
    else:
        state = "not done"
    details = (
        f"not at hand: {missing.error}"
        if missing
        else f"in the store: {', '.join(_stored_stages(config, record)) or 'no stage'}"
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


def _stored_stages(config: RunConfig, record: Mapping[str, Any] | None) -> list[str]:
    """Return the stages of a run that the store has.

    A record names their entries. Without one, the keys depend on the rows, which have to be made;
    pictures take seconds and gigabytes, so that it is done only if the store has any entry.
    """
    store = Store(Path(config.out) / STORE_FOLDER, ProgressReporter())
    if record:
        names = record.get("store", {})
        return [stage for stage in _STAGES if _exists(store.root, names.get(stage))]
    if not any(any((store.root / stage).glob(f"*{SUFFIX}")) for stage in _STAGES):
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself reports them
        trains = uses_training_rows(config.components)
        splits = split(config.dataset, config.seed, config.division, trains=trains)
    keys = stage_keys(config, splits)
    return [stage for stage in _STAGES if store.path(stage, keys[stage]).exists()]


def _exists(root: Path, name: str | None) -> bool:
    try:
        return name is not None and path_inside(root, name).is_file()
    except LeadsOutside:
        return False
