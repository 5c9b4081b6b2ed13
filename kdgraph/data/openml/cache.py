"""Reader and checks of the OpenML cache on this machine, in the layout of openml-python.

The rows are not read by ``OpenMLDataset.get_data``. That method writes a pickle next to each file,
and two processes may write it at once (for MNIST, 55 MB for a file of 13 MB). It also orders
categories differently for the two kinds of files. openml-python verifies ARFF files only, and only
while it fetches them.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse
from xml.etree import ElementTree

from kdgraph.errors import DataError, DataNotAvailable

if TYPE_CHECKING:
    import pandas as pd


_XML_NAMESPACE = "{http://openml.org/openml}"
FETCHES: list[Path] = []
"""Folders in which this process is fetching, laid out as the cache."""


@dataclass(frozen=True)
class OpenmlData:
    """Data set in the cache, of which no row is read yet.

    ``left_out`` are columns that contain row ids or that OpenML marks as ignored, ``md5`` is the
    digest of the ARFF file as published, and ``file`` the file of the rows, Parquet (.pq) or ARFF.
    """

    id: int
    name: str
    version: int
    target: str | None
    left_out: tuple[str, ...]
    description: str
    md5: str | None
    folder: Path
    file: Path

    @property
    def loader(self) -> str:
        """Format of the file: "parquet" or "arff"."""
        return "parquet" if self.file.suffix == ".pq" else "arff"

    @cached_property
    def features(self) -> dict[str, str]:
        """Kind of each column in OpenML's description: nominal, numeric, string or date.

        Empty if only the data were fetched.
        """
        path = self.folder / "features.xml"
        nodes = _parse_xml(path).iter(f"{_XML_NAMESPACE}feature") if path.is_file() else ()
        try:
            return {_child_text(node, "name"): _child_text(node, "data_type") for node in nodes}
        except KeyError as error:
            raise damaged_file_error(path, f"a feature has no {error}") from error

    @property
    def facts(self) -> dict[str, Any]:
        """Origin of the rows, as written to the record of a run."""
        facts: dict[str, Any] = {
            "source": "openml",
            "id": self.id,
            "version": self.version,
            "name": self.name,
            "loader": self.loader,
        }
        if self.md5 and self.loader == "arff":
            facts["md5"] = self.md5
        subset = next(
            (line.strip() for line in self.description.splitlines() if "SUBSET" in line), None
        )
        return {**facts, "subset": subset[:200]} if subset else facts


def cache_folder() -> Path:
    """Return the cache folder of openml-python for the server that it is configured for.

    openml-python determines the folder, but it reads ``OPENML_CACHE_DIR`` only once. This function
    reads the variable at every call.
    """
    root, below = openml_folders()
    if folder := os.environ.get("OPENML_CACHE_DIR"):
        root = Path(os.path.expanduser(folder))
    return root / below


def openml_folders() -> tuple[Path, Path]:
    """Return the root of the cache that openml-python is configured for, and the folder in it.

    The folder has the parts of the server's name in reverse order, ``org/openml/www``.
    """
    openml = import_openml()
    cache = Path(openml.config.get_cache_directory())
    depth = len(urlparse(openml.config.server).netloc.split("."))
    return cache.parents[depth - 1], Path(*cache.parts[-depth:])


def import_openml() -> Any:
    """Import and return the package openml, which creates folders during the import."""
    try:
        with warnings.catch_warnings():
            # The packages that openml imports cause deprecation warnings.
            warnings.simplefilter("ignore", DeprecationWarning)
            # Folders that cannot be made are named where one is needed, with a remedy.
            logger = logging.getLogger("openml")
            level = logger.level
            logger.setLevel(logging.ERROR)
            # The import takes a second, so it is not at the top of the module.
            import openml

            logger.setLevel(level)
    except OSError as error:
        remedy = "point XDG_CONFIG_HOME and OPENML_CACHE_DIR at folders that can be written to"
        raise DataNotAvailable(f"openml cannot make its folders ({error}); {remedy}") from error
    return openml


def find_cached(id: int) -> OpenmlData | None:
    """Return the data set with number ``id`` if it is in the cache, and None otherwise."""
    # An interrupted download may lack the rows or the description; it does not count as cached.
    folder = dataset_folder(id)
    file = _find_data_file(folder, id)
    if file is None or not (folder / "description.xml").is_file():
        return None
    root = _parse_xml(folder / "description.xml")
    target = _child_text(root, "default_target_attribute", "") or None
    # OpenML writes names of columns into several elements, or into one with commas.
    left_out = [
        name.strip()
        for tag in ("row_id_attribute", "ignore_attribute")
        for node in root.iter(f"{_XML_NAMESPACE}{tag}")
        for name in (node.text or "").split(",")
        if name.strip()
    ]
    try:
        name, version = _child_text(root, "name"), int(_child_text(root, "version"))
    except (KeyError, ValueError) as error:
        raise damaged_file_error(
            folder / "description.xml", f"no name or no version: {error}"
        ) from error
    description = _child_text(root, "description", "")
    md5 = _child_text(root, "md5_checksum", "") or None
    return OpenmlData(id, name, version, target, tuple(left_out), description, md5, folder, file)


def dataset_folder(id: int) -> Path:
    """Return the folder of a data set in the cache, which may not exist yet."""
    return cache_folder() / "datasets" / str(id)


def is_cached(id: int) -> bool:
    """Return True if the rows of a data set are on this machine."""
    return find_cached(id) is not None


def announced_row_count(id: int) -> int | None:
    """Return the number of rows in the cached list of qualities of a data set, or None."""
    path = dataset_folder(id) / "qualities.xml"
    try:
        qualities = ElementTree.parse(path).getroot().iter(f"{_XML_NAMESPACE}quality")
        values = {node[0].text: node[1].text for node in qualities if len(node) > 1}
        return int(float(values.get("NumberOfInstances") or ""))
    except (FileNotFoundError, ElementTree.ParseError, ValueError):
        # The file is used for this number only, so damage to it is harmless.
        return None


def cached_size(id: int) -> int:
    """Return the size in bytes of the files of a data set in the cache.

    The data set may be incomplete, and its files may still be growing in the folder of a fetch.
    """
    folders = [dataset_folder(id), *(folder / "datasets" / str(id) for folder in FETCHES)]
    return sum(
        path.stat().st_size
        for folder in folders
        if folder.is_dir()
        for path in folder.iterdir()
        if path.is_file()
    )


def read_cached_frame(data: OpenmlData) -> pd.DataFrame:
    """Read all columns of a data set, including the target.

    A nominal column contains text categories. A missing value is NaN or None.
    """
    from pyarrow.parquet import ParquetFile

    from kdgraph.data.files.arff import frame_from_arff
    from kdgraph.data.files.arrow import frame_from_arrow

    try:
        if data.loader == "parquet":
            return frame_from_arrow(ParquetFile(data.file).read())
        with data.file.open(encoding="utf-8") as file:
            frame, nominal = frame_from_arff(file)
    # The errors of pyarrow and of liac-arff are ValueErrors.
    except (OSError, ValueError) as error:
        raise damaged_file_error(data.file, error) from error
    for name in nominal:
        frame[name] = frame[name].astype("category")
    return frame


def damaged_file_error(file: Path, cause: BaseException | str) -> DataError:
    """Return the error for a damaged file of the cache, with the command that replaces it."""
    reason = " ".join(str(cause).split())[:120]
    folder = file.parent
    # No command fetches a task alone: it is fetched together with the data set of a run.
    is_dataset = folder.parent.name == "datasets"
    command = (
        f"'kdg data get {folder.name}'" if is_dataset else "'kdg data get' and the words of the run"
    )
    return DataError(
        f"{file} is damaged ({reason}); delete {folder} and fetch it again with {command}"
    )


def _find_data_file(folder: Path, id: int) -> Path | None:
    names = [f"dataset_{id}.pq", "dataset.pq", "dataset.arff"]
    if os.environ.get("OPENML_SKIP_PARQUET", "").casefold() == "true":
        # The other format stays a fallback, so a file in the cache is not fetched again.
        names.reverse()
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _parse_xml(path: Path) -> ElementTree.Element:
    try:
        return ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise damaged_file_error(path, error) from error


def _child_text(node: ElementTree.Element, tag: str, default: str | None = None) -> str:
    """Return the text of a child element; raise a KeyError if it has neither text nor default."""
    text = node.findtext(f"{_XML_NAMESPACE}{tag}", default)
    if text is None:
        raise KeyError(tag)
    return text


CHECKSUM_FILE = "kdgraph.sha256"
"""Name of the file with the digest of the data when they were fetched.

