"""How messages about tables name columns and ways out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from kdgraph.errors import DataError, did_you_mean
from kdgraph.wording import some


def override(key: str, values: Iterable[Any]) -> str:
    """A list as one argument of a command line, in quotes, because brackets mean something to a shell.

    >>> print(override("drop", ["age", "zip code"]))
    'dataset.drop=[age,"zip code"]'
    """
    texts = (value if re.fullmatch(r"[\w./+-]+", value) else f'"{value}"' for value in map(str, values))
    return f"'dataset.{key}=[{','.join(texts)}]'"


def no_such_column(where: str, key: str, column: str, known: Sequence[str]) -> DataError:
    """The error for a column that ``dataset.<key>`` names and ``where`` does not have.

    >>> print(no_such_column("my", "target", "lable", ["age", "label"]))
    my has no column 'lable' (dataset.target); did you mean 'label'?
    """
    return DataError(f"{where} has no column '{column}' (dataset.{key}){did_you_mean(column, known, f'; it has {some(known, 10)}')}")
