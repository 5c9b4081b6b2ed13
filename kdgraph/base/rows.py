"""Rows of one role, in an array or in a data frame of pandas.

What an estimator takes: missing values, data frames, weights. scikit-learn's tags say it of what
stands alone, not of pipelines.

Features whose values single precision, in which scikit-learn's trees compute, cannot tell apart.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn import get_config
from sklearn.ensemble import GradientBoostingClassifier, GradientBoostingRegressor
from sklearn.ensemble._forest import BaseForest
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.tree import BaseDecisionTree

from kdgraph.wording import reads_as_number, some


@dataclass(frozen=True)
class Rows:
    """Rows of one role.

    Attributes
    ----------
    X : Float[n, d], images Float[n, c, h, w], or a data frame.
    y : after a classifier Int[n], positions in ``classes_``; after a regressor Float[n]; for a
    detector [n] labels as they came, or None.
    weight : Float[n].
    group : [n], which subgroup each row belongs to, or None where nobody said it.
    """

    X: Any
    y: Any
    weight: np.ndarray
    group: np.ndarray | None = None

    @classmethod
    def of(cls, X: Any, y: Any = None) -> Rows:
        """Rows that count alike."""
        return cls(X, y, np.ones(len(X)))

    def __len__(self) -> int:
        return len(self.weight)

    def __getitem__(self, index) -> Rows:
        y, group = (None if values is None else values[index] for values in (self.y, self.group))
        return Rows(select_rows(self.X, index), y, self.weight[index], group)

    def __add__(self, other: Rows) -> Rows:
        """The rows of both, these first."""
        y, weight = np.concatenate([self.y, other.y]), np.concatenate([self.weight, other.weight])
        groups = [rows.group for rows in (self, other) if rows.group is not None]
        return Rows(
            concatenate_rows(self.X, other.X),
            y,
            weight,
            np.concatenate(groups) if len(groups) == 2 else None,
        )

    def one_hot(self, n_classes: int) -> np.ndarray:
        """Float[n, K]: the weight of each row in the column of its class."""
        table = np.zeros((len(self), n_classes))
        table[np.arange(len(self)), self.y] = self.weight
        return table


def is_dataframe(X: Any) -> bool:
    """Whether X is a data frame of pandas."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def select_rows(X: Any, index: Any) -> Any:
    """The rows of X (an array or a data frame) at the positions ``index``: a slice, Int[m] or
    Bool[n].
    """
    return X.iloc[index] if is_dataframe(X) else X[index]


def has_missing(X: Any) -> bool:
    """Whether any value of X (Float[n, …] or a data frame) is missing."""
    if is_dataframe(X):
        return bool(X.isna().to_numpy().any())
    return bool(X.size and np.isnan(X.min()))  # without an array of flags as long as X


def check_per_row(name: str, values: Any, n: int) -> np.ndarray:
    """[n]: one of each row, as ``values`` must be; ``name`` is what an error calls them."""
    found = np.asarray(values)
    if found.shape != (n,):
        raise ValueError(f"{name} must have one for each of {n} rows, got shape {found.shape}")
    return found


def concatenate_rows(first: Any, second: Any) -> Any:
    """The rows of both, arrays or data frames, one after the other."""
    if not is_dataframe(first):
        return np.concatenate([first, second])
    import pandas as pd  # who has a frame has imported it

    return pd.concat([first, second], ignore_index=True)


IMPUTATION_ADVICE = (
    "impute in the parent's pipeline, as in make_pipeline(SimpleImputer(),"
    " RandomForestClassifier())"
)
"""The way out, where missing values cannot be taken."""


def allows_missing(estimator: Any) -> bool:
    """Whether X with NaN may be given to it: as its tag says, or because it is composed of others,
    which refuse what they cannot take.
    """
    if hasattr(estimator, "__sklearn_tags__") and not isinstance(estimator, type):
        tags = estimator.__sklearn_tags__()
        if tags.input_tags.allow_nan or tags.no_validation:
            return True
    return is_meta_estimator(estimator)


def accepts_dataframe(estimator: Any) -> bool:
    """Whether a data frame should come to it as one: it is composed of others, or is frozen and was
    fitted on columns with names.
    """
    return (
        hasattr(estimator, "feature_names_in_")
        if isinstance(estimator, FrozenEstimator)
        else is_meta_estimator(estimator)
    )


