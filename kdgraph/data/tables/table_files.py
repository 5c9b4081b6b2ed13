"""Data sets from files of the user: ``dataset=table`` for tables and ``dataset=arrays`` for arrays.

For example ``dataset=table dataset.path=my.csv dataset.target=label``, or ``dataset=arrays
dataset.path=my.npz``.
"""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from kdgraph.data.dataset import TEST, TRAIN, Dataset, TaskSetting
from kdgraph.data.files.arrays import open_npz
from kdgraph.data.files.file_source import FileSource, TextSource
from kdgraph.data.files.paths import (
    checked_suffix,
    files_below,
    path_argument,
    resolve_existing,
    single_file,
)
from kdgraph.data.frames import ColumnName, ColumnOptions, column_names, from_frame, stringify_names
from kdgraph.data.frames.messages import warn_constant_columns, warn_duplicate_rows
from kdgraph.data.frames.roles import roles_from_indices
from kdgraph.data.source import numbered_names
from kdgraph.data.text_format import TextFormat
from kdgraph.errors import DataError, did_you_mean

if TYPE_CHECKING:
    from kdgraph.data.files.arrow import ParquetNumbers


@dataclass(eq=False, repr=False)
class TableFile(TextSource, ColumnOptions):
    """Table in a file of the user, by its ending.

    Text in csv and tsv files, and in JSON lines (.jsonl, .ndjson), which may be compressed (.gz,
    .bz2, .xz, .zip); parquet and feather files, and folders of parquet files; spreadsheets (.xlsx)
    and ARFF files.

    Cells are read as ``pandas.read_csv`` and ``read_parquet`` read them, to the bit. In text files
    the empty cell, NA, NaN, None, null and what else pandas takes for missing are missing;
    ``missing`` adds others, and ``not_missing`` takes some out. A first column without a name that
    numbers the rows is left out. A named index in a parquet file is a column. Nominal attributes in
    an ARFF file are categorical.

    Parameters
    ----------
    target : str or sequence of str
        Column of the labels; or several of numbers or truth values, of which the largest counts.
    decimal : {".", ","}, default="."
        Sign before the decimals of a number in text files.
    skip_spaces : bool, default=False
        True leaves out spaces behind the separators of a text file.
    not_missing : sequence of str, default=()
        Cells of text files that are values, although pandas takes them for missing: ``["NA"]``.
    indices : str or None, default=None
        A .json or .npz file with row numbers from 0 for each role: train, test and optionally
        calibration. Other rows are unused.

    Raises
    ------
    DataError
        If ``indices`` and ``split_column`` are both given, or encoding or separator are invalid.

    Examples
    --------
    >>> TableFile("data/my.csv", target="label").name
    'my'
    """

    file_parameters: ClassVar = {"path": files_below, "indices": single_file}

    target: ColumnName | Sequence[ColumnName]
    decimal: Literal[".", ","] = field(default=".", kw_only=True)
    skip_spaces: bool = field(default=False, kw_only=True)
    not_missing: Sequence[str] = field(default=(), kw_only=True)
    indices: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.indices is not None and self.split_column is not None:
            raise DataError(
                "dataset.indices and dataset.split_column both define which rows test; give one of"
                " them"
            )

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise before any run starts if a file is missing or ``require`` excludes the table."""
        super().prefetch(progress)
        if self.indices is not None:
            resolve_existing(self.indices, "indices")
        if self.require != "any":
            with warnings.catch_warnings():
                # The run that reads the table again shows the warnings.
                warnings.simplefilter("ignore")
                self.load()

    def load(self) -> Dataset:
        """Return the whole table."""
        from kdgraph.data.files.parsed_table import ParsedTable
        from kdgraph.data.files.tables import read_table

        path = self._existing_path()
        numbers = self._number_columns(path)
        if numbers is None:
            parsed = read_table(path, self._text_format())
        else:
            parsed = ParsedTable(numbers.read_others())
        n_columns = parsed.frame.shape[1] + (0 if numbers is None else len(numbers.names))
        facts = self._file_facts(path) | {"n_rows": len(parsed.frame), "n_columns": n_columns}
        data = from_frame(
            self.name,
            parsed.frame,
            stringify_names(self.target),
            options=self,
            facts=facts,
            feature_kinds=parsed.kinds,
            types=parsed.types,
            numbers=numbers,
        )
        if self.indices is None:
            return data
        roles = roles_from_indices(self.name, len(data.y), _read_indices(self.indices))
        return replace(data, roles=roles)

    def _number_columns(self, path: Path) -> ParquetNumbers | None:
        """Return the columns of a large parquet file that are read in blocks, or None."""
        if path.suffix.lower() not in (".parquet", ".pq"):
            return None
        from kdgraph.data.files.arrow import ParquetNumbers
        from kdgraph.data.frames.features import may_be_row_index

        named = [self.target, self.group, self.split_groups, self.split_column, self.drop]
        named += [self.categorical, self.parse_dates]
        others = {name for names in named for name in column_names(names)}
        numbers = ParquetNumbers(path, others, may_be_row_index)
        return numbers if numbers.is_large and numbers.names else None

    def _text_format(self) -> TextFormat:
        # If one of these keys lists several columns, they contain numbers and not names.
        name_columns = (self.target, self.split_groups, self.group)
        identifiers = [name for name in name_columns if isinstance(name, str)]
        return TextFormat(
            self.encoding,
            self.separator,
            self.decimal,
            self.skip_spaces,
            self.not_missing,
            [*identifiers, *column_names(self.categorical)],
        )


def _read_indices(file_name: str) -> Mapping[str, Any]:
    """Return row numbers by role from a .json file with lists, or a .npz file with arrays."""
    path = resolve_existing(file_name, "indices")
    suffix = checked_suffix(path, (".json", ".npz"), "indices")
    try:
        if suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        content = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(
            f"{path_argument(file_name, 'indices')} is not a {suffix[1:]} file with lists of row"
            f" numbers: {error}"
        ) from error
    if not isinstance(content, dict):
        raise DataError(
            f"{path_argument(file_name, 'indices')} must be like"
            f' {{"train": [0, 1], "test": [2]}}, got {type(content).__name__}'
        )
    return content


_ARRAY_NAMES = ("X", "y", "X_test", "y_test", "groups", "split_groups", "feature_names")


@dataclass(eq=False, repr=False)
class ArrayFile(FileSource):
    """Arrays in one .npz file: ``X`` and ``y``, and optional ones.

    The optional arrays are ``X_test`` and ``y_test``, ``groups``, ``split_groups`` and
    ``feature_names``. X is [n, d], or images [n, c, h, w], channel first, in [0, 1]; images of type
    uint8 are divided by 255. If X_test and y_test exist, their rows test and all others train.
    ``groups``, for metrics by group, and ``split_groups``, whose rows stay together in a split,
    have one entry for each row of X, then of X_test.

    Parameters
    ----------
    task : TaskSetting, default="auto"
        Type of y. ``auto`` infers it, see :func:`kdgraph.data.frames.targets.infer_task`.

    Examples
    --------
    >>> ArrayFile("data/my.npz").name
    'my'
    """

    task: TaskSetting = "auto"

    def load(self) -> Dataset:
        """Return all rows, Float64[n, d] or images Float32[n, c, h, w], those for testing last."""
        from pandas import Series

        from kdgraph.data.frames.features import check_numeric_features, warn_row_numbering
        from kdgraph.data.frames.targets import encode_target, task_facts

        path = self._existing_path()
        arrays = self._arrays(path)
        # Arrays have no options for columns, so only the checks of a table apply, not from_frame.
        X, labels, roles = self._rows(arrays)
        y, classes, task = encode_target(self.name, Series(labels, name="y"), self.task)
        names = self._feature_names(arrays, X)
        if X.ndim == 2:
            check_numeric_features(self.name, X, names)
            warn_constant_columns(self.name, X, names)
            if len(names) > 1:
                warn_row_numbering(self.name, X, names)
            warn_duplicate_rows(self.name, X)
        facts = {**self._file_facts(path), "shape": list(X.shape)}
        facts |= task_facts(y, self.task, task)
        split_groups, _ = self._groups(arrays, "split_groups", len(y))
        groups, group_names = self._groups(arrays, "groups", len(y))
        return Dataset(
            self.name,
            X,
            y,
            classes,
            names,
            task,
            split_groups=split_groups,
            roles=roles,
            facts=facts,
            groups=groups,
            group_names=group_names,
        )

    def _arrays(self, path: Path) -> dict[str, np.ndarray]:
        with open_npz(path) as archive:
            unknown = next((name for name in archive.files if name not in _ARRAY_NAMES), None)
            if unknown is not None:
                hint = did_you_mean(unknown, _ARRAY_NAMES, f"; known: {', '.join(_ARRAY_NAMES)}")
                raise DataError(
                    f"{path_argument(path)} has an array '{unknown}' with an unknown name{hint}"
                )
            return {name: archive[name] for name in archive.files}

    def _rows(
        self, arrays: Mapping[str, np.ndarray]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        for name in ("X", "y"):
            if name not in arrays:
                raise DataError(
                    f"{self._argument} has no array '{name}'; it has {', '.join(arrays) or 'none'}"
                )
        # Test rows come last, and their role keeps a split from mixing them with the others.
        X, y = self._check_rows_and_labels(arrays, "X", "y")
        has_test_rows = {name in arrays for name in ("X_test", "y_test")}
        if has_test_rows == {False}:
            return X, y, None
        if has_test_rows != {True}:
            raise DataError(
                f"{self._argument} has only one of X_test and y_test; give both or neither"
            )
        X_test, y_test = self._check_rows_and_labels(arrays, "X_test", "y_test")
        if X.shape[1:] != X_test.shape[1:]:
            raise DataError(
                f"{self._argument}: a row of X has shape {X.shape[1:]}, one of X_test"
                f" {X_test.shape[1:]}; make them equal"
            )
        roles = np.repeat(np.array([TRAIN, TEST], dtype=np.int8), [len(y), len(y_test)])
        return np.concatenate([X, X_test]), _concatenate_labels(y, y_test), roles

    def _check_rows_and_labels(
        self, arrays: Mapping[str, np.ndarray], rows: str, labels: str
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return Float64[n, d] or Float32[n, c, h, w], and the labels [n]."""
        from kdgraph.data.frames.cells import check_distinct_as_float

        X, y = arrays[rows], arrays[labels]
        if X.ndim not in (2, 4) or 0 in X.shape:
            way_out = f"; {rows}[:, None] makes images of one channel" if X.ndim == 3 else ""
            raise DataError(
                f"{self._argument}: {rows} must be [n, d] or images [n, c, h, w], got"
                f" shape {X.shape}{way_out}"
            )
        if X.dtype.kind not in "biuf":
            raise DataError(
                f"{self._argument}: {rows} must hold numbers, got {X.dtype}; a table with"
                " text is for dataset=table"
            )
        if y.shape != X.shape[:1]:
            raise DataError(
                f"{self._argument}: {labels} must have one label for each of {len(X)}"
                f" rows of {rows}, got shape {y.shape}"
            )
        if y.dtype.kind not in "biufU":
            raise DataError(f"{self._argument}: {labels} must hold numbers or text, got {y.dtype}")
        if X.ndim == 2:
            names = self._feature_names(arrays, X)
            for j in range(X.shape[1] if X.dtype.kind in "iu" else 0):
                source = f"{self.name}: column '{names[j]}' of {rows}"
                check_distinct_as_float(source, X[:, j], f"leave it out of {rows}")
            return X.astype(np.float64), y
        return X.astype(np.float32) / np.float32(255 if X.dtype == np.uint8 else 1), y

    def _feature_names(self, arrays: Mapping[str, np.ndarray], X: np.ndarray) -> tuple[str, ...]:
        if X.ndim == 4:
            return ()
        names = arrays.get("feature_names")
        if names is None:
            return numbered_names(X.shape[1])
        if names.shape != (X.shape[1],):
            raise DataError(
                f"{self._argument}: feature_names must be {X.shape[1]} names, got shape"
                f" {names.shape}"
            )
        return tuple(str(name) for name in names)

    def _groups(
        self, arrays: Mapping[str, np.ndarray], array: str, n: int
    ) -> tuple[np.ndarray | None, tuple[str, ...]]:
        """Return positions in the names, Int[n], and the names; None and () without that array."""
        from pandas import Series

        from kdgraph.data.frames.targets import encode_group_column

        if array not in arrays:
            return None, ()
        if arrays[array].shape != (n,):
            raise DataError(
                f"{self._argument}: {array} must have one entry for each of {n} rows, got"
                f" shape {arrays[array].shape}"
            )
        return encode_group_column(self.name, array, Series(arrays[array]))


def _concatenate_labels(y: np.ndarray, y_test: np.ndarray) -> np.ndarray:
    """Return labels [n] and [m] as [n + m]; integers of different types stay integers."""
    from kdgraph.data.frames.cells import label_array

    if y.dtype.kind in "iu" and y_test.dtype.kind in "iu":
        return label_array([*y.tolist(), *y_test.tolist()])
    return np.concatenate([y, y_test])
