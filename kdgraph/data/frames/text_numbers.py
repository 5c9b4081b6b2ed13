"""Text that is numbers or dates to its reader: percent signs, currencies, units, separators of thousands, decimal commas."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Literal, NamedTuple

import numpy as np
import pandas as pd

Sort = Literal["number", "date", "percent sign", "currency sign", "comma", "thousands separator", "unit", "sign"]

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.?"
_TIME = r"\d{1,2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?(?: ?[ap]\.?m\.?)?(?: ?(?:z|utc|[+-]\d{2}:?\d{2}))?"
DATE = re.compile(
    rf"(?:(?:\d{{4}}([-/.])\d{{1,2}}\1\d{{1,2}}|\d{{1,2}}([-/.])\d{{1,2}}\2(?:\d{{4}}|\d{{2}})"
    rf"|\d{{1,2}}[- /.]+{_MONTH}[- /.,]+\d{{2,4}}|{_MONTH}[- /.]+\d{{1,2}},?[- /.]+\d{{4}})(?:[t ,]+{_TIME})?"
    rf"|(?:19|20)\d{{2}}-(?:0[1-9]|1[0-2])|{_TIME})",
    re.IGNORECASE,
)
"""A day, with or without the time; a month of a year; a time of day."""
_CODES = "USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|NZD|SEK|NOK|DKK|PLN|CZK|HUF|BRL|MXN|ZAR|KRW|RUB|TRY|SGD|HKD|Rs\\.?"
_BEFORE = re.compile(rf"(?:{_CODES})\s*|R(?=\$)")
_AFTER = re.compile(rf"\s*(?:{_CODES})")
_DIGITS = re.compile(r"[.,]?\d+(?:[.,'’_ \u00a0\u2009\u202f]\d+)*[.,]?(?:e[+-]?\d+)?", re.IGNORECASE)
_UNIT = re.compile(r"\s*((?:[^\W\d_]|[°²³%])(?:[^\W\d_]|[°²³%/*·^. ]){0,14}[23]?)")
_ORDINAL = {"st", "nd", "rd", "th"}
# One sign between all groups of three; behind them a decimal point or comma.
_THOUSANDS = re.compile(r"\d{1,3}(?P<between>[.,'’_\s])\d{3}(?:(?P=between)\d{3})*(?:[.,]\d*)?")
_SPACES_AND_QUOTES = re.compile(r"[\s'’_]")


class Word(NamedTuple):
    """What a text is to its reader: its sort, None where it is none of them; and its unit, if it is a number with one."""

    sort: Sort | None
    unit: str = ""


def sort_of(word: str) -> Word:
    """Return what a word is that pandas reads as no number.

    Examples
    --------
    >>> [sort_of(word).sort for word in ("12.3%", "$1,200", "1,5", "1 200", "2020-01-31", "n.b.")]
    ['percent sign', 'currency sign', 'comma', 'thousands separator', 'date', None]
    >>> sort_of("70 kg"), sort_of("3rd").sort
    (Word(sort='unit', unit='kg'), None)
    """
    text = word.strip()
    if DATE.fullmatch(text):
        return Word("date")
    in_parentheses = text.startswith("(") and text.endswith(")")  # accountants' minus
    rest, signed = _without_sign(text[1:-1] if in_parentheses else text)
    marks = [character for character in rest if unicodedata.category(character) == "Sc"]
    before = _BEFORE.match(rest)
    rest = rest[before.end() :] if before else rest
    rest = "".join(character for character in rest if unicodedata.category(character) != "Sc").strip()
    percent = rest[-1:] in ("%", "‰")
    rest, again = _without_sign(rest.rstrip("%‰ \u00a0\u202f"))
    digits = _DIGITS.match(rest)
    if digits is None or len(marks) > 1:
        return Word(None)
    behind, core = rest[digits.end() :], digits[0]
    code = _AFTER.fullmatch(behind) if behind.strip() else None
    if behind.strip() in ("-", ".-"):
        behind, signed = "", True  # 5- and Swiss 5.-
    if behind.strip() and not code:
        unit = _UNIT.fullmatch(behind)
        return Word("unit", unit[1].strip()) if unit and unit[1].lower() not in _ORDINAL else Word(None)
    if percent:
        return Word("percent sign")
    if marks or before or code:
        return Word("currency sign")
    if core.count(",") == 1 or ("," in core and _in_threes(core)):
        return Word("comma")
    if "," in core or _SPACES_AND_QUOTES.search(core) or core.count(".") > 1:
        return Word("thousands separator" if _in_threes(core) else None)
    return Word("sign" if signed or again or in_parentheses or not core.isascii() else "number")


def _without_sign(text: str) -> tuple[str, bool]:
    """The text behind its sign, and whether it is another than + and -."""
    sign = re.match(r"[+\-\u2212\u2013\s]*", text)
    assert sign is not None
    return text[sign.end() :], bool(re.search("[\u2212\u2013]", sign[0]))


def _in_threes(core: str) -> bool:
    """Return whether digits stand in groups of three, as of thousands, so that 1_0, 1.2.3 and 192.168.0.1 are no numbers."""
    return _THOUSANDS.fullmatch(core) is not None


class Mixture(NamedTuple):
    """How many of the rows of a column of text hold numbers, written in any way, or dates.

    Attributes
    ----------
    sort : of the words that make up more than half of the rows: "number" where most are plain numbers, "date" where most
        are dates, another where most are numbers of which some are written in that way; None where there is no majority.
    unit : of the numbers, where it is a unit.
    first : position of the first word of this sort among the words.
    """

    sort: Sort | None
    unit: str
    first: int


def mixture_of(words: np.ndarray, rows: np.ndarray) -> Mixture:
    """Return what most cells of a column are.

    Parameters
    ----------
    words : the different texts [m].
    rows : Int[m], how many rows have each.
    """
    numbers = pd.to_numeric(pd.Series(words, dtype=object), errors="coerce").notna().to_numpy()
    sorts = [Word("number") if is_number else sort_of(word) for word, is_number in zip(words, numbers, strict=True)]
    half = rows.sum() / 2
    plain = rows[numbers].sum()
    dates = rows[[sort == "date" for sort, _ in sorts]].sum()
    units = Counter[str]()
    for (sort, unit), n in zip(sorts, rows.tolist(), strict=True):
        units[unit] += n if sort == "unit" else 0
    (unit, with_unit), *_ = units.most_common(1) or [("", 0)]
    disguised = np.array([sort not in (None, "number", "date", "unit") for sort, _ in sorts], dtype=bool)
    n_disguised = rows[disguised].sum()
    if dates > half:
        return Mixture("date", "", next(i for i, (sort, _) in enumerate(sorts) if sort == "date"))
    if n_disguised and plain + n_disguised > half:
        first = int(np.flatnonzero(disguised)[0])
        return Mixture(sorts[first].sort, "", first)
    if plain > half:
        return Mixture("number", "", int(np.flatnonzero(numbers)[0]))
    if with_unit and with_unit >= sum(units.values()) / 2 and plain + n_disguised + with_unit > half:
        first = next(i for i, word in enumerate(sorts) if word == Word("unit", unit))
        return Mixture("unit", unit, first)
    return Mixture(None, "", -1)


def described(found: Mixture) -> str:
    """Return what is wrong with the numbers of a column, such as ``numbers with percent signs``."""
    if found.sort == "unit":
        return f"numbers with a unit ({found.unit})"
    return f"numbers with {found.sort}s"
