"""Unusable input to every public estimator behind a parent: one line with value, rule and remedy."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder

from kdgraph.calibration import GroupWise, ScoreMap
from kdgraph.detection import PostHocDetector
from kdgraph.errors import ParameterError
from kdgraph.parameters import annotations_of, check_value
from kdgraph.parents import GaussianLinear

PACKAGES = ("density", "calibration", "calibration.local", "calibration.top_label", "detection")
ABSTRACT = ("PostHocDetector", "SetDetector", "SetStatisticDetector", "FeatureSetDetector")
ABSTRACT = (*ABSTRACT, "TopLabelCalibrator", "ShrinkageCalibrator", "PostHocRegressor", "SetTest")
RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
Y = (X[:, 0] + RNG.normal(scale=0.5, size=80) > 0).astype(int)


def public_estimators(*packages: str) -> dict[str, type]:
    """Return the exported classes that are fitted behind a parent, by name."""
    estimators = {}
    for package in packages:
        module = importlib.import_module(f"kdgraph.{package}")
        for name in module.__all__:
            item = getattr(module, name)
            if (
                inspect.isclass(item)
                and hasattr(item, "fit")
                and name not in ABSTRACT
                and "estimator" in inspect.signature(item).parameters
            ):
                estimators[name] = item
    return estimators


FIRST_CHECKS_THE_PARENT = {
    "DensityGate": ["LogisticRegression"],
    "KernelDensityForest": ["LogisticRegression"],
    "KernelDensityNetwork": ["LogisticRegression", "RandomForestClassifier"],
}
"""Parents that these refuse before they look at the rows."""
CLASSIFIERS = public_estimators(*PACKAGES)
REGRESSORS = public_estimators("recalibration")


class OneColumn(ClassifierMixin, BaseEstimator):
    """Classifier with the probability of the second class only, as of a sigmoid output."""

    def fit(self, X: Any, y: Any) -> OneColumn:
        self.classes_, self.n_features_in_ = np.unique(y), np.shape(X)[1]
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        return np.full((len(X), 1), 0.7)

    def predict(self, X: Any) -> np.ndarray:
        return np.full(len(X), self.classes_[0])


def build(name: str, parent: Any) -> Any:
    """Return an unfitted estimator behind a parent."""
    item = {**CLASSIFIERS, **REGRESSORS}[name]
    return item(parent, ScoreMap(None)) if item is GroupWise else item(parent)


def error_of(model: Any, X: Any, y: Any) -> str | None:
    """Return the message of the error of a fit, a single line, or None if it succeeds."""
    options = {"groups": np.arange(len(y)) % 2} if isinstance(model, GroupWise) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of few rows, which are not what is tested here
        try:
            model.fit(X, y, **options)
        except (ValueError, TypeError) as error:
            message = str(error)
        else:
            return None
    assert "\n" not in message
    return message


def test_all_public_estimators_are_tested():
    assert len(CLASSIFIERS) > 35 and len(REGRESSORS) >= 7
    assert {"KernelDensityForest", "DensityGate", "ScoreGate", "VennAbers"} <= set(CLASSIFIERS)


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_a_missing_parent_is_refused_where_no_default_stands_in(name):
    model = build(name, None)
    message = error_of(model, X, X[:, 0] if name in REGRESSORS else Y)
    if message is None:
        assert model._default_estimator() is not None or issubclass(type(model), PostHocDetector)
    else:
        assert re.match(rf"({name}|MaxProbability) needs an estimator, got None", message)


def rule_of(parameter: str, annotation: Any, value: object) -> str | None:
    """Return the message that a value breaks the rule of an annotation, or None if it does not."""
    try:
        check_value(parameter, value, annotation)
    except ParameterError as error:
        return str(error)
    return None


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_every_parameter_is_checked_against_its_annotation(name):
    parent, value = RandomForestClassifier(2) if name in CLASSIFIERS else GaussianLinear(), object()
    annotations = annotations_of(type(build(name, parent)))
    rules = {key: rule_of(key, annotation, value) for key, annotation in annotations.items()}
    checked = {key: rule for key, rule in rules.items() if rule is not None}
    assert len(checked) > 1
    for key, rule in checked.items():
        assert error_of(build(name, parent).set_params(**{key: value}), X, Y) == rule


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_class_instead_of_an_instance_is_refused(name):
    parent = RandomForestClassifier if name in CLASSIFIERS else GaussianLinear
    assert error_of(build(name, parent), X, Y) == (
        f"{name}: estimator must be an instance, got the class {parent.__name__}; pass"
        f" {parent.__name__}()"
    )


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_text_in_a_frame_is_refused_with_an_encoder_that_works(name):
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        colour=np.where(Y, "red", "blue"), place=np.where(X[:, 1] > 0, "north", "south")
    )
    for parent, encoder in (
        (
            RandomForestClassifier(5, random_state=0),
            "OrdinalEncoder(handle_unknown='use_encoded_value', unknown_value=-1,"
            " encoded_missing_value=-2)",
        ),
        (LogisticRegression(), "OneHotEncoder(handle_unknown='ignore')"),
    ):
        parent_name = type(parent).__name__
        message = error_of(build(name, parent), frame, Y)
        advice = (
            f"make_pipeline(make_column_transformer(({encoder}, ['colour', 'place']),"
            f" remainder='passthrough'), {parent_name}())"
        )
        if name in FIRST_CHECKS_THE_PARENT and parent_name in FIRST_CHECKS_THE_PARENT[name]:
            continue
        assert message == (
            f"could not convert string to float: {frame['colour'][0]!r} in column 'colour';"
            f" {parent_name} takes numbers, put an encoder into the pipeline, as in {advice}"
        )
    names = {
        item.__name__: item
        for item in (make_pipeline, make_column_transformer, OrdinalEncoder, OneHotEncoder)
    }
    pasted = eval(advice, names | {"LogisticRegression": LogisticRegression})
    assert "string" not in (error_of(build(name, pasted), frame, Y) or "")


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_single_column_of_probabilities_is_refused(name):
    message = error_of(build(name, OneColumn()), X, Y)
    if message is None:
        # A detector that does not read probabilities has scores of rows, and no probabilities.
        assert not hasattr(CLASSIFIERS[name], "predict_proba")
        return
    refuses_kind = "has no partition to read" in message or "logits or layers" in message
    assert refuses_kind or (
        message.startswith("predict_proba of OneColumn returned shape (")
        and message.endswith(
            ", 1), and needs a column for each of 2 classes; for two classes and the probability p"
            " of the second, return np.column_stack([1 - p, p])"
        )
    )


@pytest.mark.parametrize("name", CLASSIFIERS)
def test_a_parent_of_another_kind_is_refused_with_one_that_fits(name):
    message = error_of(build(name, LogisticRegression()), X, Y)
    if message is None:
        return
    if "logits or layers" in message:
        assert message.startswith(
            "LogisticRegression has no logits or layers to read; pass a network of"
        )
        return
    assert message.startswith(
        "LogisticRegression has no partition to read; pass a fitted forest, tree or boosted trees,"
        " or a network of torch"
    )
    if hasattr(CLASSIFIERS[name], "predict_proba"):
        assert "DensityGate(LogisticRegression(), partition=RandomForestClassifier())" in message


@pytest.mark.parametrize("name", [*CLASSIFIERS, *REGRESSORS])
def test_three_rows_are_fitted_or_refused_with_the_remedy(name):
    few, y = X[:3], np.array([0, 1, 0])
    if name in REGRESSORS:
        assert error_of(build(name, GaussianLinear()), few, y.astype(float)) is None
        return
    message = error_of(build(name, RandomForestClassifier(5, random_state=0)), few, y)
    remedies = (
        "; fit it to more rows, of which some are held out, or pass X_calibration and y_calibration",
        "; pass more rows",
        "; use KernelDensityForest instead",
        "; pass a network of kdgraph.parents.networks",
    )
    assert message is None or message.endswith(remedies), message


def test_the_advice_of_a_gate_works():
    message = error_of(build("ScoreGate", LogisticRegression()), X, Y) or ""
    first, second = message.split("forest's partition: ")[1].split(", or ")
    names = {**CLASSIFIERS, "LogisticRegression": LogisticRegression}
    names |= {"RandomForestClassifier": RandomForestClassifier}
    for advice in (first, second):
        assert eval(advice, names).fit(X, Y).predict_proba(X).shape == (80, 2)
