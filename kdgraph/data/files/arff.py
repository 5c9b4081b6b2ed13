"""Tables in ARFF files, whose attributes are declared as numbers, text or nominal values."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pandas as pd

from kdgraph.data.dataset import ColumnKind
from kdgraph.data.files.numbers import FLOAT_INTEGER_LIMIT, parse_number_column
from kdgraph.data.files.parsed_table import ParsedTable
from kdgraph.data.files.paths import READ_ERRORS, open_bytes, path_argument, unreadable_file_error
from kdgraph.data.source_columns import SourceTypes
from kdgraph.errors import DataError
from kdgraph.wording import first_line

_NUMERIC_ATTRIBUTE_PATTERN = re.compile(
    r"^(\s*@attribute\s.*\s)(numeric|integer|real)(\s*)$", re.IGNORECASE
)

_WHOLE_NUMBERS = ("Int64", "UInt64")
"""Types of columns that were read again, where liac-arff has fractions."""


def declare_numbers_as_text(lines: IO[str]) -> Iterator[str]:
    """Yield an ARFF file with its numeric attributes as text, since liac-arff reads floats."""
    for line in lines:
        match = _NUMERIC_ATTRIBUTE_PATTERN.match(line.rstrip("\r\n"))
        yield f"{match[1]}STRING{match[3]}\n" if match else line
        if line.strip().lower().startswith("@data"):
            break
    yield from lines


def frame_from_arff(text: IO[str]) -> tuple[pd.DataFrame, list[str]]:
    """Return the table of an open ARFF file and the names of its nominal attributes.

    A nominal attribute is a column of text and a numeric one of numbers. Text that is not ARFF
    raises ``arff.ArffException`` or ValueError.
    """
    import arff

    document = arff.load(text, return_type=arff.DENSE_GEN)
    names, kinds = zip(*document["attributes"], strict=True)
    frame = pd.DataFrame.from_records(list(document["data"]), columns=list(names))
    numeric = [
        name
        for name, kind in zip(names, kinds, strict=True)
        if not isinstance(kind, list) and kind != "STRING"
    ]
    for name in numeric:
        frame[name] = pd.to_numeric(frame[name])
    # liac-arff has parsed all numbers as floats. A column that may have lost digits is read again
    # as text; this needs a second pass over the file, which is rare.
    if rounded := [name for name in numeric if (frame[name].abs() >= FLOAT_INTEGER_LIMIT).any()]:
        text.seek(0)
        document = arff.load(declare_numbers_as_text(text), return_type=arff.DENSE_GEN)
        cells = pd.DataFrame.from_records(list(document["data"]), columns=list(names))
        for name in rounded:
            frame[name] = parse_number_column(cells[name])
    return frame, [
        str(name) for name, kind in zip(names, kinds, strict=True) if isinstance(kind, list)
    ]


def read_arff(path: Path, codec: str) -> ParsedTable:
    """Return the table of an ARFF file and its nominal attributes."""
    import arff

    try:
        with open_bytes(path) as file, io.TextIOWrapper(file, codec) as text:
            frame, nominal = frame_from_arff(text)
    except arff.ArffException as error:
        raise DataError(
            f"{path_argument(path)} is not ARFF: {first_line(error).removesuffix(', at line -1.')}"
        ) from error
    except (ValueError, *READ_ERRORS) as error:
        raise unreadable_file_error(path, error) from error
    read_again = {
        str(name): "float64" for name, dtype in frame.dtypes.items() if str(dtype) in _WHOLE_NUMBERS
    }
    kinds: dict[str, ColumnKind] = dict.fromkeys(nominal, "categorical")
    return ParsedTable(frame, kinds, SourceTypes(read_again=read_again))
