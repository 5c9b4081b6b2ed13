"""Codecs of values that are neither JSON nor plain objects.

Each type is taken apart into values, and rebuilt by one known function. The compiled trees of a
forest are stored together as a few columns, which are checked before any tree is used. Original to
kdgraph.
"""

from __future__ import annotations

import re
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special
from numpy.lib import format as npy
from numpy.random import MT19937, PCG64, PCG64DXSM, SFC64, Philox

from kdgraph.persistence.allowed import BUILTIN_TYPES
from kdgraph.persistence.archive import LoadError


@dataclass(frozen=True)
class ValueCodec:
    """Codec of one type of value, with a tag in the document.

    Parts may have any origin: ``from_parts`` raises ValueError, TypeError or LookupError for
    invalid ones.
    """

    tag: str
    to_parts: Callable[[Any], Iterable[Any]]
    from_parts: Callable[..., Any]


def _scalar_to_parts(value: np.generic) -> tuple[str, Any]:
    plain = value.dtype.kind in "biuf" and value.dtype.itemsize <= 8
    return value.dtype.str, value.item() if plain else np.asarray(value)


def _scalar_from_parts(dtype: str, value: Any) -> Any:
    return value[()] if isinstance(value, np.ndarray) else np.dtype(dtype).type(value)


def _structured_to_parts(array: np.ndarray) -> tuple[Any, ...]:
    flat = np.ascontiguousarray(array).reshape(-1)
    return (
        npy.dtype_to_descr(array.dtype),
        list(array.shape),
        flat.view(np.uint8) if flat.size else np.empty(0, np.uint8),
    )


def _structured_from_parts(descr: Any, shape: Any, memory: np.ndarray) -> np.ndarray:
    dtype = npy.descr_to_dtype(descr)
    if dtype.hasobject:
        raise TypeError(f"an array of {dtype} holds Python objects")
    return memory.view(dtype).reshape(shape)


def _bytes_to_parts(content: bytes | bytearray) -> tuple[np.ndarray]:
    return (np.frombuffer(bytes(content), np.uint8),)


def _sparse_to_parts(matrix: Any) -> tuple[Any, ...]:
    coo = matrix.tocoo()
    return type(matrix).__name__, coo.shape, coo.data, coo.row, coo.col


def _sparse_from_parts(
    name: str, shape: Any, data: np.ndarray, row: np.ndarray, column: np.ndarray
) -> Any:
    if not re.fullmatch("(csr|csc|coo)_(array|matrix)", name):
        raise ValueError(f"no sparse matrix of scipy is named {name}")
    return getattr(scipy.sparse, name)(scipy.sparse.coo_array((data, (row, column)), shape=shape))


_BIT_GENERATORS = {cls.__name__: cls for cls in (MT19937, PCG64, PCG64DXSM, SFC64, Philox)}
_LAST_POSITIONS = {"MT19937": 624, "Philox": 4}


def _bit_generator(state: dict[str, Any]) -> Any:
    # The compiled generators take their next number from a position that they do not check.
    position = state["state"].get("pos", state.get("buffer_pos", 0))
    if not 0 <= position <= _LAST_POSITIONS.get(state["bit_generator"], position):
        raise ValueError(f"a {state['bit_generator']} has no position {position}")
    result: Any = _BIT_GENERATORS[state["bit_generator"]](0)
    result.state = {key: value for key, value in state.items() if key not in ("has_gauss", "gauss")}
    return result


def _random_state(state: dict[str, Any]) -> np.random.RandomState:
    result = np.random.RandomState(_bit_generator(state))
    result.set_state(state)
    return result


def _generator(state: dict[str, Any]) -> np.random.Generator:
    return np.random.Generator(_bit_generator(state))


def _ufunc_to_parts(function: np.ufunc) -> tuple[str, str]:
    for module in (np, scipy.special):
        if getattr(module, function.__name__, None) is function:
            return module.__name__, function.__name__
    raise TypeError(f"the function {function.__name__} is neither numpy's nor scipy.special's")


