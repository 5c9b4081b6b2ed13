"""A table as a reader of files returns it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from kdgraph.data.dataset import ColumnKind
from kdgraph.data.source_columns import SourceTypes


@dataclass(frozen=True)
class ParsedTable:
    """Table as it was read, and what its file declares about columns.

    Attributes
    ----------
    frame : DataFrame, [n, columns]
        The table.
    kinds : dict of str to ColumnKind, default={}
        Kinds that the file declares for columns.
    types : SourceTypes
        Types that pandas gives columns where they are not those of ``frame``.
    """

    frame: pd.DataFrame
    kinds: dict[str, ColumnKind] = field(default_factory=dict)
    types: SourceTypes = field(default_factory=SourceTypes)
