"""Estimators of scikit-learn: loaded ones predict the same bits and need no admission."""

from __future__ import annotations

import inspect
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import Birch, BisectingKMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest, mutual_info_classif
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics.pairwise import cosine_similarity
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import (
    FunctionTransformer,
    KBinsDiscretizer,
    OneHotEncoder,
    PowerTransformer,
    QuantileTransformer,
    StandardScaler,
)
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils import all_estimators

from kdgraph.persistence import from_bytes, to_bytes

from .forging import signed_by_another_user

RNG = np.random.default_rng(0)
X, Y = RNG.random((60, 4)), np.array(["u", "v", "w"])[np.arange(60) % 3]
LABELS = {
    "FixedThresholdClassifier": Y != "w",
    "TunedThresholdClassifierCV": Y != "w",
    "SelfTrainingClassifier": np.arange(60) % 4 - 1,  # -1: without a label
}
MULTI_OUTPUT = {"ClassifierChain", "MultiOutputClassifier"}
# Their predictions of the very array object of fit come from stored results, with other last bits.
TRANSDUCTIVE = {"LabelPropagation", "LabelSpreading"}
# Parts of fitted classifiers that the allow list lacks.
UNLISTED_PARTS = {"OutputCodeClassifier": ["sklearn.multiclass:_ConstantPredictor"]}


def make_estimator(cls: type) -> Any:
    """Return an estimator with its required parameters, and few iterations of boosting."""
    parameters = inspect.signature(cls).parameters
    inner: dict[str, Any] = {
        "estimator": LogisticRegression(),
        "estimators": [("a", LogisticRegression()), ("b", RandomForestClassifier(3))],
    }
    required = {
        name: value
        for name, value in inner.items()
        if name in parameters and parameters[name].default in (inspect.Parameter.empty, None)
    }
    return cls(**required, **({"max_iter": 3} if cls.__name__.startswith("Hist") else {}))


CLASSIFIERS = {
    name: cls for name, cls in all_estimators(type_filter="classifier") if name not in MULTI_OUTPUT
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore")
def test_loaded_classifier_predicts_equal_bits(name):
    y = LABELS.get(name, Y)
    X_fit = X.copy() if name in TRANSDUCTIVE else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = make_estimator(CLASSIFIERS[name]).fit(X_fit, y)
    content = to_bytes(fitted, trusted=UNLISTED_PARTS.get(name, []))
    loaded = from_bytes(content, "it").value
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(fitted, method):
            np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(fitted, method)(X))
    clone(loaded)


WITH_PRIVATE_PARTS = {
    "isotonic calibration": CalibratedClassifierCV(LogisticRegression(), method="isotonic", cv=2),
    "temperature scaling": CalibratedClassifierCV(LogisticRegression(), method="temperature", cv=2),
    "Birch": Birch(n_clusters=3),
    "bisecting k-means (Lloyd)": BisectingKMeans(3, algorithm="lloyd"),
    "bisecting k-means (Elkan)": BisectingKMeans(3, algorithm="elkan"),
    "search without scoring": GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2),
    "search by accuracy": GridSearchCV(
        LogisticRegression(), {"C": [1.0]}, cv=2, scoring="accuracy"
    ),
    "search by area under the curve": GridSearchCV(
        LogisticRegression(), {"C": [1.0]}, cv=2, scoring="roc_auc_ovr"
    ),
    "search by squared error": GridSearchCV(
        Ridge(), {"alpha": [1.0]}, cv=2, scoring="neg_mean_squared_error"
    ),
    "selection by mutual information": SelectKBest(mutual_info_classif, k=2),
    "selection by F test": SelectKBest(k=2),
    "pairwise similarity": FunctionTransformer(cosine_similarity),
}


@pytest.mark.parametrize("name", WITH_PRIVATE_PARTS)
def test_private_parts_of_public_estimators_are_listed(name):
    y = np.arange(60) % 3 if name == "search by squared error" else Y
    fitted = WITH_PRIVATE_PARTS[name].fit(X, y)
    content = signed_by_another_user(to_bytes(fitted, trusted=[]))
    loaded = from_bytes(content, "it", trust=True).value
    for method in ("predict", "transform"):
        if hasattr(fitted, method):
            np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(fitted, method)(X))


def test_activation_functions_of_torch_are_listed():
    activations = [torch.nn.functional.relu, torch.nn.functional.gelu]
    content = signed_by_another_user(to_bytes(activations, trusted=[]))
    assert from_bytes(content, "it", trust=True).value == activations


PIPELINES = {
    "selected features": make_pipeline(StandardScaler(), SelectKBest(k=2), LogisticRegression()),
    "logarithms": make_pipeline(
        FunctionTransformer(np.log1p), PowerTransformer(), LogisticRegression()
    ),
    "columns": make_pipeline(
        make_column_transformer(
            (OneHotEncoder(handle_unknown="ignore"), [0]),
            (SimpleImputer(), [1, 2]),
            remainder="passthrough",
        ),
        RandomForestClassifier(5, random_state=0),
    ),
    "union": make_pipeline(
        make_union(KNNImputer(), QuantileTransformer(n_quantiles=10), KBinsDiscretizer(3)),
        LogisticRegression(),
    ),
    "search": GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.filterwarnings("ignore")
def test_loaded_pipeline_or_search_predicts_equal_bits(name):
    X_rounded = X.round(1)
    fitted = PIPELINES[name].fit(X_rounded, Y)
    loaded = from_bytes(to_bytes(fitted, trusted=[]), "it").value
    np.testing.assert_array_equal(loaded.predict_proba(X_rounded), fitted.predict_proba(X_rounded))


def test_column_names_are_restored():
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcd"))
    forest = RandomForestClassifier(5, random_state=0).fit(frame, Y)
    loaded = from_bytes(to_bytes(forest), "it").value
    assert loaded.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(frame.rename(columns={"a": "z"}))


def test_trees_are_loaded_without_the_global_generator():
    content = to_bytes(DecisionTreeClassifier(random_state=0).fit(X, Y))
    script = f"""
import numpy as np
from sklearn.tree import DecisionTreeClassifier
from kdgraph.persistence import from_bytes, to_bytes
content = {content!r}
tree = DecisionTreeClassifier(random_state=0).fit([[0.0], [1.0]], [0, 1])
state = np.random.get_bit_generator().state["state"]["pos"]
to_bytes(tree)
from_bytes(content, 'tree.kdg')
print(np.random.get_bit_generator().state["state"]["pos"] == state)
"""
    process = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdout == "True\n", process.stderr
