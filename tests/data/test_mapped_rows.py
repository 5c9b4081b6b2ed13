"""Rows that are mapped to a file are those in memory, and so is what is computed from them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kdgraph.data import mapped_rows
from kdgraph.data.files import arrow as streamed
from kdgraph.data.mapped_rows import (
    column_extremes,
    empty_rows,
    extremes,
    is_mapped,
    mapped_blocks,
    select_mapped_rows,
)
from kdgraph.data.scaling import Scaling
from kdgraph.data.splits import make_splits
from kdgraph.data.tables import TableFile
from kdgraph.errors import CannotWrite, DataError
from tests.variations import others_slow


@pytest.fixture
def small_limits(monkeypatch):
    """Every array is mapped, and blocks have a few rows."""
    monkeypatch.setattr(mapped_rows, "MAPPED_BYTES", 0)
    monkeypatch.setattr(mapped_rows, "MAPPED_BLOCK_BYTES", 400)
    monkeypatch.setattr(streamed, "_BATCH_ROWS", 7)


def mapped(X: np.ndarray) -> np.ndarray:
    copy = empty_rows(X.shape, X.dtype)
    copy[...] = X
    assert is_mapped(copy) and type(copy) is np.ndarray
    return copy


@pytest.fixture
def X():
    X = np.random.default_rng(0).normal(size=(103, 3))
    X[5, 1] = np.nan
    return X


def test_small_arrays_stay_in_memory():
    assert not is_mapped(empty_rows((10, 3)))
    assert not is_mapped(np.zeros((2, 2)))


@pytest.mark.usefixtures("small_limits")
def test_blocks_cover_all_rows_once_and_lose_nothing(X):
    rows = mapped(X)
    blocks = list(mapped_blocks(rows))
    assert len(blocks) > 2
    assert [i for block in blocks for i in range(103)[block]] == list(range(103))
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(rows[10:20].copy(), X[10:20])
    assert is_mapped(rows[10:20])


@pytest.mark.usefixtures("small_limits")
@settings(deadline=None)
@given(st.lists(st.integers(0, 102), max_size=150))
def test_rows_are_taken_in_any_order(index):
    X = np.arange(309.0).reshape(103, 3)
    selected = select_mapped_rows(mapped(X), np.array(index, dtype=int))
    np.testing.assert_array_equal(selected, X[np.array(index, dtype=int)])


@pytest.mark.usefixtures("small_limits")
def test_extremes_and_scaling_are_those_in_memory(X):
    rows = mapped(X)
    assert np.isnan(extremes(rows)).all() and np.isnan(extremes(X)).all()
    assert extremes(rows[:, :1]) == (X[:, 0].min(), X[:, 0].max())
    for ignore_nan in (False, True):
        for actual, expected in zip(
            column_extremes(rows, ignore_nan=ignore_nan),
            column_extremes(X, ignore_nan=ignore_nan),
            strict=True,
        ):
            np.testing.assert_array_equal(actual, expected)
    for name in ("min_max", "max_norm"):
        scaling = Scaling.fit(X, name)
        assert is_mapped(scaling.apply(rows))
        np.testing.assert_array_equal(scaling.apply(rows), scaling.apply(X))


@pytest.mark.usefixtures("small_limits")
def test_a_full_disk_is_one_line(monkeypatch):
    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setenv("TMPDIR", "/var/tmp")
    monkeypatch.setattr(os, "posix_fallocate", fail)
    message = (
        "0.8 GB of rows need space on disk, and /var/tmp has too little (No space left on device);"
        " name another folder with TMPDIR=DIR"
    )
    with pytest.raises(CannotWrite, match=f"^{re.escape(message)}$"):
        empty_rows((10_000_000, 10))


def a_table(n: int = 400) -> pd.DataFrame:
    """Return a table with columns of every kind that a large file may have."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(
        {
            "id": np.arange(n),
            "f32": rng.normal(size=n).astype("float32"),
            "city": rng.choice(["Rome", "Oslo", "Lima"], n),
            "i8": rng.integers(-100, 100, n).astype("int8"),
            "i64": rng.integers(-(2**40), 2**40, n),
            "large": 2 * rng.integers(0, 2, n) + 2**53,
            "flag": rng.random(n) > 0.5,
            "gaps": np.where(rng.random(n) < 0.1, np.nan, rng.normal(size=n)),
            "count": np.arange(n) + 1,
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D"),
            "codes": rng.choice([-1.0, 3.5, 8.25], n),
            "month": rng.integers(1, 13, n),
            "one": np.ones(n),
            "label": rng.choice(["no", "yes"], n),
        }
    )
    frame["whole"] = pd.array(np.where(rng.random(n) < 0.1, None, rng.integers(0, 9, n)), "Int64")
    frame["sure"] = pd.array(np.where(rng.random(n) < 0.1, None, rng.random(n) > 0.5), "boolean")
    frame.loc[10, frame.columns != "id"] = frame.loc[11, frame.columns != "id"]
    return frame


def load(path, **options):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        data = TableFile(
            str(path),
            "label",
            parse_dates=["day"],
            categorical=["month"],
            missing=[-1, "Lima"],
            **options,
        ).load()
    return data, [str(warning.message) for warning in warned]


