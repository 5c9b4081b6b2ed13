"""The arrays that metrics take, known by parameter name, and the rules that they must keep."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.metrics.grouping import Groups
from kdgraph.metrics.top_label import TopLabel

SUM_TOLERANCE = 1e-6
"""How far a row of probabilities may be from summing to 1: float32 softmax over many classes stays within it."""


@dataclass(frozen=True)
class Input:
    """One thing that a metric may need.

    Attributes
    ----------
    words : what it is.
    remedy : what to do where it is missing.
    read : converts a value and checks what can be checked of it alone.
    by_row : whether there is one for each row.
    """

    words: str
    remedy: str
    read: Callable[[Any], Any]
    by_row: bool = True


def checked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert and check every input among the arguments; options pass as they are.

    Raises
    ------
    ValueError
        One line that names the array, what it has and the rule.
    """
    result = {name: INPUTS[name].read(value) if name in INPUTS else value for name, value in arguments.items()}
    said = next((name for name in SAID if name in result), None)
    if said is not None:
        _fit_together(result, said)
    return result


def n_rows(arguments: Mapping[str, Any]) -> int:
    """How many rows a metric's arguments have."""
    return next(len(value) for name, value in arguments.items() if name in INPUTS and INPUTS[name].by_row)


def probabilities(name: str, value: Any) -> np.ndarray:
    """``value`` as Float[n, K] whose rows are distributions: finite, not negative, sums within 1e-6 of 1."""
    array = np.asarray(value, dtype=np.float64)
    if array.ndim != 2 or array.size == 0:
        raise ValueError(f"{name} must have shape (rows, classes) with at least one of each, got shape {array.shape}")
    _raise_at(~np.isfinite(array), array, name, "must be finite")
    _raise_at(array < 0, array, name, "must not be negative")
    sums = array.sum(axis=1)
    _raise_at(np.abs(sums - 1) > SUM_TOLERANCE, sums, name, f"must sum to 1 within {SUM_TOLERANCE:g} in every row")
    return array


def _labels(array: np.ndarray, n_classes: int | None) -> np.ndarray:
    """Int[n], positions in the classes."""
    if array.dtype.kind not in "iu":
        raise ValueError(f"y must be positions in the classes (integers), got {array.dtype}; encode the labels first")
    last = np.inf if n_classes is None else n_classes - 1
    _raise_at((array < 0) | (array > last), array, "y", f"must lie in 0 to {last:g}")
    return array.astype(np.intp)


def _top_label(value: Any) -> TopLabel:
    if not isinstance(value, TopLabel):
        return TopLabel.of(probabilities("proba", value))
    confidence = _numbers("confidence")(value.confidence)
    _raise_at((confidence < -SUM_TOLERANCE) | (confidence > 1 + SUM_TOLERANCE), confidence, "confidence", "must lie in [0, 1]")
    _same_shape("predicted", np.shape(value.predicted), confidence.shape, "confidence")
    return value


def _numbers(name: str, *, finite: bool = True) -> Callable[[Any], np.ndarray]:
    """A function that gives Float[n]; without ``finite`` an infinity may be among them."""

    def read(value: Any) -> np.ndarray:
        array = np.asarray(value, dtype=np.float64)
        if array.ndim != 1 or array.size == 0:
            raise ValueError(f"{name} must be one number a row, and at least one, got shape {array.shape}")
        _raise_at(~np.isfinite(array) if finite else np.isnan(array), array, name, "must be finite" if finite else "must not be NaN")
        return array

    return read


def _rows(value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.ndim < 2:
        raise ValueError(f"X must have a row of features for each prediction, got shape {array.shape}")
    return array


def _groups(value: Any) -> Groups:
    return value if isinstance(value, Groups) else Groups.of(value)


def _above_0(value: Any) -> float:
    number = float(value)
    if not np.isfinite(number) or number <= 0:
        raise ValueError(f"mean_abs_y must be a finite number above 0, got {value!r}")
    return number


INPUTS: dict[str, Input] = {
    "y": Input("the labels", "ask only for metrics of the predictions alone there (mmc, oce)", np.asarray),
    "proba": Input(
        "predicted probabilities", "use one that predicts them, or metrics=regression", lambda value: probabilities("proba", value)
    ),
    "top": Input("predicted classes with their confidence", "use one that classifies, or metrics=regression", _top_label),
    "prior": Input(
        "the class shares of the training rows",
        "pass them as prior",
        lambda value: probabilities("prior", np.atleast_2d(value))[0],
        by_row=False,
    ),
    "truth": Input("the true posterior", "use metrics=default, or a simulation", lambda value: probabilities("truth", value)),
    "true_distribution": Input("the true distributions", "use metrics=regression, or a simulation", lambda value: value),
    "X": Input("the rows' features", "pass them as X", _rows),
    "groups": Input("groups of rows", "name the column that has them (dataset.group)", _groups),
    "ood_score": Input("out-of-distribution scores", "use one that does", _numbers("ood_score", finite=False)),
    "id_score": Input(
        "out-of-distribution scores of the test rows", "ask for it in metrics.ood", _numbers("id_score", finite=False), by_row=False
    ),
    "mean_abs_y": Input("the mean of |y| of the calibration rows", "pass it as mean_abs_y, above 0", _above_0, by_row=False),
    "distribution": Input("predictive distributions", "use one for regression", lambda value: value),
}
"""By parameter name; every other parameter of a metric is an option."""

SAID = ("proba", "top", "distribution", "ood_score")
"""Inputs that a model says of the rows, which all others must fit."""


def _fit_together(found: dict[str, Any], said: str) -> None:
    """One row of everything for each row that the model says something of, and as many classes."""
    base = "proba" if said == "top" else said
    n = len(found[said])
    k = found[said].shape[1] if said == "proba" else getattr(found[said], "n_classes", None)
    if "y" in found:
        _same_shape("y", found["y"].shape, (n,), base)
        if said in ("proba", "top"):
            found["y"] = _labels(found["y"], k)
        if said == "distribution":
            found["y"] = _numbers("y")(found["y"])
    if "prior" in found and k is not None:
        _same_shape("prior", found["prior"].shape, (k,), base)
    for name in ("truth", "true_distribution", "X", "groups"):
        if name in found:
            shape = getattr(found[name], "shape", (len(found[name]),))
            _same_shape(name, shape, (n, k) if name == "truth" and k is not None else (n, *shape[1:]), base)


def _same_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...], base: str) -> None:
    if shape != wanted:
        raise ValueError(f"{name} must have shape {wanted} to fit {base}, got {shape}")


def _raise_at(bad: np.ndarray, values: np.ndarray, name: str, rule: str) -> None:
    if bad.any():
        first = np.argwhere(bad)[0]
        raise ValueError(f"{name} {rule}, got {values[tuple(first)]:g} in row {first[0]} ({bad.sum()} such)")
