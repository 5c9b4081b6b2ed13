"""Detection of columns that number the rows."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from kdgraph.data.frames import ColumnOptions, from_frame
from kdgraph.data.frames.features import counts_rows, is_row_index
from kdgraph.data.tables import ArrayFile

N = 40
SHUFFLED = np.random.default_rng(0).permutation(N)


def load_with_column(name: str, values, **options):
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "x": rng.normal(size=N),
            name: values,
            "z": rng.normal(size=N),
            "y": np.arange(N) // (N // 2),
        }
    )
    return from_frame("t", table, "y", options=ColumnOptions(**options))


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Unnamed: 0", np.arange(N)),
        ("Unnamed: 0.1", SHUFFLED),
        ("Unnamed: 0", SHUFFLED * 7 + 3),
        ("__index_level_0__", SHUFFLED),
        ("", np.arange(N) % 8),
        ("index", SHUFFLED),
        ("ID", SHUFFLED + 1),
        ("row_number", np.arange(1, N + 1)),
        ("X", np.arange(1.0, N + 1)),
        ("X.1", pd.array(np.arange(1, N + 1), dtype="Int64")),
        ("S. No.", np.arange(1, N + 1)),
    ],
)
def test_index_is_dropped_with_a_warning(name, values):
    message = f"t: columns that number the rows are left out: '{name}'; rename one to use it"
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        assert load_with_column(name, values).feature_names == ("x", "z")


@pytest.mark.parametrize(
    "values",
    [np.arange(N), np.arange(1, N + 1), np.arange(float(N))],
    ids=["from 0", "from 1", "floats"],
)
def test_feature_that_counts_the_rows_is_kept_with_a_warning(values):
    drop = "if it is their number, leave it out: 'dataset.drop=[patient]'"
    message = (
        "t: the feature 'patient' counts the rows in their order, which may be that of the labels;"
        f" {drop}"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        assert load_with_column("patient", values).feature_names == ("x", "patient", "z")


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("patient", SHUFFLED),
        ("id", np.arange(N) * 2),
        ("id", np.arange(5, N + 5)),
        ("x1", SHUFFLED),
        ("Unnamed: 0", np.arange(N) / 4),
        ("age", np.arange(N)[::-1]),
    ],
)
def test_other_numeric_columns_cause_no_warning(name, values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_with_column(name, values).feature_names == ("x", name, "z")


def test_index_with_another_use_causes_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = load_with_column("Unnamed: 0", SHUFFLED, split_groups="Unnamed: 0")
        assert load_with_column("index", SHUFFLED, drop=["index"]).feature_names == ("x", "z")
    assert data.split_groups is not None and len(np.unique(data.split_groups)) == N


def test_short_tables_and_single_features_may_count_the_rows():
    assert not is_row_index("id", pd.Series(range(20))) and is_row_index("id", pd.Series(range(21)))
    table = pd.DataFrame({"t": np.arange(N), "y": np.arange(N) / 4})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert from_frame("t", table, "y", options=ColumnOptions()).feature_names == ("t",)


def test_counts_rows():
    assert (
        counts_rows(np.arange(3))
        and counts_rows(np.arange(1.0, 4.0))
        and not counts_rows(np.array([0, 1, 1]))
    )
    assert counts_rows(np.array([2, 0, 1]), in_order=False) and not counts_rows(np.array([2, 0, 1]))
    assert (
        not counts_rows(pd.Series([None, 1.0, 2.0]))
        and not counts_rows(pd.Series(list("012")))
        and not counts_rows(pd.Series([], dtype=int))
    )


def test_array_column_that_counts_the_rows_warns(tmp_path):
    X = np.column_stack([np.random.default_rng(0).normal(size=N), np.arange(N)])
    np.savez(tmp_path / "a.npz", X=X, y=np.arange(N) % 2)
    message = (
        "a: the feature 'x2' counts the rows in their order, which may be that of the labels; if it"
        " is their number, leave it out of X"
    )
    with pytest.warns(UserWarning, match=f"^{re.escape(message)}$"):
        ArrayFile(str(tmp_path / "a.npz")).load()
