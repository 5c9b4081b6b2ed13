"""The one way to openml.org: fetch into the cache what is not there, and say in one line why that
failed.

Everything that is there is read by :mod:`kdgraph.data.openml.cache`, so a cached data set needs no
network. openml-python's cache is not safe to be written by two processes: fetch before any worker
starts.

Folds that OpenML's tasks prescribe: which rows of a data set test, so that results can be set
beside others' on the same folds.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from xml.etree import ElementTree

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, UNUSED
from kdgraph.data.openml.cache import (
    OpenmlData,
    cache_folder,
    damaged_file_error,
    find_cached,
    import_openml,
    write_checksum,
)
from kdgraph.errors import DataError, NotAtHand

if TYPE_CHECKING:
    import pandas as pd


FetchProgress = Callable[[str], None]
"""Gets a line about what is going on."""

MAX_TRIES = 3
"""After a failure 1 and 2 s pass; openml-python's own 5 take 10 s."""
REQUEST_TIMEOUTS = (10, 60)
"""Seconds to connect, and between two pieces of an answer; openml-python would wait for ever."""

_UNKNOWN_ID_CODES = (111, 151)
"""openml.org's error codes for a data set and a task that it does not have."""
_CACHE_FOLDER_ADVICE = "point OPENML_CACHE_DIR at a folder that has it"
_RETRY_ADVICE = f"try again later, or {_CACHE_FOLDER_ADVICE}"


class NetworkState:
    """Whether openml.org may be asked, and why it was out of reach when this process last did; then
    it does not ask again.
    """

    allowed: bool = True
    failure: str | None = None
    status: int = 200
    """Of the last answer of HTTP: openml-python loses it where the answer is not its own XML."""


class _NotCached(NotAtHand):
    """What is not in the cache and was not asked for.

    Attributes
    ----------
    reason : why, in words that are the same for all that is missing.
    """

    def __init__(self, what: str, why: str, why_this: str | None = None) -> None:
        place = f"not in {cache_folder()}"
        self.reason = f"{place}; {why}"
        super().__init__(f"{what} is {place}; {why_this or why}")


def unavailability_reason(error: NotAtHand) -> str:
    """Why something is not at hand, without its name where that says the same of all others."""
    return error.reason if isinstance(error, _NotCached) else str(error)


@contextmanager
def offline() -> Iterator[None]:
    """Nothing is fetched: what is not in the cache is not at hand."""
    before, NetworkState.allowed = NetworkState.allowed, False
    try:
        yield
    finally:
        NetworkState.allowed = before


def fetch_dataset(id: int, progress: FetchProgress | None = None) -> OpenmlData:
    """The data set ``id``, from the cache or into it.

    Raises
    ------
    NotAtHand : in one line, if it is not there and cannot be fetched.
    DataError : if it is there and damaged.
    """
    found = find_cached(id)
    if found is None:
        what = f"data set {id}"
        with openml_session(what) as openml:
            if progress:
                progress(f"fetching OpenML {what}")
            openml.datasets.get_dataset(
                id, download_data=True, download_features_meta_data=True, download_qualities=False
            )
        found = find_cached(id)
        if found is None:
            raise NotAtHand(f"{_server_host()} gave no file for {what}; {_CACHE_FOLDER_ADVICE}")
        write_checksum(found)
    return found


@contextmanager
def openml_session(what: str) -> Iterator[Any]:
    """Openml, set to few tries, to silence and to time limits; its errors leave as one line about
    ``what``.
    """
    if not NetworkState.allowed:
        same_words = "'kdg data get' with the words of the run fetches it"
        kind, _, number = what.rpartition(" ")
        one = f"'kdg data get {number}' fetches it" if kind == "data set" else None
        raise _NotCached(what, same_words, one)
    if NetworkState.failure:
        raise _NotCached(what, NetworkState.failure)
    openml = import_openml()
    cache_folder()  # sets openml to the folder of the moment
    policy = openml.config.retry_policy, openml.config.connection_n_retries
    NetworkState.status = 200
    try:
        openml.config.set_retry_policy("human", MAX_TRIES)
        with _silence_logging(), _limit_request_time():
            yield openml
    except Exception as error:  # what a broken answer makes openml raise has no common type
        raise _fetch_error(what, error) from error
    finally:
        openml.config.set_retry_policy(*policy)


