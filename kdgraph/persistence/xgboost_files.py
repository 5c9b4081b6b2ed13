"""Models of XGBoost in JSON or UBJSON, parsed, checked and written again.

The library takes sizes from parameters and the rest on trust: it looks trees up by numbers in the
file, multiplies rows with as many weights as the parameters promise, and divides by a number of
classes. So it never reads the content of a file, but a document in UBJSON that is written here from
what was checked, with arrays of the types that the library has. Numbers keep their bits. The format
is that of XGBoost 1.4 to 3.2, as its ``learner.cc``, ``gbtree_model.cc``, ``tree_model.cc`` and
``cat_container.cc`` read it. Original to kdgraph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kdgraph.persistence.tree_nodes import LEADS_NOWHERE, NO_CATEGORIES, problem_of_tree
from kdgraph.persistence.ubjson import decode_ubjson, encode_ubjson

_MAX_CATEGORIES = 2**24
"""Number of codes that single precision, in which XGBoost stores them, has without a gap."""
_MAX_CATEGORY_BYTES = 2**28
"""Bytes of the sets of categories of a model: the library has a bit for each up to the largest."""
_MAX_FEATURES = 2**31 - 1
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,10}", re.ASCII)
_FEATURE_TYPES = ("float", "int", "i", "q", "c", "indicator")
# Arrays of a tree with an entry for each node.
_NODE_ARRAYS: dict[str, Any] = {
    "default_left": np.uint8,
    "left_children": np.int32,
    "loss_changes": np.float32,
    "parents": np.int32,
    "right_children": np.int32,
    "split_conditions": np.float32,
    "split_indices": np.int32,
    "split_type": np.uint8,
    "sum_hessian": np.float32,
}
_SET_ARRAYS: dict[str, Any] = {
    "categories": np.int32,
    "categories_nodes": np.int32,
    "categories_segments": np.int64,
    "categories_sizes": np.int64,
}
# Types of the categories of a data frame by the number that XGBoost has for each.
_CATEGORY_TYPES: dict[int, Any] = dict(
    enumerate((np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64), 9)
)
_LENGTHS = "arrays of different lengths"


def rewrite_xgboost(content: bytes) -> tuple[bytes, dict[str, Any]]:
    """Return a model as a document in UBJSON, from what was parsed of this one, and that document.

    The content, in JSON or UBJSON, may have any origin. The document consists of dictionaries,
    lists and arrays. ValueError is raised if it is none, or a part of it does not fit another one;
    LookupError or TypeError if it lacks parts, or parts have other types.

    >>> rewrite_xgboost(b'{"learner": {}}')
    Traceback (most recent call last):
    KeyError: 'learner_model_param'
    """
    is_json = content[:2] in (b'{"', b"{\n", b"{ ")
    document = json.loads(content) if is_json else decode_ubjson(content)
    checked = {
        "learner": _learner(document["learner"]),
        "version": [int(number) for number in document.get("version", (1, 0, 0))],
    }
    return encode_ubjson(checked), checked


def _learner(part: Mapping[str, Any]) -> dict[str, Any]:
    parameters = _texts(part["learner_model_param"])
    n_features = _integer(parameters, "num_feature")
    n_classes, n_targets = _integer(parameters, "num_class"), _integer(parameters, "num_target", 1)
    # Models of several outcomes or quantiles have targets in place of classes.
    n_groups = max(n_classes, n_targets, 1)
    if not 0 <= n_features <= _MAX_FEATURES or n_classes < 0 or n_targets < 1:
        raise ValueError("it has no features, or no outputs")
    base_scores = _numbers_of_text(parameters["base_score"])
    if len(base_scores) not in (1, n_groups):
        raise ValueError("base_score has another number of entries than there are outputs")
    learner: dict[str, Any] = {
        "attributes": _attributes(part.get("attributes", {})),
        "feature_names": _names(part.get("feature_names", []), n_features),
        "feature_types": _names(part.get("feature_types", []), n_features),
        "gradient_booster": _booster(part["gradient_booster"], n_features, n_groups),
        "learner_model_param": parameters,
        "objective": _objective(part["objective"], n_classes, n_targets),
    }
    if not set(learner["feature_types"]) <= set(_FEATURE_TYPES):
        raise ValueError("a feature has an unknown type")
    return learner


def _objective(part: Mapping[str, Any], n_classes: int, n_targets: int) -> dict[str, Any]:
    """Return the objective, whose parameters have the numbers of outputs once more."""
    name = part["name"]
    parameters = {key: _texts(value) for key, value in part.items() if key != "name"}
    if name.startswith("multi:"):
        if (
            n_classes < 1
            or _integer(parameters["softmax_multiclass_param"], "num_class") != n_classes
        ):
            raise ValueError("the objective has other classes")
    elif n_classes > 1:
        raise ValueError("the objective has one output, and there are several classes")
    if name == "reg:quantileerror":
        levels = _numbers_of_text(parameters["quantile_loss_param"]["quantile_alpha"])
        if len(levels) != n_targets:
            raise ValueError("the objective has other quantiles")
    return {"name": str(name), **parameters}


def _booster(part: Mapping[str, Any], n_features: int, n_groups: int) -> dict[str, Any]:
    name = part["name"]
    if name == "gblinear":
        weights = _array(part["model"]["weights"], np.float32, "weights", finite=True)
        if len(weights) != (n_features + 1) * n_groups:
            raise ValueError("it has another number of weights than of features and outputs")
        rounds = int(part["model"].get("boosted_rounds", 0))
        return {"name": name, "model": {"boosted_rounds": rounds, "weights": weights}}
    if name == "dart":
        trees = _booster(part["gbtree"], n_features, n_groups)
        drops = _array(part["weight_drop"], np.float32, "weight_drop", finite=True)
        if trees["name"] != "gbtree" or len(drops) != len(trees["model"]["trees"]):
            raise ValueError("it has another number of weights than of trees")
        return {"name": name, "gbtree": trees, "weight_drop": list(map(float, drops))}
    if name != "gbtree":
        raise ValueError("its booster is unknown")
    return {"name": name, "model": _tree_model(part["model"], n_features, n_groups)}


def _tree_model(part: Mapping[str, Any], n_features: int, n_groups: int) -> dict[str, Any]:
    parameters = _texts(part["gbtree_model_param"])
    # The library looks a tree up by its number.
    trees = [
        {**_tree(tree, n_features, n_groups), "id": number}
        for number, tree in enumerate(part["trees"])
    ]
    if _integer(parameters, "num_trees") != len(trees):
        raise ValueError("it has another number of trees than its parameters")
    if not 1 <= _integer(parameters, "num_parallel_tree", 1) <= max(len(trees), 1):
        raise ValueError("it has fewer trees than an iteration")
    groups = _array(part["tree_info"], np.int32, "tree_info")
    if len(groups) != len(trees) or ((groups < 0) | (groups >= n_groups)).any():
        raise ValueError("a tree belongs to no class")
    widths = [int(tree["tree_param"]["size_leaf_vector"]) for tree in trees]
    # Predictions have a column for each output, of which a file can promise any number.
    if n_groups > 1 and n_groups not in (*widths, groups.max(initial=-1) + 1):
        raise ValueError("it has no trees of some outputs")
    model = {
        "cats": _category_names(part.get("cats", {}), n_features),
        "gbtree_model_param": parameters,
        "tree_info": groups.tolist(),
        "trees": trees,
    }
    if "iteration_indptr" in part:
        ends = _array(part["iteration_indptr"], np.int32, "iteration_indptr")
        if not len(ends) or ends[0] or (np.diff(ends) < 0).any() or ends[-1] != len(trees):
            raise ValueError("an iteration has trees that are not there")
        model["iteration_indptr"] = ends.tolist()
    return model


def _tree(part: Mapping[str, Any], n_features: int, n_groups: int) -> dict[str, Any]:
    parameters = _texts(part["tree_param"])
    n_nodes = _integer(parameters, "num_nodes")
    # A leaf of a tree of several outputs has a weight for each of them.
    width = max(_integer(parameters, "size_leaf_vector", 1), 1)
    arrays = {name: _array(part[name], dtype, name) for name, dtype in _NODE_ARRAYS.items()}
    sets = {name: _array(part.get(name, []), dtype, name) for name, dtype in _SET_ARRAYS.items()}
    weights = {"base_weights": _array(part["base_weights"], np.float32, "base_weights")}
    if (
        not n_nodes
        or {len(array) for array in arrays.values()} != {n_nodes}
        or len(weights["base_weights"]) != n_nodes * width
        or width not in (1, n_groups)
    ):
        raise ValueError(_LENGTHS)
    is_leaf = arrays["left_children"] < 0
    if width > 1:
        leaves = _array(part["leaf_weights"], np.float32, "leaf_weights", finite=True)
        weights["leaf_weights"] = leaves
        if len(leaves) != is_leaf.sum() * width:
            raise ValueError(_LENGTHS)
    elif not np.isfinite(arrays["split_conditions"][is_leaf]).all():
        raise ValueError("a leaf has a value that is not finite")
    if problem := _problem_of_nodes(arrays, n_features, width):
        raise ValueError(problem)
    split_nodes = np.flatnonzero(~is_leaf)
    if problem := _problem_of_sets(sets, split_nodes[arrays["split_type"][split_nodes] == 1]):
        raise ValueError(problem)
    parameters["size_leaf_vector"] = str(width)
    return {**arrays, **sets, **weights, "tree_param": parameters}


def _problem_of_nodes(arrays: Mapping[str, np.ndarray], n_features: int, width: int) -> str | None:
    left, right, feature = (
        arrays[name].astype(np.int64)
        for name in ("left_children", "right_children", "split_indices")
    )
    is_leaf = left < 0
    if width > 1:
        # In these trees, the right child of a leaf is its number among the leaves.
        leaf_numbers = right[is_leaf]
        if not np.array_equal(np.sort(leaf_numbers), np.arange(len(leaf_numbers))):
            return LEADS_NOWHERE
        right = np.where(is_leaf, -1, right)
    if (is_leaf != (right < 0)).any():
        return "a node has one child"
    if (left < -1).any() or (right < -1).any():  # only -1 is no child to the library
        return LEADS_NOWHERE
    if any((arrays[name] > 1).any() for name in ("default_left", "split_type")):
        return "a node decides in an unknown way"
    problem = problem_of_tree(left, right, np.where(is_leaf, 0, feature), max(n_features, 1))
    if problem is not None:
        return problem
    split_nodes, parents = np.flatnonzero(~is_leaf), arrays["parents"]
    if any((parents[child[split_nodes]] != split_nodes).any() for child in (left, right)):
        return "a node has another parent than the one that leads to it"
    return None


def _problem_of_sets(sets: Mapping[str, np.ndarray], nodes: np.ndarray) -> str | None:
    categories, set_nodes, starts, sizes = sets.values()
    has_sets = len(set_nodes) == len(starts) == len(sizes)
    if not has_sets or not np.array_equal(set_nodes, nodes):
        return NO_CATEGORIES
    is_inside = (starts >= 0) & (sizes > 0) & (starts + sizes <= len(categories))
    are_codes = (categories >= 0) & (categories < _MAX_CATEGORIES)
    if not (is_inside.all() and are_codes.all()):
        return NO_CATEGORIES
    if categories.max(initial=0) // 8 * len(nodes) > _MAX_CATEGORY_BYTES:
        return "its sets of categories are too large"
    return None


def _category_names(part: Mapping[str, Any], n_features: int) -> dict[str, Any]:
    """Return the categories of the columns of a data frame, and their order."""
    columns = part.get("enc", [])
    encoded = [_category_column(column) for column in columns]
    ends = _array(part.get("feature_segments", []), np.int32, "feature_segments")
    order = _array(part.get("sorted_idx", []), np.int32, "sorted_idx")
    sizes = np.array([size for _, size in encoded], dtype=np.int64)
    expected = [] if not len(ends) and not sizes.sum() else np.concatenate([[0], np.cumsum(sizes)])
    if len(columns) not in (0, n_features) or not np.array_equal(ends, expected):
        raise ValueError("a column has other categories than its feature")
    # The names of each column are looked up in their order, which numbers them from 0.
    n_names, starts = np.repeat(sizes, sizes), np.repeat(np.cumsum(sizes) - sizes, sizes)
    if len(order) and not (
        len(order) == len(starts)
        and ((order >= 0) & (order < n_names)).all()
        and np.array_equal(np.sort(order + starts), np.arange(len(order)))
    ):
        raise ValueError("categories have no order")
    return {"enc": [column for column, _ in encoded], "feature_segments": ends, "sorted_idx": order}


def _category_column(part: Mapping[str, Any]) -> tuple[dict[str, Any], int]:
    if "offsets" not in part:
        kind = int(part["type"])
        values = _array(part["values"], _CATEGORY_TYPES[kind], "values")
        return {"type": kind, "values": values}, len(values)
    offsets = _array(part["offsets"], np.int32, "offsets")
    names = _array(part["values"], np.int8, "values")
    if not len(offsets) and not len(names):
        return {"offsets": offsets, "values": names}, 0
    if not len(offsets) or offsets[0] or (np.diff(offsets) < 0).any() or offsets[-1] != len(names):
        raise ValueError("a category has no name")
    return {"offsets": offsets, "values": names}, len(offsets) - 1


def _attributes(part: Mapping[str, Any]) -> dict[str, str]:
    attributes = _texts(part)
    best = attributes.get("best_iteration")
    if best is not None and not _INTEGER.fullmatch(best):
        raise ValueError("best_iteration is no whole number")
    return attributes


def _names(part: Sequence[Any], n_features: int) -> list[str]:
    names = list(part)
    if len(names) not in (0, n_features) or not all(isinstance(name, str) for name in names):
        raise ValueError("it has another number of names than of features")
    return names


def _texts(part: Mapping[str, Any]) -> dict[str, str]:
    if not isinstance(part, dict) or not all(isinstance(text, str) for text in part.values()):
        raise TypeError("a parameter is no text")
    return dict(part)


def _integer(parameters: Mapping[str, str], name: str, default: int | None = None) -> int:
    text = parameters[name] if default is None else parameters.get(name, str(default))
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"{name} is no whole number")
    return int(text)


def _numbers_of_text(text: str) -> list[float]:
    """Return the numbers of a text, one or a list of them; all are finite."""
    words = text.removeprefix("[").removesuffix("]").split(",")
    if not all(_NUMBER.fullmatch(word.strip()) for word in words):
        raise ValueError("a parameter is no number, and no list of numbers")
    numbers = [float(word) for word in words]
    if not np.isfinite(np.array(numbers, dtype=np.float32)).all():
        raise ValueError("a parameter is not finite")
    return numbers


def _array(values: Any, dtype: Any, name: str, *, finite: bool = False) -> np.ndarray:
    """Return numbers as an array of the type that the library has."""
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "biuf"):
        raise ValueError(f"{name} is no list of numbers")
    with np.errstate(over="ignore", invalid="ignore"):  # beyond single precision is infinite
        converted = array.astype(dtype)
    if converted.dtype.kind in "iu" and not np.array_equal(converted, array):
        raise ValueError(f"{name} has an entry that is no whole number, or too large")
    if finite and not np.isfinite(converted).all():
        raise ValueError(f"{name} has an entry that is not finite")
    return converted
