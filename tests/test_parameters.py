"""Checks that are read from annotations: what passes, what does not, and the whole sentence that
the user reads.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kdgraph.errors import ParameterError, UsageError
from kdgraph.parameters import (
    ClosedFraction,
    Count,
    Fraction,
    NonNegative,
    OpenFraction,
    Positive,
    Range,
    annotations_of,
    check_parameters,
    check_value,
)

ACCEPTED = [
    (1, Count),
    (np.int64(3), Count),
    (0.5, Fraction),
    (1, Fraction),
    (np.float32(0.25), OpenFraction),
    (0, ClosedFraction),
    (1.0, ClosedFraction),
    (0, NonNegative),
    (1e-300, Positive),
    (math.inf, float),
    (3, float),
    (True, bool),
    ("anything", str),
    (None, int | None),
    (2, int | None),
    ("auto", Positive | Literal["auto"]),
    (0.3, Positive | Literal["auto"]),
    ([0, 0.5, 2], Sequence[NonNegative]),
    ((1, 2), Sequence[int]),
    (np.array([0.1, 0.2]), Sequence[Positive]),
    ([], Sequence[int]),
    ([1], list[int]),
    ({"a": 1}, Mapping[str, int]),
    (..., Any),
    (..., np.ndarray),  # other annotations are documentation
]
REFUSED = [
    (0, Count, "x must be in [1, inf), got 0"),
    (1.0, Count, "x must be an integer in [1, inf), got 1.0"),
    (True, Count, "x must be an integer in [1, inf), got True"),
    ("3", Count, "x must be an integer in [1, inf), got '3'"),
    (0, Fraction, "x must be in (0, 1], got 0"),
    (1.5, Fraction, "x must be in (0, 1], got 1.5"),
    (0, OpenFraction, "x must be in (0, 1), got 0"),
    (1, OpenFraction, "x must be in (0, 1), got 1"),
    (-0.1, ClosedFraction, "x must be in [0, 1], got -0.1"),
    (0, Positive, "x must be in (0, inf), got 0"),
    (-1, NonNegative, "x must be in [0, inf), got -1"),
    (math.nan, float, "x must be a number, got nan"),
    (math.nan, NonNegative, "x must be a number in [0, inf), got nan"),
    (True, float, "x must be a number, got True"),
    (1, bool, "x must be true or false, got 1"),
    (1, str, "x must be a string, got 1"),
    (None, int, "x must be an integer, got None"),
    (1.5, int | None, "x must be an integer or null, got 1.5"),
    (
        "automatic",
        Positive | Literal["auto"],
        "x must be a number in (0, inf) or one of auto, got 'automatic'",
    ),
    (0, Positive | Literal["auto"], "x must be in (0, inf) or one of auto, got 0"),
    ("c", Literal["a", "b"], "x must be one of a, b, got 'c'"),
    ([1, -1], Sequence[NonNegative], "x must be a list of which each is in [0, inf), got [1, -1]"),
    ([1, "b"], Sequence[int], "x must be a list of which each is an integer, got [1, 'b']"),
    (3, Sequence[int], "x must be a list, got 3"),
    ("0, 1", Sequence[float], "x must be a list, got '0, 1'"),
    ("ab", list[str], "x must be a list, got 'ab'"),
    ("ab", Sequence[float] | None, "x must be a list or null, got 'ab'"),
    ([1], Mapping[str, int], "x must be a mapping, got [1]"),
]


@pytest.mark.parametrize(("value", "annotation"), ACCEPTED, ids=str)
def test_values_that_pass(value, annotation):
    check_value("x", value, annotation)


@pytest.mark.parametrize(("value", "annotation", "message"), REFUSED, ids=str)
def test_values_that_are_refused(value, annotation, message):
    with pytest.raises(ParameterError) as caught:
        check_value("x", value, annotation)
    assert str(caught.value) == message


def test_parameter_error_is_a_value_error_with_exit_code_two():
    with pytest.raises(ValueError, match="must be") as caught:
        check_value("alpha", -0.2, Fraction)
    assert isinstance(caught.value, UsageError)
    assert caught.value.exit_code == 2


@given(
    low=st.floats(-5, 5),
    width=st.floats(0, 5),
    closed=st.sampled_from(["both", "left", "right", "neither"]),
    value=st.floats(-20, 20) | st.sampled_from(["low", "high"]),
)
def test_an_interval_contains_its_closed_ends_only(low, width, closed, value):
    high = low + width
    value = {"low": low, "high": high}.get(value, value) if isinstance(value, str) else value
    interval = Range(low, high, closed)
    left, right = str(interval)[0] == "[", str(interval)[-1] == "]"
    assert (value in interval) == (
        (low < value or (left and low == value)) and (value < high or (right and value == high))
    )


class Component:
    def __init__(
        self,
        size: Count,
        share: Annotated[float, Range(0, 1, "both"), "documentation"] = 0.5,
        anything=None,
    ):
        self.size, self.share, self.anything = size, share, anything


def test_a_component_is_checked_under_its_own_names():
    check_parameters(Component(3))
    with pytest.raises(ParameterError) as caught:
        check_parameters(Component(3, share=2), prefix="gate.")
    assert str(caught.value) == "gate.share must be in [0, 1], got 2"


def test_annotations_of_classes_functions_and_other_libraries():
    def function(a: int, b="x") -> str:
        return b * a

    class Foreign:
        def __init__(self, x: NotImported): ...  # noqa: F821

    assert list(annotations_of(Component)) == ["size", "share"]
    assert annotations_of(function) == {"a": int}
    assert annotations_of(Foreign) == {}


@pytest.mark.parametrize(
    ("value", "annotation", "way_out"),
    [
        (1, str, "; write 'dataset.x=\"1\"'"),
        (0.5, str | None, "; write 'dataset.x=\"0.5\"'"),
        (7, Sequence[str], "; write 'dataset.x=[\"7\"]'"),
        ("a b", Sequence[str], "; write 'dataset.x=[\"a b\"]'"),
        ([1, "a"], Sequence[str], "; write 'dataset.x=[\"1\",a]'"),
        (-1, Sequence[str | float], "; write 'dataset.x=[-1]'"),
        (0.5, Sequence[float], "; write 'dataset.x=[0.5]'"),
        (-1, Count, ""),
        (True, str, ""),
        ([], str, ""),
        ("abc", float, ""),
    ],
)
def test_error_of_a_wrong_type_has_the_override(value, annotation, way_out):
    with pytest.raises(ParameterError) as caught:
        check_value("dataset.x", value, annotation)
    assert str(caught.value).endswith(f", got {value!r}{way_out}")
    with pytest.raises(ParameterError) as caught:
        check_value(
            "x", value, annotation
        )  # of an estimator in Python, where no override is pasted
    assert str(caught.value).endswith(f", got {value!r}")
