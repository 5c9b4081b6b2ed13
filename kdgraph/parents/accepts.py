"""What an estimator takes: missing values, data frames, weights. scikit-learn's tags say it of what stands alone, not of pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

IMPUTE = "impute in the parent's pipeline, as in make_pipeline(SimpleImputer(), RandomForestClassifier())"
"""The way out, where missing values cannot be taken."""


def allows_missing(estimator: Any) -> bool:
    """Whether X with NaN may be given to it: as its tag says, or because it is composed of others, which refuse what they cannot take."""
    if hasattr(estimator, "__sklearn_tags__"):
        tags = estimator.__sklearn_tags__()
        if tags.input_tags.allow_nan or tags.no_validation:
            return True
    return _is_composed(estimator)


def reads_columns(estimator: Any) -> bool:
    """Whether a data frame should come to it as one: it is composed of others, or is frozen and was fitted on columns with names."""
    return hasattr(estimator, "feature_names_in_") if isinstance(estimator, FrozenEstimator) else _is_composed(estimator)


def transforms_first(estimator: Any) -> bool:
    """Whether it is a pipeline with steps before the last one, frozen, calibrated or otherwise wrapped as it may be."""
    if isinstance(estimator, Pipeline):
        return len(estimator.steps) > 1
    inner = getattr(estimator, "estimator", None)
    return inner is not None and transforms_first(inner)


def weights_for(estimator: Any, weight: np.ndarray) -> dict[str, np.ndarray]:
    """What to give ``estimator.fit`` for weights Float[n]: nothing where all are 1; of a pipeline they are for the last step."""
    if (weight == 1).all():
        return {}
    names = []
    while isinstance(estimator, Pipeline):
        last, estimator = estimator.steps[-1]
        names.append(last)
    return {"__".join([*names, "sample_weight"]): weight}


def _is_composed(estimator: Any) -> bool:
    """Whether some of its parameters are estimators."""
    if isinstance(estimator, FrozenEstimator):
        return _is_composed(estimator.estimator)
    return hasattr(estimator, "get_params") and any(hasattr(value, "get_params") for value in estimator.get_params().values())
