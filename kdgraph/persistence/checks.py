"""Checks of objects that are read from a file.

A method runs with the attributes of its object, so an allow list of classes alone is insufficient:
an attribute that shadows a method, the name of a method in a field, or a hook of a layer would let
the file choose what is called. Original to kdgraph.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from types import MemberDescriptorType
from typing import Any

from sklearn.base import BaseEstimator

from kdgraph.parameters import annotations_of, check_value
from kdgraph.persistence.allowed import is_listed

# Fields by which scikit-learn's scorers, stacks, chains and thresholds call methods of their
# estimators, and the values that they may have.
_METHOD_FIELDS = (
    "response_method",
    "_response_method",
    "stack_method",
    "stack_method_",
    "chain_method",
    "chain_method_",
)
_PREDICTION_METHODS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
_METHOD_CHOICES = ("auto", "default", "drop", None)
# Types of class attributes that objects of scikit-learn override, such as LassoLars.positive.
_PLAIN_TYPES = (bool, int, float, str)
_PROTECTED_PACKAGES = ("kdgraph", "sklearn", "torch", "builtins", "abc", "collections", "typing")


def check_state(cls: type, state: Any) -> None:
    """Raise ValueError if ``state`` would replace something that ``cls`` defines.

    A state is a dict of attributes by name, or a tuple of such dicts, the second for slots. Any
    other state is for the ``__setstate__`` of the class alone, and is not checked.
    """
    for attributes in state if isinstance(state, tuple) else (state,):
        for name, value in attributes.items() if isinstance(attributes, dict) else ():
            if not isinstance(name, str) or name.startswith("__"):
                raise ValueError(f"{name!r} cannot be an attribute of a {cls.__qualname__}")
            required = _required_attribute_type(cls, name)
            if required is not None and type(value) is not required:
                raise ValueError(f"an attribute would replace {cls.__qualname__}.{name}")


def imported_names(value: Any) -> Sequence[str]:
    """Return the names of what ``value`` imports or calls because an attribute names it.

    The method ``imported_names`` of its class returns them, such as the factory of a network that
    ``EncoderNetwork.model`` names; other classes have none.
    """
    method = getattr(type(value), "imported_names", None)
    return () if method is None else method(value)


@cache
def object_checks(cls: type) -> tuple[Callable[[Any], None], ...]:
    """Return the checks of complete objects of ``cls``; each of them raises ValueError."""
    checks: list[Callable[[Any], None]] = []
    if (
        is_listed(cls)
        and cls.__module__.startswith("kdgraph.")
        and (is_dataclass(cls) or issubclass(cls, BaseEstimator))
    ):
        checks.append(_check_parameters)
    if any(base.__module__.startswith("sklearn.") for base in cls.__mro__):
        checks.append(_check_method_names)
    if "torch" in sys.modules and issubclass(cls, sys.modules["torch"].nn.Module):
        from kdgraph.persistence.tensors import check_torch_module

        checks.append(check_torch_module)
    return tuple(checks)


def _check_parameters(value: Any) -> None:
    state = vars(value) if hasattr(value, "__dict__") else {}
    for name, annotation in annotations_of(type(value)).items():
        if name in state:
            check_value(name, state[name], annotation)


def _check_method_names(value: Any) -> None:
    """Raise ValueError if a field that names a method names one that does not predict."""
    state = getattr(value, "__dict__", {})
    for field in state.keys() & set(_METHOD_FIELDS):
        methods = state[field] if isinstance(state[field], list | tuple) else [state[field]]
        for method in methods:
            # The type is checked first, because other types may define equality freely.
            if not (method is None or isinstance(method, str)) or method not in (
                *_PREDICTION_METHODS,
                *_METHOD_CHOICES,
            ):
                raise ValueError(
                    f"{field} of a {type(value).__qualname__} names {method!r}, which is no method"
                    " that predicts"
                )


class _NoValue:
    """Type without objects: an attribute that requires it cannot be set."""


@cache
def _required_attribute_type(cls: type, name: str) -> type | None:
    """Return the type that an attribute of this name must have in objects of ``cls``; None: any.

    A member of the class cannot be replaced, unless it is the default of a field of a dataclass, a
    slot, or a cached property. Classes outside the protected packages are not checked, because a
    user who admits one by name trusts it.
    """
    base = next((base for base in cls.__mro__ if name in vars(base)), None)
    if base is None or (is_dataclass(cls) and any(field.name == name for field in fields(cls))):
        return None
    attribute, package = vars(base)[name], base.__module__.partition(".")[0]
    if package not in _PROTECTED_PACKAGES or isinstance(
        attribute, MemberDescriptorType | cached_property
    ):
        return None
    return type(attribute) if package == "sklearn" and type(attribute) in _PLAIN_TYPES else _NoValue
