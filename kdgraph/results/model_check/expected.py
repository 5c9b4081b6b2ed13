"""Predictions that the user made with the library itself, compared with those of kdgraph.

They show whether a model was read as its user uses it: with the same columns, categories and
rounds. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from kdgraph.data.files.paths import path_argument, resolve_existing
from kdgraph.data.files.tables import read_table
from kdgraph.data.text_format import TextFormat
from kdgraph.errors import DataError, UsageError
from kdgraph.fitted.labels import label_text
from kdgraph.wording import some

TOLERANCE = 1e-5
"""Largest difference of a probability in single precision, or of one written with five digits."""
_PREFIXES = ("", "probability_", "proba_", "p_")
"""Texts that may stand before a class in the name of its column."""


@dataclass(frozen=True)
class Agreement:
    """Comparison of the predictions of a model with those of a file, row by row.

    ``n_different`` rows have a probability that differs by more than :data:`TOLERANCE`, or another
    label. ``row`` is the number of that with the largest difference of a probability, or of the
    first with another label.
    """

    what: str
    n_rows: int
    n_different: int
    largest: float
    row: int


def compare_proba(proba: np.ndarray, expected: np.ndarray) -> Agreement:
    """Return the comparison of probabilities, Float[n, K] both."""
    difference = np.abs(proba - expected).max(axis=1)
    row = int(np.argmax(difference))
    different = int((difference > TOLERANCE).sum())
    return Agreement("probabilities", len(proba), different, float(difference[row]), row)


def compare_with_file(
    path: Path, proba: np.ndarray, predicted: np.ndarray, classes: Sequence[Any]
) -> Agreement:
    """Compare the predictions of a model with those in a file.

    The table has a row for each row of the data, in its order: a column for each class, named by it
    or in the order of ``classes``; the probability of the second of two classes; or one column with
    the predicted labels. ``classes`` are in the order in which the model itself has them, ``proba``
    is Float[n, K], and ``predicted``, Int[n], are positions in them. A file with other rows or
    columns, or without a prediction for a row, raises UsageError.
    """
    frame = _read(path)
    if len(frame) != len(proba):
        raise UsageError(
            f"--expect {path} has {len(frame):,} rows, and the data has {len(proba):,}; give a row"
            " of predictions for each row of --data, in its order"
        )
    if frame.isna().to_numpy().any():
        row = int(frame.isna().any(axis=1).to_numpy().argmax())
        raise UsageError(
            f"--expect {path} has no prediction for row {row}; give a row of predictions for each"
            " row of --data, in its order"
        )
    names = [label_text(label) for label in classes]
    columns = _columns_of(frame, names)
    if columns is not None:
        return compare_proba(proba, frame[columns].to_numpy(dtype=np.float64))
    numbers = [c for c in frame if pd.api.types.is_float_dtype(frame[c].dtype)]
    if len(numbers) == frame.shape[1] == len(names):
        return compare_proba(proba, frame[numbers].to_numpy(dtype=np.float64))
    if len(numbers) == frame.shape[1] == 1 and len(names) == 2:
        return compare_proba(proba[:, 1:], frame[numbers].to_numpy(dtype=np.float64))
    label_column = "predicted" if "predicted" in frame else frame.columns[0]
    given = frame[label_column].map(label_text)
    if frame.shape[1] > 1 and label_column != "predicted":
        raise UsageError(
            f"--expect {path} has the columns {some(list(map(str, frame.columns)))}; it must have a"
            f" column for each class ({some(names)}), or one column of labels"
        )
    different = given.to_numpy() != np.array(names, dtype=object)[predicted]
    row = int(np.argmax(different))
    return Agreement("labels", len(proba), int(different.sum()), 0.0, row)


def _read(path: Path) -> pd.DataFrame:
    try:
        frame = read_table(resolve_existing(str(path)), TextFormat()).frame
    except DataError as error:
        raise UsageError(str(error).replace(path_argument(path), f"--expect {path}")) from error
    # An index, which pandas writes by default.
    return frame.loc[:, [name for name in frame if not str(name).startswith("Unnamed: ")]]


def _columns_of(frame: pd.DataFrame, names: Sequence[str]) -> list[Any] | None:
    """Return the column of each class by its name, None where one has none."""
    by_text = {str(column): column for column in frame.columns}
    for prefix in _PREFIXES:
        wanted = [f"{prefix}{name}" for name in names]
        if all(name in by_text for name in wanted):
            columns = [by_text[name] for name in wanted]
            if all(pd.api.types.is_numeric_dtype(frame[column].dtype) for column in columns):
                return columns
    return None
