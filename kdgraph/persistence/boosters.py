"""Codecs of the fitted trees of XGBoost, LightGBM and CatBoost.

Each library writes its model into memory and reads it again, without pickle. XGBoost and LightGBM
read what was checked and written again (:mod:`~kdgraph.persistence.xgboost_files`,
:mod:`~kdgraph.persistence.lightgbm_files`); CatBoost alone parses its own. No library is imported
before a value of it is written or read. Original to kdgraph.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from kdgraph.extras import needs_library
from kdgraph.persistence.archive import LoadError
from kdgraph.persistence.kinds import ValueCodec
from kdgraph.persistence.lightgbm_files import rewrite_lightgbm
from kdgraph.persistence.xgboost_files import rewrite_xgboost
from kdgraph.wording import first_line

_CATBOOST_CLASSES = ("CatBoost", "CatBoostClassifier", "CatBoostRegressor")


def _xgboost_to_parts(booster: Any) -> tuple[Any, ...]:
    return (np.frombuffer(booster.save_raw("ubj"), np.uint8),)


def _xgboost_from_parts(memory: np.ndarray) -> Any:
    from xgboost import Booster

    content, _ = rewrite_xgboost(memory.tobytes())
    booster = Booster()
    booster.load_model(bytearray(content))
    return booster


def _lightgbm_to_parts(booster: Any) -> tuple[Any, ...]:
    # All rounds are written, and the best one, at which predictions end. Numbers have 17 digits.
    text = booster.model_to_string(num_iteration=-1)
    return np.frombuffer(text.encode(), np.uint8), int(booster.best_iteration)


def _lightgbm_from_parts(memory: np.ndarray, best_iteration: int) -> Any:
    from lightgbm import Booster

    booster = Booster(model_str=rewrite_lightgbm(memory.tobytes().decode()))
    booster.best_iteration = int(best_iteration)
    return booster


def _catboost_to_parts(model: Any) -> tuple[Any, ...]:
    memory = np.empty(0, np.uint8)
    if model.is_fitted():
        # The public call writes to a file.
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "model.cbm")
            model.save_model(str(path))
            memory = np.frombuffer(path.read_bytes(), np.uint8)
    return type(model).__name__, model.get_params(), memory


def _catboost_from_parts(name: str, parameters: dict[str, Any], memory: np.ndarray) -> Any:
    import catboost

    if name not in _CATBOOST_CLASSES:
        raise ValueError(f"{name!r} is none of its classes {', '.join(_CATBOOST_CLASSES)}")
    model = getattr(catboost, name)(**parameters)
    if memory.size:
        model.load_model(blob=memory.tobytes())
    return model


CODECS = {
    "xgboost.core:Booster": ValueCodec("xgboost", _xgboost_to_parts, _xgboost_from_parts),
    "lightgbm.basic:Booster": ValueCodec("lightgbm", _lightgbm_to_parts, _lightgbm_from_parts),
    **{
        f"catboost.core:{name}": ValueCodec("catboost", _catboost_to_parts, _catboost_from_parts)
        for name in _CATBOOST_CLASSES
    },
}
"""Codecs by the name of the exact type of a value."""


def codec_by_tag(tag: str) -> ValueCodec:
    """Return the codec of a tag; LoadError is raised if its library is not installed.

    The codec raises ValueError for a model that the library cannot read, or whose trees are
    damaged.
    """
    codec = next(codec for codec in CODECS.values() if codec.tag == tag)

    def from_parts(*parts: Any) -> Any:
        try:
            return codec.from_parts(*parts)
        except ImportError as error:
            raise LoadError(needs_library("", tag)) from error
        except Exception as error:  # each library has errors of its own
            is_missing = isinstance(error, LookupError)
            problem = "parts of it are missing" if is_missing else first_line(error)
            raise ValueError(
                f"the model of {_TITLES[tag]} in it cannot be read: {problem}; save the fitted"
                " model again"
            ) from error

    return ValueCodec(tag, codec.to_parts, from_parts)


_TITLES = {"xgboost": "XGBoost", "lightgbm": "LightGBM", "catboost": "CatBoost"}
TAGS = frozenset(codec.tag for codec in CODECS.values())
"""Tags of the codecs."""
