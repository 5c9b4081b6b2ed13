"""What goes wrong between a value and its file."""

from __future__ import annotations

from collections.abc import Sequence

from kdgraph.errors import KdgError, UsageError

_LONGEST = 200


class CannotSave(KdgError, TypeError):
    """Something in the value has no form in a file: code, an open file, an object that takes itself apart in a way of its own."""


class CannotLoad(UsageError):
    """The file is not what it should be: no model of kdgraph, damaged, or of classes that are not there or not trusted."""


class Damaged(CannotLoad):
    """The file's content is not what was written, or was never written by kdgraph."""


class Untrusted(CannotLoad):
    """The file was not made with this user's key, or needs classes that nobody has allowed.

    Attributes
    ----------
    names : those classes, and what else it imports or calls by name, ``package.module:Class``;
        empty where the key is the reason.
    """

    def __init__(self, message: str, names: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.names = tuple(names)


def damage(error: BaseException) -> str:
    r"""Return "is damaged (…)" with the error, which may quote the file, in one short line.

    >>> damage(ValueError("no\nlines"))
    'is damaged (ValueError: no lines)'
    """
    words = " ".join(str(error).split())
    shown = "".join(sign if sign.isprintable() else "?" for sign in words)
    brief = shown[:_LONGEST] + "…" * (len(shown) > _LONGEST)
    return f"is damaged ({type(error).__name__}{f': {brief}' if brief else ''})"