def _fetch_error(what: str, error: Exception) -> NotAtHand:
    """What a user should read instead of an error of openml or of what is below it."""
    import requests
    import urllib3
    from openml import exceptions

    host = _server_host()
    if isinstance(error, requests.exceptions.ConnectionError | urllib3.exceptions.HTTPError):
        NetworkState.failure = f"{host} cannot be reached ({_error_reason(error)}); {_RETRY_ADVICE}"
        return _NotCached(what, NetworkState.failure)
    if isinstance(error, exceptions.OpenMLHashException):
        return NotAtHand(
            f"what {host} sent for {what} does not have the checksum that it announced; {_RETRY_ADVICE}"
        )
    if isinstance(error, exceptions.OpenMLPrivateDatasetError):
        return NotAtHand(f"{what} of OpenML is private: only its owner can fetch it")
    if isinstance(error, exceptions.OpenMLServerException) and error.code in _UNKNOWN_ID_CODES:
        return NotAtHand(f"OpenML has no {what}; {host} lists what there is")
    if isinstance(error, exceptions.OpenMLCacheException | OSError) and not isinstance(
        error, requests.exceptions.RequestException
    ):
        reason = next(
            (
                text
                for each in (error, error.__cause__)
                if (text := getattr(each, "strerror", None))
            ),
            _error_reason(error),
        )
        way_out = "point OPENML_CACHE_DIR at a folder that can be written to"
        return NotAtHand(f"{what} cannot be written to {cache_folder()} ({reason}); {way_out}")
    return NotAtHand(f"{host} did not answer for {what} ({_error_reason(error)}); {_RETRY_ADVICE}")


def _server_host() -> str:
    return (urlparse(import_openml().config.server).hostname or "openml.org").removeprefix("www.")


def _error_reason(error: Exception) -> str:
    """A few words: the HTTP status, openml.org's own, or what the operating system says."""
    if code := getattr(error, "code", None):
        return (
            f"code {code}:"
            f" {' '.join(str(getattr(error, 'message', '')).split())[:80].removesuffix(' - None')}"
        )
    text = str(error)
    if NetworkState.status >= 500 or (NetworkState.status >= 400 and "Status code" in text):
        return str(NetworkState.status)
    if system := re.search(r"\[Errno -?\d+\] ([^'\")]+)", text):
        return system[1].strip()
    cause = " ".join(text.rpartition("Caused by ")[2].split())
    return (
        "no answer in time" if "timed out" in text.lower() else cause[:100] or type(error).__name__
    )


@contextmanager
def _silence_logging() -> Iterator[None]:
    """Nothing of openml's log: it tells of every answer that is not compressed, and would set up
    logging for the whole process.
    """
    root, handler, before = logging.getLogger(), logging.NullHandler(), logging.root.manager.disable
    root.addHandler(handler)
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)
        root.removeHandler(handler)


@contextmanager
def _limit_request_time() -> Iterator[None]:
    """Requests that end: openml makes sessions of its own, and gives them no limit."""
    import requests

    usual = requests.Session

    class Impatient(usual):
        def request(self, *args: Any, timeout: Any = None, **kwargs: Any) -> Any:
            answer = super().request(*args, timeout=timeout or REQUEST_TIMEOUTS, **kwargs)
            NetworkState.status = answer.status_code
            return answer

    requests.Session = Impatient  # type: ignore[misc]
    try:
        yield
    finally:
        requests.Session = usual  # type: ignore[misc]


def fetch_task(task_id: int, progress: FetchProgress | None = None) -> Path:
    """The folder of a task's description and folds, in the cache; fetched into it if they are not
    there.

    Raises
    ------
    NotAtHand : in one line, if it is not there and cannot be fetched.
    """
    folder = cache_folder() / "tasks" / str(task_id)
    if not ((folder / "task.xml").is_file() and (folder / "datasplits.arff").is_file()):
        with openml_session(f"task {task_id}") as openml:
            if progress:
                progress(f"fetching OpenML task {task_id}")
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", ResourceWarning
                )  # it does not close the file of the folds
                openml.tasks.get_task(task_id, download_splits=True)
    return folder


def read_fold(
    task_id: int, fold: int, dataset_id: int, n_rows: int
) -> tuple[np.ndarray, dict[str, Any]]:
    """Roles of the rows in one fold of the task's first repetition, and what the record says of it.

    Returns
    -------
    roles : Int8[n_rows], TRAIN or TEST; UNUSED where the task has no role for a row.
    facts : the task and the fold.

    Raises
    ------
    DataError : if the task is of another data set, or has no such fold.
    """
    folder = fetch_task(task_id)
    of = _read_task_dataset_id(folder / "task.xml")
    if of != dataset_id:
        raise DataError(
            f"task {task_id} of OpenML is of data set {of}, not of {dataset_id}; give a task of"
            f" {dataset_id}"
        )
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


def _read_task_dataset_id(path: Path) -> int:
    try:
        found = ElementTree.parse(path).findtext(".//{http://openml.org/openml}data_set_id")
        return int(found or "")
    except (ElementTree.ParseError, OSError, ValueError) as error:
        raise damaged_file_error(path, error) from error


def _read_splits(path: Path) -> pd.DataFrame:
    """The rows of the ARFF file, with columns type, rowid, repeat and fold; a task of 70,000 rows
    has 700,000 of them.
    """
    import pandas as pd

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
