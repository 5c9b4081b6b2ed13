"""Predictions of a finished run's model for new rows, streamed into a file.

Of a classifier probabilities, label and confidence, and the set of classes if it predicts one; of a
regressor mean and quantiles; and of either an OOD score, with a p-value if a detector has it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kdgraph.base import FittedModel
from kdgraph.deployment import DeployedModel, Schema, read_schema
from kdgraph.deployment.schema import check_schema
from kdgraph.errors import DataError, UsageError
from kdgraph.metrics import benjamini_hochberg
from kdgraph.runner.files import temporary_path, wrap_os_errors
from kdgraph.runner.prediction.rows import Block, NewRows
from kdgraph.runner.run_dir import CALIBRATED, MODEL_FOLDER, MODEL_SCHEMA, RECORD

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 4096
"""Rows that a model predicts in one call.

Blocks begin at multiples of it, however many rows are in memory: the last bits of a matrix product
may depend on its number of rows.
"""
BLOCK_BYTES, MOST_BLOCKS = 16_000_000, 8
"""A block has fewer rows if they are wide, such as images; and the most blocks in memory."""
OUTPUT = "--output"
_RUN_AGAIN = "do the run again with force=true"
_REPAIR_AGAIN = "write it again with 'kdg repair'"


@dataclass(frozen=True)
class PredictionCounts:
    """Numbers of predicted rows.

    Attributes
    ----------
    n_rows : int
        Rows that were predicted.
    n_ood : int
        Rows of them with an OOD score above 0.
    n_flagged : int or None, default=None
        Rows that are flagged at the false discovery rate, if there is one.
    """

    n_rows: int
    n_ood: int
    n_flagged: int | None = None


def load_run(run_dir: Path, trust: bool | Sequence[str] = False) -> DeployedModel:
    """Load the model of a run.

    Parameters
    ----------
    run_dir : Path
        Directory of the run.
    trust : bool or sequence of str
        As in :func:`kdgraph.persistence.load`.

    Raises
    ------
    UsageError
        There is no model, it was written with another key and is not trusted, or it is no model.
    """
    file = run_dir / MODEL_FOLDER / CALIBRATED
    if not file.is_file():
        raise UsageError(_no_model_message(run_dir))
    model = _load(file, trust, _RUN_AGAIN)
    try:
        schema = read_schema(run_dir / MODEL_FOLDER / MODEL_SCHEMA)
    except OSError as error:
        raise UsageError(
            f"{error.filename or file} cannot be read ({error.strerror or error})"
        ) from error
    _check_is_model(model, schema, file)
    return DeployedModel(model, schema)


def load_repaired(file: Path, trust: bool | Sequence[str] = False) -> DeployedModel:
    """Load the model of a file that ``kdg repair`` wrote.

    Parameters
    ----------
    file : Path
        The file.
    trust : bool or sequence of str
        As in :func:`kdgraph.persistence.load`.

    Raises
    ------
    UsageError
        There is no such file, it was written with another key and is not trusted, or it holds
        something else.
    """
    if not file.is_file():
        hint = " (a folder; the model of a run is given by --run)" if file.is_dir() else ""
        raise UsageError(f"--model {file}: no such file{hint}; 'kdg repair' writes one")
    model = _load(file, trust, _REPAIR_AGAIN)
    if not isinstance(model, DeployedModel):
        raise UsageError(
            f"{file} holds a {type(model).__name__}, not a repaired model with the columns of its"
            f" rows; {_REPAIR_AGAIN}"
        )
    try:
        check_schema(model.schema)
    except (ValueError, LookupError, TypeError) as error:
        raise UsageError(f"{file} is damaged ({error}); {_REPAIR_AGAIN}") from error
    _check_is_model(model.model, model.schema, file)
    return model


def _load(file: Path, trust: bool | Sequence[str], again: str) -> Any:
    """Return the value of a model file; ``again`` is the way to a new one, for messages."""
    from kdgraph.persistence import LoadError, UntrustedFileError, load

    try:
        return load(file, trust)
    except UntrustedFileError as error:
        raise UsageError(f"{error}; {_ways_to_trust(error.names, again)}") from error
    except LoadError as error:
        raise UsageError(f"{error}; {again}") from error
    except OSError as error:
        raise UsageError(
            f"{error.filename or file} cannot be read ({error.strerror or error})"
        ) from error


def _ways_to_trust(names: Sequence[str], again: str) -> str:
    if names:
        options = " ".join(f"--trust {name.replace(':', '.')}" for name in names)
        return f"if you know what these are, and trust the origin of the run: {options}"
    return (
        f"if you know and trust its origin, add --trust; else {again}, or name its maker's key"
        " with KDGRAPH_KEY_FILE=FILE"
    )


def _check_is_model(model: Any, schema: Schema, file: Path) -> None:
    """Raise UsageError unless it predicts what the schema lists."""
    if not isinstance(model, FittedModel):
        raise UsageError(
            f"{file} holds a {type(model).__name__}, not the model of a run; {_RUN_AGAIN}"
        )
    expected = "classes" if schema.classes else "distributions"
    if not (model.is_classifier if schema.classes else model.supports("distribution")):
        raise UsageError(
            f"{file} holds a model that predicts no {expected}, which {MODEL_SCHEMA} beside it"
            f" lists; {_RUN_AGAIN}"
        )


def predict(
    saved: DeployedModel,
    new_rows: NewRows,
    output: Path,
    *,
    chunk: int,
    fdr: float | None = None,
    progress: Callable[[int, float], None] = lambda rows, share: None,
) -> PredictionCounts:
    """Predict every row and write the file ``output``, which is complete or absent.

    Parameters
    ----------
    saved : DeployedModel
        The model.
    new_rows : NewRows
        The rows.
    output : Path
        A .csv or .parquet file.
    chunk : int
        Rows in memory, rounded up to full blocks, and at most :data:`MOST_BLOCKS` of them; never
        changes a number.
    fdr : float or None, default=None
        False discovery rate at which rows are flagged in a column ``ood_flagged``. It depends on
        the p-values of all rows, so that the other columns wait in a temporary file.
    progress : callable
        Receives the number of predicted rows and the fraction of the input that was read.

    Returns
    -------
    PredictionCounts
        Numbers of rows.

    Raises
    ------
    DataError
        The input has no rows, or one that the model does not take.
    UsageError
        ``fdr`` is given, and the model has no p-values of single rows.
    """
    if fdr is not None and not saved.model.supports("ood_p_value"):
        raise UsageError(
            "--fdr needs p-values, and the model has no detector of single rows; do the run again"
            " with one, such as detector=leaf_box"
        )
    n_rows, n_ood, block_rows = 0, 0, _rows_in_block(saved.schema)
    p_values: list[np.ndarray] = []
    flagged = None
    with _open_output(output) as write, _frames_waiting(output) as waiting:
        for block in new_rows.blocks(block_rows * min(MOST_BLOCKS, -(-chunk // block_rows))):
            frame = _predict_block(saved, block, n_rows, block_rows, new_rows.where)
            if fdr is None:
                write(frame)
            else:
                p_values.append(frame["ood_p_value"].to_numpy())
                waiting.write(frame)
            n_rows += len(frame)
            n_ood += int((frame["ood_score"] > 0).sum()) if "ood_score" in frame else 0
            progress(n_rows, new_rows.share_read())
        if not n_rows:
            raise DataError(f"{new_rows.where} has no rows")
        if fdr is not None:
            flagged, start = benjamini_hochberg(np.concatenate(p_values), fdr), 0
            for frame in waiting.read():
                position = list(frame.columns).index("ood_p_value") + 1
                frame.insert(position, "ood_flagged", flagged[start : start + len(frame)])
                write(frame)
                start += len(frame)
    return PredictionCounts(n_rows, n_ood, None if flagged is None else int(flagged.sum()))


def _rows_in_block(schema: Schema) -> int:
    """Return the rows of a block; the same for every file that the model predicts."""
    rows = BLOCK
    while rows > 1 and rows * 8 * math.prod(schema.shape) > BLOCK_BYTES:
        rows //= 2
    return rows


def _predict_block(
    saved: DeployedModel, block: Block, start: int, block_rows: int, where: str
) -> pd.DataFrame:
    import pandas as pd

    X, groups = block
    try:
        slices = [slice(first, first + block_rows) for first in range(0, len(X), block_rows)]
        parts = [
            saved.output_columns(X[rows], None if groups is None else groups[rows])
            for rows in slices
        ]
    except ValueError as error:
        if not np.isnan(X).any():
            raise
        row, *_ = np.argwhere(np.isnan(X))[0]
        problem = f"row {start + row} has an empty cell" + (
            f" ('{_empty_feature(saved.schema, X[row])}')" if saved.schema.features else ""
        )
        raise DataError(
            f"{where}: {problem}, and the model takes none: its training rows had none"
        ) from error
    rows = {"row": np.arange(start, start + len(X))}
    return pd.DataFrame(
        rows | {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    )


def _empty_feature(schema: Schema, row: np.ndarray) -> str:
    return schema.features[int(np.flatnonzero(np.isnan(row))[0])].name


def _no_model_message(run_dir: Path) -> str:
    if not run_dir.is_dir():
        return (
            f"--run {run_dir}: there is no such folder; it is <out>/<dataset>/<method>/<id>, as kdg"
            " run prints it"
        )
    if not (run_dir / RECORD).is_file():
        return f"--run {run_dir} is no finished run (it has no result.json)"
    return (
        f"--run {run_dir} has no {MODEL_FOLDER}/{CALIBRATED}: it was made with save=false or cannot"
        " be saved; force=true makes it again"
    )


@contextmanager
def _open_output(output: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """Yield a function that appends frames to a file, which becomes ``output`` at the block's end.

    An error inside the block leaves no file.

    Raises
    ------
    CannotWrite
        The operating system refuses.
    """
    temporary = temporary_path(output)
    try:
        with wrap_os_errors(output, OUTPUT):
            output.parent.mkdir(parents=True, exist_ok=True)
            file = (
                _CsvWriter(temporary)
                if output.suffix.lower() == ".csv"
                else _ParquetWriter(temporary)
            )

        def write(frame: pd.DataFrame) -> None:
            with wrap_os_errors(output, OUTPUT):
                file.write(frame)

        try:
            yield write
        except BaseException:
            with suppress(Exception):  # any: the first error is the one to report
                file.close()
            raise
        with wrap_os_errors(output, OUTPUT):
            file.close()
            os.replace(temporary, output)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


@contextmanager
def _frames_waiting(output: Path) -> Iterator[_WaitingFrames]:
    """Yield frames in a temporary file beside the output, which is removed at the block's end."""
    waiting = _WaitingFrames(temporary_path(output.with_suffix(".parquet")), output)
    try:
        yield waiting
    finally:
        waiting.remove()