def accepts_categories(estimator: Any) -> bool:
    """Return whether it takes columns of pandas' category type from a data frame, as scikit-learn's
    histogram gradient boosting does.
    """
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return (
        isinstance(getattr(estimator, "categorical_features", None), str)
        and estimator.categorical_features == "from_dtype"
    )


def has_category_columns(X: Any) -> bool:
    """Return whether a column of the data frame X (of pandas, with n rows) is of the category
    type.
    """
    return any(str(dtype) == "category" for dtype in X.dtypes)


def check_numeric_columns(X: Any, estimator: Any, *, accepts_categories: bool = False) -> None:
    """Refuse columns that hold no numbers before an estimator that takes nothing else.

    Parameters
    ----------
    X : a data frame of pandas, or an array [n, d] of text or objects; of other arrays there is
    nothing to check.
    estimator : what is to be fitted on X, named in the error.
    accepts_categories : whether it takes columns of pandas' category type.

    Raises
    ------
    ValueError
        Text or categories, with an encoder as the way out; dates and durations.
    """
    if is_dataframe(X):
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
            example = (
                f"X.assign({name}=X[{name!r}].astype('int64'))"
                if str(name).isidentifier()
                else "X[name].astype('int64')"
            )
            raise ValueError(
                f"column {called} holds dates or durations, and {_estimator_name(estimator)} takes numbers;"
                f" make it a number, as in {example}"
            )
        if kind in "OUS" and not (accepts_categories and str(column.dtype) == "category"):
            _check_no_text(column, called, name, estimator)


def _check_no_text(column: Any, label: str, name: Any, estimator: Any) -> None:
    """Refuse text that is no number; other objects are left to scikit-learn."""
    values = np.asarray(column, dtype=object)
    text = next(
        (
            value
            for value in values.tolist()
            if isinstance(value, str) and not reads_as_number(value)
        ),
        None,
    )
    if text is None:
        return
    encoder = (
        f"make_column_transformer((OneHotEncoder(handle_unknown='ignore'), [{name!r}]),"
        " remainder='passthrough')"
    )
    raise ValueError(
        f"could not convert string to float: {text!r} in column {label}; {_estimator_name(estimator)} takes"
        f" numbers, put an encoder into the pipeline, as in make_pipeline({encoder},"
        f" {_estimator_name(estimator)}())"
    )


def _estimator_name(estimator: Any) -> str:
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return type(estimator).__name__


def has_transformer_steps(estimator: Any) -> bool:
    """Whether it is a pipeline with steps before the last one, frozen, calibrated or otherwise
    wrapped as it may be.
    """
    if isinstance(estimator, Pipeline):
        return len(estimator.steps) > 1
    inner = getattr(estimator, "estimator", None)
    return inner is not None and has_transformer_steps(inner)


