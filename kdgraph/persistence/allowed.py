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

from kdgraph.persistence.archive import LoadError, SaveError, UntrustedFileError

_KDGRAPH_PACKAGES = """
    base calibration data density detection distributions features geometry metrics parents
    recalibration smoothing
"""
"""Packages of kdgraph that models are made of, and nothing of the command line.

A network that learnt from outliers holds the data set that they came from.
"""
_EXCLUDED_MODULES = (
    "kdgraph.data.files",
    "kdgraph.data.openml.client",
    "kdgraph.geometry.activations:Listener",
    "kdgraph.geometry.activations:Call",
    "kdgraph.parents.networks.checkpoint",
)
"""Modules among these whose objects read, write or fetch files, or watch a computation."""
_SKLEARN_PACKAGES = """
    calibration cluster compose covariance cross_decomposition decomposition
    discriminant_analysis dummy ensemble feature_extraction feature_selection frozen
    gaussian_process impute isotonic kernel_approximation kernel_ridge linear_model manifold
    mixture model_selection multiclass multioutput naive_bayes neighbors neural_network
    pipeline preprocessing random_projection semi_supervised svm tree
"""
_SKLEARN_MODULES = ("sklearn._loss.link", "sklearn._loss.loss")
"""Modules of estimators and losses of scikit-learn, whose public classes a model may contain."""
_SKLEARN_PRIVATE_CLASSES = frozenset(
    f"sklearn.{name}"
    for name in (
        "calibration:_CalibratedClassifier",
        "calibration:_SigmoidCalibration",
        "calibration:_TemperatureScaling",
        "cluster._birch:_CFNode",
        "cluster._birch:_CFSubcluster",
        "cluster._bisect_k_means:_BisectingTree",
        "ensemble._hist_gradient_boosting.binning:_BinMapper",
        "gaussian_process._gpc:_BinaryGaussianProcessClassifierLaplace",
        "metrics._scorer:_CurveScorer",
        "metrics._scorer:_PassthroughScorer",
        "metrics._scorer:_Scorer",
        "utils._bunch:Bunch",
        "utils._metadata_requests:MetadataRequest",
        "utils._metadata_requests:MethodMetadataRequest",
    )
)
"""Classes of other packages, and private ones, that fitted estimators hold.

They are attributes of fitted public estimators (``CalibratedClassifierCV``, ``Birch``,
``BisectingKMeans``, ``HistGradientBoostingClassifier``, ``GaussianProcessClassifier``, all searches
and stacks with a scorer or with metadata routing), which could not be saved without them. The list
contains names only: a class is imported when a file contains it, and a version of scikit-learn
without it rejects that file in one line. A scorer calls a method by a name that it
holds; :mod:`kdgraph.persistence.checks` checks which.
"""
_TORCH_PACKAGE = "torch.nn.modules"
_FUNCTION_MODULES = (
    "sklearn.feature_selection._mutual_info",
    "sklearn.feature_selection._univariate_selection",
    "sklearn.metrics._classification",
    "sklearn.metrics._ranking",
    "sklearn.metrics._regression",
    "sklearn.metrics.pairwise",
    "torch.nn.functional",
)
"""Modules whose public functions a model may keep; other functions fetch data or write files.

``f_classif``, ``accuracy_score`` and the like are public, but defined in private modules. A file
names the module of the definition, so that a name leads to one function only.
"""
_PRIVATE_FUNCTIONS = (
    "sklearn.cluster._kmeans:_kmeans_single_elkan",
    "sklearn.cluster._kmeans:_kmeans_single_lloyd",
)
"""The two algorithms of k-means, one of which a fitted ``BisectingKMeans`` has as an attribute."""
_NAME_PATTERN = re.compile(r"[\w.]+:[\w.]+")
_HEAP_TYPE = 1 << 9
"""Flag of a type that is no compiled one (Py_TPFLAGS_HEAPTYPE)."""
BUILTIN_TYPES = {
    kind.__name__: kind for kind in (bool, int, float, complex, str, bytes, list, tuple, dict, set)
}
"""Classes that a value may refer to, as scikit-learn's ``dtype=float`` does."""


