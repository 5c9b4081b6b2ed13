"""Predictions of a finished run's model for new rows, streamed into a file.

Of a classifier probabilities, label and confidence, and the set of classes if it predicts one; of a
regressor mean and quantiles; and of either an OOD score, with a p-value if a detector has it.
"""

from __future__ import annotations

import math
import os
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from threadpoolctl import threadpool_limits

from kdgraph import __version__
from kdgraph.base import FittedModel
from kdgraph.deployment import DeployedModel, Schema, read_schema
from kdgraph.deployment.model import block_rows
from kdgraph.deployment.schema import check_schema
from kdgraph.errors import DataError, RunFailed, UsageError
from kdgraph.parameters import Unseen
from kdgraph.runner.files import file_checksum, temporary_path, wrap_os_errors
from kdgraph.runner.locks import exit_with, process_identity, release_all_locks
from kdgraph.runner.prediction.parts import (
    OUTPUT,
    PartCounts,
    PartsFolder,
    finish_part,
    identity_of_input,
    write_part,
)
from kdgraph.runner.prediction.rows import Block, NewRows
from kdgraph.runner.run_dir import CALIBRATED, MODEL_FOLDER, MODEL_SCHEMA, RECORD

if TYPE_CHECKING:
    import pandas as pd

READ_BLOCKS, PART_BLOCKS, PART_BYTES = 8, 16, 64_000_000
"""Most blocks of rows that are read at a time, and that a part has, unless they have more bytes.

A part of tables has 65,536 rows: a second of a forest's work, so that a kill loses little, and
joining the parts takes little of the time.
"""
_RUN_AGAIN = "do the run again with force=true"
_REPAIR_AGAIN = "write it again with 'kdg repair'"


@dataclass(frozen=True)
class PredictionCounts:
    """Numbers of predicted rows, and of those with an OOD score above 0.

    ``n_flagged`` are flagged at the false discovery rate, if there is one. ``became_missing`` is
    that of :class:`~kdgraph.runner.prediction.parts.PartCounts`.
    """

    n_rows: int
    n_ood: int
    n_flagged: int | None = None
    became_missing: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SavedModel:
    """A run's directory, or a file of ``kdg repair``, from which each process loads its model once.

    ``trust`` is that of :func:`kdgraph.persistence.load`.
    """

    path: Path
    is_run: bool
    trust: bool | tuple[str, ...] = False

    @property
    def files(self) -> list[Path]:
        """Files that the model is read from."""
        folder = self.path / MODEL_FOLDER
        return (
            sorted(path for path in folder.iterdir() if path.is_file())
            if self.is_run
            else [self.path]
        )

    def load(self) -> DeployedModel:
        """Return the model; the same object while its files do not change."""
        try:
            versions = [(path.stat().st_mtime_ns, path.stat().st_size) for path in self.files]
        except OSError:
            versions = []  # loading raises the error
        return _load_once(self, tuple(versions))

    def digests(self) -> list[str | None]:
        """Return the SHA-256 of each file."""
        return [file_checksum(path) for path in self.files]


@lru_cache(maxsize=1)
def _load_once(source: SavedModel, versions: tuple[tuple[int, int], ...]) -> DeployedModel:
    return (load_run if source.is_run else load_repaired)(source.path, source.trust)