def sample_weight_kwargs(estimator: Any, weight: np.ndarray) -> dict[str, np.ndarray]:
    """What to give ``estimator.fit`` for weights Float[n]: nothing where all are 1; of a pipeline
    they are for the last step.

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


def is_meta_estimator(estimator: Any) -> bool:
    """Return whether some of its parameters are estimators; as scikit-learn's meta-estimators and
    pipelines have.
    """
    if isinstance(estimator, FrozenEstimator):
        return is_meta_estimator(estimator.estimator)
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        return False
    return any(hasattr(value, "get_params") for value in estimator.get_params().values())


_MAX_CHECKED_ROWS = 2000
"""Rows that are looked at, evenly spaced: sorting 1,000 columns of as many takes 0.1 s, and chance
merges less than 0.1 % of them.
"""
_MIN_DISTINCT_FRACTION = 0.9
"""Share of the different values of a feature that must remain in single precision."""
_SINGLE_PRECISION_MODELS = (
    BaseForest,
    BaseDecisionTree,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
)
_SINGLE_PRECISION_LIBRARIES = ("xgboost", "catboost", "torch", "skorch")


def distinct_value_counts(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return how many different values each feature has, in double and in single precision.

    Parameters
    ----------
    X : Float[n, d]; NaN is no value.

    Returns
    -------
    double, single : Int[d], each at least 1.

    Examples
    --------
    >>> [counts.tolist() for counts in distinct_value_counts(np.array([[2460000.51, 1.0], [2460000.52, 1.0], [2460000.53, 2.0]]))]
    [[3, 2], [1, 2]]
    """
    # Rounding is monotone, so that the sorted values are sorted in single precision too.
    ordered = np.sort(X[:: max(1, -(-len(X) // _MAX_CHECKED_ROWS))], axis=0)
    with np.errstate(over="ignore"):
        single = ordered.astype(np.float32)
    return tuple((values[1:] > values[:-1]).sum(axis=0) + 1 for values in (ordered, single))  # type: ignore[return-value]


def uses_single_precision(estimator: Any) -> bool:
    """Return whether an estimator, or the last one of those that it is composed of, rounds its
    input to float32.
    """
    while True:
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif (
            isinstance(estimator, _SINGLE_PRECISION_MODELS)
            or hasattr(estimator, "_make_module")
            or hasattr(estimator, "module_")
            or type(estimator).__module__.partition(".")[0] in _SINGLE_PRECISION_LIBRARIES
        ):
            return True
        elif hasattr(estimator, "estimator") or isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        else:
            return False


def warn_precision_loss(
    owner: str, parent: Any, X: Any, names: Sequence[str] = (), *, scale: str | None = None
) -> None:
    """Warn of features of which a fitted parent tells few values apart, because it rounds them to
    float32.

    Parameters
    ----------
    owner : the data set or class that is named in the message.
    parent : fitted; what a pipeline makes of the rows before its last step is looked at.
    X : rows [n, d] that it was fitted on: an array or a data frame; images are in [0, 1] and pass.
    names : of the d features; empty: their positions, or the columns of the data frame.
    scale : the override that moves each feature to [0, 1], if there is one; it is offered where it
        helps.
    """
    if not uses_single_precision(parent):
        return
    rows, names = _final_step_input(parent, X, names)
    if (
        rows is None
        or rows.ndim != 2
        or rows.dtype.kind not in "iuf"
        or len(rows) < 2
        or 0 in rows.shape
    ):
        return
    rows = rows.astype(np.float64, copy=False)
    double, single = distinct_value_counts(rows)
    if not (lost := np.flatnonzero(single < _MIN_DISTINCT_FRACTION * double)).size:
        return
    j = int(lost[np.argmax(double[lost] - single[lost])])
    called = some(
        [
            f"'{names[i]}'" if len(names) == rows.shape[1] else f"column {i}"
            for i in [j, *(i for i in lost if i != j)]
        ]
    )
    different = f"{owner}: of {double[j]:,} different values of {called}"
    found = f"{different}, single precision, in which {_final_estimator_name(parent)} computes, has {single[j]:,}"
    low, high = np.nanmin(rows[:, lost], axis=0), np.nanmax(rows[:, lost], axis=0)
    double, single = distinct_value_counts((rows[:, lost] - low) / (high - low))
    if scale is not None and (single >= _MIN_DISTINCT_FRACTION * double).all():
        way_out = f"{scale} takes the offset away"
    elif scale is not None:
        way_out = "subtract the offset of the column, or take outliers out of it"
    else:
        way_out = (
            "subtract the offset, or standardise in the parent's pipeline, as in"
            " make_pipeline(StandardScaler(), model)"
        )
    warnings.warn(f"{found}; {way_out}", stacklevel=3)


def _final_step_input(
    parent: Any, X: Any, names: Sequence[str]
) -> tuple[np.ndarray | None, Sequence[str]]:
    """Rows as an array, and the names of its columns, behind the transformers of a pipeline."""
    names = list(names) or [str(name) for name in getattr(X, "columns", ())]
    while isinstance(parent, FrozenEstimator):
        parent = parent.estimator
    if isinstance(parent, Pipeline) and len(parent.steps) > 1:
        try:
            X = parent[:-1].transform(X)
            names = list(parent[:-1].get_feature_names_out(names or None))
        except (AttributeError, ValueError, TypeError):  # transformers that name nothing
            names = []
    if hasattr(X, "toarray"):  # a sparse matrix has no offset
        return None, names
    try:
        return np.asarray(X), names
    except (TypeError, ValueError):
        return None, names


def _final_estimator_name(parent: Any) -> str:
    while isinstance(parent, Pipeline | FrozenEstimator):
        parent = parent.steps[-1][1] if isinstance(parent, Pipeline) else parent.estimator
    return type(parent).__name__
