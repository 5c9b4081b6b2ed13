"""Libraries whose models kdgraph reads: how a user fits, saves and calls each of them."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from pandas.api.types import is_bool_dtype, is_numeric_dtype

NUMBERS = ("float", "float gaps", "float32", "int", "int8", "large int", "int gaps", "bool")
TEXT = ("text", "text None", "text NaN", "digits", "category", "category gaps", "ordered")
WITHOUT_GAPS = ("float", "float32", "int", "int8", "bool", "text", "digits", "category", "ordered")
MISSING = "{} is not installed; the extra peers has it"


def text_columns(frame: pd.DataFrame) -> list[str]:
    """Return the columns that hold neither numbers nor truth values."""
    kinds = frame.dtypes.items()
    return [str(n) for n, kind in kinds if not (is_numeric_dtype(kind) or is_bool_dtype(kind))]


class Library(ABC):
    """A library, used as in its documentation.

    ``kinds`` are those columns of ``tests.typed_frames`` that its models take, ``tolerance`` is the
    error of the precision in which it computes.
    """

    name: str
    ending: str
    kinds: tuple[str, ...] = (*NUMBERS, *TEXT, "category of ints", "Int64", "boolean", "string")
    tolerance: float = 0.0

    def require(self) -> None:
        """Skip the test if the library is not installed."""
        pytest.importorskip(self.name, reason=MISSING.format(self.name))

    def parameters(self) -> dict[str, Any]:
        """Return the arguments of ``FittedParent`` for the last file."""
        return {"trust": True} if self.ending == ".joblib" else {}

    @abstractmethod
    def fit(self, frame: pd.DataFrame, y: np.ndarray, folder: Path) -> Path:
        """Fit a model, save it in the folder, and return its file."""

    @abstractmethod
    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        """Return what the library itself predicts for the frame that its user would give it."""


class _Boosted(Library):
    """Boosted trees that take pandas categories: those of the columns that had them in the fit."""

    def prepare(self, frame: pd.DataFrame) -> pd.DataFrame:
        return frame[self.names].astype(dict.fromkeys(self.categories, "category"))

    def remember(self, frame: pd.DataFrame) -> pd.DataFrame:
        self.names = list(frame.columns)
        self.categories = text_columns(frame)
        return self.prepare(frame)


class LightGbm(_Boosted):
    name, ending = "lightgbm", ".txt"

    def fit(self, frame: pd.DataFrame, y: np.ndarray, folder: Path) -> Path:
        import lightgbm

        options = {"n_estimators": 5, "min_child_samples": 3, "verbose": -1, "n_jobs": 1}
        self.model = lightgbm.LGBMClassifier(**options).fit(self.remember(frame), y)
        self.model.booster_.save_model(folder / "model.txt")
        return folder / "model.txt"

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(self.prepare(frame))


class XgBoost(_Boosted):
    name, ending, tolerance = "xgboost", ".json", 1e-6

    def fit(self, frame: pd.DataFrame, y: np.ndarray, folder: Path) -> Path:
        import xgboost

        options = {"n_estimators": 6, "enable_categorical": True, "n_jobs": 1}
        self.model = xgboost.XGBClassifier(**options, early_stopping_rounds=2)
        rows = self.remember(frame)
        held_out = [(rows[::3], y[::3])]
        self.model.fit(rows, y, eval_set=held_out, verbose=False).save_model(folder / "model.json")
        return folder / "model.json"

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        rows = self.prepare(frame)
        # XGBoost refuses a new category in the list of a column, also where no row has it.
        used = {name: rows[name].cat.remove_unused_categories() for name in self.categories}
        return self.model.predict_proba(rows.assign(**used))


class CatBoost(Library):
    name, ending, tolerance = "catboost", ".cbm", 1e-15
    kinds = ("float", "float gaps", "float32", "int", "int8", "bool", "text", "digits", "category")

    def fit(self, frame: pd.DataFrame, y: np.ndarray, folder: Path) -> Path:
        import catboost

        self.names = list(frame.columns)
        whole = [n for n, kind in frame.dtypes.items() if kind.kind in "iub"]
        categories = [*text_columns(frame), *whole[::2]]
        options = {"iterations": 4, "verbose": False, "allow_writing_files": False}
        self.model = catboost.CatBoostClassifier(**options, thread_count=1)
        self.model.fit(frame, y, cat_features=categories).save_model(str(folder / "model.cbm"))
        return folder / "model.cbm"

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(frame[self.names])


class HistogramBoosting(_Boosted):
    name, ending = "sklearn", ".joblib"

    def fit(self, frame: pd.DataFrame, y: np.ndarray, folder: Path) -> Path:
        from sklearn.ensemble import HistGradientBoostingClassifier

        self.model = HistGradientBoostingClassifier(max_iter=4, min_samples_leaf=3)
        joblib.dump(self.model.fit(self.remember(frame), y), folder / "model.joblib")
        return folder / "model.joblib"

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(self.prepare(frame))


class Pipelines(Library):
    """A pipeline of scikit-learn with a ColumnTransformer."""

    name, ending = "sklearn", ".joblib"

    def pipeline(self, frame: pd.DataFrame) -> Any:
        from sklearn.compose import make_column_transformer
        from sklearn.impute import SimpleImputer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import OneHotEncoder, StandardScaler

        texts = text_columns(frame)
        numbers = [str(name) for name in frame.columns if name not in texts]
        encoder = OneHotEncoder(handle_unknown="ignore")
        columns = make_column_transformer(
            (encoder, texts), (make_pipeline(SimpleImputer(), StandardScaler()), numbers)
        )
        return make_pipeline(columns, LogisticRegression())

    def fit(self, frame: pd.DataFrame, y: np.ndarray, folder: Path) -> Path:
        self.names = list(frame.columns)
        self.model = self.pipeline(frame).fit(frame, y)
        return self.save(folder)

    def save(self, folder: Path) -> Path:
        joblib.dump(self.model, folder / "model.joblib")
        return folder / "model.joblib"

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        return self.model.predict_proba(frame[self.names])


def as_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Return every cell as pandas writes it: 5 differs from 5.0, and None from NaN."""
    return frame.astype(str)


