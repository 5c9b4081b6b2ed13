"""From a data frame to a data set: which column is the label, which are features, and what each
cell is as a number.
"""

from kdgraph.data.frames.columns import (
    ColumnName,
    ColumnOptions,
    ColumnRequirement,
    column_names,
    from_frame,
    stringify_names,
)

__all__ = [
    "ColumnName",
    "ColumnOptions",
    "ColumnRequirement",
    "column_names",
    "from_frame",
    "stringify_names",
]
