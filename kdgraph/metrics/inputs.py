"""Inputs of metrics: their parameter names, their types, and the checks on them.

Metrics declare their inputs by parameter name. :data:`INPUTS` contains for each name a converter
and the text of error messages; :func:`check_inputs` applies them. :class:`TopLabel` and
:class:`Groups` are inputs that are not plain arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.errors import DataError

Grouped = Any
"""Groups as callers pass them: Int[n], Bool[n], texts [n] or :class:`Groups`.

In the body of a metric they are always :class:`Groups`.
"""


@dataclass(frozen=True)
class Groups:
    """Group of each row, as used by Luo et al. (UAI 2022), Section 5.3.

    Attributes
    ----------
    position : Int[n]
        Positions in the names, from 0.
    names : tuple of str
        Names of the groups. Some groups may have no rows.

    Examples
    --------
    >>> groups = Groups.from_values(["b", "a", "b"])
    >>> groups.names, groups.position.tolist()
    (('a', 'b'), [1, 0, 1])
    >>> {name: rows.tolist() for name, rows in groups.rows()}
    {'a': [1], 'b': [0, 2]}
    """

    position: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def from_values(cls, values: Any) -> Groups:
        """Return the groups of n integers, texts or booleans, named by their sorted values."""
        array = np.asarray(values)
        is_text = array.dtype.kind == "U" or (
            array.dtype == object and all(isinstance(value, str) for value in array.flat)
        )
        if array.ndim != 1 or array.size == 0 or not (is_text or array.dtype.kind in "iub"):
            actual = f"{array.dtype} of shape {array.shape}"
            raise ValueError(
                "groups must be one whole number or one text for each row, and at least one, got"
                f" {actual}"
            )
        names, position = np.unique(array.astype(str) if is_text else array, return_inverse=True)
        return cls(position, tuple(map(str, names.tolist())))

    def rows(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield the name and the ascending row numbers of each group, Int[m]; m may be 0."""
        bad = np.flatnonzero((self.position < 0) | (self.position >= len(self.names)))
        if len(bad):
            rule = (
                f"groups must be positions in {len(self.names)} names, from 0 to"
                f" {len(self.names) - 1}"
            )
            raise DataError(
                f"{rule}, got {self.position[bad[0]]} in row {bad[0]} ({len(bad)} such); leave out"
                " rows of no group"
            )
        order = np.argsort(self.position, kind="stable")
        ends = np.cumsum(np.bincount(self.position, minlength=len(self.names)))
        yield from zip(self.names, np.split(order, ends[:-1]), strict=True)

    def __len__(self) -> int:
        return len(self.position)


Top = Any
"""Predictions as callers pass them: Float[n, K] or :class:`TopLabel`.

In the body of a metric they are always :class:`TopLabel`.
"""


@dataclass(frozen=True)
class TopLabel:
    """Predicted classes with their confidence; slicing selects rows.

    Gupta and Ramdas, "Top-label calibration and multiclass-to-binary reductions", ICLR 2022,
    require calibration of this confidence only if a classifier outputs a single class.

    Attributes
    ----------
    predicted : Int[n]
        Positions in the classes.
    confidence : Float[n]
        Probabilities in [0, 1] that the predictions are correct. They may be less than 1/K, and
        another class may be more probable, because a calibrator of the confidence does not change
        the prediction.
    n_classes : int or None, default=None
        Number of classes K, if available.

    Examples
    --------
    >>> top_label = TopLabel.from_proba(np.array([[0.75, 0.25], [0.5, 0.5], [0.125, 0.875]]))
    >>> top_label.predicted.tolist(), top_label.confidence.tolist(), top_label.n_classes
    ([0, 0, 1], [0.75, 0.5, 0.875], 2)
    >>> top_label[1:].correct(np.array([1, 1])).tolist()
    [False, True]
    """

    predicted: np.ndarray
    confidence: np.ndarray
    n_classes: int | None = None

    @classmethod
    def from_proba(cls, proba: np.ndarray) -> TopLabel:
        """Return the (first) most probable class of each row, Float[n, K], and its probability."""
        predicted = proba.argmax(axis=1)
        # Indexing gives the values of proba.max(axis=1) in a fifth of its time.
        return cls(predicted, proba[np.arange(len(proba)), predicted], proba.shape[1])

    def correct(self, y: np.ndarray) -> np.ndarray:
        """Return True where the predicted class is the label y, Int[n], as Bool[n]."""
        return self.predicted == y

    def __len__(self) -> int:
        return len(self.confidence)

    def __getitem__(self, index: Any) -> TopLabel:
        return TopLabel(self.predicted[index], self.confidence[index], self.n_classes)


