"""Checks of the trees in files of XGBoost and LightGBM.

The compiled code of XGBoost and LightGBM follows the children and features of a file without checks
of their bounds, so that an edited file can end the process or read memory that is not its own. The
trees are therefore checked here before the library reads them: their arrays have one length,
children have larger numbers than their parents, and features and sets of categories exist. The
files of CatBoost are not documented, and are read by its own code alone. Original to kdgraph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

_LEADS_NOWHERE = "a node leads nowhere"
_NO_CATEGORIES = "a node splits on categories that are not there"
_MAX_XGBOOST_CATEGORIES = 2**24
"""Number of codes that single precision, in which XGBoost stores them, has without a gap."""


def xgboost_document(content: bytes) -> Any:
    """Return the document of a file of XGBoost, in JSON or UBJSON.

    Raises
    ------
    ValueError
        If it is none.
    """
    # XGBoost itself ends the process for content that is no document.
    is_json = content[:2] in (b'{"', b"{\n", b"{ ")
    return json.loads(content) if is_json else decode_ubjson(content)


_XGBOOST_NODE_ARRAYS = (
    "default_left",
    "left_children",
    "loss_changes",
    "parents",
    "right_children",
    "split_conditions",
    "split_indices",
    "split_type",
    "sum_hessian",
)


def _xgboost_model(booster: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the trees of a booster; those of DART are one level deeper, linear ones have none."""
    return booster.get("gbtree", booster).get("model", {})


def problem_of_xgboost_trees(learner: Mapping[str, Any]) -> str | None:
    """Return what is wrong with the trees of a document of XGBoost, or None.

    Parameters
    ----------
    learner : mapping
        Entry "learner" of the document of :func:`xgboost_document`.

    Raises
    ------
    LookupError, TypeError, ValueError
        If the document lacks parts, or parts have other types.
    """
    parameters = learner["learner_model_param"]
    n_features = int(parameters["num_feature"])
    # Models of several outcomes or quantiles have targets in place of classes.
    n_groups = max(int(parameters["num_class"]), int(parameters.get("num_target", 1)), 1)
    model = _xgboost_model(learner["gradient_booster"])
    trees = model.get("trees", [])
    groups = np.asarray(model.get("tree_info", []), dtype=np.int64)
    if len(groups) != len(trees) or ((groups < 0) | (groups >= n_groups)).any():
        return "a tree belongs to no class"
    ends = np.asarray(model.get("iteration_indptr", [0, len(groups)]), dtype=np.int64)
    if (np.diff(ends, prepend=0) < 0).any() or ends[-1:].sum() != len(groups):
        return "an iteration has trees that are not there"
    problems = (_problem_of_xgboost_tree(tree, n_features, n_groups) for tree in trees)
    return next((problem for problem in problems if problem), None)


def _problem_of_xgboost_tree(tree: Mapping[str, Any], n_features: int, n_groups: int) -> str | None:
    """Return what is wrong with a tree of XGBoost, or None."""
    arrays = {
        name: np.asarray(tree[name], dtype=np.int64)
        for name in ("left_children", "right_children", "split_indices", "split_type", "parents")
    }
    left, right, feature, kinds, parents = arrays.values()
    n_nodes = int(tree["tree_param"]["num_nodes"])
    # A leaf of a tree of several outputs has a weight for each of them.
    width = max(int(tree["tree_param"].get("size_leaf_vector", 1)), 1)
    lengths = {len(tree[name]) for name in _XGBOOST_NODE_ARRAYS}
    is_leaf = left < 0
    if (
        not n_nodes
        or lengths != {n_nodes}
        or len(tree["base_weights"]) != n_nodes * width
        or width not in (1, n_groups)
    ):
        return "arrays of different lengths"
    if width > 1:
        # In these trees, the right child of a leaf is its number among the leaves.
        leaf_numbers = right[is_leaf]
        n_leaves = len(leaf_numbers)
        if len(tree["leaf_weights"]) != n_leaves * width:
            return "arrays of different lengths"
        if ((leaf_numbers < 0) | (leaf_numbers >= n_leaves)).any():
            return _LEADS_NOWHERE
        right = np.where(is_leaf, -1, right)
    if (is_leaf != (right < 0)).any():
        return "a node has one child"
    if (left < -1).any() or (right < -1).any():  # only -1 is no child to the library
        return _LEADS_NOWHERE
    problem = problem_of_tree(left, right, np.where(is_leaf, 0, feature), n_features)
    if problem is not None:
        return problem
    inner_nodes = np.flatnonzero(~is_leaf)
    if any((parents[child[inner_nodes]] != inner_nodes).any() for child in (left, right)):
        return "a node has another parent than the one that leads to it"
    return _problem_of_xgboost_categories(tree, inner_nodes[kinds[inner_nodes] == 1])


