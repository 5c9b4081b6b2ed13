"""Models of finished runs, and what they said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from experiments.common.runs import Record
from kdgraph.base import Evaluation, FittedModel
from kdgraph.config import RunConfig
from kdgraph.persistence import from_bytes
from kdgraph.runner import stages
from kdgraph.runner.monitoring import ProgressReporter
from kdgraph.runner.stages import StoredStages
from kdgraph.runner.store import STORE_FOLDER


def models_of(record: Record, folder: Path) -> tuple[Any, Any, Any]:
    """Splits, parent and calibrated model of a finished run: from the store below ``folder``, else
    fitted again, which gives the same.
    """
    stored = _stages_of(record, folder)
    parent = stored.fit().value
    return stored.splits, parent, stored.calibrate(parent).value


def evaluation_of(record: Record, folder: Path) -> Evaluation:
    """What both models of a finished run said of each set of rows, also of sets that they drew from
    them: as :func:`models_of`.
    """
    path = folder / STORE_FOLDER / record["store"]["evaluate"]
    if path.exists():
        return from_bytes(path.read_bytes(), f"store entry {path}").value
    stored = _stages_of(record, folder)
    parent = stored.fit().value
    return stored.evaluate(FittedModel(parent), stored.calibrate(parent).value).value


def _stages_of(record: Record, folder: Path) -> StoredStages:
    config = RunConfig(**record["config"], out=str(folder), method=record["method"])
    return StoredStages(config, stages.split(config.dataset, config.seed), ProgressReporter())