def _ufunc_from_parts(module: str, name: str) -> np.ufunc:
    target = getattr({"numpy": np, "scipy.special": scipy.special}[module], name)
    if not isinstance(target, np.ufunc):
        raise TypeError(f"{module}.{name} is no ufunc")
    return target


def _loss_to_parts(loss: Any) -> tuple[Any, ...]:
    constructor, arguments, *_ = loss.__reduce__()
    parameters = arguments if constructor is type(loss) else ()
    return type(loss).__module__, type(loss).__name__, *parameters


def _loss_from_parts(module: str, name: str, *arguments: float) -> Any:
    target = getattr(import_module(module), name) if module in _COMPILED_LOSSES else None
    if not (
        isinstance(target, type)
        and target.__module__ == module
        and all(isinstance(argument, float | int) for argument in arguments)
    ):
        raise TypeError(f"scikit-learn has no loss {module}.{name}{arguments}")
    return target(*arguments)


def _defaultdict_to_parts(values: defaultdict[Any, Any]) -> tuple[Any, ...]:
    # LightGBM keeps its scores in one of ordered dicts.
    factory = values.default_factory
    return "ordered" if factory is OrderedDict else factory, list(values.items())


def _defaultdict_from_parts(factory: Any, items: list[Any]) -> defaultdict[Any, Any]:
    factory = OrderedDict if factory == "ordered" else factory
    if factory not in (None, OrderedDict, *BUILTIN_TYPES.values()):
        raise TypeError("a dict with defaults makes them of plain types only")
    return defaultdict(factory, items)


def _is_array_check(value: Any) -> bool:
    """Return whether a value is ``check_array`` of scikit-learn with dtypes bound to it."""
    return (
        type(value) is partial
        and f"{value.func.__module__}:{value.func.__qualname__}" == _CHECK_ARRAY
        and not value.args
        and value.keywords.keys() == {"dtype", "ensure_all_finite"}
        and isinstance(value.keywords["dtype"], list)
    )


def _array_check_to_parts(function: partial) -> tuple[list[str], Any]:
    keywords = function.keywords
    return [np.dtype(dtype).str for dtype in keywords["dtype"]], keywords["ensure_all_finite"]


def _array_check_from_parts(dtypes: list[str], finite: Any) -> partial:
    from sklearn.utils import check_array

    if not isinstance(finite, bool):
        raise TypeError("check_array takes True or False")
    return partial(
        check_array, dtype=[np.dtype(dtype).type for dtype in dtypes], ensure_all_finite=finite
    )


def _sorted_by_repr(values: Iterable[Any]) -> list[Any]:
    """Return the values in an order that is the same in every process."""
    return sorted(values, key=lambda value: (type(value).__name__, repr(value)))


# Compiled losses are attributes of fitted boosting and SGD models. They have no public names, and
# their parameters are visible to their ``__reduce__`` only. Without them, no model of
# HistGradientBoosting, GammaRegressor, SGDClassifier and their relatives could be saved. They are
# imported by name when a file needs one; a version of scikit-learn without the module gives an
# error of one line.
_COMPILED_LOSSES = ("sklearn._loss._loss", "sklearn.linear_model._sgd_fast")
# Histogram gradient boosting with categories has this function, with arguments, as the step of its
# numeric columns.
_CHECK_ARRAY = "sklearn.utils.validation:check_array"
STRUCTURED_CODEC = ValueCodec("structured", _structured_to_parts, _structured_from_parts)
"""Codec of arrays with named fields."""
_LOSS_CODEC = ValueCodec("loss", _loss_to_parts, _loss_from_parts)
_ARRAY_CHECK_CODEC = ValueCodec("array_check", _array_check_to_parts, _array_check_from_parts)

