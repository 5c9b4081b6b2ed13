"""What an estimator takes: missing values, data frames, weights. scikit-learn's tags say it of what stands alone, not of pipelines."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from kdgraph.parents.rows import is_frame
from kdgraph.wording import reads_as_number

IMPUTE = "impute in the parent's pipeline, as in make_pipeline(SimpleImputer(), RandomForestClassifier())"
"""The way out, where missing values cannot be taken."""


def allows_missing(estimator: Any) -> bool:
    """Whether X with NaN may be given to it: as its tag says, or because it is composed of others, which refuse what they cannot take."""
    if hasattr(estimator, "__sklearn_tags__") and not isinstance(estimator, type):
        tags = estimator.__sklearn_tags__()
        if tags.input_tags.allow_nan or tags.no_validation:
            return True
    return is_composed(estimator)


def reads_columns(estimator: Any) -> bool:
    """Whether a data frame should come to it as one: it is composed of others, or is frozen and was fitted on columns with names."""
    return hasattr(estimator, "feature_names_in_") if isinstance(estimator, FrozenEstimator) else is_composed(estimator)


def takes_categories(estimator: Any) -> bool:
    """Return whether it takes columns of pandas' category type from a data frame, as scikit-learn's histogram gradient boosting does."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return isinstance(getattr(estimator, "categorical_features", None), str) and estimator.categorical_features == "from_dtype"


def has_categories(X: Any) -> bool:
    """Return whether a column of the data frame X (of pandas, with n rows) is of the category type."""
    return any(str(dtype) == "category" for dtype in X.dtypes)


def check_columns(X: Any, estimator: Any, *, categories: bool = False) -> None:
    """Refuse columns that hold no numbers before an estimator that takes nothing else.

    Parameters
    ----------
    X : a data frame of pandas, or an array [n, d] of text or objects; of other arrays there is nothing to check.
    estimator : what is to be fitted on X, named in the error.
    categories : whether it takes columns of pandas' category type.

    Raises
    ------
    ValueError
        Text or categories, with an encoder as the way out; dates and durations.
    """
    if is_frame(X):
        if X.columns.has_duplicates or X.ndim != 2:
            return  # scikit-learn refuses what it has no name for
        columns = ((repr(name), name, X[name]) for name in X.columns)
    elif getattr(X, "ndim", 0) == 2 and getattr(X.dtype, "kind", "") in "OUS":
        columns = ((str(position), position, X[:, position]) for position in range(X.shape[1]))
    else:
        return
    for called, name, column in columns:
        kind = getattr(column.dtype, "kind", "O")
        if kind in "mM" or str(column.dtype).startswith("period"):
            example = f"X.assign({name}=X[{name!r}].astype('int64'))" if str(name).isidentifier() else "X[name].astype('int64')"
            raise ValueError(
                f"column {called} holds dates or durations, and {_named(estimator)} takes numbers; make it a number, as in {example}"
            )
        if kind in "OUS" and not (categories and str(column.dtype) == "category"):
            _check_text(column, called, name, estimator)


def _check_text(column: Any, called: str, name: Any, estimator: Any) -> None:
    """Refuse text that is no number; other objects are left to scikit-learn."""
    values = np.asarray(column, dtype=object)
    text = next((value for value in values.tolist() if isinstance(value, str) and not reads_as_number(value)), None)
    if text is None:
        return
    encoder = f"make_column_transformer((OneHotEncoder(handle_unknown='ignore'), [{name!r}]), remainder='passthrough')"
    raise ValueError(
        f"could not convert string to float: {text!r} in column {called}; {_named(estimator)} takes numbers, put an encoder into the "
        f"pipeline, as in make_pipeline({encoder}, {_named(estimator)}())"
    )


def _named(estimator: Any) -> str:
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return type(estimator).__name__


def transforms_first(estimator: Any) -> bool:
    """Whether it is a pipeline with steps before the last one, frozen, calibrated or otherwise wrapped as it may be."""
    if isinstance(estimator, Pipeline):
        return len(estimator.steps) > 1
    inner = getattr(estimator, "estimator", None)
    return inner is not None and transforms_first(inner)


def weights_for(estimator: Any, weight: np.ndarray) -> dict[str, np.ndarray]:
    """What to give ``estimator.fit`` for weights Float[n]: nothing where all are 1; of a pipeline they are for the last step.

    With metadata routing of scikit-learn on, the pipeline's steps request them.
    """
    if (weight == 1).all():
        return {}
    if get_config()["enable_metadata_routing"]:
        return {"sample_weight": weight}
    names = []
    while isinstance(estimator, Pipeline):
        last, estimator = estimator.steps[-1]
        names.append(last)
    return {"__".join([*names, "sample_weight"]): weight}


def is_composed(estimator: Any) -> bool:
    """Return whether some of its parameters are estimators; as scikit-learn's meta-estimators and pipelines have."""
    if isinstance(estimator, FrozenEstimator):
        return is_composed(estimator.estimator)
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        return False
    return any(hasattr(value, "get_params") for value in estimator.get_params().values())
