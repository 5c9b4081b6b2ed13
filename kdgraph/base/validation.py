"""Base class of estimators around another one, and the rows, labels and weights that they accept.

A :class:`MetaEstimator` accepts the rows that its parent accepts: missing values, data frames,
columns of categories. The tags of scikit-learn give this for single estimators, but not for
pipelines, so that the functions of this module find it out. Trees of scikit-learn and networks
compute in single precision, with seven digits up to 3.4e38, and distances need finite squares.
Numbers beyond are refused in a fit; values of a feature that single precision does not distinguish
give a warning. :func:`select_rows` and :func:`iterate_blocks` take rows of arrays and of data
frames alike. Original to kdgraph; the checks are those of scikit-learn's ``validate_data``.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    check_consistent_length,
    check_is_fitted,
    validate_data,
)

from kdgraph.base.frozen import (
    TREE_MODELS,
    check_is_estimator,
    check_parameters_are_instances,
    last_step,
    missing_method_advice,
    unwrap_frozen,
)
from kdgraph.docstrings import inherit_descriptions
from kdgraph.errors import DataError
from kdgraph.parameters import RequiredPartition
from kdgraph.wording import reads_as_number, some

MAX_SQUARED = 1e150
"""Largest number in distances: sums of squares of millions of features stay finite."""
_MAX_SINGLE = float(np.finfo(np.float32).max)

# Number of rows, evenly spaced, in which distinct values are counted. Sorting 1,000 columns of this
# length takes 0.1 s, and random numbers lose less than 0.1 % of their distinct values.
_MAX_CHECKED_ROWS = 2000

# Fraction of the distinct values of a feature that must remain in single precision.
_MIN_DISTINCT_FRACTION = 0.9

_SINGLE_PRECISION_LIBRARIES = ("xgboost", "catboost", "torch", "skorch")


def check_single_precision(X: Any, name: str) -> None:
    """Raise DataError if a number of X (Float[n, ...]) is beyond the range of single precision.

    Values may be missing, and other rows than arrays of numbers are not checked. ``name`` is the
    class name of the estimator that computes in single precision.
    """
    _check_size(X, _MAX_SINGLE, f"single precision, in which {name} computes,", name)


def check_squares(X: Any, name: str) -> None:
    """Raise DataError if squared distances between the rows X (Float[n, ...]) may not be finite.

    ``name`` is the class name of the parent, or of the estimator that measures them.
    """
    _check_size(X, MAX_SQUARED, "finite squares of distances", name)


def _check_size(X: Any, largest: float, limit: str, name: str) -> None:
    """Raise DataError if a number of the rows X is larger, beyond the limit of this name."""
    if not isinstance(X, np.ndarray) or X.dtype.kind not in "fiu" or not X.size:
        return
    # Two passes without an array of the size of X; comparisons with NaN are False.
    if not (X.max() > largest or X.min() < -largest or np.isnan(X.max())):
        return
    rows = np.reshape(X, (len(X), -1))
    too_large = np.argwhere(np.abs(rows) > largest)
    if len(too_large):
        i, j = too_large[0]
        raise DataError(
            f"column {j} has {rows[i, j]:g} in row {i}, beyond {limit} at {largest:.2g};"
            f" correct it, or scale the columns: make_pipeline(MaxAbsScaler(), {name}())"
        )


def distinct_value_counts(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the number of distinct values of each feature in double and in single precision.

    X is Float[n, d], where NaN does not count as a value; both numbers are Int[d], at least 1.

    >>> X = np.array([[2460000.51, 1.0], [2460000.52, 1.0], [2460000.53, 2.0]])
    >>> [counts.tolist() for counts in distinct_value_counts(X)]
    [[3, 2], [1, 2]]
    """
    # Rounding is monotone, so that the sorted values are sorted in single precision too.
    ordered = np.sort(X[:: max(1, -(-len(X) // _MAX_CHECKED_ROWS))], axis=0)
    with np.errstate(over="ignore"):
        single = ordered.astype(np.float32)
    return tuple((values[1:] > values[:-1]).sum(axis=0) + 1 for values in (ordered, single))  # type: ignore[return-value]


def uses_single_precision(estimator: Any) -> bool:
    """Return whether the estimator, or the last one inside it, rounds its input to float32."""
    while True:
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif (
            isinstance(estimator, TREE_MODELS)
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
    """Warn about features whose values a fitted parent cannot distinguish in single precision.

    ``owner`` is the data set or class that the message names, and X are the rows that the parent
    was fitted on; the input of the last step of a pipeline is checked, images are not. Without
    ``names``, features have those of the data frame, or positions. ``scale`` is an override that
    scales each feature to [0, 1], which the message contains if it removes the loss.
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
    lossy = np.flatnonzero(single < _MIN_DISTINCT_FRACTION * double)
    if not lossy.size:
        return
    # The message gives the numbers of the feature that loses most, and the names of all.
    worst = int(lossy[np.argmax(double[lossy] - single[lossy])])
    has_names = len(names) == rows.shape[1]
    features = some(
        [
            f"'{names[i]}'" if has_names else f"column {i}"
            for i in [worst, *(i for i in lossy if i != worst)]
        ]
    )
    loss = (
        f"{owner}: of {double[worst]:,} different values of {features}, single precision, in which"
        f" {type(last_step(parent)).__name__} computes, has {single[worst]:,}"
    )
    # Scaling to [0, 1] helps against an offset, but not against outliers: try it.
    low, high = np.nanmin(rows[:, lossy], axis=0), np.nanmax(rows[:, lossy], axis=0)
    double, single = distinct_value_counts((rows[:, lossy] - low) / (high - low))
    if scale is not None and (single >= _MIN_DISTINCT_FRACTION * double).all():
        advice = f"{scale} takes the offset away"
    elif scale is not None:
        advice = "subtract the offset of the column, or take outliers out of it"
    else:
        advice = (
            "subtract the offset, or standardise in the parent's pipeline, as in"
            " make_pipeline(StandardScaler(), model)"
        )
    warnings.warn(f"{loss}; {advice}", stacklevel=3)


def _final_step_input(
    parent: Any, X: Any, names: Sequence[str]
) -> tuple[np.ndarray | None, Sequence[str]]:
    """Return the input of the last step of a pipeline as an array, and the names of its columns.

    The array is None if the input is sparse, since it then has no offset, or is not numeric.
    """
    names = list(names) or [str(name) for name in getattr(X, "columns", ())]
    parent = unwrap_frozen(parent)
    if isinstance(parent, Pipeline) and len(parent.steps) > 1:
        try:
            X = parent[:-1].transform(X)
            names = list(parent[:-1].get_feature_names_out(names or None))
        except (AttributeError, ValueError, TypeError):
            # Some transformers do not name their outputs.
            names = []
    if hasattr(X, "toarray"):
        return None, names
    try:
        return np.asarray(X), names
    except (TypeError, ValueError):
        return None, names


IMPUTATION_ADVICE = (
    "impute in the parent's pipeline, as in make_pipeline(SimpleImputer(),"
    " RandomForestClassifier())"
)
"""End of the error messages about missing values."""


@dataclass(eq=False, repr=False)
class MetaEstimator(MetaEstimatorMixin, BaseEstimator):
    """Base class of estimators around another one, their parent, whose rows they accept.

    Rows are Float[n, d], images Float[n, c, h, w] or a data frame. A data frame is passed on
    unchanged to a parent that consists of other estimators, such as a pipeline, or is frozen and
    was fitted on a data frame. Rows may have missing values if the parent takes them.

    Parameters
    ----------
    estimator : estimator
        The parent.
    """

    estimator: Any

    required_method: ClassVar[str | None] = None
    """Method that the parent must have, if any."""
    required_partition: ClassVar[RequiredPartition | None] = None
    """Kind of partition that the parent must have, if not every one is suitable."""
    _numeric_targets: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_descriptions(cls)

    def _default_estimator(self) -> Any:
        """Return the parent to fit; a subclass may replace None by a default."""
        if self.estimator is None:
            raise ValueError(f"{type(self).__name__} needs an estimator, got None")
        return self.estimator

    def _distance_estimator(self) -> Any:
        """Return the estimator in whose feature space distances are measured, or None.

        Features must be finite in that space.
        """
        return None

    def _needs_labels(self) -> bool:
        """Return whether ``fit`` requires y."""
        return True

    def _check_parent(self) -> Any:
        """Return the parent to fit, and raise an error if it lacks the required method."""
        check_parameters_are_instances(self)
        parent, method = self._default_estimator(), self.required_method
        if parent is not None:
            check_is_estimator(parent, type(self).__name__)
        if method is not None and not self._supports(parent, method):
            advice = missing_method_advice(parent, method)
            raise TypeError(
                f"{type(self).__name__} needs an estimator with {method}, got"
                f" {type(unwrap_frozen(parent)).__name__}{advice}"
            )
        return parent

    def _supports(self, parent: Any, method: str) -> bool:
        return hasattr(parent, method)

    def _validate_X(self, X: Any) -> Any:
        check_is_fitted(self)
        return self._validate_rows(X)[0]

    def _validate_rows(self, X: Any, *y: Any, reset: bool = False) -> tuple[Any, ...]:
        """Return X, and y if passed, validated as by scikit-learn.

        A data frame that the parent can read is returned unchanged, and the parent validates it.
        """
        parent, distance_estimator = self._default_estimator(), self._distance_estimator()
        readers = [reader for reader in (parent, distance_estimator) if reader is not None]
        # Distances need finite features, unless a pipeline imputes them before they are measured.
        measures_raw_features = distance_estimator is not None and not has_transformer_steps(
            distance_estimator
        )
        # What an estimator takes is found in its tags and parameters, which some libraries copy at
        # each access: as long as the prediction of a row. Numbers need none of it.
        are_numbers = isinstance(X, np.ndarray) and X.dtype.kind in "iuf"
        if not are_numbers:
            # Meta-estimators may contain an encoder and check their columns themselves.
            checked_readers = [reader for reader in readers if not is_meta_estimator(reader)]
            for reader in checked_readers or ([] if readers else [self]):
                check_numeric_columns(X, reader, accepts_categories=accepts_categories(reader))
        is_frame = is_dataframe(X)
        has_readable_categories = (
            is_frame
            and has_category_columns(X)
            and any(accepts_categories(reader) for reader in readers)
        )
        if is_frame and (
            has_readable_categories or any(accepts_dataframe(reader) for reader in readers)
        ):
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            may_miss = not are_numbers or has_missing(X)
            allows = may_miss and (measures_raw_features or allows_missing(parent))
            X = validate_data(
                self,
                X,
                reset=reset,
                dtype="numeric",
                allow_nd=_are_images(X),
                ensure_all_finite="allow-nan" if allows else True,
            )
        # Rows to predict may be farther away, and get finite numbers.
        reads_rows = reset and parent is not None and not has_transformer_steps(parent)
        if reads_rows and uses_single_precision(parent):
            check_single_precision(X, type(unwrap_frozen(parent)).__name__)
        if measures_raw_features and has_missing(X):
            raise ValueError(
                f"Input X contains NaN, and {type(self).__name__} measures distances;"
                f" {IMPUTATION_ADVICE}"
            )
        return (X, *(self._validate_targets(X, targets) for targets in y))

    def _validate_targets(self, X: Any, y: Any) -> Any:
        if y is None:
            if self._needs_labels():
                raise ValueError(
                    f"{type(self).__name__} requires y to be passed, but the target y is None"
                )
            return None
        y = _check_y(plain_labels(y), y_numeric=self._numeric_targets, estimator=self)
        check_consistent_length(X, y)
        return np.asarray(y, dtype=np.float64) if self._numeric_targets else y

    def __sklearn_tags__(self):
        tags, distance_estimator = super().__sklearn_tags__(), self._distance_estimator()
        tags.input_tags.allow_nan = allows_missing(self.estimator) and (
            distance_estimator is None or has_transformer_steps(distance_estimator)
        )
        tags.target_tags.required = self._needs_labels()
        return tags


def _are_images(X: Any) -> bool:
    """Return whether X is Float[n, c, h, w].

    scikit-learn's validation refuses all other arrays that are not matrices.
    """
    return getattr(X, "ndim", 2) == 4


def is_meta_estimator(estimator: Any) -> bool:
    """Return whether some parameters of the estimator are estimators, as those of pipelines are.

    An estimator that ``transforms_rows``, such as a model with its own preprocessing, counts too.
    """
    if isinstance(estimator, FrozenEstimator):
        return is_meta_estimator(estimator.estimator)
    if getattr(estimator, "transforms_rows", False):
        return True
    if isinstance(estimator, type) or not hasattr(estimator, "get_params"):
        return False
    return any(hasattr(value, "get_params") for value in estimator.get_params().values())


def allows_missing(estimator: Any) -> bool:
    """Return whether X with NaN may be passed to the estimator.

    It may if a tag of the estimator allows it, or if the estimator consists of others, which refuse
    missing values themselves if they must.
    """
    # FrozenEstimator copies the tags of the estimator in it, which takes as long as a prediction.
    inner = unwrap_frozen(estimator)
    if hasattr(inner, "__sklearn_tags__") and not isinstance(inner, type):
        tags = inner.__sklearn_tags__()
        if tags.input_tags.allow_nan or tags.no_validation:
            return True
    return is_meta_estimator(estimator)


def accepts_dataframe(estimator: Any) -> bool:
    """Return whether a data frame should be passed to the estimator without conversion.

    It should if the estimator consists of others, or is frozen and was fitted on named columns.
    """
    return (
        hasattr(estimator, "feature_names_in_")
        if isinstance(estimator, FrozenEstimator)
        else is_meta_estimator(estimator)
    )


def accepts_categories(estimator: Any) -> bool:
    """Return whether the estimator takes columns of pandas' category type from a data frame.

    The histogram gradient boosting models of scikit-learn do, LightGBM, XGBoost if
    ``enable_categorical``, and CatBoost if its ``cat_features`` are named.
    """
    inner = unwrap_frozen(estimator)
    library = type(inner).__module__.partition(".")[0]
    if library in ("lightgbm", "xgboost", "catboost"):
        options = inner.get_params() if hasattr(inner, "get_params") else {}
        key = {"xgboost": "enable_categorical", "catboost": "cat_features"}.get(library)
        return key is None or bool(options.get(key))
    categorical_features = getattr(inner, "categorical_features", None)
    return isinstance(categorical_features, str) and categorical_features == "from_dtype"


def has_category_columns(X: Any) -> bool:
    """Return whether a column of the data frame X is of pandas' category type."""
    return any(str(dtype) == "category" for dtype in X.dtypes)


def has_transformer_steps(estimator: Any) -> bool:
    """Return whether the estimator transforms its rows, as pipelines do, also inside of wrappers.

    Estimators of other classes state it by an attribute ``transforms_rows``.
    """
    if isinstance(estimator, Pipeline):
        return len(estimator.steps) > 1
    if getattr(estimator, "transforms_rows", False):
        return True
    inner = getattr(estimator, "estimator", None)
    return inner is not None and has_transformer_steps(inner)


def check_numeric_columns(X: Any, estimator: Any, *, accepts_categories: bool = False) -> None:
    """Raise ValueError for columns that are not numeric, for an estimator that takes only numbers.

    X is a data frame of pandas, or an array of text or objects; other arrays are not checked. The
    message names the estimator, and an encoder for text or categories; dates and durations are
    refused too. With ``accepts_categories``, columns of pandas' category type are allowed.
    """
    if is_dataframe(X):
        # scikit-learn itself refuses duplicate names, with a good message.
        if X.columns.has_duplicates or X.ndim != 2:
            return
        columns = ((repr(name), name, X[name]) for name in X.columns)
    elif getattr(X, "ndim", 0) == 2 and getattr(X.dtype, "kind", "") in "OUS":
        columns = ((str(position), position, X[:, position]) for position in range(X.shape[1]))
    else:
        return
    texts = {}
    for label, name, column in columns:
        kind = getattr(column.dtype, "kind", "O")
        if kind in "mM" or str(column.dtype).startswith("period"):
            example = (
                f"X.assign({name}=X[{name!r}].astype('int64'))"
                if str(name).isidentifier()
                else "X[name].astype('int64')"
            )
            raise ValueError(
                f"column {label} holds dates or durations, and {_class_name(estimator)} takes"
                f" numbers; make it a number, as in {example}"
            )
        is_text = kind in "OUS" and not (accepts_categories and str(column.dtype) == "category")
        if is_text and (text := _first_text(column)) is not None:
            texts[name] = label, text
    if texts:
        label, text = next(iter(texts.values()))
        raise ValueError(
            f"could not convert string to float: {text!r} in column {label};"
            f" {_class_name(estimator)} takes numbers, put an encoder into the pipeline, as in"
            f" {_encoded_model(estimator, list(texts))}"
        )


def _first_text(column: Any) -> str | None:
    """Return the first text that is not a number; scikit-learn checks other objects."""
    values = np.asarray(column, dtype=object).tolist()
    return next(
        (value for value in values if isinstance(value, str) and not reads_as_number(value)), None
    )


def _encoded_model(estimator: Any, columns: list[Any]) -> str:
    """Return a program of the estimator behind the encoder that ``kdg run`` puts in front of it.

    That is ordinal for trees, whose splits along an axis can separate any set of categories, and
    one-hot for others.
    """
    is_tree = isinstance(unwrap_frozen(estimator), TREE_MODELS)
    encoder = (
        "OrdinalEncoder(handle_unknown='use_encoded_value', unknown_value=-1,"
        " encoded_missing_value=-2)"
        if is_tree
        else "OneHotEncoder(handle_unknown='ignore')"
    )
    return (
        f"make_pipeline(make_column_transformer(({encoder}, {columns!r}),"
        f" remainder='passthrough'), {_class_name(estimator)}())"
    )


def _class_name(estimator: Any) -> str:
    return type(unwrap_frozen(estimator)).__name__


def plain_labels(y: Any) -> Any:
    """Return labels in NumPy's own type of their values, without missing ones.

    Whole numbers and truth values of pandas' nullable and Arrow types stay what they are, which a
    cast through float64 would not keep: it merges whole numbers beyond 2⁵³. ``y``, of shape [n], is
    returned itself if NumPy has its type. Missing labels raise ValueError, as labels of several
    types do, which have no order.

    >>> import pandas as pd
    >>> plain_labels(pd.Series([2**53, 2**53 + 1], dtype="Int64"))
    array([9007199254740992, 9007199254740993])
    """
    if getattr(y, "ndim", 1) != 1:
        return y
    dtype = getattr(y, "dtype", None)
    is_object = str(dtype) == "object"
    values = np.asarray(y, dtype=object).tolist() if is_object else []
    n_missing = sum(value is None for value in values)
    if not is_object and hasattr(y, "isna"):
        n_missing = int(y.isna().sum())
    if n_missing:
        raise ValueError(
            f"{n_missing} of {len(y)} labels in y are missing; leave out the rows without a label"
        )
    types = {
        "str" if isinstance(value, str) else "number"
        for value in values
        if isinstance(value, str | int | float)
    }
    if len(types) > 1 and not any(isinstance(value, float) and value != value for value in values):
        raise ValueError(
            "labels must be of one type, y has text and numbers; make all of them text,"
            " y.astype(str)"
        )
    numpy_dtype = getattr(dtype, "numpy_dtype", None)
    return y if numpy_dtype is None else y.to_numpy(dtype=numpy_dtype)


def is_dataframe(X: Any) -> bool:
    """Return whether X is a data frame of pandas."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def select_rows(X: Any, index: Any) -> Any:
    """Return some rows of X.

    Examples
    --------
    >>> import pandas as pd
    >>> select_rows(pd.DataFrame({"x": [1, 2, 3]}), [0, 2])["x"].tolist()
    [1, 3]
    """
    return X.iloc[index] if is_dataframe(X) else X[index]


def concatenate_rows(first: Any, second: Any) -> Any:
    """Return the rows of two arrays or of two data frames, one after the other."""
    if not is_dataframe(first):
        return np.concatenate([first, second])
    import pandas as pd

    return pd.concat([first, second], ignore_index=True)


# Rows of a block in predictions. Their codes, four bytes for each tree, take most of the memory.
_PREDICTION_BLOCK = 32_768


def apply_in_blocks(function: Callable[[Any], np.ndarray], X: Any) -> np.ndarray:
    """Return ``function`` of the rows X (Float[n, …] or a data frame), [n, …], by blocks.

    It returns one value, or one array, for each row, and is called once even if there are no rows.
    """
    return np.concatenate([function(block) for block in iterate_blocks(X)])


def iterate_blocks(X: Any) -> Iterator[Any]:
    """Return an iterator over blocks of the rows ``X``; one empty block if there are no rows."""
    return (
        select_rows(X, slice(start, start + _PREDICTION_BLOCK))
        for start in range(0, max(len(X), 1), _PREDICTION_BLOCK)
    )


def has_missing(X: Any) -> bool:
    """Return whether any value of X (Float[n, …] or a data frame) is missing."""
    if is_dataframe(X):
        return bool(X.isna().to_numpy().any())
    # The minimum is NaN if any value is, and needs no array of flags of the size of X.
    return bool(X.size and np.isnan(X.min()))


def check_per_row(name: str, values: Any, n: int) -> np.ndarray:
    """Return ``values`` as an array of shape [n], or raise ValueError with their name."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{name} must have one for each of {n} rows, got shape {array.shape}")
    return array


def check_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """Return sample weights as Float[n], 1 for each row if there are none.

    A single number is the weight of all rows. It raises DataError if a weight is negative or not
    finite, all are 0, or their sum is not finite, and ValueError if there is not one for each row.
    """
    given = np.ravel(np.asarray([] if sample_weight is None else sample_weight, dtype=np.float64))
    wrong = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
    if len(wrong):
        raise DataError(
            f"sample_weight must be finite and at least 0, got {given[wrong[0]]:g} in row"
            f" {wrong[0]}; give 0 to rows that should not count"
        )
    if len(given) and not given.any():
        raise DataError(
            f"sample_weight is zero in all of {len(given)} rows, and must be above 0 in one; leave"
            " it out to weigh all rows alike"
        )
    with np.errstate(over="ignore"):
        if not np.isfinite(given.sum()):
            raise DataError(
                f"sample_weight is up to {given.max():g} and has no finite sum over {len(given)}"
                " rows; divide it by its largest value"
            )
    return _check_sample_weight(sample_weight, X, dtype=np.float64)
