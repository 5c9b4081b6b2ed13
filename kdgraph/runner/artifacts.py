"""What a run leaves in its directory beside the record: predictions, tables, figures, models."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kdgraph.base import Evaluation, FittedModel, predictions_frame
from kdgraph.config import RunConfig
from kdgraph.data.dataset import Splits
from kdgraph.runner.files import told_in_one_line, write_atomically
from kdgraph.runner.model_dir import keep
from kdgraph.runner.prediction.schema import schema_of
from kdgraph.runner.store import Made

PREDICTIONS, TABLES, FIGURES = "predictions.parquet", "tables", "figures"


def write_answers(evaluation: Evaluation, splits: Splits, folder: Path) -> dict[str, Any]:
    """Write what both models say of every row, and each table; gives the names of the files in the
    run's directory.
    """
    _write_parquet(
        predictions_frame(evaluation.predictions, splits.test.classes), folder / PREDICTIONS
    )
    return {"predictions": PREDICTIONS, "tables": _write_tables(evaluation.tables, folder / TABLES)}


def draw(
    config: RunConfig,
    splits: Splits,
    evaluation: Evaluation,
    models: tuple[FittedModel, FittedModel],
    folder: Path,
) -> list[str]:
    """Draw what the config wants and the run has; gives the names of the files."""
    if not config.drawn:
        return []
    from kdgraph.figures.run_figures import RunFigureData

    drawing = RunFigureData(splits, evaluation, models, figure_names(config))
    with told_in_one_line(folder / FIGURES):
        names = drawing.save(
            folder / FIGURES, config.drawn, config.figures["formats"], config.figures["dpi"]
        )
    return [f"{FIGURES}/{name}" for name in names]


def keep_models(
    config: RunConfig, splits: Splits, fitted: Made, calibrated: Made, folder: Path
) -> list[str]:
    """Keep the models for ``kdg predict``, if the config says so; gives the names of the files."""
    return (
        keep(folder, fitted, calibrated, schema_of(config, splits, calibrated.value).as_json())
        if config.save
        else []
    )


def figure_names(config: RunConfig) -> tuple[str, str]:
    """What parent and calibrated model are called in figures; two different names."""
    parent = str(config.parent["name"])
    calibrated = (
        " + ".join(name for node in config.after.values() if (name := str(node["name"])) != "none")
        or "none"
    )
    return parent, calibrated if calibrated != parent else f"{calibrated} (calibrated)"


def _write_tables(tables: Mapping[str, list[dict[str, Any]]], folder: Path) -> dict[str, str]:
    """One CSV file for each table; gives their names in the run's directory."""
    import pandas as pd

    for name, rows in tables.items():
        write_atomically(folder / f"{name}.csv", pd.DataFrame(rows).to_csv(index=False).encode())
    return {name: f"{folder.name}/{name}.csv" for name in tables}


def _write_parquet(frame: Any, path: Path) -> None:
    buffer = io.BytesIO()
    frame.to_parquet(buffer, index=False)
    write_atomically(path, buffer.getvalue())
