"""What the OpenML cache on this machine holds, in the layout of openml-python, and how it is read.

It is read here, not by ``OpenMLDataset.get_data``: that leaves a pickle beside each file, which two
processes may write at once (of MNIST 55 MB beside 13 MB), and of the two kinds of files it gives
categories in two different orders.

Whether what the OpenML cache holds is whole: openml-python checks only ARFF files, and those only
while it fetches them.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from kdgraph.errors import DataError, NotAtHand

if TYPE_CHECKING:
    import pandas as pd


_XML_NAMESPACE = "{http://openml.org/openml}"


@dataclass(frozen=True)
class OpenmlData:
    """A data set in the cache; nothing of its rows is read yet.

    Attributes
    ----------
    id, name, version : of OpenML.
    target : its default target, or None.
    left_out : columns that are row ids or to be ignored.
    description : in the words of who uploaded it.
    md5 : of the ARFF file as OpenML announces it, or None.
    folder, file : where it is; the file is Parquet (.pq) or ARFF.
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
        """``parquet`` or ``arff``."""
        return "parquet" if self.file.suffix == ".pq" else "arff"

    @cached_property
    def features(self) -> dict[str, str]:
        """Kind of each column as OpenML describes it: nominal, numeric, string or date. Empty where
        only the data were fetched.
        """
        path = self.folder / "features.xml"
        found = _parse_xml(path).iter(f"{_XML_NAMESPACE}feature") if path.is_file() else ()
        try:
            return {_child_text(node, "name"): _child_text(node, "data_type") for node in found}
        except KeyError as error:
            raise damaged_file_error(path, f"a feature has no {error}") from error

    @property
    def facts(self) -> dict[str, Any]:
        """What a record says of where the rows come from."""
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
    """Where openml-python keeps what it fetched from the server that it is set to.

    As it says itself, but for ``OPENML_CACHE_DIR``, which it reads once and we read each time.
    """
    openml = import_openml()
    if chosen := os.environ.get("OPENML_CACHE_DIR"):
        openml.config.set_root_cache_directory(Path(chosen).expanduser())
    return Path(openml.config.get_cache_directory())


