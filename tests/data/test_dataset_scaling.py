from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from sklearn.preprocessing import MinMaxScaler

from kdgraph.data.scaling import Scaling
from kdgraph.errors import ParameterError

tables = arrays(
    np.float64, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.floats(-1e6, 1e6)
)


@settings(max_examples=80, deadline=None)
@given(X=tables, scale=st.sampled_from(["none", "min_max", "max_norm"]))
def test_undo_undoes_apply(X, scale):
    scaling = Scaling.fit(X, scale)
    np.testing.assert_allclose(scaling.undo(scaling.apply(X)), X, rtol=1e-9, atol=1e-9)
    assert np.isfinite(scaling.apply(X)).all()


def test_min_max_agrees_with_scikit_learn():
    X = np.random.default_rng(0).normal(size=(30, 4))
    X[:, 2] = 7.0  # a constant feature goes to 0
    np.testing.assert_allclose(
        Scaling.fit(X, "min_max").apply(X), MinMaxScaler().fit_transform(X), atol=1e-14
    )


def test_max_norm_divides_by_the_largest_norm():
    X = np.array([[3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    np.testing.assert_allclose(Scaling.fit(X, "max_norm").apply(X), X / 5)


@pytest.mark.parametrize("scale", ["min_max", "max_norm"])
def test_constant_rows_are_not_divided_by_zero(scale):
    assert (Scaling.fit(np.zeros((3, 2)), scale).apply(np.zeros((3, 2))) == 0).all()


def test_none_is_the_identity():
    X = np.random.default_rng(0).normal(size=(30, 4))
    np.testing.assert_array_equal(Scaling.fit(X, "none").apply(X), X)
    np.testing.assert_array_equal(Scaling().undo(X), X)


def test_none_does_not_copy():
    X = np.zeros((2, 3, 4, 4), dtype=np.float32)
    scaling = Scaling.fit(X, "none")
    assert scaling.apply(X) is X
    assert scaling.undo(X) is X


def test_min_max_of_a_feature_in_the_unit_interval_is_the_identity():
    X = np.array([[0.0], [1.0], [0.25]])
    np.testing.assert_array_equal(Scaling.fit(X, "min_max").apply(X), X)


@pytest.mark.parametrize("scale", ["min_max", "max_norm"])
def test_images_are_not_scaled(scale):
    message = (
        f"^scale must be none for images, which are in \\[0, 1\\] already, got '{scale}'; it is for"
        " vectors$"
    )
    with pytest.raises(ParameterError, match=message):
        Scaling.fit(np.zeros((2, 3, 4, 4), dtype=np.float32), scale)