class _WaitingFrames:
    """Frames in a temporary file, made on the first one, that are read again in their order.

    Parameters
    ----------
    path : Path
        The file.
    output : Path
        The output, for messages.
    """

    def __init__(self, path: Path, output: Path) -> None:
        self.path, self.output = path, output
        self.writer: _ParquetWriter | None = None

    def write(self, frame: pd.DataFrame) -> None:
        with wrap_os_errors(self.output, OUTPUT):
            if self.writer is None:
                self.writer = _ParquetWriter(self.path)
            self.writer.write(frame)

    def read(self) -> Iterator[pd.DataFrame]:
        """Yield the frames that were written."""
        from pyarrow import parquet

        if self.writer is not None:
            with wrap_os_errors(self.output, OUTPUT):
                self.writer.close()
            with parquet.ParquetFile(self.path) as file:
                for k in range(file.num_row_groups):
                    yield file.read_row_group(k).to_pandas()

    def remove(self) -> None:
        with suppress(Exception):  # any: the first error is the one to report
            if self.writer is not None:
                self.writer.close()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)


class _CsvWriter:
    """A csv file that grows by frames."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w", encoding="utf-8", newline="")

    def write(self, frame: pd.DataFrame) -> None:
        frame.to_csv(self.file, index=False, header=self.file.tell() == 0)

    def close(self) -> None:
        self.file.close()


class _ParquetWriter:
    """A parquet file that grows by frames; the first one determines its columns."""

    def __init__(self, path: Path) -> None:
        self.file, self.writer = path.open("wb"), None

    def write(self, frame: pd.DataFrame) -> None:
        from pyarrow import Table, parquet

        table = Table.from_pandas(frame, preserve_index=False)
        if self.writer is None:
            self.writer = parquet.ParquetWriter(self.file, table.schema)
        self.writer.write_table(table)

    def close(self) -> None:
        try:
            if self.writer is not None:
                self.writer.close()
        finally:
            self.file.close()
