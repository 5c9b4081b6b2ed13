"""Values in files: written whole or not at all; read with the user's own key or with trust."""

from __future__ import annotations

import os
import secrets
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kdgraph.persistence.allowed import check_admitted, unlisted_names
from kdgraph.persistence.archive import (
    KEY_FILE_VARIABLE,
    DamagedFileError,
    LoadError,
    SigningKey,
    UntrustedFileError,
    current_key,
    is_signed_by_user,
    pack,
    unpack,
)
from kdgraph.persistence.codec import Decoder, Encoder

MODEL_SUFFIX = ".kdg"
_FORMAT_VERSION = 2
_DOCUMENT_KEYS = {
    "format": int,
    "versions": dict,
    "about": dict,
    "admitted": list,
    "classes": list,
    "functions": list,
    "trees": (dict, type(None)),
    "value": object,
}
"""What a document has, and of which types."""
_VERSIONED_LIBRARIES = {"numpy": "numpy", "scikit-learn": "sklearn", "torch": "torch"}


@dataclass(frozen=True)
class LoadedModel:
    """What a file holds: the value, and what was written about it."""

    value: Any
    metadata: Mapping[str, Any]


def save(value: Any, file: str | os.PathLike[str]) -> None:
    """Write a fitted model, or any value made of arrays, numbers, text, containers and objects of
    kdgraph and scikit-learn.

    The file carries a digest of this user's key (:mod:`kdgraph.persistence.archive`), by which
    :func:`load` recognises it. Anybody else has to trust it before it is read.

    Parameters
    ----------
    value : what to write. One object that it refers to twice is written once, and is one again when
    it is read.
    file : is replaced as a whole.

    Raises
    ------
    SaveError
        In one line, for code (a lambda), open files, objects of compiled types that only pickle
        knows how to take apart.
    KeyFileError
        If ``KDGRAPH_KEY_FILE`` names a file that holds no key.

    Warns
    -----
    UserWarning
        If no key can be kept on this machine, so that the file will have to be trusted when it is
        read.
    """
    path = Path(file)
    content = to_bytes(value)
    if (key := current_key()).problem:
        warnings.warn(
            f"{path} will have to be trusted when it is read: {key_problem_message(key)}",
            stacklevel=2,
        )
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        beside.write_bytes(content)
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def key_problem_message(key: SigningKey) -> str:
    """Return one line on a key that cannot be kept, with the way out."""
    return (
        f"your key for models cannot be kept in {key.path} ({key.problem}); {KEY_FILE_VARIABLE}=FILE names"
        " another place"
    )


def load(file: str | os.PathLike[str], trust: bool | Sequence[str] = False) -> Any:
    """The value in a file that :func:`save` or a run wrote; it predicts to the bit what the saved
    one did.

    A file that this user's key did not make is refused, since reading a model can run code of its
    maker's choosing, as reading a program does.

    Parameters
    ----------
    file : ``model/calibrated.kdg`` of a run refers to ``parent.kdg``, which is read from the same
        folder; it holds the two together, a :class:`~kdgraph.base.fitted_model.FittedModel`.
    trust : True reads the file whoever made it: only if its origin is known and trusted. A list
        does so too, and names classes (``"package.module.Class"``) or packages that it may import
        beside kdgraph, public estimators of scikit-learn, numpy and the layers of torch. A file of
        this user's own needs neither.

    Raises
    ------
    FileNotFoundError
        If there is none.
    UntrustedFileError
        If it was not made with this user's key, or needs other classes; none of them was imported.
    LoadError
        In one line, if it is no such file, damaged, or of classes that are no longer there.
    KeyFileError
        If ``KDGRAPH_KEY_FILE`` names a file that holds no key.

    Notes
    -----
    Also of a trusted file no code is taken: objects are made of listed classes without calling
    their ``__init__``, no attribute may replace a method, parameters of kdgraph's classes are held
    to their annotations, and trees are checked before they are walked down. That is a second line
    of defence and no promise: estimators are programs, and arrays that make no sense can lead the
    compiled code of some of them, such as support vector machines, out of its memory.
    """
    path = Path(file)
    beside = _SiblingFiles(path, trust)
    try:
        return from_bytes(path.read_bytes(), path, beside, trust).value
    except LoadError:
        if beside.failure is not None:  # it names the file that failed
            raise beside.failure from None
        raise


