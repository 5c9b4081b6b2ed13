"""Boosted trees in the own files of XGBoost, LightGBM and CatBoost.

Models of several quantiles of XGBoost and CatBoost predict distributions. XGBoost and LightGBM read
what :mod:`kdgraph.persistence` has checked and written again; CatBoost alone parses its files, in a
process of its own first. Original to kdgraph.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kdgraph.distributions import Normal, QuantileGrid
from kdgraph.fitted.boosting_columns import catboost_columns, lightgbm_columns, xgboost_columns
from kdgraph.fitted.source import SEVERAL_OUTCOMES, ExternalModel, ModelSource
from kdgraph.persistence.lightgbm_files import rewrite_lightgbm
from kdgraph.persistence.trials import try_catboost
from kdgraph.persistence.xgboost_files import rewrite_xgboost

_OF_SEVERAL_LABELS = ("MultiLogloss", "MultiCrossEntropy")
_NO_THRESHOLD = 0.5
"""Threshold at which the label is that of the largest probability."""


def read_xgboost(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of XGBoost; see :data:`~kdgraph.fitted.source.ModelReader`."""
    with source.importing("xgboost"):
        import xgboost
    booster = xgboost.Booster()
    with source.reading("is no model of XGBoost, or damaged"):
        content, document = rewrite_xgboost(content)
        booster.load_model(bytearray(content))
        learner = document["learner"]
        objective = learner["objective"]["name"]
        # The class of XGBoost that saved it; the trees alone do not show what reg:logistic is for.
        saved_by = json.loads(booster.attr("scikit_learn") or "{}").get("_estimator_type")
        is_known_class = objective.startswith(("binary:", "multi:")) or saved_by == "classifier"
        is_class = source.task == "classification" or (source.task is None and is_known_class)
        if saved_by is None:
            saved_by = "classifier" if is_class else "regressor"
        classes = {"classifier": xgboost.XGBClassifier, "regressor": xgboost.XGBRegressor}
        estimator = None
        if saved_by in classes:
            estimator = classes[saved_by]()
            estimator.load_model(bytearray(content))
    # A column of logits before the softmax, where the objective predicts labels.
    margin = objective in ("multi:softmax", "binary:logitraw")
    with source.errors():
        columns = xgboost_columns(booster, document["version"])
    rounds = _best_rounds(source, booster, learner)

    def predict(X: Any) -> np.ndarray:
        matrix = xgboost.DMatrix(X, enable_categorical=True)
        return booster.predict(matrix, output_margin=margin, iteration_range=(0, rounds))

    n_targets = int(learner["learner_model_param"].get("num_target", 1))
    distribution = None
    if n_targets > 1:
        if objective != "reg:quantileerror":
            raise source.error(SEVERAL_OUTCOMES)
        levels = json.loads(learner["objective"]["quantile_loss_param"]["quantile_alpha"])
        distribution = _quantile_function(predict, levels)
    if objective in ("binary:hinge",) or objective.startswith(("rank:", "survival:")):
        raise source.error(f"has the objective {objective}, which predicts no probabilities")
    n_classes = max(int(learner["learner_model_param"]["num_class"]), 2)
    outputs = "logits" if margin else source.outputs or "probabilities"
    return ExternalModel(
        "XGBoost",
        predict if distribution is None else lambda X: distribution(X).mean(),
        outputs if is_class else "values",
        classes=tuple(range(n_classes)) if is_class else None,
        columns=columns,
        estimator=estimator,
        distribution=distribution,
    )


def _best_rounds(source: ModelSource, booster: Any, learner: Mapping[str, Any]) -> int:
    """Return the number of rounds to predict with, 0 for all: up to the best one.

    The estimators of XGBoost predict so after early stopping, and its documentation advises it for
    ``xgboost.train``.
    """
    best = booster.attr("best_iteration")
    if best is None or learner["gradient_booster"].get("name") == "gblinear":
        return 0
    rounds, n_rounds = int(best) + 1, booster.num_boosted_rounds()
    if not 0 < rounds <= n_rounds:
        raise source.error(f"names round {best} as the best of {n_rounds}")
    if booster.attr("scikit_learn") is None and rounds < n_rounds:
        warnings.warn(
            f"the model in {source.path} stopped early, and predicts with the best {rounds} of its"
            f" {n_rounds} rounds; save booster[:{n_rounds}] to predict with all of them",
            stacklevel=3,
        )
    return rounds


