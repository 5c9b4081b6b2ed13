"""The groups of rows that a calibrator is fitted by: said of each row."""

from __future__ import annotations

import numpy as np

from kdgraph.parents import Rows


def known_groups(rows: Rows, method: str, missing: str) -> np.ndarray:
    """[n]: the group of each of the calibration rows. Ours.

    Raises
    ------
    ValueError
        In one line, with the words ``missing`` where nobody says the groups, and with the value where a row has None or NaN for one.
    """
    from pandas import isna

    if rows.group is None:
        raise ValueError(missing)
    if (nobody := isna(rows.group)).any():
        found = f"got {rows.group[nobody][0]} among those of the calibration rows ({nobody.sum()} such)"
        raise ValueError(f"{method} needs the group of each row, {found}; name one, or leave the row out")
    return rows.group
