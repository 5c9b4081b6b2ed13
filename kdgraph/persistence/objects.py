"""Objects of files, made from their state and checked when all of them are complete.

Every reader of files with objects uses it: the decoder of files of kdgraph, and the reader of files
of skops. Original to kdgraph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kdgraph.persistence.allowed import is_plain_object
from kdgraph.persistence.checks import check_state, object_checks
from kdgraph.persistence.predictor_checks import post_load_hook


class ObjectBuilder:
    """Builder of the objects of one file.

    Objects may refer to each other in any order, so that nothing is checked before all have their
    state.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> builder = ObjectBuilder()
    >>> model = builder.new(DecisionTreeClassifier)
    >>> builder.set_state(model, {"fit": print})
    Traceback (most recent call last):
    ValueError: an attribute would replace DecisionTreeClassifier.fit
    """

    def __init__(self) -> None:
        self._complete: list[Any] = []

    def new(self, cls: type) -> Any:
        """Return an object without state, whose ``__init__`` is not called.

        TypeError is raised if an object of the class is more than its fields, or needs arguments.
        """
        _require_plain(cls)
        return cls.__new__(cls)  # pyright: ignore[reportCallIssue]

    def new_tuple(self, cls: type, items: Any) -> Any:
        """Return an object of a class of tuples with these items."""
        _require_plain(cls)
        result = tuple.__new__(cls, items)
        self._complete.append(result)
        return result

    def set_state(self, value: Any, state: Any) -> None:
        """Set the state of an object of :meth:`new`, which is complete then, as its class does.

        A state has attributes by name, is a pair of them and those of slots, what the class takes,
        or None. ValueError is raised if it would replace something that the class defines.
        """
        check_state(type(value), state)
        setstate = getattr(type(value), "__setstate__", None)
        if state is not None and setstate is not None:
            setstate(value, state)
        elif state is not None:
            fields, slots = state if isinstance(state, tuple) else (state, None)
            if fields:
                value.__dict__.update(fields)
            for name, item in (slots or {}).items():
                object.__setattr__(value, name, item)
        self._complete.append(value)

    def check(self, *further: Callable[[Any], None]) -> None:
        """Check all objects, parts before their owners, and add what the file lacks.

        ``further`` functions are called with each object before anything is added. ValueError is
        raised if attributes of an object contradict each other, or could choose what is called.
        """
        for value in self._complete:
            for check in (*object_checks(type(value)), *further):
                check(value)
        for value in self._complete:
            if (hook := post_load_hook(type(value))) is not None:
                hook(value)


def _require_plain(cls: type) -> None:
    if not is_plain_object(cls):
        raise TypeError(f"{cls.__qualname__} is more than its fields")