SUM_TOLERANCE = 1e-6
"""Tolerance on the sum of a row of probabilities. A float32 softmax over many classes meets it."""


@dataclass(frozen=True)
class Input:
    """Input that a metric may require."""

    description: str  # in error messages
    remedy: str  # advice to users if it is missing
    convert: Callable[[Any], Any]  # converts a value and checks it
    by_row: bool = True  # there is one entry for each row


def check_inputs(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert and check every input among the arguments; options are returned unchanged."""
    result = {
        name: INPUTS[name].convert(value) if name in INPUTS else value
        for name, value in arguments.items()
    }
    output = next((name for name in MODEL_OUTPUTS if name in result), None)
    if output is not None:
        _check_consistency(result, output)
    return result


def n_rows(arguments: Mapping[str, Any]) -> int:
    """Return the number of rows of the arguments of a metric."""
    return next(
        len(value) for name, value in arguments.items() if name in INPUTS and INPUTS[name].by_row
    )


def probabilities(name: str, value: Any) -> np.ndarray:
    """Return ``value`` as Float[n, K], after a check that its rows are distributions.

    They must be finite, not negative, and have sums within 1e-6 of 1.
    """
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            f"{name} must have shape (rows, classes) with at least one of each, got shape"
            f" {array.shape}"
        )
    _raise_at(~np.isfinite(array), array, name, "must be finite")
    _raise_at(array < 0, array, name, "must not be negative")
    sums = array.sum(axis=1)
    _raise_at(
        np.abs(sums - 1) > SUM_TOLERANCE,
        sums,
        name,
        f"must sum to 1 within {SUM_TOLERANCE:g} in every row",
    )
    return array


def _labels(array: np.ndarray, n_classes: int | None) -> np.ndarray:
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"y must be positions in the classes (integers), got {array.dtype}; encode the labels"
            " first"
        )
    last = np.inf if n_classes is None else n_classes - 1
    _raise_at((array < 0) | (array > last), array, "y", f"must lie in 0 to {last:g}")
    return array.astype(np.intp)


def _top_label(value: Any) -> TopLabel:
    if not isinstance(value, TopLabel):
        return TopLabel.from_proba(probabilities("proba", value))
    confidence = _numbers("confidence")(value.confidence)
    _raise_at(
        (confidence < -SUM_TOLERANCE) | (confidence > 1 + SUM_TOLERANCE),
        confidence,
        "confidence",
        "must lie in [0, 1]",
    )
    _same_shape("predicted", np.shape(value.predicted), confidence.shape, "confidence")
    return value


def _numbers(name: str, *, finite: bool = True) -> Callable[[Any], np.ndarray]:
    """Return a converter to Float[n], which allows infinities unless ``finite``."""

    def convert(value: Any) -> np.ndarray:
        array = np.asarray(value, dtype=np.float64)
        if array.ndim != 1 or array.size == 0:
            raise ValueError(
                f"{name} must be one number a row, and at least one, got shape {array.shape}"
            )
        _raise_at(
            ~np.isfinite(array) if finite else np.isnan(array),
            array,
            name,
            "must be finite" if finite else "must not be NaN",
        )
        return array

    return convert


def _features(value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.ndim < 2:
        raise ValueError(
            f"X must have a row of features for each prediction, got shape {array.shape}"
        )
    return array


def _groups(value: Any) -> Groups:
    return value if isinstance(value, Groups) else Groups.from_values(value)


def _positive(value: Any) -> float:
    number = float(value)
    if not np.isfinite(number) or number <= 0:
        raise ValueError(f"mean_abs_y must be a finite number above 0, got {value!r}")
    return number


def _prediction_set(value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.ndim != 2 or array.size == 0 or array.dtype != bool:
        actual = f"{array.dtype} of shape {array.shape}"
        raise ValueError(
            f"prediction_set must have a truth value for each row and class, got {actual}"
        )
    return array


INPUTS: dict[str, Input] = {
    "y": Input(
        "the labels", "ask only for metrics of the predictions alone there (mmc, oce)", np.asarray
    ),
    "proba": Input(
        "predicted probabilities",
        "use one that predicts them, or metrics=regression",
        lambda value: probabilities("proba", value),
    ),
    "top_label": Input(
        "predicted classes with their confidence",
        "use one that classifies, or metrics=regression",
        _top_label,
    ),
    "prior": Input(
        "the class shares of the training rows",
        "pass them as prior",
        lambda value: probabilities("prior", np.atleast_2d(value))[0],
        by_row=False,
    ),
    "truth": Input(
        "the true posterior",
        "use metrics=default, or a simulation",
        lambda value: probabilities("truth", value),
    ),
    "true_distribution": Input(
        "the true distributions", "use metrics=regression, or a simulation", lambda value: value
    ),
    "X": Input("the rows' features", "pass them as X", _features),
    "groups": Input("groups of rows", "name the column that has them (dataset.group)", _groups),
    "ood_score": Input(
        "out-of-distribution scores", "use one that does", _numbers("ood_score", finite=False)
    ),
    "id_score": Input(
        "out-of-distribution scores of the test rows",
        "ask for it in metrics.ood",
        _numbers("id_score", finite=False),
        by_row=False,
    ),
    "ood_p_value": Input(
        "p-values of being in distribution",
        "choose a detector of rows, such as detector=leaf_box",
        _numbers("ood_p_value"),
    ),
    "id_p_value": Input(
        "p-values of the test rows",
        "ask for it in metrics.ood",
        _numbers("id_p_value"),
        by_row=False,
    ),
    "mean_abs_y": Input(
        "the mean of |y| of the calibration rows",
        "pass it as mean_abs_y, above 0",
        _positive,
        by_row=False,
    ),
    "prediction_set": Input(
        "sets of classes", "choose conformal=aps, lac or raps", _prediction_set
    ),
    "distribution": Input(
        "predictive distributions", "use one for regression", lambda value: value
    ),
}
"""Inputs by parameter name. Every other parameter of a metric is an option."""

DOCUMENTED = {
    "y": "y : Int[n]\n    Labels, as positions in the classes.",
    "top_label": "top_label : Float[n, K] or TopLabel\n    Class probabilities, or predicted"
    " classes with their confidence\n    (:class:`~kdgraph.metrics.TopLabel`).",
    "proba": "proba : Float[n, K]\n    Class probabilities.",
    "X": "X : Float[n, d]\n    Features of the rows.",
    "groups": "groups : Int[n], texts [n] or Groups\n"
    "    Group of each row (:class:`~kdgraph.metrics.Groups`).",
    "ood_score": "ood_score : Float[m]\n    Scores of the out-of-distribution rows; higher means"
    " farther from the data.",
    "id_score": "id_score : Float[n]\n    Scores of the test rows by the same model.",
    "ood_p_value": "ood_p_value : Float[m]\n    P-values of the rows of the OOD set.",
    "id_p_value": "id_p_value : Float[n]\n    P-values of the test rows.",
    "distribution": "distribution : Distribution\n    Predicted distributions of the n rows.",
    "prediction_set": "prediction_set : Bool[n, K]\n    True where a class is in the set of a row.",
    "true_distribution": "true_distribution : Distribution\n"
    "    True distributions of the same rows, available in simulations.",
}
DOCUMENTED_OUTCOMES = DOCUMENTED | {"y": "y : Float[n]\n    Outcomes."}
"""The same of metrics of distributions."""

MODEL_OUTPUTS = ("proba", "top_label", "prediction_set", "distribution", "ood_score", "ood_p_value")
"""Inputs that are outputs of a model. All other inputs must have matching shapes."""


def _check_consistency(inputs: dict[str, Any], output: str) -> None:
    """Check that all inputs have the rows and classes of the model output, and convert y."""
    base = "proba" if output == "top_label" else output
    n = len(inputs[output])
    k = (
        inputs[output].shape[1]
        if output in ("proba", "prediction_set")
        else getattr(inputs[output], "n_classes", None)
    )
    if "y" in inputs:
        _same_shape("y", inputs["y"].shape, (n,), base)
        if output in ("proba", "top_label", "prediction_set"):
            inputs["y"] = _labels(inputs["y"], k)
        if output == "distribution":
            inputs["y"] = _numbers("y")(inputs["y"])
    if "prior" in inputs and k is not None:
        _same_shape("prior", inputs["prior"].shape, (k,), base)
    for name in ("truth", "true_distribution", "X", "groups"):
        if name in inputs:
            shape = getattr(inputs[name], "shape", (len(inputs[name]),))
            _same_shape(
                name, shape, (n, k) if name == "truth" and k is not None else (n, *shape[1:]), base
            )


def _same_shape(name: str, shape: tuple[int, ...], expected: tuple[int, ...], base: str) -> None:
    if shape != expected:
        raise ValueError(f"{name} must have shape {expected} to fit {base}, got {shape}")


def _raise_at(bad: np.ndarray, values: np.ndarray, name: str, rule: str) -> None:
    if bad.any():
        first = np.argwhere(bad)[0]
        raise ValueError(
            f"{name} {rule}, got {values[tuple(first)]:g} in row {first[0]} ({bad.sum()} such)"
        )
