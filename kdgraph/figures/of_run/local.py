"""Local calibration error over the plane and inside single bins, of one run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kdgraph.errors import ConfigError
from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.figures.of_run.tables import by_name
from kdgraph.metrics import reliability_bins
from kdgraph.metrics.calibration import bin_of
from kdgraph.parameters import Count

if TYPE_CHECKING:
    from kdgraph.figures.posterior import Box
from kdgraph.figures.of_run.tables import column_of


@run_figure("lce_landscape")
def lce_landscape_of_run(run: Drawing, table: str = "lce_map") -> Any:
    """Local calibration error of every test row over the plane, where the table was measured: in a space of two dimensions.

    ``table`` is its key in ``metrics``: another one may have measured in another space.
    """
    from kdgraph.figures import lce_landscape as draw

    maps = by_name(run, table)
    if maps is None:
        return None
    first = maps[run.names[0]]
    points = np.column_stack([first["x1"], first["x2"]])
    return draw(points, column_of(maps, "slce"), column_of(maps, "n_eff"), _id_box(run, points), bandwidth=float(first["bandwidth"][0]))


def _id_box(run: Drawing, points: np.ndarray) -> Box | None:
    """Where the training rows are, if the points are the test rows' features and not their places in another space."""
    if not np.array_equal(points, run.splits.test.X):
        return None
    X = run.splits.learning.X
    return (*np.sort(X[:, 0])[[0, -1]], *np.sort(X[:, 1])[[0, -1]])


@run_figure("lce_of_bins")
def lce_of_bins_of_run(
    run: Drawing, table: str = "lce_map", bins: Count = 15, min_count: Count = 25, of: Literal["parent", "calibrated"] = "parent"
) -> Any:
    """The bins of confidence with the smallest and the largest error on average, among those of ``min_count`` rows.

    ``table`` is as of :func:`lce_landscape`, and ``bins`` what it was measured with. None where no bin has the rows.
    """
    from kdgraph.figures import BinOfRows
    from kdgraph.figures import lce_of_bins as draw

    maps = by_name(run, table)
    if maps is None:
        return None
    rows = maps[dict(zip(("parent", "calibrated"), run.names, strict=True))[of]]
    found = reliability_bins(rows["confidence"], rows["correct"], bins=bins)
    index = bin_of(rows["confidence"], np.append(found.lower, found.upper[-1]))
    if (found.count[index] != rows["bin_count"]).any():
        raise ConfigError(f"figures.draw.lce_of_bins.bins must be that of the table {table}, got {bins}: its rows are in other bins")
    error = found.confidence - found.accuracy
    large = np.flatnonzero(found.count >= min_count)
    if not len(large):
        return None
    best, worst = (large[pick(np.abs(error[large]))] for pick in (np.argmin, np.argmax))
    both = {"the only large bin": best} if best == worst else {"best bin": best, "worst bin": worst}
    drawn = []
    for title, b in both.items():
        here = {column: values[index == b] for column, values in rows.items()}
        points = np.column_stack([here["x1"], here["x2"]])
        edges = float(found.lower[b]), float(found.upper[b])
        drawn.append(BinOfRows(title, *edges, points, here["slce"], here["n_eff"], float(error[b])))
    return draw(drawn, bandwidth=float(rows["bandwidth"][0]))
