"""Conversion of data frames to data sets: target, features, groups and roles of the rows."""

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
