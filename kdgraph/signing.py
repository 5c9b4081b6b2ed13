"""The key of a user, with which files are signed that only their writer may have read back.

Reading a stored model can run code, and an index is not checked: both count only where the key of
the reader signed them.
"""

from __future__ import annotations

import hmac
import os
import secrets
import shlex
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from kdgraph.errors import UsageError

MODEL_FILE = b"kdgraph model file"
"""Kind of the files of models; a digest counts for one kind of files only."""
KEY_FILE_VARIABLE = "KDGRAPH_KEY_FILE"
"""The environment variable that names another file with a key."""
_KEY_BYTES = 32
# A mode that lets every user of the machine read the key, or write one of their own.
_WORLD_ACCESS_MODE = 0o006


class KeyFileError(UsageError):
    """Error for a ``KDGRAPH_KEY_FILE`` without a key, open to all, or not creatable.

    Examples
    --------
    >>> from unittest.mock import patch
    >>> from kdgraph.persistence import KeyFileError, to_bytes
    >>> with patch.dict("os.environ", {"KDGRAPH_KEY_FILE": "/dev/null/model.key"}):
    ...     try:
    ...         to_bytes({"a": 1.0})
    ...     except KeyFileError as error:
    ...         print(str(error).partition(":")[0])
    KDGRAPH_KEY_FILE=/dev/null/model.key
    """


@dataclass(frozen=True)
class SigningKey:
    """Secret of 32 random bytes that signs a user's files, and the file that contains it."""

    secret: bytes
    path: Path
    problem: str = ""  # why the file cannot be used: the secret is lost when this process ends

    def digest(self, content: bytes, kind: bytes = MODEL_FILE) -> str:
        """Return the HMAC-SHA256 of ``content`` in files of one kind, 64 hexadecimal digits."""
        return hmac.digest(self.secret, kind + b"\0" + content, "sha256").hex()

    def verify(self, content: bytes, digest: str, kind: bytes = MODEL_FILE) -> bool:
        """Return whether ``digest`` is that of ``content`` with this key, in constant time."""
        return hmac.compare_digest(self.digest(content, kind).encode(), digest.encode())


def current_key() -> SigningKey:
    """Return the key of this user, creating it if there is none.

    If the user's own file cannot be used, such as on a read-only home, the key is random and lost
    when this process ends: later processes treat the files that it signed as another user's.
    KeyFileError is raised if ``KDGRAPH_KEY_FILE`` names a file that cannot be used.
    """
    variable = os.environ.get(KEY_FILE_VARIABLE)
    path = Path(variable).expanduser() if variable else _default_path()
    return _load_key(path.absolute(), bool(variable))


def _default_path() -> Path:
    """Return the file in the user's configuration folder.

    The XDG Base Directory Specification defines the folder; a relative one counts as unset.
    """
    folder = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not folder.is_absolute():
        with suppress(RuntimeError):  # a user without a home
            folder = Path.home() / ".config"
    return folder / "kdgraph" / "model.key"


@cache  # a run verifies and signs a dozen files
def _load_key(path: Path, from_variable: bool) -> SigningKey:
    try:
        return SigningKey(_read_or_create_key(path), path)
    except (OSError, ValueError) as error:
        problem = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        if from_variable:
            way_out = (
                "name a file that you can read and others cannot write, or unset the variable to"
                " use your own key"
            )
            raise KeyFileError(f"{KEY_FILE_VARIABLE}={path}: {problem}; {way_out}") from error
        return SigningKey(secrets.token_bytes(_KEY_BYTES), path, problem)


def _read_or_create_key(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        return _read_key(path)
    _create_key(path)
    return _read_key(path)


def _read_key(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        text = file.read(4 * _KEY_BYTES)
    if os.name == "posix" and mode & _WORLD_ACCESS_MODE:
        raise ValueError(
            f"it is open to every user of this machine (mode {mode & 0o777:04o}; chmod o="
            f" {shlex.quote(str(path))})"
        )
    try:
        secret = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        secret = b""
    if len(secret) != _KEY_BYTES:
        raise ValueError(
            f"it holds no key ({2 * _KEY_BYTES} hexadecimal digits); remove it, and a new one"
            " is made"
        )
    return secret


def _create_key(path: Path) -> None:
    """Write a new key completely, unless another process has written one in the meantime.

    Commands that start at the same time thus share one key.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    content = secrets.token_hex(_KEY_BYTES).encode() + b"\n"
    try:
        _write_exclusively(temporary, content)
        try:
            os.link(temporary, path)  # unlike a rename, it never replaces a key
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            with suppress(FileExistsError):
                _write_exclusively(path, content)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _write_exclusively(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
