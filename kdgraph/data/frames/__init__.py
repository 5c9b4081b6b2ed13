"""From a data frame to a data set: which column is the label, which are features, and what each
cell is as a number.
"""

from kdgraph.data.frames.columns import (
    Column,
    ColumnOptions,
    Require,
    from_frame,
    names_as_text,
    names_of,
)

__all__ = ["Column", "ColumnOptions", "Require", "from_frame", "names_as_text", "names_of"]
