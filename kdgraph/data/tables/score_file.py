"""Class scores of a model that was trained elsewhere, as a data set: ``dataset=scores``.

Scores are converted to probabilities: rows that sum to 1 within the precision of their printed
decimals are normalized, and logits pass through the softmax. For example ``dataset=scores
dataset.path=softmax.npz``. The tolerance is original to kdgraph.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.data.files.arrays import array_shapes, open_npz
from kdgraph.data.files.file_source import TextSource
from kdgraph.data.files.paths import checked_suffix, resolve_existing
from kdgraph.data.frames.columns import with_text_names
from kdgraph.data.frames.messages import unknown_column_error
from kdgraph.data.frames.roles import roles_from_names
from kdgraph.data.source import numbered_names
from kdgraph.errors import DataError, did_you_mean
from kdgraph.quoting import override
from kdgraph.wording import some

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from numpy.lib.npyio import NpzFile


ClassScoreKind = Literal["probabilities", "logits"]
MIN_SUM_TOLERANCE = 1e-3
"""Accepted deviation of a sum of probabilities from 1, for any number of decimals.

The row is divided by its sum.
"""
_MAX_SUM_TOLERANCE = 0.5
"""Largest accepted deviation, for few decimals and many classes, where the sum is uninformative."""
_PERCENT_SUM_TOLERANCE = 0.02
"""Largest relative deviation of sums from 100 at which scores are taken for percent."""
_DECIMAL_COUNTS = range(2, 8)
"""Numbers of printed decimals that are tested.

