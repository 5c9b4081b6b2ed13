"""Types and ranges of parameters, written once as annotations of ``__init__``.

``alpha: Fraction = 0.005`` is documentation, the check in ``fit`` and the check of
``calibrator.alpha=…`` on the command line.
"""

from __future__ import annotations

import inspect
import math
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from numbers import Integral, Real
from typing import Annotated, Any, Literal, Union

from kdgraph.errors import ParameterError
from kdgraph.quoting import override


@dataclass(frozen=True)
class Range:
    """An interval of numbers; ``closed`` names the ends that belong to it."""

    low: float
    high: float = math.inf
    closed: Literal["both", "left", "right", "neither"] = "left"

    def __contains__(self, value: float) -> bool:
        above = value >= self.low if self.closed in ("both", "left") else value > self.low
        below = value <= self.high if self.closed in ("both", "right") else value < self.high
        return above and below

    def __str__(self) -> str:
        left = "[" if self.closed in ("both", "left") else "("
        right = "]" if self.closed in ("both", "right") else ")"
        return f"{left}{self.low:g}, {self.high:g}{right}"


Count = Annotated[int, Range(1)]
"""An integer from 1."""
Seed = Annotated[int, Range(0)]
"""A seed of NumPy's generators: an integer from 0, of any size."""
Positive = Annotated[float, Range(0, closed="neither")]
"""A number above 0."""
NonNegative = Annotated[float, Range(0)]
"""A number from 0."""
Fraction = Annotated[float, Range(0, 1, "right")]
"""A share in (0, 1]."""
ClosedFraction = Annotated[float, Range(0, 1, "both")]
"""A share in [0, 1]."""
OpenFraction = Annotated[float, Range(0, 1, "neither")]
"""A share in (0, 1)."""
CalibrationMode = Literal["held_out", "oob", "cross_fit"]
"""Outputs that calibrate what is fitted after a parent.

"held_out": those for rows that the parent is not fitted on. "oob": those for all rows, each
predicted by the trees of a bagged forest that were not fitted on it. "cross_fit": those for all
rows, each predicted by a parent that was fitted on the other folds.
"""
Protocol = Literal["strict", "paper"]
"""strict: no component is fitted with test rows or OOD rows. paper: those are whose paper does so,
and tables mark it.
"""
Unseen = Literal["refuse", "missing"]
"""Treatment of a category that a model was not fitted with: an error, or a missing value."""
RequiredPartition = Literal["trees", "forest", "network"]
"""Partition that a component needs of its parent: of trees of any kind, of a forest, or of a
network.
"""

_WORDS = {
    int: "an integer",
    float: "a number",
    bool: "true or false",
    str: "a string",
    type(None): "null",
}


def check_value(name: str, value: Any, annotation: Any) -> None:
    """Raise :class:`ParameterError` unless ``value`` fits ``annotation``.

    Knows ``int``, ``float`` (integers too), ``bool``, ``str``, ``None``, ``Literal``, unions,
    ``Annotated[…, Range]``, sequences and mappings; every other annotation is taken as
    documentation.

    >>> check_value("alpha", 0.2, Fraction)
    >>> check_value("alpha", -0.2, Fraction)
    Traceback (most recent call last):
    ...
    kdgraph.errors.ParameterError: alpha must be in (0, 1], got -0.2
    """
    problem = _problem(value, annotation)
    if problem:
        raise ParameterError(
            f"{name} must be {problem}, got {value!r}{_as_text_or_list(name, value, annotation)}"
        )


def _as_text_or_list(name: str, value: Any, annotation: Any) -> str:
    """Return the override that gives the number as text or the value as a list, if one is valid.

    A column may be named 1, which a command line reads as a number. Only keys of a config, which
    have a group in front, have overrides.
    """
    items = value if isinstance(value, list | tuple) else [value]
    plain = all(
        isinstance(item, str | float | int) and not isinstance(item, bool) for item in items
    )
    if "." not in name or not items or not plain:
        return ""
    texts = [str(item) for item in items]
    alone = [texts[0]] if items is not value else []
    for candidate in (*alone, list(items), texts):
        if candidate != value and _problem(candidate, annotation) is None:
            return f"; write {override(name, candidate)}"
    return ""


def allows_null(annotation: Any) -> bool:
    """Return whether ``None`` is a value of this annotation."""
    return _problem(None, annotation) is None


def check_parameters(component: Any, prefix: str = "") -> None:
    """Check every annotated ``__init__`` parameter of an estimator, by its attribute."""
    for name, annotation in annotations_of(type(component)).items():
        check_value(prefix + name, getattr(component, name), annotation)


def annotations_of(factory: Any) -> dict[str, Any]:
    """Return the annotations of a class's ``__init__`` or of a function, by parameter."""
    return dict(_annotations(factory))


# Called in every fit and for every point of a sweep; evaluating annotations takes a millisecond.
@cache
def _annotations(factory: Any) -> dict[str, Any]:
    owner = (
        next(cls for cls in inspect.getmro(factory) if "__init__" in vars(cls))
        if inspect.isclass(factory)
        else None
    )
    made_of = () if owner is None or "__dataclass_fields__" not in vars(owner) else fields(owner)
    try:
        # Of a dataclass its fields, whose words mean what they do in the module of their own class;
        # __init__ only has copies of the words.
        hints = typing.get_type_hints(
            owner if made_of else owner.__init__ if owner else factory, include_extras=True
        )
    except (
        NameError,
        TypeError,
    ):  # annotations of another library that only its type checker can read
        return {}
    hints.pop("return", None)
    return {field.name: hints[field.name] for field in made_of if field.init} if made_of else hints


def _problem(value: Any, annotation: Any) -> str | None:
    """Return the rule that ``value`` breaks, in words; None if it breaks none."""
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if annotation is Any or annotation is inspect.Parameter.empty:
        return None
    if origin is Annotated:
        return _problem_in_range(value, args[0], args[1:])
    if origin in (Union, types.UnionType):
        return _problem_in_union(value, args)
    if origin is Literal:
        return None if value in args else "one of " + ", ".join(str(a) for a in args)
    if annotation in _WORDS:
        return None if _is_a(value, annotation) else _WORDS[annotation]
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return _problem_in_sequence(value, args)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return None if isinstance(value, Mapping) else "a mapping"
    return None


def _is_a(value: Any, kind: type) -> bool:
    if kind is int:
        return isinstance(value, Integral) and not isinstance(value, bool)
    if kind is float:
        return isinstance(value, Real) and not isinstance(value, bool) and not math.isnan(value)
    return isinstance(value, kind)


def _problem_in_range(value: Any, kind: Any, rules: tuple[Any, ...]) -> str | None:
    problem = _problem(value, kind)
    ranges = [rule for rule in rules if isinstance(rule, Range)]
    if problem:
        return " ".join([problem, *(f"in {rule}" for rule in ranges)])
    outside = [rule for rule in ranges if value not in rule]
    return f"in {outside[0]}" if outside else None


def _problem_in_union(value: Any, options: tuple[Any, ...]) -> str | None:
    problems = [_problem(value, option) for option in options]
    if None in problems:
        return None
    return " or ".join(dict.fromkeys(p for p in problems if p))


def _problem_in_sequence(value: Any, args: tuple[Any, ...]) -> str | None:
    if isinstance(value, str) or not (isinstance(value, Sequence) or hasattr(value, "__array__")):
        return "a list"
    kind = args[0] if args else Any
    problems = [p for p in (_problem(item, kind) for item in value) if p]
    return f"a list of which each is {problems[0]}" if problems else None
