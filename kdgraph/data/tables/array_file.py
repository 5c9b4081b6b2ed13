"""Arrays of the user's own: ``dataset=arrays dataset.path=my.npz``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, Dataset, Task
from kdgraph.data.files.npz import open_npz
from kdgraph.data.files.paths import existing, file_stem, said, sha256_of
from kdgraph.data.frames.cautions import warn_of_constant_columns, warn_of_copies
from kdgraph.errors import DataError, did_you_mean
from kdgraph.parameters import check_parameters

KNOWN = ("X", "y", "X_test", "y_test", "groups", "split_groups", "feature_names")


class ArrayFile:
    """Arrays in one .npz file: ``X`` and ``y``; if it has them ``X_test`` and ``y_test``, ``groups``, ``split_groups``, ``feature_names``.

    X is [n, d], or images [n, c, h, w], channel first, in [0, 1]; images of uint8 are divided by 255. Where X_test and y_test are there,
    their rows test, all others train. ``groups``, to be measured apart, and ``split_groups``, whose rows stay together in a split, have one
    entry for each row of X, then of X_test.

    Parameters
    ----------
    path : the file, relative to the working directory.
    task : what y is; auto decides by its values, see :func:`kdgraph.data.frames.targets.task_of`.
    name : what runs are called; None: the file's name without its ending.
    """

    def __init__(self, path: str, task: Task = "auto", name: str | None = None) -> None:
        self.path = path
        self.task: Task = task
        self.name = file_stem(path) if name is None else name
        check_parameters(self)

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise before any run starts if the file is not there."""
        existing(self.path)

    def load(self) -> Dataset:
        """All rows, those for test last.

        Raises
        ------
        DataError
            In one line, if the file is not there or no .npz, or an array is missing or does not fit the others.
        """
        from pandas import Series

        from kdgraph.data.frames.features import check_numbers
        from kdgraph.data.frames.row_numbers import warn_of_counting
        from kdgraph.data.frames.targets import encode_target, facts_of_task

        path = existing(self.path)
        arrays = self._arrays(path)
        X, labels, roles = self._rows(arrays)
        y, classes, task = encode_target(self.name, Series(labels, name="y"), self.task)
        names = self._feature_names(arrays, X)
        if X.ndim == 2:
            check_numbers(self.name, X, names)
            warn_of_constant_columns(self.name, X, names)
            warn_of_counting(self.name, X, names)
            warn_of_copies(self.name, X)
        facts = {"source": "file", "path": self.path, "sha256": sha256_of(path), "shape": list(X.shape)}
        facts |= facts_of_task(y, self.task, task)
        together, _ = self._groups(arrays, "split_groups", len(y))
        groups, of = self._groups(arrays, "groups", len(y))
        return Dataset(
            self.name, X, y, classes, names, task, split_groups=together, roles=roles, facts=facts, groups=groups, group_names=of
        )

    def _arrays(self, path: Path) -> dict[str, np.ndarray]:
        with open_npz(path) as found:
            if unknown := [name for name in found.files if name not in KNOWN]:
                hint = did_you_mean(unknown[0], KNOWN, f"; known: {', '.join(KNOWN)}")
                raise DataError(f"{said(path)} has an array '{unknown[0]}' that nothing reads{hint}")
            return {name: found[name] for name in found.files}

    def _rows(self, arrays: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """X, y and roles of all rows."""
        for name in ("X", "y"):
            if name not in arrays:
                raise DataError(f"{said(self.path)} has no array '{name}'; it has {', '.join(arrays) or 'none'}")
        X, y = self._part(arrays, "X", "y")
        if "X_test" not in arrays and "y_test" not in arrays:
            return X, y, None
        if "X_test" not in arrays or "y_test" not in arrays:
            raise DataError(f"{said(self.path)} has only one of X_test and y_test; give both or neither")
        X_test, y_test = self._part(arrays, "X_test", "y_test")
        if X.shape[1:] != X_test.shape[1:]:
            raise DataError(f"{said(self.path)}: a row of X has shape {X.shape[1:]}, one of X_test {X_test.shape[1:]}; make them equal")
        roles = np.repeat(np.array([TRAIN, TEST], dtype=np.int8), [len(y), len(y_test)])
        return np.concatenate([X, X_test]), _joined(y, y_test), roles

    def _part(self, arrays: Mapping[str, np.ndarray], rows: str, labels: str) -> tuple[np.ndarray, np.ndarray]:
        """Float64[n, d] or Float32[n, c, h, w], and the labels [n]."""
        from kdgraph.data.frames.numbers import check_not_merged

        X, y = arrays[rows], arrays[labels]
        if X.ndim not in (2, 4) or 0 in X.shape:
            way_out = f"; {rows}[:, None] makes images of one channel" if X.ndim == 3 else ""
            raise DataError(f"{said(self.path)}: {rows} must be [n, d] or images [n, c, h, w], got shape {X.shape}{way_out}")
        if X.dtype.kind not in "biuf":
            raise DataError(f"{said(self.path)}: {rows} must hold numbers, got {X.dtype}; a table with text is for dataset=table")
        if y.shape != X.shape[:1]:
            raise DataError(f"{said(self.path)}: {labels} must have one label for each of {len(X)} rows of {rows}, got shape {y.shape}")
        if y.dtype.kind not in "biufU":
            raise DataError(f"{said(self.path)}: {labels} must hold numbers or text, got {y.dtype}")
        if X.ndim == 2:
            names = self._feature_names(arrays, X)
            for j in range(X.shape[1] if X.dtype.kind in "iu" else 0):
                check_not_merged(f"{self.name}: column '{names[j]}' of {rows}", X[:, j], f"leave it out of {rows}")
            return X.astype(np.float64), y
        return X.astype(np.float32) / np.float32(255 if X.dtype == np.uint8 else 1), y

    def _feature_names(self, arrays: Mapping[str, np.ndarray], X: np.ndarray) -> tuple[str, ...]:
        if X.ndim == 4:
            return ()
        given = arrays.get("feature_names")
        if given is None:
            return tuple(f"x{i + 1}" for i in range(X.shape[1]))
        if given.shape != (X.shape[1],):
            raise DataError(f"{said(self.path)}: feature_names must be {X.shape[1]} names, got shape {given.shape}")
        return tuple(str(name) for name in given)

    def _groups(self, arrays: Mapping[str, np.ndarray], array: str, n: int) -> tuple[np.ndarray | None, tuple[str, ...]]:
        """Int[n], positions in the names, and the names; None and no names without that array."""
        from pandas import Series

        from kdgraph.data.frames.groups import groups_of_values

        if array not in arrays:
            return None, ()
        if arrays[array].shape != (n,):
            raise DataError(f"{said(self.path)}: {array} must have one entry for each of {n} rows, got shape {arrays[array].shape}")
        return groups_of_values(self.name, array, Series(arrays[array]))


def _joined(y: np.ndarray, y_test: np.ndarray) -> np.ndarray:
    """Labels [n] and [m] as [n + m]; integers of several types stay integers."""
    from kdgraph.data.frames.numbers import label_array

    if y.dtype.kind in "iu" and y_test.dtype.kind in "iu":
        return label_array([*y.tolist(), *y_test.tolist()])
    return np.concatenate([y, y_test])
