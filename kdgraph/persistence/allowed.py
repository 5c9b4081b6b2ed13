"""Allow list of the classes and functions that a model file may contain.

This is the second line of defence, after the keyed digest of :mod:`kdgraph.persistence.archive`.
Even a trusted file consists of public estimators, layers and models of kdgraph only, plus the names
that the reader, or this user's run, has admitted. No other module is imported. Original to kdgraph.
"""

from __future__ import annotations

import copyreg
import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from types import FunctionType
from typing import Any

import numpy as np

from kdgraph.extras import missing_library, needs_library
from kdgraph.persistence.archive import LoadError, SaveError, UntrustedFileError
from kdgraph.persistence.sklearn_names import CLASSES, FUNCTIONS

# The library's packages with classes of fitted models, without the command line. Data sets are
# included, because a network that was trained with outliers refers to their data set.
_KDGRAPH_PACKAGES = """
    base calibration data density deployment detection distributions features fitted geometry
    metrics parents recalibration smoothing
"""
# Modules and classes of these packages whose objects read, write or fetch files, or record a
# computation.
_EXCLUDED_MODULES = (
    "kdgraph.data.files",
    "kdgraph.data.openml.client",
    "kdgraph.geometry.activations:Listener",
    "kdgraph.geometry.activations:Call",
    "kdgraph.parents.networks.checkpoint",
)
# Estimators of libraries of boosted trees. What they are fitted to is in the library's own format,
# see the module boosters.
_BOOSTING_CLASSES = frozenset(
    (
        "lightgbm.sklearn:LGBMClassifier",
        "lightgbm.sklearn:LGBMRegressor",
        "xgboost.sklearn:XGBClassifier",
        "xgboost.sklearn:XGBRegressor",
        "xgboost.sklearn:XGBRFClassifier",
        "xgboost.sklearn:XGBRFRegressor",
    )
)
_TORCH_PACKAGE = "torch.nn.modules"
# Its public functions compute with their arguments only. A file names the module of the definition,
# so that a name leads to one function only.
_TORCH_FUNCTIONS = "torch.nn.functional"
_NAME_PATTERN = re.compile(r"[\w.]+:[\w.]+")
# Flag of types that are defined in Python (Py_TPFLAGS_HEAPTYPE), unlike most compiled ones.
_HEAP_TYPE = 1 << 9
BUILTIN_TYPES = {
    cls.__name__: cls for cls in (bool, int, float, complex, str, bytes, list, tuple, dict, set)
}
"""Builtin classes that a value may refer to, such as ``OneHotEncoder(dtype=float)`` does."""


def qualified_name(cls: Any) -> str:
    """Return the name ``package.module:Class`` of a class or a function.

    SaveError is raised if importing it gives another object, as for a class defined in a function.
    """
    name = f"{cls.__module__}:{cls.__qualname__}"
    try:
        target = _import_by_name(name)
    except (ImportError, AttributeError, ValueError):
        target = None
    if target is not cls:
        raise SaveError(
            f"{cls.__qualname__} of {cls.__module__} cannot be saved: it must stand in a module"
            " that can be imported"
        )
    return name


def import_class(name: str) -> type:
    """Return the class of a name that :func:`unlisted_names` has checked."""
    return _import_checked(name, type)


def import_function(name: str) -> Any:
    """Return the function of a name that :func:`unlisted_names` has checked."""
    return _import_checked(name, FunctionType)


def _import_checked(name: str, required_type: type) -> Any:
    try:
        target = _import_by_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        if library := missing_library(error):
            raise LoadError(needs_library("", library)) from error
        raise LoadError(f"cannot be read by this version (no {name}: {error})") from error
    # A module of the list may have imported a class or function of a module that is not listed.
    if (
        not isinstance(target, required_type)
        or f"{target.__module__}:{target.__qualname__}" != name
    ):
        raise LoadError(f"cannot be read by this version ({name} is another thing)")
    return target


