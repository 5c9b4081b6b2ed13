"""ONNX operators of calibrators of class probabilities, and of the density gate.

Original to kdgraph.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from kdgraph.base.softmax_map import SMALLEST_PROBABILITY, SoftmaxMap
from kdgraph.calibration import (
    BestCalibrator,
    ConformalClassifier,
    LinearPool,
    ScoreMap,
    Uncalibrated,
)
from kdgraph.calibration.matrix_scaling import LogLinearCalibrator
from kdgraph.density import DensityGate
from kdgraph.density.classifiers import GraphClassifier
from kdgraph.density.graph import KernelDensityGraph
from kdgraph.deployment.onnx_export.graph import (
    OnnxGraph,
    add_proba,
    interpolate,
    parent_output,
    proba_of,
    refuse_export,
)
from kdgraph.detection import ScoreGate
from kdgraph.geometry import tree_partition_of
from kdgraph.geometry.kinds import PipelinePartition

# As in the search of kdgraph, the nearest of a few candidates is the nearest of all.
_N_CANDIDATES = 8
_MAX_COORDINATE = 1e100
# Constant of scikit-learn's temperature scaling.
_LOG_OFFSET = 1e-12


@add_proba.register
def _(model: Uncalibrated, graph: OnnxGraph) -> str:
    if type(model) not in (Uncalibrated, BestCalibrator):
        return refuse_export(model, "no operators are known for it")
    return proba_of(model.calibrated_, graph)


@add_proba.register
def _(model: LinearPool, graph: OnnxGraph) -> str:
    members = [proba_of(member, graph) for member in model.members_.values()]
    total = graph.add("Sum", *members)
    return graph.add("Div", total, graph.constant(float(len(members))))


@add_proba.register
def _(model: ScoreMap, graph: OnnxGraph) -> str:
    fitted = model.calibrated_.calibrated_classifiers_[0]
    is_binary, response = len(model.classes_) == 2, model.response_
    method = "predict_proba" if response == "log_odds" else response
    scores = parent_output(model.estimator_, method, graph)
    if response == "log_odds":
        limits = np.finfo(np.float64)
        bounds = graph.constant(limits.tiny), graph.constant(1 - limits.epsneg)
        odds = graph.add("Clip", scores, *bounds)
        complement = graph.affine(odds, -1.0, 1.0)
        scores = graph.add("Sub", graph.add("Log", odds), graph.add("Log", complement))
    if fitted.method == "temperature":
        return _temperature_map(fitted.calibrators[0].beta_, scores, response, is_binary, graph)
    if is_binary and response == "decision_function":
        columns = [scores]
    else:
        columns = [
            graph.column(scores, k) for k in ([1] if is_binary else range(len(model.classes_)))
        ]
    return _class_maps(fitted.calibrators, columns, graph)


def _temperature_map(
    beta: float, scores: str, response: str, is_binary: bool, graph: OnnxGraph
) -> str:
    """Return the probabilities of scikit-learn's temperature scaling, Float64[n, K]."""
    if response == "predict_proba":
        logits = graph.add("Log", graph.affine(scores, 1.0, _LOG_OFFSET))
    elif is_binary:
        logits = graph.columns(graph.add("Neg", scores), scores)
    else:
        logits = scores
    return graph.softmax(graph.affine(logits, float(beta)))


def _class_maps(maps: Sequence[Any], columns: Sequence[str], graph: OnnxGraph) -> str:
    """Return the probabilities of maps of each class against the rest, Float64[n, K]."""
    mapped = [_score_map(map_, of, graph) for map_, of in zip(maps, columns, strict=True)]
    if len(mapped) == 1:
        return graph.columns(graph.affine(mapped[0], -1.0, 1.0), mapped[0])
    proba = graph.columns(*mapped)
    total = graph.sum(proba, keep=True)
    is_zero = graph.add("Equal", total, graph.constant(0.0))
    divisor = graph.add("Where", is_zero, graph.constant(1.0), total)
    uniform = graph.constant(1 / len(mapped))
    return graph.add("Where", is_zero, uniform, graph.add("Div", proba, divisor))


def _score_map(map_: Any, score: str, graph: OnnxGraph) -> str:
    """Return scikit-learn's isotonic regression or sigmoid of one class, Float64[n]."""
    if hasattr(map_, "X_thresholds_"):
        return interpolate(score, map_.X_thresholds_, map_.y_thresholds_, graph)
    return graph.add("Sigmoid", graph.affine(score, -float(map_.a_), -float(map_.b_)))


@add_proba.register
def _(model: LogLinearCalibrator, graph: OnnxGraph) -> str:
    map_: SoftmaxMap = model.map_
    proba, share = proba_of(model.estimator_, graph), map_.uniform_share
    n_classes = len(model.classes_)
    if map_.inverse_temperature is not None:
        if map_.mix_before_temperature:
            proba = graph.affine(proba, 1 - share, share / n_classes)
        else:
            proba = graph.add("Max", proba, graph.constant(SMALLEST_PROBABILITY))
        proba = graph.softmax(graph.affine(graph.add("Log", proba), map_.inverse_temperature))
    logits = graph.add("Log", graph.affine(proba, 1 - share, share / n_classes))
    product = graph.add("MatMul", logits, graph.constant(map_.coef.T))
    return graph.softmax(graph.add("Add", product, graph.constant(map_.intercept)))


