"""Labels of a model and of the data that name the same classes, in the types of both.

A class may be 1 in the model, "1" in a file of text and 1.0 in one with types. Labels match in the
narrowest of three senses that fits all of them, and labels that differ stay different.
Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from kdgraph.data.frames.cells import format_cell

_TRUTH_VALUES = {"true": True, "false": False}


def match_labels(given: Sequence[Any], wanted: Sequence[Any]) -> np.ndarray | None:
    """Return the position among the labels of a model of each label of the data.

    Parameters
    ----------
    given : sequence of K labels
        Labels of the model.
    wanted : sequence of K labels
        Labels of the data.

    Returns
    -------
    Int[K] or None
        None if they are other labels. Labels match by type and value; else as text, so that 1 is
        "1"; else as numbers and truth values that are written in text, so that "1e3" is 1000 and
        "true" is True. A sense in which two labels of one side are equal is none.

    Examples
    --------
    >>> match_labels(["no", "yes"], ["yes", "no"]).tolist(), match_labels([0, 1], ["01", "0"])
    ([1, 0], array([1, 0]))
    >>> match_labels([1000, 1], ["1e3", "1000"]) is None
    True
    """
    for key in (_typed, label_text, _number):
        own, others = ([key(label) for label in labels] for labels in (given, wanted))
        if len(set(own)) == len(own) and set(own) == set(others) and len(own) == len(others):
            position = {label: k for k, label in enumerate(own)}
            return np.array([position[label] for label in others], dtype=np.int64)
    return None


def label_text(label: Any) -> str:
    """Return a label as text, whole numbers without a fraction.

    >>> label_text(2.0), label_text("2.0"), label_text(True)
    ('2', '2.0', 'True')
    """
    return format_cell(label)


def _typed(label: Any) -> Hashable:
    is_truth = isinstance(label, bool | np.bool_)
    return ("truth value" if is_truth else "text" if isinstance(label, str) else "number"), label


def _number(label: Any) -> Hashable:
    """Return the number or truth value that a label writes, digit by digit; else its text."""
    text = label_text(label).strip()
    if text.lower() in _TRUTH_VALUES:
        return "truth value", _TRUTH_VALUES[text.lower()]
    try:
        number = Decimal(text)
    except InvalidOperation:
        return "text", text
    return ("number", number.normalize()) if number.is_finite() else ("text", text)
