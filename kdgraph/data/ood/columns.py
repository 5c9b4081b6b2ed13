"""The columns of any table in the place of those of the training rows."""

from __future__ import annotations

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.data.ood.rows import a_seed, like_rows_of, numbers_of
from kdgraph.errors import DataError


def cycled(train: Dataset, X: np.ndarray, other: Dataset | None, name: str, rng: np.random.Generator) -> tuple[np.ndarray, list[str]]:
    """Rows X of another table with the width and the ranges of the training rows, and what was done to them.

    Ours. The j-th numeric feature gets the other table's numeric column j mod k, of the k that are not constant: columns are cut off where
    there are too many, and repeated where there are too few. Each is moved, min-max, from the range that it has in the other table onto the
    range that the feature has in the training rows, so no value alone is out of range; shape and dependence are those of the other table.

    Parameters
    ----------
    X : Float[m, d″] or images, as they are measured. A missing value becomes the mean of its column.
    other : the whole table, for its ranges and categories; None of a simulation, whose ranges are those of X.
    rng : decides the training rows that categories are taken from.

    Returns
    -------
    Float64[m, d], scaled as training rows are, and words on what was done.

    Raises
    ------
    DataError
        If one of the two has no numeric column.
    """
    every = X if other is None else other.X
    numeric = ~other.is_categorical if other is not None and X.ndim == 2 else slice(None)
    X, every = (rows.reshape(len(rows), -1)[:, numeric].astype(np.float64) for rows in (X, every))
    low, high = np.fmin.reduce(every), np.fmax.reduce(every)
    varied = np.flatnonzero(high > low)  # NaN, of a column that is missing in every row, is not
    to = numbers_of(train)
    if not len(varied) or not to.shape[1]:
        which = train.name if len(varied) else name
        raise DataError(f"{which} has no numeric feature that varies, and only such columns can stand for others; name another")
    width = to.shape[1]
    columns = np.resize(varied, width)
    mean = np.nanmean(every[:, varied], axis=0)
    X = np.where(np.isnan(X[:, columns]), np.resize(mean, width), X[:, columns])
    share = (X - low[columns]) / (high - low)[columns]
    to_low, to_high = to.min(axis=0), to.max(axis=0)
    words = f"{width} of {len(varied)} numeric columns" if width <= len(varied) else f"{len(varied)} numeric columns repeated to {width}"
    moved = like_rows_of(train, to_low + share * (to_high - to_low), a_seed(rng))
    return moved, [f"{words}, each in the range of a training feature"]
