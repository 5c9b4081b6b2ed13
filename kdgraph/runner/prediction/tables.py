"""Tables of new rows, some rows at a time: csv and tsv, parquet, ARFF."""

from __future__ import annotations

import csv
import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import pandas as pd

from kdgraph.data.files.paths import BROKEN, OPENERS
from kdgraph.data.files.readers import MISSING_CELLS
from kdgraph.errors import DataError

PARQUET = (".parquet", ".pq")


class NewTable(Protocol):
    """A table in a file."""

    def columns(self) -> list[str]:
        """Names of its columns, in order."""
        ...

    def frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        """The wanted columns, at most ``rows`` rows at a time. What text stands for is left to the reader: it must not depend on others."""
        ...

    def share_read(self) -> float:
        """How much of the file was read, from 0 to 1."""
        ...


def table_of(path: Path, suffix: str, separator: str | None, encoding: str) -> NewTable:
    """The table in a file whose name ends in ``suffix``."""
    if suffix in PARQUET:
        return ParquetTable(path)
    if suffix == ".arff":
        return ArffTable(path, encoding)
    return TextTable(path, separator or ("\t" if suffix == ".tsv" else ","), encoding)


class TextTable:
    """csv and tsv, also compressed; every cell stays text, so that no other cell decides what it is."""

    def __init__(self, path: Path, separator: str, encoding: str) -> None:
        self.path, self.raw = path, _Raw(path)
        self.options: dict[str, Any] = {"sep": separator, "encoding": encoding, "na_values": MISSING_CELLS, "keep_default_na": False}
        self.options |= {"index_col": False, "skipinitialspace": True, "dtype": str}

    def columns(self) -> list[str]:
        """Cells of the header."""
        with _in_one_line(self.path), self.raw.opened() as file:
            return _stripped(pd.read_csv(file, nrows=0, **self.options).columns)

    def frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        """Cells as text."""
        return _each_in_one_line(self.path, self._frames(wanted, rows))

    def _frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        with self.raw.opened() as file, pd.read_csv(file, chunksize=rows, **self.options) as chunks:
            for frame in chunks:
                yield frame.set_axis(_stripped(frame.columns), axis=1)[list(wanted)]

    def share_read(self) -> float:
        """By bytes."""
        return self.raw.share()


class ArffTable:
    """ARFF, whose nominal values are text."""

    def __init__(self, path: Path, encoding: str) -> None:
        self.path, self.raw, self.encoding = path, _Raw(path), encoding

    @contextmanager
    def _loaded(self) -> Iterator[dict[str, Any]]:
        import arff

        with self.raw.opened() as file, io.TextIOWrapper(file, self.encoding) as text:
            yield arff.load(text, return_type=arff.DENSE_GEN)

    def columns(self) -> list[str]:
        """Names of the attributes."""
        with _in_one_line(self.path), self._loaded() as found:
            return [str(name) for name, _ in found["attributes"]]

    def frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        """Cells as numbers or text."""
        return _each_in_one_line(self.path, self._frames(wanted, rows))

    def _frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        names = self.columns()
        with self._loaded() as found:
            data = iter(found["data"])
            while some := list(islice(data, rows)):
                yield pd.DataFrame.from_records(some, columns=names)[list(wanted)].astype(object)

    def share_read(self) -> float:
        """By bytes."""
        return self.raw.share()


class ParquetTable:
    """parquet, whose columns have types."""

    def __init__(self, path: Path) -> None:
        self.path, self.read, self.total = path, 0, 1

    def columns(self) -> list[str]:
        """Names of the columns."""
        from pyarrow import parquet

        with _in_one_line(self.path):
            return [str(name) for name in parquet.read_schema(self.path).names]

    def frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        """Cells of the columns' types."""
        return _each_in_one_line(self.path, self._frames(wanted, rows))

    def _frames(self, wanted: Sequence[str], rows: int) -> Iterator[pd.DataFrame]:
        from pyarrow import parquet

        with parquet.ParquetFile(self.path) as file:
            self.total = max(file.metadata.num_rows, 1)
            for batch in file.iter_batches(rows, columns=list(wanted)):
                self.read += len(batch)
                yield batch.to_pandas()[list(wanted)]

    def share_read(self) -> float:
        """By rows."""
        return self.read / self.total


class _Raw:
    """A file, decompressed on the way, that knows how much of it was read."""

    def __init__(self, path: Path) -> None:
        self.path, self.size, self.file = path, max(path.stat().st_size, 1), None

    @contextmanager
    def opened(self) -> Iterator[Any]:
        with self.path.open("rb") as self.file:
            opener = OPENERS.get(self.path.suffix.lower())
            yield opener(self.file) if opener else self.file

    def share(self) -> float:
        return 1.0 if self.file is None or self.file.closed else self.file.tell() / self.size


def _stripped(names: Sequence[Any]) -> list[str]:
    return [str(name).strip() for name in names]


@contextmanager
def _in_one_line(path: Path) -> Iterator[None]:
    """What readers raise of a file that is not what its ending says, in one line."""
    from arff import ArffException
    from pyarrow import ArrowException

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # rows that are longer than the header
            yield
    except pd.errors.EmptyDataError as error:
        raise DataError(f"--input {path} is empty") from error
    except (pd.errors.ParserError, pd.errors.ParserWarning, csv.Error, UnicodeDecodeError, ArffException, ArrowException, *BROKEN) as error:
        said = " ".join(str(error).removeprefix("Error tokenizing data. C error: ").split())[:160]
        raise DataError(f"--input {path} cannot be read: {said}") from error


def _each_in_one_line(path: Path, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """The frames; only while one is read are warnings errors, not while it is used: a reader that is never ended would leave them so."""
    while True:
        with _in_one_line(path):
            frame = next(frames, None)
        if frame is None:
            return
        yield frame
