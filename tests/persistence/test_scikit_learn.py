"""Estimators of scikit-learn that nobody here has thought of: the same predictions to the bit, or
refused in one line.
"""

from __future__ import annotations

import inspect
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_selection import SelectKBest
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.linear_model import LogisticRegression
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
from sklearn.utils import all_estimators

from kdgraph.persistence import from_bytes, to_bytes

RNG = np.random.default_rng(0)
X, Y = RNG.random((60, 4)), np.array(["u", "v", "w"])[np.arange(60) % 3]
LABELS = {
    "FixedThresholdClassifier": Y != "w",
    "TunedThresholdClassifierCV": Y != "w",
    "SelfTrainingClassifier": np.arange(60) % 4 - 1,  # -1: without a label
}
OTHER_LABELS = {"ClassifierChain", "MultiOutputClassifier"}
OF_ITSELF = {"LabelPropagation", "LabelSpreading"}
"""Asked for the very array that they were fitted on, these take a shorter way, with other last
bits.
"""


def make_estimator(cls: type) -> Any:
    """An estimator with what it cannot do without."""
    needed = inspect.signature(cls).parameters
    inner: dict[str, Any] = {
        "estimator": LogisticRegression(),
        "estimators": [("a", LogisticRegression()), ("b", RandomForestClassifier(3))],
    }
    given = {
        name: value
        for name, value in inner.items()
        if name in needed and needed[name].default in (inspect.Parameter.empty, None)
    }
    return cls(**given, **({"max_iter": 3} if cls.__name__.startswith("Hist") else {}))


CLASSIFIERS = {
    name: cls for name, cls in all_estimators(type_filter="classifier") if name not in OTHER_LABELS
}


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learn_estimators_round_trip(name):
    y = LABELS.get(name, Y)
    rows = X.copy() if name in OF_ITSELF else X
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fitted = make_estimator(CLASSIFIERS[name]).fit(rows, y)
    again = from_bytes(to_bytes(fitted), "it").value
    for method in ("predict", "predict_proba", "decision_function"):
        if hasattr(fitted, method):
            np.testing.assert_array_equal(getattr(again, method)(X), getattr(fitted, method)(X))
    clone(again)


PIPELINES = {
    "chosen features": make_pipeline(StandardScaler(), SelectKBest(k=2), LogisticRegression()),
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
    "a union": make_pipeline(
        make_union(KNNImputer(), QuantileTransformer(n_quantiles=10), KBinsDiscretizer(3)),
        LogisticRegression(),
    ),
    "a search": GridSearchCV(LogisticRegression(), {"C": [0.1, 1.0]}, cv=2),
}


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.filterwarnings("ignore")
def test_pipelines_and_searches(name):
    rows = X.round(1)
    fitted = PIPELINES[name].fit(rows, Y)
    again = from_bytes(to_bytes(fitted), "it").value
    np.testing.assert_array_equal(again.predict_proba(rows), fitted.predict_proba(rows))


def test_column_names_are_restored():
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcd"))
    again = from_bytes(
        to_bytes(RandomForestClassifier(5, random_state=0).fit(frame, Y)), "it"
    ).value
    assert again.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names should match"):
        again.predict(frame.rename(columns={"a": "z"}))