@pytest.mark.parametrize("group_rows", others_slow([5, 64, 1000]))
@pytest.mark.parametrize(
    "options",
    [{}, {"drop": ["gaps", "city"]}, {"first_numeric": 3}, {"group": "flag"}],
    ids=["all", "drop", "first_numeric", "group"],
)
def test_a_streamed_table_is_the_table_in_memory(tmp_path, request, group_rows, options):
    a_table().to_parquet(tmp_path / "t.parquet", row_group_size=group_rows)
    expected, expected_warnings = load(tmp_path / "t.parquet", **options)
    request.getfixturevalue("small_limits")
    data, warned = load(tmp_path / "t.parquet", **options)
    np.testing.assert_array_equal(data.X, expected.X)
    assert data.fingerprint == expected.fingerprint
    assert (data.feature_names, data.categories) == (expected.feature_names, expected.categories)
    assert data.facts == expected.facts
    assert warned == expected_warnings and len(warned) >= 2


@pytest.mark.parametrize("name", ["visit", None])
def test_an_index_is_treated_as_in_memory(tmp_path, request, name):
    index = pd.Index(np.random.default_rng(0).integers(0, 999, 400), name=name)
    a_table().set_index(index).to_parquet(tmp_path / "t.parquet")
    expected, _ = load(tmp_path / "t.parquet")
    request.getfixturevalue("small_limits")
    data, _ = load(tmp_path / "t.parquet")
    assert ("visit" in data.feature_names) == (name == "visit")
    assert data.feature_names == expected.feature_names and data.fingerprint == expected.fingerprint


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"f32": np.inf}, "t: column 'f32' has inf in row 0, and features must be finite"),
        ({"f32": np.nan}, "t: column 'f32' has no value in any row"),
        ({"large": None}, "would be lost in double precision"),
    ],
)
def test_errors_are_those_in_memory(tmp_path, request, change, message):
    frame = a_table()
    for name, value in change.items():
        frame[name] = value if value is not None else np.arange(400) + 2**53
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    messages = []
    for _ in range(2):
        with pytest.raises(DataError) as error:
            TableFile(
                str(tmp_path / "t.parquet"), "label", drop=["id", "day", "count", "one"]
            ).load()
        messages.append(str(error.value))
        request.getfixturevalue("small_limits")
    assert message in messages[0] and messages[0] == messages[1]


@pytest.mark.parametrize("scale", ["none", "max_norm", "min_max"])
def test_the_sample_does_not_depend_on_row_groups(tmp_path, request, scale):
    def splits(path):
        source = TableFile(str(path), "label", drop=["id", "day", "one", "count"])
        rng = np.random.default_rng(3)
        with pytest.warns(UserWarning, match="have the features of another row"):
            return make_splits(source, scale=scale, max_learn=60, n_test="rest", rng=rng)

    frame = a_table()
    frame.to_parquet(tmp_path / "small.parquet", row_group_size=20)
    frame.to_parquet(tmp_path / "large.parquet", row_group_size=400)
    expected = splits(tmp_path / "small.parquet")
    request.getfixturevalue("small_limits")
    for name in ("small", "large"):
        actual = splits(tmp_path / f"{name}.parquet")
        assert actual.fingerprint == expected.fingerprint
        assert is_mapped(actual.test.X)
    assert [len(role.y) for role in (expected.train, expected.calibration)] == [42, 18]
    test_rows = expected.test.source_rows
    assert len(test_rows) == 340 and (np.diff(test_rows) > 0).all()
    learning = np.concatenate([expected.train.source_rows, expected.calibration.source_rows])
    assert sorted([*test_rows, *learning]) == list(range(400))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory in /proc")
def test_memory_grows_by_less_than_the_rows(tmp_path):
    """A process that loads and divides three times the rows takes little more memory."""
    program = (
        "import sys, numpy as np\n"
        "from kdgraph.data.splits import make_splits\n"
        "from kdgraph.data.tables import TableFile\n"
        "source = TableFile(sys.argv[1], 'label')\n"
        "rng = np.random.default_rng(0)\n"
        "splits = make_splits(source, scale='max_norm', max_learn=1000, n_test='rest', rng=rng)\n"
        "splits.fingerprint\n"
        "status = open('/proc/self/status').read()\n"
        "print(1024 * int(status.split('VmHWM:')[1].split()[0]))\n"
    )
    rng, peaks = np.random.default_rng(0), []
    for n in (700_000, 2_100_000):
        X = rng.random((n, 20), dtype=np.float32)
        frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(20)])
        frame.assign(label=rng.integers(2, size=n)).to_parquet(
            tmp_path / "t.parquet", row_group_size=50_000
        )
        del X, frame
        words = [sys.executable, "-c", program, str(tmp_path / "t.parquet")]
        peaks.append(int(subprocess.run(words, check=True, capture_output=True).stdout))
    # In memory, the rows alone take 1.4 million * 160 bytes more, and a copy for the test as much.
    assert peaks[1] - peaks[0] < 1.4e6 * 100
