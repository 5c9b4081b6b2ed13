"""Tables in files of every kind, read as data frames by the ending of the file."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from kdgraph.data.files.arff import read_arff
from kdgraph.data.files.arrow import is_partitioned, read_parquet
from kdgraph.data.files.delimited import default_separator, read_delimited, read_text_column
from kdgraph.data.files.json_lines import read_json_lines
from kdgraph.data.files.parsed_table import ParsedTable
from kdgraph.data.files.paths import check_text, checked_suffix
from kdgraph.data.files.spreadsheets import SPREADSHEET, read_spreadsheet
from kdgraph.data.text_format import TextFormat

TABLE_SUFFIXES = (
    *(".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".pq", ".feather", ".arff", SPREADSHEET),
)
"""Endings of files with a table; a text file may be compressed besides."""


def read_table(path: Path, text_format: TextFormat) -> ParsedTable:
    """Read a table by the ending of its file.

    The ending of a text file may be followed by .gz, .bz2, .xz or .zip. A folder of parquet files
    is one table.
    """
    if is_partitioned(path):
        return read_parquet(path)
    suffix = checked_suffix(path, TABLE_SUFFIXES)
    if suffix in (".parquet", ".pq", ".feather"):
        return read_parquet(path)
    if suffix == SPREADSHEET:
        return read_spreadsheet(path, text_format)
    if suffix in (".jsonl", ".ndjson"):
        return read_json_lines(path, text_format.encoding)
    if suffix == ".arff":
        return read_arff(path, check_text(path, text_format.encoding))
    return read_delimited(path, text_format, default_separator(suffix))


def read_labels(path: Path, text_format: TextFormat, name: str) -> pd.Series | None:
    """Return the cells of one column of a text file as text, none of them converted.

    None for other files, whose columns have types.
    """
    if is_partitioned(path):
        return None
    suffix = checked_suffix(path, TABLE_SUFFIXES)
    if suffix not in (".csv", ".tsv"):
        return None
    return read_text_column(path, text_format, default_separator(suffix), name)
