"""Writing and reading of model files.

A file is written completely or not at all. It is read with the key of this user, or if the caller
trusts it. Original to kdgraph.
"""

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
    DamagedFileError,
    LoadError,
    UntrustedFileError,
    is_signed_by_user,
    pack,
    unpack,
)
from kdgraph.persistence.codec import Decoder, Encoder
from kdgraph.signing import KEY_FILE_VARIABLE, SigningKey, current_key

MODEL_SUFFIX = ".kdg"
_FORMAT_VERSION = 5
# Keys of a document, and the types of their values.
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
_VERSIONED_LIBRARIES = {"numpy": "numpy", "scikit-learn": "sklearn", "torch": "torch"}


@dataclass(frozen=True)
class LoadedModel:
    """Content of a file.

    Attributes
    ----------
    value : object
        The saved value.
    metadata : mapping
        JSON-safe data that was saved with it, see :func:`to_bytes`.

    Examples
    --------
    >>> loaded = from_bytes(to_bytes([1, 2], metadata={"seconds": 0.5}), "the file")
    >>> loaded.value, loaded.metadata["seconds"]
    ([1, 2], 0.5)
    """

    value: Any
    metadata: Mapping[str, Any]


def save(value: Any, file: str | os.PathLike[str]) -> None:
    """Write a fitted model, or another value of arrays, numbers, text, containers and objects.

    The file contains a digest with the key of this user (:mod:`kdgraph.persistence.archive`), which
    :func:`load` verifies. Other users have to trust the file before they can read it.

    Parameters
    ----------
    value : object
        Value to write, of objects of kdgraph and scikit-learn. An object that it refers to twice is
        written once, and is one object again when it is read.
    file : str or path
        File to write; an existing file is replaced.

    Raises
    ------
    SaveError
        For code (a lambda), open files, and objects of compiled types that only pickle supports.
    KeyFileError
        If ``KDGRAPH_KEY_FILE`` names a file without a key.

    Warns
    -----
    UserWarning
        If no key can be stored on this machine, so that the file must be trusted when it is read.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> with TemporaryDirectory() as folder:
    ...     save({"weights": np.ones(3)}, f"{folder}/weights.kdg")
    ...     load(f"{folder}/weights.kdg")
    {'weights': array([1., 1., 1.])}
    """
    path = Path(file)
    content = to_bytes(value)
    if (key := current_key()).problem:
        warnings.warn(
            f"{path} will have to be trusted when it is read: {key_problem_message(key)}",
            stacklevel=2,
        )
    # The rename is atomic, so that no reader sees a part of a file.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def key_problem_message(key: SigningKey) -> str:
    """Return one line about a key that cannot be stored, with the way out.

    Parameters
    ----------
    key : SigningKey
        Key with a ``problem``.

    Examples
    --------
    >>> from pathlib import Path
    >>> from kdgraph.signing import SigningKey
    >>> key = SigningKey(b"", Path("/home/ada/model.key"), "the disk is full")
    >>> print(key_problem_message(key).partition("; ")[0])
    your key for models cannot be kept in /home/ada/model.key (the disk is full)
    """
    return (
        f"your key for models cannot be kept in {key.path} ({key.problem});"
        f" {KEY_FILE_VARIABLE}=FILE names another place"
    )


def load(file: str | os.PathLike[str], trust: bool | Sequence[str] = False) -> Any:
    """Return the value of a file; its predictions equal those of the saved value to the bit.

    A file that was not signed with the key of this user is rejected, because reading a model can
    run code chosen by its writer.

    Parameters
    ----------
    file : str or path
        File of :func:`save` or of a run. ``model/calibrated.kdg`` of a run refers to ``parent.kdg``
        in the same folder and contains a :class:`~kdgraph.base.fitted_model.FittedModel` of both.
    trust : bool or sequence of str, default=False
        True reads the file of any writer: use it only if the origin is known and trusted. A list
        does the same, and names classes (``"package.module.Class"``) or packages that it may import
        in addition to kdgraph, public estimators of scikit-learn, numpy and the layers of torch. A
        file of this user needs neither.

    Raises
    ------
    FileNotFoundError
        If the file does not exist.
    UntrustedFileError
        If another key signed it, or it needs other classes, none of which was imported.
    LoadError
        If it is not a model file, is damaged, or needs classes that no longer exist.
    KeyFileError
        If ``KDGRAPH_KEY_FILE`` names a file without a key.

    Notes
    -----
    No code is read from a trusted file either: objects of listed classes are created without their
    ``__init__``, no attribute may replace a method, parameters of classes of kdgraph are checked
    against their annotations, and so are the arrays that compiled code of scikit-learn does not
    check. This is a second line of defence and not a guarantee.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> from kdgraph import KernelDensityForest
    >>> X, y = load_iris(return_X_y=True)
    >>> model = KernelDensityForest(RandomForestClassifier(10, random_state=0), random_state=0)
    >>> proba = model.fit(X, y).predict_proba(X)
    >>> with TemporaryDirectory() as folder:
    ...     save(model, f"{folder}/forest.kdg")
    ...     loaded = load(f"{folder}/forest.kdg")
    >>> bool((loaded.predict_proba(X) == proba).all())
    True
    """
    path = Path(file)
    siblings = _SiblingFiles(path, trust)
    try:
        return from_bytes(path.read_bytes(), path, siblings, trust).value
    except LoadError:
        # The failure of a sibling names the file that failed.
        if siblings.failure is not None:
            raise siblings.failure from None
        raise


