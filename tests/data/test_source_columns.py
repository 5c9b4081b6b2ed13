"""Columns of a data set as pandas reads them from the same file."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given

from kdgraph.data.dataset import Dataset
from kdgraph.data.tables import TableFile
from kdgraph.data.text_format import exact_floats
from kdgraph.errors import DataError
from tests.typed_frames import KINDS, frames, typed_frame
from tests.variations import others_slow


def restored(data: Dataset) -> pd.DataFrame:
    columns = {c.name: c.restore(data.X[:, j]) for j, c in enumerate(data.source_columns)}
    return pd.DataFrame(columns)


def write(frame: pd.DataFrame, path: Path) -> pd.DataFrame:
    """Write a frame with a target, and return it as pandas reads it."""
    frame = frame.assign(y=np.arange(len(frame)) % 2)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
        return pd.read_csv(path, **exact_floats()).drop(columns="y")
    frame.to_parquet(path)
    return pd.read_parquet(path).drop(columns="y")


def load(path: Path, **options) -> Dataset:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return TableFile(str(path), target="y", **options).load()


def assert_restored_or_refused(frame: pd.DataFrame, path: Path) -> None:
    expected = write(frame, path)
    try:
        data = load(path)
    except DataError:  # as where a column has no value in any row
        return
    for j, column in enumerate(data.source_columns):
        expected_column = expected[column.name]
        if column.problem is not None:
            with pytest.raises(DataError, match=column.name):
                column.restore(data.X[:, j])
            continue
        got = column.restore(data.X[:, j])
        pd.testing.assert_series_equal(got, expected_column, check_categorical=True)
        # Whether a missing cell is None or NaN is not compared by pandas.
        if expected_column.dtype == object:
            assert list(map(type, got)) == list(map(type, expected_column))


@given(frame=frames(30))
@pytest.mark.parametrize("ending", others_slow(["csv", "parquet"]))
def test_columns_of_files_are_those_that_pandas_reads(tmp_path_factory, ending, frame):
    assert_restored_or_refused(frame, tmp_path_factory.mktemp("t") / f"rows.{ending}")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_every_kind_of_column_is_restored(tmp_path, ending, kind):
    """Text of digits is the exception: as numbers it has lost its zeros."""
    frame = typed_frame([kind, "float"], 40, seed=3)
    expected = write(frame, tmp_path / f"rows.{ending}")
    data = load(tmp_path / f"rows.{ending}")
    if kind == "digits" and ending == "parquet":
        with pytest.raises(
            DataError, match=r"'01'; 'dataset\.categorical=\[c0\]' takes it as names"
        ):
            restored(data)
        data = load(tmp_path / f"rows.{ending}", categorical=["c0"])
    pd.testing.assert_frame_equal(restored(data), expected)
