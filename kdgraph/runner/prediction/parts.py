"""Predictions in parts: files of a fixed number of rows that outlive the process that made them.

Predictions are written to the folder ``OUTPUT.parts`` beside the output, one file for each part,
and joined at the end. A process that is killed leaves this folder and its lock, and the same
command goes on after the finished parts and removes both. The rows of a part do not depend on the
number of processes, so neither do the bytes of the output.

A part is finished when its counts exist, which are written after it: both files are renamed to
their names, so that they are complete or absent. The folder has the identity of input, model and
options; parts of another identity are never used.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from kdgraph.errors import UsageError
from kdgraph.metrics import benjamini_hochberg
from kdgraph.runner.files import add_checksum, check_and_load, wrap_os_errors, write_atomically
from kdgraph.runner.formulas import escape_frame
from kdgraph.runner.locks import lock
from kdgraph.wording import counted, printable, some

if TYPE_CHECKING:
    import pandas as pd

OUTPUT = "--output"
_IDENTITY = "identity.json"
_COUNTS = "[0-9][0-9][0-9][0-9][0-9][0-9].json"
_OWN_FILE = re.compile(
    r"\.?(\d{6}|identity)\.(json|csv|parquet)(\.[0-9a-f]+\.(tmp|csv|parquet))?|joined"
)
_EDGE_BYTES = 1 << 20
"""Bytes at the beginning and at the end of an input that enter its identity.

