"""Labels of pandas' own types reach estimators as the values that they are."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier

from kdgraph import KernelDensityForest
from kdgraph.base.validation import plain_labels

WHOLE_NUMBERS = {"int64": ["Int64", "int64[pyarrow]"], "uint64": ["UInt64", "uint64[pyarrow]"]}


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
@given(data=st.data())
def test_whole_numbers_keep_their_values(dtype, data):
    limits = np.iinfo(dtype)
    values = data.draw(st.lists(st.integers(int(limits.min), int(limits.max)), min_size=1))
    for kind in WHOLE_NUMBERS[dtype]:
        labels = plain_labels(pd.Series(values, dtype=kind))
        assert labels.dtype == dtype and labels.tolist() == values


@pytest.mark.parametrize(
    ("dtype", "values"),
    [
        ("Int64", [2**53, 2**53 + 1, 2**53 + 2]),
        ("int64[pyarrow]", [2**53, 2**53 + 1, 2**53 + 2]),
        ("boolean", [False, True]),
        ("bool[pyarrow]", [False, True]),
        ("string", ["a", "b"]),
        ("string[pyarrow]", ["a", "b"]),
        ("category", ["a", "b"]),
    ],
)
def test_classes_have_the_type_of_the_labels(dtype, values):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(60, 2)), np.arange(60) % len(values)
    X[:, 0] += 5 * codes
    y = pd.Series(values, dtype=dtype).iloc[codes].reset_index(drop=True)
    model = KernelDensityForest(RandomForestClassifier(5, random_state=0)).fit(X, y)
    expected = KernelDensityForest(RandomForestClassifier(5, random_state=0)).fit(
        X, np.array(values)[codes]
    )
    assert model.classes_.tolist() == values
    assert [type(label) for label in model.classes_.tolist()] == [type(values[0])] * len(values)
    np.testing.assert_array_equal(model.predict_proba(X), expected.predict_proba(X))


@pytest.mark.parametrize("dtype", ["Int64", "boolean", "string", "int64[pyarrow]", "category"])
def test_missing_labels_of_all_types_are_counted(dtype):
    values = {"boolean": [True, None, False], "string": ["a", None, "b"]}.get(dtype, [1, None, 2])
    with pytest.raises(ValueError, match=r"^1 of 3 labels in y are missing; leave out the rows"):
        plain_labels(pd.Series(values, dtype=dtype))
