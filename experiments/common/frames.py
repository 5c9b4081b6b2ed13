"""Rows of data frames."""

from __future__ import annotations

import pandas as pd


def where(frame: pd.DataFrame, **values: object) -> pd.DataFrame:
    """Return the rows with these values, by column."""
    for column, value in values.items():
        frame = frame[frame[column] == value]
    return frame