def _problem_of_xgboost_categories(
    tree: Mapping[str, Any], categorical_nodes: np.ndarray
) -> str | None:
    """Return what is wrong with the sets of categories of a tree of XGBoost, or None."""
    nodes, starts, sizes, categories = (
        np.asarray(tree.get(name, []), dtype=np.int64)
        for name in ("categories_nodes", "categories_segments", "categories_sizes", "categories")
    )
    has_sets = len(nodes) == len(starts) == len(sizes)
    if not has_sets or not np.array_equal(nodes, categorical_nodes):
        return _NO_CATEGORIES
    is_inside = (starts >= 0) & (sizes > 0) & (starts + sizes <= len(categories))
    # XGBoost reserves a bit for each category up to the largest one.
    are_codes = (categories >= 0) & (categories < _MAX_XGBOOST_CATEGORIES)
    return None if is_inside.all() and are_codes.all() else _NO_CATEGORIES


def problem_of_lightgbm_trees(text: str) -> str | None:
    """Return what is wrong with the trees of a text file of LightGBM, or None.

    The header has the length of each tree; the library ends the process where they do not fit.
    """
    header, separator, rest = text.partition("\nTree=0\n")
    sizes = re.search(r"^tree_sizes=([\d ]*)$", header, re.MULTILINE)
    last_feature = re.search(r"^max_feature_idx=(\d+)$", header, re.MULTILINE)
    body, end, _ = (separator[1:] + rest).partition("end of trees")
    if not (separator and sizes and last_feature and end):
        return "it has no trees, or no end"
    _, _, parameters = rest.partition("\nparameters:\n")
    lines = parameters.partition("\nend of parameters")[0].split("\n")
    if not all(_LIGHTGBM_PARAMETER.fullmatch(line) for line in lines if line):
        return "a parameter has no value"
    lengths = [int(size) for size in sizes[1].split()]
    trees = list(_texts_of_length(body, lengths))
    if "".join(trees).strip() != body.strip():
        return "its parts have other lengths than its header lists"
    for number, tree in enumerate(trees):
        fields = dict(line.split("=", 1) for line in tree.splitlines() if "=" in line)
        if fields.pop("Tree", None) != str(number):
            return "its parts have other lengths than its header lists"
        if problem := _problem_of_lightgbm_tree(fields, int(last_feature[1]) + 1):
            return problem
    return None


_LIGHTGBM_PARAMETER = re.compile(r"\[\w+: .*\]")
# Fields of a tree in a text file of LightGBM with a number for each leaf and for each inner node.
_LIGHTGBM_LEAF_FIELDS = ("leaf_value", "leaf_weight", "leaf_count")
_LIGHTGBM_NODE_FIELDS = (
    "split_feature",
    "split_gain",
    "threshold",
    "decision_type",
    "left_child",
    "right_child",
    "internal_value",
    "internal_weight",
    "internal_count",
)
_IS_CATEGORICAL = 1
"""Bit of LightGBM's decision type of a node that splits on categories."""


