"""Models of finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.common.runs import Record
from kdgraph.config import RunConfig
from kdgraph.runner import stages
from kdgraph.runner.stored import StoredStages
from kdgraph.runner.watch import Watch


def models_of(record: Record, folder: Path) -> tuple[Any, Any, Any]:
    """Splits, parent and calibrated model of a finished run: from the store below ``folder``, else fitted again, which gives the same."""
    config = RunConfig(**record["config"], out=str(folder), method=record["method"])
    splits = stages.split(config.dataset, config.seed)
    stored = StoredStages(config, splits, Watch())
    parent = stored.fit().value
    return splits, parent, stored.calibrate(parent).value
