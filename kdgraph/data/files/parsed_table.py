"""A table as a reader of files returns it."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from kdgraph.data.dataset import ColumnKind
from kdgraph.data.source_columns import SourceTypes


@dataclass(frozen=True)
class ParsedTable:
    """Table as it was read, with the kinds that its file declares and the types of pandas."""

    frame: pd.DataFrame
    kinds: dict[str, ColumnKind] = field(default_factory=dict)
    types: SourceTypes = field(default_factory=SourceTypes)