def _problem_of_lightgbm_tree(fields: Mapping[str, str], n_features: int) -> str | None:
    """Return what is wrong with a tree in a text file of LightGBM, or None."""
    # The library ends the process for text in place of a number, and for a missing field.
    numbers = {name: np.array(text.split(), dtype=np.float64) for name, text in fields.items()}
    n_leaves, n_categorical = int(fields["num_leaves"]), int(fields["num_cat"])
    if problem := _problem_of_linear_leaves(fields, numbers, n_features):
        return problem
    if n_leaves == 1:
        return None if len(numbers["leaf_value"]) == 1 else "arrays of different lengths"
    sizes = dict.fromkeys(_LIGHTGBM_LEAF_FIELDS, n_leaves)
    sizes |= dict.fromkeys(_LIGHTGBM_NODE_FIELDS, n_leaves - 1)
    if n_leaves < 1 or any(len(numbers[name]) != size for name, size in sizes.items()):
        return "arrays of different lengths"
    left, right, feature, kinds = (
        np.array(fields[name].split(), dtype=np.int64)
        for name in ("left_child", "right_child", "split_feature", "decision_type")
    )
    children = np.concatenate([left, right])
    if (~children[children < 0] >= n_leaves).any():
        return _LEADS_NOWHERE
    if (feature < 0).any():
        return "a node splits on a feature that does not exist"
    sets = numbers["threshold"][(kinds & _IS_CATEGORICAL) > 0]
    if len(sets) and not ((sets >= 0) & (sets < n_categorical)).all():
        return _NO_CATEGORIES
    if n_categorical:
        ends, words = numbers["cat_boundaries"], numbers["cat_threshold"]
        if len(ends) != n_categorical + 1 or (np.diff(ends) < 0).any() or ends[-1] != len(words):
            return _NO_CATEGORIES
    return problem_of_tree(left, right, feature, n_features)


def _problem_of_linear_leaves(
    fields: Mapping[str, str], numbers: Mapping[str, np.ndarray], n_features: int
) -> str | None:
    """Return what is wrong with the leaves of a tree of LightGBM that are linear, or None."""
    if fields["is_linear"] == "0":
        return None
    counts, features = (
        np.array(fields[name].split(), dtype=np.int64) for name in ("num_features", "leaf_features")
    )
    n_leaves = int(fields["num_leaves"])
    has_lengths = len(counts) == len(numbers["leaf_const"]) == n_leaves
    if not has_lengths or (counts < 0).any() or counts.sum() != len(features):
        return "arrays of different lengths"
    if len(numbers["leaf_coeff"]) != len(features):
        return "arrays of different lengths"
    if ((features < 0) | (features >= n_features)).any():
        return "a leaf depends on a feature that does not exist"
    return None


def _texts_of_length(text: str, lengths: Sequence[int]) -> Iterator[str]:
    """Yield the parts of a text with these lengths in bytes."""
    content, start = text.encode(), 0
    for length in lengths:
        yield content[start : start + length].decode()
        start += length


def problem_of_tree(
    left: np.ndarray, right: np.ndarray, feature: np.ndarray, n_features: int
) -> str | None:
    """Return what is wrong with the nodes of a tree, or None.

    Parameters
    ----------
    left, right : Int[n]
        Children of the nodes with these numbers; negative for leaves.
    feature : Int[n]
        Feature that each node splits on; negative for leaves.
    n_features : int
        Number of features.

    Examples
    --------
    >>> problem_of_tree(np.array([1, -1, -1]), np.array([9, -1, -1]), np.zeros(3), 1)
    'a node leads nowhere'
    """
    if not len(left) == len(right) == len(feature):
        return "arrays of different lengths"
    numbers = np.arange(len(left))
    for child in (left, right):
        # A child with a larger number excludes cycles.
        if ((child >= 0) & ((child <= numbers) | (child >= len(left)))).any():
            return _LEADS_NOWHERE
    is_split = (left >= 0) | (right >= 0)
    if ((feature >= n_features) | (is_split & (feature < 0))).any():
        return "a node splits on a feature that does not exist"
    return None


