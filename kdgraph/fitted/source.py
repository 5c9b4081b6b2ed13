"""External models, where they come from, and checks that all formats share.

An :class:`ExternalModel` is a function from rows to outputs with what is known about both, and a
:class:`ModelSource` the file or function that it is read from. Original to kdgraph.
"""

from __future__ import annotations

import hashlib
import importlib.util
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import numpy as np

from kdgraph.errors import DataError
from kdgraph.extras import needs_library
from kdgraph.fitted.columns import ANY_COLUMNS, ColumnError, ModelColumns
from kdgraph.geometry import PartitionKind, partition_kind
from kdgraph.parameters import Unseen
from kdgraph.persistence.zip_members import MAX_BYTES, ZipMembers
from kdgraph.wording import first_line

FittedTask = Literal["classification", "regression"]
OutputKind = Literal["probabilities", "logits", "values"]
"""Kind of a model's outputs; "values" are those of a regressor."""
MODEL_IMPORT_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")
"""An import path ``package.module:name``."""

SEVERAL_OUTCOMES = (
    "predicts several outcomes of a row; save a model of one outcome, or of its quantiles"
)
_TRUST = "if you know and trust its origin, give {key}trust=true"


@dataclass(frozen=True)
class ExternalModel:
    """Model of another library as a function of rows.

    Attributes
    ----------
    kind : str
        Name of the format, for messages and records.
    predict : callable
        Function from a data frame, or an array Float[n, d], to outputs: Float[n, K] or Float[n] of
        a classifier, Float[n] of a regressor.
    outputs : {"probabilities", "logits", "values"}
        Kind of the outputs, "values" of a regressor. One column of probabilities or logits is that
        of the second of two classes.
    classes : tuple or None, default=None
        Labels of the columns of the outputs, where the file has them.
    columns : ModelColumns, default=ANY_COLUMNS
        Columns that the model takes.
    estimator : object or None, default=None
        Estimator of the library, whose partition may be readable.
    network : object or None, default=None
        The torch module, where it consists of layers.
    distribution : callable or None, default=None
        Function from rows to the predictions of a probabilistic regressor.
    labels : callable or None, default=None
        Function from rows to the labels that the model itself predicts, where they may be others
        than those of the largest probability.
    """

    kind: str
    predict: Callable[[Any], np.ndarray]
    outputs: OutputKind
    classes: tuple[Any, ...] | None = None
    columns: ModelColumns = ANY_COLUMNS
    estimator: Any = None
    network: Any = None
    distribution: Callable[[Any], Any] | None = None
    labels: Callable[[Any], np.ndarray] | None = None

    @property
    def is_classifier(self) -> bool:
        """True if the model predicts probabilities or logits of classes."""
        return self.outputs != "values"

    @property
    def own_partition(self) -> PartitionKind | None:
        """Kind of the partition that kdgraph reads from the model itself, or None."""
        if self.network is not None and self.is_classifier:
            return "network"
        return partition_kind(self.estimator)


