"""The classes that may be made from a file, by name: nothing is imported before its name was found here."""

from __future__ import annotations

import copyreg
from collections.abc import Iterable, Sequence
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from kdgraph.persistence.errors import CannotLoad, CannotSave, Untrusted

_PACKAGES = ("kdgraph", "sklearn", "torch.nn.modules")
_FUNCTIONS_OF = (
    "sklearn.cluster._kmeans",
    "sklearn.feature_selection._mutual_info",
    "sklearn.feature_selection._univariate_selection",
    "sklearn.metrics._classification",
    "sklearn.metrics._ranking",
    "sklearn.metrics.pairwise",
    "torch.nn.functional",
)
"""Modules whose functions a model may keep; others of scikit-learn and torch fetch data or write files."""
_BARRED = ("tests", "conftest", "externals")
"""Parts of these packages that no model is made of."""
_HEAP_TYPE = 1 << 9
"""Flag of a type that is no compiled one (Py_TPFLAGS_HEAPTYPE)."""
BUILTIN = {kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set)}
"""Classes that a value may refer to, as scikit-learn's ``dtype=float`` does."""


def name_of(cls: Any) -> str:
    """``package.module:Class`` of a class or a function.

    Raises
    ------
    CannotSave
        If it is not found again under that name, such as a class that a function has made.
    """
    name = f"{cls.__module__}:{cls.__qualname__}"
    try:
        found = _found(name)
    except (ImportError, AttributeError, ValueError):
        found = None
    if found is not cls:
        raise CannotSave(f"{cls.__qualname__} of {cls.__module__} cannot be saved: it must stand in a module that can be imported")
    return name


def class_of(name: str) -> type:
    """The class of that name, which was found to be allowed."""
    return _checked(name, type)


def function_of(name: str) -> Any:
    """The function of that name, which was found to be allowed."""
    return _checked(name, FunctionType)


def _checked(name: str, kind: type) -> Any:
    try:
        found = _found(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise CannotLoad(f"cannot be read by this version (no {name}: {error})") from error
    if not isinstance(found, kind) or f"{found.__module__}:{found.__qualname__}" != name:
        raise CannotLoad(f"cannot be read by this version ({name} is another thing)")
    return found


def is_its_fields(cls: type) -> bool:
    """Whether an object of this class is its fields and nothing else: written in Python, and taken apart as any such object is."""
    in_python = bool(cls.__flags__ & _HEAP_TYPE)
    usual = cls.__reduce__ is object.__reduce__ and cls.__reduce_ex__ is object.__reduce_ex__ and cls not in copyreg.dispatch_table
    return in_python and usual


def check_allowed(classes: Iterable[str], functions: Iterable[str] = (), trusted: Sequence[str] = ()) -> None:
    """Raise Untrusted unless every class is of kdgraph, of scikit-learn, a layer of torch, or trusted; of functions there are fewer.

    Parameters
    ----------
    classes, functions : ``package.module:name``.
    trusted : classes and functions, or modules and packages with all that is below them, with points or a colon.
    """
    strange = {name for name in classes if not (_is_known(name) or _is_below(name, trusted))}
    strange |= {name for name in functions if not (name.partition(":")[0] in _FUNCTIONS_OF or _is_below(name, trusted))}
    if strange:
        shown = ", ".join(name.replace(":", ".") for name in sorted(strange)[:3])
        shown += f" and {len(strange) - 3} more" if len(strange) > 3 else ""
        raise Untrusted(f"needs what is not known to be harmless: {shown}", sorted(strange))


def _is_known(name: str) -> bool:
    module, _, qualified = name.partition(":")
    if module == "numpy":
        return isinstance(kind := getattr(np, qualified, None), type) and issubclass(kind, np.generic)
    return _is_below(module, _PACKAGES) and not set(module.split(".")) & set(_BARRED)


def _is_below(name: str, known: Sequence[str]) -> bool:
    name = name.replace(":", ".")
    return any(name == each or name.startswith(f"{each}.") for each in (one.replace(":", ".") for one in known))


def _found(name: str) -> Any:
    module, _, qualified = name.partition(":")
    found: Any = import_module(module)
    for part in qualified.split("."):
        found = getattr(found, part)
    return found
