"""Models in ONNX, checked and written again for onnxruntime.

onnxruntime opens the files that a tensor names for its numbers, wherever in the model it stands,
and other libraries' operators may open what they like; and it follows the nodes of a tree without
end if one leads back. What it runs is the model that was parsed and checked here, without parts
that this version of onnx does not know. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kdgraph.persistence.archive import LoadError, UntrustedFileError

_DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""Sets of operators that the standard defines; others are of a library, or of the model itself."""


def rewrite_onnx(content: bytes, *, trust: bool = False) -> tuple[bytes, Any]:
    """Return the content of a model without unknown parts, for onnxruntime, and the parsed model.

    The content may have any origin. UntrustedFileError is raised if it needs operators that the
    standard does not define, unless it is trusted; LoadError if a tensor anywhere in it names
    another file, or a node of a tree leads back.

    >>> import onnx
    >>> graph = onnx.helper.make_graph([], "empty", [], [])
    >>> content, model = rewrite_onnx(onnx.helper.make_model(graph).SerializeToString())
    >>> model.graph.name
    'empty'
    """
    import onnx

    model = onnx.load_model_from_string(content)
    model.DiscardUnknownFields()
    own = {(function.domain, function.name) for function in model.functions}
    for message in _messages(model):
        kind = message.DESCRIPTOR.name
        if kind == "TensorProto" and (
            message.data_location == onnx.TensorProto.EXTERNAL or message.external_data
        ):
            raise LoadError(
                f"keeps weights in other files ({message.name}); save it in one:"
                " onnx.save(model, file, save_as_external_data=False)"
            )
        is_foreign = kind == "NodeProto" and message.domain not in _DOMAINS
        if is_foreign and not trust and (message.domain, message.op_type) not in own:
            raise UntrustedFileError(
                f"needs operators that the standard does not define ({message.op_type} of"
                f" {message.domain})"
            )
        if kind == "NodeProto" and message.op_type.startswith("TreeEnsemble"):
            _check_trees(message)
    return model.SerializeToString(), model


def _messages(message: Any) -> Iterator[Any]:
    """Yield a message of protobuf and all messages in it, in functions and inner graphs too."""
    pending = [message]
    while pending:
        message = pending.pop()
        yield message
        for field, value in message.ListFields():
            if field.type == field.TYPE_MESSAGE:
                pending += value if hasattr(value, "extend") else [value]


def _check_trees(node: Any) -> None:
    """Raise LoadError if a node of an operator's trees is among those below it.

    Two nodes may share what is below them, as in trees of LightGBM with sets of categories.
    """
    numbers = {
        attribute.name: np.array(attribute.ints, dtype=np.int64) for attribute in node.attribute
    }
    none = np.empty(0, dtype=np.int64)
    modes = next((list(a.strings) for a in node.attribute if a.name == "nodes_modes"), [])
    # Children have numbers within their tree, or are positions among the nodes or the leaves.
    is_split = np.array([mode != b"LEAF" for mode in modes], dtype=bool)
    trees, ids = (numbers.get(f"nodes_{name}", none) for name in ("treeids", "nodeids"))
    parents, children, n = [none], [none], 0
    for side in ("true", "false"):
        child = numbers.get(f"nodes_{side}nodeids", none)
        n = len(child)
        if node.op_type == "TreeEnsemble":
            is_split = numbers.get(f"nodes_{side}leafs", none) == 0
        elif not n == len(is_split) == len(trees) == len(ids):
            raise LoadError("is damaged (arrays of different lengths)")
        else:
            child = _positions(trees, ids, child)
        is_edge = is_split[:n] & (child >= 0) & (child < n)
        parents.append(np.flatnonzero(is_edge))
        children.append(child[is_edge])
    if _has_cycle(np.concatenate(parents), np.concatenate(children), n):
        raise LoadError("is damaged (a node of a tree leads back to one above it)")


def _positions(trees: np.ndarray, ids: np.ndarray, children: np.ndarray) -> np.ndarray:
    """Return the position of the node that each child number names in its tree; -1 for none."""
    base = 1 + max(np.abs(ids).max(initial=0), np.abs(children).max(initial=0))
    keys, wanted = trees * base + ids, trees * base + children
    order = np.argsort(keys, kind="stable")
    places = np.searchsorted(keys[order], wanted).clip(max=max(len(keys) - 1, 0))
    return np.where(keys[order][places] == wanted, order[places], -1)


def _has_cycle(parents: np.ndarray, children: np.ndarray, n: int) -> bool:
    """Return whether edges between n nodes lead in a circle.

    Nodes without a parent are taken away, level by level; those of a circle remain (Kahn, 1962).
    """
    order = np.argsort(parents, kind="stable")
    parents, children = parents[order], children[order]
    n_parents, n_removed = np.bincount(children, minlength=n), 0
    level = np.flatnonzero(n_parents == 0)
    while len(level):
        n_removed += len(level)
        first, last = (np.searchsorted(parents, level, side) for side in ("left", "right"))
        below = np.concatenate([children[a:b] for a, b in zip(first, last, strict=True)])
        np.subtract.at(n_parents, below, 1)
        level = np.unique(below[n_parents[below] == 0])
    return n_removed < n
