"""The secret key that marks model files as this user's own.

Reading a model can run code of its maker's choosing, so a file is read without further ado only if
it carries a keyed digest (HMAC-SHA256, RFC 2104) that this user's key fits. The key is made on
first use, for this user alone; ``KDGRAPH_KEY_FILE`` names another one, such as a key that a group
or the nodes of a cluster without a common home share.
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

VARIABLE = "KDGRAPH_KEY_FILE"
"""The environment variable that names another file with a key."""
_BYTES = 32
_PURPOSE = b"kdgraph model file\0"
# A mode that lets every user of the machine read the key, or write one of their own.
_OPEN_TO_ALL = 0o006


class UnusableKey(UsageError):
    """The file that ``KDGRAPH_KEY_FILE`` names holds no key, is open to all, or cannot be made."""


@dataclass(frozen=True)
class Key:
    """A secret and where it is kept.

    Attributes
    ----------
    secret : 32 bytes.
    path : its file.
    problem : why ``path`` cannot be used, in words; the secret then ends with this process. Empty
        otherwise.
    """

    secret: bytes
    path: Path
    problem: str = ""

    def digest(self, content: bytes) -> str:
        """Return the HMAC-SHA256 of ``content``, 64 hexadecimal digits."""
        return hmac.digest(self.secret, _PURPOSE + content, "sha256").hex()

    def fits(self, content: bytes, digest: str) -> bool:
        """Return whether ``digest`` was made of ``content`` with this key; in constant time."""
        return hmac.compare_digest(self.digest(content).encode(), digest.encode())


def current_key() -> Key:
    """Return the key of this user, which is made if there is none.

    Where the user's own file cannot be used, such as on a read-only home, the key is random and
    ends with this process: a later one treats the files as another user's.

    Raises
    ------
    UnusableKey
        If ``KDGRAPH_KEY_FILE`` names a file that cannot be used.
    """
    variable = os.environ.get(VARIABLE)
    path = Path(variable).expanduser() if variable else _default_path()
    return _key_of(path.absolute(), bool(variable))


def _default_path() -> Path:
    """Return the file in the user's configuration folder.

    By the XDG Base Directory Specification, by which a relative folder counts as unset.
    """
    folder = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    if not folder.is_absolute():
        with suppress(RuntimeError):  # a user without a home
            folder = Path.home() / ".config"
    return folder / "kdgraph" / "model.key"


@cache  # a run verifies and signs a dozen files
def _key_of(path: Path, from_variable: bool) -> Key:
    try:
        return Key(_read_or_make(path), path)
    except (OSError, ValueError) as error:
        problem = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        if from_variable:
            way_out = "name a file that you can read and others cannot write, or unset the variable to use your own key"
            raise UnusableKey(f"{VARIABLE}={path}: {problem}; {way_out}") from error
        return Key(secrets.token_bytes(_BYTES), path, problem)


def _read_or_make(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        return _read(path)
    _make(path)
    return _read(path)


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        text = file.read(4 * _BYTES)
    if os.name == "posix" and mode & _OPEN_TO_ALL:
        raise ValueError(f"it is open to every user of this machine (mode {mode & 0o777:04o}; chmod o= {shlex.quote(str(path))})")
    try:
        secret = bytes.fromhex(text.decode("ascii"))
    except ValueError:
        secret = b""
    if len(secret) != _BYTES:
        raise ValueError(f"it holds no key ({2 * _BYTES} hexadecimal digits); remove it, and a new one is made")
    return secret


def _make(path: Path) -> None:
    """Write a new key as a whole, unless another process has written one meanwhile.

    So one key remains of many first commands at once.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    content = secrets.token_hex(_BYTES).encode() + b"\n"
    try:
        _write_new(temporary, content)
        try:
            os.link(temporary, path)  # unlike a rename, it never replaces a key
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            with suppress(FileExistsError):
                _write_new(path, content)
    finally:
        with suppress(OSError):
            temporary.unlink()


def _write_new(path: Path, content: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