@add_proba.register
def _(model: GraphClassifier, graph: OnnxGraph) -> str:
    return refuse_export(model, "it compares a row with all training rows by their leaves or units")


@add_proba.register
def _(model: ConformalClassifier, graph: OnnxGraph) -> str:
    return refuse_export(model, "its sets depend on a hash of the row (export its estimator_)")


@add_proba.register
def _(model: ScoreGate, graph: OnnxGraph) -> str:
    return refuse_export(model, "its detector has no operators")


@add_proba.register
def _(model: DensityGate, graph: OnnxGraph) -> str:
    log_density = log_density_of(model, graph)
    above = graph.affine(log_density, 1.0, -model.log_floor_)
    weight = graph.add("Exp", graph.add("Min", above, graph.constant(0.0)))
    # The density of a row at infinite distance is 0, also above a floor of 0.
    is_zero = graph.add("IsInf", log_density, detect_positive=0)
    weight = graph.add("Where", is_zero, graph.constant(0.0), weight)
    weight = graph.add("Max", weight, graph.constant(model.min_weight))
    weight = graph.add("Unsqueeze", weight, graph.constant(np.array([1])))
    own = graph.add("Mul", weight, proba_of(model.estimator_, graph))
    return graph.add("Add", own, graph.affine(graph.affine(weight, -1.0, 1.0), model.prior_))


def log_density_of(gate: DensityGate, graph: OnnxGraph) -> str:
    """Return the log density of the gate, Float64[n]."""
    if id(gate) not in graph.results:
        graph.results[id(gate)] = _add_log_density(gate, gate.graph_, graph)
    return graph.results[id(gate)]


def _add_log_density(gate: DensityGate, density: KernelDensityGraph, graph: OnnxGraph) -> str:
    partition = density.partition
    if isinstance(partition, PipelinePartition):
        behind = copy.copy(density)
        behind.partition = partition.inner
        with graph.behind(partition.transformers):
            return _add_log_density(gate, behind, graph)
    if tree_partition_of(partition) is None:
        return refuse_export(gate, "its distances are measured in a layer of a network")
    if density._nearest_mean is None:
        return refuse_export(gate, "distance='geodesic' compares the leaves of all training rows")
    points = graph.rows()
    if density.fill_values is not None:
        is_missing = graph.add("IsNaN", points)
        points = graph.add("Where", is_missing, graph.constant(density.fill_values), points)
    bounds = graph.constant(-_MAX_COORDINATE), graph.constant(_MAX_COORDINATE)
    log_volume = 0.0
    if density.whitening is not None:
        clipped = graph.add("Clip", points, *bounds)
        points = graph.add("MatMul", clipped, graph.constant(density.whitening.directions.T))
        log_volume = density.whitening.log_volume
    scale = graph.constant(np.asarray(density._nearest_mean.scale, dtype=np.float64))
    scaled = graph.add("Clip", graph.add("Div", points, scale), *bounds)
    polytope = _nearest_mean(scaled, density._nearest_mean._means, graph)
    gaussians = density.gaussians
    mean, variance, log_norm = (
        graph.add("Gather", graph.constant(table), polytope)
        for table in (
            gaussians.means,
            gaussians.variances,
            -0.5 * np.log(2 * np.pi * gaussians.variances).sum(axis=1) + log_volume,
        )
    )
    difference = graph.add("Sub", points, mean)
    squares = graph.add("Div", graph.add("Mul", difference, difference), variance)
    return graph.add("Add", graph.affine(graph.sum(squares), -0.5), log_norm)


def _nearest_mean(points: str, means: np.ndarray, graph: OnnxGraph) -> str:
    """Return the number of the nearest of the means, Float64[p, d], to each point, Int64[n]."""
    # Squares that are multiplied out lose half of the digits near 0. So they choose candidates, in
    # the order of their numbers, and the distances of these are computed from differences. Of equal
    # distances, the lowest number is taken.
    product = graph.add("MatMul", points, graph.constant(-2 * means.T))
    squares = graph.add("Add", product, graph.constant((means**2).sum(axis=1)))
    numbers = graph.smallest(squares, min(_N_CANDIDATES, len(means)))
    candidates = graph.add("Gather", graph.constant(means), numbers)
    axis = graph.constant(np.array([1]))
    difference = graph.add("Sub", candidates, graph.add("Unsqueeze", points, axis))
    distance = graph.add("Sqrt", graph.sum(graph.add("Mul", difference, difference)))
    nearest = graph.add("ArgMin", distance, axis=1, keepdims=1)
    return graph.add("Squeeze", graph.add("GatherElements", numbers, nearest, axis=1), axis)