CODECS_BY_TYPE = {
    tuple: ValueCodec("tuple", iter, lambda *parts: parts),
    set: ValueCodec("set", _sorted_by_repr, lambda *parts: set(parts)),
    frozenset: ValueCodec("frozenset", _sorted_by_repr, lambda *parts: frozenset(parts)),
    complex: ValueCodec("complex", lambda z: (z.real, z.imag), complex),
    slice: ValueCodec("slice", lambda s: (s.start, s.stop, s.step), slice),
    range: ValueCodec("range", lambda r: (r.start, r.stop, r.step), range),
    bytes: ValueCodec("bytes", _bytes_to_parts, lambda array: array.tobytes()),
    bytearray: ValueCodec("bytearray", _bytes_to_parts, lambda array: bytearray(array.tobytes())),
    OrderedDict: ValueCodec("ordered", lambda d: (list(d.items()),), OrderedDict),
    defaultdict: ValueCodec("defaultdict", _defaultdict_to_parts, _defaultdict_from_parts),
    re.Pattern: ValueCodec("pattern", lambda p: (p.pattern, p.flags), re.compile),
    np.ma.MaskedArray: ValueCodec(
        "masked", lambda m: (m.data, np.ma.getmaskarray(m)), np.ma.MaskedArray
    ),
    np.random.RandomState: ValueCodec(
        "random_state", lambda r: (r.get_state(legacy=False),), _random_state
    ),
    np.random.Generator: ValueCodec("generator", lambda g: (g.bit_generator.state,), _generator),
    np.ufunc: ValueCodec("ufunc", _ufunc_to_parts, _ufunc_from_parts),
}
"""Codecs by the exact type of a value, without its base classes."""
# Codecs by a base class of the type of a value.
_CODECS_BY_BASE = {
    np.generic: ValueCodec("scalar", _scalar_to_parts, _scalar_from_parts),
    np.dtype: ValueCodec("dtype", lambda dtype: (npy.dtype_to_descr(dtype),), npy.descr_to_dtype),
    scipy.sparse.sparray: ValueCodec("sparse", _sparse_to_parts, _sparse_from_parts),
    scipy.sparse.spmatrix: ValueCodec("sparse", _sparse_to_parts, _sparse_from_parts),
}


def value_codec_of(value: Any) -> ValueCodec | None:
    """Return the codec of a value, or None for ordinary objects."""
    if codec := CODECS_BY_TYPE.get(type(value)):
        return codec
    if type(value).__module__ in _COMPILED_LOSSES:
        return _LOSS_CODEC
    if _is_array_check(value):
        return _ARRAY_CHECK_CODEC
    return next((codec for base, codec in _CODECS_BY_BASE.items() if isinstance(value, base)), None)


_OTHER_CODECS = STRUCTURED_CODEC, _LOSS_CODEC, _ARRAY_CHECK_CODEC
CODECS_BY_TAG = {
    codec.tag: codec
    for codec in (*CODECS_BY_TYPE.values(), *_CODECS_BY_BASE.values(), *_OTHER_CODECS)
}


# ``children_left`` and ``children_right`` of a leaf.
_NO_CHILD = -1


@cache
def _fitted_stump() -> Any:
    """Return the ``tree_`` of a fitted tree, which has the compiled type and the type of its nodes.

    Neither type has a public name, but ``tree_`` is a public attribute. The fit takes 0.5 ms.
    """
    # The import takes 0.2 s, which a command that loads no model does not pay.
    from sklearn.tree import DecisionTreeClassifier

    # Without a random state, the fit would draw a number from the global generator of NumPy.
    return DecisionTreeClassifier(random_state=0).fit([[0.0], [1.0]], [0, 1]).tree_


def is_compiled_tree(value: Any) -> bool:
    """Return True for the ``tree_`` of a tree of scikit-learn."""
    # The name is compared first: only a file that contains trees pays for the stump.
    return type(value).__name__ == "Tree" and type(value) is type(_fitted_stump())


def tree_columns(trees: Sequence[Any]) -> dict[str, np.ndarray]:
    """Return compiled trees, ``tree_`` of scikit-learn's estimators, as arrays of one axis.

    Trees of any forests may differ in features, outputs and classes. A forest has thousands of
    trees, and one array for each field of all trees takes less space and time than an array for
    each field of each tree.

    ``n_nodes``, ``n_features``, ``n_outputs`` and ``max_depth`` have an entry for each tree,
    ``n_classes`` one for each output of each tree, a field of the nodes, such as
    ``node.threshold``, one for each node, and ``value`` one for each node, output and class; within
    a tree, outputs are padded to the largest number of classes.
    """
    states = [tree.__getstate__() for tree in trees]
    counts = [state["node_count"] for state in states]
    # np.concatenate would look for a common type of each pair, which takes 3 ms.
    nodes: Any = np.empty(sum(counts), states[0]["nodes"].dtype)
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


