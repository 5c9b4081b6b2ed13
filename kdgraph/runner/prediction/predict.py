"""The model of a finished run on new rows, streamed: probabilities, label, confidence and a score
for being out of distribution; mean and quantiles of a regression.
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

from kdgraph.base import OUTPUT_COLUMNS, FittedModel
from kdgraph.data.frames.cells import label_array
from kdgraph.errors import DataError, UsageError
from kdgraph.metrics import TopLabel
from kdgraph.runner.files import temporary_path, wrap_os_errors
from kdgraph.runner.prediction.rows import Block, NewRows
from kdgraph.runner.prediction.schema import Schema, read_schema
from kdgraph.runner.run_dir import CALIBRATED, MODEL_FOLDER, MODEL_SCHEMA, RECORD

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 4096
"""Rows that a model predicts in one call. Blocks begin at multiples of it whatever is in memory at
once: the last bits of a matrix product may depend on how many rows it has.
"""
BLOCK_BYTES, MOST_BLOCKS = 16_000_000, 8
"""A block has fewer rows where they are wide, such as images; so many blocks are in memory at once,
at most.
"""
OUTPUT = "--output"
_AGAIN = "do the run again with force=true"


@dataclass(frozen=True)
class Saved:
    """The model of a run and the schema of its rows."""

    model: FittedModel
    schema: Schema


@dataclass(frozen=True)
class Done:
    """How many rows were predicted, and how many of them have an OOD score above 0."""

    rows: int
    above: int


def load_run(run_dir: Path, trust: bool | Sequence[str] = False) -> Saved:
    """The model of a run.

    Parameters
    ----------
    trust : as in :func:`kdgraph.persistence.load`.

    Raises
    ------
    UsageError
        In one line, if there is none, if it was made with another key and is not trusted, or if it
        is no model.
    """
    from kdgraph.persistence import LoadError, UntrustedFileError, load

    file = run_dir / MODEL_FOLDER / CALIBRATED
    if not file.is_file():
        raise UsageError(_absent(run_dir))
    try:
        model, schema = load(file, trust), read_schema(run_dir / MODEL_FOLDER / MODEL_SCHEMA)
    except UntrustedFileError as error:
        raise UsageError(f"{error}; {_ways_to_trust(error.names)}") from error
    except LoadError as error:
        raise UsageError(f"{error}; {_AGAIN}") from error
    except OSError as error:
        raise UsageError(
            f"{error.filename or file} cannot be read ({error.strerror or error})"
        ) from error
    _check_is_model(model, schema, file)
    return Saved(model, schema)


def _ways_to_trust(names: Sequence[str]) -> str:
    if names:
        options = " ".join(f"--trust {name.replace(':', '.')}" for name in names)
        return f"if you know what these are, and trust the origin of the run: {options}"
    return (
        f"if you know and trust its origin, add --trust; else {_AGAIN}, or name its maker's key"
        " with KDGRAPH_KEY_FILE=FILE"
    )


def _check_is_model(model: Any, schema: Schema, file: Path) -> None:
    """Raise UsageError unless it predicts what the schema lists."""
    if not isinstance(model, FittedModel):
        raise UsageError(f"{file} holds a {type(model).__name__}, not the model of a run; {_AGAIN}")
    expected = "classes" if schema.classes else "distributions"
    if not (model.is_classifier if schema.classes else model.supports("distribution")):
        raise UsageError(
            f"{file} holds a model that predicts no {expected}, which {MODEL_SCHEMA} beside it lists;"
            f" {_AGAIN}"
        )


def predict(
    saved: Saved,
    new: NewRows,
    output: Path,
    *,
    chunk: int,
    progress: Callable[[int, float], None] = lambda rows, share: None,
) -> Done:
    """Predict every row of ``new`` into the file ``output``, which is there as a whole or not at
    all.

    Parameters
    ----------
    chunk : rows in memory at once, rounded up to whole blocks, and at most :data:`MOST_BLOCKS` of
    them; never changes a number.
    progress : gets the rows done and the share of the input that was read.
    """
    rows, above, block = 0, 0, _block_of(saved.schema)
    with _writing(output) as write:
        for found in new.blocks(block * min(MOST_BLOCKS, -(-chunk // block))):
            frame = _predicted(saved, found, rows, block, new.path)
            write(frame)
            rows += len(frame)
            above += int((frame["ood_score"] > 0).sum()) if "ood_score" in frame else 0
            progress(rows, new.share_read())
        if not rows:
            raise DataError(f"--input {new.path} has no rows")
    return Done(rows, above)


def _block_of(schema: Schema) -> int:
    """Rows of a block; the same for every file that the model predicts."""
    rows = BLOCK
    while rows > 1 and rows * 8 * math.prod(schema.shape) > BLOCK_BYTES:
        rows //= 2
    return rows


def _predicted(saved: Saved, found: Block, start: int, block: int, path: Path) -> pd.DataFrame:
    import pandas as pd

    X, groups = found
    try:
        here = [slice(first, first + block) for first in range(0, len(X), block)]
        parts = [
            _columns(saved, X[rows], None if groups is None else groups[rows]) for rows in here
        ]
    except ValueError as error:
        if not np.isnan(X).any():
            raise
        row, *_ = np.argwhere(np.isnan(X))[0]
        where = f"row {start + row} has an empty cell" + (
            f" ('{_empty(saved.schema, X[row])}')" if saved.schema.features else ""
        )
        raise DataError(
            f"--input {path}: {where}, and the model takes none: its training rows had none"
        ) from error
    rows = {"row": np.arange(start, start + len(X))}
    return pd.DataFrame(
        rows | {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    )


def _columns(saved: Saved, X: np.ndarray, groups: np.ndarray | None) -> dict[str, np.ndarray]:
    """What the model says of one block, column by column."""
    model, classes = saved.model, label_array(saved.schema.classes)
    answers = [
        answer for answer in ("proba", "top_label", "distribution") if model.supports(answer)
    ]
    said = model.predict_outputs(
        [*answers, *(["ood_score"] if saved.schema.scores_rows else [])], X, groups
    )
    columns: dict[str, np.ndarray] = {}
    if model.is_classifier:
        top_label = said["top_label"] if "top_label" in said else TopLabel.from_proba(said["proba"])
        columns |= {"predicted": classes[top_label.predicted], "confidence": top_label.confidence}
    if "distribution" in said:
        columns |= OUTPUT_COLUMNS["distribution"](said["distribution"], classes)
    columns |= {"ood_score": said["ood_score"]} if "ood_score" in said else {}
    if "proba" in said:
        columns |= {
            f"probability_{name}": column
            for name, column in OUTPUT_COLUMNS["proba"](said["proba"], classes).items()
        }
    return columns


def _empty(schema: Schema, row: np.ndarray) -> str:
    return schema.features[int(np.flatnonzero(np.isnan(row))[0])].name


def _absent(run_dir: Path) -> str:
    if not run_dir.is_dir():
        return (
            f"--run {run_dir}: there is no such folder; it is <out>/<dataset>/<method>/<id>, as kdg"
            " run prints it"
        )
    if not (run_dir / RECORD).is_file():
        return f"--run {run_dir} is no finished run (it has no result.json)"
    return (
        f"--run {run_dir} has no {MODEL_FOLDER}/{CALIBRATED}: it was made with save=false or cannot be"
        " saved; force=true makes it again"
    )


@contextmanager
def _writing(output: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """A function that appends frames to what becomes ``output`` when the block ends well.

    Raises
    ------
    CannotWrite
        In one line, where the operating system refuses; what is raised inside the block stays as it
        is.
    """
    beside = temporary_path(output)
    try:
        with wrap_os_errors(output, OUTPUT):
            output.parent.mkdir(parents=True, exist_ok=True)
            file = _Csv(beside) if output.suffix.lower() == ".csv" else _Parquet(beside)

        def write(frame: pd.DataFrame) -> None:
            with wrap_os_errors(output, OUTPUT):
                file.write(frame)

        try:
            yield write
        except BaseException:
            with suppress(Exception):  # the first error is the one to tell
                file.close()
            raise
        with wrap_os_errors(output, OUTPUT):
            file.close()
            os.replace(beside, output)
    finally:
        with suppress(OSError):
            beside.unlink(missing_ok=True)


class _Csv:
    """A file of text that grows by frames."""

    def __init__(self, path: Path) -> None:
        self.file = path.open("w", encoding="utf-8", newline="")

    def write(self, frame: pd.DataFrame) -> None:
        frame.to_csv(self.file, index=False, header=self.file.tell() == 0)

    def close(self) -> None:
        self.file.close()


class _Parquet:
    """A parquet file that grows by frames, whose columns are those of the first one."""

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
