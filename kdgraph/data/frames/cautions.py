"""What a table is used with all the same, but its user should know: one warning each."""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np

from kdgraph.wording import some


def warn_of_constant_columns(name: str, X: np.ndarray, columns: Sequence[str]) -> None:
    """Warn of features of X: Float64[n, d] that have one value in all of several rows."""
    constant = np.flatnonzero(X.min(axis=0) == X.max(axis=0))  # NaN is neither
    if len(constant) and len(X) > 1:
        said = some([columns[int(j)] for j in constant])
        warnings.warn(f"{name}: columns that never change tell nothing: {said}", stacklevel=3)


def warn_of_copies(name: str, X: np.ndarray) -> None:
    """Warn of rows of X: Float64[n, d] with the same features; missing equals missing.

    Rows are compared by 64-bit hashes: no sorting of long rows, and two different rows share one with chance 1e-9 among 100,000.
    """
    from pandas import Series
    from pandas.util import hash_array

    total = np.zeros(len(X), dtype=np.uint64)
    for j in range(X.shape[1]):
        total = total * np.uint64(1_000_003) + hash_array(X[:, j] + 0.0)  # + 0.0: no row differs by -0.0 alone
    if copies := int(Series(total).duplicated(keep=False).sum()):
        why = "copies that fall into train and test make the test easy"
        warnings.warn(f"{name}: {copies:,} of {len(X):,} rows have the features of another row; {why}", stacklevel=3)