def trees_from_columns(columns: Mapping[str, np.ndarray]) -> list[Any]:
    """Return the trees of :func:`tree_columns`, equal to the bit, from columns of any origin.

    LoadError is raised if this version of scikit-learn has other fields of nodes, ValueError if a
    node leads out of its tree or into a cycle, or splits on a feature that does not exist.
    """
    # The fields are compared, so that a version of scikit-learn with other fields is rejected.
    node_dtype = _fitted_stump().__getstate__()["nodes"].dtype
    fields = {
        name.removeprefix("node."): column
        for name, column in columns.items()
        if name.startswith("node.")
    }
    if set(fields) != set(node_dtype.names or ()):
        raise LoadError(
            "cannot be read by this version (scikit-learn keeps its trees in another form now)"
        )
    nodes: Any = np.empty(len(fields["left_child"]), node_dtype)
    for name, column in fields.items():
        nodes[name] = column
    counts, n_features = columns["n_nodes"], columns["n_features"]
    if counts.min(initial=1) < 1 or n_features.min(initial=1) < 1 or counts.sum() != len(nodes):
        raise ValueError("trees do not share out their nodes")
    _check_tree_nodes(nodes, counts, np.repeat(n_features, counts))
    return _split_trees(nodes, columns)


def _check_tree_nodes(nodes: np.ndarray, counts: np.ndarray, n_features: np.ndarray) -> None:
    """Raise ValueError if a node has an invalid feature, or a child that does not come after it.

    The compiled prediction follows children and features without bounds checks. scikit-learn
    numbers children after their parent, so larger numbers also exclude cycles. ``counts``, Int[b],
    are the nodes of each tree, ``n_features``, Int[m], the features of the tree of each node.
    """
    # Children are numbered within their tree.
    node_ids = np.arange(len(nodes)) - np.repeat(np.cumsum(counts) - counts, counts)
    left, right, end = nodes["left_child"], nodes["right_child"], np.repeat(counts, counts)
    is_leaf = (left == _NO_CHILD) & (right == _NO_CHILD)
    is_split = (
        (left > node_ids)
        & (right > node_ids)
        & (left < end)
        & (right < end)
        & (nodes["feature"] >= 0)
        & (nodes["feature"] < n_features)
    )
    if not (is_leaf | is_split).all():
        raise ValueError(f"node {node_ids[~(is_leaf | is_split)][0]} of a tree leads nowhere")


def _split_trees(nodes: np.ndarray, columns: Mapping[str, np.ndarray]) -> list[Any]:
    """Return a tree for each entry of ``n_nodes``, from consecutive parts of the other columns."""
    tree_class = type(_fitted_stump())
    names = ("n_nodes", "n_features", "n_outputs", "max_depth")
    trees, node_start, value_start, output_start = [], 0, 0, 0
    for count, n_features, n_outputs, depth in zip(
        *(columns[name].tolist() for name in names), strict=True
    ):
        n_classes = columns["n_classes"][output_start : output_start + n_outputs]
        if n_outputs < 1 or len(n_classes) != n_outputs or n_classes.min() < 1:
            raise ValueError("a tree has no outputs")
        shape = (count, n_outputs, int(n_classes.max()))
        size = shape[0] * shape[1] * shape[2]
        values = columns["value"][value_start : value_start + size]
        tree = tree_class(n_features, np.asarray(n_classes, dtype=np.intp), n_outputs)
        # The public protocol of pickle. ``__setstate__`` copies the arrays and rejects nodes of
        # another type and arrays of another shape.
        state = {
            "max_depth": depth,
            "node_count": count,
            "nodes": nodes[node_start : node_start + count],
            "values": values.reshape(shape),
        }
        tree.__setstate__(state)
        trees.append(tree)
        node_start += count
        value_start += size
        output_start += n_outputs
    return trees
