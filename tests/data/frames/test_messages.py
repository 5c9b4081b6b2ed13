"""Overrides in messages about tables, which can be pasted and then make the table usable."""

from __future__ import annotations

import re
import shlex
import warnings
from dataclasses import fields
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import example, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from kdgraph.data.dataset import Dataset
from kdgraph.data.frames import ColumnOptions, from_frame
from kdgraph.data.frames.messages import ColumnReference, ColumnSettings
from kdgraph.data.openml import OpenmlTable
from kdgraph.data.tables import ArrayFile, TableFile
from kdgraph.errors import DataError

N = 24
WORDS = [
    "null",
    "TRUE",
    "Nan",
    "None",
    "1_000",
    "don't",
    'say "x"',
    "a,b",
    "[1]",
    "${x}",
    "\\",
    "x=1",
]
WORDS += [
    "okänd",
    "不明",
    "-",
    "?",
    " n/a",
    "1,5,",
    "~",
    "#N/A",
    "$HOME",
    "`ls`",
    "!1",
    "{a: 1}",
    "a: b",
]
TEXT = st.text(
    st.characters(blacklist_categories=["Cs", "Cc", "Cf", "Zl", "Zp"]), min_size=1, max_size=8
)
CELLS = st.sampled_from(WORDS) | TEXT
NAMES = st.sampled_from([*WORDS, "1", "0.5", "größe", ""]) | TEXT
CODES = st.sampled_from(
    [np.finfo(np.float32).min, np.finfo(np.float64).max, 1e18, -1.2345678901234567e30]
)


def parse_advice(message: str) -> list[tuple[str, Any]]:
    """Return the keys and values of all overrides in a message, as a shell and Hydra read them."""
    overrides = []
    while at := re.search(r"'?dataset\.(?:drop|missing|categorical)=", message):
        words = shlex.shlex(message[at.start() :], posix=True, punctuation_chars=False)
        words.whitespace_split, words.commenters = True, ""
        word = str(words.get_token()).rstrip(";,")
        override = OverridesParser.create().parse_override(word)
        config = OmegaConf.create({"value": override.value()})
        read: Any = OmegaConf.to_container(config, resolve=True)
        overrides.append((str(override.key_or_group).removeprefix("dataset."), read["value"]))
        message = message[at.end() :]
    return overrides


def load_or_message(frame: pd.DataFrame, options: ColumnOptions) -> Dataset | str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return from_frame("t", frame, "y", options=options)
    except DataError as error:
        return str(error)


def follow_advice(frame: pd.DataFrame, advice_index: int) -> tuple[Dataset, dict[str, Any]]:
    """Apply an override of each message until the table loads.

    ``advice_index`` selects one of several overrides in a message.
    """
    options: dict[str, Any] = {}
    messages: list[str] = []
    while isinstance(result := load_or_message(frame, ColumnOptions(**options)), str):
        assert result not in messages, "the remedy leads back"
        messages.append(result)
        overrides = parse_advice(result)
        assert overrides, result
        options |= [overrides[min(advice_index, len(overrides) - 1)]]
    return result, options


def numbers() -> list[Any]:
    return [float(i) for i in range(N)]


def with_cell(row: int, cell: Any, column: list[Any] | None = None) -> list[Any]:
    column = numbers() if column is None else column
    return [*column[:row], cell, *column[row + 1 :]]


