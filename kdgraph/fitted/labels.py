"""Classes of a model and of the data: their order, and labels that name the same class.

A class may be 1 in the model, "1" in a file of text and 1.0 in one with types. Labels match in the
narrowest of three senses that fits all of them, and labels that differ stay different.
Original to kdgraph.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from kdgraph.data.frames.cells import format_cell
from kdgraph.errors import DataError
from kdgraph.wording import some

_TRUTH_VALUES = {"true": True, "false": False}
_MAX_LISTED = 8


def order_classes(
    path: str,
    of_model: Sequence[Any] | None,
    declared: Sequence[Any] | None,
    of_data: Sequence[Any],
) -> tuple[np.ndarray, np.ndarray]:
    """Return the classes of a parent, and the column of the outputs of each of them, Int[K].

    The classes are sorted: the labels of the model, in whose place the user may have declared
    others, or the positions of the labels of the data, where there are any. DataError is raised if
    the labels of the model are unknown, or the data has others; the path is for a warning.
    """
    given = of_model if declared is None else tuple(declared)
    if len(of_data):
        columns = _columns_of(path, given, list(of_data), is_declared=declared is not None)
        return np.arange(len(of_data)), columns
    if given is None:
        raise DataError("has no labels of its classes; give classes=[…]")
    labels = np.asarray(given)
    columns = np.argsort(labels, kind="stable")
    return labels[columns], columns


def _columns_of(
    path: str, given: Sequence[Any] | None, labels: list[Any], *, is_declared: bool
) -> np.ndarray:
    """Return the column of the outputs of each label of the data, Int[K]."""
    if given is None:
        return np.arange(len(labels))
    if (columns := match_labels(given, labels)) is not None:
        return columns
    shown = [some([str(label) for label in part], _MAX_LISTED) for part in (given, labels)]
    # Boosted trees number their classes, and encoders of labels do so in sorted order.
    if not is_declared and list(given) == list(range(len(labels))):
        warnings.warn(
            f"the model in {path} numbers its classes; number k is taken for the k-th of"
            f" {shown[1]} (another order: parent.classes=[…])",
            stacklevel=3,
        )
        return np.arange(len(labels))
    raise DataError(
        f"has the classes {shown[0]}, and the data has {shown[1]}; the rows must contain every"
        " class of the model and no other"
    )


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
    number = written_number(text)
    return ("text", text) if number is None else ("number", number)


def written_number(text: str) -> Decimal | None:
    """Return the number that a text writes, exactly; None for other text, NaN and infinities.

    >>> written_number("1.50"), written_number("1e3") == 1000, written_number("inf")
    (Decimal('1.5'), True, None)
    """
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number.normalize() if number.is_finite() else None
