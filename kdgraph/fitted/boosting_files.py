"""Boosted trees in the own files of XGBoost, LightGBM and CatBoost.

The compiled code of XGBoost and LightGBM follows the children and features of a file without checks
of their bounds, so that an edited file can end the process or read memory that is not its own. The
trees are therefore checked here: their arrays have one length, children have larger numbers than
their parents, and features exist. The files of CatBoost are not documented, and are read by its own
code alone. Original to kdgraph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kdgraph.fitted.source import (
    ExternalModel,
    ModelSource,
    first_line,
    given_names,
    problem_of_tree,
)

_DAMAGED = "its trees are damaged"


def read_xgboost(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of XGBoost.

    Parameters
    ----------
    source : ModelSource
        Path, and task and kind of the outputs where the file leaves them open.
    content : bytes
        Content of the file.

    Raises
    ------
    DataError
        If XGBoost is not installed, the file is damaged, or its objective predicts neither classes
        nor numbers.
    """
    try:
        import xgboost
    except ImportError as error:
        raise source.not_installed("xgboost", "boosting") from error
    booster = xgboost.Booster()
    try:
        # The library ends the process for content that is no document.
        is_json = content[:2] in (b'{"', b"{\n", b"{ ")
        document = json.loads(content) if is_json else decode_ubjson(content)
        problem = _problem_of_xgboost_trees(document["learner"])
        if problem is None:
            booster.load_model(bytearray(content))
        learner = document["learner"]
    except Exception as error:  # any: the parser reports damage as errors of many types
        raise source.error(f"is no model of XGBoost, or damaged ({first_line(error)})") from error
    if problem:
        raise source.error(f"{_DAMAGED} ({problem})")
    objective = learner["objective"]["name"]
    names = given_names(booster.feature_names)
    # A column of logits before the softmax, where the objective predicts labels.
    margin = objective in ("multi:softmax", "binary:logitraw")

    def predict(X: Any) -> np.ndarray:
        matrix = xgboost.DMatrix(X, enable_categorical=True)
        return booster.predict(matrix, output_margin=margin)

    if objective in ("binary:hinge",) or objective.startswith(("rank:", "survival:")):
        raise source.error(f"has the objective {objective}, which predicts no probabilities")
    is_class = source.task == "classification" or objective.startswith(("binary:", "multi:"))
    estimator = (xgboost.XGBClassifier if is_class else xgboost.XGBRegressor)()
    estimator.load_model(bytearray(content))
    n_classes = max(int(learner["learner_model_param"]["num_class"]), 2)
    return ExternalModel(
        "XGBoost",
        predict,
        "classification" if is_class else "regression",
        ("logits" if margin else "probabilities") if is_class else "values",
        classes=tuple(range(n_classes)) if is_class else None,
        feature_names=names,
        n_features=booster.num_features(),
        estimator=estimator,
    )


