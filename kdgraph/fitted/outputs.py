"""Outputs of models of other libraries, as class probabilities. Original to kdgraph."""

from __future__ import annotations

import warnings

import numpy as np
from scipy.special import expit, softmax

from kdgraph.data.tables.score_file import MIN_SUM_TOLERANCE, sum_tolerance
from kdgraph.fitted.source import ModelSource, OutputKind

_SINGLE_PRECISION_ERROR, _DOUBLE_PRECISION_ERROR = 1e-6, 1e-12
_MAX_SUM_ERROR_OF_PROBABILITIES = 1e-4


def probabilities_of(outputs: np.ndarray, kind: OutputKind, source: ModelSource) -> np.ndarray:
    """Return the class probabilities that outputs stand for.

    Parameters
    ----------
    outputs : Float64[n, K], or Float64[n] or Float64[n, 1]
        Outputs of a model; a single one is that of the second of two classes.
    kind : {"probabilities", "logits"}
        Kind of the outputs. Logits pass through the softmax, a single one through the logistic
        function.
    source : ModelSource
        Where the model comes from, for errors.

    Returns
    -------
    Float64[n, K]
        Rows sum to 1. Probabilities in double precision are returned to the bit.

    Raises
    ------
    DataError
        If probabilities are negative or do not sum to 1, or logits are not finite.

    Warns
    -----
    UserWarning
        If logits look like probabilities.

    Examples
    --------
    >>> source = ModelSource("model.onnx")
    >>> probabilities_of(np.array([[0.0, 0.0]]), "logits", source)
    array([[0.5, 0.5]])
    >>> probabilities_of(np.array([0.25]), "probabilities", source)
    array([[0.75, 0.25]])
    """
    single = outputs.ndim == 1 or outputs.shape[1] == 1
    if kind == "logits":
        return _proba_of_logits(outputs.ravel() if single else outputs, source)
    if single and len(outputs):
        second = outputs.ravel()
        outputs = np.column_stack([1 - second, second])
    sums = outputs.sum(axis=1)
    # Models compute in single precision: differences to 1 may be a little below 0.
    deviation = np.abs(sums - 1)
    tolerance = MIN_SUM_TOLERANCE
    if deviation.max(initial=0) > MIN_SUM_TOLERANCE and np.isfinite(outputs).all():  # as seldom
        tolerance = sum_tolerance(outputs.astype(np.float32))
    is_proper = outputs.min(axis=1, initial=0) >= -_SINGLE_PRECISION_ERROR
    wrong = np.flatnonzero(~(is_proper & (deviation <= tolerance)))
    if len(wrong):
        raise source.error(
            f"must predict probabilities, and row {wrong[0]} has sum {sums[wrong[0]]:.6g} and"
            f" least output {outputs[wrong[0]].min():.6g}; if they are logits, give"
            f" {source.key}outputs=logits"
        )
    outputs = outputs.clip(min=0)
    sums = outputs.sum(axis=1, keepdims=True)
    return np.where(np.abs(sums - 1) <= _DOUBLE_PRECISION_ERROR, outputs, outputs / sums)


def _proba_of_logits(logits: np.ndarray, source: ModelSource) -> np.ndarray:
    if logits.ndim == 1:
        second = expit(logits)
        proba = np.column_stack([1 - second, second])
    else:
        _warn_if_probabilities(logits, source)
        with np.errstate(invalid="ignore"):  # inf - inf; that row is refused
            proba = softmax(logits, axis=1)
    undefined = np.flatnonzero(np.isnan(proba).any(axis=1))
    if len(undefined):
        row = undefined[0]
        raise source.error(f"must predict finite logits, and row {row} has {logits[row]}")
    return proba


def _warn_if_probabilities(outputs: np.ndarray, source: ModelSource) -> None:
    sums = outputs.sum(axis=1)
    is_one = np.allclose(sums, 1, atol=_MAX_SUM_ERROR_OF_PROBABILITIES)
    if len(outputs) and (outputs >= 0).all() and is_one:
        warnings.warn(
            f"the outputs of {source.path} are at least 0 and sum to 1, as probabilities do, and"
            f" their softmax is taken; give {source.key}outputs=probabilities",
            stacklevel=6,
        )
