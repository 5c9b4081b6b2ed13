"""Folds that OpenML's tasks prescribe: which rows of a data set test, so that results can be set beside others' on the same folds."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, UNUSED
from kdgraph.data.openml.cache import cache_folder, damaged
from kdgraph.data.openml.client import asking
from kdgraph.errors import DataError

if TYPE_CHECKING:
    import pandas as pd

    from kdgraph.data.openml.client import Progress


def fetch_task(task_id: int, progress: Progress | None = None) -> Path:
    """The folder of a task's description and folds, in the cache; fetched into it if they are not there.

    Raises
    ------
    NotAtHand : in one line, if it is not there and cannot be fetched.
    """
    folder = cache_folder() / "tasks" / str(task_id)
    if not ((folder / "task.xml").is_file() and (folder / "datasplits.arff").is_file()):
        with asking(f"task {task_id}") as openml:
            if progress:
                progress(f"fetching OpenML task {task_id}")
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ResourceWarning)  # it does not close the file of the folds
                openml.tasks.get_task(task_id, download_splits=True)
    return folder


def read_fold(task_id: int, fold: int, dataset_id: int, n_rows: int) -> tuple[np.ndarray, dict[str, Any]]:
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
    of = _dataset_of(folder / "task.xml")
    if of != dataset_id:
        raise DataError(f"task {task_id} of OpenML is of data set {of}, not of {dataset_id}; give a task of {dataset_id}")
    rows = _read_splits(folder / "datasplits.arff")
    rows = rows[rows["repeat"] == 0]
    n_folds = int(rows["fold"].max()) + 1
    if fold >= n_folds:
        raise DataError(f"task {task_id} of OpenML has folds 0 to {n_folds - 1}, got {fold}")
    rows = rows[rows["fold"] == fold]
    if rows["rowid"].max() >= n_rows:
        raise damaged(folder / "datasplits.arff", f"it names row {rows['rowid'].max()} of a data set of {n_rows} rows")
    roles = np.full(n_rows, UNUSED, dtype=np.int8)
    roles[rows["rowid"].to_numpy()] = np.where(rows["type"] == "TEST", TEST, TRAIN)
    return roles, {"task": task_id, "fold": fold, "folds": n_folds}


def _dataset_of(path: Path) -> int:
    try:
        found = ElementTree.parse(path).findtext(".//{http://openml.org/openml}data_set_id")
        return int(found or "")
    except (ElementTree.ParseError, OSError, ValueError) as error:
        raise damaged(path, error) from error


def _read_splits(path: Path) -> pd.DataFrame:
    """The rows of the ARFF file, with columns type, rowid, repeat and fold; a task of 70,000 rows has 700,000 of them."""
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
        return rows[["type", "rowid", "repeat", "fold"]].astype({"rowid": int, "repeat": int, "fold": int})
    except (OSError, ValueError, KeyError) as error:
        raise damaged(path, error) from error