It is in the folder of the data, in the format of ``sha256sum -c``.
"""


@dataclass(frozen=True)
class CacheCheck:
    """Result of the check of one data set in the cache.

    The name is empty if the description cannot be read, rows and columns are 0 if the table cannot,
    ``size`` is in bytes, and ``problem`` describes damage in one line.
    """

    id: int
    name: str
    rows: int
    columns: int
    size: int
    problem: str | None


def cached_ids() -> list[int]:
    """Return the numbers of all data sets in the cache, complete or not."""
    folder = cache_folder() / "datasets"
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(int(name) for name in names if name.isdigit())


def write_checksum(data: OpenmlData) -> None:
    """Write the digest of a fetched data set to a file in its folder.

    A cache without permission to write is left unchanged.
    """
    with contextlib.suppress(OSError):
        (data.folder / CHECKSUM_FILE).write_text(
            f"{_digest(data.file, 'sha256')}  {data.file.name}\n", encoding="utf-8"
        )


def check_cached(id: int) -> CacheCheck:
    """Read a whole data set in the cache and compare it with its metadata.

    The check compares the digest from when the data were fetched, OpenML's digest of an ARFF file,
    the number of columns in its list of features, and the number of rows in its list of qualities.
    Each comparison is made only if its metadata are in the cache.
    """
    name, rows, columns, problem = "", 0, 0, None
    try:
        data = find_cached(id)
        if data is None:
            raise damaged_file_error(
                dataset_folder(id) / "description.xml", "the description or the rows are not there"
            )
        name = data.name
        frame = read_cached_frame(data)
        rows, columns = frame.shape
        _check_against_metadata(data, rows, columns)
    except DataError as error:
        problem = str(error)
    return CacheCheck(id, name, rows, columns, cached_size(id), problem)


def check_file(data: OpenmlData) -> None:
    """Compare a data set in the cache with its metadata, as far as that takes no reading of rows.

    The end of a Parquet file has its counts.
    """
    from pyarrow import ArrowException
    from pyarrow.parquet import ParquetFile

    rows = columns = None
    if data.loader == "parquet":
        try:
            with ParquetFile(data.file) as file:
                rows, columns = file.metadata.num_rows, len(file.schema_arrow)
        except (OSError, ValueError, ArrowException) as error:
            raise damaged_file_error(data.file, error) from error
    _check_against_metadata(data, rows, columns)


def _check_against_metadata(data: OpenmlData, rows: int | None, columns: int | None) -> None:
    """Raise a DataError if a digest or a count differs from the metadata; None is not compared."""
    checksum_file = data.folder / CHECKSUM_FILE
    if checksum_file.is_file():
        # A digest of another file (Parquet instead of ARFF) does not apply.
        digest, *names = checksum_file.read_text(encoding="utf-8").split() or [""]
        if names == [data.file.name]:
            _check_equal(data.file, "SHA-256", _digest(data.file, "sha256"), digest)
    if data.loader == "arff" and data.md5:
        _check_equal(data.file, "MD5", _digest(data.file, "md5"), data.md5)
    if data.features and columns is not None:
        _check_equal(data.file, "number of columns", columns, len(data.features))
    if (n_rows := announced_row_count(data.id)) is not None and rows is not None:
        _check_equal(data.file, "number of rows", rows, n_rows)


def _check_equal(file: Path, quantity: str, actual: object, announced: object) -> None:
    if actual != announced:
        raise damaged_file_error(file, f"{quantity} {actual} where {announced} is announced")


def _digest(file: Path, kind: str) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, kind).hexdigest()
