"""Scores of classes as probabilities: rows that sum to 1 as far as their printed decimals can, or
the softmax of logits.

Class scores of a model that was trained elsewhere: ``dataset=scores dataset.path=softmax.npz``.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.data.files.arrays import array_shapes, open_npz
from kdgraph.data.files.delimited import TextFormat
from kdgraph.data.files.paths import (
    checked_suffix,
    file_stem,
    path_argument,
    resolve_existing,
    sha256_of,
)
from kdgraph.data.frames.messages import unknown_column_error
from kdgraph.data.frames.roles import roles_from_names
from kdgraph.errors import DataError, did_you_mean
from kdgraph.overrides import override
from kdgraph.parameters import check_parameters
from kdgraph.wording import some

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from numpy.lib.npyio import NpzFile


ClassScoreKind = Literal["probabilities", "logits"]
MIN_SUM_TOLERANCE = 1e-3
"""How far a row of probabilities may be from summing to 1, however many decimals it has; it is
divided by its sum.
"""
_MAX_SUM_TOLERANCE = 0.5
"""The same of probabilities of few decimals and many classes, whose sum says little."""
_PERCENT_SUM_TOLERANCE = 0.02
"""How far, as a share, sums of rows may be from 100 to be taken for sums of percent."""
_DECIMAL_COUNTS = range(2, 8)
"""Printed decimals that are looked for; of more, it takes 20,000 classes for a sum to be off by
:data:`MIN_SUM_TOLERANCE`.
"""


def to_probabilities(
    where: str, scores: np.ndarray, kind: ClassScoreKind, start: int = 0, way_out: str | None = None
) -> np.ndarray:
    """Return the class probabilities of each row.

    Parameters
    ----------
    where : name of the data set or file, for messages.
    scores : Float[n, K], finite.
    kind : "probabilities" are divided by their sum, of "logits" the softmax is taken.
    start : number of the first row, for messages.
    way_out : what messages advise; None: what the scores look like decides.

    Returns
    -------
    Float64[n, K]
        Rows sum to 1.

    Raises
    ------
    DataError
        If rows are no probabilities: one is below 0, or the sum is further from 1 than
        :func:`sum_tolerance`.
    """
    if kind == "logits":
        from scipy.special import softmax

        return softmax(scores.astype(np.float64), axis=1)
    tolerance = sum_tolerance(scores)
    scores = scores.astype(np.float64)
    sums = scores.sum(axis=1)
    if len(bad := _improper_rows(scores, sums, tolerance)):
        row = bad[0]
        found = (
            f"row {start + row} has sum {sums[row]:.6g} and least score {scores[row].min():.6g}"
            f" ({len(bad):,} such)"
        )
        rule = f"probabilities must be at least 0 and sum to 1 within {tolerance:.2g}"
        raise DataError(f"{where}: {rule}, {found}; {way_out or _probability_advice(scores, sums)}")
    return scores / sums[:, None]


def warn_repeated_softmax(name: str, scores: np.ndarray) -> None:
    """Warn where logits, Float[n, K], are probabilities already: their softmax is other numbers."""
    wide = scores.astype(np.float64)
    if len(scores) and not len(_improper_rows(wide, wide.sum(axis=1), sum_tolerance(scores))):
        way_out = override("dataset.kind", "probabilities")
        found = "each row of the scores is at least 0 and sums to 1, as probabilities do"
        warnings.warn(
            f"{name}: {found}, and the softmax of them is taken; give {way_out}", stacklevel=2
        )


def _improper_rows(scores: np.ndarray, sums: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the rows that are no probabilities, Int[m]."""
    return np.flatnonzero((scores.min(axis=1) < 0) | ~(np.abs(sums - 1) <= tolerance))


