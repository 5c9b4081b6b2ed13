"""Models in files of skops, read without skops.

A file of skops is a zip archive of ``schema.json``, a tree of nodes, and arrays. Its own reader
imports what a node names, and calls some of it, after a list of names was compared; here a node
leads to one of a few constructors, and every object passes the checks that a file of kdgraph passes
(:mod:`~kdgraph.persistence.checks`, :mod:`~kdgraph.persistence.predictor_checks`) and those of
:mod:`~kdgraph.persistence.unsigned`. What was parsed is what is built: there is no second reader.
The format is that of skops 0.13 to 0.16 (protocols 0 to 2). Original to kdgraph.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse
import scipy.special

from kdgraph.persistence import kinds
from kdgraph.persistence.allowed import (
    BUILTIN_TYPES,
    import_class,
    import_function,
    is_public_class,
)
from kdgraph.persistence.archive import LoadError, UntrustedFileError, damage_message
from kdgraph.persistence.objects import ObjectBuilder
from kdgraph.persistence.sklearn_names import FUNCTIONS, PLACES
from kdgraph.persistence.unsigned import check_place, check_unsigned, has_places
from kdgraph.persistence.zip_members import ZipMembers, array_from_npy

_MAX_PROTOCOL = 2
_SCHEMA = "schema.json"
_TREE = "sklearn.tree._tree:Tree"
_SEARCH_TREES = ("sklearn.neighbors._kd_tree:KDTree", "sklearn.neighbors._ball_tree:BallTree")
_CHECK_ARRAY = "sklearn.utils.validation:check_array"
_CONTAINERS = {
    "DictNode": ("builtins:dict", "collections:OrderedDict", "sklearn.utils._bunch:Bunch"),
    "DefaultDictNode": ("collections:defaultdict",),
    "ListNode": ("builtins:list",),
    "SetNode": ("builtins:set",),
    "TupleNode": ("builtins:tuple", "sklearn.impute._iterative:_ImputerTriplet"),
    "BytesNode": ("builtins:bytes",),
    "BytearrayNode": ("builtins:bytearray",),
    "SliceNode": ("builtins:slice",),
    "MaskedArrayNode": ("numpy.ma:MaskedArray",),
    "DTypeNode": ("numpy:dtype",),
    "RandomStateNode": ("numpy.random.mtrand:RandomState",),
    "RandomGeneratorNode": ("numpy.random._generator:Generator",),
    "PartialNode": ("functools:partial",),
}
_DICTS = {"builtins:dict": dict, "collections:OrderedDict": OrderedDict}
_PLAIN_TYPES = frozenset(f"builtins:{name}" for name in BUILTIN_TYPES)
_NUMPY_FUNCTIONS = frozenset(
    name
    for names in PLACES.values()
    for name in names
    if name.startswith(("numpy:", "scipy.special:"))
)
_SPARSE_CLASS = re.compile(r"scipy\.sparse\._\w+:(bsr|coo|csc|csr|dia)_(array|matrix)")
_LOSS_CLASS = re.compile(r"sklearn\.(_loss\._loss|linear_model\._sgd_fast):[A-Z]\w+")


def read_skops(content: bytes) -> Any:
    """Return the estimator in a file of skops of any origin.

    Nothing is called or imported but classes of scikit-learn's public estimators and what fitted
    ones consist of, and a few functions of NumPy and SciPy; no method of an object in the file runs
    before all of them are checked, except ``__setstate__`` of scikit-learn.

    UntrustedFileError is raised, with ``names``, if it needs other classes or functions, or has
    them in places where they could be called with arguments of its choice; LoadError if it is no
    file of skops, is damaged, or was written by a later version.

    >>> from skops.io import dumps
    >>> from sklearn.linear_model import LinearRegression
    >>> content = dumps(LinearRegression().fit([[0.0], [1.0]], [1.0, 3.0]))
    >>> read_skops(content).predict([[2.0]])
    array([5.])
    """
    try:
        members = ZipMembers(content)
        if _SCHEMA not in members:
            own = "; a model that kdgraph saved ends in .kdg" if "document.json" in members else ""
            raise LoadError(f"is no file of skops, which has a {_SCHEMA}{own}")
        document = json.loads(members[_SCHEMA])
        protocol = document["protocol"]
        if type(protocol) is not int or not 0 <= protocol <= _MAX_PROTOCOL:
            raise LoadError(f"has the protocol {protocol!r:.20} of skops, which is not known here")
        unlisted = sorted({name.replace(":", ".") for name in _unlisted_names(document)})
        if unlisted:
            raise UntrustedFileError("holds what is not known to be harmless", unlisted)
        return _Reader(members).read(document)
    except LoadError:
        raise
    # A document of any origin can lead to every exception of the constructors and checks.
    except Exception as error:
        raise LoadError(damage_message(error)) from error


def _name(node: Mapping[str, Any]) -> str:
    return f"{node['__module__']}:{node['__class__']}"


def _unlisted_names(node: Any) -> Iterator[str]:
    """Yield the names in a node and its parts that no file of somebody else may contain."""
    if isinstance(node, list):
        for item in node:
            yield from _unlisted_names(item)
    elif isinstance(node, dict):
        if "__loader__" in node:
            name = _name(node)
            if not _is_listed(node["__loader__"], name):
                yield name
            elif name in _SEARCH_TREES:
                return  # neither the tree nor its metric is read
        for item in node.values():
            yield from _unlisted_names(item)


def _is_listed(loader: str, name: str) -> bool:
    if loader in _CONTAINERS:
        return name in _CONTAINERS[loader]
    if loader == "ObjectNode":
        return name in _SEARCH_TREES or is_public_class(name)
    is_number = name.startswith("numpy:") and is_public_class(name)
    if loader == "NdArrayNode":
        return name == "numpy:ndarray" or is_number
    if loader == "TypeNode":
        return name in _PLAIN_TYPES or is_number
    if loader == "FunctionNode":
        return name == _CHECK_ARRAY or name in FUNCTIONS or _numpy_name(name) in _NUMPY_FUNCTIONS
    pattern = {"SparseMatrixNode": _SPARSE_CLASS, "LossNode": _LOSS_CLASS}.get(loader)
    if pattern is not None:
        return pattern.fullmatch(name) is not None
    return loader == "JsonNode" or (loader == "TreeNode" and name == _TREE)


def _numpy_name(name: str) -> str:
    """Return the public name of a function of NumPy or SciPy, whose module may be a private one."""
    module, _, function = name.partition(":")
    return f"{'scipy.special' if module.startswith('scipy.special.') else module}:{function}"


class _Reader:
    """Reader of the nodes of one file."""

    def __init__(self, members: ZipMembers) -> None:
        self._members = members
        self._objects = ObjectBuilder()
        # Values by the number of their node, with the name of those that have places.
        self._values: dict[int, tuple[str | None, Any]] = {}
        self._readers: dict[str, Callable[[Any], Any]] = {
            "ObjectNode": self._object,
            "DictNode": self._dict,
            "DefaultDictNode": self._defaultdict,
            "ListNode": lambda node: list(map(self._value, node["content"])),
            "SetNode": lambda node: set(map(self._value, node["content"])),
            "TupleNode": self._tuple,
            "BytesNode": lambda node: self._members[node["file"]],
            "BytearrayNode": lambda node: bytearray(self._members[node["file"]]),
            "SliceNode": lambda node: _slice(**node["content"]),
            "JsonNode": _scalar,
            "NdArrayNode": self._array,
            "MaskedArrayNode": self._masked_array,
            "DTypeNode": lambda node: self._value(node["content"]).dtype,
            "RandomStateNode": lambda node: _rebuilt("random_state", self._value(node["content"])),
            "RandomGeneratorNode": lambda node: _rebuilt(
                "generator", self._value(node["content"]["bit_generator"])
            ),
            "SparseMatrixNode": self._sparse,
            "TypeNode": _type,
            "FunctionNode": _function,
            "PartialNode": self._partial,
            "LossNode": self._loss,
            "TreeNode": self._tree,
        }

    def read(self, document: Mapping[str, Any]) -> Any:
        value = self._value(document)
        self._objects.check(check_unsigned)
        return value

    def _value(
        self, node: Mapping[str, Any], owner: type | None = None, attribute: str | None = None
    ) -> Any:
        """Return the value of a node, which is an attribute of an object of the class ``owner``.

        Nodes of one number are one value.
        """
        number = node.get("__id__")
        if number in self._values:
            part_name, value = self._values[number]
        else:
            part_name = _part_name(node)
            # A tree of neighbours is built again from its rows.
            is_rebuilt = part_name in _SEARCH_TREES
            value = None if is_rebuilt else self._readers[node["__loader__"]](node)
            if number is not None:
                self._values[number] = part_name, value
        if part_name is not None:
            check_place(part_name, owner, attribute)
        return value

    def _object(self, node: Mapping[str, Any]) -> Any:
        cls = import_class(_name(node))
        content = node.get("content")
        result = self._objects.new(cls)
        self._objects.set_state(result, None if content is None else self._state(cls, content))
        return result

    def _state(self, cls: type, node: Mapping[str, Any]) -> Any:
        """Return the state of an object: attributes by name, a pair of them, or None."""
        if node["__loader__"] == "DictNode":
            return {name: self._value(item, cls, name) for name, item in node["content"].items()}
        if node["__loader__"] == "TupleNode":
            fields, slots = node["content"]
            return self._state(cls, fields), self._state(cls, slots)
        return _scalar(node)

    def _dict(self, node: Mapping[str, Any]) -> Any:
        name, keys = _name(node), self._value(node["key_types"])
        make: Any = _DICTS.get(name) or import_class(name)
        result: dict[Any, Any] = make()
        for key_type, (text, item) in zip(keys, node["content"].items(), strict=True):
            result[_key(key_type, text)] = self._value(item)
        return result

    def _defaultdict(self, node: Mapping[str, Any]) -> Any:
        content = node["content"]
        items = list(self._value(content["main"]).items())
        return _rebuilt("defaultdict", self._value(content["default_factory"]), items)

    def _tuple(self, node: Mapping[str, Any]) -> Any:
        name, items = _name(node), tuple(map(self._value, node["content"]))
        if name == "builtins:tuple":
            return items
        cls: Any = import_class(name)
        if len(items) != len(cls._fields):
            raise ValueError(f"a {cls.__qualname__} has {len(items)} items")
        return self._objects.new_tuple(cls, items)

    def _array(self, node: Mapping[str, Any]) -> Any:
        if node["type"] == "json":
            return self._object_array(node)
        array = array_from_npy(self._members[node["file"]])
        if (name := _name(node)) == "numpy:ndarray":
            return array
        scalar: Any = import_class(name)
        if array.ndim or issubclass(scalar, np.void | np.object_):
            raise ValueError(f"a number has the type {array.dtype}{array.shape}")
        return scalar(array[()])

    def _object_array(self, node: Mapping[str, Any]) -> np.ndarray:
        """Return an array of objects, whose axes but the last are lists of lists."""
        shape, items = self._value(node["shape"]), node["content"]
        for _ in shape[1:]:
            items = [item for part in items for item in part["content"]]
        result = np.empty(len(items), dtype=object)
        for k, item in enumerate(items):
            result[k] = self._value(item)
        return result.reshape(shape)

    def _masked_array(self, node: Mapping[str, Any]) -> np.ma.MaskedArray:
        content = node["content"]
        return np.ma.MaskedArray(self._value(content["data"]), self._value(content["mask"]))

    def _sparse(self, node: Mapping[str, Any]) -> Any:
        """Return a sparse matrix, all indices of which are within its shape."""
        members = ZipMembers(self._members[node["file"]])
        parts = {name.removesuffix(".npy"): array_from_npy(members[name]) for name in members}
        match = _SPARSE_CLASS.fullmatch(_name(node))
        if match is None or parts["format"].item().decode() != match[1]:
            raise ValueError("a sparse matrix has another format than its name")
        make: Any = getattr(scipy.sparse, "_".join(match.groups()))
        shape = tuple(parts["shape"].tolist())
        if match[1] == "coo":
            return make((parts["data"], (parts["row"], parts["col"])), shape=shape)
        if match[1] == "dia":
            return make((parts["data"], parts["offsets"]), shape=shape)
        matrix = make((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
        matrix.check_format(full_check=True)
        return matrix

    def _partial(self, node: Mapping[str, Any]) -> Any:
        """Return ``check_array`` with dtypes, the only function that may have arguments."""
        content = node["content"]
        function, keywords = content["func"], self._value(content["kwds"])
        if (
            function["__loader__"] != "FunctionNode"
            or _name(function) != _CHECK_ARRAY
            or self._value(content["args"])
            or self._value(content["namespace"])
            or keywords.keys() != {"dtype", "ensure_all_finite"}
        ):
            raise ValueError("a function has arguments")
        dtypes = [np.dtype(dtype).str for dtype in keywords["dtype"]]
        return _rebuilt("array_check", dtypes, keywords["ensure_all_finite"])

    def _loss(self, node: Mapping[str, Any]) -> Any:
        if self._value(node["content"]):
            raise ValueError("a loss has a state")
        return _rebuilt("loss", *_name(node).split(":"), *self._value(node["__reduce__"]["args"]))

    def _tree(self, node: Mapping[str, Any]) -> Any:
        n_features, n_classes, n_outputs = self._value(node["__reduce__"]["args"])
        state = self._value(node["content"])
        nodes = state["nodes"]
        columns = {
            "n_nodes": np.array([len(nodes)]),
            "n_features": np.array([n_features]),
            "n_outputs": np.array([n_outputs]),
            "max_depth": np.array([state["max_depth"]]),
            "n_classes": n_classes,
            "value": state["values"].ravel(),
            **{f"node.{name}": nodes[name] for name in nodes.dtype.names},
        }
        if state["node_count"] != len(nodes):
            raise ValueError("a tree has another number of nodes")
        return kinds.trees_from_columns(columns)[0]


def _part_name(node: Mapping[str, Any]) -> str | None:
    """Return the name of a value that may only be an attribute of some objects, or None."""
    loader, name = node["__loader__"], _name(node)
    if loader == "FunctionNode":
        return _numpy_name(name)
    if loader == "PartialNode":
        return _CHECK_ARRAY
    return name if has_places(name) else None


def _rebuilt(tag: str, *parts: Any) -> Any:
    """Return a value as the codec of files of kdgraph makes it of its parts."""
    return kinds.CODECS_BY_TAG[tag].from_parts(*parts)


def _scalar(node: Mapping[str, Any]) -> Any:
    value = json.loads(node["content"])
    if isinstance(value, list | dict):
        raise TypeError("a value is more than a number or a text")
    return value


def _slice(start: Any, stop: Any, step: Any) -> slice:
    if not all(part is None or isinstance(part, int | str) for part in (start, stop, step)):
        raise TypeError("a slice has other ends than numbers and names")
    return slice(start, stop, step)


def _type(node: Mapping[str, Any]) -> type:
    module, _, name = _name(node).partition(":")
    return BUILTIN_TYPES[name] if module == "builtins" else getattr(np, name)


def _key(kind: type, text: str) -> Any:
    if kind is bool or issubclass(kind, np.bool_):
        return kind(text == "true")
    if kind in (str, int, float) or issubclass(kind, np.number | np.str_):
        return kind(text)
    raise TypeError(f"a key has the type {kind.__name__}")


def _function(node: Mapping[str, Any]) -> Any:
    name = _numpy_name(_name(node))
    if name in FUNCTIONS:
        return import_function(name)
    module, _, function = name.partition(":")
    return getattr({"numpy": np, "scipy.special": scipy.special}[module], function)