@dataclass(frozen=True)
class ModelSource:
    """File or function of a model, and how the user wants it to be read.

    Attributes
    ----------
    path : str
        Path of the file, or import path of a function.
    trust : bool, default=False
        True reads formats that can run code.
    factory : str or None, default=None
        Import path of the function without arguments that makes the torch module.
    task : {"classification", "regression"} or None, default=None
        Task of a model whose file leaves it open.
    outputs : {"probabilities", "logits"} or None, default=None
        Kind of the outputs of a model whose file leaves it open.
    output : str or None, default=None
        Name of the output of an ONNX model.
    unseen : {"refuse", "missing"}, default="refuse"
        Treatment of a category that the model does not know, where it refuses such rows.
    key : str, default=""
        Prefix of parameters in messages: ``parent.`` in a run.
    """

    path: str
    trust: bool = False
    factory: str | None = None
    task: FittedTask | None = None
    outputs: Literal["probabilities", "logits"] | None = None
    output: str | None = None
    unseen: Unseen = "refuse"
    key: str = ""

    def error(self, problem: str) -> DataError:
        """Return an error of one line that begins with the path of the model."""
        line = problem.strip().split("\n")[0]
        # Libraries quote the content of the file, which may move the cursor of a terminal.
        shown = "".join(sign if sign.isprintable() else "?" for sign in line)
        return DataError(f"{self.key}path={self.path}: {shown}")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Make errors about the columns of the model begin with its path."""
        try:
            yield
        except ColumnError as error:
            raise self.error(error.text(self.key)) from error
        except DataError as error:
            raise self.error(str(error)) from error

    @contextmanager
    def reading(self, problem: str) -> Iterator[None]:
        """Make errors of any type begin with the path and a problem, such as a damaged file."""
        try:
            yield
        except Exception as error:  # any: libraries document no type of these errors
            raise self.error(f"{problem} ({first_line(error)})") from error

    @contextmanager
    def importing(self, library: str) -> Iterator[None]:
        """Make errors of an import name the command that installs the library."""
        try:
            yield
        except ImportError as error:
            raise self.error(needs_library("", library)) from error

    def untrusted(self, problem: str) -> DataError:
        """Return the error for a file that can run code when it is read."""
        return self.error(f"{problem}; {_TRUST.format(key=self.key)}")


ModelReader = Callable[[ModelSource, bytes], ExternalModel]
"""Function that returns the model of a file, from its source and its content.

It raises DataError if the library of the format is not installed, the file is damaged, can run code
and is not trusted, or its model predicts neither classes nor numbers.
"""


def names_function(path: str) -> bool:
    """Return whether a path names a Python function, ``package.module:name``, and no file."""
    return MODEL_IMPORT_PATH.fullmatch(path) is not None and not Path(path).exists()


def source_files(path: Path) -> list[Path]:
    """Return the file that a path names: a model, or the module of an import path."""
    if not names_function(str(path)):
        return [path]
    try:
        spec = importlib.util.find_spec(str(path).partition(":")[0])
    except (ImportError, ValueError):
        return []
    return [Path(spec.origin)] if spec is not None and spec.origin is not None else []


def import_object(source: ModelSource, name: str) -> Any:
    """Return the object of an import path ``package.module:name``.

    Raises
    ------
    DataError
        If the path is malformed, or the module or name does not exist.
    """
    if not MODEL_IMPORT_PATH.fullmatch(name):
        raise source.error(f"an import path must read package.module:name, got {name!r}")
    module, _, attribute = name.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise source.error(
            f"cannot import {name!r} ({error}); its module must be on PYTHONPATH"
        ) from error


def read_content(source: ModelSource) -> bytes:
    """Return the content of the file, nothing for an import path.

    Raises
    ------
    DataError
        If the file does not exist, cannot be read or has more than 4 GiB.
    """
    if names_function(source.path):
        return b""
    path = Path(source.path).expanduser()
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise source.error(f"has {size / 1024**3:.1f} GiB, and 4 GiB are the most")
        return path.read_bytes()
    except OSError as error:
        raise source.error(
            f"cannot be read ({error.strerror or error}); it is a file relative to the working"
            " directory, or the import path package.module:function of a function"
        ) from error


def content_digest(source: ModelSource, content: bytes) -> str:
    """Return the SHA-256 of the content of a file, or of the module of an import path."""
    if names_function(source.path):
        for module in source_files(Path(source.path)):
            content = module.read_bytes()
    return hashlib.sha256(content).hexdigest()


def check_archive(source: ModelSource, content: bytes) -> list[str]:
    """Return the names of a zip archive's members, which stay below it and are of bounded size.

    Raises
    ------
    DataError
        If the archive is damaged, names a file outside of itself or one member twice, or expands to
        more than 100 times its size.
    """
    try:
        return list(ZipMembers(content))
    except ValueError as error:
        raise source.error(str(error)) from error
