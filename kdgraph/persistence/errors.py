"""What goes wrong between a value and its file."""

from __future__ import annotations

from collections.abc import Sequence

from kdgraph.errors import KdgError, UsageError


class CannotSave(KdgError, TypeError):
    """Something in the value has no form in a file: code, an open file, an object that takes itself apart in a way of its own."""


class CannotLoad(UsageError):
    """The file is not what it should be: no model of kdgraph, damaged, or of classes that are not there or not trusted."""


class Damaged(CannotLoad):
    """The file's content is not what was written, or was never written by kdgraph."""


class Untrusted(CannotLoad):
    """The file asks for classes that nobody has allowed.

    Attributes
    ----------
    classes : their names, ``package.module:Class``.
    """

    def __init__(self, message: str, classes: Sequence[str]) -> None:
        super().__init__(message)
        self.classes = tuple(classes)