def to_bytes(
    value: Any,
    shared: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    trusted: Sequence[str] | None = None,
) -> bytes:
    """Return the content of a file.

    Parameters
    ----------
    value : object
        Value to write, see :func:`save`.
    shared : mapping or None, default=None
        Objects by name that are left out, and that the caller of :func:`from_bytes` passes.
    metadata : mapping or None, default=None
        JSON-safe data about the value.
    trusted : sequence of str or None, default=None
        Classes or packages that the value may need in addition to the listed ones; None allows all.
        The file contains what it needs, and a user with the same key reads it without ``trust``.

    Raises
    ------
    SaveError, KeyFileError
        As in :func:`save`.
    UntrustedFileError
        If the value needs other classes.

    Examples
    --------
    >>> content = to_bytes([1, 2], metadata={"seconds": 0.5})
    >>> from_bytes(content, "the file")
    LoadedModel(value=[1, 2], metadata={'seconds': 0.5})
    """
    encoder = Encoder(shared or {})
    document = encoder.document(value)
    admitted = unlisted_names(
        [name for name, _ in encoder.classes], encoder.functions, encoder.called
    )
    if trusted is not None:
        check_admitted(admitted, trusted)
    header = {
        "format": _FORMAT_VERSION,
        "versions": _library_versions(),
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
    """Return the value and the metadata of the content of a file.

    Parameters
    ----------
    content : bytes
        Content of the file.
    source : object
        Name of the file in error messages.
    shared : mapping or None, default=None
        Objects by name that :func:`to_bytes` left out.
    trust : bool or sequence of str, default=False
        Trust in the file, see :func:`load`. The classes that a file itself admits are accepted only
        if the key of this user signed it.

    Raises
    ------
    UntrustedFileError, LoadError, KeyFileError
        As in :func:`load`.

    Examples
    --------
    Two models that share a parent refer to one object after reading, too:

    >>> parent = {"depth": 3}
    >>> content = to_bytes({"parent": parent, "alpha": 0.1}, shared={"parent": parent})
    >>> loaded = from_bytes(content, "the file", shared={"parent": parent})
    >>> loaded.value["parent"] is parent
    True
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
        value = Decoder(document, arrays, {} if shared is None else shared, admitted).value()
    except UntrustedFileError as error:
        raise UntrustedFileError(f"{source} {error}", error.names) from error
    except LoadError as error:
        raise type(error)(f"{source} {error}") from error
    _warn_other_versions(source, document["versions"])
    return LoadedModel(value, document["about"])


def _untrusted_message() -> str:
    key = current_key()
    location = f"which cannot be kept in {key.path}: {key.problem}" if key.problem else key.path
    return (
        f"was not made with your key ({location}), and a model can run code of its maker's choosing"
        " when it is read"
    )


def _library_versions() -> dict[str, str]:
    return {
        library: sys.modules[module].__version__
        for library, module in _VERSIONED_LIBRARIES.items()
        if module in sys.modules
    }


def _warn_other_versions(source: object, written: Mapping[str, Any]) -> None:
    current = _library_versions()
    changes = [
        f"{library} {written[library]} (now {current[library]})"
        for library in current
        if written.get(library, current[library]) != current[library]
    ]
    if changes:
        warnings.warn(
            f"{source} was written with {', '.join(changes)}: its numbers may differ", stacklevel=3
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
            sibling = self.path.with_name(name + MODEL_SUFFIX)
            if not sibling.exists():
                raise LoadError(f"refers to {sibling.name}, which is not beside it")
            try:
                self._loaded[name] = load(sibling, self.trust)
            # The decoder that requests this object reports every exception as damage of its own
            # file. So the failure of the other file is kept and raised in its place.
            except Exception as error:
                self.failure = error
                raise
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaded)

    def __len__(self) -> int:
        return len(self._loaded)
