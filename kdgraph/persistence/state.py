"""Checks of the state of objects from a file: data, under names that replace nothing of a class.

A method runs with whatever its object holds, so an allow list of classes alone is no boundary: an
attribute that shadows a method, the name of a method in a field, or a hook of a layer would let the
file choose what is called.
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
from kdgraph.persistence.allowed import is_ours

_METHOD_NAMES = ("response_method", "_response_method", "stack_method", "stack_method_", "chain_method", "chain_method_")
"""Fields by which scikit-learn's scorers, stacks, chains and thresholds call methods with rows."""
_PREDICTS = ("predict", "predict_proba", "predict_log_proba", "decision_function")
_CHOICES = ("auto", "default", "drop", None)
_PLAIN = (bool, int, float, str)
"""Types of class attributes that objects of scikit-learn override (``LassoLars.positive``)."""
_PACKAGES = ("kdgraph", "sklearn", "torch", "builtins", "abc", "collections", "typing")


def check_state(cls: type, state: Any) -> None:
    """Raise ValueError if ``state`` would replace something that ``cls`` defines.

    Parameters
    ----------
    state : a dict by name, a tuple of such dicts (one for slots), or a state that only
        ``__setstate__`` of the class can read.
    """
    for attributes in state if isinstance(state, tuple) else (state,):
        for name, value in attributes.items() if isinstance(attributes, dict) else ():
            if not isinstance(name, str) or name.startswith("__"):
                raise ValueError(f"{name!r} cannot be an attribute of a {cls.__qualname__}")
            required = _required_type(cls, name)
            if required is not None and type(value) is not required:
                raise ValueError(f"an attribute would replace {cls.__qualname__}.{name}")


def called_names(value: Any) -> Sequence[str]:
    """Return what ``value`` imports or calls by a name that it holds.

    Its class has a method ``called_names`` if there is such a name.
    """
    method = getattr(type(value), "called_names", None)
    return () if method is None else method(value)


@cache
def checks_of(cls: type) -> tuple[Callable[[Any], None], ...]:
    """Return the checks of a complete object of ``cls``, each of which raises ValueError."""
    checks: list[Callable[[Any], None]] = []
    if is_ours(cls) and cls.__module__.startswith("kdgraph.") and (is_dataclass(cls) or issubclass(cls, BaseEstimator)):
        checks.append(_check_parameters)
    if any(base.__module__.startswith("sklearn.") for base in cls.__mro__):
        checks.append(_check_method_names)
    if "torch" in sys.modules and issubclass(cls, sys.modules["torch"].nn.Module):
        from kdgraph.persistence.tensors import check_module

        checks.append(check_module)
    return tuple(checks)


def _check_parameters(value: Any) -> None:
    """Hold the parameters of one of kdgraph's own classes to its annotations."""
    state = vars(value) if hasattr(value, "__dict__") else {}
    for name, annotation in annotations_of(type(value)).items():
        if name in state:
            check_value(name, state[name], annotation)


def _check_method_names(value: Any) -> None:
    """Raise ValueError unless fields that name methods name those that predict."""
    state = getattr(value, "__dict__", {})
    for field in state.keys() & set(_METHOD_NAMES):
        methods = state[field] if isinstance(state[field], list | tuple) else [state[field]]
        for method in methods:
            # A value that is no text may define equality as it likes.
            if not (method is None or isinstance(method, str)) or method not in (*_PREDICTS, *_CHOICES):
                words = f"names {method!r}, which is no method that predicts"
                raise ValueError(f"{field} of a {type(value).__qualname__} {words}")


class _Nothing:
    """The type that no value has."""


@cache
def _required_type(cls: type, name: str) -> type | None:
    """Return the type that an attribute of this name must have in an object of ``cls``; None: any.

    What the class defines under the name stays as it is, unless it is the default of a field of a
    dataclass, a slot, or a property that keeps its value there. Classes of the user's own may do as
    they like: who admits one by name trusts it.
    """
    base = next((base for base in cls.__mro__ if name in vars(base)), None)
    if base is None or (is_dataclass(cls) and any(field.name == name for field in fields(cls))):
        return None
    attribute, package = vars(base)[name], base.__module__.partition(".")[0]
    if package not in _PACKAGES or isinstance(attribute, MemberDescriptorType | cached_property):
        return None
    return type(attribute) if package == "sklearn" and type(attribute) in _PLAIN else _Nothing
