"""Data frames with columns of every type that a file has, as strategies of hypothesis."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from hypothesis import strategies as st

WORDS = (
    "a",
    "b",
    "nurse",
    "01",
    "1",
    "1.0",
    "10",
    "1e1",
    "True",
    "false",
    "é",
    "x y",
    "=1",
    "-",
    "?",
)


def _words(rng: np.random.Generator, n: int) -> np.ndarray:
    words = rng.choice(WORDS, size=int(rng.integers(2, 5)), replace=False)
    return rng.choice(words.astype(object), n)


def _with_gaps(rng: np.random.Generator, values: np.ndarray, missing: object) -> np.ndarray:
    values = values.astype(object)
    values[rng.random(len(values)) < 0.2] = missing
    return values


def _floats(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.normal(size=n) * 10.0 ** rng.integers(-3, 4)


KINDS: dict[str, Callable[[np.random.Generator, int], object]] = {
    "float": _floats,
    "float gaps": lambda rng, n: np.where(rng.random(n) < 0.2, np.nan, _floats(rng, n)),
    "float32": lambda rng, n: _floats(rng, n).astype(np.float32),
    "int": lambda rng, n: rng.integers(-3, 40, n),
    "int8": lambda rng, n: rng.integers(0, 5, n).astype(np.int8),
    "large int": lambda rng, n: rng.integers(0, 4, n) * 10**12,
    "int gaps": lambda rng, n: np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 9, n)),
    "Int64": lambda rng, n: pd.array(_with_gaps(rng, rng.integers(0, 5, n), pd.NA), dtype="Int64"),
    "bool": lambda rng, n: rng.random(n) < 0.4,
    "bool gaps": lambda rng, n: _with_gaps(rng, rng.random(n) < 0.4, None),
    "boolean": lambda rng, n: pd.array(
        _with_gaps(rng, rng.random(n) < 0.4, pd.NA), dtype="boolean"
    ),
    "text": _words,
    "text None": lambda rng, n: _with_gaps(rng, _words(rng, n), None),
    "text NaN": lambda rng, n: _with_gaps(rng, _words(rng, n), np.nan),
    "string": lambda rng, n: pd.array(_with_gaps(rng, _words(rng, n), pd.NA), dtype="string"),
    "digits": lambda rng, n: rng.choice(np.array(["01", "1", "2", "10"], dtype=object), n),
    "category": lambda rng, n: pd.Categorical(_words(rng, n), categories=rng.permutation(WORDS)),
    "category gaps": lambda rng, n: pd.Categorical(_with_gaps(rng, _words(rng, n), None)),
    "category of ints": lambda rng, n: pd.Categorical(rng.integers(3, 7, n)),
    "ordered": lambda rng, n: pd.Categorical(rng.choice(["low", "high"], n), ["low", "high"], True),
}
"""Kind → function of a generator and a number of rows that returns a column."""
TEXT_KINDS = ("text", "text None", "text NaN", "string", "digits", "category", "category gaps")
EXTENSIONS = ("Int64", "boolean", "string")


def typed_frame(kinds: list[str], n: int, seed: int) -> pd.DataFrame:
    """Return n rows with a column of each kind, named by letters."""
    rng = np.random.default_rng(seed)
    return pd.DataFrame({f"c{j}": KINDS[kind](rng, n) for j, kind in enumerate(kinds)})


@st.composite
def frames(draw, n: int, kinds: tuple[str, ...] = tuple(KINDS), at_most: int = 6) -> pd.DataFrame:
    """Strategy of frames with n rows and columns of these kinds."""
    chosen = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=at_most))
    return typed_frame(chosen, n, draw(st.integers(0, 2**32 - 1)))
