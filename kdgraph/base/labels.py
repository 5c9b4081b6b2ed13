"""Labels and targets as NumPy holds them. Original to kdgraph."""

from __future__ import annotations

from typing import Any

import numpy as np


def plain_labels(y: Any) -> Any:
    """Return labels in NumPy's own type of their values, without missing ones.

    Parameters
    ----------
    y : array or Series of shape [n]
        Labels or targets before validation. Whole numbers and truth values of pandas' nullable and
        Arrow types stay what they are, which a cast through float64 would not keep: it merges whole
        numbers beyond 2⁵³.

    Returns
    -------
    array or Series
        ``y`` itself if NumPy has its type.

    Raises
    ------
    ValueError
        For missing labels, and labels of several types, which have no order.

    Examples
    --------
    >>> import pandas as pd
    >>> plain_labels(pd.Series([2**53, 2**53 + 1], dtype="Int64"))
    array([9007199254740992, 9007199254740993])
    """
    if getattr(y, "ndim", 1) != 1:
        return y
    dtype = getattr(y, "dtype", None)
    is_object = str(dtype) == "object"
    values = np.asarray(y, dtype=object).tolist() if is_object else []
    n_missing = sum(value is None for value in values)
    if not is_object and hasattr(y, "isna"):
        n_missing = int(y.isna().sum())
    if n_missing:
        raise ValueError(
            f"{n_missing} of {len(y)} labels in y are missing; leave out the rows without a label"
        )
    types = {
        "str" if isinstance(value, str) else "number"
        for value in values
        if isinstance(value, str | int | float)
    }
    if len(types) > 1 and not any(isinstance(value, float) and value != value for value in values):
        raise ValueError(
            "labels must be of one type, y has text and numbers; make all of them text,"
            " y.astype(str)"
        )
    numpy_dtype = getattr(dtype, "numpy_dtype", None)
    return y if numpy_dtype is None else y.to_numpy(dtype=numpy_dtype)
