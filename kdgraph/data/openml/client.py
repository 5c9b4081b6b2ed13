"""Client for openml.org: data sets, and tasks whose folds prescribe the test rows of a data set.

Only this module uses the network. It fetches into the cache what is missing, and reduces the errors
of openml-python to one line.

openml-python deletes the whole folder of a data set, or of a task, if it cannot fetch a part of it:
without a network the rows on a disk would be lost with the description that was requested. So it
fetches into a folder of its own, from which complete fetches are moved into the cache.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from xml.etree import ElementTree

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, UNUSED
from kdgraph.data.openml.cache import (
    FETCHES,
    OpenmlData,
    cache_folder,
    damaged_file_error,
    find_cached,
    import_openml,
    openml_folders,
    write_checksum,
)
from kdgraph.errors import DataError, DataNotAvailable

if TYPE_CHECKING:
    import pandas as pd


FetchProgress = Callable[[str], None]
"""Function that is called with one line of text at each step."""

MAX_TRIES = 3
"""Number of tries for a request.

The pauses between them last 1 and 2 s; with the 5 tries of openml-python they last 10 s.
"""
REQUEST_TIMEOUTS = (10, 60)
"""Seconds to wait for a connection, and between two pieces of a response.

openml-python sets no limit.
"""

_UNKNOWN_ID_CODES = (111, 151)
"""Error codes of openml.org for a data set and for a task that do not exist."""
_FETCH_PREFIX, _LOCK = ".fetch-", "lock"
"""Beginning of the name of the folder of a fetch, in the cache; and the file in it that is locked.
"""
_CACHE_FOLDER_ADVICE = "point OPENML_CACHE_DIR at a folder that has it"
_RETRY_ADVICE = f"try again later, or {_CACHE_FOLDER_ADVICE}"


class NetworkState:
    """State of the connection to openml.org, shared by the whole process."""

    allowed: bool = True
    failure: str | None = None
    """Reason why the last request did not reach the server; then no more requests are sent."""
    status: int = 200
    """HTTP status of the last response, which openml-python loses if it is not its XML."""


class _NotCached(DataNotAvailable):
    """Error for data that are not in the cache and could not be requested.

    ``reason`` is the same text for all missing data.
    """

    def __init__(self, item: str, reason: str, specific_reason: str | None = None) -> None:
        place = f"not in {cache_folder()}"
        self.reason = f"{place}; {reason}"
        super().__init__(f"{item} is {place}; {specific_reason or reason}")


def unavailability_reason(error: DataNotAvailable) -> str:
    """Return the reason why data are not at hand.

    The name of the data is omitted if the same reason holds for all other missing data.
    """
    return error.reason if isinstance(error, _NotCached) else str(error)


@contextmanager
def offline() -> Iterator[None]:
    """Forbid requests to openml.org within a ``with`` block.

    Data that are not in the cache raise DataNotAvailable there.
    """
    previously_allowed, NetworkState.allowed = NetworkState.allowed, False
    try:
        yield
    finally:
        NetworkState.allowed = previously_allowed


def fetch_dataset(id: int, progress: FetchProgress | None = None) -> OpenmlData:
    """Return a data set from the cache, after fetching it if necessary."""
    if (data := find_cached(id)) is not None:
        return data
    item = f"data set {id}"
    with openml_session(item, f"datasets/{id}/*") as openml:
        if progress:
            progress(f"fetching OpenML {item}")
        # Qualities are not requested: no run needs them, and the fetch fails if one request does.
        openml.datasets.get_dataset(
            id, download_data=True, download_features_meta_data=True, download_qualities=False
        )
    if (data := find_cached(id)) is None:
        raise DataNotAvailable(f"{_server_host()} gave no file for {item}; {_CACHE_FOLDER_ADVICE}")
    write_checksum(data)
    return data


@contextmanager
def openml_session(item: str, *present: str) -> Iterator[Any]:
    """Provide the package openml with few tries, no log output and time limits.

    What it writes is moved into the cache at the end of the block, unless the block raises. Files
    in the cache that match the patterns ``present`` are not fetched again. Any error in the block
    becomes DataNotAvailable with one line about ``item``.
    """
    if not NetworkState.allowed:
        general_advice = "'kdg data get' with the words of the run fetches it"
        kind, _, number = item.rpartition(" ")
        specific_advice = f"'kdg data get {number}' fetches it" if kind == "data set" else None
        raise _NotCached(item, general_advice, specific_advice)
    if NetworkState.failure:
        raise _NotCached(item, NetworkState.failure)
    openml = import_openml()
    policy = openml.config.retry_policy, openml.config.connection_n_retries
    NetworkState.status = 200
    try:
        openml.config.set_retry_policy("human", MAX_TRIES)
        with _silence_logging(), _limit_request_time(), _fetch_folder(present):
            yield openml
    # openml parses a response here too, so its errors have no common type: PyOpenMLError; errors of
    # requests, urllib3, minio and expat; OSError for the cache; and for a well-formed response with
    # other elements KeyError, TypeError, ValueError or AttributeError. A list of these would be as
    # broad, and incomplete after the next release. The original error remains as the cause.
    except Exception as error:
        raise _fetch_error(item, error) from error
    finally:
        openml.config.set_retry_policy(*policy)


def _fetch_error(item: str, error: Exception) -> DataNotAvailable:
    import requests
    import urllib3
    from openml import exceptions

    # The order matters: requests' errors are OSErrors too, and without a connection every further
    # request would wait for its time limit, so the failure is remembered for the process.
    host = _server_host()
    if isinstance(error, requests.exceptions.ConnectionError | urllib3.exceptions.HTTPError):
        NetworkState.failure = f"{host} cannot be reached ({_error_reason(error)}); {_RETRY_ADVICE}"
        return _NotCached(item, NetworkState.failure)
    if isinstance(error, exceptions.OpenMLHashException):
        return DataNotAvailable(
            f"what {host} sent for {item} does not have the checksum that it announced;"
            f" {_RETRY_ADVICE}"
        )
    if isinstance(error, exceptions.OpenMLPrivateDatasetError):
        return DataNotAvailable(f"{item} of OpenML is private: only its owner can fetch it")
    if isinstance(error, exceptions.OpenMLServerException) and error.code in _UNKNOWN_ID_CODES:
        return DataNotAvailable(f"OpenML has no {item}; {host} lists what there is")
    if isinstance(error, exceptions.OpenMLCacheException | OSError) and not isinstance(
        error, requests.exceptions.RequestException
    ):
        texts = (getattr(cause, "strerror", None) for cause in (error, error.__cause__))
        reason = next((text for text in texts if text), _error_reason(error))
        return DataNotAvailable(
            f"{item} cannot be written to {cache_folder()} ({reason}); point OPENML_CACHE_DIR at a"
            " folder that can be written to"
        )
    return DataNotAvailable(
        f"{host} did not answer for {item} ({_error_reason(error)}); {_RETRY_ADVICE}"
    )


@contextmanager
def _fetch_folder(present: Iterable[str]) -> Iterator[None]:
    """Have openml use a folder of its own, whose new files are moved into the cache in the end.

    A file that is locked while the block runs marks the folder; without the lock, the process that
    made it was killed, and the next fetch removes it.
    """
    openml, cache = import_openml(), cache_folder()
    cache.mkdir(parents=True, exist_ok=True)
    _remove_abandoned(cache)
    root, below = openml_folders()
    with (
        TemporaryDirectory(prefix=_FETCH_PREFIX, dir=cache) as name,
        Path(name, _LOCK).open("w") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        folder = Path(name) / below
        for path in (path for pattern in present for path in cache.glob(pattern)):
            copy = folder / path.relative_to(cache)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)  # with its time, by which it is found unchanged
        openml.config.set_root_cache_directory(Path(name))
        FETCHES.append(folder)
        try:
            yield
        finally:
            FETCHES.remove(folder)
            openml.config.set_root_cache_directory(root)
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            _move_new(path, cache / path.relative_to(folder))


def _move_new(path: Path, target: Path) -> None:
    """Move a file into the cache, unless it is a copy of what is there."""
    new = path.stat()
    if target.is_file():
        old = target.stat()
        if (new.st_size, new.st_mtime_ns) == (old.st_size, old.st_mtime_ns):
            return
    target.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, target)


def _remove_abandoned(cache: Path) -> None:
    for lock_file in cache.glob(f"{_FETCH_PREFIX}*/{_LOCK}"):
        with suppress(OSError), lock_file.open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock_file.parent)


def _server_host() -> str:
    return (urlparse(import_openml().config.server).hostname or "openml.org").removeprefix("www.")


def _error_reason(error: Exception) -> str:
    if code := getattr(error, "code", None):
        message = " ".join(str(getattr(error, "message", "")).split())[:80]
        return f"code {code}: {message.removesuffix(' - None')}"
    text = str(error)
    if NetworkState.status >= 500 or (NetworkState.status >= 400 and "Status code" in text):
        return str(NetworkState.status)
    if system := re.search(r"\[Errno -?\d+\] ([^'\")]+)", text):
        return system[1].strip()
    if "timed out" in text.lower():
        return "no answer in time"
    cause = " ".join(text.rpartition("Caused by ")[2].split())
    return cause[:100] or type(error).__name__


@contextmanager
def _silence_logging() -> Iterator[None]:
    """Suppress log messages within a ``with`` block.

    openml logs every response that is not compressed, and it would configure logging for the whole
    process.
    """
    # Python configures logging only if the root logger has no handler, so a silent one is added.
    root, handler = logging.getLogger(), logging.NullHandler()
    previous_level = logging.root.manager.disable
    root.addHandler(handler)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(previous_level)
        root.removeHandler(handler)


@contextmanager
def _limit_request_time() -> Iterator[None]:
    """Set time limits for requests within a ``with`` block.

    openml creates its own sessions and sets no limit for them.
    """
    import requests

    original = requests.Session

    # openml gives no access to its sessions, so the class that it creates is replaced for a while.
    class TimeLimitedSession(original):
        def request(self, *args: Any, timeout: Any = None, **kwargs: Any) -> Any:
            response = super().request(*args, timeout=timeout or REQUEST_TIMEOUTS, **kwargs)
            NetworkState.status = response.status_code
            return response

    requests.Session = TimeLimitedSession  # type: ignore[misc]
    try:
        yield
    finally:
        requests.Session = original  # type: ignore[misc]


def fetch_task(task_id: int, dataset_id: int, progress: FetchProgress | None = None) -> Path:
    """Return the cache folder of a task's description and folds, after fetching if necessary.

    openml reads the description of the task's data set too.
    """
    folder = cache_folder() / "tasks" / str(task_id)
    if not ((folder / "task.xml").is_file() and (folder / "datasplits.arff").is_file()):
        present = f"tasks/{task_id}/*", f"datasets/{dataset_id}/*.xml"
        with openml_session(f"task {task_id}", *present) as openml:
            if progress:
                progress(f"fetching OpenML task {task_id}")
            with warnings.catch_warnings():
                # openml does not close the file of the folds.
                warnings.simplefilter("ignore", ResourceWarning)
                openml.tasks.get_task(task_id, download_splits=True)
    return folder


def read_fold(
    task_id: int, fold: int, dataset_id: int, n_rows: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the roles of the rows, Int8[n_rows], in one fold of a task's first repetition.

    A row without a role in the task is UNUSED. The facts for the record are task, fold and number
    of folds.
    """
    folder = fetch_task(task_id, dataset_id)
    task_file = folder / "task.xml"
    try:
        text = ElementTree.parse(task_file).findtext(".//{http://openml.org/openml}data_set_id")
        task_dataset_id = int(text or "")
    except (ElementTree.ParseError, OSError, ValueError) as error:
        raise damaged_file_error(task_file, error) from error
    if task_dataset_id != dataset_id:
        raise DataError(
            f"task {task_id} of OpenML is of data set {task_dataset_id}, not of {dataset_id};"
            f" give a task of {dataset_id}"
        )
    # A task may repeat its folds with other divisions; only the first repetition is used.
    rows = _read_splits(folder / "datasplits.arff")
    rows = rows[rows["repeat"] == 0]
    n_folds = int(rows["fold"].max()) + 1
    if fold >= n_folds:
        raise DataError(f"task {task_id} of OpenML has folds 0 to {n_folds - 1}, got {fold}")
    rows = rows[rows["fold"] == fold]
    if rows["rowid"].max() >= n_rows:
        raise damaged_file_error(
            folder / "datasplits.arff",
            f"it names row {rows['rowid'].max()} of a data set of {n_rows} rows",
        )
    roles = np.full(n_rows, UNUSED, dtype=np.int8)
    roles[rows["rowid"].to_numpy()] = np.where(rows["type"] == "TEST", TEST, TRAIN)
    return roles, {"task": task_id, "fold": fold, "folds": n_folds}


def _read_splits(path: Path) -> pd.DataFrame:
    """Read the rows of the ARFF file, with columns type, rowid, repeat and fold.

    A task on 70,000 rows has 700,000 of them.
    """
    import pandas as pd

    # The cells are plain, so pandas can read them. liac-arff would parse each row in Python.
    header = []
    try:
        with path.open(encoding="utf-8") as file:
            for line in file:
                words = line.split()
                if words and words[0].lower() == "@data":
                    break
                if words and words[0].lower() == "@attribute":
                    header.append(words[1].strip("'\""))
            rows = pd.read_csv(file, names=header, comment="%", skipinitialspace=True)
        return rows[["type", "rowid", "repeat", "fold"]].astype(
            {"rowid": int, "repeat": int, "fold": int}
        )
    except (OSError, ValueError, KeyError) as error:
        raise damaged_file_error(path, error) from error
