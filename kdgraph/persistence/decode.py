"""From JSON back to the value; what JSON says is checked, since anybody may have written it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from kdgraph.persistence.allowed import (
    BUILTIN,
    check_admitted,
    class_of,
    function_of,
    is_its_fields,
    is_ours,
    is_plain_type,
    strangers,
)
from kdgraph.persistence.checks import afterwards
from kdgraph.persistence.encode import VERSION
from kdgraph.persistence.errors import CannotLoad, Damaged, damage
from kdgraph.persistence.kinds import BY_TAG
from kdgraph.persistence.pools import taken
from kdgraph.persistence.state import called_names, check_state, checks_of
from kdgraph.persistence.trees import trees_of

_PLAIN = frozenset({str, int, float, bool, type(None)})
_FLOATS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


class Decoder:
    """Decodes one document.

    Parameters
    ----------
    document : as :class:`~kdgraph.persistence.encode.Encoder` made it.
    arrays : its pools.
    shared : objects by name that were left out.
    admitted : what may be made beside what is on the list, see
        :func:`~kdgraph.persistence.allowed.check_admitted`.
    """

    def __init__(
        self, document: Mapping[str, Any], arrays: Sequence[np.ndarray], shared: Mapping[str, Any], admitted: Sequence[str]
    ) -> None:
        self.document, self.arrays, self.shared, self.admitted = document, arrays, shared, admitted
        self._made: list[Any] = []
        self._afterwards: list[tuple[Callable[[Any], None], Any]] = []
        self._ways: dict[str, Callable[[list[Any], int], Any]] = {
            "list": self._list,
            "dict": self._pairs,
            "array": lambda node, number: taken(self.arrays, *node[1:]),
            "objects": self._objects,
            "object": self._object,
            "class": lambda node, number: self._type(node[1]),
            "function": lambda node, number: self._functions[node[1]],
            "tree": lambda node, number: self._trees[node[1]],
        }

    def value(self) -> Any:
        """The value.

        Raises
        ------
        Untrusted
            If it needs classes that are not allowed, of which none is imported, or holds names that
            it would import or call.
        CannotLoad
            If it cannot be read by this version, or was not written by kdgraph.
        """
        try:
            check_admitted(strangers([name for name, _ in self.document["classes"]], self.document["functions"]), self.admitted)
            self._classes = [(class_of(name), fields) for name, fields in self.document["classes"]]
            self._functions = [function_of(name) for name in self.document["functions"]]
            trees = self.document["trees"]
            self._trees = trees_of({name: taken(self.arrays, *node[1:]) for name, node in trees.items()}) if trees else []
            value = self.decode(self.document["value"])
            # Only now: what an object refers to may come after it in the document.
            for check, each in self._afterwards:
                check(each)
        except CannotLoad:
            raise
        except Exception as error:  # a class, a decoder or a check met a state that nobody has written
            raise Damaged(damage(error)) from error
        return value

    def decode(self, node: Any) -> Any:
        """The value that a part of the document stands for."""
        if type(node) is dict:
            self._made.append(made := {})
            for key, item in node.items():
                made[key] = self.decode(item)
            return made
        if type(node) is not list:
            return node
        tag = node[0]
        if tag == "ref":
            return self._made[node[1]]
        if tag == "float":
            return _FLOATS[node[1]]
        if tag == "shared":
            return self.shared[node[1]]
        number = len(self._made)
        self._made.append(None)
        if (way := self._ways.get(tag)) is not None:
            made = way(node, number)
        else:
            made = (BY_TAG.get(tag) or _of_torch(tag)).together(*map(self.decode, node[1:]))
        self._made[number] = made
        return made

    def _list(self, node: list[Any], number: int) -> list[Any]:
        self._made[number] = made = []
        made.extend(map(self.decode, node[1:]))
        return made

    def _pairs(self, node: list[Any], number: int) -> dict[Any, Any]:
        self._made[number] = made = {}
        for key, item in node[1:]:
            key = self.decode(key)
            made[key] = self.decode(item)
        return made

    def _objects(self, node: list[Any], number: int) -> np.ndarray:
        made = np.empty(len(node) - 2, dtype=object)
        for k, item in enumerate(node[2:]):
            made[k] = self.decode(item)
        return made.reshape(node[1])

    def _object(self, node: list[Any], number: int) -> Any:
        cls, fields = self._classes[node[1]]
        if not is_its_fields(cls):
            raise TypeError(f"{cls.__qualname__} is more than its fields")
        if fields is not None:
            self._made[number] = made = cls.__new__(cls)
            items = (item if type(item) in _PLAIN else self.decode(item) for item in node[2:])
            _give(made, dict(zip(fields, items, strict=True)))
        else:
            made = self._with_items(cls, node, number)
        checks = [*checks_of(cls), self._check_called]
        if (check := afterwards(cls)) is not None:
            checks.append(check)
        self._afterwards += [(check, made) for check in checks]
        return made

    def _check_called(self, made: Any) -> None:
        check_admitted(called_names(made), self.admitted)

    def _type(self, named: str | int) -> type:
        """A class that a value refers to: a plain type, or one that the reader has admitted."""
        cls = BUILTIN[named] if isinstance(named, str) else self._classes[named][0]
        if not is_plain_type(cls) and is_ours(cls):
            raise TypeError(f"{cls.__qualname__} is no plain type")
        return cls

    def _with_items(self, cls: type, node: list[Any], number: int) -> Any:
        """An object that is a dict or a tuple too, or whose state is its own affair."""
        state = self.decode(node[2])
        items = [self.decode(item) for item in node[3:]]
        if items and issubclass(cls, tuple):
            return tuple.__new__(cls, *items)  # pyright: ignore[reportCallIssue]
        self._made[number] = made = cls.__new__(cls)  # pyright: ignore[reportCallIssue] - a class that wants more raises TypeError
        if items:
            dict.update(made, *items)
        if state is not None:
            _give(made, state)
        return made


def _give(made: Any, state: Any) -> None:
    """An object its state, in the way of its class."""
    check_state(type(made), state)
    if type(made).__module__.startswith("sklearn.") and isinstance(state, dict) and hasattr(made, "get_params"):
        from sklearn import __version__

        state[VERSION] = __version__
    setstate = getattr(type(made), "__setstate__", None)
    if setstate is not None:
        setstate(made, state)
        return
    fields, slots = state if isinstance(state, tuple) else (state, None)
    if fields:
        made.__dict__.update(fields)
    for name, item in (slots or {}).items():
        object.__setattr__(made, name, item)


def _of_torch(tag: str) -> Any:
    if tag.startswith(("tensor", "parameter", "torch_")):
        from kdgraph.persistence import tensors

        return tensors.BY_TAG[tag]
    raise ValueError(f"there is no kind of value named {tag!r}")
