"""Class scores of a model that was trained elsewhere: ``dataset=scores dataset.path=softmax.npz``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.data.files.npz import open_npz
from kdgraph.data.files.paths import existing, file_stem, said, sha256_of, suffix_of
from kdgraph.data.frames.roles import roles_of_column
from kdgraph.data.frames.wording import no_such_column, shortened
from kdgraph.errors import DataError, did_you_mean
from kdgraph.parameters import check_parameters

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from numpy.lib.npyio import NpzFile

ScoreKind = Literal["probabilities", "logits"]
SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may be from summing to 1, as three printed decimals are; it is divided by its sum."""


class ScoreFile:
    """Scores of K classes for each row, with the label, and nothing else of it: no features, so nothing is trained.

    Either a table (csv, tsv, parquet, ARFF) with a column for each class, named as the labels name it, in any order; or a .npz file with an
    array [n, K] whose column k is class k, and labels 0 to K - 1. A .npz file may hold such an array for each of many models:
    ``dataset.scores=model_17`` reads that one.

    Parameters
    ----------
    path : the file, relative to the working directory.
    target : column or array of the labels.
    scores : array of the scores in a .npz file; None: the only one of two dimensions. Of a table, all columns that nothing else names.
    kind : "probabilities", which are divided by their sum, or "logits", whose softmax is taken.
    split_column : column of a table, or array of words in a .npz file, that says calibration, test or unused.
    made_by : the command that makes the file, which is told where it is not there.
    name : what runs are called; None: the file's name without its ending.
    """

    def __init__(
        self,
        path: str,
        target: str = "label",
        scores: str | None = None,
        kind: ScoreKind = "probabilities",
        split_column: str | None = None,
        made_by: str | None = None,
        name: str | None = None,
    ) -> None:
        self.path = path
        self.target = target
        self.scores = scores
        self.kind: ScoreKind = kind
        self.split_column = split_column
        self.made_by = made_by
        self.name = file_stem(path) if name is None else name
        check_parameters(self)

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise before any run starts if the file is not there."""
        self._found()

    def load(self) -> Dataset:
        """All rows; X: Float64[n, K], class probabilities.

        Raises
        ------
        DataError
            In one line, if the file is not there or not what its ending says, a label has no score, or a row is no distribution.
        """
        from kdgraph.data.files.readers import SUFFIXES

        path = self._found()
        suffix = suffix_of(path, (".npz", *SUFFIXES))
        scores, y, classes, roles = self._from_arrays() if suffix == ".npz" else self._from_table()
        facts = {"source": "file", "path": self.path, "sha256": sha256_of(path), "n_rows": len(y), "kind": self.kind}
        X = self._probabilities(scores)
        return Dataset(self.name, X, y, classes, tuple(map(str, classes.tolist())), roles=roles, facts=facts, given_scores=True)

    def _found(self) -> Path:
        return existing(self.path, made_by=self.made_by)

    def _from_arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        scores, y, words = self._arrays()
        if scores.ndim != 2 or scores.dtype.kind != "f" or y.shape != scores.shape[:1]:
            shapes = f"{scores.shape} of {scores.dtype} and {y.shape}"
            raise DataError(f"{said(self.path)}: scores must be numbers [n, K] with a label for each row, got shapes {shapes}")
        if y.dtype.kind not in "iu" or y.min(initial=0) < 0 or y.max(initial=0) >= scores.shape[1]:
            rule = f"must hold the columns of the labels, 0 to {scores.shape[1] - 1}"
            found = f"{y.dtype} up to {y.max(initial=0)}" if y.dtype.kind in "iu" else str(y.dtype)
            raise DataError(f"{said(self.path)}: {self.target} {rule}, got {found}")
        return scores, y.astype(np.intp), np.arange(scores.shape[1]), None if words is None else self._roles_of_words(words, len(y))

    def _arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Scores, labels and the words of the split, and no other array of the file, which may have the scores of a thousand models."""
        with open_npz(self._found()) as found:
            wanted = self.scores or _only_matrix(found)
            for key, name in (("scores", wanted), ("target", self.target), ("split_column", self.split_column)):
                if name not in found.files and not (name is None and key == "split_column"):
                    known = did_you_mean(str(name), found.files, f"; it has {shortened(found.files, 10) or 'none'}")
                    what = "no array" if name is None else f"no array '{name}'"
                    raise DataError(f"{said(self.path)} has {what} (dataset.{key}){known}")
            words = None if self.split_column is None else found[self.split_column]
            return found[str(wanted)], found[self.target], words

    def _roles_of_words(self, words: np.ndarray, n: int) -> np.ndarray:
        from pandas import Series

        if words.shape != (n,) or words.dtype.kind not in "biufU":
            found = f"got {words.dtype} of shape {words.shape}"
            raise DataError(f"{said(self.path)}: {self.split_column} must have one word for each of {n} rows, {found}")
        return roles_of_column(self.name, Series(words, name=self.split_column), trains=False)

    def _from_table(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]:
        from kdgraph.data.files.readers import Format, read_table

        frame = read_table(self._found(), Format()).frame
        frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
        for key, column in (("target", self.target), ("split_column", self.split_column)):
            if column is not None and column not in frame.columns:
                raise no_such_column(self.name, key, column, list(frame.columns))
        labels = frame[self.target].astype(str)
        columns = [column for column in frame.columns if column not in (self.target, self.split_column)]
        are_numbers = all(column.isdigit() for column in columns)
        columns.sort(key=int if are_numbers else str)
        if unknown := sorted(set(labels) - set(columns)):
            raise DataError(f"{self.name}: no column has the scores of {shortened(unknown)}; name each column as its label")
        y = np.array([columns.index(label) for label in labels], dtype=np.intp)
        roles = None if self.split_column is None else roles_of_column(self.name, frame[self.split_column], trains=False)
        return self._numbers(frame[columns]), y, np.array(columns, dtype=int if are_numbers else str), roles

    def _numbers(self, frame: pd.DataFrame) -> np.ndarray:
        try:
            return frame.to_numpy(dtype=np.float64)
        except ValueError as error:
            raise DataError(f"{self.name}: a column of scores holds text ({error}); name only the target beside them") from error

    def _probabilities(self, scores: np.ndarray) -> np.ndarray:
        scores = scores.astype(np.float64)
        if len(bad := np.flatnonzero(~np.isfinite(scores).all(axis=1))):
            raise DataError(f"{self.name}: scores must be finite, row {bad[0]} is not ({len(bad)} such)")
        if self.kind == "logits":
            from scipy.special import softmax

            return softmax(scores, axis=1)
        sums = scores.sum(axis=1)
        if len(bad := np.flatnonzero((scores.min(axis=1) < 0) | (np.abs(sums - 1) > SUM_TOLERANCE))):
            found = f"row {bad[0]} has sum {sums[bad[0]]:g} and least score {scores[bad[0]].min():g} ({len(bad)} such)"
            raise DataError(f"{self.name}: probabilities must be at least 0 and sum to 1, {found}; if they are logits: dataset.kind=logits")
        return scores / sums[:, None]


def _only_matrix(found: NpzFile) -> str | None:
    """The name of the only array of two dimensions, or None."""
    matrices = [name for name in found.files if found[name].ndim == 2]
    return matrices[0] if len(matrices) == 1 else None
