"""How messages and tables count things, name a few of many, and write numbers.

:func:`use_class_names` lets messages name classes by their labels, although a run fits all
estimators on positions.
"""

from __future__ import annotations

import math
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

LARGE, HUGE = 1e4, 1e15
"""From here on decimals show nothing, and from there on commas do not help either."""


def counted(n: int, what: str) -> str:
    """``1 run``, ``3,000 runs``.

    >>> counted(1, "run"), counted(3000, "data set")
    ('1 run', '3,000 data sets')
    """
    return f"{n:,} {what}{'s' * (n != 1)}"


def significant(value: float, digits: int = 3) -> str:
    """Return a number as text: fixed decimals while these show it, else significant digits.

    Parameters
    ----------
    value : any number.
    digits : decimals of numbers from 0.01 to 10,000, of which at least ``digits - 1`` are
        significant, and significant digits of others.

    Examples
    --------
    >>> [significant(value) for value in (0.0, 0.05, 12.3456, -1.0, 294_123.4)]
    ['0.000', '0.050', '12.346', '-1.000', '294,123']
    >>> [significant(value) for value in (0.00123, 0.0000123, 1.5e20)]
    ['0.00123', '1.23e-05', '1.50e+20']
    """
    size = abs(value)
    if size == 0 or 0.01 <= size < LARGE:
        return f"{value:.{digits}f}"
    if LARGE <= size < HUGE:
        return f"{value:,.0f}"
    if 1e-4 <= size < 0.01:
        return f"{value:.{digits - 1 - math.floor(math.log10(size))}f}"
    return f"{value:.{max(0, digits - 1)}e}"


def with_spread(value: float, spread: float, digits: int = 3) -> str:
    """Write a number with its standard deviation, which has as many decimals, or one more.

    A deviation that these decimals would show as 0 has two significant digits.

    >>> with_spread(0.318, 0.0123), with_spread(0.318, 4.8e-4), with_spread(0.318, 2e-5)
    ('0.318 ± 0.012', '0.318 ± 0.0005', '0.318 ± 2.0e-05')
    >>> with_spread(1.234e-6, 5.6e-8)
    '1.23e-06 ± 6e-08'
    """
    text = significant(value, digits)
    decimals = len(text.partition(".")[2])
    fixed = f"{spread:.{decimals}f}"
    if float(fixed) == 0 and decimals:
        fixed = f"{spread:.{decimals + (spread > 0)}f}"
    if "e" in text and spread > 0:
        smaller = math.floor(math.log10(abs(value))) - math.floor(
            math.log10(spread)
        )  # so many places to the right of the number
        fixed = f"{spread:.{min(max(digits - smaller, 1), digits) - 1}e}"
    elif "e" in text:
        fixed = significant(0.0, digits)
    elif spread >= LARGE or (spread > 0 and float(fixed) == 0):
        fixed = significant(spread, 2)
    return f"{text} ± {fixed}"


def some(names: Sequence[str], at_most: int = 5) -> str:
    """Return the first names, and the number of the others.

    >>> some(["a", "b", "c"], at_most=2)
    'a, b and 1 more'
    """
    return ", ".join(names[:at_most]) + (
        f" and {len(names) - at_most} more" if len(names) > at_most else ""
    )


def printable(text: str) -> str:
    r"""Return ``text`` on one line, with control and direction characters as escapes.

    Names and cells of files go into messages. A line break in one must not end the line, nor an
    escape sequence reach the terminal.

    >>> print(printable("Revenue\n(USD)"))
    Revenue\n(USD)
    """
    hidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    return "".join(repr(c)[1:-1] if unicodedata.category(c) in hidden else c for c in text)


def print_note(line: str) -> None:
    """Print one line of the command line on stderr, whatever characters it contains."""
    print(f"kdg: {printable(line)}", file=sys.stderr, flush=True)


def reads_as_number(text: str) -> bool:
    """Return whether Python reads the text as a number.

    >>> reads_as_number("1e-3"), reads_as_number("1,5")
    (True, False)
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, without what C++ libraries put in front of it.

    >>> first_line(ValueError("[10:01:02] /src/json.cc:7: Unknown construct"))
    'Unknown construct'
    """
    text = re.sub(r"^\[[\d:]+\] \S+?:\d+: ", "", str(error).strip() or type(error).__name__)
    return text.split("\n")[0][:200]


_class_labels: ContextVar[Sequence[Any]] = ContextVar("class_labels", default=())
_group_names: ContextVar[Sequence[Any]] = ContextVar("group_names", default=())


@contextmanager
def use_class_names(labels: Sequence[Any], groups: Sequence[Any] = ()) -> Iterator[None]:
    """Name classes by these labels, of shape [K], in messages within the block.

    Otherwise they have their positions for names; ``groups`` are names of groups of rows.
    """
    tokens = _class_labels.set(labels), _group_names.set(groups)
    try:
        yield
    finally:
        _class_labels.reset(tokens[0])
        _group_names.reset(tokens[1])


def display_label(label: Any) -> str:
    """Return the name of a class for messages.

    >>> with use_class_names(["setosa", "virginica"]):
    ...     display_label(1), display_label("1"), display_label("any class")
    ('virginica', 'virginica', 'any class')
    >>> display_label(1)
    '1'
    """
    return _name_of(label, _class_labels.get())


def display_group(group: Any) -> str:
    """Return the name of a group of rows for messages.

    >>> with use_class_names([], ["rural", "urban"]):
    ...     display_group(1)
    'urban'
    """
    return _name_of(group, _group_names.get())


def _name_of(value: Any, names: Sequence[Any]) -> str:
    text = str(value)
    return str(names[int(text)]) if text.isdigit() and int(text) < len(names) else text