def load_run(run_dir: Path, trust: bool | Sequence[str] = False) -> DeployedModel:
    """Load the model of the run in a directory.

    ``trust`` is that of :func:`kdgraph.persistence.load`. Raises UsageError where there is no
    model, it was written with another key and is not trusted, or it is no model.
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
    """Load the model of a file of ``kdg repair``, under the conditions of :func:`load_run`."""
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


@dataclass(frozen=True)
class _Work:
    """The content of a message to a process that predicts parts of a file.

    ``part_rows`` and ``read_rows``, those read at a time, are blocks times a power of two, so that
    a part begins where rows begin that are read together.
    """

    source: SavedModel
    path: Path
    unseen: Unseen
    output: Path
    part_rows: int
    read_rows: int
    escapes_formulas: bool

    def write(self, part: int, blocks: Iterable[Block], rows: NewRows, path: Path) -> PartCounts:
        """Predict the blocks of a part, which ``rows`` reads, into the file ``path``."""
        saved = self.source.load()
        # A part is the same in each process, however many threads that has for a matrix product.
        with threadpool_limits(1, user_api="blas"):
            return write_part(
                path,
                (
                    (_predict_block(saved, block, rows.where), block.became_missing)
                    for block in blocks
                ),
                first=part == 0,
                output=self.output,
                escapes_formulas=self.escapes_formulas,
            )

    def finish(self, part: int, blocks: Iterable[Block], rows: NewRows, path: Path) -> PartCounts:
        """Predict a part into a file that is complete or absent, and note that it is complete."""
        temporary = temporary_path(path).with_suffix(path.suffix)
        try:
            counts = self.write(part, blocks, rows, temporary)
            with wrap_os_errors(self.output, OUTPUT):
                os.replace(temporary, path)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
        finish_part(path, counts)
        return counts

    def finish_in_worker(self, task: _Task) -> PartCounts:
        """Do a task in a process of its own."""
        # The process that started this one reports what is odd about the columns.
        schema = self.source.load().schema
        rows = NewRows(self.path, schema, self.unseen, lambda line: None)
        if task.blocks is not None:
            return self.finish(task.part, task.blocks, rows, task.file)
        start = task.part * self.part_rows
        blocks = rows.blocks(self.read_rows, start, start + self.part_rows)
        return self.finish(task.part, blocks, rows, task.file)


@dataclass(frozen=True)
class _Task:
    """A part for another process, with its rows, or without them if that process reads them."""

    part: int
    file: Path
    blocks: list[Block] | None = None


def predict(
    source: SavedModel,
    new_rows: NewRows,
    output: Path,
    *,
    chunk: int,
    fdr: float | None = None,
    escapes_formulas: bool = False,
    n_jobs: int = 1,
    progress: Callable[[int, float], None] = lambda rows, share: None,
    note: Callable[[str], None] = lambda line: None,
) -> PredictionCounts:
    """Predict every row and write the file ``output``, which is complete or absent.

    Rows are predicted in parts (:mod:`kdgraph.runner.prediction.parts`), by ``n_jobs`` processes,
    each with the model in memory. If this process ends before it is done, the same call goes on
    after the parts that were finished. Its output is the same to the byte, as it is for any number
    of processes.

    ``chunk`` is the number of rows that a process reads at a time, rounded up to full blocks, and
    at most :data:`READ_BLOCKS` of them; it never changes a number. ``fdr`` and ``escapes_formulas``
    are those of :class:`~kdgraph.runner.prediction.parts.PartsFolder`. ``progress`` receives the
    number of predicted rows and the fraction of the input that was read, ``note`` a line on parts
    of an earlier call.

    Raises DataError for an input without rows or with one that the model does not take, UsageError
    where ``fdr`` is given and the model has no p-values of single rows, and RunFailed where a
    process was lost, as it is when memory runs out.
    """
    saved = source.load()
    if fdr is not None and not saved.model.supports("ood_p_value"):
        raise UsageError(
            "--fdr needs p-values, and the model has no detector of single rows; do the run again"
            " with one, such as detector=leaf_box"
        )
    part_rows, read_rows = _rows_of_parts(saved.schema, chunk)
    work = _Work(
        source, new_rows.path, new_rows.unseen, output, part_rows, read_rows, escapes_formulas
    )

    options = {
        "unseen": new_rows.unseen,
        "fdr": fdr,
        "format": output.suffix.lower(),
        "escapes_formulas": escapes_formulas,
    }
    identity = {
        "another input": identity_of_input(new_rows.path),
        "another model": [*source.digests(), saved.schema.as_json()],
        "other options": options | {"part": part_rows, "read": read_rows},
        "another version": __version__,
    }

    folder = PartsFolder(output, identity, fdr, note, escapes_formulas=escapes_formulas)
    with folder as parts:
        try:
            _write_parts(work, new_rows, parts, n_jobs, progress)
            counts = list(parts.counts.values())
            n_rows = sum(part.n_rows for part in counts)
            if not n_rows:
                raise DataError(f"{new_rows.where} has no rows")
            n_flagged = parts.join()
        except DataError:
            parts.remove()  # the input has to change
            raise
    became_missing = sum((Counter(part.became_missing) for part in counts), Counter[str]())
    return PredictionCounts(
        n_rows, sum(part.n_ood for part in counts), n_flagged, dict(became_missing)
    )


def _rows_of_parts(schema: Schema, chunk: int) -> tuple[int, int]:
    """Return the rows of a part, and those that are read at a time."""
    step = block_rows(schema)
    blocks = 1
    while blocks < PART_BLOCKS and 2 * blocks * step * 8 * math.prod(schema.shape) <= PART_BYTES:
        blocks *= 2
    part_rows = step * blocks
    while blocks > 1 and (blocks > READ_BLOCKS or step * blocks // 2 >= chunk):
        blocks //= 2
    return part_rows, step * blocks


def _write_parts(
    work: _Work,
    new_rows: NewRows,
    parts: PartsFolder,
    n_jobs: int,
    progress: Callable[[int, float], None],
) -> None:
    """Write the parts that are not finished, and report the progress.

    A single part needs no other process.
    """
    if n_jobs > 1 and (n_rows := _rows_to_divide(new_rows, work.part_rows)):
        new_rows.check_columns()
        numbers = [k for k in range(-(-n_rows // work.part_rows)) if k not in parts.counts]
        tasks = (_Task(part, parts.file(part)) for part in numbers)
        _finish_in_processes(work, tasks, parts, n_jobs, lambda rows: progress(rows, rows / n_rows))
        return
    n_predicted = parts.n_rows

    def blocks() -> Iterator[Block]:
        nonlocal n_predicted
        # A file without row groups is read from its beginning, past the parts that are finished.
        start = 0
        while new_rows.row_groups is not None and start // work.part_rows in parts.counts:
            start += work.part_rows
        for block in new_rows.blocks(
            work.read_rows, start, skip=lambda first: first // work.part_rows in parts.counts
        ):
            yield block
            n_predicted += len(block.X)
            if n_jobs == 1:
                progress(n_predicted, new_rows.share_read())

    groups = groupby(blocks(), lambda block: block.start // work.part_rows)
    if n_jobs > 1:
        # This process reads the rows.
        tasks = (_Task(part, parts.file(part), list(part_blocks)) for part, part_blocks in groups)
        if (first := next(tasks, None)) is None:
            return
        if (second := next(tasks, None)) is not None:
            _finish_in_processes(
                work,
                chain([first, second], tasks),
                parts,
                n_jobs,
                lambda rows: progress(rows, new_rows.share_read()),
            )
            return
        groups = iter([(first.part, iter(first.blocks or []))])
    for part, part_blocks in groups:
        parts.counts[part] = work.finish(part, part_blocks, new_rows, parts.file(part))


def _rows_to_divide(new_rows: NewRows, part_rows: int) -> int:
    """Return the rows of a file whose parts other processes can read, or 0.

    In a file without row groups, or with large ones, a process would read much to find a part.
    """
    ends = new_rows.row_groups
    if not ends or ends[-1] <= part_rows or np.diff([0, *ends]).max() > 4 * part_rows:
        return 0
    return ends[-1]


def _finish_in_processes(
    work: _Work,
    tasks: Iterator[_Task],
    parts: PartsFolder,
    n_jobs: int,
    progress: Callable[[int], None],
) -> None:
    """Do the tasks in several processes, of which one more than there are processes waits."""
    from joblib.externals.loky import ProcessPoolExecutor
    from joblib.externals.loky.process_executor import BrokenProcessPool

    processes = ProcessPoolExecutor(
        n_jobs, initializer=exit_with, initargs=(process_identity(), release_all_locks)
    )
    waiting: deque[tuple[int, Any]] = deque()

    def collect() -> None:
        part, result = waiting.popleft()
        parts.counts[part] = result.result()
        progress(parts.n_rows)

    try:
        try:
            for task in tasks:
                waiting.append((task.part, processes.submit(work.finish_in_worker, task)))
                if len(waiting) > n_jobs:
                    collect()
        except DataError:
            # An error in rows before these comes first, as it does in one process.
            while waiting:
                collect()
            raise
        while waiting:
            collect()
    except BrokenProcessPool as error:
        raise RunFailed(
            f"a process that predicted was lost, perhaps because memory ran out; the same command"
            f" goes on after {parts.n_rows:,} predicted rows, and --jobs {max(1, n_jobs // 2)}"
            " takes less memory"
        ) from error
    finally:
        processes.shutdown(kill_workers=True)


def _predict_block(saved: DeployedModel, block: Block, where: str) -> pd.DataFrame:
    import pandas as pd

    try:
        columns = saved.output_columns(block.X, block.groups)
    except ValueError as error:
        if not np.isnan(block.X).any():
            raise
        row, column, *_ = np.argwhere(np.isnan(block.X))[0]
        features = saved.schema.features
        name = f" ('{features[column].name}')" if features else ""
        raise DataError(
            f"{where}: row {block.start + row} has an empty cell{name}, and the model takes none:"
            " its training rows had none"
        ) from error
    rows = {"row": np.arange(block.start, block.start + len(block.X))}
    return pd.DataFrame(rows | columns)


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
