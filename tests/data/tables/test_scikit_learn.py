from __future__ import annotations

import numpy as np
import pytest
from sklearn import datasets

from kdgraph.data.dataset import Simulation, Table
from kdgraph.data.tables.scikit_learn import SklearnTable
from kdgraph.errors import ParameterError


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "wine", "iris"])
def test_tables_agree_with_scikit_learn(name):
    bunch = getattr(datasets, f"load_{name}")()
    data = SklearnTable(name).load()
    assert data.name == name
    np.testing.assert_array_equal(data.X, bunch.data)
    np.testing.assert_array_equal(data.classes[data.y], bunch.target)
    assert data.feature_names == tuple(bunch.feature_names)
    assert data.posterior is None
    assert isinstance(SklearnTable(name), Table)
    assert not isinstance(SklearnTable(name), Simulation)


def test_diabetes_is_a_regression_on_unscaled_features():
    bunch = datasets.load_diabetes(scaled=False)
    data = SklearnTable("diabetes").load()
    assert data.task == "regression" and len(data.classes) == 0
    np.testing.assert_array_equal(data.X, bunch.data)
    np.testing.assert_array_equal(data.y, bunch.target)
    assert data.feature_names == tuple(bunch.feature_names)


def test_unknown_loader_is_refused():
    with pytest.raises(
        ParameterError,
        match=r"^loader must be one of digits, breast_cancer, wine, iris, diabetes, got 'boston'$",
    ):
        SklearnTable("boston")