def read_lightgbm(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of LightGBM; see :data:`~kdgraph.fitted.source.ModelReader`."""
    with source.importing("lightgbm"):
        import lightgbm
    with source.reading("is no model of LightGBM, or damaged"):
        text = rewrite_lightgbm(content.decode())
        booster = lightgbm.Booster(model_str=text)
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
        (source.outputs or default) if is_class else "values",
        classes=tuple(range(max(booster.num_model_per_iteration(), 2))) if is_class else None,
        columns=lightgbm_columns(booster),
        estimator=booster,
    )


def read_catboost(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of CatBoost; see :data:`~kdgraph.fitted.source.ModelReader`."""
    with source.importing("catboost"):
        import catboost
    with source.reading("is no model of CatBoost, or damaged"):
        if not source.trust:
            try_catboost(content)
        model = catboost.CatBoost().load_model(blob=content, format="cbm")
        loss = str(model.get_all_params().get("loss_function", ""))
        classes = tuple(np.asarray(model.classes_).tolist())
        columns = catboost_columns(model)
    if loss.startswith(_OF_SEVERAL_LABELS):
        raise source.error(SEVERAL_OUTCOMES)
    if classes and source.task == "regression":
        raise source.error(f"is a classifier (its loss is {loss}); leave out {source.key}task")
    is_class = bool(classes) or source.task == "classification"
    if is_class and not classes and source.outputs is None:
        raise source.error(
            f"has the loss {loss}, which leaves open whether it has classes; give"
            f" {source.key}outputs=logits, or {source.key}task=regression"
        )
    estimator = (catboost.CatBoostClassifier if is_class else catboost.CatBoostRegressor)()
    with source.reading("cannot be read by CatBoost"):
        estimator.load_model(blob=content, format="cbm")

    def predict(X: Any) -> np.ndarray:
        if not is_class:
            return np.asarray(model.predict(X))
        if not classes:
            return np.asarray(model.predict(X, prediction_type="RawFormulaVal"))
        proba = np.asarray(model.predict(X, prediction_type="Probability"))
        return proba / proba.sum(axis=1, keepdims=True)  # one-against-all do not sum to 1

    distribution = None
    if loss.startswith("MultiQuantile:alpha="):
        levels = loss.partition("=")[2].partition(";")[0].split(",")
        distribution = _quantile_function(predict, levels)
    elif loss == "RMSEWithUncertainty":
        distribution = _normal_function(model)
    elif loss.startswith("Multi") and not is_class:
        raise source.error(SEVERAL_OUTCOMES)
    return ExternalModel(
        "CatBoost",
        predict if distribution is None else lambda X: distribution(X).mean(),
        ("probabilities" if classes else source.outputs or "logits") if is_class else "values",
        classes=(classes or (0, 1)) if is_class else None,
        columns=columns,
        # Its call for leaves refuses the missing categories of rows out of distribution.
        estimator=None if columns.categories else estimator,
        distribution=distribution,
        labels=_labels_by_threshold(estimator) if len(classes) == 2 else None,
    )


def _labels_by_threshold(classifier: Any) -> Callable[[Any], np.ndarray] | None:
    """Return the function from rows to labels of a CatBoostClassifier with a threshold, or None."""
    if classifier.get_probability_threshold() in (None, _NO_THRESHOLD):
        return None
    return lambda X: np.asarray(classifier.predict(X)).ravel()


def _normal_function(model: Any) -> Callable[[Any], Normal]:
    """Return the function from rows to the distributions of a mean and a variance of CatBoost."""

    def predict(X: Any) -> Normal:
        mean, variance = np.asarray(model.predict(X, prediction_type="RMSEWithUncertainty")).T
        return Normal(mean, np.sqrt(variance))

    return predict


def _quantile_function(
    predict: Callable[[Any], np.ndarray], levels: Sequence[Any]
) -> Callable[[Any], QuantileGrid]:
    """Return the function from rows to the distributions with these quantiles, in any order."""
    numbers = np.array(levels, dtype=np.float64)
    order = np.argsort(numbers)
    return lambda X: QuantileGrid(numbers[order], np.asarray(predict(X), np.float64)[:, order])
