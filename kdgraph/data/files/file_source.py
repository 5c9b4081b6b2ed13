"""Base classes of data sets in a file of the user."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kdgraph.data.files.paths import file_stem, path_argument, resolve_existing, sha256_of
from kdgraph.data.source import Source
from kdgraph.data.text_format import TextFormat

if TYPE_CHECKING:
    DerivedName = Any
else:
    DerivedName = str | None
"""Name that a source derives from others of its parameters where it is None."""


@dataclass(eq=False, repr=False)
class FileSource(Source):
    """Data set in a file of the user.

    Parameters
    ----------
    path : str
        The file, relative to the working directory.
    name : str or None, default=None
        Name of the runs. None uses the name of the file without its ending.
    """

    path: str
    name: DerivedName = field(default=None, kw_only=True)

    nameless: ClassVar[str] = "table"
    """Name of a file whose path has none."""

    def __post_init__(self) -> None:
        if self.name is None:
            self.name = file_stem(self.path, self.nameless)
        super().__post_init__()

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise an error before any run starts if the file does not exist."""
        self._existing_path()

    @property
    def _argument(self) -> str:
        """The argument that names the file, for messages."""
        return path_argument(self.path)

    def _existing_path(self) -> Path:
        return resolve_existing(self.path)

    def _file_facts(self, path: Path) -> dict[str, Any]:
        """Return the origin of the rows for the record of a run."""
        return {"source": "file", "path": self.path, "sha256": sha256_of(path)}


@dataclass(eq=False, repr=False)
class TextSource(FileSource):
    r"""Data set in a file that may be text.

    Parameters
    ----------
    encoding : str, default="utf-8"
        Encoding of the text, by any name that Python has for it. latin-1 decodes all files, but
        often to wrong characters.
    separator : str or None, default=None
        Separator between cells: one character, ``tab``, or ``\s+`` for white space. With None it is
        the one that Excel's first line ``sep=;`` names, else a comma, or a tab in tsv files.
    """

    encoding: str = field(default="utf-8", kw_only=True)
    separator: str | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        # An invalid encoding or separator raises an error before any run starts.
        self._text_format()

    def _text_format(self) -> TextFormat:
        return TextFormat(self.encoding, self.separator)
