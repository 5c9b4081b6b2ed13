"""Fitted estimators with the interface of scikit-learn, as models: outputs, labels and columns.

Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Iterator
from inspect import getattr_static
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import FixedThresholdClassifier, TunedThresholdClassifierCV
from sklearn.pipeline import Pipeline
from sklearn.svm import SVC, NuSVC

from kdgraph.fitted.boosting_columns import catboost_columns, lightgbm_columns, xgboost_columns
from kdgraph.fitted.columns import CategoryColumn, ModelColumns
from kdgraph.fitted.source import ExternalModel, ModelSource

_DISTRIBUTION_METHODS = ("predict_dist", "pred_dist")
_OWN_LABELS = (FixedThresholdClassifier, TunedThresholdClassifierCV, SVC, NuSVC)
"""Classifiers of scikit-learn whose labels may be others than those of the largest probability."""
_KNOWN_LIBRARIES = ("sklearn", "imblearn", "lightgbm", "xgboost", "catboost")
"""Libraries whose other classifiers predict the label of the largest probability."""


def model_of_estimator(source: ModelSource, estimator: Any, kind: str) -> ExternalModel:
    """Return a fitted estimator of scikit-learn's kind, read from a file of a ``kind``, as a model.

    DataError is raised if it predicts neither probabilities nor numbers, or several targets.
    """
    name = type(estimator).__name__
    if not hasattr(estimator, "predict"):
        raise source.error(f"holds a {name}, which predicts nothing")
    with source.errors():
        columns = estimator_columns(estimator)
    common: dict[str, Any] = {"kind": kind, "columns": columns, "estimator": estimator}
    if hasattr(estimator, "predict_proba"):
        classes = getattr(estimator, "classes_", None)
        if classes is None or isinstance(classes, list):
            state = "is not fitted" if classes is None else "predicts several targets"
            raise source.error(
                f"holds a {name} that {state}; save a fitted classifier of one target"
            )
        return ExternalModel(
            predict=estimator.predict_proba,
            outputs="probabilities",
            classes=tuple(np.asarray(classes).tolist()),
            labels=estimator.predict if _has_own_labels(estimator) else None,
            **common,
        )
    if is_classifier(estimator):
        raise source.error(
            f"holds a {name}, which has no predict_proba; fit CalibratedClassifierCV({name}()) and"
            " save it"
        )
    method = next(
        (m for m in _DISTRIBUTION_METHODS if callable(getattr_static(estimator, m, None))), None
    )
    return ExternalModel(
        predict=estimator.predict,
        outputs="values",
        distribution=None if method is None else getattr(estimator, method),
        **common,
    )


def _has_own_labels(estimator: Any) -> bool:
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[-1][1]
    if isinstance(estimator, _OWN_LABELS):
        return True
    inner = getattr(estimator, "best_estimator_", None)
    if inner is not None:
        return _has_own_labels(inner)
    return type(estimator).__module__.partition(".")[0] not in _KNOWN_LIBRARIES


def estimator_columns(estimator: Any) -> ModelColumns:
    """Return the columns that a fitted estimator takes.

    An estimator of scikit-learn has the names that it was fitted on, one of a library of boosted
    trees the categories that this library keeps. The categories of a pipeline are those of the
    encoders that its first step contains.
    """
    library = type(estimator).__module__.partition(".")[0]
    if library == "lightgbm" and hasattr(estimator, "booster_"):
        return lightgbm_columns(estimator.booster_)
    if library == "xgboost" and hasattr(estimator, "get_booster"):
        return xgboost_columns(estimator.get_booster())
    if library == "catboost" and hasattr(estimator, "get_cat_feature_indices"):
        return catboost_columns(estimator)
    names = getattr(estimator, "feature_names_in_", None)
    n_features = getattr(estimator, "n_features_in_", None)
    if names is None:
        return ModelColumns(None, n_features)
    texts = tuple(str(name) for name in names)
    return ModelColumns(texts, len(texts), tuple(_encoded_categories(estimator, texts)))


def _encoded_categories(estimator: Any, names: tuple[str, ...]) -> Iterator[CategoryColumn]:
    """Yield the categories of encoders that get columns of the rows as they are."""
    preprocessor = getattr(estimator, "_preprocessor", None)
    if preprocessor is not None:  # of histogram gradient boosting, which has no public name for it
        for column in _encoded_categories(preprocessor, names):
            yield CategoryColumn(column.name, column.values, "text")
        return
    while isinstance(estimator, Pipeline):
        estimator = estimator.steps[0][1]
    if not isinstance(estimator, ColumnTransformer):
        yield from _categories_of(estimator, names)
        return
    for _, transformer, columns in estimator.transformers_:
        if not isinstance(transformer, str):
            yield from _categories_of(transformer, _names_of(columns, names))


def _categories_of(transformer: Any, names: tuple[str, ...]) -> Iterator[CategoryColumn]:
    """Yield the categories of an encoder, also of one behind an imputer, which keeps types."""
    while isinstance(transformer, Pipeline):
        steps = [step for _, step in transformer.steps if step not in (None, "passthrough")]
        kept = [step for step in steps if not isinstance(step, SimpleImputer)]
        # An indicator of missing values adds columns.
        adds = any(getattr(step, "add_indicator", False) for step in steps)
        transformer = kept[0] if kept and not adds else None
    categories = getattr(transformer, "categories_", None)
    if categories is None or len(categories) != len(names):
        return
    for name, values in zip(names, categories, strict=True):
        present = tuple(value for value in values.tolist() if value is not None and value == value)
        if present:
            yield CategoryColumn(name, present)


def _names_of(columns: Any, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the columns of one transformer, given by names, positions or a mask."""
    if isinstance(columns, str):
        return (columns,)
    if isinstance(columns, slice):
        texts = [isinstance(end, str) for end in (columns.start, columns.stop)]
        return () if any(texts) else names[columns]
    chosen = np.asarray(columns)
    if not chosen.size:
        return ()
    if chosen.dtype.kind in "OU":
        return tuple(str(name) for name in chosen.ravel())
    return tuple(np.asarray(names, dtype=object)[chosen].ravel().tolist())
