"""Cells of a table: missing values, exact integers, and numbers or dates that are written as text.

Integers stay integers, and a column whose integers double precision would merge raises an error.
Text with percent signs, currencies, units, thousands separators or decimal commas is classified,
so that messages can describe it. The rules are original to kdgraph.
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

from kdgraph.data.files.numbers import (
    FLOAT_INTEGER_LIMIT,
    INTEGER_PATTERN,
    exact_numbers,
    integer_array,
)
from kdgraph.errors import DataError
from kdgraph.wording import counted

MAX_CELL_VALUE = 1e18
"""Numbers from here on are taken for codes of missing values.

In double precision, the squares of all other numbers vanish in a sum with the square of such a
number.
"""


@dataclass(frozen=True)
class MissingCells:
    """Cells to read as missing, as text and, if they are numbers, sorted Float64[m]."""

    words: frozenset[str]
    numbers: np.ndarray

    @classmethod
    def from_cells(cls, cells: Iterable[str | float]) -> MissingCells:
        """Return the missing cells of a list; ``-1`` is both a number and the text ``-1``."""
        cells = list(cells)
        words = {format_cell(cell) for cell in cells}
        numbers = exact_numbers(sorted(words))
        return cls(frozenset(words), np.unique(numbers[~np.isnan(numbers)]))


NO_MISSING_CELLS = MissingCells(frozenset(), np.empty(0))


def format_cell(value: Any) -> str:
    """Return the text that a person would write for the value of a cell.

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
    """Return whether a column of this type contains real numbers and not truth values."""
    return is_numeric_dtype(dtype) and not is_bool_dtype(dtype) and not is_complex_dtype(dtype)


def to_exact_numbers(values: Any) -> np.ndarray:
    """Return numbers without loss of precision.

    Int64[n] or UInt64[n] for an integer type, which must not have missing cells; else Float64[n]
    with NaN for missing cells.
    """
    if is_unsigned_integer_dtype(values.dtype):
        unsigned = values.to_numpy(dtype=np.uint64)
        return unsigned if len(unsigned) and unsigned.max() >= 2**63 else unsigned.astype(np.int64)
    if is_integer_dtype(values.dtype):
        return values.to_numpy(dtype=np.int64)
    return pd.Series(values).to_numpy(dtype=np.float64, na_value=np.nan)


def infer_numeric_type(column: pd.Series) -> pd.Series:
    """Return a column of Python numbers or decimals with a numeric type, and any other unchanged.

    Databases return columns of such objects.

    Examples
    --------
    >>> from decimal import Decimal
    >>> infer_numeric_type(pd.Series([Decimal("1.50"), None])).tolist()
    [1.5, nan]
    >>> infer_numeric_type(pd.Series([2**53 + 1, None], dtype=object)).tolist()
    [9007199254740993, <NA>]
    """
    # pandas stores such cells as objects. A decimal column of whole numbers must not become floats,
    # because database keys have this type and may exceed 2^53.
    if column.dtype != object:
        return column
    kind = infer_dtype(column, skipna=True)
    all_integers = kind == "integer" or (
        kind == "decimal" and all(cell == cell.to_integral_value() for cell in column.dropna())
    )
    if all_integers:
        integers = integer_array([None if pd.isna(cell) else int(cell) for cell in column])
        if integers is None:
            return column
        return pd.Series(integers, index=column.index, name=column.name)
    if kind in ("decimal", "floating", "mixed-integer-float"):
        return column.map(float, na_action="ignore").astype(np.float64)
    return column


def check_distinct_as_float(source: str, values: np.ndarray, way_out: str) -> None:
    """Raise DataError if different integers of values [n], none missing, become the same float."""
    if values.dtype.kind not in "iu" or not len(values):
        return
    large = values[(values >= FLOAT_INTEGER_LIMIT) | (values <= -FLOAT_INTEGER_LIMIT)]
    n = len(distinct := np.unique(large))
    if n_lost := n - len(np.unique(distinct.astype(np.float64))):
        raise DataError(
            f"{source} has whole numbers from 2^53 on ({distinct[0]}), and"
            f" {counted(n_lost, 'different value')} of {n:,} would be lost in double precision;"
            f" {way_out}"
        )