def to_bytes(
    value: Any,
    shared: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    trusted: Sequence[str] | None = None,
) -> bytes:
    """The content of a file.

    Parameters
    ----------
    value : see :func:`save`.
    shared : objects by name that are left out, and that who reads the file brings along.
    metadata : JSON-safe, to be found beside the value.
    trusted : classes or packages that it may need beside the listed ones, refuse others; None:
        write them all. What it needs stands in the file, and whoever has this user's key reads it
        without naming it again.

    Raises
    ------
    SaveError, KeyFileError
        As in :func:`save`.
    UntrustedFileError
        If it needs others.
    """
    encoder = Encoder(shared or {})
    document = encoder.document(value)
    admitted = unlisted_names(
        [name for name, _ in encoder.classes], encoder.functions, encoder.called
    )
    if trusted is not None:
        check_admitted(admitted, trusted)
    versions = {
        name: sys.modules[module].__version__
        for name, module in _VERSIONED_LIBRARIES.items()
        if module in sys.modules
    }
    header = {
        "format": _FORMAT_VERSION,
        "versions": versions,
        "about": dict(metadata or {}),
        "admitted": admitted,
    }
    return pack({**header, **document}, encoder.pools.arrays())


def from_bytes(
    content: bytes,
    source: object,
    shared: Mapping[str, Any] | None = None,
    trust: bool | Sequence[str] = False,
) -> LoadedModel:
    """Return value and facts of a file's ``content``.

    Parameters
    ----------
    source : what errors call the file.
    shared : as in :func:`to_bytes`.
    trust : as in :func:`load`. What the file itself admits counts only if this user's key made it.
    """
    try:
        own = is_signed_by_user(content)
        if not (own or trust):
            raise UntrustedFileError(_untrusted_message())
        document, arrays = unpack(content)
        if not all(
            part in document and isinstance(document[part], kind)
            for part, kind in _DOCUMENT_KEYS.items()
        ):
            raise DamagedFileError("is damaged (parts of it are not there)")
        if document["format"] != _FORMAT_VERSION:
            raise LoadError("was written by another version of kdgraph")
        names = [trust] if isinstance(trust, str) else [] if isinstance(trust, bool) else trust
        admitted = [*(document["admitted"] if own else ()), *names]
        found = Decoder(document, arrays, {} if shared is None else shared, admitted).value()
    except UntrustedFileError as error:
        raise UntrustedFileError(f"{source} {error}", error.names) from error
    except LoadError as error:
        raise type(error)(f"{source} {error}") from error
    _warn_other_versions(source, document["versions"])
    return LoadedModel(found, document["about"])


def _untrusted_message() -> str:
    key = current_key()
    where = f"which cannot be kept in {key.path}: {key.problem}" if key.problem else key.path
    return (
        f"was not made with your key ({where}), and a model can run code of its maker's choosing"
        " when it is read"
    )


def _warn_other_versions(name: object, written: Mapping[str, Any]) -> None:
    now = {
        library: sys.modules[module].__version__
        for library, module in _VERSIONED_LIBRARIES.items()
        if module in sys.modules
    }
    other = [
        f"{library} {written[library]} (now {now[library]})"
        for library in now
        if written.get(library, now[library]) != now[library]
    ]
    if other:
        warnings.warn(
            f"{name} was written with {', '.join(other)}: its numbers may differ", stacklevel=3
        )


class _SiblingFiles(Mapping[str, Any]):
    """Shared objects of a file, each in the file of its name in the same folder."""

    def __init__(self, path: Path, trust: bool | Sequence[str]) -> None:
        self.path, self.trust = path, trust
        self.failure: Exception | None = None
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if not name.isidentifier():
            raise KeyError(name)
        if name not in self._loaded:
            beside = self.path.with_name(name + MODEL_SUFFIX)
            if not beside.exists():
                raise LoadError(f"refers to {beside.name}, which is not beside it")
            try:
                self._loaded[name] = load(beside, self.trust)
            except Exception as error:  # the reader that asked would call its own file damaged
                self.failure = error
                raise
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)
