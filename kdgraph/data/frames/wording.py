"""How messages about tables name columns."""

from __future__ import annotations

from collections.abc import Sequence

from kdgraph.errors import DataError, did_you_mean
from kdgraph.wording import some


def no_such_column(where: str, key: str, column: str, known: Sequence[str]) -> DataError:
    """The error for a column that ``dataset.<key>`` names and ``where`` does not have.

    >>> print(no_such_column("my", "target", "lable", ["age", "label"]))
    my has no column 'lable' (dataset.target); did you mean 'label'?
    """
    return DataError(f"{where} has no column '{column}' (dataset.{key}){did_you_mean(column, known, f'; it has {some(known, 10)}')}")