def parse_integers(texts: Any) -> np.ndarray:
    """Return the integers among texts as Int64[m] or UInt64[m].

    The array is empty if one of them needs more than 64 bits; such a number exceeds the largest
    allowed cell anyway.
    """
    integers = integer_array(
        [int(text) for text in texts if INTEGER_PATTERN.fullmatch(text.strip())]
    )
    return np.empty(0, dtype=np.int64) if integers is None else to_exact_numbers(integers)


def label_array(values: Sequence[Any]) -> np.ndarray:
    """Return labels [n] of one type as an array in which integers stay integers.

    numpy converts integers to floats if only some of them need the 64th bit. Here they become
    unsigned or, if some are negative, text.

    >>> label_array([1, 2**64 - 1]).tolist(), label_array(["a", "b"]).tolist()
    ([1, 18446744073709551615], ['a', 'b'])
    """
    all_integers = all(
        isinstance(value, Integral) and not isinstance(value, bool | np.bool_) for value in values
    )
    if all_integers and len(values) and max(values) >= 2**63:
        if min(values) < 0:
            return np.array([str(int(value)) for value in values])
        return np.array(values, dtype=np.uint64)
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
"""Pattern of a day, with or without a time, of a month of a year, or of a time of day."""
_CURRENCY_CODES = (
    "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|RUB|TRY|SGD"
    r"|HKD|Rs\.?"
)
_CURRENCY_PREFIX = re.compile(rf"(?:{_CURRENCY_CODES})\s*|R(?=\$)")
_CURRENCY_SUFFIX = re.compile(rf"\s*(?:{_CURRENCY_CODES})")
_DIGITS_PATTERN = re.compile(
    r"[.,]?\d+(?:[.,'’_ \u00a0\u2009\u202f]\d+)*[.,]?(?:e[+-]?\d+)?", re.IGNORECASE
)
_UNIT_PATTERN = re.compile(r"\s*((?:[^\W\d_]|[°²³%])(?:[^\W\d_]|[°²³%/*·^. ]){0,14}[23]?)")
_ORDINAL_SUFFIXES = {"st", "nd", "rd", "th"}
# All groups of three digits have the same separator; a decimal point or comma may follow them. So
# 1_0, 1.2.3 and 192.168.0.1 are not numbers.
_THOUSANDS_PATTERN = re.compile(
    r"\d{1,3}(?P<between>[.,'’_\s])\d{3}(?:(?P=between)\d{3})*(?:[.,]\d*)?"
)
_SPACES_AND_QUOTES = re.compile(r"[\s'’_]")


class ClassifiedText(NamedTuple):
    """Form of a text, None if it has none of the forms, and the unit of a number with a unit."""

    kind: TextForm | None
    unit: str = ""


def classify_text(cell: str) -> ClassifiedText:
    """Return the form of a text that pandas does not read as a number.

    Examples
    --------
    >>> texts = ("12.3%", "$1,200", "1,5", "1 200", "2020-01-31", "n.b.")
    >>> [classify_text(text).kind for text in texts]
    ['percent sign', 'currency sign', 'comma', 'thousands separator', 'date', None]
    >>> classify_text("70 kg"), classify_text("3rd").kind
    (ClassifiedText(kind='unit', unit='kg'), None)
    """
    text = cell.strip()
    if _DATE_PATTERN.fullmatch(text):
        return ClassifiedText("date")
    # The steps strip what may surround the digits, from the outside to the inside: parentheses,
    # with which accountants mark negative numbers, sign, currency, percent sign, second sign.
    in_parentheses = text.startswith("(") and text.endswith(")")
    body, signed = _strip_sign(text[1:-1] if in_parentheses else text)
    currency_signs = [sign for sign in body if unicodedata.category(sign) == "Sc"]
    currency_prefix = _CURRENCY_PREFIX.match(body)
    body = body[currency_prefix.end() :] if currency_prefix else body
    body = "".join(sign for sign in body if unicodedata.category(sign) != "Sc").strip()
    percent = body[-1:] in ("%", "‰")
    body, signed_inside = _strip_sign(body.rstrip("%‰ \u00a0\u202f"))
    digits = _DIGITS_PATTERN.match(body)
    if digits is None or len(currency_signs) > 1:
        return ClassifiedText(None)
    suffix, number = body[digits.end() :], digits[0]
    currency_suffix = _CURRENCY_SUFFIX.fullmatch(suffix) if suffix.strip() else None
    if suffix.strip() in ("-", ".-"):
        # A sign behind the number, as in 5- and the Swiss 5.-
        suffix, signed = "", True
    if suffix.strip() and not currency_suffix:
        unit = _UNIT_PATTERN.fullmatch(suffix)
        if unit and unit[1].lower() not in _ORDINAL_SUFFIXES:
            return ClassifiedText("unit", unit[1].strip())
        return ClassifiedText(None)
    if percent:
        return ClassifiedText("percent sign")
    if currency_signs or currency_prefix or currency_suffix:
        return ClassifiedText("currency sign")
    in_thousands = _THOUSANDS_PATTERN.fullmatch(number) is not None
    if number.count(",") == 1 or ("," in number and in_thousands):
        return ClassifiedText("comma")
    if "," in number or _SPACES_AND_QUOTES.search(number) or number.count(".") > 1:
        return ClassifiedText("thousands separator" if in_thousands else None)
    return ClassifiedText(
        "sign" if signed or signed_inside or in_parentheses or not number.isascii() else "number"
    )


