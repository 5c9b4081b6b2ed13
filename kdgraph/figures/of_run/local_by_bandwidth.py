"""Local calibration error against the bandwidth, of one run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.figures.of_run.tables import by_name

if TYPE_CHECKING:
    from kdgraph.figures import LceCurves
from kdgraph.figures.of_run.tables import column_of


@run_figure("lce_against_bandwidth")
def lce_against_bandwidth_of_run(run: Drawing, tables: Sequence[str] = ("lce_by_bandwidth",)) -> Any:
    """MLCE and mean LCE against the bandwidth, a column for each of the tables that was measured at two or more.

    ``tables`` are keys in ``metrics``, which may have measured in different spaces.
    """
    from kdgraph.figures import lce_against_bandwidth as draw

    spaces = {_title(key): curves for key in tables if (curves := _curves(run, key)) is not None}
    return draw(spaces) if spaces else None


def _title(key: str) -> str:
    return key.removeprefix("lce_by_bandwidth").strip("_") or "features"


def _curves(run: Drawing, key: str) -> LceCurves | None:
    """What a table has of both models, in the order of the bandwidth; None where it was not measured, or nothing could be."""
    from kdgraph.figures import LceCurves

    curves = by_name(run, key)
    if curves is None:
        return None
    bandwidths, order = np.unique(curves[run.names[0]]["bandwidth"], return_index=True)
    curves = {name: {column: values[order] for column, values in columns.items()} for name, columns in curves.items()}
    if len(bandwidths) < 2 or any(np.isnan(columns["lce"]).any() for columns in curves.values()):
        return None
    return LceCurves(bandwidths, *(column_of(curves, column) for column in ("mlce", "lce", "mlce_n_eff", "n_eff")))