def import_openml() -> Any:
    """The package openml, which makes folders as soon as it is imported."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of what it imports itself
            import openml  # here, not above: it takes a second
    except OSError as error:
        where = "point XDG_CONFIG_HOME and OPENML_CACHE_DIR at folders that can be written to"
        raise NotAtHand(f"openml cannot make its folders ({error}); {where}") from error
    return openml


def find_cached(id: int) -> OpenmlData | None:
    """The data set if it is in the cache, else None.

    Raises
    ------
    DataError : if it is there and damaged.
    """
    folder = dataset_folder(id)
    file = _find_data_file(folder, id)
    if file is None or not (folder / "description.xml").is_file():
        return None
    root = _parse_xml(folder / "description.xml")
    target = _child_text(root, "default_target_attribute", "") or None
    left_out = [
        name
        for tag in ("row_id_attribute", "ignore_attribute")
        for name in _split_column_names(root.iter(f"{_XML_NAMESPACE}{tag}"))
    ]
    try:
        name, version = _child_text(root, "name"), int(_child_text(root, "version"))
    except (KeyError, ValueError) as error:
        raise damaged_file_error(
            folder / "description.xml", f"no name or no version: {error}"
        ) from error
    words, md5 = _child_text(root, "description", ""), _child_text(root, "md5_checksum", "") or None
    return OpenmlData(id, name, version, target, tuple(left_out), words, md5, folder, file)


def dataset_folder(id: int) -> Path:
    """Where the data set is, or would be."""
    return cache_folder() / "datasets" / str(id)


def is_cached(id: int) -> bool:
    """Whether the rows are on this machine."""
    return find_cached(id) is not None


def cached_size(id: int) -> int:
    """What the data set takes, whatever of it is there; it may be growing."""
    folder = dataset_folder(id)
    return (
        sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
        if folder.is_dir()
        else 0
    )


def read_cached_frame(data: OpenmlData) -> pd.DataFrame:
    """All columns, the target among them; a nominal column comes as text categories, a missing
    value as NaN or None.
    """
    from pyarrow.parquet import ParquetFile

    from kdgraph.data.files.tables import frame_from_arrow

    try:
        return (
            frame_from_arrow(ParquetFile(data.file).read())
            if data.loader == "parquet"
            else _read_arff(data)
        )
    except (OSError, ValueError) as error:  # pyarrow's and liac-arff's errors are ValueErrors
        raise damaged_file_error(data.file, error) from error


def damaged_file_error(file: Path, why: BaseException | str) -> DataError:
    """The error for a file of the cache that is not what it should be."""
    reason = " ".join(str(why).split())[:120]
    folder = file.parent
    # A task has no command of its own: it comes with the data set of a run.
    of_data_set = folder.parent.name == "datasets"
    command = (
        f"'kdg data get {folder.name}'"
        if of_data_set
        else "'kdg data get' and the words of the run"
    )
    return DataError(
        f"{file} is damaged ({reason}); delete {folder} and fetch it again with {command}"
    )


def _find_data_file(folder: Path, id: int) -> Path | None:
    names = [f"dataset_{id}.pq", "dataset.pq", "dataset.arff"]
    if os.environ.get("OPENML_SKIP_PARQUET", "").casefold() == "true":
        names.reverse()  # but what is here is not fetched again as another kind
    return next((folder / name for name in names if (folder / name).is_file()), None)


def _read_arff(data: OpenmlData) -> pd.DataFrame:
    from kdgraph.data.files.tables import frame_from_arff

    with data.file.open(encoding="utf-8") as file:
        frame, nominal = frame_from_arff(file)
    for name in nominal:
        frame[name] = frame[name].astype("category")
    return frame


def _parse_xml(path: Path) -> ElementTree.Element:
    try:
        return ElementTree.parse(path).getroot()
    except (ElementTree.ParseError, OSError) as error:
        raise damaged_file_error(path, error) from error


def _child_text(node: ElementTree.Element, tag: str, default: str | None = None) -> str:
    found = node.findtext(f"{_XML_NAMESPACE}{tag}", default)
    if found is None:
        raise KeyError(tag)
    return found


def _split_column_names(nodes: Iterable[ElementTree.Element]) -> list[str]:
    """Names of columns, which OpenML writes in several elements, or in one with commas."""
    return [name.strip() for node in nodes for name in (node.text or "").split(",") if name.strip()]


CHECKSUM_FILE = "kdgraph.sha256"
"""A file beside the data with the digest that they had when they were fetched, as ``sha256sum -c``
reads it.
"""


@dataclass(frozen=True)
class CacheCheck:
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
    return (
        sorted(int(path.name) for path in folder.iterdir() if path.name.isdigit())
        if folder.is_dir()
        else []
    )


def write_checksum(data: OpenmlData) -> None:
    """Write down the digest of what was fetched; a cache that cannot be written to does without."""
    with contextlib.suppress(OSError):
        (data.folder / CHECKSUM_FILE).write_text(
            f"{_digest(data.file, 'sha256')}  {data.file.name}\n", encoding="utf-8"
        )


def check_cached(id: int) -> CacheCheck:
    """Read all of a data set that is in the cache, and compare it with what is said of it.

    Compared are the digest from when it was fetched, OpenML's own digest of an ARFF file, the
    number of columns in its list of features, and the number of rows in its list of qualities, each
    where it is there.
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


def _check_against_metadata(data: OpenmlData, rows: int, columns: int) -> None:
    noted = data.folder / CHECKSUM_FILE
    if noted.is_file() and (digest := noted.read_text(encoding="utf-8").split())[1:] == [
        data.file.name
    ]:
        _check_equal(data.file, "SHA-256", _digest(data.file, "sha256"), digest[0])
    if data.loader == "arff" and data.md5:
        _check_equal(data.file, "MD5", _digest(data.file, "md5"), data.md5)
    if data.features:
        _check_equal(data.file, "number of columns", columns, len(data.features))
    if (told := _announced_row_count(data.folder / "qualities.xml")) is not None:
        _check_equal(data.file, "number of rows", rows, told)


def _check_equal(file: Path, what: str, found: object, told: object) -> None:
    if found != told:
        raise damaged_file_error(file, f"{what} {found} where {told} is announced")


def _digest(file: Path, kind: str) -> str:
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, kind).hexdigest()


def _announced_row_count(path: Path) -> int | None:
    if not path.is_file():
        return None
    try:
        qualities = ElementTree.parse(path).getroot().iter("{http://openml.org/openml}quality")
        values = {node[0].text: node[1].text for node in qualities if len(node) > 1}
        return int(float(values.get("NumberOfInstances") or ""))
    except (ElementTree.ParseError, ValueError):
        return None  # nothing is read from this file but that
