"""The tables of a run that figures are drawn from."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing

Columns = dict[str, np.ndarray]


def by_name(run: Drawing, table: str) -> dict[str, Columns] | None:
    """Name of each of the two models → the columns of its rows on the test set; None where the table was not measured."""
    rows = [row for row in run.evaluation.tables.get(table, []) if row["on"] == "test"]
    if not rows:
        return None
    columns = [column for column in rows[0] if column not in ("of", "on", "ood")]
    of = dict(zip(run.names, ("parent", "calibrated"), strict=True))
    return {name: {column: np.array([row[column] for row in rows if row["of"] == one]) for column in columns} for name, one in of.items()}


def column_of(found: Mapping[str, Columns], column: str) -> Columns:
    """Name → one of its columns."""
    return {name: columns[column] for name, columns in found.items()}
