"""Conversion of values to JSON and arrays, and back.

Values that JSON supports are unchanged; all others are lists that begin with a tag. A list is
``["list", …]``, an array ``["array", pool, start, shape, order]``, an object ``["object", class,
values of its fields …]``. All values but numbers and text are numbered in the order in which they
begin; a repeated value is ``["ref", its number]``. The decoder validates the document, because it
may have any origin. Original to kdgraph.
"""

from __future__ import annotations

import copyreg
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from kdgraph.extras import needs_library
from kdgraph.persistence import boosters
from kdgraph.persistence.allowed import (
    BUILTIN_TYPES,
    check_admitted,
    import_class,
    import_function,
    is_listed,
    is_plain_object,
    is_plain_type,
    qualified_name,
    unlisted_names,
)
from kdgraph.persistence.archive import DamagedFileError, LoadError, SaveError, damage_message
from kdgraph.persistence.checks import check_state, imported_names, object_checks
from kdgraph.persistence.kinds import (
    CODECS_BY_TAG,
    STRUCTURED_CODEC,
    ValueCodec,
    is_compiled_tree,
    tree_columns,
    trees_from_columns,
    value_codec_of,
)
from kdgraph.persistence.objects import ObjectBuilder
from kdgraph.persistence.predictor_checks import omitted_attribute

# Smaller arrays, in bytes, share a member of the zip: a member costs about 0.1 ms, and a forest has
# thousands of arrays.
_MIN_MEMBER_SIZE = 32_768


class _ArrayPools:
    """Collection of arrays; small ones of one type share a pool."""

    def __init__(self) -> None:
        self._parts: list[list[np.ndarray]] = []
        self._lengths: list[int] = []
        self._open: dict[np.dtype, int] = {}

    def add(self, array: np.ndarray) -> list[Any]:
        """Add an array of any shape without Python objects; it is stored in C or Fortran order."""
        order = "F" if array.flags.f_contiguous and not array.flags.c_contiguous else "C"
        flat = array.ravel(order)
        pool = self._pool_of(flat)
        start = self._lengths[pool]
        self._parts[pool].append(flat)
        self._lengths[pool] += len(flat)
        return [pool, start, list(array.shape), order]

    def _pool_of(self, flat: np.ndarray) -> int:
        if flat.nbytes < _MIN_MEMBER_SIZE:
            if flat.dtype in self._open:
                return self._open[flat.dtype]
            self._open[flat.dtype] = len(self._parts)
        self._parts.append([])
        self._lengths.append(0)
        return len(self._parts) - 1

    def arrays(self) -> list[np.ndarray]:
        return [parts[0] if len(parts) == 1 else np.concatenate(parts) for parts in self._parts]


def array_from_pool(
    arrays: Sequence[np.ndarray], pool: int, start: int, shape: Sequence[int], order: str
) -> np.ndarray:
    """Return the array that :meth:`_ArrayPools.add` described, a view of its part of the pool."""
    size = math.prod(shape)
    if pool < 0 or start < 0 or min(shape, default=0) < 0 or order not in ("C", "F"):
        raise ValueError(f"there is no array of shape {list(shape)} at {start} of pool {pool}")
    flat = arrays[pool][start : start + size]
    if len(flat) != size:
        raise ValueError(f"an array of shape {list(shape)} leaves pool {pool}")
    # The stubs of NumPy require a literal order.
    return flat.reshape(shape, order=order)  # pyright: ignore[reportCallIssue, reportArgumentType]


# Field that ``__getstate__`` of scikit-learn's estimators adds and ``__setstate__`` requires. The
# document contains the version once, and the decoder adds the field again.
_SKLEARN_VERSION_FIELD = "_sklearn_version"

# Levels of nesting that can be read within Python's limit of 1,000 calls; a stack of calibrated
# pipelines has 30.
_MAX_DEPTH = 150
# Objects of their subclasses have content that is not in their state.
_OPAQUE_BASES = (list, set, frozenset, str, int, float, bytes, BaseException)


