"""ONNX operators of parents: trees, forests, histogram gradient boosting, logistic regression.

The operator for trees returns single precision, in which sums of votes would lose half of their
digits. So it returns numbers of leaves, which single precision holds exactly, and the votes of the
leaves are read from tables in double precision. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kdgraph.base.frozen import unwrap_frozen
from kdgraph.deployment.onnx_export.graph import (
    FLOAT32,
    INT64,
    TREE_DOMAIN,
    OnnxGraph,
    add_decision,
    add_proba,
    add_transform,
    parent_output,
    refuse_export,
)
from kdgraph.fitted.rows import ModelRows
from kdgraph.parents.row_encoder import RowEncoder


class _TreeNodes(NamedTuple):
    """Nodes of a tree: children, -1 in leaves; a row goes left if its feature <= threshold."""

    left: np.ndarray
    right: np.ndarray
    feature: np.ndarray
    threshold: np.ndarray
    missing_goes_left: np.ndarray


def _leaves(rows: str, trees: Sequence[_TreeNodes], graph: OnnxGraph, dtype: type) -> list[str]:
    """Return the node in which each tree puts each row, Int64[n] for each tree.

    Rows and thresholds have the precision ``dtype`` in which the library compares them.
    """
    from onnx import numpy_helper

    # Every tree is one target of a regression, whose only summand is the number of the leaf. Single
    # precision is exact up to 16.7 million nodes of a tree.
    node_ids = [np.arange(len(tree.left)) for tree in trees]
    leaves = [np.flatnonzero(tree.left < 0) for tree in trees]
    is_leaf, left, right, feature, missing = (
        np.concatenate(parts)
        for parts in zip(
            *((t.left < 0, t.left, t.right, t.feature, t.missing_goes_left) for t in trees),
            strict=True,
        )
    )
    threshold = np.where(is_leaf, 0.0, np.concatenate([tree.threshold for tree in trees]))
    arrays = {
        "nodes_values": _round_down(threshold, dtype),
        "target_weights": np.concatenate(leaves).astype(dtype),
    }
    if dtype is np.float64:
        values: dict[str, Any] = {
            f"{name}_as_tensor": numpy_helper.from_array(array, name)
            for name, array in arrays.items()
        }
    else:
        rows, values = graph.add("Cast", rows, to=FLOAT32), arrays

    def tree_of(parts: Sequence[np.ndarray]) -> np.ndarray:
        return np.repeat(np.arange(len(trees)), [len(part) for part in parts])

    numbers = graph.add(
        "TreeEnsembleRegressor",
        rows,
        domain=TREE_DOMAIN,
        n_targets=len(trees),
        nodes_treeids=tree_of(node_ids),
        nodes_nodeids=np.concatenate(node_ids),
        nodes_featureids=np.where(is_leaf, 0, feature).astype(np.int64),
        nodes_modes=np.where(is_leaf, "LEAF", "BRANCH_LEQ").tolist(),
        nodes_truenodeids=np.where(is_leaf, 0, left).astype(np.int64),
        nodes_falsenodeids=np.where(is_leaf, 0, right).astype(np.int64),
        nodes_missing_value_tracks_true=np.where(is_leaf, 0, missing).astype(np.int64),
        target_treeids=tree_of(leaves),
        target_nodeids=np.concatenate(leaves),
        target_ids=tree_of(leaves),
        **values,
    )
    numbers = graph.add("Cast", numbers, to=INT64)
    return [graph.column(numbers, t) for t in range(len(trees))]


def _round_down(threshold: np.ndarray, dtype: type) -> np.ndarray:
    """Return the largest numbers of a precision that are not above the thresholds.

    They separate the numbers of this precision as the thresholds do.
    """
    with np.errstate(over="ignore"):
        rounded = threshold.astype(dtype)
    return np.where(rounded > threshold, np.nextafter(rounded, dtype(-np.inf)), rounded)


@add_transform.register
def _(transformer: StandardScaler, graph: OnnxGraph) -> str:
    rows = graph.rows()
    if transformer.mean_ is not None and transformer.with_mean:
        rows = graph.add("Sub", rows, graph.constant(transformer.mean_))
    if transformer.scale_ is not None:
        rows = graph.add("Div", rows, graph.constant(transformer.scale_))
    return rows


@add_transform.register
def _(transformer: RowEncoder, graph: OnnxGraph) -> str:
    if any(values is not None for values in transformer.categories_):
        refuse_export(transformer, "it encodes text and categories")
    imputer = transformer.encoder_.named_transformers_["numeric"]
    with graph.behind([*map(unwrap_frozen, transformer.transformers), imputer]):
        return graph.rows()


@add_transform.register
def _(transformer: SimpleImputer, graph: OnnxGraph) -> str:
    values = np.asarray(transformer.statistics_)
    has_nan = isinstance(transformer.missing_values, float) and np.isnan(transformer.missing_values)
    if transformer.add_indicator or not has_nan or values.dtype.kind != "f":
        refuse_export(transformer, "it does more than replace NaN by numbers")
    if np.isnan(values).any():
        refuse_export(transformer, "it drops columns without values")
    rows = graph.rows()
    return graph.add("Where", graph.add("IsNaN", rows), graph.constant(values), rows)


@add_transform.register
def _(transformer: ModelRows, graph: OnnxGraph) -> str:
    names = [column.name for column in transformer.columns]
    if transformer.of_model.names is None or not names:
        return graph.rows()
    # Categories stay positions of their values: distances count these.
    if not transformer.keeps_positions():
        refuse_export(transformer, "the model numbers the categories in another order")
    positions = np.array(transformer.of_model.positions(names))
    return graph.add("Gather", graph.rows(), graph.constant(positions), axis=1)


@add_proba.register
def _(model: Pipeline, graph: OnnxGraph) -> str:
    with graph.behind(step for _, step in model.steps[:-1]):
        return parent_output(model[-1], "predict_proba", graph)


@add_decision.register
def _(parent: Pipeline, graph: OnnxGraph) -> str:
    with graph.behind(step for _, step in parent.steps[:-1]):
        return parent_output(parent[-1], "decision_function", graph)


@add_proba.register(DecisionTreeClassifier)
@add_proba.register(RandomForestClassifier)
@add_proba.register(ExtraTreesClassifier)
def _(model: Any, graph: OnnxGraph) -> str:
    if model.n_outputs_ > 1:
        return refuse_export(model, "it has several outputs")
    trees = [tree.tree_ for tree in getattr(model, "estimators_", [model])]
    nodes = [
        _TreeNodes(
            tree.children_left,
            tree.children_right,
            tree.feature,
            tree.threshold,
            tree.missing_go_to_left,
        )
        for tree in trees
    ]
    leaves = _leaves(graph.rows(), nodes, graph, np.float32)
    votes = [
        graph.add("Gather", graph.constant(tree.value[:, 0, :]), leaf)
        for tree, leaf in zip(trees, leaves, strict=True)
    ]
    return graph.add("Div", graph.add("Sum", *votes), graph.constant(float(len(trees))))


@add_proba.register
def _(model: HistGradientBoostingClassifier, graph: OnnxGraph) -> str:
    raw = add_decision(model, graph)
    return graph.softmax(raw) if len(model.classes_) > 2 else _of_log_odds(raw, graph)


@add_proba.register
def _(model: LogisticRegression, graph: OnnxGraph) -> str:
    if len(model.classes_) > 2 and model.solver == "liblinear":
        return refuse_export(model, "it fits each class against the rest")
    logits = add_decision(model, graph)
    return graph.softmax(logits) if len(model.classes_) > 2 else _of_log_odds(logits, graph)


def _of_log_odds(odds: str, graph: OnnxGraph) -> str:
    """Return the probabilities of two classes, Float64[n, 2], of log odds of the second."""
    proba = graph.add("Sigmoid", odds)
    return graph.columns(graph.affine(proba, -1.0, 1.0), proba)


@add_decision.register
def _(parent: HistGradientBoostingClassifier, graph: OnnxGraph) -> str:
    if parent.is_categorical_ is not None:
        return refuse_export(parent, "it splits on categories")
    rounds = parent._predictors
    nodes = [tree.nodes for trees in rounds for tree in trees]
    structure = [
        _TreeNodes(
            np.where(tree["is_leaf"] == 1, -1, tree["left"].astype(np.int64)),
            tree["right"],
            tree["feature_idx"],
            tree["num_threshold"],
            tree["missing_go_to_left"],
        )
        for tree in nodes
    ]
    leaves = _leaves(graph.rows(), structure, graph, np.float64)
    values = [
        graph.add("Gather", graph.constant(tree["value"]), leaf)
        for tree, leaf in zip(nodes, leaves, strict=True)
    ]
    width = len(rounds[0])
    baseline = np.ravel(parent._baseline_prediction)
    raw = [
        graph.affine(graph.add("Sum", *values[k::width]), 1.0, baseline[k]) for k in range(width)
    ]
    return raw[0] if width == 1 else graph.columns(*raw)


@add_decision.register
def _(parent: LogisticRegression, graph: OnnxGraph) -> str:
    product = graph.add("MatMul", graph.rows(), graph.constant(parent.coef_.T))
    logits = graph.add("Add", product, graph.constant(parent.intercept_))
    return graph.column(logits, 0) if len(parent.classes_) == 2 else logits
