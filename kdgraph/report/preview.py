"""What a run would do, without doing it."""

from __future__ import annotations

from pathlib import Path

from kdgraph.run_config import RunConfig
from kdgraph.runner.claim import is_claimed
from kdgraph.runner.run import stage_keys
from kdgraph.runner.rundir import RunDir
from kdgraph.runner.store import Store
from kdgraph.runner.watch import Watch


def preview(config: RunConfig) -> str:
    """Lines of YAML comment: where the run is, whether it is done, and which of its stages are in the store."""
    folder = RunDir(config.run_dir)
    if is_claimed(config.run_dir / "running.json"):
        state = "running at the moment"
    elif folder.record():
        state = "done; it will be run again" if config.force else "done"
    elif failure := folder.failure():
        state = f"failed last time ({failure})"
    else:
        state = "not done"
    return f"# {config.run_dir}   {state}\n# in the store: {', '.join(_stored(config)) or 'no stage'}"


def _stored(config: RunConfig) -> list[str]:
    from kdgraph.runner.stages import split

    store = Store(Path(config.out) / ".store", Watch())
    keys = stage_keys(config, split(config.dataset, config.seed))
    return [stage for stage, key in keys.items() if store.path(stage, key).exists()]
