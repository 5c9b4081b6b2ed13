"""Models of LightGBM as text, parsed, checked and written again.

The library follows the children and features of a text without checks of their bounds, resolves a
repeated entry and the end of a line in its own way, and recurses through a tree as deep as it is.
So it never reads the text of a file, but one that is written here from what was checked. Numbers
keep their digits, and predictions their bits. The format is that of LightGBM 2 to 4 (``tree``
versions v2 to v4), as its ``gbdt_model_text.cpp`` and ``tree.cpp`` read it. Original to kdgraph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from kdgraph.persistence.tree_nodes import LEADS_NOWHERE, NO_CATEGORIES, problem_of_tree

_HEADER_ENTRIES = (
    *("version", "num_class", "num_tree_per_iteration", "label_index", "max_feature_idx"),
    *("objective", "average_output", "feature_names", "monotone_constraints", "feature_infos"),
    "tree_sizes",
)
_OPTIONAL_ENTRIES = ("objective", "average_output", "monotone_constraints", "tree_sizes")
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_LOOSE_NUMBER = re.compile(rf"{_NUMBER.pattern}|[+-]?(nan|inf)", re.ASCII)
_VERSION = re.compile(r"v\d{1,3}", re.ASCII)
_OBJECTIVE = re.compile(rf"[a-z_0-9]+( [a-z_0-9]+(:{_NUMBER.pattern})?)*", re.ASCII)
_CONTROL_CHARACTER = re.compile(r"[\x00-\x1f\x7f]")
_PARAMETER = re.compile(r"\[(\w+): ([^\n]*)\]")
# Parameters that name files, machines and devices of whoever fitted the model.
_FOREIGN_PARAMETER = re.compile(r"file|machine|data$|valid|_model$|port|device|gpu|time_out|result")
# Fields of a tree with an entry for each node or leaf, whether it must be there, and its numbers.
_NODE_FIELDS = {
    "split_feature": _INTEGER,
    "split_gain": _LOOSE_NUMBER,
    "threshold": _LOOSE_NUMBER,
    "decision_type": _INTEGER,
    "left_child": _INTEGER,
    "right_child": _INTEGER,
    "internal_value": _LOOSE_NUMBER,
    "internal_weight": _LOOSE_NUMBER,
    "internal_count": _INTEGER,
}
_LEAF_FIELDS = {"leaf_value": _NUMBER, "leaf_weight": _LOOSE_NUMBER, "leaf_count": _INTEGER}
_NEEDED_NODE_FIELDS = ("split_feature", "threshold", "left_child", "right_child", "decision_type")
_CATEGORY_FIELDS = {"cat_boundaries": _INTEGER, "cat_threshold": _INTEGER}
_LINEAR_FIELDS = {
    "leaf_const": _NUMBER,
    "num_features": _INTEGER,
    "leaf_features": _INTEGER,
    "leaf_coeff": _NUMBER,
}
_ARRAYS = _NODE_FIELDS | _LEAF_FIELDS | _CATEGORY_FIELDS | _LINEAR_FIELDS | {"shrinkage": _NUMBER}
_INTEGERS = ("num_leaves", "num_cat", "is_linear")
_IS_CATEGORICAL = 1
"""Bit of the decision type of a node that splits on categories."""
_MAX_DECISION_TYPE = 15
_MAX_INTEGER, _MAX_WORD = 2**31 - 1, 2**32 - 1
_LENGTHS = "arrays of different lengths"


def rewrite_lightgbm(text: str) -> str:
    """Return the text of a model as the library writes it, from what was parsed of this one.

    The text may have any origin. Feature importances, which follow from the trees, and parameters
    that name files or machines are left out. Windows' ends of lines, which the library refuses, are
    read.

    ValueError is raised if it is no such text, a part is missing, unknown or there twice, a number
    is not finite or has another form, or a node of a tree leads nowhere.

    >>> rewrite_lightgbm("no model")
    Traceback (most recent call last):
    ValueError: it has no trees, or no end
    """
    lines = text.replace("\r\n", "\n").split("\n")
    if any(map(_CONTROL_CHARACTER.search, lines)):
        raise ValueError("a line has characters that none can have")
    try:
        start = next(k for k, line in enumerate(lines) if line.startswith("Tree="))
        end = lines.index("end of trees", start)
    except (StopIteration, ValueError) as error:
        raise ValueError("it has no trees, or no end") from error
    header = _header(lines[:start])
    n_features = int(header["max_feature_idx"]) + 1
    trees = list(_trees(lines[start:end], n_features))
    if "tree_sizes" in header and len(trees) != len(header.pop("tree_sizes").split()):
        raise ValueError("it has more or fewer trees than its header lists")
    if not trees or len(trees) % int(header["num_tree_per_iteration"]):
        raise ValueError("an iteration lacks trees")
    sizes = " ".join(str(len(tree.encode())) for tree in trees)
    entries = [name if value is None else f"{name}={value}" for name, value in header.items()]
    parameters, categories = _parameters(lines[end:]), _pandas_categories(lines[end:])
    return "\n".join(
        [
            *("tree", *entries, f"tree_sizes={sizes}", "", "".join(trees) + "end of trees"),
            *("", "parameters:", *parameters, "", "end of parameters"),
            *("", f"pandas_categorical:{json.dumps(categories)}", ""),
        ]
    )


def _header(lines: Iterable[str]) -> dict[str, Any]:
    """Return the entries of the header, checked against each other; None for a bare word."""
    entries = _header_entries(lines)
    missing = set(_HEADER_ENTRIES) - entries.keys() - set(_OPTIONAL_ENTRIES)
    # The earliest versions have no number of trees in an iteration: it is that of classes.
    if missing == {"num_tree_per_iteration"}:
        entries["num_tree_per_iteration"] = entries["num_class"]
    elif missing:
        raise ValueError(f"the entry {min(missing)} is missing")
    integers = ("num_class", "num_tree_per_iteration", "label_index", "max_feature_idx")
    for name in integers:
        entries[name] = _integer(entries[name], name)
    n_classes, n_features = entries["num_class"], entries["max_feature_idx"] + 1
    if n_classes != entries["num_tree_per_iteration"] or n_classes < 1:
        raise ValueError("it has another number of classes than of trees in an iteration")
    for name in {"feature_names", "feature_infos", "monotone_constraints"} & entries.keys():
        words = entries[name].split(" ")
        if len(words) != n_features or not all(words):
            raise ValueError(f"{name} has another number of entries than there are features")
    if not _VERSION.fullmatch(entries["version"]) or "=" in entries["feature_infos"]:
        raise ValueError("an entry of the header has another form")
    _numbers(entries.get("monotone_constraints", ""), _INTEGER, "monotone_constraints")
    if "objective" in entries:
        _check_objective(entries["objective"], n_classes)
    return entries


def _header_entries(lines: Iterable[str]) -> dict[str, Any]:
    first, *rest = [line for line in lines if line]
    if first != "tree":
        raise ValueError("it is no model of trees")
    entries: dict[str, Any] = {}
    for line in rest:
        name, separator, value = line.partition("=")
        if name not in _HEADER_ENTRIES or name in entries:
            raise ValueError(f"the entry {name!r:.40} is unknown or there twice")
        if (name == "average_output") == bool(separator):
            raise ValueError(f"the entry {name} has no value, or one that it cannot have")
        entries[name] = value if separator else None
    return entries


def _check_objective(objective: str, n_classes: int) -> None:
    """Raise ValueError for an objective that converts another number of outputs than there is."""
    if not _OBJECTIVE.fullmatch(objective):
        raise ValueError("the objective has another form")
    name, *options = objective.split(" ")
    if name in ("multiclass", "multiclassova"):
        n_outputs = [option for option in options if option.startswith("num_class:")]
        if n_outputs != [f"num_class:{n_classes}"]:
            raise ValueError("the objective has other classes")
    elif n_classes > 1 and name != "custom":
        raise ValueError("the objective has one output, and there are several classes")


def _trees(lines: Sequence[str], n_features: int) -> Iterator[str]:
    starts = [k for k, line in enumerate(lines) if line.startswith("Tree=")]
    for number, (start, end) in enumerate(pairwise([*starts, len(lines)])):
        if lines[start] != f"Tree={number}":
            raise ValueError("its trees are not numbered from 0")
        fields: dict[str, str] = {}
        for line in filter(None, lines[start + 1 : end]):
            name, separator, value = line.partition("=")
            if not separator or name in fields:
                raise ValueError(f"the field {name!r:.40} of a tree is unknown or there twice")
            fields[name] = value
        yield _tree_text(number, fields, n_features)


def _tree_text(number: int, fields: Mapping[str, str], n_features: int) -> str:
    """Return the text of a tree after its fields are checked."""
    unknown = fields.keys() - _ARRAYS.keys() - set(_INTEGERS)
    # Fields of early versions that no later one reads.
    unknown -= {"leaf_parent", "has_categorical"}
    if unknown:
        raise ValueError(f"the field {min(unknown)!r:.40} of a tree is unknown")
    scalars = {name: _integer(fields.get(name, "0"), name) for name in _INTEGERS}
    arrays = {
        name: _numbers(fields[name], pattern, name)
        for name, pattern in _ARRAYS.items()
        if name in fields
    }
    if len(arrays.get("shrinkage", (1,))) != 1:
        raise ValueError("shrinkage is no number")
    if problem := _problem_of_tree(scalars, arrays, n_features):
        raise ValueError(problem)
    lines = [
        f"Tree={number}",
        *(f"{name}={value}" for name, value in scalars.items()),
        *(f"{name}={' '.join(fields[name].split())}" for name in arrays),
    ]
    return "\n".join([*lines, "", "", ""])


def _problem_of_tree(
    scalars: Mapping[str, int], arrays: Mapping[str, np.ndarray], n_features: int
) -> str | None:
    n_leaves, n_categorical = scalars["num_leaves"], scalars["num_cat"]
    if n_leaves < 1 or scalars["is_linear"] not in (0, 1) or "leaf_value" not in arrays:
        return "a tree has no leaves"
    sizes = dict.fromkeys(_LEAF_FIELDS, n_leaves) | dict.fromkeys(_NODE_FIELDS, n_leaves - 1)
    # A tree of a single leaf may have no entries for what its leaf does not need.
    if any(
        len(values) not in ({size, 0} if n_leaves == 1 and name != "leaf_value" else {size})
        for name, values in arrays.items()
        if (size := sizes.get(name)) is not None
    ):
        return _LENGTHS
    if scalars["is_linear"] and (
        problem := _problem_of_linear_leaves(arrays, n_leaves, n_features)
    ):
        return problem
    if n_leaves == 1:
        return None
    if not all(name in arrays for name in _NEEDED_NODE_FIELDS):
        return "a field of a tree is missing"
    return _problem_of_nodes(arrays, n_leaves, n_features) or _problem_of_categories(
        arrays, n_categorical
    )


def _problem_of_nodes(
    arrays: Mapping[str, np.ndarray], n_leaves: int, n_features: int
) -> str | None:
    left, right, feature = (arrays[n] for n in ("left_child", "right_child", "split_feature"))
    kinds = arrays["decision_type"]
    if ((kinds < 0) | (kinds > _MAX_DECISION_TYPE)).any():
        return "a node decides in an unknown way"
    children = np.concatenate([left, right])
    # Leaves are numbered by the complement of a negative child, and each has one parent.
    leaves = ~children[children < 0]
    if len(leaves) != n_leaves or not np.array_equal(np.sort(leaves), np.arange(n_leaves)):
        return LEADS_NOWHERE
    if (feature < 0).any():
        return "a node splits on a feature that does not exist"
    return problem_of_tree(left, right, feature, n_features)


def _problem_of_categories(arrays: Mapping[str, np.ndarray], n_categorical: int) -> str | None:
    sets = arrays["threshold"][(arrays["decision_type"] & _IS_CATEGORICAL) > 0]
    if n_categorical < 0 or not (sets == np.floor(sets)).all():
        return NO_CATEGORIES
    if not ((sets >= 0) & (sets < n_categorical)).all():
        return NO_CATEGORIES
    if not n_categorical:
        return None
    ends, words = (arrays.get(name, np.empty(0)) for name in ("cat_boundaries", "cat_threshold"))
    if len(ends) != n_categorical + 1 or ends[0] != 0 or (np.diff(ends) < 0).any():
        return NO_CATEGORIES
    is_word = ends[-1] == len(words) and ((words >= 0) & (words <= _MAX_WORD)).all()
    return None if is_word else NO_CATEGORIES


def _problem_of_linear_leaves(
    arrays: Mapping[str, np.ndarray], n_leaves: int, n_features: int
) -> str | None:
    if not all(name in arrays for name in _LINEAR_FIELDS):
        return "a field of a tree is missing"
    constants, counts, features, coefficients = (arrays[name] for name in _LINEAR_FIELDS)
    has_lengths = len(counts) == len(constants) == n_leaves
    if not has_lengths or (counts < 0).any() or counts.sum() != len(features):
        return _LENGTHS
    if len(coefficients) != len(features):
        return _LENGTHS
    if ((features < 0) | (features >= n_features)).any():
        return "a leaf depends on a feature that does not exist"
    return None


def _numbers(text: str, pattern: re.Pattern[str], name: str) -> np.ndarray:
    """Return the numbers of a field: Int64[n] or Float64[n] by their pattern."""
    words = text.split()
    if not all(map(pattern.fullmatch, words)):
        raise ValueError(f"{name} has an entry that is no number")
    values = np.array(words, dtype=np.int64 if pattern is _INTEGER else np.float64)
    if pattern is _NUMBER and not np.isfinite(values).all():
        raise ValueError(f"{name} has an entry that is not finite")
    limit = _MAX_WORD if name == "cat_threshold" else _MAX_INTEGER
    if pattern is _INTEGER and (np.abs(values) > limit).any():
        raise ValueError(f"{name} has an entry that is too large")
    return values


def _integer(text: str, name: str) -> int:
    values = _numbers(text, _INTEGER, name)
    if len(values) != 1:
        raise ValueError(f"{name} is no number")
    return int(values[0])


def _parameters(lines: list[str]) -> list[str]:
    """Return the parameters of the fit but those of files and machines."""
    if "parameters:" not in lines:
        return []
    try:
        start = lines.index("parameters:")
        entries = [line for line in lines[start + 1 : lines.index("end of parameters")] if line]
    except ValueError as error:
        raise ValueError("its parameters have no end") from error
    kept = []
    for line in entries:
        if (match := _PARAMETER.fullmatch(line)) is None:
            raise ValueError("a parameter has no value")
        if not _FOREIGN_PARAMETER.search(match[1]):
            kept.append(line)
    return kept


def _pandas_categories(lines: list[str]) -> Any:
    """Return the categories of the columns of a data frame, of which the last line is."""
    prefix = "pandas_categorical:"
    last = [line for line in lines if line.startswith(prefix)]
    if len(last) > 1:
        raise ValueError("its categories are there twice")
    columns = json.loads(last[0].removeprefix(prefix)) if last else None
    is_known = columns is None or (
        isinstance(columns, list)
        and all(isinstance(column, list) for column in columns)
        and all(not isinstance(value, list | dict) for column in columns for value in column)
    )
    if not is_known:
        raise ValueError("its categories have another form")
    return columns
