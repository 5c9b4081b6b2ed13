"""Values in files: written whole or not at all, read without running anything that they say."""

from __future__ import annotations

import os
import secrets
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.persistence.allowed import check_allowed
from kdgraph.persistence.archive import pack, unpack
from kdgraph.persistence.decode import Decoder
from kdgraph.persistence.encode import Encoder
from kdgraph.persistence.errors import CannotLoad, Damaged, Untrusted

SUFFIX = ".kdg"
_FORMAT = 1
_LIBRARIES = {"numpy": "numpy", "scikit-learn": "sklearn", "torch": "torch"}


@dataclass(frozen=True)
class Loaded:
    """What a file holds: the value, and what was written about it."""

    value: Any
    about: Mapping[str, Any]


def save(value: Any, file: str | os.PathLike[str]) -> None:
    """Write a fitted model, or any value made of arrays, numbers, text, containers and objects of kdgraph and scikit-learn.

    Parameters
    ----------
    value : what to write. One object that it refers to twice is written once, and is one again when it is read.
    file : is replaced as a whole.

    Raises
    ------
    CannotSave
        In one line, for code (a lambda), open files, objects of compiled types that only pickle knows how to take apart.
    """
    path = Path(file)
    content = to_bytes(value)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def load(file: str | os.PathLike[str], trusted: Sequence[str] = ()) -> Any:
    """The value in a file that :func:`save` or a run wrote; it predicts to the bit what the saved one did.

    Parameters
    ----------
    file : ``model/calibrated.kdg`` of a run refers to ``parent.kdg``, which is read from the same folder; it holds the two together,
        a :class:`~kdgraph.answers.model.Model`.
    trusted : classes (``"package.module.Class"``) or packages that may be made beside those of kdgraph, scikit-learn, numpy and the layers
        of torch. Name only what you know: a class may do anything when it is given a state.

    Raises
    ------
    FileNotFoundError
        If there is none.
    Untrusted
        If it needs other classes; none of them was imported.
    CannotLoad
        In one line, if it is no such file, damaged, or of classes that are no longer there.

    Notes
    -----
    No code of the file is run: objects are made without calling their ``__init__``, functions are not read at all, and trees are checked
    before they are walked down. That is no promise for compiled code of other estimators that were given senseless arrays, such as support
    vector machines: load files of strangers with care.
    """
    path = Path(file)
    beside = _Beside(path, trusted)
    try:
        return read(path.read_bytes(), path, beside, trusted).value
    except CannotLoad:
        if beside.failure is not None:  # it names the file that failed
            raise beside.failure from None
        raise


def to_bytes(
    value: Any, shared: Mapping[str, Any] | None = None, about: Mapping[str, Any] | None = None, trusted: Sequence[str] | None = None
) -> bytes:
    """The content of a file.

    Parameters
    ----------
    value : see :func:`save`.
    shared : objects by name that are left out, and that who reads the file brings along.
    about : JSON-safe, to be found beside the value.
    trusted : refuse other classes than a reader who trusts these would read; None: write them all.
    """
    encoder = Encoder(shared or {})
    document = encoder.document(value)
    if trusted is not None:
        check_allowed([name for name, _ in encoder.classes], encoder.functions, trusted)
    versions = {name: sys.modules[module].__version__ for name, module in _LIBRARIES.items() if module in sys.modules}
    return pack({"format": _FORMAT, "versions": versions, "about": dict(about or {}), **document}, encoder.pools.arrays())


def read(content: bytes, name: object, shared: Mapping[str, Any] | None = None, trusted: Sequence[str] = ()) -> Loaded:
    """Value and facts of a file's ``content``; ``name`` is what errors call it, ``shared`` and ``trusted`` are as in :func:`to_bytes`."""
    try:
        document, arrays = unpack(content)
        if not {"format", "versions", "about", "classes", "functions", "trees", "value"} <= document.keys():
            raise Damaged("is damaged (parts of it are not there)")
        if document["format"] != _FORMAT:
            raise CannotLoad("was written by another version of kdgraph")
        found = Decoder(document, arrays, {} if shared is None else shared, trusted).value()
    except Untrusted as error:
        raise Untrusted(f"{name} {error}", error.classes) from error
    except CannotLoad as error:
        raise type(error)(f"{name} {error}") from error
    _warn_of_versions(name, document["versions"])
    return Loaded(found, document["about"])


def _warn_of_versions(name: object, written: Mapping[str, str]) -> None:
    now = {library: sys.modules[module].__version__ for library, module in _LIBRARIES.items() if module in sys.modules}
    other = [f"{library} {written[library]} (now {now[library]})" for library in now if written.get(library, now[library]) != now[library]]
    if other:
        warnings.warn(f"{name} was written with {', '.join(other)}: its numbers may differ", stacklevel=3)


class _Beside(Mapping[str, Any]):
    """Shared objects of a file, each in the file of its name in the same folder."""

    def __init__(self, path: Path, trusted: Sequence[str]) -> None:
        self.path, self.trusted = path, trusted
        self.failure: CannotLoad | None = None
        self._found: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if not name.isidentifier():
            raise KeyError(name)
        if name not in self._found:
            beside = self.path.with_name(name + SUFFIX)
            if not beside.exists():
                raise CannotLoad(f"refers to {beside.name}, which is not beside it")
            try:
                self._found[name] = load(beside, self.trusted)
            except CannotLoad as error:
                self.failure = error
                raise
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)