class Encoder:
    """Encoder of one value; objects that are shared are left out, and the reader provides them.

    The fields of a class are None if the state of one of its objects is not a dict by name.
    ``called`` are names that objects import or call.
    """

    def __init__(self, shared: Mapping[str, Any]) -> None:
        self.shared = {id(value): name for name, value in shared.items()}
        self.classes: list[tuple[str, list[str] | None]] = []
        self.functions: list[str] = []
        self.called: list[str] = []
        self.pools = _ArrayPools()
        self._class_numbers: dict[tuple[type, tuple[str, ...] | None], int] = {}
        self._numbers: dict[int, int] = {}
        # An id is unique only while its object lives, so the objects are kept.
        self._references: list[Any] = []
        self._trees: list[Any] = []
        self._depth = 0
        self._encoders: dict[type, Callable[[Any], Any]] = {
            float: lambda value: value if math.isfinite(value) else ["float", repr(value)],
            list: lambda value: ["list", *map(self.encode, value)],
            dict: self._dict,
            np.ndarray: self._array,
        }

    def document(self, value: Any) -> dict[str, Any]:
        """Return the JSON-safe document of ``value``; its arrays are in :attr:`pools`."""
        encoded = self.encode(value)
        columns = tree_columns(self._trees) if self._trees else {}
        trees = {name: self._array(column) for name, column in columns.items()} or None
        return {
            "classes": self.classes,
            "functions": self.functions,
            "trees": trees,
            "value": encoded,
        }

    def encode(self, value: Any) -> Any:
        """Return ``value`` as JSON."""
        cls = type(value)
        if value is None or cls is str or cls is int or cls is bool:
            return value
        if cls is float:
            return self._encoders[float](value)
        if (name := self.shared.get(id(value))) is not None:
            return ["shared", name]
        # The first occurrence gets the next number; later ones refer to it, so that shared objects
        # stay shared and cycles end.
        number = self._numbers.setdefault(id(value), len(self._numbers))
        if number < len(self._references):
            return ["ref", number]
        self._references.append(value)
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise SaveError(
                f"the value is nested too deeply to be saved: {_MAX_DEPTH} levels are the most"
            )
        encoded = self._encoders.get(cls, self._encode_other)(value)
        self._depth -= 1
        return encoded

    def _dict(self, value: dict[Any, Any]) -> Any:
        if all(type(key) is str for key in value):
            return {key: self.encode(item) for key, item in value.items()}
        return ["dict", *([self.encode(key), self.encode(item)] for key, item in value.items())]

    def _array(self, value: np.ndarray) -> list[Any]:
        if value.dtype == object:
            return ["objects", list(value.shape), *map(self.encode, value.ravel().tolist())]
        if value.dtype.hasobject:
            raise SaveError(f"an array of {value.dtype} cannot be saved: it holds Python objects")
        if value.dtype.names:
            return [STRUCTURED_CODEC.tag, *map(self.encode, STRUCTURED_CODEC.to_parts(value))]
        return ["array", *self.pools.add(value)]

    def _encode_other(self, value: Any) -> Any:
        if isinstance(value, type):
            return ["class", self._reference(value)]
        if isinstance(value, FunctionType):
            self.functions.append(qualified_name(value))
            return ["function", len(self.functions) - 1]
        if is_compiled_tree(value):
            self._trees.append(value)
            return ["tree", len(self._trees) - 1]
        if isinstance(value, np.memmap):
            return self._array(np.asarray(value))
        if codec := value_codec_of(value) or _library_codec(value):
            return [codec.tag, *map(self.encode, self._parts(codec, value))]
        return self._object(value)

    def _parts(self, codec: ValueCodec, value: Any) -> list[Any]:
        try:
            return list(codec.to_parts(value))
        except (TypeError, ValueError, NotImplementedError) as error:
            raise SaveError(
                f"a value of type {type(value).__name__} cannot be saved ({error})"
            ) from error

    def _object(self, value: Any) -> list[Any]:
        cls = type(value)
        state, items = _object_state(value)
        if isinstance(state, dict):
            omitted = {_SKLEARN_VERSION_FIELD, omitted_attribute(cls)}
            state = {name: item for name, item in state.items() if name not in omitted}
        self._check(value, state)
        if type(state) is dict and not items and all(type(name) is str for name in state):
            return ["object", self._class(cls, tuple(state)), *map(self.encode, state.values())]
        return ["object", self._class(cls, None), *map(self.encode, [state, *items])]

    def _check(self, value: Any, state: Any) -> None:
        """Check state and parameters as the decoder does, so that every written file can be read.

        The trees of a fitted object are checked by the decoder only.
        """
        try:
            check_state(type(value), state)
            for check in object_checks(type(value)):
                check(value)
        except ValueError as error:
            raise SaveError(f"{_value_label(value)} cannot be saved ({error})") from error
        self.called += imported_names(value)

    def _class(self, cls: type, fields: tuple[str, ...] | None) -> int:
        if (cls, fields) not in self._class_numbers:
            self._class_numbers[cls, fields] = len(self.classes)
            self.classes.append((qualified_name(cls), None if fields is None else list(fields)))
        return self._class_numbers[cls, fields]

    def _reference(self, cls: type) -> str | int:
        """Return the name of a builtin type, or the number of another class."""
        if is_listed(cls) and not is_plain_type(cls):
            raise SaveError(
                f"the class {cls.__qualname__} of {cls.__module__} cannot be saved as a value: only"
                " objects of it can"
            )
        return cls.__name__ if BUILTIN_TYPES.get(cls.__name__) is cls else self._class(cls, None)


