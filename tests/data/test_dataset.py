from __future__ import annotations

import numpy as np
import pytest

from kdgraph.data import Dataset
from kdgraph.errors import DataError


def test_labels_of_any_type_are_encoded_by_sorted_value():
    data = Dataset.from_labels("toy", np.zeros((4, 1)), np.array(["b", "a", "c", "a"]))
    assert data.classes.tolist() == ["a", "b", "c"]
    assert data.y.tolist() == [1, 0, 2, 0]
    assert data.feature_names == ("x1",)


def test_rows_keep_everything_else():
    data = Dataset.from_labels("toy", np.arange(8.0).reshape(4, 2), np.array([5, 6, 5, 6]), groups=np.arange(4), posterior=len)
    some = data.rows(np.array([3, 0]))
    assert some.X.tolist() == [[6, 7], [0, 1]]
    assert some.y.tolist() == [1, 0]
    assert some.groups.tolist() == [3, 0]
    assert some.posterior is len
    assert some.fingerprint != data.fingerprint


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        ([[1.0], [2.0]], [3, 3], r"toy: a classifier needs two classes, the target has only \[3\]"),
        ([[1.0], [np.nan]], [0, 1], r"toy: x1 has nan in row 1 \(1 such cells\); impute or drop them before the run"),
        ([[1.0], [2.0], [3.0]], [0, 1], r"toy: X must have one row for each of 2 labels, got shape \(3, 1\)"),
    ],
)
def test_data_that_cannot_be_used(X, y, message):
    with pytest.raises(DataError, match=f"^{message}$"):
        Dataset.from_labels("toy", np.array(X), np.array(y))
