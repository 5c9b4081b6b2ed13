"""From a value to JSON: what JSON has stays as it is, all else is a list that begins with a word.

A list is ``["list", …]``, an array ``["array", pool, start, shape, order]``, an object ``["object", class, values of its fields …]``. All
but numbers and text are counted in the order in which they begin; what comes again is ``["ref", its number]``.
"""

from __future__ import annotations

import copyreg
import math
import sys
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

from kdgraph.persistence.allowed import BUILTIN, is_its_fields, is_ours, is_plain_type, name_of
from kdgraph.persistence.checks import left_out
from kdgraph.persistence.errors import CannotSave
from kdgraph.persistence.kinds import STRUCTURED, Kind, kind_of
from kdgraph.persistence.pools import Pools
from kdgraph.persistence.state import called_names, check_state, checks_of
from kdgraph.persistence.trees import columns_of

VERSION = "_sklearn_version"
"""Field of the state of scikit-learn's estimators; the document says it once."""

_DEEPEST = 150
"""Levels of nesting that can be read again within Python's limit of 1,000 calls; a stack of calibrated pipelines has 30."""
_NOT_FIELDS = (list, set, frozenset, str, int, float, bytes, BaseException)


class Encoder:
    """Encodes one value.

    Parameters
    ----------
    shared : objects by name that are left out; whoever reads the file brings them.

    Attributes
    ----------
    classes : ``[name, fields]`` of every class whose objects were met; fields is None where the state of one is no dict of names.
    functions : names of the functions that were met.
    called : what objects import or call by names that they hold.
    pools : their arrays.
    """

    def __init__(self, shared: Mapping[str, Any]) -> None:
        self.shared = {id(value): name for name, value in shared.items()}
        self.classes: list[tuple[str, list[str] | None]] = []
        self.functions: list[str] = []
        self.called: list[str] = []
        self.pools = Pools()
        self._class_numbers: dict[tuple[type, tuple[str, ...] | None], int] = {}
        self._numbers: dict[int, int] = {}
        self._alive: list[Any] = []  # an id is only good as long as its object lives
        self._trees: list[Any] = []
        self._depth = 0
        self._ways: dict[type, Callable[[Any], Any]] = {
            float: lambda value: value if math.isfinite(value) else ["float", repr(value)],
            list: lambda value: ["list", *map(self.encode, value)],
            dict: self._dict,
            np.ndarray: self._array,
        }

    def document(self, value: Any) -> dict[str, Any]:
        """``value``, ``trees`` and ``classes``, JSON-safe; its arrays are in :attr:`pools`."""
        encoded = self.encode(value)
        trees = {name: self._array(column) for name, column in columns_of(self._trees).items()} if self._trees else None
        return {"classes": self.classes, "functions": self.functions, "trees": trees, "value": encoded}

    def encode(self, value: Any) -> Any:
        """``value`` as JSON."""
        cls = type(value)
        if value is None or cls is str or cls is int or cls is bool:
            return value
        if cls is float:
            return self._ways[float](value)
        if (name := self.shared.get(id(value))) is not None:
            return ["shared", name]
        number = self._numbers.setdefault(id(value), len(self._numbers))
        if number < len(self._alive):
            return ["ref", number]
        self._alive.append(value)
        self._depth += 1
        if self._depth > _DEEPEST:
            raise CannotSave(f"the value is nested too deeply to be saved: {_DEEPEST} levels are the most")
        encoded = self._ways.get(cls, self._other)(value)
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
            raise CannotSave(f"an array of {value.dtype} cannot be saved: it holds Python objects")
        if value.dtype.names:
            return [STRUCTURED.tag, *map(self.encode, STRUCTURED.apart(value))]
        return ["array", *self.pools.add(value)]

    def _other(self, value: Any) -> Any:
        """What is rarer: types, compiled trees, kinds, objects."""
        if isinstance(value, type):
            return ["class", self._reference(value)]
        if isinstance(value, FunctionType):
            self.functions.append(name_of(value))
            return ["function", len(self.functions) - 1]
        if type(value).__module__ == "sklearn.tree._tree" and type(value).__name__ == "Tree":
            self._trees.append(value)
            return ["tree", len(self._trees) - 1]
        if isinstance(value, np.memmap):
            return self._array(np.asarray(value))
        if kind := kind_of(value) or _of_torch(value):
            return [kind.tag, *map(self.encode, self._parts(kind, value))]
        return self._object(value)

    def _parts(self, kind: Kind, value: Any) -> list[Any]:
        try:
            return list(kind.apart(value))
        except (TypeError, ValueError, NotImplementedError) as error:
            raise CannotSave(f"a value of type {type(value).__name__} cannot be saved ({error})") from error

    def _object(self, value: Any) -> list[Any]:
        cls = type(value)
        state, items = _fields_of(value)
        if isinstance(state, dict):
            dropped = {VERSION, left_out(cls)}
            state = {name: item for name, item in state.items() if name not in dropped}
        self._check(value, state)
        if type(state) is dict and not items and all(type(name) is str for name in state):
            return ["object", self._class(cls, tuple(state)), *map(self.encode, state.values())]
        return ["object", self._class(cls, None), *map(self.encode, [state, *items])]

    def _check(self, value: Any, state: Any) -> None:
        """Hold an object to what a reader requires, so that what is written can be read."""
        try:
            check_state(type(value), state)
            for check in checks_of(type(value)):
                check(value)
        except ValueError as error:
            raise CannotSave(f"{_said(value)} cannot be saved ({error})") from error
        self.called += called_names(value)

    def _class(self, cls: type, fields: tuple[str, ...] | None) -> int:
        """Number of a class and the fields of its objects, which stand in the document once."""
        if (cls, fields) not in self._class_numbers:
            self._class_numbers[cls, fields] = len(self.classes)
            self.classes.append((name_of(cls), None if fields is None else list(fields)))
        return self._class_numbers[cls, fields]

    def _reference(self, cls: type) -> str | int:
        """A builtin by its name, any other class by its number."""
        if is_ours(cls) and not is_plain_type(cls):
            raise CannotSave(f"the class {cls.__qualname__} of {cls.__module__} cannot be saved as a value: only objects of it can")
        return cls.__name__ if BUILTIN.get(cls.__name__) is cls else self._class(cls, None)