_UBJSON_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4"}
_UBJSON_NUMBERS |= {b"D": ">f8"}
_UBJSON_CONSTANTS = {b"T": True, b"F": False, b"Z": None}
_MAX_NESTING = 50


def decode_ubjson(content: bytes) -> Any:
    r"""Return the value of a document in UBJSON, of those types that XGBoost writes.

    Parameters
    ----------
    content : bytes
        The document.

    Returns
    -------
    object
        As :func:`json.loads`, with typed arrays as arrays of NumPy.

    Raises
    ------
    ValueError
        If it is none, or truncated.

    Examples
    --------
    >>> decode_ubjson(b"{i\x01a[$U#i\x02\x07\x08}")
    {'a': array([7, 8], dtype=uint8)}
    """
    value, end = _decode_value(content, 0, 0)
    if end != len(content):
        raise ValueError(f"the document ends at byte {end:,} of {len(content):,}")
    return value


def _decode_value(content: bytes, at: int, depth: int) -> tuple[Any, int]:
    """Return the value whose type is at this position, and the position behind it."""
    kind, at = content[at : at + 1], at + 1
    if depth > _MAX_NESTING:
        raise ValueError("the document is nested too deeply")
    if kind in _UBJSON_NUMBERS:
        numbers, at = _decode_numbers(content, at, kind, 1)
        return numbers[0].item(), at
    if kind in _UBJSON_CONSTANTS:
        return _UBJSON_CONSTANTS[kind], at
    if kind == b"S":
        return _decode_text(content, at)
    if kind == b"[":
        return _decode_array(content, at, depth)
    if kind != b"{":
        raise ValueError(f"the document has no value at byte {at - 1:,}")
    members: dict[str, Any] = {}
    while content[at : at + 1] != b"}":
        name, at = _decode_text(content, at)
        members[name], at = _decode_value(content, at, depth + 1)
    return members, at + 1


def _decode_array(content: bytes, at: int, depth: int) -> tuple[Any, int]:
    kind = content[at + 1 : at + 2] if content[at : at + 1] == b"$" else None
    at += 0 if kind is None else 2
    if content[at : at + 1] != b"#":
        values: list[Any] = []
        while content[at : at + 1] != b"]":
            value, at = _decode_value(content, at, depth + 1)
            values.append(value)
        return values, at + 1
    count, at = _decode_count(content, at + 1)
    if kind is not None:
        return _decode_numbers(content, at, kind, count)
    values = []
    for _ in range(count):
        value, at = _decode_value(content, at, depth + 1)
        values.append(value)
    return values, at


def _decode_numbers(content: bytes, at: int, kind: bytes, count: int) -> tuple[np.ndarray, int]:
    if kind not in _UBJSON_NUMBERS:
        raise ValueError(f"the document has no numbers at byte {at:,}")
    dtype = np.dtype(_UBJSON_NUMBERS[kind])
    numbers = np.frombuffer(content, dtype, count, at)
    return numbers.astype(dtype.newbyteorder("=")), at + count * dtype.itemsize


def _decode_count(content: bytes, at: int) -> tuple[int, int]:
    numbers, end = _decode_numbers(content, at + 1, content[at : at + 1], 1)
    count = int(numbers[0])
    if not 0 <= count <= len(content):
        raise ValueError(f"the document has a length of {count:,} at byte {at:,}")
    return count, end


def _decode_text(content: bytes, at: int) -> tuple[str, int]:
    length, at = _decode_count(content, at)
    text = content[at : at + length]
    if len(text) != length:
        raise ValueError("the document is truncated")
    return text.decode(), at + length
