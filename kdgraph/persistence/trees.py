"""Compiled trees of scikit-learn: those of a whole forest as a few columns, checked before any of them walks down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kdgraph.persistence.errors import CannotLoad

_LEAF = -1
"""``children_left`` and ``children_right`` of a leaf."""


def columns_of(trees: Sequence[Any]) -> dict[str, np.ndarray]:
    """The trees (:class:`sklearn.tree._tree.Tree`) as arrays of one axis.

    ``n_nodes``, ``n_features``, ``n_outputs`` and ``max_depth`` have an entry for each tree; ``n_classes`` one for each output of each; a
    field of the nodes, such as ``threshold``, one for each node; ``value`` as many for each node as its tree has outputs and classes.
    """
    states = [tree.__getstate__() for tree in trees]
    counts = [state["node_count"] for state in states]
    nodes: Any = np.empty(sum(counts), states[0]["nodes"].dtype)  # np.concatenate would look for a common type of each pair: 3 ms
    for state, end in zip(states, np.cumsum(counts), strict=True):
        nodes[end - state["node_count"] : end] = state["nodes"]
    return {
        "n_nodes": np.array(counts),
        "n_features": np.array([tree.n_features for tree in trees]),
        "n_outputs": np.array([tree.n_outputs for tree in trees]),
        "max_depth": np.array([state["max_depth"] for state in states]),
        "n_classes": np.concatenate([tree.n_classes for tree in trees]),
        "value": np.concatenate([state["values"].ravel() for state in states]),
        **{f"node.{name}": np.ascontiguousarray(nodes[name]) for name in nodes.dtype.names or ()},
    }


def trees_of(columns: Mapping[str, np.ndarray]) -> list[Any]:
    """The trees again, equal to the last bit.

    Raises
    ------
    CannotLoad
        If this version of scikit-learn keeps other nodes.
    ValueError
        If a node would lead out of its tree or round in a circle, or asks for a feature that there is not.
    """
    from sklearn.tree._tree import NODE_DTYPE

    fields = {name.removeprefix("node."): column for name, column in columns.items() if name.startswith("node.")}
    if set(fields) != set(NODE_DTYPE.names or ()):
        raise CannotLoad("cannot be read by this version (scikit-learn keeps its trees in another form now)")
    nodes: Any = np.empty(len(fields["left_child"]), NODE_DTYPE)
    for name, column in fields.items():
        nodes[name] = column
    counts, n_features = columns["n_nodes"], columns["n_features"]
    if counts.min(initial=1) < 1 or n_features.min(initial=1) < 1 or counts.sum() != len(nodes):
        raise ValueError("trees do not share out their nodes")
    _check_nodes(nodes, counts, np.repeat(n_features, counts))
    return _cut(nodes, columns)


def _check_nodes(nodes: np.ndarray, counts: np.ndarray, n_features: np.ndarray) -> None:
    """A walk down must end: children have larger numbers than their parent, which is how every builder of scikit-learn numbers them."""
    own = np.arange(len(nodes)) - np.repeat(np.cumsum(counts) - counts, counts)
    left, right, end = nodes["left_child"], nodes["right_child"], np.repeat(counts, counts)
    leaf = (left == _LEAF) & (right == _LEAF)
    inside = (left > own) & (right > own) & (left < end) & (right < end) & (nodes["feature"] >= 0) & (nodes["feature"] < n_features)
    if not (leaf | inside).all():
        raise ValueError(f"node {own[~(leaf | inside)][0]} of a tree leads nowhere")


def _cut(nodes: np.ndarray, columns: Mapping[str, np.ndarray]) -> list[Any]:
    from sklearn.tree._tree import Tree

    names = ("n_nodes", "n_features", "n_outputs", "max_depth")
    trees, node, value, output = [], 0, 0, 0
    for count, n_features, n_outputs, depth in zip(*(columns[name].tolist() for name in names), strict=True):
        n_classes = columns["n_classes"][output : output + n_outputs]
        if n_outputs < 1 or len(n_classes) != n_outputs or n_classes.min() < 1:
            raise ValueError("a tree has no outputs")
        shape = (count, n_outputs, int(n_classes.max()))
        size = shape[0] * shape[1] * shape[2]
        values = columns["value"][value : value + size]
        tree = Tree(n_features, np.asarray(n_classes, dtype=np.intp), n_outputs)
        state = {"max_depth": depth, "node_count": count, "nodes": nodes[node : node + count], "values": values.reshape(shape)}
        tree.__setstate__(state)
        trees.append(tree)
        node, value, output = node + count, value + size, output + n_outputs
    return trees
