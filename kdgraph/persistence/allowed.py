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
# The public classes of these packages and modules are estimators and what they consist of. Others,
# such as sklearn.datasets, sklearn.utils and sklearn.externals, fetch data, run processes or parse
# files.
_SKLEARN_PACKAGES = """
    calibration cluster compose covariance cross_decomposition decomposition
    discriminant_analysis dummy ensemble feature_extraction feature_selection frozen
    gaussian_process impute isotonic kernel_approximation kernel_ridge linear_model manifold
    mixture model_selection multiclass multioutput naive_bayes neighbors neural_network
    pipeline preprocessing random_projection semi_supervised svm tree
"""
# Losses and links of gradient boosting and generalised linear models: classes with public names in
# a private package.
_SKLEARN_MODULES = ("sklearn._loss.link", "sklearn._loss.loss")
# Private classes, and classes of other packages, that fitted public estimators have as attributes:
# CalibratedClassifierCV, Birch, BisectingKMeans, HistGradientBoostingClassifier,
# GaussianProcessClassifier, all searches and stacks with a scorer or with metadata routing. Without
# them these could not be saved, because no public API rebuilds a fitted estimator from its parts.
# The list contains names only: a class is imported when a file contains it, and a version of
# scikit-learn without it rejects that file in one line. A scorer calls a method that one of its
# fields names; the module checks restricts it to methods that predict.
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
# Modules whose public functions a model may refer to: they compute with their arguments only.
# Functions of other modules fetch data or write files. f_classif, accuracy_score and the like are
# public but defined in private modules. A file names the module of the definition, so that a name
# leads to one function only; and public modules such as sklearn.metrics also export functions that
# are not listed here.
_FUNCTION_MODULES = (
    "sklearn.feature_selection._mutual_info",
    "sklearn.feature_selection._univariate_selection",
    "sklearn.metrics._classification",
    "sklearn.metrics._ranking",
    "sklearn.metrics._regression",
    "sklearn.metrics.pairwise",
    "torch.nn.functional",
)
# The two algorithms of k-means, one of which a fitted BisectingKMeans has as an attribute.
_PRIVATE_FUNCTIONS = (
    "sklearn.cluster._kmeans:_kmeans_single_elkan",
    "sklearn.cluster._kmeans:_kmeans_single_lloyd",
)
_NAME_PATTERN = re.compile(r"[\w.]+:[\w.]+")
# Flag of types that are defined in Python (Py_TPFLAGS_HEAPTYPE), unlike most compiled ones.
_HEAP_TYPE = 1 << 9
BUILTIN_TYPES = {
    cls.__name__: cls for cls in (bool, int, float, complex, str, bytes, list, tuple, dict, set)
}
"""Builtin classes that a value may refer to, such as ``OneHotEncoder(dtype=float)`` does."""


def qualified_name(cls: Any) -> str:
    """Return the name ``package.module:Class`` of a class or a function.

    Raises
    ------
    SaveError
        If importing that name gives another object, as for a class that is defined in a function.
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
    """Return the names, sorted, that are not on the allow list.

    Parameters
    ----------
    classes, functions : iterable of str
        Names ``package.module:name`` of classes and functions.
    called : iterable of str, default=()
        Names that objects import or call, see
        :func:`~kdgraph.persistence.checks.imported_names`; all of them are unlisted.

    Raises
    ------
    ValueError
        If a class or function has an invalid name.

    Examples
    --------
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
    """Raise UntrustedFileError unless all names are admitted.

    Parameters
    ----------
    names : iterable of str
        Names ``package.module:name`` from :func:`unlisted_names`.
    admitted : sequence of str
        Classes and functions, or modules and packages with all their content, with dots or a colon.
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


def _is_listed_class(name: str) -> bool:
    module, _, qualified = name.partition(":")
    package, *inner = module.split(".")
    if package == "numpy":
        return (
            not inner
            and isinstance(cls := getattr(np, qualified, None), type)
            and issubclass(cls, np.generic)
        )
    if package == "kdgraph":
        return (
            bool(inner)
            and inner[0] in _KDGRAPH_PACKAGES.split()
            and not _is_below(module, _EXCLUDED_MODULES)
            and name not in _EXCLUDED_MODULES
        )
    if package == "sklearn":
        is_listed_module = module in _SKLEARN_MODULES or (
            bool(inner) and inner[0] in _SKLEARN_PACKAGES.split() and "tests" not in inner
        )
        is_public_class = is_listed_module and not qualified.startswith("_")
        return is_public_class or name in _SKLEARN_PRIVATE_CLASSES
    if name in _BOOSTING_CLASSES:
        return True
    return module.startswith(f"{_TORCH_PACKAGE}.") and not qualified.startswith("_")


def _is_listed_function(name: str) -> bool:
    module, _, qualified = name.partition(":")
    return (
        module in _FUNCTION_MODULES and not qualified.startswith("_")
    ) or name in _PRIVATE_FUNCTIONS


def _is_below(name: str, packages: Sequence[str]) -> bool:
    """Return True if the name is one of the packages or part of one."""
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
