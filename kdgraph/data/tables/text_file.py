"""Texts of the user's own, as vectors of their words: ``dataset=text dataset.path=reviews.csv``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from kdgraph.data.dataset import Dataset
from kdgraph.data.files.delimited import Format
from kdgraph.data.files.encodings import codec_of, unmarked_codec
from kdgraph.data.files.paths import existing, file_stem, itself, said, sha256_of
from kdgraph.data.frames.cautions import warn_of_copies
from kdgraph.data.frames.wording import no_such_column
from kdgraph.data.tables.words import HashCount, hash_names, rows_of_texts, text_of_columns
from kdgraph.errors import DataError
from kdgraph.parameters import check_parameters

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = (".csv", ".tsv", ".parquet", ".pq")


def files_of(path: Path) -> list[Path]:
    """The files of texts: one, or those in the subfolders of a folder, in the order of their names; what begins with a dot is left out."""
    if not path.is_dir():
        return [path]
    folders = sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    return [file for folder in folders for file in sorted(folder.iterdir()) if file.is_file() and not file.name.startswith(".")]


class TextFile:
    """Texts with labels: a csv, tsv or parquet file, or a folder with one subfolder of files for each class.

    Parameters
    ----------
    path : the file or folder, relative to the working directory.
    text, target : columns of the texts and of the labels; of a folder neither is used. Texts of several columns are put together.
    n_features : columns that words are hashed into.
    vectors : a file of word vectors, such as GloVe's: a row is then the mean of those of its words; see
        :func:`~kdgraph.data.tables.words.mean_vectors`. None: words are hashed.
    keep : labels of the texts to keep, or patterns of them ("comp.*"); none: all of them.
    posts : whether texts are posts of newsgroups, of which header, quotes and signature are removed.
    encoding, separator : see :class:`kdgraph.data.tables.table_file.TableFile`.
    name : what runs are called; None: the file's or folder's name.

    Notes
    -----
    Words are lower-case runs of two or more letters or digits; a row is how often each column's words are in the text, with sign, divided
    by its L2 norm (``HashingVectorizer``). A text without words is a row of zeros.
    """

    reads: ClassVar = {"path": files_of, "vectors": itself}

    def __init__(
        self,
        path: str,
        text: str | Sequence[str] = "text",
        target: str = "label",
        n_features: HashCount = 512,
        vectors: str | None = None,
        keep: Sequence[str] = (),
        posts: bool = False,
        encoding: str = "utf-8",
        separator: str | None = None,
        name: str | None = None,
    ) -> None:
        self.path = path
        self.text = text
        self.target = target
        self.n_features = n_features
        self.vectors = vectors
        self.keep = keep
        self.posts = posts
        self.encoding = encoding
        self.separator = separator
        self.name = file_stem(path, "text") if name is None else name
        check_parameters(self)
        self._form()  # a wrong name is refused before any run starts

    def prefetch(self, progress: Callable[[str], None] | None = None) -> None:
        """Raise before any run starts if the file or folder is not there, or that of the word vectors."""
        existing(self.path)
        if self.vectors is not None:
            existing(self.vectors, "vectors")

    def load(self) -> Dataset:
        """All texts as Float64[n, n_features], or as many columns as a word vector has.

        Raises
        ------
        DataError
            In one line, if the file is not there or cannot be read, or labels are missing or only one.
        """
        from kdgraph.data.frames.targets import encode_target

        path = existing(self.path)
        texts, labels, facts = _folder(path, self.encoding) if path.is_dir() else self._columns(path)
        texts, labels, source_rows = self._kept(texts, labels)
        y, classes, _ = encode_target(self.name, labels, "classification")
        X = rows_of_texts(texts, self.n_features, self.vectors, posts=self.posts)
        warn_of_copies(self.name, X)
        facts = {"source": "file", "path": self.path, "texts": len(texts), **facts}
        names = hash_names(self.n_features)
        if self.vectors is not None:
            names = tuple(f"vector_{i}" for i in range(X.shape[1]))
            facts |= {"vectors": self.vectors, "vectors_sha256": sha256_of(existing(self.vectors, "vectors"))}
        return Dataset(self.name, X, y, classes, names, facts=facts, source_rows=source_rows)

    def _form(self) -> Format:
        return Format(self.encoding, self.separator)

    def _kept(self, texts: list[str], labels: pd.Series) -> tuple[list[str], pd.Series, np.ndarray]:
        """Texts and labels of the classes to keep, and their row numbers in the source, Int[n]."""
        if not self.keep:
            return texts, labels, np.arange(len(texts))
        there = sorted(set(labels.dropna().astype(str)))
        for pattern in self.keep:
            if not any(fnmatchcase(label, pattern) for label in there):
                shown = f"{', '.join(there[:8])}{', …' if len(there) > 8 else ''}"
                raise DataError(f"dataset.keep: {said(self.path)} has no label '{pattern}'; it has {shown}")
        keep = labels.astype(str).map(lambda label: any(fnmatchcase(label, pattern) for pattern in self.keep)).to_numpy(bool)
        rows = np.flatnonzero(keep)
        return [texts[row] for row in rows], labels.iloc[rows].reset_index(drop=True), rows

    def _columns(self, path: Path) -> tuple[list[str], pd.Series, dict[str, str]]:
        from kdgraph.data.files.paths import suffix_of
        from kdgraph.data.files.readers import read_table

        suffix_of(path, SUFFIXES)
        frame = read_table(path, self._form()).frame
        columns = [self.text] if isinstance(self.text, str) else list(self.text)
        for key, column in [*(("text", column) for column in columns), ("target", self.target)]:
            if column not in frame.columns:
                raise no_such_column(said(self.path), key, column, [str(name) for name in frame.columns])
        if not len(frame):
            raise DataError(f"{said(self.path)} has columns and no rows")
        return text_of_columns(frame[columns]), frame[self.target], {"sha256": sha256_of(path)}


def _folder(path: Path, encoding: str) -> tuple[list[str], pd.Series, dict[str, str]]:
    """Texts and labels of a folder of folders."""
    import pandas as pd

    if not (files := files_of(path)):
        raise DataError(
            f"{said(path)} is a folder without subfolders of texts; it needs one for each class, such as {path.name}/spam/1.txt"
        )
    texts = [_text(file, encoding) for file in files]
    return texts, pd.Series([file.parent.name for file in files], name="folder"), {}


def _text(file: Path, encoding: str) -> str:
    try:
        with file.open("rb") as opened:
            codec = unmarked_codec(str(file), opened.read(4), codec_of(encoding))
        return file.read_text(encoding=codec)
    except UnicodeDecodeError as error:
        where = f"byte {error.start:,} (0x{error.object[error.start]:02x})"
        way_out = "; it may be dataset.encoding=latin-1" if codec_of(encoding).startswith("utf-8") else ""
        raise DataError(f"{file} is not text in {encoding}: {where} cannot be decoded{way_out}") from error
    except UnicodeError as error:
        raise DataError(f"{file} is not text in {encoding}: {error}") from error
    except OSError as error:
        raise DataError(f"{file} cannot be read: {error}") from error
