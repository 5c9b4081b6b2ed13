"""What a run would do, without doing it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from kdgraph.config import Job, RunConfig
from kdgraph.runner.availability import MissingData
from kdgraph.runner.rundir import RunDir
from kdgraph.runner.store import Store
from kdgraph.runner.stored import stage_keys
from kdgraph.runner.watch import Watch
from kdgraph.wording import counted


def preview(config: RunConfig, absent: MissingData | None = None) -> str:
    """Lines of YAML comment: where the run is, whether it is done, and which of its stages are in
    the store; or which data are not here.
    """
    folder = RunDir(config.run_dir)
    if RunDir(config.run_dir).is_running:
        state = "running at the moment"
    elif folder.record():
        state = "done; it will be run again" if config.force else "done"
    elif failure := folder.failure():
        state = f"failed last time ({failure})"
    else:
        state = "not done"
    rest = (
        f"not at hand: {absent.error}"
        if absent
        else f"in the store: {', '.join(_stored(config)) or 'no stage'}"
    )
    return f"# {config.run_dir}   {state}\n# {rest}"


def summary(jobs: Sequence[Job], absent: Mapping[str, MissingData]) -> str:
    """A line on a sweep: how many runs it is, and how many data sets a run would have to fetch
    first.
    """
    missing = len({each.name for each in absent.values()})
    names = {str(job.config.dataset["name"]) for job in jobs}
    lacking = (
        f"; {missing} of {len(names)} data sets are not at hand, and a run fetches what it can"
        if missing
        else ""
    )
    return f"# {counted(len(jobs), 'run')}{lacking}"


def _stored(config: RunConfig) -> list[str]:
    from kdgraph.runner.stages import split

    store = Store(Path(config.out) / ".store", Watch())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a run tells them
        splits = split(config.dataset, config.seed)
    keys = stage_keys(config, splits)
    return [
        stage
        for stage in ("fit", "calibrate", "evaluate")
        if store.path(stage, keys[stage]).exists()
    ]