def is_plain_object(cls: type) -> bool:
    """Return True if objects of this class are their fields only, without special pickling."""
    return (
        bool(cls.__flags__ & _HEAP_TYPE)
        and cls.__reduce__ is object.__reduce__
        and cls.__reduce_ex__ is object.__reduce_ex__
        and cls not in copyreg.dispatch_table
    )


def unlisted_names(
    classes: Iterable[str], functions: Iterable[str] = (), called: Iterable[str] = ()
) -> list[str]:
    """Return the names ``package.module:name``, sorted, that are not on the allow list.

    ``called`` are names that objects import or call
    (:func:`~kdgraph.persistence.checks.imported_names`), none of which is listed. ValueError is
    raised if a class or function has an invalid name.

    >>> unlisted_names(["sklearn.tree._classes:DecisionTreeClassifier", "subprocess:Popen"])
    ['subprocess:Popen']
    """
    classes, functions = list(classes), list(functions)
    if not all(_NAME_PATTERN.fullmatch(name) for name in (*classes, *functions)):
        raise ValueError("a class has a name that none can have")
    unlisted = {name for name in classes if not _is_listed_class(name)}
    unlisted |= {name for name in functions if not _is_listed_function(name)}
    return sorted(unlisted | set(called))


def check_admitted(names: Iterable[str], admitted: Sequence[str]) -> None:
    """Raise UntrustedFileError unless all names of :func:`unlisted_names` are admitted.

    Classes and functions are admitted, or modules and packages with all their content, with dots or
    a colon.
    """
    rejected = [name for name in names if not _is_below(name, admitted)]
    if rejected:
        shown = ", ".join(name.replace(":", ".") for name in rejected[:3])
        shown += f" and {len(rejected) - 3} more" if len(rejected) > 3 else ""
        raise UntrustedFileError(f"needs what is not known to be harmless: {shown}", rejected)


def is_listed(cls: type) -> bool:
    """Return whether the class is on the allow list."""
    return _is_listed_class(f"{cls.__module__}:{cls.__qualname__}")


def is_plain_type(cls: type) -> bool:
    """Return True if a value may be this class itself, such as ``float``; calls of it are pure."""
    return BUILTIN_TYPES.get(cls.__name__) is cls or issubclass(cls, np.generic)


def is_public_class(name: str) -> bool:
    """Return whether a file of any origin may contain the class, ``package.module:Class``.

    These are scalar types of NumPy, and the closed list of scikit-learn's classes.

    >>> is_public_class("sklearn.svm._classes:SVC"), is_public_class("kdgraph.fitted:FittedParent")
    (True, False)
    """
    module, _, qualified = name.partition(":")
    if module == "numpy":
        cls = getattr(np, qualified, None)
        return isinstance(cls, type) and issubclass(cls, np.generic)
    return name in CLASSES


def _is_listed_class(name: str) -> bool:
    module, _, qualified = name.partition(":")
    package, *inner = module.split(".")
    if is_public_class(name):
        return True
    if package == "kdgraph":
        return (
            bool(inner)
            and inner[0] in _KDGRAPH_PACKAGES.split()
            and not _is_below(module, _EXCLUDED_MODULES)
            and name not in _EXCLUDED_MODULES
        )
    if name in _BOOSTING_CLASSES:
        return True
    return module.startswith(f"{_TORCH_PACKAGE}.") and not qualified.startswith("_")


def _is_listed_function(name: str) -> bool:
    module, _, qualified = name.partition(":")
    return name in FUNCTIONS or (module == _TORCH_FUNCTIONS and not qualified.startswith("_"))


def _is_below(name: str, packages: Sequence[str]) -> bool:
    name = name.replace(":", ".")
    return any(
        name == package or name.startswith(f"{package}.")
        for package in (listed.replace(":", ".") for listed in packages)
    )


def _import_by_name(name: str) -> Any:
    module, _, qualified = name.partition(":")
    target: Any = import_module(module)
    for part in qualified.split("."):
        target = getattr(target, part)
    return target
