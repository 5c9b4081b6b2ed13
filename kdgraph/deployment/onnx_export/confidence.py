"""ONNX operators of calibrators of top-label confidence. Original to kdgraph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from kdgraph.calibration.top_label import (
    BestConfidence,
    BetaCalibration,
    ClassPrecision,
    HistogramBinning,
    IsotonicConfidence,
    ShrinkageCalibrator,
    TemperatureScaling,
)
from kdgraph.calibration.top_label.base import CONFIDENCE_CLIP, SAME
from kdgraph.calibration.top_label.curves import CurveCalibrator
from kdgraph.deployment.onnx_export.graph import OnnxGraph, count_below, interpolate, refuse_export


def confidence_of(model: Any, graph: OnnxGraph, proba: str, predicted: str) -> str:
    """Return the confidence in the predicted class, Float64[n].

    ``proba``: Float64[n, K] of the parent; ``predicted``: Int64[n].
    """
    if isinstance(model, BestConfidence):
        if model.calibrated_ is None:
            return graph.add("ReduceMax", proba, axes=[1], keepdims=0)
        own = confidence_of(model.calibrated_, graph, proba, predicted)
        n = model.n_rows_
        return graph.affine(graph.affine(own, n, 0.5), 1 / (n + 1))
    if not isinstance(model, ShrinkageCalibrator):
        return refuse_export(model, "its confidence is no function of the scores alone")
    own, rows, shared = _shrinkage_terms(model, graph, proba, predicted)
    if not model.pool_:
        return own
    weighted = graph.add("Add", graph.add("Mul", rows, own), graph.affine(shared, model.pool_))
    return graph.add("Div", weighted, graph.affine(rows, 1.0, model.pool_))


def _shrinkage_terms(
    model: ShrinkageCalibrator, graph: OnnxGraph, proba: str, predicted: str
) -> tuple[str, str, str]:
    """Return the :class:`ShrinkageTerms` of rows: own confidence, rows and shared confidence."""
    by_class = isinstance(model, CurveCalibrator) and model.by_class
    per_class = isinstance(model, TemperatureScaling | ClassPrecision) or by_class
    group = predicted if per_class else graph.add("Sub", predicted, predicted)  # 0
    rows = graph.add("Gather", graph.constant(model.rows_), group)
    precision = graph.add("Gather", graph.constant(model.precision_), group)
    score = graph.add("ReduceMax", proba, axes=[1], keepdims=0)
    zero = graph.affine(score, 0.0)
    if isinstance(model, ClassPrecision):
        return precision, rows, graph.affine(zero, 1.0, model.shared_)
    if isinstance(model, TemperatureScaling):
        own = _by_temperature(model, graph, proba, predicted, precision)
        return own, rows, _shared_by_temperature(model, graph, proba, predicted)
    if not isinstance(model, CurveCalibrator):
        return refuse_export(model, "its confidence is no curve of the scores")
    own = precision
    for k, curve in enumerate(model.curves_):
        if curve:
            is_group = graph.add("Equal", group, graph.constant(np.int64(k)))
            own = graph.add("Where", is_group, _curve_at(model, curve, score, graph), own)
            support = _support_at(model, curve, score, graph)
            rows = rows if support is None else graph.add("Where", is_group, support, rows)
    shared = (
        _curve_at(model, model.shared_, score, graph)
        if model.shared_
        else graph.affine(zero, 1.0, model.shared_precision_)
    )
    return own, rows, shared


def _curve_at(
    model: CurveCalibrator, curve: Mapping[str, np.ndarray], score: str, graph: OnnxGraph
) -> str:
    """Return the confidence of one curve at each score, Float64[n]."""
    if isinstance(model, IsotonicConfidence):
        return interpolate(score, curve["score"], curve["accuracy"], graph)
    if isinstance(model, HistogramBinning):
        return _bin_value(score, curve, "accuracy", graph)
    if isinstance(model, BetaCalibration):
        a, b, c = (float(coefficient) for coefficient in curve["coefficients"])
        bounds = graph.constant(CONFIDENCE_CLIP), graph.constant(1 - CONFIDENCE_CLIP)
        clipped = graph.add("Clip", score, *bounds)
        log, log_rest = (
            graph.add("Log", value) for value in (clipped, graph.affine(clipped, -1.0, 1.0))
        )
        odds = graph.add("Add", graph.affine(log, a, c), graph.affine(log_rest, -b))
        return graph.add("Sigmoid", odds)
    return refuse_export(model, "its curve has no operators")


def _support_at(
    model: CurveCalibrator, curve: Mapping[str, np.ndarray], score: str, graph: OnnxGraph
) -> str | None:
    """Return how many rows support the curve at each score, or None for all of the class."""
    return _bin_value(score, curve, "rows", graph) if isinstance(model, HistogramBinning) else None


def _bin_value(score: str, curve: Mapping[str, np.ndarray], name: str, graph: OnnxGraph) -> str:
    """Return the value of the bin of each score, ``lower < score <= upper``, Float64[n]."""
    edges = curve["edges"]
    below = count_below(graph.affine(score, 1.0, -SAME), edges, graph, strictly=True)
    position = graph.add("Sub", below, graph.constant(np.int64(1)))
    position = graph.add("Max", position, graph.constant(np.int64(0)))
    position = graph.add("Min", position, graph.constant(np.int64(len(edges) - 2)))
    return graph.add("Gather", graph.constant(np.asarray(curve[name], dtype=np.float64)), position)


def _log_odds(
    graph: OnnxGraph, proba: str, predicted: str, beta: str, shift: str, n_classes: int
) -> str:
    """Return the log odds of the predicted class at inverse temperatures, Float64[n].

    ``beta`` and ``shift``: Float64[n, 1].
    """
    logs = graph.add("Log", graph.add("Max", proba, graph.constant(CONFIDENCE_CLIP)))
    powers = graph.add("Mul", logs, beta)
    classes = graph.constant(np.arange(n_classes)[None, :])
    axis = graph.constant(np.array([1]))
    is_own = graph.add("Equal", classes, graph.add("Unsqueeze", predicted, axis))
    others = graph.add("Where", is_own, graph.constant(-np.inf), powers)
    own = graph.sum(graph.add("Where", is_own, powers, graph.constant(0.0)), keep=True)
    best = graph.add("ReduceMax", others, axes=[1], keepdims=1)
    total = graph.sum(graph.add("Exp", graph.add("Sub", others, best)), keep=True)
    log_others = graph.add("Add", best, graph.add("Log", total))
    odds = graph.add("Sub", graph.add("Add", own, shift), log_others)
    return graph.add("Squeeze", odds, axis)


def _by_temperature(
    model: TemperatureScaling, graph: OnnxGraph, proba: str, predicted: str, precision: str
) -> str:
    """Return the confidence by temperatures and awards of each class, Float64[n]."""
    is_fitted = ~np.isnan(model.temperature_)
    beta = 1 / np.where(is_fitted, model.temperature_, 1.0)
    shift = np.where(is_fitted, model.award_, 0.0) * beta
    axis = graph.constant(np.array([1]))
    by_row = [
        graph.add("Unsqueeze", graph.add("Gather", graph.constant(of), predicted), axis)
        for of in (beta, shift)
    ]
    odds = _log_odds(graph, proba, predicted, by_row[0], by_row[1], len(model.classes_))
    fitted = graph.add("Gather", graph.constant(is_fitted), predicted)
    return graph.add("Where", fitted, graph.add("Sigmoid", odds), precision)


def _shared_by_temperature(
    model: TemperatureScaling, graph: OnnxGraph, proba: str, predicted: str
) -> str:
    """Return the confidence by the temperature of all rows, Float64[n]."""
    if np.isnan(model.shared_temperature_):
        return graph.add("Gather", graph.constant(model.precision_), predicted)
    beta, no_shift = graph.constant(1 / model.shared_temperature_), graph.constant(0.0)
    odds = _log_odds(graph, proba, predicted, beta, no_shift, len(model.classes_))
    return graph.add("Sigmoid", odds)