def _fields_of(value: Any) -> tuple[Any, list[Any]]:
    """State of an object, and in a list the members of one that is a dict or a tuple too."""
    cls = type(value)
    try:
        if is_its_fields(cls) and not isinstance(value, _NOT_FIELDS):
            made_by, arguments, state, *_ = value.__reduce_ex__(4)  # refuses what keeps something out of sight
            if isinstance(value, tuple):
                return None, [tuple(value)]
            if made_by is copyreg.__newobj__ and arguments == (cls,):  # pyright: ignore[reportAttributeAccessIssue]
                return state, [dict(value)] if isinstance(value, dict) else []
    except TypeError as error:
        raise CannotSave(f"{_said(value)} cannot be saved ({error})") from error
    raise CannotSave(f"{_said(value)} cannot be saved: it is more than its fields")


def _said(value: Any) -> str:
    name = getattr(value, "__qualname__", None)
    return f"{type(value).__name__} {value.__module__}.{name}" if name else f"a {type(value).__module__}.{type(value).__qualname__}"


def _of_torch(value: Any) -> Kind | None:
    """The kind of what is torch's own; who has such a value has imported torch."""
    home = value.__module__ if isinstance(value, BuiltinFunctionType) else type(value).__module__
    if "torch" not in sys.modules or not (home or "").startswith("torch"):
        return None
    from kdgraph.persistence import tensors

    return tensors.EXACT.get(type(value))