class TextPipelines(Pipelines):
    """A pipeline that depends on the text of each cell."""

    def pipeline(self, frame: pd.DataFrame) -> Any:
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

        encoder = OneHotEncoder(handle_unknown="ignore")
        return make_pipeline(FunctionTransformer(as_text), encoder, LogisticRegression())


class Skops(Pipelines):
    name, ending = "skops", ".skops"

    def save(self, folder: Path) -> Path:
        from skops import io

        io.dump(self.model, folder / "model.skops")
        return folder / "model.skops"


class Onnx(Pipelines):
    """The same pipeline as an ONNX file with an input of each column."""

    name, ending, tolerance = "onnxruntime", ".onnx", 1e-5
    kinds = ("float", "float32", "int", "int8", "bool", "text", "digits")

    def require(self) -> None:
        super().require()
        pytest.importorskip("skl2onnx", reason=MISSING.format("skl2onnx"))

    def save(self, folder: Path) -> Path:
        from skl2onnx import to_onnx
        from skl2onnx.common.data_types import FloatTensorType, Int64TensorType, StringTensorType

        types = {"O": StringTensorType, "f": FloatTensorType}
        self.inputs = [
            (name, types.get(kind.kind, Int64TensorType)([None, 1]))
            for name, kind in self.kinds_of_fit.items()
        ]
        options = {"zipmap": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            content = to_onnx(self.model, initial_types=self.inputs, options=options)
        (folder / "model.onnx").write_bytes(content.SerializeToString())
        self.session = None
        return folder / "model.onnx"

    def fit(self, frame: pd.DataFrame, y: np.ndarray, folder: Path) -> Path:
        self.kinds_of_fit = dict(frame.dtypes)
        self.path = super().fit(frame, y, folder)
        return self.path

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        import onnxruntime

        if self.session is None:
            self.session = onnxruntime.InferenceSession(self.path)
        types = {"tensor(string)": str, "tensor(float)": np.float32, "tensor(int64)": np.int64}
        feeds = {}
        for node in self.session.get_inputs():
            column = frame[node.name]
            if column.isna().any():
                raise ValueError("a cell is missing")
            values = (
                column.astype(str).to_numpy(object) if node.type == "tensor(string)" else column
            )
            feeds[node.name] = np.asarray(values).astype(types[node.type])[:, None]
            if node.type == "tensor(int64)" and (feeds[node.name][:, 0] != column).any():
                raise ValueError("a fraction is lost")
        feeds = {
            name: values.astype(object) if values.dtype.kind == "U" else values
            for name, values in feeds.items()
        }
        return self.session.run(["probabilities"], feeds)[0]


class Torch(Library):
    # Products of numbers up to some thousands are added in single precision, in the order of the
    # memory of the rows: 6e-8 of sums of 1e3, of which the softmax passes on a quarter at most.
    name, ending, tolerance = "torch", ".pt", 5e-5
    kinds = ("float", "float32", "int", "int8", "bool")

    def parameters(self) -> dict[str, Any]:
        return {"object": f"tests.fitted.libraries:network_of_{len(self.names)}", "classes": [0, 1]}

    def fit(self, frame: pd.DataFrame, y: np.ndarray, folder: Path) -> Path:
        import torch

        self.names = list(frame.columns)
        torch.manual_seed(len(frame))
        self.model = _network(len(self.names))
        torch.save(self.model.state_dict(), folder / "model.pt")
        return folder / "model.pt"

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        import torch

        if frame.isna().any(axis=None):
            raise ValueError("a cell is missing")
        with torch.no_grad():
            rows = torch.from_numpy(frame.to_numpy(dtype=np.float32))
            return self.model(rows).double().softmax(dim=1).numpy()


def _network(width: int) -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(width, 5), nn.ReLU(), nn.Linear(5, 2)).eval()


def __getattr__(name: str) -> Any:
    """Return the factory of a network for rows of any width, ``network_of_3``."""
    if name.startswith("network_of_"):
        return lambda: _network(int(name.removeprefix("network_of_")))
    raise AttributeError(name)


LIBRARIES: dict[str, type[Library]] = {
    "lightgbm": LightGbm,
    "xgboost": XgBoost,
    "catboost": CatBoost,
    "histogram boosting": HistogramBoosting,
    "pipeline": Pipelines,
    "pipeline of text": TextPipelines,
    "skops": Skops,
    "onnx": Onnx,
    "torch": Torch,
}