def sum_tolerance(scores: np.ndarray) -> float:
    """Return how far the sum of a row of printed probabilities may be from 1; ours.

    K numbers that are rounded to d decimals are each off by at most half a unit of the last one, so
    their sum is off by at most K · 0.5 · 10⁻ᵈ, and by the rounding of doubles, some units of 2⁻⁵²
    for each of them.

    Parameters
    ----------
    scores : Float[n, K], of any precision; d is the least number of decimals, from 2, that all of
        them have.

    Returns
    -------
    float
        At least :data:`MIN_SUM_TOLERANCE`, at most :data:`_MAX_SUM_TOLERANCE`.

    Examples
    --------
    >>> round(sum_tolerance(np.array([[0.333, 0.333, 0.333], [0.5, 0.25, 0.25]])), 6)
    0.0015
    >>> round(sum_tolerance(np.array([[1 / 3, 1 / 3, 1 / 3]])), 6)
    0.001
    """
    n_classes = scores.shape[1]
    # A float32 is as near to a decimal as its own precision allows, not as that of doubles.
    precision = 4 * np.finfo(scores.dtype).eps if scores.dtype.kind == "f" else 0.0
    wide = scores.astype(np.float64)
    tolerance = MIN_SUM_TOLERANCE
    for decimals in _DECIMAL_COUNTS:
        if (np.abs(np.round(wide, decimals) - wide) <= precision * np.abs(wide)).all():
            tolerance = max(tolerance, n_classes * 0.5 * 10.0**-decimals)
            break
    return float(min(tolerance, _MAX_SUM_TOLERANCE) + 4 * n_classes * np.finfo(np.float64).eps)


def _probability_advice(scores: np.ndarray, sums: np.ndarray) -> str:
    """Return what to do about scores that are no probabilities; ``sums``: [n] of their rows."""
    if scores.min() < 0:
        return f"if they are logits: {override('dataset.kind', 'logits')}"
    if scores.max() <= 1:
        return "divide each row by its sum, or save more decimals"
    if (np.abs(sums / 100 - 1) <= _PERCENT_SUM_TOLERANCE).all():
        return "if they are percent, divide them by 100"
    return (
        f"divide each row by its sum, or if they are logits: {override('dataset.kind', 'logits')}"
    )


_ScoreContents = tuple[
    np.ndarray, np.ndarray, np.ndarray, Mapping[str, "pd.DataFrame"], dict[str, Any]
]
"""Scores Float[n, K], labels Int[n], classes, features by layer, and what else there is to say of
rows.
"""
_CLASS_NUMBER_PATTERN = re.compile("0|[1-9][0-9]{0,17}")
"""A whole number as it is printed, without zeros in front: text and number name the same class."""
_SCORE_SHAPE_RULE = (
    "scores must have a column for each class, [n, K]; where p is the probability of the second of"
    " two classes, save numpy.column_stack([1 - p, p])"
)


