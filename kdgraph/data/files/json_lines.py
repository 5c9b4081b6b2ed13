"""Tables in files with a JSON object in each line (.jsonl, .ndjson)."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from kdgraph.data.files.numbers import FLOAT_INTEGER_LIMIT, integer_array
from kdgraph.data.files.parsed_table import ParsedTable
from kdgraph.data.files.paths import check_text, open_bytes, path_argument
from kdgraph.data.source_columns import SourceTypes
from kdgraph.errors import DataError


def read_json_lines(path: Path, encoding: str) -> ParsedTable:
    """Return the table of a file with an object in each line.

    Cells have their types in JSON: text stays text, also where it looks like a number or a date. A
    key that a line lacks is a missing cell.
    """
    codec = check_text(path, encoding)
    with open_bytes(path) as file:
        records = list(objects_of_lines(file, codec, path_argument(path)))
    return table_of_objects(records)


def objects_of_lines(file: IO[bytes], codec: str, source: str) -> Iterator[dict[str, Any]]:
    """Yield the object of each line of an open file that is not empty."""
    text = io.TextIOWrapper(file, codec)
    try:
        yield from _objects(text, source)
    finally:
        # The wrapper would otherwise close the file, which belongs to the caller.
        text.detach()


def _objects(lines: Iterable[str], source: str) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"{source}: line {number} is not JSON ({error})") from error
        if not isinstance(value, dict):
            raise DataError(
                f"{source}: line {number} must be an object such as"
                f' {{"age": 31, "job": "chef"}}, got {type(value).__name__}'
            )
        nested = next((key for key, cell in value.items() if isinstance(cell, list | dict)), None)
        if nested is not None:
            raise DataError(
                f"{source}: line {number} has a {type(value[nested]).__name__} in {nested!r}; give"
                " each of its entries a key of its own"
            )
        yield value


def table_of_objects(records: list[dict[str, Any]]) -> ParsedTable:
    """Return objects as a table, with whole numbers that a float64 rounds as such."""
    frame = pd.DataFrame.from_records(records)
    read_again = {}
    for name in frame.columns:
        column = frame[name]
        if column.dtype != np.float64 or not (column.abs() >= FLOAT_INTEGER_LIMIT).any():
            continue
        cells = [record.get(name) for record in records]
        if all(cell is None or type(cell) is int for cell in cells):
            integers = integer_array(cells)
            if integers is not None:
                read_again[str(name)] = "float64"
                frame[name] = integers
    return ParsedTable(frame, types=SourceTypes(read_again=read_again))
