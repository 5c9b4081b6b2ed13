"""PIT histograms and coverage, of one run."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.figures.of_run.tables import by_name
from kdgraph.metrics import coverage_curve
from kdgraph.metrics import pit_histogram as histogram_of
from kdgraph.parameters import Count


@run_figure("pit_histogram")
def pit_histogram_of_run(run: Drawing, *, bins: Count = 20) -> Any:
    """PIT values of the test rows, the parent's against the recalibrated ones.

    Parameters
    ----------
    bins : as of :func:`kdgraph.metrics.pit_histogram`.
    """
    from kdgraph.figures import pit_histogram as draw

    said = run.said("distribution", run.test)
    if said is None:
        return None
    y = np.asarray(run.test.y)
    return draw({name: histogram_of(y, given, bins=bins)["count"] for name, given in said.items()})


@run_figure("coverage_against_level")
def coverage_against_level_of_run(run: Drawing) -> Any:
    """Share of test rows inside central intervals of 5 % to 99 %."""
    from kdgraph.figures import CoverageCurve
    from kdgraph.figures import coverage_against_level as draw

    said = run.said("distribution", run.test)
    if said is None:
        return None
    y = np.asarray(run.test.y)
    found = {name: coverage_curve(y, given) for name, given in said.items()}
    return draw({name: CoverageCurve(table["level"], table["coverage"]) for name, table in found.items()}, run.test.n)


@run_figure("local_pit_histograms")
def local_pit_histograms_of_run(run: Drawing, table: str = "local_pit") -> Any:
    """PIT values of the test rows by cell, of the table that metrics=regression_local makes; ``table`` is its key in ``metrics``."""
    from kdgraph.figures import local_pit_histograms as draw

    found = by_name(run, table)
    if found is None:
        return None
    cells = dict.fromkeys(found[run.names[0]]["cell"].tolist())
    return draw({str(cell): {name: of["count"][of["cell"] == cell] for name, of in found.items()} for cell in cells})
