"""Cells of a table that stand for missing values.

Numbers of a column as they are: integers stay integers, and those that double precision would merge
are refused.

Text that is numbers or dates to its reader: percent signs, currencies, units, separators of
thousands, decimal commas.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from pandas.api.types import (
    infer_dtype,
    is_bool_dtype,
    is_complex_dtype,
    is_integer_dtype,
    is_numeric_dtype,
    is_unsigned_integer_dtype,
)

from kdgraph.data.files.tables import FLOAT_INTEGER_LIMIT, INTEGER_PATTERN, integer_array
from kdgraph.errors import DataError
from kdgraph.wording import counted

MAX_CELL_VALUE = 1e18
"""From here on a number is taken for a code for missing: beside its square, those of all others
vanish in double precision.
"""


@dataclass(frozen=True)
class MissingCells:
    """Cells to read as missing: as text, and as numbers where they are some."""

    words: frozenset[str]
    numbers: np.ndarray

    @classmethod
    def of(cls, cells: Iterable[str | float]) -> MissingCells:
        """``-1`` is missing as a number and as the text ``-1``."""
        cells = list(cells)
        words = {format_cell(cell) for cell in cells}
        numbers = pd.to_numeric(pd.Series(sorted(words), dtype=object), errors="coerce").to_numpy(
            dtype=np.float64
        )
        # A number of 17 digits that pandas reads from text may be off by one in the last place.
        # Both
        # it and the number itself count: a cell of a file is the one, a cell of a frame the other.
        exact = [float(cell) for cell in cells if not isinstance(cell, str)]
        return cls(frozenset(words), np.unique([*numbers[~np.isnan(numbers)], *exact]))


def format_cell(value: Any) -> str:
    """Return a cell as a person would write it.

    >>> format_cell(3.0), format_cell(0.25), format_cell("3.0")
    ('3', '0.25', '3.0')
    """
    if (
        isinstance(value, (float, np.floating))
        and float(value).is_integer()
        and abs(value) < MAX_CELL_VALUE
    ):
        return str(int(value))
    return str(value)


def is_real_dtype(dtype: Any) -> bool:
    """Return whether a column of this type holds real numbers, which truth values are not."""
    return is_numeric_dtype(dtype) and not is_bool_dtype(dtype) and not is_complex_dtype(dtype)


def to_exact_numbers(values: Any) -> np.ndarray:
    """Return a numeric Series, Index or array [n] as Int64[n] or UInt64[n] where its type is an
    integer, else as Float64[n].

    An integer column must have no missing cell; in a column of floats that is NaN.
    """
    if is_unsigned_integer_dtype(values.dtype):
        unsigned = values.to_numpy(dtype=np.uint64)
        return unsigned if len(unsigned) and unsigned.max() >= 2**63 else unsigned.astype(np.int64)
    if is_integer_dtype(values.dtype):
        return values.to_numpy(dtype=np.int64)
    return pd.Series(values).to_numpy(dtype=np.float64, na_value=np.nan)


def infer_numeric_type(column: pd.Series) -> pd.Series:
    """Return a column of Python numbers or decimals, as databases give them, with a numeric type;
    any other as it is.

    Examples
    --------
    >>> from decimal import Decimal
    >>> infer_numeric_type(pd.Series([Decimal("1.50"), None])).tolist(), infer_numeric_type(pd.Series([2**53 + 1, None], dtype=object)).tolist()
    ([1.5, nan], [9007199254740993, <NA>])
    """
    if column.dtype != object:
        return column
    kind = infer_dtype(column, skipna=True)
    whole = kind == "integer" or (
        kind == "decimal" and all(cell == cell.to_integral_value() for cell in column.dropna())
    )
    if whole:
        integers = integer_array([None if pd.isna(cell) else int(cell) for cell in column])
        return (
            column
            if integers is None
            else pd.Series(integers, index=column.index, name=column.name)
        )
    if kind in ("decimal", "floating", "mixed-integer-float"):
        return column.map(float, na_action="ignore").astype(np.float64)
    return column


def check_distinct_as_float(where: str, values: np.ndarray, way_out: str) -> None:
    """Raise DataError if different integers of ``values`` [n] become the same float.

    Parameters
    ----------
    where : what the values are, for the message.
    values : numbers without missing ones; floats are what they are, and pass.
    way_out : what to do about it.
    """
    if values.dtype.kind not in "iu" or not len(values):
        return
    large = values[(values >= FLOAT_INTEGER_LIMIT) | (values <= -FLOAT_INTEGER_LIMIT)]
    n = len(distinct := np.unique(large))
    if lost := n - len(np.unique(distinct.astype(np.float64))):
        found = (
            f"{where} has whole numbers from 2^53 on ({distinct[0]}), and"
            f" {counted(lost, 'different value')} of {n:,}"
        )
        raise DataError(f"{found} would be lost in double precision; {way_out}")


def parse_integers(words: Any) -> np.ndarray:
    """Return the whole numbers among words as Int64[m] or UInt64[m]; none where one needs more
    bits, and is too large anyway.
    """
    integers = integer_array(
        [int(word) for word in words if INTEGER_PATTERN.fullmatch(word.strip())]
    )
    return np.empty(0, dtype=np.int64) if integers is None else to_exact_numbers(integers)


def label_array(values: Sequence[Any]) -> np.ndarray:
    """Return labels [n] of one type as an array, in which whole numbers stay integers.

    numpy makes floats of integers of which some need the 64th bit and others do not; those are
    unsigned here or, if some are negative, text.

    >>> label_array([1, 2**64 - 1]).tolist(), label_array(["a", "b"]).tolist()
    ([1, 18446744073709551615], ['a', 'b'])
    """
    whole = all(
        isinstance(value, Integral) and not isinstance(value, bool | np.bool_) for value in values
    )
    if whole and len(values) and max(values) >= 2**63:
        return (
            np.array(values, dtype=np.uint64)
            if min(values) >= 0
            else np.array([str(int(value)) for value in values])
        )
    return np.array(values)


TextForm = Literal[
    "number",
    "date",
    "percent sign",
    "currency sign",
    "comma",
    "thousands separator",
    "unit",
    "sign",
]

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[ap]\.?m\.?)?(?: ?(?:z|utc|[+-]\d{2}:?\d{2}))?"
_DATE_PATTERN = re.compile(
    rf"(?:(?:\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}|\d{{1,2}}([-/.])\d{{1,2}}\2(?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}[- /.]+{_MONTH}[- /.,]+\d{{2,4}}|{_MONTH}[- /.]+\d{{1,2}},?[- /.]+\d{{4}})(?:[t"
    rf" ,]+{_TIME})?"
    rf"|(?:19|20)\d{{2}}-(?:0[1-9]|1[0-2])|{_TIME})",
    re.IGNORECASE,
)
"""A day, with or without the time; a month of a year; a time of day."""
_CURRENCY_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|RUB|TRY|SGD|HKD|Rs\\.?"
_CURRENCY_PREFIX = re.compile(rf"(?:{_CURRENCY_CODES})\s*|R(?=\$)")
_CURRENCY_SUFFIX = re.compile(rf"\s*(?:{_CURRENCY_CODES})")
_DIGITS_PATTERN = re.compile(
    r"[.,]?\d+(?:[.,'’_ \u00a0\u2009\u202f]\d+)*[.,]?(?:e[+-]?\d+)?", re.IGNORECASE
)
_UNIT_PATTERN = re.compile(r"\s*((?:[^\W\d_]|[°²³%])(?:[^\W\d_]|[°²³%/*·^. ]){0,14}[23]?)")
_ORDINAL_SUFFIXES = {"st", "nd", "rd", "th"}
# One sign between all groups of three; behind them a decimal point or comma.
_THOUSANDS_PATTERN = re.compile(
    r"\d{1,3}(?P<between>[.,'’_\s])\d{3}(?:(?P=between)\d{3})*(?:[.,]\d*)?"
)
_SPACES_AND_QUOTES = re.compile(r"[\s'’_]")


class ClassifiedText(NamedTuple):
    """What a text is to its reader: its sort, None where it is none of them; and its unit, if it is
    a number with one.
    """

    sort: TextForm | None
    unit: str = ""


def classify_text(word: str) -> ClassifiedText:
    """Return what a word is that pandas reads as no number.

    Examples
    --------
    >>> [classify_text(word).sort for word in ("12.3%", "$1,200", "1,5", "1 200", "2020-01-31", "n.b.")]
    ['percent sign', 'currency sign', 'comma', 'thousands separator', 'date', None]
    >>> classify_text("70 kg"), classify_text("3rd").sort
    (ClassifiedText(sort='unit', unit='kg'), None)
    """
    text = word.strip()
    if _DATE_PATTERN.fullmatch(text):
        return ClassifiedText("date")
    in_parentheses = text.startswith("(") and text.endswith(")")  # accountants' minus
    rest, signed = _strip_sign(text[1:-1] if in_parentheses else text)
    marks = [character for character in rest if unicodedata.category(character) == "Sc"]
    before = _CURRENCY_PREFIX.match(rest)
    rest = rest[before.end() :] if before else rest
    rest = "".join(
        character for character in rest if unicodedata.category(character) != "Sc"
    ).strip()
    percent = rest[-1:] in ("%", "‰")
    rest, again = _strip_sign(rest.rstrip("%‰ \u00a0\u202f"))
    digits = _DIGITS_PATTERN.match(rest)
    if digits is None or len(marks) > 1:
        return ClassifiedText(None)
    behind, core = rest[digits.end() :], digits[0]
    code = _CURRENCY_SUFFIX.fullmatch(behind) if behind.strip() else None
    if behind.strip() in ("-", ".-"):
        behind, signed = "", True  # 5- and Swiss 5.-
    if behind.strip() and not code:
        unit = _UNIT_PATTERN.fullmatch(behind)
        return (
            ClassifiedText("unit", unit[1].strip())
            if unit and unit[1].lower() not in _ORDINAL_SUFFIXES
            else ClassifiedText(None)
        )
    if percent:
        return ClassifiedText("percent sign")
    if marks or before or code:
        return ClassifiedText("currency sign")
    if core.count(",") == 1 or ("," in core and _has_thousands_groups(core)):
        return ClassifiedText("comma")
    if "," in core or _SPACES_AND_QUOTES.search(core) or core.count(".") > 1:
        return ClassifiedText("thousands separator" if _has_thousands_groups(core) else None)
    return ClassifiedText(
        "sign" if signed or again or in_parentheses or not core.isascii() else "number"
    )


def _strip_sign(text: str) -> tuple[str, bool]:
    """The text behind its sign, and whether it is another than + and -."""
    sign = re.match(r"[+\-\u2212\u2013\s]*", text)
    assert sign is not None
    return text[sign.end() :], bool(re.search("[\u2212\u2013]", sign[0]))


def _has_thousands_groups(core: str) -> bool:
    """Return whether digits stand in groups of three, as of thousands, so that 1_0, 1.2.3 and
    192.168.0.1 are no numbers.
    """
    return _THOUSANDS_PATTERN.fullmatch(core) is not None


class DominantForm(NamedTuple):
    """How many of the rows of a column of text hold numbers, written in any way, or dates.

    Attributes
    ----------
    sort : of the words that make up more than half of the rows: "number" where most are plain
        numbers, "date" where most are dates, another where most are numbers of which some are
        written in that way; None where there is no majority.
    unit : of the numbers, where it is a unit.
    first : position of the first word of this sort among the words.
    """

    sort: TextForm | None
    unit: str
    first: int


def dominant_form(words: np.ndarray, rows: np.ndarray) -> DominantForm:
    """Return what most cells of a column are.

    Parameters
    ----------
    words : the different texts [m].
    rows : Int[m], how many rows have each.
    """
    numbers = pd.to_numeric(pd.Series(words, dtype=object), errors="coerce").notna().to_numpy()
    sorts = [
        ClassifiedText("number") if is_number else classify_text(word)
        for word, is_number in zip(words, numbers, strict=True)
    ]
    half = rows.sum() / 2
    plain = rows[numbers].sum()
    dates = rows[[sort == "date" for sort, _ in sorts]].sum()
    units = Counter[str]()
    for (sort, unit), n in zip(sorts, rows.tolist(), strict=True):
        units[unit] += n if sort == "unit" else 0
    (unit, with_unit), *_ = units.most_common(1) or [("", 0)]
    disguised = np.array(
        [sort not in (None, "number", "date", "unit") for sort, _ in sorts], dtype=bool
    )
    n_disguised = rows[disguised].sum()
    if dates > half:
        return DominantForm(
            "date", "", next(i for i, (sort, _) in enumerate(sorts) if sort == "date")
        )
    if n_disguised and plain + n_disguised > half:
        first = int(np.flatnonzero(disguised)[0])
        return DominantForm(sorts[first].sort, "", first)
    if plain > half:
        return DominantForm("number", "", int(np.flatnonzero(numbers)[0]))
    if (
        with_unit
        and with_unit >= sum(units.values()) / 2
        and plain + n_disguised + with_unit > half
    ):
        first = next(i for i, word in enumerate(sorts) if word == ClassifiedText("unit", unit))
        return DominantForm("unit", unit, first)
    return DominantForm(None, "", -1)


def describe_form(found: DominantForm) -> str:
    """Return what is wrong with the numbers of a column, such as ``numbers with percent signs``."""
    if found.sort == "unit":
        return f"numbers with a unit ({found.unit})"
    return f"numbers with {found.sort}s"