def _object_state(value: Any) -> tuple[Any, list[Any]]:
    """Return the state of an object, and a list with its items if it is a dict or a tuple."""
    cls = type(value)
    try:
        if is_plain_object(cls) and not isinstance(value, _OPAQUE_BASES):
            # A class with state that is not visible from Python raises TypeError here.
            constructor, arguments, state, *_ = value.__reduce_ex__(4)
            if isinstance(value, tuple):
                return None, [tuple(value)]
            if constructor is copyreg.__newobj__ and arguments == (cls,):  # pyright: ignore[reportAttributeAccessIssue]
                return state, [dict(value)] if isinstance(value, dict) else []
    except TypeError as error:
        raise SaveError(f"{_value_label(value)} cannot be saved ({error})") from error
    raise SaveError(f"{_value_label(value)} cannot be saved: it is more than its fields")


def _value_label(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    if name:
        return f"{type(value).__name__} {value.__module__}.{name}"
    return f"a {type(value).__module__}.{type(value).__qualname__}"


def _library_codec(value: Any) -> ValueCodec | None:
    """Return the codec of a value of torch or of a library of boosted trees, or None.

    A library is imported already if there is such a value.
    """
    owner = value if isinstance(value, BuiltinFunctionType) else type(value)
    package = (owner.__module__ or "").partition(".")[0]
    if package == "torch" and "torch" in sys.modules:
        from kdgraph.persistence import tensors

        return tensors.TORCH_CODECS_BY_TYPE.get(type(value))
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    return boosters.CODECS.get(name)


_JSON_TYPES = frozenset({str, int, float, bool, type(None)})
_NON_FINITE_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class Decoder:
    """Decoder of a document of :class:`Encoder`, with its pools of arrays and shared objects.

    Names are admitted in addition to the allow list, see
    :func:`~kdgraph.persistence.allowed.check_admitted`.
    """

    def __init__(
        self,
        document: Mapping[str, Any],
        arrays: Sequence[np.ndarray],
        shared: Mapping[str, Any],
        admitted: Sequence[str],
    ) -> None:
        self.document, self.arrays, self.shared, self.admitted = document, arrays, shared, admitted
        self._values: list[Any] = []
        self._objects = ObjectBuilder()
        self._decoders: dict[str, Callable[[list[Any], int], Any]] = {
            "list": self._list,
            "dict": self._dict,
            "array": lambda node, number: array_from_pool(self.arrays, *node[1:]),
            "objects": self._object_array,
            "object": self._object,
            "class": lambda node, number: self._type(node[1]),
            "function": lambda node, number: self._functions[node[1]],
            "tree": lambda node, number: self._trees[node[1]],
        }

    def value(self) -> Any:
        """Return the value.

        UntrustedFileError is raised if the value needs classes that are not admitted, none of which
        is imported, or imports or calls by a name that is not admitted; LoadError if this version
        cannot read it, or it was not written by kdgraph.
        """
        try:
            check_admitted(
                unlisted_names(
                    [name for name, _ in self.document["classes"]], self.document["functions"]
                ),
                self.admitted,
            )
            self._classes = [
                (import_class(name), fields) for name, fields in self.document["classes"]
            ]
            self._functions = [import_function(name) for name in self.document["functions"]]
            trees = self.document["trees"]
            columns = {
                name: array_from_pool(self.arrays, *node[1:])
                for name, node in (trees or {}).items()
            }
            self._trees = trees_from_columns(columns) if columns else []
            value = self.decode(self.document["value"])
            # The checks come last, because an object may refer to later parts of the document.
            self._objects.check(self._check_called)
        except LoadError:
            raise
        # A document of any origin can lead to every exception of the codecs and checks, and of
        # ``__new__`` and ``__setstate__`` of the classes that it restores, which are also other
        # libraries' and users'. 7,500 mutated files raised ten types, among them re.error,
        # RuntimeError and OverflowError. All of them mean that no encoder wrote the file.
        except Exception as error:
            raise DamagedFileError(damage_message(error)) from error
        return value

    def decode(self, node: Any) -> Any:
        """Return the value of a part of the document."""
        if type(node) is dict:
            self._values.append(result := {})
            for key, item in node.items():
                result[key] = self.decode(item)
            return result
        if type(node) is not list:
            return node
        tag = node[0]
        if tag == "ref":
            return self._values[node[1]]
        if tag == "float":
            return _NON_FINITE_FLOATS[node[1]]
        if tag == "shared":
            return self.shared[node[1]]
        # The number is taken before the parts are decoded, in the order of the encoder. Containers
        # and objects store themselves under it at once, so that their parts may refer to them.
        number = len(self._values)
        self._values.append(None)
        if (decoder := self._decoders.get(tag)) is not None:
            result = decoder(node, number)
        else:
            result = (CODECS_BY_TAG.get(tag) or _library_codec_by_tag(tag)).from_parts(
                *map(self.decode, node[1:])
            )
        self._values[number] = result
        return result

    def _list(self, node: list[Any], number: int) -> list[Any]:
        self._values[number] = result = []
        result.extend(map(self.decode, node[1:]))
        return result

    def _dict(self, node: list[Any], number: int) -> dict[Any, Any]:
        self._values[number] = result = {}
        for key, item in node[1:]:
            key = self.decode(key)
            result[key] = self.decode(item)
        return result

    def _object_array(self, node: list[Any], number: int) -> np.ndarray:
        result = np.empty(len(node) - 2, dtype=object)
        for k, item in enumerate(node[2:]):
            result[k] = self.decode(item)
        return result.reshape(node[1])

    def _object(self, node: list[Any], number: int) -> Any:
        cls, fields = self._classes[node[1]]
        if fields is None:
            return self._object_with_items(cls, node, number)
        self._values[number] = result = self._objects.new(cls)
        items = (item if type(item) in _JSON_TYPES else self.decode(item) for item in node[2:])
        self._set_state(result, dict(zip(fields, items, strict=True)))
        return result

    def _check_called(self, result: Any) -> None:
        check_admitted(imported_names(result), self.admitted)

    def _type(self, reference: str | int) -> type:
        cls = (
            BUILTIN_TYPES[reference] if isinstance(reference, str) else self._classes[reference][0]
        )
        # A class of the allow list would be a constructor that a function transformer could call
        # with parameters of the file's choice.
        if not is_plain_type(cls) and is_listed(cls):
            raise TypeError(f"{cls.__qualname__} is no plain type")
        return cls

    def _object_with_items(self, cls: type, node: list[Any], number: int) -> Any:
        """Return an object that is also a dict or a tuple, or that has a custom state."""
        state = self.decode(node[2])
        items = [self.decode(item) for item in node[3:]]
        if items and issubclass(cls, tuple):
            return self._objects.new_tuple(cls, *items)
        # A class whose ``__new__`` requires arguments raises TypeError.
        self._values[number] = result = self._objects.new(cls)
        if items:
            dict.update(result, *items)
        self._set_state(result, state)
        return result

    def _set_state(self, result: Any, state: Any) -> None:
        if (
            type(result).__module__.startswith("sklearn.")
            and isinstance(state, dict)
            and hasattr(result, "get_params")
        ):
            from sklearn import __version__

            state[_SKLEARN_VERSION_FIELD] = __version__
        self._objects.set_state(result, state)


def _library_codec_by_tag(tag: str) -> Any:
    if tag in boosters.TAGS:
        return boosters.codec_by_tag(tag)
    if tag.startswith(("tensor", "parameter", "torch_")):
        try:
            from kdgraph.persistence import tensors
        except ModuleNotFoundError as error:
            raise LoadError(needs_library("", "torch")) from error
        return tensors.TORCH_CODECS_BY_TAG[tag]
    raise ValueError(f"there is no kind of value named {tag!r}")
