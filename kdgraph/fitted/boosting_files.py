"""Boosted trees in the own files of XGBoost, LightGBM and CatBoost.

Models of several quantiles of XGBoost and CatBoost predict distributions. Trees are checked before
the library reads them, see :mod:`kdgraph.persistence.tree_files`. Original to kdgraph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from kdgraph.distributions import QuantileGrid
from kdgraph.fitted.source import ExternalModel, ModelSource, given_names
from kdgraph.persistence.tree_files import (
    problem_of_lightgbm_trees,
    problem_of_xgboost_trees,
    xgboost_document,
)
from kdgraph.wording import first_line

_DAMAGED = "its trees are damaged"
_SEVERAL_OUTCOMES = (
    "predicts several outcomes of a row; save a model of one outcome, or of its quantiles"
)


def read_xgboost(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of XGBoost.

    Parameters
    ----------
    source : ModelSource
        Path, and task and kind of the outputs where the file leaves them open.
    content : bytes
        Content of the file.

    Raises
    ------
    DataError
        If XGBoost is not installed, the file is damaged, or its objective predicts neither classes
        nor numbers.
    """
    try:
        import xgboost
    except ImportError as error:
        raise source.not_installed("xgboost", "boosting") from error
    booster = xgboost.Booster()
    try:
        document = xgboost_document(content)
        problem = problem_of_xgboost_trees(document["learner"])
        if problem is None:
            booster.load_model(bytearray(content))
        learner = document["learner"]
    except Exception as error:  # any: the parser reports damage as errors of many types
        raise source.error(f"is no model of XGBoost, or damaged ({first_line(error)})") from error
    if problem:
        raise source.error(f"{_DAMAGED} ({problem})")
    objective = learner["objective"]["name"]
    names = given_names(booster.feature_names)
    # A column of logits before the softmax, where the objective predicts labels.
    margin = objective in ("multi:softmax", "binary:logitraw")

    def predict(X: Any) -> np.ndarray:
        matrix = xgboost.DMatrix(X, enable_categorical=True)
        return booster.predict(matrix, output_margin=margin)

    n_targets = int(learner["learner_model_param"].get("num_target", 1))
    distribution = None
    if n_targets > 1:
        if objective != "reg:quantileerror":
            raise source.error(_SEVERAL_OUTCOMES)
        levels = json.loads(learner["objective"]["quantile_loss_param"]["quantile_alpha"])
        distribution = _quantile_function(predict, levels)
    if objective in ("binary:hinge",) or objective.startswith(("rank:", "survival:")):
        raise source.error(f"has the objective {objective}, which predicts no probabilities")
    is_class = source.task == "classification" or objective.startswith(("binary:", "multi:"))
    estimator = (xgboost.XGBClassifier if is_class else xgboost.XGBRegressor)()
    estimator.load_model(bytearray(content))
    n_classes = max(int(learner["learner_model_param"]["num_class"]), 2)
    return ExternalModel(
        "XGBoost",
        predict if distribution is None else lambda X: distribution(X).mean(),
        "classification" if is_class else "regression",
        ("logits" if margin else "probabilities") if is_class else "values",
        classes=tuple(range(n_classes)) if is_class else None,
        feature_names=names,
        n_features=booster.num_features(),
        estimator=estimator,
        distribution=distribution,
    )


