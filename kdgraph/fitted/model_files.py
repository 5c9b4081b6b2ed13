"""Models in files of other libraries, read as functions from rows to outputs.

:func:`read_model` finds the library by the ending of the file and its content. Files that need no
trust are parsed and checked here, and their library reads what was checked: ONNX of standard
operators, the own files of XGBoost and LightGBM, the weights of torch, and skops files of public
estimators; CatBoost reads its own files in another process first. So are files of ``kdg repair``
that this user has made. Everything else can run code of its writer's choosing when it is read, and
is refused unless the caller trusts it. The content is read once, into memory, and no library opens
a file by a name that the content chose. Original to kdgraph.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Mapping
from typing import Any

import joblib
import numpy as np

from kdgraph.errors import DataError
from kdgraph.fitted.boosting_files import read_catboost, read_lightgbm, read_xgboost
from kdgraph.fitted.columns import ModelColumns
from kdgraph.fitted.estimators import model_of_estimator
from kdgraph.fitted.onnx_models import read_onnx
from kdgraph.fitted.repaired_models import read_repaired
from kdgraph.fitted.source import (
    ExternalModel,
    ModelReader,
    ModelSource,
    check_archive,
    import_object,
    names_function,
)
from kdgraph.persistence import LoadError, UntrustedFileError
from kdgraph.persistence.archive import damage_message
from kdgraph.persistence.skops_files import read_skops
from kdgraph.wording import some

_MAX_LISTED_TYPES = 5
_ANY_FRAME = ModelColumns(takes_frames=True)
_MOST_MODELS_IN_MEMORY = 4
_models: dict[tuple[ModelSource, str], ExternalModel] = {}
"""Models that were read last, by source and digest: a run builds its parent several times."""


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


def read_model_once(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of :func:`read_model`, which reads a content once in this process."""
    key = source, hashlib.sha256(content).hexdigest()
    if key not in _models:
        model = read_model(source, content)
        while len(_models) >= _MOST_MODELS_IN_MEMORY:
            del _models[next(iter(_models))]
        _models[key] = model
    return _models[key]


def _read_function(source: ModelSource) -> ExternalModel:
    function: Any = import_object(source, source.path)
    if isinstance(function, type) or not callable(function):
        raise source.error(f"is a {type(function).__name__}, and must be a function of rows")
    predict: Callable[[Any], np.ndarray] = function  # pyright: ignore[reportAssignmentType]
    outputs = "values" if source.task == "regression" else source.outputs or "probabilities"
    return ExternalModel("function", predict, outputs, columns=_ANY_FRAME)


def _read_skops(source: ModelSource, content: bytes) -> ExternalModel:
    if source.trust:
        return model_of_estimator(source, _trusted_skops(source, content), "skops")
    try:
        return model_of_estimator(source, read_skops(content), "skops")
    except UntrustedFileError as error:
        raise source.untrusted(f"{error}: {some(error.names, _MAX_LISTED_TYPES)}") from error
    except LoadError as error:
        raise source.error(str(error)) from error
    except DataError:
        raise
    except Exception as error:  # any: attributes of the estimator may be anything
        raise source.error(damage_message(error)) from error


def _trusted_skops(source: ModelSource, content: bytes) -> Any:
    with source.importing("skops"):
        from skops import io as skops_io
    with source.reading("is no skops file, or damaged"):
        return skops_io.loads(content, trusted=skops_io.get_untrusted_types(data=content))


def _read_pickle(source: ModelSource, content: bytes) -> ExternalModel:
    if not source.trust:
        raise source.untrusted(
            "is a pickle, which can run any code when it is read; save it with skops"
            " (skops.io.dump), or as ONNX"
        )
    with source.reading("cannot be unpickled"):
        estimator = joblib.load(io.BytesIO(content))
    return model_of_estimator(source, estimator, "pickle")


def _read_torch(source: ModelSource, content: bytes) -> ExternalModel:
    with source.importing("torch"):
        from kdgraph.fitted.torch_models import read_torch
    return read_torch(source, content)


_READERS: Mapping[str, ModelReader] = {
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
