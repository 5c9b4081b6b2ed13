"""Whether the stated confidence is right among rows that are near: from the tables that metrics=local makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import figure

Columns = dict[str, np.ndarray]


@figure
def lce_landscape(run: Drawing) -> Any:
    """Local calibration error of every test row over the plane, where the table ``lce_map`` was measured: with two features."""
    from kdgraph.figures import lce_landscape as draw

    maps = _by_name(run, "lce_map")
    if maps is None:
        return None
    first = maps[run.names[0]]
    X = run.splits.learning.X
    id_box = (*np.sort(X[:, 0])[[0, -1]], *np.sort(X[:, 1])[[0, -1]])
    points = np.column_stack([first["x1"], first["x2"]])
    return draw(points, _column(maps, "slce"), _column(maps, "n_eff"), id_box, bandwidth=float(first["bandwidth"][0]))


@figure
def lce_against_bandwidth(run: Drawing) -> Any:
    """MLCE and mean LCE against the bandwidth, where the table ``lce_by_bandwidth`` was measured at two or more."""
    from kdgraph.figures import lce_against_bandwidth as draw

    curves = _by_name(run, "lce_by_bandwidth")
    if curves is None:
        return None
    bandwidths, order = np.unique(curves[run.names[0]]["bandwidth"], return_index=True)
    curves = {name: {column: values[order] for column, values in columns.items()} for name, columns in curves.items()}
    if len(bandwidths) < 2 or any(np.isnan(columns["lce"]).any() for columns in curves.values()):
        return None
    return draw(bandwidths, *(_column(curves, column) for column in ("mlce", "lce", "mlce_n_eff", "n_eff")))


def _by_name(run: Drawing, table: str) -> dict[str, Columns] | None:
    """Name of each of the two models → the columns of its rows on the test set; None where the table was not measured."""
    rows = [row for row in run.evaluation.tables.get(table, []) if row["on"] == "test"]
    if not rows:
        return None
    columns = [column for column in rows[0] if column not in ("of", "on", "ood")]
    of = dict(zip(run.names, ("parent", "calibrated"), strict=True))
    return {name: {column: np.array([row[column] for row in rows if row["of"] == one]) for column in columns} for name, one in of.items()}


def _column(found: Mapping[str, Columns], column: str) -> Columns:
    """Name → one of its columns."""
    return {name: columns[column] for name, columns in found.items()}