def read_lightgbm(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of LightGBM.

    Parameters
    ----------
    source : ModelSource
        Path, and task and kind of the outputs where the file leaves them open.
    content : bytes
        Content of the file.

    Raises
    ------
    DataError
        If LightGBM is not installed, the file is damaged, or its objective predicts neither classes
        nor numbers.
    """
    try:
        import lightgbm
    except ImportError as error:
        raise source.not_installed("lightgbm", "boosting") from error
    try:
        text = content.decode()
        problem = problem_of_lightgbm_trees(text)
        booster = None if problem else lightgbm.Booster(model_str=text)
    except Exception as error:  # any: as above
        raise source.error(f"is no model of LightGBM, or damaged ({first_line(error)})") from error
    if booster is None:
        raise source.error(f"{_DAMAGED} ({problem})")
    found = re.search(r"^objective=(\S+)", text, re.MULTILINE)
    objective = found[1] if found else "custom"
    if objective in ("lambdarank", "rank_xendcg"):
        raise source.error(f"has the objective {objective}, which predicts no probabilities")
    is_known_class = objective in ("binary", "multiclass", "multiclassova", "cross_entropy")
    if objective == "custom" and source.task is None:
        raise source.error(
            f"has an objective of its own; give {source.key}task=classification"
            f" {source.key}outputs=logits, or {source.key}task=regression"
        )
    is_class = source.task == "classification" or (is_known_class and source.task is None)

    def predict(X: Any) -> np.ndarray:
        proba = np.asarray(booster.predict(X))
        # One-against-all probabilities of LightGBM do not sum to 1.
        return proba / proba.sum(axis=1, keepdims=True) if objective == "multiclassova" else proba

    default = "logits" if objective == "custom" else "probabilities"
    return ExternalModel(
        "LightGBM",
        predict,
        "classification" if is_class else "regression",
        (source.outputs or default) if is_class else "values",
        classes=tuple(range(max(booster.num_model_per_iteration(), 2))) if is_class else None,
        feature_names=given_names(booster.feature_name()),
        n_features=booster.num_feature(),
        estimator=booster,
    )


def read_catboost(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of CatBoost.

    Parameters
    ----------
    source : ModelSource
        Path, and task and kind of the outputs where the file leaves them open.
    content : bytes
        Content of the file.

    Raises
    ------
    DataError
        If CatBoost is not installed, the file is damaged, or its objective predicts neither classes
        nor numbers.
    """
    try:
        import catboost
    except ImportError as error:
        raise source.not_installed("catboost", "boosting") from error
    try:
        model = catboost.CatBoost().load_model(blob=content, format="cbm")
        loss = str(model.get_all_params().get("loss_function", ""))
    except Exception as error:  # any: as above
        raise source.error(f"is no model of CatBoost, or damaged ({first_line(error)})") from error
    is_class = loss.startswith(("Logloss", "CrossEntropy", "MultiClass"))
    estimator = (catboost.CatBoostClassifier if is_class else catboost.CatBoostRegressor)()
    estimator.load_model(blob=content, format="cbm")
    categorical = set(model.get_cat_feature_indices())

    def predict(X: Any) -> np.ndarray:
        rows = _categories_as_text(X, categorical)
        if not is_class:
            return np.asarray(model.predict(rows))
        proba = np.asarray(model.predict(rows, prediction_type="Probability"))
        return proba / proba.sum(axis=1, keepdims=True)  # one-against-all do not sum to 1

    distribution = None
    if loss.startswith("MultiQuantile:alpha="):
        levels = loss.partition("=")[2].partition(";")[0].split(",")
        distribution = _quantile_function(predict, levels)
    elif loss.startswith("Multi") and not is_class:
        raise source.error(_SEVERAL_OUTCOMES)
    return ExternalModel(
        "CatBoost",
        predict if distribution is None else lambda X: distribution(X).mean(),
        "classification" if is_class else "regression",
        "probabilities" if is_class else "values",
        classes=tuple(np.asarray(model.classes_).tolist()) if is_class else None,
        feature_names=given_names(model.feature_names_),
        n_features=len(model.feature_names_),
        # Its call for leaves refuses a missing category, which ``predict`` replaces by a text.
        estimator=None if categorical else estimator,
        distribution=distribution,
    )


def _quantile_function(
    predict: Callable[[Any], np.ndarray], levels: Sequence[Any]
) -> Callable[[Any], QuantileGrid]:
    """Return the function from rows to the distributions with these quantiles, in any order."""
    numbers = np.array(levels, dtype=np.float64)
    order = np.argsort(numbers)
    return lambda X: QuantileGrid(numbers[order], np.asarray(predict(X), np.float64)[:, order])


def _categories_as_text(X: Any, positions: set[int]) -> Any:
    """Return a data frame whose columns at ``positions`` are text, "nan" where missing."""
    if not positions or not hasattr(X, "iloc"):
        return X
    X = X.copy()
    for position in positions:
        column = X.columns[position]
        X[column] = X[column].astype(object).where(X[column].notna(), "nan").astype(str)
    return X