@settings(max_examples=120, deadline=None)
@given(
    names=st.lists(NAMES, min_size=3, max_size=3, unique=True).filter(
        lambda names: "y" not in names and "x" not in names
    ),
    cells=st.lists(CELLS, min_size=2, max_size=2),
    code=CODES,
    advice_index=st.integers(0, 1),
)
@example(
    names=["1", "2", "a,b"], cells=["1_000", "TRUE"], code=-3.4028234663852886e38, advice_index=0
)
@example(
    names=["null", "it's", 'the "day"'],
    cells=["Null", "true"],
    code=1.7976931348623157e308,
    advice_index=1,
)
def test_following_the_advice_of_each_message_loads_the_table(names, cells, code, advice_index):
    columns = [with_cell(3, cells[0]), with_cell(5, cells[1]), with_cell(7, code)]
    columns = {
        name: [str(value) if i < 2 else value for value in values]
        for i, (name, values) in enumerate(zip(names, columns, strict=True))
    }
    frame = pd.DataFrame({**columns, "x": numbers(), "y": ["a", "b"] * (N // 2)})
    dataset, options = follow_advice(frame, advice_index)
    assert "x" in dataset.feature_names
    for name, row in zip(names, (3, 5, 7), strict=True):
        if name in options.get("drop", ()):
            assert name not in dataset.feature_names
        elif name not in options.get("categorical", ()) and frame[name].iloc[row] in options.get(
            "missing", ()
        ):
            assert np.isnan(dataset.X[row, dataset.feature_names.index(name)])
            assert np.isnan(dataset.X[:, dataset.feature_names.index(name)]).sum() == 1


@given(name=NAMES.filter(lambda name: name not in ("x", "y")), empty=st.booleans())
def test_advice_drops_a_column_that_cannot_be_used(name, empty):
    values = [None] * N if empty else pd.date_range("2020-01-01", periods=N)
    frame = pd.DataFrame({name: values, "x": numbers(), "y": ["a", "b"] * (N // 2)})
    dataset, options = follow_advice(frame, 0)
    assert options == {"drop": [name]} and dataset.feature_names == ("x",)


def test_second_override_keeps_the_entries_of_the_first():
    frame = pd.DataFrame(
        {
            "a": with_cell(1, "?", [str(i) for i in range(N)]),
            "b": with_cell(2, 1e20),
            "when": "2020-01-01",
        }
    )
    frame = frame.assign(gone=None, x=numbers(), y=["a", "b"] * (N // 2))
    _, options = follow_advice(frame, 0)
    assert options == {"missing": ["?", 1e20], "drop": ["when", "gone"]}


def test_missing_keeps_text_and_numbers_distinct():
    column = ColumnReference("t", "c", ColumnSettings(missing=[1, "1"]))
    assert column.as_missing([1, 1.0, "1", "-1"]) == '\'dataset.missing=[1,"1",1.0,"-1"]\''


@pytest.mark.parametrize("text", ["1_0", "1_250", "7%", "€ 12", "3,5"])
def test_text_among_numbers_can_be_read_as_missing(text):
    """Check this also for texts that Python or a person would read as numbers."""
    frame = pd.DataFrame(
        {
            "c": with_cell(3, text, [str(i) for i in range(N)]),
            "x": numbers(),
            "y": ["a", "b"] * (N // 2),
        }
    )
    dataset, options = follow_advice(frame, 0)
    assert options == {"missing": [text]} and np.flatnonzero(
        np.isnan(dataset.X[:, 0])
    ).tolist() == [3]


@pytest.mark.parametrize(
    "text", ["-3.4028234663852886e+38", "1.7976931348623157e308", "123456789012345678901234.5"]
)
def test_large_number_of_a_file_can_be_read_as_missing(tmp_path, text):
    path = tmp_path / "t.csv"
    rows = [f"{text if i == 4 else i},{'ab'[i % 2]}" for i in range(N)]
    path.write_text("\n".join(["c,y", *rows]))
    with pytest.raises(DataError) as raised:
        TableFile(str(path), "y").load()
    ((key, value),) = parse_advice(str(raised.value))
    for missing in (value, [float(text)]):
        assert key == "missing"
        dataset = TableFile(str(path), "y", missing=missing).load()
        assert np.flatnonzero(np.isnan(dataset.X[:, 0])).tolist() == [4]


def test_more_than_12_texts_are_not_suggested_as_missing():
    cells = [f"t{i}" if i < 13 else str(i) for i in range(60)]
    frame = pd.DataFrame({"c": cells, "x": np.arange(60.0), "y": ["a", "b"] * 30})
    message = (
        "t: column 'c' has 't0' in row 0, and most of its cells are numbers;"
        " 'dataset.categorical=[c]' takes all as names"
    )
    assert load_or_message(frame, ColumnOptions()) == message


def test_advised_keys_exist_in_the_data_sets_that_advise_them():
    advice = {"drop", "categorical", "missing"}
    assert advice <= {option.name for option in fields(ColumnOptions)}
    for source in (TableFile, OpenmlTable):
        assert advice <= set(source.__init__.__annotations__)


def test_message_about_an_array_advises_no_keys(tmp_path):
    path = str(tmp_path / "a.npz")
    np.savez(path, X=np.array([[1.0, 2], [1e20, 3], [1, 4], [2, 5]]), y=[0, 1, 0, 1])
    reason = "values from 1e18 on are usually codes for missing, and their squares lose all others"
    message = (
        f"a: column 'x1' has 1e+20 in row 1; {reason}: write NaN where it is missing, else rescale"
        " the column"
    )
    with pytest.raises(DataError, match=f"^{re.escape(message)}$"):
        ArrayFile(path).load()