def read_lightgbm(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of LightGBM.

    Parameters
    ----------
    source : ModelSource
        Path, and task and kind of the outputs where the file leaves them open.
    content : bytes
        Content of the file.

    Raises
    ------
    DataError
        If LightGBM is not installed, the file is damaged, or its objective predicts neither classes
        nor numbers.
    """
    try:
        import lightgbm
    except ImportError as error:
        raise source.not_installed("lightgbm", "boosting") from error
    try:
        text = content.decode()
        problem = _problem_of_lightgbm_trees(text)
        booster = None if problem else lightgbm.Booster(model_str=text)
    except Exception as error:  # any: as above
        raise source.error(f"is no model of LightGBM, or damaged ({first_line(error)})") from error
    if booster is None:
        raise source.error(f"{_DAMAGED} ({problem})")
    found = re.search(r"^objective=(\S+)", text, re.MULTILINE)
    objective = found[1] if found else "custom"
    if objective in ("lambdarank", "rank_xendcg"):
        raise source.error(f"has the objective {objective}, which predicts no probabilities")
    is_known_class = objective in ("binary", "multiclass", "multiclassova", "cross_entropy")
    if objective == "custom" and source.task is None:
        raise source.error(
            f"has an objective of its own; give {source.key}task=classification"
            f" {source.key}outputs=logits, or {source.key}task=regression"
        )
    is_class = source.task == "classification" or (is_known_class and source.task is None)

    def predict(X: Any) -> np.ndarray:
        proba = np.asarray(booster.predict(X))
        # One-against-all probabilities of LightGBM do not sum to 1.
        return proba / proba.sum(axis=1, keepdims=True) if objective == "multiclassova" else proba

    default = "logits" if objective == "custom" else "probabilities"
    return ExternalModel(
        "LightGBM",
        predict,
        "classification" if is_class else "regression",
        (source.outputs or default) if is_class else "values",
        classes=tuple(range(max(booster.num_model_per_iteration(), 2))) if is_class else None,
        feature_names=given_names(booster.feature_name()),
        n_features=booster.num_feature(),
        estimator=booster,
    )


def read_catboost(source: ModelSource, content: bytes) -> ExternalModel:
    """Return the model of a file of CatBoost.

    Parameters
    ----------
    source : ModelSource
        Path, and task and kind of the outputs where the file leaves them open.
    content : bytes
        Content of the file.

    Raises
    ------
    DataError
        If CatBoost is not installed, the file is damaged, or its objective predicts neither classes
        nor numbers.
    """
    try:
        import catboost
    except ImportError as error:
        raise source.not_installed("catboost", "boosting") from error
    try:
        model = catboost.CatBoost().load_model(blob=content, format="cbm")
        loss = str(model.get_all_params().get("loss_function", ""))
    except Exception as error:  # any: as above
        raise source.error(f"is no model of CatBoost, or damaged ({first_line(error)})") from error
    is_class = loss.startswith(("Logloss", "CrossEntropy", "MultiClass"))
    estimator = (catboost.CatBoostClassifier if is_class else catboost.CatBoostRegressor)()
    estimator.load_model(blob=content, format="cbm")
    categorical = set(model.get_cat_feature_indices())

    def predict(X: Any) -> np.ndarray:
        rows = _categories_as_text(X, categorical)
        if not is_class:
            return np.asarray(model.predict(rows))
        proba = np.asarray(model.predict(rows, prediction_type="Probability"))
        return proba / proba.sum(axis=1, keepdims=True)  # one-against-all do not sum to 1

    return ExternalModel(
        "CatBoost",
        predict,
        "classification" if is_class else "regression",
        "probabilities" if is_class else "values",
        classes=tuple(np.asarray(model.classes_).tolist()) if is_class else None,
        feature_names=given_names(model.feature_names_),
        n_features=len(model.feature_names_),
        # Its call for leaves refuses a missing category, which ``predict`` replaces by a text.
        estimator=None if categorical else estimator,
    )


def _categories_as_text(X: Any, positions: set[int]) -> Any:
    """Return a data frame whose columns at ``positions`` are text, "nan" where missing."""
    if not positions or not hasattr(X, "iloc"):
        return X
    X = X.copy()
    for position in positions:
        column = X.columns[position]
        X[column] = X[column].astype(object).where(X[column].notna(), "nan").astype(str)
    return X


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


def _problem_of_xgboost_trees(learner: Mapping[str, Any]) -> str | None:
    n_features = int(learner["learner_model_param"]["num_feature"])
    n_groups = max(int(learner["learner_model_param"]["num_class"]), 1)
    model = _xgboost_model(learner["gradient_booster"])
    groups = np.asarray(model.get("tree_info", []), dtype=np.int64)
    if len(groups) != len(model.get("trees", [])) or ((groups < 0) | (groups >= n_groups)).any():
        return "a tree belongs to no class"
    ends = np.asarray(model.get("iteration_indptr", [0, len(groups)]), dtype=np.int64)
    if (np.diff(ends, prepend=0) < 0).any() or ends[-1:].sum() != len(groups):
        return "an iteration has trees that are not there"
    for tree in model.get("trees", []):
        left, right, feature = (
            np.asarray(tree[name], dtype=np.int64)
            for name in ("left_children", "right_children", "split_indices")
        )
        n_nodes = int(tree["tree_param"]["num_nodes"])
        # A tree of several outputs has a weight for each of them.
        n_weights = n_nodes * max(int(tree["tree_param"].get("size_leaf_vector", 1)), 1)
        lengths = {len(tree[name]) for name in _XGBOOST_NODE_ARRAYS}
        if not n_nodes or lengths != {n_nodes} or len(tree["base_weights"]) != n_weights:
            return "arrays of different lengths"
        if ((left < 0) != (right < 0)).any():
            return "a node has one child"
        if problem := problem_of_tree(left, right, np.where(left < 0, 0, feature), n_features):
            return problem
    return None


def _problem_of_lightgbm_trees(text: str) -> str | None:
    """Return what is wrong with the trees of a text file of LightGBM, or None.

    The header has the length of each tree; the library ends the process where they do not fit.
    """
    header, separator, rest = text.partition("\nTree=0\n")
    sizes = re.search(r"^tree_sizes=([\d ]*)$", header, re.MULTILINE)
    last_feature = re.search(r"^max_feature_idx=(\d+)$", header, re.MULTILINE)
    body, end, _ = (separator[1:] + rest).partition("end of trees")
    if not (separator and sizes and last_feature and end):
        return "it has no trees, or no end"
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
    if fields["is_linear"] != "0":
        return "linear leaves, which are not read"
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
        return "a node leads nowhere"
    if (feature < 0).any():
        return "a node splits on a feature that does not exist"
    sets = numbers["threshold"][(kinds & _IS_CATEGORICAL) > 0]
    if len(sets) and not ((sets >= 0) & (sets < n_categorical)).all():
        return "a node splits on categories that are not there"
    if n_categorical:
        ends, words = numbers["cat_boundaries"], numbers["cat_threshold"]
        if len(ends) != n_categorical + 1 or (np.diff(ends) < 0).any() or ends[-1] != len(words):
            return "a node splits on categories that are not there"
    return problem_of_tree(left, right, feature, n_features)


def _texts_of_length(text: str, lengths: Sequence[int]) -> Iterator[str]:
    """Yield the parts of a text with these lengths in bytes."""
    content, start = text.encode(), 0
    for length in lengths:
        yield content[start : start + length].decode()
        start += length