class ScoreFile:
    """Scores of K classes for each row, with the label, and maybe features of layers of some
    network: nothing is trained.

    Either a table (csv, tsv, parquet, ARFF) with a column for each class, named as the labels name
    it, in any order; or a .npz file with an array [n, K] whose column k is class k, and labels 0 to
    K - 1. A .npz file may hold such an array for each of many models: ``dataset.scores=model_17``
    reads that one.

    Parameters
    ----------
    path : the file, relative to the working directory.
    target : column or array of the labels.
    scores : array of the scores in a .npz file; None: the only one of two dimensions. Of a table,
    all columns that nothing else names.
    kind : "probabilities", which are divided by their sum, or "logits", whose softmax is taken.
    split_column : column of a table, or array of words in a .npz file, that says calibration, test
    or unused.
    made_by : the command that makes the file, which is told where it is not there.
    name : what runs are called; None: the file's name without its ending.
    group : column of a table, or array of a .npz file, that says whom a row belongs to, where
    groups are measured apart.
    features : arrays [n, m] of a .npz file, or first words of columns of a table ("hidden" for
        hidden1, hidden2, …, with nothing but a number behind it), each a layer in which methods and
        metrics that look for near rows can look (``features.layer``); the first where they name
        none. Calibrators of scores do not see them.
    encoding, separator : of a table in text; see
        :class:`kdgraph.data.tables.table_files.TableFile`.
    """

    def __init__(
        self,
        path: str,
        target: str = "label",
        scores: str | None = None,
        kind: ClassScoreKind = "probabilities",
        split_column: str | None = None,
        made_by: str | None = None,
        name: str | None = None,
        group: str | None = None,
        features: Sequence[str] = (),
        encoding: str = "utf-8",
        separator: str | None = None,
    ) -> None:
        self.path = path
        self.target = target
        self.scores = scores
        self.kind: ClassScoreKind = kind
        self.split_column = split_column
        self.made_by = made_by
        self.group = group
        self.features = features
        self.encoding = encoding
        self.separator = separator
        self.name = file_stem(path) if name is None else name
        check_parameters(self)
        self._text_format()  # a wrong name is refused before any run starts

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise before any run starts if the file is not there."""
        self._existing_path()

    def load(self) -> Dataset:
        """All rows; X: Float64[n, K + m], class probabilities, and behind them the features that
        were named.

        Raises
        ------
        DataError
            In one line, if the file is not there or not what its ending says, a label has no score,
            or a row is no distribution.
        """
        from kdgraph.data.files.tables import TABLE_SUFFIXES

        path = self._existing_path()
        suffix = checked_suffix(path, (".npz", *TABLE_SUFFIXES))
        scores, y, classes, layers, more = (
            self._from_arrays() if suffix == ".npz" else self._from_table()
        )
        facts = {
            "source": "file",
            "path": self.path,
            "sha256": sha256_of(path),
            "n_rows": len(y),
            "kind": self.kind,
        }
        probabilities = to_probabilities(self.name, self._check_finite(scores, "scores"), self.kind)
        scores = self._check_finite(scores, "scores")
        if self.kind == "logits":
            warn_repeated_softmax(self.name, scores)
        probabilities = to_probabilities(self.name, scores, self.kind)
        X = np.hstack(
            [probabilities, *(self._numeric_values(frame, "features") for frame in layers.values())]
        )
        names = [
            str(name)
            for part in (classes.tolist(), *(frame.columns for frame in layers.values()))
            for name in part
        ]
        given = tuple((name, frame.shape[1]) for name, frame in layers.items())
        return Dataset(
            self.name,
            X,
            y,
            classes,
            tuple(names),
            facts=facts,
            given_scores=True,
            given_layers=given,
            **more,
        )

    def _text_format(self) -> TextFormat:
        return TextFormat(self.encoding, self.separator)

    def _existing_path(self) -> Path:
        return resolve_existing(self.path, made_by=self.made_by)

    def _from_arrays(self) -> _ScoreContents:
        from pandas import Series

        scores, y, columns, arrays = self._arrays()
        self._check_shapes(scores, y)
        if y.dtype.kind not in "iu" or y.min(initial=0) < 0 or y.max(initial=0) >= scores.shape[1]:
            rule = f"must hold the columns of the labels, 0 to {scores.shape[1] - 1}"
            found = f"{y.dtype} up to {y.max(initial=0)}" if y.dtype.kind in "iu" else str(y.dtype)
            raise DataError(f"{path_argument(self.path)}: {self.target} {rule}, got {found}")
        for name, words in columns.items():
            if words.shape != y.shape or words.dtype.kind not in "biufU":
                found = f"got {words.dtype} of shape {words.shape}"
                raise DataError(
                    f"{path_argument(self.path)}: {name} must have one word for each of {len(y)} rows,"
                    f" {found}"
                )
        layers = {name: self._layer_frame(name, array, len(y)) for name, array in arrays.items()}
        more = self._roles_and_groups(
            {name: Series(words, name=name) for name, words in columns.items()}
        )
        return scores, y.astype(np.intp), np.arange(scores.shape[1]), layers, more

    def _check_shapes(self, scores: np.ndarray, y: np.ndarray) -> None:
        """Raise DataError unless scores are numbers [n, K] and labels [n]."""
        if y.ndim != 1:
            way_out = (
                f"save {self.target}.argmax(axis=1)"
                if y.ndim == 2 and y.shape[1] > 1
                else f"save {self.target}.ravel()"
            )
            rule = "labels must be one number for each row, [n]"
            raise DataError(
                f"{path_argument(self.path)}: {self.target} has shape {y.shape}, and {rule}; {way_out}"
            )
        if scores.ndim != 2:
            raise DataError(
                f"{path_argument(self.path)}: scores have shape {scores.shape}, and {_SCORE_SHAPE_RULE}"
            )
        if scores.dtype.kind not in "iuf" or len(y) != len(scores):
            shapes = f"{scores.shape} of {scores.dtype} and {y.shape}"
            raise DataError(
                f"{path_argument(self.path)}: scores must be numbers [n, K] with a label for each row, got"
                f" shapes {shapes}"
            )

    def _layer_frame(self, name: str, array: np.ndarray, n: int) -> pd.DataFrame:
        from pandas import DataFrame

        if (
            array.ndim != 2
            or array.shape[1] == 0
            or len(array) != n
            or array.dtype.kind not in "biuf"
        ):
            found = f"got {array.dtype} of shape {array.shape}"
            raise DataError(
                f"{path_argument(self.path)}: features {name} must be numbers [n, m] with a row for each of"
                f" {n} labels, {found}"
            )
        return DataFrame(array, columns=[f"{name}{j + 1}" for j in range(array.shape[1])])

    def _arrays(
        self,
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Scores, labels, what else is asked of rows, and features; no other array of the file,
        which may have those of many models.
        """
        with open_npz(self._existing_path()) as found:
            wanted = self.scores or self._single_matrix_name(found)
            features = [("features", name) for name in self.features]
            for key, name in (
                ("scores", wanted),
                ("target", self.target),
                *self._extra_columns(),
                *features,
            ):
                if name not in found.files:
                    known = did_you_mean(
                        str(name), found.files, f"; it has {some(found.files, 10) or 'none'}"
                    )
                    raise DataError(
                        f"{path_argument(self.path)} has no array '{name}' (dataset.{key}){known}"
                    )
            about, layers = (
                {name: found[name] for _, name in names}
                for names in (self._extra_columns(), features)
            )
            return found[wanted], found[self.target], about, layers

    def _single_matrix_name(self, found: NpzFile) -> str:
        """Return the name of the only array of two dimensions that nothing else names."""
        others = {self.target, *self.features, *(name for _, name in self._extra_columns())}
        shapes = {name: shape for name, shape in array_shapes(found).items() if name not in others}
        matrices = [name for name, shape in shapes.items() if len(shape) == 2]
        if len(matrices) == 1:
            return matrices[0]
        if matrices:
            way_out = f"name that of the scores: {override('dataset.scores', matrices[0])}"
            raise DataError(
                f"{path_argument(self.path)} has {len(matrices)} arrays [n, K], {some(matrices)}; {way_out}"
            )
        if shapes:
            name, shape = next(iter(shapes.items()))
            raise DataError(
                f"{path_argument(self.path)}: {name} has shape {shape}, and {_SCORE_SHAPE_RULE}"
            )
        raise DataError(
            f"{path_argument(self.path)} has no array of scores [n, K]; it has"
            f" {some(found.files, 10) or 'none'}"
        )

    def _extra_columns(self) -> list[tuple[str, str]]:
        """What says more of a row than its scores and its label: key and name of the column or
        array.
        """
        return [
            (key, name)
            for key, name in (("split_column", self.split_column), ("group", self.group))
            if name is not None
        ]

    def _roles_and_groups(self, columns: Mapping[Any, pd.Series]) -> dict[str, Any]:
        """Roles and groups of a data set."""
        from kdgraph.data.frames.targets import encode_group_column

        found: dict[str, Any] = {}
        if self.split_column is not None:
            found["roles"] = roles_from_names(self.name, columns[self.split_column], trains=False)
        if self.group is not None:
            found["groups_are_target"] = self.group == self.target
            found["groups"], found["group_names"] = encode_group_column(
                self.name, f"dataset.group='{self.group}'", columns[self.group]
            )
        return found

    def _from_table(self) -> _ScoreContents:
        from kdgraph.data.files.tables import read_table
        from kdgraph.data.frames.features import drop_row_index

        path = self._existing_path()
        frame = read_table(path, self._text_format()).frame
        frame = frame.set_axis([str(column) for column in frame.columns], axis=1)
        if twice := sorted(set(frame.columns[frame.columns.duplicated()])):
            raise DataError(
                f"{self.name}: several columns have the same name ({some(twice)}); give each column"
                " its own"
            )
        for key, column in (("target", self.target), *self._extra_columns()):
            if column not in frame.columns:
                raise unknown_column_error(self.name, key, column, list(frame.columns))
        others = [
            column
            for column in frame.columns
            if column not in (self.target, self.split_column, self.group)
        ]
        columns = list(drop_row_index(self.name, frame[others]).columns)
        layers = {
            name: frame[
                [column for column in columns if re.fullmatch(f"{re.escape(name)}[0-9]+", column)]
            ]
            for name in self.features
        }
        if missing := [name for name, found in layers.items() if not found.shape[1]]:
            rule = f"no column is '{missing[0]}' with a number behind it (dataset.features)"
            raise DataError(
                f"{self.name}: {rule}; name the first word of columns, as hidden of hidden1 and"
                " hidden2"
            )
        columns = [
            column for column in columns if not any(column in found for found in layers.values())
        ]
        are_numbers = all(_CLASS_NUMBER_PATTERN.fullmatch(column) for column in columns)
        columns.sort(key=int if are_numbers else str)
        y = self._class_indices(self._text_cells(path, frame, self.target), columns)
        about = {name: frame[name] for _, name in self._extra_columns()}
        if self.group is not None:
            cells = self._text_cells(path, frame, self.group)
            about[self.group] = cells.where(cells != "").rename(self.group)
        more = self._roles_and_groups(about)
        scores = self._numeric_values(frame[columns], "scores")
        return scores, y, np.array(columns, dtype=int if are_numbers else str), layers, more

    def _text_cells(self, path: Path, frame: pd.DataFrame, name: str) -> pd.Series:
        """Return the cells of a column of names as text, [n]: in csv and tsv as they stand there;
        "" where one is empty.

        There NA, true and 01 are names like others, though pandas reads them as missing, a truth
        value and 1.
        """
        from kdgraph.data.files.tables import read_text_column
        from kdgraph.data.frames.features import format_cell

        cells = read_text_column(path, self._text_format(), name)
        return (
            frame[name].astype(object).map(format_cell, na_action="ignore").fillna("").astype(str)
            if cells is None
            else cells
        )

    def _class_indices(self, labels: pd.Series, columns: Sequence[str]) -> np.ndarray:
        """Return the position of each label among the columns of scores, Int[n]."""
        if (empty := np.flatnonzero(labels == "")).size:
            found = (
                f"{len(empty):,} of {len(labels):,} rows have no label in '{self.target}' (first:"
                f" row {empty[0]})"
            )
            raise DataError(f"{self.name}: {found}; remove them")
        position_of = {label: _class_column(label, columns) for label in labels.unique()}
        if unknown := sorted(label for label, position in position_of.items() if position is None):
            raise DataError(
                f"{self.name}: no column has the scores of {some(unknown)}; name each column as its"
                " label"
            )
        return labels.map(position_of).to_numpy(dtype=np.intp)

    def _numeric_values(self, frame: pd.DataFrame, what: str) -> np.ndarray:
        """Float64[n, m], finite."""
        try:
            found = frame.to_numpy(dtype=np.float64)
        except ValueError as error:
            raise DataError(
                f"{self.name}: a column of {what} holds text ({error}); name only the target beside"
                " them"
            ) from error
        return self._check_finite(found, what)

    def _check_finite(self, found: np.ndarray, what: str) -> np.ndarray:
        if len(bad := np.flatnonzero(~np.isfinite(found).all(axis=1))):
            raise DataError(
                f"{self.name}: {what} must be finite, row {bad[0]} is not ({len(bad)} such)"
            )
        return found


def _class_column(label: str, columns: Sequence[str]) -> int | None:
    """Return the place of a label among the names of columns, or None.

    The name is the label itself, else the only one that is the same truth value (True, true) or
    number (1.0, 01, 1).
    """
    if label in columns:
        return columns.index(label)
    if label.lower() in ("true", "false"):
        same = [place for place, column in enumerate(columns) if column.lower() == label.lower()]
    else:
        same = [
            place
            for place, column in enumerate(columns)
            if _parse_float(column) == _parse_float(label) is not None
        ]
    return same[0] if len(same) == 1 else None


def _parse_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
