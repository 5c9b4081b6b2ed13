"""For which group of rows the stated confidence is worst: from the table that metrics=groups makes."""

from __future__ import annotations

from typing import Any

import numpy as np

from kdgraph.figures.of_run.drawing import Drawing
from kdgraph.figures.of_run.registry import run_figure
from kdgraph.figures.of_run.tables import by_name


@run_figure("group_tables")
def group_tables_of_run(run: Drawing, table: str = "by_group") -> Any:
    """MCE of each group with the rows of its worst bin, and how much surer than right both models are of it.

    None where ``table``, a key in ``metrics``, was not measured, or no bin of any group has its ``min_count`` of rows.
    """
    from kdgraph.figures import GroupTable
    from kdgraph.figures import group_tables as draw

    found = by_name(run, table)
    if found is None:
        return None
    mce = {name: columns["mce"].astype(float) for name, columns in found.items()}
    if all(np.isnan(values).all() for values in mce.values()):
        return None
    gap = {name: (columns["confidence"] + columns["error"] - 1).astype(float) for name, columns in found.items()}
    behind = {name: columns["worst_rows"].astype(float) for name, columns in found.items()}
    first = found[run.names[0]]
    tables = [GroupTable("MCE", mce, behind=behind), GroupTable("mean confidence − accuracy", gap, "signed")]
    return draw(tables, first["group"].tolist(), first["rows"].tolist())
