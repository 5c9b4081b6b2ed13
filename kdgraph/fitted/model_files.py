"""Models in files of other libraries, read as functions from rows to outputs.

:func:`read_model` finds the library by the ending of the file and its content. Formats without code
are read as they are: ONNX, the own files of XGBoost, LightGBM and CatBoost, the weights of torch,
and skops files of types that are known to be harmless; and files of ``kdg repair`` that this user
has made. Everything else can run code of its writer's choosing when it is read, and is refused
unless the caller trusts it. The content is read once, into memory, and no library opens a file by a
name that the content chose. Original to kdgraph.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from kdgraph.fitted.boosting_files import read_catboost, read_lightgbm, read_xgboost
from kdgraph.fitted.columns import ModelColumns
from kdgraph.fitted.estimators import model_of_estimator
from kdgraph.fitted.onnx_models import read_onnx
from kdgraph.fitted.repaired_models import read_repaired
from kdgraph.fitted.source import (
    ExternalModel,
    ModelSource,
    check_archive,
    import_object,
    names_function,
)
from kdgraph.persistence.allowed import unlisted_names
from kdgraph.persistence.checks import check_state, post_load_hook
from kdgraph.persistence.kinds import is_compiled_tree
from kdgraph.persistence.tree_files import problem_of_tree
from kdgraph.wording import first_line, some

_MAX_LISTED_TYPES = 5
_ANY_FRAME = ModelColumns(takes_frames=True)
# Types that pipelines of scikit-learn contain, besides those that kdgraph's own files may contain.
_HARMLESS_TYPES = {"numpy:dtype"}


def read_model(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file, or of a function by its import path.

    Parameters
    ----------
    source : ModelSource
        Path, trust and what the file leaves open.
    content : bytes
        Content of the file; empty for an import path.

    Raises
    ------
    DataError
        If the format is unknown, the file is damaged, its library is not installed, or it can run
        code and is not trusted.
    """
    if names_function(source.path):
        return _read_function(source)
    name = source.path.lower()
    suffix = next((known for known in _READERS if name.endswith(known)), None)
    if suffix is None:
        raise source.error(
            f"has an ending that is no model's; known are {', '.join(_READERS)} and the import path"
            " package.module:function"
        )
    if content[:4] == b"PK\x03\x04":
        check_archive(source, content)
    return _READERS[suffix](source, content)


def _read_function(source: ModelSource) -> ExternalModel:
    function: Any = import_object(source, source.path)
    if isinstance(function, type) or not callable(function):
        raise source.error(f"is a {type(function).__name__}, and must be a function of rows")
    predict: Callable[[Any], np.ndarray] = function  # pyright: ignore[reportAssignmentType]
    if source.task == "regression":
        return ExternalModel("function", predict, "regression", "values", columns=_ANY_FRAME)
    kind = source.outputs or "probabilities"
    return ExternalModel("function", predict, "classification", kind, columns=_ANY_FRAME)


def _read_skops(source: ModelSource, content: bytes) -> ExternalModel:
    try:
        from skops import io as skops_io
    except ImportError as error:
        raise source.not_installed("skops", "skops") from error
    try:
        unknown = skops_io.get_untrusted_types(data=content)
    except Exception as error:  # any: the schema may be of any origin
        raise source.error(f"is no skops file, or damaged ({first_line(error)})") from error
    # A module is divided from the name of its class by a colon in the list of kdgraph.
    names = [":".join(name.rsplit(".", 1)) for name in unknown]
    unlisted = set(unlisted_names(names)) - _HARMLESS_TYPES
    if unlisted and not source.trust:
        types = some([name.replace(":", ".") for name in sorted(unlisted)], _MAX_LISTED_TYPES)
        raise source.untrusted(f"holds types that are not known to be harmless: {types}")
    try:
        estimator = skops_io.loads(content, trusted=unknown)
        _check_objects(estimator)
    except Exception as error:  # any: as above
        raise source.error(f"is damaged ({first_line(error)})") from error
    return model_of_estimator(source, estimator, "skops")


def _check_objects(estimator: Any) -> None:
    """Raise ValueError for trees whose nodes lead nowhere, and for state that replaces methods.

    Compiled code follows the nodes of a tree without checks of bounds.
    """
    pending, seen = [estimator], set()
    while pending:
        value = pending.pop()
        if id(value) in seen or isinstance(value, str | bytes | int | float | type | None):
            continue
        seen.add(id(value))
        if isinstance(value, Mapping):
            pending += value.values()
        elif isinstance(value, list | tuple | set):
            pending += value
        elif isinstance(value, np.ndarray):
            pending += value.ravel().tolist() if value.dtype == object else []
        elif is_compiled_tree(value):
            problem = problem_of_tree(
                value.children_left, value.children_right, value.feature, value.n_features
            )
            if problem:
                raise ValueError(problem)
        elif hasattr(value, "__dict__"):
            check_state(type(value), vars(value))
            if (hook := post_load_hook(type(value))) is not None:
                hook(value)
            pending += vars(value).values()


def _read_pickle(source: ModelSource, content: bytes) -> ExternalModel:
    import joblib

    if not source.trust:
        raise source.untrusted(
            "is a pickle, which can run any code when it is read; save it with skops"
            " (skops.io.dump), or as ONNX"
        )
    try:
        estimator = joblib.load(io.BytesIO(content))
    except Exception as error:  # any: unpickling calls what the file names
        raise source.error(f"cannot be unpickled ({first_line(error)})") from error
    return model_of_estimator(source, estimator, "pickle")


def _read_torch(source: ModelSource, content: bytes) -> ExternalModel:
    from kdgraph.fitted.torch_models import read_torch

    return read_torch(source, content)


_READERS: Mapping[str, Callable[[ModelSource, bytes], ExternalModel]] = {
    ".skops": _read_skops,
    ".joblib": _read_pickle,
    ".pickle": _read_pickle,
    ".pkl": _read_pickle,
    ".onnx": read_onnx,
    ".json": read_xgboost,
    ".ubj": read_xgboost,
    ".txt": read_lightgbm,
    ".cbm": read_catboost,
    ".pt2": _read_torch,
    ".pth": _read_torch,
    ".pt": _read_torch,
    ".kdg": read_repaired,
}