def qualified_name(cls: Any) -> str:
    """Return ``package.module:Class`` of a class or a function.

    Raises
    ------
    SaveError
        If the name does not lead back to it, as for a class that is defined in a function.
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
    """Return the class of a name that is already checked against the list."""
    return _import_checked(name, type)


def import_function(name: str) -> Any:
    """Return the function of a name that is already checked against the list."""
    return _import_checked(name, FunctionType)


def _import_checked(name: str, kind: type) -> Any:
    try:
        target = _import_by_name(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise LoadError(f"cannot be read by this version (no {name}: {error})") from error
    if not isinstance(target, kind) or f"{target.__module__}:{target.__qualname__}" != name:
        raise LoadError(f"cannot be read by this version ({name} is another thing)")
    return target


def is_plain_object(cls: type) -> bool:
    """Return True if objects of this class are their fields only, without special pickling."""
    in_python = bool(cls.__flags__ & _HEAP_TYPE)
    usual = (
        cls.__reduce__ is object.__reduce__
        and cls.__reduce_ex__ is object.__reduce_ex__
        and cls not in copyreg.dispatch_table
    )
    return in_python and usual


def unlisted_names(
    classes: Iterable[str], functions: Iterable[str] = (), called: Iterable[str] = ()
) -> list[str]:
    """Return the names, sorted, that are on no list here.

    Parameters
    ----------
    classes, functions : ``package.module:name``.
    called : what an object imports or calls by a name that it holds; no such name is on a list.
    """
    classes, functions = list(classes), list(functions)
    if not all(_NAME_PATTERN.fullmatch(name) for name in (*classes, *functions)):
        raise ValueError("a class has a name that none can have")
    unknown = {name for name in classes if not _is_listed_class(name)}
    unknown |= {name for name in functions if not _is_listed_function(name)}
    return sorted(unknown | set(called))


def check_admitted(names: Iterable[str], admitted: Sequence[str]) -> None:
    """Raise UntrustedFileError unless all names are admitted.

    Parameters
    ----------
    names : iterable of str
        Names ``package.module:name`` from :func:`unlisted_names`.
    admitted : sequence of str
        Classes and functions, or modules and packages with all their content, with dots or a colon.
    """
    others = [name for name in names if not _is_below(name, admitted)]
    if others:
        shown = ", ".join(name.replace(":", ".") for name in others[:3])
        shown += f" and {len(others) - 3} more" if len(others) > 3 else ""
        raise UntrustedFileError(f"needs what is not known to be harmless: {shown}", others)


def is_listed(cls: type) -> bool:
    """Return whether the class is on the list."""
    return _is_listed_class(f"{cls.__module__}:{cls.__qualname__}")


def is_plain_type(cls: type) -> bool:
    """Return True if a value may be this class, as ``float``: calling it has no side effects."""
    return BUILTIN_TYPES.get(cls.__name__) is cls or issubclass(cls, np.generic)


def _is_listed_class(name: str) -> bool:
    module, _, qualified = name.partition(":")
    package, *inner = module.split(".")
    if package == "numpy":
        return (
            not inner
            and isinstance(kind := getattr(np, qualified, None), type)
            and issubclass(kind, np.generic)
        )
    if package == "kdgraph":
        return (
            bool(inner)
            and inner[0] in _KDGRAPH_PACKAGES.split()
            and not _is_below(module, _EXCLUDED_MODULES)
            and name not in _EXCLUDED_MODULES
        )
    if package == "sklearn":
        is_home = module in _SKLEARN_MODULES or (
            bool(inner) and inner[0] in _SKLEARN_PACKAGES.split() and "tests" not in inner
        )
        return (is_home and not qualified.startswith("_")) or name in _SKLEARN_PRIVATE_CLASSES
    return module.startswith(f"{_TORCH_PACKAGE}.") and not qualified.startswith("_")


def _is_listed_function(name: str) -> bool:
    module, _, qualified = name.partition(":")
    return (
        module in _FUNCTION_MODULES and not qualified.startswith("_")
    ) or name in _PRIVATE_FUNCTIONS


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
