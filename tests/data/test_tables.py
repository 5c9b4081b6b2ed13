from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from sklearn import datasets

from kdgraph.data.dataset import Simulation, Table
from kdgraph.data.tables import SklearnTable
from kdgraph.errors import ParameterError


@pytest.mark.parametrize("name", ["digits", "breast_cancer", "wine", "iris"])
def test_tables_are_as_scikit_learn_ships_them(name):
    bunch = getattr(datasets, f"load_{name}")()
    data = SklearnTable(name).load()
    assert data.name == name
    np.testing.assert_array_equal(data.X, bunch.data)
    np.testing.assert_array_equal(data.classes[data.y], bunch.target)
    assert data.feature_names == tuple(bunch.feature_names)
    assert data.posterior is None
    assert isinstance(SklearnTable(name), Table)
    assert not isinstance(SklearnTable(name), Simulation)


def test_another_table_is_refused():
    with pytest.raises(ParameterError, match=r"^loader must be one of digits, breast_cancer, wine, iris, got 'boston'$"):
        SklearnTable("boston")


def test_heavy_packages_wait_until_rows_are_asked_for():
    code = (
        "import sys; import kdgraph.data.tables, kdgraph.data.ood, kdgraph.data.simulations as s; s.Circle(); "
        "kdgraph.data.tables.SklearnTable('wine'); print([m for m in ('sklearn', 'scipy', 'pandas', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
