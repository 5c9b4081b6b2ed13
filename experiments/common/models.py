"""Models of finished runs, and their outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.common.runs import Record
from kdgraph.base import Evaluation, FittedModel
from kdgraph.config import RunConfig
from kdgraph.persistence import from_bytes
from kdgraph.runner import stages
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.store import STORE_FOLDER
from kdgraph.runner.stored_stages import StoredStages


def models_of(record: Record, folder: Path) -> tuple[Any, Any, Any]:
    """Return splits, parent and calibrated model of a finished run, stored or fitted again."""
    stored = _stored_stages(record, folder)
    parent = stored.fit().value
    return stored.splits, parent, stored.calibrate(parent).value


def evaluation_of(record: Record, folder: Path) -> Evaluation:
    """Return the outputs of both models of a finished run, stored or computed again."""
    path = folder / STORE_FOLDER / record["store"]["evaluate"]
    if path.exists():
        return from_bytes(path.read_bytes(), f"store entry {path}").value
    stored = _stored_stages(record, folder)
    parent = stored.fit().value
    return stored.evaluate(FittedModel(parent), stored.calibrate(parent).value).value


def _stored_stages(record: Record, folder: Path) -> StoredStages:
    config = RunConfig(**record["config"], out=str(folder), method=record["method"])
    return StoredStages(config, stages.split(config.dataset, config.seed), ProgressReporter())
