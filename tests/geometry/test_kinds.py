"""Tests that partitions of pipelines apply the transformers before the last step."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from kdgraph.geometry import partition_of

X = np.array([[0.0, 1.0], [1.0, np.nan], [2.0, 0.0], [2.0, 1.0]])
Y = [0, 1, 1, 0]


@pytest.mark.parametrize("wrap", [lambda p: p, FrozenEstimator], ids=["plain", "frozen"])
def test_points_are_the_input_of_the_last_step(wrap):
    pipeline = make_pipeline(SimpleImputer(), RandomForestClassifier(5, random_state=0)).fit(X, Y)
    partition, imputed = partition_of(wrap(pipeline)), pipeline[0].transform(X)
    for locations in (partition.locate(X), partition.locate(X[::-1])[::-1]):
        assert np.array_equal(locations.points, imputed)
        assert np.array_equal(locations.codes, pipeline[1].apply(imputed))
    assert np.array_equal(partition.embed(X), imputed)


def test_sparse_output_becomes_dense_and_frames_become_arrays():
    frame = pd.DataFrame({"a": X[:, 0], "b": ["u", "v", "v", "u"]})
    sparse_pipeline = make_pipeline(OneHotEncoder(), RandomForestClassifier(5, random_state=0)).fit(
        frame, Y
    )
    locations = partition_of(sparse_pipeline).locate(frame)
    assert locations.points.tolist() == [
        [1, 0, 0, 1, 0],
        [0, 1, 0, 0, 1],
        [0, 0, 1, 0, 1],
        [0, 0, 1, 1, 0],
    ]
    assert np.array_equal(
        partition_of(sparse_pipeline).parent_proba(locations), sparse_pipeline.predict_proba(frame)
    )
    pandas_pipeline = make_pipeline(
        SimpleImputer().set_output(transform="pandas"), RandomForestClassifier(5, random_state=0)
    ).fit(X, Y)
    assert isinstance(partition_of(pandas_pipeline).locate(X).points, np.ndarray)


@pytest.mark.parametrize("steps", [[StandardScaler()], []])
def test_missing_values_behind_transformers_raise(steps):
    partition = partition_of(
        make_pipeline(*steps, RandomForestClassifier(5, random_state=0)).fit(X, Y)
    )
    for method in (partition.locate, partition.embed, partition.encode):
        with pytest.raises(ValueError, match="NaN") as caught:
            method(X)
        assert (
            str(caught.value)
            == "Input X contains NaN behind the pipeline's transformations, where distances are"
            " measured; impute in the parent's pipeline, as in make_pipeline(SimpleImputer(),"
            " RandomForestClassifier())"
        )
    assert partition.locate(X[[0, 2]]).points.shape == (2, 2)