With more decimals, only a sum of 20,000 classes deviates by :data:`MIN_SUM_TOLERANCE`.
"""


def to_probabilities(
    source: str,
    scores: np.ndarray,
    kind: ClassScoreKind,
    start: int = 0,
    way_out: str | None = None,
) -> np.ndarray:
    """Return the class probabilities, Float64[n, K], of finite scores Float[n, K].

    Probabilities are divided by their sum, which may deviate from 1 by :func:`sum_tolerance`; of
    logits the softmax is taken. Messages number rows from ``start`` and end with ``way_out``, or
    with advice that is derived from the scores.
    """
    if kind == "logits":
        from scipy.special import softmax

        return softmax(scores.astype(np.float64), axis=1)
    # The tolerance is derived from the scores in their own precision, so before the conversion.
    tolerance = sum_tolerance(scores)
    scores = scores.astype(np.float64)
    sums = scores.sum(axis=1)
    if len(improper_rows := _improper_rows(scores, sums, tolerance)):
        row = improper_rows[0]
        raise DataError(
            f"{source}: probabilities must be at least 0 and sum to 1 within {tolerance:.2g}, row"
            f" {start + row} has sum {sums[row]:.6g} and least score {scores[row].min():.6g}"
            f" ({len(improper_rows):,} such); {way_out or _probability_advice(scores, sums)}"
        )
    return scores / sums[:, None]


def warn_repeated_softmax(name: str, scores: np.ndarray) -> None:
    """Warn if logits, Float[n, K], are probabilities already."""
    doubles = scores.astype(np.float64)
    if len(scores) and not len(_improper_rows(doubles, doubles.sum(axis=1), sum_tolerance(scores))):
        warnings.warn(
            f"{name}: each row of the scores is at least 0 and sums to 1, as probabilities do, and"
            f" the softmax of them is taken; give {override('dataset.kind', 'probabilities')}",
            stacklevel=2,
        )


def _improper_rows(scores: np.ndarray, sums: np.ndarray, tolerance: float) -> np.ndarray:
    return np.flatnonzero((scores.min(axis=1) < 0) | ~(np.abs(sums - 1) <= tolerance))


def sum_tolerance(scores: np.ndarray) -> float:
    """Return the accepted deviation from 1 of the sum of a row of probabilities, Float[n, K].

    K numbers that are rounded to d decimals deviate each by at most half a unit of the last
    decimal. So their sum deviates by at most K · 0.5 · 10⁻ᵈ. The rounding of doubles adds some
    units of 2⁻⁵² for each number. d is the least number of decimals, from 2, that all scores have.
    The result is at least :data:`MIN_SUM_TOLERANCE`, and at most :data:`_MAX_SUM_TOLERANCE` apart
    from the rounding of doubles.

    Examples
    --------
    >>> round(sum_tolerance(np.array([[0.333, 0.333, 0.333], [0.5, 0.25, 0.25]])), 6)
    0.0015
    >>> round(sum_tolerance(np.array([[1 / 3, 1 / 3, 1 / 3]])), 6)
    0.001
    """
    n_classes = scores.shape[1]
    # A float32 approximates a decimal to the precision of float32, not to that of doubles.
    precision = 4 * np.finfo(scores.dtype).eps if scores.dtype.kind == "f" else 0.0
    doubles = scores.astype(np.float64)
    tolerance = MIN_SUM_TOLERANCE
    for decimals in _DECIMAL_COUNTS:
        if (np.abs(np.round(doubles, decimals) - doubles) <= precision * np.abs(doubles)).all():
            tolerance = max(tolerance, n_classes * 0.5 * 10.0**-decimals)
            break
    return float(min(tolerance, _MAX_SUM_TOLERANCE) + 4 * n_classes * np.finfo(np.float64).eps)


def _probability_advice(scores: np.ndarray, sums: np.ndarray) -> str:
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
"""Scores Float[n, K], labels Int[n], classes, features by layer, and Dataset arguments."""
_CLASS_NUMBER_PATTERN = re.compile("0|[1-9][0-9]{0,17}")
"""An integer as it is printed, without leading zeros: text and number name the same class."""
_SCORE_SHAPE_RULE = (
    "scores must have a column for each class, [n, K]; where p is the probability of the second of"
    " two classes, save numpy.column_stack([1 - p, p])"
)


@dataclass(eq=False, repr=False)
class ScoreFile(TextSource):
    """Scores of K classes for each row with the label, and optionally features of network layers.

    No model is trained. The file is either a table (csv, tsv, parquet, ARFF) with a column for each
    class, in any order, whose name is the label of the class. Or it is a .npz file with an array
    [n, K], whose column k is class k, and labels 0 to K - 1. A .npz file may contain such an array
    for each of many models; ``dataset.scores=model_17`` selects one.

    Parameters
    ----------
    target : str, default="label"
        Column or array of the labels.
    scores : str or None, default=None
        Array of the scores in a .npz file. None selects the only array of two dimensions. In a
        table, the scores are all columns that no other parameter names.
    kind : {"probabilities", "logits"}, default="probabilities"
        Probabilities are divided by their sum; of logits the softmax is taken.
    split_column : str or None, default=None
        Column of a table, or array of words in a .npz file, with calibration, test or unused.
    made_by : str or None, default=None
        The command that makes the file. A message contains it if the file does not exist.
    group : str or None, default=None
        Column of a table, or array of a .npz file, with the group of each row, for metrics by
        group.
    features : sequence of str, default=()
        Arrays [n, m] of a .npz file, or prefixes of columns of a table ("hidden" for hidden1,
        hidden2, …, a prefix and a number). Each is a layer in which methods and metrics can search
        for neighbours (``features.layer``); the first one is the default. Calibrators of scores do
        not use them.

    Examples
    --------
    >>> ScoreFile("data/softmax.npz").name
    'softmax'
    """

    target: str = "label"
    scores: str | None = None
    kind: ClassScoreKind = "probabilities"
    split_column: str | None = None
    made_by: str | None = None
    group: str | None = None
    features: Sequence[str] = ()

    def load(self) -> Dataset:
        """Return all rows; X is Float64[n, K + m], probabilities and then the named features."""
        from kdgraph.data.files.tables import TABLE_SUFFIXES

        path = self._existing_path()
        suffix = checked_suffix(path, (".npz", *TABLE_SUFFIXES))
        scores, y, classes, layers, roles_and_groups = (
            self._from_arrays() if suffix == ".npz" else self._from_table()
        )
        facts = {**self._file_facts(path), "n_rows": len(y), "kind": self.kind}
        # X contains the probabilities first, then the features of each layer; the data set records
        # how wide each part is, so that methods can take them apart again.
        scores = self._check_finite(scores, "scores")
        if self.kind == "logits":
            warn_repeated_softmax(self.name, scores)
        X = [to_probabilities(self.name, scores, self.kind)]
        X += [self._numeric_values(frame, "features") for frame in layers.values()]
        names = [*classes.tolist(), *(name for frame in layers.values() for name in frame.columns)]
        return Dataset(
            self.name,
            np.hstack(X),
            y,
            classes,
            tuple(map(str, names)),
            facts=facts,
            has_scores=True,
            layer_widths=tuple((name, frame.shape[1]) for name, frame in layers.items()),
            **roles_and_groups,
        )

    def _existing_path(self) -> Path:
        return resolve_existing(self.path, made_by=self.made_by)

    def _from_arrays(self) -> _ScoreContents:
        from pandas import Series

        scores, y, columns, arrays = self._arrays()
        self._check_shapes(scores, y)
        k = scores.shape[1]
        if y.dtype.kind not in "iu" or y.min(initial=0) < 0 or y.max(initial=0) >= k:
            observed = f" up to {y.max(initial=0)}" if y.dtype.kind in "iu" else ""
            raise DataError(
                f"{self._argument}: {self.target} must hold the columns of the labels, 0"
                f" to {k - 1}, got {y.dtype}{observed}"
            )
        for name, words in columns.items():
            if words.shape != y.shape or words.dtype.kind not in "biufU":
                raise DataError(
                    f"{self._argument}: {name} must have one word for each of {len(y)}"
                    f" rows, got {words.dtype} of shape {words.shape}"
                )
        layers = {name: self._layer_frame(name, array, len(y)) for name, array in arrays.items()}
        roles_and_groups = self._roles_and_groups(
            {name: Series(words, name=name) for name, words in columns.items()}
        )
        return scores, y.astype(np.intp), np.arange(k), layers, roles_and_groups

    def _check_shapes(self, scores: np.ndarray, y: np.ndarray) -> None:
        if y.ndim != 1:
            is_one_hot = y.ndim == 2 and y.shape[1] > 1
            raise DataError(
                f"{self._argument}: {self.target} has shape {y.shape}, and labels must be"
                f" one number for each row, [n]; save"
                f" {self.target}.{'argmax(axis=1)' if is_one_hot else 'ravel()'}"
            )
        if scores.ndim != 2:
            raise DataError(
                f"{self._argument}: scores have shape {scores.shape}, and {_SCORE_SHAPE_RULE}"
            )
        if scores.dtype.kind not in "iuf" or len(y) != len(scores):
            raise DataError(
                f"{self._argument}: scores must be numbers [n, K] with a label for each"
                f" row, got shapes {scores.shape} of {scores.dtype} and {y.shape}"
            )

    def _layer_frame(self, name: str, array: np.ndarray, n: int) -> pd.DataFrame:
        from pandas import DataFrame

        is_matrix = array.ndim == 2 and array.shape[1] > 0 and len(array) == n
        if not is_matrix or array.dtype.kind not in "biuf":
            raise DataError(
                f"{self._argument}: features {name} must be numbers [n, m] with a row for"
                f" each of {n} labels, got {array.dtype} of shape {array.shape}"
            )
        return DataFrame(array, columns=list(numbered_names(array.shape[1], name)))

    def _arrays(
        self,
    ) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Return scores, labels, arrays with roles and groups, and features.

        Other arrays of the file, which may be those of many models, are not read.
        """
        # Names are checked before any array is read, because arrays of many models may be large.
        with open_npz(self._existing_path()) as archive:
            scores_name = self.scores or self._single_matrix_name(archive)
            features = [("features", name) for name in self.features]
            named = [("scores", scores_name), ("target", self.target), *self._extra_columns()]
            for key, name in (*named, *features):
                if name not in archive.files:
                    hint = did_you_mean(
                        str(name), archive.files, f"; it has {some(archive.files, 10) or 'none'}"
                    )
                    raise DataError(f"{self._argument} has no array '{name}' (dataset.{key}){hint}")
            extra_arrays, layers = (
                {name: archive[name] for _, name in names}
                for names in (self._extra_columns(), features)
            )
            return archive[scores_name], archive[self.target], extra_arrays, layers

    def _single_matrix_name(self, archive: NpzFile) -> str:
        """Return the name of the only array of two dimensions that no parameter names."""
        # Only shapes are read here: a file of many models may exceed the memory.
        excluded = {self.target, *self.features, *(name for _, name in self._extra_columns())}
        shapes = {
            name: shape for name, shape in array_shapes(archive).items() if name not in excluded
        }
        matrices = [name for name, shape in shapes.items() if len(shape) == 2]
        if len(matrices) == 1:
            return matrices[0]
        if matrices:
            way_out = f"name that of the scores: {override('dataset.scores', matrices[0])}"
            raise DataError(
                f"{self._argument} has {len(matrices)} arrays [n, K], {some(matrices)}; {way_out}"
            )
        if shapes:
            name, shape = next(iter(shapes.items()))
            raise DataError(f"{self._argument}: {name} has shape {shape}, and {_SCORE_SHAPE_RULE}")
        raise DataError(
            f"{self._argument} has no array of scores [n, K]; it has"
            f" {some(archive.files, 10) or 'none'}"
        )

    def _extra_columns(self) -> list[tuple[str, str]]:
        """Return key and name of the columns or arrays with roles and groups."""
        return [
            (key, name)
            for key, name in (("split_column", self.split_column), ("group", self.group))
            if name is not None
        ]

    def _roles_and_groups(self, columns: Mapping[Any, pd.Series]) -> dict[str, Any]:
        from kdgraph.data.frames.targets import encode_group_column

        arguments: dict[str, Any] = {}
        if self.split_column is not None:
            arguments["roles"] = roles_from_names(
                self.name, columns[self.split_column], trains=False
            )
        if self.group is not None:
            arguments["groups_are_target"] = self.group == self.target
            arguments["groups"], arguments["group_names"] = encode_group_column(
                self.name, f"dataset.group='{self.group}'", columns[self.group]
            )
        return arguments

    def _from_table(self) -> _ScoreContents:
        from kdgraph.data.files.tables import read_table
        from kdgraph.data.frames.features import drop_row_index

        path = self._existing_path()
        frame = with_text_names(self.name, read_table(path, self._text_format()).frame)
        for key, column in (("target", self.target), *self._extra_columns()):
            if column not in frame.columns:
                raise unknown_column_error(self.name, key, column, list(frame.columns))
        others = frame.drop(columns={self.target, self.split_column, self.group} - {None})
        columns = list(drop_row_index(self.name, others).columns)
        # What remains are the columns of layers, a prefix and a number, and those of the classes.
        layers = {
            name: frame[
                [column for column in columns if re.fullmatch(f"{re.escape(name)}[0-9]+", column)]
            ]
            for name in self.features
        }
        if missing := [name for name, layer in layers.items() if not layer.shape[1]]:
            raise DataError(
                f"{self.name}: no column is '{missing[0]}' with a number behind it"
                " (dataset.features); name the first word of columns, as hidden of hidden1 and"
                " hidden2"
            )
        columns = [
            column for column in columns if not any(column in layer for layer in layers.values())
        ]
        # Classes named by numbers are sorted as numbers, so that class 10 follows class 9.
        are_numbers = all(_CLASS_NUMBER_PATTERN.fullmatch(column) for column in columns)
        columns.sort(key=int if are_numbers else str)
        y = self._class_indices(self._text_cells(path, frame, self.target), columns)
        extra_columns = {name: frame[name] for _, name in self._extra_columns()}
        if self.group is not None:
            cells = self._text_cells(path, frame, self.group)
            extra_columns[self.group] = cells.where(cells != "").rename(self.group)
        roles_and_groups = self._roles_and_groups(extra_columns)
        scores = self._numeric_values(frame[columns], "scores")
        classes = np.array(columns, dtype=int if are_numbers else str)
        return scores, y, classes, layers, roles_and_groups

    def _text_cells(self, path: Path, frame: pd.DataFrame, name: str) -> pd.Series:
        """Return the cells of a column of names as text, [n], with "" for empty cells.

        In csv and tsv these are the cells of the file.
        """
        from kdgraph.data.files.tables import read_labels
        from kdgraph.data.frames.features import format_cell

        # NA, true and 01 are valid names, but pandas reads them as missing, a truth value and 1.
        cells = read_labels(path, self._text_format(), name)
        if cells is not None:
            return cells
        texts = frame[name].astype(object).map(format_cell, na_action="ignore")
        return texts.fillna("").astype(str)

    def _class_indices(self, labels: pd.Series, columns: Sequence[str]) -> np.ndarray:
        if (empty_rows := np.flatnonzero(labels == "")).size:
            raise DataError(
                f"{self.name}: {len(empty_rows):,} of {len(labels):,} rows have no label in"
                f" '{self.target}' (first: row {empty_rows[0]}); remove them"
            )
        position_of = {label: _class_column(label, columns) for label in labels.unique()}
        if unknown := sorted(label for label, position in position_of.items() if position is None):
            raise DataError(
                f"{self.name}: no column has the scores of {some(unknown)}; name each column as its"
                " label"
            )
        return labels.map(position_of).to_numpy(dtype=np.intp)

    def _numeric_values(self, frame: pd.DataFrame, contents: str) -> np.ndarray:
        try:
            values = frame.to_numpy(dtype=np.float64)
        except ValueError as error:
            raise DataError(
                f"{self.name}: a column of {contents} holds text ({error}); remove all other"
                " columns except the target"
            ) from error
        return self._check_finite(values, contents)

    def _check_finite(self, values: np.ndarray, contents: str) -> np.ndarray:
        if len(invalid_rows := np.flatnonzero(~np.isfinite(values).all(axis=1))):
            raise DataError(
                f"{self.name}: {contents} must be finite, row {invalid_rows[0]} is not"
                f" ({len(invalid_rows)} such)"
            )
        return values


def _class_column(label: str, columns: Sequence[str]) -> int | None:
    """Return the position of a label among the names of columns, or None.

    A name matches if it is the label. Otherwise it must be the only one that is the same truth
    value (True, true) or number (1.0, 01, 1).
    """
    if label in columns:
        return columns.index(label)
    if label.lower() in ("true", "false"):
        matches = [column for column in columns if column.lower() == label.lower()]
    else:
        number = _parse_float(label)
        matches = [column for column in columns if _parse_float(column) == number is not None]
    return columns.index(matches[0]) if len(matches) == 1 else None


def _parse_float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