def _strip_sign(text: str) -> tuple[str, bool]:
    """Return the text behind its sign, and whether the sign is a character other than + and -."""
    sign = re.match(r"[+\-\u2212\u2013\s]*", text)
    assert sign is not None
    return text[sign.end() :], bool(re.search("[\u2212\u2013]", sign[0]))


class DominantForm(NamedTuple):
    """Form that most cells of a text column have.

    ``kind`` is the form of the texts in more than half of the rows: "number" if most are plain
    numbers, "date" if most are dates, and another form if most are numbers and some of these are
    written in that form. None if there is no majority. ``unit`` is that of numbers with a unit, and
    ``first`` the position of the first text of this form.
    """

    kind: TextForm | None
    unit: str
    first: int


def dominant_form(texts: np.ndarray, row_counts: np.ndarray) -> DominantForm:
    """Return the form of most cells, given distinct texts [m] and their numbers of rows Int[m]."""
    numbers = ~np.isnan(exact_numbers(texts))
    classifications = [
        ClassifiedText("number") if is_number else classify_text(text)
        for text, is_number in zip(texts, numbers, strict=True)
    ]
    # Plain numbers count together with each special form, because a column in which only some
    # cells have, say, a thousands separator is nevertheless one of numbers in that form.
    kinds: list[TextForm | None] = [text.kind for text in classifications]
    half = row_counts.sum() / 2
    n_plain = row_counts[numbers].sum()
    is_date = np.array([kind == "date" for kind in kinds], dtype=bool)
    is_formatted = np.array(
        [kind not in (None, "number", "date", "unit") for kind in kinds], dtype=bool
    )
    n_formatted = row_counts[is_formatted].sum()
    units = Counter[str]()
    for (kind, unit), n in zip(classifications, row_counts.tolist(), strict=True):
        units[unit] += n if kind == "unit" else 0
    (unit, n_with_unit), *_ = units.most_common(1) or [("", 0)]
    if row_counts[is_date].sum() > half:
        return DominantForm("date", "", int(np.argmax(is_date)))
    if n_formatted and n_plain + n_formatted > half:
        first = int(np.argmax(is_formatted))
        return DominantForm(kinds[first], "", first)
    if n_plain > half:
        return DominantForm("number", "", int(np.argmax(numbers)))
    has_main_unit = n_with_unit and n_with_unit >= sum(units.values()) / 2
    if has_main_unit and n_plain + n_formatted + n_with_unit > half:
        return DominantForm("unit", unit, classifications.index(ClassifiedText("unit", unit)))
    return DominantForm(None, "", -1)


def describe_form(form: DominantForm) -> str:
    """Return the description of a form for messages, such as ``numbers with percent signs``."""
    if form.kind == "unit":
        return f"numbers with a unit ({form.unit})"
    return f"numbers with {form.kind}s"
