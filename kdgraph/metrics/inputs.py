"""The arrays that metrics take, known by parameter name, and the rules that they must keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

INPUTS = {
    "y": ("the labels", "ask only for metrics of the predictions alone there (mmc, oce)"),
    "proba": ("predicted probabilities", "use a method that predicts them"),
    "prior": ("the class shares of the training rows", "pass them as prior"),
    "truth": ("the true posterior", "use metrics=default, or a simulation"),
}
"""Parameter name → what it is in words, and what to do where it is missing. Every other parameter of a metric is an option."""

SUM_TOLERANCE = 1e-6
"""How far a row of probabilities may be from summing to 1: float32 softmax over many classes stays within it."""


def checked(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Convert and check every input array of the arguments; options pass as they are.

    Raises
    ------
    ValueError
        One line that names the array, what it has and the rule.
    """
    result = dict(arguments)
    if "proba" in result:
        result["proba"] = probabilities("proba", result["proba"])
    if "y" in result:
        result["y"] = labels(result["y"], *result["proba"].shape)
    if "prior" in result:
        result["prior"] = probabilities("prior", np.atleast_2d(result["prior"]))[0]
        _same_shape("prior", result["prior"].shape, result["proba"].shape[1:])
    if "truth" in result:
        result["truth"] = probabilities("truth", result["truth"])
        _same_shape("truth", result["truth"].shape, result["proba"].shape)
    return result


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


def labels(value: Any, n: int, n_classes: int) -> np.ndarray:
    """``value`` as Int[n], positions in the classes."""
    array = np.asarray(value)
    _same_shape("y", array.shape, (n,))
    if array.dtype.kind not in "iu":
        raise ValueError(f"y must be positions in the classes (integers), got {array.dtype}; encode the labels first")
    _raise_at((array < 0) | (array >= n_classes), array, "y", f"must lie in 0 to {n_classes - 1}")
    return array.astype(np.intp)


def _same_shape(name: str, shape: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    if shape != wanted:
        raise ValueError(f"{name} must have shape {wanted} to fit proba, got {shape}")


def _raise_at(bad: np.ndarray, values: np.ndarray, name: str, rule: str) -> None:
    if bad.any():
        first = np.argwhere(bad)[0]
        raise ValueError(f"{name} {rule}, got {values[tuple(first)]:g} in row {first[0]} ({bad.sum()} such)")
