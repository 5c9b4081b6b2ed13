"""Rules for objects of files that their reader has not signed.

A signed file may hold what its owner's estimators hold. In a file of somebody else, a public
estimator can still be a tool: a function with arguments of the file's choice, a compiled tree in
the place of an estimator, a vectorizer that opens the files that its rows name, or the number of
threads that ends the process. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import validate_parameter_constraints

from kdgraph.persistence.archive import UntrustedFileError
from kdgraph.persistence.sklearn_names import PLACES

_UNLISTED = "holds what is not known to be harmless"
# Owner and attribute of compiled objects, which have methods of estimators without their checks,
# and of a transformer that does not check its own number of threads.
_PARTS = {
    "sklearn.tree._tree:Tree": (("BaseDecisionTree", "tree_"),),
    "sklearn.neighbors._kd_tree:KDTree": (("NeighborsBase", "_tree"),),
    "sklearn.neighbors._ball_tree:BallTree": (("NeighborsBase", "_tree"),),
    "sklearn.ensemble._hist_gradient_boosting.binning:_BinMapper": (
        ("BaseHistGradientBoosting", "_bin_mapper"),
    ),
    "sklearn.utils.validation:check_array": (("FunctionTransformer", "func"),),
}
# Keyword arguments with which the result of a function has other rows than its argument.
_RESHAPING_KEYWORDS = {"axis", "keepdims", "out", "where"}
_SCALARS = (bool, int, float, str, type(None))
_FIRST_GUESSES = ("DummyClassifier", "DummyRegressor")
# Attributes that change no prediction: too many threads end the process, and a memory is a folder.
_REPLACED = {"n_jobs": None, "_n_threads": 1, "memory": None}


def has_places(name: str) -> bool:
    """Return whether objects of a class, ``package.module:Class``, have places alone.

    >>> has_places("sklearn.tree._tree:Tree"), has_places("sklearn.svm._classes:SVC")
    (True, False)
    """
    return name in _PARTS


def check_place(name: str, owner: type | None, attribute: str | None) -> None:
    """Raise UntrustedFileError if a function or compiled object is not in one of its places.

    The name is ``package.module:name``. The owner is the class of the object that has it as an
    attribute, or None if it is in a container.

    >>> from sklearn.preprocessing import FunctionTransformer
    >>> check_place("numpy:log1p", FunctionTransformer, "func")
    >>> try:
    ...     check_place("numpy:save", FunctionTransformer, "func")
    ... except UntrustedFileError as error:
    ...     print(error.names)
    ('numpy.save as func of a FunctionTransformer',)
    """
    if name in _PARTS:
        bases = () if owner is None else {base.__name__ for base in owner.__mro__}
        known = any(base in bases and attribute == part for base, part in _PARTS[name])
    else:
        known = name in PLACES.get(attribute or "", ())
    if not known:
        place = "in a container" if owner is None else f"as {attribute} of a {owner.__qualname__}"
        raise UntrustedFileError(_UNLISTED, [f"{name.replace(':', '.')} {place}"])


def check_unsigned(value: Any) -> None:
    """Check a complete object of scikit-learn, and take its threads and its cache away.

    ValueError is raised if a parameter of an estimator has a value that its ``fit`` would have
    refused, UntrustedFileError if it would read files, or if what it computes cannot be checked.

    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> try:
    ...     check_unsigned(CountVectorizer(input="filename"))
    ... except UntrustedFileError as error:
    ...     print(error.names)
    ('a CountVectorizer that reads files',)
    """
    if not isinstance(value, BaseEstimator):
        return
    state = vars(value)
    for name in _REPLACED.keys() & state.keys():
        setattr(value, name, _REPLACED[name])
    _check_public_attributes(state)
    # Only parameters that are there: an earlier version may have had fewer.
    names = type(value)._get_param_names()
    validate_parameter_constraints(
        getattr(value, "_parameter_constraints", {}),
        {name: state[name] for name in names if name in state},
        type(value).__name__,
    )
    if problem := _problem(value):
        raise UntrustedFileError(_UNLISTED, [problem])


def _check_public_attributes(state: Mapping[str, Any]) -> None:
    """Raise ValueError or TypeError unless what every reader of a model relies on has its type."""
    n_features, names = state.get("n_features_in_"), state.get("feature_names_in_")
    if n_features is not None and not isinstance(n_features, int | np.integer):
        raise TypeError("n_features_in_ is no whole number")
    if names is not None and (
        np.shape(names) != (n_features,) or not all(isinstance(name, str) for name in names)
    ):
        raise ValueError("feature_names_in_ has other names than those of the features")
    classes = state.get("classes_")
    if isinstance(classes, np.ndarray) and len(np.sort(classes)) != len(set(classes.tolist())):
        raise ValueError("classes_ has a class twice")


def _problem(value: Any) -> str | None:
    """Return what an estimator of somebody else must not be, or None."""
    name = type(value).__name__
    if getattr(value, "input", "content") != "content":
        return f"a {name} that reads files"
    for keywords in (getattr(value, "kw_args", None), getattr(value, "inv_kw_args", None)):
        is_plain = all(isinstance(argument, _SCALARS) for argument in (keywords or {}).values())
        if keywords and (not is_plain or _RESHAPING_KEYWORDS & keywords.keys()):
            return f"a {name} with arguments"
    # Gradient boosting adds its trees to the first guess without a check of its rows and columns.
    guess = getattr(value, "init_", "zero")
    if not isinstance(guess, str) and type(guess).__name__ not in _FIRST_GUESSES:
        return f"a {name} that begins with a {type(guess).__name__}"
    return None
