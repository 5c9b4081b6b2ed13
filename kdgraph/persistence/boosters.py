"""Codecs of the fitted trees of XGBoost, LightGBM and CatBoost.

Each library writes its model into memory and reads it again, without pickle. The module is imported
only if a value of one of them is written or read, and imports none alone. Original to
kdgraph.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from kdgraph.persistence.archive import LoadError
from kdgraph.persistence.kinds import ValueCodec

_CATBOOST_CLASSES = ("CatBoost", "CatBoostClassifier", "CatBoostRegressor")


def _xgboost_to_parts(booster: Any) -> tuple[Any, ...]:
    return (np.frombuffer(booster.save_raw("ubj"), np.uint8),)


def _xgboost_from_parts(memory: np.ndarray) -> Any:
    from xgboost import Booster

    booster = Booster()
    booster.load_model(bytearray(memory.tobytes()))
    return booster


def _lightgbm_to_parts(booster: Any) -> tuple[Any, ...]:
    # All rounds are written, and the best one, at which predictions end. Numbers have 17 digits.
    text = booster.model_to_string(num_iteration=-1)
    return np.frombuffer(text.encode(), np.uint8), int(booster.best_iteration)


def _lightgbm_from_parts(memory: np.ndarray, best_iteration: int) -> Any:
    from lightgbm import Booster

    booster = Booster(model_str=memory.tobytes().decode())
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
        raise ValueError(f"CatBoost has no model {name}")
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
    """Return the codec of a tag, whose library has to be installed.

    Raises
    ------
    LoadError
        If it is not.
    """
    codec = next(codec for codec in CODECS.values() if codec.tag == tag)

    def from_parts(*parts: Any) -> Any:
        try:
            return codec.from_parts(*parts)
        except ImportError as error:
            raise LoadError(
                f"needs {tag}, which is not installed; pip install 'kdgraph[boosting]'"
            ) from error
        except Exception as error:  # each library has errors of its own
            raise ValueError(f"{tag} cannot read its model") from error

    return ValueCodec(tag, codec.to_parts, from_parts)


TAGS = frozenset(codec.tag for codec in CODECS.values())
"""Tags of the codecs."""
