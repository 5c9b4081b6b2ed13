"""Kernels: functions that numba compiles once, and keeps in files where it can.

numba's own ``cache=True`` needs a folder to write to when a module is imported, and a readable file
whenever a kernel is called: without a home folder the import fails, and after a power cut that cut
one of its files short, so does every call. Here the files save time and nothing else. A kernel that
cannot be stored is compiled in memory, one that cannot be read is made again, and files in a folder
that is closed to this user (compiled while an image was built) are read. Original to kdgraph.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from numba import njit
from numba.core.caching import CompileResultCacheImpl, FunctionCache

CACHE_VARIABLE = "NUMBA_CACHE_DIR"
"""Variable of numba that names a folder for compiled kernels."""


def kernel(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return a decorator that compiles a function without Python objects and without the GIL.

    Parameters
    ----------
    **options
        Options of :func:`numba.njit` but ``cache`` and ``nogil``.

    Examples
    --------
    >>> @kernel(error_model="numpy")
    ... def ratio(a, b):
    ...     return a / b
    >>> ratio(1.0, 0.0)
    inf
    """

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher: Any = njit(nogil=True, **options)(function)
        if hasattr(dispatcher, "enable_caching"):  # else NUMBA_DISABLE_JIT is set
            # What enable_caching() does, with another cache; numba has no public way to choose one.
            dispatcher._cache = KernelCache(function)
        return dispatcher

    return compiled


@dataclass(frozen=True)
class KernelFolder:
    """Folder where numba keeps the kernels of a module.

    Attributes
    ----------
    path : Path or None
        The folder; None if there is none, so that each process compiles what it calls.
    is_writable : bool
        False if kernels in it are read, and others are compiled in each process.
    """

    path: Path | None
    is_writable: bool


def kernel_folder(compiled: Any) -> KernelFolder:
    """Return where a kernel is kept.

    Parameters
    ----------
    compiled : dispatcher
        A function that :func:`kernel` has decorated.

    Examples
    --------
    >>> from kdgraph.smoothing.neighbours import distances_to
    >>> kernel_folder(distances_to).is_writable
    True
    """
    kernels = getattr(compiled, "_cache", None)
    if not isinstance(kernels, KernelCache) or kernels.cache_path is None:
        return KernelFolder(None, is_writable=False)
    return KernelFolder(Path(kernels.cache_path), kernels.own is not None)


class KernelCache:
    """Files of one kernel: numba's, with every failure turned into a compilation in memory.

    It has the methods that numba calls on the ``FunctionCache`` in whose place it is.

    Parameters
    ----------
    function : callable
        The function before it is compiled.

    Attributes
    ----------
    own : FunctionCache or None
        Files in the first folder of numba that can be written to, if there is one.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self.own = _files(FunctionCache, function)

    @cached_property
    def closed(self) -> FunctionCache | None:
        """Files in a folder that numba would take before that of ``own`` if it were writable."""
        closed = _files(_ClosedFiles, self._function)
        return None if closed and self.own and closed.cache_path == self.own.cache_path else closed

    @property
    def cache_path(self) -> str | None:
        """The folder, as numba's statistics of a kernel have it."""
        files = self.own or self.closed
        return files and files.cache_path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the kernel for the types of its arguments, or None where no file has it."""
        own = _read(self.own, sig, target_context)
        return _read(self.closed, sig, target_context) if own is None else own

    def save_overload(self, sig: Any, data: Any) -> None:
        """Keep a kernel that was compiled, if there is a place for it."""
        if self.own is None:
            _note_compilation("no folder can be written to")
            return
        try:
            self.own.save_overload(sig, data)
        except OSError as error:
            _note_compilation(f"{self.own.cache_path}: {error.strerror or error}")
        except Exception:  # noqa: BLE001 - another process may have been cut short meanwhile
            with suppress(Exception):
                self.own.flush()
                self.own.save_overload(sig, data)

    def flush(self) -> None:
        """Forget the kernels in the files, as numba does before it compiles all of them again."""
        if self.own is not None:
            self.own.flush()


def _read(files: FunctionCache | None, sig: Any, target_context: Any) -> Any:
    if files is None:
        return None
    try:
        return files.load_overload(sig, target_context)
    # A file that was cut short: what unpickling raises depends on where it ends.
    except Exception:  # noqa: BLE001
        with suppress(OSError):  # closed to this user
            files.flush()
        return None


class _IsPresent:
    """Has numba take a folder that exists, whether it can be written to or not."""

    get_cache_path: Callable[[], str]

    def ensure_cache_path(self) -> None:
        if not os.path.isdir(self.get_cache_path()):
            raise FileNotFoundError(self.get_cache_path())


class _ClosedFilesImpl(CompileResultCacheImpl):
    # The first two are the folder that a variable names and that beside the source. The names of
    # the classes differ between versions of numba.
    _locator_classes = [  # noqa: RUF012 - as in numba
        type(locator.__name__, (_IsPresent, locator), {})
        for locator in CompileResultCacheImpl._locator_classes[:2]
    ]


class _ClosedFiles(FunctionCache):
    _impl_class = _ClosedFilesImpl


def _files(kind: type[FunctionCache], function: Callable[..., Any]) -> FunctionCache | None:
    try:
        return kind(function)
    except (RuntimeError, OSError):  # none of numba's folders will do
        return None


@cache  # once in a process
def _note_compilation(reason: str) -> None:
    """Log that this process compiles in memory; workers leave it to the process that started them.

    It is no warning: a stage keeps its warnings with its result, and the machine is no part of it.
    """
    if multiprocessing.current_process().name == "MainProcess":
        logging.getLogger("kdgraph").warning(
            "kdgraph: kernels are compiled in memory, anew in each process (%s); %s=DIR names a"
            " folder for them",
            reason,
            CACHE_VARIABLE,
        )