The end of a parquet file holds the extremes of all its columns.
"""


@dataclass(frozen=True)
class PartCounts:
    """Numbers of predicted rows of a part, of rows with an OOD score above 0, and of bytes.

    ``became_missing`` maps features to numbers of cells with a category that the training data do
    not have.
    """

    n_rows: int
    n_ood: int
    n_bytes: int
    became_missing: dict[str, int] = field(default_factory=dict)


def write_part(
    path: Path,
    frames: Iterable[tuple[pd.DataFrame, Counter[str]]],
    *,
    first: bool,
    output: Path,
    escapes_formulas: bool = False,
) -> PartCounts:
    """Write the frames of a part to a .csv or .parquet file, and return its counts.

    Each frame has its :attr:`PartCounts.became_missing`. The first part alone has a header in a
    .csv, whose text that a spreadsheet would evaluate gets a single quote where
    ``escapes_formulas`` is True. ``output`` is for messages.
    """
    n_rows = n_ood = 0
    became_missing: Counter[str] = Counter()
    with wrap_os_errors(output, OUTPUT):
        writer = _writer(path, path.suffix, header=first, escapes_formulas=escapes_formulas)
    try:
        for frame, became_missing_here in frames:
            with wrap_os_errors(output, OUTPUT):
                writer.write(frame)
            became_missing += became_missing_here
            n_rows += len(frame)
            n_ood += int((frame["ood_score"] > 0).sum()) if "ood_score" in frame else 0
    except BaseException:
        with suppress(Exception):  # any: the first error is the one to report
            writer.close()
        raise
    with wrap_os_errors(output, OUTPUT):
        writer.close()
        n_bytes = path.stat().st_size
    return PartCounts(n_rows, n_ood, n_bytes, dict(became_missing))


class PartsFolder:
    """The folder with the parts of an output, and the .csv or .parquet file that they become.

    ``identity`` has the JSON-safe values that decide the output, ``fdr`` is the false discovery
    rate of a column ``ood_flagged``. The flags depend on the p-values of all rows, so that parts
    are in a form to which a column can be added.
    """

    def __init__(
        self,
        output: Path,
        identity: Mapping[str, Any],
        fdr: float | None,
        note: Callable[[str], None],
        *,
        escapes_formulas: bool = False,
    ) -> None:
        self.output, self.fdr, self.note = output, fdr, note
        self.escapes_formulas = escapes_formulas
        self.identity = json.loads(json.dumps(dict(identity)))
        self.path = output.with_name(f"{output.name}.parts")
        is_csv = output.suffix.lower() == ".csv" and fdr is None
        self.suffix = ".csv" if is_csv else ".parquet"
        self.counts: dict[int, PartCounts] = {}
        self._stack = ExitStack()

    @property
    def n_rows(self) -> int:
        """Number of rows in finished parts."""
        return sum(counts.n_rows for counts in self.counts.values())

    def __enter__(self) -> PartsFolder:
        """Make the folder, or take up the parts in it that an earlier process finished."""
        lock_path = self.path.with_name(f".{self.path.name}.lock")
        self._stack.enter_context(lock(lock_path, self.note, (self.output, OUTPUT)))
        with ExitStack() as undo:
            undo.callback(self._stack.close)
            self._refuse_other_files()
            if not self._take_up():
                with wrap_os_errors(self.output, OUTPUT):
                    self.path.mkdir()
                content = add_checksum(self.identity)
                write_atomically(self.path / _IDENTITY, content, OUTPUT)
            undo.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        if not any(self.path.glob(_COUNTS)):  # nothing to go on after
            self.remove()
        self._stack.close()

    def file(self, part: int) -> Path:
        """Return the file of a part."""
        return self.path / f"{part:06d}{self.suffix}"

    def join(self) -> int | None:
        """Make the output of all parts and remove the folder; return the number of flagged rows."""
        files = [self.file(part) for part in sorted(self.counts)]
        joined, n_flagged = self.path / "joined", None
        with wrap_os_errors(self.output, OUTPUT):
            if self.fdr is not None:
                writer = _writer(
                    joined,
                    self.output.suffix.lower(),
                    header=True,
                    escapes_formulas=self.escapes_formulas,
                )
                n_flagged = _join_flagged(files, writer, self.fdr)
            elif len(files) == 1:
                joined = files[0]
            elif self.suffix == ".csv":
                _join_bytes(files, joined)
            else:
                _join_row_groups(files, joined)
            os.replace(joined, self.output)
        self.remove()
        return n_flagged

    def remove(self) -> None:
        """Remove the folder."""
        # Without its identity a folder that is partly removed is not taken up.
        with suppress(OSError):
            (self.path / _IDENTITY).unlink(missing_ok=True)
        shutil.rmtree(self.path, ignore_errors=True)

    def _refuse_other_files(self) -> None:
        """Raise UsageError if there is something else at the folder's place, which would be lost.

        A folder that is partly removed has no identity, so that the names of its files decide.
        """
        names = [path.name for path in self.path.iterdir()] if self.path.is_dir() else []
        others = [name for name in names if not _OWN_FILE.fullmatch(name)]
        if others or self.path.is_symlink() or (self.path.exists() and not self.path.is_dir()):
            holds = f" holds {printable(some(sorted(others), 2))} and" if others else ""
            raise UsageError(
                f"{self.path}{holds} is no folder of 'kdg predict', which needs this name for its"
                f" parts; move it, or name another file with {OUTPUT}"
            )

    def _take_up(self) -> bool:
        """Return whether there is a folder of the same identity; read the counts of its parts.

        Parts of another input or model are removed.
        """
        if not self.path.is_dir():
            return False
        stored = _read_checked(self.path / _IDENTITY)
        if stored != self.identity:
            changed = [
                name for name, value in self.identity.items() if (stored or {}).get(name) != value
            ]
            if any(self.path.glob(_COUNTS)):
                self.note(
                    f"{self.path} has parts of"
                    f" {' and '.join(changed) if stored else 'another call'}; they are removed, and"
                    " all rows are predicted"
                )
            self.remove()
            return False
        for unfinished in self.path.glob(".*"):  # of killed writers
            unfinished.unlink(missing_ok=True)
        for counts_file in sorted(self.path.glob(_COUNTS)):
            counts = _read_counts(counts_file)
            with suppress(OSError):
                part = int(counts_file.stem)
                if counts and self.file(part).stat().st_size == counts.n_bytes:
                    self.counts[part] = counts
        if self.counts:
            self.note(
                f"goes on after {counted(self.n_rows, 'row')} that an earlier call predicted, in"
                f" {self.path}"
            )
        return True


def finish_part(file: Path, counts: PartCounts) -> None:
    """Write the counts of a part, which mark it as complete."""
    write_atomically(file.with_suffix(".json"), add_checksum(asdict(counts)), OUTPUT)


def identity_of_input(path: Path) -> dict[str, Any]:
    """Return JSON-safe values that change when a file does, without reading all of it."""
    status = path.stat()
    digest = hashlib.sha256()
    with path.open("rb") as file:
        digest.update(file.read(_EDGE_BYTES))
        file.seek(max(status.st_size - _EDGE_BYTES, 0))
        digest.update(file.read())
    return {
        "path": str(path.resolve()),
        "bytes": status.st_size,
        "modified": status.st_mtime_ns,
        "edges": digest.hexdigest(),
    }


def _read_checked(path: Path) -> dict[str, Any] | None:
    try:
        return check_and_load(path.read_bytes())
    except (OSError, ValueError):
        return None


def _read_counts(path: Path) -> PartCounts | None:
    """Return the counts of a part; None if the file is not as :func:`finish_part` wrote it."""
    values = _read_checked(path) or {}
    cells = values.pop("became_missing", None)
    is_whole = (
        values.keys() == {"n_rows", "n_ood", "n_bytes"}
        and isinstance(cells, dict)
        and all(type(value) is int for value in (*values.values(), *cells.values()))
    )
    return PartCounts(**values, became_missing=cells or {}) if is_whole else None


def _join_bytes(files: Iterable[Path], joined: Path) -> None:
    with joined.open("wb") as output:
        for path in files:
            with path.open("rb") as file:
                shutil.copyfileobj(file, output, 1 << 20)


def _join_row_groups(files: Iterable[Path], joined: Path) -> None:
    with closing(_ParquetWriter(joined)) as writer:
        for table in _row_groups(files):
            writer.write_table(table)


def _join_flagged(files: list[Path], writer: _CsvWriter | _ParquetWriter, fdr: float) -> int:
    """Join parts with a column of flags, and return the number of flagged rows."""
    column = "ood_p_value"
    with closing(writer):
        p_values = [table[column].to_numpy() for table in _row_groups(files, [column])]
        flagged, start = benjamini_hochberg(np.concatenate(p_values), fdr), 0
        for table in _row_groups(files):
            frame = table.to_pandas()
            position = list(frame.columns).index(column) + 1
            frame.insert(position, "ood_flagged", flagged[start : start + len(frame)])
            writer.write(frame)
            start += len(frame)
    return int(flagged.sum())


def _row_groups(files: Iterable[Path], columns: list[str] | None = None) -> Iterator[Any]:
    from pyarrow import parquet

    for path in files:
        with parquet.ParquetFile(path) as file:
            for k in range(file.num_row_groups):
                yield file.read_row_group(k, columns=columns)


def _writer(
    path: Path, suffix: str, *, header: bool, escapes_formulas: bool
) -> _CsvWriter | _ParquetWriter:
    if suffix == ".csv":
        return _CsvWriter(path, header=header, escapes_formulas=escapes_formulas)
    return _ParquetWriter(path)


class _CsvWriter:
    """A csv file that grows by frames."""

    def __init__(self, path: Path, *, header: bool, escapes_formulas: bool) -> None:
        self.file: IO[str] = path.open("w", encoding="utf-8", newline="")
        self.header, self.escapes_formulas = header, escapes_formulas

    def write(self, frame: pd.DataFrame) -> None:
        frame = escape_frame(frame) if self.escapes_formulas else frame
        frame.to_csv(self.file, index=False, header=self.header)
        self.header = False

    def close(self) -> None:
        self.file.close()


class _ParquetWriter:
    """A parquet file that grows by frames or tables; the first one determines its columns."""

    def __init__(self, path: Path) -> None:
        self.file, self.writer = path.open("wb"), None

    def write(self, frame: pd.DataFrame) -> None:
        from pyarrow import Table

        self.write_table(Table.from_pandas(frame, preserve_index=False))

    def write_table(self, table: Any) -> None:
        from pyarrow import parquet

        if self.writer is None:
            self.writer = parquet.ParquetWriter(self.file, table.schema)
        self.writer.write_table(table)

    def close(self) -> None:
        try:
            if self.writer is not None:
                self.writer.close()
        finally:
            self.file.close()
