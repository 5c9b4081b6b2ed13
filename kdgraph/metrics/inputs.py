"""Whom each row belongs to: what a metric of groups needs beside predictions.

The class that is predicted and how sure the model is of it: all that calibration of top-label
confidence knows of a prediction.

The arrays that metrics take, known by parameter name, and the rules that they must keep.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from kdgraph.errors import DataError

Grouped = Any
"""Int[n], Bool[n], texts [n], or a :class:`Groups` from who calls a metric; its body always has a
:class:`Groups`.
"""


@dataclass(frozen=True)
class Groups:
    """The group of each row; what the groups of Luo et al. (UAI 2022), Section 5.3, are here.

    Attributes
    ----------
    position : Int[n], positions in the names: from 0, and below their number.
    names : of the groups, of which some may have no row.
    """

    position: np.ndarray
    names: tuple[str, ...]

    @classmethod
    def of(cls, values: Any) -> Groups:
        """Groups of [n] whole numbers, texts or truth values: the values that there are, sorted;
        ours.

        Raises
        ------
        ValueError
            In one line, for anything else.
        """
        array = np.asarray(values)
        is_text = array.dtype.kind == "U" or (
            array.dtype == object and all(isinstance(value, str) for value in array.flat)
        )
        if array.ndim != 1 or array.size == 0 or not (is_text or array.dtype.kind in "iub"):
            found = f"{array.dtype} of shape {array.shape}"
            raise ValueError(
                "groups must be one whole number or one text for each row, and at least one, got"
                f" {found}"
            )
        names, position = np.unique(array.astype(str) if is_text else array, return_inverse=True)
        return cls(position, tuple(map(str, names.tolist())))

    def rows(self) -> Iterator[tuple[str, np.ndarray]]:
        """Name and row numbers, Int[m] in their order, of each group; m may be 0. Ours.

        Raises
        ------
        DataError
            A position that is none of a name.
        """
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
"""Float[n, K] or a :class:`TopLabel` from who calls a metric; its body always has a
:class:`TopLabel`.
"""


@dataclass(frozen=True)
class TopLabel:
    """Predicted classes with their confidence; a slice is one of fewer rows.

    Calibration of this confidence alone is what Gupta and Ramdas, "Top-label calibration and
    multiclass-to-binary reductions", ICLR 2022, ask for where a classifier names one class.

    Attributes
    ----------
    predicted : Int[n], positions in the classes.
    confidence : Float[n] in [0, 1], the probability that the prediction is right. It may be less
        than 1/K, and another class may be more probable: a calibrator of the confidence alone
        leaves the prediction as it is.
    n_classes : K, or None where nobody said.
    """

    predicted: np.ndarray
    confidence: np.ndarray
    n_classes: int | None = None

    @classmethod
    def of(cls, proba: np.ndarray) -> TopLabel:
        """The most probable class of each row of Float[n, K], the first of equals, and its
        probability.
        """
        predicted = proba.argmax(axis=1)
        return cls(
            predicted, proba[np.arange(len(proba)), predicted], proba.shape[1]
        )  # as proba.max(axis=1), in a fifth of its time

    def correct(self, y: np.ndarray) -> np.ndarray:
        """Bool[n]: whether the predicted class is the label, Int[n]."""
        return self.predicted == y

    def __len__(self) -> int:
        return len(self.confidence)

    def __getitem__(self, index: Any) -> TopLabel:
        return TopLabel(self.predicted[index], self.confidence[index], self.n_classes)


SUM_TOLERANCE = 1e-6
"""How far a row of probabilities may be from summing to 1: float32 softmax over many classes stays
within it.
"""


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
    result = {
        name: INPUTS[name].read(value) if name in INPUTS else value
        for name, value in arguments.items()
    }
    said = next((name for name in SAID if name in result), None)
    if said is not None:
        _fit_together(result, said)
    return result


def n_rows(arguments: Mapping[str, Any]) -> int:
    """How many rows a metric's arguments have."""
    return next(
        len(value) for name, value in arguments.items() if name in INPUTS and INPUTS[name].by_row
    )


def probabilities(name: str, value: Any) -> np.ndarray:
    """``value`` as Float[n, K] whose rows are distributions: finite, not negative, sums within 1e-6
    of 1.
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
    """Int[n], positions in the classes."""
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
        return TopLabel.of(probabilities("proba", value))
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
    """A function that gives Float[n]; without ``finite`` an infinity may be among them."""

    def read(value: Any) -> np.ndarray:
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

    return read


def _rows(value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.ndim < 2:
        raise ValueError(
            f"X must have a row of features for each prediction, got shape {array.shape}"
        )
    return array


def _groups(value: Any) -> Groups:
    return value if isinstance(value, Groups) else Groups.of(value)


def _above_0(value: Any) -> float:
    number = float(value)
    if not np.isfinite(number) or number <= 0:
        raise ValueError(f"mean_abs_y must be a finite number above 0, got {value!r}")
    return number


INPUTS: dict[str, Input] = {
    "y": Input(
        "the labels", "ask only for metrics of the predictions alone there (mmc, oce)", np.asarray
    ),
    "proba": Input(
        "predicted probabilities",
        "use one that predicts them, or metrics=regression",
        lambda value: probabilities("proba", value),
    ),
    "top": Input(
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
    "X": Input("the rows' features", "pass them as X", _rows),
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
    "mean_abs_y": Input(
        "the mean of |y| of the calibration rows",
        "pass it as mean_abs_y, above 0",
        _above_0,
        by_row=False,
    ),
    "distribution": Input(
        "predictive distributions", "use one for regression", lambda value: value
    ),
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
            _same_shape(
                name, shape, (n, k) if name == "truth" and k is not None else (n, *shape[1:]), base
            )


def _same_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...], base: str) -> None:
    if shape != wanted:
        raise ValueError(f"{name} must have shape {wanted} to fit {base}, got {shape}")


def _raise_at(bad: np.ndarray, values: np.ndarray, name: str, rule: str) -> None:
    if bad.any():
        first = np.argwhere(bad)[0]
        raise ValueError(
            f"{name} {rule}, got {values[tuple(first)]:g} in row {first[0]} ({bad.sum()} such)"
        )
