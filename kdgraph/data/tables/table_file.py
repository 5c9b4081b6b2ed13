"""A table of the user's own: ``dataset=table dataset.path=my.csv dataset.target=label``."""

from __future__ import annotations

import json
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, ClassVar, Literal

import numpy as np

from kdgraph.data.dataset import Dataset, Task
from kdgraph.data.files.delimited import Format
from kdgraph.data.files.paths import existing, file_stem, itself, said, sha256_of, suffix_of
from kdgraph.data.frames import Column, ColumnOptions, Require, from_frame, names_as_text
from kdgraph.data.frames.roles import roles_of_indices
from kdgraph.errors import DataError
from kdgraph.parameters import Count, check_parameters


class TableFile:
    r"""A table in a file: csv or tsv (also .gz, .bz2, .xz), parquet, or ARFF, by its ending.

    In text, an empty cell, NA, NaN, null and <NA> are missing; say of others (``missing``) that they are. A first column without a name
    that numbers the rows is left out. Of parquet, an index that has a name is a column. ARFF's nominal attributes are categorical.

    Parameters
    ----------
    path : the file, relative to the working directory.
    target : column of the labels; or several of numbers or truth values, of which the largest counts.
    task, drop, categorical, missing, split_groups, split_column, require, threshold, group, split_at, first_numeric,
    parse_dates, date_format : see
        :class:`kdgraph.data.frames.ColumnOptions`.
    encoding : of the text, by any name that Python has for it; latin-1 decodes anything, often wrongly.
    separator : between cells, one character, ``tab``, or ``\s+`` for white space; None: what Excel's first line ``sep=;`` names, else a
        comma, in tsv a tab.
    indices : a .json or .npz file with row numbers from 0 by role (train, test, and calibration if there is one); others are unused.
    name : what runs are called; None: the file's name without its ending.
    """

    reads: ClassVar = {"path": itself, "indices": itself}

    def __init__(
        self,
        path: str,
        target: Column | Sequence[Column],
        task: Task = "auto",
        drop: Sequence[Column] = (),
        categorical: Sequence[Column] = (),
        missing: Sequence[str | float] = (),
        split_groups: Column | None = None,
        split_column: Column | None = None,
        require: Require = "any",
        encoding: str = "utf-8",
        separator: str | None = None,
        indices: str | None = None,
        name: str | None = None,
        threshold: float | Literal["median"] | None = None,
        group: Column | Sequence[Column] | None = None,
        split_at: Sequence[float] = (),
        first_numeric: Count | None = None,
        parse_dates: Sequence[Column] = (),
        date_format: str | None = None,
    ) -> None:
        self.path = path
        self.target = names_as_text(target)
        self.task: Task = task
        self.drop = names_as_text(drop)
        self.categorical = names_as_text(categorical)
        self.missing = missing
        self.split_groups = names_as_text(split_groups)
        self.split_column = names_as_text(split_column)
        self.require: Require = require
        self.encoding = encoding
        self.separator = separator
        self.indices = indices
        self.threshold: float | Literal["median"] | None = threshold
        self.group = names_as_text(group)
        self.split_at = split_at
        self.first_numeric = first_numeric
        self.parse_dates = names_as_text(parse_dates)
        self.date_format = date_format
        self.name = file_stem(path) if name is None else name
        check_parameters(self)
        self._form()  # a wrong name is refused before any run starts
        if indices is not None and split_column is not None:
            raise DataError("dataset.indices and dataset.split_column both say which rows test; give one of them")

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise before any run starts if a file is not there, or ``require`` shuts the table out."""
        existing(self.path)
        if self.indices is not None:
            existing(self.indices, "indices")
        if self.require != "any":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the run that reads the table again says them
                self.load()

    def load(self) -> Dataset:
        """The whole table.

        Raises
        ------
        DataError
            In one line, if a file is not there or not what its ending says, or the table cannot be used.
        """
        from kdgraph.data.files.readers import read_table

        path = existing(self.path)
        read = read_table(path, self._form())
        facts = {
            "source": "file",
            "path": self.path,
            "sha256": sha256_of(path),
            "n_rows": len(read.frame),
            "n_columns": read.frame.shape[1],
        }
        data = from_frame(self.name, read.frame, self.target, options=self._options(), facts=facts, feature_kinds=read.kinds)
        if self.indices is None:
            return data
        return replace(data, roles=roles_of_indices(self.name, len(data.y), read_indices(self.indices)))

    def _form(self) -> Format:
        single = (self.target, self.split_groups, self.group)  # of several columns the largest counts, so these hold numbers
        identifiers = [*(name for name in single if isinstance(name, str)), *self.categorical]
        return Format(self.encoding, self.separator, identifiers)

    def _options(self) -> ColumnOptions:
        return ColumnOptions(**{option.name: getattr(self, option.name) for option in fields(ColumnOptions)})


def read_indices(given: str) -> Mapping[str, Any]:
    """Row numbers by role from a .json file with an object of lists, or a .npz file with arrays of these names."""
    path = existing(given, "indices")
    suffix = suffix_of(path, (".json", ".npz"), "indices")
    try:
        if suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return dict(arrays)
        found = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise DataError(f"{said(given, 'indices')} is no {suffix[1:]} file with lists of row numbers: {error}") from error
    if not isinstance(found, dict):
        raise DataError(f'{said(given, "indices")} must be like {{"train": [0, 1], "test": [2]}}, got {type(found).__name__}')
    return found
