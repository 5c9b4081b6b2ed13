"""Whether what the OpenML cache holds is whole: openml-python checks only ARFF files, and those only while it fetches them."""

from __future__ import annotations

import contextlib
import hashlib
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from kdgraph.data.openml.cache import OpenmlData, bytes_on_disk, cache_folder, cached, damaged, dataset_folder, read_frame
from kdgraph.errors import DataError

NOTE = "kdgraph.sha256"
"""A file beside the data with the digest that they had when they were fetched, as ``sha256sum -c`` reads it."""


@dataclass(frozen=True)
class Checked:
    """What was found of one data set; ``problem`` is one line if it cannot be trusted."""

    id: int
    name: str
    rows: int
    columns: int
    size: int
    problem: str | None


def cached_ids() -> list[int]:
    """Numbers of all data sets in the cache, whole or not."""
    folder = cache_folder() / "datasets"
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit()) if folder.is_dir() else []


def note_checksum(data: OpenmlData) -> None:
    """Write down the digest of what was fetched; a cache that cannot be written to does without."""
    with contextlib.suppress(OSError):
        (data.folder / NOTE).write_text(f"{_digest(data.file, 'sha256')}  {data.file.name}\n", encoding="utf-8")


def check_cached(id: int) -> Checked:
    """Read all of a data set that is in the cache, and compare it with what is said of it.

    Compared are the digest from when it was fetched, OpenML's own digest of an ARFF file, the number of columns in its list of features,
    and the number of rows in its list of qualities, each where it is there.
    """
    name, rows, columns, problem = "", 0, 0, None
    try:
        data = cached(id)
        if data is None:
            raise damaged(dataset_folder(id) / "description.xml", "the description or the rows are not there")
        name = data.name
        frame = read_frame(data)
        rows, columns = frame.shape
        _compare(data, rows, columns)
    except DataError as error:
        problem = str(error)
    return Checked(id, name, rows, columns, bytes_on_disk(id), problem)


def _compare(data: OpenmlData, rows: int, columns: int) -> None:
    noted = data.folder / NOTE
    if noted.is_file() and (digest := noted.read_text(encoding="utf-8").split())[1:] == [data.file.name]:
        _expect(data.file, "SHA-256", _digest(data.file, "sha256"), digest[0])
    if data.loader == "arff" and data.md5:
        _expect(data.file, "MD5", _digest(data.file, "md5"), data.md5)
    if data.features:
        _expect(data.file, "number of columns", columns, len(data.features))
    if (told := _rows_told(data.folder / "qualities.xml")) is not None:
        _expect(data.file, "number of rows", rows, told)


def _expect(file: Path, what: str, found: object, told: object) -> None:
    if found != told:
        raise damaged(file, f"{what} {found} where {told} is announced")


def _digest(file: Path, kind: str) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, kind).hexdigest()


def _rows_told(path: Path) -> int | None:
    if not path.is_file():
        return None
    try:
        qualities = ElementTree.parse(path).getroot().iter("{http://openml.org/openml}quality")
        values = {node[0].text: node[1].text for node in qualities if len(node) > 1}
        return int(float(values.get("NumberOfInstances") or ""))
    except (ElementTree.ParseError, ValueError):
        return None  # nothing is read from this file but that
